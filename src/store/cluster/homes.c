/* store/cluster/homes.c — nodes that come and go.
 *
 * A server that serves nothing any more (its slots were moved, or a replica has
 * taken its place) keeps its node until the node owns no request. Then its
 * connections are closed, and both serve the next home that needs a node. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/cluster/cluster_i.h"

static void homes_prepare(struct snib__cluster *q, struct node *n)
{
    snib__list_init(&n->chain);
    snib__list_init(&n->out.answered);
    snib__list_init(&n->out.exec);
    snib__conns_init(&n->out, q->out->limit);
    n->out.outer = q->out;
    n->out.log = q->out->log;
    n->out.log_data = q->out->log_data;
    n->ready = true;
}

/* "HOST:PORT" or "[V6]:PORT" as a URL has it. */
static void homes_split(char *address, struct snib__url *url)
{
    char *colon = strrchr(address, ':');
    url->port = colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
    if (colon) {
        *colon = 0;
    }
    url->host = address;
    size_t n = strlen(address);
    if (n > 2 && address[0] == '[' && address[n - 1] == ']') {
        address[n - 1] = 0;
        url->host = address + 1;
    }
}

struct node *snib__home_node(struct snib__cluster *q, uint32_t home,
                             snib_err *ret_err, struct snib_error *reterr)
{
    struct node *n = &q->node[home];
    struct snib__store_config one = q->cfg;
    struct snib__url url = q->url;
    char address[SNIB__HOME_ADDRESS];
    *ret_err = SNIB_ERR_OK;
    n->leaving = false;
    if (n->store) {
        return n;
    }
    if (!n->ready) {
        homes_prepare(q, n);
    }
    snprintf(address, sizeof address, "%s", q->slots->home[home].address);
    homes_split(address, &url);
    one.url = &url;
    one.out = &n->out;
    one.home = home;
    for (int i = 0; i < 4; i++) {
        one.seed.v[i] = snib__rng_next(&q->rng);
    }
    *ret_err = snib__node_ops()->open(&one, &n->store, reterr);
    q->slots->home[home].used = true;
    for (uint32_t i = 0; i < n->out.conns; i++) {
        q->node_of[n->out.conn[i]->index] = (uint8_t)home;
    }
    n->hopeless = false;
    n->held_until = n->asked_until = (snib_instant){0};
    return *ret_err ? NULL : n;
}

bool snib__home_is_needed(const struct snib__cluster *q, snib_instant now,
                          uint32_t home)
{
    const struct node *n = &q->node[home];
    return n->due || (q->out->holds && !snib__reached(now, n->held_until));
}

bool snib__home_in_trouble(const struct snib__cluster *q, snib_instant now,
                           uint32_t home)
{
    const struct node *n = &q->node[home];
    const char *text;
    bool barred;
    return n->store && snib__home_is_needed(q, now, home) &&
           snib__node_trouble(n->store, &barred, &text) != SNIB_ERR_OK;
}

static void homes_leave(struct node *n, snib_instant now)
{
    n->leaving = true;
    snib__node_leave(n->store, now);
    if (snib__node_has_left(n->store)) {
        snib__node_ops()->free(n->store);
        n->store = NULL;
        n->leaving = false;
    }
}

/* Nobody is being sent anywhere just now. */
void snib__homes_retire(struct snib__cluster *q, snib_instant now)
{
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        struct node *n = &q->node[k];
        if (!q->slots->heard || q->slots->home[k].slots) {
            continue;
        }
        if (n->store && !n->due && (int)k != q->asked &&
            snib__reached(now, n->asked_until)) {
            homes_leave(n, now);
        }
        if (!n->store && !snib__look_has(q, k)) {
            q->slots->home[k].used = false;
            snib__slots_forget(q->slots, k);
        }
    }
}

void snib__homes_free(struct snib__cluster *q)
{
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        if (q->node[k].store) {
            snib__node_ops()->free(q->node[k].store);
        }
        if (q->node[k].ready) {
            snib__conns_free(&q->node[k].out);
        }
    }
}

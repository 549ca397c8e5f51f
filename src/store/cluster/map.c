/* store/cluster/map.c — when the map is asked for, and of whom.
 *
 * It is asked for while a request waits here, while a node that has requests or
 * grants cannot be reached, and when a server has said that a slot is elsewhere.
 * Then homes are asked one after another, those first that answer already; one
 * that does not answer soon is passed over. Every connection that is made brings
 * a map as well (store/redis/session.c).
 *
 * When all were asked in vain, those are told that were to wait for no more than
 * one attempt, and all callers if each of the servers refuses us for good. */
#include <stdio.h>
#include <string.h>

#include "store/cluster/cluster_i.h"

static bool map_is_candidate(const struct snib__cluster *q, uint32_t k)
{
    const struct snib__home *h = &q->slots->home[k];
    return h->address[0] && (h->slots || h->seed);
}

static uint32_t map_candidates(const struct snib__cluster *q)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        n += map_is_candidate(q, k);
    }
    return n;
}

static bool map_is_wanted(const struct snib__cluster *q, snib_instant now)
{
    bool wanted = !snib__list_empty(&q->waiting) ||
                  (q->slots->stale && (q->requests || q->out->holds));
    for (uint32_t k = 0; k < NODES_MAX && !wanted; k++) {
        wanted = snib__home_in_trouble(q, now, k);
    }
    return wanted;
}

static snib_duration map_patience(const struct snib__cluster *q)
{
    int64_t ms = snib__to_ms(q->cfg.request) / ASK_PART;
    ms = ms < ASK_LEAST_MS ? ASK_LEAST_MS : ms;
    return snib__ms(ms > ASK_MOST_MS ? ASK_MOST_MS : ms);
}

/* -- a home that did not tell it --------------------------------------------- */

/* The most telling reason stays: what a person has to repair comes before what
 * may pass. */
static void map_note(struct snib__cluster *q, uint32_t home)
{
    const char *text;
    bool barred;
    const struct node *n = &q->node[home];
    const char *address = q->slots->home[home].address;
    snib_err err = snib__node_trouble(n->store, &barred, &text);
    if (!err || (q->barred && !barred)) {
        return;
    }
    q->err = err;
    q->barred = barred;
    snprintf(q->text, sizeof q->text, "%.*s%s%s",
             strstr(text, address) ? 0 : 100, address,
             strstr(text, address) ? "" : ": ", text);
}

static bool map_all(const struct snib__cluster *q, bool barred)
{
    bool all = true;
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        const struct node *n = &q->node[k];
        const char *text;
        bool is = false;
        if (map_is_candidate(q, k)) {
            snib_err err = n->store ? snib__node_trouble(n->store, &is, &text)
                                    : SNIB_ERR_OK;
            all = all && err && (barred ? is : n->hopeless);
        }
    }
    return all;
}

static void map_in_vain(struct snib__cluster *q, snib_instant now)
{
    if (!q->vain) { /* a round begins */
        q->err = SNIB_ERR_OK;
        q->barred = false;
    }
    if (q->node[q->asked].store) {
        map_note(q, (uint32_t)q->asked);
    }
    q->asked = -1;
    q->ask_at = now;
    if (++q->vain >= map_candidates(q)) {
        bool all = map_all(q, true) || (map_all(q, false) && !q->slots->heard);
        q->vain = 0;
        q->ask_at = snib__after(now, map_patience(q));
        snib__wait_fail(q, all);
    }
}

/* -- asking ------------------------------------------------------------------ */

/* Is its connection up, and no answer overdue? */
static bool map_answers(const struct node *n)
{
    const char *text;
    bool barred;
    return n->store && snib__node_answers(n->store) &&
           !snib__node_trouble(n->store, &barred, &text);
}

/* The next one from q->next on. answering: one that answers already. */
static int map_next(const struct snib__cluster *q, bool answering)
{
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        uint32_t k = (q->next + i) % NODES_MAX;
        const struct node *n = &q->node[k];
        if (map_is_candidate(q, k) && (!answering || map_answers(n))) {
            return (int)k;
        }
    }
    return -1;
}

static void map_ask(struct snib__cluster *q, snib_instant now)
{
    int k = map_next(q, true);
    snib_err err;
    k = k >= 0 ? k : map_next(q, false);
    q->ask_at = snib__after(now, map_patience(q));
    struct node *n =
        k >= 0 ? snib__home_node(q, (uint32_t)k, &err, NULL) : NULL;
    if (n) {
        q->asked = k;
        q->next = (uint32_t)k + 1;
        n->failures = snib__node_failures(n->store);
        snib__node_look(n->store, now);
    }
    for (uint32_t i = 0; i < NODES_MAX; i++) {
        if ((int)i != k && snib__home_in_trouble(q, now, i)) {
            snib__node_look(q->node[i].store, now); /* is it back? */
        }
    }
}

static void map_heard(struct snib__cluster *q, snib_instant now)
{
    q->heard = q->slots->heard;
    q->vain = 0;
    q->asked = -1;
    q->err = SNIB_ERR_OK;
    q->barred = false;
    q->text[0] = 0;
    snib__route_all(q, now);
}

static void map_moved(struct snib__cluster *q)
{
    q->slots->moved = false;
    q->out->moved = q->out->moved || q->out->holds;
    q->out->changed = q->out->changed || q->cfg.watch;
    if (q->out->log) {
        q->out->log(q->out->log_data, SNIB_LOG_INFO,
                    "cluster: a server that served no slot has taken some");
    }
}

void snib__map_settle(struct snib__cluster *q, snib_instant now)
{
    if (q->slots->moved) {
        map_moved(q);
    }
    if (q->heard != q->slots->heard) {
        map_heard(q, now);
    }
    if (q->asked >= 0) {
        const struct node *n = &q->node[q->asked];
        if (!n->store || n->failures != snib__node_failures(n->store) ||
            snib__reached(now, q->ask_at)) {
            map_in_vain(q, now);
        }
    }
    bool wanted = map_is_wanted(q, now);
    if (q->asked < 0 && snib__reached(now, q->ask_at) && wanted) {
        map_ask(q, now);
    }
    q->map_due = q->asked >= 0 || wanted ? q->ask_at : SNIB__NEVER;
}

/* store/cluster/state.c — how the nodes are, as one store.
 *
 * Those count that serve slots. One that was never asked for anything says
 * nothing; one that cannot be reached makes the store unreachable if something is
 * asked of it or held there. The text names that one. It does not say how many
 * others can be reached, since those that were not asked may be or not. */
#include <stdio.h>
#include <string.h>

#include "store/cluster/cluster_i.h"

static void state_of(const struct snib__cluster *q, snib_instant now,
                     uint32_t home, struct snib__store_state *ret)
{
    *ret = (struct snib__store_state){.nodes = 1};
    if (q->node[home].store) {
        snib__node_ops()->state(q->node[home].store, now, ret);
    }
}

static void state_text(struct snib__store_state *ret, const char *address,
                       const struct snib__store_state *bad)
{
    snprintf(ret->text, sizeof ret->text, "%.80s: %.160s", address, bad->text);
}

void snib__cluster_state(const struct snib__store *store, snib_instant now,
                         struct snib__store_state *ret)
{
    const struct snib__cluster *q = (const void *)store;
    const char *address = NULL;
    bool needed = false; /* is the one at `address`? */
    struct snib__store_state one, bad = {0};
    ret->nodes = ret->nodes_reachable = 0;
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        const struct snib__home *h = &q->slots->home[k];
        if (!h->slots && (q->slots->heard || !h->seed)) {
            continue;
        }
        state_of(q, now, k, &one);
        ret->nodes++;
        if (one.reachable) {
            ret->nodes_reachable++;
            ret->since = snib__later(ret->since, one.since);
        } else if (one.err && !needed) {
            bool is = snib__home_is_needed(q, now, k);
            bad = is || !address ? one : bad;
            address = is || !address ? h->address : address;
            needed = is;
        }
    }
    ret->reachable = ret->nodes_reachable && !needed;
    if (address && !ret->reachable) {
        ret->err = bad.err;
        ret->since = bad.since;
        state_text(ret, address, &bad);
    } else if (!ret->reachable) {
        snprintf(ret->text, sizeof ret->text, "%s",
                 q->text[0] ? q->text : "no answer yet");
        ret->err = q->text[0] && !q->err ? SNIB_ERR_UNREACHABLE : q->err;
    }
}

bool snib__cluster_server(const struct snib__store *store, snib_instant now,
                          uint32_t node, struct snib__server *ret)
{
    const struct snib__cluster *q = (const void *)store;
    uint32_t k = 0;
    if (!node) {
        snib__cluster_state(store, now, &ret->state);
        return true;
    }
    for (; k < NODES_MAX; k++) {
        if (q->slots->home[k].slots && !--node) {
            break;
        }
    }
    if (k == NODES_MAX) {
        return false;
    }
    if (q->node[k].store) {
        return snib__node_ops()->server(q->node[k].store, now, 0, ret);
    }
    ret->state.nodes = 1;
    snprintf(ret->state.text, sizeof ret->state.text, "not asked yet");
    memcpy(ret->address, q->slots->home[k].address, sizeof ret->address);
    return true;
}

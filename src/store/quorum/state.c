/* store/quorum/state.c — how the nodes are, as one store. */
#include <stdio.h>
#include <stdlib.h>

#include "store/quorum/quorum_i.h"

static int state_by_instant(const void *a, const void *b)
{
    int64_t x = ((const snib_instant *)a)->ns,
            y = ((const snib_instant *)b)->ns;
    return (x > y) - (x < y);
}

/* Does a node that is well have work behind it: is it being told of an end that
 * a majority has confirmed, or has it yet to answer an acquire that the others
 * have won? With its vote that grant outlives the loss of one of the others. */
static bool state_is_behind(const struct snib__quorum *q, uint32_t failing)
{
    for (uint32_t i = 0; q->tasks > 0 && i < BUCKETS; i++) {
        SNIB__LIST_EACH (l, &q->bucket[i]) {
            const struct task *task = SNIB__CONTAINER(l, struct task, link);
            bool told =
                task->is_sweep || (task->stage == ST_AFTER && task->round);
            for (uint32_t k = 0; k < q->count && told; k++) {
                if (task->part[k].doing != DO_NOTHING && !(failing >> k & 1)) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* The store is reachable while a majority of the nodes is. `since` is the
 * instant from which it was reachable (or was not). The text is that of one
 * server that is not reachable. */
void snib__quorum_state(const struct snib__store *store, snib_instant now,
                        struct snib__store_state *ret)
{
    const struct snib__quorum *q = (const void *)store;
    snib_instant good[NODES_MAX], bad[NODES_MAX];
    uint32_t goods = 0, bads = 0, failing = 0;
    struct snib__store_state one, bad_one = {0};
    const char *bad_address = NULL;
    for (uint32_t k = 0; k < q->count; k++) {
        const struct node *n = &q->node[k];
        one = (struct snib__store_state){.reachable = true};
        q->kind->ops->state(n->store, now, &one);
        failing |= (uint32_t)(n->failing || one.err) << k;
        if (one.reachable) {
            good[goods++] = one.since;
        } else if (one.err) {
            bad[bads++] = one.since;
            ret->err = ret->err ? ret->err : one.err;
            bad_address = n->out.conn[0]->address;
            bad_one = one;
        }
    }
    ret->behind = state_is_behind(q, failing);
    ret->nodes = q->count;
    ret->nodes_reachable = goods;
    ret->reachable = goods >= q->majority;
    uint32_t enough = q->count - q->majority; /* so many may be missing */
    if (ret->reachable) {
        qsort(good, goods, sizeof *good, state_by_instant);
        ret->since = good[q->majority - 1];
        ret->err = SNIB_ERR_OK;
    } else if (bads > enough) {
        qsort(bad, bads, sizeof *bad, state_by_instant);
        ret->since = bad[enough];
    } else {
        ret->err = SNIB_ERR_OK;
        snprintf(ret->text, sizeof ret->text, "no answer yet");
        return;
    }
    if (bad_address) {
        snprintf(ret->text, sizeof ret->text,
                 "%u of %u servers reachable, %u needed", goods, q->count,
                 q->majority);
        snib__node_why(ret->text, sizeof ret->text, bad_address, bad_one.text);
    }
}

bool snib__quorum_server(const struct snib__store *store, snib_instant now,
                         uint32_t node, struct snib__server *ret)
{
    const struct snib__quorum *q = (const void *)store;
    if (!node) {
        snib__quorum_state(store, now, &ret->state);
        return true;
    }
    return node <= q->count && q->kind->ops->server &&
           q->kind->ops->server(q->node[node - 1].store, now, 0, ret);
}

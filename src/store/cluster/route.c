/* store/cluster/route.c — where a request goes.
 *
 *   start --home known--> its node --answered--> told
 *     |                    |  ^
 *     |    MOVED, ASK: the |  | named home, at once
 *     |                    v  |
 *     +--no home------> waiting --a new map--> its node
 *                          ^
 *      node unreachable: --+  once, since another may have taken its place
 *
 * A server refuses what it does not serve before it does anything, so a request
 * that is sent on keeps its id and was applied nowhere. A waiter loses its
 * connection's place, not the one in the queue: that stands at its lock, and
 * moves with the slot. A CANCEL goes to the node that still owns the ACQUIRE of
 * its id, whoever serves the slot by now: that one ends it, and if the server
 * refuses the CANCEL, it is sent on like any other. */
#include "base/error.h"
#include "store/cluster/cluster_i.h"

static bool route_is_look(const struct snib__request *rq)
{
    return rq->verb == SNIB__LIST || rq->verb == SNIB__DOCTOR;
}

static bool route_is_id(const struct snib__request *rq, const uint64_t id[2])
{
    return rq->verb == SNIB__ACQUIRE && rq->id[0] == id[0] &&
           rq->id[1] == id[1];
}

/* The home whose node has the ACQUIRE with this id; -1: none has. */
static int route_owner(const struct snib__cluster *q, const uint64_t id[2])
{
    for (int k = 0; k < NODES_MAX; k++) {
        const struct node *n = &q->node[k];
        if (!n->store || !n->due) {
            continue;
        }
        SNIB__LIST_EACH (l, &n->chain) {
            if (route_is_id(SNIB__CONTAINER(l, struct snib__request, link),
                            id)) {
                return k;
            }
        }
        if (snib__node_owns(n->store, id)) {
            return k;
        }
    }
    return -1;
}

static void route_give(struct snib__cluster *q, uint32_t home,
                       struct snib__request *rq)
{
    snib_err err;
    struct node *n = snib__home_node(q, home, &err, rq->said.reterr);
    rq->store.moved = 0;
    if (n) {
        snib__list_push(&n->chain, &rq->link);
        n->due++;
    } else {
        snib__tell(q, rq, SNIB__NOT_APPLIED, err, NULL);
    }
}

void snib__route(struct snib__cluster *q, snib_instant now,
                 struct snib__request *rq)
{
    int home = -1;
    if (route_is_look(rq)) {
        if (!snib__look_start(q, now, rq)) {
            snib__wait(q, now, rq, 0);
        }
        return;
    }
    if (rq->verb == SNIB__CANCEL) {
        snib__wait_cancel(q, rq->id);
        home = route_owner(q, rq->id);
    }
    if (home < 0) {
        home = q->slots->home_of[snib__slot_of(rq->name)] - 1;
    }
    if (home >= 0) {
        route_give(q, (uint32_t)home, rq);
    } else if (rq->once && rq->store.looked && q->slots->heard) {
        snib__give_up(q, rq); /* the map is new, and says so */
    } else {
        snib__wait(q, now, rq, 0);
    }
}

/* -- answers ----------------------------------------------------------------- */

/* The server has named another one for it. If they send it to and fro, it waits
 * in between: they hear of each other's changes some time. */
static void route_redirected(struct snib__cluster *q, snib_instant now,
                             struct snib__request *rq)
{
    rq->batch.number = 0; /* from here on it is tried alone */
    rq->said.answer = SNIB__PENDING;
    rq->said.err = SNIB_ERR_OK;
    if (rq->store.redirects < REDIRECTS) {
        uint32_t home = rq->store.moved - 1u;
        rq->store.redirects++;
        route_give(q, home, rq);
        if (rq->store.asking) {
            q->node[home].asked_until = snib__after(now, snib__ms(ASKED_MS));
        }
    } else {
        snib__wait(q, now, rq,
                   REDIRECT_MS / 2 +
                       (int64_t)snib__rng_below(&q->rng, REDIRECT_MS + 1));
    }
}

static bool route_looks_again(const struct snib__request *rq, snib_instant now)
{
    return rq->said.answer == SNIB__NOT_APPLIED &&
           rq->said.err == SNIB_ERR_UNREACHABLE && !rq->store.looked &&
           !snib__reached(now, rq->limit);
}

static void route_done(struct snib__cluster *q, struct node *n,
                       struct snib__request *rq)
{
    if (rq->said.answer == SNIB__DONE &&
        (rq->verb == SNIB__ACQUIRE || rq->verb == SNIB__RENEW)) {
        n->held_until = snib__later(
            n->held_until, snib__after(rq->said.valid_from, rq->said.left));
    }
    q->requests--;
    snib__list_push(&q->out->answered, &rq->link);
}

void snib__route_answered(struct snib__cluster *q, snib_instant now,
                          uint32_t home, struct snib__request *rq)
{
    struct node *n = &q->node[home];
    n->due--;
    if (route_is_look(rq)) {
        snib__look_answered(q, now, rq);
    } else if (rq->store.moved) {
        route_redirected(q, now, rq);
    } else if (route_looks_again(rq, now)) {
        q->slots->stale = true;
        snib__wait(q, now, rq, 0);
    } else {
        route_done(q, n, rq);
    }
}

/* -- a new map --------------------------------------------------------------- */

/* A part of a LIST or DOCTOR is of its home alone. */
static void route_part_again(struct snib__cluster *q, snib_instant now,
                             uint32_t home, struct snib__request *rq)
{
    if (q->slots->home[home].slots) {
        snib__list_push(&q->node[home].chain, &rq->link);
        q->node[home].due++;
    } else {
        rq->said.answer = SNIB__NOT_APPLIED;
        rq->said.err = snib__fail(rq->said.reterr, SNIB_ERR_UNREACHABLE,
                                  "it serves no slot any more; ask again");
        snib__look_answered(q, now, rq);
    }
}

static void route_take_back(struct snib__cluster *q, snib_instant now,
                            uint32_t home)
{
    struct snib__list back;
    struct snib__link *l;
    snib__list_init(&back);
    snib__node_take_back(q->node[home].store, &back);
    while ((l = snib__list_pop(&back))) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        q->node[home].due--;
        if (route_is_look(rq)) {
            route_part_again(q, now, home, rq);
        } else {
            rq->store.asking = false;
            snib__route(q, now, rq);
        }
    }
}

/* A server without slots that an ASK has named is about to get some, and is left
 * alone; one from which a map has taken them was replaced, as far as can be told.
 * What a server that was replaced still grants or renews, since it stood still or
 * was cut off, counts for nothing: what is awaited there is UNKNOWN, and the core
 * repeats it. */
void snib__route_all(struct snib__cluster *q, snib_instant now)
{
    struct snib__list waited;
    struct snib__link *l;
    snib__list_init(&waited);
    snib__list_append(&waited, &q->waiting);
    while ((l = snib__list_pop(&waited))) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        snib__wait_over(q, rq);
        snib__route(q, now, rq);
    }
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        struct node *n = &q->node[k];
        struct snib__home *h = &q->slots->home[k];
        bool lost = h->lost;
        h->lost = false;
        if (lost) {
            n->asked_until.ns = 0;
        }
        if (!n->store || !n->due) {
            continue;
        }
        if (lost) {
            snib__node_cut(n->store, now);
        }
        if ((!h->slots && snib__reached(now, n->asked_until)) ||
            snib__home_in_trouble(q, now, k)) {
            route_take_back(q, now, k);
        }
    }
}

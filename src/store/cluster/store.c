/* store/cluster/store.c — the table of a store made of the nodes of a Redis
 * Cluster, and its steps.
 *
 * Nodes are stepped only from here. Requests for one gather on its chain
 * meanwhile, so that those of one step travel together. Of the answers a node's
 * interim ones (QUEUED) are passed on at the end of the step: the node still owns
 * their requests, and may answer them for good in the same step. */
#include "base/error.h"
#include "store/cluster/cluster_i.h"

static struct snib__cluster *store_of(const struct snib__store *store)
{
    return (struct snib__cluster *)(uintptr_t)store;
}

static bool store_is_final(const struct snib__request *rq)
{
    return rq->said.answer != SNIB__PENDING && rq->said.answer != SNIB__QUEUED;
}

/* -- nodes ------------------------------------------------------------------- */

static void store_before(const struct snib__cluster *q, snib_instant now,
                         struct node *n)
{
    n->out.holds =
        !n->leaving && q->out->holds && !snib__reached(now, n->held_until);
    n->out.listens = !n->leaving && q->out->listens;
}

/* The node has made a step. What it says of the whole client goes on. */
static void store_after(struct snib__cluster *q, struct node *n)
{
    struct snib__out *out = &n->out;
    q->out->changed |= out->changed;
    q->out->moved |= out->moved;
    q->out->missed |= out->missed;
    q->out->stuck |= out->stuck;
    for (uint32_t i = 0; i < out->ended_count; i++) {
        snib__out_ended(q->out, out->ended[i]);
    }
    out->changed = out->moved = out->missed = out->stuck = false;
    out->ended_count = 0;
}

static void store_step_node(struct snib__cluster *q, snib_instant now,
                            struct node *n, const struct snib__input *in)
{
    store_before(q, now, n);
    snib__node_ops()->input(n->store, now, in);
    store_after(q, n);
}

static void store_start_node(struct snib__cluster *q, snib_instant now,
                             struct node *n)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__list_append(&chain, &n->chain);
    store_before(q, now, n);
    snib__node_ops()->start(n->store, now, &chain);
    store_after(q, n);
}

static bool store_take_answers(struct snib__cluster *q, snib_instant now,
                               uint32_t k)
{
    bool any = false;
    struct snib__list answered;
    struct snib__link *l;
    snib__list_init(&answered);
    SNIB__LIST_EACH_SAFE (one, next, &q->node[k].out.answered) {
        if (store_is_final(SNIB__CONTAINER(one, struct snib__request, link))) {
            snib__unlink(one);
            snib__list_push(&answered, one);
        }
    }
    while ((l = snib__list_pop(&answered))) {
        any = true;
        snib__route_answered(q, now, k,
                             SNIB__CONTAINER(l, struct snib__request, link));
    }
    return any;
}

/* -- the end of each step ---------------------------------------------------- */

/* Hand the nodes what gathered for them, until nothing moves. */
static void store_exchange(struct snib__cluster *q, snib_instant now)
{
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t k = 0; k < NODES_MAX; k++) {
            struct node *n = &q->node[k];
            if (n->store && !snib__list_empty(&n->chain)) {
                store_start_node(q, now, n);
                more = true;
            }
        }
        for (uint32_t k = 0; k < NODES_MAX; k++) {
            if (q->node[k].store) {
                more = store_take_answers(q, now, k) || more;
            }
        }
        if (!more) {
            snib__map_settle(q, now);
            for (uint32_t k = 0; k < NODES_MAX; k++) {
                more = more || (q->node[k].store &&
                                !snib__list_empty(&q->node[k].chain));
            }
        }
    }
}

/* False: they know it already. */
static bool store_tell_listens(struct snib__cluster *q, snib_instant now)
{
    static const struct snib__input tick = {.kind = SNIB__IN_TICK};
    if (!q->out->listens || q->listened) {
        return false;
    }
    q->listened = true;
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        if (q->node[k].store) {
            store_step_node(q, now, &q->node[k], &tick);
        }
    }
    return true;
}

static void store_settle(struct snib__cluster *q, snib_instant now)
{
    struct snib__link *l;
    do {
        store_exchange(q, now);
    } while (store_tell_listens(q, now));
    snib__homes_retire(q, now);
    snib__look_limits(q);
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        while (q->node[k].store &&
               (l = snib__list_pop(&q->node[k].out.answered))) {
            snib__list_push(&q->out->answered, l);
        }
    }
}

/* -- requests ---------------------------------------------------------------- */

/* Are all tries of that batch in this chain of one slot? Nothing is done in one
 * step for locks of two. */
static bool store_is_one_slot(struct snib__list *chain, uint32_t batch)
{
    int64_t slot = -1;
    bool one = true;
    SNIB__LIST_EACH (l, chain) {
        const struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (rq->verb == SNIB__ACQUIRE && rq->batch.number == batch) {
            one = one && (slot < 0 || slot == snib__slot_of(rq->name));
            slot = snib__slot_of(rq->name);
        }
    }
    return one;
}

static void store_part_batches(struct snib__list *chain)
{
    SNIB__LIST_EACH (l, chain) {
        uint32_t batch =
            SNIB__CONTAINER(l, struct snib__request, link)->batch.number;
        if (!batch || store_is_one_slot(chain, batch)) {
            continue;
        }
        SNIB__LIST_EACH (k, chain) {
            struct snib__request *rq =
                SNIB__CONTAINER(k, struct snib__request, link);
            rq->batch.number = rq->batch.number == batch ? 0 : rq->batch.number;
        }
    }
}

static void store_begin(struct snib__cluster *q, snib_instant now,
                        struct snib__request *rq)
{
    rq->said.answer = SNIB__PENDING;
    rq->said.err = SNIB_ERR_OK;
    rq->said.revoked = rq->said.forgotten = rq->said.far = false;
    rq->said.position = 0;
    rq->said.valid_from = (snib_instant){0};
    rq->said.left = (snib_duration){0};
    rq->store.asking = rq->store.looked = false;
    rq->store.moved = rq->store.redirects = 0;
    rq->store.timer.index = 0;
    snib__link_init(&rq->link);
    snib__link_init(&rq->store.link);
    q->requests++;
    if (snib__heap_reserve(&q->timers, q->requests)) {
        snib__route(q, now, rq);
    } else {
        snib__fail_plain(rq->said.reterr, SNIB_ERR_NOMEM);
        snib__tell(q, rq, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM, NULL);
    }
}

static void store_cluster_start(struct snib__store *store, snib_instant now,
                                struct snib__list *chain)
{
    struct snib__cluster *q = store_of(store);
    struct snib__link *l;
    store_part_batches(chain);
    while ((l = snib__list_pop(chain))) {
        store_begin(q, now, SNIB__CONTAINER(l, struct snib__request, link));
    }
    store_settle(q, now);
}

/* -- what happens ------------------------------------------------------------ */

static void store_tick(struct snib__cluster *q, snib_instant now,
                       const struct snib__input *in)
{
    struct snib__timer *t;
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        struct node *n = &q->node[k];
        if (n->store && snib__reached(now, snib__node_ops()->due(n->store))) {
            store_step_node(q, now, n, in);
        }
    }
    while ((t = snib__heap_min(&q->timers)) && snib__reached(now, t->at)) {
        struct snib__request *rq =
            SNIB__CONTAINER(t, struct snib__request, store.timer);
        snib__wait_over(q, rq);
        if (snib__reached(now, rq->limit)) {
            snib__give_up(q, rq);
        } else {
            snib__route(q, now, rq);
        }
    }
}

/* The index of a node's connection among its own. */
static uint32_t store_conn_of(const struct node *n, uint32_t conn)
{
    uint32_t i = 0;
    while (i < n->out.conns && n->out.conn[i]->index != conn) {
        i++;
    }
    return i;
}

static void store_cluster_input(struct snib__store *store, snib_instant now,
                                const struct snib__input *in)
{
    struct snib__cluster *q = store_of(store);
    if (in->kind == SNIB__IN_TICK) {
        store_tick(q, now, in);
    } else if (in->conn < q->out->conns) {
        struct node *n = &q->node[q->node_of[in->conn]];
        struct snib__input one = *in;
        one.conn = store_conn_of(n, in->conn);
        if (n->store && one.conn < n->out.conns) {
            n->hopeless = in->kind == SNIB__IN_REFUSED && in->hopeless;
            store_step_node(q, now, n, &one);
        }
    }
    store_settle(q, now);
}

static snib_instant store_cluster_due(const struct snib__store *store)
{
    const struct snib__cluster *q = store_of(store);
    snib_instant due = snib__sooner(snib__heap_due(&q->timers), q->map_due);
    for (uint32_t k = 0; k < NODES_MAX; k++) {
        if (q->node[k].store) {
            due = snib__sooner(due, snib__node_ops()->due(q->node[k].store));
        }
    }
    return due;
}

const struct snib__store_ops snib__cluster_store_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__store_ops),
    .scheme = "redis+cluster",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH,
    .open = snib__cluster_open,
    .start = store_cluster_start,
    .input = store_cluster_input,
    .due = store_cluster_due,
    .state = snib__cluster_state,
    .server = snib__cluster_server,
    .free = snib__cluster_free,
};

/* store/quorum/store.c — the store table of a store made of stores.
 *
 * Each node is a whole store with three connections, which are also ours: its
 * out has ours as the outer one (core/conn.h), and connection i of node k is our
 * connection 3 k + i.
 *
 * Nodes are stepped only from store_settle() and store_quorum_input(). Requests
 * of a task to a node meanwhile gather on the node's chain, so that requests of
 * one step travel together. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/quorum/quorum_i.h"
#include "store/redis/redis.h"

static struct snib__quorum *store_of(const struct snib__store *store)
{
    return (struct snib__quorum *)(uintptr_t)store;
}

/* -- nodes ----------------------------------------------------------------- */

/* The node has made a step. If it is another server by now, what is held still
 * stands at the others: nothing is at risk by that alone. */
static void store_stepped(struct snib__quorum *q, struct node *n)
{
    q->out->changed |= n->out.changed;
    n->out.changed = n->out.moved = false;
}

static void store_take_answers(struct snib__quorum *q, snib_instant now,
                               uint32_t k)
{
    struct snib__link *l;
    while ((l = snib__list_pop(&q->node[k].out.answered))) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        snib__part_answered(q, now, rq->user);
    }
}

/* Hand the nodes what gathered for them, until nothing moves. */
static void store_settle(struct snib__quorum *q, snib_instant now)
{
    bool more = true;
    while (more) {
        more = false;
        for (uint32_t k = 0; k < q->count; k++) {
            struct node *n = &q->node[k];
            if (snib__list_empty(&n->chain)) {
                continue;
            }
            more = true;
            struct snib__list chain;
            snib__list_init(&chain);
            snib__list_append(&chain, &n->chain);
            q->kind->ops->start(n->store, now, &chain);
            store_stepped(q, n);
        }
        /* Only after all nodes were stepped: an answer may end a request that
         * the next node has yet to be told of. */
        for (uint32_t k = 0; k < q->count; k++) {
            store_take_answers(q, now, k);
        }
    }
}

static void store_step_node(struct snib__quorum *q, snib_instant now,
                            uint32_t k, const struct snib__input *in)
{
    q->kind->ops->input(q->node[k].store, now, in);
    store_stepped(q, &q->node[k]);
    store_take_answers(q, now, k);
}

/* -- open ------------------------------------------------------------------ */

static snib_err store_check(const struct snib__url *url,
                            snib_duration *ret_node, struct snib_error *reterr)
{
    if (url->nodes == 0) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: a quorum is written redlock://"
                          "HOST[:PORT],HOST[:PORT],HOST[:PORT]",
                          url->safe);
    }
    if (url->nodes == 1 && strchr(url->path, ',')) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.100s: one server is no quorum: the first / ends "
                          "the list, what follows is the database of all; "
                          "write redlock://HOST,HOST,HOST/DB",
                          url->safe);
    }
    if (url->nodes == 1) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: one server is no quorum; write redis:// "
                          "for it, or name 2 to 7 independent ones",
                          url->safe);
    }
    for (uint32_t i = 0; i < url->queries; i++) {
        const char *key = url->query[i].key, *value = url->query[i].value;
        if ((snib__url_is_tls_key(key) && snib__url_is_secure(url)) ||
            !strcmp(key, "password_file")) {
            continue; /* the driver's */
        }
        if (strcmp(key, "node_ms") != 0) {
            return snib__fail(
                reterr, SNIB_ERR_USAGE,
                "%.100s: redlock knows node_ms= and password_file=, not "
                "%.40s=",
                url->safe, key);
        }
        char *end;
        unsigned long ms = strtoul(value, &end, 10);
        if (*value < '0' || *value > '9' || *end || ms < 1 || ms > 60000) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.120s: node_ms is the patience for one node "
                              "in ms, 1 to 60000",
                              url->safe);
        }
        *ret_node = snib__ms((int64_t)ms);
    }
    return SNIB_ERR_OK;
}

static snib_err store_check_twice(const struct snib__quorum *q,
                                  const struct snib__url *url,
                                  struct snib_error *reterr)
{
    for (uint32_t k = 0; k < q->count; k++) {
        for (uint32_t j = 0; j < k; j++) {
            const char *a = q->out->conn[j * NODE_CONNS]->address;
            if (!strcasecmp(a, q->out->conn[k * NODE_CONNS]->address)) {
                return snib__fail(reterr, SNIB_ERR_USAGE,
                                  "%.100s: %.60s stands twice; every vote "
                                  "must be another server's",
                                  url->safe, a);
            }
        }
    }
    return SNIB_ERR_OK;
}

static snib_err store_open_node(struct snib__quorum *q, uint32_t k,
                                const struct snib__store_config *cfg,
                                struct snib_error *reterr)
{
    struct node *n = &q->node[k];
    const char *scheme = snib__url_is_secure(cfg->url) ? "rediss" : "redis";
    struct snib__url url = {.scheme = (char *)(uintptr_t)scheme,
                            .user = cfg->url->user,
                            .password = cfg->url->password,
                            .host = cfg->url->node[k].host,
                            .port = cfg->url->node[k].port,
                            .path = cfg->url->path,
                            .safe = cfg->url->safe};
    for (uint32_t i = 0; i < cfg->url->queries; i++) {
        if (snib__url_is_tls_key(cfg->url->query[i].key)) {
            url.query[url.queries++] = cfg->url->query[i];
        }
    }
    struct snib__store_config one = *cfg;
    snib__list_init(&n->chain);
    snib__list_init(&n->out.answered);
    snib__list_init(&n->out.exec);
    snib__conns_init(&n->out, q->out->limit);
    n->out.outer = q->out;
    n->out.log = q->out->log;
    n->out.log_data = q->out->log_data;
    n->rest = snib__ms(REST_FIRST_MS);
    one.url = &url;
    one.out = &n->out;
    one.scripts_only = true;
    for (int i = 0; i < 4; i++) {
        one.seed.v[i] = snib__rng_next(&q->rng);
    }
    return q->kind->ops->open(&one, &n->store, reterr);
}

static void store_quorum_free(struct snib__store *store)
{
    struct snib__quorum *q = store_of(store);
    struct snib__link *l;
    if (!q) {
        return;
    }
    for (uint32_t k = 0; k < q->count; k++) {
        if (q->node[k].store) {
            q->kind->ops->free(q->node[k].store);
        }
        snib__conns_free(&q->node[k].out);
    }
    for (int i = 0; i < BUCKETS; i++) {
        while ((l = snib__list_first(&q->bucket[i]))) {
            snib__task_free(q, SNIB__CONTAINER(l, struct task, link));
        }
    }
    while ((l = snib__list_pop(&q->spare))) {
        struct task *task = SNIB__CONTAINER(l, struct task, link);
        snib__buf_free(&task->text);
        snib__free(task);
    }
    snib__heap_free(&q->timers);
    snib__free(q);
}

snib_err snib__quorum_open(const struct snib__store_config *cfg,
                           const struct snib__node_kind *kind,
                           struct snib__store **ret, struct snib_error *reterr)
{
    snib_duration node_limit = {0};
    *ret = NULL;
    snib_err err = store_check(cfg->url, &node_limit, reterr);
    if (err) {
        return err;
    }
    uint32_t count = cfg->url->nodes;
    struct snib__quorum *q = snib__alloc(sizeof *q + count * sizeof q->node[0]);
    if (!q) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    q->out = cfg->out;
    q->kind = kind;
    q->patience = cfg->request;
    q->node_limit = node_limit;
    q->rtt = snib__ms(1);
    q->majority = count / 2 + 1;
    snib__rng_init(&q->rng, &cfg->seed);
    snib__list_init(&q->spare);
    for (int i = 0; i < BUCKETS; i++) {
        snib__list_init(&q->bucket[i]);
    }
    for (; !err && q->count < count; q->count++) {
        err = store_open_node(q, q->count, cfg, reterr);
    }
    if (!err) {
        err = store_check_twice(q, cfg->url, reterr);
    }
    if (err) {
        store_quorum_free((struct snib__store *)q);
        return err;
    }
    *ret = (struct snib__store *)q;
    return snib__ok(reterr);
}

static const struct snib__node_kind redis = {&snib__redis_store_ops,
                                             snib__redis_clock};

static snib_err store_quorum_open(const struct snib__store_config *cfg,
                                  struct snib__store **ret,
                                  struct snib_error *reterr)
{
    return snib__quorum_open(cfg, &redis, ret, reterr);
}

/* -- steps ----------------------------------------------------------------- */

static void store_refuse(struct snib__quorum *q, struct snib__request *rq,
                         snib_err err, const char *text)
{
    rq->said.answer = SNIB__NOT_APPLIED;
    rq->said.err = err;
    if (text) {
        snib__fail(rq->said.reterr, err, "%s", text);
    } else {
        snib__fail_plain(rq->said.reterr, err);
    }
    snib__list_push(&q->out->answered, &rq->link);
}

/* What a quorum does not have, as a text; NULL: it has that. */
static const char *store_lacks(const struct snib__request *rq)
{
    if (rq->verb == SNIB__ACQUIRE && rq->acquire.kind != SNIB_KIND_MUTEX) {
        return "a quorum (redlock:) has plain mutexes only: majorities that "
               "overlap cannot count shared holders or permits; use redis:";
    }
    if (rq->verb == SNIB__ACQUIRE && rq->acquire.delay.ns > 0) {
        return "a quorum (redlock:) keeps no lock-delay: leave it out, or use "
               "redis:";
    }
    if (rq->verb >= SNIB__PARAMS) {
        return "a quorum (redlock:) has plain mutexes only, no semaphores, "
               "latches or values; use redis:";
    }
    return NULL;
}

static void store_begin_task(struct snib__quorum *q, snib_instant now,
                             struct snib__request *rq, struct task *task)
{
    task->parent = rq;
    task->background = rq->background;
    task->lease = rq->lease;
    task->token = rq->token;
    task->reserve =
        rq->acquire.reserve < RESERVE_MAX ? rq->acquire.reserve : RESERVE_MAX;
    task->permits = rq->acquire.permits;
    task->floor = rq->floor;
    task->began = now;
    switch (rq->verb) {
    case SNIB__ACQUIRE:
        snib__round_start(q, now, task);
        break;
    case SNIB__RENEW:
        task->reserve = RESERVE_MAX; /* it may have reserved as many */
        snib__renew_start(q, now, task);
        break;
    case SNIB__RELEASE:
    case SNIB__CANCEL:
        snib__sweep_start(q, now, task, rq);
        break;
    case SNIB__INSPECT:
    case SNIB__LIST:
    case SNIB__FORCE:
    case SNIB__DOCTOR:
        snib__inspect_start(q, now, task);
        break;
    case SNIB__PARAMS: /* refused before */
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY:
        break;
    }
}

static void store_begin(struct snib__quorum *q, snib_instant now,
                        struct snib__request *rq)
{
    const char *lacks = store_lacks(rq);
    rq->said.answer = SNIB__PENDING;
    rq->said.err = SNIB_ERR_OK;
    rq->said.revoked = rq->said.forgotten = false;
    rq->said.position = 0;
    rq->said.valid_from = (snib_instant){0};
    rq->said.left = (snib_duration){0};
    snib__link_init(&rq->link);
    if (lacks) {
        store_refuse(q, rq, SNIB_ERR_UNSUPPORTED, lacks);
        return;
    }
    struct task *task = snib__task_new(q, rq->name, rq->id);
    if (task) {
        store_begin_task(q, now, rq, task);
    } else {
        store_refuse(q, rq, SNIB_ERR_NOMEM, NULL);
    }
}

static void store_quorum_start(struct snib__store *store, snib_instant now,
                               struct snib__list *chain)
{
    struct snib__quorum *q = store_of(store);
    struct snib__link *l;
    while ((l = snib__list_pop(chain))) {
        store_begin(q, now, SNIB__CONTAINER(l, struct snib__request, link));
    }
    store_settle(q, now);
}

static void store_task_due(struct snib__quorum *q, snib_instant now,
                           struct task *task)
{
    switch ((stage)task->stage) {
    case ST_PRIOR:
    case ST_ROUND:
    case ST_RAISE:
    case ST_REST:
        snib__round_due(q, now, task);
        break;
    case ST_AFTER:
        snib__after_due(q, now, task);
        break;
    case ST_SWEEP:
        snib__sweep_due(q, now, task);
        break;
    case ST_INSPECT:
        snib__inspect_check(q, now, task);
        break;
    case ST_RENEW:
    case ST_SET:
    case ST_DRAIN:
        break; /* the nodes answer within their limits */
    }
}

static void store_quorum_input(struct snib__store *store, snib_instant now,
                               const struct snib__input *in)
{
    struct snib__quorum *q = store_of(store);
    struct snib__input one = *in;
    struct snib__timer *t;
    if (in->kind == SNIB__IN_TICK) {
        for (uint32_t k = 0; k < q->count; k++) {
            if (snib__reached(now, q->kind->ops->due(q->node[k].store))) {
                store_step_node(q, now, k, in);
            }
        }
        while ((t = snib__heap_min(&q->timers)) && snib__reached(now, t->at)) {
            snib__heap_remove(&q->timers, t);
            store_task_due(q, now, SNIB__CONTAINER(t, struct task, timer));
        }
    } else if (in->conn / NODE_CONNS < q->count) {
        struct node *n = &q->node[in->conn / NODE_CONNS];
        n->no_such = in->kind == SNIB__IN_REFUSED && in->hopeless && !n->ever;
        one.conn = in->conn % NODE_CONNS;
        store_step_node(q, now, in->conn / NODE_CONNS, &one);
    }
    store_settle(q, now);
}

static snib_instant store_quorum_due(const struct snib__store *store)
{
    const struct snib__quorum *q = store_of(store);
    snib_instant due = snib__heap_due(&q->timers);
    for (uint32_t k = 0; k < q->count; k++) {
        due = snib__sooner(due, q->kind->ops->due(q->node[k].store));
    }
    return due;
}

const struct snib__store_ops snib__quorum_store_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__store_ops),
    .scheme = "redlock",
    .caps = 0,
    .open = store_quorum_open,
    .start = store_quorum_start,
    .input = store_quorum_input,
    .due = store_quorum_due,
    .state = snib__quorum_state,
    .server = snib__quorum_server,
    .free = store_quorum_free,
};

/* core/blocking.c — requests on their way to a library that blocks, and back.
 *
 * Every request the store owns is in a table by id (blocking_table.c) until its
 * final answer. Its state is in r->store.where, which a blocking store has no
 * other use for; r->store.timer is set in WAITING only. (Of a library with
 * sessions a request that is LISTED is shared out to one of them, and may have
 * a timer: sharing.c.)
 *
 *   start --------> LISTED   on out->exec or on the executing thread's list
 *   LISTED --done, QUEUED--> WAITING   timer: next poll
 *   LISTED --done, QUEUED, AGAIN set---> LISTED     notified meanwhile
 *   LISTED --done, PENDING-> WAITING   timer: retry
 *   LISTED --done, final---> (forgotten)
 *   WAITING --timer, notified--> LISTED
 *   WAITING --limit, and it was PENDING each time--> (forgotten) NOT_APPLIED
 *   WAITING, LISTED --CANCEL with this id starts--> ENDING set: no timer
 *   ENDING --its CANCEL is answered--> answered NO or UNKNOWN (forgotten)
 *
 * Fields that exec() writes are touched here only while the request is not
 * LISTED. */
#include "core/blocking_i.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define RETRY_MS      20 /* the library was blocked by others */
#define IDS_AT_ONCE   32
#define FIRST_BUCKETS 16

bool snib__blocking_shares(const struct snib__store *s)
{
    return s->ops->exec_in != NULL;
}

static void blocking_list_it(struct snib__store *s, snib_instant now,
                             struct snib__request *r)
{
    if (!s->last.asked.ns) {
        s->last.asked = now;
    }
    snib__heap_remove(&s->heap, &r->store.timer);
    r->store.where |= SNIB__RQ_LISTED;
    snib__unlink(&r->link); /* an interim answer that nobody has fetched yet */
    if (!r->exec.blocked) {
        r->exec.blocked_since = now;
    }
    r->exec.blocked = false;
    r->exec.patience = r->limit; /* exec() reads these two */
    r->exec.impatient = r->once;
    if (snib__blocking_shares(s)) {
        snib__sharing_list(s, r);
    } else {
        snib__list_push(&s->out->exec, &r->link);
    }
}

/* -- in ------------------------------------------------------------------- */

/* An ACQUIRE must not be polled once its CANCEL is on the way: the poll would
 * queue it anew behind the CANCEL. */
static void blocking_begin_ending(struct snib__store *s, const uint64_t id[2])
{
    struct snib__request *r = snib__blocking_find_acquire(s, id);
    if (r) {
        r->store.where |= SNIB__RQ_ENDING;
        snib__heap_remove(&s->heap, &r->store.timer);
    }
}

static void blocking_start(struct snib__store *s, snib_instant now,
                           struct snib__list *chain)
{
    struct snib__link *l;
    while ((l = snib__list_pop(chain))) {
        struct snib__request *r = snib__rq_of_link(l);
        /* a waiter that was started as something else */
        if (snib__blocking_owns(s, r)) {
            assert(!(r->store.where & SNIB__RQ_LISTED));
            snib__blocking_forget(s, r);
        }
        snib__link_init(&r->store.link);
        r->store.timer.index = 0;
        r->store.where = r->verb == SNIB__ACQUIRE && r->acquire.placed
                             ? SNIB__RQ_STANDS
                             : SNIB__RQ_WAITING;
        r->said.answer = SNIB__PENDING;
        r->exec.blocked = false; /* of an earlier start */
        if (!snib__blocking_reserve(s)) {
            r->said.answer = SNIB__NOT_APPLIED;
            r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_NOMEM);
            snib__list_push(&s->out->answered, &r->link);
            continue;
        }
        if (r->verb == SNIB__CANCEL) {
            blocking_begin_ending(s, r->id);
        }
        if (snib__blocking_shares(s) &&
            (r->verb == SNIB__CANCEL || r->verb == SNIB__RELEASE)) {
            snib__sharing_end(s, r->id);
        }
        if (!s->owned &&
            snib__between(s->last.heard, now).ns >= SNIB__BLOCKED_NS) {
            s->last.asked.ns = 0;
        }
        s->owned++;
        snib__list_push(snib__blocking_bucket(s, r->id), &r->store.link);
        blocking_list_it(s, now, r);
    }
}

static void blocking_poll_now(struct snib__store *s, snib_instant now,
                              struct snib__request *r)
{
    if (r->store.where & SNIB__RQ_ENDING) {
        return;
    }
    if (r->store.where & SNIB__RQ_LISTED) {
        r->store.where |= SNIB__RQ_AGAIN;
    } else {
        blocking_list_it(s, now, r);
    }
}

void snib__blocking_answer(struct snib__store *s, struct snib__request *r)
{
    snib__blocking_forget(s, r);
    snib__list_push(&s->out->answered, &r->link);
}

/* The library never got to this request, and r->said.err says what was in
 * the way. */
static bool blocking_in_vain(const struct snib__request *r, snib_instant now)
{
    return r->verb == SNIB__ACQUIRE && r->said.answer == SNIB__PENDING &&
           r->said.err && !(r->store.where & SNIB__RQ_STANDS) && !r->resent &&
           snib__reached(now, r->limit);
}

static void blocking_tick(struct snib__store *s, snib_instant now)
{
    struct snib__timer *t;
    while ((t = snib__heap_min(&s->heap)) && snib__reached(now, t->at)) {
        struct snib__request *r =
            SNIB__CONTAINER(t, struct snib__request, store.timer);
        if (r->store.where & SNIB__RQ_LISTED) {
            snib__sharing_late(s, now, r);
        } else if (blocking_in_vain(r, now)) {
            r->said.answer = SNIB__NOT_APPLIED;
            snib__blocking_answer(s, r);
        } else {
            blocking_list_it(s, now, r);
        }
    }
}

static void blocking_poll_all(struct snib__store *s, snib_instant now)
{
    for (uint32_t i = 0; i < s->buckets; i++) {
        SNIB__LIST_EACH (l, &s->bucket[i]) {
            if (snib__rq_of_own(l)->verb == SNIB__ACQUIRE) {
                blocking_poll_now(s, now, snib__rq_of_own(l));
            }
        }
    }
}

static void blocking_notified(struct snib__store *s, snib_instant now)
{
    uint64_t ids[IDS_AT_ONCE][2];
    uint32_t n;
    do {
        n = s->ops->notified(s->instance, ids, IDS_AT_ONCE);
        if (n > IDS_AT_ONCE) { /* … or ended by force */
            s->out->missed = true;
            blocking_poll_all(s, now);
            return;
        }
        for (uint32_t i = 0; i < n; i++) {
            struct snib__request *r = snib__blocking_find_acquire(s, ids[i]);
            if (r) {
                blocking_poll_now(s, now, r);
            } else {
                snib__out_ended(s->out, ids[i]);
            }
        }
    } while (n == IDS_AT_ONCE);
}

static void blocking_input(struct snib__store *s, snib_instant now,
                           const struct snib__input *in)
{
    switch (in->kind) {
    case SNIB__IN_NOTIFIED:
        blocking_notified(s, now);
        blocking_tick(s, now);
        break;
    case SNIB__IN_TICK:
        blocking_tick(s, now);
        break;
    case SNIB__IN_OPENED: /* there are no connections */
    case SNIB__IN_BYTES:
    case SNIB__IN_CLOSED:
    case SNIB__IN_REFUSED:
    case SNIB__IN_LOGIN: /* and nobody to log in to */
        break;
    }
}

static snib_instant blocking_due(const struct snib__store *s)
{
    return snib__heap_due(&s->heap);
}

/* -- out ------------------------------------------------------------------ */

/* Where nobody is told. They must not ask in step. */
static snib_duration blocking_poll_by_chance(struct snib__store *s)
{
    int64_t floor = snib__ms(SNIB__POLL_FLOOR_MS).ns;
    int64_t more = s->out->poll.ns > floor ? s->out->poll.ns - floor : 1;
    return (snib_duration){floor +
                           (int64_t)snib__rng_below(&s->rng, (uint64_t)more)};
}

/* When to poll again. Only the first two in the queue time their poll to the
 * end of the holder's lease; the jitter is positive, so that they find it over.
 * These two may also lose their grant by a lost notification, since a pushed
 * grant stands for a push lease of min(lease, 3 s). So they poll within a
 * third of the lease, but not more often than each 50 ms. */
static snib_duration blocking_poll_after(struct snib__store *s,
                                         const struct snib__request *r)
{
    int64_t cap = snib__ms(SNIB__POLL_CAP_MS).ns;
    int64_t floor = snib__ms(SNIB__POLL_FLOOR_MS).ns;
    int64_t jitter = (int64_t)snib__rng_below(&s->rng, 4000000);
    int64_t ns = cap - jitter;
    if (r->said.position <= 2) {
        int64_t third = r->lease.ns / 3 > 50000000 ? r->lease.ns / 3 : 50000000;
        ns = third < ns ? third : ns;
        if (r->said.left.ns >= 0 && r->said.left.ns < ns) {
            ns = r->said.left.ns + jitter / 2;
        }
    }
    ns = ns < floor ? floor : ns;
    return (snib_duration){ns < cap ? ns : cap};
}

/* A CANCEL has its final answer, so its ACQUIRE gets one too. If both were
 * executed in order, the ACQUIRE is back already. */
static void blocking_end_acquire(struct snib__store *s,
                                 const struct snib__request *c)
{
    struct snib__request *r = snib__blocking_find_acquire(s, c->id);
    bool cancelled = c->said.answer == SNIB__DONE;
    if (!r || (r->store.where & SNIB__RQ_LISTED)) {
        return;
    }
    snib__unlink(&r->link);
    r->said.answer = cancelled ? SNIB__NO : SNIB__UNKNOWN;
    r->said.err = snib__fail_plain(
        r->said.reterr, cancelled ? SNIB_ERR_CANCELLED : SNIB_ERR_UNKNOWN);
    snib__blocking_answer(s, r);
}

/* The library has got neither to this CANCEL nor to its ACQUIRE, and no copy of
 * the ACQUIRE can be anywhere else (whatever the core, which knows of servers,
 * takes for possible). So there is nothing to cancel, and no need to wait until
 * those in the way let the library write that. */
static bool blocking_cancels_nothing(struct snib__store *s,
                                     const struct snib__request *c)
{
    struct snib__request *r = snib__blocking_find_acquire(s, c->id);
    return c->verb == SNIB__CANCEL && c->said.answer == SNIB__PENDING &&
           !c->token && r && r->said.answer == SNIB__PENDING &&
           !(r->store.where & (SNIB__RQ_LISTED | SNIB__RQ_STANDS)) &&
           !r->resent;
}

bool snib__blocking_cancelled(struct snib__store *s, struct snib__request *c)
{
    if (!blocking_cancels_nothing(s, c)) {
        return false;
    }
    c->said.answer = SNIB__DONE;
    c->said.err = snib__ok(c->said.reterr);
    blocking_end_acquire(s, c);
    snib__blocking_answer(s, c);
    return true;
}

static void blocking_come_back(struct snib__store *s, snib_instant now,
                               struct snib__request *r)
{
    bool again = r->store.where & SNIB__RQ_AGAIN,
         ending = r->store.where & SNIB__RQ_ENDING;
    r->store.where &= SNIB__RQ_ENDING | SNIB__RQ_STANDS;
    snib__blocking_remember(s, now, r);
    if (snib__blocking_cancelled(s, r)) {
        return;
    }
    switch (r->said.answer) {
    case SNIB__PENDING:
        if (!ending) {
            snib_instant again_at = snib__after(now, snib__ms(RETRY_MS));
            snib__heap_set(&s->heap, &r->store.timer,
                           snib__sooner(again_at, snib__later(now, r->limit)));
        }
        return;
    case SNIB__QUEUED:
        r->store.where |= SNIB__RQ_STANDS;
        r->acquire.placed =
            true; /* also where nobody is told, since it goes on */
        if (again && !ending) {
            blocking_list_it(s, now, r);
            return;
        }
        if (!ending) {
            snib_duration poll = s->out->poll.ns ? blocking_poll_by_chance(s)
                                                 : blocking_poll_after(s, r);
            snib__heap_set(&s->heap, &r->store.timer, snib__after(now, poll));
        }
        snib__list_push(&s->out->answered, &r->link);
        return;
    case SNIB__DONE:
    case SNIB__NO:
    case SNIB__NOT_APPLIED:
    case SNIB__UNKNOWN:
        if (r->verb == SNIB__CANCEL) {
            blocking_end_acquire(s, r);
        }
        snib__blocking_answer(s, r);
        return;
    }
}

bool snib__blocking_runs(const struct snib__store *s,
                         const struct snib__request *r)
{
    int runs = snib__blocking_shares(s) ? SNIB__RQ_TAKEN : SNIB__RQ_LISTED;
    return (r->store.where & runs) && !(r->store.where & SNIB__RQ_STANDS);
}

void snib__blocking_done(struct snib__store *s, snib_instant now,
                         struct snib__list *executed)
{
    struct snib__link *l;
    while ((l = snib__list_pop(executed))) {
        struct snib__request *r = snib__rq_of_link(l);
        blocking_come_back(s, now, r);
        if (snib__blocking_shares(s)) {
            snib__sharing_back(s, r);
        }
    }
}

/* -- life ----------------------------------------------------------------- */

const struct snib__blocking_ops *snib__blocking_ops_of(struct snib__store *s,
                                                       void **ret_instance)
{
    if (ret_instance) {
        *ret_instance = s->instance;
    }
    return s->ops;
}

static void blocking_free_store(struct snib__store *s)
{
    if (!s) {
        return;
    }
    for (uint32_t i = 0; i < s->buckets; i++) {
        struct snib__link *l;
        while ((l = snib__list_pop(&s->bucket[i]))) {
            snib__unlink(&snib__rq_of_own(l)->link);
            snib__rq_of_own(l)->store.timer.index = 0;
        }
    }
    if (s->instance) {
        s->ops->free(s->instance);
    }
    snib__heap_free(&s->heap);
    snib__free(s->bucket);
    snib__free(s);
}

snib_err snib__blocking_open(const struct snib__blocking_ops *ops,
                             const struct snib__store_config *config,
                             struct snib__store **ret,
                             struct snib_error *reterr)
{
    struct snib__store *s;
    snib_err err;
    *ret = NULL;
    if (ops->abi != SNIB__STORE_ABI || ops->size < sizeof *ops) {
        return snib__fail(reterr, SNIB_ERR_INTERNAL,
                          "store %s speaks another version", ops->scheme);
    }
    if (!ops->open || !ops->exec == !ops->exec_in || !ops->notifier_fd ||
        !ops->notified || !ops->free) {
        return snib__fail(reterr, SNIB_ERR_INTERNAL,
                          "store %s lacks what every store has, or has both "
                          "exec and exec_in",
                          ops->scheme);
    }
    s = snib__alloc(sizeof *s);
    if (!s) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    s->ops = ops;
    s->out = config->out;
    snib__rng_init(&s->rng, &config->seed);
    snib__sharing_init(s, config->request);
    if (!snib__blocking_grow(s, FIRST_BUCKETS)) {
        blocking_free_store(s);
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    err = ops->open(config, &s->instance, reterr);
    if (err) {
        s->instance = NULL;
        blocking_free_store(s);
        return err;
    }
    *ret = s;
    return SNIB_ERR_OK;
}

static snib_err blocking_open_nameless(const struct snib__store_config *config,
                                       struct snib__store **ret,
                                       struct snib_error *reterr)
{
    (void)config;
    *ret = NULL;
    return snib__fail(reterr, SNIB_ERR_INTERNAL,
                      "a blocking store is opened by snib__blocking_open");
}

/* A library that others keep from working for a moment is well: only when that
 * has lasted for SNIB__BLOCKED_NS the store counts as not reachable, since the
 * first request that met it. One across a network has to answer first. */
static void blocking_state(const struct snib__store *s, snib_instant now,
                           struct snib__store_state *ret)
{
    bool far = snib__blocking_shares(s);
    if (far && snib__sharing_stalls(s, now, ret)) {
        return;
    }
    if (far && !s->last.since.ns) {
        ret->since = s->last.asked;
        snprintf(ret->text, sizeof ret->text, "%s",
                 ret->since.ns ? "no answer yet" : "not asked yet");
        return;
    }
    snib_instant until = s->last.blocked && !s->owned ? s->last.heard : now;
    if (s->last.err && (s->last.blocked || !far) &&
        snib__between(s->last.since, until).ns < SNIB__BLOCKED_NS) {
        ret->reachable = true; /* most likely another's write: it passes */
        ret->nodes_reachable = 1;
        return;
    }
    ret->err = s->last.err;
    ret->reachable = !s->last.err;
    ret->since = s->last.since;
    ret->nodes_reachable = ret->reachable;
    memcpy(ret->text, s->last.text, sizeof ret->text);
}

static bool blocking_server(const struct snib__store *s, snib_instant now,
                            uint32_t node, struct snib__server *ret)
{
    ret->state.nodes = 1;
    blocking_state(s, now, &ret->state);
    snprintf(ret->product, sizeof ret->product, "%s", s->ops->scheme);
    if (s->ops->server) {
        s->ops->server(s->instance, ret);
    }
    return node == 0;
}

const struct snib__store_ops snib__blocking_store_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__store_ops),
    .scheme = "",
    .caps = 0,
    .open = blocking_open_nameless,
    .start = blocking_start,
    .input = blocking_input,
    .due = blocking_due,
    .state = blocking_state,
    .server = blocking_server,
    .free = blocking_free_store,
};

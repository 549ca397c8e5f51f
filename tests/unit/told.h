/* tests/unit/told.h — every function of the public headers that answers with a
 * snib_err and needs a client, as a row that can be called: unit.told_* drive
 * all of them into one result after another.
 *
 * What each case has to show stands in tests/told.tsv: the pairs of a function
 * (or an event) and a result, which lint compares with the headers. A case is a
 * scene; each_row() takes its pairs from there, and in a world of its own each
 * has to end as it says.
 *
 * The store is memory:, by way of an exec() that can be made sick: then each
 * request is answered with that error, and nothing is done. It has recoveries,
 * as a Redis server with recovery= in its URL. */
#ifndef SNIB_TESTS_TOLD_H
#define SNIB_TESTS_TOLD_H

#include "run_memory.h"

#include "api/api.h"
#include "base/error.h"
#include "snib/deadlock.h"
#include "snib/elect.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/multi.h"
#include "snib/policy.h"
#include "snib/ring.h"
#include "snib/semaphore.h"
#include "snib/sys.h"
#include "snib/value.h"
#include "store/memory/memory.h"

/* Long enough for a store that answers on a busy machine; SOON where none
 * does. */
enum { LATE_MS = 20000, SOON_MS = 250 };

/* -- a store that can be made sick ------------------------------------------- */

static _Atomic int sick; /* a snib_err; OK: well                              */

/* The client whose next requests are held back until one of its acquisitions
 * leaves. NULL: none, or they have come. */
static struct snib_client *_Atomic held_back;

static bool leaves(const struct snib__acquisition *acq)
{
    return acq->state == SNIB__ACQ_LEAVING;
}

static bool somebody(struct snib_client *c,
                     bool (*is_so)(const struct snib__acquisition *))
{
    bool found = false;
    pthread_mutex_lock(&c->mu);
    SNIB__LIST_EACH (l, &c->locks) {
        struct snib_lock *lock = SNIB__CONTAINER(l, struct snib_lock, link);
        SNIB__LIST_EACH (k, &lock->holds) {
            const struct snib__acquisition *acq = snib__engine_acquisition(
                c->engine, SNIB__CONTAINER(k, struct snib__hold, link)->ticket);
            found = found || (acq && is_so(acq));
        }
    }
    pthread_mutex_unlock(&c->mu);
    return found;
}

/* As a store that has recoveries would: that of 7 runs for 9 ms more; 3 replicas
 * are missing. */
static bool ended_recovery(struct snib__list *all)
{
    struct snib__request *r =
        SNIB__CONTAINER(snib__list_first(all), struct snib__request, link);
    if (r->verb != SNIB__RECOVERY) {
        return false;
    }
    snib__rec_row(r->said.result, SNIB__ROW_RECOVERY);
    snib__rec_i64(r->said.result, SNIB__F_LEFT, 9);
    snib__rec_i64(r->said.result, SNIB__F_END, 7);
    snib__rec_i64(r->said.result, SNIB__F_COUNT, r->params.amount == 7);
    snib__rec_i64(r->said.result, SNIB__F_MISSING, 3);
    r->said.answer = SNIB__DONE;
    return true;
}

static void sick_exec(void *instance, snib_instant now, struct snib__list *all)
{
    snib_err err = (snib_err)atomic_load(&sick);
    struct snib_client *c = atomic_exchange(&held_back, NULL);
    while (c && !somebody(c, leaves)) {
        poll(NULL, 0, 1);
    }
    if (!err) {
        if (!ended_recovery(all)) {
            snib__memory_ops.exec(instance, now, all);
        }
        return;
    }
    SNIB__LIST_EACH (l, all) {
        struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        r->said.answer =
            err == SNIB_ERR_UNKNOWN ? SNIB__UNKNOWN : SNIB__NOT_APPLIED;
        r->said.err =
            snib__fail(r->said.reterr, err, "sick: %s", snib_err_name(err));
    }
}

static struct snib__blocking_ops sick_ops;

/* -- a world: what a call may need -------------------------------------------- */

enum {
    HELD = 1,    /* g is a grant of lock                                   */
    FIXED = 2,   /* lock's lease is fixed                                  */
    PERMITS = 4, /* lock is a semaphore of 3                               */
    MULTI = 8,   /* multi of lock and second                               */
    MULTI_HELD = 16,
    ELECT = 32, /* a candidate                                            */
    LEADS = 64,
    PLACE = 128, /* in ring "ring"                                         */
    LEFT = 256,  /* text is a grant of lock that was left behind, the
                       client has its identity                                */
    PULL = 512,
    NO_TEXT = 1024, /* the function has no reterr                             */
    VALUE = 2048,   /* "v" has the version                                    */
    VIRTUAL = 4096,
    ONCE = 8192,   /* lock is without re-entry                              */
    OTHER = 16384, /* a second client, other, and its lock                  */
    HASTY = 32768, /* c waits for SOON_MS only                              */
    SOME = 65536   /* in a scene: rows whose call is not in the table are
                      others' */
};

struct world {
    struct snib_client *c, *other, *first; /* first: who left a grant behind  */
    struct snib_lock *lock, *second, *others, *made;
    struct snib_grant g, got, grants[2];
    struct snib_multi *multi, *made_multi;
    struct snib_elect *elect, *made_elect;
    struct snib_ring_membership *place, *joined;
    struct snib_ring *ring;
    struct snib_view *view, **views;
    struct snib_cycle **cycles;
    struct snib_leader *leader;
    struct snib_value *value;
    struct snib_server *server;
    struct snib_recovery recovery;
    struct snib_semaphore size;
    size_t count;
    uint64_t ticket;
    int64_t version, changed, term, generation;
    uint32_t number;
    int result, stopped;
    bool flag, once;
    int64_t wait_ms;
    void (*meanwhile)(struct world *); /* in a callback of the call           */
    snib_err (*again)(struct snib_lock *, const struct snib_acquire_options *,
                      void *, uint64_t *, struct snib_error *);
    struct snib_acquire_options how;
    char text[SNIB_GRANT_TEXT], identity[SNIB_IDENTITY_TEXT];
};

static void must(snib_err err)
{
    if (err) {
        fail_msg("%s: %s", snib_err_name(err), e.text);
    }
}

static struct snib_client *client_of(unsigned needs, const char *identity)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    char url[80];
    snprintf(url, sizeof url, "memory:told%d%s", space,
             needs & VIRTUAL ? "?clock=virtual" : "");
    o.url = url;
    o.pull = needs & PULL;
    o.identity = identity;
    o.request_ms = needs & HASTY ? SOON_MS : LATE_MS;
    must(snib_client_open(&o, &c, &e));
    return c;
}

static struct snib_lock *lock_for(struct snib_client *c, unsigned needs)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.fixed_lease = needs & FIXED;
    o.no_reentry = needs & ONCE;
    o.kind = needs & PERMITS ? SNIB_KIND_PERMITS : SNIB_KIND_MUTEX;
    o.capacity = needs & PERMITS ? 3 : 0;
    must(snib_lock_new(c, "x", &o, &l, &e));
    return l;
}

static void take(struct world *w, struct snib_grant *ret)
{
    struct snib_event ev;
    if (!w->c->pull) {
        must(snib_try(w->lock, NULL, ret, &e));
        return;
    }
    must(snib_try_start(w->lock, NULL, NULL, &w->ticket, &e));
    for (int64_t end = now_ms() + 20000;
         !snib_client_next(w->c, &ev, sizeof ev);) {
        must(snib_client_process(w->c));
        assert_true(now_ms() < end);
    }
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    *ret = ev.grant;
}

static void leave_behind(struct world *w, unsigned needs)
{
    char identity[SNIB_IDENTITY_TEXT];
    take(w, &w->g);
    must(snib_grant_export(w->lock, w->g, w->text, sizeof w->text, &e));
    must(snib_grant_identity(w->text, identity, sizeof identity, &e));
    must(snib_grant_abandon(w->lock, w->g, &e));
    w->first = w->c; /* else the space would end */
    w->c = client_of(needs, identity);
    w->lock = lock_for(w->c, needs);
}

/* What was started in a pull client is well, and done. */
static void is_done(struct world *w)
{
    struct snib_event ev;
    for (int64_t end = now_ms() + 20000;
         !snib_client_next(w->c, &ev, sizeof ev);) {
        must(snib_client_process(w->c));
        assert_true(now_ms() < end);
    }
    must(ev.error.code);
}

static void lead_now(struct world *w)
{
    if (!w->c->pull) {
        must(snib_elect_try(w->elect, &w->term, &e));
        return;
    }
    must(snib_elect_try_start(w->elect, &w->term, NULL, &w->ticket, &e));
    is_done(w);
}

static void hold_both(struct world *w)
{
    if (!w->c->pull) {
        must(snib_multi_try(w->multi, NULL, w->grants, &e));
        return;
    }
    must(snib_multi_try_start(w->multi, NULL, w->grants, NULL, &w->ticket, &e));
    is_done(w);
}

static void join_ring(struct world *w)
{
    if (!w->c->pull) {
        must(snib_ring_join(w->c, "ring", 0, "a", NULL, &w->place, &e));
        return;
    }
    must(snib_ring_join_start(w->c, "ring", 0, "a", NULL, &w->place, NULL,
                              &w->ticket, &e));
    is_done(w);
}

static void put_value(struct world *w, unsigned needs)
{
    struct snib_client *c = client_of(needs & VIRTUAL, NULL);
    must(snib_value_put(c, "v", 0, 0, "1", 1, 0, &w->version, &e));
    snib_client_free(c);
}

static void world_begin(struct world *w, unsigned needs)
{
    memset(w, 0, sizeof *w);
    space++;
    atomic_store(&sick, 0); /* of a case that failed */
    w->c = client_of(needs, NULL);
    w->lock = lock_for(w->c, needs);
    if (needs & LEFT) {
        leave_behind(w, needs);
    }
    if (needs & HELD) {
        take(w, &w->g);
    }
    if (needs & (MULTI | MULTI_HELD)) {
        must(snib_lock_new(w->c, "y", NULL, &w->second, &e));
        struct snib_lock *both[] = {w->lock, w->second};
        must(snib_multi_new(both, 2, NULL, &w->multi, &e));
        if (needs & MULTI_HELD) {
            hold_both(w);
        }
    }
    if (needs & (ELECT | LEADS)) {
        must(snib_elect_new(w->c, "x", NULL, &w->elect, &e));
        if (needs & LEADS) {
            lead_now(w);
        }
    }
    if (needs & PLACE) {
        join_ring(w);
    }
    if (needs & VALUE) {
        put_value(w, needs);
    }
    if (needs & OTHER) {
        w->other = client_of(needs & VIRTUAL, NULL);
        w->others = lock_for(w->other, needs & PERMITS);
    }
    w->how = (struct snib_acquire_options)SNIB_INIT(snib_acquire_options);
    w->once = needs & ONCE;
    sick_ops = snib__memory_ops;
    sick_ops.exec = sick_exec;
    pthread_mutex_lock(&w->c->mu); /* as a store that may take its time */
    w->c->exec.ops = needs & NO_TEXT ? w->c->exec.ops : &sick_ops;
    w->c->exec.quick = w->c->exec.quick && needs & NO_TEXT;
    w->c->out->lease_most = snib__ms(SNIB_LEASE_MAX_MS); /* it has recoveries */
    pthread_mutex_unlock(&w->c->mu);
}

static void world_end(struct world *w)
{
    atomic_store(&sick, 0);
    snib_client_free(w->other);
    snib_view_free(w->view);
    snib_server_free(w->server);
    snib_views_free(w->views, w->views ? w->count : 0);
    snib_deadlocks_free(w->cycles, w->cycles ? w->count : 0);
    snib_leader_free(w->leader);
    snib_value_free(w->value);
    snib_ring_free(w->ring);
    snib_multi_free(w->multi);
    snib_multi_free(w->made_multi);
    if (w->place) {
        (void)snib_ring_leave(w->place, NULL);
    }
    if (w->joined) {
        (void)snib_ring_leave(w->joined, NULL);
    }
    snib_elect_free(w->elect);
    snib_elect_free(w->made_elect);
    snib_client_free(w->c);
    snib_client_free(w->first);
}

/* -- the calls ------------------------------------------------------------------ */

static int body(void *data, struct snib_grant g)
{
    struct world *w = data;
    (void)g;
    if (w->meanwhile) {
        w->meanwhile(w);
    }
    return 7;
}

static int compute(void *data, const struct snib_value *now,
                   struct snib_value_next *next)
{
    struct world *w = data;
    (void)now;
    if (w->meanwhile) {
        w->meanwhile(w);
    }
    *next = (struct snib_value_next){.bytes = "2", .size = 1};
    return 0;
}

static void hear(void *data, const struct snib_finding *f)
{
    (void)data;
    (void)f;
}

static const struct snib_policy *policy_of(const struct world *w)
{
    static struct snib_policy p;
    p = (struct snib_policy)SNIB_INIT(snib_policy);
    p.key = "x";
    p.lock = (struct snib_lock_options)SNIB_INIT(snib_lock_options);
    p.lock.no_reentry = w->once;
    return &p;
}

static snib_err scope(struct snib_scope s)
{
    snib_err err = s.err;
    snib_scope_end(&s);
    return err;
}

static struct snib_lock **pair_of(struct world *w)
{
    static struct snib_lock *both[1];
    both[0] = w->lock;
    return both;
}

/* X(function, what it needs, its call) */
#define LOCK_CALLS(X)                                                          \
    X(snib_lock_new, 0, snib_lock_new(w->c, "n", NULL, &w->made, &e))          \
    X(snib_acquire, 0, snib_acquire(w->lock, &w->how, &w->got, &e))            \
    X(snib_try, 0, snib_try(w->lock, &w->how, &w->got, &e))                    \
    X(snib_try_for, 0,                                                         \
      snib_try_for(w->lock, w->wait_ms, &w->how, &w->got, &e))                 \
    X(snib_release, HELD, snib_release(w->lock, w->g, &e))                     \
    X(snib_renew, HELD, snib_renew(w->lock, w->g, 0, &e))                      \
    X(snib_grant_request, HELD,                                                \
      snib_grant_request(w->lock, w->g, w->text, sizeof w->text, &e))          \
    X(snib_grant_export, HELD | FIXED,                                         \
      snib_grant_export(w->lock, w->g, w->text, sizeof w->text, &e))           \
    X(snib_grant_abandon, HELD | FIXED, snib_grant_abandon(w->lock, w->g, &e)) \
    X(snib_grant_adopt, LEFT | FIXED,                                          \
      snib_grant_adopt(w->lock, w->text, 0, &w->got, &e))                      \
    X(snib_acquire_start, 0,                                                   \
      snib_acquire_start(w->lock, &w->how, NULL, &w->ticket, &e))              \
    X(snib_try_start, 0,                                                       \
      snib_try_start(w->lock, &w->how, NULL, &w->ticket, &e))                  \
    X(snib_try_for_start, 0,                                                   \
      snib_try_for_start(w->lock, 20, &w->how, NULL, &w->ticket, &e))          \
    X(snib_release_start, HELD, snib_release_start(w->lock, w->g, NULL, &e))   \
    X(snib_client_process, PULL | NO_TEXT, snib_client_process(w->c))          \
    X(snib_scope_begin, 0, scope(snib_scope_begin(w->lock, &w->how, &e)))      \
    X(snib_scope_try, 0, scope(snib_scope_try(w->lock, &w->how, &e)))          \
    X(snib_scope_try_for, 0,                                                   \
      scope(snib_scope_try_for(w->lock, w->wait_ms, &w->how, &e)))             \
    X(snib_policy_run, 0,                                                      \
      snib_policy_run(w->c, policy_of(w), NULL, body, w, &w->result, &e))      \
    X(snib_policy_try, 0,                                                      \
      snib_policy_try(w->c, policy_of(w), NULL, body, w, &w->result, &e))      \
    X(snib_policy_try_for, 0,                                                  \
      snib_policy_try_for(w->c, w->wait_ms, policy_of(w), NULL, body, w,       \
                          &w->result, &e))                                     \
    X(snib_multi_new, 0,                                                       \
      snib_multi_new(pair_of(w), 1, NULL, &w->made_multi, &e))                 \
    X(snib_multi_acquire, MULTI,                                               \
      snib_multi_acquire(w->multi, &w->how, w->grants, &e))                    \
    X(snib_multi_try, MULTI, snib_multi_try(w->multi, &w->how, w->grants, &e)) \
    X(snib_multi_try_for, MULTI,                                               \
      snib_multi_try_for(w->multi, w->wait_ms, &w->how, w->grants, &e))        \
    X(snib_multi_release, MULTI_HELD,                                          \
      snib_multi_release(w->multi, w->grants, &e))                             \
    X(snib_semaphore_drain, PERMITS,                                           \
      snib_semaphore_drain(w->lock, &w->how, &w->got, &w->number, &e))         \
    X(snib_semaphore_slot, PERMITS | HELD,                                     \
      snib_semaphore_slot(w->lock, w->g, &w->number, &e))                      \
    X(snib_elect_new, 0, snib_elect_new(w->c, "x", NULL, &w->made_elect, &e))  \
    X(snib_elect_campaign, ELECT, snib_elect_campaign(w->elect, &w->term, &e)) \
    X(snib_elect_try, ELECT, snib_elect_try(w->elect, &w->term, &e))           \
    X(snib_elect_try_for, ELECT,                                               \
      snib_elect_try_for(w->elect, w->wait_ms, &w->term, &e))                  \
    X(snib_elect_resign, LEADS, snib_elect_resign(w->elect, &e))               \
    X(snib_ring_join, 0,                                                       \
      snib_ring_join(w->c, "ring", 0, "b", NULL, &w->joined, &e))              \
    X(snib_ring_try, 0,                                                        \
      snib_ring_try(w->c, "ring", 0, "b", NULL, &w->joined, &e))               \
    X(snib_ring_try_for, 0,                                                    \
      snib_ring_try_for(w->c, "ring", 0, "b", w->wait_ms, NULL, &w->joined,    \
                        &e))                                                   \
    X(snib_ring_leave, PLACE, leave_ring(w))

#define STORE_CALLS(X)                                                         \
    X(snib_client_inspect, 0, snib_client_inspect(w->c, "x", 0, &w->view, &e)) \
    X(snib_client_list, 0,                                                     \
      snib_client_list(w->c, NULL, &w->views, &w->count, &e))                  \
    X(snib_client_force_release, 0,                                            \
      snib_client_force_release(w->c, "x", 0, NULL, &w->number, &e))           \
    X(snib_client_doctor, 0, snib_client_doctor(w->c, hear, NULL, &e))         \
    X(snib_client_recovery, 0,                                                 \
      snib_client_recovery(w->c, 7, &w->recovery, sizeof w->recovery, &e))     \
    X(snib_client_server, 0, snib_client_server(w->c, &w->server, &e))         \
    X(snib_client_deadlocks, 0,                                                \
      snib_client_deadlocks(w->c, &w->cycles, &w->count, &e))                  \
    X(snib_elect_leader, ELECT, snib_elect_leader(w->elect, &w->leader, &e))   \
    X(snib_elect_watch, LEADS, snib_elect_watch(w->elect, 0, &w->leader, &e))  \
    X(snib_elect_watch_for, LEADS,                                             \
      snib_elect_watch_for(w->elect, 0, 0, &w->leader, &e))                    \
    X(snib_latch_set, 0, snib_latch_set(w->c, "x", 0, 2, &w->flag, &e))        \
    X(snib_latch_count_down, 0,                                                \
      snib_latch_count_down(w->c, "x", 0, 1, &w->number, &e))                  \
    X(snib_latch_left, 0, snib_latch_left(w->c, "x", 0, &w->number, &e))       \
    X(snib_latch_open, 0, snib_latch_open(w->c, "x", 0, &e))                   \
    X(snib_latch_await, 0, snib_latch_await(w->c, "x", 0, &e))                 \
    X(snib_latch_try, 0, snib_latch_try(w->c, "x", 0, &e))                     \
    X(snib_latch_try_for, 0, snib_latch_try_for(w->c, "x", 0, w->wait_ms, &e)) \
    X(snib_barrier_wait, 0,                                                    \
      snib_barrier_wait(w->c, "x", 0, 1, &w->generation, &e))                  \
    X(snib_barrier_try, 0,                                                     \
      snib_barrier_try(w->c, "x", 0, 1, &w->generation, &e))                   \
    X(snib_barrier_try_for, 0,                                                 \
      snib_barrier_try_for(w->c, "x", 0, 1, 20, &w->generation, &e))           \
    X(snib_latch_await_start, 0,                                               \
      snib_latch_await_start(w->c, "x", 0, NULL, &w->ticket, &e))              \
    X(snib_latch_try_start, 0,                                                 \
      snib_latch_try_start(w->c, "x", 0, NULL, &w->ticket, &e))                \
    X(snib_latch_try_for_start, 0,                                             \
      snib_latch_try_for_start(w->c, "x", 0, 20, NULL, &w->ticket, &e))        \
    X(snib_barrier_wait_start, 0,                                              \
      snib_barrier_wait_start(w->c, "x", 0, 1, NULL, &w->ticket, &e))          \
    X(snib_barrier_try_start, 0,                                               \
      snib_barrier_try_start(w->c, "x", 0, 1, NULL, &w->ticket, &e))           \
    X(snib_barrier_try_for_start, 0,                                           \
      snib_barrier_try_for_start(w->c, "x", 0, 1, 20, NULL, &w->ticket, &e))   \
    X(snib_ring_read, 0, snib_ring_read(w->c, "ring", 0, &w->ring, &e))        \
    X(snib_semaphore_get, 0,                                                   \
      snib_semaphore_get(w->c, "x", 0, &w->size, sizeof w->size, &e))          \
    X(snib_semaphore_set, 0,                                                   \
      snib_semaphore_set(w->c, "x", 0, 2, false, &w->flag, &e))                \
    X(snib_semaphore_add, PERMITS | HELD,                                      \
      snib_semaphore_add(w->c, "x", 0, 2, &e))                                 \
    X(snib_test_advance, VIRTUAL | NO_TEXT, snib_test_advance(w->c, 1))        \
    X(snib_test_drop_replies, NO_TEXT, snib_test_drop_replies(w->c, 0))        \
    X(snib_test_restart, NO_TEXT, snib_test_restart(w->c))                     \
    X(snib_test_expire, NO_TEXT, snib_test_expire(w->c, "x"))                  \
    X(snib_test_steal, NO_TEXT, snib_test_steal(w->c, "x", 1000))              \
    X(snib_value_get, 0, snib_value_get(w->c, "v", 0, &w->value, &e))          \
    X(snib_value_put, VALUE,                                                   \
      snib_value_put(w->c, "v", 0, w->version, "2", 1, 0, &w->changed, &e))    \
    X(snib_value_delete, VALUE,                                                \
      snib_value_delete(w->c, "v", 0, w->version, &w->changed, &e))            \
    X(snib_value_update, 0,                                                    \
      snib_value_update(w->c, "v", 0, NULL, compute, w, &w->stopped,           \
                        &w->changed, &e))                                      \
    X(snib_value_try, 0,                                                       \
      snib_value_try(w->c, "v", 0, NULL, compute, w, &w->stopped, &w->changed, \
                     &e))                                                      \
    X(snib_value_try_for, 0,                                                   \
      snib_value_try_for(w->c, "v", 0, w->wait_ms, NULL, compute, w,           \
                         &w->stopped, &w->changed, &e))

static snib_err leave_ring(struct world *w)
{
    struct snib_ring_membership *p = w->place;
    w->place = NULL;
    return snib_ring_leave(p, &e);
}

struct call {
    const char *function;
    unsigned needs;
    snib_err (*run)(struct world *);
};

/* What an X of such a table becomes: a function, and its row. */
#define BODY_OF_(prefix, f, call)                                              \
    static snib_err prefix##f(struct world *w)                                 \
    {                                                                          \
        (void)w;                                                               \
        return call;                                                           \
    }
#define CALL_BODY_(f, needs, call) BODY_OF_(call_, f, call)
#define CALL_ROW_(f, needs, call)  {#f, needs, call_##f},

/* A table of one row. */
#define ONE(...) ((const struct call[]){{__VA_ARGS__}})

LOCK_CALLS(CALL_BODY_)
STORE_CALLS(CALL_BODY_)

static const struct call calls[] = {LOCK_CALLS(CALL_ROW_)
                                        STORE_CALLS(CALL_ROW_)};

#include "told_results.h"

/* -- the calls that are answered by an event ------------------------------------- */

static struct snib_event next_event(struct world *w, snib_event_kind kind)
{
    struct snib_event ev;
    int64_t end = now_ms() + 20000;
    for (;;) {
        if (w->c->pull) {
            must(snib_client_process(w->c));
        }
        if (snib_client_next(w->c, &ev, sizeof ev)) {
            break;
        }
        assert_true(now_ms() < end);
        nap(1);
    }
    assert_int_equal(ev.kind, kind);
    return ev;
}

static snib_err event_of(struct world *w, snib_event_kind kind)
{
    struct snib_event ev = next_event(w, kind);
    assert_int_equal(ev.state, SNIB_STATE_RELEASED);
    assert_int_equal(ev.cause, SNIB_CAUSE_NONE);
    e = ev.error;
    return ev.error.code;
}

static snib_err refused(struct world *w)
{
    must(snib_try_for_start(w->lock, w->wait_ms, &w->how, w, &w->ticket, &e));
    return event_of(w, SNIB_EVENT_REFUSED);
}

static snib_err released(struct world *w)
{
    must(snib_release_start(w->lock, w->g, w, &e));
    return event_of(w, SNIB_EVENT_RELEASED);
}

static const struct call events[] = {
    {"SNIB_EVENT_REFUSED", PULL, refused},
    {"SNIB_EVENT_RELEASED", PULL | HELD, released},
};

/* -- what is told ------------------------------------------------------------------ */

/* It answered so, and its error says the same. */
static bool is_so(const struct call *of, snib_err got, snib_err want)
{
    return got == want && !atomic_load(&wrong_result) &&
           (of->needs & NO_TEXT || (e.code == want && !want == !*e.text &&
                                    memchr(e.text, 0, sizeof e.text)));
}

static void must_say(const struct call *of, snib_err got, snib_err want)
{
    const char *wrong = atomic_exchange(&wrong_result, NULL);
    if (wrong) {
        fail_msg("%s, %s: its result is not as snib.h says", wrong,
                 snib_err_name(got));
    }
    if (!is_so(of, got, want)) {
        fail_msg("%s: %s (%s: %.200s), expected %s", of->function,
                 snib_err_name(got), snib_err_name(e.code), e.text,
                 snib_err_name(want));
    }
}

static void must_hold(const struct call *of, bool good, const char *what)
{
    if (!good) {
        fail_msg("%s (%.200s): not so: %s", of->function, e.text, what);
    }
}

/* -- the rows of tests/told.tsv ------------------------------------------------- */

static snib_err err_named(const char *name)
{
    for (int i = 0; i <= SNIB_ERR_TOO_MANY; i++) {
        if (strcmp(snib_err_name((snib_err)i), name) == 0) {
            return (snib_err)i;
        }
    }
    fail_msg("no error is called %s", name);
    return SNIB_ERR_OK;
}

static const struct call *call_named(const struct call *in, size_t count,
                                     const char *function)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(in[i].function, function) == 0) {
            return &in[i];
        }
    }
    return NULL;
}

/* How each row of a case is shown: in a world of what its call needs and more,
 * set for it. Without a show the call is made and has to end as wanted. */
struct scene {
    unsigned more;
    void (*set)(struct world *, const struct call *);
    void (*show)(struct world *, const struct call *, snib_err want);
};

static void show_row(const struct scene *scene, const struct call *call,
                     snib_err want)
{
    struct world w;
    world_begin(&w, call->needs | scene->more);
    if (scene->set) {
        scene->set(&w, call);
    }
    memset(&e, 0xa5, sizeof e);
    if (scene->show) {
        scene->show(&w, call, want);
    } else {
        must_say(call, run_call(call, &w), want);
    }
    world_end(&w);
}

/* What tests/told.tsv says of this program and case, row by row. */
static void each_row_of(const char *name, const char *of_case,
                        const struct call *in, size_t count,
                        const struct scene *scene)
{
    char line[512], *field[4], *next;
    int shown = 0;
    FILE *rows = fopen(SNIB_TESTS "/told.tsv", "re");
    assert_non_null(rows);
    while (fgets(line, sizeof line, rows)) {
        field[0] = strtok_r(line, "\t\n", &next);
        for (int i = 1; i < 4; i++) {
            field[i] = strtok_r(NULL, "\t\n", &next);
        }
        if (field[3] && !strcmp(field[2], name) && !strcmp(field[3], of_case)) {
            const struct call *call = call_named(in, count, field[0]);
            if (call) {
                show_row(scene, call, err_named(field[1]));
                shown++;
            } else if (!(scene->more & SOME)) {
                fail_msg("there is no call of %s here", field[0]);
            }
        }
    }
    (void)fclose(rows);
    assert_true(shown > 0);
}

/* The rows of the case that this stands in, by the calls of a table and the
 * members of a scene. TOLD: the program's name in told.tsv. */
#define each_row(in, ...)                                                      \
    each_row_of(TOLD, __func__, in, COUNT_OF(in), &(struct scene){__VA_ARGS__})

#endif

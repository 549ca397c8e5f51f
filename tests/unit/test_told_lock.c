/* tests/unit/test_told_lock.c — held by another, waited in vain, called off,
 * lost, given back before, another thread's, a wait without end: each function
 * says so. labels: thread */
#include "core/engine_i.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "told.h"

#define TOLD "unit.told_lock"

/* -- held by another ---------------------------------------------------------- */

static void change_value(struct world *w)
{
    struct snib_value *v;
    struct snib_error mine;
    assert_int_equal(snib_value_get(w->other, "v", 0, &v, &mine), SNIB_ERR_OK);
    assert_int_equal(
        snib_value_put(w->other, "v", 0, v->version, "3", 1, 0, NULL, &mine),
        SNIB_ERR_OK);
    snib_value_free(v);
}

static void stand_in_the_way(struct world *w, const struct call *call)
{
    const char *f = call->function;
    struct snib_lock_options all = SNIB_INIT(snib_lock_options);
    struct snib_lock *l = w->others;
    uint32_t count;
    if (strncmp(f, "snib_value", 10) == 0) {
        change_value(w);
        w->meanwhile = change_value;
    } else if (strncmp(f, "snib_latch", 10) == 0) {
        must(snib_latch_set(w->other, "x", 0, 1, NULL, &e));
    } else if (call->needs & LEFT) { /* what it wants itself */
        must(snib_acquire_start(w->lock, NULL, NULL, &w->ticket, &e));
    } else if (call->needs & PERMITS) {
        must(snib_semaphore_drain(l, NULL, &w->got, &count, &e));
    } else if (strcmp(f, "snib_ring_join") == 0) { /* for ever, for a writer */
        must(snib_ring_try(w->c, "ring", 0, "b", NULL, &w->place, &e));
    } else if (strncmp(f, "snib_barrier", 12) != 0 &&
               strncmp(f, "snib_elect_watch", 16) != 0) {
        must(snib_try(l, NULL, &w->got, &e));
        must(snib_lock_new(w->other, "ring", &all, &l, &e));
        must(snib_try(l, NULL, &w->got, &e));
    }
    memset(&w->got, 0, sizeof w->got);
}

static void show_taken(struct world *w, const struct call *call, snib_err want)
{
    w->wait_ms = want == SNIB_ERR_TIMEOUT ? 20 : 0;
    int64_t began = now_ms();
    must_say(call, run_call(call, w), want);
    must_hold(call, want != SNIB_ERR_TIMEOUT || now_ms() - began >= 19,
              "it waited");
    must_hold(call, w->got.ticket == 0, "it got nothing");
}

static void what_another_has_is_told_at_once(void **state)
{
    (void)state;
    each_row(calls, OTHER, stand_in_the_way, show_taken);
}

static void what_another_has_is_in_the_event(void **state)
{
    (void)state;
    each_row(events, OTHER, stand_in_the_way, show_taken);
}

static snib_err try_barrier_of_two(struct world *w)
{
    return snib_barrier_try(w->c, "x", 0, 2, &w->generation, &e);
}

static snib_err barrier_of_two(struct world *w)
{
    return snib_barrier_try_for(w->c, "x", 0, 2, w->wait_ms, &w->generation,
                                &e);
}

static snib_err watch_nobody(struct world *w)
{
    return snib_elect_watch_for(w->elect, 0, w->wait_ms, &w->leader, &e);
}

static const struct call others_wanted[] = {
    {"snib_barrier_try", 0, try_barrier_of_two},
    {"snib_barrier_try_for", 0, barrier_of_two},
    {"snib_elect_watch_for", ELECT, watch_nobody},
};

static void who_waits_in_vain_is_told_at_the_limit(void **state)
{
    (void)state;
    each_row(calls, OTHER, stand_in_the_way, show_taken);
}

static void who_waits_for_nobody_is_told_at_the_limit(void **state)
{
    (void)state;
    each_row(others_wanted, OTHER, stand_in_the_way, show_taken);
}

/* -- called off ----------------------------------------------------------------- */

struct waiter {
    const struct call *call;
    struct world *w;
    snib_err err;
};

static void *waits(void *arg)
{
    struct waiter *me = arg;
    me->err = run_call(me->call, me->w);
    return NULL;
}

/* The store has said so, and the client has read it. */
static bool is_queued(const struct snib__acquisition *acq)
{
    const struct snib__claim *claim = acq->local->claim;
    return acq->state == SNIB__ACQ_WAITING && claim &&
           claim->state == SNIB__CLAIM_QUEUED;
}

/* Until the client itself knows that it waits: called off before, a call would
 * have to say UNKNOWN. */
static void until_queued(struct snib_client *c)
{
    int64_t end = now_ms() + 20000;
    while (!somebody(c, is_queued)) {
        assert_true(now_ms() < end);
        nap(1);
    }
}

static void bar_for_ever(struct world *w, const struct call *call)
{
    stand_in_the_way(w, call);
    w->wait_ms = INT64_MAX;
}

static void call_off(struct world *w, const char *f)
{
    if (strncmp(f, "snib_elect", 10) == 0) {
        assert_int_equal(snib_elect_resign(w->elect, NULL), SNIB_ERR_OK);
    } else if (strncmp(f, "snib_multi", 10) == 0) {
        snib_multi_cancel(w->multi);
    } else {
        snib_lock_free(w->lock);
    }
}

/* The call of another thread; off: once it waits it is called off. */
static void show_upgrade_of(struct world *w, const struct call *call,
                            snib_err want, bool off)
{
    struct waiter me = {call, w, SNIB_ERR_OK};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, waits, &me), 0);
    if (off) {
        until_queued(w->c);
        call_off(w, call->function);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    must_say(call, me.err, want);
}

static void show_called_off(struct world *w, const struct call *call,
                            snib_err want)
{
    show_upgrade_of(w, call, want, true);
}

static void a_wait_that_is_called_off_says_so(void **state)
{
    (void)state;
    each_row(calls, OTHER, bar_for_ever, show_called_off);
}

/* A try is called off while its request is with the store: the store answers
 * once the acquisition leaves. */
static void show_try_called_off(struct world *w, const struct call *call,
                                snib_err want)
{
    struct waiter me = {call, w, SNIB_ERR_OK};
    pthread_t thread;
    atomic_store(&held_back, w->c);
    assert_int_equal(pthread_create(&thread, NULL, waits, &me), 0);
    while (atomic_load(&held_back)) { /* until exec() has seen it */
        nap(1);
    }
    call_off(w, call->function);
    assert_int_equal(pthread_join(thread, NULL), 0);
    must_say(call, me.err, want);
}

static void a_try_that_is_called_off_says_so(void **state)
{
    (void)state;
    each_row(calls, .show = show_try_called_off);
}

static snib_err cancelled(struct world *w)
{
    must(snib_acquire_start(w->lock, &w->how, w, &w->ticket, &e));
    snib_client_cancel(w->c, w->ticket);
    return event_of(w, SNIB_EVENT_REFUSED);
}

static void a_start_that_is_called_off_says_so(void **state)
{
    (void)state;
    each_row(ONE("SNIB_EVENT_REFUSED", PULL, cancelled), .more = OTHER,
             .set = bar_for_ever);
}

static snib_err closed_over(struct world *w)
{
    must(snib_acquire_start(w->lock, &w->how, w, &w->ticket, &e));
    snib_client_close(w->c);
    return event_of(w, SNIB_EVENT_REFUSED);
}

static void a_start_whose_client_is_closed_says_so(void **state)
{
    (void)state;
    each_row(ONE("SNIB_EVENT_REFUSED", 0, closed_over), .more = OTHER,
             .set = bar_for_ever);
}

/* -- lost ------------------------------------------------------------------------ */

enum { HOLDS = HELD | MULTI_HELD | LEADS | PLACE | LEFT };

static void end_all_by_force(struct world *w)
{
    uint32_t ended;
    must(snib_client_force_release(w->other, "x", 0, "told", &ended, &e));
    must(snib_client_force_release(w->other, "ring", 0, "told", &ended, &e));
}

/* Who asks for a lock that its owner has lost, is told so, too. What does no I/O
 * says what the client knows. */
static void lose(struct world *w, const struct call *call)
{
    bool asks = !(call->needs & HOLDS);
    if (asks) {
        take(w, &w->g);
    }
    end_all_by_force(w);
    if (asks || (w->g.ticket && !strncmp(call->function, "snib_grant", 10) &&
                 !(call->needs & LEFT))) {
        assert_int_equal(snib_renew(w->lock, w->g, 0, &e), SNIB_ERR_LOST);
    }
}

static void what_was_lost_is_told_so(void **state)
{
    (void)state;
    each_row(calls, .more = OTHER, .set = lose);
}

static void what_was_lost_is_in_the_event(void **state)
{
    (void)state;
    each_row(events, .more = OTHER, .set = lose);
}

/* -- given back before; by another thread; twice ------------------------------------- */

static void give_back(struct world *w, const struct call *call)
{
    if (call->needs & HELD) {
        must(snib_release(w->lock, w->g, &e));
    } else if (call->needs & MULTI_HELD) {
        must(snib_multi_release(w->multi, w->grants, &e));
    } else {
        must(snib_elect_resign(w->elect, &e));
    }
}

static void what_was_given_back_before_is_told_so(void **state)
{
    (void)state;
    each_row(calls, .set = give_back);
}

static void show_stranger(struct world *w, const struct call *call,
                          snib_err want)
{
    show_upgrade_of(w, call, want, false);
}

static void what_another_thread_holds_is_told_so(void **state)
{
    (void)state;
    each_row(calls, .show = show_stranger);
}

static void a_wait_for_oneself_is_told_so(void **state)
{
    (void)state;
    each_row(calls, .more = HELD | ONCE);
}

/* -- owners of one's own -------------------------------------------------------------- */

/* The owner that has it starts a second acquire. */
static snib_err start_again(struct world *w)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.owner = snib_owner_new();
    must(snib_try(w->lock, &o, &w->g, &e));
    if (!w->once) {
        end_all_by_force(w);
        assert_int_equal(snib_renew(w->lock, w->g, 0, &e), SNIB_ERR_LOST);
    }
    memset(&e, 0xa5, sizeof e);
    return w->again(w->lock, &o, NULL, &w->ticket, &e);
}

static snib_err acquire_again(struct world *w)
{
    w->again = snib_acquire_start;
    return start_again(w);
}

static snib_err try_again(struct world *w)
{
    w->again = snib_try_start;
    return start_again(w);
}

static snib_err start_for(struct snib_lock *l,
                          const struct snib_acquire_options *o, void *user,
                          uint64_t *ret, struct snib_error *error)
{
    return snib_try_for_start(l, 20, o, user, ret, error);
}

static snib_err try_for_again(struct world *w)
{
    w->again = start_for;
    return start_again(w);
}

static const struct call second_starts[] = {
    {"snib_acquire_start", 0, acquire_again},
    {"snib_try_start", 0, try_again},
    {"snib_try_for_start", 0, try_for_again},
};

static void a_start_by_a_owner_that_lost_it_is_told_so(void **state)
{
    (void)state;
    each_row(second_starts, .more = OTHER);
}

static void a_start_for_oneself_is_told_so(void **state)
{
    (void)state;
    each_row(second_starts, .more = ONCE);
}

#define BUSY_STARTS(X)                                                         \
    X(snib_try_start, HELD,                                                    \
      snib_try_start(w->lock, NULL, NULL, &w->ticket, &e))                     \
    X(snib_try_for_start, HELD,                                                \
      snib_try_for_start(w->lock, -1, NULL, NULL, &w->ticket, &e))             \
    X(snib_latch_try_start, HELD,                                              \
      snib_latch_try_start(w->c, "x", 0, NULL, &w->ticket, &e))                \
    X(snib_latch_try_for_start, HELD,                                          \
      snib_latch_try_for_start(w->c, "x", 0, 0, NULL, &w->ticket, &e))         \
    X(snib_barrier_try_start, HELD,                                            \
      snib_barrier_try_start(w->c, "x", 0, 2, NULL, &w->ticket, &e))           \
    X(snib_barrier_try_for_start, HELD,                                        \
      snib_barrier_try_for_start(w->c, "x", 0, 2, 0, NULL, &w->ticket, &e))

#define BUSY_BODY_(f, needs, call) BODY_OF_(busy_, f, call)
#define BUSY_ROW_(f, needs, call)  {#f, needs, busy_##f},

BUSY_STARTS(BUSY_BODY_)

static const struct call busy_starts[] = {BUSY_STARTS(BUSY_ROW_)};

static void
a_try_beside_another_owner_of_its_client_is_busy_at_once(void **state)
{
    (void)state;
    each_row(busy_starts, 0);
}

static struct snib_lock *of_kind(struct snib_client *c, snib_kind kind)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.kind = kind;
    must(snib_lock_new(c, "x", &o, &l, &e));
    return l;
}

/* A reader wants to write; another does already, or has ended it by force. */
static snib_err write_upgrade(struct world *w, bool forced)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options), theirs = o;
    uint64_t ticket;
    theirs.owner = snib_owner_new();
    o.owner = snib_owner_new();
    w->lock = of_kind(w->c, SNIB_KIND_READ);
    must(snib_try_start(w->lock, &o, NULL, &w->ticket, &e));
    next_event(w, SNIB_EVENT_GRANTED);
    if (forced) {
        end_all_by_force(w);
    } else {
        must(snib_acquire(of_kind(w->other, SNIB_KIND_READ), &theirs, &w->got,
                          &e));
        must(snib_acquire_start(of_kind(w->other, SNIB_KIND_WRITE), &theirs,
                                NULL, &ticket, &e));
        until_queued(w->other);
    }
    must(snib_acquire_start(of_kind(w->c, SNIB_KIND_WRITE), &o, w, &w->ticket,
                            &e));
    return event_of(w, SNIB_EVENT_REFUSED);
}

static snib_err second_writer(struct world *w)
{
    return write_upgrade(w, false);
}

static snib_err writer_beside_nothing(struct world *w)
{
    return write_upgrade(w, true);
}

static void a_second_reader_that_wants_to_write_is_told_so(void **state)
{
    (void)state;
    each_row(ONE("SNIB_EVENT_REFUSED", PULL, second_writer), .more = OTHER);
}

static void a_reader_whose_grant_is_over_is_told_so(void **state)
{
    (void)state;
    each_row(ONE("SNIB_EVENT_REFUSED", PULL, writer_beside_nothing),
             .more = OTHER);
}

static void make_it_empty(struct world *w, const struct call *call)
{
    (void)call;
    must(snib_semaphore_set(w->other, "x", 0, 0, false, NULL, &e));
    w->wait_ms = INT64_MAX;
}

static void more_permits_than_there_are_is_told_so(void **state)
{
    (void)state;
    each_row(calls, .more = OTHER | PERMITS, .set = make_it_empty);
}

static void more_permits_than_there_are_is_in_the_event(void **state)
{
    (void)state;
    each_row(events, .more = OTHER | PERMITS, .set = make_it_empty);
}

int main(void)
{
    const struct CMUnitTest told_lock[] = {
        cmocka_unit_test(what_another_has_is_told_at_once),
        cmocka_unit_test(what_another_has_is_in_the_event),
        cmocka_unit_test(who_waits_in_vain_is_told_at_the_limit),
        cmocka_unit_test(who_waits_for_nobody_is_told_at_the_limit),
        cmocka_unit_test(a_wait_that_is_called_off_says_so),
        cmocka_unit_test(a_try_that_is_called_off_says_so),
        cmocka_unit_test(a_start_that_is_called_off_says_so),
        cmocka_unit_test(a_start_whose_client_is_closed_says_so),
        cmocka_unit_test(what_was_lost_is_told_so),
        cmocka_unit_test(what_was_lost_is_in_the_event),
        cmocka_unit_test(what_was_given_back_before_is_told_so),
        cmocka_unit_test(what_another_thread_holds_is_told_so),
        cmocka_unit_test(a_wait_for_oneself_is_told_so),
        cmocka_unit_test(a_start_by_a_owner_that_lost_it_is_told_so),
        cmocka_unit_test(a_start_for_oneself_is_told_so),
        cmocka_unit_test(
            a_try_beside_another_owner_of_its_client_is_busy_at_once),
        cmocka_unit_test(a_second_reader_that_wants_to_write_is_told_so),
        cmocka_unit_test(a_reader_whose_grant_is_over_is_told_so),
        cmocka_unit_test(more_permits_than_there_are_is_told_so),
        cmocka_unit_test(more_permits_than_there_are_is_in_the_event),
    };
    return RUN(told_lock);
}

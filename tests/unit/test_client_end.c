/* tests/unit/test_client_end.c — a stop that is started, on memory: in threaded
 * and in pull clients. labels: thread oom */
#include "started.h"

static int64_t took_free(struct snib_client *c)
{
    int64_t began = now_ms();
    snib_client_free(c);
    return now_ms() - began;
}

/* Its event may come behind those of what was started before. */
static struct snib_event stopped_of(struct snib_client *c, uint64_t ticket)
{
    for (;;) {
        struct snib_event ev = next_of(c);
        if (ev.kind == SNIB_EVENT_DONE && ev.grant.ticket == ticket) {
            return ev;
        }
    }
}

static void what_is_well_is_stopped(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct snib_client *other = open_client("", false);
        struct snib_lock *l = lock_of(c, "x");
        struct snib_event ev;
        uint64_t ticket;
        int me;
        must(snib_try_start(l, NULL, NULL, NULL, &e));
        struct snib_grant g = next_of(c).grant;
        assert_int_equal(snib_client_stop_start(c, &me, &ticket, &e),
                         SNIB_ERR_OK);
        ev = stopped_of(c, ticket);
        must(ev.error.code);
        assert_ptr_equal(ev.user, &me);
        assert_true(free_for(other, "x"));
        assert_false(snib_grant_held(l, g));
        no_event(c);
        snib_lock_free(l);
        assert_true(took_free(c) < 1000);
        snib_client_free(other);
    }
}

/* Nothing was ever asked: no thread is started for it. */
static void who_never_asked_is_stopped_at_once(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct snib_event ev;
        uint64_t ticket;
        must(snib_client_stop_start(c, NULL, &ticket, &e));
        assert_true(snib_client_next(c, &ev, sizeof ev));
        assert_int_equal(ev.grant.ticket, ticket);
        must(ev.error.code);
        assert_false(c->background.on);
        snib_client_free(c);
    }
}

static void a_client_is_stopped_once(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        uint64_t ticket, second = 7;
        must(snib_client_stop_start(c, NULL, &ticket, &e));
        assert_int_equal(snib_client_stop_start(c, NULL, &second, &e),
                         SNIB_ERR_CLOSED);
        assert_int_equal(second, 0);
        snib_client_cancel(c, ticket); /* a stop is not cancelled */
        must(stopped_of(c, ticket).error.code);
        snib_client_stop(c);
        assert_int_equal(snib_client_stop_start(c, NULL, &second, &e),
                         SNIB_ERR_CLOSED);
        no_event(c);
        snib_client_free(c);
    }
}

/* After close, with what others wait for; their events come first. */
static void what_was_started_before_is_told_before(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct snib_client *other = open_client("", false);
        struct snib_lock *l = lock_of(c, "x"), *theirs = lock_of(other, "x");
        struct snib_grant g;
        uint64_t waits, ticket;
        must(snib_try(theirs, NULL, &g, &e));
        must(snib_acquire_start(l, NULL, NULL, &waits, &e));
        is_waited_for(c, other, "x");
        snib_client_close(c);
        must(snib_client_stop_start(c, NULL, &ticket, &e));
        struct snib_event ev = next_of(c);
        assert_int_equal(ev.grant.ticket, waits);
        assert_int_equal(ev.error.code, SNIB_ERR_CLOSED);
        must(done_of(c, ticket).error.code);
        snib_client_free(c);
        must(snib_release(theirs, g, &e));
        assert_true(free_for(other, "x"));
        snib_client_free(other);
    }
}

static void by_whom_it_is_stopped_is_all_the_same(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct snib_lock *l = lock_of(c, "x");
        struct snib_event ev;
        uint64_t ticket;
        must(snib_try_start(l, NULL, NULL, NULL, &e));
        assert_int_equal(next_of(c).kind, SNIB_EVENT_GRANTED);
        slow_down(c);
        must(snib_client_stop_start(c, NULL, &ticket, &e));
        snib_client_stop(c); /* it waits, and is faster */
        do {
            assert_true(snib_client_next(c, &ev, sizeof ev));
        } while (ev.kind != SNIB_EVENT_DONE);
        assert_int_equal(ev.grant.ticket, ticket);
        must(ev.error.code);
        snib_client_free(c);
    }
}

static void free_may_come_first(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct snib_client *other = open_client("", false);
        struct snib_lock *l = lock_of(c, "x");
        must(snib_try_start(l, NULL, NULL, NULL, &e));
        assert_int_equal(next_of(c).kind, SNIB_EVENT_GRANTED);
        must(snib_client_stop_start(c, NULL, NULL, &e));
        snib_client_free(c);
        assert_true(free_for(other, "x"));
        snib_client_free(other);
    }
}

/* -- a store that does not answer ----------------------------------------------- */

enum { SOON_MS = 100 };

static struct snib_client *hasty(bool pull)
{
    char url[64];
    snprintf(url, sizeof url, "memory:case%d", space);
    return client_on(url, pull, SOON_MS);
}

/* A worker is stuck in the store: it is told, and nobody hangs before. */
static void who_is_stuck_in_the_store_is_told_of(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = hasty(pull);
        struct snib_lock *l = lock_of(c, "x");
        uint64_t ticket;
        must(snib_try_start(l, NULL, NULL, NULL, &e));
        assert_int_equal(next_of(c).kind, SNIB_EVENT_GRANTED);
        slow_down(c);
        stand_still(true);
        int64_t began = now_ms();
        must(snib_client_stop_start(c, NULL, &ticket, &e));
        struct snib_event ev = stopped_of(c, ticket);
        assert_int_equal(ev.error.code, SNIB_ERR_STORE);
        assert_non_null(strstr(ev.error.text, "snib_client_free waits"));
        assert_true(now_ms() - began >= 2 * SOON_MS);
        stand_still(false);
        snib_client_free(c);
    }
}

static void silent_exec(void *instance, snib_instant now,
                        struct snib__list *all)
{
    (void)instance;
    (void)now;
    SNIB__LIST_EACH (l, all) {
        struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        r->said.answer = SNIB__UNKNOWN;
        r->said.err = SNIB_ERR_UNKNOWN;
    }
}

/* Nobody is stuck, and nothing is confirmed. */
static void what_is_not_confirmed_is_told_as_unknown(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = hasty(pull);
        struct snib_lock *l = lock_of(c, "x");
        uint64_t ticket;
        must(snib_try_start(l, NULL, NULL, NULL, &e));
        assert_int_equal(next_of(c).kind, SNIB_EVENT_GRANTED);
        slow_down(c);
        still_ops.exec = silent_exec;
        must(snib_client_stop_start(c, NULL, &ticket, &e));
        struct snib_event ev = stopped_of(c, ticket);
        assert_int_equal(ev.error.code, SNIB_ERR_UNKNOWN);
        assert_non_null(strstr(ev.error.text, "did not answer"));
        assert_true(took_free(c) < 1000);
    }
}

/* -- a function of the program's that takes its time -------------------------------- */

static void holds_up(void *data, struct snib_grant g, snib_state is,
                     snib_cause why)
{
    (void)g;
    (void)is;
    (void)why;
    atomic_store((_Atomic bool *)data, true);
    pthread_mutex_lock(&mu);
    while (stands) {
        pthread_cond_wait(&moved, &mu);
    }
    pthread_mutex_unlock(&mu);
}

static void a_callback_that_runs_is_waited_for(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_client *other = open_client("", false);
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    _Atomic bool called = false;
    struct snib_lock *l;
    struct snib_event ev;
    struct snib_grant g;
    uint64_t ticket;
    uint32_t ended;
    o.on_change = holds_up;
    o.data = &called;
    must(snib_lock_new(c, "x", &o, &l, &e));
    must(snib_try(l, NULL, &g, &e));
    stand_still(true);
    must(snib_client_force_release(other, "x", 0, NULL, &ended, &e));
    assert_int_equal(snib_renew(l, g, 0, &e), SNIB_ERR_LOST);
    for (int64_t end = now_ms() + 20000; !atomic_load(&called); nap(1)) {
        assert_true(now_ms() < end);
    }
    must(snib_client_stop_start(c, NULL, &ticket, &e));
    nap(50);
    assert_false(snib_client_next(c, &ev, sizeof ev));
    stand_still(false);
    must(stopped_of(c, ticket).error.code);
    assert_true(took_free(c) < 1000);
    snib_client_free(other);
}

/* -- what is refused --------------------------------------------------------------- */

static void in_a_forked_child_nothing_is_stopped(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_error mine;
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        alarm(20);
        _exit(snib_client_stop_start(c, NULL, NULL, &mine) == SNIB_ERR_FORKED
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    snib_client_free(c);
}

static void without_descriptors_no_stop_is_started(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct rlimit was = take_descriptors();
        snib_err err = snib_client_stop_start(c, NULL, NULL, &e);
        give_descriptors(was);
        assert_int_equal(err, SNIB_ERR_LIMIT);
        must(snib_client_stop_start(c, NULL, NULL, &e)); /* it is not closed */
        snib_client_free(c);
    }
}

static void without_memory_no_stop_is_started(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct snib_client *c = open_client("", pull);
        struct snib_lock *l = lock_of(c, "x");
        bool said = false;
        uint64_t ticket;
        must(snib_try_start(l, NULL, NULL, NULL, &e));
        assert_int_equal(next_of(c).kind, SNIB_EVENT_GRANTED);
        for (int n = 1;; n++) {
            snib__mem_fail_at(n, true);
            snib_err err = snib_client_stop_start(c, NULL, &ticket, &e);
            snib__mem_fail_at(0, false);
            if (!err) {
                break;
            }
            assert_int_equal(err, SNIB_ERR_NOMEM);
            said = true;
        }
        assert_true(said);
        must(stopped_of(c, ticket).error.code);
        snib_client_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(what_is_well_is_stopped),
        CASE(who_never_asked_is_stopped_at_once),
        CASE(a_client_is_stopped_once),
        CASE(what_was_started_before_is_told_before),
        CASE(by_whom_it_is_stopped_is_all_the_same),
        CASE(free_may_come_first),
        CASE(who_is_stuck_in_the_store_is_told_of),
        CASE(what_is_not_confirmed_is_told_as_unknown),
        CASE(a_callback_that_runs_is_waited_for),
        CASE(in_a_forked_child_nothing_is_stopped),
        CASE(without_descriptors_no_stop_is_started),
        CASE(without_memory_no_stop_is_started),
    };
    return RUN(cases);
}

/* tests/unit/test_file_waits.c — processes wait for a lock in a mapped file, by
 * the public interface: how many threads it takes, who wakes them, what ends
 * the wait. */
#include "processes.h"

#include <pthread.h>

#include "tasks.h"

static void wait_for_it(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_lock *l = lock_of(c, false, 60000);
    struct snib_grant g;
    struct snib_error e = {0};
    say_error(snib_acquire(l, NULL, &g, &e), &e);
    await();
}

/* -- threads ------------------------------------------------------------------------ */

static void say_threads_and_wait(void)
{
    dprintf(child_out, "%d\n", threads_now());
    wait_for_it();
}

/* One more than before, in the background: nobody hears for the caller's. */
static void a_blocking_wait_needs_no_thread_of_its_own(void **state)
{
    (void)state;
    struct process holder = begin(hold_until_told);
    hear_that(&holder, "ok");
    struct process waiter = begin(say_threads_and_wait);
    int threads = atoi(hear(&waiter));
    until_wait(1);
    assert_int_equal(threads_of(waiter.pid), threads + 1);
    tell(&holder);
    hear_that(&waiter, "ok");
    hear_that(&holder, "ok");
    end_by(&waiter, SIGKILL);
    end_by(&holder, SIGKILL);
}

/* -- what ends a wait ----------------------------------------------------------------- */

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* It would hold for a minute, and the waiter's poll comes after a second: most
 * are quicker. */
static void a_killed_holder_is_noticed_while_a_call_sleeps(void **state)
{
    enum { ROUNDS = 5, QUICK_MS = 500 };
    int quick = 0;
    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        struct process holder = begin(hold_until_told);
        hear_that(&holder, "ok");
        struct process waiter = begin(wait_for_it);
        until_wait(1);
        int64_t killed = now_ms();
        end_by(&holder, SIGKILL);
        hear_that(&waiter, "ok");
        quick += now_ms() - killed < QUICK_MS;
        end_by(&waiter, SIGKILL);
    }
    assert_true(quick >= 3);
}

static void killed_holders_are_noticed_one_after_the_other(void **state)
{
    enum { COUNT = 6 };
    struct process p[COUNT];
    (void)state;
    p[0] = begin(hold_until_told);
    hear_that(&p[0], "ok");
    for (int i = 1; i < COUNT; i++) {
        p[i] = begin(wait_for_it);
        until_wait(i);
    }
    for (int i = 1; i < COUNT; i++) {
        end_by(&p[i - 1], SIGKILL);
        hear_that(&p[i], "ok");
    }
    end_by(&p[COUNT - 1], SIGKILL);
}

static void *close_it(void *client)
{
    snib_client_close(client);
    return NULL;
}

/* Woken by another thread of its own process. */
static void wait_until_closed(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_lock *l = lock_of(c, false, 60000);
    struct snib_grant g;
    struct snib_error e = {0};
    pthread_t thread;
    snib_err err = acquire(l, 50, &g, &e);
    say(err == SNIB_ERR_TIMEOUT ? "timeout" : "something else");
    await();
    if (pthread_create(&thread, NULL, close_it, c)) {
        _exit(6);
    }
    say_error(snib_acquire(l, NULL, &g, &e), &e);
    pthread_join(thread, NULL);
    snib_client_free(c);
}

static void limit_and_close_end_a_wait(void **state)
{
    (void)state;
    struct process holder = begin(hold_until_told);
    hear_that(&holder, "ok");
    struct process waiter = begin(wait_until_closed);
    hear_that(&waiter, "timeout");
    tell(&waiter);
    hear_that(&waiter, "CLOSED");
    assert_int_equal(over(&waiter), 0);
    end_by(&holder, SIGKILL);
}

/* -- without a call ------------------------------------------------------------------- */

/* Who holds, and has waited before, is told of a forced release by its
 * background thread. */
static void wait_and_hold(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_lock *l = lock_of(c, false, 60000);
    struct snib_grant g;
    struct snib_error e = {0};
    struct snib_status is;
    say_error(snib_acquire(l, NULL, &g, &e), &e);
    do {
        poll(NULL, 0, 1);
        snib_grant_status(l, g, &is, sizeof is);
    } while (is.state < SNIB_STATE_LOST);
    say(is.cause == SNIB_CAUSE_REVOKED ? "revoked" : "lost otherwise");
}

static void force_it(void)
{
    struct snib_error e = {0};
    struct snib_client *c = must_open(NULL);
    say_error(snib_client_force_release(c, "n", 1, "a test", NULL, &e), &e);
    snib_client_free(c);
}

static void a_forced_release_is_heard_by_who_holds(void **state)
{
    (void)state;
    struct process holder = begin(hold_until_told);
    hear_that(&holder, "ok");
    struct process next = begin(wait_and_hold);
    until_wait(1);
    tell(&holder);
    hear_that(&next, "ok");
    struct process force = begin(force_it);
    hear_that(&force, "ok");
    over(&force);
    hear_that(&next, "revoked");
    assert_int_equal(over(&next), 0);
    end_by(&holder, SIGKILL);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest cases[] = {
        CASE(a_blocking_wait_needs_no_thread_of_its_own),
        CASE(a_killed_holder_is_noticed_while_a_call_sleeps),
        CASE(killed_holders_are_noticed_one_after_the_other),
        CASE(limit_and_close_end_a_wait),
        CASE(a_forced_release_is_heard_by_who_holds),
    };
    return RUN(cases);
}

/* What all kinds of locks have in common: re-entry, tokens, detached grants,
 * fork, close, started acquires. And barriers as a kind; snib_barrier_wait is
 * in params.c. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"
#include "snib/event.h"
#include "snib/sys.h"

/* -- re-entry and tokens --------------------------------------------------- */

static void no_reentry_is_refused_at_once(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                      SNIB_KIND_WRITE};
    for (int i = 0; i < 3; i++) {
        const char *name = fresh_name();
        struct snib_client *c = open_client(), *d = open_client();
        struct snib_lock_options o = terms(kinds[i], 0, 0);
        o.no_reentry = true;
        struct snib_lock *l = lock_with(c, name, &o),
                         *handle = lock_with(c, name, &o),
                         *w = of_kind(d, name, SNIB_KIND_WRITE);
        struct snib_grant g, none;
        struct task contender = {0};
        must(acquire_for(l, 0, &g));
        int64_t begin = now_ms();
        must_be(acquire_for(l, 0, &none), SNIB_ERR_DEADLOCK);
        must_be(acquire_for(l, 5000, &none), SNIB_ERR_DEADLOCK);
        must_be(acquire_for(l, INT64_MAX, &none), SNIB_ERR_DEADLOCK);
        must_be(acquire_for(handle, INT64_MAX, &none), SNIB_ERR_DEADLOCK);
        assert_true(now_ms() - begin < slack_ms());
        assert_int_equal(status_of(l, g).holds, 1);
        start(&contender, w, 20000);
        wait_for_waiters(c, name, 1);
        must(snib_release(l, g, NULL));
        must(join(&contender)->err);
        must(snib_release(w, contender.grant, NULL));
        must(acquire_for(l, SOON_MS, &g));
        must(snib_release(l, g, NULL));
        snib_client_free(c);
        snib_client_free(d);
    }
}

static void tokens_rise_by_whatever_way_a_lock_is_taken(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *l[4] = {
        of_kind(c, name, SNIB_KIND_MUTEX), of_kind(c, name, SNIB_KIND_WRITE),
        fixed(c, name, SNIB_KIND_MUTEX, 5000), permits_of(c, name, 2, 3)};
    static const int64_t wait_ms[] = {0, 1000, INT64_MAX};
    int64_t last = 0;
    for (int i = 0; i < 24; i++) {
        struct snib_grant g;
        must(take(l[i % 4], wait_ms[i % 3], snib_owner_new(), &g));
        assert_true(g.token > last);
        last = g.token;
        must(snib_release(l[i % 4], g, NULL));
    }
    snib_client_free(c);
}

/* -- barriers -------------------------------------------------------------- */

static struct snib_lock *barrier(struct snib_client *c, const char *name,
                                 uint32_t parties)
{
    struct snib_lock_options o = terms(SNIB_KIND_BARRIER, parties, 0);
    return lock_with(c, name, &o);
}

static void a_barrier_lets_all_pass_together_twice(void **state)
{
    (void)state;
    enum { N = 5 };
    const char *name = fresh_name();
    struct snib_client *c[2] = {open_client(), open_client()};
    struct snib_lock *l[2] = {barrier(c[0], name, N), barrier(c[1], name, N)};
    int64_t generation = 0;
    for (int round = 0; round < 2; round++) {
        struct task t[N] = {0};
        for (int i = 0; i < N; i++) {
            if (i == N - 1) {
                wait_for_waiters(c[0], name, N - 1);
            }
            start(&t[i], l[i % 2], 10000);
        }
        for (int i = 0; i < N; i++) {
            must(join(&t[i])->err);
            assert_true(t[i].ended_ms >= t[N - 1].began_ms);
            assert_int_equal(t[i].grant.token, t[0].grant.token);
        }
        assert_true(t[0].grant.token > generation);
        generation = t[0].grant.token;
        for (int i = 0; i < N; i++) {
            must(snib_release(t[i].lock, t[i].grant, NULL));
        }
    }
    snib_client_free(c[0]);
    snib_client_free(c[1]);
}

static void a_party_that_gives_up_does_not_count(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = barrier(c, name, 3), *m = barrier(d, name, 3);
    struct snib_grant none;
    struct task a = {0}, b = {0}, late = {0};
    must_be(take(l, 0, snib_owner_new(), &none), SNIB_ERR_BUSY);
    must_be(take(l, 1000, snib_owner_new(), &none), SNIB_ERR_TIMEOUT);
    wait_for_fewer_waiters(d, name, 0);
    start(&a, l, 10000);
    start(&b, m, 10000);
    wait_for_waiters(c, name, 2);
    assert_int_equal(holders_of(c, name), 0);
    start(&late, m, 10000);
    must(join(&a)->err);
    must(join(&b)->err);
    must(join(&late)->err);
    snib_client_free(c);
    snib_client_free(d);
}

static int wait_at_the_barrier(const char *name)
{
    struct snib_client *c = open_client();
    uint64_t ticket;
    return (int)snib_acquire_start(barrier(c, name, 3), NULL, NULL, &ticket,
                                   NULL);
}

static void a_party_that_died_does_not_count(void **state)
{
    (void)state;
    skip_in_one_process();
    const char *name = fresh_name();
    struct child dead = start_child(wait_at_the_barrier, name);
    wait_for_child(&dead);
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = barrier(c, name, 3), *m = barrier(d, name, 3);
    struct task a = {0}, b = {0}, late = {0};
    wait_for_waiters(c, name, 1);
    kill_child(&dead);
    wait_for_fewer_waiters(c, name, 0);
    start(&a, l, 10000);
    start(&b, m, 10000);
    wait_for_waiters(c, name, 2);
    assert_int_equal(holders_of(c, name), 0);
    start(&late, m, 10000);
    must(join(&a)->err);
    must(join(&b)->err);
    must(join(&late)->err);
    snib_client_free(c);
    snib_client_free(d);
}

/* -- detached, forked, closed, started ------------------------------------- */

static void a_shared_grant_left_behind_is_adopted(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *name = fresh_name();
        struct snib_client *c = open_client(), *d = open_client();
        struct snib_lock *l = i == 0 ? fixed(c, name, SNIB_KIND_READ, 20000)
                                     : leased(c, name, 2, 20000, true),
                         *w = i == 0 ? of_kind(d, name, SNIB_KIND_WRITE)
                                     : permits_of(d, name, 1, 0);
        struct snib_grant g, h, none;
        char text[SNIB_GRANT_TEXT], identity[SNIB_IDENTITY_TEXT];
        must(acquire_for(l, 0, &g));
        must(snib_grant_export(l, g, text, sizeof text, NULL));
        must(snib_grant_abandon(l, g, NULL));
        assert_int_equal(status_of(l, g).state, SNIB_STATE_RELEASED);
        snib_client_free(c);
        must_be(try_by_other(w, &none), SNIB_ERR_BUSY);
        must(snib_grant_identity(text, identity, sizeof identity, NULL));
        struct snib_client_options o = SNIB_INIT(snib_client_options);
        o.url = store_url();
        o.identity = identity;
        must(snib_client_open(&o, &c, NULL));
        l = i == 0 ? fixed(c, name, SNIB_KIND_READ, 20000)
                   : leased(c, name, 2, 20000, true);
        must(snib_grant_adopt(l, text, 0, &h, NULL));
        must_be(snib_grant_adopt(l, text, 0, &none, NULL), SNIB_ERR_BUSY);
        assert_int_equal(h.token, g.token);
        assert_int_equal(status_of(l, h).kind,
                         i == 0 ? SNIB_KIND_READ : SNIB_KIND_PERMITS);
        assert_int_equal(status_of(l, h).permits, i == 0 ? 0 : 2);
        must(snib_renew(l, h, 10000, NULL));
        must_be(try_by_other(w, &none), SNIB_ERR_BUSY);
        must(snib_release(l, h, NULL));
        must(take(w, SOON_MS, snib_owner_new(), &none));
        must(snib_release(w, none, NULL));
        must_be(snib_grant_adopt(l, text, 0, &h, NULL), SNIB_ERR_LOST);
        snib_client_free(c);
        snib_client_free(d);
    }
}

static void a_forked_child_does_not_touch_what_is_shared(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_KIND_READ),
                     *p = permits_of(c, fresh_name(), 1, 2);
    struct snib_grant g, h, none;
    must(acquire_for(r, 0, &g));
    must(acquire_for(p, 0, &h));
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = acquire_for(r, 0, &none) == SNIB_ERR_FORKED &&
                  acquire_for(p, 0, &none) == SNIB_ERR_FORKED &&
                  snib_release(r, g, NULL) == SNIB_ERR_FORKED &&
                  snib_release(p, h, NULL) == SNIB_ERR_FORKED;
        snib_client_free(c);
        _exit(ok ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_true(snib_grant_held(r, g));
    assert_true(snib_grant_held(p, h));
    must(snib_release(r, g, NULL));
    must(snib_release(p, h, NULL));
    snib_client_free(c);
}

static void closing_ends_all_kinds_of_waiting(void **state)
{
    (void)state;
    const char *name = fresh_name(), *bar = fresh_name(), *sem = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = of_kind(d, name, SNIB_KIND_READ),
                     *w = of_kind(d, name, SNIB_KIND_WRITE),
                     *other = of_kind(c, name, SNIB_KIND_READ),
                     *p = permits_of(c, sem, 2, 2);
    uint64_t owner = snib_owner_new();
    struct task t[4] = {{.owner = owner}};
    struct snib_grant mine, held, x;
    must(take(r, 0, owner, &mine));
    must(take(other, 0, snib_owner_new(), &held));
    must(take(p, 0, snib_owner_new(), &x));
    start(&t[0], w, 30000); /* an upgrade */
    wait_for_waiters(c, name, 1);
    start(&t[1], r, 30000);
    wait_for_waiters(c, name, 2);
    start(&t[2], barrier(d, bar, 2), 30000);
    wait_for_waiters(c, bar, 1);
    start(&t[3], permits_of(d, sem, 1, 0), 30000);
    wait_for_waiters(c, sem, 1);
    snib_client_close(d);
    for (int i = 0; i < 4; i++) {
        snib_err ended = join(&t[i])->err;
        /* UNKNOWN: the store had queued it; its answer was on the way. */
        assert_true(ended == SNIB_ERR_CLOSED || ended == SNIB_ERR_UNKNOWN);
    }
    must_be(take(r, 0, snib_owner_new(), &x), SNIB_ERR_CLOSED);
    snib_client_free(d);
    must(snib_release(other, held, NULL));
    struct snib_lock *writer = of_kind(c, name, SNIB_KIND_WRITE);
    must(take(writer, SOON_MS, snib_owner_new(), &x)); /* d's read has ended */
    must(snib_release(writer, x, NULL));
    assert_int_equal(waiters_of(c, bar) + waiters_of(c, sem), 0);
    snib_client_free(c);
}

static void started_acquires_of_all_kinds_end_in_one_event_each(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_KIND_READ, SNIB_KIND_PERMITS,
                                      SNIB_KIND_BARRIER};
    for (int i = 0; i < 3; i++) {
        const char *name = fresh_name();
        struct snib_client *c = open_client(), *d = open_client();
        struct snib_lock_options o =
            terms(kinds[i], kinds[i] == SNIB_KIND_READ ? 0 : 1,
                  kinds[i] == SNIB_KIND_PERMITS ? 1 : 0);
        struct snib_lock *w = of_kind(c, name, SNIB_KIND_WRITE),
                         *l = lock_with(d, name, &o);
        struct snib_grant g;
        uint64_t ticket;
        must(take(w, 0, snib_owner_new(), &g));
        must(snib_acquire_start(l, NULL, NULL, &ticket, NULL));
        wait_for_waiters(c, name, 1);
        snib_client_cancel(d, ticket);
        struct snib_event ev = next_event(d);
        assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
        /* UNKNOWN: the claim is in the queue, but d has not read that yet. */
        assert_true(ev.error.code == SNIB_ERR_CANCELLED ||
                    ev.error.code == SNIB_ERR_UNKNOWN);
        wait_for_fewer_waiters(c, name, 0);
        must(snib_try_for_start(l, 1000, NULL, NULL, &ticket, NULL));
        ev = next_event(d);
        must_be(ev.error.code, SNIB_ERR_TIMEOUT);
        wait_for_fewer_waiters(c, name, 0);
        must(snib_acquire_start(l, NULL, &ticket, &ticket, NULL));
        wait_for_waiters(c, name, 1);
        must(snib_release(w, g, NULL));
        ev = next_event(d);
        assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
        assert_ptr_equal(ev.user, &ticket);
        must(snib_release_start(l, ev.grant, NULL, NULL));
        ev = next_event(d);
        assert_int_equal(ev.kind, SNIB_EVENT_RELEASED);
        must(ev.error.code);
        assert_false(snib_client_next(d, &ev, sizeof ev));
        snib_client_free(c);
        snib_client_free(d);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_reentry_is_refused_at_once),
        cmocka_unit_test(tokens_rise_by_whatever_way_a_lock_is_taken),
        cmocka_unit_test(a_barrier_lets_all_pass_together_twice),
        cmocka_unit_test(a_party_that_gives_up_does_not_count),
        cmocka_unit_test(a_party_that_died_does_not_count),
        cmocka_unit_test(a_shared_grant_left_behind_is_adopted),
        cmocka_unit_test(a_forked_child_does_not_touch_what_is_shared),
        cmocka_unit_test(closing_ends_all_kinds_of_waiting),
        cmocka_unit_test(started_acquires_of_all_kinds_end_in_one_event_each),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

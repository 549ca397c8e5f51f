/* Which waiter is next: upgrades, streams of others, priorities; and waiting
 * for the end of a lock-delay. */
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
#include "snib/inspect.h"

/* -- becoming the writer --------------------------------------------------- */

static void
an_upgrade_waits_for_readers_ahead_of_the_writers_that_wait(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client(),
                       *e = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_KIND_READ),
                     *w = of_kind(c, name, SNIB_KIND_WRITE),
                     *r2 = of_kind(d, name, SNIB_KIND_READ),
                     *w3 = of_kind(e, name, SNIB_KIND_WRITE);
    uint64_t owner = snib_owner_new();
    struct snib_grant mine, other, none;
    struct task queued = {0}, upgrade = {.owner = owner};
    atomic_int order = 0;
    queued.order = upgrade.order = &order;
    must(take(r, 0, owner, &mine));
    must(take(r2, 0, snib_owner_new(), &other));
    start(&queued, w3, 20000);
    wait_for_waiters(d, name, 1);
    start(&upgrade, w, 20000);
    wait_for_waiters(d, name, 2);
    must_be(try_by_other(r2, &none), SNIB_ERR_BUSY);
    must(snib_release(r2, other, NULL));
    must(join(&upgrade)->err);
    assert_int_equal(upgrade.place, 0);
    assert_true(snib_grant_held(r, mine));
    assert_int_equal(holders_of(d, name), 2);
    assert_int_equal(waiters_of(d, name), 1);
    must(snib_release(w, upgrade.grant, NULL));
    must(snib_release(r, mine, NULL));
    must(join(&queued)->err);
    assert_true(queued.grant.token > upgrade.grant.token);
    must(snib_release(w3, queued.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
    snib_client_free(e);
}

static void a_second_upgrade_is_refused_and_the_first_succeeds(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_KIND_READ),
                     *w = of_kind(c, name, SNIB_KIND_WRITE),
                     *r2 = of_kind(d, name, SNIB_KIND_READ),
                     *w2 = of_kind(d, name, SNIB_KIND_WRITE);
    uint64_t one = snib_owner_new(), two = snib_owner_new(),
             three = snib_owner_new();
    struct snib_grant a, b, x, none;
    struct task first = {.owner = one};
    must(take(r, 0, one, &a));
    must(take(r2, 0, two, &b));
    must(take(r, 0, three, &x)); /* an owner of the same client as the first */
    start(&first, w, 20000);
    wait_for_waiters(d, name, 1);
    int64_t begin = now_ms();
    must_be(take(w2, INT64_MAX, two, &none), SNIB_ERR_DEADLOCK);
    must_be(take(w, INT64_MAX, three, &none), SNIB_ERR_DEADLOCK);
    must_be(take(w2, 0, two, &none), SNIB_ERR_DEADLOCK);
    assert_true(now_ms() - begin < slack_ms());
    assert_true(snib_grant_held(r2, b));
    must(snib_release(r2, b, NULL));
    must(snib_release(r, x, NULL));
    must(join(&first)->err);
    must(snib_release(w, first.grant, NULL));
    must(snib_release(r, a, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void an_upgrade_that_times_out_leaves_the_read_lock_held(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_KIND_READ),
                     *w = of_kind(c, name, SNIB_KIND_WRITE),
                     *r2 = of_kind(d, name, SNIB_KIND_READ),
                     *w2 = of_kind(d, name, SNIB_KIND_WRITE);
    uint64_t one = snib_owner_new(), two = snib_owner_new();
    struct snib_grant a, b, x, none;
    must(take(r, 0, one, &a));
    must(take(r2, 0, two, &b));
    must_be(take(w, 0, one, &none), SNIB_ERR_BUSY);
    must_be(take(w, 1000, one, &none), SNIB_ERR_TIMEOUT);
    assert_true(snib_grant_held(r, a));
    wait_for_fewer_waiters(d, name, 0);
    must(
        take(r2, SOON_MS, snib_owner_new(), &x)); /* no writer waits any more */
    must(snib_release(r2, x, NULL));
    must_be(take(w2, 0, two, &none), SNIB_ERR_BUSY); /* no DEADLOCK either */
    must(snib_release(r, a, NULL));
    must(take(w2, SOON_MS, two, &x));
    must(snib_release(w2, x, NULL));
    must(snib_release(r2, b, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void an_upgrade_of_a_lost_read_lock_is_lost(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = fixed(c, name, SNIB_KIND_READ, 200),
                     *r30 = of_kind(c, name, SNIB_KIND_READ),
                     *w = of_kind(c, name, SNIB_KIND_WRITE),
                     *w2 = of_kind(d, name, SNIB_KIND_WRITE);
    uint64_t one = snib_owner_new(), two = snib_owner_new();
    struct snib_grant a, b, x, none;
    uint32_t ended;
    must(take(r, 0, one, &a));
    while (status_of(r, a).state != SNIB_STATE_LOST) {
        look_again_after_ms(5);
    }
    must_be(take(w, 1000, one, &none), SNIB_ERR_LOST);
    must_be(snib_release(r, a, NULL), SNIB_ERR_LOST);
    must(take(w, SOON_MS, one, &x)); /* unwound: a fresh start */
    must(snib_release(w, x, NULL));
    /* The store ended the grant, and the client does not know yet. */
    must(take(r30, SOON_MS, two, &b));
    must(snib_client_force_release(d, name, 0, NULL, &ended, NULL));
    must(take(w2, 0, snib_owner_new(), &x));
    must_be(take(w, 2000, two, &none), SNIB_ERR_LOST);
    must(snib_release(w2, x, NULL));
    must_be(snib_renew(r30, b, 0, NULL), SNIB_ERR_LOST);
    must_be(snib_release(r30, b, NULL), SNIB_ERR_LOST);
    snib_client_free(c);
    snib_client_free(d);
}

/* -- nobody starves -------------------------------------------------------- */

struct stream {
    struct snib_client *client;
    const char *name;
    snib_kind kind;
    uint32_t permits;
    atomic_bool *stop;
    atomic_int rounds;
    snib_err err;
};

static void *flow(void *arg)
{
    struct stream *s = arg;
    struct snib_lock_options o = terms(s->kind, s->permits, 0);
    struct snib_lock *l;
    s->err = snib_lock_new(s->client, s->name, &o, &l, NULL);
    while (!s->err && !atomic_load(s->stop)) {
        struct snib_grant g;
        s->err = acquire_for(l, 20000, &g);
        if (!s->err) {
            look_again_after_ms(3); /* the work */
            s->err = snib_release(l, g, NULL);
            atomic_fetch_add(&s->rounds, 1);
        }
    }
    return NULL;
}

/* A lock of kind `one` is granted within a few rounds, although a stream of
 * others, whose grants overlap, never leaves it free. */
static void gets_through(snib_kind of_stream, uint32_t small, snib_kind one,
                         uint32_t large)
{
    enum { N = 6 };
    const char *name = fresh_name();
    struct snib_client *c[3] = {open_client(), open_client(), open_client()};
    struct stream s[N];
    pthread_t t[N];
    atomic_bool stop = false;
    struct snib_lock_options o =
        terms(one, large, one == SNIB_KIND_PERMITS ? large : 0);
    struct snib_lock *l = lock_with(c[2], name, &o);
    struct snib_grant g;
    must(take(l, 0, snib_owner_new(), &g)); /* sets the size */
    must(snib_release(l, g, NULL));
    for (int i = 0; i < N; i++) {
        s[i] = (struct stream){.client = c[i % 2],
                               .name = name,
                               .kind = of_stream,
                               .permits = small,
                               .stop = &stop};
        pthread_create(&t[i], NULL, flow, &s[i]);
    }
    for (int i = 0; i < N; i++) { /* all have begun */
        int64_t deadline = now_ms() + 5000;
        while (atomic_load(&s[i].rounds) == 0) {
            assert_true(now_ms() < deadline);
            look_again_after_ms(2);
        }
    }
    snib_err err = SNIB_ERR_OK;
    int64_t longest = 0;
    for (int i = 0; i < 10 && !err; i++) {
        int64_t begin = now_ms();
        err = take(l, 5000, snib_owner_new(), &g);
        longest = now_ms() - begin > longest ? now_ms() - begin : longest;
        if (!err) {
            err = snib_release(l, g, NULL);
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < N; i++) {
        pthread_join(t[i], NULL);
        must(s[i].err);
    }
    must(err);
    assert_true(longest < 3000);
    for (int i = 0; i < 3; i++) {
        snib_client_free(c[i]);
    }
}

static void a_stream_of_readers_does_not_starve_the_writer(void **state)
{
    (void)state;
    gets_through(SNIB_KIND_READ, 0, SNIB_KIND_WRITE, 0);
}

static void a_stream_of_writers_does_not_starve_the_reader(void **state)
{
    (void)state;
    gets_through(SNIB_KIND_WRITE, 0, SNIB_KIND_READ, 0);
}

static void small_requests_do_not_starve_a_large_one(void **state)
{
    (void)state;
    gets_through(SNIB_KIND_PERMITS, 1, SNIB_KIND_PERMITS, 4);
}

/* -- lock-delay ------------------------------------------------------------ */

static struct snib_lock *delayed(struct snib_client *c, const char *name,
                                 snib_kind kind, int64_t lease_ms, bool fix,
                                 int64_t delay_ms)
{
    struct snib_lock_options o = terms(kind, kind == SNIB_KIND_PERMITS ? 1 : 0,
                                       kind == SNIB_KIND_PERMITS ? 1 : 0);
    o.lease_ms = lease_ms;
    o.fixed_lease = fix;
    o.lock_delay_ms = delay_ms;
    return lock_with(c, name, &o);
}

static void
a_lease_that_ran_out_keeps_the_lock_closed_for_its_delay(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                      SNIB_KIND_PERMITS};
    for (int i = 0; i < 3; i++) {
        const char *name = fresh_name();
        struct snib_client *c = open_client(), *d = open_client();
        struct snib_lock *l = delayed(c, name, kinds[i], 400, true, 1000),
                         *m = kinds[i] == SNIB_KIND_PERMITS
                                  ? permits_of(d, name, 1, 0)
                                  : of_kind(d, name, SNIB_KIND_WRITE);
        struct snib_grant g, h;
        int64_t begin = now_ms();
        must(take(l, 0, snib_owner_new(), &g));
        must_be(take(m, 900, snib_owner_new(), &h), SNIB_ERR_TIMEOUT);
        assert_false(snib_grant_held(l, g)); /* its owner has lost it */
        must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
        must(take(m, 5000, snib_owner_new(), &h));
        int64_t took = now_ms() - begin;
        assert_true(took >= 1390 && took < 1400 + lease_slack_ms());
        must(snib_release(m, h, NULL));
        snib_client_free(c);
        snib_client_free(d);
    }
}

static void a_release_opens_a_lock_with_a_delay_at_once(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l =
                         delayed(c, name, SNIB_KIND_MUTEX, 30000, false, 60000),
                     *r = delayed(c, name, SNIB_KIND_READ, 30000, false, 60000),
                     *m = of_kind(d, name, SNIB_KIND_WRITE);
    struct snib_grant g, h;
    must(take(l, 0, snib_owner_new(), &g));
    must(snib_release(l, g, NULL));
    must(take(m, 0, snib_owner_new(), &h));
    must(snib_release(m, h, NULL));
    must(take(r, 0, snib_owner_new(), &g));
    must(snib_release(r, g, NULL));
    must(take(m, 0, snib_owner_new(), &h));
    must(snib_release(m, h, NULL));
    must(take(l, 0, snib_owner_new(), &g));
    snib_client_free(c); /* this releases, too */
    must(take(m, 0, snib_owner_new(), &h));
    must(snib_release(m, h, NULL));
    snib_client_free(d);
}

/* The grant came by another's release, was confirmed and renewed: the delay
 * stays. */
static void a_renewed_grant_keeps_its_delay(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *first = of_kind(d, name, SNIB_KIND_MUTEX),
                     *l = delayed(c, name, SNIB_KIND_MUTEX, 300, true, 6000),
                     *m = of_kind(d, name, SNIB_KIND_WRITE);
    struct snib_grant g, none;
    struct task waiter = {0};
    must(take(first, 0, snib_owner_new(), &g));
    start(&waiter, l, 10000);
    wait_for_waiters(d, name, 1);
    must(snib_release(first, g, NULL));
    must(join(&waiter)->err);
    must(snib_renew(l, waiter.grant, 500, NULL));
    must_be(take(m, 2000, snib_owner_new(), &none), SNIB_ERR_TIMEOUT);
    assert_false(snib_grant_held(l, waiter.grant));
    snib_client_free(c);
    snib_client_free(d);
}

static int hold_with_a_delay_and_stay(const char *name)
{
    struct snib_client *c = open_client();
    struct snib_grant g;
    return (int)acquire_for(delayed(c, name, SNIB_KIND_MUTEX, 700, false, 1500),
                            0, &g);
}

static void a_killed_holder_keeps_the_lock_closed_for_its_delay(void **state)
{
    (void)state;
    skip_in_one_process();
    const char *name = fresh_name();
    struct child dead = start_child(hold_with_a_delay_and_stay, name);
    wait_for_child(&dead);
    struct snib_client *d = open_client();
    struct snib_lock *m = of_kind(d, name, SNIB_KIND_MUTEX);
    struct snib_grant g;
    kill_child(&dead);
    int64_t begin = now_ms();
    must(take(m, 10000, snib_owner_new(), &g));
    int64_t took = now_ms() - begin;
    /* The last renewal was at most a third of the lease ago (and a bit). */
    assert_true(took >= 1500 && took < 2200 + lease_slack_ms());
    must(snib_release(m, g, NULL));
    snib_client_free(d);
}

/* -- priority -------------------------------------------------------------- */

static void higher_priorities_are_served_first_and_equals_in_order(void **state)
{
    (void)state;
    static const int priority[] = {0, -100, 100, 0, 100, 7};
    static const int want[] = {3, 5, 0, 4, 1, 2};
    enum { N = 6 };
    const char *name = fresh_name();
    struct snib_client *c[N], *d = open_client();
    struct snib_lock *l = of_kind(d, name, SNIB_KIND_MUTEX);
    struct task t[N] = {0};
    struct snib_grant g;
    atomic_int order = 0;
    must(take(l, 0, snib_owner_new(), &g));
    for (int i = 0; i < N; i++) {
        struct snib_lock_options o = terms(SNIB_KIND_MUTEX, 0, 0);
        o.priority = priority[i];
        c[i] = open_client();
        t[i].order = &order;
        t[i].release = true;
        start(&t[i], lock_with(c[i], name, &o), 20000);
        wait_for_waiters(d, name, (size_t)i + 1);
    }
    must(snib_release(l, g, NULL));
    for (int i = 0; i < N; i++) {
        must(join(&t[i])->err);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(t[i].place, want[i]);
        snib_client_free(c[i]);
    }
    snib_client_free(d);
}

static void owners_of_one_client_go_by_priority_too(void **state)
{
    (void)state;
    static const int priority[] = {0, -100, 100, 0, 100, 7};
    static const int want[] = {3, 5, 0, 4, 1, 2};
    enum { N = 6 };
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *l = of_kind(c, name, SNIB_KIND_MUTEX);
    struct snib_lock_options o = terms(SNIB_KIND_MUTEX, 0, 0);
    struct snib_grant g;
    uint64_t ticket;
    int place[N];
    must(take(l, 0, snib_owner_new(), &g));
    for (int i = 0; i < N; i++) { /* started, so in this very order */
        o.priority = priority[i];
        must(snib_acquire_start(lock_with(c, name, &o), NULL, &place[i],
                                &ticket, NULL));
    }
    must(snib_release(l, g, NULL));
    for (int i = 0; i < N; i++) {
        struct snib_event ev = next_event(c);
        assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
        *(int *)ev.user = i;
        must(snib_release(l, ev.grant, NULL));
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(place[i], want[i]);
    }
    snib_client_free(c);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            an_upgrade_waits_for_readers_ahead_of_the_writers_that_wait),
        cmocka_unit_test(a_second_upgrade_is_refused_and_the_first_succeeds),
        cmocka_unit_test(an_upgrade_that_times_out_leaves_the_read_lock_held),
        cmocka_unit_test(an_upgrade_of_a_lost_read_lock_is_lost),
        cmocka_unit_test(a_stream_of_readers_does_not_starve_the_writer),
        cmocka_unit_test(a_stream_of_writers_does_not_starve_the_reader),
        cmocka_unit_test(small_requests_do_not_starve_a_large_one),
        cmocka_unit_test(
            a_lease_that_ran_out_keeps_the_lock_closed_for_its_delay),
        cmocka_unit_test(a_release_opens_a_lock_with_a_delay_at_once),
        cmocka_unit_test(a_renewed_grant_keeps_its_delay),
        cmocka_unit_test(a_killed_holder_keeps_the_lock_closed_for_its_delay),
        cmocka_unit_test(
            higher_priorities_are_served_first_and_equals_in_order),
        cmocka_unit_test(owners_of_one_client_go_by_priority_too),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

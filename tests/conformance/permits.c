/* Permits: locks that several owners hold at a time. Their sizes are in
 * params.c. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"
#include "snib/inspect.h"

/* -- permits --------------------------------------------------------------- */

static void permits_are_counted_and_given_back(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *two = permits_of(c, name, 2, 5),
                     *three = permits_of(d, name, 3, 5),
                     *one = permits_of(d, name, 0, 5);
    struct snib_grant a, b, x, none;
    uint64_t owner = snib_owner_new();
    must(take(two, 0, owner, &a));
    must(take(three, 0, owner, &b));
    must_be(take(one, 0, owner, &none), SNIB_ERR_BUSY);
    must_be(take(one, 1000, owner, &none), SNIB_ERR_TIMEOUT);
    struct task waiter = {0};
    start(&waiter, one, 20000);
    wait_for_waiters(c, name, 1);
    must(snib_release(two, a, NULL));
    must(join(&waiter)->err);
    must(take(one, SOON_MS, owner, &x)); /* the same owner: not a re-entry */
    assert_true(x.ticket != waiter.grant.ticket);
    assert_true(x.token > waiter.grant.token);
    must_be(take(one, 0, owner, &none), SNIB_ERR_BUSY);
    must(snib_release(one, x, NULL));
    must(snib_release(one, waiter.grant, NULL));
    must(snib_release(three, b, NULL));
    must_be(snib_release(three, b, NULL), SNIB_ERR_NOT_HELD);
    must(take(three, 0, owner, &a)); /* five again, not six */
    must(take(two, 0, owner, &b));
    must_be(take(one, 0, owner, &none), SNIB_ERR_BUSY);
    snib_client_free(c);
    snib_client_free(d);
}

static void the_first_capacity_is_the_size(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *first = permits_of(c, name, 1, 2),
                     *later = permits_of(d, name, 1, 9),
                     *plain = permits_of(d, name, 1, 0);
    struct snib_grant a, b, none;
    must(take(first, 0, snib_owner_new(), &a));
    must(take(later, 0, snib_owner_new(), &b));
    must_be(try_by_other(later, &none), SNIB_ERR_BUSY);
    must(snib_release(first, a, NULL));
    must(snib_release(later, b, NULL));
    must(take(plain, 0, snib_owner_new(), &a)); /* the size is still known */
    must(take(plain, 0, snib_owner_new(), &b));
    must_be(try_by_other(plain, &none), SNIB_ERR_BUSY);
    snib_client_free(c);
    snib_client_free(d);
}

static void what_can_never_be_granted_is_refused(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *one = permits_of(c, name, 1, 3),
                     *four = permits_of(c, name, 4, 0),
                     *nine = permits_of(c, name, 4, 9),
                     *nosize = permits_of(c, fresh_name(), 1, 0), *l;
    struct snib_grant g, none;
    struct snib_error err;
    must(take(one, 0, snib_owner_new(), &g));
    must_be(snib_acquire(four, NULL, &none, &err), SNIB_ERR_TOO_MANY);
    assert_non_null(strstr(err.text, "4 permits"));
    assert_non_null(strstr(err.text, "3 in all"));
    must_be(snib_acquire(nine, NULL, &none, &err), SNIB_ERR_TOO_MANY);
    must_be(snib_acquire(nosize, NULL, &none, &err), SNIB_ERR_CONFIG);
    assert_non_null(strstr(err.text, "size"));
    must(snib_release(one, g, NULL));
    static const struct {
        snib_kind kind;
        uint32_t permits, capacity;
    } bad[] = {{SNIB_KIND_PERMITS, 3, 2},
               {SNIB_KIND_PERMITS, 1, UINT32_MAX},
               {SNIB_KIND_PERMITS, UINT32_MAX, 0},
               {SNIB_KIND_MUTEX, 1, 0},
               {SNIB_KIND_READ, 0, 1},
               {SNIB_KIND_WRITE, 2, 2},
               {SNIB_KIND_BARRIER, 0, 0},
               {SNIB_KIND_BARRIER, 2, 2},
               {SNIB_KIND_BARRIER, UINT32_MAX, 0},
               {(snib_kind)77, 0, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct snib_lock_options o =
            terms(bad[i].kind, bad[i].permits, bad[i].capacity);
        must_be(snib_lock_new(c, name, &o, &l, &err), SNIB_ERR_USAGE);
        assert_true(strlen(err.text) > 10);
        assert_null(l);
    }
    struct snib_lock_options o = terms(SNIB_KIND_MUTEX, 0, 0);
    o.priority = SNIB_PRIORITY_MAX + 1;
    must_be(snib_lock_new(c, name, &o, &l, &err), SNIB_ERR_USAGE);
    o.priority = 0;
    o.lock_delay_ms = -1;
    must_be(snib_lock_new(c, name, &o, &l, &err), SNIB_ERR_USAGE);
    o.lock_delay_ms = SNIB_LEASE_MAX_MS + 1;
    must_be(snib_lock_new(c, name, &o, &l, &err), SNIB_ERR_USAGE);
    snib_client_free(c);
}

static void a_request_for_four_waits_for_two_releases(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *two = permits_of(c, name, 2, 4),
                     *four = permits_of(d, name, 4, 0);
    struct snib_grant a, b;
    struct task waiter = {0};
    must(take(two, 0, snib_owner_new(), &a));
    must(take(two, 0, snib_owner_new(), &b));
    start(&waiter, four, 5000);
    wait_for_waiters(c, name, 1);
    must(snib_release(two, a, NULL));
    assert_int_equal(waiters_of(c, name), 1);
    must(snib_release(two, b, NULL));
    must(join(&waiter)->err);
    assert_int_equal(status_of(four, waiter.grant).permits, 4);
    must(snib_release(four, waiter.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_timed_request_gets_permits_that_come_in_time(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock_options o = terms(SNIB_KIND_PERMITS, 3, 4);
    o.fixed_lease = true;
    o.lease_ms = 1000;
    struct snib_lock *three = lock_with(c, name, &o),
                     *four = permits_of(d, name, 4, 0);
    struct snib_grant a, b;
    int64_t begin = now_ms();
    must(take(three, 0, snib_owner_new(), &a));
    must(take(four, 1000 + 3 * slack_ms(), snib_owner_new(), &b));
    int64_t took = now_ms() - begin;
    assert_true(took >= least_ms(1000) && took < 1000 + slack_ms());
    must(snib_release(four, b, NULL));
    must_be(snib_release(three, a, NULL), SNIB_ERR_LOST);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_request_for_two_is_not_served_by_one_release(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *one = permits_of(c, name, 1, 3),
                     *two = permits_of(d, name, 2, 0);
    struct snib_grant g[3], none;
    struct task waiter = {0};
    for (int i = 0; i < 3; i++) {
        must(take(one, 0, snib_owner_new(), &g[i]));
    }
    start(&waiter, two, 5000);
    wait_for_waiters(c, name, 1);
    must(snib_release(one, g[0], NULL));
    assert_int_equal(waiters_of(c, name), 1);
    must_be(try_by_other(one, &none), SNIB_ERR_BUSY); /* not overtaken */
    must(snib_release(one, g[1], NULL));
    must(join(&waiter)->err);
    must(snib_release(one, g[2], NULL));
    must(snib_release(two, waiter.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void permits_are_given_in_order_of_arrival(void **state)
{
    (void)state;
    enum { N = 5 };
    const char *name = fresh_name();
    struct snib_client *c[3] = {open_client(), open_client(), open_client()};
    struct snib_lock *l[3];
    struct task t[N] = {0};
    struct snib_grant g;
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        l[i] = permits_of(c[i], name, 2, 3); /* no two of these fit */
    }
    must(take(l[0], 0, snib_owner_new(), &g));
    for (int i = 0; i < N; i++) { /* some clients have two of them */
        t[i].release = true;
        start(&t[i], l[i % 3], 20000);
        wait_for_waiters(c[0], name, (size_t)i + 1);
    }
    must(snib_release(l[0], g, NULL));
    for (int i = 0; i < N; i++) {
        must(join(&t[i])->err);
        assert_true(t[i].grant.token > last);
        last = t[i].grant.token;
    }
    for (int i = 0; i < 3; i++) {
        snib_client_free(c[i]);
    }
}

struct counting {
    struct snib_client *client;
    const char *name;
    uint32_t permits, capacity;
    volatile int *value;
    atomic_int *inside;
    int most, rounds;
    snib_err err;
};

static void *count(void *arg)
{
    struct counting *k = arg;
    struct snib_lock_options o =
        terms(SNIB_KIND_PERMITS, k->permits, k->capacity);
    struct snib_lock *l;
    k->err = snib_lock_new(k->client, k->name, &o, &l, NULL);
    for (int i = 0; i < k->rounds && !k->err; i++) {
        struct snib_grant g;
        k->err = acquire_for(l, INT64_MAX, &g);
        if (k->err) {
            break;
        }
        int n = atomic_fetch_add(k->inside, (int)k->permits) + (int)k->permits;
        k->most = n > k->most ? n : k->most;
        if (k->capacity == 1) {
            int v = *k->value;
            sched_yield();
            *k->value = v + 1;
        }
        atomic_fetch_sub(k->inside, (int)k->permits);
        k->err = snib_release(l, g, NULL);
    }
    return NULL;
}

/* Returns the most permits that were ever in use. */
static int contend(int clients, int threads, int rounds, uint32_t most_wanted,
                   uint32_t size, volatile int *value)
{
    const char *name = fresh_name();
    struct snib_client *c[8];
    struct counting k[32];
    pthread_t t[32];
    atomic_int inside = 0;
    int most = 0;
    for (int i = 0; i < clients; i++) {
        c[i] = open_client();
    }
    for (int i = 0; i < threads; i++) {
        k[i] = (struct counting){.client = c[i % clients],
                                 .name = name,
                                 .permits = 1 + (uint32_t)i % most_wanted,
                                 .capacity = size,
                                 .value = value,
                                 .inside = &inside,
                                 .rounds = rounds};
        pthread_create(&t[i], NULL, count, &k[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(t[i], NULL);
        must(k[i].err);
        most = k[i].most > most ? k[i].most : most;
    }
    for (int i = 0; i < clients; i++) {
        snib_client_free(c[i]);
    }
    return most;
}

static void one_permit_excludes(void **state)
{
    (void)state;
    volatile int value = 0;
    assert_int_equal(contend(4, 16, 25, 1, 1, &value), 1);
    assert_int_equal(value, 16 * 25);
}

static void never_more_permits_are_in_use_than_there_are(void **state)
{
    (void)state;
    int most = contend(4, 16, 25, 4, 5, NULL);
    assert_true(most <= 5 && most > 1);
}

static void the_largest_semaphore_counts(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *most = permits_of(c, name, SNIB_PERMITS_MAX - 1,
                                        SNIB_PERMITS_MAX),
                     *one = permits_of(c, name, 1, 0);
    struct snib_grant a, b, none;
    must(take(most, 0, snib_owner_new(), &a));
    assert_int_equal(status_of(most, a).permits, SNIB_PERMITS_MAX - 1);
    must(take(one, 0, snib_owner_new(), &b));
    must_be(try_by_other(one, &none), SNIB_ERR_BUSY);
    must(snib_release(most, a, NULL));
    must(snib_release(one, b, NULL));
    snib_client_free(c);
}

static void permits_that_expire_come_back(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = leased(c, name, 2, 800, true),
                     *m = leased(d, name, 2, 30000, false);
    struct snib_grant g, h, none;
    int64_t begin = now_ms();
    must(take(l, 0, snib_owner_new(), &g));
    must_be(try_by_other(m, &none), SNIB_ERR_BUSY);
    must(take(m, 5000, snib_owner_new(), &h));
    int64_t took = now_ms() - begin;
    assert_true(took >= least_ms(800) && took < 800 + slack_ms());
    assert_int_equal(status_of(l, g).state, SNIB_STATE_LOST);
    assert_int_equal(status_of(l, g).cause, SNIB_CAUSE_EXPIRED);
    must_be(snib_renew(l, g, 20000, NULL), SNIB_ERR_LOST);
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    assert_true(snib_grant_held(m, h));
    must_be(try_by_other(l, &none), SNIB_ERR_BUSY);
    must(snib_release(m, h, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void the_keeper_renews_permits(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = leased(c, name, 2, 1200, false),
                     *m = leased(d, name, 2, 30000, false);
    struct snib_grant g, none;
    must(take(l, 0, snib_owner_new(), &g));
    must_be(take(m, 2500, snib_owner_new(), &none), SNIB_ERR_TIMEOUT);
    assert_true(snib_grant_held(l, g));
    must(snib_release(l, g, NULL));
    must(take(m, SOON_MS, snib_owner_new(), &g));
    must(snib_release(m, g, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_fixed_lot_of_permits_is_renewed_by_hand(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l = leased(c, fresh_name(), 2, 1000, true);
    struct snib_grant g;
    must(take(l, 0, snib_owner_new(), &g));
    assert_true(status_of(l, g).left_ms <= 1000);
    must(snib_renew(l, g, 20000, NULL));
    assert_true(status_of(l, g).left_ms > 15000);
    must(snib_release(l, g, NULL));
    must_be(snib_renew(l, g, 0, NULL), SNIB_ERR_NOT_HELD);
    snib_client_free(c);
}

static void any_thread_may_release_permits(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *l = permits_of(c, name, 2, 2);
    struct snib_grant g;
    must(acquire_for(l, 0, &g)); /* by the owner of this thread */
    must(by_stranger(l, g));
    assert_int_equal(status_of(l, g).state, SNIB_STATE_RELEASED);
    must_be(snib_release(l, g, NULL), SNIB_ERR_NOT_HELD);
    must(acquire_for(l, 0, &g));
    must(snib_release(l, g, NULL));
    snib_client_free(c);
}

static int take_two_permits_and_stay(const char *name)
{
    struct snib_client *c = open_client();
    struct snib_grant g;
    return (int)acquire_for(leased(c, name, 2, 1500, false), 0, &g);
}

static void permits_of_a_killed_process_come_back_by_its_lease(void **state)
{
    (void)state;
    skip_in_one_process();
    const char *name = fresh_name();
    struct child dead = start_child(take_two_permits_and_stay, name);
    wait_for_child(&dead);
    struct snib_client *d = open_client();
    struct snib_lock *m = permits_of(d, name, 1, 0);
    struct snib_grant g;
    must_be(try_by_other(m, &g), SNIB_ERR_BUSY);
    kill_child(&dead);
    int64_t begin = now_ms();
    must(take(m, 10000, snib_owner_new(), &g));
    assert_true(now_ms() - begin < 1500 + lease_slack_ms());
    must(snib_release(m, g, NULL));
    snib_client_free(d);
}

static void two_permits_serve_both_threads(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *two = permits_of(c, name, 2, 2),
                     *one = permits_of(d, name, 1, 0),
                     *uno = permits_of(c, name, 1, 0);
    struct snib_grant g;
    struct task a = {0}, b = {0};
    must(take(two, 0, snib_owner_new(), &g));
    start(&a, one, 10000);
    start(&b, uno, 10000);
    wait_for_waiters(d, name, 2);
    int64_t begin = now_ms();
    must(snib_release(two, g, NULL));
    must(join(&a)->err);
    must(join(&b)->err);
    assert_true(now_ms() - begin < slack_ms());
    assert_int_equal(holders_of(d, name), 2);
    must(snib_release(one, a.grant, NULL));
    must(snib_release(uno, b.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void kind_and_permits_are_seen_by_status_and_inspect(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = permits_of(c, name, 3, 4),
                     *m = permits_of(d, name, 2, 0);
    struct snib_grant g;
    struct snib_view *v;
    struct task waiter = {0};
    must(take(l, 0, snib_owner_new(), &g));
    assert_int_equal(status_of(l, g).kind, SNIB_KIND_PERMITS);
    assert_int_equal(status_of(l, g).permits, 3);
    assert_int_equal(status_of(l, g).holds, 1);
    start(&waiter, m, 10000);
    wait_for_waiters(c, name, 1);
    must(snib_client_inspect(c, name, 0, &v, NULL));
    assert_int_equal(v->holder_count, 1);
    assert_int_equal(v->holders[0]->kind, SNIB_KIND_PERMITS);
    assert_int_equal(v->holders[0]->permits, 3);
    assert_true(v->holders[0]->self);
    assert_int_equal(v->holders[0]->token, g.token);
    assert_int_equal(v->waiter_count, 1);
    assert_int_equal(v->waiters[0]->kind, SNIB_KIND_PERMITS);
    assert_int_equal(v->waiters[0]->permits, 2);
    snib_view_free(v);
    must(snib_release(l, g, NULL));
    must(join(&waiter)->err);
    must(snib_release(m, waiter.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(permits_are_counted_and_given_back),
        cmocka_unit_test(the_first_capacity_is_the_size),
        cmocka_unit_test(what_can_never_be_granted_is_refused),
        cmocka_unit_test(a_request_for_four_waits_for_two_releases),
        cmocka_unit_test(a_timed_request_gets_permits_that_come_in_time),
        cmocka_unit_test(a_request_for_two_is_not_served_by_one_release),
        cmocka_unit_test(permits_are_given_in_order_of_arrival),
        cmocka_unit_test(one_permit_excludes),
        cmocka_unit_test(never_more_permits_are_in_use_than_there_are),
        cmocka_unit_test(the_largest_semaphore_counts),
        cmocka_unit_test(permits_that_expire_come_back),
        cmocka_unit_test(the_keeper_renews_permits),
        cmocka_unit_test(a_fixed_lot_of_permits_is_renewed_by_hand),
        cmocka_unit_test(any_thread_may_release_permits),
        cmocka_unit_test(permits_of_a_killed_process_come_back_by_its_lease),
        cmocka_unit_test(two_permits_serve_both_threads),
        cmocka_unit_test(kind_and_permits_are_seen_by_status_and_inspect),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

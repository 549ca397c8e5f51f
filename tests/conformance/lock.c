/* A lock, its owners and its waiters. */
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

/* -- one owner ------------------------------------------------------------- */

static void tokens_rise_from_grant_to_grant(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, fresh_name(), NULL);
    int64_t last = 0;
    for (int i = 0; i < 20; i++) {
        struct snib_grant g;
        must(acquire_for(l, 0, &g));
        assert_true(g.token > last);
        assert_true(g.token < INT64_C(1) << 53);
        last = g.token;
        must(snib_release(l, g, NULL));
    }
    snib_lock_free(l);
    snib_client_free(c);
}

static void status_shows_a_held_grant(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = lock_with(c, name, NULL);
    struct snib_grant g;
    struct snib_view *v;
    assert_int_equal(holders_of(d, name), 0);
    must(acquire_for(l, 0, &g));
    struct snib_status st = status_of(l, g);
    assert_int_equal(st.state, SNIB_STATE_HELD);
    assert_int_equal(st.token, g.token);
    assert_int_equal(st.holds, 1);
    assert_true(st.left_ms > 25000 && st.left_ms <= 29695);
    must(snib_client_inspect(d, name, 0, &v, NULL)); /* as others see it */
    assert_int_equal(v->holder_count, 1);
    assert_int_equal(v->holders[0]->token, g.token);
    assert_false(v->holders[0]->self);
    snib_view_free(v);
    must(snib_release(l, g, NULL));
    st = status_of(l, g);
    assert_int_equal(st.state, SNIB_STATE_RELEASED);
    assert_int_equal(st.holds, 0);
    assert_false(snib_grant_held(l, g));
    wait_for_fewer_waiters(d, name, 0);
    assert_int_equal(holders_of(d, name), 0);
    snib_lock_free(l);
    snib_client_free(c);
    snib_client_free(d);
}

static void re_entry_keeps_the_token_and_counts(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    struct snib_grant a, b, x;
    must(acquire_for(l, 0, &a));
    assert_int_equal(status_of(l, a).holds, 1);
    must(acquire_for(l, 0, &b));
    assert_int_equal(a.token, b.token);
    assert_int_equal(status_of(l, a).holds, 2);
    must(snib_release(l, b, NULL));
    assert_true(snib_grant_held(l, a));
    assert_int_equal(status_of(l, a).holds, 1);
    must_be(try_by_other(l, &x), SNIB_ERR_BUSY); /* an owner of this client */
    must_be(try_by_other(m, &x), SNIB_ERR_BUSY);
    must(snib_release(l, a, NULL));
    assert_int_equal(snib_release(l, a, NULL), SNIB_ERR_NOT_HELD);
    must(take(m, SOON_MS, snib_owner_new(), &x));
    must(snib_release(m, x, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

static void another_thread_may_not_release(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, fresh_name(), NULL);
    struct snib_grant g;
    must(acquire_for(l, 0, &g));
    must_be(by_stranger(l, g), SNIB_ERR_WRONG_OWNER);
    must(snib_release(l, g, NULL));
    must(take(l, 0, snib_owner_new(), &g));
    must(by_stranger(l, g));
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_fixed_lease_expires_and_is_told(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.fixed_lease = true;
    o.lease_ms = 150;
    struct snib_lock *l = lock_with(c, name, &o);
    struct snib_lock *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    struct snib_status st;
    must(acquire_for(l, 0, &g));
    struct pollfd p = {.fd = snib_grant_fd(l, g), .events = POLLIN};
    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, 5000), 1);
    snib_grant_status(l, g, &st, sizeof st);
    assert_int_equal(st.state, SNIB_STATE_LOST);
    assert_int_equal(st.cause, SNIB_CAUSE_EXPIRED);
    must(acquire_for(m, 5000, &h));
    assert_true(h.token > g.token);
    struct snib_grant again;
    assert_int_equal(acquire_for(l, 0, &again), SNIB_ERR_LOST);
    assert_int_equal(snib_release(l, g, NULL), SNIB_ERR_LOST);
    assert_int_equal(acquire_for(l, 0, &again), SNIB_ERR_BUSY);
    assert_true(snib_grant_held(m, h)); /* the late release touched nothing */
    must(snib_release(m, h, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_fixed_lease_can_be_renewed_by_hand(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.fixed_lease = true;
    o.lease_ms = 1000;
    struct snib_lock *l = lock_with(c, fresh_name(), &o);
    struct snib_grant g;
    struct snib_status st;
    must(acquire_for(l, 0, &g));
    must(snib_renew(l, g, 20000, NULL));
    snib_grant_status(l, g, &st, sizeof st);
    assert_true(st.left_ms > 15000);
    must(snib_release(l, g, NULL));
    assert_int_equal(snib_renew(l, g, 0, NULL), SNIB_ERR_NOT_HELD);
    snib_lock_free(l);
    snib_client_free(c);
}

/* The client moves its deadline forwards only: if a store ended the lease
 * earlier, two would hold. */
static void a_renewal_to_a_shorter_lease_does_not_shorten_it(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = fixed(c, name, SNIB_KIND_MUTEX, 20000),
                     *m = of_kind(d, name, SNIB_KIND_MUTEX);
    struct snib_grant g, none;
    must(acquire_for(l, 0, &g));
    must(snib_renew(l, g, 300, NULL));
    must_be(take(m, 900, snib_owner_new(), &none), SNIB_ERR_TIMEOUT);
    assert_true(snib_grant_held(l, g));
    must(snib_release(l, g, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void the_keeper_renews_beyond_the_lease(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.lease_ms = 3000;
    struct snib_lock *l = lock_with(c, name, &o);
    struct snib_lock *m = lock_with(d, name, &o);
    struct snib_grant g, h;
    must(acquire_for(l, 0, &g));
    assert_int_equal(acquire_for(m, 4500, &h), SNIB_ERR_TIMEOUT);
    assert_true(snib_grant_held(l, g));
    must(snib_release(l, g, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

static void hold_max_is_told_by_callback(void **state)
{
    (void)state;
    struct changes seen = {0};
    struct snib_client *c = open_client();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.hold_max_ms = 100;
    o.on_change = note_change;
    o.data = &seen;
    struct snib_lock *l = lock_with(c, fresh_name(), &o);
    struct snib_grant g;
    must(acquire_for(l, 0, &g));
    wait_for_loss(&seen, SNIB_CAUSE_HOLD_MAX);
    assert_int_equal(snib_release(l, g, NULL), SNIB_ERR_LOST);
    must(acquire_for(l, SOON_MS, &g));
    must(snib_release(l, g, NULL));
    snib_lock_free(l);
    snib_client_free(c);
}

static struct snib_lock *renewed(struct snib_client *c, const char *name,
                                 int64_t lease_ms)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.lease_ms = lease_ms;
    return lock_with(c, name, &o);
}

static void renewal_goes_on_for_the_next_owner_after_re_entries(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = renewed(c, name, 1200), *m = renewed(d, name, 1200);
    struct snib_grant a, b, none;
    must(acquire_for(l, 0, &a));
    must(acquire_for(l, 0, &b));
    must(snib_release(l, b, NULL));
    must(snib_release(l, a, NULL));
    must(take(l, SOON_MS, snib_owner_new(), &a)); /* as another thread */
    must_be(take(m, 2600, snib_owner_new(), &none), SNIB_ERR_TIMEOUT);
    assert_true(snib_grant_held(l, a));
    must(snib_release(l, a, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void *take_and_end(void *arg)
{
    struct task *t = arg;
    t->err = acquire_for(t->lock, 0, &t->grant);
    return NULL;
}

/* A thread ends, and its lock is still renewed: hold_max bounds that. */
static void the_lock_of_a_thread_that_ended_ends_with_hold_max(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.lease_ms = 1500;
    o.hold_max_ms = 2500;
    struct task t = {.lock = lock_with(c, name, &o)};
    struct snib_lock *m = lock_with(d, name, NULL);
    struct snib_grant g;
    int64_t begin = now_ms();
    assert_int_equal(pthread_create(&t.thread, NULL, take_and_end, &t), 0);
    must(join(&t)->err);
    for (int i = 0; i < 10; i++) { /* thread ids are used again */
        struct task next_one = {.lock = t.lock};
        assert_int_equal(
            pthread_create(&next_one.thread, NULL, take_and_end, &next_one), 0);
        must_be(join(&next_one)->err, SNIB_ERR_BUSY);
    }
    must(acquire_for(m, 10000, &g));
    int64_t took = now_ms() - begin;
    assert_true(took >= 2490 && took < 2500 + 1500 + lease_slack_ms());
    must(snib_release(m, g, NULL));
    must_be(snib_release(t.lock, t.grant, NULL), SNIB_ERR_WRONG_OWNER);
    snib_client_free(c);
    snib_client_free(d);
}

/* -- several owners -------------------------------------------------------- */

static void a_try_on_a_held_lock_is_busy_at_once(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    must(acquire_for(l, 0, &g));
    int64_t begin = now_ms();
    assert_int_equal(acquire_for(m, 0, &h), SNIB_ERR_BUSY);
    assert_true(now_ms() - begin < 1000);
    if (strncmp(store_url(), "redlock:", 8) == 0) {
        /* A node that learnt of the holder last may have granted the try, which
         * gives that back in the background. */
        wait_for_fewer_waiters(c, name, 0);
    } else {
        assert_int_equal(waiters_of(c, name), 0);
    }
    must(snib_release(l, g, NULL));
    must(acquire_for(m, 0, &h));
    assert_true(h.token > g.token);
    must(snib_release(m, h, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_waiter_gets_a_lock_whose_lease_ran_out(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = fixed(c, name, SNIB_KIND_MUTEX, 1000),
                     *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    int64_t begin = now_ms();
    must(acquire_for(l, 0, &g));
    must(acquire_for(m, 10000, &h));
    int64_t took = now_ms() - begin;
    assert_true(took >= least_ms(1000) && took < 1000 + slack_ms());
    assert_true(h.token > g.token);
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    assert_true(snib_grant_held(m, h));
    must(snib_release(m, h, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_timed_wait_ends_by_its_limit_and_leaves_the_queue(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    must(acquire_for(l, 0, &g));
    int64_t begin = now_ms();
    assert_int_equal(acquire_for(m, 1000, &h), SNIB_ERR_TIMEOUT);
    int64_t took = now_ms() - begin;
    assert_true(took >= 999 && took < 3000);
    wait_for_fewer_waiters(c, name, 0);
    must(snib_release(l, g, NULL));
    must(acquire_for(l, 0, &g));
    must(snib_release(l, g, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

static void clients_are_served_in_order_of_arrival(void **state)
{
    (void)state;
    skip_without_a_queue();
    enum { N = 5 };
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, name, NULL);
    struct snib_grant g;
    atomic_int claim = 0;
    struct snib_client *d[N];
    struct task t[N] = {0};
    must(acquire_for(l, 0, &g));
    for (int i = 0; i < N; i++) {
        d[i] = open_client();
        t[i].order = &claim;
        t[i].release = true;
        start(&t[i], lock_with(d[i], name, NULL), 20000);
        wait_for_waiters(c, name, (size_t)i + 1);
    }
    int64_t begin = now_ms();
    must(snib_release(l, g, NULL));
    int64_t last = g.token;
    for (int i = 0; i < N; i++) {
        must(join(&t[i])->err);
        assert_int_equal(t[i].place, i);
        assert_true(t[i].grant.token > last);
        last = t[i].grant.token;
        snib_client_free(d[i]);
    }
    assert_true(now_ms() - begin < 2000); /* pushed, not polled */
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_waiter_that_gives_up_does_not_block_the_next(void **state)
{
    (void)state;
    skip_without_a_queue();
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client(),
                       *e = open_client();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    struct task next = {.release = true};
    must(acquire_for(l, 0, &g));
    assert_int_equal(acquire_for(m, 1000, &h), SNIB_ERR_TIMEOUT);
    start(&next, lock_with(e, name, NULL), 20000);
    wait_for_waiters(c, name, 1);
    must(snib_release(l, g, NULL));
    must(join(&next)->err);
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
    snib_client_free(e);
}

/* Nobody releases: each waiter is granted it when the lease before has
 * ended. */
static void waiters_are_served_in_order_as_leases_run_out(void **state)
{
    (void)state;
    skip_without_a_queue();
    /* Six clients stand in the queue before the first lease is over, on a machine
     * that is slow, too. */
    enum { N = 6, FIRST_MS = 5000, LEASE_MS = 500 };
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d[N];
    struct snib_lock *l = fixed(c, name, SNIB_KIND_MUTEX, FIRST_MS);
    struct snib_grant g;
    atomic_int claim = 0;
    struct task t[N] = {0};
    int64_t begin = now_ms(), last;
    must(acquire_for(l, 0, &g));
    last = g.token;
    for (int i = 0; i < N; i++) {
        d[i] = open_client();
        t[i].order = &claim;
        start(&t[i], fixed(d[i], name, SNIB_KIND_MUTEX, LEASE_MS), 30000);
        wait_for_waiters(c, name, (size_t)i + 1);
    }
    for (int i = 0; i < N; i++) {
        must(join(&t[i])->err);
        assert_int_equal(t[i].place, i);
        assert_true(t[i].grant.token > last);
        last = t[i].grant.token;
    }
    int64_t took = now_ms() - begin;
    assert_true(took >= least_ms(FIRST_MS));
    assert_true(took < FIRST_MS + (N - 1) * LEASE_MS + 2 * slack_ms());
    for (int i = 0; i < N; i++) {
        snib_client_free(d[i]);
    }
    snib_client_free(c);
}

static int hold_and_stay(const char *name)
{
    struct snib_grant g;
    return (int)acquire_for(renewed(open_client(), name, 1500), 0, &g);
}

static int wait_and_stay(const char *name)
{
    struct snib_client *c = open_client();
    uint64_t ticket;
    snib_err err =
        snib_acquire_start(lock_with(c, name, NULL), NULL, NULL, &ticket, NULL);
    return (int)err;
}

static void a_killed_waiter_does_not_hold_up_the_queue(void **state)
{
    (void)state;
    skip_without_a_queue();
    skip_in_one_process();
    const char *name = fresh_name();
    struct child holder = start_child(hold_and_stay, name);
    wait_for_child(&holder);
    struct child waiter = start_child(wait_and_stay, name);
    wait_for_child(&waiter);
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, name, NULL);
    struct task next = {0};
    wait_for_waiters(c, name, 1);
    start(&next, l, 30000);
    wait_for_waiters(c, name, 2);
    kill_child(&waiter);
    kill_child(&holder);
    int64_t begin = now_ms();
    must(join(&next)->err);
    /* The holder's lease, and the push lease of a dead waiter. */
    assert_true(now_ms() - begin < 1500 + 3000 + lease_slack_ms());
    assert_true(snib_grant_held(l, next.grant));
    must(snib_release(l, next.grant, NULL));
    wait_for_fewer_waiters(c, name, 0);
    snib_client_free(c);
}

/* A reader does not wait for claims that are behind it in the queue. */
static void a_newcomer_has_the_place_of_its_class(void **state)
{
    (void)state;
    skip_without_a_queue();
    const char *name = fresh_name();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.kind = SNIB_KIND_READ;
    struct snib_client *c = open_client(), *d = open_client(),
                       *e = open_client(), *f = open_client();
    struct snib_lock *first = lock_with(c, name, &o),
                     *equal = lock_with(d, name, &o);
    o.priority = 10;
    struct snib_lock *better = lock_with(e, name, &o);
    struct snib_grant g, h, none;
    struct task writer = {.release = true};
    must(acquire_for(first, 0, &g));
    start(&writer, lock_with(f, name, NULL), 20000);
    wait_for_waiters(c, name, 1);
    assert_int_equal(acquire_for(equal, 0, &none), SNIB_ERR_BUSY);
    must(acquire_for(better, 0, &h));
    must(snib_release(better, h, NULL));
    must(snib_release(first, g, NULL));
    must(join(&writer)->err);
    snib_lock_free(first);
    snib_lock_free(equal);
    snib_lock_free(better);
    snib_client_free(c);
    snib_client_free(d);
    snib_client_free(e);
    snib_client_free(f);
}

struct counter {
    struct snib_client *client;
    const char *name;
    struct snib_lock_options options;
    int rounds;
    volatile int *value; /* no atomics: the lock protects it */
    volatile int64_t *last_token;
    int bad_tokens;
};

static void *count(void *arg)
{
    struct counter *k = arg;
    struct snib_lock *l = lock_with(k->client, k->name, &k->options);
    for (int i = 0; i < k->rounds; i++) {
        struct snib_grant g;
        must(acquire_for(l, INT64_MAX, &g));
        int v = *k->value;
        if (v % 7 == 0) {
            sched_yield();
        }
        k->bad_tokens += g.token <= *k->last_token;
        *k->last_token = g.token;
        *k->value = v + 1;
        must(snib_release(l, g, NULL));
    }
    snib_lock_free(l);
    return NULL;
}

static void contend(bool pass)
{
    enum { CLIENTS = 4, THREADS = 4, ROUNDS = 60 };
    const char *name = fresh_name();
    struct snib_client *c[CLIENTS];
    struct counter k[CLIENTS * THREADS];
    pthread_t t[CLIENTS * THREADS];
    volatile int value = 0;
    volatile int64_t last = 0;
    for (int i = 0; i < CLIENTS; i++) {
        c[i] = open_client();
    }
    for (int i = 0; i < CLIENTS * THREADS; i++) {
        k[i] = (struct counter){.client = c[i % CLIENTS],
                                .name = name,
                                .options = SNIB_INIT(snib_lock_options),
                                .rounds = ROUNDS,
                                .value = &value,
                                .last_token = &last};
        k[i].options.no_local_hand_over = !pass;
        pthread_create(&t[i], NULL, count, &k[i]);
    }
    int bad = 0;
    for (int i = 0; i < CLIENTS * THREADS; i++) {
        pthread_join(t[i], NULL);
        bad += k[i].bad_tokens;
    }
    assert_int_equal(value, CLIENTS * THREADS * ROUNDS);
    assert_int_equal(bad, 0);
    for (int i = 0; i < CLIENTS; i++) {
        snib_client_free(c[i]);
    }
}

static void an_unprotected_counter_is_exact_with_local_hand_over(void **state)
{
    (void)state;
    contend(true);
}

static void an_unprotected_counter_is_exact_without_it(void **state)
{
    (void)state;
    contend(false);
}

static void five_hundred_threads_all_get_it(void **state)
{
    (void)state;
    skip_without_a_queue();
    enum { CLIENTS = 5, THREADS = 500 };
    static struct task t[THREADS];
    const char *name = fresh_name();
    struct snib_client *c[CLIENTS], *d = open_client();
    struct snib_lock *l[CLIENTS], *first = lock_with(d, name, NULL);
    struct snib_grant g;
    for (int i = 0; i < CLIENTS; i++) {
        c[i] = open_client();
        l[i] = lock_with(c[i], name, NULL);
    }
    must(acquire_for(first, 0, &g));
    for (int i = 0; i < THREADS; i++) {
        t[i].release = true;
        start(&t[i], l[i % CLIENTS], 60000);
    }
    wait_for_waiters(d, name, CLIENTS); /* one claim of each client */
    int64_t begin = now_ms();
    must(snib_release(first, g, NULL));
    for (int i = 0; i < THREADS; i++) {
        must(join(&t[i])->err);
    }
    assert_true((double)(now_ms() - begin) < 30000 * crowding());
    assert_int_equal(waiters_of(d, name), 0);
    for (int i = 0; i < CLIENTS; i++) {
        snib_client_free(c[i]);
    }
    snib_client_free(d);
}

static void a_dead_process_frees_its_lock_by_its_lease(void **state)
{
    (void)state;
    skip_in_one_process();
    const char *name = fresh_name();
    pid_t pid = fork();
    if (pid == 0) {
        struct snib_client *c = open_client();
        struct snib_lock_options o = SNIB_INIT(snib_lock_options);
        struct snib_grant g;
        o.lease_ms = 1500;
        struct snib_lock *l = lock_with(c, name, &o);
        _exit(acquire_for(l, 0, &g) ? 1 : 0); /* no release: as if killed */
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    struct snib_client *d = open_client();
    struct snib_lock *m = lock_with(d, name, NULL);
    struct snib_grant h;
    must(acquire_for(m, 2800 + lease_slack_ms(), &h));
    must(snib_release(m, h, NULL));
    snib_lock_free(m);
    snib_client_free(d);
}

static void a_forked_child_is_refused(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, fresh_name(), NULL);
    struct snib_grant g, h;
    must(acquire_for(l, 0, &g));
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = acquire_for(l, 0, &h) == SNIB_ERR_FORKED &&
                  snib_release(l, g, NULL) == SNIB_ERR_FORKED;
        snib_client_free(c);
        _exit(ok ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_true(snib_grant_held(l, g));
    must(snib_release(l, g, NULL));
    snib_lock_free(l);
    snib_client_free(c);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_rise_from_grant_to_grant),
        cmocka_unit_test(status_shows_a_held_grant),
        cmocka_unit_test(re_entry_keeps_the_token_and_counts),
        cmocka_unit_test(another_thread_may_not_release),
        cmocka_unit_test(a_fixed_lease_expires_and_is_told),
        cmocka_unit_test(a_fixed_lease_can_be_renewed_by_hand),
        cmocka_unit_test(a_renewal_to_a_shorter_lease_does_not_shorten_it),
        cmocka_unit_test(the_keeper_renews_beyond_the_lease),
        cmocka_unit_test(hold_max_is_told_by_callback),
        cmocka_unit_test(renewal_goes_on_for_the_next_owner_after_re_entries),
        cmocka_unit_test(the_lock_of_a_thread_that_ended_ends_with_hold_max),
        cmocka_unit_test(a_try_on_a_held_lock_is_busy_at_once),
        cmocka_unit_test(a_waiter_gets_a_lock_whose_lease_ran_out),
        cmocka_unit_test(a_timed_wait_ends_by_its_limit_and_leaves_the_queue),
        cmocka_unit_test(clients_are_served_in_order_of_arrival),
        cmocka_unit_test(a_waiter_that_gives_up_does_not_block_the_next),
        cmocka_unit_test(waiters_are_served_in_order_as_leases_run_out),
        cmocka_unit_test(a_killed_waiter_does_not_hold_up_the_queue),
        cmocka_unit_test(a_newcomer_has_the_place_of_its_class),
        cmocka_unit_test(an_unprotected_counter_is_exact_with_local_hand_over),
        cmocka_unit_test(an_unprotected_counter_is_exact_without_it),
        cmocka_unit_test(five_hundred_threads_all_get_it),
        cmocka_unit_test(a_dead_process_frees_its_lock_by_its_lease),
        cmocka_unit_test(a_forked_child_is_refused),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

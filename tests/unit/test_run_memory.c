/* tests/unit/test_run_memory.c — the public interface, on memory:.
 * labels: thread
 *
 * One thread and many: re-entry, renewal, limits, exclusion. */
#include "run_memory.h"

/* -- one thread ------------------------------------------------------------- */

static void acquire_then_release(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g, h;
    assert_int_equal(snib_acquire(l, NULL, &g, &e), SNIB_ERR_OK);
    assert_true(g.ticket != 0 && g.token > 0);
    assert_true(snib_grant_held(l, g));
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    assert_false(snib_grant_held(l, g));
    assert_int_equal(acquire(l, 0, &h), SNIB_ERR_OK);
    assert_true(h.token > g.token);
    assert_int_equal(snib_release(l, h, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void same_thread_enters_again_with_the_same_token(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g, h;
    struct snib_status s;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(acquire(l, 0, &h), SNIB_ERR_OK);
    assert_int_equal(g.token, h.token);
    snib_grant_status(l, g, &s, sizeof s);
    assert_int_equal(s.holds, 2);
    assert_int_equal(snib_release(l, h, &e), SNIB_ERR_OK);
    assert_true(snib_grant_held(l, g));
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_grant_status(l, g, &s, sizeof s);
    assert_int_equal(s.state, SNIB_STATE_RELEASED);
    snib_lock_free(l);
    snib_client_free(c);
}

static void second_release_is_recognised(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g, none = {0};
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_release(l, none, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_renew(l, g, 0, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_grant_fd(l, g), -1);
    assert_int_equal(errno, ENOENT);
    snib_lock_free(l);
    snib_client_free(c);
}

static void two_handles_of_one_name_share_the_grant(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(c, "x");
    struct snib_grant g, h;
    struct snib_status s;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(acquire(m, 0, &h), SNIB_ERR_OK);
    assert_int_equal(g.ticket, h.ticket);
    snib_lock_free(l); /* gives back its own hold only */
    snib_grant_status(m, h, &s, sizeof s);
    assert_int_equal(s.holds, 1);
    assert_int_equal(snib_release(m, h, &e), SNIB_ERR_OK);
    snib_lock_free(m);
    snib_client_free(c);
}

static void freeing_a_handle_releases_what_it_holds(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x"), *m;
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    snib_lock_free(l);
    m = lock_of(c, "x");
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.owner = snib_owner_new();
    assert_int_equal(snib_try_for(m, 5000, &o, &g, &e), SNIB_ERR_OK);
    snib_client_free(c); /* frees m too */
}

static void renewing_extends_the_deadline(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    struct snib_status s;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_renew(l, g, 120000, &e), SNIB_ERR_OK);
    snib_grant_status(l, g, &s, sizeof s);
    assert_true(s.left_ms > 100000);
    assert_int_equal(snib_renew(l, g, 1, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l;
    struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
    struct snib_acquire_options ao = SNIB_INIT(snib_acquire_options);
    struct snib_grant g;
    lo.lease_ms = 49;
    assert_int_equal(snib_lock_new(c, "x", &lo, &l, &e), SNIB_ERR_USAGE);
    lo.lease_ms = 0;
    lo.kind = SNIB_KIND_READ;
    lo.permits = 1;
    assert_int_equal(snib_lock_new(c, "x", &lo, &l, &e), SNIB_ERR_USAGE);
    lo.kind = (snib_kind)77;
    assert_int_equal(snib_lock_new(c, "x", &lo, &l, &e), SNIB_ERR_USAGE);
    lo = (struct snib_lock_options)SNIB_INIT(snib_lock_options);
    lo.kind = SNIB_KIND_PERMITS;
    lo.permits = 3;
    lo.capacity = 2;
    assert_int_equal(snib_lock_new(c, "x", &lo, &l, &e), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "3 permits"));
    lo = (struct snib_lock_options)SNIB_INIT(snib_lock_options);
    lo.priority = 101;
    assert_int_equal(snib_lock_new(c, "x", &lo, &l, &e), SNIB_ERR_USAGE);
    lo.priority = 0;
    lo.lock_delay_ms = -1;
    assert_int_equal(snib_lock_new(c, "x", &lo, &l, &e), SNIB_ERR_USAGE);
    lo = (struct snib_lock_options){.size = 12}; /* no struct's */
    assert_int_equal(snib_lock_new(c, "x", &lo, &l, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_lock_new(c, "", NULL, &l, &e), SNIB_ERR_USAGE);
    l = lock_of(c, "x");
    ao.size--;
    assert_int_equal(snib_try(l, &ao, &g, &e), SNIB_ERR_USAGE);
    ao.size++;
    ao.owner = 7;
    assert_int_equal(snib_try(l, &ao, &g, &e), SNIB_ERR_USAGE);
    snib_lock_free(l);
    snib_client_free(c);
    struct snib_client_options co = SNIB_INIT(snib_client_options);
    co.url = "carrier-pigeon:coop";
    assert_int_equal(snib_client_open(&co, &c, &e), SNIB_ERR_UNSUPPORTED);
    assert_null(c);
    co.url = "memory:a";
    co.request_ms = -1;
    assert_int_equal(snib_client_open(&co, &c, &e), SNIB_ERR_USAGE);
    snib_client_free(NULL);
    snib_lock_free(NULL);
}

/* -- several threads --------------------------------------------------------------- */

static void *releases(void *arg)
{
    struct job *j = arg;
    struct snib_error mine;
    j->err = snib_release(j->lock, j->grant, &mine);
    return NULL;
}

static void run_thread(void *(*body)(void *), struct job *j)
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, body, j), 0);
    pthread_join(t, NULL);
}

static void another_thread_is_refused_by_a_try(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct job j = {.lock = l, .wait_ms = 0};
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    run_thread(acquires, &j);
    assert_int_equal(j.err, SNIB_ERR_BUSY);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void limits_are_kept(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_client *d = open_client("", false);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(d, "x");
    struct job local = {.lock = l, .wait_ms = 60},
               far = {.lock = m, .wait_ms = 60};
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    run_thread(acquires, &local);
    run_thread(acquires, &far);
    assert_int_equal(local.err, SNIB_ERR_TIMEOUT);
    assert_int_equal(far.err, SNIB_ERR_TIMEOUT);
    assert_true(local.took_ms >= 60 && local.took_ms < 2000);
    assert_true(far.took_ms >= 60 && far.took_ms < 2000);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
    snib_client_free(d);
}

static void another_thread_must_not_release(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct job j = {.lock = l};
    assert_int_equal(acquire(l, 0, &j.grant), SNIB_ERR_OK);
    run_thread(releases, &j);
    assert_int_equal(j.err, SNIB_ERR_WRONG_OWNER);
    assert_true(snib_grant_held(l, j.grant));
    assert_int_equal(snib_release(l, j.grant, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_owner_of_ones_own_may_move(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct job j = {.lock = l};
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.owner = snib_owner_new();
    assert_int_equal(snib_try(l, &o, &j.grant, &e), SNIB_ERR_OK);
    run_thread(releases, &j);
    assert_int_equal(j.err, SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_new_thread_is_never_the_owner_of_a_dead_ones_lock(void **state)
{
    (void)state; /* H27: thread ids are reused at once by most systems */
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.owner = snib_owner_new();
    struct job j = {.lock = l, .wait_ms = 0};
    assert_int_equal(snib_try(l, &o, &j.grant, &e), SNIB_ERR_OK);
    for (int i = 0; i < 20; i++) {
        run_thread(acquires, &j);
        assert_int_equal(j.err, SNIB_ERR_BUSY);
    }
    snib_lock_free(l);
    snib_client_free(c);
}

struct crowd {
    struct snib_lock *lock[4];
    _Atomic int inside;
    _Atomic int64_t token;
    _Atomic int next, wrong;
    int rounds;
};

static void *member(void *arg)
{
    struct crowd *x = arg;
    struct snib_lock *l = x->lock[atomic_fetch_add(&x->next, 1) % 4];
    struct snib_error mine;
    for (int i = 0; i < x->rounds; i++) {
        struct snib_grant g;
        if (snib_try_for(l, 60000, NULL, &g, &mine)) {
            atomic_fetch_add(&x->wrong, 1);
            continue;
        }
        if (atomic_exchange(&x->inside, 1) ||
            atomic_exchange(&x->token, g.token) >= g.token) {
            atomic_fetch_add(&x->wrong, 1);
        }
        atomic_store(&x->inside, 0);
        if (snib_release(l, g, &mine)) {
            atomic_fetch_add(&x->wrong, 1);
        }
    }
    return NULL;
}

static void crowd_of(int threads, int clients, int rounds)
{
    struct snib_client *c[4];
    struct crowd x = {.rounds = rounds};
    pthread_t t[32];
    for (int i = 0; i < clients; i++) {
        c[i] = open_client("", false);
        x.lock[i] = lock_of(c[i], "x");
    }
    for (int i = clients; i < 4; i++) {
        x.lock[i] = x.lock[i % clients];
    }
    struct snib__counts n;
    struct snib_grant gate;
    assert_int_equal(snib_try(x.lock[0], NULL, &gate, &e), SNIB_ERR_OK);
    for (int i = 0; i < threads; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, member, &x), 0);
    }
    /* All stand before the gate: whoever comes after it has somebody behind. */
    int64_t deadline = now_ms() + 20000;
    do {
        assert_true(now_ms() < deadline);
        poll(NULL, 0, 1);
        snib__client_counts(c[0], &n, NULL, NULL);
    } while (clients == 1 && n.waiting < (uint32_t)threads);
    assert_int_equal(snib_release(x.lock[0], gate, &e), SNIB_ERR_OK);
    for (int i = 0; i < threads; i++) {
        pthread_join(t[i], NULL);
    }
    assert_int_equal(x.wrong, 0);
    snib__client_counts(c[0], &n, NULL, NULL);
    if (clients == 1) {
        assert_true(n.passes > 0);
    }
    for (int i = 0; i < clients; i++) {
        snib_lock_free(x.lock[i]);
        snib_client_free(c[i]);
    }
}

static void many_threads_exclude_each_other_and_tokens_rise(void **state)
{
    (void)state;
    crowd_of(16, 1, 300);
}

static void many_threads_of_several_clients_exclude_each_other(void **state)
{
    (void)state;
    crowd_of(16, 4, 60);
}

/* -- replies that are lost ------------------------------------------------------------------------ */

static void a_lost_reply_is_asked_for_again(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    assert_int_equal(snib_test_drop_replies(c, 3), SNIB_ERR_OK);
    assert_int_equal(acquire(l, 10000, &g), SNIB_ERR_OK);
    assert_int_equal(snib_test_drop_replies(c, 3), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    assert_int_equal(acquire(l, 10000, &g), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(acquire_then_release, new_space),
        cmocka_unit_test_setup(same_thread_enters_again_with_the_same_token,
                               new_space),
        cmocka_unit_test_setup(second_release_is_recognised, new_space),
        cmocka_unit_test_setup(two_handles_of_one_name_share_the_grant,
                               new_space),
        cmocka_unit_test_setup(freeing_a_handle_releases_what_it_holds,
                               new_space),
        cmocka_unit_test_setup(renewing_extends_the_deadline, new_space),
        cmocka_unit_test_setup(wrong_options_are_refused, new_space),
        cmocka_unit_test_setup(another_thread_is_refused_by_a_try, new_space),
        cmocka_unit_test_setup(limits_are_kept, new_space),
        cmocka_unit_test_setup(another_thread_must_not_release, new_space),
        cmocka_unit_test_setup(a_owner_of_ones_own_may_move, new_space),
        cmocka_unit_test_setup(
            a_new_thread_is_never_the_owner_of_a_dead_ones_lock, new_space),
        cmocka_unit_test_setup(many_threads_exclude_each_other_and_tokens_rise,
                               new_space),
        cmocka_unit_test_setup(
            many_threads_of_several_clients_exclude_each_other, new_space),
        cmocka_unit_test_setup(a_lost_reply_is_asked_for_again, new_space),
    };
    return RUN(cases);
}

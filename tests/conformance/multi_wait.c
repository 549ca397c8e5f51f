/* Several locks as one (snib/multi.h): waiting for them, and their loss. */
#include <pthread.h>
#include <string.h>

#include "multi_rig.h"
#include "snib/inspect.h"

/* -- waiting --------------------------------------------------------------- */

struct job {
    struct snib_multi *multi;
    struct snib_grant grants[3];
    snib_err err;
    int64_t wait_ms;
    atomic_int done;
};

static void *take_and_release(void *arg)
{
    struct job *j = arg;
    struct snib_error mine = {0};
    j->err = snib_multi_try_for(j->multi, j->wait_ms, NULL, j->grants, &mine);
    if (!j->err) {
        j->err = snib_multi_release(j->multi, j->grants, &mine);
    }
    atomic_store(&j->done, 1);
    return NULL;
}

static void one_that_waits_gets_all_after_the_release(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_lock *theirs = lock_with(r.stranger, r.x, NULL);
    struct snib_grant h;
    struct job j = {.multi = r.multi, .wait_ms = 20000};
    pthread_t t;
    must(snib_acquire(theirs, NULL, &h, &e));
    assert_int_equal(pthread_create(&t, NULL, take_and_release, &j), 0);
    wait_for_waiters(r.stranger, r.x, 1);
    /* While the multi waits for x it holds nothing that is behind x in the
     * order. */
    assert_free(store_url(), r.z);
    assert_int_equal(atomic_load(&j.done), 0);
    must(snib_release(theirs, h, &e));
    pthread_join(t, NULL);
    assert_int_equal(j.err, SNIB_ERR_OK);
    assert_all_free(&r);
    snib_lock_free(theirs);
    rig_free(&r);
}

static void a_closed_client_ends_the_wait(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_lock *theirs = lock_with(r.stranger, r.z, NULL);
    struct snib_grant h;
    struct job j = {.multi = r.multi, .wait_ms = INT64_MAX};
    pthread_t t;
    must(snib_acquire(theirs, NULL, &h, &e));
    assert_int_equal(pthread_create(&t, NULL, take_and_release, &j), 0);
    wait_for_waiters(r.stranger, r.z, 1);
    snib_client_close(r.here);
    pthread_join(t, NULL);
    /* UNKNOWN: the store had queued it; its answer was on the way. */
    assert_true(j.err == SNIB_ERR_CLOSED || j.err == SNIB_ERR_UNKNOWN);
    must(snib_release(theirs, h, &e));
    assert_free(other_url(), r.y);
    assert_free(store_url(), r.x);
    snib_lock_free(theirs);
    rig_free(&r);
}

static void a_cancelled_multi_ends_all_its_waits(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_lock *theirs = lock_with(r.stranger, r.z, NULL);
    struct snib_grant g[3], h;
    struct job j[2] = {{.multi = r.multi, .wait_ms = INT64_MAX},
                       {.multi = r.multi, .wait_ms = INT64_MAX}};
    pthread_t t[2];
    must(snib_acquire(theirs, NULL, &h, &e));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, take_and_release, &j[i]),
                         0);
    }
    wait_for_waiters(r.stranger, r.z, 1);
    snib_multi_cancel(r.multi);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        /* UNKNOWN: others saw it wait before its own client was told so. */
        assert_true(j[i].err == SNIB_ERR_CANCELLED ||
                    j[i].err == SNIB_ERR_UNKNOWN);
        assert_int_equal(j[i].grants[0].ticket | j[i].grants[1].ticket, 0);
    }
    assert_free(store_url(), r.x);
    assert_free(other_url(), r.y);
    /* It stays cancelled: no acquire waits any more, but one that need not wait
     * gets all. */
    assert_int_equal(take_all(r.multi, INT64_MAX, g), SNIB_ERR_CANCELLED);
    assert_int_equal(take_all(r.multi, 0, g), SNIB_ERR_BUSY);
    must(snib_release(theirs, h, &e));
    must(take_all(r.multi, 0, g));
    must(snib_multi_release(r.multi, g, &e));
    assert_all_free(&r);
    snib_lock_free(theirs);
    rig_free(&r);
}

/* Wait up to 10 s until the multi lacks just this one. */
static void wait_until_missing(struct snib_multi *m, size_t index)
{
    int64_t until = now_ms() + 10000;
    while (snib_multi_missing(m) != index) {
        assert_true(now_ms() < until);
        look_again_after_ms(2);
    }
}

static void the_missing_lock_is_named(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_lock *x = lock_with(r.stranger, r.x, NULL);
    struct snib_lock *z = lock_with(r.stranger, r.z, NULL);
    struct snib_grant hx, hz, g[3];
    struct job j = {.multi = r.multi, .wait_ms = 20000};
    pthread_t t;
    assert_int_equal(snib_multi_missing(r.multi), 3);
    must(snib_acquire(x, NULL, &hx, &e));
    must(snib_acquire(z, NULL, &hz, &e));
    assert_int_equal(take_all(r.multi, 0, g), SNIB_ERR_BUSY);
    assert_int_equal(snib_multi_missing(r.multi), 0);
    assert_int_equal(pthread_create(&t, NULL, take_and_release, &j), 0);
    wait_for_waiters(r.stranger, r.x, 1);
    wait_until_missing(r.multi, 0);
    must(snib_release(x, hx, &e));
    wait_for_waiters(r.stranger, r.z, 1);
    wait_until_missing(r.multi, 2);
    must(snib_release(z, hz, &e));
    pthread_join(t, NULL);
    assert_int_equal(j.err, SNIB_ERR_OK);
    assert_int_equal(snib_multi_missing(r.multi), 3);
    snib_lock_free(x);
    snib_lock_free(z);
    rig_free(&r);
}

/* -- loss ------------------------------------------------------------------ */

static void the_loss_of_one_is_the_loss_of_the_whole(void **state)
{
    (void)state;
    struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
    struct snib_client *here = open_client(), *there = open_at(other_url());
    const char *x = fresh_name(), *y = fresh_name();
    struct snib_lock *lock[2] = {lock_with(here, x, NULL)};
    struct snib_grant g[2];
    struct snib_multi_status s;
    lo.lease_ms = 200;
    lo.fixed_lease = true;
    must(snib_lock_new(there, y, &lo, &lock[1], &e));
    struct snib_multi *m = multi_of(lock, 2);
    must(take_all(m, 5000, g));
    snib_multi_status(m, g, &s, sizeof s);
    assert_int_equal(s.member, 1); /* the earliest deadline */
    assert_in_range(s.left_ms, 0, 200);
    int64_t until = now_ms() + 10000;
    do {
        assert_true(now_ms() < until);
        look_again_after_ms(5);
        snib_multi_status(m, g, &s, sizeof s);
    } while (s.state != SNIB_STATE_LOST);
    assert_false(snib_multi_held(m, g));
    assert_int_equal(s.cause, SNIB_CAUSE_EXPIRED);
    assert_int_equal(s.member, 1);
    assert_int_equal(s.left_ms, 0);
    assert_true(snib_grant_held(lock[0], g[0]));
    assert_int_equal(snib_multi_release(m, g, &e), SNIB_ERR_LOST);
    assert_non_null(strstr(e.text, y));
    assert_free(store_url(), x);
    /* It is unwound: it can be acquired again. */
    must(take_all(m, 5000, g));
    must(snib_multi_release(m, g, &e));
    snib_multi_free(m);
    snib_lock_free(lock[0]);
    snib_lock_free(lock[1]);
    snib_client_free(here);
    snib_client_free(there);
}

static void the_force_of_one_is_the_loss_of_the_whole(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_grant g[3];
    struct snib_multi_status s;
    uint32_t ended;
    must(take_all(r.multi, 0, g));
    must(snib_client_force_release(r.stranger, r.z, 0, "stuck", &ended, &e));
    assert_int_equal(ended, 1);
    must_be(snib_renew(r.lock[2], g[2], 0, &e), SNIB_ERR_LOST);
    snib_multi_status(r.multi, g, &s, sizeof s);
    assert_int_equal(s.state, SNIB_STATE_LOST);
    assert_int_equal(s.cause, SNIB_CAUSE_REVOKED);
    assert_int_equal(s.member, 2);
    assert_false(snib_multi_held(r.multi, g));
    assert_true(snib_grant_held(r.lock[0], g[0]));
    must_be(snib_multi_release(r.multi, g, &e), SNIB_ERR_LOST);
    assert_non_null(strstr(e.text, r.z));
    assert_all_free(&r);
    rig_free(&r);
}

static void all_are_renewed_beyond_their_leases(void **state)
{
    (void)state;
    struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
    struct snib_client *here = open_client(), *there = open_at(other_url());
    const char *x = fresh_name(), *y = fresh_name();
    lo.lease_ms = 1200;
    struct snib_lock *lock[2] = {lock_with(here, x, &lo),
                                 lock_with(there, y, &lo)};
    struct snib_client *stranger[2] = {open_client(), open_at(other_url())};
    struct snib_multi *m = multi_of(lock, 2);
    struct snib_grant g[2], none;
    must(take_all(m, 5000, g));
    for (int i = 0; i < 2; i++) { /* longer than a lease each */
        struct snib_lock *l = lock_with(stranger[i], i ? y : x, NULL);
        must_be(acquire_for(l, 1500, &none), SNIB_ERR_TIMEOUT);
    }
    assert_true(snib_multi_held(m, g));
    must(snib_multi_release(m, g, &e));
    for (int i = 0; i < 2; i++) {
        snib_client_free(stranger[i]);
    }
    assert_free(store_url(), x);
    assert_free(other_url(), y);
    snib_multi_free(m);
    snib_client_free(here);
    snib_client_free(there);
}

static void a_lease_that_ends_during_the_wait_is_taken_anew(void **state)
{
    (void)state;
    struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
    struct snib_client *c = open_client(), *stranger = open_client();
    const char *x = fresh_name(), *z = fresh_name();
    struct snib_lock *lock[2], *theirs = lock_with(stranger, z, NULL);
    struct snib_grant h;
    pthread_t t;
    lo.lease_ms = 300;
    lo.fixed_lease = true;
    must(snib_lock_new(c, x, &lo, &lock[0], &e));
    lock[1] = lock_with(c, z, NULL);
    struct snib_multi *m = multi_of(lock, 2);
    struct job j = {.multi = m, .wait_ms = 20000};
    must(snib_acquire(theirs, NULL, &h, &e));
    assert_int_equal(pthread_create(&t, NULL, take_and_release, &j), 0);
    wait_for_waiters(stranger, z, 1);
    /* Wait until x's lease, which is not renewed, has ended. */
    int64_t until = now_ms() + 10000;
    for (bool held = true; held;) {
        struct snib_view *v;
        must(snib_client_inspect(stranger, x, 0, &v, &e));
        held = v->holder_count > 0;
        snib_view_free(v);
        assert_true(now_ms() < until);
        look_again_after_ms(5);
    }
    must(snib_release(theirs, h, &e));
    pthread_join(t, NULL);
    assert_int_equal(j.err, SNIB_ERR_OK); /* all released, nothing lost */
    assert_free(store_url(), x);
    assert_free(store_url(), z);
    snib_multi_free(m);
    snib_lock_free(lock[0]);
    snib_lock_free(lock[1]);
    snib_lock_free(theirs);
    snib_client_free(c);
    snib_client_free(stranger);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_waits_gets_all_after_the_release),
        cmocka_unit_test(a_closed_client_ends_the_wait),
        cmocka_unit_test(a_cancelled_multi_ends_all_its_waits),
        cmocka_unit_test(the_missing_lock_is_named),
        cmocka_unit_test(the_loss_of_one_is_the_loss_of_the_whole),
        cmocka_unit_test(the_force_of_one_is_the_loss_of_the_whole),
        cmocka_unit_test(all_are_renewed_beyond_their_leases),
        cmocka_unit_test(a_lease_that_ends_during_the_wait_is_taken_anew),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

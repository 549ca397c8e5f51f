/* What a store tells of a lock and of its end: one set of cases for every
 * store, through the public interface only.
 *
 *   snib_tell URL [CASE]
 */
#include <stdio.h>
#include <string.h>

#include "kit.h"
#include "snib/semaphore.h"
#include "snib/test.h"

static struct snib_lock *lock_of(struct snib_client *c, const char *name,
                                 snib_kind kind, int64_t lease_ms, bool fixed)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.kind = kind;
    o.capacity = kind == SNIB_PERMITS ? 4 : 0;
    o.lease_ms = lease_ms;
    o.fixed_lease = fixed;
    return lock_with(c, name, &o);
}

/* -- a release that comes after a forced one ----------------------------------- */

/* The holder has heard of nothing, or just now: either way it is told. */
static void release_after_force(snib_kind kind, bool fixed)
{
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = lock_of(c, name, kind, 30000, fixed),
                     *m = lock_of(d, name, kind, 30000, false);
    struct snib_grant g, h;
    uint32_t ended = 0;
    must(acquire_for(l, 0, &g));
    must(snib_force_release(d, name, 0, "stuck", &ended, NULL));
    assert_int_equal(ended, 1);
    must(acquire_for(m, 0, &h)); /* somebody works by now */
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    assert_true(snib_grant_held(m, h)); /* and is left alone */
    must(snib_renew(m, h, 0, NULL));
    must(snib_release(m, h, NULL));
    must(acquire_for(l, 1000, &g)); /* the lane has unwound */
    must(snib_release(l, g, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_release_after_a_forced_one_says_lost(void **state)
{
    (void)state;
    release_after_force(SNIB_MUTEX, false);
    release_after_force(SNIB_MUTEX, true);
}

static void a_release_of_a_share_after_a_forced_one_says_lost(void **state)
{
    (void)state;
    release_after_force(SNIB_READ, false);
    release_after_force(SNIB_READ, true);
    release_after_force(SNIB_PERMITS, false);
    release_after_force(SNIB_PERMITS, true);
}

static void a_release_whose_reply_is_lost_is_told_as_what_it_did(void **state)
{
    (void)state;
    if (!is_memory()) {
        print_message("skipped: replies are lost by memory:'s switch; for "
                      "Redis see tests/live\n");
        skip();
    }
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = lock_of(c, name, SNIB_MUTEX, 30000, true);
    struct snib_grant g;
    must(acquire_for(l, 0, &g));
    must(snib_test_drop_replies(c, 1));
    must(snib_release(l, g, NULL)); /* its own first copy ended it */
    must(acquire_for(l, 0, &g));
    must(snib_force_release(d, name, 0, "stuck", NULL, NULL));
    must(snib_test_drop_replies(c, 1));
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    snib_client_free(c);
    snib_client_free(d);
}

/* -- closed until --------------------------------------------------------------- */

static struct snib_lock *delayed(struct snib_client *c, const char *name,
                                 snib_kind kind, int64_t lease_ms,
                                 int64_t delay_ms)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.kind = kind;
    o.capacity = kind == SNIB_PERMITS ? 2 : 0;
    o.permits = o.capacity;
    o.lease_ms = lease_ms;
    o.fixed_lease = true;
    o.lock_delay_ms = delay_ms;
    return lock_with(c, name, &o);
}

static struct snib_view *view_of(struct snib_client *c, const char *name)
{
    struct snib_view *v;
    must(snib_inspect(c, name, 0, &v, NULL));
    return v;
}

/* How long it is closed, by a view that is consistent in itself. */
static int64_t closed_ms(struct snib_client *c, const char *name,
                         struct snib_grant g, snib_kind kind)
{
    struct snib_view *v = view_of(c, name);
    int64_t ms = v->closed_ms;
    assert_int_equal(v->closed_count, ms > 0);
    if (ms > 0) {
        assert_int_equal(v->holder_count, 0);
        assert_int_equal(v->closed_by[0].token, g.token);
        assert_int_equal(v->closed_by[0].kind, kind);
        assert_int_equal(v->closed_by[0].left_ms, ms);
        assert_string_equal(v->closed_by[0].program, "conformance");
    }
    snib_view_free(v);
    return ms;
}

static void wait_until_closed(struct snib_client *c, const char *name)
{
    int64_t deadline = now_ms() + 5000, ms = 0;
    while (!ms) {
        struct snib_view *v = view_of(c, name);
        ms = v->closed_ms;
        snib_view_free(v);
        assert_true(now_ms() < deadline);
        look_again_after_ms(5);
    }
}

static void a_lock_delay_is_told_while_it_runs(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_MUTEX, SNIB_READ, SNIB_PERMITS};
    for (int i = 0; i < 3; i++) {
        struct snib_client *c = open_client(), *d = open_client();
        const char *name = fresh_name();
        struct snib_lock *m =
            lock_of(d, name, kinds[i] == SNIB_READ ? SNIB_WRITE : kinds[i],
                    30000, false);
        struct snib_view **all;
        struct snib_grant g, h;
        size_t n;
        must(acquire_for(delayed(c, name, kinds[i], 200, 2000), 0, &g));
        assert_int_equal(closed_ms(d, name, g, kinds[i]), 0);
        wait_until_closed(d, name);
        int64_t was = 2000, ms;
        while ((ms = closed_ms(d, name, g, kinds[i])) > 0) {
            assert_true(ms <= was); /* it only runs out */
            was = ms;
            must(snib_list(d, name, &all, &n, NULL));
            snib_err err = acquire_for(m, 0, &h);
            if (closed_ms(d, name, g, kinds[i]) > 0) { /* … and still is */
                must_be(err, SNIB_ERR_BUSY);
                assert_int_equal(n, 1);
                assert_int_equal(all[0]->closed_count, 1);
            }
            snib_views_free(all, n);
            if (!err) {
                must(snib_release(m, h, NULL));
            }
            look_again_after_ms(20);
        }
        must(acquire_for(m, 0, &h)); /* it was closed for no longer */
        snib_client_free(c);
        snib_client_free(d);
    }
}

static void who_fits_beside_a_lock_delay_is_let_in(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *read = lock_of(d, name, SNIB_READ, 30000, false);
    struct snib_grant g, h;
    must(acquire_for(delayed(c, name, SNIB_READ, 100, 60000), 0, &g));
    wait_until_closed(d, name);
    must(acquire_for(read, 0, &h));
    struct snib_view *v = view_of(d, name);
    assert_int_equal(v->holder_count, 1);
    assert_int_equal(v->closed_count, 1);
    assert_true(v->closed_ms > 30000 && v->closed_ms <= 60000);
    assert_true(v->holders[0].self && !v->closed_by[0].self);
    snib_view_free(v);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_release_or_a_forced_one_leaves_nothing_closed(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = delayed(c, name, SNIB_MUTEX, 30000, 60000);
    struct snib_grant g;
    uint32_t ended = 9;
    must(acquire_for(l, 0, &g));
    must(snib_release(l, g, NULL));
    assert_int_equal(closed_ms(d, name, g, SNIB_MUTEX), 0);
    must(acquire_for(delayed(c, name, SNIB_MUTEX, 100, 60000), 0, &g));
    wait_until_closed(d, name);
    must(snib_force_release(d, name, 0, "it is gone", &ended, NULL));
    assert_int_equal(ended, 0); /* nobody held any more */
    assert_int_equal(closed_ms(d, name, g, SNIB_MUTEX), 0);
    must(acquire_for(lock_of(d, name, SNIB_MUTEX, 30000, false), 0, &g));
    snib_client_free(c);
    snib_client_free(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_after_a_forced_one_says_lost),
        cmocka_unit_test(a_release_of_a_share_after_a_forced_one_says_lost),
        cmocka_unit_test(a_release_whose_reply_is_lost_is_told_as_what_it_did),
        cmocka_unit_test(a_lock_delay_is_told_while_it_runs),
        cmocka_unit_test(who_fits_beside_a_lock_delay_is_let_in),
        cmocka_unit_test(a_release_or_a_forced_one_leaves_nothing_closed),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

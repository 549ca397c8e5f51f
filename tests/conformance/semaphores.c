/* Sizes of semaphores: one set of cases for every store, through the public
 * interface only (snib/semaphore.h). Permits as a kind of lock are in
 * permits.c. */

#include "kit.h"
#include "snib/semaphore.h"
#include "snib/test.h"

static void assert_semaphore(struct snib_client *c, const char *name,
                             int64_t size, int64_t used, int64_t available,
                             int64_t waiting)
{
    struct snib_semaphore s;
    must(snib_semaphore_get(c, name, 0, &s, sizeof s, NULL));
    assert_int_equal(s.size, size);
    assert_int_equal(s.used, used);
    assert_int_equal(s.available, available);
    assert_int_equal(s.waiting, waiting);
}

static void a_semaphore_has_no_size_before_it_is_given_one(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    struct snib_grant g;
    assert_semaphore(c, name, -1, 0, 0, 0);
    must_be(acquire_for(permits_of(c, name, 1, 0), 0, &g), SNIB_ERR_CONFIG);
    must_be(snib_semaphore_add(c, name, 0, 2, NULL), SNIB_ERR_CONFIG);
    assert_semaphore(c, name, -1, 0, 0, 0);
    snib_client_free(c);
}

static void a_size_is_set_and_init_leaves_one_that_is(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    bool set = false;
    must(snib_semaphore_set(c, name, 0, 5, true, &set, NULL));
    assert_true(set);
    must(snib_semaphore_set(d, name, 0, 7, true, &set, NULL));
    assert_false(set);
    assert_semaphore(d, name, 5, 0, 5, 0);
    must(snib_semaphore_set(d, name, 0, 7, false, &set, NULL));
    assert_true(set);
    assert_semaphore(c, name, 7, 0, 7, 0);
    must(snib_semaphore_set(c, name, 0, 0, false, NULL, NULL));
    assert_semaphore(c, name, 0, 0, 0, 0);
    snib_client_free(c);
    snib_client_free(d);
}

static void adding_changes_the_size_by_the_difference(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    must(snib_semaphore_set(c, name, 0, 5, false, NULL, NULL));
    must(snib_semaphore_add(c, name, 0, 3, NULL));
    assert_semaphore(c, name, 8, 0, 8, 0);
    must(snib_semaphore_add(c, name, 0, -6, NULL));
    assert_semaphore(c, name, 2, 0, 2, 0);
    must_be(snib_semaphore_add(c, name, 0, -3, NULL), SNIB_ERR_USAGE);
    must_be(snib_semaphore_add(c, name, 0, SNIB_PERMITS_MAX, NULL),
            SNIB_ERR_USAGE);
    must_be(snib_semaphore_add(c, name, 0, SNIB_PERMITS_MAX + INT64_C(1), NULL),
            SNIB_ERR_USAGE);
    must_be(snib_semaphore_add(c, name, 0, INT64_MIN, NULL), SNIB_ERR_USAGE);
    must_be(snib_semaphore_set(c, name, 0, SNIB_PERMITS_MAX + 1u, false, NULL,
                               NULL),
            SNIB_ERR_USAGE);
    assert_semaphore(c, name, 2, 0, 2, 0);
    snib_client_free(c);
}

static void
below_what_is_in_use_none_is_granted_until_enough_is_back(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *two = permits_of(c, name, 2, 4),
                     *one = permits_of(d, name, 1, 0);
    struct snib_grant a, b, g;
    must(acquire_for(two, 0, &a));
    must(acquire_for(two, 0, &b));
    must(snib_semaphore_set(d, name, 0, 1, false, NULL, NULL));
    assert_semaphore(c, name, 1, 4, -3, 0);
    must_be(acquire_for(one, 0, &g), SNIB_ERR_BUSY);
    must(snib_release(two, a, NULL));
    assert_semaphore(c, name, 1, 2, -1, 0);
    must_be(acquire_for(one, 0, &g), SNIB_ERR_BUSY);
    must(snib_release(two, b, NULL));
    assert_semaphore(c, name, 1, 0, 1, 0);
    must(acquire_for(one, SOON_MS, &g));
    must(snib_release(one, g, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void growing_serves_who_waits_at_once(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = permits_of(c, name, 1, 1),
                     *m = permits_of(d, name, 1, 0);
    struct snib_grant g;
    must(acquire_for(l, 0, &g));
    struct task t[3] = {0};
    for (size_t i = 0; i < 3; i++) {
        start(&t[i], m, 20000);
        wait_for_waiters(c, name, i + 1);
    }
    assert_semaphore(c, name, 1, 1, 0, 3);
    int64_t began = now_ms();
    must(snib_semaphore_add(c, name, 0, 2, NULL));
    must(join(&t[0])->err);
    must(join(&t[1])->err);
    assert_true(now_ms() - began < slack_ms());
    assert_semaphore(c, name, 3, 3, 0, 1);
    must(snib_semaphore_set(c, name, 0, 4, false, NULL, NULL));
    must(join(&t[2])->err);
    for (int i = 0; i < 3; i++) {
        must(snib_release(m, t[i].grant, NULL));
    }
    must(snib_release(l, g, NULL));
    assert_semaphore(c, name, 4, 0, 4, 0);
    snib_client_free(c);
    snib_client_free(d);
}

static void permits_that_expire_are_counted_as_available(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock_options o = terms(SNIB_KIND_PERMITS, 3, 5);
    o.fixed_lease = true;
    o.lease_ms = 700;
    struct snib_lock *l = lock_with(c, name, &o),
                     *m = permits_of(d, name, 1, 0);
    struct snib_grant g, h;
    must(acquire_for(l, 0, &g));
    must(acquire_for(m, 0, &h));
    assert_semaphore(d, name, 5, 4, 1, 0);
    while (status_of(l, g).state != SNIB_STATE_LOST) {
        look_again_after_ms(5);
    }
    int64_t deadline = now_ms() + 5000;
    struct snib_semaphore s;
    do { /* the owner loses it a little earlier than the store */
        assert_true(now_ms() < deadline);
        must(snib_semaphore_get(d, name, 0, &s, sizeof s, NULL));
    } while (s.used > 1);
    assert_semaphore(d, name, 5, 1, 4, 0);
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    assert_semaphore(d, name, 5, 1, 4, 0); /* nothing is given back twice */
    must(snib_release(m, h, NULL));
    assert_semaphore(d, name, 5, 0, 5, 0);
    snib_client_free(c);
    snib_client_free(d);
}

static void draining_takes_all_that_is_there_in_one_grant(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = permits_of(c, name, 1, 10),
                     *m = permits_of(d, name, 3, 10);
    struct snib_grant g, all, none;
    uint32_t n = 0;
    must(acquire_for(m, 0, &g));
    must(snib_semaphore_drain(l, NULL, &all, &n, NULL));
    assert_int_equal(n, 7);
    assert_semaphore(c, name, 10, 10, 0, 0);
    must_be(snib_semaphore_drain(l, NULL, &none, &n, NULL), SNIB_ERR_BUSY);
    must(snib_release(l, all, NULL));
    assert_semaphore(c, name, 10, 3, 7, 0);
    must(snib_release(m, g, NULL));
    must(snib_semaphore_drain(l, NULL, &all, NULL, NULL));
    assert_semaphore(c, name, 10, 10, 0, 0);
    must(snib_release(l, all, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void draining_does_not_overtake_who_waits(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = permits_of(c, name, 2, 3),
                     *m = permits_of(d, name, 3, 0);
    struct snib_grant g, none;
    must(acquire_for(l, 0, &g));
    struct task t = {0};
    start(&t, m, 20000);
    wait_for_waiters(c, name, 1);
    must_be(snib_semaphore_drain(l, NULL, &none, NULL, NULL), SNIB_ERR_BUSY);
    must(snib_release(l, g, NULL));
    must(join(&t)->err);
    must(snib_release(m, t.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_change_whose_reply_is_lost_counts_once(void **state)
{
    (void)state;
    skip_where_no_reply_is_lost();
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_error e;
    must(snib_semaphore_set(c, name, 0, 3, false, NULL, NULL));
    must(snib_test_drop_replies(c, 1));
    snib_err err = snib_semaphore_add(c, name, 0, 2, &e);
    assert_true(err == SNIB_ERR_OK || err == SNIB_ERR_UNKNOWN);
    assert_semaphore(d, name, 5, 0, 5, 0);
    snib_client_free(c);
    snib_client_free(d);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_semaphore_has_no_size_before_it_is_given_one),
        cmocka_unit_test(a_size_is_set_and_init_leaves_one_that_is),
        cmocka_unit_test(adding_changes_the_size_by_the_difference),
        cmocka_unit_test(
            below_what_is_in_use_none_is_granted_until_enough_is_back),
        cmocka_unit_test(growing_serves_who_waits_at_once),
        cmocka_unit_test(permits_that_expire_are_counted_as_available),
        cmocka_unit_test(draining_takes_all_that_is_there_in_one_grant),
        cmocka_unit_test(draining_does_not_overtake_who_waits),
        cmocka_unit_test(a_change_whose_reply_is_lost_counts_once),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

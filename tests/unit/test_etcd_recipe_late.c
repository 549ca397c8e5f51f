/* tests/unit/test_etcd_recipe_late.c — the locks of etcd's own clients (recipe.c)
 * when answers are lost and copies come late: none moves or removes the key of a
 * holder, and none makes a key of a request that is over. */
#include "etcd_recipe_world.h"

/* -- lost answers, late copies ------------------------------------------------------ */

static void a_grant_whose_answer_was_lost_is_found_again(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    w.loses = true;
    assert_int_equal(ask(&r), SNIB__UNKNOWN);
    w.loses = false;
    int64_t made = own_of(&r)->made;
    r.resent = true;
    assert_int_equal(ask(&r), SNIB__DONE);
    assert_int_equal(r.token, made);
    assert_int_equal(w.keys, 1);
}

/* It names an older lease than the one the holder relies on. */
static void a_late_copy_of_a_renewal_moves_no_key(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__DONE);
    pass(10000);
    struct snib__request renew = ends(SNIB__RENEW, &r);
    start(&renew);
    keep_the(RECIPE_RENEWS, false);
    lose_it();
    pass(6000);
    answered(&renew);
    struct snib__request again = ends(SNIB__RENEW, &r);
    assert_int_equal(ask(&again), SNIB__DONE);
    int64_t lease = own_of(&r)->lease;
    it_comes_late();
    assert_int_equal(own_of(&r)->lease, lease);
}

/* The copy is of what the waiter did before it was granted the lock. */
static void of_a_waiter_no_copy_moves_the_holders_key(etcd_ask ask)
{
    static struct snib__request r;
    put_theirs(THEIRS);
    r = asks(SNIB__ACQUIRE, 7);
    start(&r);
    if (ask == RECIPE_STAYS) {
        serve();
        w.now = snib__after(w.now, snib__ms(1100));
    }
    keep_the(ask, true);
    serve();
    assert_int_equal(r.said.answer, SNIB__QUEUED);
    end_theirs(THEIRS);
    answered(&r);
    tell_watchers(false);
    assert_int_equal(r.said.answer, SNIB__DONE);
    int64_t lease = own_of(&r)->lease;
    it_comes_late();
    assert_int_equal(own_of(&r)->lease, lease);
    answered(&r);
}

static void a_late_copy_of_a_place_moves_no_holders_key(void **state)
{
    (void)state;
    of_a_waiter_no_copy_moves_the_holders_key(RECIPE_STANDS);
}

static void a_late_copy_of_a_poll_moves_no_holders_key(void **state)
{
    (void)state;
    of_a_waiter_no_copy_moves_the_holders_key(RECIPE_STAYS);
}

/* A try that found its own key behind another's went away; then the lock was free,
 * and the repeat got it. */
static void a_late_copy_of_a_try_removes_no_holders_key(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    r.acquire.may_queue = false;
    r.resent = true;
    put_theirs(THEIRS);
    put_theirs("n/00000000000000070000000000000009");
    start(&r);
    keep_the(RECIPE_LEAVES, false);
    lose_it();
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__UNKNOWN);
    end_theirs(THEIRS);
    assert_int_equal(ask(&r), SNIB__DONE);
    it_comes_late();
    assert_non_null(own_of(&r));
}

/* It cannot be; nobody is let in beside it all the same. */
static void an_earlier_key_that_comes_up_is_waited_for(void **state)
{
    (void)state;
    static struct snib__request r;
    put_theirs(THEIRS);
    r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__QUEUED);
    end_theirs(THEIRS);
    w.now = snib__after(w.now, snib__ms(1100));
    keep_the(RECIPE_TAKES, false);
    put_theirs("n/2")->made = own_of(&r)->made - 1;
    serve();
    assert_int_equal(r.said.answer, SNIB__QUEUED);
    answered(&r);
}

/* The lease was asked for long before the key was put under it. */
static void a_grant_counts_from_when_its_lease_does(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    snib_instant began = w.now;
    w.keeps = true;
    start(&r);
    w.now = snib__after(w.now, snib__ms(4000));
    w.keeps = false;
    serve();
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_true(r.said.valid_from.ns <= snib__after(began, snib__ms(1000)).ns);
}

static void a_cancel_keeps_late_copies_out(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 7);
    start(&r);
    keep_the(RECIPE_ENTERS, false);
    lose_it();
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__UNKNOWN);
    struct snib__request cancel = ends(SNIB__CANCEL, &r);
    cancel.resent = true;
    assert_int_equal(ask(&cancel), SNIB__DONE);
    assert_non_null(tombstone_of(&r));
    assert_true(left_of(tombstone_of(&r)) > 30);
    it_comes_late();
    assert_null(own_of(&r));
    struct snib__request other = asks(SNIB__ACQUIRE, 8);
    assert_int_equal(ask(&other), SNIB__DONE);
}

static void who_waits_is_cancelled_without_a_trace_at_the_lock(void **state)
{
    (void)state;
    static struct snib__request r;
    put_theirs(THEIRS);
    r = asks(SNIB__ACQUIRE, 7);
    assert_int_equal(ask(&r), SNIB__QUEUED);
    struct snib__request cancel = ends(SNIB__CANCEL, &r);
    assert_int_equal(ask(&cancel), SNIB__DONE);
    assert_null(own_of(&r));
    assert_string_equal(watched(), "");
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__NO);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_recipe, end_world)
    const struct CMUnitTest cases[] = {
        CASE(a_grant_whose_answer_was_lost_is_found_again),
        CASE(a_late_copy_of_a_renewal_moves_no_key),
        CASE(a_late_copy_of_a_place_moves_no_holders_key),
        CASE(a_late_copy_of_a_poll_moves_no_holders_key),
        CASE(a_late_copy_of_a_try_removes_no_holders_key),
        CASE(an_earlier_key_that_comes_up_is_waited_for),
        CASE(a_grant_counts_from_when_its_lease_does),
        CASE(a_cancel_keeps_late_copies_out),
        CASE(who_waits_is_cancelled_without_a_trace_at_the_lock),
    };
    return RUN(cases);
}

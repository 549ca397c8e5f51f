/* tests/unit/test_zookeeper_ends.c — the store zookeeper, beside a model of its
 * server: an acquire that comes to nothing leaves nothing that others would wait
 * for, and what comes late ends nothing. */
#include "zookeeper_world.h"

/* Its node stands, and the look behind that is not answered: the connection is
 * lost, and there is no server. */
static void stands_and_is_cut_off(struct snib__request *r)
{
    struct snib__request first = request(SNIB__ACQUIRE, 4);
    ask(&first); /* so that all above is there, and the fence */
    assert_int_equal(answer(&first), SNIB__DONE);
    give_back(&first);
    model.frames = 0;
    model.deaf_from = 3; /* look, stand, look */
    down = true;
    ask(r);
    model.deaf_from = 0;
    assert_int_equal(count("__WRIT__"), 1);
}

static void
who_stands_is_not_told_at_its_limit_that_nothing_was_done(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.limit = snib__after(now, snib__ms(10));
    stands_and_is_cut_off(&r);
    pass_ms(15);
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
}

static void who_stands_is_not_cancelled_without_a_look(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5),
                         cancel = request(SNIB__CANCEL, 5);
    stands_and_is_cut_off(&r);
    ask(&cancel);
    assert_int_equal(answer(&cancel), SNIB__PENDING);
    down = false;
    pass_ms(3000);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    (void)answer(&r);
    assert_int_equal(count("__WRIT__"), 0);
}

static uint32_t claims(void)
{
    return ((struct snib__zoo *)(void *)store)->claims;
}

static void what_a_session_took_with_it_is_not_remembered(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    another(true, 30000);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(claims(), 1);
    model_expire();
    model.refuse = "/l/n";
    model.refuse_op = SNIB__ZK_CHILDREN;
    model.refuse_err = SNIB__ZK_NO_AUTH;
    up = false;
    input(SNIB__IN_CLOSED, NULL, 0);
    pass_ms(500);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(claims(), 0);
}

/* A try that finds the lock taken removes the mark that it has from a session that
 * is over. The removal comes when it was granted the lock, with a mark of the same
 * name. */
static void a_removal_by_a_try_that_comes_late_ends_nothing(void **state)
{
    (void)state;
    another(false, 2000);
    others_go();
    another_mark(5, 2000);
    another_node(98);
    keep("=held-0000000000000005", "never");
    model.keep_op = SNIB__ZK_MULTI;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.acquire.may_queue = false;
    ask(&r);
    assert_true(model.kept_size > 0);
    for (int i = 0; i < MODEL_NODES; i++) {
        model.node[i].there = model.node[i].there && model.node[i].owner != 77;
    }
    comes_in(&r);
    assert_int_equal(count("=held-"), 1);
    late();
    assert_int_equal(count("=held-"), 1);
}

/* The look of a cancel has not seen the mark, and then it is made. */
static void a_grant_that_comes_late_makes_no_mark(void **state)
{
    (void)state;
    keep("=held-", "never");
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
    pass_ms(100); /* it is connected again */
    late();
    assert_int_equal(count("=held-"), 0);
}

/* The server refuses what its grant would make. */
static void who_is_refused_does_not_go_on_standing(void **state)
{
    static const int32_t errors[] = {SNIB__ZK_QUOTA, SNIB__ZK_NO_AUTH};
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        model.refuse = "=held-";
        model.refuse_op = SNIB__ZK_MULTI;
        model.refuse_err = errors[i];
        struct snib__request r = request(SNIB__ACQUIRE, 5 + i);
        ask(&r);
        assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
        assert_non_null(strstr(said.text, i ? "no right" : "quota"));
        assert_int_equal(count("__WRIT__"), 0);
    }
}

static void who_meets_a_stranger_does_not_go_on_standing(void **state)
{
    (void)state;
    struct model_node *made;
    another(true, 30000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_false(model_create("/l/n/lock-", "", 0, 2, &made));
    event(model.watch);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_non_null(strstr(said.text, "lock-0"));
    assert_int_equal(count("__WRIT__"), 1); /* the other one's */
}

/* More than go into one step. */
static void the_dead_are_removed_however_many_they_are(void **state)
{
    (void)state;
    another(false, 3000);
    for (uint64_t who = 200; who < 230; who++) {
        another_mark(who, 3000);
    }
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    pass_ms(2900);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("=held-"), 31);
    pass_ms(1200);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(count("=held-"), 1);
}

static void a_try_waits_for_all_dead_at_once(void **state)
{
    (void)state;
    another(false, 2000);
    another_mark(98, 1000);
    another_mark(97, 2000);
    snib__answer got = SNIB__NO;
    int64_t first = now.ns;
    for (uint64_t id = 5; id < 40 && got == SNIB__NO; id++) {
        struct snib__request r = request(SNIB__ACQUIRE, id);
        r.acquire.may_queue = false;
        ask(&r);
        got = answer(&r);
        pass_ms(got == SNIB__NO ? 1000 : 0);
    }
    assert_int_equal(got, SNIB__DONE);
    assert_int_equal(count("=held-"), 1);
    assert_true(now.ns - first > INT64_C(14000000000));
    assert_true(now.ns - first < INT64_C(18000000000));
}

static int begin_below(void **state)
{
    (void)state;
    return begin_at("zookeeper://h/team/app/locks");
}

/* Who may not make anything in the root need not. */
static void the_path_is_made_below_what_is_there(void **state)
{
    (void)state;
    struct model_node *made;
    assert_false(model_create("/team", "", 0, 0, &made));
    model.closed = "/";
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(count("/team/app/locks/n/=held-"), 1);
}

static void a_path_that_may_not_be_made_is_said(void **state)
{
    (void)state;
    model.closed = "/";
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_DENIED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(who_stands_is_not_told_at_its_limit_that_nothing_was_done),
        CASE(who_stands_is_not_cancelled_without_a_look),
        CASE(what_a_session_took_with_it_is_not_remembered),
        CASE(a_removal_by_a_try_that_comes_late_ends_nothing),
        CASE(a_grant_that_comes_late_makes_no_mark),
        CASE(who_is_refused_does_not_go_on_standing),
        CASE(who_meets_a_stranger_does_not_go_on_standing),
        CASE(the_dead_are_removed_however_many_they_are),
        CASE(a_try_waits_for_all_dead_at_once),
        cmocka_unit_test_setup_teardown(the_path_is_made_below_what_is_there,
                                        begin_below, end),
        cmocka_unit_test_setup_teardown(a_path_that_may_not_be_made_is_said,
                                        begin_below, end),
    };
    return RUN(tests);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(who_stands_is_not_told_at_its_limit_that_nothing_was_done),
        CASE(who_stands_is_not_cancelled_without_a_look),
        CASE(a_removal_by_a_try_that_comes_late_ends_nothing),
        CASE(a_grant_that_comes_late_makes_no_mark),
    };
    return RUN(tests);
}

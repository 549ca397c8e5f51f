/* store/sql: answers that do not come, and what is not sent any more. */
#include "sql_world.h"

/* -- answers that do not come ---------------------------------------------- */

static void a_server_that_is_down_leaves_what_has_time(void **state)
{
    struct snib__request r = acquire(1), renew = verb(SNIB__RENEW, 2);
    (void)state;
    w.quicks[0] = w.quicks[1] = w.quicks[2] = w.quicks[3] = SNIB__SQL_DOWN;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__PENDING);
    assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
    run(&renew, NULL); /* its holder wants to hear of it */
    assert_int_equal(renew.said.answer, SNIB__NOT_APPLIED);
    r.exec.impatient = true;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    r.exec.impatient = false;
    w.now = START + SECOND;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_string_equal(w.error.text, "quick");
}

static void a_server_that_is_not_reached_leaves_what_has_time(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.reaches[0] = w.reaches[1] = SNIB__SQL_DOWN;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__PENDING);
    assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
    r.exec.impatient = true;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(w.quick + w.fetch, 0);
}

/* Their callers have left, and were told that nothing was sent. */
static void what_comes_to_its_limit_before_is_not_sent(void **state)
{
    struct snib__request r[5];
    static const snib__verb verbs[5] = {SNIB__ACQUIRE, SNIB__INSPECT,
                                        SNIB__VALUE_PUT, SNIB__PARAMS,
                                        SNIB__FORCE};
    (void)state;
    for (int i = 0; i < 5; i++) {
        r[i] = verb(verbs[i], (uint64_t)i + 1);
        r[i].exec.expires = true;
        r[i].exec.patience.ns = w.now + SECOND;
        w.reach_ns = SECOND;
        run(&r[i], NULL);
        assert_true(r[i].exec.sent); /* so that the core asks no more */
        assert_int_equal(r[i].said.answer, SNIB__NOT_APPLIED);
        assert_int_equal(r[i].said.err, SNIB_ERR_UNREACHABLE);
        assert_true(r[i].exec.blocked);
        assert_string_equal(w.error.text, "the server was reached too late");
    }
    assert_int_equal(w.quick + w.fetch + w.write, 0);
}

static void the_others_of_its_step_are_sent(void **state)
{
    struct snib__request one = acquire(1), two = acquire(2);
    (void)state;
    two.name = &name_b;
    one.exec.expires = two.exec.expires = true;
    one.exec.patience.ns = w.now + SECOND;
    two.exec.patience.ns = w.now + SECOND + 1;
    w.reach_ns = SECOND;
    run(&one, &two);
    assert_int_equal(one.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(two.said.answer, SNIB__DONE);
}

/* A release, say: it is wanted however late. */
static void what_does_not_expire_is_sent_however_late(void **state)
{
    struct snib__request one = acquire(1), release;
    (void)state;
    run(&one, NULL);
    release = of(SNIB__RELEASE, &one);
    release.exec.patience.ns = w.now + SECOND;
    w.reach_ns = 2 * SECOND;
    run(&release, NULL);
    assert_int_equal(release.said.answer, SNIB__DONE);
}

static void a_short_way_whose_answer_is_lost_is_unknown(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.quicks[0] = SNIB__SQL_LOST;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__UNKNOWN);
    assert_int_equal(w.fetch, 0);
}

static void a_short_way_that_is_refused_is_decided(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.quicks[0] = SNIB__SQL_REFUSED;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
}

static void
a_write_whose_answer_is_lost_is_unknown_and_found_again(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.writes[0] = SNIB__SQL_LOST;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__UNKNOWN);
    r.resent = true;
    r.said.answer = SNIB__PENDING;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(lock_in(lock_row(&w.table, &name)).token, r.token);
}

static void what_the_server_refuses_is_told_at_once(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.writes[0] = SNIB__SQL_REFUSED;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_STORE);
    assert_string_equal(w.error.text, "write");
    assert_null(lock_row(&w.table, &name));
}

static void a_fetch_that_fails_changes_nothing(void **state)
{
    struct snib__request r = acquire(1);
    (void)state;
    w.fetches[0] = SNIB__SQL_DOWN;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__PENDING);
    assert_int_equal(w.write, 0);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        STEP(a_server_that_is_down_leaves_what_has_time),
        STEP(a_server_that_is_not_reached_leaves_what_has_time),
        STEP(what_comes_to_its_limit_before_is_not_sent),
        STEP(the_others_of_its_step_are_sent),
        STEP(what_does_not_expire_is_sent_however_late),
        STEP(a_short_way_whose_answer_is_lost_is_unknown),
        STEP(a_short_way_that_is_refused_is_decided),
        STEP(a_write_whose_answer_is_lost_is_unknown_and_found_again),
        STEP(what_the_server_refuses_is_told_at_once),
        STEP(a_fetch_that_fails_changes_nothing),
    };
    return RUN(cases);
}

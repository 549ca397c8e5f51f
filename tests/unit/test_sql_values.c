/* store/sql: looking at locks, and values. */
#include "sql_world.h"

/* -- looking, values ------------------------------------------------------- */

static void a_look_is_answered_with_its_rows(void **state)
{
    struct snib__request r = verb(SNIB__INSPECT, 1);
    (void)state;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_string_equal(snib__buf_text(&w.result), "row");
    w.fetches[1] = SNIB__SQL_REFUSED;
    run(&r, NULL);
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    w.fetches[2] = SNIB__SQL_OK;
    w.result.failed = true;
    run(&r, NULL);
    assert_int_equal(r.said.err, SNIB_ERR_NOMEM);
}

static void looks_at_several_locks_share_a_round_trip(void **state)
{
    struct snib__request one = verb(SNIB__INSPECT, 1);
    struct snib__request two = verb(SNIB__INSPECT, 2);
    struct snib__request doctor = verb(SNIB__DOCTOR, 3);
    (void)state;
    run(&one, &two); /* of one name, too */
    assert_int_equal(w.fetch, 1);
    assert_int_equal(one.said.answer, SNIB__DONE);
    assert_int_equal(two.said.answer, SNIB__DONE);
    run(&one, &doctor);
    assert_int_equal(w.fetch, 3);
    assert_int_equal(doctor.said.answer, SNIB__DONE);
    w.fetches[3] = SNIB__SQL_REFUSED;
    run(&one, &two);
    assert_int_equal(one.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(two.said.answer, SNIB__NOT_APPLIED);
}

static void a_value_is_put_and_read_back(void **state)
{
    struct snib__request put = verb(SNIB__VALUE_PUT, 1);
    struct snib__request get = verb(SNIB__VALUE_GET, 2);
    (void)state;
    put.value.born = (snib_instant){w.now};
    put.text = "old";
    put.text_size = 3;
    run(&put, NULL);
    assert_int_equal(put.said.answer, SNIB__DONE);
    assert_int_equal(w.written, SNIB__VERSION_PUT);
    assert_true(w.locked[0]);
    run(&get, NULL);
    assert_int_equal(get.said.answer, SNIB__DONE);
    assert_int_equal(get.token, put.token);
    assert_string_equal(snib__buf_text(&w.result), "old");
    w.now += 11 * SECOND; /* it was kept for ten */
    snib__buf_clear(&w.result);
    run(&get, NULL);
    assert_int_equal(get.token, 0);
    assert_int_equal(snib__buf_size(&w.result), 0);
}

static void a_value_that_conflicts_is_put_again(void **state)
{
    struct snib__request put = verb(SNIB__VALUE_PUT, 1);
    (void)state;
    put.value.born = (snib_instant){w.now};
    w.writes[0] = w.fetches[1] = SNIB__SQL_CONFLICT;
    run(&put, NULL);
    assert_int_equal(put.said.answer, SNIB__DONE);
    assert_int_equal(w.fetch, 3);
}

static void a_value_whose_answer_is_lost_is_unknown(void **state)
{
    struct snib__request put = verb(SNIB__VALUE_PUT, 1);
    (void)state;
    put.value.born = (snib_instant){w.now};
    w.writes[0] = SNIB__SQL_LOST;
    run(&put, NULL);
    assert_int_equal(put.said.answer, SNIB__UNKNOWN);
    assert_int_equal(put.token, 0);
    put.resent = true;
    run(&put, NULL);
    assert_int_equal(put.said.answer, SNIB__DONE);
    assert_int_equal(w.left, 1); /* nothing was written again */
}

static void a_value_that_is_expected_otherwise_is_refused(void **state)
{
    struct snib__request put = verb(SNIB__VALUE_PUT, 1);
    (void)state;
    put.value.born = (snib_instant){w.now};
    put.token = 77;
    run(&put, NULL);
    assert_int_equal(put.said.answer, SNIB__NO);
    assert_int_equal(put.said.err, SNIB_ERR_BUSY);
}

static void a_damaged_value_is_named(void **state)
{
    struct snib__request r[2] = {verb(SNIB__VALUE_GET, 1),
                                 verb(SNIB__VALUE_PUT, 2)};
    (void)state;
    w.value = (struct snib__sql_value){.there = true, .damaged = true};
    for (int i = 0; i < 2; i++) {
        run(&r[i], NULL);
        assert_int_equal(r[i].said.answer, SNIB__NOT_APPLIED);
        assert_int_equal(r[i].said.err, SNIB_ERR_CORRUPT);
        assert_non_null(strstr(w.error.text, "the value a is damaged"));
    }
    assert_int_equal(w.left, 1);
}

static void stamps_are_never_none(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_true((int64_t)snib__sql_stamp(&w.q) > 0);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        STEP(a_look_is_answered_with_its_rows),
        STEP(looks_at_several_locks_share_a_round_trip),
        STEP(a_value_is_put_and_read_back),
        STEP(a_value_that_conflicts_is_put_again),
        STEP(a_value_whose_answer_is_lost_is_unknown),
        STEP(a_value_that_is_expected_otherwise_is_refused),
        STEP(a_damaged_value_is_named),
        STEP(stamps_are_never_none),
    };
    return RUN(cases);
}

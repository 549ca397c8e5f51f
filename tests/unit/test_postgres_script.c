/* tests/unit/test_postgres_script.c — store/postgres over a libpq that fails: what is
 * known when answers stop, and of rows that none of ours has written. */
#include "postgres_client.h"

/* -- answers that stop ----------------------------------------------------- */

/* Two transactions, of which the first matters; the connection is cut after
 * `results` of them. */
static snib__sql_end run_cut(int results, const char **ret_error)
{
    struct snib__sql_script t;
    assert_int_equal(reach(), SNIB__SQL_OK);
    snib__sql_script_init(&t);
    snib__sql_add(&t, SNIB__SQL_DO_PUT_LOCK, NULL, NULL);
    snib__sql_add(&t, SNIB__SQL_DO_PUT_FLOOR, NULL, NULL);
    snib__sql_sync(&t);
    snib__sql_add(&t, SNIB__PG_NOTIFY, NULL, NULL);
    snib__sql_sync(&t);
    lib.cut_at = results ? lib.taken + results : 0;
    snib__sql_end end = snib__pg_run(
        w.k, &t, 1, snib__after(snib__sql_now(), snib__ms(300)), &w.error);
    snib__sql_script_free(&t);
    lib.cut_at = 0;
    if (ret_error) {
        *ret_error = w.error.text;
    }
    if (results) {
        assert_null(w.k->c);
    }
    return end;
}

/* Three statements are prepared (two results each, and a SYNC), then executed:
 * the SYNC that matters is the twelfth result. */
static void what_is_known_depends_on_the_last_answer(void **state)
{
    (void)state;
    for (int i = 1; i < 15; i++) {
        assert_int_equal(run_cut(i, NULL),
                         i < 12 ? SNIB__SQL_LOST : SNIB__SQL_OK);
    }
    assert_int_equal(run_cut(0, NULL), SNIB__SQL_OK);
}

static void an_error_that_came_has_undone_it(void **state)
{
    (void)state;
    lib.answer[SNIB__SQL_DO_PUT_LOCK] =
        (struct answer){.state = "53100", .severity = "ERROR"};
    assert_int_equal(run_cut(0, NULL), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_STORE);
    snib__pg_quit(w.k);
    assert_int_equal(run_cut(10, NULL), SNIB__SQL_REFUSED);
}

static void an_error_of_what_does_not_matter_is_none(void **state)
{
    (void)state;
    lib.answer[SNIB__PG_NOTIFY] =
        (struct answer){.state = "53100", .severity = "ERROR"};
    assert_int_equal(run_cut(0, NULL), SNIB__SQL_OK);
}

static void an_end_of_the_session_says_nothing_of_the_commit(void **state)
{
    (void)state;
    lib.answer[SNIB__SQL_DO_PUT_FLOOR] =
        (struct answer){.state = "57P01", .severity = "FATAL"};
    assert_int_equal(run_cut(11, NULL), SNIB__SQL_LOST);
    lib.answer[SNIB__SQL_DO_PUT_FLOOR].state = "25P03"; /* it was too slow */
    assert_int_equal(run_cut(11, NULL), SNIB__SQL_CONFLICT);
}

static void what_the_database_wants_repeated_is_a_conflict(void **state)
{
    static const char *const states[] = {"22012", "23505", "40001",
                                         "40P01", "55P03", "57014"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        assert_int_equal(snib__pg_judge(states[i]), SNIB__SQL_CONFLICT);
    }
    assert_int_equal(snib__pg_judge("42703"), SNIB__SQL_REFUSED);
    assert_int_equal(snib__pg_judge("58030"), SNIB__SQL_REFUSED);
    assert_int_equal(snib__pg_judge("08006"), SNIB__SQL_DOWN);
}

/* -- requests -------------------------------------------------------------- */

/* What reads several names as of one moment is a transaction, too: it was left
 * open, and everything after it was refused. */
static void a_failed_fetch_of_two_leaves_no_transaction_open(void **state)
{
    struct snib__request r[2] = {{.verb = SNIB__CANCEL},
                                 {.verb = SNIB__CANCEL}};
    (void)state;
    lib.answer[SNIB__SQL_DO_FETCH] =
        (struct answer){.state = "53200", .severity = "ERROR"};
    execute(r, 2);
    assert_int_equal(r[0].said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(lib.sent[SNIB__SQL_DO_BEGIN_READ], 1);
    assert_int_equal(lib.sent[SNIB__SQL_DO_ROLLBACK], 1);
    execute(r, 1); /* of one no transaction was begun */
    assert_int_equal(lib.sent[SNIB__SQL_DO_ROLLBACK], 1);
}

/* Whoever may write to the table may write anything there. */
static void a_claim_that_none_of_ours_has_written_is_refused(void **state)
{
    struct snib__request r = {.verb = SNIB__CANCEL};
    (void)state;
    struct answer *a = &lib.answer[SNIB__SQL_DO_FETCH];
    *a = (struct answer){.rows = 1, .columns = COLUMNS};
    execute(&r, 1); /* its stamp is 0 */
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CORRUPT);
}

/* The short way answers with what stands in the row. */
static void what_is_no_token_is_not_given_as_one(void **state)
{
    static const int64_t tokens[] = {0, -1, SNIB__TOKEN_END};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(tokens); i++) {
        struct snib__request r = {.verb = SNIB__ACQUIRE,
                                  .said.answer = SNIB__QUEUED};
        lib.answer[SNIB__SQL_DO_RENEW] =
            (struct answer){1, {tokens[i], 1000, 0, 1}, 0, 0, 0};
        execute(&r, 1);
        assert_int_equal(lib.sent[SNIB__SQL_DO_RENEW], i + 1);
        assert_true(r.said.answer != SNIB__DONE || r.token > 0);
        assert_int_not_equal(r.token, tokens[i]);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(what_is_known_depends_on_the_last_answer),
        CASE(an_error_that_came_has_undone_it),
        CASE(an_error_of_what_does_not_matter_is_none),
        CASE(an_end_of_the_session_says_nothing_of_the_commit),
        CASE(what_the_database_wants_repeated_is_a_conflict),
        CASE(a_failed_fetch_of_two_leaves_no_transaction_open),
        CASE(a_claim_that_none_of_ours_has_written_is_refused),
        CASE(what_is_no_token_is_not_given_as_one),
    };
    return RUN(cases);
}

/* tests/unit/test_mysql_script.c — statements of store/mysql that travel together,
 * over a libmariadb that fails: what is known when answers stop, and how
 * statements are spelled. */
#include "mysql_client.h"

/* -- answers that stop ----------------------------------------------------- */

/* A transaction of four statements, which matters, and two that do not. */
static snib__sql_end run_cut(int results)
{
    struct snib__sql_script t;
    assert_int_equal(reach(), SNIB__SQL_OK);
    snib__sql_script_init(&t);
    snib__sql_add(&t, SNIB__SQL_DO_OPEN, NULL, NULL);
    snib__sql_add(&t, SNIB__SQL_DO_NOT_DURABLE, NULL, NULL); /* has no text */
    snib__sql_add(&t, SNIB__SQL_DO_DELETE_CLAIM, NULL, NULL);
    snib__sql_bytes(&t, "n", 1);
    snib__sql_bytes(&t, "r", 1);
    snib__sql_int(&t, 5);
    snib__sql_add(&t, SNIB__SQL_DO_CLOSE, NULL, NULL);
    snib__sql_sync(&t);
    for (int i = 0; i < 2; i++) {
        snib__sql_add(&t, SNIB__MY_NOTIFY, NULL, NULL);
        snib__sql_string(&t, i ? "snib.2" : "snib.1");
        snib__sql_sync(&t);
    }
    lib.taken = 0;
    lib.asked[0] = 0;
    lib.cut_at = results;
    snib__sql_end end = snib__my_run(
        w.k, &t, 1, snib__after(snib__sql_now(), snib__ms(300)), &w.error);
    snib__sql_script_free(&t);
    lib.cut_at = 0;
    return end;
}

static void what_is_known_depends_on_the_last_answer(void **state)
{
    (void)state;
    for (int i = 1; i < 6; i++) {
        assert_int_equal(run_cut(i), i < 4 ? SNIB__SQL_LOST : SNIB__SQL_OK);
        assert_null(w.k->c);
    }
    assert_int_equal(run_cut(0), SNIB__SQL_OK);
    assert_string_equal(
        lib.asked,
        "START TRANSACTION;DELETE FROM snib_claim WHERE name=x'6e' AND "
        "request=x'72' AND stamp=5;SELECT 18446744073709551615+(ROW_COUNT()<>1)"
        ";COMMIT;KILL QUERY IS_USED_LOCK(x'736e69622e31');"
        "KILL QUERY IS_USED_LOCK(x'736e69622e32')\n");
}

static void an_error_that_came_is_rolled_back_at_once(void **state)
{
    (void)state;
    lib.answer[MORE] = (struct answer){"DELETE", 0, {0}, 1114};
    assert_int_equal(run_cut(0), SNIB__SQL_REFUSED);
    assert_int_equal(w.error.code, SNIB_ERR_STORE);
    const char *last = strstr(lib.asked, "\n");
    assert_string_equal(last, "\nROLLBACK\n");
    lib.answer[MORE].code = 1690;
    assert_int_equal(run_cut(0), SNIB__SQL_CONFLICT);
    assert_non_null(w.k->c);
}

static void who_cannot_be_notified_keeps_nobody_from_it(void **state)
{
    (void)state;
    lib.answer[MORE] = (struct answer){"x'736e69622e31'", 0, {0}, 1094};
    assert_int_equal(run_cut(0), SNIB__SQL_OK);
    const char *again = strstr(lib.asked, "\n");
    assert_string_equal(again, "\nKILL QUERY IS_USED_LOCK(x'736e69622e32')\n");
}

static void what_fails_at_a_commit_may_be_committed(void **state)
{
    /* Stopped, killed, failed while it committed; what else would mean that
     * nothing was done; one that nobody knows. */
    static const int codes[] = {1053, 1927, 1180, 1317, 1205,
                                1969, 1290, 1114, 9999};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        assert_int_equal(reach(), SNIB__SQL_OK);
        lib.answer[MORE] = (struct answer){"COMMIT", 0, {0}, codes[i]};
        assert_int_equal(run_cut(0), SNIB__SQL_LOST);
        assert_null(w.k->c);
        lib.answer[MORE] = (struct answer){0};
    }
    assert_int_equal(reach(), SNIB__SQL_OK);
    lib.answer[MORE] = (struct answer){"COMMIT", 0, {0}, 1213};
    assert_int_equal(run_cut(0), SNIB__SQL_CONFLICT); /* a cluster says so */
    assert_non_null(w.k->c);
}

static void an_error_of_the_library_says_nothing_of_the_commit(void **state)
{
    static const int codes[] = {CR_SERVER_GONE_ERROR, CR_NO_DATA,
                                CR_ERR_NET_READ, CR_VERSION_MISMATCH};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        lib.answer[MORE] = (struct answer){"DELETE", 0, {0}, codes[i]};
        assert_int_equal(run_cut(0), SNIB__SQL_LOST);
        assert_null(w.k->c);
    }
}

static void results_that_stop_without_an_error_say_nothing(void **state)
{
    (void)state;
    for (int i = 1; i < 6; i++) {
        assert_int_equal(reach(), SNIB__SQL_OK);
        lib.ends_at = i;
        assert_int_equal(run_cut(0), i < 4 ? SNIB__SQL_LOST : SNIB__SQL_OK);
        assert_null(w.k->c);
        lib.ends_at = 0;
    }
}

/* What ends the session is told in place of an answer. */
static void a_session_that_was_ended_is_made_anew(void **state)
{
    static const int codes[] = {1047, 1159, 1927, 3032, 3169, 4031};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        lib.answer[MORE] = (struct answer){"DELETE", 0, {0}, codes[i]};
        assert_int_equal(run_cut(0), SNIB__SQL_LOST);
        assert_int_equal(w.error.code, SNIB_ERR_UNREACHABLE);
        assert_null(w.k->c);
    }
}

static void without_a_connection_nothing_is_sent(void **state)
{
    (void)state;
    struct snib__sql_script t;
    assert_int_equal(reach(), SNIB__SQL_OK);
    snib__my_drop(w.k, "gone");
    lib.asked[0] = 0;
    snib__sql_script_init(&t);
    snib__sql_add(&t, SNIB__SQL_DO_COMMIT, NULL, NULL);
    snib__sql_sync(&t);
    assert_int_equal(snib__my_run(w.k, &t, 1, SNIB__NEVER, &w.error),
                     SNIB__SQL_DOWN);
    snib__sql_script_free(&t);
    assert_string_equal(w.error.text, "gone");
    assert_string_equal(lib.asked, "");
}

/* Behind the same address another server may be the primary by now. */
static void a_server_that_takes_no_writes_any_more_is_left(void **state)
{
    static const int codes[] = {1290, 1792, 1836};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        lib.answer[MORE] = (struct answer){"DELETE", 0, {0}, codes[i]};
        assert_int_equal(run_cut(0), SNIB__SQL_REFUSED);
        assert_int_equal(w.error.code, SNIB_ERR_STORE);
        assert_non_null(strstr(w.error.text, "connect to the primary"));
        assert_null(w.k->c);
    }
    lib.answer[MORE].code = 1153;
    assert_int_equal(run_cut(0), SNIB__SQL_REFUSED);
    assert_non_null(strstr(w.error.text, "max_allowed_packet"));
}

/* What the server says without being asked is a farewell. */
static void a_transaction_that_the_server_has_ended_is_a_conflict(void **state)
{
    (void)state;
    assert_int_equal(reach(), SNIB__SQL_OK);
    w.k->is.inside = true;
    assert_int_equal(write(lib.fd[1], "x", 1), 1);
    assert_int_equal(run_cut(0), SNIB__SQL_CONFLICT);
    assert_string_equal(lib.asked, "");
    assert_null(w.k->c);
}

static const char *write_asks(bool lock, bool inside)
{
    struct snib__sql *q = &w.p->session[0].tables.sql;
    lib.asked[0] = 0;
    w.k->is.inside = inside;
    q->until = snib__after(snib__sql_now(), snib__ms(300));
    assert_int_equal(q->driver->write(q, lock, true), SNIB__SQL_OK);
    return lib.asked;
}

/* Else each of its statements would be a transaction by itself. */
static void a_write_begins_a_transaction_unless_the_fetch_did(void **state)
{
    (void)state;
    assert_int_equal(reach(), SNIB__SQL_OK);
    assert_string_equal(write_asks(true, true), "COMMIT\n");
    assert_string_equal(write_asks(true, false), "START TRANSACTION;COMMIT\n");
    assert_string_equal(write_asks(false, false), "START TRANSACTION;COMMIT\n");
}

/* What is answered in one that stays open is undone later. */
static void a_transaction_ends_or_its_connection_does(void **state)
{
    struct snib__sql *q = &w.p->session[0].tables.sql;
    int64_t nth = 0;
    bool asked;
    (void)state;
    do {
        assert_int_equal(reach(), SNIB__SQL_OK);
        q->until = snib__after(snib__sql_now(), snib__ms(300));
        lib.asked[0] = 0;
        w.k->is.inside = true;
        snib__mem_fail_at(++nth, false);
        q->driver->leave(q);
        snib__mem_fail_at(0, false);
        asked = strstr(lib.asked, "ROLLBACK") != NULL;
        assert_true(asked || !w.k->c);
        assert_false(w.k->is.inside);
    } while (!asked);
    assert_true(nth > 1);
    assert_non_null(w.k->c);
}

static void what_the_database_wants_repeated_is_a_conflict(void **state)
{
    static const int codes[] = {1690, 1062, 1213, 1205, 1020, 1317, 1969, 3024};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        assert_int_equal(snib__my_judge(codes[i]), SNIB__SQL_CONFLICT);
    }
    assert_int_equal(snib__my_judge(1054), SNIB__SQL_REFUSED);
    assert_int_equal(snib__my_judge(9999), SNIB__SQL_REFUSED);
    assert_int_equal(snib__my_judge(1053), SNIB__SQL_DOWN);
}

static void see_token(void *data, struct snib__sql_rows *rows)
{
    int64_t *seen = data;
    seen[0] = rows->count;
    seen[1] = snib__sql_get_int(rows, 0, 0);
    seen[2] = snib__sql_get_int(rows, 0, 1);
    seen[3] = snib__sql_is_null(rows, 0, 0);
}

static void a_change_tells_how_many_rows_and_the_insert_id(void **state)
{
    (void)state;
    struct snib__sql_script t;
    int64_t seen[4] = {0};
    assert_int_equal(reach(), SNIB__SQL_OK);
    snib__sql_script_init(&t);
    snib__sql_add(&t, SNIB__SQL_DO_RELEASE, see_token, seen);
    for (int i = 0; i < 4; i++) {
        snib__sql_int(&t, -i);
    }
    snib__sql_sync(&t);
    assert_int_equal(snib__my_run(w.k, &t, 1, SNIB__NEVER, &w.error),
                     SNIB__SQL_OK);
    snib__sql_script_free(&t);
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[1], 4242);
    assert_int_equal(seen[2], 0);
    assert_true(seen[3]);
}

/* -- spelling -------------------------------------------------------------- */

static void parameters_are_numbers_hex_or_null(void **state)
{
    (void)state;
    struct snib__sql_script t;
    struct snib__buf b;
    static const uint64_t id[2] = {1, UINT64_C(0xfedcba9876543210)};
    snib__buf_init(&b, 1000);
    snib__sql_script_init(&t);
    snib__sql_add_text(&t, "");
    snib__sql_int(&t, -7);
    snib__sql_int(&t, 0);
    snib__sql_null(&t);
    snib__sql_bytes(&t, "a'\\\0", 4);
    snib__sql_id(&t, id);
    snib__sql_bytes(&t, "", 0);
    snib__my_expand("p", "#lock $1 $2 $3 $4 $5 $6 [1x$2] [2(y)]", &t,
                    &t.item[0], &b);
    assert_string_equal(snib__buf_text(&b),
                        "p_lock (-7) 0 NULL x'61275c00' "
                        "x'0000000000000001fedcba9876543210' x'' x0 NULL");
    assert_false(b.failed);
    snib__my_expand("p", "$7", &t, &t.item[0], &b);
    assert_true(b.failed); /* it was not given */
    snib__sql_script_free(&t);
    snib__buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(what_is_known_depends_on_the_last_answer),
        CASE(an_error_that_came_is_rolled_back_at_once),
        CASE(who_cannot_be_notified_keeps_nobody_from_it),
        CASE(what_fails_at_a_commit_may_be_committed),
        CASE(an_error_of_the_library_says_nothing_of_the_commit),
        CASE(results_that_stop_without_an_error_say_nothing),
        CASE(a_session_that_was_ended_is_made_anew),
        CASE(without_a_connection_nothing_is_sent),
        CASE(a_server_that_takes_no_writes_any_more_is_left),
        CASE(a_transaction_that_the_server_has_ended_is_a_conflict),
        CASE(a_write_begins_a_transaction_unless_the_fetch_did),
        CASE(a_transaction_ends_or_its_connection_does),
        CASE(what_the_database_wants_repeated_is_a_conflict),
        CASE(a_change_tells_how_many_rows_and_the_insert_id),
        CASE(parameters_are_numbers_hex_or_null),
    };
    return RUN(cases);
}

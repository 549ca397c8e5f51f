/* snib/steps/step.h, and snib/steps/sqlite.h on a real file.
 *
 * labels: thread */
#include "optimistic_sqlite.h"

#include <limits.h>
#include <pthread.h>

#include <sqlite3.h>

/* -- what all steps share ------------------------------------------------------ */

static struct snib_version_attempt attempt_of(bool ask)
{
    return (struct snib_version_attempt){
        .number = 1, .ask = ask, .id = "0123456789abcdef0123456789abcdef"};
}

static void the_version_and_the_id_tell_whether_an_attempt_stands(void **state)
{
    (void)state;
    static const struct {
        int64_t expected, now;
        const char *id;
        int answer;
    } rows[] = {
        {7, 8, "0123456789abcdef0123456789abcdef", 1},
        {7, 9, "0123456789abcdef0123456789abcdef", 1}, /* others keep no id  */
        {7, 8, "01234567-89AB-cdef-0123-456789abcdef", 1}, /* a UUID         */
        {7, 8, "0123456789abcdef0123456789abcde", 0},
        {7, 8, "0123456789abcdef0123456789abcdef0", 0},
        {7, 8, "0123456789abcdef0123456789abcdeg", 0},
        {7, 8, "", 0},
        {7, 8, "---", 0},
        {7, 7, "", 0},
        {7, 7, NULL, 0},
        {7, 8, NULL, -SNIB_ERR_UNKNOWN},
        {7, 9, NULL, -SNIB_ERR_UNKNOWN},
        {7, 9, "", -SNIB_ERR_UNKNOWN},
        {7, 6, "", -SNIB_ERR_UNKNOWN}, /* made anew                          */
        {INT64_MAX, INT64_MIN, "x", -SNIB_ERR_UNKNOWN},
        {INT64_MIN, INT64_MAX, "x", -SNIB_ERR_UNKNOWN},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct snib_version_attempt a = attempt_of(true);
        assert_int_equal(
            snib_step_stands(&a, rows[i].expected, rows[i].now, rows[i].id),
            rows[i].answer);
        assert_true((a.text[0] != 0) == (rows[i].answer < 0));
    }
}

static void a_question_that_fails_is_not_taken_for_no(void **state)
{
    (void)state;
    struct snib_version_attempt a = attempt_of(false);
    assert_int_equal(snib_step_again(&a, SNIB_ERR_UNREACHABLE, "x", "y"), 0);
    assert_int_equal(a.why, SNIB_ERR_UNREACHABLE);
    assert_string_equal(a.text, "x: y");
    a = attempt_of(true);
    assert_int_equal(snib_step_again(&a, SNIB_ERR_OK, "x", NULL),
                     -SNIB_ERR_BUSY);
    assert_string_equal(a.text, "x");
    a = attempt_of(false);
    assert_int_equal(snib_step_missing(&a), -SNIB_ERR_USAGE);
    assert_int_equal(a.stopped, SNIB_STEP_MISSING);
    a = attempt_of(true);
    assert_int_equal(snib_step_missing(&a), -SNIB_ERR_UNKNOWN);
    assert_int_equal(a.stopped, 0);
}

static void more_than_one_row_is_a_mistake(void **state)
{
    (void)state;
    struct snib_version_attempt a = attempt_of(false);
    assert_int_equal(snib_step_changed(&a, 0), 0);
    assert_int_equal(snib_step_changed(&a, 1), 1);
    assert_int_equal(snib_step_changed(&a, 2), -SNIB_ERR_USAGE);
    assert_non_null(strstr(a.text, "than one: 2"));
    assert_int_equal(snib_step_changed(&a, -1), -SNIB_ERR_USAGE);
    assert_int_equal(snib_step_changed(&a, LLONG_MAX), -SNIB_ERR_USAGE);
}

/* -- SQLite ------------------------------------------------------------------- */

static void a_row_is_counted_up_once(void **state)
{
    (void)state;
    sqlite3 *db = fresh();
    struct counter c = counter_of(db);
    struct snib_error e;
    uint32_t attempts;
    assert_int_equal(update(&c, 0, &attempts, NULL, &e), SNIB_ERR_OK);
    assert_int_equal(attempts, 1);
    assert_int_equal(number(db, "SELECT n FROM item"), 1);
    assert_int_equal(number(db, "SELECT version FROM item"), 2);
    assert_int_equal(number(db, "SELECT length(attempt) FROM item"), 32);
    assert_true(sqlite3_get_autocommit(db));
    sqlite3_close(db);
}

enum { WRITERS = 3, TIMES = 60 };

static void *counts(void *data)
{
    sqlite3 *db = open_db(NULL);
    struct counter c = counter_of(db);
    struct snib_error e;
    long *done = data;
    for (int i = 0; i < TIMES; i++) {
        if (update(&c, INT64_MAX, NULL, NULL, &e) == SNIB_ERR_OK) {
            ++*done;
        } else {
            fprintf(stderr, "%s\n", e.text);
        }
    }
    sqlite3_close(db);
    return NULL;
}

static void writers_at_once_lose_no_count(void **state)
{
    (void)state;
    sqlite3 *db = fresh();
    pthread_t thread[WRITERS];
    long done[WRITERS] = {0};
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(pthread_create(&thread[i], NULL, counts, &done[i]), 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(done[i], TIMES);
    }
    assert_int_equal(number(db, "SELECT n FROM item"), WRITERS * TIMES);
    assert_int_equal(number(db, "SELECT version FROM item"),
                     WRITERS * TIMES + 1);
    sqlite3_close(db);
}

static void a_missing_row_is_told(void **state)
{
    (void)state;
    sqlite3 *db = fresh();
    struct counter c = counter_of(db);
    struct snib_error e;
    uint32_t attempts;
    int stopped;
    c.id = 2;
    assert_int_equal(update(&c, INT64_MAX, &attempts, &stopped, &e),
                     SNIB_ERR_USAGE);
    assert_int_equal(attempts, 1);
    assert_int_equal(stopped, SNIB_STEP_MISSING);
    assert_string_equal(e.text, "there is no such row");
    sqlite3_close(db);
}

static void a_file_that_is_busy_is_tried_again_until_the_limit(void **state)
{
    (void)state;
    sqlite3 *db = fresh(), *other = open_db(NULL);
    struct counter c = counter_of(db);
    struct snib_error e;
    uint32_t attempts;
    run(other, "BEGIN IMMEDIATE");
    assert_int_equal(update(&c, 30, &attempts, NULL, &e), SNIB_ERR_TIMEOUT);
    assert_true(attempts > 1);
    assert_non_null(strstr(e.text, "database is locked"));
    assert_int_equal(update(&c, 0, &attempts, NULL, &e), SNIB_ERR_BUSY);
    run(other, "COMMIT");
    assert_int_equal(update(&c, 0, &attempts, NULL, &e), SNIB_ERR_OK);
    run(other, "BEGIN; SELECT * FROM item"); /* its read keeps our commit */
    sqlite3_stmt *s;
    assert_int_equal(
        sqlite3_prepare_v2(other, "SELECT * FROM item", -1, &s, NULL),
        SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_int_equal(update(&c, 30, &attempts, NULL, &e), SNIB_ERR_TIMEOUT);
    assert_true(sqlite3_get_autocommit(db));
    sqlite3_finalize(s);
    run(other, "COMMIT");
    assert_int_equal(update(&c, 0, &attempts, NULL, &e), SNIB_ERR_OK);
    assert_int_equal(number(db, "SELECT n FROM item"), 2);
    sqlite3_close(other);
    sqlite3_close(db);
}

static void what_is_wrong_ends_it_and_nothing_is_left(void **state)
{
    (void)state;
    sqlite3 *db = fresh();
    struct counter c = counter_of(db);
    struct snib_error e;
    uint32_t attempts;
    run(db, "INSERT INTO item VALUES(2, 0, 1, NULL)");
    c.write = "UPDATE item SET n = ?3, version = version + 1 "
              "WHERE ?1 = ?1 AND version = ?2 AND ?4 = ?4";
    assert_int_equal(update(&c, 500, &attempts, NULL, &e), SNIB_ERR_USAGE);
    assert_int_equal(number(db, "SELECT sum(n) FROM item"), 0);
    c.write = "UPDATE other SET n = 1";
    assert_int_equal(update(&c, 500, &attempts, NULL, &e), SNIB_ERR_STORE);
    assert_non_null(strstr(e.text, "no such table"));
    assert_int_equal(attempts, 1);
    run(db, "PRAGMA query_only = 1");
    c = counter_of(db);
    assert_int_equal(update(&c, 500, &attempts, NULL, &e), SNIB_ERR_STORE);
    run(db, "PRAGMA query_only = 0; BEGIN");
    assert_int_equal(update(&c, 500, &attempts, NULL, &e), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "in a transaction"));
    assert_false(sqlite3_get_autocommit(db)); /* it is the caller's */
    run(db, "COMMIT");
    assert_int_equal(number(db, "SELECT sum(n) FROM item"), 0);
    sqlite3_close(db);
}

static void what_sqlite_says_has_its_errors(void **state)
{
    (void)state;
    sqlite3 *db = fresh();
    static const struct {
        int code, answer;
    } rows[] = {
        {SQLITE_BUSY, 0},
        {SQLITE_BUSY_SNAPSHOT, 0},
        {SQLITE_LOCKED, 0},
        {SQLITE_PROTOCOL, 0},
        {SQLITE_PERM, -SNIB_ERR_DENIED},
        {SQLITE_AUTH, -SNIB_ERR_DENIED},
        {SQLITE_NOMEM, -SNIB_ERR_NOMEM},
        {SQLITE_INTERRUPT, -SNIB_ERR_CANCELLED},
        {SQLITE_CORRUPT, -SNIB_ERR_CORRUPT},
        {SQLITE_NOTADB, -SNIB_ERR_CORRUPT},
        {SQLITE_MISUSE, -SNIB_ERR_USAGE},
        {SQLITE_RANGE, -SNIB_ERR_USAGE},
        {SQLITE_FULL, -SNIB_ERR_STORE},
        {SQLITE_CONSTRAINT_UNIQUE, -SNIB_ERR_STORE},
        {SQLITE_IOERR_READ, -SNIB_ERR_STORE},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct snib_version_attempt a = attempt_of(false);
        assert_int_equal(snib_sqlite_error(&a, db, rows[i].code),
                         rows[i].answer);
        assert_true(a.text[0]);
    }
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(the_version_and_the_id_tell_whether_an_attempt_stands),
        cmocka_unit_test(a_question_that_fails_is_not_taken_for_no),
        cmocka_unit_test(more_than_one_row_is_a_mistake),
    };
    const struct CMUnitTest on_sqlite[] = {
        cmocka_unit_test(a_row_is_counted_up_once),
        cmocka_unit_test(writers_at_once_lose_no_count),
        cmocka_unit_test(a_missing_row_is_told),
        cmocka_unit_test(a_file_that_is_busy_is_tried_again_until_the_limit),
        cmocka_unit_test(what_is_wrong_ends_it_and_nothing_is_left),
        cmocka_unit_test(what_sqlite_says_has_its_errors),
    };
    return RUN(cases) | cmocka_run_group_tests_name("on_sqlite", on_sqlite,
                                                    make_file, remove_file);
}

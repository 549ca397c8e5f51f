/* snib/steps/step.h, and snib/steps/sqlite.h on a real file.
 *
 * labels: thread */
#include "unit.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "snib/steps/sqlite.h"
#include "snib/steps/step.h"

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

/* -- SQLite: a disk that fails ------------------------------------------------- */

static int syncs_fail; /* so many of the next ones */
static sqlite3_io_methods methods;
static const sqlite3_io_methods *real;
static sqlite3_vfs vfs;

static int sync_or_fail(sqlite3_file *f, int flags)
{
    if (syncs_fail > 0) {
        syncs_fail--;
        return SQLITE_IOERR_FSYNC;
    }
    return real->xSync(f, flags);
}

static int open_file(sqlite3_vfs *v, const char *name, sqlite3_file *f,
                     int flags, int *ret_flags)
{
    sqlite3_vfs *below = v->pAppData;
    int code = below->xOpen(below, name, f, flags, ret_flags);
    if (code == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB)) {
        real = f->pMethods;
        methods = *real;
        methods.xSync = sync_or_fail;
        f->pMethods = &methods;
    }
    return code;
}

static void make_vfs(void)
{
    sqlite3_vfs *below = sqlite3_vfs_find("unix");
    vfs = *below;
    vfs.zName = "failing";
    vfs.pAppData = below;
    vfs.xOpen = open_file;
    assert_int_equal(sqlite3_vfs_register(&vfs, 0), SQLITE_OK);
}

/* -- SQLite: a counter ---------------------------------------------------------- */

struct counter {
    struct snib_sqlite_update u;
    int id;
    int64_t version, n;
    int reads, asked;
    bool fails_once; /* the first read is followed by a disk that fails */
    const char *write;
};

static char folder[] = "/tmp/snib-optimistic-XXXXXX";
static char path[64];

static sqlite3 *open_db(const char *vfs_name)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open_v2(path, &db,
                                     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                                     vfs_name),
                     SQLITE_OK);
    return db;
}

static void run(sqlite3 *db, const char *text)
{
    char *why = NULL;
    if (sqlite3_exec(db, text, NULL, NULL, &why) != SQLITE_OK) {
        fail_msg("%s: %s", text, why);
    }
}

static int64_t number(sqlite3 *db, const char *text)
{
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_prepare_v2(db, text, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t v = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return v;
}

static int make_file(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/db", folder);
    make_vfs();
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    rmdir(folder);
    sqlite3_vfs_unregister(&vfs);
    return 0;
}

static sqlite3 *fresh(void)
{
    unlink(path);
    sqlite3 *db = open_db("failing");
    run(db, "CREATE TABLE item(id INTEGER PRIMARY KEY, n, version, attempt);"
            "INSERT INTO item VALUES(1, 0, 1, NULL)");
    return db;
}

static int read_counter(void *data, sqlite3 *db, struct snib_version_attempt *a)
{
    struct counter *c = data;
    sqlite3_stmt *s;
    int code = sqlite3_prepare_v2(
        db, "SELECT version, n FROM item WHERE id = ?", -1, &s, NULL);
    if (code != SQLITE_OK) {
        return snib_sqlite_error(a, db, code);
    }
    sqlite3_bind_int(s, 1, c->id);
    int answer = snib_sqlite_row(a, db, sqlite3_step(s));
    if (answer == 1) {
        c->version = sqlite3_column_int64(s, 0);
        c->n = sqlite3_column_int64(s, 1);
    }
    sqlite3_finalize(s);
    c->reads++;
    if (c->fails_once && c->reads == 1) {
        syncs_fail = 1;
    }
    return answer;
}

static int write_counter(void *data, sqlite3 *db,
                         struct snib_version_attempt *a)
{
    struct counter *c = data;
    sqlite3_stmt *s;
    int code = sqlite3_prepare_v2(db, c->write, -1, &s, NULL);
    if (code != SQLITE_OK) {
        return snib_sqlite_error(a, db, code);
    }
    sqlite3_bind_int(s, 1, c->id);
    sqlite3_bind_int64(s, 2, c->version);
    sqlite3_bind_int64(s, 3, c->n + 1);
    sqlite3_bind_text(s, 4, a->id, -1, SQLITE_STATIC);
    int answer = snib_sqlite_changed(a, db, sqlite3_step(s));
    sqlite3_finalize(s);
    return answer;
}

static int counter_stands(void *data, sqlite3 *db,
                          struct snib_version_attempt *a)
{
    struct counter *c = data;
    sqlite3_stmt *s;
    c->asked++;
    assert_int_equal(
        sqlite3_prepare_v2(db, "SELECT version, attempt FROM item WHERE id = ?",
                           -1, &s, NULL),
        SQLITE_OK);
    sqlite3_bind_int(s, 1, c->id);
    int answer = snib_sqlite_row(a, db, sqlite3_step(s));
    if (answer == 1) {
        const char *id = (const char *)sqlite3_column_text(s, 1);
        answer = snib_step_stands(a, c->version, sqlite3_column_int64(s, 0),
                                  id ? id : "");
    }
    sqlite3_finalize(s);
    return answer;
}

static struct counter counter_of(sqlite3 *db)
{
    struct counter c = {.id = 1,
                        .write = "UPDATE item SET n = ?3, attempt = ?4, "
                                 "version = version + 1 "
                                 "WHERE id = ?1 AND version = ?2"};
    c.u.connection = db;
    c.u.read = read_counter;
    c.u.write = write_counter;
    return c;
}

static snib_err update(struct counter *c, int64_t wait_ms, uint32_t *attempts,
                       int *stopped, struct snib_error *e)
{
    struct snib_version_options o = SNIB_INIT(snib_version_options);
    o.wait_ms = wait_ms;
    c->u.data = c;
    return snib_version_update(&o, snib_sqlite_step, &c->u, stopped, attempts,
                               e);
}

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

static void a_disk_that_fails_in_the_commit_is_asked(void **state)
{
    (void)state;
    sqlite3 *db = fresh();
    struct counter c = counter_of(db);
    struct snib_error e;
    uint32_t attempts;
    c.fails_once = true;
    assert_int_equal(update(&c, 500, &attempts, NULL, &e), SNIB_ERR_UNKNOWN);
    assert_int_equal(attempts, 1);
    assert_non_null(strstr(e.text, "attempt 1 was not answered: disk I/O"));
    c = counter_of(db);
    c.fails_once = true;
    c.u.stands = counter_stands;
    assert_int_equal(update(&c, 500, &attempts, NULL, &e), SNIB_ERR_OK);
    assert_int_equal(c.asked, 1);
    assert_int_equal(attempts, 2);
    assert_int_equal(number(db, "SELECT n FROM item"), 1);
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
        cmocka_unit_test(a_disk_that_fails_in_the_commit_is_asked),
    };
    return RUN(cases) | cmocka_run_group_tests_name("on_sqlite", on_sqlite,
                                                    make_file, remove_file);
}

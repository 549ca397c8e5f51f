/* snib/steps/sqlite.h when the disk fails in the commit: what is told, and what a
 * machine finds that loses its memory then. */
#include "optimistic_sqlite.h"

#include <sqlite3.h>

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

/* What a machine finds that loses its memory now: the files, but for the index
 * of the log. */
static int64_t after_a_crash(const char *text)
{
    char command[200], kept[64];
    snprintf(kept, sizeof kept, "%s", path);
    snprintf(command, sizeof command,
             "mkdir %s/c && cp %s %s/c/db && cp %s-wal %s/c/db-wal", folder,
             path, folder, path, folder);
    assert_int_equal(system(command), 0);
    snprintf(path, sizeof path, "%s/c/db", folder);
    sqlite3 *db = open_db(NULL);
    int64_t n = number(db, text);
    sqlite3_close(db);
    snprintf(path, sizeof path, "%s", kept);
    snprintf(command, sizeof command, "rm -r %s/c", folder);
    assert_int_equal(system(command), 0);
    return n;
}

static sqlite3 *fresh_with_log(void)
{
    sqlite3 *db = fresh();
    run(db, "PRAGMA journal_mode = WAL; PRAGMA user_version = 7;"
            "UPDATE item SET n = 0");
    return db;
}

/* The log's sync fails after its frames are written: who opens the file after a
 * crash takes them for a commit. "It does not stand" must end that. */
static void what_a_log_has_of_a_failed_commit_is_ended(void **state)
{
    (void)state;
    static const int codes[] = {SQLITE_IOERR_FSYNC, SQLITE_FULL, SQLITE_NOMEM,
                                SQLITE_CANTOPEN, SQLITE_CORRUPT};
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        sqlite3 *db = fresh_with_log();
        struct counter c = counter_of(db);
        struct snib_error e;
        fails_with = codes[i];
        c.fails_once = true;
        assert_int_equal(update(&c, 0, NULL, NULL, &e), SNIB_ERR_UNKNOWN);
        assert_int_equal(number(db, "SELECT n FROM item"), 0);
        assert_int_equal(after_a_crash("SELECT n FROM item"), 1);
        c = counter_of(db);
        c.fails_once = true;
        c.u.stands = counter_stands;
        assert_int_equal(update(&c, 0, NULL, NULL, &e), SNIB_ERR_BUSY);
        assert_non_null(strstr(e.text, "the last: its commit was not answered, "
                                       "and it does not stand: "));
        assert_int_equal(c.asked, 1);
        assert_int_equal(after_a_crash("SELECT n FROM item"), 0);
        assert_int_equal(after_a_crash("PRAGMA user_version"), 7);
        sqlite3_close(db);
    }
    fails_with = SQLITE_IOERR_FSYNC;
}

/* Nothing is said as long as the disk goes on to fail. */
static void a_disk_that_goes_on_to_fail_leaves_it_unknown(void **state)
{
    (void)state;
    sqlite3 *db = fresh_with_log();
    struct counter c = counter_of(db);
    struct snib_error e;
    uint32_t attempts;
    c.fails_once = true;
    c.fails = 1000000;
    c.u.stands = counter_stands;
    assert_int_equal(update(&c, 30, &attempts, NULL, &e), SNIB_ERR_UNKNOWN);
    assert_true(c.asked > 1);
    assert_non_null(strstr(e.text, "nor in time whether it stands: disk I/O"));
    assert_true(sqlite3_get_autocommit(db));
    syncs_fail = 0;
    c = counter_of(db);
    assert_int_equal(update(&c, 0, &attempts, NULL, &e), SNIB_ERR_OK);
    assert_int_equal(after_a_crash("SELECT n FROM item"), 1);
    sqlite3_close(db);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(a_disk_that_fails_in_the_commit_is_asked),
        cmocka_unit_test(what_a_log_has_of_a_failed_commit_is_ended),
        cmocka_unit_test(a_disk_that_goes_on_to_fail_leaves_it_unknown),
    };
    return cmocka_run_group_tests_name("on_sqlite", cases, make_file,
                                       remove_file);
}

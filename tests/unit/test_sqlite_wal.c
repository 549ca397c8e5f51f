/* tests/unit/test_sqlite_wal.c — when the -wal is emptied, and how.
 * wraps: sqlite3_wal_checkpoint_v2 */
#include "sqlite_store.h"

int __wrap_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode,
                                     int *ret_log, int *ret_done);
int __real_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode,
                                     int *ret_log, int *ret_done);

enum { NONE = -1 };

static int count, last = NONE;
static bool only_told;
static int frames_then[500]; /* in the -wal, when it was asked for */

int __wrap_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode,
                                     int *ret_log, int *ret_done)
{
    frames_then[count % 500] = self_of(0)->db.frames;
    count++;
    last = mode;
    return only_told ? SQLITE_OK
                     : __real_sqlite3_wal_checkpoint_v2(db, name, mode, ret_log,
                                                        ret_done);
}

static void the_rule_row_by_row(void **state)
{
    static const struct {
        int frames, max, next, mode, next_after;
    } t[] = {
        {0, 256, 400, NONE, 0},         {255, 256, 400, NONE, 0},
        {256, 256, 0, 0, 320},          {256, 256, 256, 0, 320},
        {256, 256, 257, NONE, 257},     {319, 256, 320, NONE, 320},
        {320, 256, 320, 0, 384},        {1999, 2000, 320, NONE, 0},
        {2000, 2000, 0, 0, 2500},       {7999, 2000, 0, 0, 8499},
        {8000, 2000, 0, 2, 8500},       {9000, 2000, 8500, 2, 9500},
        {9000, 2000, 9001, NONE, 9001},
    };
    (void)state;
    open_peers(1);
    struct snib__db *db = &self_of(0)->db;
    only_told = true;
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        last = NONE;
        db->frames = t[i].frames;
        db->frames_max = t[i].max;
        db->frames_next = t[i].next;
        snib__db_empty_wal(db);
        if (last != t[i].mode || db->frames_next != t[i].next_after) {
            fail_msg("%zu: %d, then at %d", i, last, db->frames_next);
        }
    }
    only_told = false;
    assert_int_equal(SQLITE_CHECKPOINT_PASSIVE, 0);
    assert_int_equal(SQLITE_CHECKPOINT_RESTART, 2);
}

static void write_once(const struct snib__name *n)
{
    struct snib__request r = acquire(0, n);
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_int_equal(end(0, &r), SNIB__DONE);
}

static void it_is_emptied_now_and_then(void **state)
{
    struct snib__name n = name_of("often");
    struct stat st;
    char wal[140];
    (void)state;
    open_peers(1);
    struct snib__db *db = &self_of(0)->db;
    count = 0;
    assert_int_equal(db->frames_max, SNIB__SQLITE_WAL_SHORT);
    for (uint32_t i = 0; i < SNIB__SQLITE_LONG_LIVED / 2 - 1; i++) {
        write_once(&n);
    }
    struct snib__request r = acquire(0, &n);
    assert_int_equal(db->frames_max, SNIB__SQLITE_WAL_SHORT);
    end(0, &r);
    assert_int_equal(db->frames_max, SNIB__SQLITE_WAL_LONG);
    assert_true(count > 0);
    assert_true(frames_then[0] >= SNIB__SQLITE_WAL_SHORT);
    assert_true(frames_then[0] < SNIB__SQLITE_WAL_SHORT + 20);
    for (int i = 0; i < 2000; i++) {
        write_once(&n);
    }
    snprintf(wal, sizeof wal, "%s-wal", path);
    assert_int_equal(stat(wal, &st), 0);
    assert_true(st.st_size < 3000 * 1100);
    assert_true(count < 20);
}

/* A reader that stays: not at each commit, in strides of a quarter, and from
 * some point on the writers stand back for it once. */
static void a_reader_in_the_way_is_tried_in_strides(void **state)
{
    struct snib__name n = name_of("reader");
    sqlite3 *reader;
    (void)state;
    open_peers(1);
    assert_int_equal(sqlite3_open(path, &reader), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(reader, "BEGIN; SELECT * FROM meta", NULL, NULL, NULL),
        SQLITE_OK);
    count = 0;
    while (self_of(0)->db.frames < 3 * SNIB__SQLITE_WAL_LONG) {
        write_once(&n);
    }
    assert_int_equal(last, SQLITE_CHECKPOINT_PASSIVE);
    assert_true(count > 2 && count < 40);
    for (int i = 1; i < count; i++) {
        assert_true(frames_then[i] - frames_then[i - 1] >=
                    SNIB__SQLITE_WAL_SHORT / 4);
    }
    sqlite3_exec(reader, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(reader);
    while (self_of(0)->db.frames >= SNIB__SQLITE_WAL_LONG) {
        int before = self_of(0)->db.frames;
        write_once(&n);
        assert_true(self_of(0)->db.frames <
                    before + SNIB__SQLITE_WAL_LONG / 4 + 20);
    }
}

/* A reader that never ends: it keeps nobody out, though the -wal grows past what
 * it is cut to. When it has ended, the -wal is emptied and cut. */
static void a_reader_that_stays_lets_it_grow_and_keeps_nobody_out(void **state)
{
    struct snib__name n = name_of("growing");
    const int far = SNIB__SQLITE_WAL_CUT / 1024 + 1000;
    struct stat st;
    sqlite3 *reader;
    char wal[140];
    (void)state;
    open_peers(1);
    struct snib__db *db = &self_of(0)->db;
    snprintf(wal, sizeof wal, "%s-wal", path);
    assert_int_equal(sqlite3_open(path, &reader), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(reader, "BEGIN; SELECT * FROM meta", NULL, NULL, NULL),
        SQLITE_OK);
    while (db->frames < far) {
        write_once(&n);
    }
    assert_int_equal(last, SQLITE_CHECKPOINT_RESTART);
    assert_int_equal(stat(wal, &st), 0);
    assert_true(st.st_size > SNIB__SQLITE_WAL_CUT);
    sqlite3_exec(reader, "ROLLBACK", NULL, NULL, NULL);
    sqlite3_close(reader);
    for (int i = 0; i < 500 && db->frames >= far; i++) {
        write_once(&n);
    }
    assert_true(db->frames < SNIB__SQLITE_WAL_LONG);
    write_once(&n);
    assert_int_equal(stat(wal, &st), 0);
    assert_true(st.st_size <= SNIB__SQLITE_WAL_CUT);
}

int main(void)
{
    set_kit();
    const struct CMUnitTest cases[] = {
        CASE(the_rule_row_by_row),
        CASE(it_is_emptied_now_and_then),
        CASE(a_reader_in_the_way_is_tried_in_strides),
        CASE(a_reader_that_stays_lets_it_grow_and_keeps_nobody_out),
    };
    return RUN(cases);
}

/* store/sqlite/db.c — one connection: statements, transactions.
 *
 * The file is in WAL mode with synchronous NORMAL: a commit is two or three
 * writes into the page cache and no fsync. So a killed process loses nothing. A
 * power failure loses the newest transactions, but with them every holder (the
 * boot id is another one afterwards). PERSIST_WAL and NO_CKPT_ON_CLOSE keep a
 * short-lived process from paying for a checkpoint when it ends.
 *
 * Busy: SQLite's own handler sleeps 1, 2, 5, 10 … ms, which costs a factor of
 * seven where a transaction takes 10 us. Our handler yields ten times (on a
 * crowded machine: once), then sleeps 20 us growing to 500 us, until
 * db->busy_until. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "store/sqlite/internal.h"

/* A yield that takes longer than the first is too dear; for the second the
 * handler does not yield again. */
#define YIELD_CHEAP_NS 500000
#define YIELD_PAUSE_MS 1000

#define CLAIM(c)                                                               \
    c "id, " c "request, " c "client, " c "state, " c "kind, " c "permits, " c \
      "room, " c "token, " c "floor, " c "lease, " c "until, " c "pid, " c     \
      "start, " c "pidns, " c "bell, " c "about, " c "rank, " c "delay, " c    \
      "beside, " c "slot, " c "holds"

static const char *const sql[SNIB__ST_COUNT] = {
    [SNIB__ST_BEGIN] = "BEGIN IMMEDIATE",
    [SNIB__ST_BEGIN_READ] = "BEGIN",
    [SNIB__ST_COMMIT] = "COMMIT",
    [SNIB__ST_ROLLBACK] = "ROLLBACK",
    [SNIB__ST_LOCK] =
        "SELECT " CLAIM("c.") ", l.token, l.size, l.gate, l.shares FROM lock l "
                              "LEFT JOIN claim c ON c.id = l.holder "
                              "AND c.name = l.name AND c.state = 1 "
                              "WHERE l.name = ?1",
    [SNIB__ST_FIND] = "SELECT " CLAIM("") " FROM claim "
                                          "WHERE request = ?1 AND state <> 1",
    [SNIB__ST_HEAD] = "SELECT " CLAIM(
        "") " FROM claim WHERE name = ?1 AND state = 0 "
            "AND (rank, id) > (?2, ?3) ORDER BY rank, id LIMIT 1",
    [SNIB__ST_SHARE] =
        "SELECT " CLAIM("") " FROM claim WHERE name = ?1 AND state = 5 "
                            "AND id > ?3 ORDER BY id LIMIT 1",
    [SNIB__ST_BEFORE] = "SELECT count(*) FROM (SELECT 1 FROM claim "
                        "WHERE name = ?1 AND state = 0 "
                        "AND (rank, id) < (?2, ?3) LIMIT ?4)",
    /* The index alone says whether there are so many at all. To step over rows
     * costs half of what it costs to count them. */
    [SNIB__ST_MAY_WAIT] =
        "SELECT CASE WHEN EXISTS(SELECT 1 FROM claim WHERE name = ?1 "
        "AND state = 0 LIMIT 1 OFFSET ?3 - 1) THEN EXISTS(SELECT 1 FROM claim "
        "WHERE name = ?1 AND state = 0 AND until > ?2 LIMIT 1 OFFSET ?3 - 1) "
        "ELSE 0 END",
    [SNIB__ST_FLOOR] = "SELECT value FROM meta WHERE key = 'floor'",
    [SNIB__ST_SET_LOCK] =
        "INSERT INTO lock(name, token, holder) VALUES(?1, ?2, ?3) "
        "ON CONFLICT(name) DO UPDATE SET token = excluded.token, "
        "holder = excluded.holder",
    [SNIB__ST_SET_SHARES] =
        "INSERT INTO lock(name, token, shares) VALUES(?1, ?2, ?3) "
        "ON CONFLICT(name) DO UPDATE SET token = excluded.token, "
        "shares = excluded.shares",
    [SNIB__ST_SET_PARAMS] =
        "INSERT INTO lock(name, token, size, gate) VALUES(?1, ?2, ?3, ?4) "
        "ON CONFLICT(name) DO UPDATE SET token = excluded.token, "
        "size = excluded.size, gate = excluded.gate",
    /* Only what is a token: below 2^53 less the reserve. */
    [SNIB__ST_HIGHEST] = "SELECT max(token) FROM lock "
                         "WHERE token BETWEEN 0 AND 9007199254740959",
    [SNIB__ST_ADD] =
        "INSERT INTO claim(name, request, client, state, kind, permits, "
        "holds, room, token, floor, lease, until, pid, start, pidns, bell, "
        "about, rank, delay, beside, slot) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?21, "
        "?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20)",
    [SNIB__ST_CHANGE] = "UPDATE claim SET state = ?2, room = ?3, token = ?4, "
                        "lease = ?5, until = ?6, slot = ?7, bell = ?8, "
                        "holds = ?9 WHERE id = ?1",
    [SNIB__ST_EXTEND] = "UPDATE claim SET lease = ?2, until = ?3, "
                        "bell = ?4 WHERE id = ?1",
    [SNIB__ST_REVOKE] = "UPDATE claim SET state = ?2, until = ?3, about = ?4 "
                        "WHERE id = ?1",
    [SNIB__ST_REMOVE] = "DELETE FROM claim WHERE id = ?1",
    [SNIB__ST_SWEEP] =
        "DELETE FROM claim WHERE state BETWEEN 2 AND 4 AND until <= ?1",
    [SNIB__ST_WAITERS] =
        "SELECT " CLAIM("") " FROM claim "
                            "WHERE name = ?1 AND state = 0 AND until > ?2 "
                            "ORDER BY rank, id",
    [SNIB__ST_SHARERS] =
        "SELECT " CLAIM("") " FROM claim "
                            "WHERE name = ?1 AND state = 5 "
                            "AND until + coalesce(delay, 0) > ?2 ORDER BY id",
    [SNIB__ST_NAMES] =
        "SELECT DISTINCT name FROM claim WHERE state IN (0, 1, 5) AND until + "
        "(state <> 0) * coalesce(delay, 0) > ?1 ORDER BY name",
    [SNIB__ST_AWAITED] = "SELECT DISTINCT name FROM claim "
                         "WHERE state = 0 AND until > ?1 ORDER BY name",
    [SNIB__ST_CLEANER_NAMES] = "SELECT name, token FROM lock WHERE name > ?1 "
                               "ORDER BY name LIMIT ?2",
    [SNIB__ST_CLEANER_WAITERS] =
        "DELETE FROM claim "
        "WHERE name = ?1 AND state = 0 AND until <= ?2",
    [SNIB__ST_CLEANER_HOLDER] =
        "DELETE FROM claim "
        "WHERE id = (SELECT holder FROM lock WHERE name = ?1) "
        "AND name = ?1 AND state = 1 AND until + coalesce(delay, 0) <= ?2",
    [SNIB__ST_CLEANER_SHARES] =
        "DELETE FROM claim WHERE name = ?1 AND state = 5 "
        "AND until + coalesce(delay, 0) <= ?2",
    [SNIB__ST_CLEANER_COUNT] =
        "UPDATE lock SET shares = (SELECT count(*) FROM claim "
        "WHERE name = ?1 AND state = 5) WHERE name = ?1",
    /* A name with params is kept for 29 days more: 2565734400000 / 1024 ms. */
    [SNIB__ST_CLEANER_LOCK] =
        "DELETE FROM lock WHERE name = ?1 AND token < ?2 "
        "AND (coalesce(size, nullif(gate, 0)) IS NULL "
        "OR token < ?2 - 2565734400000) AND NOT EXISTS "
        "(SELECT 1 FROM claim WHERE name = ?1 AND state = 0) AND NOT EXISTS "
        "(SELECT 1 FROM claim WHERE name = ?1 AND state = 5) AND NOT EXISTS "
        "(SELECT 1 FROM claim WHERE id = lock.holder AND name = ?1 "
        "AND state = 1)",
    [SNIB__ST_META] = "SELECT value FROM meta WHERE key = ?1",
    [SNIB__ST_ALL_META] = "SELECT key, value FROM meta",
    [SNIB__ST_SET_META] = "INSERT INTO meta(key, value) VALUES(?1, ?2) "
                          "ON CONFLICT(key) DO UPDATE SET value = "
                          "excluded.value",
    [SNIB__ST_VALUE_READ] = "SELECT record, until, bytes FROM value "
                            "WHERE name = ?1",
    [SNIB__ST_VALUE_WRITE] =
        "INSERT INTO value(name, until, record, bytes) VALUES(?1, ?2, ?3, ?4) "
        "ON CONFLICT(name) DO UPDATE SET until = excluded.until, "
        "record = excluded.record, bytes = excluded.bytes",
    [SNIB__ST_VALUE_NOTE] = "UPDATE value SET record = ?2 WHERE name = ?1",
    [SNIB__ST_VALUE_OLD] = "SELECT record FROM value WHERE until <= ?1 "
                           "ORDER BY until LIMIT ?2",
    [SNIB__ST_VALUE_FORGET] =
        "DELETE FROM value WHERE rowid IN (SELECT rowid FROM value "
        "WHERE until <= ?1 ORDER BY until LIMIT ?2)",
};

/* -- statements and transactions ------------------------------------------- */

sqlite3_stmt *snib__db_st(struct snib__db *db, enum snib__stmt which,
                          int *ret_rc)
{
    sqlite3_stmt *st = db->st[which];
    *ret_rc = SQLITE_OK;
    if (!st) {
        *ret_rc = sqlite3_prepare_v3(db->handle, sql[which], -1,
                                     SQLITE_PREPARE_PERSISTENT, &st, NULL);
        db->st[which] = st;
    }
    return st;
}

void snib__db_put_id(sqlite3_stmt *st, int column, const uint64_t id[2],
                     uint8_t bytes[16])
{
    for (int i = 0; i < 16; i++) {
        bytes[i] = (uint8_t)(id[i / 8] >> (56 - 8 * (i % 8)));
    }
    sqlite3_bind_blob(st, column, bytes, 16, SQLITE_STATIC);
}

void snib__db_get_id(sqlite3_stmt *st, int column, uint64_t ret[2])
{
    const uint8_t *b = sqlite3_column_blob(st, column);
    ret[0] = ret[1] = 0;
    if (b && sqlite3_column_bytes(st, column) == 16) {
        for (int i = 0; i < 16; i++) {
            ret[i / 8] = ret[i / 8] << 8 | b[i];
        }
    }
}

static int db_run(struct snib__db *db, enum snib__stmt which)
{
    int rc;
    sqlite3_stmt *st = snib__db_st(db, which, &rc);
    if (st) {
        rc = sqlite3_step(st);
        sqlite3_reset(st);
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The statement that ends the transaction is prepared before it begins. If
 * memory for it were missing only later, this client would stay inside the
 * transaction and keep all others from writing. */
static int db_begin(struct snib__db *db, enum snib__stmt which)
{
    int rc;
    return snib__db_st(db, SNIB__ST_ROLLBACK, &rc) ? db_run(db, which) : rc;
}

/* A thread that yields lets all others run that want to. That takes 10 us on an
 * idle machine but tens of ms on a crowded one, where ten yields would pass a
 * limit by more than a tenth of a second. A thread that sleeps is woken in its
 * turn. So after one slow yield there is none for a while. */
static bool db_yield_cheaply(struct snib__db *db)
{
    snib_instant from = snib__host_now(), now;
    if (!snib__reached(from, db->yield_again)) {
        return false;
    }
    sched_yield();
    now = snib__host_now();
    if (snib__between(from, now).ns > YIELD_CHEAP_NS) {
        db->yield_again = snib__after(now, snib__ms(YIELD_PAUSE_MS));
    }
    return true;
}

static int db_busy(void *data, int count)
{
    struct snib__db *db = data;
    if (snib__reached(snib__host_now(), db->busy_until) ||
        (db->yields && snib__forked_waits())) {
        return 0;
    }
    if (count < 10 && db_yield_cheaply(db)) {
        return 1;
    }
    long us = 20;
    for (int i = 10; i < count && us < 500; i++) {
        us += us / 2;
    }
    struct timespec t = {.tv_nsec = (us < 500 ? us : 500) * 1000};
    db->waits++;
    nanosleep(&t, NULL);
    return 1;
}

/* A file that was removed or replaced while we have it open is a second truth:
 * a client that opens the path now does not see what we write. */
static int db_check_moved(struct snib__db *db)
{
    if (snib__files_moved(db->lockfile)) {
        snib__db_rollback(db);
        return SQLITE_READONLY_DBMOVED;
    }
    return SQLITE_OK;
}

int snib__db_begin(struct snib__db *db, snib_instant until)
{
    int rc;
    db->busy_until = until;
    for (;;) {
        rc = db_begin(db, SNIB__ST_BEGIN);
        if (!snib__db_is_busy(rc)) {
            break;
        }
        if (snib__reached(snib__host_now(), until) ||
            (db->yields && snib__forked_waits())) {
            return SQLITE_BUSY;
        }
        (void)db_busy(db, 10); /* SQLite gave up sooner than our handler */
    }
    db->busy = (struct snib__busy){0};
    return rc ? rc : db_check_moved(db);
}

int snib__db_begin_read(struct snib__db *db)
{
    /* A read is busy only while a process recovers the -wal after a crash. */
    db->busy_until = snib__after(snib__host_now(), snib__ms(1000));
    int rc = db_begin(db, SNIB__ST_BEGIN_READ);
    return rc ? rc : db_check_moved(db);
}

int snib__db_end_read(struct snib__db *db)
{
    return snib__db_commit(db);
}

int snib__db_commit(struct snib__db *db)
{
    int rc = db_run(db, SNIB__ST_COMMIT);
    if (rc) {
        snib__db_rollback(db);
    }
    return rc;
}

void snib__db_rollback(struct snib__db *db)
{
    if (!sqlite3_get_autocommit(db->handle)) {
        db_run(db, SNIB__ST_ROLLBACK);
    }
}

/* -- the -wal -------------------------------------------------------------- */

/* The hook only notes how many frames the -wal has; snib__db_empty_wal empties
 * it from frames_max on. A long-lived process lets it grow longer, because each
 * emptying costs two fdatasync. A short-lived one leaves little behind, because
 * the next process to open a file that nobody has open must read all of it.
 * SQLite would empty it within the commit; then a waiter that was just granted
 * a lock would be notified only after the disk. */
static int db_note_frames(void *data, sqlite3 *handle, const char *name,
                          int frames)
{
    (void)handle;
    (void)name;
    ((struct snib__db *)data)->frames = frames;
    return SQLITE_OK;
}

void snib__db_empty_wal(struct snib__db *db)
{
    bool must = db->frames >= SNIB__SQLITE_WAL_MUST;
    if (db->frames < db->frames_max) {
        db->frames_next = 0;
        return;
    }
    if (db->frames < db->frames_next) {
        return; /* not at each commit */
    }
    db->frames_next = db->frames + db->frames_max / 4;
    /* PASSIVE works beside the writers, which may write faster than it copies.
     * RESTART then keeps them out for once, while the disk works. Neither gets
     * past what a reader may still read: as long as another program keeps a read
     * transaction open, the -wal grows. */
    db->busy_until = snib__after(snib__host_now(), snib__ms(50));
    sqlite3_wal_checkpoint_v2(db->handle, "main",
                              must ? SQLITE_CHECKPOINT_RESTART
                                   : SQLITE_CHECKPOINT_PASSIVE,
                              NULL, NULL);
}

/* -- opening --------------------------------------------------------------- */

void snib__db_close(struct snib__db *db)
{
    for (int i = 0; i < SNIB__ST_COUNT; i++) {
        sqlite3_finalize(db->st[i]);
        db->st[i] = NULL;
    }
    sqlite3_close(db->handle);
    db->handle = NULL;
}

snib_err snib__db_connect(struct snib__db *db,
                          const struct snib__lockfile *lockfile,
                          snib_instant until, struct snib_error *reterr)
{
    int on = 1, rc;
    *db = (struct snib__db){.lockfile = lockfile, .busy_until = until};
    errno = 0;
    rc = snib__vfs_open(lockfile->path, &db->handle,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX |
                            SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_NOFOLLOW);
    if (rc) {
        return snib__db_fail_open(db, rc, lockfile->path, reterr);
    }
    db->frames_max = SNIB__SQLITE_WAL_SHORT;
    sqlite3_wal_hook(db->handle, db_note_frames, db);
    sqlite3_busy_handler(db->handle, db_busy, db);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db->handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_PERSIST_WAL, &on);
    return SNIB_ERR_OK;
}

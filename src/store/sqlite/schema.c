/* store/sqlite/schema.c — opening the file: is it ours, of our version, of this
 * boot?
 *
 * A file is ours when its meta table says so; an empty file becomes ours. Any
 * other file is left exactly as it was found.
 *
 * Boot. Leases are instants of CLOCK_BOOTTIME. After a reboot they mean
 * nothing, and no holder is alive. So with another boot id all claims are
 * deleted; tokens stay. A container may have a boot id of its own on the same
 * kernel (LXC does that), so another boot id is believed only when nobody has
 * the file open (files.c). */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "store/sqlite/internal.h"

static const char schema[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    /* A name, with its last token (reserve included) and the id of the claim
     * that holds it. The id may be stale: it counts only if that claim still
     * has this name and state 1. size: of the semaphore; NULL: it has none.
     * gate: latch count of a closed latch. shares: how many claims are in state
     * 5. */
    "CREATE TABLE lock(name BLOB PRIMARY KEY, size INT, token INT, "
    "gate INT, holder INT, shares INT) WITHOUT ROWID;"
    /* id: order of arrival.
     * state: 0 waits, 1 holds, 2 tombstone, 3 unresponsive, 4 revoked, 5 holds
     * with others.
     * until, lease, delay: ns of CLOCK_BOOTTIME. holds: since when the claim
     * holds, or waits, on the same clock.
     * rank: lower ones go first. slot: of permits. room: token reserve.
     * bell: name of the notifier. beside: request id of the own grant that is
     * not in the way. (bell, beside, room, gate and broom are words of the first
     * releases. They stay: with other names the file would be of another
     * schema.) */
    "CREATE TABLE claim(id INTEGER PRIMARY KEY, name BLOB, client BLOB, "
    "request BLOB, kind INT, permits INT, holds INT, state INT, token INT, "
    "room INT, floor INT, lease INT, until INT, pid INT, start INT, "
    "pidns INT, bell TEXT, about TEXT, rank INT, delay INT, beside BLOB, "
    "slot INT);"
    /* A holder is found by its name and is in no index, so an acquire writes
     * two pages and a release one. */
    "CREATE UNIQUE INDEX claim_request ON claim(request) WHERE state <> 1;"
    "CREATE INDEX claim_order ON claim(name, rank, id) WHERE state = 0;"
    "CREATE INDEX claim_share ON claim(name, id) WHERE state = 5;"
    "CREATE INDEX claim_broom ON claim(until) WHERE state BETWEEN 2 AND 4;";

struct meta {
    bool ours;
    int64_t schema;
    char boot[40];
};

/* SQLITE_ERROR: there is no such table. */
static int schema_read_meta(struct snib__db *db, struct meta *ret)
{
    int rc;
    sqlite3_stmt *st = snib__db_st(db, SNIB__ST_ALL_META, &rc);
    *ret = (struct meta){0};
    if (!st) {
        return rc;
    }
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(st, 0);
        if (key && strcmp(key, "snib") == 0) {
            ret->ours = true;
            ret->schema = sqlite3_column_int64(st, 1);
        } else if (key && strcmp(key, "boot") == 0) {
            const unsigned char *v = sqlite3_column_text(st, 1);
            snprintf(ret->boot, sizeof ret->boot, "%s",
                     v ? (const char *)v : "");
        }
    }
    sqlite3_reset(st);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int schema_one_number(struct snib__db *db, const char *text,
                             int64_t *ret)
{
    sqlite3_stmt *st;
    int rc = sqlite3_prepare_v2(db->handle, text, -1, &st, NULL);
    *ret = 0;
    if (!rc) {
        rc = sqlite3_step(st);
        *ret = rc == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
        sqlite3_finalize(st);
    }
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* There is no meta table: is the file empty, or another program's? */
static int schema_is_empty(struct snib__db *db, bool *ret)
{
    int64_t app = 0, version = 0, tables = 0;
    int rc = schema_one_number(db, "PRAGMA application_id", &app);
    if (!rc) {
        rc = schema_one_number(db, "PRAGMA user_version", &version);
    }
    if (!rc) {
        rc = schema_one_number(db, "SELECT count(*) FROM sqlite_schema",
                               &tables);
    }
    *ret = app == 0 && version == 0 && tables == 0;
    return rc;
}

static int schema_set_meta(struct snib__db *db, const char *key,
                           const char *text)
{
    int rc;
    sqlite3_stmt *st = snib__db_st(db, SNIB__ST_SET_META, &rc);
    if (!st) {
        return rc;
    }
    sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 2, text, -1, SQLITE_STATIC);
    rc = sqlite3_step(st);
    sqlite3_reset(st);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Run a pragma about the journal; does it answer "wal"? */
static int schema_ask_journal(struct snib__db *db, const char *text,
                              bool *ret_wal)
{
    sqlite3_stmt *st;
    int rc = sqlite3_prepare_v2(db->handle, text, -1, &st, NULL);
    *ret_wal = false;
    if (!rc) {
        while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
            const unsigned char *mode = sqlite3_column_text(st, 0);
            *ret_wal = mode && strcmp((const char *)mode, "wal") == 0;
        }
        sqlite3_finalize(st);
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* The change to WAL is one write of the first page, so it needs no journal in a
 * file (vfs.c refuses one): a process that is killed has written all of it or
 * nothing. */
static int schema_make_wal(struct snib__db *db)
{
    bool wal = false;
    int rc = schema_ask_journal(db, "PRAGMA journal_mode", &wal);
    if (!rc && !wal) {
        rc = schema_ask_journal(db, "PRAGMA journal_mode = MEMORY", &wal);
    }
    if (!rc && !wal) {
        rc = schema_ask_journal(db, "PRAGMA journal_mode = WAL", &wal);
    }
    return rc || wal ? rc : SQLITE_CANTOPEN;
}

/* Make the tables; another client may be doing the same. */
static int schema_create(struct snib__db *db, const struct snib__host *h)
{
    char pragmas[96], version[12];
    bool empty = false;
    /* Small pages: a transaction writes two of them, and a checksum of each. */
    int rc =
        sqlite3_exec(db->handle, "PRAGMA page_size = 1024", NULL, NULL, NULL);
    if (!rc) {
        rc = schema_make_wal(db);
    }
    if (!rc) {
        rc = snib__db_begin(db, db->busy_until);
    }
    if (rc) {
        return rc;
    }
    rc = schema_is_empty(db, &empty);
    if (!rc && empty) {
        snprintf(pragmas, sizeof pragmas,
                 "PRAGMA application_id = %d; PRAGMA user_version = %d",
                 SNIB__SQLITE_APP_ID, SNIB__SQLITE_SCHEMA);
        snprintf(version, sizeof version, "%d", SNIB__SQLITE_SCHEMA);
        rc = sqlite3_exec(db->handle, schema, NULL, NULL, NULL);
        if (!rc) {
            rc = sqlite3_exec(db->handle, pragmas, NULL, NULL, NULL);
        }
        if (!rc) {
            rc = schema_set_meta(db, "snib", version);
        }
        if (!rc) {
            rc = schema_set_meta(db, "boot", h->boot);
        }
    }
    if (rc) {
        snib__db_rollback(db);
        return rc;
    }
    return snib__db_commit(db);
}

/* Before the file is in WAL mode it has ordinary locks. When waiting could be a
 * deadlock (two clients read the file, and both want to make it WAL), SQLite
 * answers "busy" at once, without asking our handler. So everything here is
 * tried again until the deadline; by then one of them has made it. */
static int schema_read_or_create(struct snib__db *db,
                                 const struct snib__host *h, struct meta *ret)
{
    struct timespec pause = {.tv_nsec = 1000000};
    snib_instant until = db->busy_until;
    for (;;) {
        bool empty = false;
        int rc = schema_read_meta(db, ret);
        if (rc == SQLITE_ERROR) {
            rc = schema_is_empty(db, &empty);
            if (!rc && empty) {
                rc = schema_create(db, h);
            }
            if (!rc) { /* made by us or just now by another, or foreign */
                rc = schema_read_meta(db, ret);
                rc = rc == SQLITE_ERROR ? SQLITE_OK : rc;
            }
        }
        if (!rc && ret->ours && ret->schema == SNIB__SQLITE_SCHEMA) {
            /* A copy that another program made of a lock file is not in WAL
             * mode. */
            rc = schema_make_wal(db);
        }
        if (!snib__db_is_busy(rc) || snib__reached(snib__host_now(), until)) {
            return rc;
        }
        nanosleep(&pause, NULL);
    }
}

static snib_err schema_fail_open(struct snib__db *db, int rc, const char *path,
                                 struct snib_error *reterr)
{
    int simple = rc & 0xff;
    if ((simple == SQLITE_NOTADB || simple == SQLITE_CORRUPT) &&
        !snib__db_unread(db, rc)) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "%s is not a lock file of snib, or is damaged (%s); "
                          "move it away or name another: sqlite:PATH",
                          path, sqlite3_errmsg(db->handle));
    }
    return snib__db_fail_open(db, rc, path, reterr);
}

/* This client entered alone: it locked the directory that it saw then. If that
 * was removed since, another client may be alone in a new one and hold: its
 * claims are in this file and must stay. A holder wrote its claim before our
 * transaction began, so a look inside the transaction sees that client's
 * directory, or none. If another client was faster, it has cleared the claims
 * already. */
static snib_err schema_clear_claims(struct snib__db *db,
                                    const struct snib__lockfile *lockfile,
                                    const struct snib__host *h,
                                    struct snib_error *reterr)
{
    struct meta m;
    int rc = snib__db_begin(db, db->busy_until);
    if (rc) {
        return schema_fail_open(db, rc, lockfile->path, reterr);
    }
    snib_err err = snib__files_still(lockfile, reterr);
    rc = err ? SQLITE_OK : schema_read_meta(db, &m);
    if (!err && !rc && strcmp(m.boot, h->boot) != 0) {
        rc = sqlite3_exec(db->handle, "DELETE FROM claim", NULL, NULL, NULL);
        rc = rc ? rc : schema_set_meta(db, "boot", h->boot);
    }
    if (!err && !rc) {
        rc = snib__db_commit(db);
        return rc ? schema_fail_open(db, rc, lockfile->path, reterr)
                  : SNIB_ERR_OK;
    }
    err = err ? err : schema_fail_open(db, rc, lockfile->path, reterr);
    snib__db_rollback(db);
    return err;
}

/* If the file has another boot id, a client that is alone clears the claims. A
 * client that is not alone does not join: *ret_other_boot. While this client is
 * in, alone or not, the boot id cannot change. */
static snib_err schema_join_boot(struct snib__db *db,
                                 struct snib__lockfile *lockfile,
                                 const struct snib__host *h,
                                 const struct meta *m, bool *ret_other_boot,
                                 struct snib_error *reterr)
{
    bool same = strcmp(m->boot, h->boot) == 0;
    snib_err err = !same && lockfile->alone
                       ? schema_clear_claims(db, lockfile, h, reterr)
                       : SNIB_ERR_OK;
    if (err) {
        return err;
    }
    *ret_other_boot = !same && !lockfile->alone;
    return *ret_other_boot ? SNIB_ERR_OK
                           : snib__files_join(lockfile, db->busy_until, reterr);
}

static snib_err schema_check(struct snib__db *db,
                             struct snib__lockfile *lockfile,
                             const struct snib__host *h, bool *ret_other_boot,
                             struct snib_error *reterr)
{
    struct meta m;
    *ret_other_boot = false;
    int rc = schema_read_or_create(db, h, &m);
    if (rc) {
        return schema_fail_open(db, rc, lockfile->path, reterr);
    }
    if (!m.ours) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "%s is a database of another program; name another: "
                          "sqlite:PATH",
                          lockfile->path);
    }
    if (m.schema != SNIB__SQLITE_SCHEMA) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "lock file %s has schema %lld, this snib knows %d; "
                          "use the newer snib everywhere, or move the file "
                          "away when nobody uses it",
                          lockfile->path, (long long)m.schema,
                          SNIB__SQLITE_SCHEMA);
    }
    rc = sqlite3_exec(db->handle,
                      "PRAGMA synchronous = NORMAL; "
                      "PRAGMA journal_size_limit = 16777216",
                      NULL, NULL, NULL);
    if (rc) {
        return schema_fail_open(db, rc, lockfile->path, reterr);
    }
    return schema_join_boot(db, lockfile, h, &m, ret_other_boot, reterr);
}

/* While clients of another boot have the file open, this one waits outside,
 * with nothing open: what it enters the next time may be other files. */
snib_err snib__db_open(struct snib__db *db, struct snib__lockfile *lockfile,
                       const struct snib__host *h, snib_duration patience,
                       struct snib_error *reterr)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    snib_instant until = snib__after(snib__host_now(), patience);
    bool other_boot = false;
    *db = (struct snib__db){.lockfile = lockfile};
    for (;;) {
        snib_err err = snib__files_enter(lockfile, until, reterr);
        err = err ? err : snib__db_connect(db, lockfile, until, reterr);
        err = err ? err : schema_check(db, lockfile, h, &other_boot, reterr);
        if (!err && !other_boot) {
            return SNIB_ERR_OK;
        }
        snib__db_close(db);
        snib__files_leave(lockfile);
        if (err) {
            return err;
        }
        if (snib__reached(snib__host_now(), until)) {
            return snib__fail(
                reterr, SNIB_ERR_CONFIG,
                "lock file %s is in use by processes that report another "
                "boot id (a container with its own?); they cannot share it: "
                "name another: sqlite:PATH",
                lockfile->path);
        }
        nanosleep(&pause, NULL);
    }
}

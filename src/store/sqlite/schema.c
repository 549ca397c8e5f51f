/* store/sqlite/schema.c — is this file ours, of our version, of this boot?
 *
 * A file is ours when its meta table says so; an empty one becomes ours. Any
 * other is left exactly as it was found.
 *
 * Boot. Leases are instants of CLOCK_BOOTTIME and mean nothing after a
 * reboot, when nobody who held is alive: with another boot id all claims are
 * deleted, tokens stay. A container may have a boot id of its own on the same
 * kernel (LXC does that), so "another boot id" is believed only when nobody
 * has the file open (files.c). */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "store/sqlite/internal.h"

static const char schema[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    /* Names, with the last token given out (room included) and the id of the
     * claim that holds it. The id may be stale: it counts only if that claim
     * still has this name and state 1. */
    /* size: of the semaphore, NULL: it has none. gate: of a closed latch.
     * shares: how many claims are in state 5. */
    "CREATE TABLE lock(name BLOB PRIMARY KEY, size INT, token INT, "
    "gate INT, holder INT, shares INT) WITHOUT ROWID;"
    /* id: order of arrival. state: 0 waits, 1 holds, 2 tombstone, 3 unresponsive,
     * 4 revoked, 5 holds with others. until, lease, delay: ns of
     * CLOCK_BOOTTIME. holds: since when it does, or waits, of the same. rank: lower ones first. beside: a request. slot: of
     * permits. */
    "CREATE TABLE claim(id INTEGER PRIMARY KEY, name BLOB, client BLOB, "
    "request BLOB, kind INT, permits INT, holds INT, state INT, token INT, "
    "room INT, floor INT, lease INT, until INT, pid INT, start INT, "
    "pidns INT, bell TEXT, about TEXT, rank INT, delay INT, beside BLOB, "
    "slot INT);"
    /* A holder is found by its name, so it is in no index: an acquire writes
     * two pages, a release one. */
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

/* No meta table: an empty file, or somebody else's. */
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

/* What this pragma of the journal answers: is it the log (WAL)? */
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

/* The change is one write of the first page, so it needs no journal in a file
 * (vfs.c refuses one): who is killed has written all of it or nothing. */
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

/* Make the tables; somebody else may be doing the same. */
static int schema_create(struct snib__db *db, const struct snib__host *h)
{
    char pragmas[96], version[12];
    bool empty = false;
    /* Small pages: a transaction writes two, and a checksum of each. */
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

/* Before it is WAL the file has ordinary locks, and SQLite answers "busy" at
 * once, without asking our handler, where waiting could be a deadlock: two
 * who both read it and both want to make it WAL. So everything here is tried
 * again until the deadline; by then somebody has made it. */
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
            if (!rc) { /* made, by us or just now by another; or foreign */
                rc = schema_read_meta(db, ret);
                rc = rc == SQLITE_ERROR ? SQLITE_OK : rc;
            }
        }
        if (!rc && ret->ours && ret->schema == SNIB__SQLITE_SCHEMA) {
            rc = schema_make_wal(
                db); /* a copy of one, by other programs, is not  */
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
                          "move it away or use --store sqlite:PATH",
                          path, sqlite3_errmsg(db->handle));
    }
    return snib__db_fail_open(db, rc, path, reterr);
}

/* Who entered alone locked the directory that he saw then. If that was removed
 * since, another may be alone in a new one and hold: his claims are in this file
 * and must stay. Whoever holds wrote that before our transaction began, so a look
 * inside it sees his directory, or none. And who was faster has cleared already. */
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

/* With another boot id the claims are cleared, by who has the file alone. As
 * long as we are in, alone or not, it cannot change. */
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

snib_err snib__schema_check(struct snib__db *db,
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
                          "%s is a database of another program; use --store "
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

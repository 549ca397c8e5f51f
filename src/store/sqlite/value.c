/* store/sqlite/value.c — versioned values (core/version.h) in a table.
 *
 *  value(name, until, record, bytes)   until: Unix ms, since a value outlives a
 *                                      boot, as leases do not
 *
 * The table is made when it is first needed. A file without it is as good, so
 * the schema's number does not count the table. A change is one IMMEDIATE
 * transaction: read the record, let the rules decide, write, and forget up to
 * eight values that ended more than a minute ago. The highest number of those
 * stays in meta "version_floor": every later version of any name is above
 * it. */
#include <string.h>

#include "base/error.h"
#include "core/version.h"
#include "store/sqlite/internal.h"

#define FORGET_AT_ONCE 8

static const char table[] =
    "CREATE TABLE IF NOT EXISTS value(name BLOB PRIMARY KEY, until INT, "
    "record BLOB, bytes BLOB);"
    "CREATE INDEX IF NOT EXISTS value_until ON value(until);";

static int value_done(sqlite3_stmt *st)
{
    int rc = sqlite3_step(st);
    sqlite3_reset(st);
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* -- the floor ------------------------------------------------------------- */

static int value_read_floor(struct snib__db *db, int64_t *ret)
{
    int rc;
    sqlite3_stmt *st = snib__db_st(db, SNIB__ST_META, &rc);
    *ret = 0;
    if (!st) {
        return rc;
    }
    sqlite3_bind_text(st, 1, "version_floor", -1, SQLITE_STATIC);
    rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        *ret = sqlite3_column_int64(st, 0);
    }
    sqlite3_reset(st);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int value_raise_floor(struct snib__db *db, int64_t floor)
{
    int64_t old;
    int rc = value_read_floor(db, &old);
    if (rc || old >= floor) {
        return rc;
    }
    sqlite3_stmt *st = snib__db_st(db, SNIB__ST_SET_META, &rc);
    if (!st) {
        return rc;
    }
    sqlite3_bind_text(st, 1, "version_floor", -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 2, floor);
    return value_done(st);
}

/* -- rows ------------------------------------------------------------------ */

struct row {
    struct snib__version v;
    int64_t until;
    bool there, damaged;
};

/* bytes (may be NULL): a value that has not ended is copied there. */
static int value_read_row(struct snib__sqlite *self,
                          const struct snib__name *name, int64_t now_ms,
                          struct row *ret, struct snib__buf *bytes)
{
    int rc;
    sqlite3_stmt *st = snib__db_st(&self->db, SNIB__ST_VALUE_READ, &rc);
    *ret = (struct row){0};
    if (!st) {
        return rc;
    }
    sqlite3_bind_blob(st, 1, name->raw, (int)name->raw_size, SQLITE_STATIC);
    rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        const void *record = sqlite3_column_blob(st, 0);
        size_t size = (size_t)sqlite3_column_bytes(st, 0);
        ret->there = true;
        ret->until = sqlite3_column_int64(st, 1);
        ret->damaged = !snib__version_unpack(record, size, &ret->v) ||
                       sqlite3_column_type(st, 1) != SQLITE_INTEGER;
        if (ret->until <= now_ms) {
            ret->v.version = 0;
        }
        if (bytes && ret->v.version) {
            int n = sqlite3_column_bytes(st, 2);
            ret->damaged |= (size_t)n > SNIB_VALUE_MAX;
            if (!ret->damaged) {
                snib__buf_add(bytes, sqlite3_column_blob(st, 2), (size_t)n);
            }
        }
    }
    sqlite3_reset(st);
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int value_write_row(struct snib__sqlite *self,
                           const struct snib__request *r, const struct row *row,
                           bool with_bytes)
{
    uint8_t record[SNIB__VERSION_BYTES];
    int rc;
    sqlite3_stmt *st = snib__db_st(&self->db, SNIB__ST_VALUE_WRITE, &rc);
    if (!st) {
        return rc;
    }
    snib__version_pack(&row->v, record);
    sqlite3_bind_blob(st, 1, r->name->raw, (int)r->name->raw_size,
                      SQLITE_STATIC);
    sqlite3_bind_int64(st, 2, row->until);
    sqlite3_bind_blob(st, 3, record, sizeof record, SQLITE_STATIC);
    if (with_bytes) {
        sqlite3_bind_blob(st, 4, r->text_size ? r->text : "", (int)r->text_size,
                          SQLITE_STATIC);
    } else {
        sqlite3_bind_null(st, 4);
    }
    rc = value_done(st);
    sqlite3_clear_bindings(st);
    return rc;
}

static int value_write_note(struct snib__sqlite *self,
                            const struct snib__request *r,
                            const struct row *row)
{
    uint8_t record[SNIB__VERSION_BYTES];
    int rc;
    sqlite3_stmt *st = snib__db_st(&self->db, SNIB__ST_VALUE_NOTE, &rc);
    if (!st) {
        return rc;
    }
    snib__version_pack(&row->v, record);
    sqlite3_bind_blob(st, 1, r->name->raw, (int)r->name->raw_size,
                      SQLITE_STATIC);
    sqlite3_bind_blob(st, 2, record, sizeof record, SQLITE_STATIC);
    rc = value_done(st);
    sqlite3_clear_bindings(st);
    return rc;
}

/* Forget values that ended long ago. The number in a damaged record is not
 * known; the record is forgotten like the others. */
static int value_forget(struct snib__sqlite *self, int64_t now_ms)
{
    struct snib__version v;
    int64_t floor = 0;
    int rc, n = 0;
    sqlite3_stmt *st = snib__db_st(&self->db, SNIB__ST_VALUE_OLD, &rc);
    if (!st) {
        return rc;
    }
    sqlite3_bind_int64(st, 1, now_ms - SNIB__VALUE_MEMORY_MS);
    sqlite3_bind_int(st, 2, FORGET_AT_ONCE);
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        size_t size = (size_t)sqlite3_column_bytes(st, 0);
        n++;
        if (snib__version_unpack(sqlite3_column_blob(st, 0), size, &v) &&
            v.last > floor) {
            floor = v.last;
        }
    }
    sqlite3_reset(st);
    if (rc != SQLITE_DONE || !n) {
        return rc == SQLITE_DONE ? SQLITE_OK : rc;
    }
    rc = value_raise_floor(&self->db, floor);
    if (rc || !(st = snib__db_st(&self->db, SNIB__ST_VALUE_FORGET, &rc))) {
        return rc;
    }
    sqlite3_bind_int64(st, 1, now_ms - SNIB__VALUE_MEMORY_MS);
    sqlite3_bind_int(st, 2, FORGET_AT_ONCE);
    return value_done(st);
}

/* -- requests -------------------------------------------------------------- */

static void value_fail(struct snib__sqlite *self, struct snib__request *r,
                       int rc)
{
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err =
        snib__db_fail(&self->db, rc, self->lockfile.path, r->said.reterr);
}

static void value_corrupt(struct snib__sqlite *self, struct snib__request *r)
{
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err =
        snib__fail(r->said.reterr, SNIB_ERR_CORRUPT,
                   "lock file %s: the value %s is damaged; remove its "
                   "row from the table \"value\"",
                   self->lockfile.path, r->name->safe);
}

/* Try for the write lock for a slice of the request's patience. False: the
 * request is answered. */
static bool value_begin(struct snib__sqlite *self, struct snib__request *r)
{
    snib_instant now = snib__host_now();
    snib_instant until = snib__sooner(
        snib__after(now, snib__ms(SNIB__SQLITE_SLICE_MS)), r->exec.patience);
    int rc = snib__db_begin(
        &self->db,
        snib__later(until, snib__after(now, snib__ms(SNIB__SQLITE_LEAST_MS))));
    if (rc == SQLITE_BUSY &&
        !snib__reached(snib__host_now(), r->exec.patience)) {
        r->said.answer = SNIB__PENDING;
    } else if (rc) {
        value_fail(self, r, rc);
    }
    return !rc;
}

/* Commit. False: that failed, and the request is answered. */
static bool value_commit(struct snib__sqlite *self, struct snib__request *r)
{
    int rc = snib__db_commit(&self->db);
    if (rc) {
        value_fail(self, r, rc);
        if ((rc & 0xff) == SQLITE_IOERR) {
            r->said.answer = SNIB__UNKNOWN; /* a recovery may find the commit */
        }
        return false;
    }
    if (++self->writes == SNIB__SQLITE_LONG_LIVED) {
        self->db.frames_max = SNIB__SQLITE_WAL_LONG;
    }
    return true;
}

/* Make the table if it is not there. False: the request is answered. */
static bool value_have_table(struct snib__sqlite *self, struct snib__request *r)
{
    int rc;
    if (self->values) {
        return true;
    }
    if (snib__db_st(&self->db, SNIB__ST_VALUE_READ, &rc)) {
        self->values = true;
        return true;
    }
    if ((rc & 0xff) != SQLITE_ERROR) {
        value_fail(self, r, rc);
        return false;
    }
    if (!value_begin(self, r)) {
        return false;
    }
    rc = sqlite3_exec(self->db.handle, table, NULL, NULL, NULL);
    if (rc) {
        value_fail(self, r, rc);
        snib__db_rollback(&self->db);
        return false;
    }
    self->values = value_commit(self, r);
    return self->values;
}

static void value_get(struct snib__sqlite *self, struct snib__request *r)
{
    struct row row;
    int rc = snib__db_begin_read(&self->db);
    if (!rc) {
        rc = value_read_row(self, r->name, snib__host_wall_ms(&self->host),
                            &row, r->said.result);
        int end = snib__db_end_read(&self->db);
        rc = rc ? rc : end;
    }
    if (rc) {
        value_fail(self, r, rc);
    } else if (row.damaged) {
        value_corrupt(self, r);
    } else if (r->said.result->failed) {
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_NOMEM);
    } else {
        r->token = row.v.version;
        r->said.answer = SNIB__DONE;
        r->said.err = snib__ok(r->said.reterr);
    }
}

/* The transaction has begun. SQLITE_OK: the answer is there, to be
 * committed. */
static int value_change(struct snib__sqlite *self, struct snib__request *r,
                        struct row *row)
{
    int64_t now_ms = snib__host_wall_ms(&self->host), floor;
    int rc = value_read_row(self, r->name, now_ms, row, NULL);
    if (rc || row->damaged) {
        return rc;
    }
    rc = value_read_floor(&self->db, &floor);
    if (rc) {
        return rc;
    }
    if (!row->there) {
        row->v.last = row->v.forgotten = floor;
        row->until = now_ms;
    }
    switch (snib__version_step(&row->v, r, now_ms)) {
    case SNIB__VERSION_KEEP:
        return SQLITE_OK;
    case SNIB__VERSION_NOTE:
        rc = row->there ? value_write_note(self, r, row)
                        : value_write_row(self, r, row, false);
        break;
    case SNIB__VERSION_PUT:
        row->until = now_ms + snib__to_ms(r->lease);
        rc = value_write_row(self, r, row, true);
        break;
    case SNIB__VERSION_DELETE:
        row->until = now_ms;
        rc = value_write_row(self, r, row, false);
        break;
    }
    return rc ? rc : value_forget(self, now_ms);
}

static void value_put_or_delete(struct snib__sqlite *self,
                                struct snib__request *r)
{
    struct row row;
    int64_t expected = r->token;
    if (!value_begin(self, r)) {
        return;
    }
    int rc = value_change(self, r, &row);
    if (rc || row.damaged) {
        if (rc) {
            value_fail(self, r, rc);
        } else {
            value_corrupt(self, r);
        }
        snib__db_rollback(&self->db);
        r->token = expected;
        return;
    }
    if (!value_commit(self, r)) {
        r->token = expected;
    }
}

void snib__sqlite_value(struct snib__sqlite *self, struct snib__request *r)
{
    if (!value_have_table(self, r)) {
        return;
    }
    if (r->verb == SNIB__VALUE_GET) {
        value_get(self, r);
    } else {
        value_put_or_delete(self, r);
    }
}

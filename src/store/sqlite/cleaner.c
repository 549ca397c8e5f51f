/* store/sqlite/cleaner.c — nothing stays for ever.
 *
 * The cleaner forgets a name that nobody has used for a day. The highest token
 * of the forgotten names goes into the floor, and every later token of any name
 * is above the floor. So the file stays small, and tokens rise even on a
 * machine whose clock goes back. The cleaner also removes the claims that the
 * dead have left on names that nobody asks for again.
 *
 * One visit looks at the 256 names behind the last visit's (meta key "broom")
 * and takes some 200 us of the write lock. If the lock is not free, the visit
 * is left for another time. */
#include <string.h>

#include "store/sqlite/internal.h"

#define NAMES_AT_ONCE 256
#define DAY_MS        INT64_C(86400000)

static int cleaner_delete_of(struct snib__db *db, enum snib__stmt which,
                             const void *name, int size, int64_t limit,
                             int *ret_count)
{
    int rc;
    sqlite3_stmt *st = snib__db_st(db, which, &rc);
    if (st) {
        sqlite3_bind_blob(st, 1, name, size, SQLITE_STATIC);
        sqlite3_bind_int64(st, 2, limit);
        rc = sqlite3_step(st);
        sqlite3_reset(st);
        *ret_count = rc == SQLITE_DONE ? sqlite3_changes(db->handle) : 0;
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int cleaner_get_meta(struct snib__db *db, const char *key,
                            sqlite3_stmt **ret)
{
    int rc;
    sqlite3_stmt *st = snib__db_st(db, SNIB__ST_META, &rc);
    *ret = NULL;
    if (st) {
        sqlite3_bind_text(st, 1, key, -1, SQLITE_STATIC);
        rc = sqlite3_step(st);
        *ret = st; /* the caller resets it */
    }
    return rc == SQLITE_ROW || rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int cleaner_set_floor(struct snib__db *db, int64_t floor)
{
    sqlite3_stmt *st;
    int rc = cleaner_get_meta(db, "floor", &st);
    int64_t old = 0;
    if (st) {
        old = snib__sqlite_token(st, 0);
        sqlite3_reset(st);
    }
    /* A floor that is not a token reads as the highest: it stays, and is
     * reported until it is mended. */
    if (rc || old >= floor) {
        return rc;
    }
    st = snib__db_st(db, SNIB__ST_SET_META, &rc);
    if (st) {
        sqlite3_bind_text(st, 1, "floor", -1, SQLITE_STATIC);
        sqlite3_bind_int64(st, 2, floor);
        rc = sqlite3_step(st);
        sqlite3_reset(st);
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

static int cleaner_set_cursor(struct snib__db *db, const void *name, int size)
{
    int rc;
    sqlite3_stmt *st = snib__db_st(db, SNIB__ST_SET_META, &rc);
    if (st) {
        sqlite3_bind_text(st, 1, "broom", -1, SQLITE_STATIC);
        sqlite3_bind_blob(st, 2, size ? name : "", size, SQLITE_TRANSIENT);
        rc = sqlite3_step(st);
        sqlite3_reset(st);
    }
    return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

struct visit {
    snib_instant now;
    int64_t old_token; /* tokens below it are a day old */
    int64_t floor;
    int seen;
    uint8_t last[SNIB_NAME_MAX];
    int last_size;
};

static int cleaner_visit_one(struct snib__db *db, struct visit *v,
                             sqlite3_stmt *st)
{
    int size = sqlite3_column_bytes(st, 0), gone = 0, rc;
    int64_t token = snib__sqlite_token(st, 1);
    snib_instant dead = snib__before(v->now, snib__ms(SNIB__ASIDE_MS));
    v->last_size = size <= SNIB_NAME_MAX ? size : SNIB_NAME_MAX;
    if (size) {
        memcpy(v->last, sqlite3_column_blob(st, 0), (size_t)v->last_size);
    }
    v->seen++;
    rc = cleaner_delete_of(db, SNIB__ST_CLEANER_WAITERS, v->last, v->last_size,
                           dead.ns, &gone);
    if (!rc) {
        rc = cleaner_delete_of(db, SNIB__ST_CLEANER_HOLDER, v->last,
                               v->last_size, dead.ns, &gone);
    }
    if (!rc) {
        rc = cleaner_delete_of(db, SNIB__ST_CLEANER_SHARES, v->last,
                               v->last_size, dead.ns, &gone);
    }
    if (!rc && gone) {
        rc = cleaner_delete_of(db, SNIB__ST_CLEANER_COUNT, v->last,
                               v->last_size, 0, &gone);
    }
    if (!rc) {
        gone = 0;
    }
    /* A damaged token stays, and is reported until it is mended. */
    if (!rc && snib__is_token(token)) {
        rc = cleaner_delete_of(db, SNIB__ST_CLEANER_LOCK, v->last, v->last_size,
                               v->old_token, &gone);
    }
    if (!rc && gone && token > v->floor) {
        v->floor = token;
    }
    return rc;
}

static int cleaner_sweep_names(struct snib__sqlite *self)
{
    struct snib__db *db = &self->db;
    struct visit v = {.now = snib__host_lease_now(&self->host)};
    sqlite3_stmt *cursor, *st;
    int rc = cleaner_get_meta(db, "broom", &cursor);
    v.old_token = (snib__host_wall_ms(&self->host) - DAY_MS) * 1024;
    if (!rc && (st = snib__db_st(db, SNIB__ST_CLEANER_NAMES, &rc))) {
        int size = sqlite3_column_bytes(cursor, 0);
        const void *from = sqlite3_column_blob(cursor, 0);
        sqlite3_bind_blob(st, 1, size ? from : "", size, SQLITE_TRANSIENT);
        sqlite3_bind_int(st, 2, NAMES_AT_ONCE);
        rc = SQLITE_OK;
        while (!rc && (rc = sqlite3_step(st)) == SQLITE_ROW) {
            rc = cleaner_visit_one(db, &v, st);
        }
        rc = rc == SQLITE_DONE ? SQLITE_OK : rc;
        sqlite3_reset(st);
    }
    if (cursor) {
        sqlite3_reset(cursor);
    }
    if (!rc) {
        rc = cleaner_set_floor(db, v.floor);
    }
    return rc ? rc
              : cleaner_set_cursor(db, v.last,
                                   v.seen == NAMES_AT_ONCE ? v.last_size : 0);
}

void snib__sqlite_cleaner(struct snib__sqlite *self)
{
    if (snib__db_begin(&self->db, snib__host_now())) {
        return;
    }
    if (cleaner_sweep_names(self)) {
        snib__db_rollback(&self->db);
    } else {
        (void)snib__db_commit(&self->db);
    }
}

/* store/sqlite/inspect.c — inspect and list. They are read transactions beside
 * the writers, so they answer even while a process stands still inside a write.
 * They settle nothing; expired claims are simply not shown. */
#include "base/error.h"
#include "base/glob.h"
#include "store/sqlite/internal.h"

struct shown {
    struct snib__buf *out;
    snib_instant now;
    bool damaged; /* a token or floor is damaged: requests are refused */
};

static void inspect_write_row(sqlite3_stmt *st, struct shown *s)
{
    struct snib__stored_claim c;
    const void *about = sqlite3_column_blob(st, 15);
    int n = about ? sqlite3_column_bytes(st, 15) : 0;
    snib__sqlite_read_claim(st, &c);
    if (!snib__reached(s->now, snib__rules_claim_till(&c))) {
        s->damaged = s->damaged || !snib__is_token(c.floor);
        snib__rules_row(s->out, s->now, &c, about, (size_t)n);
    }
}

static int inspect_write_all(struct snib__sqlite *self, enum snib__stmt which,
                             const void *name, int size, struct shown *s)
{
    int rc;
    sqlite3_stmt *st = snib__db_st(&self->db, which, &rc);
    if (!st) {
        return rc;
    }
    sqlite3_bind_blob(st, 1, name, size, SQLITE_STATIC);
    sqlite3_bind_int64(st, 2, s->now.ns);
    while ((rc = sqlite3_step(st)) == SQLITE_ROW && !s->out->failed) {
        inspect_write_row(st, s);
    }
    sqlite3_reset(st);
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

/* A name that is not in the file starts at the floor. */
static int inspect_look_at_floor(struct snib__sqlite *self, struct shown *s)
{
    int rc;
    sqlite3_stmt *st = snib__db_st(&self->db, SNIB__ST_FLOOR, &rc);
    if (st) {
        rc = sqlite3_step(st);
        s->damaged =
            rc == SQLITE_ROW && !snib__is_token(snib__sqlite_token(st, 0));
        sqlite3_reset(st);
    }
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

static int inspect_write_lock(struct snib__sqlite *self, const void *name,
                              int size, struct shown *s)
{
    int64_t token = 0;
    int rc;
    sqlite3_stmt *st = snib__db_st(&self->db, SNIB__ST_LOCK, &rc);
    if (!st) {
        return rc;
    }
    sqlite3_bind_blob(st, 1, name, size, SQLITE_STATIC);
    rc = sqlite3_step(st);
    if (rc == SQLITE_ROW) {
        token = snib__sqlite_token(st, SNIB__LOCK_COLUMN);
        s->damaged = !snib__is_token(token);
    }
    snib__rec_row(s->out, SNIB__ROW_LOCK);
    snib__rec_bytes(s->out, SNIB__F_NAME, name, (size_t)size);
    snib__rec_i64(s->out, SNIB__F_TOKEN, token);
    if (rc == SQLITE_ROW && sqlite3_column_type(st, 0) != SQLITE_NULL) {
        inspect_write_row(st, s);
    }
    sqlite3_reset(st);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
        return rc;
    }
    rc = rc == SQLITE_DONE ? inspect_look_at_floor(self, s) : SQLITE_OK;
    rc = rc ? rc : inspect_write_all(self, SNIB__ST_SHARERS, name, size, s);
    return rc ? rc : inspect_write_all(self, SNIB__ST_WAITERS, name, size, s);
}

static int inspect_list(struct snib__sqlite *self, struct shown *s,
                        struct snib__request *r)
{
    int rc, inner = SQLITE_OK;
    sqlite3_stmt *st = snib__db_st(
        &self->db, r->list.awaited_only ? SNIB__ST_AWAITED : SNIB__ST_NAMES,
        &rc);
    if (!st) {
        return rc;
    }
    sqlite3_bind_int64(st, 1, s->now.ns);
    while ((rc = sqlite3_step(st)) == SQLITE_ROW && !inner &&
           !r->said.result->failed) {
        const char *name = sqlite3_column_blob(st, 0);
        int size = sqlite3_column_bytes(st, 0);
        if (name && snib__glob(r->text, r->text_size, name, (size_t)size)) {
            inner = inspect_write_lock(self, name, size, s);
        }
    }
    sqlite3_reset(st);
    if (inner) {
        return inner;
    }
    return rc == SQLITE_DONE || rc == SQLITE_ROW ? SQLITE_OK : rc;
}

void snib__sqlite_inspect(struct snib__sqlite *self, struct snib__request *r)
{
    struct shown s = {.out = r->said.result};
    int rc = snib__db_begin_read(&self->db);
    if (!rc) {
        s.now = snib__host_lease_now(&self->host);
        if (r->verb == SNIB__LIST) {
            rc = inspect_list(self, &s, r);
        } else {
            rc = inspect_write_lock(self, r->name->raw, (int)r->name->raw_size,
                                    &s);
        }
        int end = snib__db_end_read(&self->db);
        rc = rc ? rc : end;
    }
    if (rc) {
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err =
            snib__db_fail(&self->db, rc, self->lockfile.path, r->said.reterr);
    } else if (r->said.result->failed) {
        r->said.answer = SNIB__NOT_APPLIED;
        r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_NOMEM);
    } else if (s.damaged && r->verb == SNIB__INSPECT) {
        snib__sqlite_no_token(self, r); /* a list shows what there is */
    } else {
        r->said.answer = SNIB__DONE;
        r->said.err = snib__ok(r->said.reterr);
    }
}

/* store/sqlite/row.c — a row of the file as a claim; nothing is changed here.
 *
 * A program that may write to the file may write anything there. So numbers are
 * held within bounds in which our sums do not leave their range. */
#include <string.h>

#include "core/about.h"
#include "store/sqlite/internal.h"

void snib__sqlite_put_name(sqlite3_stmt *st, const struct snib__name *name)
{
    sqlite3_bind_blob(st, 1, name->raw, (int)name->raw_size, SQLITE_STATIC);
}

static void row_copy_text(sqlite3_stmt *st, int column, char *ret, size_t size)
{
    const void *p = sqlite3_column_blob(st, column);
    size_t n = p ? (size_t)sqlite3_column_bytes(st, column) : 0;
    n = n < size ? n : size - 1;
    if (n) {
        memcpy(ret, p, n);
    }
    ret[n] = 0;
}

int64_t snib__sqlite_bounded(sqlite3_stmt *st, int column, int64_t least,
                             int64_t most)
{
    int64_t n = sqlite3_column_int64(st, column);
    return n < least ? least : n > most ? most : n;
}

int64_t snib__sqlite_token(sqlite3_stmt *st, int column)
{
    int type = sqlite3_column_type(st, column);
    int64_t n = sqlite3_column_int64(st, column);
    bool is = type == SQLITE_INTEGER || type == SQLITE_NULL;
    return is && snib__is_token(n) ? n : SNIB__TOKEN_END;
}

void snib__sqlite_read_claim(sqlite3_stmt *st, struct snib__stored_claim *c)
{
    c->id = sqlite3_column_int64(st, 0);
    snib__db_get_id(st, 1, c->request);
    snib__db_get_id(st, 2, c->client);
    c->state = sqlite3_column_int(st, 3);
    c->kind = (snib_kind)sqlite3_column_int(st, 4);
    c->permits = (uint32_t)sqlite3_column_int64(st, 5);
    c->reserve = (uint32_t)snib__sqlite_bounded(st, 6, 0, SNIB__RESERVE_MAX);
    c->token = snib__sqlite_bounded(st, 7, 0, SNIB__TOKEN_END);
    c->floor = snib__sqlite_token(st, 8);
    c->lease.ns = snib__sqlite_bounded(st, 9, 0, SNIB__NS_MOST);
    c->until.ns = snib__sqlite_bounded(st, 10, 0, SNIB__NS_MOST);
    c->pid = sqlite3_column_int64(st, 11);
    c->start = sqlite3_column_int64(st, 12);
    c->pidns = sqlite3_column_int64(st, 13);
    row_copy_text(st, 14, c->notifier, sizeof c->notifier);
    c->rank = sqlite3_column_int(st, 16);
    c->delay.ns = snib__sqlite_bounded(st, 17, 0, SNIB__NS_MOST);
    snib__db_get_id(st, 18, c->upgrade_of);
    c->slot = (uint32_t)sqlite3_column_int64(st, 19);
    c->since.ns = sqlite3_column_int64(st, 20);
    c->note[0] = 0;
    if (c->state == SNIB__REVOKED) {
        row_copy_text(st, 15, c->note, sizeof c->note);
    }
}

bool snib__sqlite_is_leashed(const void *about, size_t size)
{
    struct snib__about a;
    if (!size || !memmem(about, size, "leashed", 7)) {
        return false;
    }
    snib__about_read(about, size, &a);
    return a.leashed;
}

bool snib__sqlite_peek(struct snib__sqlite *self, const struct snib__request *r,
                       struct snib__stored_claim *ret)
{
    int rc;
    uint8_t bytes[16];
    bool sole = r->acquire.kind == SNIB_KIND_MUTEX ||
                r->acquire.kind == SNIB_KIND_WRITE;
    sqlite3_stmt *st =
        snib__db_st(&self->db, sole ? SNIB__ST_LOCK : SNIB__ST_FIND, &rc);
    bool found = false;
    if (st) {
        self->db.busy_until = (snib_instant){0};
        if (sole) {
            snib__sqlite_put_name(st, r->name);
        } else {
            snib__db_put_id(st, 1, r->id, bytes);
        }
        found = sqlite3_step(st) == SQLITE_ROW &&
                sqlite3_column_type(st, 0) != SQLITE_NULL;
        if (found) {
            snib__sqlite_read_claim(st, ret);
            found = ret->request[0] == r->id[0] && ret->request[1] == r->id[1];
        }
        sqlite3_reset(st);
    }
    return found;
}

/* store/sql/value.c — versioned values (core/version.h) in a row of a table.
 *
 * A change locks the row and the floor of what was forgotten, lets the rules
 * decide, and writes, in one transaction of two round trips. Two that make the
 * same row at once conflict; the second one decides anew. */
#include "base/error.h"
#include "store/sql/sql.h"

enum { VALUE_CONFLICTS = 12 };

static void value_corrupt(const struct snib__sql *q, struct snib__request *r)
{
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err = snib__fail(r->said.reterr, SNIB_ERR_CORRUPT,
                             "%s: the value %s is damaged; remove its row from "
                             "the table \"value\"",
                             q->what, r->name->safe);
}

/* *v: the record, or what a name without one begins with. */
static bool value_open(struct snib__sql_value *row, struct snib__version *v)
{
    if (row->there &&
        (row->damaged ||
         !snib__version_unpack(row->record, sizeof row->record, v))) {
        return false;
    }
    if (!row->there) {
        *v =
            (struct snib__version){.last = row->floor, .forgotten = row->floor};
        row->until = row->now_ms;
    }
    if (row->until <= row->now_ms) {
        v->version = 0;
    }
    return true;
}

static snib__sql_end value_get(struct snib__sql *q, struct snib__request *r)
{
    struct snib__sql_value row = {0};
    struct snib__version v;
    struct snib__buf bytes;
    snib__buf_init(&bytes, SNIB_VALUE_MAX);
    snib__sql_end end = q->driver->value_read(q, r->name, false, &row, &bytes);
    if (end) {
        snib__sql_in_vain(q, r, end);
    } else if (!value_open(&row, &v)) {
        value_corrupt(q, r);
    } else {
        if (v.version) {
            snib__buf_add(r->said.result, snib__buf_bytes(&bytes),
                          snib__buf_size(&bytes));
        }
        bool failed = bytes.failed || r->said.result->failed;
        r->token = v.version;
        r->said.answer = failed ? SNIB__NOT_APPLIED : SNIB__DONE;
        r->said.err = failed ? snib__fail_plain(r->said.reterr, SNIB_ERR_NOMEM)
                             : snib__ok(r->said.reterr);
    }
    snib__buf_free(&bytes);
    return end;
}

/* The row is read and locked. OK: the request has its answer. */
static snib__sql_end value_change(struct snib__sql *q, struct snib__request *r,
                                  struct snib__sql_value *row)
{
    struct snib__version v;
    if (!value_open(row, &v)) {
        q->driver->leave(q);
        value_corrupt(q, r);
        return SNIB__SQL_OK;
    }
    snib__version_todo todo = snib__version_step(&v, r, row->now_ms);
    if (todo == SNIB__VERSION_KEEP) {
        q->driver->leave(q);
        return SNIB__SQL_OK;
    }
    if (todo == SNIB__VERSION_PUT) {
        row->until = row->now_ms + snib__to_ms(r->lease);
    } else if (todo == SNIB__VERSION_DELETE) {
        row->until = row->now_ms;
    }
    snib__version_pack(&v, row->record);
    return q->driver->value_write(q, r, row, todo);
}

static snib__sql_end value_change_until(struct snib__sql *q,
                                        struct snib__request *r)
{
    int64_t expected = r->token;
    snib__sql_end end = SNIB__SQL_CONFLICT;
    for (int i = 0; i < VALUE_CONFLICTS && end == SNIB__SQL_CONFLICT; i++) {
        struct snib__sql_value row = {0};
        r->token = expected;
        end = q->driver->value_read(q, r->name, true, &row, NULL);
        if (!end) {
            end = value_change(q, r, &row);
        }
    }
    if (end == SNIB__SQL_OK) {
        return end;
    }
    r->token = expected;
    snib__sql_in_vain(q, r, end);
    if (end == SNIB__SQL_LOST) {
        r->said.answer = SNIB__UNKNOWN;
        r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_UNKNOWN);
    }
    return end;
}

snib__sql_end snib__sql_value(struct snib__sql *q, struct snib__request *r)
{
    return r->verb == SNIB__VALUE_GET ? value_get(q, r)
                                      : value_change_until(q, r);
}

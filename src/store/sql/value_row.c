/* store/sql/value_row.c — the row of a versioned value (store/sql/value.c). */
#include "base/error.h"
#include "snib/value.h"
#include "store/sql/tables.h"

struct value_seen {
    struct snib__sql_value *ret;
    struct snib__buf *bytes;
};

/* The columns stamp, until, record begin at `from`. */
static void value_see_row(struct snib__sql_value *v,
                          struct snib__sql_rows *rows, int from)
{
    size_t size;
    const void *record = snib__sql_get_bytes(rows, 0, from + 2, &size);
    v->there = !snib__sql_is_null(rows, 0, from);
    v->stamp = (uint64_t)snib__sql_get_int(rows, 0, from);
    v->until = snib__sql_get_int(rows, 0, from + 1);
    v->damaged = v->there && size != sizeof v->record;
    if (v->there && !v->damaged) {
        memcpy(v->record, record, size);
    }
}

static void value_see_all(void *data, struct snib__sql_rows *rows)
{
    struct value_seen *seen = data;
    size_t size;
    seen->ret->now_ms = snib__sql_get_int(rows, 0, 0);
    seen->ret->floor = snib__sql_get_int(rows, 0, 1);
    value_see_row(seen->ret, rows, 2);
    const void *bytes = snib__sql_get_bytes(rows, 0, 5, &size);
    seen->ret->damaged = seen->ret->damaged || size > SNIB_VALUE_MAX;
    if (!seen->ret->damaged) {
        snib__buf_add(seen->bytes, bytes, size);
    }
}

static void value_see_locked(void *data, struct snib__sql_rows *rows)
{
    struct value_seen *seen = data;
    if (rows->count == 1) {
        value_see_row(seen->ret, rows, 0);
    }
}

static void value_see_floor(void *data, struct snib__sql_rows *rows)
{
    struct value_seen *seen = data;
    seen->ret->now_ms = snib__sql_get_int(rows, 0, 0);
    seen->ret->floor = snib__sql_get_int(rows, 0, 1);
}

snib__sql_end snib__sql_value_read(struct snib__sql *q,
                                   const struct snib__name *name, bool lock,
                                   struct snib__sql_value *ret,
                                   struct snib__buf *bytes)
{
    struct snib__sql_session *s = snib__sql_session_of(q);
    struct snib__sql_script *t = &s->script;
    struct value_seen seen = {ret, bytes};
    snib__sql_script_clear(t);
    if (lock) {
        snib__sql_add(t, SNIB__SQL_DO_BEGIN, NULL, NULL);
        snib__sql_add(t, SNIB__SQL_DO_VALUE_LOCKED, value_see_locked, &seen);
        snib__sql_name(t, name);
        snib__sql_add(t, SNIB__SQL_DO_VALUE_FLOOR, value_see_floor, &seen);
    } else {
        snib__sql_add(t, SNIB__SQL_DO_VALUE, value_see_all, &seen);
        snib__sql_name(t, name);
    }
    snib__sql_sync(t);
    snib__sql_end end = snib__sql_script_run(s, 1);
    s->conn->inside = lock && s->conn->up;
    if (end) {
        snib__sql_leave(q);
        return end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
    }
    return SNIB__SQL_OK;
}

/* What is too late does nothing: a copy of this is executed within seconds. */
enum { VALUE_LATE_MS = 5000 };

static void value_compose(struct snib__sql_session *s,
                          const struct snib__request *r,
                          const struct snib__sql_value *v,
                          snib__version_todo todo)
{
    struct snib__sql_script *t = &s->script;
    struct snib__version version = {0};
    bool note = todo == SNIB__VERSION_NOTE && v->there;
    (void)snib__version_unpack(v->record, sizeof v->record, &version);
    snib__sql_script_clear(t);
    snib__sql_add(t, SNIB__SQL_DO_VALUE_IN_TIME, NULL, NULL);
    snib__sql_int(t, v->now_ms + VALUE_LATE_MS);
    snib__sql_add(t,
                  note       ? SNIB__SQL_DO_VALUE_NOTE
                  : v->there ? SNIB__SQL_DO_VALUE_PUT
                             : SNIB__SQL_DO_VALUE_ADD,
                  NULL, NULL);
    snib__sql_name(t, r->name);
    snib__sql_int(t, (int64_t)snib__sql_stamp(&s->sql));
    if (!note) {
        snib__sql_int(t, v->until);
    }
    snib__sql_int(t, version.last);
    snib__sql_bytes(t, v->record, sizeof v->record);
    if (!note && todo == SNIB__VERSION_PUT) {
        snib__sql_bytes(t, r->text, r->text_size);
    } else if (!note) {
        snib__sql_null(t);
    }
    snib__sql_add(t, SNIB__SQL_DO_COMMIT, NULL, NULL);
    snib__sql_sync(t);
    snib__sql_add(t, SNIB__SQL_DO_VALUE_FORGET, NULL, NULL);
    snib__sql_int(t, v->now_ms - SNIB__VALUE_MEMORY_MS);
    snib__sql_sync(t);
}

snib__sql_end snib__sql_value_write(struct snib__sql *q,
                                    const struct snib__request *r,
                                    const struct snib__sql_value *v,
                                    snib__version_todo todo)
{
    struct snib__sql_session *s = snib__sql_session_of(q);
    value_compose(s, r, v, todo);
    snib__sql_end end = s->link->run(s, 1);
    if (end != SNIB__SQL_OK) {
        snib__sql_leave(q);
    }
    s->conn->inside = false;
    return end;
}

/* store/mysql/script.c — statements that travel together.
 *
 * A script is one text of several statements; their results come back in order.
 * The server stops at the first error: what stands behind it was not executed.
 * Each statement by itself is a transaction, unless OPEN or BEGIN stands before
 * it; so after an error ROLLBACK is sent at once, since the next START
 * TRANSACTION would commit what is half done.
 *
 * An error undoes the transaction in which it comes, but at a COMMIT: what has
 * failed there may be behind the commit, so nobody knows.
 *
 * A SYNC ends a part. When a part fails of which the caller relies on nothing,
 * those behind it are sent again. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "store/mysql/mysql_i.h"

enum { SCRIPT_TEXT_MAX = 64 << 20, SCRIPT_DEADLOCK = 1213 };

/* -- the text -------------------------------------------------------------- */

static void script_hex(struct snib__buf *b, const void *bytes, size_t size)
{
    static const char digit[] = "0123456789abcdef";
    const uint8_t *p = bytes;
    snib__buf_puts(b, "x'");
    for (size_t i = 0; i < size; i++) {
        char two[2] = {digit[p[i] >> 4], digit[p[i] & 15]};
        snib__buf_add(b, two, 2);
    }
    snib__buf_puts(b, "'");
}

static void script_param(const struct snib__sql_script *t,
                         const struct snib__sql_param *p, struct snib__buf *b)
{
    int64_t n;
    switch (p->kind) {
    case SNIB__SQL_PARAM_NULL:
        snib__buf_puts(b, "NULL");
        return;
    case SNIB__SQL_PARAM_INT:
        n = snib__sql_param_int(t, p);
        snib__buf_puts(b, n < 0 ? "(" : "");
        snib__buf_put_i64(b, n);
        snib__buf_puts(b, n < 0 ? ")" : "");
        return;
    case SNIB__SQL_PARAM_BYTES:
        script_hex(b, snib__buf_bytes(&t->bytes) + p->at, p->size);
        return;
    }
}

/* The parameter whose number stands at *text, behind which *text is put. NULL:
 * this statement was not given it. */
static const struct snib__sql_param *
script_numbered(const char **text, const struct snib__sql_script *t,
                const struct snib__sql_item *item)
{
    char *end;
    unsigned long n = strtoul(*text, &end, 10);
    *text = end;
    return item && n && n <= item->params ? &t->param[item->param + n - 1]
                                          : NULL;
}

/* "[n…]": what stands in it, or NULL. */
static const char *script_choose(const char *text,
                                 const struct snib__sql_script *t,
                                 const struct snib__sql_item *item,
                                 struct snib__buf *ret)
{
    const struct snib__sql_param *p = script_numbered(&text, t, item);
    if (!p || !snib__sql_param_int(t, p)) {
        snib__buf_puts(ret, "NULL");
        text += strcspn(text, "]");
    }
    return text;
}

void snib__my_expand(const char *prefix, const char *text,
                     const struct snib__sql_script *t,
                     const struct snib__sql_item *item, struct snib__buf *ret)
{
    while (*text) {
        size_t plain = strcspn(text, "#~$[]");
        snib__buf_add(ret, text, plain);
        text += plain;
        char mark = *text;
        text += mark != 0;
        if (mark == '#' || mark == '~') {
            snib__buf_puts(ret, prefix);
            snib__buf_puts(ret, mark == '#' ? "_" : "");
        } else if (mark == '[') {
            text = script_choose(text, t, item, ret);
        } else if (mark == '$') {
            const struct snib__sql_param *p = script_numbered(&text, t, item);
            if (p) {
                script_param(t, p, ret);
            } else {
                ret->failed = true;
            }
        }
    }
}

static const char *script_text_of(const struct snib__my_conn *k,
                                  const struct snib__sql_item *item)
{
    switch (item->kind) {
    case SNIB__SQL_ITEM_STATEMENT:
        return snib__my_text(&k->store->recipe, item->statement);
    case SNIB__SQL_ITEM_TEXT:
        return item->text;
    case SNIB__SQL_ITEM_SYNC:
        break;
    }
    return NULL;
}

static int script_statements(const char *text)
{
    int n = text != NULL;
    for (; text && *text; text++) {
        n += *text == ';';
    }
    return n;
}

static bool script_compose(const struct snib__my_conn *k,
                           const struct snib__sql_script *t, uint32_t from,
                           struct snib__buf *ret)
{
    for (uint32_t i = from; i < t->items; i++) {
        const char *text = script_text_of(k, &t->item[i]);
        if (text) {
            snib__buf_puts(ret, snib__buf_size(ret) ? ";" : "");
            snib__my_expand(k->store->prefix, text, t, &t->item[i], ret);
        }
    }
    return !ret->failed;
}

/* -- values of results ----------------------------------------------------- */

static bool script_at(struct snib__sql_rows *rows, int row)
{
    const struct snib__mariadb *lib = rows->library;
    if (row < 0 || row >= rows->count || !rows->result) {
        return false;
    }
    if (row != rows->at) {
        lib->mysql_data_seek(rows->result, (my_ulonglong)row);
        rows->row = (void *)lib->mysql_fetch_row(rows->result);
        rows->at = row;
    }
    return rows->row != NULL;
}

static const void *script_bytes(struct snib__sql_rows *rows, int row, int col,
                                size_t *ret_size)
{
    const struct snib__mariadb *lib = rows->library;
    *ret_size = 0;
    if (!script_at(rows, row) || col < 0 ||
        (unsigned)col >= lib->mysql_num_fields(rows->result)) {
        return NULL;
    }
    *ret_size = lib->mysql_fetch_lengths(rows->result)[col];
    return ((MYSQL_ROW)rows->row)[col];
}

static int64_t script_number(struct snib__sql_rows *rows, int row, int col)
{
    size_t size;
    const char *text = script_bytes(rows, row, col, &size);
    return text ? strtoll(text, NULL, 10) : 0;
}

/* What the server says of a change: how many rows, and the insert id, which is
 * the first column. */
static int64_t script_id(struct snib__sql_rows *rows, int row, int col)
{
    (void)row;
    return col == 0 ? *(const int64_t *)rows->result : 0;
}

static const void *script_nothing(struct snib__sql_rows *rows, int row, int col,
                                  size_t *ret_size)
{
    (void)rows;
    (void)row;
    (void)col;
    *ret_size = 0;
    return NULL;
}

static const struct snib__sql_rows_ops script_rows = {
    .number = script_number,
    .bytes = script_bytes,
};
static const struct snib__sql_rows_ops script_change = {
    .number = script_id,
    .bytes = script_nothing,
};

void snib__my_rows(const struct snib__mariadb *lib, MYSQL_RES *res,
                   struct snib__sql_rows *ret)
{
    *ret = (struct snib__sql_rows){.ops = &script_rows,
                                   .count = (int)lib->mysql_num_rows(res),
                                   .library = lib,
                                   .result = res,
                                   .at = -1};
}

/* -- results --------------------------------------------------------------- */

enum script_how { SCRIPT_GOOD, SCRIPT_FAILED, SCRIPT_DOWN };

static enum script_how script_error(struct snib__my_conn *k,
                                    struct snib__sql_script *t)
{
    const struct snib__mariadb *lib = &k->store->lib;
    if (snib__my_is_down(k)) {
        return SCRIPT_DOWN;
    }
    if (!t->code) {
        t->code = (int)lib->mysql_errno(k->c);
        snprintf(t->state, sizeof t->state, "%.5s", lib->mysql_sqlstate(k->c));
        snprintf(t->error, sizeof t->error, "%s", lib->mysql_error(k->c));
        t->fatal = snib__my_judge(t->code) == SNIB__SQL_DOWN;
        t->error_at = t->synced;
    }
    return SCRIPT_FAILED;
}

/* The result that is there; *ret_rows: it had rows, or there was an item to tell
 * of the change. */
static enum script_how script_take_one(struct snib__my_conn *k,
                                       struct snib__sql_script *t,
                                       const struct snib__sql_item *item,
                                       bool last, snib_instant until)
{
    const struct snib__mariadb *lib = &k->store->lib;
    int64_t id = (int64_t)lib->mysql_insert_id(k->c);
    struct snib__sql_rows rows = {.ops = &script_change,
                                  .count = (int)lib->mysql_affected_rows(k->c),
                                  .library = lib,
                                  .result = &id,
                                  .at = -1};
    bool has_rows = lib->mysql_field_count(k->c) > 0;
    MYSQL_RES *res = has_rows ? snib__my_store(k, until) : NULL;
    if (has_rows && !res) {
        return script_error(k, t);
    }
    if (res) {
        snib__my_rows(lib, res, &rows);
    }
    if (item->row && (res || last)) {
        item->row(item->data, &rows);
    }
    if (res) {
        lib->mysql_free_result(res);
    }
    return SCRIPT_GOOD;
}

/* All results of one item, of which the first one is there unless *next. */
static enum script_how script_take(struct snib__my_conn *k,
                                   struct snib__sql_script *t,
                                   const struct snib__sql_item *item,
                                   bool *next, snib_instant until)
{
    int count = script_statements(script_text_of(k, item));
    for (int i = 0; i < count; i++) {
        if (*next && snib__my_next(k, until) != 0) {
            return script_error(k, t);
        }
        *next = true;
        enum script_how how = script_take_one(k, t, item, count == 1, until);
        if (how) {
            return how;
        }
    }
    return SCRIPT_GOOD;
}

/* The results of what stands behind `from`, of which the first one is there.
 * *ret_at: how far. */
static enum script_how script_take_all(struct snib__my_conn *k,
                                       struct snib__sql_script *t,
                                       uint32_t from, uint32_t *ret_at,
                                       snib_instant until)
{
    bool next = false;
    enum script_how how = SCRIPT_GOOD;
    for (uint32_t i = from; !how && i < t->items; i++) {
        *ret_at = i;
        if (t->item[i].kind == SNIB__SQL_ITEM_SYNC) {
            t->synced++;
        } else {
            how = script_take(k, t, &t->item[i], &next, until);
        }
    }
    return how;
}

/* Send what stands behind `from`, and take the results. *ret_at: how far. */
static enum script_how script_go(struct snib__my_conn *k,
                                 struct snib__sql_script *t, uint32_t from,
                                 uint32_t *ret_at, snib_instant until,
                                 const struct snib__buf *text)
{
    *ret_at = from;
    if (!snib__my_query(k, (const char *)snib__buf_bytes(text),
                        snib__buf_size(text), until)) {
        return script_error(k, t);
    }
    return script_take_all(k, t, from, ret_at, until);
}

/* -- a script from end to end ---------------------------------------------- */

/* Behind the part in which item `at` stands. */
static uint32_t script_behind(const struct snib__sql_script *t, uint32_t at)
{
    while (at < t->items && t->item[at].kind != SNIB__SQL_ITEM_SYNC) {
        at++;
    }
    return at < t->items ? at + 1 : at;
}

static bool script_is_empty(const struct snib__my_conn *k,
                            const struct snib__sql_script *t, uint32_t from)
{
    bool empty = true;
    for (uint32_t i = from; i < t->items; i++) {
        empty = empty && !script_text_of(k, &t->item[i]);
    }
    return empty;
}

/* The connection is gone. What did come decides: all that matters was done, or
 * nobody knows. */
static snib__sql_end script_cut(struct snib__my_conn *k,
                                const struct snib__sql_script *t,
                                uint32_t certain, struct snib_error *fault)
{
    snib__my_drop(k, NULL);
    *fault = k->is.why;
    return t->synced >= certain ? SNIB__SQL_OK : SNIB__SQL_LOST;
}

/* What it means that this item has failed. A deadlock that shows at a COMMIT (a
 * cluster finds it there) has undone it. */
static snib__sql_end script_judge(const struct snib__sql_script *t,
                                  const struct snib__sql_item *item)
{
    bool commits = item->kind == SNIB__SQL_ITEM_STATEMENT &&
                   (item->statement == SNIB__SQL_DO_CLOSE ||
                    item->statement == SNIB__SQL_DO_COMMIT);
    return t->fatal || (commits && t->code != SCRIPT_DEADLOCK)
               ? SNIB__SQL_LOST
               : snib__my_judge(t->code);
}

/* An error of the server's in what matters. */
static snib__sql_end script_undo(struct snib__my_conn *k,
                                 const struct snib__sql_script *t,
                                 const struct snib__sql_item *item,
                                 snib_instant until, struct snib_error *fault)
{
    snib__sql_end end = script_judge(t, item);
    snib__my_fail(k->store, t->code, t->error, fault);
    if (end == SNIB__SQL_LOST || snib__my_is_demoted(t->code)) {
        snib__my_drop(k, fault->text);
        return end;
    }
    if (!snib__my_query(k, "ROLLBACK", 8, until)) {
        snib__my_drop(k, NULL); /* which undoes it, too */
    }
    k->is.inside = false;
    return end;
}

static snib__sql_end script_run_all(struct snib__my_conn *k,
                                    struct snib__sql_script *t,
                                    uint32_t certain, snib_instant until,
                                    struct snib_error *fault,
                                    struct snib__buf *text)
{
    uint32_t at = 0;
    while (!script_is_empty(k, t, at)) {
        snib__buf_clear(text);
        if (!script_compose(k, t, at, text)) {
            snib__fail_plain(fault, SNIB_ERR_NOMEM);
            return t->synced >= certain ? SNIB__SQL_OK : SNIB__SQL_REFUSED;
        }
        enum script_how how = script_go(k, t, at, &at, until, text);
        if (how == SCRIPT_DOWN) {
            return script_cut(k, t, certain, fault);
        }
        if (how == SCRIPT_GOOD) {
            return SNIB__SQL_OK;
        }
        if (t->error_at < certain) {
            return script_undo(k, t, &t->item[at], until, fault);
        }
        at = script_behind(t, at);
        t->synced++;
        t->code = 0;
    }
    return SNIB__SQL_OK;
}

snib__sql_end snib__my_run(struct snib__my_conn *k, struct snib__sql_script *t,
                           uint32_t certain, snib_instant until,
                           struct snib_error *fault)
{
    struct snib__buf text;
    if (t->failed) {
        snib__fail_plain(fault, SNIB_ERR_NOMEM);
        return SNIB__SQL_REFUSED;
    }
    if (!k->c) {
        *fault = k->is.why;
        return SNIB__SQL_DOWN;
    }
    if (k->is.inside && snib__my_is_cut(k)) {
        snib__my_drop(k, "the server has ended a transaction that was slow");
        *fault = k->is.why;
        return SNIB__SQL_CONFLICT;
    }
    snib__buf_init(&text, SCRIPT_TEXT_MAX);
    snib__sql_end end = script_run_all(k, t, certain, until, fault, &text);
    snib__buf_free(&text);
    return end;
}

bool snib__my_send_script(struct snib__my_conn *k,
                          const struct snib__sql_script *t, snib_instant until)
{
    struct snib__buf text;
    snib__buf_init(&text, SCRIPT_TEXT_MAX);
    bool sent = k->c && !t->failed && script_compose(k, t, 0, &text) &&
                snib__my_send(k, (const char *)snib__buf_bytes(&text),
                              snib__buf_size(&text), until);
    snib__buf_free(&text);
    return sent;
}

snib__sql_end snib__my_take_script(struct snib__my_conn *k,
                                   struct snib__sql_script *t,
                                   snib_instant until, struct snib_error *fault)
{
    uint32_t at = 0;
    if (!k->c) {
        *fault = k->is.why;
        return SNIB__SQL_DOWN;
    }
    enum script_how how = snib__my_answered(k, until)
                              ? script_take_all(k, t, 0, &at, until)
                              : script_error(k, t);
    switch (how) {
    case SCRIPT_GOOD:
        return SNIB__SQL_OK;
    case SCRIPT_FAILED:
        return script_undo(k, t, &t->item[at], until, fault);
    case SCRIPT_DOWN:
        break;
    }
    return script_cut(k, t, 1, fault);
}

/* store/postgres/script.c — statements that travel together.
 *
 * A script is sent in one go, in libpq's pipeline mode, and its results come
 * back in order. A SYNC ends a transaction: all of its statements were executed,
 * or none. After an error the server skips everything up to the next SYNC.
 *
 * Statements are prepared once a connection. What a script needs is prepared in
 * front of it, behind a SYNC of its own: inside a transaction that is undone the
 * preparation would be undone too.
 *
 * Both directions are served at once, so that neither side waits for the other
 * with its buffers full. If the answers do not come in time the connection is
 * dropped: nobody could tell later whose answers those are. */
#include <stdio.h>

#include "base/error.h"
#include "store/postgres/postgres_i.h"

/* -- values of results ----------------------------------------------------- */

static int64_t script_number(struct snib__sql_rows *rows, int row, int col)
{
    const struct snib__pq *pq = rows->library;
    const uint8_t *p = (const uint8_t *)pq->PQgetvalue(rows->result, row, col);
    int size = pq->PQgetlength(rows->result, row, col);
    uint64_t n = 0;
    if (pq->PQgetisnull(rows->result, row, col) ||
        (size != 2 && size != 4 && size != 8)) {
        return 0;
    }
    for (int i = 0; i < size; i++) {
        n = n << 8 | p[i];
    }
    return size == 4 ? (int32_t)n : size == 2 ? (int16_t)n : (int64_t)n;
}

static const void *script_bytes(struct snib__sql_rows *rows, int row, int col,
                                size_t *ret_size)
{
    const struct snib__pq *pq = rows->library;
    *ret_size = (size_t)pq->PQgetlength(rows->result, row, col);
    return pq->PQgetisnull(rows->result, row, col)
               ? NULL
               : pq->PQgetvalue(rows->result, row, col);
}

static const struct snib__sql_rows_ops script_rows = {
    .number = script_number,
    .bytes = script_bytes,
};

/* -- sending --------------------------------------------------------------- */

static const char *script_name(int statement, char ret[16])
{
    snprintf(ret, 16, "snib%d", statement);
    return ret;
}

static bool script_send_prepare(struct snib__pg_conn *k, int statement)
{
    char name[16];
    struct snib__buf text;
    snib__buf_init(&text, 1 << 14);
    snib__pg_text(k->store, statement, &text);
    bool ok = !text.failed &&
              k->store->pq.PQsendPrepare(k->c, script_name(statement, name),
                                         snib__buf_text(&text), 0, NULL) == 1;
    snib__buf_free(&text);
    return ok;
}

/* Is it a statement of the list, with a text? */
static bool script_is_listed(const struct snib__pg_conn *k,
                             const struct snib__sql_item *item)
{
    return item->kind == SNIB__SQL_ITEM_STATEMENT &&
           snib__pg_has_text(k->store, item->statement);
}

/* What is not prepared yet; *ret: how many. */
static bool script_prepare(struct snib__pg_conn *k,
                           const struct snib__sql_script *t, bool sent[],
                           uint32_t *ret)
{
    bool ok = true;
    *ret = 0;
    for (uint32_t i = 0; ok && i < t->items; i++) {
        int s = t->item[i].statement;
        if (script_is_listed(k, &t->item[i]) && !k->prepared[s] && !sent[s]) {
            ok = script_send_prepare(k, s);
            sent[s] = true;
            ++*ret;
        }
    }
    return ok && (!*ret || k->store->pq.PQpipelineSync(k->c) == 1);
}

static bool script_send_item(struct snib__pg_conn *k,
                             const struct snib__sql_script *t,
                             const struct snib__sql_item *item)
{
    const char *value[SNIB__SQL_PARAMS];
    int length[SNIB__SQL_PARAMS], format[SNIB__SQL_PARAMS];
    char name[16];
    for (uint32_t i = 0; i < item->params; i++) {
        const struct snib__sql_param *p = &t->param[item->param + i];
        value[i] = p->kind == SNIB__SQL_PARAM_NULL
                       ? NULL
                       : (const char *)snib__buf_bytes(&t->bytes) + p->at;
        length[i] = (int)p->size;
        format[i] = 1;
    }
    return k->store->pq.PQsendQueryPrepared(
               k->c, script_name(item->statement, name), (int)item->params,
               value, length, format, 1) == 1;
}

static bool script_send_text(struct snib__pg_conn *k, const char *text)
{
    struct snib__buf b;
    snib__buf_init(&b, 1 << 14);
    snib__pg_schema_text(text, k->store->schema, &b);
    bool ok = !b.failed &&
              k->store->pq.PQsendQueryParams(k->c, snib__buf_text(&b), 0, NULL,
                                             NULL, NULL, NULL, 1) == 1;
    snib__buf_free(&b);
    return ok;
}

/* *ret: how many SYNCs were given to libpq, which may have sent them. */
static bool script_send(struct snib__pg_conn *k,
                        const struct snib__sql_script *t, uint32_t *ret)
{
    bool ok = true;
    *ret = 0;
    for (uint32_t i = 0; ok && i < t->items; i++) {
        const struct snib__sql_item *item = &t->item[i];
        if (item->kind == SNIB__SQL_ITEM_SYNC) {
            ok = k->store->pq.PQpipelineSync(k->c) == 1;
            ++*ret;
        } else if (item->kind == SNIB__SQL_ITEM_TEXT) {
            ok = script_send_text(k, item->text);
        } else if (script_is_listed(k, item)) {
            ok = script_send_item(k, t, item);
        }
    }
    return ok;
}

/* -- results --------------------------------------------------------------- */

/* The next result; false: none comes by then, or the connection is gone. *ret
 * NULL: a statement's results are over. */
static bool script_next(struct snib__pg_conn *k, snib_instant until,
                        PGresult **ret)
{
    const struct snib__pq *pq = &k->store->pq;
    *ret = NULL;
    for (;;) {
        int more = pq->PQflush(k->c);
        if (more < 0) {
            return false;
        }
        if (!pq->PQisBusy(k->c)) {
            *ret = pq->PQgetResult(k->c);
            return true;
        }
        if (!snib__pg_wait(k, true, more > 0, until) ||
            !pq->PQconsumeInput(k->c)) {
            return false;
        }
    }
}

static void script_note_error(struct snib__pg_conn *k,
                              struct snib__sql_script *t, PGresult *res)
{
    const struct snib__pq *pq = &k->store->pq;
    const char *state = pq->PQresultErrorField(res, PG_DIAG_SQLSTATE);
    const char *words = pq->PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
    const char *severity =
        pq->PQresultErrorField(res, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (t->state[0]) {
        return;
    }
    snprintf(t->state, sizeof t->state, "%.5s", state ? state : "08000");
    snprintf(t->error, sizeof t->error, "%s", words ? words : "");
    t->fatal = !state || !severity || strcmp(severity, "ERROR") != 0;
    t->error_at = t->synced;
}

/* All results of one statement. False: they do not come. */
static bool script_take(struct snib__pg_conn *k, struct snib__sql_script *t,
                        const struct snib__sql_item *item, bool *ret_ok,
                        snib_instant until)
{
    const struct snib__pq *pq = &k->store->pq;
    PGresult *res;
    *ret_ok = false;
    for (;;) {
        if (!script_next(k, until, &res)) {
            return false;
        }
        if (!res) {
            return pq->PQstatus(k->c) == CONNECTION_OK;
        }
        ExecStatusType status = pq->PQresultStatus(res);
        *ret_ok = status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
        if (*ret_ok && item && item->row) {
            struct snib__sql_rows rows = {.ops = &script_rows,
                                          .count = pq->PQntuples(res),
                                          .library = pq,
                                          .result = res};
            item->row(item->data, &rows);
        } else if (status == PGRES_FATAL_ERROR) {
            script_note_error(k, t, res);
        }
        pq->PQclear(res);
    }
}

static bool script_take_sync(struct snib__pg_conn *k, snib_instant until)
{
    const struct snib__pq *pq = &k->store->pq;
    PGresult *res;
    if (!script_next(k, until, &res)) {
        return false;
    }
    bool ok = res && pq->PQresultStatus(res) == PGRES_PIPELINE_SYNC;
    pq->PQclear(res);
    return ok;
}

/* The answers to what was prepared in front. */
static bool script_take_prepared(struct snib__pg_conn *k,
                                 struct snib__sql_script *t, const bool sent[],
                                 uint32_t count, snib_instant until)
{
    bool ok = true;
    /* They were sent in the order of the script. */
    bool seen[SNIB__PG_STATEMENTS] = {false};
    for (uint32_t i = 0; ok && count && i < t->items; i++) {
        int s = t->item[i].statement;
        if (!script_is_listed(k, &t->item[i]) || !sent[s] || seen[s]) {
            continue;
        }
        bool made;
        seen[s] = true;
        ok = script_take(k, t, NULL, &made, until);
        k->prepared[s] = ok && made;
    }
    return ok && (!count || script_take_sync(k, until));
}

static bool script_take_all(struct snib__pg_conn *k, struct snib__sql_script *t,
                            snib_instant until)
{
    bool ok = true, done;
    for (uint32_t i = 0; ok && i < t->items; i++) {
        if (t->item[i].kind == SNIB__SQL_ITEM_SYNC) {
            ok = script_take_sync(k, until);
            t->synced += ok;
        } else if (t->item[i].kind == SNIB__SQL_ITEM_TEXT ||
                   script_is_listed(k, &t->item[i])) {
            ok = script_take(k, t, &t->item[i], &done, until);
        }
    }
    return ok;
}

/* -- a script from end to end ---------------------------------------------- */

/* No more answers will come. What did come decides: all that matters was done; a
 * statement's error has undone it; or nobody knows. An error that has ended the
 * session itself may have met it behind its commit, but for the one that says
 * that it was too slow inside a transaction. */
static snib__sql_end script_cut(struct snib__pg_conn *k,
                                struct snib__sql_script *t, uint32_t certain,
                                bool sent, struct snib_error *fault)
{
    bool failed = t->state[0] && t->error_at < certain;
    bool undone = failed && (!t->fatal || !strcmp(t->state, "25P03"));
    if (t->state[0]) {
        struct snib_error e;
        snib__pg_fail(k->store, t->state, t->error, &e);
        snib__pg_drop(k, SNIB_ERR_UNREACHABLE, e.text);
    } else {
        snib__pg_drop(k, SNIB_ERR_UNREACHABLE, NULL);
    }
    *fault = k->is.why;
    if (undone) {
        snib__pg_fail(k->store, t->state, t->error, fault);
        return snib__pg_judge(t->state);
    }
    if (!failed && t->synced >= certain) {
        return SNIB__SQL_OK;
    }
    return sent ? SNIB__SQL_LOST : SNIB__SQL_DOWN;
}

static snib__sql_end script_taken(struct snib__pg_conn *k,
                                  const struct snib__sql_script *t,
                                  uint32_t certain, struct snib_error *fault)
{
    if (!t->state[0] || t->error_at >= certain) {
        return SNIB__SQL_OK;
    }
    snib__pg_fail(k->store, t->state, t->error, fault);
    return snib__pg_judge(t->state);
}

bool snib__pg_send(struct snib__pg_conn *k, const struct snib__sql_script *t)
{
    uint32_t syncs;
    return script_send(k, t, &syncs) && k->store->pq.PQflush(k->c) >= 0;
}

snib__sql_end snib__pg_take(struct snib__pg_conn *k, struct snib__sql_script *t,
                            snib_instant until, struct snib_error *fault)
{
    return script_take_all(k, t, until) ? script_taken(k, t, 1, fault)
                                        : script_cut(k, t, 1, true, fault);
}

snib__sql_end snib__pg_run(struct snib__pg_conn *k, struct snib__sql_script *t,
                           uint32_t certain, snib_instant until,
                           struct snib_error *fault)
{
    bool sent[SNIB__PG_STATEMENTS] = {false};
    uint32_t prepared;
    if (t->failed) {
        snib__fail_plain(fault, SNIB_ERR_NOMEM);
        return SNIB__SQL_REFUSED;
    }
    uint32_t syncs = 0;
    if (!script_prepare(k, t, sent, &prepared) || !script_send(k, t, &syncs)) {
        return script_cut(k, t, certain, syncs > 0, fault);
    }
    if (!script_take_prepared(k, t, sent, prepared, until) ||
        !script_take_all(k, t, until)) {
        return script_cut(k, t, certain, true, fault);
    }
    return script_taken(k, t, certain, fault);
}

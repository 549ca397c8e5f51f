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
#include <endian.h>
#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/postgres/postgres_i.h"

enum { SCRIPT_BYTES_MAX = 64 << 20 };

/* -- composing ------------------------------------------------------------- */

void snib__pg_script_init(struct snib__pg_script *t)
{
    *t = (struct snib__pg_script){0};
    snib__buf_init(&t->bytes, SCRIPT_BYTES_MAX);
}

void snib__pg_script_clear(struct snib__pg_script *t)
{
    t->items = t->params = t->synced = t->error_at = 0;
    t->failed = t->fatal = false;
    t->state[0] = t->error[0] = 0;
    snib__buf_clear(&t->bytes);
}

void snib__pg_script_free(struct snib__pg_script *t)
{
    snib__free(t->item);
    snib__free(t->param);
    snib__buf_free(&t->bytes);
}

static bool script_grow(void **array, uint32_t count, uint32_t *room,
                        size_t size)
{
    if (count < *room) {
        return true;
    }
    uint32_t more = *room ? 2 * *room : 32;
    void *p = more > *room ? snib__realloc(*array, more * size) : NULL;
    if (p) {
        *array = p;
        *room = more;
    }
    return p != NULL;
}

static void script_append(struct snib__pg_script *t, int statement,
                          snib__pg_row *row, void *data)
{
    if (!script_grow((void **)&t->item, t->items, &t->item_room,
                     sizeof *t->item)) {
        t->failed = true;
        return;
    }
    t->item[t->items++] = (struct snib__pg_item){
        .statement = statement, .param = t->params, .row = row, .data = data};
}

void snib__pg_add(struct snib__pg_script *t, enum snib__pg_statement statement,
                  snib__pg_row *row, void *data)
{
    script_append(t, (int)statement, row, data);
}

void snib__pg_add_text(struct snib__pg_script *t, const char *text)
{
    script_append(t, -2, NULL, NULL);
    if (!t->failed) {
        t->item[t->items - 1].text = text;
    }
}

void snib__pg_sync(struct snib__pg_script *t)
{
    script_append(t, -1, NULL, NULL);
}

static void script_param(struct snib__pg_script *t, const void *p, int size)
{
    if (t->failed || !script_grow((void **)&t->param, t->params, &t->param_room,
                                  sizeof *t->param)) {
        t->failed = true;
        return;
    }
    t->param[t->params++] =
        (struct snib__pg_param){snib__buf_size(&t->bytes), size};
    t->item[t->items - 1].params++;
    if (size > 0) {
        snib__buf_add(&t->bytes, p, (size_t)size);
    }
    t->failed = t->failed || t->bytes.failed;
}

void snib__pg_int(struct snib__pg_script *t, int64_t n)
{
    uint64_t v = htobe64((uint64_t)n);
    script_param(t, &v, sizeof v);
}

void snib__pg_null(struct snib__pg_script *t)
{
    script_param(t, NULL, -1);
}

void snib__pg_bytes(struct snib__pg_script *t, const void *p, size_t size)
{
    script_param(t, p, (int)size);
}

void snib__pg_string(struct snib__pg_script *t, const char *s)
{
    script_param(t, s, (int)strlen(s));
}

void snib__pg_id(struct snib__pg_script *t, const uint64_t id[2])
{
    uint64_t v[2] = {htobe64(id[0]), htobe64(id[1])};
    script_param(t, v, sizeof v);
}

void snib__pg_id_or_null(struct snib__pg_script *t, const uint64_t id[2])
{
    if (id[0] || id[1]) {
        snib__pg_id(t, id);
    } else {
        snib__pg_null(t);
    }
}

void snib__pg_name(struct snib__pg_script *t, const struct snib__name *name)
{
    snib__pg_bytes(t, name->raw, name->raw_size);
}

/* -- values of results ----------------------------------------------------- */

int64_t snib__pg_get_int(const struct snib__pq *pq, PGresult *res, int row,
                         int col)
{
    const uint8_t *p = (const uint8_t *)pq->PQgetvalue(res, row, col);
    int size = pq->PQgetlength(res, row, col);
    uint64_t n = 0;
    if (pq->PQgetisnull(res, row, col) ||
        (size != 2 && size != 4 && size != 8)) {
        return 0;
    }
    for (int i = 0; i < size; i++) {
        n = n << 8 | p[i];
    }
    return size == 4 ? (int32_t)n : size == 2 ? (int16_t)n : (int64_t)n;
}

void snib__pg_get_id(const struct snib__pq *pq, PGresult *res, int row, int col,
                     uint64_t ret[2])
{
    ret[0] = ret[1] = 0;
    if (!pq->PQgetisnull(res, row, col) &&
        pq->PQgetlength(res, row, col) == 2 * sizeof *ret) {
        memcpy(ret, pq->PQgetvalue(res, row, col), 2 * sizeof *ret);
        ret[0] = be64toh(ret[0]);
        ret[1] = be64toh(ret[1]);
    }
}

const void *snib__pg_get_bytes(const struct snib__pq *pq, PGresult *res,
                               int row, int col, size_t *ret_size)
{
    bool null = pq->PQgetisnull(res, row, col);
    *ret_size = null ? 0 : (size_t)pq->PQgetlength(res, row, col);
    return null ? "" : pq->PQgetvalue(res, row, col);
}

void snib__pg_get_text(const struct snib__pq *pq, PGresult *res, int row,
                       int col, char *ret, size_t size)
{
    size_t n;
    const void *p = snib__pg_get_bytes(pq, res, row, col, &n);
    n = n < size ? n : size - 1;
    memcpy(ret, p, n);
    ret[n] = 0;
}

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
    snib__pg_text((enum snib__pg_statement)statement, k->store->schema, &text);
    bool ok = !text.failed &&
              k->store->pq.PQsendPrepare(k->c, script_name(statement, name),
                                         snib__buf_text(&text), 0, NULL) == 1;
    snib__buf_free(&text);
    return ok;
}

/* What is not prepared yet; *ret: how many. */
static bool script_prepare(struct snib__pg_conn *k,
                           const struct snib__pg_script *t, bool sent[],
                           uint32_t *ret)
{
    bool ok = true;
    *ret = 0;
    for (uint32_t i = 0; ok && i < t->items; i++) {
        int s = t->item[i].statement;
        if (s >= 0 && !k->prepared[s] && !sent[s]) {
            ok = script_send_prepare(k, s);
            sent[s] = true;
            ++*ret;
        }
    }
    return ok && (!*ret || k->store->pq.PQpipelineSync(k->c) == 1);
}

static bool script_send_item(struct snib__pg_conn *k,
                             const struct snib__pg_script *t,
                             const struct snib__pg_item *item)
{
    const char *value[SNIB__PG_PARAMS];
    int length[SNIB__PG_PARAMS], format[SNIB__PG_PARAMS];
    char name[16];
    for (uint32_t i = 0; i < item->params; i++) {
        const struct snib__pg_param *p = &t->param[item->param + i];
        value[i] = p->size < 0
                       ? NULL
                       : (const char *)snib__buf_bytes(&t->bytes) + p->at;
        length[i] = p->size < 0 ? 0 : p->size;
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
                        const struct snib__pg_script *t, uint32_t *ret)
{
    bool ok = true;
    *ret = 0;
    for (uint32_t i = 0; ok && i < t->items; i++) {
        const struct snib__pg_item *item = &t->item[i];
        if (item->statement == -1) {
            ok = k->store->pq.PQpipelineSync(k->c) == 1;
            ++*ret;
        } else {
            ok = item->statement == -2 ? script_send_text(k, item->text)
                                       : script_send_item(k, t, item);
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
                              struct snib__pg_script *t, PGresult *res)
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
static bool script_take(struct snib__pg_conn *k, struct snib__pg_script *t,
                        const struct snib__pg_item *item, bool *ret_ok,
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
            item->row(item->data, pq, res);
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
                                 struct snib__pg_script *t, const bool sent[],
                                 uint32_t count, snib_instant until)
{
    bool ok = true;
    /* They were sent in the order of the script. */
    bool seen[SNIB__PG_STATEMENTS] = {false};
    for (uint32_t i = 0; ok && count && i < t->items; i++) {
        int s = t->item[i].statement;
        if (s < 0 || !sent[s] || seen[s]) {
            continue;
        }
        bool made;
        seen[s] = true;
        ok = script_take(k, t, NULL, &made, until);
        k->prepared[s] = ok && made;
    }
    return ok && (!count || script_take_sync(k, until));
}

static bool script_take_all(struct snib__pg_conn *k, struct snib__pg_script *t,
                            snib_instant until)
{
    bool ok = true, done;
    for (uint32_t i = 0; ok && i < t->items; i++) {
        if (t->item[i].statement == -1) {
            ok = script_take_sync(k, until);
            t->synced += ok;
        } else {
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
                                struct snib__pg_script *t, uint32_t certain,
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
    *fault = k->why;
    if (undone) {
        snib__pg_fail(k->store, t->state, t->error, fault);
        return snib__pg_judge(t->state);
    }
    if (!failed && t->synced >= certain) {
        return SNIB__SQL_OK;
    }
    return sent ? SNIB__SQL_LOST : SNIB__SQL_DOWN;
}

snib__sql_end snib__pg_run(struct snib__pg_conn *k, struct snib__pg_script *t,
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
    if (!t->state[0] || t->error_at >= certain) {
        return SNIB__SQL_OK;
    }
    snib__pg_fail(k->store, t->state, t->error, fault);
    return snib__pg_judge(t->state);
}

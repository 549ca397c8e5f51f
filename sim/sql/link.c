/* sim/sql/link.c — a session's connection, as store/sql knows one: scripts go to
 * the server as messages, their results come back part by part.
 *
 * What becomes of a script whose answers do not come is judged as by
 * store/postgres/script.c: all that matters was done; an error has undone it; or
 * nobody knows. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sim/sql/sql.h"

static struct sim_sql_worker *worker_of(struct snib__sql_session *s)
{
    return (struct sim_sql_worker *)(void *)s;
}

/* -- sending ------------------------------------------------------------------- */

static void put_item(struct snib__buf *b, const struct snib__sql_script *t,
                     const struct snib__sql_item *item)
{
    sim_put(b, item->kind);
    sim_put(b, item->statement);
    sim_put(b, item->params);
    for (uint32_t i = 0; i < item->params; i++) {
        const struct snib__sql_param *p = &t->param[item->param + i];
        sim_put(b, p->kind);
        if (p->kind == SNIB__SQL_PARAM_INT) {
            sim_put(b, snib__sql_param_int(t, p));
        } else if (p->kind == SNIB__SQL_PARAM_BYTES) {
            sim_put_bytes(b, snib__buf_bytes(&t->bytes) + p->at, p->size);
        }
    }
}

/* Is it the write of a snapshot? Else the statements say what they do. */
static bool is_write(const struct snib__sql_script *t)
{
    for (uint32_t i = 0; i < t->items; i++) {
        if (t->item[i].kind == SNIB__SQL_ITEM_STATEMENT &&
            (t->item[i].statement == SNIB__SQL_DO_CLOSE ||
             t->item[i].statement == SNIB__SQL_DO_COMMIT)) {
            return t->item[0].statement != SNIB__SQL_DO_BEGIN_READ;
        }
    }
    return false;
}

/* One statement of the short way has no CLOSE; several have. */
static bool is_short(const struct snib__sql_script *t)
{
    bool is = false;
    for (uint32_t i = 0; i < t->items; i++) {
        int s = t->item[i].statement;
        is |= t->item[i].kind == SNIB__SQL_ITEM_STATEMENT &&
              (s == SNIB__SQL_DO_ACQUIRE || s == SNIB__SQL_DO_RENEW ||
               s == SNIB__SQL_DO_RELEASE);
    }
    return is;
}

static void put_act(const struct sim_sql_worker *k, struct snib__buf *b)
{
    static _Thread_local struct sim_act act;
    const struct snib__snapshot *s = &k->tables.sql.s;
    struct sim_seen tell[SIM_BOOK];
    uint32_t tells = s->tolds < SIM_BOOK ? s->tolds : SIM_BOOK;
    int64_t now_ms = s->book.now.ns / 1000000;
    sim_see_step(k->client->id, s->request, s, now_ms, &act);
    for (int i = 0; i < act.count; i++) {
        act.part[i].at = sim_sql_fetched_at(k, s->request[i]);
    }
    for (uint32_t i = 0; i < tells; i++) {
        sim_see_told(s, i, &tell[i]);
        tell[i].now_ms = now_ms;
    }
    sim_put(b, act.several);
    sim_put(b, act.all);
    sim_put(b, act.missed);
    sim_put(b, act.count);
    sim_put_bytes(b, act.part, (size_t)act.count * sizeof act.part[0]);
    sim_put_bytes(b, tell, tells * sizeof tell[0]);
}

static void send_script(struct sim_sql_worker *k,
                        const struct snib__sql_script *t)
{
    struct snib__conn *conn = k->client->out->conn[k->at];
    struct snib__buf b;
    bool acts = is_write(t) && !is_short(t);
    snib__buf_init(&b, SIM_SQL_BUF);
    sim_put(&b, acts);
    if (acts) {
        put_act(k, &b);
    }
    sim_put(&b, t->items);
    for (uint32_t i = 0; i < t->items; i++) {
        put_item(&b, t, &t->item[i]);
    }
    snib__buf_clear(&k->parts);
    k->call = ++k->client->calls;
    sim_send(&conn->out, SIM_MSG_SCRIPT, k->call, &b);
    snib__conn_touch(k->client->out, conn);
    snib__buf_free(&b);
}

/* -- results ------------------------------------------------------------------- */

struct value {
    int64_t kind, n;
    const void *p;
    size_t size;
};

struct result {
    int cols;
    struct value *v;
};

static const struct value *value_at(const struct snib__sql_rows *rows, int row,
                                    int col)
{
    const struct result *r = rows->result;
    return col < r->cols ? &r->v[row * r->cols + col] : NULL;
}

static int64_t row_number(struct snib__sql_rows *rows, int row, int col)
{
    const struct value *v = value_at(rows, row, col);
    return v && v->kind == SNIB__SQL_PARAM_INT ? v->n : 0;
}

static const void *row_bytes(struct snib__sql_rows *rows, int row, int col,
                             size_t *ret_size)
{
    const struct value *v = value_at(rows, row, col);
    *ret_size = v ? v->size : 0;
    return !v || v->kind == SNIB__SQL_PARAM_NULL ? NULL
           : v->kind == SNIB__SQL_PARAM_INT      ? (const void *)&v->n
                                                 : v->p;
}

static const struct snib__sql_rows_ops rows_ops = {.number = row_number,
                                                   .bytes = row_bytes};

enum { VALUES = 256 * (SNIB__SQL_F_CLAIM + SNIB__SQL_COLUMNS) };

static void take_rows(const struct snib__sql_item *item, struct sim_reader *r)
{
    static _Thread_local struct value v[VALUES];
    struct result result = {.v = v};
    struct snib__sql_rows rows = {.ops = &rows_ops, .result = &result};
    rows.count = (int)sim_get(r);
    result.cols = (int)sim_get(r);
    for (int i = 0; i < rows.count * result.cols && i < VALUES; i++) {
        v[i] = (struct value){.kind = sim_get(r)};
        if (v[i].kind == SNIB__SQL_PARAM_INT) {
            v[i].n = sim_get(r);
        } else if (v[i].kind == SNIB__SQL_PARAM_BYTES) {
            v[i].p = sim_get_bytes(r, &v[i].size);
        }
    }
    if (item->row) {
        item->row(item->data, &rows);
    }
}

/* When rows are read for these requests. */
static void note_fetch(struct sim_sql_worker *k, int64_t at)
{
    const struct snib__snapshot *s = &k->tables.sql.s;
    for (uint32_t i = 0; i < s->requests && k->fetches < 256; i++) {
        memcpy(k->fetched[k->fetches].id, s->request[i]->id,
               sizeof s->request[i]->id);
        k->fetched[k->fetches++].at = at;
    }
}

/* The results of the statements before the next SYNC, from `from` on; returns what
 * stands behind it. */
static uint32_t take_part(struct sim_sql_worker *k, struct snib__sql_script *t,
                          uint32_t from, struct sim_reader *r)
{
    size_t size;
    const char *state = sim_get_bytes(r, &size);
    bool fatal = sim_get(r) != 0, fetches = false;
    int64_t at = sim_get(r);
    uint32_t i = from;
    for (; i < t->items && t->item[i].kind != SNIB__SQL_ITEM_SYNC; i++) {
        fetches |= t->item[i].statement == SNIB__SQL_DO_FETCH;
        if (!size) {
            take_rows(&t->item[i], r);
        }
    }
    if (fetches) {
        note_fetch(k, at);
    }
    if (size && !t->state[0]) {
        snprintf(t->state, sizeof t->state, "%.*s", (int)size, state);
        t->fatal = fatal;
        t->error_at = t->synced;
    }
    t->synced++;
    return i + 1;
}

/* -- what became of it ----------------------------------------------------------- */

static const struct {
    const char *state;
    snib__sql_end end;
    snib_err err;
} known[] = {{"22012", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE},
             {"23505", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE},
             {"40001", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE},
             {"40P01", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE},
             {"55P03", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE},
             {"25P03", SNIB__SQL_CONFLICT, SNIB_ERR_UNREACHABLE},
             {"42501", SNIB__SQL_REFUSED, SNIB_ERR_DENIED},
             {"", SNIB__SQL_REFUSED, SNIB_ERR_STORE}};

static snib__sql_end judge(struct sim_sql_worker *k, const char *state)
{
    size_t i = 0;
    while (strncmp(state, known[i].state, strlen(known[i].state)) != 0) {
        i++;
    }
    snib__fail(&k->tables.sql.fault, known[i].err, "the database says %s",
               state);
    return known[i].end;
}

static void quit(struct snib__sql_session *s)
{
    struct sim_sql_worker *k = worker_of(s);
    sim_sql_conn_shut(k->client, k->at);
    k->is.up = k->is.ready = k->is.inside = k->cut = false;
}

/* No more answers will come. */
static snib__sql_end cut_off(struct sim_sql_worker *k,
                             struct snib__sql_script *t, uint32_t certain)
{
    if (!t->state[0] && k->farewell[0]) {
        memcpy(t->state, k->farewell, sizeof t->state);
        t->fatal = true;
        t->error_at = t->synced;
    }
    bool failed = t->state[0] && t->error_at < certain;
    bool undone = failed && (!t->fatal || !strcmp(t->state, "25P03"));
    quit(&k->tables);
    if (undone) {
        return judge(k, t->state);
    }
    snib__fail(&k->tables.sql.fault, SNIB_ERR_UNREACHABLE,
               "no answer from the database");
    return !failed && t->synced >= certain ? SNIB__SQL_OK : SNIB__SQL_LOST;
}

static snib__sql_end run_script(struct sim_sql_worker *k,
                                struct snib__sql_script *t, uint32_t certain)
{
    struct snib__sql *q = &k->tables.sql;
    struct sim_reader r;
    enum sim_message what;
    int64_t call;
    size_t size;
    uint32_t from = 0;
    if (k->cut || !k->is.up) {
        snib__fail(&q->fault, SNIB_ERR_UNREACHABLE, "it is cut");
        quit(&k->tables);
        return SNIB__SQL_DOWN;
    }
    send_script(k, t);
    while (from < t->items) {
        if (sim_receive(&k->parts, &what, &call, &r, &size)) {
            from = take_part(k, t, from, &r);
            snib__buf_consume(&k->parts, size);
        } else if (k->cut || snib__reached(sim_sql_now(), q->until)) {
            return cut_off(k, t, certain);
        } else {
            sim_sql_sleep(k, SIM_SQL_FOR_PART, q->until);
        }
    }
    return !t->state[0] || t->error_at >= certain ? SNIB__SQL_OK
                                                  : judge(k, t->state);
}

static snib__sql_end run(struct snib__sql_session *s, uint32_t certain)
{
    return run_script(worker_of(s), &s->script, certain);
}

/* -- a connection ---------------------------------------------------------------- */

struct settings {
    int64_t us, standby;
};

static void see_settings(void *data, struct snib__sql_rows *rows)
{
    struct settings *seen = data;
    seen->standby = snib__sql_get_int(rows, 0, 1);
    seen->us = snib__sql_get_int(rows, 0, 2);
}

static snib__sql_end greet(struct sim_sql_worker *k)
{
    struct snib__sql_script *t = &k->greeting;
    struct settings seen = {0};
    snib__sql_script_clear(t);
    snib__sql_add(t, SIM_SQL_SETTINGS, see_settings, &seen);
    snib__sql_sync(t);
    snib__sql_end end = run_script(k, t, 1);
    if (!end) {
        snib__sql_heard_clock(&k->is, sim_sql_now(), seen.us);
    }
    return end == SNIB__SQL_LOST || end == SNIB__SQL_CONFLICT ? SNIB__SQL_DOWN
                                                              : end;
}

static snib__sql_end connect(struct sim_sql_worker *k)
{
    struct snib__sql *q = &k->tables.sql;
    const int *conn = &k->client->conn[k->at];
    while (*conn == SIM_CLOSING && !snib__reached(sim_sql_now(), q->until)) {
        sim_sql_sleep(k, SIM_SQL_FOR_CONN, q->until);
    }
    (void)sim_sql_conn_up(k->client, k->at); /* it is asked for */
    while (*conn == SIM_OPENING && !snib__reached(sim_sql_now(), q->until)) {
        sim_sql_sleep(k, SIM_SQL_FOR_CONN, q->until);
    }
    if (*conn != SIM_UP) {
        snib__fail(&q->fault, SNIB_ERR_UNREACHABLE, "the database is away");
        return SNIB__SQL_DOWN;
    }
    k->is.up = true;
    k->cut = false;
    k->farewell[0] = 0;
    return greet(k);
}

static snib__sql_end reach(struct snib__sql_session *s)
{
    snib__sql_end end = connect(worker_of(s));
    if (end) {
        quit(s);
    }
    return end;
}

static bool is_cut(struct snib__sql_session *s)
{
    return worker_of(s)->cut;
}

/* -- being told ------------------------------------------------------------------- */

static void notify(struct snib__sql_session *s, const struct snib__told *n)
{
    struct snib__sql_script *t = &s->script;
    char id[SIM_ID + 1];
    sim_id_text(n->request, id);
    snib__sql_add(t, SIM_SQL_NOTIFY, NULL, NULL);
    snib__sql_string(t, n->notifier);
    snib__sql_string(t, id);
    snib__sql_name(t, n->name);
    snib__sql_id(t, n->request);
    snib__sql_sync(t);
}

static int64_t listener_of(const char *notifier)
{
    return strtoll(notifier, NULL, 10);
}

const struct snib__sql_link sim_sql_link = {.connect = reach,
                                            .is_cut = is_cut,
                                            .quit = quit,
                                            .run = run,
                                            .notify = notify,
                                            .listener_of = listener_of};

void sim_sql_know_notifier(struct sim_sql_worker *k)
{
    struct snib__sql *q = &k->tables.sql;
    q->listens = k->client->notifier[0] != 0;
    memset(q->s.notifier, 0, sizeof q->s.notifier);
    memcpy(q->s.notifier, k->client->notifier, sizeof q->s.notifier);
}

void sim_sql_listen(struct snib__sql *q)
{
    struct sim_sql_worker *k = worker_of((struct snib__sql_session *)(void *)q);
    enum { EARS = SIM_CONNS - 1 };
    if (!k->client->notifier[0]) {
        (void)sim_sql_conn_up(k->client, EARS);
    }
    while (!k->client->notifier[0] && k->client->conn[EARS] != SIM_DOWN &&
           !snib__reached(sim_sql_now(), q->until)) {
        sim_sql_sleep(k, SIM_SQL_FOR_EARS, q->until);
    }
    sim_sql_know_notifier(k);
}

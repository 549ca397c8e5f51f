/* sim/sql/scripts.c — the server's side of a session: scripts of statements, one
 * after the other, and what becomes of them when they wait, fail, or are left.
 *
 * What stands between two SYNCs is one transaction, unless there is a BEGIN: then
 * it goes on until COMMIT or ROLLBACK. After an error the server skips what comes
 * up to the next SYNC. A session that waits for a row for a second has an error, as
 * one has at once that would wait for itself; one that leaves a transaction open
 * and is silent for a second is closed. */
#include <stdlib.h>
#include <string.h>

#include "sim/same.h"
#include "sim/sql/sql.h"

enum { ERROR_PCT = 40 };

int64_t sim_sql_clock_us(const struct sim_table *t)
{
    const struct sim_server *s = t->server;
    return sim_wall_us(s->world, (int)(s - s->world->node)) / 1000 * 1000;
}

/* -- sessions ----------------------------------------------------------------- */

static struct sim_sql_session *session_of(struct sim_table *t, int conn)
{
    struct sim_sql_session *s = t->sql->sessions;
    while (s && s->conn != conn) {
        s = s->next;
    }
    if (s) {
        return s;
    }
    s = calloc(1, sizeof *s);
    if (!s) {
        abort();
    }
    s->table = t;
    s->conn = conn;
    s->durable = true;
    snib__buf_init(&s->script, SIM_SQL_BUF);
    snib__buf_init(&s->reply, SIM_SQL_BUF);
    s->next = t->sql->sessions;
    t->sql->sessions = s;
    return s;
}

static void session_free(struct sim_sql_session *s)
{
    free(s->change);
    snib__buf_free(&s->script);
    snib__buf_free(&s->reply);
    free(s);
}

/* What it had begun is rolled back. */
static void session_end(struct sim_table *t, int conn)
{
    for (struct sim_sql_session **at = &t->sql->sessions; *at;
         at = &(*at)->next) {
        struct sim_sql_session *s = *at;
        if (s->conn == conn) {
            sim_sql_roll_back(s);
            *at = s->next;
            session_free(s);
            return;
        }
    }
}

/* -- parts -------------------------------------------------------------------- */

/* A part is over: its error, or "", and whether that ends the session; then the
 * results of its statements. */
static void send_part(struct sim_sql_session *s, const char *state, bool fatal)
{
    struct sim_table_conn *c = sim_table_conn(s->table, s->conn);
    struct snib__buf b;
    snib__buf_init(&b, SIM_SQL_BUF);
    sim_put_bytes(&b, state, strlen(state));
    sim_put(&b, fatal);
    sim_put(&b, s->table->server->world->t);
    snib__buf_add(&b, snib__buf_bytes(&s->reply), snib__buf_size(&s->reply));
    sim_same_bytes(s->table->server->world, s->conn, state, strlen(state));
    sim_same_bytes(s->table->server->world, s->conn, snib__buf_bytes(&s->reply),
                   snib__buf_size(&s->reply));
    if (c) {
        sim_send(&c->out, SIM_MSG_PART, s->call, &b);
    }
    snib__buf_free(&b);
    snib__buf_clear(&s->reply);
    s->failed = false;
}

/* An error of a statement. */
static void fail(struct sim_sql_session *s, const char *state)
{
    bool explicitly = s->explicitly;
    sim_note(s->table->server->world, "    sql: session %d fails: %s", s->conn,
             state);
    sim_sql_roll_back(s);
    s->explicitly = s->aborted = explicitly;
    send_part(s, state, false);
    s->failed = true; /* up to the next SYNC */
}

static void end_of_part(struct sim_sql_session *s)
{
    if (s->failed) {
        s->failed = false;
        return;
    }
    if (!s->explicitly) {
        sim_sql_commit(s);
    }
    send_part(s, "", false);
}

/* -- statements ---------------------------------------------------------------- */

/* For reasons of the server itself; NULL: it is fit. */
static const char *unfit(const struct sim_sql_session *s, int statement)
{
    unsigned faults = s->table->faults;
    bool writes = sim_sql_writes(statement);
    if (faults & (SIM_REDIS_NOPERM_KEY | SIM_REDIS_NOAUTH)) {
        return "42501";
    }
    if (writes && (faults & SIM_REDIS_READONLY)) {
        return "25006";
    }
    if (writes && (faults & SIM_REDIS_OOM)) {
        return "53100";
    }
    bool fails = writes && (faults & SIM_REDIS_BUSY) &&
                 snib__rng_below(&s->table->sql->rng, 100) < ERROR_PCT;
    return fails ? "40001" : NULL;
}

static int take_params(struct sim_reader *r, struct sim_sql_param p[])
{
    int n = (int)sim_get(r);
    for (int i = 0; i < n && i < SNIB__SQL_PARAMS; i++) {
        p[i] = (struct sim_sql_param){.kind = (int)sim_get(r)};
        if (p[i].kind == SNIB__SQL_PARAM_INT) {
            p[i].n = sim_get(r);
        } else if (p[i].kind == SNIB__SQL_PARAM_BYTES) {
            p[i].p = sim_get_bytes(r, &p[i].size);
        }
    }
    return n;
}

/* Each statement answers rows, be it none: how many, of how many columns. */
static void no_rows(struct sim_sql_session *s, size_t before)
{
    if (snib__buf_size(&s->reply) == before) {
        sim_put(&s->reply, 0);
        sim_put(&s->reply, 0);
    }
}

enum { TIMER_WAITS, TIMER_IDLES };

static void timer(struct sim_sql_session *s, int what, uint32_t number)
{
    struct sim_world *w = s->table->server->world;
    sim_push(w, (struct sim_event){.at = w->t + SIM_SQL_WAIT_MS * SIM_MS,
                                   .kind = SIM_EV_SQL,
                                   .client = what,
                                   .a = s->conn,
                                   .wire = number});
}

/* It waits for a row, from now on or still. */
static void waits(struct sim_sql_session *s)
{
    if (!s->since) {
        s->since = ++s->table->sql->waits;
        timer(s, TIMER_WAITS, ++s->waits);
    }
}

static void waits_no_more(struct sim_sql_session *s)
{
    s->since = 0;
    s->waits_for = 0;
    s->us = 0;
}

/* NULL: done. "": it waits for a row. Else its error. */
static const char *execute(struct sim_sql_session *s, int statement,
                           const struct sim_sql_param p[], int params)
{
    if (s->aborted && statement != SNIB__SQL_DO_ROLLBACK) {
        return "25P02";
    }
    s->us = s->us ? s->us : sim_sql_clock_us(s->table);
    const char *state = unfit(s, statement);
    state = state ? state : sim_sql_statement(s, statement, p, params);
    return state && !*state && sim_sql_is_deadlock(s) ? "40P01" : state;
}

/* The next item. False: it waits for a row, and comes again. */
static bool item(struct sim_sql_session *s)
{
    struct sim_sql_param p[SNIB__SQL_PARAMS] = {{.kind = 0}};
    struct sim_reader from = s->at;
    size_t before = snib__buf_size(&s->reply);
    int kind = (int)sim_get(&s->at), statement = (int)sim_get(&s->at);
    int params = take_params(&s->at, p);
    if (kind == SNIB__SQL_ITEM_SYNC) {
        end_of_part(s);
        return true;
    }
    if (s->failed) { /* it is skipped */
        return true;
    }
    const char *state = execute(s, statement, p, params);
    if (state && !*state) {
        s->at = from;
        waits(s);
        return false;
    }
    waits_no_more(s);
    if (state) {
        fail(s, state);
    } else {
        no_rows(s, before);
    }
    return true;
}

static bool is_busy(const struct sim_sql_session *s)
{
    return s->items > 0;
}

static void run(struct sim_sql_session *s)
{
    while (s->items > 0 && item(s)) {
        s->items--;
    }
    if (s->items > 0) {
        return;
    }
    s->idles++;
    if (s->explicitly) { /* it is the client's turn */
        timer(s, TIMER_IDLES, s->idles);
    }
}

/* The one that has waited longest and may go on. */
static struct sim_sql_session *next_that_may(const struct sim_table *t)
{
    struct sim_sql_session *s, *next = NULL;
    for (s = t->sql->sessions; s; s = s->next) {
        bool held = false;
        for (int i = 0; i < t->sql->holds; i++) {
            held |= t->sql->hold[i].session == s->waits_for;
        }
        if (is_busy(s) && s->waits_for && !held &&
            (!next || s->since < next->since)) {
            next = s;
        }
    }
    return next;
}

static struct sim_sql_session *orphan(const struct sim_table *t)
{
    struct sim_sql_session *s = t->sql->sessions;
    while (s && (!s->orphan || is_busy(s))) {
        s = s->next;
    }
    return s;
}

void sim_sql_go_on(struct sim_table *t)
{
    struct sim_sql_session *s;
    do {
        while ((s = next_that_may(t))) {
            s->waits_for = 0;
            run(s);
        }
        s = orphan(t);
        if (s) {
            session_end(t, s->conn);
        }
    } while (s);
}

/* -- what comes ----------------------------------------------------------------- */

/* SIM_MSG_SCRIPT: what it will have done (an act, or nothing; whom it tells), then
 * the items. */
static void take_act(struct sim_sql_session *s, struct sim_reader *r)
{
    size_t size;
    s->has_act = sim_get(r) != 0;
    s->tells = 0;
    if (!s->has_act) {
        return;
    }
    s->act.node = 0;
    s->act.everywhere = false;
    s->act.several = sim_get(r) != 0;
    s->act.all = sim_get(r) != 0;
    s->act.missed = (int)sim_get(r);
    s->act.count = (int)sim_get(r);
    const void *parts = sim_get_bytes(r, &size);
    memcpy(s->act.part, parts, size);
    parts = sim_get_bytes(r, &size);
    s->tells = (int)(size / sizeof s->tell[0]);
    memcpy(s->tell, parts, size);
}

static void take_script(struct sim_table *t, int conn, int64_t call,
                        const struct sim_reader *r)
{
    struct sim_sql_session *s = session_of(t, conn);
    if (is_busy(s)) {
        abort(); /* a client waits for its answers */
    }
    snib__buf_clear(&s->script);
    snib__buf_add(&s->script, r->at, (size_t)(r->end - r->at));
    const uint8_t *bytes = snib__buf_bytes(&s->script);
    s->at = (struct sim_reader){bytes, bytes + snib__buf_size(&s->script)};
    s->call = call;
    s->idles++;
    s->us = 0;
    take_act(s, &s->at);
    s->items = (int)sim_get(&s->at);
    sim_same_bytes(t->server->world, conn, s->at.at,
                   (size_t)(s->at.end - s->at.at));
    run(s);
    sim_sql_go_on(t);
}

void sim_sql_handle(struct sim_table *t, int conn, enum sim_message what,
                    int64_t call, struct sim_reader *r)
{
    if (what == SIM_MSG_LISTEN) {
        struct sim_table_conn *c = sim_table_conn(t, conn);
        size_t size;
        const char *random = sim_get_bytes(r, &size);
        snprintf(c->notifier, sizeof c->notifier, "%d.%.*s", conn, (int)size,
                 random);
        struct snib__buf b;
        snib__buf_init(&b, SIM_SQL_BUF);
        snib__buf_add(&b, c->notifier, strlen(c->notifier));
        sim_send(&c->out, SIM_MSG_LISTENS, call, &b);
        snib__buf_free(&b);
    } else {
        take_script(t, conn, call, r);
    }
}

/* -- what happens ---------------------------------------------------------------- */

/* What it has sent whole is executed all the same: the server notices later. */
void sim_sql_gone(struct sim_table *t, int conn)
{
    for (struct sim_sql_session *s = t->sql->sessions; s; s = s->next) {
        s->orphan |= s->conn == conn;
    }
    sim_sql_go_on(t);
}

/* A session was too slow: waiting for a row, or inside its transaction. */
void sim_sql_event(struct sim_world *w, const struct sim_event *ev)
{
    struct sim_table *t = w->node[0].table;
    struct sim_sql_session *s = t->sql->sessions;
    while (s && s->conn != ev->a) {
        s = s->next;
    }
    if (!s) {
        return;
    }
    if (ev->client == TIMER_WAITS && s->waits == ev->wire && s->since) {
        waits_no_more(s);
        fail(s, "55P03");
        run(s);
    } else if (ev->client == TIMER_IDLES && s->idles == ev->wire &&
               !is_busy(s) && sim_table_conn(t, s->conn)) {
        sim_note(w, "    sql: session %d is ended in its transaction", s->conn);
        s->call = 0; /* it is told that unasked */
        send_part(s, "25P03", true);
        sim_table_conn(t, s->conn)->closing = true;
        session_end(t, s->conn);
    }
    sim_sql_go_on(t);
}

/* Sessions end with the server. A crash forgets what was committed last, if that
 * was not durable. */
void sim_sql_restart(struct sim_table *t, bool keep)
{
    struct sim_world *w = t->server->world;
    while (t->sql->sessions) {
        session_end(t, t->sql->sessions->conn);
    }
    if (keep && t->sql->firm.revision != t->rows.revision &&
        snib__rng_below(&t->sql->rng, 2)) {
        sim_note(w, "    sql: what was committed last is lost");
        sim_rows_copy(&t->rows, &t->sql->firm);
        w->told.lost_at = w->t;
        w->died = true; /* what was released may stand again */
        sim_book_again(w);
    }
    sim_sql_firm(t);
}

struct sim_sql *sim_sql_new(struct sim_table *t)
{
    struct sim_sql *q = calloc(1, sizeof *q);
    if (!q) {
        abort();
    }
    snib__rng_init(
        &q->rng, &(struct snib__seed){{t->server->world->opt.seed, 71, 0, 0}});
    return q;
}

void sim_sql_free(struct sim_table *t)
{
    struct sim_sql *q = t->sql;
    while (q && q->sessions) {
        struct sim_sql_session *next = q->sessions->next;
        session_free(q->sessions);
        q->sessions = next;
    }
    if (q) {
        free(q->hold);
        sim_rows_free(&q->firm);
    }
    free(q);
    t->sql = NULL;
}

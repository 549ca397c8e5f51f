/* sim/table.c — the server of a table: fetches, guarded writes, and who is told
 * of what they granted. That of a database has other messages (sim/sql).
 *
 * Its clock has whole milliseconds, as that of Redis' scripts. A stamp is the
 * number of the write that made it. A restored backup has the stamps of its
 * time, which are given again afterwards; that life of the table is another
 * epoch. */
#include "sim/table.h"

#include <stdlib.h>
#include <string.h>

#include "sim/same.h"

enum { BUF_MAX = 4 << 20 };

/* -- connections ----------------------------------------------------------- */

struct sim_table *sim_table_new(struct sim_server *server)
{
    struct sim_table *t = calloc(1, sizeof *t);
    if (!t) {
        abort();
    }
    t->server = server;
    t->epoch = 1;
    t->sql = sim_sql(server->world) ? sim_sql_new(t) : NULL;
    return t;
}

static void close_conn(struct sim_table_conn *c)
{
    snib__buf_free(&c->in);
    snib__buf_free(&c->out);
    *c = (struct sim_table_conn){0};
}

static void close_all(struct sim_table *t)
{
    for (int i = 0; i < t->conns; i++) {
        close_conn(&t->conn[i]);
    }
    t->conns = 0;
}

void sim_table_free(struct sim_table *t)
{
    if (!t) {
        return;
    }
    sim_sql_free(t);
    close_all(t);
    free(t->conn);
    sim_rows_free(&t->rows);
    sim_rows_free(&t->replica);
    free(t);
}

/* There is always room: ends that are gone may not be known to be gone yet. */
static struct sim_table_conn *free_conn(struct sim_table *t)
{
    for (int i = 0; i < t->conns; i++) {
        if (!t->conn[i].id) {
            return &t->conn[i];
        }
    }
    if (t->conns == t->conn_room) {
        t->conn_room = t->conns ? 2 * t->conns : 32;
        t->conn = realloc(t->conn, (size_t)t->conn_room * sizeof *t->conn);
        if (!t->conn) {
            abort();
        }
    }
    t->conn[t->conns] = (struct sim_table_conn){0};
    return &t->conn[t->conns++];
}

int sim_table_connect(struct sim_table *t)
{
    struct sim_table_conn *c = free_conn(t);
    c->id = ++t->last_conn;
    snib__buf_init(&c->in, BUF_MAX);
    snib__buf_init(&c->out, BUF_MAX);
    return c->id;
}

void sim_table_disconnect(struct sim_table *t, int conn)
{
    struct sim_table_conn *c = sim_table_conn(t, conn);
    if (c) {
        close_conn(c);
    }
    if (t->sql) {
        sim_sql_gone(t, conn);
    }
}

/* -- a fetch --------------------------------------------------------------- */

static int64_t now_ns(const struct sim_table *t)
{
    const struct sim_server *s = t->server;
    int node = (int)(s - s->world->node);
    return sim_wall_us(s->world, node) / 1000 * 1000000;
}

static void put_row(struct snib__buf *b, const struct sim_row *row)
{
    sim_put(b, row->key.kind);
    sim_put(b, row->key.name);
    sim_put(b, (int64_t)row->key.request[0]);
    sim_put(b, (int64_t)row->key.request[1]);
    sim_put(b, (int64_t)row->stamp);
    sim_put_bytes(b, row->bytes, row->size);
}

struct fetch {
    uint32_t waiters;
    bool want_highest;
    int names, name[SNIB__SNAPSHOT_MAX];
    int requests;
    struct sim_key request[SNIB__SNAPSHOT_MAX];
    int rows, cuts;
    struct snib__buf out, cut;
};

static bool is_asked_for(const struct fetch *f, const struct sim_row *row)
{
    for (int i = 0; i < f->requests; i++) {
        const struct sim_key *k = &f->request[i];
        if (k->name == row->key.name && k->request[0] == row->key.request[0] &&
            k->request[1] == row->key.request[1]) {
            return true;
        }
    }
    return false;
}

static bool waits(const struct sim_row *row)
{
    return row->key.kind == SNIB__KEY_CLAIM && row->c.state == SNIB__WAITS;
}

/* How many waiters stand before this one? */
static uint32_t place_of(const struct sim_rows *t, const struct sim_row *row)
{
    uint32_t n = 0;
    for (int i = 0; i < t->count; i++) {
        n += waits(&t->row[i]) && t->row[i].key.name == row->key.name &&
             sim_row_is_before(&t->row[i], row);
    }
    return n;
}

static void fetch_name(const struct sim_table *t, struct fetch *f, int name)
{
    uint32_t waiting = 0;
    int last_rank = INT8_MIN;
    for (int i = 0; i < t->rows.count; i++) {
        const struct sim_row *row = &t->rows.row[i];
        if (row->key.kind == SNIB__KEY_FLOOR || row->key.name != name) {
            continue;
        }
        if (waits(row)) {
            waiting++;
            last_rank = row->c.rank > last_rank ? row->c.rank : last_rank;
            if (place_of(&t->rows, row) >= f->waiters &&
                !is_asked_for(f, row)) {
                continue;
            }
        }
        put_row(&f->out, row);
        f->rows++;
    }
    if (waiting > f->waiters) {
        sim_put(&f->cut, name);
        sim_put(&f->cut, waiting);
        sim_put(&f->cut, last_rank);
        f->cuts++;
    }
}

static int64_t highest(const struct sim_table *t)
{
    int64_t token = 0;
    for (int i = 0; i < t->rows.count; i++) {
        const struct sim_row *row = &t->rows.row[i];
        if (row->key.kind == SNIB__KEY_LOCK && row->l.token > token) {
            token = row->l.token;
        }
    }
    return token;
}

static void read_fetch(struct sim_reader *r, struct fetch *f)
{
    f->waiters = (uint32_t)sim_get(r);
    f->want_highest = sim_get(r) != 0;
    f->names = (int)sim_get(r);
    for (int i = 0; i < f->names; i++) {
        f->name[i] = (int)sim_get(r);
    }
    f->requests = (int)sim_get(r);
    for (int i = 0; i < f->requests; i++) {
        f->request[i].name = (int)sim_get(r);
        f->request[i].request[0] = (uint64_t)sim_get(r);
        f->request[i].request[1] = (uint64_t)sim_get(r);
    }
}

static void fetch_rows(const struct sim_table *t, struct fetch *f)
{
    const struct sim_row *floor =
        sim_row_of(&t->rows, &(struct sim_key){.kind = SNIB__KEY_FLOOR});
    struct sim_world *w = t->server->world;
    for (int i = 0; i < f->names; i++) {
        fetch_name(t, f, f->name[i]);
        if (sim_held(w, f->name[i])) { /* its client may be told so */
            w->resource[f->name[i]].held_at = w->t;
        }
    }
    if (floor) {
        put_row(&f->out, floor);
        f->rows++;
    }
}

static void fetch(struct sim_table *t, struct sim_table_conn *c, int64_t call,
                  struct sim_reader *r)
{
    struct fetch f = {.rows = 0};
    struct snib__buf reply;
    snib__buf_init(&reply, BUF_MAX);
    snib__buf_init(&f.out, BUF_MAX);
    snib__buf_init(&f.cut, BUF_MAX);
    const uint8_t *asked = r->at;
    read_fetch(r, &f);
    sim_same_bytes(t->server->world, c->id, asked, (size_t)(r->at - asked));
    fetch_rows(t, &f);
    sim_put(&reply, now_ns(t));
    sim_put(&reply, (int64_t)t->epoch);
    sim_put(&reply, f.want_highest ? highest(t) : 0);
    sim_put(&reply, t->server->world->t);
    sim_put(&reply, f.rows);
    snib__buf_add(&reply, snib__buf_bytes(&f.out), snib__buf_size(&f.out));
    sim_put(&reply, f.cuts);
    snib__buf_add(&reply, snib__buf_bytes(&f.cut), snib__buf_size(&f.cut));
    sim_send(&c->out, SIM_MSG_ROWS, call, &reply);
    snib__buf_free(&reply);
    snib__buf_free(&f.out);
    snib__buf_free(&f.cut);
}

/* -- a write --------------------------------------------------------------- */

struct guard {
    struct sim_key key;
    uint64_t stamp;
    int todo;
    const void *bytes;
    size_t size;
};
enum { GUARDS = 512 };

static void read_guards(struct sim_reader *r, struct guard *g, int count)
{
    if (count > GUARDS) {
        abort();
    }
    for (int i = 0; i < count; i++) {
        g[i].key.kind = (int)sim_get(r);
        g[i].key.name = (int)sim_get(r);
        g[i].key.request[0] = (uint64_t)sim_get(r);
        g[i].key.request[1] = (uint64_t)sim_get(r);
        g[i].stamp = (uint64_t)sim_get(r);
        g[i].todo = (int)sim_get(r);
        g[i].bytes = sim_get_bytes(r, &g[i].size);
    }
}

static bool guards_hold(const struct sim_rows *t, const struct guard *g,
                        int count)
{
    for (int i = 0; i < count; i++) {
        const struct sim_row *row = sim_row_of(t, &g[i].key);
        if ((row ? row->stamp : 0) != g[i].stamp) {
            return false;
        }
    }
    return true;
}

static void apply(struct sim_rows *t, const struct guard *g, int count)
{
    t->revision++;
    for (int i = 0; i < count; i++) {
        if (g[i].todo == SNIB__GUARD_PUT) {
            sim_row_put(t, &g[i].key, g[i].bytes, g[i].size);
        } else if (g[i].todo == SNIB__GUARD_DELETE) {
            sim_row_delete(t, &g[i].key);
        }
    }
}

/* Whom the write granted something is told, if they listen. */
static void tell(struct sim_table *t, struct sim_reader *r, int conn)
{
    static _Thread_local struct sim_act told = {.count = 1};
    for (int64_t n = sim_get(r); n > 0; n--) {
        struct snib__buf b;
        size_t size, length;
        const struct sim_seen *seen = sim_get_bytes(r, &size);
        const char *notifier = sim_get_bytes(r, &length);
        memcpy(&told.part[0], seen, sizeof told.part[0]);
        if (told.part[0].at < t->server->world->told.stepped_at) {
            sim_book_lapses(t->server->world, told.part[0].name,
                            told.part[0].request);
        }
        told.part[0].at = t->server->world->t;
        told.part[0].conn = conn;
        if (told.part[0].said == SIM_SAID_GRANTED) { /* else it was forced */
            sim_watch(t->server->world, &told);
        }
        snib__buf_init(&b, BUF_MAX);
        snib__buf_add(&b, told.part[0].request, SIM_ID);
        sim_same_bytes(t->server->world, conn, told.part[0].request, SIM_ID);
        for (int i = 0; i < t->conns; i++) {
            struct sim_table_conn *c = &t->conn[i];
            if (c->id && length && !strncmp(c->notifier, notifier, length)) {
                sim_send(&c->out, SIM_MSG_NOTICE, 0, &b);
            }
        }
        snib__buf_free(&b);
    }
}

/* The theorems hear what the write did. */
static void say(struct sim_table *t, struct sim_reader *r, int conn)
{
    static _Thread_local struct sim_act act;
    size_t size;
    act.node = (int)(t->server - t->server->world->node);
    act.several = sim_get(r) != 0;
    act.all = sim_get(r) != 0;
    act.missed = (int)sim_get(r);
    act.count = (int)sim_get(r);
    const void *parts = sim_get_bytes(r, &size);
    memcpy(act.part, parts, size);
    for (int k = 0; k < act.count; k++) {
        struct sim_seen *s = &act.part[k];
        if (s->at < t->server->world->told.stepped_at) {
            sim_book_lapses(t->server->world, s->name, s->request);
        }
        s->conn = conn;
        s->at = t->server->world->t;
    }
    sim_watch(t->server->world, &act);
}

static void write(struct sim_table *t, struct sim_table_conn *c, int64_t call,
                  struct sim_reader *r)
{
    static _Thread_local struct guard g[GUARDS];
    struct snib__buf reply;
    int id = c->id;
    const uint8_t *asked = r->at;
    uint64_t epoch = (uint64_t)sim_get(r);
    int64_t not_after = sim_get(r);
    int guards = (int)sim_get(r);
    read_guards(r, g, guards);
    sim_same_bytes(t->server->world, id, asked, (size_t)(r->at - asked));
    bool ok = epoch == t->epoch && now_ns(t) <= not_after &&
              guards_hold(&t->rows, g, guards);
    snib__buf_init(&reply, BUF_MAX);
    sim_put(&reply, ok);
    sim_send(&c->out, SIM_MSG_APPLIED, call, &reply);
    snib__buf_free(&reply);
    sim_note(t->server->world, "    table: a write of conn %d is %s", id,
             ok ? "applied" : "in conflict");
    if (ok) {
        apply(&t->rows, g, guards);
        tell(t, r, id);
        say(t, r, id);
    }
}

/* -- the rest -------------------------------------------------------------- */

enum {
    DENIALS =
        SIM_REDIS_NOAUTH | SIM_REDIS_NOPERM_KEY | SIM_REDIS_NOPERM_CHANNEL,
    /* of fetches and writes */
    OTHERS = ~SIM_REDIS_NOPERM_CHANNEL
};

static void unfit(const struct sim_table *t, struct sim_table_conn *c,
                  int64_t call)
{
    struct snib__buf reply;
    snib__buf_init(&reply, BUF_MAX);
    sim_put(&reply, t->faults & DENIALS ? SNIB_ERR_DENIED : SNIB_ERR_STORE);
    sim_send(&c->out, SIM_MSG_UNFIT, call, &reply);
    snib__buf_free(&reply);
}

static void listen(struct sim_table_conn *c, int64_t call, struct sim_reader *r)
{
    size_t size;
    const char *text = sim_get_bytes(r, &size);
    snprintf(c->notifier, sizeof c->notifier, "%.*s", (int)size, text);
    sim_send(&c->out, SIM_MSG_LISTENS, call, NULL);
}

static void handle(struct sim_table *t, struct sim_table_conn *c,
                   enum sim_message what, int64_t call, struct sim_reader *r)
{
    bool denied = t->faults & (what == SIM_MSG_LISTEN ? DENIALS : OTHERS);
    if (denied) {
        unfit(t, c, call);
    } else if (what == SIM_MSG_FETCH) {
        fetch(t, c, call, r);
    } else if (what == SIM_MSG_WRITE) {
        write(t, c, call, r);
    } else {
        listen(c, call, r);
    }
}

void sim_table_input(struct sim_table *t, int conn, const void *bytes,
                     size_t size)
{
    struct sim_table_conn *c = sim_table_conn(t, conn);
    enum sim_message what;
    int64_t call;
    struct sim_reader r;
    size_t n;
    snib__buf_add(&c->in, bytes, size);
    while (sim_receive(&c->in, &what, &call, &r, &n)) {
        size_t before = snib__buf_size(&c->out);
        struct sim_world *w = t->server->world;
        sim_same_bytes(w, conn, &what, sizeof what);
        if (t->sql) {
            sim_sql_handle(t, conn, what, call, &r);
        } else {
            handle(t, c, what, call, &r);
        }
        sim_same_bytes(w, conn, snib__buf_bytes(&c->out) + before,
                       snib__buf_size(&c->out) - before);
        snib__buf_consume(&c->in, n);
    }
}

/* -- what can happen to it ------------------------------------------------- */

void sim_table_restart(struct sim_table *t, bool keep)
{
    close_all(t);
    t->epoch++;
    if (!keep) {
        sim_rows_free(&t->rows);
    }
    if (t->sql) {
        sim_sql_restart(t, keep);
    }
}

/* Somebody deletes all rows. */
void sim_table_flush(struct sim_table *t)
{
    t->rows.revision++;
    t->rows.count = 0;
    sim_sql_firm(t);
}

/* … those of a name. */
void sim_table_evict(struct sim_table *t, int name)
{
    t->rows.revision++;
    for (int i = t->rows.count - 1; i >= 0; i--) {
        if (t->rows.row[i].key.name == name &&
            t->rows.row[i].key.kind != SNIB__KEY_FLOOR) {
            t->rows.row[i] = t->rows.row[--t->rows.count];
        }
    }
    sim_sql_firm(t);
}

void sim_table_backup(struct sim_table *t)
{
    sim_rows_copy(&t->replica, &t->rows);
    t->has_replica = true;
}

void sim_table_restore(struct sim_table *t)
{
    sim_rows_copy(&t->rows, &t->replica);
    t->has_replica = false;
    sim_sql_firm(t);
}

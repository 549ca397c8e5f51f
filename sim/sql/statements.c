/* sim/sql/statements.c — what each statement does, as its text in
 * store/postgres/text.c says.
 *
 * A statement that changes or locks a row looks for it first as it is; if another
 * transaction has it, it waits, and then looks again. The clock is that of when it
 * began: clock_timestamp() is read before the wait. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sql/statements_i.h"

#define DIVISION "22012" /* a guard */

/* -- parameters and values ---------------------------------------------------- */

static bool is_null(const struct sim_sql_param *p)
{
    return p->kind == SNIB__SQL_PARAM_NULL;
}

static void put_null(struct sim_sql_st *t)
{
    sim_put(t->out, SNIB__SQL_PARAM_NULL);
}

static void put_bytes(struct sim_sql_st *t, const void *p, size_t size)
{
    sim_put(t->out, SNIB__SQL_PARAM_BYTES);
    sim_put_bytes(t->out, p, size);
}

static void put_id(struct sim_sql_st *t, const uint64_t id[2])
{
    uint64_t v[2] = {htobe64(id[0]), htobe64(id[1])};
    if (id[0] || id[1]) {
        put_bytes(t, v, sizeof v);
    } else {
        put_null(t);
    }
}

static uint64_t stamp_of(const struct sim_row *row)
{
    return row ? row->stamp : 0;
}

/* -- a fetch ------------------------------------------------------------------- */

/* Is the party of a barrier still there? Its connection would be. */
static bool is_alive(const struct sim_sql_st *t,
                     const struct snib__stored_claim *c)
{
    long long pid = strtoll(c->notifier, NULL, 10);
    return c->kind != SNIB_KIND_BARRIER || pid <= 0 ||
           sim_table_conn(t->s->table, (int)pid);
}

static void put_row(struct sim_sql_st *t, const struct sim_row *row)
{
    struct snib__stored_claim c;
    const void *about = NULL;
    size_t size = 0;
    for (int i = 0; !row && i < SNIB__SQL_C_ALIVE; i++) {
        put_null(t);
    }
    if (!row) {
        return;
    }
    (void)snib__layout_claim(row->bytes, row->size, &c, &about, &size, NULL);
    put_id(t, c.request);
    sim_sql_put_int(t, (int64_t)row->stamp);
    sim_sql_put_int(t, c.id);
    put_id(t, c.client);
    sim_sql_put_int(t, c.state);
    sim_sql_put_int(t, c.kind);
    sim_sql_put_int(t, c.permits);
    sim_sql_put_int(t, c.reserve);
    sim_sql_put_int(t, c.slot);
    sim_sql_put_int(t, c.token);
    sim_sql_put_int(t, c.floor);
    sim_sql_put_int(t, c.rank);
    put_id(t, c.upgrade_of);
    sim_sql_put_int(t, c.lease.ns);
    sim_sql_put_int(t, c.delay.ns);
    sim_sql_put_int(t, c.since.ns);
    sim_sql_put_int(t, c.until.ns);
    put_bytes(t, c.notifier, strlen(c.notifier));
    put_bytes(t, c.note, strlen(c.note));
    put_bytes(t, about, size);
}

static int64_t highest(const struct sim_sql_st *t)
{
    const struct sim_row *row = NULL;
    int64_t token = 0;
    while ((row = sim_sql_next_row(t->s, row))) {
        if (row->key.kind == SNIB__KEY_LOCK && row->l.token > token) {
            token = row->l.token;
        }
    }
    return token;
}

/* The first columns, which are the same in each row. */
static void put_front(struct sim_sql_st *t, int name)
{
    struct sim_key floor = sim_sql_key_of(SNIB__KEY_FLOOR, 0),
                   arrivals = sim_sql_key_of(SNIB__KEY_ARRIVALS, name);
    const struct sim_row *f = sim_sql_row(t->s, &floor);
    const struct sim_row *l = sim_sql_lock_row(t, name);
    const struct sim_row *a = sim_sql_row(t->s, &arrivals), *row = NULL;
    int64_t waiting = 0, last_rank = INT8_MIN, token = 0;
    while ((row = sim_sql_next_row(t->s, row))) {
        if (sim_sql_is_in_claim(row, name) && row->c.state == SNIB__WAITS) {
            waiting++;
            last_rank = row->c.rank > last_rank ? row->c.rank : last_rank;
        }
    }
    if (f) {
        (void)snib__layout_floor(f->bytes, f->size, &token, NULL);
    }
    sim_sql_put_int(t, t->s->us);
    sim_sql_put_int(t, (int64_t)t->s->table->epoch);
    sim_sql_put_int(t, token);
    sim_sql_put_int(t, f ? (int64_t)f->stamp : 1);
    sim_sql_put_int(t, t->p[3].n ? highest(t) : 0);
    sim_sql_put_int(t, (int64_t)stamp_of(l));
    sim_sql_put_int(t, l ? l->l.token : 0);
    sim_sql_put_int(t, l ? l->l.params.size : -1);
    sim_sql_put_int(t, l ? l->l.params.latch : 0);
    sim_sql_put_int(t, sim_sql_arrivals_of(a));
    sim_sql_put_int(t, (int64_t)stamp_of(a));
    sim_sql_put_int(t, sim_sql_claims_of(t, name));
    sim_sql_put_int(t, waiting > t->p[2].n ? waiting : 0);
    sim_sql_put_int(t, waiting > t->p[2].n ? last_rank : 0);
    put_row(t, sim_sql_holder_row(t, name));
}

/* How many waiters stand before this one? */
static int64_t place_of(const struct sim_sql_st *t, const struct sim_row *one)
{
    const struct sim_row *row = NULL;
    int64_t n = 0;
    while ((row = sim_sql_next_row(t->s, row))) {
        n += sim_sql_is_in_claim(row, one->key.name) &&
             row->c.state == SNIB__WAITS && sim_row_is_before(row, one);
    }
    return n;
}

static const char *do_fetch(struct sim_sql_st *t)
{
    int name = sim_sql_name_of(&t->p[0]), rows = 0;
    struct sim_key asked = sim_sql_claim_key(t, name, 1);
    struct snib__buf all, *out = t->out;
    const struct sim_row *row = NULL;
    snib__buf_init(&all, SIM_SQL_BUF);
    t->out = &all;
    while ((row = sim_sql_next_row(t->s, row))) {
        bool asks =
            !memcmp(row->key.request, asked.request, sizeof asked.request);
        if (!sim_sql_is_in_claim(row, name) ||
            (row->c.state == SNIB__WAITS && !asks &&
             place_of(t, row) >= t->p[2].n)) {
            continue;
        }
        put_front(t, name);
        put_row(t, row);
        sim_sql_put_int(t, is_alive(t, &row->c));
        rows++;
    }
    if (!rows) {
        put_front(t, name);
        put_row(t, NULL);
        put_null(t);
        rows = 1;
    }
    t->out = out;
    sim_put(out, rows);
    sim_put(out, SNIB__SQL_F_CLAIM + SNIB__SQL_COLUMNS);
    snib__buf_add(out, snib__buf_bytes(&all), snib__buf_size(&all));
    snib__buf_free(&all);
    if (sim_held(t->s->table->server->world, name)) { /* may be told so */
        struct sim_world *w = t->s->table->server->world;
        w->resource[name].held_at = w->t;
    }
    return NULL;
}

/* -- guards -------------------------------------------------------------------- */

static bool guard_holds(const struct sim_sql_st *t, int name)
{
    const struct sim_sql_param *p = t->p;
    struct sim_key key = sim_sql_key_of(SNIB__KEY_ARRIVALS, name);
    const struct sim_row *h = sim_sql_holder_row(t, name);
    uint64_t holder[2], absent[2];
    sim_sql_id_of(&p[3], holder);
    sim_sql_id_of(&p[5], absent);
    return (is_null(&p[1]) ||
            stamp_of(sim_sql_lock_row(t, name)) == (uint64_t)p[1].n) &&
           (is_null(&p[2]) ||
            stamp_of(sim_sql_row(t->s, &key)) == (uint64_t)p[2].n) &&
           (is_null(&p[3]) ||
            (h && !memcmp(h->key.request, holder, sizeof holder) &&
             h->stamp == (uint64_t)p[4].n)) &&
           (is_null(&p[5]) ||
            !(h && !memcmp(h->key.request, absent, sizeof absent))) &&
           t->s->us <= p[6].n && (int64_t)t->s->table->epoch == p[7].n;
}

static const char *do_guard(struct sim_sql_st *t)
{
    int name = sim_sql_name_of(&t->p[0]);
    if (!guard_holds(t, name)) {
        return DIVISION;
    }
    return sim_sql_lock_name(t, name) ? NULL : SIM_SQL_WAITS;
}

/* A claim of the table of claims, with that stamp, locked. */
static const char *claim_as_it_was(struct sim_sql_st *t,
                                   const struct sim_key *key, int64_t stamp)
{
    const struct sim_row *row = sim_sql_row(t->s, key);
    if (!row || !sim_sql_is_in_claim(row, key->name) ||
        row->stamp != (uint64_t)stamp) {
        return DIVISION;
    }
    return sim_sql_lock(t->s, key) ? NULL : SIM_SQL_WAITS;
}

static const char *do_guard_claim(struct sim_sql_st *t)
{
    struct sim_key key = sim_sql_claim_key(t, sim_sql_name_of(&t->p[0]), 1);
    return claim_as_it_was(t, &key, t->p[2].n);
}

static const char *do_guard_no_claim(struct sim_sql_st *t)
{
    struct sim_key key = sim_sql_claim_key(t, sim_sql_name_of(&t->p[0]), 1);
    const struct sim_row *row = sim_sql_row(t->s, &key);
    return row && sim_sql_is_in_claim(row, key.name) ? DIVISION : NULL;
}

static const char *do_floor(struct sim_sql_st *t, bool put)
{
    struct sim_key key = sim_sql_key_of(SNIB__KEY_FLOOR, 0);
    const struct sim_row *row = sim_sql_row(t->s, &key);
    uint64_t stamp = (uint64_t)t->p[put ? 2 : 0].n;
    struct snib__buf b;
    if ((row ? row->stamp : 1) != stamp) {
        return DIVISION;
    }
    if (!sim_sql_lock(t->s, &key)) {
        return SIM_SQL_WAITS;
    }
    if (put) {
        snib__buf_init(&b, SIM_ROW_BYTES);
        snib__layout_put_floor(&b, t->p[0].n);
        sim_sql_put(t->s, &key, snib__buf_bytes(&b), snib__buf_size(&b),
                    (uint64_t)t->p[1].n);
        snib__buf_free(&b);
    }
    return NULL;
}

/* -- changes ------------------------------------------------------------------- */

/* The columns of a claim from parameter `at` on; *ret: the next one. holder: but
 * for STATE, SLOT and NOTE. */
static struct snib__stored_claim claim_from(const struct sim_sql_st *t, int at,
                                            bool holder, uint64_t *ret_stamp,
                                            const struct sim_sql_param **about)
{
    const struct sim_sql_param *p = &t->p[at];
    struct snib__stored_claim c = {.state = SNIB__HOLDS};
    sim_sql_id_of(p++, c.request);
    *ret_stamp = (uint64_t)(p++)->n;
    c.id = (p++)->n;
    sim_sql_id_of(p++, c.client);
    c.state = holder ? SNIB__HOLDS : (int)(p++)->n;
    c.kind = (snib_kind)(p++)->n;
    c.permits = (uint32_t)(p++)->n;
    c.reserve = (uint32_t)(p++)->n;
    c.slot = holder ? 0 : (uint32_t)(p++)->n;
    c.token = (p++)->n;
    c.floor = (p++)->n;
    c.rank = (int)(p++)->n;
    sim_sql_id_of(p++, c.upgrade_of);
    c.lease.ns = (p++)->n;
    c.delay.ns = (p++)->n;
    c.since.ns = (p++)->n;
    c.until.ns = (p++)->n;
    snprintf(c.notifier, sizeof c.notifier, "%.*s", (int)p->size,
             (const char *)p->p);
    p++;
    if (!holder) {
        snprintf(c.note, sizeof c.note, "%.*s", (int)p->size,
                 (const char *)p->p);
        p++;
    }
    *about = p;
    return c;
}

/* The size or the latch has changed: the token tells when that was. */
static int64_t token_of(const struct sim_sql_st *t, const struct sim_row *l)
{
    const struct sim_sql_param *p = t->p;
    int64_t was = l ? l->l.token : 0, token = is_null(&p[2]) ? was : p[2].n;
    int64_t clock = t->s->us / 1000 * 1024;
    bool params = (!is_null(&p[3]) && p[3].n != (l ? l->l.params.size : -1)) ||
                  (!is_null(&p[4]) && p[4].n != (l ? l->l.params.latch : 0));
    return was >= 0 && params && clock > token ? clock : token;
}

static void put_arrivals(struct sim_sql_st *t, int name)
{
    struct sim_key key = sim_sql_key_of(SNIB__KEY_ARRIVALS, name);
    struct snib__buf b;
    snib__buf_init(&b, SIM_ROW_BYTES);
    snib__layout_put_arrivals(&b, t->p[5].n);
    sim_sql_put(t->s, &key, snib__buf_bytes(&b), snib__buf_size(&b),
                (uint64_t)t->p[6].n);
    snib__buf_free(&b);
}

/* The columns h_… are set, or emptied. */
static void set_holder(struct sim_sql_st *t, int name)
{
    const struct sim_row *h = sim_sql_holder_row(t, name);
    const struct sim_sql_param *about;
    uint64_t stamp;
    if (h) {
        struct sim_key key = h->key;
        sim_sql_delete(t->s, &key);
    }
    if (!is_null(&t->p[9])) {
        struct snib__stored_claim c = claim_from(t, 9, true, &stamp, &about);
        sim_sql_put_claim(t, &c, about->p, about->size, stamp, name);
    }
}

static const char *do_put_lock(struct sim_sql_st *t)
{
    const struct sim_sql_param *p = t->p;
    int name = sim_sql_name_of(&p[0]);
    const struct sim_row *l = sim_sql_lock_row(t, name);
    if (!sim_sql_lock_name(t, name)) {
        return SIM_SQL_WAITS;
    }
    if (!is_null(&p[1])) {
        struct snib__lock_row row = {
            .token = token_of(t, l),
            .params = {.size = p[3].n, .latch = p[4].n}};
        sim_sql_put_lock(t, &row, (uint64_t)p[1].n, name);
    }
    if (!is_null(&p[5])) {
        put_arrivals(t, name);
    }
    if (p[8].n) {
        set_holder(t, name);
    }
    return NULL;
}

static const char *do_add_claim(struct sim_sql_st *t)
{
    const struct sim_sql_param *about;
    uint64_t stamp;
    struct sim_key key = sim_sql_claim_key(t, sim_sql_name_of(&t->p[0]), 1);
    struct snib__stored_claim c = claim_from(t, 1, false, &stamp, &about);
    if (!sim_sql_lock(t->s, &key)) {
        return SIM_SQL_WAITS;
    }
    const struct sim_row *row = sim_sql_row(t->s, &key);
    if (row && sim_sql_is_in_claim(row, key.name)) {
        return "23505";
    }
    sim_sql_put_claim(t, &c, about->p, about->size, stamp, key.name);
    return NULL;
}

static const char *do_put_claim(struct sim_sql_st *t)
{
    const struct sim_sql_param *about;
    uint64_t stamp;
    struct sim_key key = sim_sql_claim_key(t, sim_sql_name_of(&t->p[0]), 1);
    const char *state = claim_as_it_was(t, &key, t->p[22].n);
    if (!state) {
        struct snib__stored_claim c = claim_from(t, 1, false, &stamp, &about);
        sim_sql_put_claim(t, &c, about->p, about->size, stamp, key.name);
    }
    return state;
}

static const char *do_delete_claim(struct sim_sql_st *t)
{
    struct sim_key key = sim_sql_claim_key(t, sim_sql_name_of(&t->p[0]), 1);
    const char *state = claim_as_it_was(t, &key, t->p[2].n);
    if (!state) {
        sim_sql_delete(t->s, &key);
    }
    return state;
}

static bool only_remembers(const struct sim_row *row)
{
    return row->c.state == SNIB__TOMBSTONE ||
           row->c.state == SNIB__UNRESPONSIVE || row->c.state == SNIB__REVOKED;
}

static const char *do_sweep(struct sim_sql_st *t)
{
    int name = sim_sql_name_of(&t->p[0]);
    const struct sim_row *row = NULL;
    struct sim_key dead[SIM_BOOK];
    int n = 0;
    while ((row = sim_sql_next_row(t->s, row)) && n < SIM_BOOK) {
        if (sim_sql_is_in_claim(row, name) && only_remembers(row) &&
            row->c.until.ns <= t->p[1].n) {
            dead[n++] = row->key;
        }
    }
    for (int i = 0; i < n; i++) {
        if (!sim_sql_lock(t->s, &dead[i])) {
            return SIM_SQL_WAITS;
        }
    }
    while (n-- > 0) {
        sim_sql_delete(t->s, &dead[n]);
    }
    return NULL;
}

/* -- the rest -------------------------------------------------------------------- */

static const char *do_lock(struct sim_sql_st *t)
{
    int name = sim_sql_name_of(&t->p[0]);
    return sim_sql_lock_name(t, name) ? NULL : SIM_SQL_WAITS;
}

/* Who listens is told, if what it is told of is there. */
static const char *do_notify(struct sim_sql_st *t)
{
    struct sim_table *table = t->s->table;
    const struct sim_sql_param *p = t->p;
    struct sim_key key = sim_sql_claim_key(t, sim_sql_name_of(&p[2]), 3);
    const struct sim_row *row = sim_sql_row(t->s, &key);
    struct snib__buf b;
    if (!row || (row->c.state != SNIB__HOLDS && row->c.state != SNIB__SHARES &&
                 row->c.state != SNIB__REVOKED)) {
        return NULL;
    }
    snib__buf_init(&b, SIM_SQL_BUF);
    snib__buf_add(&b, p[1].p, p[1].size);
    for (int i = 0; i < table->conns; i++) {
        struct sim_table_conn *c = &table->conn[i];
        if (c->id && c->notifier[0] && strlen(c->notifier) == p[0].size &&
            !memcmp(c->notifier, p[0].p, p[0].size)) {
            sim_send(&c->out, SIM_MSG_NOTICE, 0, &b);
        }
    }
    snib__buf_free(&b);
    return NULL;
}

static const char *do_settings(struct sim_sql_st *t)
{
    int64_t said[] = {t->s->conn, 0, t->s->us, (int64_t)t->s->table->epoch};
    sim_sql_answer(t, said, 4);
    return NULL;
}

static const char *do_transaction(struct sim_sql_st *t, int statement)
{
    struct sim_sql_session *s = t->s;
    if (statement == SNIB__SQL_DO_COMMIT && s->explicitly) {
        sim_sql_commit(s);
    } else if (statement == SNIB__SQL_DO_ROLLBACK) {
        sim_sql_roll_back(s);
    } else if (statement == SNIB__SQL_DO_NOT_DURABLE) {
        s->durable = false;
    } else if (statement != SNIB__SQL_DO_COMMIT) {
        s->explicitly = true;
    }
    return NULL;
}

bool sim_sql_writes(int statement)
{
    return (statement >= SNIB__SQL_DO_GUARD &&
            statement <= SNIB__SQL_DO_RELEASE);
}

const char *sim_sql_statement(struct sim_sql_session *s, int statement,
                              const struct sim_sql_param p[], int params)
{
    struct sim_sql_st t = {.s = s, .p = p, .out = &s->reply};
    (void)params;
    switch (statement) {
    case SNIB__SQL_DO_BEGIN:
    case SNIB__SQL_DO_BEGIN_READ:
    case SNIB__SQL_DO_COMMIT:
    case SNIB__SQL_DO_ROLLBACK:
    case SNIB__SQL_DO_NOT_DURABLE:
        return do_transaction(&t, statement);
    case SNIB__SQL_DO_OPEN: /* a script is one */
    case SNIB__SQL_DO_CLOSE:
    case SNIB__SQL_DO_MAKE_ROW_FIRST: /* there is one for each name */
    case SNIB__SQL_DO_MAKE_ROW:
        return NULL;
    case SNIB__SQL_DO_LOCK:
        return do_lock(&t);
    case SNIB__SQL_DO_FETCH:
        return do_fetch(&t);
    case SNIB__SQL_DO_GUARD:
        return do_guard(&t);
    case SNIB__SQL_DO_GUARD_CLAIM:
        return do_guard_claim(&t);
    case SNIB__SQL_DO_GUARD_NO_CLAIM:
        return do_guard_no_claim(&t);
    case SNIB__SQL_DO_GUARD_FLOOR:
        return do_floor(&t, false);
    case SNIB__SQL_DO_PUT_LOCK:
        return do_put_lock(&t);
    case SNIB__SQL_DO_PUT_FLOOR:
        return do_floor(&t, true);
    case SNIB__SQL_DO_ADD_CLAIM:
        return do_add_claim(&t);
    case SNIB__SQL_DO_PUT_CLAIM:
        return do_put_claim(&t);
    case SNIB__SQL_DO_DELETE_CLAIM:
        return do_delete_claim(&t);
    case SNIB__SQL_DO_SWEEP:
        return do_sweep(&t);
    case SNIB__SQL_DO_ACQUIRE:
        return sim_sql_acquire(&t);
    case SNIB__SQL_DO_RENEW:
    case SNIB__SQL_DO_RENEW_SHARE:
        return sim_sql_renew(&t, statement == SNIB__SQL_DO_RENEW_SHARE);
    case SNIB__SQL_DO_RELEASE:
        return sim_sql_release(&t);
    case SIM_SQL_SETTINGS:
        return do_settings(&t);
    case SIM_SQL_NOTIFY:
        return do_notify(&t);
    default:
        return "0A000";
    }
}

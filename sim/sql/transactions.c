/* sim/sql/transactions.c — what a transaction has changed, and which rows it has
 * locked.
 *
 * Nobody else sees a change before the commit. A row that is changed, or locked,
 * is locked until the transaction ends; who wants it waits. A transaction that is
 * not durable is lost by a crash, unless one that is has been committed since. */
#include <stdlib.h>
#include <string.h>

#include "sim/sql/sql.h"

static bool same(const struct sim_key *a, const struct sim_key *b)
{
    return a->kind == b->kind && a->name == b->name &&
           a->request[0] == b->request[0] && a->request[1] == b->request[1];
}

/* -- rows -------------------------------------------------------------------- */

static struct sim_sql_change *change_of(const struct sim_sql_session *s,
                                        const struct sim_key *key)
{
    for (int i = 0; i < s->changes; i++) {
        if (same(&s->change[i].row.key, key)) {
            return &s->change[i];
        }
    }
    return NULL;
}

const struct sim_row *sim_sql_row(const struct sim_sql_session *s,
                                  const struct sim_key *key)
{
    const struct sim_sql_change *c = change_of(s, key);
    return !c ? sim_row_of(&s->table->rows, key) : c->gone ? NULL : &c->row;
}

const struct sim_row *sim_sql_next_row(const struct sim_sql_session *s,
                                       const struct sim_row *last)
{
    const struct sim_rows *t = &s->table->rows;
    int at = 0;
    bool own =
        last && !(t->count && last >= t->row && last < t->row + t->count);
    if (last && !own) {
        at = (int)(last - t->row) + 1;
    }
    for (; !own && at < t->count; at++) {
        if (!change_of(s, &t->row[at].key)) {
            return &t->row[at];
        }
    }
    at = own ? (int)(SNIB__CONTAINER((struct sim_row *)(uintptr_t)last,
                                     struct sim_sql_change, row) -
                     s->change) +
                   1
             : 0;
    for (; at < s->changes; at++) {
        if (!s->change[at].gone) {
            return &s->change[at].row;
        }
    }
    return NULL;
}

static struct sim_sql_change *change(struct sim_sql_session *s,
                                     const struct sim_key *key)
{
    struct sim_sql_change *c = change_of(s, key);
    if (c) {
        return c;
    }
    if (s->changes == s->change_room) {
        s->change_room = s->change_room ? 2 * s->change_room : 16;
        s->change =
            realloc(s->change, (size_t)s->change_room * sizeof *s->change);
        if (!s->change) {
            abort();
        }
    }
    c = &s->change[s->changes++];
    c->row.key = *key;
    return c;
}

void sim_sql_put(struct sim_sql_session *s, const struct sim_key *key,
                 const void *bytes, size_t size, uint64_t stamp)
{
    struct sim_sql_change *c = change(s, key);
    if (size > SIM_ROW_BYTES) {
        abort();
    }
    c->gone = false;
    c->row.stamp = stamp;
    c->row.size = size;
    memcpy(c->row.bytes, bytes, size);
    sim_row_read(&c->row);
}

void sim_sql_delete(struct sim_sql_session *s, const struct sim_key *key)
{
    change(s, key)->gone = true;
}

/* -- locks ------------------------------------------------------------------- */

bool sim_sql_lock(struct sim_sql_session *s, const struct sim_key *key)
{
    struct sim_sql *q = s->table->sql;
    for (int i = 0; i < q->holds; i++) {
        if (same(&q->hold[i].key, key)) {
            bool mine = q->hold[i].session == s->conn;
            s->waits_for = mine ? 0 : q->hold[i].session;
            return mine;
        }
    }
    if (q->holds == q->hold_room) {
        q->hold_room = q->hold_room ? 2 * q->hold_room : 64;
        q->hold = realloc(q->hold, (size_t)q->hold_room * sizeof *q->hold);
        if (!q->hold) {
            abort();
        }
    }
    q->hold[q->holds++] = (struct sim_sql_hold){s->conn, *key};
    return true;
}

static const struct sim_sql_session *session_of(const struct sim_sql *q,
                                                int conn)
{
    const struct sim_sql_session *s = q->sessions;
    while (s && s->conn != conn) {
        s = s->next;
    }
    return s;
}

bool sim_sql_is_deadlock(const struct sim_sql_session *s)
{
    const struct sim_sql_session *x = s;
    for (int i = 0; x && x->waits_for && i < 64; i++) {
        x = session_of(s->table->sql, x->waits_for);
        if (x == s) {
            return true;
        }
    }
    return false;
}

static void end(struct sim_sql_session *s)
{
    struct sim_sql *q = s->table->sql;
    for (int i = q->holds; i-- > 0;) {
        if (q->hold[i].session == s->conn) {
            q->hold[i] = q->hold[--q->holds];
        }
    }
    s->changes = s->tells = 0;
    s->has_act = s->explicitly = s->aborted = false;
    s->durable = true;
    s->waits_for = 0;
}

/* -- the end ------------------------------------------------------------------ */

/* Is a crash of the server planned, after which this matters? */
static bool may_crash(const struct sim_sql_session *s)
{
    return sim_planned(s->table->server->world, SIM_RESTART);
}

void sim_sql_firm(struct sim_table *t)
{
    if (t->sql) {
        sim_rows_copy(&t->sql->firm, &t->rows);
    }
}

static void apply(struct sim_sql_session *s)
{
    struct sim_rows *rows = &s->table->rows;
    for (int i = 0; i < s->changes; i++) {
        struct sim_sql_change *c = &s->change[i];
        rows->revision++;
        if (c->gone) {
            sim_row_delete(rows, &c->row.key);
        } else {
            sim_row_put(rows, &c->row.key, c->row.bytes, c->row.size)->stamp =
                c->row.stamp;
        }
    }
    if (s->changes && s->durable && may_crash(s)) {
        sim_sql_firm(s->table);
    }
}

/* The theorems hear what it did: first whom it granted something. */
static void say(struct sim_sql_session *s)
{
    static _Thread_local struct sim_act told = {.count = 1};
    struct sim_world *w = s->table->server->world;
    for (int i = 0; i < s->tells; i++) {
        told.part[0] = s->tell[i];
        told.part[0].at = w->t;
        told.part[0].conn = s->conn;
        if (told.part[0].said == SIM_SAID_GRANTED) { /* else it was forced */
            sim_watch(w, &told);
        }
    }
    for (int k = 0; k < s->act.count && s->has_act; k++) {
        struct sim_seen *x = &s->act.part[k];
        if (x->at && x->at < w->told.stepped_at) {
            sim_book_lapses(w, x->name, x->request);
        }
        x->at = w->t;
        x->conn = s->conn;
        sim_sql_note_said(s->table->sql, x, w->t);
    }
    if (s->has_act && s->act.count) {
        sim_watch(w, &s->act);
    }
}

void sim_sql_commit(struct sim_sql_session *s)
{
    apply(s);
    say(s);
    end(s);
}

void sim_sql_roll_back(struct sim_sql_session *s)
{
    end(s);
}

/* sim/worker_said.c — the step of a worker as messages to the table, and in the
 * words of sim/seen.h. They travel with a write; the table says them when it
 * applies that. */
#include <stdlib.h>
#include <string.h>

#include "sim/driver.h"

bool sim_same_lock(const struct snib__request *a, const struct snib__request *b)
{
    return a->name && b->name && snib__name_same(a->name, b->name);
}

bool sim_changes_claims(const struct snib__request *r)
{
    return sim_deed_of(r) != SIM_DID_OTHER;
}

static void act_of(const struct sim_driver *d, const struct sim_worker *k,
                   struct sim_act *a)
{
    sim_see_step(d->id, k->r, &k->s, k->s.book.now.ns / 1000000, a);
    for (int i = 0; i < a->count; i++) {
        a->part[i].at = k->fetched_at;
    }
}

void sim_step_looked(const struct sim_driver *d, const struct sim_worker *k)
{
    static _Thread_local struct sim_act act;
    act_of(d, k, &act);
    for (int i = 0; i < act.count; i++) {
        act.part[i].looked = true;
        act.part[i].conn =
            d->w->client[d->client].wire[sim_conn_of(d, k)].server_conn;
    }
    sim_watch(d->w, &act);
}

/* -- messages -------------------------------------------------------------- */

void sim_fetch_message(const struct sim_worker *k, struct snib__buf *b)
{
    const struct snib__snapshot *s = &k->s;
    sim_put(b, s->waiters);
    sim_put(b, s->want_highest);
    sim_put(b, s->locks);
    for (uint32_t i = 0; i < s->locks; i++) {
        sim_put(b, sim_name_of(s->lock[i].name));
    }
    sim_put(b, s->requests);
    for (uint32_t i = 0; i < s->requests; i++) {
        sim_put(b, sim_name_of(s->request[i]->name));
        sim_put(b, (int64_t)s->request[i]->id[0]);
        sim_put(b, (int64_t)s->request[i]->id[1]);
    }
}

static void take_row(struct sim_worker *k, struct sim_reader *r,
                     const struct snib__name *const names[])
{
    struct snib__key key = {.kind = (snib__key_kind)sim_get(r)};
    int name = (int)sim_get(r);
    size_t size;
    key.name = key.kind == SNIB__KEY_FLOOR ? NULL : names[name];
    key.request[0] = (uint64_t)sim_get(r);
    key.request[1] = (uint64_t)sim_get(r);
    uint64_t stamp = (uint64_t)sim_get(r);
    const void *bytes = sim_get_bytes(r, &size);
    snib__snapshot_row(&k->s, &key, stamp, bytes, size);
}

void sim_rows_message(struct sim_worker *k, struct sim_reader *r)
{
    const struct snib__name *names[SIM_NAMES] = {NULL};
    struct snib__moment m = {.sent = k->sent};
    for (uint32_t i = 0; i < k->s.locks; i++) {
        names[sim_name_of(k->s.lock[i].name)] = k->s.lock[i].name;
    }
    m.now.ns = sim_get(r);
    m.epoch = (uint64_t)sim_get(r);
    m.highest = sim_get(r);
    k->fetched_at = sim_get(r);
    snib__snapshot_moment(&k->s, &m);
    for (int64_t n = sim_get(r); n > 0; n--) {
        take_row(k, r, names);
    }
    for (int64_t n = sim_get(r); n > 0; n--) {
        const struct snib__name *name = names[sim_get(r)];
        uint32_t waiting = (uint32_t)sim_get(r);
        snib__snapshot_queue(&k->s, name, waiting, (int)sim_get(r));
    }
}

static void put_guards(const struct snib__snapshot *s, struct snib__buf *b)
{
    sim_put(b, s->guards);
    for (uint32_t i = 0; i < s->guards; i++) {
        const struct snib__guard *g = &s->guard[i];
        sim_put(b, g->key.kind);
        sim_put(b, g->key.name ? sim_name_of(g->key.name) : 0);
        sim_put(b, (int64_t)g->key.request[0]);
        sim_put(b, (int64_t)g->key.request[1]);
        sim_put(b, (int64_t)g->stamp);
        sim_put(b, g->todo);
        sim_put_bytes(b, snib__buf_bytes(&s->bytes) + g->at,
                      g->todo == SNIB__GUARD_PUT ? g->size : 0);
    }
}

static void put_told(const struct sim_worker *w, struct snib__buf *b)
{
    const struct snib__snapshot *s = &w->s;
    sim_put(b, s->tolds);
    for (uint32_t i = 0; i < s->tolds; i++) {
        const struct snib__told *t = &s->told[i];
        struct sim_seen seen;
        sim_see_told(s, i, &seen);
        seen.at = w->fetched_at;
        seen.now_ms = s->book.now.ns / 1000000;
        sim_put_bytes(b, &seen, sizeof seen);
        sim_put_bytes(b, t->notifier, strlen(t->notifier));
    }
}

void sim_write_message(const struct sim_driver *d, const struct sim_worker *k,
                       struct snib__buf *b)
{
    static _Thread_local struct sim_act act;
    sim_put(b, (int64_t)k->s.epoch);
    sim_put(b, k->s.not_after.ns);
    put_guards(&k->s, b);
    put_told(k, b);
    act_of(d, k, &act);
    sim_put(b, act.several);
    sim_put(b, act.all);
    sim_put(b, act.missed);
    sim_put(b, act.count);
    sim_put_bytes(b, act.part, (size_t)act.count * sizeof act.part[0]);
}

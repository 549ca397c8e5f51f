/* sim/worker_said.c — the step of a worker as messages to the table, and in the
 * words of sim/seen.h. They travel with a write; the table says them when it
 * applies that. */
#include <stdlib.h>
#include <string.h>

#include "sim/driver.h"

/* As on Redis: lower classes are served first, 0 is for upgrades. */
enum { CLASS_ORDINARY = 128 };

/* -- which lock ------------------------------------------------------------ */

static int name_of(const struct snib__name *name)
{
    for (int n = 0; name && n < SIM_NAMES; n++) {
        if (strcmp(name->raw, sim_names[n]) == 0) {
            return n;
        }
    }
    return -1;
}

int sim_lock_of(const struct snib__request *r)
{
    return name_of(r->name);
}

bool sim_same_lock(const struct snib__request *a, const struct snib__request *b)
{
    return a->name && b->name && snib__name_same(a->name, b->name);
}

/* -- what it does ---------------------------------------------------------- */

static enum sim_deed deed_of(const struct snib__request *r)
{
    switch (r->verb) {
    case SNIB__ACQUIRE:
        return SIM_DID_ACQUIRE;
    case SNIB__RENEW:
        return SIM_DID_RENEW;
    case SNIB__RELEASE:
        return SIM_DID_RELEASE;
    case SNIB__CANCEL:
        return SIM_DID_CANCEL;
    case SNIB__FORCE:
        return SIM_DID_FORCE;
    case SNIB__PARAMS:
        return SIM_DID_PARAMS;
    default:
        return SIM_DID_OTHER;
    }
}

bool sim_changes_claims(const struct snib__request *r)
{
    return deed_of(r) != SIM_DID_OTHER;
}

static enum sim_said said_no(const struct snib__request *r)
{
    if (r->said.revoked) {
        return SIM_SAID_REVOKED;
    } else if (r->verb != SNIB__ACQUIRE) {
        return SIM_SAID_NO;
    } else if (r->said.err == SNIB_ERR_BUSY) {
        return SIM_SAID_HELD;
    } else if (r->said.err != SNIB_ERR_CANCELLED) {
        return SIM_SAID_NO;
    }
    return sim_batch_of(r) ? SIM_SAID_OVER : SIM_SAID_ENDED;
}

static enum sim_said said_of(const struct snib__request *r)
{
    bool ends = r->verb == SNIB__RELEASE ||
                (r->verb == SNIB__CANCEL && r->said.granted);
    switch (r->said.answer) {
    case SNIB__DONE:
        return r->verb == SNIB__ACQUIRE ? SIM_SAID_GRANTED
               : ends                   ? SIM_SAID_ENDED
                                        : SIM_SAID_DONE;
    case SNIB__QUEUED:
        return SIM_SAID_QUEUED;
    case SNIB__NO:
        return said_no(r);
    case SNIB__NOT_APPLIED:
    case SNIB__PENDING:
    case SNIB__UNKNOWN:
        break;
    }
    return SIM_SAID_ERROR;
}

/* asked: the token with which it was asked, before the answer came over it. */
static void see(const struct sim_driver *d, const struct snib__request *r,
                int64_t asked, int64_t now_ms, struct sim_seen *s)
{
    bool ends_prior = r->verb == SNIB__ACQUIRE || r->verb == SNIB__CANCEL;
    memset(s, 0, sizeof *s); /* it travels as bytes */
    s->deed = deed_of(r);
    s->said = said_of(r);
    s->name = sim_lock_of(r);
    s->class = CLASS_ORDINARY - r->acquire.priority;
    s->resent = r->resent;
    sim_id_text(d->id, s->client);
    sim_id_text(r->id, s->request);
    s->prior = ends_prior ? asked : 0;
    s->token = ends_prior ? 0 : asked;
    s->lease_ms = r->renew.only_asks ? 0 : snib__to_ms(r->lease);
    s->given = r->token;
    s->count = r->said.row.ended;
    s->now_ms = now_ms;
}

static void act_of(const struct sim_driver *d, const struct sim_worker *k,
                   struct sim_act *a)
{
    a->node = 0;
    a->everywhere = false;
    a->several = k->count > 1 && sim_batch_of(k->r[0]);
    a->all = k->r[0]->batch.all;
    a->missed = -1;
    a->count = (int)k->count;
    for (uint32_t i = 0; i < k->count; i++) {
        struct sim_seen *s = &a->part[i];
        see(d, k->r[i], k->s.asked[i].token, k->s.book.now.ns / 1000000, s);
        s->at = k->fetched_at;
        if (a->missed < 0 && s->said != SIM_SAID_GRANTED &&
            s->said != SIM_SAID_OVER) {
            a->missed = (int)i;
        }
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
        sim_put(b, name_of(s->lock[i].name));
    }
    sim_put(b, s->requests);
    for (uint32_t i = 0; i < s->requests; i++) {
        sim_put(b, sim_lock_of(s->request[i]));
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
        names[name_of(k->s.lock[i].name)] = k->s.lock[i].name;
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
        sim_put(b, g->key.name ? name_of(g->key.name) : 0);
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
        memset(&seen, 0, sizeof seen);
        seen.deed = SIM_DID_TELL;
        seen.name = name_of(t->name);
        seen.at = w->fetched_at;
        seen.now_ms = s->book.now.ns / 1000000;
        sim_id_text(t->client, seen.client);
        sim_id_text(t->request, seen.request);
        for (uint32_t k = 0; k < s->claims; k++) {
            const struct snib__stored_claim *c = &s->claim[k].c;
            if (c->request[0] == t->request[0] &&
                c->request[1] == t->request[1] && snib__rules_claim_holds(c)) {
                seen.said = SIM_SAID_GRANTED;
                seen.given = c->token;
            }
        }
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

/* store/etcd/plan.c — the transaction of a step: what it compares, what it
 * writes, and under which leases (ttl.c). What a name remembers, its lock row and
 * arrivals, is kept by who uses it (plan_remember). */
#include <string.h>

#include "store/etcd/plan_i.h"

enum { PLAN_TOLD = 3 };

struct plan {
    struct snib__etcd *e;
    snib_instant now;
    struct etcd_step *k;
    struct snib__buf *out;
    uint32_t compares, writes;
    bool waits;
    bool behind; /* in place of the lock row somebody's claim is compared */
};

static struct etcd_ttl plan_ttl_memory(const struct plan *p, uint32_t lock)
{
    const struct etcd_ttl_of t = {p->e, p->now, p->k};
    return snib__etcd_ttl_memory(&t, lock);
}

static bool plan_ttl_claim(const struct plan *p, uint32_t claim,
                           struct etcd_ttl *ret, uint32_t *ret_own)
{
    const struct etcd_ttl_of t = {p->e, p->now, p->k};
    return snib__etcd_ttl_claim(&t, claim, ret, ret_own);
}

static const struct etcd_lease *plan_lease(struct plan *p,
                                           const struct etcd_ttl *t)
{
    const struct etcd_lease *l = snib__etcd_lease_for(p->e, p->now, t);
    p->waits = p->waits || !l;
    return l;
}

/* -- operations ------------------------------------------------------------- */

static void plan_put(struct plan *p, const struct etcd_key *key,
                     struct snib__etcd_text value, const struct etcd_ttl *ttl)
{
    const struct etcd_lease *l = ttl ? plan_lease(p, ttl) : NULL;
    p->writes++;
    snib__etcd_txn_put(p->out,
                       &(struct snib__etcd_put){.key = snib__etcd_text_of(key),
                                                .value = value,
                                                .lease = l ? l->id : 0,
                                                .same_lease = !ttl});
}

static uint32_t plan_claim_of(const struct snib__snapshot *s,
                              const struct snib__key *key)
{
    uint32_t i = 0;
    while (i < s->claims && (s->lock[s->claim[i].lock].name != key->name ||
                             memcmp(s->claim[i].c.request, key->request,
                                    sizeof key->request) != 0)) {
        i++;
    }
    return i;
}

static void plan_put_claim(struct plan *p, const struct snib__guard *g,
                           const struct etcd_key *key,
                           struct snib__etcd_text value)
{
    struct etcd_step *k = p->k;
    uint32_t claim = plan_claim_of(&k->s, &g->key), own;
    struct etcd_ttl ttl = {0};
    bool keeps = plan_ttl_claim(p, claim, &ttl, &own);
    plan_put(p, key, value, keeps ? NULL : &ttl);
    const struct etcd_lease *l = keeps ? NULL : plan_lease(p, &ttl);
    if (!l || own == k->count) {
        return;
    }
    struct snib__request *r = k->r[own];
    k->under[own] = l->id;
    const struct snib__stored_claim *c = &k->s.claim[claim].c;
    if (snib__rules_claim_holds(c)) {
        snib_duration length = {c->lease.ns + c->delay.ns};
        snib_duration drift = snib__etcd_lease_drift(l->ttl, length);
        k->ends[own] = snib__before(snib__etcd_lease_end(l),
                                    (snib_duration){c->delay.ns + drift.ns});
    }
    if (r->verb == SNIB__ACQUIRE && l->ttl > r->late) {
        r->late = l->ttl;
    }
}

static uint32_t plan_lock_of(const struct snib__snapshot *s,
                             const struct snib__name *name)
{
    uint32_t lock = 0;
    while (s->lock[lock].name != name) {
        lock++;
    }
    return lock;
}

static void plan_key(struct plan *p, const struct snib__guard *g,
                     struct etcd_key *ret)
{
    struct etcd_place place = {.number = 0};
    if (g->key.kind == SNIB__KEY_CLAIM &&
        !snib__etcd_place_take(p->e, p->k, &g->key, &place)) {
        p->out->failed = true;
    }
    snib__etcd_key_row(p->e, &g->key, &place, ret);
}

/* (An upgrade whose own grant has gone is passed over, and its row stays.) */
static bool plan_may_be_last(const struct snib__snapshot_claim *c,
                             const struct snib__request *r)
{
    return c->c.state == SNIB__WAITS && c->c.kind == SNIB_KIND_MUTEX &&
           !(c->c.upgrade_of[0] | c->c.upgrade_of[1]) && c->stamp &&
           !c->changed && !c->gone && !c->left &&
           memcmp(c->c.request, r->id, sizeof r->id) != 0;
}

/* Who queues for a mutex behind somebody needs not know that the lock row is as it
 * was: each release changes that, and where many come nobody would get a place. As
 * long as the one before him waits as he was seen to, the lock is not free, and
 * whoever gives it back looks at the queue afterwards. (Nobody has come in between:
 * that the arrivals say.) That his key is there is not enough: it outlives him, as a
 * tombstone. False: he stands behind nobody. */
static bool plan_behind(struct plan *p, const struct snib__name *name)
{
    const struct etcd_step *k = p->k;
    const struct snib__request *r = k->r[0];
    const struct snib__snapshot_claim *last = NULL;
    struct etcd_key key;
    uint32_t at = 0;
    if (k->count > 1 || r->verb != SNIB__ACQUIRE ||
        r->said.answer != SNIB__QUEUED || !k->s.lock[0].arrived ||
        r->acquire.kind != SNIB_KIND_MUTEX) {
        return false;
    }
    for (uint32_t i = 0; i < k->fetched_count; i++) {
        const struct snib__snapshot_claim *c = &k->s.claim[i];
        if (plan_may_be_last(c, r) && (!last || c->c.id > last->c.id)) {
            last = c;
            at = i;
        }
    }
    if (!last) {
        return false;
    }
    snib__etcd_key_row(
        p->e, &(struct snib__key){.kind = SNIB__KEY_CLAIM, .name = name},
        &k->fetched[at].place, &key);
    snib__etcd_compare(p->out, snib__etcd_text_of(&key), last->stamp);
    p->compares++;
    return true;
}

static void plan_guard(struct plan *p, const struct snib__guard *g)
{
    const struct snib__snapshot *s = &p->k->s;
    struct etcd_key key;
    struct etcd_ttl ttl;
    struct snib__etcd_text value = {snib__buf_bytes(&s->bytes) + g->at,
                                    g->size};
    if (g->key.kind == SNIB__KEY_FLOOR) {
        return; /* there is no cleaner that would write it */
    }
    if (g->key.kind == SNIB__KEY_LOCK && g->todo == SNIB__GUARD_KEEP &&
        plan_behind(p, g->key.name)) {
        p->behind = true;
        return;
    }
    plan_key(p, g, &key);
    snib__etcd_compare(p->out, snib__etcd_text_of(&key), g->stamp);
    p->compares++;
    switch (g->todo) {
    case SNIB__GUARD_KEEP:
        break;
    case SNIB__GUARD_PUT:
        if (g->key.kind == SNIB__KEY_CLAIM) {
            plan_put_claim(p, g, &key, value);
        } else {
            uint32_t lock = plan_lock_of(s, g->key.name);
            ttl = plan_ttl_memory(p, lock);
            plan_put(p, &key, value, &ttl);
            *(g->key.kind == SNIB__KEY_LOCK ? &p->k->row[lock].put
                                            : &p->k->arrivals[lock].put) = true;
        }
        break;
    case SNIB__GUARD_DELETE:
        snib__etcd_txn_delete(p->out, snib__etcd_text_of(&key));
        p->writes++;
        break;
    }
}

/* -- what a name remembers --------------------------------------------------- */

/* Has this client put it within the hour? */
static bool plan_is_young(const struct plan *p, const struct snib__name *name,
                          snib__key_kind kind, int64_t lease)
{
    snib_duration hour = snib__ms(ETCD_MEMORY_AGE_MS);
    const struct etcd_lease *under = snib__etcd_lease_of(p->e, lease);
    const struct etcd_kept *kept =
        &p->e->kept[name->hash % ETCD_KEPT][kind == SNIB__KEY_ARRIVALS];
    return (under && snib__between(under->sent, p->now).ns <= hour.ns) ||
           (kept->hash == name->hash && kept->at.ns &&
            snib__between(kept->at, p->now).ns <= hour.ns);
}

/* For how long has this request been waiting? (It may have its first step.) */
static snib_duration plan_waited(const struct plan *p,
                                 const struct snib__request *r)
{
    struct snib__key key = {.name = r->name, .request = {r->id[0], r->id[1]}};
    const struct snib__snapshot *s = &p->k->s;
    uint32_t lock = 0;
    while (!snib__name_same(s->lock[lock].name, r->name)) {
        lock++;
    }
    key.name = s->lock[lock].name;
    uint32_t claim = plan_claim_of(s, &key);
    return claim < s->claims ? snib__between(s->claim[claim].c.since,
                                             snib__etcd_wall(p->e, p->now))
                             : (snib_duration){0};
}

/* Does this request, which is being answered, keep the memory of its name? A
 * holder does by its renewals. Who waits at a closed latch does at once, since
 * nobody holds there; any other waiter when it has waited for an hour. */
static bool plan_keeps(const struct plan *p, const struct snib__request *r,
                       uint32_t lock)
{
    const struct snib__snapshot_lock *l = &p->k->s.lock[lock];
    if (!snib__name_same(l->name, r->name)) {
        return false;
    }
    if (r->verb == SNIB__RENEW) {
        return r->said.answer == SNIB__DONE;
    }
    return r->verb == SNIB__ACQUIRE && r->said.answer == SNIB__QUEUED &&
           (l->row.params.latch > 0 ||
            plan_waited(p, r).ns > snib__ms(ETCD_MEMORY_AGE_MS).ns);
}

static bool plan_is_compared(const struct plan *p, snib__key_kind kind,
                             const struct snib__name *name)
{
    bool skipped = p->behind && kind == SNIB__KEY_LOCK;
    for (uint32_t i = 0; i < p->k->s.guards && !skipped; i++) {
        const struct snib__key *key = &p->k->s.guard[i].key;
        if (key->kind == kind && key->name == name) {
            return true;
        }
    }
    return false;
}

/* It is put as it is, under a younger lease. */
static void plan_put_anew(struct plan *p, uint32_t lock, snib__key_kind kind,
                          uint64_t stamp, struct etcd_memory *m)
{
    const struct snib__name *name = p->k->s.lock[lock].name;
    struct etcd_ttl ttl = plan_ttl_memory(p, lock);
    struct etcd_key key;
    if (!stamp || m->put || plan_is_young(p, name, kind, m->lease)) {
        return;
    }
    snib__etcd_key_row(p->e, &(struct snib__key){.kind = kind, .name = name},
                       NULL, &key);
    if (!plan_is_compared(p, kind, name)) {
        snib__etcd_compare(p->out, snib__etcd_text_of(&key), stamp);
        p->compares++;
    }
    plan_put(p, &key, m->bytes, &ttl);
    m->put = true;
}

/* Neither a renewal nor a poll writes the lock row, and a lock may be held, or
 * waited for, for longer than a day: so now and then they put it anew. */
static void plan_remember(struct plan *p)
{
    struct etcd_step *k = p->k;
    for (uint32_t i = 0; i < k->s.locks; i++) {
        bool keeps = false;
        for (uint32_t j = 0; j < k->count; j++) {
            keeps = keeps || plan_keeps(p, k->r[j], i);
        }
        if (keeps) {
            plan_put_anew(p, i, SNIB__KEY_LOCK, k->s.lock[i].stamp, &k->row[i]);
            plan_put_anew(p, i, SNIB__KEY_ARRIVALS, k->s.lock[i].arrivals_stamp,
                          &k->arrivals[i]);
        }
    }
}

/* -- notifiers ------------------------------------------------------------- */

static bool plan_same_client(const struct snib__told *a,
                             const struct snib__told *b)
{
    return !memcmp(a->client, b->client, sizeof a->client);
}

/* One put for each client: no key may stand in a transaction twice. */
static void plan_tell(struct plan *p, uint32_t first)
{
    const struct snib__snapshot *s = &p->k->s;
    struct snib__buf ids;
    struct etcd_key key;
    struct etcd_ttl ttl =
        snib__etcd_ttl_seconds(PLAN_TOLD, ETCD_ALIVE_AGE_MS, p->k->begun);
    for (uint32_t i = 0; i < first; i++) {
        if (plan_same_client(&s->told[i], &s->told[first])) {
            return;
        }
    }
    snib__buf_init(&ids, (size_t)ETCD_ID * (s->tolds + 1));
    for (uint32_t i = first; i < s->tolds; i++) {
        if (plan_same_client(&s->told[i], &s->told[first])) {
            char id[ETCD_ID + 1];
            snib__etcd_id_text(s->told[i].request, id);
            snib__buf_add(&ids, id, ETCD_ID);
        }
    }
    snib__etcd_key_notifier(p->e, s->told[first].client, &key);
    plan_put(
        p, &key,
        (struct snib__etcd_text){snib__buf_bytes(&ids), snib__buf_size(&ids)},
        &ttl);
    snib__buf_free(&ids); /* without memory the polls find out */
}

/* -- all of it -------------------------------------------------------------- */

etcd_planned snib__etcd_plan(struct snib__etcd *e, snib_instant now,
                             struct etcd_step *k, struct snib__buf *ret)
{
    struct plan p = {.e = e, .now = now, .k = k, .out = ret};
    memset(k->ends, 0, sizeof k->ends);
    for (uint32_t i = 0; i < k->s.locks; i++) {
        k->row[i].put = k->arrivals[i].put = false;
    }
    for (uint32_t i = 0; i < k->s.guards; i++) {
        plan_guard(&p, &k->s.guard[i]);
    }
    plan_remember(&p);
    for (uint32_t i = 0; i < k->s.tolds && p.writes < ETCD_OPS; i++) {
        plan_tell(&p, i); /* whom that leaves out finds out by its poll */
    }
    snib__etcd_plan_fetch(e, k, SNIB__ETCD_FAILURE, ret);
    bool fewer = k->count > 1 || (k->s.tolds && k->s.book.most > 1);
    if (fewer && (p.compares > ETCD_OPS || p.writes > ETCD_OPS)) {
        return PLAN_LARGE;
    }
    return p.waits ? PLAN_WAITS : ret->failed ? PLAN_NOMEM : PLANNED;
}

static void plan_note_memory(struct snib__etcd *e, const struct etcd_step *k)
{
    for (uint32_t i = 0; i < k->s.locks; i++) {
        uint64_t hash = k->s.lock[i].name->hash;
        struct etcd_kept *kept = e->kept[hash % ETCD_KEPT];
        if (k->row[i].put) {
            kept[0] = (struct etcd_kept){hash, k->sent};
        }
        if (k->arrivals[i].put) {
            kept[1] = (struct etcd_kept){hash, k->sent};
        }
    }
}

void snib__etcd_plan_answer(struct snib__etcd *e, snib_instant now,
                            struct etcd_step *k)
{
    plan_note_memory(e, k);
    for (uint32_t i = 0; i < k->count; i++) {
        struct snib__request *r = k->r[i];
        bool grants = r->verb == SNIB__ACQUIRE ||
                      (r->verb == SNIB__RENEW && !r->renew.only_asks);
        if (grants && r->said.answer == SNIB__DONE) {
            r->said.valid_from =
                snib__sooner(k->sent, snib__before(k->ends[i], r->said.left));
            r->said.far =
                snib__etcd_token_far(e, now, r->token + r->acquire.reserve);
        }
    }
}

void snib__etcd_plan_ahead(struct snib__etcd *e, snib_instant now,
                           const struct etcd_step *k)
{
    for (uint32_t i = 0; i < k->count; i++) {
        const struct snib__request *r = k->r[i];
        bool renews = r->verb == SNIB__RENEW && !r->renew.only_asks;
        bool acquires =
            r->verb == SNIB__ACQUIRE && r->said.answer != SNIB__QUEUED;
        struct etcd_ttl hold = snib__etcd_ttl_hold(
            (snib_duration){r->lease.ns + r->acquire.delay.ns}, k->begun);
        if (acquires || renews) {
            (void)snib__etcd_lease_for(e, now, &hold);
        }
    }
}

void snib__etcd_plan_fetch(struct snib__etcd *e, struct etcd_step *k,
                           uint32_t branch, struct snib__buf *ret)
{
    struct etcd_key from, to;
    struct snib__etcd_range range = {.limit = 0};
    if (k->s.want_highest) {
        snib__etcd_key_all(e, &from, &to);
        range.from = snib__etcd_text_of(&from);
        range.to = snib__etcd_text_of(&to);
        snib__etcd_txn_range(ret, branch, &range);
    }
    for (uint32_t i = 0; i < k->s.locks; i++) {
        snib__etcd_key_lock(e, k->s.lock[i].name, &from, &to);
        range.from = snib__etcd_text_of(&from);
        range.to = snib__etcd_text_of(&to);
        snib__etcd_txn_range(ret, branch, &range);
    }
}

/* sim/sql/quick.c — the short way: a lock that is free is taken, and a grant that
 * stands is renewed or released, by one statement and without a snapshot.
 *
 * A statement that finds anything else changes nothing and returns no row; its
 * client then goes the long way. What it has done is said to the theorems when its
 * transaction is committed. */
#include <stdio.h>
#include <string.h>

#include "sim/sql/statements_i.h"

/* Said when the transaction is committed. */
static void quick_done(struct sim_sql_st *t, const struct sim_seen *seen)
{
    struct sim_sql_session *s = t->s;
    if (!s->has_act) {
        s->act.node = 0;
        s->act.everywhere = s->act.several = s->act.all = false;
        s->act.missed = -1;
        s->act.count = 0;
        s->has_act = true;
    }
    s->act.part[s->act.count] = *seen;
    s->act.part[s->act.count++].now_ms = s->us / 1000;
}

static struct sim_seen quick_seen(const struct sim_sql_st *t,
                                  enum sim_deed deed, enum sim_said said,
                                  int name, const struct snib__stored_claim *c)
{
    struct sim_seen s = {.deed = deed, .said = said, .name = name};
    s.class = 128 + c->rank;
    sim_id_text(c->client, s.client);
    sim_id_text(c->request, s.request);
    s.at = t->s->table->server->world->t;
    return s;
}

static const char *quick_nothing(struct sim_sql_st *t)
{
    sim_put(t->out, 0);
    sim_put(t->out, 0);
    return NULL;
}

static int64_t quick_end_of(const struct sim_row *h)
{
    return h->c.until.ns + (h->c.delay.ns > 0 ? h->c.delay.ns : 0);
}

static int64_t quick_token_clock(int64_t us)
{
    return us / 1000 * 1024 + us % 1000 * 1024 / 1000;
}

static bool quick_is_free(const struct sim_sql_st *t, int name)
{
    const struct sim_sql_param *p = t->p;
    const struct sim_row *l = sim_sql_lock_row(t, name);
    const struct sim_row *h = sim_sql_holder_row(t, name);
    int64_t us = t->s->us, clock = quick_token_clock(us);
    return l && l->stamp && !sim_sql_claims_of(t, name) && !l->l.params.latch &&
           l->l.token >= 0 && l->l.token < SNIB__TOKEN_END && us <= p[13].n &&
           p[7].n <= clock + INT64_C(88473600000) &&
           (!h || quick_end_of(h) <= us * 1000);
}

const char *sim_sql_acquire(struct sim_sql_st *t)
{
    const struct sim_sql_param *p = t->p;
    int name = sim_sql_name_of(&p[0]);
    if (!quick_is_free(t, name)) {
        return quick_nothing(t);
    }
    if (!sim_sql_lock_name(t, name)) {
        return SIM_SQL_WAITS;
    }
    struct snib__lock_row l = sim_sql_lock_row(t, name)->l;
    struct sim_key key = sim_sql_key_of(SNIB__KEY_ARRIVALS, name);
    const struct sim_row *h = sim_sql_holder_row(t, name);
    int64_t us = t->s->us, clock = quick_token_clock(us), token = l.token + 1;
    token = clock > token ? clock : token;
    token = p[7].n + 1 > token ? p[7].n + 1 : token;
    int64_t last = sim_sql_arrivals_of(sim_sql_row(t->s, &key));
    struct snib__stored_claim c = {.id = last + 1,
                                   .state = SNIB__HOLDS,
                                   .kind = (snib_kind)p[4].n,
                                   .permits = (uint32_t)p[5].n,
                                   .reserve = (uint32_t)p[6].n,
                                   .token = token,
                                   .floor = p[7].n,
                                   .rank = (int)p[8].n,
                                   .lease = {p[9].n},
                                   .delay = {p[10].n},
                                   .since = {us * 1000},
                                   .until = {us * 1000 + p[9].n}};
    sim_sql_id_of(&p[2], c.request);
    sim_sql_id_of(&p[3], c.client);
    snprintf(c.notifier, sizeof c.notifier, "%.*s", (int)p[11].size,
             (const char *)p[11].p);
    if (h) {
        struct sim_key over = h->key;
        sim_sql_delete(t->s, &over);
    }
    l.token = token + p[6].n;
    sim_sql_put_lock(t, &l, (uint64_t)p[1].n, name);
    sim_sql_put_claim(t, &c, p[12].p, p[12].size, (uint64_t)p[1].n, name);
    struct sim_seen seen =
        quick_seen(t, SIM_DID_ACQUIRE, SIM_SAID_GRANTED, name, &c);
    seen.given = token;
    quick_done(t, &seen);
    sim_sql_answer(t, (int64_t[]){token, us}, 2);
    return NULL;
}

/* The claim that is to be renewed: that of the name's row, or of one who shares. */
static const struct sim_row *quick_renewable(const struct sim_sql_st *t,
                                             int name, bool share)
{
    const struct sim_sql_param *p = t->p;
    struct sim_key key = sim_sql_claim_key(t, name, 1);
    const struct sim_row *row = sim_sql_row(t->s, &key);
    bool right = row && (share ? row->c.state == SNIB__SHARES
                               : row->c.state == SNIB__HOLDS);
    return right && (p[2].n == row->c.token || (!share && !p[2].n)) &&
                   row->c.until.ns > t->s->us * 1000
               ? row
               : NULL;
}

const char *sim_sql_renew(struct sim_sql_st *t, bool share)
{
    const struct sim_sql_param *p = t->p;
    int name = sim_sql_name_of(&p[0]);
    const struct sim_row *row = quick_renewable(t, name, share);
    uint64_t client[2];
    if (!row) {
        return quick_nothing(t);
    }
    struct sim_key key = row->key;
    if (!(share ? sim_sql_lock(t->s, &key) : sim_sql_lock_name(t, name))) {
        return SIM_SQL_WAITS;
    }
    struct snib__stored_claim c;
    const void *about;
    size_t size;
    uint8_t copy[SIM_ROW_BYTES];
    (void)snib__layout_claim(row->bytes, row->size, &c, &about, &size, NULL);
    memcpy(copy, about, size);
    int64_t until = t->s->us * 1000 + p[4].n;
    c.lease.ns = p[4].n;
    c.until.ns = until > c.until.ns ? until : c.until.ns;
    sim_sql_id_of(&p[6], client);
    if (!memcmp(client, c.client, sizeof client)) {
        snprintf(c.notifier, sizeof c.notifier, "%.*s", (int)p[5].size,
                 (const char *)p[5].p);
    }
    sim_sql_put_claim(t, &c, copy, size, (uint64_t)p[3].n, name);
    /* Without a token it is a waiter, that asks whether it was granted. */
    bool confirms = !p[2].n;
    struct sim_seen seen =
        quick_seen(t, confirms ? SIM_DID_ACQUIRE : SIM_DID_RENEW,
                   confirms ? SIM_SAID_GRANTED : SIM_SAID_DONE, name, &c);
    seen.token = p[2].n;
    seen.lease_ms = p[4].n / 1000000;
    seen.given = c.token;
    quick_done(t, &seen);
    int64_t said[] = {c.token, t->s->us, c.reserve, c.permits, c.slot};
    sim_sql_answer(t, said, share ? 5 : 4);
    return NULL;
}

const char *sim_sql_release(struct sim_sql_st *t)
{
    const struct sim_sql_param *p = t->p;
    int name = sim_sql_name_of(&p[0]);
    const struct sim_row *h = sim_sql_holder_row(t, name);
    const struct sim_row *l = sim_sql_lock_row(t, name);
    uint64_t id[2];
    sim_sql_id_of(&p[1], id);
    if (!h || !l || memcmp(h->key.request, id, sizeof id) ||
        h->c.token != p[2].n || h->c.until.ns <= t->s->us * 1000 ||
        sim_sql_claims_of(t, name)) {
        return quick_nothing(t);
    }
    if (!sim_sql_lock_name(t, name)) {
        return SIM_SQL_WAITS;
    }
    struct sim_key key = h->key;
    struct sim_seen seen =
        quick_seen(t, SIM_DID_RELEASE, SIM_SAID_ENDED, name, &h->c);
    struct snib__lock_row row = l->l;
    seen.token = p[2].n;
    sim_sql_delete(t->s, &key);
    sim_sql_put_lock(t, &row, (uint64_t)p[3].n, name);
    quick_done(t, &seen);
    sim_sql_answer(t, (int64_t[]){0, t->s->us}, 2);
    return NULL;
}

/* A released grant that its client keeps (core/claim_keep.c).
 *
 * Who waits is given what is kept: while somebody stands in the queue nothing is
 * kept for longer than it takes a message to come and the grant to go back (P6).
 * Checked after every event, while the keeper's connections and the server are
 * sound and nothing happens to them.
 *
 * Who was told enters no more (P7): once the bytes "k <request>" have reached
 * the client it keeps that grant no longer, and no owner enters it. Always.
 *
 * What is entered was granted a second ago at most, in worlds without faults,
 * and its token is one of those that the store reserved for that grant. Nothing
 * is kept for longer than its caller said, unless its client stands still, nor by
 * a client that knows that its subscription is gone. */
#include <string.h>

#include "core/engine_i.h"
#include "sim/world.h"

enum { SUBS = 2, HOPS = 64, MARK = 4 };

static int64_t some_hops(const struct sim_world *w)
{
    return HOPS * w->opt.latency_us * 1000 + 5 * SIM_MS;
}

/* The claim that this client keeps; NULL: none. */
static const struct snib__claim *kept(const struct sim_world *w, int client,
                                      int name)
{
    const struct sim_client *c = &w->client[client];
    const struct snib__claim *t = c->local[name] ? c->local[name]->claim : NULL;
    return t && t->state == SNIB__CLAIM_KEPT ? t : NULL;
}

bool sim_keeps(const struct sim_world *w, int client)
{
    for (int n = 0; w->opt.keeper_pct && n < w->opt.names; n++) {
        if (kept(w, client, n)) {
            return true;
        }
    }
    return false;
}

static bool was_told(const struct sim_world *w, int client, const char *id)
{
    const struct sim_keeper *k = &w->keeper[client];
    for (uint32_t i = 0; i < SIM_TOLD_KEEPER && i < k->tolds; i++) {
        if (sim_same(k->told[i], id)) {
            return true;
        }
    }
    return false;
}

/* -- messages -------------------------------------------------------------- */

void theorem_keeper_hears(struct sim_world *w, int client,
                          const struct snib__input *in)
{
    struct sim_keeper *k = &w->keeper[client];
    if (!w->opt.keeper_pct || in->kind != SNIB__IN_BYTES || in->conn != SUBS) {
        return;
    }
    const char *p = in->bytes, *end = p + in->size;
    for (; end - p >= MARK + SIM_ID + 2; p++) { /* whole, in one piece */
        if (!memcmp(p, "\r\nk ", MARK) &&
            !memcmp(p + MARK + SIM_ID, "\r\n", 2)) {
            memcpy(k->told[k->tolds++ % SIM_TOLD_KEEPER], p + MARK, SIM_ID);
        }
    }
}

/* -- what the store gave ---------------------------------------------------- */

void theorem_keeper_given(struct sim_world *w, const struct sim_seen *s)
{
    struct sim_given *g = s->name >= 0 ? &w->given[s->name] : NULL;
    if (g && s->said == SIM_SAID_GRANTED && !sim_same(g->id, s->request)) {
        memcpy(g->id, s->request, SIM_ID);
        g->at = w->t;
    }
}

/* An owner has entered without a request what its client had kept. */
void theorem_keeper_enters(struct sim_world *w, int client, int owner)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    const struct sim_holder *h;
    char id[33];
    sim_acquisition_id(l->acq, id);
    if (!w->opt.keeper_pct) {
        return;
    }
    w->entries++;
    if (was_told(w, client, id)) {
        sim_fail(w, "who was told enters no more",
                 "name %d: client %d enters %.8s", l->name, client, id);
    }
    if (w->p1_off || l->forced || w->opt.fault_count) {
        return;
    }
    if (sim_same(w->given[l->name].id, id) &&
        w->t - w->given[l->name].at >
            SNIB__KEEP_CHAIN_MS * SIM_MS / 100 * 101 + some_hops(w)) {
        sim_fail(w, "a keeper asks every second",
                 "name %d: %.8s was granted %lld ms ago", l->name, id,
                 (long long)((w->t - w->given[l->name].at) / SIM_MS));
    }
    h = sim_holder_of(&w->shelf[l->name].book, id);
    if (!h || l->token <= h->token || l->token > h->token + h->reserve) {
        sim_fail(w, "who enters has a token of its own",
                 "name %d: token %lld, of %lld and %lld", l->name,
                 (long long)l->token, h ? (long long)h->token : 0,
                 h ? (long long)h->reserve : 0);
    }
}

/* -- after every event ------------------------------------------------------ */

static bool somebody_waits(const struct sim_world *w, int name)
{
    const struct sim_book *b = &w->shelf[name].book;
    int64_t now = sim_wall_us(w, 0) / 1000;
    for (int i = 0; i < b->waiters; i++) {
        if (b->waiter[i].queued && b->waiter[i].alive > now) {
            return true;
        }
    }
    return false;
}

static void look_at(struct sim_world *w, int client, int name)
{
    struct sim_keeping *k = &w->keeper[client].name[name];
    const struct snib__claim *t = kept(w, client, name);
    char id[33];
    if (!t || w->client[client].paused_until > w->t) {
        *k = (struct sim_keeping){0};
        return;
    }
    sim_id_text(t->id, id);
    if (was_told(w, client, id)) {
        sim_fail(w, "who was told keeps nothing",
                 "name %d: client %d keeps %.8s", name, client, id);
    }
    if (w->client[client].wire[SUBS].state != SIM_WIRE_OPEN) {
        sim_fail(w, "who hears nothing keeps nothing",
                 "name %d: client %d keeps %.8s", name, client, id);
    }
    k->since = k->since ? k->since : w->t;
    if (w->t - k->since > w->opt.keeper_ms * SIM_MS / 100 * 101 + 2 * SIM_MS) {
        sim_fail(w, "kept for its time",
                 "name %d: client %d keeps it for %lld ms", name, client,
                 (long long)((w->t - k->since) / SIM_MS));
    }
    if (!somebody_waits(w, name)) {
        k->beside = 0;
    } else if (!k->beside || k->faults != w->faults || w->healed) {
        k->beside = w->t;
        k->faults = w->faults;
    } else if (w->t - k->beside > some_hops(w) && sim_listens(w, client)) {
        sim_fail(w, "who waits is given what is kept",
                 "name %d: client %d keeps it beside a waiter for %lld ms",
                 name, client, (long long)((w->t - k->beside) / SIM_MS));
    }
}

void theorem_keepers(struct sim_world *w)
{
    for (int i = 0; w->opt.keeper_pct && i < w->opt.clients * w->opt.names;
         i++) {
        int client = i / w->opt.names, name = i % w->opt.names;
        if (w->client[client].engine && !w->client[client].dead) {
            look_at(w, client, name);
        }
    }
}

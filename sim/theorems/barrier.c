/* The parties of a barrier go together or not at all. A step that lets one
 * party in lets in as many as the barrier has. Each of them was waiting at that
 * moment, or sent this step, and all share one token, the number of their
 * generation. Checked at the server after every step.
 *
 * A party that was counted is told so, or is told that nobody knows. It is
 * never told "no" while the others pass because it was counted. Checked when a
 * wait ends. Excused: a "no" after the grant has already ended at the server
 * (its push lease ran out, or the data were lost) before the client heard of
 * it. */
#include <stdio.h>
#include <string.h>

#include "core/engine_i.h"
#include "sim/world.h"

void theorem_parties_meet(struct sim_world *w, const struct sim_step *s)
{
    int64_t parties = 0, token = 0;
    int given = 0;
    for (int i = 0; i < s->is->holders; i++) {
        const struct sim_holder *h = &s->is->holder[i];
        if (h->mode != 4 || !sim_is_new(s, h)) {
            continue;
        }
        if (given++ && h->token != token) {
            sim_fail(w, "parties meet", "name %d: tokens %lld and %lld",
                     s->name, (long long)token, (long long)h->token);
        }
        if (!sim_waiter_of(s->was, h->id) && !sim_same(h->id, s->by->request)) {
            sim_fail(w, "parties meet", "name %d: %.8s was not waiting",
                     s->name, h->id);
        }
        token = h->token;
        parties = h->permits;
    }
    if (given != parties) {
        sim_fail(w, "parties meet", "name %d: %d of %lld parties let in",
                 s->name, given, (long long)parties);
    }
}

static struct sim_party *party_of(struct sim_world *w, const char *id)
{
    for (int i = 0; i < SIM_PARTIES; i++) {
        if (w->party[i].id[0] && sim_same(w->party[i].id, id)) {
            return &w->party[i];
        }
    }
    return NULL;
}

/* Remember each request by which an owner waits just now. */
void theorem_parties_ask(struct sim_world *w)
{
    if (w->opt.flavour != SIM_BARRIER) {
        return;
    }
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        int client = i / w->opt.owners, owner = i % w->opt.owners;
        const struct sim_owner *l = &w->client[client].owner[owner];
        bool waits = l->state == SIM_OWNER_WAITING && l->acq &&
                     l->kind == SNIB_KIND_BARRIER;
        const struct snib__claim *t = waits ? l->acq->local->claim : NULL;
        char id[SIM_ID + 1];
        if (!t) {
            continue;
        }
        sim_id_text(t->id, id);
        if (!party_of(w, id)) {
            struct sim_party *p = &w->party[w->parties++ % SIM_PARTIES];
            *p = (struct sim_party){.client = client, .owner = owner};
            memcpy(p->id, id, sizeof p->id);
        }
    }
}

void theorem_party_sits_down(struct sim_world *w, int client, int owner)
{
    for (int i = 0; i < SIM_PARTIES; i++) {
        struct sim_party *p = &w->party[i];
        if (p->client == client && p->owner == owner) {
            p->owner = -1;
        }
    }
}

void theorem_parties_counted(struct sim_world *w, const struct sim_step *s)
{
    for (int i = 0; i < s->is->holders; i++) {
        const struct sim_holder *h = &s->is->holder[i];
        struct sim_party *p = h->mode == 4 ? party_of(w, h->id) : NULL;
        if (!p || !sim_is_new(s, h)) {
            continue;
        }
        if (p->told_no && !w->p1_off) {
            sim_fail(w, "who is counted is told",
                     "name %d: %.8s is counted although it was told no",
                     s->name, h->id);
        }
        memmove(p->earlier + 1, p->earlier,
                sizeof p->earlier - sizeof p->earlier[0]);
        p->earlier[0] = p->token;
        p->token = h->token;
    }
    const char *id = s->by->request;
    struct sim_party *p =
        s->by->deed == SIM_DID_CANCEL ? party_of(w, id) : NULL;
    if (p && sim_holder_of(s->was, id) && !sim_holder_of(s->is, id)) {
        p->ended = true;
    }
}

static bool stands(struct sim_world *w, int name, const char *id)
{
    static _Thread_local struct sim_book is;
    sim_book_read(w, name, &is);
    const struct sim_holder *h = sim_holder_of(&is, id);
    return h && sim_live(h, is.now);
}

/* A party can be counted in more than one generation, if its push lease ran
 * out before it heard of the first. */
static bool was_counted_in(const struct sim_party *p, int64_t token)
{
    bool in = p->token == token;
    for (size_t i = 0; i < sizeof p->earlier / sizeof p->earlier[0]; i++) {
        in |= p->earlier[i] == token;
    }
    return in;
}

void theorem_who_was_counted_is_told(struct sim_world *w, int client, int owner,
                                     const struct snib__acquisition *s)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    bool no = s->state == SNIB__ACQ_REFUSED, known = true;
    int64_t other = 0;
    if (w->opt.flavour != SIM_BARRIER || (no && s->err == SNIB_ERR_UNKNOWN)) {
        return;
    }
    for (int i = 0; i < SIM_PARTIES; i++) {
        struct sim_party *p = &w->party[i];
        if (p->client != client || p->owner != owner || !p->id[0]) {
            continue;
        }
        if (p->token) {
            known = was_counted_in(p, s->token);
            other = p->token;
        }
        if (no && p->token && !w->p1_off &&
            (p->ended || stands(w, l->name, p->id))) {
            sim_fail(w, "who is counted is told",
                     "client %d owner %d name %d: %s, but %.8s was counted, "
                     "generation %lld",
                     client, owner, l->name, snib_err_name(s->err), p->id,
                     (long long)p->token);
        }
        p->told_no = no;
        p->owner = -1;
    }
    if (!no && !known) {
        sim_fail(w, "who is counted is told",
                 "client %d owner %d name %d: generation %lld is told as %lld",
                 client, owner, l->name, (long long)other, (long long)s->token);
    }
}

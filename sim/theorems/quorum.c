/* A quorum's promises (docs/QUORUM.md).
 *
 * Exclusion is checked by exclusion.c: by deadline, at the clients. It is not
 * promised for a grant of which so many servers have lost their memory (or
 * stepped their clock forward) that it no longer stands on a majority: then the
 * fence alone protects. A server that stays away for longer than the lease
 * before it comes back empty is no excuse.
 *
 * Tokens rise strictly as owners enter, unless no majority remembers the last
 * one.
 *
 * At each server, after every step: it ends, shortens or replaces no grant
 * but its own, gives none for longer than the lease, and none that was
 * cancelled.
 *
 * In time, checked now and then while nothing is broken: what stands at a
 * server although nobody has it (any more) ends; a grant that is kept stands
 * everywhere; nobody waits beside a lock that a majority could give. */
#include <string.h>

#include "core/engine_i.h"
#include "sim/world.h"

enum {
    STRAY_MS = 1500,       /* no faults: a server's limit and some hops */
    STRAY_AFTER_MS = 6000, /* healed: connecting, told again */
    FREE_MS = 4000,
    FREE_AFTER_MS = 7500,
    TOMBSTONE_MS = 9900
};

/* -- at a server, script by script ----------------------------------------- */

static bool ended_by(const struct sim_seen *s, const struct sim_stand *was)
{
    if (s->deed != SIM_DID_RELEASE && s->deed != SIM_DID_CANCEL) {
        return false;
    }
    if (!sim_same(s->client, was->client)) {
        return false;
    }
    bool prior = s->deed == SIM_DID_CANCEL && s->prior == was->token;
    return prior || sim_same(s->request, was->id);
}

static bool given_by(const struct sim_seen *s, const struct sim_stand *is)
{
    return (s->deed == SIM_DID_KEEP || s->deed == SIM_DID_ACQUIRE) &&
           sim_same(s->client, is->client) && sim_same(s->request, is->id);
}

static bool was_cancelled(const struct sim_world *w, int node, const char *id)
{
    for (int i = 0; i < SIM_ENDED; i++) {
        const struct sim_ended *e = &w->ended[node][i];
        if (e->at && w->t - e->at < TOMBSTONE_MS * SIM_MS &&
            sim_same(e->id, id)) {
            return true;
        }
    }
    return false;
}

static void note_cancel(struct sim_world *w, int node, const struct sim_seen *s)
{
    if (s->deed == SIM_DID_CANCEL && s->said != SIM_SAID_ERROR) {
        struct sim_ended *e =
            &w->ended[node][w->ended_count[node]++ % SIM_ENDED];
        memcpy(e->id, s->request, SIM_ID);
        e->at = w->t;
    }
}

void theorem_own_grant_only(struct sim_world *w, int node, int name,
                            const struct sim_stand *was,
                            const struct sim_seen *s)
{
    const struct sim_stand *is = &w->stand[node][name];
    int64_t now = sim_wall_us(w, node) / 1000;
    bool same = sim_same(was->id, is->id);
    if (was->end > now && (!same || is->end < was->end) && !ended_by(s, was)) {
        sim_fail(w, "own grant only",
                 "name %d server %d: %.8s is %s %lld ms before its time", name,
                 node, was->id, same ? "shortened" : "gone",
                 (long long)(was->end - now));
    }
    if (is->end > now && (!same || was->end <= now) && !given_by(s, is)) {
        sim_fail(w, "own grant only", "name %d server %d: %.8s was not asked",
                 name, node, is->id);
    }
    if (is->end > now && !same && was_cancelled(w, node, is->id)) {
        sim_fail(w, "own grant only",
                 "name %d server %d: %.8s was cancelled, and is given", name,
                 node, is->id);
    }
    note_cancel(w, node, s);
    if (is->end > now + w->opt.lease_ms && is->end != was->end) {
        sim_fail(w, "own grant only",
                 "name %d server %d: %.8s for %lld ms, longer than its lease",
                 name, node, is->id, (long long)(is->end - now));
    }
}

/* -- at the clients -------------------------------------------------------- */

bool theorem_is_forgotten(const struct sim_world *w, int name,
                          const struct snib__acquisition *s)
{
    char id[33];
    if (!sim_quorum(w)) {
        return false;
    }
    sim_acquisition_id(s, id);
    uint32_t stands = sim_stands(w, name, id);
    struct sim_forgotten lost = sim_lost_at(w, name, id);
    return lost.early && __builtin_popcount(stands) < sim_majority(w) &&
           __builtin_popcount(stands | lost.nodes) >= sim_majority(w);
}

bool theorem_stands_firm(const struct sim_world *w, int name,
                         const struct snib__acquisition *s)
{
    char id[33];
    sim_acquisition_id(s, id);
    return w->minor && __builtin_popcount(sim_stands(w, name, id) &
                                          ~w->touched) >= sim_majority(w);
}

void theorem_quorum_token(struct sim_world *w, int client, int owner)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    struct sim_resource *r = &w->resource[l->name];
    char id[33];
    sim_acquisition_id(l->acq, id);
    if (l->token <= 0 || l->token >= INT64_C(1) << 53) {
        sim_fail(w, "token range", "token %lld", (long long)l->token);
    } else if (l->token <= r->last_token) {
        bool gone = w->no_memory[l->name] &&
                    __builtin_popcount(sim_remember(w, l->name, r->last_token,
                                                    id)) < sim_majority(w);
        if (!gone && !sim_lost_at(w, l->name, id).early) {
            sim_fail(w, "token rises", "name %d: %lld after %lld", l->name,
                     (long long)l->token, (long long)r->last_token);
        }
    }
    r->last_token = l->token > r->last_token ? l->token : r->last_token;
}

/* -- in time --------------------------------------------------------------- */

/* Does its client have this grant, or is it ending it? */
static bool has(const struct sim_client *c, int name,
                const struct sim_stand *st)
{
    const struct snib__claim *t = c->local[name]->claim;
    char id[33];
    if (!t || t->state == SNIB__CLAIM_ACQUIRING ||
        t->state == SNIB__CLAIM_QUEUED) {
        return false;
    }
    sim_id_text(t->id, id);
    return sim_same(id, st->id);
}

static void strays(struct sim_world *w, int name)
{
    int64_t most = w->opt.fault_count ? STRAY_AFTER_MS : STRAY_MS;
    for (int k = 0; k < w->nodes; k++) {
        struct sim_stand *st = &w->stand[k][name];
        int c = sim_client_of(w, st->client);
        if (!sim_stand_live(w, k, name) || c < 0 ||
            has(&w->client[c], name, st)) {
            st->stray_since = 0;
            continue;
        }
        st->stray_since = st->stray_since ? st->stray_since : w->t;
        int64_t since =
            st->stray_since > w->healed_at ? st->stray_since : w->healed_at;
        if (w->healed && w->t - since > most * SIM_MS) {
            sim_fail(w, "what nobody has ends everywhere",
                     "name %d server %d: %.8s of client %d stands for %lld ms",
                     name, k, st->id, c, (long long)((w->t - since) / SIM_MS));
        }
    }
}

static void whole(struct sim_world *w, int name)
{
    int64_t calm = w->healed_at + (w->opt.fault_count ? 5000 * SIM_MS : 0);
    int64_t due = (w->opt.lease_ms * 2 / 3 + 300) * SIM_MS +
                  200 * w->opt.latency_us * 1000;
    for (int i = 0; w->healed && i < w->opt.clients * w->opt.owners; i++) {
        const struct sim_client *c = &w->client[i / w->opt.owners];
        const struct sim_owner *l = &c->owner[i % w->opt.owners];
        char id[33];
        if (l->name != name || l->state != SIM_OWNER_HOLDING ||
            l->acq->state != SNIB__ACQ_SERVED || l->acq->options.fixed ||
            l->entered_at < calm || w->t - l->entered_at < due ||
            l->acq->shown != SNIB_STATE_HELD) {
            continue;
        }
        sim_acquisition_id(l->acq, id);
        uint32_t at = sim_stands(w, name, id);
        for (int k = 0; k < w->nodes; k++) {
            const struct sim_stand *st = &w->stand[k][name];
            if (!(at >> k & 1) && w->opt.far_node != k + 1 &&
                (!sim_stand_live(w, k, name) ||
                 sim_client_of(w, st->client) >= 0)) {
                sim_fail(w, "a grant is made whole",
                         "name %d: held by client %d for %lld ms, not at "
                         "server %d",
                         name, i / w->opt.owners,
                         (long long)((w->t - l->entered_at) / SIM_MS), k);
            }
        }
    }
}

/* The number of servers at which a grant stands in the way: that of a client
 * that is dead, or of one that holds or is ending it. */
static int in_the_way(const struct sim_world *w, int name)
{
    int n = 0;
    for (int k = 0; k < w->nodes; k++) {
        const struct sim_stand *st = &w->stand[k][name];
        int c = sim_client_of(w, st->client);
        n += sim_stand_live(w, k, name) &&
             (c < 0 || !w->client[c].local[name]->claim ||
              has(&w->client[c], name, st));
    }
    return n;
}

static void free_beside_a_waiter(struct sim_world *w, int name)
{
    struct sim_resource *r = &w->resource[name];
    bool calm = w->opt.fault_count == 0 || w->minor;
    bool waiting = false, busy = false;
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        const struct sim_client *c = &w->client[i / w->opt.owners];
        const struct sim_owner *l = &c->owner[i % w->opt.owners];
        if (l->name == name) {
            waiting |= sim_still_waits(l) && !l->is_try;
            busy |=
                l->state == SIM_OWNER_HOLDING || l->state == SIM_OWNER_ENDING;
        }
    }
    bool possible = w->nodes - in_the_way(w, name) >= sim_majority(w);
    bool slow = w->opt.lease_ms * 1000 <= 100 * w->opt.latency_us;
    if (!(w->healed || calm) || !waiting || busy || !possible || slow) {
        r->free_since = -1;
    } else if (r->free_since < 0) {
        r->free_since = w->t;
    } else if (w->t - r->free_since >
               (calm ? FREE_MS : FREE_AFTER_MS) * SIM_MS) {
        sim_fail(w, "no lost wake-up",
                 "name %d: free for %lld ms beside a waiter", name,
                 (long long)((w->t - r->free_since) / SIM_MS));
    }
}

void theorem_quorum_now_and_then(struct sim_world *w)
{
    for (int n = 0; n < w->opt.names; n++) {
        strays(w, n);
        whole(w, n);
        free_beside_a_waiter(w, n);
    }
}

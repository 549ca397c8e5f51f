/* Exclusion (P1): at no instant does an owner that wants the lock for itself (a
 * mutex, a writer) see `held` with its own deadline ahead while another owner
 * does, in whatever mode. Readers and holders of permits may be many.
 *
 * Checked after every event, at the same true time by each client's own clock.
 * Excused, since then the fence alone protects: all grants once the store has
 * lost what it acknowledged or its clock was stepped forward; a grant that was
 * force-released; a grant of a quorum of which a majority was forgotten. */
#include "sim/world.h"

struct claimant {
    int who; /* client and owner; -1: nobody so far */
    bool alone;
    int64_t token;
    const struct snib__acquisition *acq;
};

static bool holds(const struct sim_world *w, int client,
                  const struct snib__acquisition *s)
{
    const struct sim_client *c = &w->client[client];
    snib_instant now = {sim_local(c, w->t)};
    struct snib_status st;
    snib__engine_status(c->engine, now, s, &st);
    return st.state == SNIB_STATE_HELD || st.state == SNIB_STATE_AT_RISK;
}

static void look_at(struct sim_world *w, int client, int owner,
                    const struct sim_grant *g, struct claimant *all)
{
    const struct snib__acquisition *s = g->acq;
    struct claimant *o = &all[g->name];
    struct claimant me = {.who = client * SIM_ACQS + owner,
                          .alone = sim_alone(s->options.kind),
                          .token = s->token,
                          .acq = s};
    const struct sim_owner *l = &w->client[client].owner[owner];
    if (!holds(w, client, s) || (s == l->acq    ? l->forced
                                 : s == l->more ? l->more_forced
                                                : NULL)) {
        return;
    }
    if (o->who >= 0 && o->who != me.who && (o->alone || me.alone) &&
        !theorem_is_forgotten(w, g->name, o->acq) &&
        !theorem_is_forgotten(w, g->name, s)) {
        sim_fail(w, "mutual exclusion",
                 "name %d: client %d owner %d and client %d owner %d "
                 "(tokens %lld, %lld)",
                 g->name, o->who / SIM_ACQS, o->who % SIM_ACQS, client, owner,
                 (long long)o->token, (long long)me.token);
    }
    if (o->who < 0 || me.alone) {
        *o = me;
    }
}

void theorem_exclusion(struct sim_world *w)
{
    struct claimant all[SIM_NAMES];
    if (w->p1_off && !sim_failover(w)) {
        return;
    }
    for (int n = 0; n < SIM_NAMES; n++) {
        all[n].who = -1;
    }
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        int client = i / w->opt.owners, owner = i % w->opt.owners;
        struct sim_grant g[SIM_GRANTS];
        int n = sim_grants(&w->client[client].owner[owner], g);
        for (int k = 0; k < n; k++) {
            look_at(w, client, owner, &g[k], all);
        }
    }
}

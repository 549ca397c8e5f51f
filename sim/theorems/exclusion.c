/* P1: at no instant does an owner that wants the lock for itself see `held`
 * with its own deadline ahead while another owner does: a mutex, or a writer,
 * beside anybody of another lane; readers and lots of permits may be many.
 * Looked at with each client's own clock at the same true time; not once the
 * store has lost what it acknowledged or its clock was stepped forward (then
 * the fence alone protects). */
#include "sim/world.h"

struct owner {
    int who; /* client and lane; -1: nobody so far                          */
    bool alone;
    int64_t token;
    const struct snib__seat *seat;
};

static bool holds(const struct sim_world *w, int client,
                  const struct snib__seat *s)
{
    const struct sim_client *c = &w->client[client];
    snib_instant now = {sim_local(c, w->t)};
    struct snib_status st;
    snib__engine_status(c->engine, now, s, &st);
    return st.state == SNIB_HELD || st.state == SNIB_AT_RISK;
}

static void look_at(struct sim_world *w, int client, int lane,
                    const struct sim_grant *g, struct owner *all)
{
    const struct snib__seat *s = g->seat;
    struct owner *o = &all[g->name];
    struct owner me = {.who = client * SIM_SEATS + lane,
                       .alone = sim_alone(s->terms.kind),
                       .token = s->token,
                       .seat = s};
    const struct sim_lane *l = &w->client[client].lane[lane];
    if (!holds(w, client, s) || (s == l->seat   ? l->forced
                                 : s == l->more ? l->more_forced
                                                : NULL)) {
        return;
    }
    if (o->who >= 0 && o->who != me.who && (o->alone || me.alone) &&
        !theorem_is_forgotten(w, g->name, o->seat) &&
        !theorem_is_forgotten(w, g->name, s)) {
        sim_fail(w, "mutual exclusion",
                 "name %d: client %d lane %d and client %d lane %d "
                 "(tokens %lld, %lld)",
                 g->name, o->who / SIM_SEATS, o->who % SIM_SEATS, client, lane,
                 (long long)o->token, (long long)me.token);
    }
    if (o->who < 0 || me.alone) {
        *o = me;
    }
}

void theorem_exclusion(struct sim_world *w)
{
    struct owner all[SIM_NAMES];
    if (w->p1_off) {
        return;
    }
    for (int n = 0; n < SIM_NAMES; n++) {
        all[n].who = -1;
    }
    for (int i = 0; i < w->opt.clients * w->opt.lanes; i++) {
        int client = i / w->opt.lanes, lane = i % w->opt.lanes;
        struct sim_grant g[SIM_GRANTS];
        int n = sim_grants(&w->client[client].lane[lane], g);
        for (int k = 0; k < n; k++) {
            look_at(w, client, lane, &g[k], all);
        }
    }
}

/* A grant that is told stands. An owner that is shown a lock as held, with its
 * own deadline ahead, has it at the server: under that request, with a token of
 * that grant (its own or one of those reserved with it), and the server's lease
 * surely ends no sooner than that deadline. At a quorum it stands on a majority. And
 * no answer sets a deadline back.
 *
 * Checked after every event, for each grant whose deadline or whose book has
 * changed since. Excused, by name: a grant that stood when the store lost what
 * it had or when its clock was stepped forward; a grant that was force-released
 * (force.c says how long it may be shown). */
#include <string.h>

#include "core/engine_i.h"
#include "sim/world.h"

/* When a client's deadline is over, by the server's clock, in us. */
static int64_t over_us(const struct sim_world *w, const struct sim_client *c,
                       int64_t deadline)
{
    return sim_wall_us(w, 0) + (sim_true(c, deadline) - w->t) / 1000;
}

static bool excused(struct sim_world *w, int name, const char *id)
{
    return sim_lapsed(w, name, id) ||
           (sim_force(w) && sim_forced_of(w, name, id));
}

static void look_at(struct sim_world *w, int client, int owner,
                    const struct sim_grant *g, int64_t deadline)
{
    const struct sim_client *c = &w->client[client];
    char id[33];
    sim_acquisition_id(g->acq, id);
    const struct sim_holder *h = sim_holder_of(&w->shelf[g->name].book, id);
    int64_t over = over_us(w, c, deadline), token = g->acq->token;
    const char *what = !h                                           ? "held"
                       : token < h->token                           ? "older"
                       : token > h->token + h->reserve              ? "newer"
                       : h->token != g->acq->local->claim->token0   ? "renewed"
                       : over > (h->sure ? h->sure : h->end) * 1000 ? "later"
                                                                    : NULL;
    if (what && !excused(w, g->name, id)) {
        sim_fail(w, "what is told stands",
                 "client %d owner %d: name %d, token %lld: %.8s %s", client,
                 owner, g->name, (long long)token, id, what);
    }
}

/* A quorum: servers whose clocks went forward, or that came back empty, do not
 * count against it. */
static void look_at_majority(struct sim_world *w, int client, int owner,
                             const struct sim_grant *g)
{
    char id[33];
    sim_acquisition_id(g->acq, id);
    uint32_t at =
        sim_stands(w, g->name, id) | sim_lost_at(w, g->name, id).nodes;
    if (__builtin_popcount(at) < sim_majority(w)) {
        sim_fail(w, "what is told stands",
                 "client %d owner %d: name %d stands on no majority", client,
                 owner, g->name);
    }
}

/* The record of what was seen of that grant; a new grant takes the place of
 * another. */
static struct sim_shown *shown(struct sim_owner *l, uint64_t ticket, int k)
{
    for (int i = 0; i < SIM_GRANTS; i++) {
        if (l->shown[i].ticket == ticket) {
            return &l->shown[i];
        }
    }
    l->shown[k] = (struct sim_shown){.ticket = ticket, .deadline = INT64_MIN};
    return &l->shown[k];
}

static void look_at_owner(struct sim_world *w, int client, int owner)
{
    struct sim_client *c = &w->client[client];
    struct sim_owner *l = &c->owner[owner];
    struct sim_grant g[SIM_GRANTS];
    for (int k = sim_grants(l, g); k-- > 0;) {
        struct snib_status st;
        snib__engine_status(c->engine, sim_now(w, client), g[k].acq, &st);
        if (st.state != SNIB_STATE_HELD && st.state != SNIB_STATE_AT_RISK) {
            continue;
        }
        int64_t deadline = g[k].acq->local->claim->deadline.ns;
        struct sim_shown *was = shown(l, g[k].acq->ticket, k);
        if (deadline < was->deadline) {
            sim_fail(w, "no deadline goes back",
                     "client %d owner %d: name %d, by %lld us", client, owner,
                     g[k].name, (long long)(was->deadline - deadline) / 1000);
        }
        if (deadline != was->deadline) {
            theorem_lease_shown(w, client, owner, &g[k], deadline);
        }
        if (sim_quorum(w)) {
            look_at_majority(w, client, owner, &g[k]);
        } else if (deadline != was->deadline ||
                   was->book != w->shelf[g[k].name].number) {
            look_at(w, client, owner, &g[k], deadline);
        }
        was->deadline = deadline;
        was->book = w->shelf[g[k].name].number;
    }
}

void theorem_told_stands(struct sim_world *w)
{
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        look_at_owner(w, i / w->opt.owners, i % w->opt.owners);
    }
}

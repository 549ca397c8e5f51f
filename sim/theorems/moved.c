/* When a client finds another server than the one that granted what it holds, no
 * grant of that client is shown as held before that server has confirmed it.
 * Checked in the step in which the server has answered its greeting; nothing is
 * excused but fixed leases, which end when they end. */
#include "sim/world.h"

void theorem_another_server_is_a_risk(struct sim_world *w, int client)
{
    const struct sim_client *c = &w->client[client];
    struct snib__out *out = snib__engine_out(c->engine);
    snib_instant now = {sim_local(c, w->t)};
    bool moved = sim_list(w) && out->changed;
    out->changed = false;
    for (int i = 0; moved && i < w->opt.owners; i++) {
        struct sim_grant g[SIM_GRANTS];
        int n = sim_grants(&c->owner[i], g);
        for (int k = 0; k < n; k++) {
            struct snib_status st;
            snib__engine_status(c->engine, now, g[k].acq, &st);
            if (st.state == SNIB_STATE_HELD && !g[k].acq->options.fixed) {
                sim_fail(w, "another server puts grants at risk",
                         "client %d owner %d still shows held", client, i);
            }
        }
    }
}

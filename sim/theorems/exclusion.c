/* P1: at no instant do two owners both see `held` with their own deadline
 * ahead. Looked at with each client's own clock at the same true time; not
 * once the store has lost what it acknowledged or its clock was stepped
 * forward (then the fence alone protects). */
#include "sim/world.h"

void theorem_exclusion(struct sim_world *w)
{
    int owner[SIM_NAMES];
    if (w->p1_off) {
        return;
    }
    for (int n = 0; n < SIM_NAMES; n++) {
        owner[n] = -1;
    }
    for (int c = 0; c < w->opt.clients; c++) {
        struct sim_client *cl = &w->client[c];
        snib_instant now = {sim_local(cl, w->t)};
        for (int i = 0; i < w->opt.lanes; i++) {
            struct sim_lane *l = &cl->lane[i];
            struct snib_status st;
            if (l->state != SIM_LANE_HOLDING) {
                continue;
            }
            snib__engine_status(cl->engine, now, l->seat, &st);
            if (st.state != SNIB_HELD && st.state != SNIB_AT_RISK) {
                continue;
            }
            if (owner[l->name] >= 0) {
                sim_fail(w, "mutual exclusion",
                         "name %d: client %d lane %d and client %d lane %d "
                         "(token %lld)",
                         l->name, owner[l->name] / SIM_LANES,
                         owner[l->name] % SIM_LANES, c, i, (long long)l->token);
                return;
            }
            owner[l->name] = c * SIM_LANES + i;
        }
    }
}

/* After a jump of REALTIME against BOOTTIME (the host stood still) no grant of
 * that client is shown as held before the store has confirmed it. Checked just
 * after the client was told of the jump; nothing is excused. */
#include "sim/world.h"

void theorem_jump_puts_at_risk(struct sim_world *w, int client)
{
    const struct sim_client *c = &w->client[client];
    snib_instant now = {sim_local(c, w->t)};
    for (int i = 0; i < w->opt.owners; i++) {
        struct sim_grant g[SIM_GRANTS];
        int n = sim_grants(&c->owner[i], g);
        for (int k = 0; k < n; k++) {
            struct snib_status st;
            snib__engine_status(c->engine, now, g[k].acq, &st);
            if (st.state == SNIB_STATE_HELD) {
                sim_fail(w, "a jump puts grants at risk",
                         "client %d owner %d still shows held", client, i);
            }
        }
    }
}

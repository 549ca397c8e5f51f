/* A loss is told by the local deadline to every client that is running (P5).
 * Checked after every event: no running client still shows a grant as held (or
 * at risk) whose deadline has passed on its own clock. Excused: a client that
 * is paused. */
#include "sim/world.h"

/* Timers are armed for the first nanosecond at or after the deadline; the
 * conversion between clocks may cost a few microseconds. */
enum { SLACK_NS = 20000 };

void theorem_loss_is_told(struct sim_world *w)
{
    for (int c = 0; c < w->opt.clients; c++) {
        struct sim_client *cl = &w->client[c];
        if (cl->paused_until >= w->t) {
            continue;
        }
        snib_instant now = {sim_local(cl, w->t) - SLACK_NS};
        for (int i = 0; i < w->opt.owners; i++) {
            struct sim_grant g[SIM_GRANTS];
            int n = sim_grants(&cl->owner[i], g);
            for (int k = 0; k < n; k++) {
                struct snib_status st;
                snib__engine_status(cl->engine, now, g[k].acq, &st);
                if (st.state == SNIB_STATE_LOST &&
                    g[k].acq->shown != SNIB_STATE_LOST) {
                    sim_fail(w, "loss is told",
                             "client %d owner %d: deadline passed, not told", c,
                             i);
                }
            }
        }
    }
}

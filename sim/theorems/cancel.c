/* The position in the queue belongs to the client (P7). It is given up only
 * when none of the client's threads wants it any more.
 *
 * Checked at the server whenever a cancel is executed, in worlds without
 * faults: no owner of that client may have been waiting for the name since
 * before the cancel was sent. (Not where somebody may want a fixed lease, or
 * a shorter one: if he has come to be the first of them, a grant that was asked for
 * with other terms is of no use to him, and is given up.) */
#include "sim/world.h"

enum { TRAVEL = 100 };

void theorem_no_needless_cancel(struct sim_world *w, const struct sim_seen *s)
{
    if (w->opt.fault_count || w->opt.flavour || w->opt.searched ||
        w->opt.fixed_pct || w->opt.lease2_ms ||
        sim_circles(w) || /* there each owner has a request of its own */
        s->deed != SIM_DID_CANCEL) {
        return;
    }
    int64_t before = w->t - TRAVEL * w->opt.latency_us * 1000;
    int c = sim_client_of(w, s->client);
    for (int i = 0; c >= 0 && i < w->opt.owners; i++) {
        const struct sim_owner *l = &w->client[c].owner[i];
        if (sim_still_waits(l) && l->asked_at < before && l->name == s->name) {
            sim_fail(w, "no needless cancel",
                     "client %d: owner %d still waits for name %d", c, i,
                     l->name);
        }
    }
}

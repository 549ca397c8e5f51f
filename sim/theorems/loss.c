/* A2 of availability: a lock is not lost for nothing. Without faults an
 * auto-renewed grant is never lost; "stolen" is only ever said when the store
 * really forgot; and who could reach the store for some seconds before his
 * deadline has renewed. (Cuts, half-open and late lines last until they are
 * noticed: request_ms from the next use on; reconnecting backs off up to a
 * second. A lease that is not much longer than the slowest round trip proves
 * nothing.) */
#include "sim/world.h"

/* Clients that stood still, or think so. */
static bool stood_still(const struct sim_world *w)
{
    return sim_planned(w, SIM_PAUSE) || sim_planned(w, SIM_JUMP);
}

/* A line that nobody has used since it went dead. */
static bool unnoticed(const struct sim_world *w)
{
    for (int i = 0; i < w->opt.clients * w->wires; i++) {
        const struct sim_wire *l = &w->client[i / w->wires].wire[i % w->wires];
        if (l->half_open || l->late) {
            return true;
        }
    }
    return false;
}

void theorem_no_needless_loss(struct sim_world *w, int name,
                              const struct snib__acquisition *acq)
{
    int64_t calm = w->t - w->trouble_until;
    int64_t notice = (2 * w->opt.request_ms + 3000) * SIM_MS;
    snib_cause why = (snib_cause)acq->cause;
    bool slow = sim_lease_least(&w->opt) * 1000 <= 100 * w->opt.latency_us;
    if (acq->shown != SNIB_LOST || w->p1_off || w->p2_off || slow) {
        return;
    }
    bool firm = theorem_stands_firm(w, name, acq);
    if (w->forgotten_count[name] && !firm) { /* a quorum: as p1_off */
        return;
    }
    if (why == SNIB_CAUSE_REVOKED && sim_force(w)) { /* force.c */
        return;
    }
    if (why == SNIB_CAUSE_STOLEN || why == SNIB_CAUSE_REVOKED) {
        sim_fail(w, "no needless loss", "%s although nobody took it",
                 snib_cause_text(why));
    } else if (!acq->options.fixed &&
               (w->opt.fault_count == 0 || firm ||
                (calm > notice && !unnoticed(w))) &&
               !(stood_still(w) && why == SNIB_CAUSE_PAUSED)) {
        sim_fail(w, "no needless loss", "%s although nothing is broken",
                 snib_cause_text(why));
    }
}

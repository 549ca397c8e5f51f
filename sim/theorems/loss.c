/* A lock is not lost for nothing. Without faults an auto-renewed grant is never
 * lost. "Stolen" is only ever said when the store really forgot. And an owner
 * that could reach the store for some seconds before its deadline has renewed.
 *
 * Checked whenever an owner is told of a loss. Excused: worlds where the store
 * lost data or its clock was set; a forced release (force.c); a client that
 * stood still, or thinks so. Cuts, half-open and late connections count as
 * broken until they are noticed: request_ms from the next use on, and
 * reconnecting backs off up to a second. A lease that is not much longer than
 * the slowest round trip proves nothing. A server that stands still for less
 * than a fifth of a lease costs nothing. */
#include "sim/world.h"

/* Did the plan make clients stand still, or think so? */
static bool stood_still(const struct sim_world *w)
{
    return sim_planned(w, SIM_PAUSE) || sim_planned(w, SIM_JUMP);
}

/* Has the server stood still once, for less than a fifth of the lease, and
 * nothing else was broken? A lock that is free when it is asked for may be
 * granted for ten seconds of a longer lease at first. */
static bool stalled_briefly(const struct sim_world *w)
{
    const struct sim_fault *f = &w->opt.fault[0];
    int64_t least = sim_lease_least(&w->opt);
    return w->opt.fault_count == 1 && f->kind == SIM_FREEZE &&
           f->ms < least / 5 && w->opt.request_ms < least / 50;
}

void theorem_no_needless_loss(struct sim_world *w, int name,
                              const struct snib__acquisition *acq)
{
    theorem_holders_reclaim(w, name, acq);
    int64_t calm = w->t - w->trouble_until;
    int64_t notice = (2 * w->opt.request_ms + 3000) * SIM_MS;
    snib_cause why = (snib_cause)acq->cause;
    bool slow = sim_lease_least(&w->opt) * 1000 <= 100 * w->opt.latency_us;
    if (acq->shown != SNIB_STATE_LOST || w->p1_off || w->p2_off || slow) {
        return;
    }
    bool firm = theorem_stands_firm(w, name, acq);
    /* a quorum: excused as by p1_off */
    if (w->forgotten_count[name] && !firm) {
        return;
    }
    if (why == SNIB_CAUSE_REVOKED && sim_force(w)) { /* force.c checks it */
        return;
    }
    if (why == SNIB_CAUSE_STOLEN || why == SNIB_CAUSE_FORGOTTEN ||
        why == SNIB_CAUSE_REVOKED) {
        sim_fail(w, "no needless loss", "%s although nobody took it",
                 snib_cause_text(why));
    } else if (!acq->options.fixed &&
               (w->opt.fault_count == 0 || firm || stalled_briefly(w) ||
                (calm > notice && !sim_unnoticed(w))) &&
               !(stood_still(w) && why == SNIB_CAUSE_PAUSED)) {
        sim_fail(w, "no needless loss", "%s although nothing is broken",
                 snib_cause_text(why));
    }
}

/* Recovery: what a server forgets costs no exclusion.
 *
 * Nobody is let in anew for as long as the longest lease after the server has
 * forgotten what it acknowledged; neither at first, when nobody knows what it
 * has forgotten. Checked at the server, at each grant that a script tells or
 * that a message does. (Who holds exclusively may read besides: nobody else
 * could.)
 *
 * The end of an epoch's recovery is not moved. Checked after each command.
 *
 * Who holds exclusively, and renews, does not lose the lock because the server
 * has forgotten it. Checked whenever a loss is told. (Readers, holders of
 * permits and fixed leases lose theirs.)
 *
 * That two never hold is another theorem, of which these worlds are not
 * excused: exclusion.c. */
#include "sim/world.h"

/* Does this client hold the lock exclusively at the server? */
static bool is_inside(const struct sim_world *w, const struct sim_seen *s)
{
    const struct sim_book *b = &w->shelf[s->name].book;
    for (int i = 0; i < b->holders; i++) {
        const struct sim_holder *h = &b->holder[i];
        if (sim_alone(h->mode) && sim_same(h->client, s->client) &&
            !sim_same(h->id, s->request)) {
            return true;
        }
    }
    return false;
}

void theorem_nobody_new(struct sim_world *w, const struct sim_seen *s)
{
    int64_t left = w->forgot_at + w->opt.recovery_ms * SIM_MS - w->t;
    if (sim_recovery(w) && s->said == SIM_SAID_GRANTED && left > 0 &&
        (s->deed == SIM_DID_ACQUIRE || s->deed == SIM_DID_TELL) &&
        s->name >= 0 && !is_inside(w, s)) {
        sim_fail(w, "nobody new while leases may be forgotten",
                 "name %d: %.8s is granted %lld us too early", s->name,
                 s->request, (long long)left / 1000);
    }
}

void theorem_recovery_ends(struct sim_world *w, int64_t was, int64_t is)
{
    if (was != is) {
        sim_fail(w, "a recovery ends when it was to end",
                 "by %lld ms later than before", (long long)(is - was));
    }
}

void theorem_holders_reclaim(struct sim_world *w, int name,
                             const struct snib__acquisition *acq)
{
    snib_cause why = (snib_cause)acq->cause;
    if (sim_recovery(w) && acq->shown == SNIB_STATE_LOST &&
        sim_alone(acq->options.kind) && !acq->options.fixed &&
        (why == SNIB_CAUSE_STOLEN || why == SNIB_CAUSE_FORGOTTEN)) {
        sim_fail(w, "holders reclaim what is theirs", "name %d: %s", name,
                 snib_cause_text(why));
    }
}

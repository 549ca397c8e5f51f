/* Recovery: what a server forgets costs no exclusion.
 *
 * Nobody is let in anew for as long as the longest lease after the server has
 * forgotten what it acknowledged; neither at first, when nobody knows what it
 * has forgotten. Checked at the server, at each grant that a script tells or
 * that a message does.
 *
 * The end of an epoch's recovery is not moved, unless the server's clock was set
 * back. Checked after each command.
 *
 * Who holds exclusively, and renews, does not lose the lock because the server
 * has forgotten it. Checked whenever a loss is told. (Readers, holders of
 * permits and fixed leases lose theirs.) Nor is he told so when he asks to read
 * inside.
 *
 * That two never hold is another theorem, of which these worlds are not
 * excused: exclusion.c. */
#include "core/engine_i.h"
#include "sim/world.h"

void theorem_nobody_new(struct sim_world *w, const struct sim_seen *s)
{
    int64_t left = w->forgot_at + w->opt.recovery_ms * SIM_MS - w->t;
    if (sim_recovery(w) && s->said == SIM_SAID_GRANTED && left > 0 &&
        (s->deed == SIM_DID_ACQUIRE || s->deed == SIM_DID_TELL) &&
        s->name >= 0) {
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

bool theorem_has_lost(const struct sim_world *w, int client, int owner)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    const struct snib__claim *t = l->nested && l->acq->state == SNIB__ACQ_SERVED
                                      ? l->acq->local->claim
                                      : NULL;
    return !sim_recovery(w) || w->opt.apart_ms || !t ||
           l->kind != SNIB_KIND_WRITE || l->acq->options.fixed ||
           snib__reached(sim_now(w, client), t->deadline);
}

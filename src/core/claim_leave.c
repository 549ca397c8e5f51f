/* core/claim_leave.c — ending a grant or a request.
 *
 * The last release of an owner hands the grant over inside the process (no
 * request), or ends it and queues again in one step at the store (a yield), or
 * keeps it (claim_keep.c), or gives it back. A request that nobody wants any
 * more is cancelled. The claim is LEAVING, and the next acquire waits, until the
 * store has answered or everything of ours there has run out.
 *
 * Local hand-over: a grant reserves `reserve` tokens. Handing it to the next
 * local owner costs no request and hands on the remaining deadline, at most 31
 * times and for 5 ms. Then the client queues again behind the others, in one
 * step at the store (an ACQUIRE that ends our prior grant first). */
#include <assert.h>

#include "base/error.h"
#include "base/unset.h"
#include "core/claim_i.h"

/* Does an own claim of this name hold a grant? A writer that also reads must
 * not hand over: another owner would write while the first one reads. */
static bool claim_leave_has_upgrade_of(const struct snib__local_lock *local)
{
    SNIB__LIST_EACH (l, &local->own_locks) {
        const struct snib__claim *t =
            SNIB__CONTAINER(l, struct snib__local_lock, bucket)->claim;
        if (t && t->holder) {
            return true;
        }
    }
    return false;
}

/* May the holder hand over locally? Only while the grant is held and undoubted,
 * has tokens in reserve, was granted less than SNIB__HAND_OVER_MS ago (clients
 * are served in the order in which they came, so the others must not wait for
 * long) and has more than a twentieth of its lease left; and only if both
 * acquisitions allow it and want the same lease and lock-delay, neither of them
 * fixed. */
static bool claim_leave_may_pass(const struct snib__engine *e,
                                 const struct snib__claim *t,
                                 const struct snib__acquisition *to,
                                 snib_instant now)
{
    const struct snib__acquisition *from = t->holder;
    snib_duration left = snib__between(now, t->deadline);
    return t->state == SNIB__CLAIM_HELD && !t->hint &&
           t->token < t->token0 + t->reserve &&
           snib__between(t->granted, now).ns <
               SNIB__HAND_OVER_MS * INT64_C(1000000) &&
           left.ns > t->lease.ns / 20 && left.ns <= t->lease.ns &&
           !from->options.no_hand_over && !from->options.fixed &&
           !to->options.no_hand_over && !to->options.fixed &&
           to->options.lease.ns == t->lease.ns && snib__claim_fits(t, to) &&
           !claim_leave_has_upgrade_of(t->local) &&
           !snib__nested_waits(e, from->owner); /* it told others that it holds
                                                   this grant */
}

bool snib__claim_release(struct snib__engine *e, snib_instant now,
                         struct snib__claim *t)
{
    struct snib__acquisition *s = t->holder,
                             *next = snib__claim_first_waiting(t->local);
    bool pass = next && claim_leave_may_pass(e, t, next, now);
    t->want_renew = false;
    if (next && pass) {
        t->holder = NULL;
        snib__acquisition_free(e, s);
        t->token++;
        e->counts.passes++;
        snib__claim_serve(e, now, t, next);
        return true;
    }
    if (!next && snib__claim_keep(e, now, t)) {
        return true;
    }
    t->holder = NULL;
    t->aggressive = false;
    /* End our grant and queue again, in one step at the store. Not while a late
     * copy of our acquire may still arrive: only a RELEASE leaves the tombstone
     * that keeps it out, and the waiting acquisitions ask after that. And not
     * if somebody is said to have ended the grant: the answer to a RELEASE says
     * whether that is so. */
    if (next && !t->doubt && !t->hint) {
        snib__claim_orphan(&t->renewing);
        snib__unlink(&t->held);
        snib__acquisition_free(e, s);
        snib__claim_send_acquire(e, now, t, t->token0);
        return true;
    }
    s->state = SNIB__ACQ_ENDING;
    t->ender = s;
    snib__claim_send_end(e, now, t);
    return false;
}

void snib__claim_give_up(struct snib__engine *e, snib_instant now,
                         struct snib__claim *t)
{
    if (t->adopter) { /* the acquisition has left already */
        t->adopter = NULL;
        snib__claim_anew_or_free(e, now, t);
        return;
    }
    struct snib__unsent unsent;
    switch ((snib__claim_state)t->state) {
    case SNIB__CLAIM_ACQUIRING:
        if (snib__claim_asks_nothing(t) || /* nothing to cancel */
            snib__claim_unsent(e, now, t, &unsent)) {
            t->says = NULL;
            snib__claim_anew_or_free(e, now, t);
            break;
        }
        t->doubt = SNIB__DOUBT_OPEN;
        snib__claim_send_end(e, now, t);
        break;
    case SNIB__CLAIM_QUEUED:
        snib__claim_send_end(e, now, t);
        break;
    case SNIB__CLAIM_CONFIRM:
        snib__claim_end_untold(e, now, t);
        break;
    case SNIB__CLAIM_HELD:
    case SNIB__CLAIM_RISK:
    case SNIB__CLAIM_KEPT:
    case SNIB__CLAIM_LEAVING:
        break;
    }
}

void snib__claim_ended(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t, snib_err err,
                       const struct snib_error *detail)
{
    struct snib__acquisition *s;
    while ((s = t->ender) && s->state == SNIB__ACQ_LEAVING) {
        snib__acquisition_left(e, s, err != SNIB_ERR_UNKNOWN);
    }
    t->ender = NULL;
    if (s) {
        snib__acquisition_gone(e, s, err, detail);
    }
    snib__claim_anew_or_free(e, now, t);
}

void snib__claim_end_answered(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, struct snib__pending *q)
{
    struct snib__request *rq = &q->rq;
    SNIB__UNSET struct snib_error why;
    snib_err err = snib__ok(&why);
    switch (rq->said.answer) {
    case SNIB__NO:
        /* Ours until the deadline. So an earlier copy has ended it, or the
         * store has forgotten it, and somebody else may have had it. */
        if (snib__reached(now, t->deadline) || rq->said.revoked) {
            err = SNIB_ERR_LOST;
        } else if (!rq->resent && !t->end_sent) {
            err = snib__fail(&why, SNIB_ERR_LOST,
                             "%s: the store does not know the grant any more%s",
                             rq->said.forgotten ? "forgotten" : "stolen",
                             rq->said.forgotten ? ", and may have lost its data"
                                                : "");
        }
        if (rq->said.revoked) { /* nobody has heard of that before */
            why = q->error;
            snib__explain_revoked(&why);
        }
        break;
    case SNIB__DONE:
        (void)snib__acquisition_had(e, now, t->ender, rq->said.granted);
        break;
    case SNIB__UNKNOWN:
        if (rq->verb == SNIB__CANCEL) {
            t->doubt = SNIB__DOUBT_OPEN;
        }
        rq->resent = t->end_sent = true;
        if (!snib__reached(now, t->gone_by)) {
            snib__pending_start(e, q);
            return;
        }
        err = SNIB_ERR_UNKNOWN;
        break;
    case SNIB__NOT_APPLIED:
        t->ending = NULL;
        snib__pending_put(e, q);
        if (snib__reached(now, t->gone_by)) {
            snib__claim_ended(e, now, t, SNIB_ERR_UNKNOWN, NULL);
        } else {
            snib__claim_retry_at(e, now, t);
        }
        return;
    case SNIB__PENDING:
    case SNIB__QUEUED:
        assert(!"an end is answered once");
        return;
    }
    t->ending = NULL;
    t->doubt = SNIB__DOUBT_NONE;
    snib__pending_put(e, q);
    snib__claim_ended(e, now, t, err, &why);
}

void snib__claim_overtaken(struct snib__engine *e, snib_instant now,
                           struct snib__claim *t, struct snib__pending *q)
{
    if (q->rq.said.answer == SNIB__QUEUED) {
        return;
    }
    if (q->rq.said.answer == SNIB__DONE) {
        (void)snib__acquisition_had(e, now, t->ender, q->rq.token);
    }
    t->doubt = SNIB__DOUBT_OPEN;
    snib__claim_drop_acquire(e, t);
}

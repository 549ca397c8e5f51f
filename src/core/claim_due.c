/* core/claim_due.c — the timer of a claim, whatever its state.
 *
 * ACQUIRING, LEAVING  there was no memory for a request: it is sent now; or a
 *                     claim that leaves has waited long enough for an answer
 * CONFIRM             the renewal is sent again, until the deadline
 * KEPT                it was kept for as long as it may be
 * HELD, RISK          a renewal is due, or one that is under way was silent for
 *                     too long, or the deadline or hold_max has come
 *
 * When it comes next: snib__claim_arm (request.c). */
#include "core/claim_i.h"

static void claim_due_confirm(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t)
{
    if (snib__reached(now, t->deadline) && t->adopter) {
        snib__claim_adopt_failed(e, now, t, SNIB_ERR_UNKNOWN, NULL);
    } else if (snib__reached(now, t->deadline)) {
        (void)snib__acquisition_had(e, now, snib__claim_first_waiting(t->local),
                                    t->token);
        snib__claim_send_end(e, now, t);
    } else {
        if (!t->renewing) {
            snib__claim_send_renew(e, now, t);
        }
        snib__claim_arm(e, t);
    }
}

static void claim_due_held(struct snib__engine *e, snib_instant now,
                           struct snib__claim *t)
{
    if (snib__claim_check(e, now, t)) {
        return;
    }
    if (snib__reached(now, t->renew_at) && t->renewing) {
        t->renew_at = SNIB__NEVER;
        if (!t->renewing->rq.renew.only_asks && t->holder &&
            !t->holder->trouble) {
            snib__acquisition_trouble(t->holder, "a renewal is not answered");
        }
        snib__claim_mark_failing(e, t);
    } else if (snib__reached(now, t->renew_at)) {
        snib__claim_send_renew(e, now, t);
    }
    snib__claim_arm(e, t);
}

void snib__claim_due(struct snib__engine *e, snib_instant now,
                     struct snib__claim *t)
{
    switch ((snib__claim_state)t->state) {
    case SNIB__CLAIM_ACQUIRING: /* there was no memory */
        if (snib__claim_first_waiting(t->local)) {
            snib__claim_send_acquire(e, now, t, t->prior);
        } else {
            snib__claim_send_end(e, now, t);
        }
        return;
    case SNIB__CLAIM_QUEUED:
        snib__claim_arm(e, t);
        return;
    case SNIB__CLAIM_CONFIRM:
        claim_due_confirm(e, now, t);
        return;
    case SNIB__CLAIM_HELD:
    case SNIB__CLAIM_RISK:
        claim_due_held(e, now, t);
        return;
    case SNIB__CLAIM_KEPT:
        (void)snib__claim_check(e, now, t);
        return;
    case SNIB__CLAIM_LEAVING:
        if (snib__reached(now, t->gone_by)) {
            snib__claim_ended(e, now, t, SNIB_ERR_UNKNOWN, NULL);
        } else if (!t->ending) {
            snib__claim_start_end(e, now, t);
        }
        return;
    }
}

/* core/claim_renew.c — keeping what is held.
 *
 * A renewal moves the deadline forwards only, counted from the instant of its
 * own sending. A renewal whose answer is lost is sent again at once; from then
 * on the grant is at risk, until an answer or the deadline. The grant is also
 * at risk as soon as the store says that a renewal cannot be sent, and when one
 * stays unanswered for a sixth of the lease (or for request_ms, if that is
 * less): an owner that has work to end should hear of a dead server before the
 * deadline. */
#include <assert.h>

#include "core/claim_i.h"

snib_cause snib__claim_cause(const struct snib__claim *t)
{
    if (t->holder && t->holder->options.fixed) {
        return SNIB_CAUSE_EXPIRED;
    }
    if (t->cause) {
        return (snib_cause)t->cause;
    }
    return t->renewing ? SNIB_CAUSE_UNREACHABLE
                       : SNIB_CAUSE_PAUSED; /* no renewal was sent when it
                                               was due: nothing ran */
}

/* The grant's state has changed: tells the holder, once. */
static void claim_renew_show(struct snib__engine *e, struct snib__claim *t,
                             snib_state state, snib_cause why)
{
    t->cause = (uint8_t)why;
    if (t->holder && t->holder->shown != state) {
        t->holder->shown = (uint8_t)state;
        t->holder->cause = (uint8_t)why;
        snib__acquisition_tell(e, t->holder, SNIB__NEWS_STATE);
    }
}

/* The grant is lost, and the holder's acquisition is DEAD. gone: the store says
 * that nothing of ours is left; else it is given back as far as it is there. */
static void claim_renew_lose(struct snib__engine *e, snib_instant now,
                             struct snib__claim *t, snib_cause why, bool gone)
{
    struct snib__acquisition *s = t->holder;
    if (s) {
        claim_renew_show(e, t, SNIB_STATE_LOST, why);
        if (t->want_renew) {
            s->err = SNIB_ERR_LOST;
            snib__acquisition_tell(e, s, SNIB__NEWS_RENEWED);
        }
        s->state = SNIB__ACQ_DEAD;
        snib__list_push(&snib__local_lock_home(t->local)->dead, &s->link);
        t->holder = NULL;
    }
    t->want_renew = false;
    /* A grant with a lock-delay is left to end by itself: a release would open
     * the lock at once. A grant that is gone needs an end only while copies of
     * its acquire may arrive, since they would be let in. */
    if ((gone && !t->doubt) || (s && t->delay.ns > 0)) {
        snib__claim_anew_or_free(e, now, t);
    } else {
        snib__claim_send_end(e, now, t);
    }
}

bool snib__claim_check(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t)
{
    if (t->state == SNIB__CLAIM_KEPT && snib__reached(now, t->kept_until)) {
        snib__claim_give_back(e, now, t);
        return true;
    }
    if (t->state != SNIB__CLAIM_HELD && t->state != SNIB__CLAIM_RISK) {
        return false;
    }
    if (snib__reached(now, t->hold_end)) {
        claim_renew_lose(e, now, t, SNIB_CAUSE_HOLD_MAX, false);
        return true;
    }
    if (!snib__reached(now, t->deadline) || t->aggressive) {
        return false;
    }
    claim_renew_lose(e, now, t, snib__claim_cause(t), false);
    return true;
}

void snib__claim_risk_and_ask(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, snib_cause why)
{
    if (t->state == SNIB__CLAIM_KEPT) {
        snib__claim_give_back(e, now, t);
        return;
    }
    if (t->state == SNIB__CLAIM_HELD) {
        t->state = SNIB__CLAIM_RISK;
        claim_renew_show(e, t, SNIB_STATE_AT_RISK, why);
    }
    if (!t->renewing &&
        (!t->holder || !t->holder->options.fixed || why == SNIB_CAUSE_PAUSED)) {
        snib__claim_send_renew(e, now, t);
    }
    snib__claim_arm(e, t);
}

void snib__claim_mark_failing(struct snib__engine *e, struct snib__claim *t)
{
    bool fixed = t->holder && t->holder->options.fixed;
    if (t->state == SNIB__CLAIM_HELD && !fixed) {
        t->state = SNIB__CLAIM_RISK;
        claim_renew_show(e, t, SNIB_STATE_AT_RISK, SNIB_CAUSE_UNREACHABLE);
    } else if (t->state == SNIB__CLAIM_RISK) { /* so far it only stood still */
        t->cause = SNIB_CAUSE_UNREACHABLE;
    }
}

/* A held grant is asked about now; one that is not held yet will be confirmed
 * before it is served. A fixed lease is asked about only at a store that can
 * tell whether it stands without renewing it. Where one message was missed,
 * another may have been: that somebody waits. */
void snib__claim_hint(struct snib__engine *e, snib_instant now,
                      struct snib__claim *t)
{
    if (t->state == SNIB__CLAIM_KEPT) {
        snib__claim_give_back(e, now, t);
        return;
    }
    t->wanted = true;
    t->hint = t->renewing ? SNIB__HINT_STALE : SNIB__HINT_HEARD;
    if (!t->renewing && snib__claim_is_held(t) &&
        (e->pushes || !snib__claim_is_fixed(t))) {
        snib__claim_send_renew(e, now, t);
    }
}

/* A fixed lease is asked about, too, but never at risk: it ends when it ends. */
void snib__claim_moved(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t)
{
    if (snib__claim_check(e, now, t)) {
        return;
    }
    if (snib__claim_is_fixed(t) || t->state == SNIB__CLAIM_KEPT) {
        snib__claim_hint(e, now, t);
        return;
    }
    snib__acquisition_trouble(t->holder, "another server answers than the one "
                                         "that granted it");
    snib__claim_risk_and_ask(e, now, t, SNIB_CAUSE_UNREACHABLE);
}

/* A renewal shows that the grant stood when it was sent. */
static void claim_renew_answers_hint(struct snib__claim *t)
{
    t->hint = t->hint == SNIB__HINT_STALE ? SNIB__HINT_HEARD : SNIB__HINT_NONE;
}

/* A fixed lease stands, or stood when the store was asked. */
static void claim_renew_stands(struct snib__engine *e, snib_instant now,
                               struct snib__claim *t)
{
    claim_renew_answers_hint(t);
    t->renew_at = SNIB__NEVER;
    /* If the process stood still meanwhile, nobody knows when the store was
     * asked. */
    if (t->want_renew || t->hint || t->state == SNIB__CLAIM_RISK) {
        snib__claim_send_renew(e, now, t);
    } else {
        snib__acquisition_recovered(t->holder);
        snib__claim_refuse_tries(e, t->local);
    }
    snib__claim_arm(e, t);
}

/* A grant that was not surely ours stands: the head of the queue takes it. */
static void claim_renew_confirmed(struct snib__engine *e, snib_instant now,
                                  struct snib__claim *t,
                                  const struct snib__request *rq)
{
    struct snib__acquisition *s = snib__claim_first_waiting(t->local);
    /* The grant may be left to end by itself, so its lease must be no longer
     * than the taker asked for. */
    bool fits = snib__claim_fits(t, s) && rq->lease.ns <= s->options.lease.ns;
    if (t->hint || (fits && rq->lease.ns < s->options.lease.ns)) {
        snib__claim_send_renew(e, now, t);
        snib__claim_arm(e, t);
        return;
    }
    if (t->adopter) {
        assert(s == t->adopter);
        s->options.slot = rq->said.slot;
        t->adopter = NULL;
        t->doubt = SNIB__DOUBT_NONE;
        if (e->floor < t->token0) {
            e->floor = t->token0;
        }
    }
    if (!fits || snib__reached(now, t->deadline)) {
        (void)snib__acquisition_had(e, now, s, t->token);
        snib__claim_send_end(e, now, t);
        return;
    }
    t->state = SNIB__CLAIM_HELD;
    t->granted = now;
    snib__list_push(&e->held, &t->held);
    snib__claim_serve(e, now, t, s);
}

/* The holder may not be the acquisition that the renewal was sent for. */
static void claim_renew_renewed(struct snib__engine *e, snib_instant now,
                                struct snib__claim *t,
                                const struct snib__request *rq)
{
    bool confirms = t->state == SNIB__CLAIM_CONFIRM;
    struct snib__acquisition *taker =
        confirms ? snib__claim_first_waiting(t->local) : NULL;
    t->lease = taker ? taker->options.lease : t->lease;
    snib_duration left =
        rq->said.left.ns < t->lease.ns ? rq->said.left : t->lease;
    snib_instant deadline = snib__before(snib__after(rq->said.valid_from, left),
                                         snib__claim_allowance(left));
    t->deadline = confirms ? deadline : snib__later(t->deadline, deadline);
    t->renew_at = snib__claim_renewal_of(rq->said.valid_from, left);
    claim_renew_answers_hint(t);
    if (t->adopter && snib__reached(now, t->deadline)) {
        snib__claim_adopt_failed(e, now, t, SNIB_ERR_LOST,
                                 NULL); /* over by now */
        return;
    }
    if (confirms) {
        claim_renew_confirmed(e, now, t, rq);
        return;
    }
    if (snib__claim_check(e, now, t)) {
        return;
    }
    t->state = SNIB__CLAIM_HELD;
    snib__acquisition_recovered(t->holder);
    claim_renew_show(e, t, SNIB_STATE_HELD, SNIB_CAUSE_NONE);
    if (t->holder && t->holder->options.fixed) {
        t->renew_at = SNIB__NEVER;
    }
    if (!t->hint) {
        snib__claim_refuse_tries(e, t->local); /* they waited for this */
    }
    if (t->want_renew && rq->lease.ns != t->lease.ns) {
        snib__claim_send_renew(e, now, t); /* the caller wants another length */
    } else if (t->want_renew) {
        t->want_renew = false;
        t->holder->err = SNIB_ERR_OK;
        snib__acquisition_tell(e, t->holder, SNIB__NEWS_RENEWED);
    }
    if (t->hint && !t->renewing && (e->pushes || !snib__claim_is_fixed(t))) {
        snib__claim_send_renew(e, now, t);
    }
    snib__claim_arm(e, t);
}

/* It is sent again at once. */
static void claim_renew_unknown(struct snib__engine *e, struct snib__claim *t,
                                struct snib__pending *q)
{
    struct snib__request *rq = &q->rq;
    rq->resent = true;
    if (t->adopter) {
        t->doubt = SNIB__DOUBT_OPEN;
    }
    snib__pending_start(e, q);
    if (!rq->renew.only_asks) {
        snib__acquisition_trouble(t->holder, q->error.text);
        snib__claim_mark_failing(e, t);
        snib__claim_arm(e, t);
    }
}

/* It is asked once, as by any caller's renewal. */
static void claim_renew_not_adopted(struct snib__engine *e, snib_instant now,
                                    struct snib__claim *t,
                                    struct snib__pending *q)
{
    snib_err err = q->rq.said.answer == SNIB__NO ? SNIB_ERR_LOST
                   : t->doubt                    ? SNIB_ERR_UNKNOWN
                   : q->rq.said.err              ? q->rq.said.err
                                                 : SNIB_ERR_UNREACHABLE;
    snib__claim_adopt_failed(e, now, t, err, &q->error);
}

/* NO: the store does not know the grant. */
static void claim_renew_refused(struct snib__engine *e, snib_instant now,
                                struct snib__claim *t, struct snib__pending *q)
{
    if (t->state == SNIB__CLAIM_CONFIRM) {
        bool had = snib__acquisition_had(
            e, now, snib__claim_first_waiting(t->local), t->token);
        if (t->delay.ns > 0 && !had && !q->rq.said.revoked) {
            snib__claim_end_untold(e, now, t);
        } else {
            snib__claim_anew_or_free(e, now, t);
        }
        return;
    }
    if (q->rq.said.reclaim && snib__claim_may_reclaim(now, t)) {
        snib__claim_send_reclaim(e, now, t);
        return;
    }
    if (q->rq.said.revoked) {
        snib__acquisition_recovered(t->holder); /* drops older texts */
        snib__acquisition_trouble(t->holder, q->error.text);
    }
    claim_renew_lose(e, now, t,
                     q->rq.said.revoked     ? SNIB_CAUSE_REVOKED
                     : q->rq.said.forgotten ? SNIB_CAUSE_FORGOTTEN
                                            : SNIB_CAUSE_STOLEN,
                     true);
}

/* What a caller's renewal is told when the last copy of it was not applied. An
 * earlier copy, which was not answered, may have been. */
static snib_err claim_renew_error(const struct snib__request *rq)
{
    if (rq->resent && !rq->renew.only_asks) {
        return SNIB_ERR_UNKNOWN;
    }
    return rq->said.err ? rq->said.err : SNIB_ERR_UNREACHABLE;
}

/* NOT_APPLIED: the store is unfit just now. */
static void claim_renew_unfit(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, struct snib__pending *q)
{
    if (t->want_renew && t->holder) {
        t->want_renew = false;
        t->holder->err = claim_renew_error(&q->rq);
        snib__acquisition_tell(e, t->holder, SNIB__NEWS_RENEWED);
    }
    if (!q->rq.renew.only_asks) {
        snib__acquisition_trouble(t->holder, q->error.text);
    }
    if (!snib__claim_check(e, now, t)) {
        snib__claim_mark_failing(e, t);
        snib__claim_retry_at(e, now, t);
    }
}

void snib__claim_renewal_answered(struct snib__engine *e, snib_instant now,
                                  struct snib__claim *t,
                                  struct snib__pending *q)
{
    const struct snib__request *rq = &q->rq;
    if (rq->said.answer == SNIB__UNKNOWN) {
        claim_renew_unknown(e, t, q);
        return;
    }
    t->renewing = NULL;
    if (rq->said.answer == SNIB__DONE && rq->renew.only_asks &&
        snib__claim_is_held(t)) {
        claim_renew_stands(e, now, t);
    } else if (rq->said.answer == SNIB__DONE) {
        claim_renew_renewed(e, now, t, rq);
    } else if (t->adopter) {
        claim_renew_not_adopted(e, now, t, q);
    } else if (rq->said.answer == SNIB__NO) {
        claim_renew_refused(e, now, t, q);
    } else {
        claim_renew_unfit(e, now, t, q);
    }
    snib__pending_put(e, q);
}

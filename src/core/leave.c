/* core/leave.c — giving up.
 *
 * A caller that gives up is told so when the store has confirmed that nothing
 * of it is left there. Then TIMEOUT and CANCELLED are the whole truth, and
 * nobody who inspects the lock finds it in the queue. A store that is far or
 * silent gets a twentieth of request_ms for that, or a fifth where nothing is
 * known without its answer. After that the caller is told what is known, and
 * the rest goes on in the background. Where nothing was sent yet, and nothing
 * will be, that is known at once. Only the last acquisition of a claim has
 * anything to be confirmed: the position in the store's queue is the client's.
 *
 * A grant that the cancel meets at the store is given back and was never held,
 * so TIMEOUT and CANCELLED stay the whole truth. That is not so for an
 * acquisition with `passes`. If a barrier has opened with this party among
 * those counted, the others went through because of it; and an open latch was
 * open. Neither can be given back. So the answer to the cancel says what it
 * met, and the party is told that it has passed. Without an answer, the party
 * may have been counted at any moment since the store had it in its queue. */
#include <assert.h>

#include "base/error.h"
#include "core/blocking.h"
#include "core/engine_i.h"

/* Does a request that is not granted yet say what the owner of s holds? Then it
 * ends with s, and does not go on for others. */
static bool leave_is_named(const struct snib__acquisition *s)
{
    return snib__nested_says(s) &&
           s->local->claim->state != SNIB__CLAIM_CONFIRM;
}

/* Returns the outcome that an acquisition which leaves may report. As long as
 * the request goes on for others of this client, or once the store has said
 * "queued", it surely has nothing; but a party may have been counted since. An
 * adopter has a renewal under way, which may yet extend the grant. */
static snib_err leave_outcome_of_leaving(const struct snib__local_lock *local,
                                         const struct snib__acquisition *s,
                                         snib_err why)
{
    const struct snib__claim *t = local->claim;
    if (t && t->adopter == s) {
        return SNIB_ERR_UNKNOWN;
    }
    if (t && snib__claim_asks_nothing(t)) {
        return why;
    }
    if ((snib__list_empty(&local->waiting) || leave_is_named(s)) && t &&
        (t->state == SNIB__CLAIM_ACQUIRING ||
         (s->options.kind == SNIB_KIND_BARRIER &&
          (t->state == SNIB__CLAIM_QUEUED ||
           t->state == SNIB__CLAIM_CONFIRM)))) {
        return SNIB_ERR_UNKNOWN;
    }
    return why;
}

/* s is off its local lock's list. named: as it was before. */
static void leave_left(struct snib__engine *e, snib_instant now,
                       struct snib__local_lock *local,
                       const struct snib__acquisition *s, bool named)
{
    if (local->claim && (snib__list_empty(&local->waiting) || named ||
                         local->claim->adopter == s)) {
        snib__claim_give_up(e, now, local->claim);
    }
}

snib_err snib__acquisition_give_up_now(struct snib__engine *e, snib_instant now,
                                       struct snib__acquisition *s,
                                       snib_err why)
{
    snib_err outcome;
    if (s->state == SNIB__ACQ_LEAVING) {
        outcome = snib__acquisition_outcome(s, false);
        snib__acquisition_awaits_no_end(s);
        snib__acquisition_free(e, s);
        return outcome;
    }
    if (s->state != SNIB__ACQ_WAITING) {
        return SNIB_ERR_OK;
    }
    struct snib__local_lock *local = s->local;
    bool named = leave_is_named(s);
    snib__unlink(&s->link);
    outcome = leave_outcome_of_leaving(local, s, why);
    leave_left(e, now, local, s, named);
    snib__acquisition_free(e, s);
    return outcome;
}

bool snib__engine_is_run(struct snib__engine *e, uint64_t ticket)
{
    const struct snib__acquisition *s = snib__engine_acquisition(e, ticket);
    const struct snib__claim *t = s ? s->local->claim : NULL;
    struct snib__unsent unsent;
    return e->cfg.blocking && t && s->state == SNIB__ACQ_WAITING &&
           t->state == SNIB__CLAIM_ACQUIRING && t->acquiring &&
           t->acquiring->rq.exec.patience.ns <= s->limit.ns &&
           snib__blocking_runs(e->store, &t->acquiring->rq) &&
           !snib__claim_unsent(e, s->limit, t, &unsent);
}

snib_duration snib__engine_run(const struct snib__engine *e)
{
    bool far = e->cfg.blocking && snib__blocking_shares(e->store);
    return snib__ms(far ? SNIB__RUN_FAR_MS : SNIB__RUN_MS);
}

/* The limit of a waiting acquisition has come. If another owner of this client
 * holds the lock, it was not the store that it waited for. */
static snib_err leave_outcome_of_limit(const struct snib__engine *e,
                                       snib_instant now,
                                       const struct snib__acquisition *s,
                                       snib_err why, struct snib_error *ret)
{
    const struct snib__claim *t = s->local->claim;
    snib_err outcome = leave_outcome_of_leaving(s->local, s, why);
    if (outcome == SNIB_ERR_UNKNOWN && t && t->acquiring &&
        snib__request_says_why(&t->acquiring->rq)) {
        return snib__fail(ret, outcome, "%s", t->acquiring->error.text);
    }
    if (outcome == SNIB_ERR_UNKNOWN && t->state == SNIB__CLAIM_QUEUED) {
        return snib__engine_unsure(e, now, ret);
    }
    if (outcome != why || !t || t->holder ||
        (t->state != SNIB__CLAIM_QUEUED && t->state != SNIB__CLAIM_ACQUIRING)) {
        return snib__fail_plain(ret, outcome);
    }
    return snib__engine_late(e, now, why, ret);
}

/* Can the end of this acquisition be confirmed? Yes, if it is the last one that
 * waits for a claim which is not granted yet, or the one that the claim's
 * request names (core/nested.c): the request ends with it. Yes too, if its
 * claim gives back a grant that did not fit the head of the queue. */
static bool leave_takes_along(const struct snib__acquisition *s)
{
    const struct snib__claim *t = s->local->claim;
    if (!t || t->adopter == s || snib__claim_asks_nothing(t)) {
        return false;
    }
    return t->state == SNIB__CLAIM_LEAVING
               ? s->ended && !s->options.passes &&
                     (!t->ender || t->ender->state == SNIB__ACQ_LEAVING)
               : (snib__list_empty(&s->local->waiting) || leave_is_named(s)) &&
                     (t->state == SNIB__CLAIM_ACQUIRING ||
                      t->state == SNIB__CLAIM_QUEUED ||
                      t->state == SNIB__CLAIM_CONFIRM);
}

/* Returns the outcome for s, which gives up and is off its local lock's list.
 * OK: it stays until the store has answered, or it has passed. */
static snib_err leave_outcome_or_stay(struct snib__engine *e, snib_instant now,
                                      struct snib__acquisition *s, snib_err why,
                                      struct snib_error *ret)
{
    const struct snib__claim *t = s->local->claim;
    if (t && t->state == SNIB__CLAIM_CONFIRM && !t->adopter &&
        snib__acquisition_had(e, now, s, t->token)) {
        return SNIB_ERR_OK;
    }
    bool late = why == SNIB_ERR_TIMEOUT || why == SNIB_ERR_BUSY;
    struct snib__unsent unsent;
    if ((late || why == SNIB_ERR_UNREACHABLE) && t && /* a try's */
        snib__claim_unsent(e, now, t, &unsent)) {
        return snib__engine_unsent(e, now, &unsent, why, ret);
    }
    snib_err outcome = late ? leave_outcome_of_limit(e, now, s, why, ret)
                            : leave_outcome_of_leaving(s->local, s, why);
    bool known = outcome == why || outcome == SNIB_ERR_UNKNOWN;
    bool stays = why == SNIB_ERR_TIMEOUT || why == SNIB_ERR_CANCELLED ||
                 why == SNIB_ERR_CLOSED;
    if (stays && known && leave_takes_along(s) &&
        snib__acquisition_start_leaving(e, now, s, why, outcome != why)) {
        return SNIB_ERR_OK;
    }
    return late ? outcome : snib__fail_plain(ret, outcome);
}

snib_err snib__acquisition_give_up(struct snib__engine *e, snib_instant now,
                                   struct snib__acquisition *s, snib_err why,
                                   struct snib_error *ret)
{
    if (s->state != SNIB__ACQ_WAITING) {
        return snib__ok(ret);
    }
    bool named = leave_is_named(s);
    snib__unlink(&s->link);
    snib_err outcome = leave_outcome_or_stay(e, now, s, why, ret);
    leave_left(e, now, s->local, s, named);
    if (outcome) {
        snib__acquisition_free(e, s);
    }
    return outcome ? outcome : snib__ok(ret);
}

/* The engine itself keeps the limit of an acquire that was started (timed), and
 * the time for which a LEAVING acquisition stays. */
void snib__acquisition_due(struct snib__engine *e, snib_instant now,
                           struct snib__acquisition *s)
{
    struct snib_error late;
    if (s->state == SNIB__ACQ_LEAVING) {
        snib__acquisition_left(e, s, false);
        return;
    }
    if (snib__engine_is_run(e, s->ticket) &&
        !snib__reached(now, snib__after(s->limit, snib__engine_run(e)))) {
        snib__heap_set(&e->acquisitions, &s->timer,
                       snib__after(now, snib__ms(2)));
        return;
    }
    snib_err why = s->options.try_only ? SNIB_ERR_BUSY : SNIB_ERR_TIMEOUT;
    bool named = leave_is_named(s);
    snib__unlink(&s->link);
    snib_err outcome = leave_outcome_or_stay(e, now, s, why, &late);
    if (outcome) {
        snib__acquisition_refuse(e, s, outcome, &late);
    }
    leave_left(e, now, s->local, s, named);
}

void snib__acquisition_deadlock(struct snib__engine *e, snib_instant now,
                                struct snib__acquisition *s,
                                const struct snib_error *detail)
{
    struct snib__local_lock *local = s->local;
    bool named = leave_is_named(s);
    snib__acquisition_refuse(e, s, SNIB_ERR_DEADLOCK, detail);
    leave_left(e, now, local, s, named);
}

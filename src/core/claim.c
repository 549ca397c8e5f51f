/* core/claim.c — what this client asked for, or holds, at the store for one
 * name.
 *
 * The answers are those to the ACQUIRE in ACQUIRING and QUEUED, to a RENEW in
 * CONFIRM, HELD and RISK, and to the RELEASE or CANCEL in LEAVING. "over": the
 * claim ends; if acquisitions wait by then it begins anew in ACQUIRING, else it
 * is freed.
 *
 * state       event                            next state
 * ----------  -------------------------------  --------------------------------
 * ACQUIRING   QUEUED                           QUEUED; tries are refused
 * ACQUIRING,  DONE                             HELD; CONFIRM if it is not sure;
 *   QUEUED                                     LEAVING if it fits nobody
 *             NO                               over; LEAVING if a copy may come
 *             NOT_APPLIED                      all refused, then over; LEAVING
 *                                              if something of it may be there
 *             UNKNOWN                          ACQUIRING: sent again, same id
 *             nobody waits any more            LEAVING
 * CONFIRM     DONE                             HELD; LEAVING if it fits nobody
 *             NO                               over
 *             UNKNOWN, NOT_APPLIED             CONFIRM: sent again
 *             deadline, nobody waits any more  LEAVING
 * CONFIRM,    DONE                             HELD
 *   adopter   UNKNOWN                          CONFIRM: sent again
 *             NO, NOT_APPLIED, deadline,       over; the store is told nothing
 *             the adopter gives up
 * HELD,       DONE                             HELD, with a later deadline
 *   RISK      UNKNOWN, NOT_APPLIED, no answer  RISK; sent again
 *             for long, machine stood still
 *             NO, deadline, hold_max           lost: LEAVING; over if there is
 *                                              nothing to end
 *             last release of its holder       HELD by the next owner (local
 *                                              hand-over); ACQUIRING (yield);
 *                                              LEAVING
 *             grant detached                   over
 * LEAVING     DONE, NO                         over
 *             UNKNOWN, NOT_APPLIED             LEAVING: sent again
 *             gone_by                          over; its release is UNKNOWN
 *
 * Flags beside the state:
 *
 * prior       token of our own grant that the ACQUIRE ends first (a yield); a
 *             CANCEL must end it too
 * placed      the ACQUIRE was in the store's queue, so something may be there
 * doubt       a send is unanswered: the claim is ended by a CANCEL, since a
 *             RELEASE needs a grant that is known
 * copies      a late copy of the ACQUIRE may be executed: its end must leave a
 *             tombstone, so no yield, and no "over" without an end
 * hinted      the grant is said to have been ended by force: no local hand-over
 *             and no yield; it is confirmed before it is served
 * stale       the renewal under way was sent before that hint, so its answer
 *             does not settle it
 * want_renew  a caller waits for the renewal
 * aggressive  the holder keeps the grant past its deadline
 * outlives    the store knows that the grant does not end with our process;
 *             only then may a fixed lease take it
 * refusals    "no" in a row to an ACQUIRE that was ready to queue
 *
 * A claim is LEAVING until the store has answered, or until both our lease and
 * the last instant at which a late copy of our request may be executed have
 * passed. So the next acquire cannot meet a ghost of this one.
 *
 * A detached grant (snib_grant_abandon) is adopted in CONFIRM by the
 * acquisition `adopter`. This client has not asked for it. So a "no" is its
 * loss, no other is asked for in its place, and an adopter that gives up leaves
 * it as it was found: somebody else may have adopted it with better luck.
 *
 * The deadline counts from valid_from, which only the store knows, less an
 * allowance of 1 % of the lease + 5 ms for clock rates. A grant that arrives
 * after its deadline is not served before a renewal has confirmed it.
 *
 * Local hand-over: a grant reserves `reserve` tokens. Handing it to the next
 * local owner costs no request and hands on the remaining deadline, at most 31
 * times and for 5 ms. Then the client queues again behind the others, in one
 * step at the store (an ACQUIRE that ends our prior grant first). */
#include <assert.h>

#include "base/mem.h"
#include "core/claim_i.h"

/* A held lock should cost 512 bytes with its name and handle. It costs more
 * (docs/PERFORMANCE.md), and must not grow unseen. */
_Static_assert(sizeof(struct snib__local_lock) + sizeof(struct snib__claim) +
                       sizeof(struct snib__acquisition) <=
                   640,
               "a held lock has grown");

snib_duration snib__claim_allowance(snib_duration lease)
{
    return (snib_duration){lease.ns / 100 + 5000000};
}

struct snib__acquisition *
snib__claim_first_waiting(const struct snib__local_lock *local)
{
    struct snib__link *l = snib__list_first(&local->waiting);
    return l ? SNIB__CONTAINER(l, struct snib__acquisition, link) : NULL;
}

void snib__claim_arm(struct snib__engine *e, struct snib__claim *t)
{
    snib_instant at = SNIB__NEVER;
    switch ((snib__claim_state)t->state) {
    case SNIB__CLAIM_ACQUIRING:
        at = t->renew_at;
        break;
    case SNIB__CLAIM_QUEUED:
        break;
    case SNIB__CLAIM_CONFIRM:
        at = snib__sooner(t->deadline, t->renew_at);
        break;
    case SNIB__CLAIM_HELD:
    case SNIB__CLAIM_RISK:
        at = snib__sooner(t->hold_end, t->renew_at);
        if (!t->aggressive) {
            at = snib__sooner(at, t->deadline);
        }
        break;
    case SNIB__CLAIM_LEAVING:
        at = snib__sooner(t->gone_by, t->renew_at);
        break;
    }
    snib__heap_set(&e->claims, &t->timer, at);
}

void snib__claim_retry_at(struct snib__engine *e, snib_instant now,
                          struct snib__claim *t)
{
    int64_t ns = SNIB__RETRY_MS * INT64_C(1000000);
    if (t->lease.ns / 32 < ns) {
        ns = t->lease.ns / 32;
    }
    t->renew_at = snib__after(now, (snib_duration){ns});
    snib__claim_arm(e, t);
}

snib_err snib__claim_new(struct snib__engine *e, struct snib__local_lock *local)
{
    struct snib__claim *t = snib__alloc(sizeof *t);
    if (t) {
        t->acquiring = snib__pending_get(e, local);
    }
    if (!t || !t->acquiring) {
        snib__free(t);
        return SNIB_ERR_NOMEM;
    }
    t->acquiring->claim = t;
    snib__link_init(&t->held);
    t->local = local;
    t->renew_at = t->deadline = t->hold_end = t->gone_by = SNIB__NEVER;
    local->refs++;
    local->claim = t;
    e->counts.claims++;
    return SNIB_ERR_OK;
}

void snib__claim_orphan(struct snib__pending **q)
{
    if (*q) {
        (*q)->claim = NULL;
        *q = NULL;
    }
}

static void claim_free(struct snib__engine *e, struct snib__claim *t)
{
    assert(!t->holder && !t->ender && !t->adopter);
    snib__claim_orphan(&t->acquiring);
    snib__claim_orphan(&t->renewing);
    snib__claim_orphan(&t->ending);
    snib__unlink(&t->held);
    snib__heap_remove(&e->claims, &t->timer);
    t->local->claim = NULL;
    e->counts.claims--;
    snib__local_lock_drop(e, t->local);
    snib__free(t);
}

void snib__claim_over(struct snib__engine *e, snib_instant now,
                      struct snib__claim *t)
{
    snib__claim_orphan(&t->acquiring);
    snib__claim_orphan(&t->renewing);
    snib__claim_orphan(&t->ending);
    snib__unlink(&t->held);
    if (t->state == SNIB__CLAIM_LEAVING) {
        e->leaving--;
    }
    if (snib__claim_first_waiting(t->local)) {
        snib__claim_acquire(e, now, t, 0);
    } else {
        claim_free(e, t);
    }
}

void snib__claim_show(struct snib__engine *e, struct snib__claim *t,
                      snib_state state, snib_cause why)
{
    t->cause = (uint8_t)why;
    if (t->holder && t->holder->shown != state) {
        t->holder->shown = (uint8_t)state;
        t->holder->cause = (uint8_t)why;
        snib__acquisition_tell(e, t->holder, SNIB__NEWS_STATE);
    }
}

/* Another owner of this client holds the lock now. A try does not wait, not
 * even for a local hand-over: it is refused, as if it had come a moment
 * later. */
void snib__claim_refuse_tries(struct snib__engine *e,
                              struct snib__local_lock *local)
{
    SNIB__LIST_EACH_SAFE (l, next, &local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        if (s->options.try_only) {
            snib__acquisition_refuse(e, s, SNIB_ERR_BUSY, NULL);
        }
    }
}

void snib__claim_serve(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t, struct snib__acquisition *s)
{
    snib__unlink(&s->link);
    snib__heap_remove(&e->acquisitions, &s->timer);
    s->state = SNIB__ACQ_SERVED;
    s->holds = 1;
    s->token = t->token;
    s->since = now;
    s->shown = t->state == SNIB__CLAIM_RISK ? SNIB_AT_RISK : SNIB_HELD;
    t->holder = s;
    snib__unlink(&s->nested);
    t->aggressive = s->options.aggressive;
    t->hold_end = s->options.hold_max.ns > 0
                      ? snib__after(now, s->options.hold_max)
                      : SNIB__NEVER;
    if (s->options.fixed) {
        t->renew_at = SNIB__NEVER;
    }
    snib__claim_arm(e, t);
    snib__acquisition_tell(e, s, SNIB__NEWS_SETTLED);
    snib__claim_refuse_tries(e, t->local);
}

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

bool snib__claim_check(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t)
{
    if (t->state != SNIB__CLAIM_HELD && t->state != SNIB__CLAIM_RISK) {
        return false;
    }
    if (snib__reached(now, t->hold_end)) {
        snib__claim_lose(e, now, t, SNIB_CAUSE_HOLD_MAX, false);
        return true;
    }
    if (!snib__reached(now, t->deadline) || t->aggressive) {
        return false;
    }
    snib__claim_lose(e, now, t, snib__claim_cause(t), false);
    return true;
}

void snib__claim_risk(struct snib__engine *e, snib_instant now,
                      struct snib__claim *t, snib_cause why)
{
    if (t->state == SNIB__CLAIM_HELD) {
        t->state = SNIB__CLAIM_RISK;
        snib__claim_show(e, t, SNIB_AT_RISK, why);
    }
    if (!t->renewing &&
        (!t->holder || !t->holder->options.fixed || why == SNIB_CAUSE_PAUSED)) {
        snib__claim_renew(e, now, t);
    }
    snib__claim_arm(e, t);
}

void snib__claim_fails(struct snib__engine *e, struct snib__claim *t)
{
    bool fixed = t->holder && t->holder->options.fixed;
    if (t->state == SNIB__CLAIM_HELD && !fixed) {
        t->state = SNIB__CLAIM_RISK;
        snib__claim_show(e, t, SNIB_AT_RISK, SNIB_CAUSE_UNREACHABLE);
    } else if (t->state == SNIB__CLAIM_RISK) { /* so far it only stood still */
        t->cause = SNIB_CAUSE_UNREACHABLE;
    }
}

void snib__claim_answer(struct snib__engine *e, snib_instant now,
                        struct snib__claim *t, struct snib__pending *q)
{
    if (q == t->renewing) {
        snib__claim_renewal_answered(e, now, t, q);
    } else if (q == t->ending) {
        snib__claim_end_answered(e, now, t, q);
    } else if (t->state != SNIB__CLAIM_LEAVING) {
        assert(q == t->acquiring);
        snib__claim_acquire_answered(e, now, t, q);
    } else if (q->rq.answer != SNIB__QUEUED) {
        /* The acquire that is being cancelled. The cancel's answer counts, not
         * this one; but an acquisition with `passes` is served by having been
         * granted. */
        if (q->rq.answer == SNIB__DONE) {
            (void)snib__acquisition_had(e, now, t->ender, q->rq.token);
        }
        t->doubt = true;
        snib__claim_answered(e, t);
    }
}

void snib__claim_due(struct snib__engine *e, snib_instant now,
                     struct snib__claim *t)
{
    switch ((snib__claim_state)t->state) {
    case SNIB__CLAIM_ACQUIRING: /* there was no memory */
        if (snib__claim_first_waiting(t->local)) {
            snib__claim_acquire(e, now, t, t->prior);
        } else {
            snib__claim_leave(e, now, t);
        }
        return;
    case SNIB__CLAIM_QUEUED:
        break;
    case SNIB__CLAIM_CONFIRM:
        if (snib__reached(now, t->deadline) && t->adopter) {
            snib__claim_adopt_failed(e, now, t, SNIB_ERR_UNKNOWN, NULL);
            return;
        }
        if (snib__reached(now, t->deadline)) {
            (void)snib__acquisition_had(
                e, now, snib__claim_first_waiting(t->local), t->token);
            snib__claim_leave(e, now, t);
            return;
        }
        if (!t->renewing) {
            snib__claim_renew(e, now, t);
        }
        break;
    case SNIB__CLAIM_HELD:
    case SNIB__CLAIM_RISK:
        if (snib__claim_check(e, now, t)) {
            return;
        }
        if (snib__reached(now, t->renew_at) && t->renewing) {
            t->renew_at = SNIB__NEVER;
            if (!t->renewing->rq.only_asks && t->holder &&
                !t->holder->trouble) {
                snib__acquisition_trouble(t->holder,
                                          "a renewal is not answered");
            }
            snib__claim_fails(e, t);
        } else if (snib__reached(now, t->renew_at)) {
            snib__claim_renew(e, now, t);
        }
        break;
    case SNIB__CLAIM_LEAVING:
        if (snib__reached(now, t->gone_by)) {
            snib__claim_ended(e, now, t, SNIB_ERR_UNKNOWN, NULL);
            return;
        }
        if (!t->ending) {
            snib__claim_start_end(e, now, t);
        }
        return;
    }
    snib__claim_arm(e, t);
}

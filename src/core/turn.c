/* core/turn.c — this client's stake at the store for one name.
 *
 * state    asked      DONE         QUEUED   NO          UNKNOWN   nobody waits
 * -------  ---------  -----------  -------  ----------  --------  ------------
 * ASKING   waits      HELD, serve  QUEUED   ask again   repeat    LEAVING
 *                     or CONFIRM            or refuse   same id
 * QUEUED   waits      same         place    ask again   repeat    LEAVING
 * CONFIRM  waits      HELD, serve    -      ask again   repeat    LEAVING
 *  adopts  waits      HELD, serve    -      lost        repeat    (forgotten)
 * HELD     waits or   new deadline   -      lost        RISK      (release)
 * RISK     re-enters  HELD           -      lost        repeat    (release)
 * LEAVING  waits      over           -      over        repeat       -
 *
 * "over": the turn ends; when seats wait by then a new one begins. A turn is
 * LEAVING until the store has answered or our lease and the last instant at
 * which a late copy of our request may still be executed have passed, so that
 * the next acquire cannot meet its own ghost.
 *
 * A grant that was left behind (snib_grant_abandon) is taken up in CONFIRM by
 * its `adopter`: it is not of our asking, so a "no" is its loss and nothing is
 * asked for in its place, and one that gives up leaves it as it was found: it
 * may be somebody else's who does better.
 *
 * The deadline counts from valid_from, which only the store knows (P1), less
 * an allowance of 1 % of the lease + 5 ms for clock rates. A grant that
 * arrives when its deadline has passed is not served before a renewal has
 * confirmed it.
 *
 * Local hand-over: a grant reserves `room` tokens. A pass to the next local
 * lane costs no request; it hands on the remaining deadline, at most 31
 * times and for 5 ms, then the client queues again behind the others in one
 * step at the store (an ACQUIRE that ends our prior grant first). */
#include <assert.h>

#include "base/mem.h"
#include "core/turn_i.h"

/* A held lock should cost 512 bytes with its name and handle; it costs more
 * (docs/PERFORMANCE.md), and must not grow unseen. */
_Static_assert(sizeof(struct snib__site) + sizeof(struct snib__turn) +
                       sizeof(struct snib__seat) <=
                   640,
               "a held lock has grown");

snib_duration snib__turn_allowance(snib_duration lease)
{
    return (snib_duration){lease.ns / 100 + 5000000};
}

struct snib__seat *snib__turn_first_waiting(const struct snib__site *site)
{
    struct snib__link *l = snib__list_first(&site->waiting);
    return l ? SNIB__CONTAINER(l, struct snib__seat, link) : NULL;
}

void snib__turn_arm(struct snib__engine *e, struct snib__turn *t)
{
    snib_instant at = SNIB__NEVER;
    switch ((snib__turn_state)t->state) {
    case SNIB__TURN_ASKING:
        at = t->renew_at;
        break;
    case SNIB__TURN_QUEUED:
        break;
    case SNIB__TURN_CONFIRM:
        at = snib__sooner(t->deadline, t->renew_at);
        break;
    case SNIB__TURN_HELD:
    case SNIB__TURN_RISK:
        at = snib__sooner(t->hold_end, t->renew_at);
        if (!t->aggressive) {
            at = snib__sooner(at, t->deadline);
        }
        break;
    case SNIB__TURN_LEAVING:
        at = snib__sooner(t->gone_by, t->renew_at);
        break;
    }
    snib__heap_set(&e->turns, &t->timer, at);
}

void snib__turn_retry_at(struct snib__engine *e, snib_instant now,
                         struct snib__turn *t)
{
    int64_t ns = SNIB__RETRY_MS * INT64_C(1000000);
    if (t->lease.ns / 32 < ns) {
        ns = t->lease.ns / 32;
    }
    t->renew_at = snib__after(now, (snib_duration){ns});
    snib__turn_arm(e, t);
}

snib_err snib__turn_new(struct snib__engine *e, struct snib__site *site)
{
    struct snib__turn *t = snib__alloc(sizeof *t);
    if (t) {
        t->asking = snib__inquiry_get(e, site);
    }
    if (!t || !t->asking) {
        snib__free(t);
        return SNIB_ERR_NOMEM;
    }
    t->asking->turn = t;
    snib__link_init(&t->held);
    t->site = site;
    t->renew_at = t->deadline = t->hold_end = t->gone_by = SNIB__NEVER;
    site->refs++;
    site->turn = t;
    e->counts.turns++;
    return SNIB_ERR_OK;
}

/* Let an answer that is still due come back to nobody. */
void snib__turn_orphan(struct snib__inquiry **q)
{
    if (*q) {
        (*q)->turn = NULL;
        *q = NULL;
    }
}

static void turn_free(struct snib__engine *e, struct snib__turn *t)
{
    assert(!t->holder && !t->ender && !t->adopter);
    snib__turn_orphan(&t->asking);
    snib__turn_orphan(&t->renewing);
    snib__turn_orphan(&t->ending);
    snib__unlink(&t->held);
    snib__heap_remove(&e->turns, &t->timer);
    t->site->turn = NULL;
    e->counts.turns--;
    snib__site_drop(e, t->site);
    snib__free(t);
}

/* The turn is over. Whoever waits gets a new one in its place. */
void snib__turn_over(struct snib__engine *e, snib_instant now,
                     struct snib__turn *t)
{
    snib__turn_orphan(&t->asking);
    snib__turn_orphan(&t->renewing);
    snib__turn_orphan(&t->ending);
    snib__unlink(&t->held);
    if (t->state == SNIB__TURN_LEAVING) {
        e->leaving--;
    }
    if (snib__turn_first_waiting(t->site)) {
        snib__turn_ask(e, now, t, 0);
    } else {
        turn_free(e, t);
    }
}

void snib__turn_show(struct snib__engine *e, struct snib__turn *t,
                     snib_state state, snib_reason why)
{
    t->why = (uint8_t)why;
    if (t->holder && t->holder->shown != state) {
        t->holder->shown = (uint8_t)state;
        t->holder->why = (uint8_t)why;
        snib__seat_tell(e, t->holder, SNIB__NEWS_STATE);
    }
}

/* It is held now by another lane of this client. Who only tries hears that, as
 * if he came a moment later; to wait here for a pass would be to wait. */
void snib__turn_refuse_tries(struct snib__engine *e, struct snib__site *site)
{
    SNIB__LIST_EACH_SAFE (l, next, &site->waiting) {
        struct snib__seat *s = SNIB__CONTAINER(l, struct snib__seat, link);
        if (s->terms.try_only) {
            snib__seat_refuse(e, s, SNIB_ERR_BUSY, NULL);
        }
    }
}

void snib__turn_serve(struct snib__engine *e, snib_instant now,
                      struct snib__turn *t, struct snib__seat *s)
{
    snib__unlink(&s->link);
    snib__heap_remove(&e->seats, &s->timer);
    s->state = SNIB__SEAT_SERVED;
    s->holds = 1;
    s->token = t->token;
    s->since = now;
    s->shown = t->state == SNIB__TURN_RISK ? SNIB_AT_RISK : SNIB_HELD;
    t->holder = s;
    snib__cycles_served(s);
    t->aggressive = s->terms.aggressive;
    t->hold_end = s->terms.hold_max.ns > 0 ? snib__after(now, s->terms.hold_max)
                                           : SNIB__NEVER;
    if (s->terms.fixed) {
        t->renew_at = SNIB__NEVER;
    }
    snib__turn_arm(e, t);
    snib__seat_tell(e, s, SNIB__NEWS_SETTLED);
    snib__turn_refuse_tries(e, t->site);
}

snib_reason snib__turn_cause(const struct snib__turn *t)
{
    if (t->holder && t->holder->terms.fixed) {
        return SNIB_WHY_EXPIRED;
    }
    if (t->why) {
        return (snib_reason)t->why;
    }
    return t->renewing ? SNIB_WHY_UNREACHABLE
                       : SNIB_WHY_PAUSED; /* nobody ran when it was due */
}

bool snib__turn_check(struct snib__engine *e, snib_instant now,
                      struct snib__turn *t)
{
    if (t->state != SNIB__TURN_HELD && t->state != SNIB__TURN_RISK) {
        return false;
    }
    if (snib__reached(now, t->hold_end)) {
        snib__turn_lose(e, now, t, SNIB_WHY_HOLD_MAX, false);
        return true;
    }
    if (!snib__reached(now, t->deadline) || t->aggressive) {
        return false;
    }
    snib__turn_lose(e, now, t, snib__turn_cause(t), false);
    return true;
}

void snib__turn_risk(struct snib__engine *e, snib_instant now,
                     struct snib__turn *t, snib_reason why)
{
    if (t->state == SNIB__TURN_HELD) {
        t->state = SNIB__TURN_RISK;
        snib__turn_show(e, t, SNIB_AT_RISK, why);
    }
    if (!t->renewing &&
        (!t->holder || !t->holder->terms.fixed || why == SNIB_WHY_PAUSED)) {
        snib__turn_renew(e, now, t);
    }
    snib__turn_arm(e, t);
}

void snib__turn_fails(struct snib__engine *e, struct snib__turn *t)
{
    bool fixed = t->holder && t->holder->terms.fixed;
    if (t->state == SNIB__TURN_HELD && !fixed) {
        t->state = SNIB__TURN_RISK;
        snib__turn_show(e, t, SNIB_AT_RISK, SNIB_WHY_UNREACHABLE);
    } else if (t->state == SNIB__TURN_RISK) { /* had only stood still before */
        t->why = SNIB_WHY_UNREACHABLE;
    }
}

void snib__turn_answer(struct snib__engine *e, snib_instant now,
                       struct snib__turn *t, struct snib__inquiry *q)
{
    if (q == t->renewing) {
        snib__turn_renewal_answered(e, now, t, q);
    } else if (q == t->ending) {
        snib__turn_end_answered(e, now, t, q);
    } else if (t->state != SNIB__TURN_LEAVING) {
        assert(q == t->asking);
        snib__turn_asked(e, now, t, q);
    } else if (q->rq.answer != SNIB__QUEUED) {
        /* The acquire that is being cancelled: whatever it says, the cancel
         * has the last word; but who passes has heard enough. */
        if (q->rq.answer == SNIB__DONE) {
            (void)snib__seat_had(e, now, t->ender, q->rq.token);
        }
        t->doubt = true;
        snib__turn_answered(e, t);
    }
}

void snib__turn_due(struct snib__engine *e, snib_instant now,
                    struct snib__turn *t)
{
    switch ((snib__turn_state)t->state) {
    case SNIB__TURN_ASKING: /* there was no memory */
        if (snib__turn_first_waiting(t->site)) {
            snib__turn_ask(e, now, t, t->prior);
        } else {
            snib__turn_leave(e, now, t);
        }
        return;
    case SNIB__TURN_QUEUED:
        break;
    case SNIB__TURN_CONFIRM:
        if (snib__reached(now, t->deadline) && t->adopter) {
            snib__turn_adopt_failed(e, now, t, SNIB_ERR_UNKNOWN, NULL);
            return;
        }
        if (snib__reached(now, t->deadline)) {
            (void)snib__seat_had(e, now, snib__turn_first_waiting(t->site),
                                 t->token);
            snib__turn_leave(e, now, t);
            return;
        }
        if (!t->renewing) {
            snib__turn_renew(e, now, t);
        }
        break;
    case SNIB__TURN_HELD:
    case SNIB__TURN_RISK:
        if (snib__turn_check(e, now, t)) {
            return;
        }
        if (snib__reached(now, t->renew_at) && t->renewing) {
            t->renew_at = SNIB__NEVER;
            if (!t->renewing->rq.only_asks && t->holder &&
                !t->holder->trouble) {
                snib__seat_trouble(t->holder, "a renewal is not answered");
            }
            snib__turn_fails(e, t);
        } else if (snib__reached(now, t->renew_at)) {
            snib__turn_renew(e, now, t);
        }
        break;
    case SNIB__TURN_LEAVING:
        if (snib__reached(now, t->gone_by)) {
            snib__turn_ended(e, now, t, SNIB_ERR_UNKNOWN, NULL);
            return;
        }
        if (!t->ending) {
            snib__turn_start_end(e, now, t);
        }
        return;
    }
    snib__turn_arm(e, t);
}

/* core/claim_send.c — what a claim that has a grant, or gives up, sends to the
 * store.
 *
 * A claim has at most one request of a kind under way: an ACQUIRE (claim.c), a
 * RENEW, and in LEAVING a RELEASE or a CANCEL. The last three are filled here
 * and put on the step's chain. No answer is read here. When there is no memory
 * for a request, the claim's timer comes back for it. */
#include "core/claim_i.h"

/* -- RENEW ---------------------------------------------------------------- */

/* A renewal that is not answered for so long counts as one that fails. That is
 * told while there is time, also where little is left: the first lease of a mutex
 * that was taken without a script is far shorter than the lease asked for. */
static snib_duration claim_send_silence(const struct snib__engine *e,
                                        snib_instant now,
                                        const struct snib__claim *t)
{
    int64_t ns = t->lease.ns / 6, left = snib__between(now, t->deadline).ns;
    ns = ns < left / 2 ? ns : left / 2;
    return (snib_duration){ns < e->cfg.request.ns ? ns : e->cfg.request.ns};
}

/* Fills in a RENEW of what the store has. False: there is no memory for it. */
static bool claim_send_prepare(struct snib__engine *e, snib_instant now,
                               struct snib__claim *t)
{
    struct snib__pending *q = snib__pending_get(e, t->local);
    if (!q) {
        snib__claim_retry_at(e, now, t);
        return false;
    }
    t->renewing = q;
    if (t->most.ns < t->lease.ns) {
        t->most = t->lease;
        snib__claim_note(e, t);
    }
    t->hint = t->hint ? SNIB__HINT_HEARD : SNIB__HINT_NONE;
    t->renew_at = snib__claim_is_held(t)
                      ? snib__after(now, claim_send_silence(e, now, t))
                      : SNIB__NEVER;
    q->claim = t;
    q->rq.id[0] = t->id[0];
    q->rq.id[1] = t->id[1];
    q->rq.verb = SNIB__RENEW;
    q->rq.token = t->token0;
    q->rq.lease = t->lease;
    q->rq.background = true;
    /* If the machine stood still, the store may have less of the lease left
     * than we know. So at risk even a fixed lease is renewed; else it is only
     * asked about. */
    q->rq.renew.only_asks = t->state == SNIB__CLAIM_HELD &&
                            snib__claim_is_fixed(t) && !t->want_renew;
    q->rq.renew.listen = e->out.listens;
    q->rq.renew.held_until =
        snib__claim_is_held(t) ? t->deadline : (snib_instant){0};
    q->rq.limit = t->aggressive ? snib__after(now, e->cfg.request)
                                : snib__later(t->deadline, now);
    e->counts.renewals++;
    return true;
}

static void claim_send_prepared(struct snib__engine *e, struct snib__claim *t)
{
    snib__pending_start(e, t->renewing);
    if (snib__claim_is_held(t)) {
        snib__claim_arm(e, t);
    }
}

void snib__claim_send_renew(struct snib__engine *e, snib_instant now,
                            struct snib__claim *t)
{
    if (claim_send_prepare(e, now, t)) {
        claim_send_prepared(e, t);
    }
}

/* -- reclaim --------------------------------------------------------------- */

bool snib__claim_may_reclaim(snib_instant now, const struct snib__claim *t)
{
    return t->holder && snib__claim_is_held(t) && !snib__claim_is_fixed(t) &&
           !snib__reached(now, t->deadline) &&
           (t->holder->options.kind == SNIB_KIND_MUTEX ||
            t->holder->options.kind == SNIB_KIND_WRITE);
}

void snib__claim_send_reclaim(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t)
{
    if (!claim_send_prepare(e, now, t)) {
        return;
    }
    struct snib__pending *q = t->renewing;
    (void)snib__acquisition_about(e, now, t->holder, &q->text);
    q->rq.text = snib__buf_text(&q->text);
    q->rq.text_size = q->text.failed ? 0 : (uint32_t)snib__buf_size(&q->text);
    q->rq.floor = t->token0 + t->reserve;
    q->rq.acquire.kind = (snib_kind)t->holder->options.kind;
    q->rq.acquire.delay = t->delay;
    (void)snib__acquisition_upgrade_of(e, t->holder, q->rq.acquire.upgrade_of);
    q->rq.acquire.reserve = t->reserve;
    /* Like an acquire it may be executed late, and later than the acquire. */
    t->doubt = t->doubt ? t->doubt : SNIB__DOUBT_COPIES;
    t->late = 0;
    claim_send_prepared(e, t);
}

/* -- RELEASE or CANCEL ---------------------------------------------------- */

void snib__claim_send_end(struct snib__engine *e, snib_instant now,
                          struct snib__claim *t)
{
    /* A copy of the acquire may be executed later than our lease lasts. */
    bool late = t->acquiring != NULL || t->doubt;
    bool held = t->state == SNIB__CLAIM_HELD || t->state == SNIB__CLAIM_RISK;
    snib_duration most = t->most;
    SNIB__LIST_EACH (l, &t->local->waiting) {
        SNIB__CONTAINER(l, struct snib__acquisition, link)->ended = !held;
    }
    if (late && most.ns < SNIB__NOT_AFTER_MS * INT64_C(1000000)) {
        most = snib__ms(SNIB__NOT_AFTER_MS);
    }
    if (t->state != SNIB__CLAIM_LEAVING) {
        e->leaving++;
    }
    t->state = SNIB__CLAIM_LEAVING;
    t->says = NULL;
    t->end_sent = false;
    t->gone_by = snib__after(now, most);
    t->renew_at = SNIB__NEVER;
    snib__claim_orphan(&t->renewing);
    snib__unlink(&t->held);
    snib__claim_start_end(e, now, t);
}

void snib__claim_start_end(struct snib__engine *e, snib_instant now,
                           struct snib__claim *t)
{
    struct snib__pending *q = snib__pending_get(e, t->local);
    if (!q) {
        snib__claim_retry_at(e, now, t);
        return;
    }
    t->renew_at = SNIB__NEVER;
    t->ending = q;
    q->claim = t;
    q->rq.id[0] = t->id[0];
    q->rq.id[1] = t->id[1];
    q->rq.verb = t->acquiring || t->doubt == SNIB__DOUBT_OPEN ? SNIB__CANCEL
                                                              : SNIB__RELEASE;
    q->rq.token = t->token0;
    if (q->rq.verb == SNIB__CANCEL) {
        snib__claim_tell_prior(t, &q->rq);
    }
    q->rq.thin = t->thin;
    q->rq.late = t->acquiring ? t->acquiring->rq.late : t->late;
    q->rq.lease = t->lease;
    q->rq.limit = t->gone_by;
    q->rq.resent = t->doubt;
    q->rq.background = t->ender == NULL;
    snib__claim_arm(e, t);
    snib__pending_start(e, q);
}

/* A CANCEL ends the grant also when its lease is over and the lock-delay runs; a
 * RELEASE may come too late for that. */
void snib__claim_end_untold(struct snib__engine *e, snib_instant now,
                            struct snib__claim *t)
{
    if (t->delay.ns > 0) {
        t->doubt = SNIB__DOUBT_OPEN;
    }
    snib__claim_send_end(e, now, t);
}

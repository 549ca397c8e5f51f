/* core/claim_send.c — what a claim sends to the store, and its life.
 *
 * A claim has at most one request of a kind under way: an ACQUIRE for the head
 * of the local queue, a RENEW, and in LEAVING a RELEASE or a CANCEL. Here they
 * are filled and put on the step's chain, and the claim is made and freed. No
 * answer is read here. When there is no memory for a request, the claim's timer
 * comes back for it. */
#include <assert.h>

#include "base/mem.h"
#include "core/claim_i.h"

/* -- life ----------------------------------------------------------------- */

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

static void claim_send_free(struct snib__engine *e, struct snib__claim *t)
{
    assert(!t->holder && !t->ender && !t->adopter && !t->says);
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

/* -- ACQUIRE -------------------------------------------------------------- */

/* May the request ask again and again instead of queuing? All waiting
 * acquisitions of a claim share one request, and it queues as soon as one of
 * them wants to queue. A try wants neither, so it does not decide. */
static bool claim_send_spins(const struct snib__acquisition *s)
{
    return s->options.spin || s->options.try_only;
}

void snib__claim_limits(struct snib__claim *t,
                        const struct snib__acquisition *s)
{
    if (t->acquiring) {
        t->acquiring->rq.limit = snib__later(t->acquiring->rq.limit, s->limit);
        t->acquiring->rq.acquire.spin =
            t->acquiring->rq.acquire.spin && claim_send_spins(s);
        t->acquiring->rq.once = t->acquiring->rq.once && s->options.try_only;
    }
}

/* The text that others are shown. True: it says what the owner of s holds. */
static bool claim_send_about(struct snib__engine *e, snib_instant now,
                             const struct snib__acquisition *s,
                             struct snib__buf *out)
{
    struct snib__about about = e->self;
    /* A fixed lease may be exported at any moment, even by a process that is
     * killed right after it. So it never ends with our process, and the store
     * is told so from the beginning. */
    about.leashed = about.leashed || s->options.fixed;
    /* A nested wait may have stood in the local queue before. */
    bool nested = snib__linked(&s->nested);
    snib_instant since = nested ? s->since : now;
    about.since_ms = (since.ns + e->cfg.wall_offset_ns) / 1000000;
    if (s->reason) {
        size_t i = 0;
        for (; s->reason[i] && i + 1 < sizeof about.reason; i++) {
            about.reason[i] = s->reason[i];
        }
        about.reason[i] = 0;
    }
    about.owner = (int64_t)(s->owner & ~SNIB__OWNER_FREE);
    if (nested) {
        snib__nested_about(e, s, &about);
    }
    snib__buf_clear(out);
    snib__about_write(&about, out);
    return about.held_count && !out->failed;
}

/* Sets upgrade_of to the owner's other grant, which is not in the way of this
 * one. False: that grant is over by now. */
static bool claim_send_upgrade_of(struct snib__engine *e,
                                  const struct snib__acquisition *s,
                                  struct snib__request *rq)
{
    const struct snib__acquisition *other =
        snib__engine_acquisition(e, s->options.upgrade_of);
    if (!other || other->state != SNIB__ACQ_SERVED) {
        return false;
    }
    rq->acquire.upgrade_of[0] = other->local->claim->id[0];
    rq->acquire.upgrade_of[1] = other->local->claim->id[1];
    return true;
}

/* The claim begins anew: nothing that it knew of an earlier grant counts. */
static void claim_send_begin(const struct snib__engine *e,
                             struct snib__claim *t,
                             const struct snib__acquisition *head,
                             int64_t prior)
{
    t->state = SNIB__CLAIM_ACQUIRING;
    t->cause = SNIB_CAUSE_NONE;
    t->says = NULL;
    t->prior = prior;
    t->lease = head->options.lease;
    if (t->most.ns < t->lease.ns || !prior) {
        t->most = t->lease;
    }
    t->delay = head->options.delay;
    t->outlives = e->self.leashed || head->options.fixed;
    t->renew_at = t->deadline = t->hold_end = SNIB__NEVER;
    t->doubt = SNIB__DOUBT_NONE;
    t->hint = SNIB__HINT_NONE;
    t->placed = false;
}

/* Fills in what the head of the queue wants. */
static void claim_send_wish(const struct snib__engine *e,
                            const struct snib__claim *t,
                            const struct snib__acquisition *head,
                            struct snib__request *rq)
{
    rq->verb = SNIB__ACQUIRE;
    rq->acquire.kind = (snib_kind)head->options.kind;
    rq->acquire.permits =
        head->options.permits || rq->acquire.kind == SNIB_KIND_PERMITS
            ? head->options.permits
            : 1;
    rq->acquire.capacity = head->options.capacity;
    rq->acquire.priority = head->options.priority;
    rq->acquire.delay = head->options.delay;
    rq->lease = t->lease;
    rq->token = t->prior;
    rq->floor = e->floor;
    rq->acquire.reserve =
        head->options.fixed || head->options.no_hand_over || t->local->parent
            ? 0
            : SNIB__RESERVE;
}

/* Fills in how all that wait want to wait. */
static void claim_send_patience(const struct snib__claim *t, snib_instant now,
                                struct snib__request *rq)
{
    rq->resent = rq->acquire.placed = false;
    rq->acquire.may_queue = false;
    rq->once = true;
    rq->acquire.spin = true;
    rq->batch.number = 0;
    rq->limit = now;
    SNIB__LIST_EACH (l, &t->local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        rq->acquire.may_queue = rq->acquire.may_queue || !s->options.try_only;
        rq->once = rq->once && s->options.try_only;
        rq->acquire.spin = rq->acquire.spin && claim_send_spins(s);
        rq->limit = snib__later(rq->limit, s->limit);
        s->ended = false;
    }
}

void snib__claim_send_acquire(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, int64_t prior)
{
    struct snib__acquisition *head = snib__claim_first_waiting(t->local);
    assert(head && !t->holder && !t->adopter);
    claim_send_begin(e, t, head, prior);
    if (!t->acquiring && !(t->acquiring = snib__pending_get(e, t->local))) {
        snib__claim_retry_at(e, now, t); /* no memory now: later */
        return;
    }
    snib__claim_arm(e, t);
    t->acquiring->claim = t;
    struct snib__request *rq = &t->acquiring->rq;
    rq->id[0] = t->id[0] = snib__rng_next(&e->rng);
    rq->id[1] = t->id[1] = snib__rng_next(&e->rng);
    if (head->options.upgrade_of && !claim_send_upgrade_of(e, head, rq)) {
        snib__acquisition_refuse(e, head, SNIB_ERR_LOST, NULL);
        snib__claim_drop_acquire(e, t); /* its request was not started */
        snib__claim_anew_or_free(e, now, t);
        return;
    }
    claim_send_wish(e, t, head, rq);
    claim_send_patience(t, now, rq);
    if (claim_send_about(e, now, head, &t->acquiring->text)) {
        snib__nested_said(head);
    }
    rq->text = snib__buf_text(&t->acquiring->text);
    rq->text_size = t->acquiring->text.failed /* no memory: without the text */
                        ? 0
                        : (uint32_t)snib__buf_size(&t->acquiring->text);
    e->counts.acquires++;
    e->counts.yields += prior != 0;
    snib__pending_start(e, t->acquiring);
}

void snib__claim_drop_acquire(struct snib__engine *e, struct snib__claim *t)
{
    snib__pending_put(e, t->acquiring);
    t->acquiring = NULL;
}

void snib__claim_anew_or_free(struct snib__engine *e, snib_instant now,
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
        snib__claim_send_acquire(e, now, t, 0);
    } else {
        claim_send_free(e, t);
    }
}

/* -- RENEW ---------------------------------------------------------------- */

snib_instant snib__claim_renewal_of(snib_instant from, snib_duration lease)
{
    int64_t grain = lease.ns / 64 > 0 ? lease.ns / 64 : 1;
    snib_instant at = snib__after(from, (snib_duration){lease.ns / 3});
    at.ns -= at.ns % grain;
    return at;
}

/* A renewal that is not answered for so long counts as one that fails. */
static snib_duration claim_send_silence(const struct snib__engine *e,
                                        const struct snib__claim *t)
{
    int64_t ns = t->lease.ns / 6;
    return (snib_duration){ns < e->cfg.request.ns ? ns : e->cfg.request.ns};
}

void snib__claim_send_renew(struct snib__engine *e, snib_instant now,
                            struct snib__claim *t)
{
    struct snib__pending *q = snib__pending_get(e, t->local);
    if (!q) {
        snib__claim_retry_at(e, now, t);
        return;
    }
    t->renewing = q;
    t->most = t->lease.ns > t->most.ns ? t->lease : t->most;
    t->hint = t->hint ? SNIB__HINT_HEARD : SNIB__HINT_NONE;
    t->renew_at = snib__claim_is_held(t)
                      ? snib__after(now, claim_send_silence(e, t))
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
    q->rq.limit = t->aggressive ? snib__after(now, e->cfg.request)
                                : snib__later(t->deadline, now);
    e->counts.renewals++;
    snib__pending_start(e, q);
    if (snib__claim_is_held(t)) {
        snib__claim_arm(e, t);
    }
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
    q->rq.token = q->rq.verb == SNIB__CANCEL ? t->prior : t->token0;
    q->rq.lease = t->lease;
    q->rq.limit = t->gone_by;
    q->rq.resent = t->doubt;
    q->rq.background = t->ender == NULL;
    snib__claim_arm(e, t);
    snib__pending_start(e, q);
}

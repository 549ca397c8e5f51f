/* core/claim_acquire.c — asking the store on behalf of the waiting
 * acquisitions.
 *
 * A claim has one ACQUIRE at a time, for the head of the local queue; when its
 * answer is lost, it is sent again with the same id. The answer is a grant
 * (served, confirmed first, or given back), a position in the queue, a no, or
 * the cause why the store cannot work now. An adoption sends no ACQUIRE: it is
 * a renewal of a grant that another process has detached. */
#include <assert.h>

#include "base/error.h"
#include "core/claim_i.h"

/* May the request ask again and again instead of queuing? All waiting
 * acquisitions of a claim share one request, and it queues as soon as one of
 * them wants to queue. A try wants neither, so it does not decide. */
static bool claim_acquire_spins(const struct snib__acquisition *s)
{
    return s->options.spin || s->options.try_only;
}

void snib__claim_limits(struct snib__claim *t,
                        const struct snib__acquisition *s)
{
    if (t->acquiring) {
        t->acquiring->rq.limit = snib__later(t->acquiring->rq.limit, s->limit);
        t->acquiring->rq.spin = t->acquiring->rq.spin && claim_acquire_spins(s);
        t->acquiring->rq.once = t->acquiring->rq.once && s->options.try_only;
    }
}

/* Must a full lease be known to stand, and not only that it was granted? */
static bool claim_acquire_strict(const struct snib__acquisition *s)
{
    return s->options.fixed || s->options.confirm;
}

/* A party of a barrier is alone with its claim. */
static bool claim_acquire_is_party(const struct snib__claim *t)
{
    const struct snib__acquisition *s = snib__claim_first_waiting(t->local);
    return s && s->options.kind == SNIB_BARRIER;
}

static void claim_acquire_write_about(struct snib__engine *e, snib_instant now,
                                      const struct snib__acquisition *s,
                                      struct snib__buf *out)
{
    struct snib__about about = e->self;
    /* A fixed lease may be exported at any moment, even by a process that is
     * killed right after it. So it never ends with our process, and the store
     * is told so from the beginning. */
    about.leashed = about.leashed || s->options.fixed;
    about.since_ms = (now.ns + e->cfg.wall_offset_ns) / 1000000;
    if (s->reason) {
        size_t i = 0;
        for (; s->reason[i] && i + 1 < sizeof about.reason; i++) {
            about.reason[i] = s->reason[i];
        }
        about.reason[i] = 0;
    }
    about.owner = (int64_t)(s->owner & ~SNIB__OWNER_FREE);
    if (s->local->parent) {
        snib__nested_about(e, s, &about);
    }
    snib__buf_clear(out);
    snib__about_write(&about, out);
}

/* Sets upgrade_of to the owner's other grant, which is not in the way of this
 * one. False: that grant is over by now. */
static bool claim_acquire_upgrade_of(struct snib__engine *e,
                                     const struct snib__acquisition *s,
                                     struct snib__request *rq)
{
    const struct snib__acquisition *other =
        snib__engine_acquisition(e, s->options.upgrade_of);
    if (!other || other->state != SNIB__ACQ_SERVED) {
        return false;
    }
    rq->upgrade_of[0] = other->local->claim->id[0];
    rq->upgrade_of[1] = other->local->claim->id[1];
    return true;
}

void snib__claim_acquire(struct snib__engine *e, snib_instant now,
                         struct snib__claim *t, int64_t prior)
{
    struct snib__acquisition *head = snib__claim_first_waiting(t->local);
    assert(head && !t->holder && !t->adopter);
    t->state = SNIB__CLAIM_ACQUIRING;
    t->cause = SNIB_CAUSE_NONE;
    t->prior = prior;
    t->lease = head->options.lease;
    if (t->most.ns < t->lease.ns || !prior) {
        t->most = t->lease;
    }
    t->delay = head->options.delay;
    t->outlives = e->self.leashed || head->options.fixed;
    t->renew_at = t->deadline = t->hold_end = SNIB__NEVER;
    t->doubt = t->copies = t->hinted = t->stale = t->placed = false;
    if (!t->acquiring && !(t->acquiring = snib__pending_get(e, t->local))) {
        snib__claim_retry_at(e, now, t); /* no memory now: later */
        return;
    }
    snib__claim_arm(e, t);
    t->acquiring->claim = t;
    struct snib__request *rq = &t->acquiring->rq;
    rq->id[0] = snib__rng_next(&e->rng);
    rq->id[1] = snib__rng_next(&e->rng);
    t->id[0] = rq->id[0];
    t->id[1] = rq->id[1];
    rq->verb = SNIB__ACQUIRE;
    rq->kind = (snib_kind)head->options.kind;
    rq->permits = head->options.permits || rq->kind == SNIB_PERMITS
                      ? head->options.permits
                      : 1;
    rq->capacity = head->options.capacity;
    rq->rank = head->options.rank;
    rq->delay = head->options.delay;
    if (head->options.upgrade_of && !claim_acquire_upgrade_of(e, head, rq)) {
        snib__acquisition_refuse(e, head, SNIB_ERR_LOST, NULL);
        snib__claim_answered(e, t); /* its request was not started */
        snib__claim_over(e, now, t);
        return;
    }
    rq->resent = rq->placed = false;
    rq->may_queue = false;
    rq->once = true;
    rq->spin = true;
    rq->batch = 0;
    rq->token = prior;
    rq->floor = e->floor;
    rq->reserve =
        head->options.fixed || head->options.no_hand_over || t->local->parent
            ? 0
            : SNIB__RESERVE;
    rq->lease = t->lease;
    rq->limit = now;
    SNIB__LIST_EACH (l, &t->local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        rq->may_queue = rq->may_queue || !s->options.try_only;
        rq->once = rq->once && s->options.try_only;
        rq->spin = rq->spin && claim_acquire_spins(s);
        rq->limit = snib__later(rq->limit, s->limit);
        s->ended = false;
    }
    claim_acquire_write_about(e, now, head, &t->acquiring->text);
    rq->text = snib__buf_text(&t->acquiring->text);
    rq->text_size = t->acquiring->text.failed /* no memory: without the text */
                        ? 0
                        : (uint32_t)snib__buf_size(&t->acquiring->text);
    e->counts.asks++;
    e->counts.yields += prior != 0;
    snib__pending_start(e, t->acquiring);
}

/* A renewal must show that the grant is ours before it is served. Until then
 * the deadline only says when to stop asking. An acquisition with `passes` is
 * told at once: it was granted, whatever a renewal would say. */
static void claim_acquire_confirm_first(struct snib__engine *e,
                                        snib_instant now, struct snib__claim *t)
{
    struct snib__acquisition *s = snib__claim_first_waiting(t->local);
    if (!claim_acquire_strict(s) &&
        snib__acquisition_had(e, now, s, t->token)) {
        snib__claim_leave(e, now, t);
        return;
    }
    t->lease = s->options.lease;
    t->state = SNIB__CLAIM_CONFIRM;
    t->renew_at = now;
    snib__claim_renew(e, now, t);
    snib__claim_arm(e, t);
}

/* Serves the head of the queue, unless the grant must be confirmed first: too
 * little of its lease is left (of a strict acquisition, which insists on a
 * whole lease: more than an eighth is gone), or somebody is said to have ended
 * it already. */
static void claim_acquire_serve_or_confirm(struct snib__engine *e,
                                           snib_instant now,
                                           struct snib__claim *t,
                                           snib_duration given)
{
    struct snib__acquisition *s = snib__claim_first_waiting(t->local);
    int64_t left = t->deadline.ns - now.ns;
    int64_t whole =
        s->options.lease.ns - snib__claim_allowance(s->options.lease).ns;
    if (t->hinted ||
        (claim_acquire_strict(s) ? left < whole - s->options.lease.ns / 8
                                 : left < given.ns / 4)) {
        claim_acquire_confirm_first(e, now, t);
        return;
    }
    t->lease = s->options.lease;
    t->state = SNIB__CLAIM_HELD;
    snib__list_push(&e->held, &t->held);
    snib__claim_serve(e, now, t, s);
}

static void claim_acquire_granted(struct snib__engine *e, snib_instant now,
                                  struct snib__claim *t,
                                  const struct snib__request *rq)
{
    snib_duration given = rq->left;
    bool pushed = given.ns < rq->lease.ns;
    bool proven = rq->valid_from.ns != 0;
    struct snib__acquisition *first = snib__claim_first_waiting(t->local);
    bool fits = snib__claim_fits(t, first);
    if (first && given.ns > first->options.lease.ns) {
        /* An acquisition that has left since had asked for a longer lease. A
         * renewal does not shorten what stands: if this process ended, others
         * would wait for longer than the one that takes the grant has asked
         * for. */
        given = first->options.lease;
        fits = false;
    }
    if (first && rq->kind == SNIB_PERMITS) {
        first->options.permits = rq->permits;
        first->options.slot = rq->slot;
    }
    t->id[0] = rq->id[0]; /* the store may have asked under another id */
    t->id[1] = rq->id[1];
    t->token0 = t->token = rq->token;
    t->reserve = rq->reserve;
    t->most = rq->lease;
    t->granted = now;
    t->refusals = 0;
    t->doubt = false;
    t->copies = t->copies || rq->resent;
    t->prior = 0;
    t->deadline = snib__before(snib__after(rq->valid_from, given),
                               snib__claim_allowance(given));
    t->renew_at =
        pushed ? snib__after(rq->valid_from, (snib_duration){given.ns / 2})
               : snib__claim_renewal_of(rq->valid_from, given);
    if (e->floor < rq->token + rq->reserve && !rq->far) {
        e->floor = rq->token + rq->reserve;
    }
    snib__pending_put(e, t->acquiring);
    t->acquiring = NULL;
    if (!fits) { /* nobody wants it any more, or not with that lock-delay */
        snib__claim_leave(e, now, t);
    } else if (!proven || snib__reached(now, t->deadline)) {
        /* It is not proven when the lease started (a pushed grant), or that was
         * too long ago: ask before use. */
        t->deadline = snib__after(now, given);
        claim_acquire_confirm_first(e, now, t);
    } else {
        claim_acquire_serve_or_confirm(e, now, t, given);
    }
}

void snib__claim_adopt_failed(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, snib_err err,
                              const struct snib_error *detail)
{
    struct snib__acquisition *s = t->adopter;
    t->adopter = NULL;
    snib__acquisition_refuse(e, s, err, detail);
    snib__claim_over(e, now, t);
}

void snib__claim_adopt(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t, struct snib__acquisition *s,
                       const uint64_t id[2], int64_t token)
{
    snib__pending_put(e, t->acquiring);
    t->acquiring = NULL;
    t->state = SNIB__CLAIM_CONFIRM;
    t->adopter = s;
    t->id[0] = id[0];
    t->id[1] = id[1];
    t->token0 = t->token = token;
    t->lease = s->options.lease;
    t->delay = s->options.delay; /* a detached grant keeps its own lock-delay */
    t->outlives = true;
    t->deadline = s->limit; /* when to stop asking */
    snib__claim_renew(e, now, t);
    snib__claim_arm(e, t);
}

void snib__claim_abandon(struct snib__engine *e, snib_instant now,
                         struct snib__claim *t)
{
    struct snib__acquisition *s = t->holder;
    assert(s && s->options.fixed);
    t->holder = NULL;
    t->want_renew = t->aggressive = false;
    snib__acquisition_free(e, s);
    snib__claim_over(e, now, t);
}

static void claim_acquire_refuse_all(struct snib__engine *e,
                                     struct snib__claim *t, snib_err err,
                                     const struct snib_error *detail,
                                     bool tries_only)
{
    SNIB__LIST_EACH_SAFE (l, next, &t->local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        if (!tries_only || s->options.try_only) {
            snib__acquisition_refuse(e, s, err, detail);
        }
    }
}

/* Another request of its batch is refused. That says nothing of this lock, so
 * the others that wait for it here are not refused. */
static void claim_acquire_refuse_batch(struct snib__engine *e,
                                       struct snib__claim *t, uint32_t batch)
{
    SNIB__LIST_EACH_SAFE (l, next, &t->local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        if (s->batch == batch) {
            snib__acquisition_refuse(e, s, SNIB_ERR_CANCELLED, NULL);
        }
    }
}

/* The store did not execute the request until its limit. Acquisitions whose own
 * limit has come with it are refused with `why`. passing: what was in the way
 * is no fault of the store, so only tries are refused with `why`, the others
 * with TIMEOUT. If the request stands in the queue, the last of them stays
 * until that is cancelled. */
static void claim_acquire_refuse_late(struct snib__engine *e, snib_instant now,
                                      struct snib__claim *t, snib_err why,
                                      const struct snib_error *detail,
                                      bool passing)
{
    SNIB__LIST_EACH_SAFE (l, next, &t->local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        bool last = l == snib__list_first(&t->local->waiting) &&
                    next == &t->local->waiting.head;
        if (!snib__reached(now, s->limit)) {
            continue;
        }
        if (!passing || s->options.try_only) {
            snib__acquisition_refuse(e, s, why, detail);
        } else if (!last || !t->placed ||
                   !snib__acquisition_stay(e, now, s, SNIB_ERR_TIMEOUT,
                                           false)) {
            snib__acquisition_refuse(e, s, SNIB_ERR_TIMEOUT, NULL);
        }
    }
}

/* Other processes were inside the library until the limit. Mostly that is a
 * matter of a moment. If it has lasted no longer, for this request and for all
 * others, it says nothing against the store. */
static bool claim_acquire_blocked_for_a_moment(const struct snib__engine *e,
                                               snib_instant now,
                                               const struct snib__claim *t,
                                               const struct snib__request *rq)
{
    struct snib__store_state is;
    snib__engine_store_state(e, now, &is);
    return rq->blocked && is.reachable && !t->doubt &&
           snib__between(rq->asked, now).ns < SNIB__BLOCKED_NS &&
           !(t->placed && claim_acquire_is_party(t));
}

/* The store said no: acquisitions whose limit has come are refused with
 * TIMEOUT. A copy of the request may come after the no, or may have left a
 * waiter (a reader that spins and wants to write); then a CANCEL follows, and
 * the last acquisition stays until it is answered. */
static void claim_acquire_late_refused(struct snib__engine *e, snib_instant now,
                                       struct snib__claim *t)
{
    SNIB__LIST_EACH_SAFE (l, next, &t->local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        bool last = l == snib__list_first(&t->local->waiting) &&
                    next == &t->local->waiting.head;
        bool stays = t->copies && last && !s->options.try_only;
        if (snib__reached(now, s->limit) &&
            !(stays &&
              snib__acquisition_stay(e, now, s, SNIB_ERR_TIMEOUT, false))) {
            snib__acquisition_refuse(e, s, SNIB_ERR_TIMEOUT, NULL);
        }
    }
}

/* The request has come to its limit without an answer. The last acquisition of
 * the claim stays until the cancel is answered. The ones before it surely have
 * nothing, as long as it stays or others wait. An acquisition whose request the
 * store had in its queue has nothing either; but a party, which is always the
 * last one, may have been counted since. */
static void claim_acquire_late_unanswered(struct snib__engine *e,
                                          snib_instant now,
                                          struct snib__claim *t,
                                          const struct snib__pending *q)
{
    struct snib_error late, plain;
    bool queued = t->state == SNIB__CLAIM_QUEUED;
    bool placed = queued && !claim_acquire_is_party(t);
    snib_err nothing = snib__engine_late(e, now, SNIB_ERR_TIMEOUT, &plain);
    snib_err why = queued ? snib__engine_unsure(e, now, &late)
                          : snib__fail_plain(&late, SNIB_ERR_UNKNOWN);
    if (placed) {
        late = plain;
        why = nothing;
    } else if (q->rq.misread && q->rq.err == SNIB_ERR_STORE) {
        why = snib__fail(&late, SNIB_ERR_UNKNOWN, "%s", q->error.text);
    }
    SNIB__LIST_EACH_SAFE (l, next, &t->local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        bool last = l == snib__list_first(&t->local->waiting) &&
                    next == &t->local->waiting.head;
        bool stays = last && !s->options.try_only &&
                     (why == SNIB_ERR_TIMEOUT || why == SNIB_ERR_UNKNOWN);
        if (!snib__reached(now, s->limit)) {
            continue;
        }
        if (!last && !s->options.try_only) {
            snib__acquisition_refuse(e, s, nothing, &plain);
        } else if (!stays || !snib__acquisition_stay(
                                 e, now, s, SNIB_ERR_TIMEOUT, !placed)) {
            snib__acquisition_refuse(e, s, why, &late);
        }
    }
}

/* The store does not take the request any more. When it was last heard of it
 * had not granted it; but a party that was in the queue may have been counted
 * since. */
static snib_err claim_acquire_not_applied(const struct snib__claim *t,
                                          struct snib__pending *q)
{
    snib_err err = q->rq.err ? q->rq.err : SNIB_ERR_STORE;
    if (t->placed && claim_acquire_is_party(t)) {
        struct snib_error why = q->error;
        return snib__fail(&q->error, SNIB_ERR_UNKNOWN, "%s: %s",
                          snib_err_text(SNIB_ERR_UNKNOWN),
                          why.text[0] ? why.text : snib_err_text(err));
    }
    return t->doubt && !t->placed ? SNIB_ERR_UNKNOWN : err;
}

/* How often the store may refuse a request that was ready to queue before we
 * stop asking. One that came after its not_after is normal; many in a row are
 * not. */
enum { REFUSALS_MAX = 8 };

void snib__claim_answered(struct snib__engine *e, struct snib__claim *t)
{
    snib__pending_put(e, t->acquiring);
    t->acquiring = NULL;
}

void snib__claim_acquire_answered(struct snib__engine *e, snib_instant now,
                                  struct snib__claim *t,
                                  struct snib__pending *q)
{
    struct snib__request *rq = &q->rq;
    switch (rq->answer) {
    case SNIB__PENDING:
        assert(!"answered without an answer");
        return;
    case SNIB__DONE:
        claim_acquire_granted(e, now, t, rq);
        return;
    case SNIB__QUEUED:
        t->state = SNIB__CLAIM_QUEUED;
        t->placed = true;
        t->refusals = 0;
        snib__claim_arm(e, t);
        claim_acquire_refuse_all(e, t, SNIB_ERR_BUSY, NULL, true);
        if (snib__list_empty(&t->local->waiting)) {
            snib__claim_leave(e, now, t);
        }
        return;
    case SNIB__NO:
        if (rq->err && rq->err != SNIB_ERR_BUSY &&
            rq->err != SNIB_ERR_CANCELLED) { /* waiting would not help */
            claim_acquire_refuse_all(e, t, rq->err, &q->error, false);
        } else if (rq->batch && !rq->resent && rq->err == SNIB_ERR_CANCELLED) {
            claim_acquire_refuse_batch(e, t, rq->batch);
        } else if (!rq->may_queue) { /* CANCELLED: it was granted, then ended
                                        by force */
            claim_acquire_refuse_all(e, t, SNIB_ERR_BUSY, &q->error, true);
        }
        t->copies = t->copies || rq->resent;
        claim_acquire_late_refused(e, now, t);
        if (rq->may_queue && ++t->refusals > REFUSALS_MAX) {
            claim_acquire_refuse_all(e, t, SNIB_ERR_STORE, &q->error, false);
        }
        snib__claim_answered(e, t);
        if (t->copies) { /* a copy may come after this no, and be let in */
            t->doubt = true;
            snib__claim_leave(e, now, t);
        } else if (!t->prior) {
            snib__claim_over(e, now, t);
        } else if (snib__claim_first_waiting(t->local)) {
            snib__claim_acquire(e, now, t,
                                t->prior); /* prior is not ended yet */
        } else {
            t->doubt = true;
            snib__claim_leave(e, now, t);
        }
        return;
    case SNIB__NOT_APPLIED:
        if (e->cfg.blocking && snib__reached(now, rq->patience)) {
            /* It ended by the limit of the acquisitions that waited when it
             * began. */
            snib_err late = t->placed && claim_acquire_is_party(t)
                                ? claim_acquire_not_applied(t, q)
                            : rq->err ? rq->err
                                      : SNIB_ERR_STORE;
            claim_acquire_refuse_late(
                e, now, t, late, &q->error,
                claim_acquire_blocked_for_a_moment(e, now, t, rq));
            if (snib__claim_first_waiting(t->local)) {
                rq->placed = t->placed;
                snib__pending_start(e, q);
                return;
            }
        }
        claim_acquire_refuse_all(e, t, claim_acquire_not_applied(t, q),
                                 &q->error, false);
        snib__claim_answered(e, t);
        if (t->doubt || t->prior || t->placed) {
            t->doubt = true;
            snib__claim_leave(e, now, t);
        } else {
            snib__claim_over(e, now, t);
        }
        return;
    case SNIB__UNKNOWN:
        claim_acquire_late_unanswered(e, now, t, q);
        t->doubt = t->copies = true;
        rq->resent = true;
        if (snib__claim_first_waiting(t->local)) {
            t->state = SNIB__CLAIM_ACQUIRING;
            snib__pending_start(e, q);
        } else {
            snib__claim_answered(e, t);
            snib__claim_leave(e, now, t);
        }
        return;
    }
}

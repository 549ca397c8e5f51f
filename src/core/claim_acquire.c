/* core/claim_acquire.c — asking the store on behalf of those who wait.
 *
 * One ACQUIRE a turn, for the head of the local queue; a lost answer is asked
 * for again with the same id. What comes back is a grant (served, confirmed
 * first, or given back), a place in the queue, a no, or a reason why the store
 * cannot work now. An adoption has no ACQUIRE: it is a renewal of a grant that
 * another process left behind. */
#include <assert.h>

#include "base/error.h"
#include "core/claim_i.h"

/* Those of one client share its request: it stands in the queue if one of them
 * wants that. A try wants neither. */
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

/* It wants to know that it holds, not only that it was granted. */
static bool claim_acquire_strict(const struct snib__acquisition *s)
{
    return s->options.fixed || s->options.confirm;
}

/* A party of a barrier is alone with its turn. */
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
    /* A fixed lease may be exported at any moment, even by who is killed right
     * after it: so it never ends with our process, and the store is told so
     * from the beginning. */
    about.leashed = about.leashed || s->options.fixed;
    about.since_ms = (now.ns + e->cfg.wall_offset_ns) / 1000000;
    if (s->reason) {
        size_t i = 0;
        for (; s->reason[i] && i + 1 < sizeof about.reason; i++) {
            about.reason[i] = s->reason[i];
        }
        about.reason[i] = 0;
    }
    snib__cycles_about(e, s, &about);
    snib__buf_clear(out);
    snib__about_write(&about, out);
}

/* The owner's other grant, which is not in the way of this one. False: it is
 * over by now. */
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

/* Fill and start an ACQUIRE for the head of the queue. prior: our own grant
 * to be ended in the same step (a yield), or 0. */
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
        snib__claim_answered(e, t); /* it was not started */
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
    rq->text_size = t->acquiring->text.failed /* no memory: nobody's name */
                        ? 0
                        : (uint32_t)snib__buf_size(&t->acquiring->text);
    e->counts.asks++;
    e->counts.yields += prior != 0;
    snib__pending_start(e, t->acquiring);
}

/* A renewal must say that it is ours before anybody is served. Until then
 * deadline only says when to stop asking. Who only passes has had it, whatever
 * a renewal would say. */
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

/* Serve the head, unless the grant must be confirmed first: its deadline is
 * not proven, or too near, or the taker insists (DESIGN 5, direct grant), or
 * somebody is said to have ended it before we heard of it. */
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
        /* One of ours asked for it, and has given up since. A renewal does not
         * shorten what stands: if this process ended, others would wait for
         * longer than who takes it has asked for. */
        given = first->options.lease;
        fits = false;
    }
    if (first && rq->kind == SNIB_PERMITS) {
        first->options.permits = rq->permits;
        first->options.slot = rq->slot;
    }
    t->id[0] = rq->id[0]; /* the store may have asked under another */
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
        /* No proven start (H03), or one too long ago: ask before use. */
        t->deadline = snib__after(now, given);
        claim_acquire_confirm_first(e, now, t);
    } else {
        claim_acquire_serve_or_confirm(e, now, t, given);
    }
}

/* The adoption has failed. Others who wait by now ask for a grant of their
 * own; nothing is said about the one that was not ours to end. */
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
    t->delay = s->options.delay; /* what was left behind keeps its own */
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

/* Another of its batch is refused: says nothing of this lock, so nothing to
 * others who wait for it here. */
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

/* The store did not take the request until its limit: acquisitions whose own limit has
 * come with it end here, with why. Passing: what was in the way is no fault of
 * the store: only tries end with why, the others with TIMEOUT; the last of them
 * stays, if the request has a place in the queue, until that is cancelled. */
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

/* Others were inside the library until the limit. That is a moment's matter
 * most of the time, and if it has not lasted for longer, for this request and
 * for all others, it says nothing against the store. */
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

/* The store said no: acquisitions whose limit has come end with TIMEOUT. Where a copy of
 * the request may come after it, or has left a place (a reader that spins and
 * wants to write), that is cancelled: the last one stays until it is. */
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

/* The request has come to its limit and was not answered. The last one of its
 * turn stays until the cancel is answered; as long as it does, or others wait,
 * those before it surely have nothing. One that the store had in its queue has
 * nothing either; but a party, who is always the last one, may have been counted
 * since. */
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

/* The store does not take it any more, and had not granted it when it was last
 * heard of; since then a party may have been counted. */
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
 * stop asking: a late one (not_after) is normal, a row of them is not. */
enum { REFUSALS_MAX = 8 };

/* The acquire has had its last answer. */
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
        } else if (!rq->may_queue) { /* CANCELLED: had it, ended by force */
            claim_acquire_refuse_all(e, t, SNIB_ERR_BUSY, &q->error, true);
        }
        t->copies = t->copies || rq->resent;
        claim_acquire_late_refused(e, now, t);
        if (rq->may_queue && ++t->refusals > REFUSALS_MAX) {
            claim_acquire_refuse_all(e, t, SNIB_ERR_STORE, &q->error, false);
        }
        snib__claim_answered(e, t);
        if (t->copies) { /* one may come after this no, and be let in (H12) */
            t->doubt = true;
            snib__claim_leave(e, now, t);
        } else if (!t->prior) {
            snib__claim_over(e, now, t);
        } else if (snib__claim_first_waiting(t->local)) {
            snib__claim_acquire(e, now, t, t->prior); /* not ended yet */
        } else {
            t->doubt = true;
            snib__claim_leave(e, now, t);
        }
        return;
    case SNIB__NOT_APPLIED:
        if (e->cfg.blocking && snib__reached(now, rq->patience)) {
            /* It was patient for those who waited when it began only. */
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

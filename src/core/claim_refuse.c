/* core/claim_refuse.c — an ACQUIRE that is answered, but not by a grant.
 *
 * The answer is QUEUED, NO, NOT_APPLIED or UNKNOWN. After UNKNOWN the request
 * is sent again with the same id. Acquisitions whose limit is over by the time
 * of the answer are refused, each with what is known of it; for those that
 * still wait the claim asks again. If the request says what the owner of one
 * that is refused holds (core/nested.c), it is ended first, and they ask
 * anew. */
#include <assert.h>

#include "base/error.h"
#include "core/claim_i.h"

/* A party of a barrier is alone with its claim. */
static bool claim_refuse_is_party(const struct snib__claim *t)
{
    const struct snib__acquisition *s = snib__claim_first_waiting(t->local);
    return s && s->options.kind == SNIB_KIND_BARRIER;
}

/* Does the request end with this acquisition? It is the only one that waits, or
 * the request says what its owner holds. */
static bool claim_refuse_is_last(const struct snib__claim *t,
                                 const struct snib__acquisition *s)
{
    const struct snib__list *waiting = &t->local->waiting;
    return t->says == s || (snib__list_first(waiting) == &s->link &&
                            s->link.next == &waiting->head);
}

static void claim_refuse_all(struct snib__engine *e, struct snib__claim *t,
                             snib_err err, const struct snib_error *detail,
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

/* The try was refused because another one of its batch was, which says nothing
 * of this lock. So others that wait for it here are not refused. */
static void claim_refuse_batch(struct snib__engine *e, struct snib__claim *t,
                               uint32_t batch)
{
    SNIB__LIST_EACH_SAFE (l, next, &t->local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        if (s->batch == batch) {
            snib__acquisition_refuse(e, s, SNIB_ERR_CANCELLED, NULL);
        }
    }
}

/* The limit of the request has come before the store has executed it.
 * Acquisitions whose own limit is over are refused with `why`. passing: what
 * was in the way is no fault of the store, so only tries are refused with
 * `why`, the others with TIMEOUT; and if the request stands in the store's
 * queue, the last of them stays until that is cancelled. of_last: UNKNOWN if an
 * earlier copy was not answered, else `why`. By that copy the last one may have
 * been granted the lock, so it stays, too. */
static void claim_refuse_late(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, snib_err why,
                              snib_err of_last, const struct snib_error *detail,
                              bool passing)
{
    SNIB__LIST_EACH_SAFE (l, next, &t->local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        bool last = claim_refuse_is_last(t, s);
        bool unsure =
            last && t->doubt == SNIB__DOUBT_OPEN && of_last == SNIB_ERR_UNKNOWN;
        if (!snib__reached(now, s->limit)) {
            continue;
        }
        if (unsure && !s->options.try_only &&
            snib__acquisition_start_leaving(e, now, s, SNIB_ERR_TIMEOUT,
                                            true)) {
            continue;
        }
        if (!passing || s->options.try_only) {
            snib__acquisition_refuse(e, s, last ? of_last : why, detail);
        } else if (!last || !t->placed ||
                   !snib__acquisition_start_leaving(e, now, s, SNIB_ERR_TIMEOUT,
                                                    false)) {
            snib__acquisition_refuse(e, s, SNIB_ERR_TIMEOUT, NULL);
        }
    }
}

/* Other processes were inside the library until the limit, or others ahead on the
 * connection. Mostly that is a matter of a moment. If it has lasted no longer, for
 * this request by its limit and for all others, it says nothing against the
 * store. */
static bool claim_refuse_blocked_for_a_moment(const struct snib__engine *e,
                                              snib_instant now,
                                              const struct snib__claim *t,
                                              const struct snib__request *rq)
{
    struct snib__store_state is;
    snib__engine_store_state(e, now, &is);
    return rq->exec.blocked && is.reachable && t->doubt != SNIB__DOUBT_OPEN &&
           snib__between(rq->exec.blocked_since, snib__sooner(now, rq->limit))
                   .ns < SNIB__BLOCKED_NS &&
           !(t->placed && claim_refuse_is_party(t));
}

/* The store said no: acquisitions whose limit has come are refused with
 * TIMEOUT. A copy of the request may come after the no, or may have left a
 * waiter (a reader that spins and wants to write); then a CANCEL follows, and
 * the last acquisition stays until it is answered. */
static void claim_refuse_late_no(struct snib__engine *e, snib_instant now,
                                 struct snib__claim *t)
{
    SNIB__LIST_EACH_SAFE (l, next, &t->local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        bool last = claim_refuse_is_last(t, s);
        bool stays = t->doubt && last && !s->options.try_only;
        if (snib__reached(now, s->limit) &&
            !(stays && snib__acquisition_start_leaving(
                           e, now, s, SNIB_ERR_TIMEOUT, false))) {
            snib__acquisition_refuse(e, s, SNIB_ERR_TIMEOUT, NULL);
        }
    }
}

/* The request has come to its limit without an answer. Its last acquisition may
 * have been granted the lock, so that one stays until the cancel is answered.
 * The others surely have nothing: a grant would go to one that waits still, or
 * be given back. If the store had the request in its queue when it was heard of
 * last, the last acquisition has nothing either, but for a party of a barrier
 * (which is alone with its claim): it may have been counted since. */
static void claim_refuse_unanswered(struct snib__engine *e, snib_instant now,
                                    struct snib__claim *t,
                                    const struct snib__pending *q)
{
    struct snib_error late, plain;
    bool queued = t->state == SNIB__CLAIM_QUEUED;
    bool placed = queued && !claim_refuse_is_party(t);
    snib_err nothing = snib__engine_late(e, now, SNIB_ERR_TIMEOUT, &plain);
    snib_err why = queued ? snib__engine_unsure(e, now, &late)
                          : snib__fail_plain(&late, SNIB_ERR_UNKNOWN);
    if (placed) {
        late = plain;
        why = nothing;
    } else if (snib__request_says_why(&q->rq) &&
               q->rq.said.err == SNIB_ERR_STORE) {
        why = snib__fail(&late, SNIB_ERR_UNKNOWN, "%s", q->error.text);
    }
    SNIB__LIST_EACH_SAFE (l, next, &t->local->waiting) {
        struct snib__acquisition *s =
            SNIB__CONTAINER(l, struct snib__acquisition, link);
        bool last = claim_refuse_is_last(t, s);
        bool stays = last && !s->options.try_only &&
                     (why == SNIB_ERR_TIMEOUT || why == SNIB_ERR_UNKNOWN);
        if (!snib__reached(now, s->limit)) {
            continue;
        }
        if (!last && !s->options.try_only) {
            snib__acquisition_refuse(e, s, nothing, &plain);
        } else if (!stays || !snib__acquisition_start_leaving(
                                 e, now, s, SNIB_ERR_TIMEOUT, !placed)) {
            snib__acquisition_refuse(e, s, why, &late);
        }
    }
}

/* The store does not take the request any more. When it was last heard of it
 * had not granted it; but a party that was in the queue may have been counted
 * since. */
static snib_err claim_refuse_not_applied(const struct snib__claim *t,
                                         struct snib__pending *q)
{
    snib_err err = q->rq.said.err ? q->rq.said.err : SNIB_ERR_STORE;
    if (t->placed && claim_refuse_is_party(t)) {
        struct snib_error why = q->error;
        return snib__fail(&q->error, SNIB_ERR_UNKNOWN, "%s: %s",
                          snib_err_text(SNIB_ERR_UNKNOWN),
                          why.text[0] ? why.text : snib_err_text(err));
    }
    return t->doubt == SNIB__DOUBT_OPEN && !t->placed ? SNIB_ERR_UNKNOWN : err;
}

/* How often the store may refuse a request that was ready to queue before we
 * stop asking. One that came after its not_after is normal; many in a row are
 * not. */
enum { REFUSALS_MAX = 8 };

/* The request stands in the store's queue. Tries do not wait there. */
static void claim_refuse_queued(struct snib__engine *e, snib_instant now,
                                struct snib__claim *t)
{
    t->state = SNIB__CLAIM_QUEUED;
    t->placed = true;
    t->refusals = 0;
    snib__claim_arm(e, t);
    claim_refuse_all(e, t, SNIB_ERR_BUSY, NULL, true);
    if (snib__list_empty(&t->local->waiting)) {
        snib__claim_send_end(e, now, t);
    }
}

/* The store has said no: whom does that refuse? */
static void claim_refuse_by_no(struct snib__engine *e, snib_instant now,
                               struct snib__claim *t, struct snib__pending *q)
{
    const struct snib__request *rq = &q->rq;
    if (rq->said.err && rq->said.err != SNIB_ERR_BUSY &&
        rq->said.err != SNIB_ERR_CANCELLED) { /* waiting would not help */
        claim_refuse_all(e, t, rq->said.err, &q->error, false);
    } else if (rq->batch.number && !rq->resent &&
               rq->said.err == SNIB_ERR_CANCELLED) {
        claim_refuse_batch(e, t, rq->batch.number);
    } else if (!rq->acquire
                    .may_queue) { /* CANCELLED: it was granted, then ended
                                    by force */
        claim_refuse_all(e, t, SNIB_ERR_BUSY, &q->error, true);
    }
    snib__claim_note_copies(t, rq);
    claim_refuse_late_no(e, now, t);
    if (rq->acquire.may_queue && ++t->refusals > REFUSALS_MAX) {
        claim_refuse_all(e, t, SNIB_ERR_STORE, &q->error, false);
    }
}

/* Is the limit of one of the waiting acquisitions over at that instant? */
static bool claim_refuse_is_late(const struct snib__claim *t, snib_instant at)
{
    SNIB__LIST_EACH (l, &t->local->waiting) {
        if (snib__reached(
                at,
                SNIB__CONTAINER(l, struct snib__acquisition, link)->limit)) {
            return true;
        }
    }
    return false;
}

/* A try is told "held" by a client that may merely keep the lock, and that has
 * been told of it just now. It asks again after 1, 3 and 9 ms; then, or where its
 * limit would come before that, it is refused as any other. */
enum { ASKS_MAX = 3 };

static bool claim_refuse_asks_back(struct snib__engine *e, snib_instant now,
                                   struct snib__claim *t,
                                   struct snib__pending *q)
{
    static const int pause_ms[ASKS_MAX] = {1, 3, 9};
    const struct snib__request *rq = &q->rq;
    if (!rq->said.kept || rq->acquire.may_queue || rq->batch.number ||
        rq->resent || t->doubt) {
        return false;
    }
    snib_instant at = t->asked == ASKS_MAX
                          ? SNIB__NEVER
                          : snib__after(now, snib__ms(pause_ms[t->asked]));
    if (t->asked == ASKS_MAX || claim_refuse_is_late(t, at)) {
        t->asked = 0;
        snib__fail(&q->error, SNIB_ERR_BUSY,
                   "another client holds the lock, or keeps it for its own "
                   "next use and has not given it back in time");
        return false;
    }
    t->asked++;
    snib__claim_drop_acquire(e, t);
    t->renew_at = at;
    snib__claim_arm(e, t);
    return true;
}

static void claim_refuse_no(struct snib__engine *e, snib_instant now,
                            struct snib__claim *t, struct snib__pending *q)
{
    if (claim_refuse_asks_back(e, now, t, q)) {
        return;
    }
    claim_refuse_by_no(e, now, t, q);
    snib__claim_drop_acquire(e, t);
    if (t->doubt) { /* a copy may come after this no, and be let in */
        t->doubt = SNIB__DOUBT_OPEN;
        snib__claim_send_end(e, now, t);
    } else if (!t->prior) {
        snib__claim_anew_or_free(e, now, t);
    } else if (snib__claim_first_waiting(t->local)) {
        snib__claim_send_acquire(e, now, t,
                                 t->prior); /* prior is not ended yet */
    } else {
        t->doubt = SNIB__DOUBT_OPEN;
        snib__claim_send_end(e, now, t);
    }
}

/* Some may still wait, but what the request says is not true any more: it is
 * ended, and they ask anew. */
static void claim_refuse_end(struct snib__engine *e, snib_instant now,
                             struct snib__claim *t)
{
    snib__claim_drop_acquire(e, t);
    t->doubt = SNIB__DOUBT_OPEN;
    snib__claim_send_end(e, now, t);
}

/* The request of a blocking store has ended by the limit of the acquisitions
 * that waited when it began. True: others have come since, and it was started
 * again for them, or is ended first. */
static bool claim_refuse_by_limit(struct snib__engine *e, snib_instant now,
                                  struct snib__claim *t,
                                  struct snib__pending *q)
{
    struct snib__request *rq = &q->rq;
    snib_err why = rq->said.err ? rq->said.err : SNIB_ERR_STORE;
    bool says = t->says != NULL;
    claim_refuse_late(e, now, t, why, claim_refuse_not_applied(t, q), &q->error,
                      claim_refuse_blocked_for_a_moment(e, now, t, rq));
    if (!snib__claim_first_waiting(t->local)) {
        return false;
    }
    if (says && !t->says) {
        claim_refuse_end(e, now, t);
        return true;
    }
    rq->acquire.placed = t->placed;
    snib__pending_start(e, q);
    return true;
}

/* NOT_APPLIED: the store is unfit just now; or it may only not have come to the
 * request before its limit. What was sent for tries alone hears of the first
 * failure; who has joined them since asks anew. */
static void claim_refuse_unfit(struct snib__engine *e, snib_instant now,
                               struct snib__claim *t, struct snib__pending *q)
{
    t->placed = t->placed || q->rq.acquire.placed;
    if ((e->cfg.blocking || q->rq.exec.blocked) &&
        snib__reached(now, q->rq.exec.patience) &&
        claim_refuse_by_limit(e, now, t, q)) {
        return;
    }
    snib_err why = claim_refuse_not_applied(t, q);
    claim_refuse_all(e, t, why, &q->error,
                     !q->rq.acquire.may_queue && !q->rq.once);
    claim_refuse_late(e, now, t, why, why, &q->error, false);
    snib__claim_drop_acquire(e, t);
    if (t->doubt == SNIB__DOUBT_OPEN || t->prior || t->placed) {
        t->doubt = SNIB__DOUBT_OPEN;
        snib__claim_send_end(e, now, t);
    } else {
        snib__claim_anew_or_free(e, now, t);
    }
}

static void claim_refuse_unknown(struct snib__engine *e, snib_instant now,
                                 struct snib__claim *t, struct snib__pending *q)
{
    bool says = t->says != NULL;
    claim_refuse_unanswered(e, now, t, q);
    t->doubt = SNIB__DOUBT_OPEN;
    q->rq.resent = true;
    if (snib__claim_first_waiting(t->local) && (t->says || !says)) {
        t->state = SNIB__CLAIM_ACQUIRING;
        snib__pending_start(e, q);
    } else {
        claim_refuse_end(e, now, t);
    }
}

void snib__claim_not_granted(struct snib__engine *e, snib_instant now,
                             struct snib__claim *t, struct snib__pending *q)
{
    switch (q->rq.said.answer) {
    case SNIB__PENDING:
    case SNIB__DONE:
        assert(!"answered without an answer, or by a grant");
        return;
    case SNIB__QUEUED:
        claim_refuse_queued(e, now, t);
        return;
    case SNIB__NO:
        claim_refuse_no(e, now, t, q);
        return;
    case SNIB__NOT_APPLIED:
        claim_refuse_unfit(e, now, t, q);
        return;
    case SNIB__UNKNOWN:
        claim_refuse_unknown(e, now, t, q);
        return;
    }
}

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
 *             nobody waits any more, or who    LEAVING
 *             `says` has left
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
 *                                              KEPT; LEAVING
 *             grant detached                   over
 * KEPT        an owner of this client asks     HELD; ACQUIRING (yield) if it does
 *                                              not fit; LEAVING if it needs a
 *                                              claim of its own
 *             somebody waits, or may; time is  LEAVING
 *             up
 * LEAVING     DONE, NO                         over
 *             UNKNOWN, NOT_APPLIED             LEAVING: sent again
 *             gone_by                          over; its release is UNKNOWN
 *
 * "Held by another" to a request that may queue is no answer yet where the store
 * needs something before it can queue: the claim stays ACQUIRING meanwhile.
 *
 * What there is besides the state, with tables of its own: core/claim_i.h.
 *
 * A claim is LEAVING until the store has answered, or until both our lease and
 * the last instant at which a late copy of our request may be executed have
 * passed. So the next acquire cannot meet a ghost of this one.
 *
 * The deadline counts from valid_from, the instant of this client's clock
 * before the request was sent (the store's code keeps it), less an
 * allowance of 1 % of the lease + 5 ms for clock rates. A grant that arrives
 * after its deadline is not served before a renewal has confirmed it. */
#include <assert.h>

#include "base/mem.h"
#include "core/claim_i.h"

/* A held lock should cost 512 bytes with its name and handle. It costs more
 * (docs/PERFORMANCE.md), and must not grow unseen. */
_Static_assert(sizeof(struct snib__local_lock) + sizeof(struct snib__claim) +
                       sizeof(struct snib__acquisition) <=
                   640,
               "a held lock has grown");

/* -- life ----------------------------------------------------------------- */

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
    t->kept_until = SNIB__NEVER;
    local->refs++;
    local->claim = t;
    e->counts.claims++;
    return SNIB_ERR_OK;
}

static void claim_free(struct snib__engine *e, struct snib__claim *t)
{
    assert(!t->holder && !t->ender && !t->adopter && !t->says);
    if (t->entry) {
        snib__registry_drop(e->cfg.registry, &t->entry);
    }
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

/* -- asking for a grant --------------------------------------------------- */

/* May the request ask again and again instead of queuing? All waiting
 * acquisitions of a claim share one request, and it queues as soon as one of
 * them wants to queue. A try wants neither, so it does not decide. */
static bool claim_spins(const struct snib__acquisition *s)
{
    return s->options.spin || s->options.try_only;
}

/* s has joined the waiting acquisitions: the request under way waits for its
 * limit too. */
static void claim_limits(struct snib__claim *t,
                         const struct snib__acquisition *s)
{
    if (t->acquiring) {
        t->acquiring->rq.limit = snib__later(t->acquiring->rq.limit, s->limit);
        t->acquiring->rq.acquire.spin =
            t->acquiring->rq.acquire.spin && claim_spins(s);
        t->acquiring->rq.once = t->acquiring->rq.once && s->options.try_only;
    }
}

/* The claim begins anew: nothing that it knew of an earlier grant counts. */
static void claim_begin(const struct snib__engine *e, struct snib__claim *t,
                        const struct snib__acquisition *head, int64_t prior)
{
    t->state = SNIB__CLAIM_ACQUIRING;
    t->cause = SNIB_CAUSE_NONE;
    t->says = NULL;
    if (prior && !t->prior) { /* else an ACQUIRE did not end it */
        t->prior_id[0] = t->id[0];
        t->prior_id[1] = t->id[1];
    }
    t->prior = prior;
    t->late = 0;
    t->lease = head->options.lease;
    if (t->most.ns < t->lease.ns || !prior) {
        t->most = t->lease;
    }
    t->delay = head->options.delay;
    t->outlives = e->self.leashed || head->options.fixed;
    t->renew_at = t->deadline = t->hold_end = SNIB__NEVER;
    t->doubt = SNIB__DOUBT_NONE;
    t->hint = SNIB__HINT_NONE;
    t->placed = t->thin = t->wanted = false;
}

/* Fills in what the head of the queue wants. */
static void claim_wish(const struct snib__engine *e,
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
    rq->late = 0;
    rq->asked[0] = rq->asked[1] = 0;
    snib__claim_tell_prior(t, rq);
    rq->floor = e->floor;
    rq->acquire.reserve =
        head->options.fixed || head->options.no_hand_over || t->local->parent
            ? 0
            : SNIB__RESERVE;
    bool keeps = rq->acquire.reserve && rq->acquire.kind == SNIB_KIND_MUTEX &&
                 rq->acquire.delay.ns == 0;
    rq->acquire.keep_ms = keeps ? head->options.keep_ms : 0;
}

/* Fills in how all that wait want to wait. */
static void claim_patience(const struct snib__claim *t, snib_instant now,
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
        rq->acquire.spin = rq->acquire.spin && claim_spins(s);
        rq->limit = snib__later(rq->limit, s->limit);
        s->ended = false;
    }
}

void snib__claim_send_acquire(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, int64_t prior)
{
    struct snib__acquisition *head = snib__claim_first_waiting(t->local);
    assert(head && !t->holder && !t->adopter);
    claim_begin(e, t, head, prior);
    if (!t->acquiring && !(t->acquiring = snib__pending_get(e, t->local))) {
        snib__claim_retry_at(e, now, t); /* no memory now: later */
        return;
    }
    snib__claim_arm(e, t);
    t->acquiring->claim = t;
    struct snib__request *rq = &t->acquiring->rq;
    rq->id[0] = t->id[0] = snib__rng_next(&e->rng);
    rq->id[1] = t->id[1] = snib__rng_next(&e->rng);
    if (head->options.upgrade_of &&
        !snib__acquisition_upgrade_of(e, head, rq->acquire.upgrade_of)) {
        snib__acquisition_refuse(e, head, SNIB_ERR_LOST, NULL);
        snib__claim_drop_acquire(e, t); /* its request was not started */
        snib__claim_anew_or_free(e, now, t);
        return;
    }
    claim_wish(e, t, head, rq);
    t->keep_ms = rq->acquire.keep_ms;
    claim_patience(t, now, rq);
    if (snib__acquisition_about(e, now, head, &t->acquiring->text)) {
        snib__nested_said(head);
    }
    bool told = !t->acquiring->text.failed;
    if (!told && t->outlives) { /* else the store ends it with our process */
        snib__claim_drop_acquire(e, t);
        snib__claim_retry_at(e, now, t);
        return;
    }
    rq->text = snib__buf_text(&t->acquiring->text);
    rq->text_size = /* no memory: without the text */
        told ? (uint32_t)snib__buf_size(&t->acquiring->text) : 0;
    e->counts.acquires++;
    e->counts.yields += prior != 0;
    snib__claim_note(e, t);
    snib__pending_start(e, t->acquiring);
}

void snib__claim_drop_acquire(struct snib__engine *e, struct snib__claim *t)
{
    t->late = t->acquiring->rq.late;
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
        claim_free(e, t);
    }
}

/* -- joining -------------------------------------------------------------- */

struct snib__acquisition *
snib__claim_acquisition(struct snib__engine *e, struct snib__local_lock *local,
                        const struct snib__acquire_spec *spec)
{
    struct snib__acquisition *s = snib__acquisition_new(e, local, spec);
    if (s && !local->claim && snib__claim_new(e, local)) {
        snib__acquisition_free(e, s);
        return NULL;
    }
    if (s) {
        snib__acquisition_queue_up(e, s, spec->timed);
    }
    return s;
}

struct snib__acquisition *snib__claim_join(
    struct snib__engine *e, snib_instant now, struct snib__local_lock *local,
    const struct snib__acquire_spec *spec, uint64_t upgrade_of, bool nested)
{
    bool asks = !local->claim;
    struct snib__acquisition *s = snib__claim_acquisition(e, local, spec);
    if (!s) {
        return NULL;
    }
    s->options.upgrade_of = upgrade_of;
    if (nested) {
        snib__nested_enter(e, now, s);
    }
    if (!asks) {
        claim_limits(local->claim, s);
        return s;
    }
    snib__claim_send_acquire(e, now, local->claim, 0);
    if (e->batch.open) {
        snib__batch_join(e, s);
    }
    return s;
}

/* -- serving -------------------------------------------------------------- */

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
    s->shown =
        t->state == SNIB__CLAIM_RISK ? SNIB_STATE_AT_RISK : SNIB_STATE_HELD;
    t->holder = s;
    snib__nested_leave(s);
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

/* -- a grant -------------------------------------------------------------- */

snib_instant snib__claim_renewal_of(snib_instant from, snib_duration lease)
{
    int64_t grain = lease.ns / 64 > 0 ? lease.ns / 64 : 1;
    snib_instant at = snib__after(from, (snib_duration){lease.ns / 3});
    at.ns -= at.ns % grain;
    return at;
}

/* The first renewal of a grant. A thin one is the owner's at once, with a
 * shorter lease than the one that was asked for: its renewal comes after a
 * second (the third of `most`), so that a process that stands still later has
 * all of its lease. A pushed grant stands for a push lease. */
static snib_instant claim_first_renewal(const struct snib__request *rq,
                                        snib_duration given)
{
    if (rq->said.left.ns >= rq->lease.ns) {
        return snib__claim_renewal_of(rq->said.valid_from, given);
    } else if (!rq->thin) {
        return snib__after(rq->said.valid_from, (snib_duration){given.ns / 2});
    }
    int64_t most = rq->lease.ns > SNIB__NOT_AFTER_MS * INT64_C(1000000)
                       ? 3 * INT64_C(1000000000)
                       : given.ns;
    return snib__claim_renewal_of(
        rq->said.valid_from,
        (snib_duration){most < given.ns ? most : given.ns});
}

/* Does it insist on a whole lease that is known to stand? To others it is
 * enough that they were granted it, and that something of it is left. */
static bool claim_strict(const struct snib__acquisition *s)
{
    return s->options.fixed || s->options.confirm;
}

/* A renewal must show that the grant is ours before it is served. Until then
 * the deadline only says when to stop asking. An acquisition with `passes` is
 * told at once: it was granted, whatever a renewal would say. */
static void claim_confirm_first(struct snib__engine *e, snib_instant now,
                                struct snib__claim *t)
{
    struct snib__acquisition *s = snib__claim_first_waiting(t->local);
    if (!claim_strict(s) && snib__acquisition_had(e, now, s, t->token)) {
        snib__claim_send_end(e, now, t);
        return;
    }
    t->lease = s->options.lease;
    t->state = SNIB__CLAIM_CONFIRM;
    t->renew_at = now;
    snib__claim_send_renew(e, now, t);
    snib__claim_arm(e, t);
}

/* Serves the head of the queue, unless the grant must be confirmed first: too
 * little of its lease is left (of a strict acquisition, which insists on a
 * whole lease: more than an eighth is gone), or somebody is said to have ended
 * it already. */
static void claim_serve_or_confirm(struct snib__engine *e, snib_instant now,
                                   struct snib__claim *t, snib_duration given)
{
    struct snib__acquisition *s = snib__claim_first_waiting(t->local);
    int64_t left = t->deadline.ns - now.ns;
    int64_t whole =
        s->options.lease.ns - snib__claim_allowance(s->options.lease).ns;
    if (t->hint || (claim_strict(s) ? left < whole - s->options.lease.ns / 8
                                    : left < given.ns / 4)) {
        claim_confirm_first(e, now, t);
        return;
    }
    t->lease = s->options.lease;
    t->state = SNIB__CLAIM_HELD;
    snib__list_push(&e->held, &t->held);
    snib__claim_serve(e, now, t, s);
}

/* What the store has given, as the claim's mirror of it. */
static void claim_enter(struct snib__engine *e, snib_instant now,
                        struct snib__claim *t, const struct snib__request *rq,
                        snib_duration given)
{
    t->id[0] = rq->id[0]; /* the store may have asked under another id */
    t->id[1] = rq->id[1];
    t->token0 = t->token = rq->token;
    t->reserve = rq->acquire.reserve;
    t->thin = rq->thin;
    t->most = rq->lease;
    t->granted = now;
    t->refusals = t->asked = 0;
    /* A message may have come before this answer. */
    t->wanted = t->wanted || !rq->said.alone;
    t->doubt = t->doubt ? SNIB__DOUBT_COPIES : SNIB__DOUBT_NONE;
    snib__claim_note_copies(t, rq);
    t->prior = 0;
    t->placed = false;
    t->deadline = snib__before(snib__after(rq->said.valid_from, given),
                               snib__claim_allowance(given));
    t->renew_at = claim_first_renewal(rq, given);
    if (e->floor < rq->token + rq->acquire.reserve && !rq->said.far) {
        e->floor = rq->token + rq->acquire.reserve;
    }
}

void snib__claim_granted(struct snib__engine *e, snib_instant now,
                         struct snib__claim *t, const struct snib__request *rq)
{
    snib_duration given = rq->said.left;
    bool proven = rq->said.valid_from.ns != 0;
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
    if (first && rq->acquire.kind == SNIB_KIND_PERMITS) {
        first->options.permits = rq->acquire.permits;
        first->options.slot = rq->said.slot;
    }
    claim_enter(e, now, t, rq, given);
    snib__claim_note(e, t);
    snib__claim_drop_acquire(e, t);
    if (!fits) { /* nobody wants it any more, or not with that lock-delay */
        snib__claim_end_untold(e, now, t);
    } else if (!proven || snib__reached(now, t->deadline)) {
        /* It is not proven when the lease started (the stores here all say so,
         * of a pushed grant, too), or that was too long ago: ask before use. */
        t->deadline = snib__after(now, given);
        claim_confirm_first(e, now, t);
    } else {
        claim_serve_or_confirm(e, now, t, given);
    }
}

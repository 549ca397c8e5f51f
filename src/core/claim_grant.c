/* core/claim_grant.c — an ACQUIRE is answered by a grant: its deadline, its first
 * renewal, and whose it is.
 *
 * A grant is served to the head of the local queue: at once (HELD), or behind a
 * renewal that shows that it stands (CONFIRM). If it fits nobody who waits, it is
 * given back. Here is also what serving an acquisition means, whoever had the
 * grant before it. */
#include "core/claim_i.h"

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
static snib_instant claim_grant_first_renewal(const struct snib__request *rq,
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
static bool claim_grant_is_strict(const struct snib__acquisition *s)
{
    return s->options.fixed || s->options.confirm;
}

/* A renewal must show that the grant is ours before it is served. Until then
 * the deadline only says when to stop asking. An acquisition with `passes` is
 * told at once: it was granted, whatever a renewal would say. */
static void claim_grant_confirm_first(struct snib__engine *e, snib_instant now,
                                      struct snib__claim *t)
{
    struct snib__acquisition *s = snib__claim_first_waiting(t->local);
    if (!claim_grant_is_strict(s) &&
        snib__acquisition_had(e, now, s, t->token)) {
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
static void claim_grant_serve_or_confirm(struct snib__engine *e,
                                         snib_instant now,
                                         struct snib__claim *t,
                                         snib_duration given)
{
    struct snib__acquisition *s = snib__claim_first_waiting(t->local);
    int64_t left = t->deadline.ns - now.ns;
    int64_t whole =
        s->options.lease.ns - snib__claim_allowance(s->options.lease).ns;
    if (t->hint ||
        (claim_grant_is_strict(s) ? left < whole - s->options.lease.ns / 8
                                  : left < given.ns / 4)) {
        claim_grant_confirm_first(e, now, t);
        return;
    }
    t->lease = s->options.lease;
    t->state = SNIB__CLAIM_HELD;
    snib__list_push(&e->held, &t->held);
    snib__claim_serve(e, now, t, s);
}

/* What the store has given, as the claim's mirror of it. */
static void claim_grant_enter(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t,
                              const struct snib__request *rq,
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
    t->renew_at = claim_grant_first_renewal(rq, given);
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
    claim_grant_enter(e, now, t, rq, given);
    snib__claim_note(e, t);
    snib__claim_drop_acquire(e, t);
    if (!fits) { /* nobody wants it any more, or not with that lock-delay */
        snib__claim_send_end(e, now, t);
    } else if (!proven || snib__reached(now, t->deadline)) {
        /* It is not proven when the lease started (the stores here all say so,
         * of a pushed grant, too), or that was too long ago: ask before use. */
        t->deadline = snib__after(now, given);
        claim_grant_confirm_first(e, now, t);
    } else {
        claim_grant_serve_or_confirm(e, now, t, given);
    }
}

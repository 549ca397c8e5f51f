/* core/claim_keep.c — a released grant that is kept for the next owner of this
 * client.
 *
 * By choice (keep_ms) the last release asks the store nothing: the claim is KEPT
 * for so long, and the next owner of this client enters it with the next token
 * of the reserve. That costs no request. It is what lock managers call lock
 * caching: the grant stands at the store, and the client gives it back when the
 * store says that somebody waits (its callback, or blocking AST).
 *
 * What others may rely on:
 * - A waiter that comes to stand first, and each of its polls, has the store
 *   tell the client (out->wanted). What is kept then goes back at once; what is
 *   held goes back with its release. Once told, nobody enters here again: the
 *   next acquire goes to the store and stands behind that waiter.
 * - A grant is kept only if the store said that nobody waited when it was given
 *   (said.alone), and while the way of these messages is open. When that breaks,
 *   or messages may have been missed, it goes back.
 * - Should every message get lost, the store is asked all the same: after the
 *   31 tokens of the reserve, or a second after the grant, nothing is kept. An
 *   owner that does not fit what is kept asks by one request, which ends the
 *   grant, serves those that wait, and queues (a yield).
 *
 * What is kept is not renewed. It is kept no longer than until its renewal would
 * be due, so its deadline is far when it is entered, and the next owner has what
 * is left of it. When its time is up it is given back. Nobody is told of a loss,
 * since nobody holds it. A client that dies while it keeps a grant costs the
 * others the rest of its lease, as one that dies while it holds. (A witness ends
 * it: the claim stays in its registry.)
 *
 * Kept are grants of the shared claim alone, of a mutex without a lock-delay,
 * in no doubt, without a renewal under way, and only such as the next owner could
 * enter: of the lease that was asked for, with a token left, for what is left of
 * that second. */
#include "core/claim_i.h"

/* Is there a token that the next owner can have? */
static bool claim_keep_has_token(const struct snib__claim *t)
{
    return t->token < t->token0 + t->reserve;
}

/* Until when it may be kept: as long as its owner has asked for and the store
 * was told, and as an owner could enter it. */
static snib_instant claim_keep_until(const struct snib__claim *t,
                                     snib_instant now)
{
    uint16_t asked = t->holder->options.keep_ms;
    uint16_t ms = asked < t->keep_ms ? asked : t->keep_ms;
    snib_instant until = snib__after(now, snib__ms(ms));
    until = snib__sooner(until, t->renew_at);
    return snib__sooner(until,
                        snib__after(t->granted, snib__ms(SNIB__KEEP_CHAIN_MS)));
}

/* Not if an own claim of this name waits or holds, too: it would be passed, or
 * another owner would write while it reads. */
static bool claim_keep_may(const struct snib__engine *e,
                           const struct snib__claim *t, snib_instant now)
{
    const struct snib__acquisition *s = t->holder;
    return t->keep_ms && s->options.keep_ms && !t->wanted && !e->keeps_none &&
           (e->cfg.blocking || e->out.hears) && t->state == SNIB__CLAIM_HELD &&
           !t->hint && !t->doubt && !t->renewing && !s->options.fixed &&
           !s->options.aggressive && !s->other_lease &&
           snib__list_empty(&t->local->own_locks) &&
           !snib__nested_waits(e, s->owner) && claim_keep_has_token(t) &&
           !snib__reached(now, claim_keep_until(t, now)) &&
           claim_keep_until(t, now).ns < t->deadline.ns;
}

bool snib__claim_keep(struct snib__engine *e, snib_instant now,
                      struct snib__claim *t)
{
    if (!claim_keep_may(e, t, now)) {
        return false;
    }
    t->kept_until = claim_keep_until(t, now);
    t->hold_end = SNIB__NEVER;
    snib__acquisition_free(e, t->holder);
    t->holder = NULL;
    t->state = SNIB__CLAIM_KEPT;
    snib__claim_arm(e, t);
    return true;
}

/* It needs a token of its own, and must want what the store was told. */
bool snib__claim_keep_serves(const struct snib__claim *t, snib_instant now,
                             const struct snib__acquire_spec *spec)
{
    snib_duration left = snib__between(now, t->deadline);
    return !snib__reached(now, t->kept_until) && claim_keep_has_token(t) &&
           left.ns > t->lease.ns / 20 && left.ns <= t->lease.ns &&
           spec->lease.ns == t->lease.ns && spec->delay.ns == t->delay.ns &&
           !spec->fixed && !spec->no_hand_over;
}

struct snib__acquisition *
snib__claim_take(struct snib__engine *e, snib_instant now,
                 struct snib__local_lock *local,
                 const struct snib__acquire_spec *spec, bool nested)
{
    struct snib__claim *t = local->claim;
    struct snib__acquisition *s = snib__claim_acquisition(e, local, spec);
    if (!s) {
        return NULL;
    }
    if (nested) {
        snib__nested_enter(e, now, s);
    }
    bool serves = snib__claim_keep_serves(t, now, spec);
    t->kept_until = SNIB__NEVER;
    if (serves) {
        t->state = SNIB__CLAIM_HELD;
        t->token++;
        e->counts.passes++;
        snib__claim_serve(e, now, t, s);
    } else {
        snib__unlink(&t->held);
        snib__claim_send_acquire(e, now, t, t->token0);
    }
    return s;
}

void snib__claim_give_back(struct snib__engine *e, snib_instant now,
                           struct snib__claim *t)
{
    t->kept_until = SNIB__NEVER;
    snib__claim_send_end(e, now, t);
}

void snib__claim_wanted(struct snib__engine *e, snib_instant now,
                        struct snib__claim *t)
{
    t->wanted = true;
    if (t->state == SNIB__CLAIM_KEPT) {
        snib__claim_give_back(e, now, t);
    }
}

/* core/claim_adopt.c — claims that come, or go, otherwise than by an ACQUIRE at
 * the local lock of a name.
 *
 * A detached grant (snib_grant_abandon) outlives its process. The client that
 * adopts it makes a claim in CONFIRM: a renewal has to show that the grant
 * stands. This client has not asked for it. So a "no" is its loss, no other is
 * asked for in its place, and an adopter that gives up leaves it as it was found:
 * somebody else may have adopted it with better luck. A grant that is detached
 * leaves its claim, and the store is told nothing. A witness makes claims of what a dead client has left, to end it. A
 * nested wait that lasts (core/move.c) leaves the claim of its name
 * for an own one. */
#include <assert.h>

#include "core/claim_i.h"

struct snib__acquisition *snib__claim_adopt(
    struct snib__engine *e, snib_instant now, struct snib__local_lock *local,
    const struct snib__acquire_spec *spec, const uint64_t id[2], int64_t token)
{
    struct snib__acquisition *s = snib__claim_acquisition(e, local, spec);
    if (!s) {
        return NULL;
    }
    struct snib__claim *t = local->claim;
    snib__claim_drop_acquire(e, t); /* no ACQUIRE is sent for it */
    t->state = SNIB__CLAIM_CONFIRM;
    t->adopter = s;
    t->id[0] = id[0];
    t->id[1] = id[1];
    t->token0 = t->token = token;
    t->lease = s->options.lease;
    t->delay = s->options.delay; /* a detached grant keeps its own lock-delay */
    t->outlives = true;
    t->deadline = s->limit; /* when to stop asking */
    snib__claim_send_renew(e, now, t);
    snib__claim_arm(e, t);
    return s;
}

void snib__claim_adopt_failed(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, snib_err err,
                              const struct snib_error *detail)
{
    struct snib__acquisition *s = t->adopter;
    t->adopter = NULL;
    snib__acquisition_refuse(e, s, err, detail);
    snib__claim_anew_or_free(e, now, t);
}

void snib__claim_detach(struct snib__engine *e, snib_instant now,
                        struct snib__claim *t)
{
    struct snib__acquisition *s = t->holder;
    assert(s && s->options.fixed);
    t->holder = NULL;
    t->want_renew = t->aggressive = false;
    snib__acquisition_free(e, s);
    snib__claim_anew_or_free(e, now, t);
}

/* -- what a dead client has left ------------------------------------------ */

bool snib__claim_end_left(struct snib__engine *e, snib_instant now,
                          struct snib__local_lock *local,
                          const struct snib__registry_record *left,
                          int64_t late)
{
    struct snib__local_lock *own = snib__own_lock_new(e, local);
    if (!own || snib__claim_new(e, own)) {
        if (own) {
            snib__local_lock_drop(e, own);
        }
        return false;
    }
    struct snib__claim *t = own->claim;
    snib__claim_drop_acquire(e, t); /* the dead client has sent it, or not */
    t->id[0] = left->id[0];
    t->id[1] = left->id[1];
    t->prior = left->prior;
    t->prior_id[0] = left->prior_id[0];
    t->prior_id[1] = left->prior_id[1];
    t->lease = t->most = snib__ms(left->lease_ms);
    t->late = late;
    t->doubt = SNIB__DOUBT_OPEN;
    snib__claim_send_end(e, now, t);
    snib__local_lock_drop(e, own);
    return true;
}

/* -- a wait that moves ---------------------------------------------------- */

bool snib__claim_move(struct snib__engine *e, snib_instant now,
                      struct snib__acquisition *s)
{
    struct snib__local_lock *from = s->local;
    struct snib__local_lock *own = snib__own_lock_new(e, from);
    if (!own || snib__claim_new(e, own)) {
        if (own) {
            snib__local_lock_drop(e, own);
        }
        return false;
    }
    snib__unlink(&s->link);
    s->local = own; /* the reference that it was made with is s's now */
    snib__list_push(&own->waiting, &s->link);
    snib__claim_send_acquire(e, now, own->claim, 0);
    snib__local_lock_drop(e, from);
    return true;
}

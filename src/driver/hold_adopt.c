/* driver/hold_adopt.c — holds of detached grants: one that another process left
 * is adopted, one of this client is let go. */
#include <assert.h>

#include "base/error.h"
#include "driver/driver.h"

snib_err snib__hold_adopt(struct snib__step *s, struct snib_lock *lock,
                          const struct snib__detached *detached,
                          int64_t lease_ms, snib_instant limit, uint64_t owner,
                          struct snib__call *call, struct snib__op *op,
                          bool *ret_awaited, uint64_t *ret_ticket,
                          struct snib_error *reterr)
{
    assert(snib__mu_is_mine(s->c));
    static const struct snib__how plain;
    struct snib_client *c = s->c;
    struct snib__acquisition *acq;
    struct snib__hold *h = snib__hold_new(s, lock, op, op ? op->ev.user : NULL);
    *ret_awaited = false;
    if (!h) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    struct snib__acquire_spec spec =
        snib__hold_spec(lock, &plain, limit, owner);
    spec.lease = snib__ms(lease_ms);
    spec.user = h;
    spec.reterr = call ? &call->error : &op->ev.error;
    snib_err err =
        snib__engine_adopt(c->engine, s->now, lock->local, &spec,
                           detached->request, detached->token, &acq, reterr);
    if (err) {
        snib__holds_free(s, h);
        return err;
    }
    *ret_ticket = acq->ticket;
    *ret_awaited = snib__hold_begun(s, acq, h, call, op);
    return SNIB_ERR_OK;
}

snib_err snib__hold_detach(struct snib__step *s, uint64_t ticket,
                           uint64_t owner, struct snib_error *reterr)
{
    assert(snib__mu_is_mine(s->c));
    struct snib_client *c = s->c;
    struct snib__acquisition *acq = snib__engine_acquisition(c->engine, ticket);
    struct snib__hold *first = acq ? acq->user : NULL;
    snib_err err =
        snib__engine_detach_grant(c->engine, s->now, ticket, owner, reterr);
    if (first && !snib__engine_acquisition(c->engine, ticket)) {
        snib__holds_ended(s, first);
        snib__holds_free(s, first);
    }
    return err;
}

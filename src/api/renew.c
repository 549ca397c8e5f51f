/* api/renew.c — renewing by hand. The calls that wait for a grant's renewal
 * hang on its first hold. */
#include "api/api.h"
#include "base/error.h"

snib_err snib__lease_check(int64_t ms, struct snib_error *reterr)
{
    if (ms < SNIB_LEASE_MIN_MS || ms > SNIB_LEASE_MAX_MS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "lease of %lld ms; expected %lld to %lld",
                          (long long)ms, (long long)SNIB_LEASE_MIN_MS,
                          (long long)SNIB_LEASE_MAX_MS);
    }
    return SNIB_ERR_OK;
}

static void renew_forget(struct snib_client *c, struct snib__call *call)
{
    struct snib__acquisition *acq =
        snib__engine_acquisition(c->engine, call->ticket);
    struct snib__hold *h = acq ? acq->user : NULL;
    struct snib__call **p = h ? &h->renewers : NULL;
    while (p && *p && *p != call) {
        p = &(*p)->next;
    }
    if (p && *p) {
        *p = call->next;
    }
}

snib_err snib_renew(struct snib_lock *lock, struct snib_grant grant,
                    int64_t lease_ms, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    struct snib__call call;
    struct snib__acquisition *acq;
    int64_t ms = lease_ms ? lease_ms : lock->o.lease_ms;
    snib_err err = snib__client_check(c, reterr);
    if (!err) {
        err = snib__may_block(c, reterr);
    }
    if (!err) {
        err = snib__lease_check(ms, reterr);
    }
    if (err) {
        return err;
    }
    snib__step_begin(&s, c);
    err = c->stopped ? snib__fail_plain(reterr, SNIB_ERR_CLOSED)
                     : snib__grant_check(lock, grant, reterr);
    if (err) {
        snib__step_end(&s);
        return err;
    }
    snib__call_begin(&s, &call, SNIB__CALL_RENEW,
                     snib__after(s.now, c->request));
    err = snib__engine_renew(c->engine, s.now, grant.ticket, snib__ms(ms), &acq,
                             reterr);
    if (!err && acq->user) {
        struct snib__hold *h = acq->user;
        call.ticket = grant.ticket;
        call.next = h->renewers;
        h->renewers = &call;
        if (!snib__call_wait(&s, &call)) {
            renew_forget(c, &call);
            call.err = snib__call_unanswered(&s, &call);
        }
    }
    snib__pump_leave(&s, &call);
    snib__step_end(&s);
    return err ? err : snib__call_outcome(&call, reterr);
}

/* api/release.c — release: the call that blocks. */
#include "api/api.h"
#include "api/testing.h"
#include "base/error.h"
#include "base/unset.h"

static snib_err release_block(struct snib_lock *lock, struct snib_grant grant,
                              snib_duration patience, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    SNIB__UNSET struct snib__step s;
    SNIB__UNSET struct snib__call call;
    bool awaited;
    snib_err err;
    uint64_t owner = snib__owner_of_thread();
    snib__step_begin(&s, c);
    if (c->stopped) {
        snib__step_end(&s);
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    err = snib__grant_check(lock, grant, reterr);
    if (err) {
        snib__step_end(&s);
        return err;
    }
    snib__call_begin(&s, &call, SNIB__CALL_RELEASE,
                     snib__after(s.now, patience));
    err = snib__hold_release(&s, lock, grant.ticket, owner, &call, NULL,
                             &awaited, reterr);
    if (awaited && !snib__call_wait(&s, &call)) {
        struct snib__acquisition *acq =
            snib__engine_acquisition(c->engine, grant.ticket);
        if (acq) {
            struct snib__hold *h = acq->user;
            snib__engine_stop_awaiting(c->engine, acq);
            snib__holds_free(&s, h);
        }
        call.err = snib__unanswered(&s, &call.error);
    }
    snib__call_end(&s, &call);
    snib__step_end(&s);
    return err ? err : snib__call_outcome(&call, reterr);
}

snib_err snib_release(struct snib_lock *lock, struct snib_grant grant,
                      struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    snib_err err = snib__may_call(c, reterr);
    return err ? err : release_block(lock, grant, c->request, reterr);
}

snib_err snib__release_within(struct snib_lock *lock, struct snib_grant grant,
                              int64_t ns, struct snib_error *reterr)
{
    return release_block(lock, grant, (snib_duration){ns}, reterr);
}

/* api/acquire.c — acquire and try: the call that blocks.
 *
 * How a call waits: driver/pump.c. How it asks the engine: driver/hold.c. While
 * too many requests are unanswered a call asks for nothing; if that lasts until
 * its limit it ends with UNREACHABLE. If it has asked, the engine cancels the
 * request at that limit, and the call waits a little for the answer to the
 * cancel. If none comes it leaves, and the request ends without it. */
#include "api/api.h"
#include "api/testing.h"
#include "base/error.h"
#include "base/unset.h"

snib_err snib__how_read(const struct snib_acquire_options *given,
                        int64_t wait_ms, struct snib__how *ret,
                        struct snib_error *reterr)
{
    ret->wait_ms = wait_ms > 0 ? wait_ms : 0;
    snib_err err = snib__options_read(given, sizeof ret->o, "acquire options",
                                      &ret->o, reterr);
    if (!err && ret->o.owner && !(ret->o.owner & SNIB__OWNER_FREE)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "owner %llu is not one of snib_owner_new()",
                          (unsigned long long)ret->o.owner);
    }
    return err;
}

uint64_t snib_owner_new(void)
{
    return snib__owner_new();
}

/* -- may it ask ------------------------------------------------------------ */

/* Rule 6: while too many requests are in flight, help to read the replies
 * before more is sent. */
static bool acquire_wait_for_replies(struct snib__step *s, snib_instant limit)
{
    if (__builtin_expect(snib__most_awaited(s->c) < SNIB__FLIGHT_MAX, 1)) {
        return true;
    }
    struct snib__call call;
    snib__call_begin(s, &call, SNIB__CALL_FEWER, limit);
    bool fewer = snib__call_wait(s, &call);
    snib__call_end(s, &call);
    return fewer;
}

/* May a call ask for a grant? On OK the background thread runs. */
snib_err snib__may_acquire(struct snib__step *s, snib_instant limit,
                           struct snib_error *reterr)
{
    struct snib_client *c = s->c;
    if (c->closed) {
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    snib_err err = snib__background_need(c, reterr);
    if (!err && !acquire_wait_for_replies(s, limit)) {
        err = snib__fail(reterr, SNIB_ERR_UNREACHABLE,
                         "not asked: %d requests are unanswered",
                         SNIB__FLIGHT_MAX);
    }
    if (!err && c->closed) { /* while it waited for the others */
        err = snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    return err;
}

/* -- asking ---------------------------------------------------------------- */

static snib_err acquire_block(struct snib_lock *lock,
                              const struct snib__how *how,
                              snib_duration patience,
                              struct snib__canceller *canceller,
                              struct snib_grant *ret, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    SNIB__UNSET struct snib__step s;
    SNIB__UNSET struct snib__call call;
    bool awaited;
    uint64_t owner = how->o.owner ? how->o.owner : snib__owner_of_thread();
    snib__step_begin(&s, c);
    snib_instant limit = snib__after(s.now, patience);
    snib_err err = snib__may_acquire(&s, limit, reterr);
    if (!err && canceller && canceller->asked) {
        err = snib__fail_plain(reterr, SNIB_ERR_CANCELLED);
    }
    if (err) {
        snib__step_end(&s);
        return err;
    }
    snib__call_begin(&s, &call, SNIB__CALL_ACQUIRE, limit);
    err = snib__hold_acquire(&s, lock, how, limit, owner, &call, NULL, NULL,
                             &awaited, &call.ticket, reterr);
    if (canceller) {
        canceller->ticket = call.ticket;
    }
    if (!err && awaited && !snib__call_wait(&s, &call)) {
        snib__call_give_up(
            &s, &call, how->wait_ms ? SNIB_ERR_TIMEOUT : SNIB_ERR_UNREACHABLE);
    }
    snib__call_end(&s, &call);
    snib__step_end(&s);
    if (err) {
        return err;
    }
    if (!call.err) {
        *ret = call.grant;
    }
    return snib__call_outcome(&call, reterr);
}

snib_err snib_try_for(struct snib_lock *lock, int64_t wait_ms,
                      const struct snib_acquire_options *options,
                      struct snib_grant *ret, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__how how;
    *ret = (struct snib_grant){0};
    snib_err err = snib__may_call(c, reterr);
    if (!err) {
        err = snib__how_read(options, wait_ms, &how, reterr);
    }
    return err ? err
               : acquire_block(lock, &how, snib__patience(c, how.wait_ms), NULL,
                               ret, reterr);
}

snib_err snib_acquire(struct snib_lock *lock,
                      const struct snib_acquire_options *options,
                      struct snib_grant *ret, struct snib_error *reterr)
{
    return snib_try_for(lock, SNIB__NO_LIMIT, options, ret, reterr);
}

snib_err snib_try(struct snib_lock *lock,
                  const struct snib_acquire_options *options,
                  struct snib_grant *ret, struct snib_error *reterr)
{
    return snib_try_for(lock, 0, options, ret, reterr);
}

snib_err snib__acquire_within(struct snib_lock *lock, int64_t ns,
                              struct snib_grant *ret, struct snib_error *reterr)
{
    static const struct snib__how how = {.wait_ms = 1};
    *ret = (struct snib_grant){0};
    return acquire_block(lock, &how, (snib_duration){ns}, NULL, ret, reterr);
}

/* -- until somebody cancels it --------------------------------------------- */

snib_err snib__acquire_until(struct snib_lock *lock,
                             const struct snib__how *how,
                             struct snib__canceller *canceller,
                             struct snib_grant *ret, struct snib_error *reterr)
{
    *ret = (struct snib_grant){0};
    return acquire_block(lock, how, snib__patience(lock->client, how->wait_ms),
                         canceller, ret, reterr);
}

void snib__canceller_ask(struct snib_client *c,
                         struct snib__canceller *canceller)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    canceller->asked = true;
    struct snib__acquisition *acq =
        snib__engine_acquisition(c->engine, canceller->ticket);
    struct snib__hold *h = acq ? acq->user : NULL;
    if (h && h->call && acq->state == SNIB__ACQ_WAITING) {
        snib__call_cancel(&s, acq, SNIB_ERR_CANCELLED);
    }
    snib__step_act(&s);
    snib__step_end(&s);
}

/* -- for all calls that block ---------------------------------------------- */

snib_err snib__call_outcome(const struct snib__call *call,
                            struct snib_error *reterr)
{
    if (!call->err) {
        return snib__ok(reterr);
    }
    if (call->error.code == call->err && call->error.text[0]) {
        return snib__fail(reterr, call->err, "%s", call->error.text);
    }
    return snib__fail_plain(reterr, call->err);
}

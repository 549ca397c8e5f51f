/* api/direct.c — requests past claims (inspect, list, force, params, values):
 * the call that blocks. How it asks, and asks again: its rules. */
#include <time.h>

#include "api/api.h"
#include "api/client.h"
#include "base/error.h"

/* True: it is answered. */
static bool direct_wait(struct snib__step *s, struct snib__call *call)
{
    while (!snib__call_wait(s, call)) {
        snib_instant limit = snib__engine_direct_limit(call->direct);
        if (snib__reached(s->now, limit)) {
            return false;
        }
        call->limit = limit; /* it was moved */
    }
    return true;
}

/* Make one request, and wait for its answer. */
static snib_err direct_ask(struct snib__direct_op *d, struct snib_error *ret)
{
    struct snib_client *c = d->client;
    struct snib__step s;
    struct snib__call call;
    snib__step_begin(&s, c);
    if (c->closed) {
        snib__step_end(&s);
        return snib__fail_plain(ret, SNIB_ERR_CLOSED);
    }
    snib__call_begin(&s, &call, SNIB__CALL_DIRECT,
                     snib__sooner(d->q.limit, snib__after(s.now, c->request)));
    call.direct = &d->q; /* the engine forgets it before the call returns */
    snib_err err = snib__direct_op_ask(&s, d, &call);
    if (err) {
        call.err = err;
        call.error = d->q.error;
    } else if (!direct_wait(&s, &call)) {
        call.err = snib__direct_unanswered(&s, &d->q, &call.error);
    } else if (d->q.done) {
        call.error = d->q.error;
    }
    snib__call_end(&s, &call);
    snib__step_end(&s);
    return snib__call_outcome(&call, ret);
}

static snib_instant direct_now(struct snib_client *c)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    snib__step_end(&s);
    return s.now;
}

static void direct_sleep(snib_duration d)
{
    struct timespec t = {.tv_sec = d.ns / 1000000000,
                         .tv_nsec = d.ns % 1000000000};
    while (nanosleep(&t, &t) < 0) {
    }
}

enum { SHORT_MS = 20 };

/* Wait until it is time to ask again, or, if that is not soon, until the client
 * is closed: asking says so then. A clock that the program moves may stand
 * still, so there the pause is of real time, and nothing ends it. */
static void direct_pause(struct snib__direct_op *d, snib_instant now,
                         snib_instant until)
{
    struct snib_client *c = d->client;
    struct snib__step s;
    struct snib__call call;
    snib_duration left = snib__between(now, until);
    if (c->virtual_clock || left.ns <= snib__ms(SHORT_MS).ns) {
        direct_sleep(left);
        return;
    }
    snib__step_begin(&s, c);
    if (!c->closed) {
        snib__call_begin(&s, &call, SNIB__CALL_DIRECT, until);
        call.direct = &d->q; /* not under way: only a close answers */
        snib__call_wait(&s, &call);
        snib__call_end(&s, &call);
    }
    snib__step_end(&s);
}

/* Is there more to ask? Returns when it is time for it. */
static bool direct_again(struct snib__direct_op *d, snib_err err)
{
    if (!snib__direct_may_go_on(d, err)) {
        return false;
    }
    snib_instant now = direct_now(d->client);
    snib_instant at = d->rules->again(d, now, err);
    if (at.ns == SNIB__NEVER.ns) {
        return false;
    }
    snib__buf_free(&d->q.result);
    direct_pause(d, now, at);
    return true;
}

snib_err snib__run_direct(struct snib__direct_op *d, struct snib_error *reterr)
{
    struct snib_error told;
    snib_err err = snib__may_call(d->client, &told);
    if (!err) {
        do {
            err = direct_ask(d, &told);
        } while (direct_again(d, err));
    }
    err = snib__direct_op_end(d, err, &told);
    return err ? snib__fail(reterr, err, "%s", told.text) : snib__ok(reterr);
}

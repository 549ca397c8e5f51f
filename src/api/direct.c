/* api/direct.c — requests past claims: inspect, list, force, params, values. */
#include "api/api.h"
#include "api/client.h"
#include "base/error.h"

/* The answer to the direct request answers this call. The engine forgets it
 * before the call returns. */
static void direct_tie(struct snib__direct *q, struct snib__call *call)
{
    q->user = call;
    call->direct = q;
}

/* The error of a direct request without an answer at its limit. A request that
 * only asks was surely not applied, so it is UNREACHABLE and never UNKNOWN. */
static snib_err direct_no_answer(const struct snib__step *s,
                                 const struct snib__direct *q,
                                 struct snib__call *call)
{
    struct snib__store_state is;
    if (snib__verb_changes(q->verb, q->op)) {
        return snib__call_unanswered(s, call);
    }
    snib__engine_store_state(s->c->engine, s->now, &is);
    bool away = !is.reachable && is.err;
    return snib__fail(&call->error, SNIB_ERR_UNREACHABLE,
                      "the store did not answer in time%s%s", away ? ": " : "",
                      away ? is.text : "");
}

snib_err snib__run_direct(struct snib_client *c, struct snib__direct *q,
                          struct snib_error *reterr)
{
    struct snib__step s;
    struct snib__call call;
    snib_err err = snib__client_check(c, reterr);
    if (!err) {
        err = snib__may_block(c, reterr);
    }
    if (err) {
        return err;
    }
    snib__step_begin(&s, c);
    if (c->closed) {
        snib__step_end(&s);
        return snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    }
    snib__call_begin(&s, &call, SNIB__CALL_DIRECT,
                     snib__sooner(q->limit, snib__after(s.now, c->request)));
    q->limit = call.limit;
    direct_tie(q, &call);
    err = snib__engine_direct(c->engine, s.now, q);
    if (err) {
        call.err = err;
        call.error = q->error;
    } else {
        if (!snib__call_wait(&s, &call)) {
            snib__engine_direct_leave(c->engine, q);
            call.err = direct_no_answer(&s, q, &call);
        } else if (q->done) {
            call.error = q->error;
        }
    }
    snib__pump_leave(&s, &call);
    snib__step_end(&s);
    return snib__call_outcome(&call, reterr);
}

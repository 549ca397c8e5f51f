/* driver/outcome.c — the error that a call returns, with its text. */
#include <assert.h>

#include "base/error.h"
#include "driver/driver.h"

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

/* The error of a call without an answer at its limit: UNKNOWN. The text says
 * why, if the store is known to be out of reach. */
snib_err snib__call_unanswered(const struct snib__step *s,
                               struct snib__call *call)
{
    struct snib__store_state is;
    assert(!s->away);
    snib__engine_store_state(s->c->engine, s->now, &is);
    if (is.reachable || !is.err) {
        return SNIB_ERR_UNKNOWN;
    }
    return snib__fail(&call->error, SNIB_ERR_UNKNOWN, "%s: %s",
                      snib_err_text(SNIB_ERR_UNKNOWN), is.text);
}

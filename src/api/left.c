/* api/left.c — what a client leaves to its witness, and what it is told of it.
 *
 * The witness's own client has the id of the dead one, so what it cancels was its
 * own, to the store. Its engine sends all cancels at once, repeats those that are
 * not answered, and is idle when the last one is, or when nothing can be there any
 * more (core/claim_adopt.c). */
#include "api/api.h"
#include "api/client.h"
#include "base/error.h"

snib_err snib__client_end_left(struct snib_client *c,
                               const struct snib__registry *left,
                               struct snib_error *reterr)
{
    struct snib__step s;
    struct snib__call call;
    snib__step_begin(&s, c);
    snib_err err = snib__background_need(c, reterr);
    if (!err && snib__engine_end_left(c->engine, s.now, left)) {
        snib__step_act(&s);
    }
    while (!err && !snib__engine_idle(c->engine)) {
        snib__call_begin(&s, &call, SNIB__CALL_IDLE,
                         snib__after(s.now, c->request));
        snib__call_wait(&s, &call);
        snib__call_end(&s, &call);
    }
    snib__step_end(&s);
    return err ? err : snib__ok(reterr);
}

snib_witness snib_client_witness(struct snib_client *c)
{
    struct snib__step s;
    if (snib__client_check(c, NULL)) {
        return SNIB_WITNESS_NONE;
    }
    if (!c->witness.registry) {
        return c->witness.needless ? SNIB_WITNESS_NEEDLESS : SNIB_WITNESS_NONE;
    }
    snib__step_begin(&s, c);
    bool ended = snib__witness_ended(c);
    snib__step_end(&s);
    return ended ? SNIB_WITNESS_ENDED : SNIB_WITNESS_WATCHES;
}

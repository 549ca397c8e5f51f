/* driver/conditions.c — calls that wait for no answer of their own, but for
 * something to be true of the whole client: that there is room for one more
 * request, that the store is told all, that a thread has come out of the store's
 * library. After each step that may have changed it snib__step_act asks here. */
#include "driver/driver.h"

bool snib__condition_holds(const struct snib__step *s, snib__call_kind kind)
{
    const struct snib_client *c = s->c;
    struct snib__store_state store;
    switch (kind) {
    case SNIB__CALL_FEWER:
        return snib__most_awaited(c) < SNIB__FLIGHT_MAX / 2;
    case SNIB__CALL_IDLE:
        return snib__engine_idle(c->engine);
    case SNIB__CALL_CAUGHT_UP:
        snib__engine_store_state(c->engine, s->now, &store);
        return !store.behind;
    case SNIB__CALL_OUT:
        return !snib__exec_inside(c);
    case SNIB__CALL_ACQUIRE:
    case SNIB__CALL_RELEASE:
    case SNIB__CALL_RENEW:
    case SNIB__CALL_DIRECT:
        break;
    }
    return false;
}

void snib__conditions_settle(struct snib__step *s)
{
    struct snib__ops *ops = &s->c->ops;
    SNIB__LIST_EACH_SAFE (l, next, &s->c->calls.roles.waiting) {
        struct snib__call *call =
            snib__call_of(SNIB__CONTAINER(l, struct snib__waiter, link));
        if (snib__condition_holds(s, (snib__call_kind)call->kind)) {
            snib__call_settle(s, call, SNIB_ERR_OK);
        }
    }
    if (ops->quiet && snib__condition_holds(s, (snib__call_kind)ops->until)) {
        snib__op_push(s, ops->quiet);
        ops->quiet = NULL;
    }
}

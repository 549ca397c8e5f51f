/* core/unreachable.c — how the store is, and what callers hear of it.
 *
 * A store that cannot be reached is named in the answer that a caller gets for
 * it: "store unreachable for 1200 ms: connection refused" helps more than
 * "timed out". Reads only what the store itself last said of it; no I/O. */
#include "base/error.h"
#include "core/engine_i.h"

void snib__engine_store_state(const struct snib__engine *e, snib_instant now,
                              struct snib__store_state *ret)
{
    *ret = (struct snib__store_state){.nodes = 1};
    if (e->ops->state) {
        e->ops->state(e->store, now, ret);
    } else {
        ret->reachable = true;
        ret->nodes_reachable = 1;
    }
}

bool snib__engine_server(const struct snib__engine *e, snib_instant now,
                         uint32_t node, struct snib__server *ret)
{
    *ret = (struct snib__server){.state.nodes = 1};
    if (e->ops->server) {
        return e->ops->server(e->store, now, node, ret);
    }
    snib__engine_store_state(e, now, &ret->state);
    return node == 0;
}

snib_err snib__engine_late(const struct snib__engine *e, snib_instant now,
                           snib_err why, struct snib_error *ret)
{
    struct snib__store_state is;
    snib__engine_store_state(e, now, &is);
    if (is.reachable) {
        return snib__fail_plain(ret, why);
    }
    if (!is.err) {
        return snib__fail(ret, SNIB_ERR_UNREACHABLE,
                          "the store has not answered yet");
    }
    return snib__fail(ret, is.err, "store unreachable for %lld ms: %s",
                      (long long)snib__to_ms(snib__between(is.since, now)),
                      is.text);
}

/* A store that is well and was busy for a moment is not in question. */
snib_err snib__engine_unsent(const struct snib__engine *e, snib_instant now,
                             const struct snib__unsent *unsent, snib_err why,
                             struct snib_error *ret)
{
    struct snib__store_state is;
    snib__engine_store_state(e, now, &is);
    if (is.reachable && why == SNIB_ERR_TIMEOUT &&
        unsent->waited.ns < SNIB__BLOCKED_NS) {
        return snib__fail_plain(ret, why);
    }
    return snib__fail(ret, SNIB_ERR_UNREACHABLE, "%s", unsent->text);
}

snib_err snib__engine_unsure(const struct snib__engine *e, snib_instant now,
                             struct snib_error *ret)
{
    struct snib_error late;
    if (snib__engine_late(e, now, SNIB_ERR_UNKNOWN, &late) ==
        SNIB_ERR_UNKNOWN) {
        return snib__fail_plain(ret, SNIB_ERR_UNKNOWN);
    }
    return snib__fail(ret, SNIB_ERR_UNKNOWN, "%s: %s",
                      snib_err_text(SNIB_ERR_UNKNOWN), late.text);
}

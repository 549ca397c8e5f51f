/* core/witness.c — see witness.h. */
#include "core/witness.h"

/* A request may be executed for so long after it was sent, whatever lease it asks
 * for. */
enum { WITNESS_LATE_MS = 10000 };

void snib__witness_begin(struct snib__witness *w,
                         const struct snib__registry *registry)
{
    w->registry = registry;
    w->leaves = SNIB__NEVER;
}

/* How long something of the client may stand at the store, if nobody renews it. */
static snib_duration witness_lasts(const struct snib__registry *r)
{
    struct snib__registry_found found;
    int64_t ms = 0;
    for (uint32_t i = 1; i <= snib__registry_used(r); i++) {
        if (snib__registry_read(r, i, &found) &&
            found.record.lease_ms + WITNESS_LATE_MS > ms) {
            ms = found.record.lease_ms + WITNESS_LATE_MS;
        }
    }
    return snib__ms(ms);
}

snib__witness_next snib__witness_step(struct snib__witness *w, snib_instant now,
                                      struct snib__witness_sight sees)
{
    if (atomic_load_explicit(&w->registry->closed, memory_order_acquire)) {
        return SNIB__WITNESS_LEAVES;
    }
    if (sees.over) {
        return SNIB__WITNESS_ENDS;
    }
    if (sees.hung_up && w->leaves.ns == SNIB__NEVER.ns) {
        w->leaves = snib__after(now, witness_lasts(w->registry));
    }
    return snib__reached(now, w->leaves) ? SNIB__WITNESS_LEAVES
                                         : SNIB__WITNESS_WAITS;
}

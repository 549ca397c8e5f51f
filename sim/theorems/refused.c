/* A refusal says the truth for other kinds of locks, too: DEADLOCK to a reader
 * that would write; TOO_MANY for more permits than there are; BUSY also for
 * what a latch, a size, a lock-delay or the other parties of a barrier forbid.
 * Asked by reason.c whenever a call is refused. */
#include "sim/world.h"

bool theorem_refusal_of_kind(const struct sim_world *w,
                             const struct sim_owner *l, snib_err err)
{
    switch (err) {
    case SNIB_ERR_DEADLOCK:
        return l->state == SIM_OWNER_NESTING && l->kind == SNIB_KIND_READ;
    case SNIB_ERR_TOO_MANY:
        return (l->nest.asks ? l->nest.kind : l->kind) == SNIB_KIND_PERMITS;
    case SNIB_ERR_BUSY:
        return w->opt.flavour > SIM_RW || w->opt.delay_ms > 0;
    default:
        return false;
    }
}

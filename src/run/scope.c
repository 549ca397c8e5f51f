/* run/scope.c — SNIB_WITH: a block that cannot leak its lock.
 *
 * The macro is a for loop whose variable carries the cleanup attribute. The
 * normal end of the body and `continue` reach the loop's third expression;
 * break, return and goto leave the loop and run the cleanup. Both call
 * snib_scope_end, and the first of them wins: `live` is cleared before the
 * release, so that the second does nothing.
 *
 * What the release answers is kept in err for those who call the two
 * functions themselves. Inside a block a loss shows in snib_grant_held; a
 * section that must know asks before each step, or lets the fence decide. */
#include "snib.h"

#include "base/error.h"

struct snib_scope snib_scope_begin(struct snib_lock *lock,
                                   const struct snib_acquire_options *options,
                                   struct snib_error *reterr)
{
    struct snib_scope scope = {.lock = lock};
    if (!lock) {
        scope.err = snib__fail(reterr, SNIB_ERR_USAGE,
                               "SNIB_WITH: the lock must not be NULL");
        return scope;
    }
    scope.err = snib_acquire(lock, options, &scope.grant, reterr);
    scope.live = scope.err == SNIB_ERR_OK;
    return scope;
}

void snib_scope_end(struct snib_scope *scope)
{
    if (scope && scope->live) {
        scope->live = false;
        scope->err = snib_release(scope->lock, scope->grant, NULL);
    }
}

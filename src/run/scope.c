/* run/scope.c — SNIB_WITH: a block that cannot leak its lock.
 *
 * The macro is a for loop whose variable carries the cleanup attribute. The
 * normal end of the body and `continue` reach the loop's third expression;
 * break, return and goto leave the loop and run the cleanup. Both call
 * snib_scope_end, and the first of them wins: `live` is cleared before the
 * release, so that the second does nothing.
 *
 * Inside a block a loss shows in snib_grant_held; a section that must know
 * asks before each step, or lets the fence decide. Who asks nothing is told
 * at the end: a loss goes where the reason of a failed acquire would have gone,
 * unless the block has left an error of its own there. What the release
 * answers, whatever it is, is kept in scope.err for those who call the two
 * functions themselves. */
#include "snib.h"

#include "base/error.h"

struct snib_scope snib_scope_begin(struct snib_lock *lock,
                                   const struct snib_acquire_options *options,
                                   struct snib_error *reterr)
{
    struct snib_scope scope = {.lock = lock, .reterr = reterr};
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
        struct snib_error why = {0}, *told = scope->reterr;
        scope->live = false;
        scope->err = snib_release(scope->lock, scope->grant, &why);
        if (scope->err == SNIB_ERR_LOST && told && !told->code) {
            *told = why;
        }
    }
}

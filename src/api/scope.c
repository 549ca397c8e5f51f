/* api/scope.c — SNIB_WITH: a block that cannot leak its lock.
 *
 * The macro is a for loop whose variable carries the cleanup attribute. The
 * normal end of the body and `continue` reach the loop's third expression;
 * break, return and goto leave the loop and run the cleanup. Both call
 * snib_scope_end, and only the first call does something: `live` is cleared
 * before the release.
 *
 * Inside a block snib_grant_held shows a loss. A section that must know asks
 * before each step, or lets the fence decide. A block that does not ask is told
 * at the end: the loss is written where a failed acquire would have written its
 * error, unless the block has left an error of its own there. scope.err is what
 * the release answers, for callers of the two functions. */
#include "snib.h"

#include "base/error.h"

struct snib_scope snib_scope_try_for(struct snib_lock *lock, int64_t wait_ms,
                                     const struct snib_acquire_options *options,
                                     struct snib_error *reterr)
{
    struct snib_scope scope = {.lock = lock, .reterr = reterr};
    if (!lock) {
        scope.err = snib__fail(reterr, SNIB_ERR_USAGE,
                               "SNIB_WITH: the lock must not be NULL");
        return scope;
    }
    scope.err = snib_try_for(lock, wait_ms, options, &scope.grant, reterr);
    scope.live = scope.err == SNIB_ERR_OK;
    return scope;
}

struct snib_scope snib_scope_begin(struct snib_lock *lock,
                                   const struct snib_acquire_options *options,
                                   struct snib_error *reterr)
{
    return snib_scope_try_for(lock, INT64_MAX, options, reterr);
}

struct snib_scope snib_scope_try(struct snib_lock *lock,
                                 const struct snib_acquire_options *options,
                                 struct snib_error *reterr)
{
    return snib_scope_try_for(lock, 0, options, reterr);
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

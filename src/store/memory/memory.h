/* store/memory/memory.h — locks in this process' memory, in named spaces.
 *
 * "memory:NAME" clients of one process share the space NAME; it ends with
 * its last client. The same rules as every store (claims.h); it is the model
 * that the others are compared with, and the store of users' own tests.
 * "?clock=virtual": the space has its own clock, which stands still until it
 * is advanced. All functions: any thread. */
#ifndef SNIB__MEMORY_H
#define SNIB__MEMORY_H

#include "core/store.h"

extern const struct snib__blocking_ops snib__memory_ops;

/* The instant of this client's space; false: it uses the real clock. */
bool snib__memory_clock(void *instance, snib_instant *ret);

/* Move the virtual clock and wake every client of the space through its bell
 * (rung() then names nobody: the engine has to tick). USAGE: real clock, or
 * ms negative. */
snib_err snib__memory_advance(void *instance, int64_t ms,
                              struct snib_error *reterr);
/* The next n answers to this client become UNKNOWN; what was asked is done.
 * Interim QUEUED answers count too. Adds to what is still to be dropped. */
void snib__memory_drop_replies(void *instance, uint32_t n);
/* End the lease of the name's holder now, as if it had run out, and let the
 * next in. OK also when nobody holds. */
snib_err snib__memory_expire(void *instance, const struct snib__name *,
                             struct snib_error *reterr);
/* An imaginary other client takes the name now, past the queue. NOMEM. */
snib_err snib__memory_steal(void *instance, const struct snib__name *,
                            int64_t lease_ms, struct snib_error *reterr);

#endif

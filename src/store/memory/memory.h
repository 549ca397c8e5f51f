/* store/memory/memory.h — locks in the memory of this process, in named spaces.
 *
 * The clients of one process that open "memory:NAME" share the space NAME; it
 * ends with its last client. It follows the same rules as every store
 * (rules.h). It is the model that the other stores are compared with, and the
 * store for users' own tests. With "?clock=virtual" the space has its own
 * clock, which stands still until it is advanced. Any thread may call all
 * functions. */
#ifndef SNIB__MEMORY_H
#define SNIB__MEMORY_H

#include "core/store.h"

extern const struct snib__blocking_ops snib__memory_ops;

/* Read the virtual clock of this client's space. False: it uses the real
 * clock. */
bool snib__memory_clock(void *instance, snib_instant *ret);

/* Move the virtual clock and wake every client of the space through its
 * notifier; notified() need not name any request then, but the engine has to
 * tick. USAGE: the clock is real, or ms is negative. */
snib_err snib__memory_advance(void *instance, int64_t ms,
                              struct snib_error *reterr);
/* The next n answers to this client become UNKNOWN, although the requests were
 * executed. Interim QUEUED answers count, too. n is added to the answers that
 * are still to be dropped. */
void snib__memory_drop_replies(void *instance, uint32_t n);
/* Forget all claims and values, as a server does that is killed and keeps
 * nothing, and let every client of the space know through its notifier. */
void snib__memory_restart(void *instance);
/* End every grant of the name now, as if its lease had run out, and grant the
 * name to the next waiter. OK also when nobody holds. */
snib_err snib__memory_expire(void *instance, const struct snib__name *,
                             struct snib_error *reterr);
/* An imaginary other client takes the name now, past the queue. NOMEM. */
snib_err snib__memory_steal(void *instance, const struct snib__name *,
                            int64_t lease_ms, struct snib_error *reterr);

#endif

/* core/blocking.h — a blocking library seen as a store.
 *
 * start() and due polls put requests on out->exec. The driver takes the list,
 * runs ops->exec on it with no client mutex held, and gives it back
 * (snib__engine_executed, snib__blocking_done). One thread at a time executes;
 * while it does the requests on its list are its own.
 *
 * What the driver and the core may rely on:
 *
 *  - Order. What is started later is executed later: a CANCEL of a request
 *    that is being executed runs after it.
 *  - CANCEL is a request of its own (its id names the ACQUIRE). The ACQUIRE
 *    is not polled again once its CANCEL was started, and is answered, too,
 *    exactly once: DONE when it was granted first (the CANCEL behind it then
 *    releases it), else just before the CANCEL's own answer: NO with err
 *    CANCELLED when that is DONE, UNKNOWN when it is not.
 *  - A request may end several times QUEUED, then once otherwise; after that
 *    the store has forgotten it. A wait limit that passes while QUEUED is not
 *    looked at here: the core cancels.
 *  - A bell that names a request which is just being executed is not lost:
 *    the request is executed once more.
 *
 * What ops->exec may rely on: r->answer is the request's previous answer on
 * entry (PENDING the first time, QUEUED when it waits). It may leave PENDING
 * when the library was blocked by others and the request's limit is still
 * ahead: the request is executed again shortly, nothing is announced. */
#ifndef SNIB__BLOCKING_H
#define SNIB__BLOCKING_H

#include "core/store.h"

/* Poll cap of a waiter that was not rung: a lost bell costs this much. */
#define SNIB__POLL_CAP_MS 1000
/* A waiter does not poll more often than this. */
#define SNIB__POLL_FLOOR_MS 10
/* rung() may return this instead of a count: some bell did not fit, any
 * waiting request may have been granted. */
#define SNIB__NOTIFIED_ALL UINT32_MAX

/* ops stays valid as long as the store. */
snib_err snib__blocking_open(const struct snib__blocking_ops *ops,
                             const struct snib__store_config *,
                             struct snib__store **ret,
                             struct snib_error *reterr);
/* Its open() is not used: snib__blocking_open names the library. */
extern const struct snib__store_ops snib__blocking_store_ops;

const struct snib__blocking_ops *snib__blocking_ops_of(struct snib__store *,
                                                       void **ret_instance);
/* It is on its way through the library: its answer comes by its limit. */
bool snib__blocking_runs(const struct snib__request *);
/* Executed requests come back: DONE/NO/… go to out->answered, QUEUED ones are
 * announced there too and polled again later. */
void snib__blocking_done(struct snib__store *, snib_instant now,
                         struct snib__list *executed);

#endif

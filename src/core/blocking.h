/* core/blocking.h — a blocking library seen as a store.
 *
 * start() and due polls put requests on out->exec. The driver takes the list,
 * runs ops->exec on it with no client mutex held, and gives it back
 * (snib__engine_executed, snib__blocking_done). One thread at a time executes;
 * meanwhile the requests on its list are its own.
 *
 * A library across a network (ops->exec_in) has two sessions, each with a
 * worker. There out->exec stays empty: a worker takes what is listed for its
 * session (snib__blocking_take), executes it and gives it back. The requests
 * that it has are its own until then, however long a peer stalls, so they and
 * the store may be freed only when no worker is inside.
 *
 * What the driver and the core may rely on:
 *
 * - Order. What is started later is executed later: a CANCEL of a request that
 *   is being executed runs after it. With two sessions this holds for the
 *   requests of one id, in whichever sessions (core/sharing.c); those of
 *   different ids, also for one name, may overtake each other.
 * - A CANCEL is a request of its own, whose id names the ACQUIRE. The ACQUIRE
 *   is not polled again once its CANCEL was started. It is answered too,
 *   exactly once: DONE when it was granted first (the CANCEL behind it then
 *   releases it), else just before the CANCEL's own answer: NO with err
 *   CANCELLED when that is DONE, UNKNOWN when it is not.
 * - A request may be answered QUEUED several times, then once otherwise; after
 *   that the store has forgotten it. A limit that passes while it is QUEUED is
 *   the core's business: the core cancels.
 * - A notification that names a request which is just being executed is not
 *   lost: the request is executed once more.
 *
 * What ops->exec and exec_in may rely on: on entry r->said.answer is the
 * request's previous answer (PENDING the first time, QUEUED when it waits). It
 * may leave PENDING when the library was blocked by others and the request's
 * limit is still ahead: the request is executed again shortly, and nothing is
 * announced. */
#ifndef SNIB__BLOCKING_H
#define SNIB__BLOCKING_H

#include "core/store.h"

/* A waiter that is not notified polls after this at the latest: a lost
 * notification costs as much. */
#define SNIB__POLL_CAP_MS 1000
/* A waiter does not poll more often than this. */
#define SNIB__POLL_FLOOR_MS 10
/* notified() may return this instead of a count: some notification did not fit,
 * so any waiting request may have been granted, and any grant ended by force. */
#define SNIB__NOTIFIED_ALL UINT32_MAX

/* ops must stay valid as long as the store. */
snib_err snib__blocking_open(const struct snib__blocking_ops *ops,
                             const struct snib__store_config *,
                             struct snib__store **ret,
                             struct snib_error *reterr);
/* Its open() is not used: snib__blocking_open names the library. */
extern const struct snib__store_ops snib__blocking_store_ops;

const struct snib__blocking_ops *snib__blocking_ops_of(struct snib__store *,
                                                       void **ret_instance);
/* Is the request on its way through the library? Then its answer comes by its
 * limit, unless a peer stalls. */
bool snib__blocking_runs(const struct snib__store *,
                         const struct snib__request *);
/* Executed requests come back. All answers go to out->answered but PENDING; a
 * QUEUED request is polled again later. */
void snib__blocking_done(struct snib__store *, snib_instant now,
                         struct snib__list *executed);

/* -- a library across a network ------------------------------------------- */

/* Has the library two sessions? */
bool snib__blocking_shares(const struct snib__store *);
/* Is anything listed for this session? */
bool snib__blocking_waits(const struct snib__store *, snib__session);
/* The worker of this session goes into the library with what is listed for it,
 * appended to ret: something, and not all if that is very much. */
void snib__blocking_take(struct snib__store *, snib_instant now, snib__session,
                         struct snib__list *ret);
/* For a library that never blocks there (its workers are calls on a connection):
 * it looks through what is listed, and takes one at a time; nobody is inside.
 * What it leaves is still answered at its limit, and ended by a CANCEL. after:
 * NULL: the first. Returns NULL: there is none. */
struct snib__request *snib__blocking_peek(const struct snib__store *,
                                          snib__session,
                                          const struct snib__request *after);
void snib__blocking_take_one(struct snib__store *, struct snib__request *);
/* So many are under way there, and it begins no more; the server was heard at
 * that instant. 0: it has room. What is answered at its limit says which it was:
 * that, or the server's silence. */
void snib__blocking_crowded(struct snib__store *, uint32_t under_way,
                            snib_instant heard);
/* What a worker has was not sent yet, perhaps: the library may still look for
 * its server. A caller whose limit comes then shall hear that nothing was
 * applied, and that has to stay true. Neither side can wait for the other, so
 * they go by the clock: the library first says that it sends, then reads the
 * clock, and sends nothing of what has come to its limit by then; the core
 * reads the clock first, then what the library has said. Whatever the core
 * finds unsent at its limit is never sent.
 *
 * For the library: it is about to send something of this request. */
void snib__blocking_sends(struct snib__request *);
/* For the library, with the clock as it was read after that. True: it must not
 * send it; it answers NOT_APPLIED. */
bool snib__blocking_expired(const struct snib__request *, snib_instant now);
/* For the library: the server has answered something of this request. Who stands
 * behind it in this call is told of the queue then, not of a silent server. */
void snib__blocking_heard(struct snib__request *, snib_instant now);
/* For the core. Has a worker sent nothing of it by now? *ret: what kept it. If
 * the request is at its limit (its patience is over) nothing will be sent. */
bool snib__blocking_unsent(const struct snib__store *, snib_instant now,
                           const struct snib__request *,
                           struct snib__unsent *ret);
/* It has come out again. (The requests are given back by
 * snib__blocking_done.) */
void snib__blocking_returned(struct snib__store *, snib__session);

#endif

/* snib/latch.h — waiting for others: count-down latch and barrier.
 *
 * A latch is a lock that is kept closed, with a count of steps to go. A caller
 * that awaits it stands in the lock's queue and passes when the latch opens. So
 * no wake-up is lost, late callers pass at once, and a waiter that died harms
 * nobody. A latch and a lock of the same name are one: while the latch is
 * closed, nobody is granted that lock, whatever its kind.
 *
 * A barrier of n lets n callers through together, again and again. A party
 * counts while it stands in the queue and is alive. A party that died or gave
 * up is not counted, and the others wait for another one instead. While others
 * are still to come a party costs its store a poll a second, like whoever waits
 * for a lock; the last one looks at all of them, and all pass at that moment.
 *
 * A name_size of 0 means strlen. All functions: any thread. */
#ifndef SNIB_LATCH_H
#define SNIB_LATCH_H

#include "snib/event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Close the latch with `count` steps to go (1 to SNIB_PERMITS_MAX), unless it
 * is closed already: then *ret_set (may be NULL) is false and nothing changes.
 * An open latch may be set again. The latch is forgotten, and so is open, 30
 * days after the last change. Blocks up to request_ms. Errors: USAGE, UNKNOWN
 * (sent, no answer: it may have been done, or be done within 10 s),
 * UNREACHABLE, DENIED, STORE, CORRUPT, CONFIG (the server keeps no locks),
 * UNSUPPORTED (a quorum, ZooKeeper, a dialect), CLOSED, FORKED, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_latch_set(struct snib_client *,
                                            const char *name, size_t name_size,
                                            uint32_t count, bool *ret_set,
                                            struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h). For pull
 * clients, too; this goes for the other three as well. Errors: USAGE, LIMIT (no
 * thread or file descriptor is left), CLOSED, FORKED, NOMEM; all others come
 * with the event. */
SNIB_API SNIB_CHECK snib_err snib_latch_set_start(
    struct snib_client *, const char *name, size_t name_size, uint32_t count,
    bool *ret_set, void *user, uint64_t *ret_ticket, struct snib_error *reterr);

/* Count down by `by` (at least 1), to 0 at most. At 0 the latch opens and all
 * waiters pass. *ret_left (may be NULL) is the number of steps to go now. On a
 * latch that is open, or was never set, nothing happens. It is done once,
 * however often its reply is lost. Blocks up to request_ms. Errors: those of
 * snib_latch_set. */
SNIB_API SNIB_CHECK snib_err snib_latch_count_down(
    struct snib_client *, const char *name, size_t name_size, uint32_t by,
    uint32_t *ret_left, struct snib_error *reterr);

/* The same, started. Errors: those of snib_latch_set_start. */
SNIB_API SNIB_CHECK snib_err snib_latch_count_down_start(
    struct snib_client *, const char *name, size_t name_size, uint32_t by,
    uint32_t *ret_left, void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);

/* Read the number of steps to go; 0: open, or never set. Blocks up to
 * request_ms. Errors: those of snib_latch_set, never UNKNOWN (nothing was to be
 * done). */
SNIB_API SNIB_CHECK snib_err snib_latch_left(struct snib_client *,
                                             const char *name, size_t name_size,
                                             uint32_t *ret_left,
                                             struct snib_error *reterr);

/* The same, started. Errors: those of snib_latch_set_start. */
SNIB_API SNIB_CHECK snib_err
snib_latch_left_start(struct snib_client *, const char *name, size_t name_size,
                      uint32_t *ret_left, void *user, uint64_t *ret_ticket,
                      struct snib_error *reterr);

/* Open the latch, whatever its count. Blocks up to request_ms. Errors: those of
 * snib_latch_set. */
SNIB_API SNIB_CHECK snib_err snib_latch_open(struct snib_client *,
                                             const char *name, size_t name_size,
                                             struct snib_error *reterr);

/* The same, started. Errors: those of snib_latch_set_start. */
SNIB_API SNIB_CHECK snib_err snib_latch_open_start(struct snib_client *,
                                                   const char *name,
                                                   size_t name_size, void *user,
                                                   uint64_t *ret_ticket,
                                                   struct snib_error *reterr);

/* Wait until the latch is open: without a limit, not at all (ask once), or for
 * at most wait_ms. OK: the latch was open at a moment between call and return.
 * The call may learn this only at its limit, by the answer to the request that
 * ends the wait.
 *
 * Errors of snib_latch_await: those of snib_acquire, never LOST, DEADLOCK (the
 * caller holds nothing here), CANCELLED (nobody else has the handle), TOO_MANY
 * (a latch has no permits); UNSUPPORTED where the store has no latches (a quorum,
 * ZooKeeper, a dialect). Errors of snib_latch_try: BUSY (it is closed), and
 * those of snib_latch_await. Errors of snib_latch_try_for: BUSY (closed, and
 * wait_ms <= 0), TIMEOUT, and those of snib_latch_await. */
SNIB_API SNIB_CHECK snib_err snib_latch_await(struct snib_client *,
                                              const char *name,
                                              size_t name_size,
                                              struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_latch_try(struct snib_client *,
                                            const char *name, size_t name_size,
                                            struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_latch_try_for(struct snib_client *,
                                                const char *name,
                                                size_t name_size,
                                                int64_t wait_ms,
                                                struct snib_error *reterr);

/* Wait until `parties` callers (1 to SNIB_PERMITS_MAX) of the same number are
 * here: without a limit, not at all (it passes when it is the last one and the
 * others wait already), or for at most wait_ms. All of them get the same
 * *ret_generation (may be NULL), which is higher than that of every earlier
 * meeting.
 *
 * The parties have met when the last one comes to the store, even if some have
 * not heard of it yet. A caller whose limit ends between the two is told OK,
 * since the others pass with it. One exception: a party that is cut off from
 * the store, or stopped, for more than 3 s just then is forgotten, and waits
 * for the next meeting.
 *
 * Errors of snib_barrier_wait: UNKNOWN (it may have been counted: the store did
 * not answer, up to a fifth of request_ms beyond the limit, or does not work),
 * and those of snib_acquire, never LOST, DEADLOCK (the caller holds nothing
 * here), CANCELLED (nobody else has the handle), TOO_MANY (a barrier has no
 * permits). Errors of snib_barrier_try: BUSY (the others are not all here), and
 * those of snib_barrier_wait. Errors of snib_barrier_try_for: BUSY (wait_ms <=
 * 0), TIMEOUT (the store has said that this caller was not counted and will not
 * be), and those of snib_barrier_wait. */
SNIB_API SNIB_CHECK snib_err snib_barrier_wait(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    int64_t *ret_generation, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_barrier_try(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    int64_t *ret_generation, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_barrier_try_for(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    int64_t wait_ms, int64_t *ret_generation, struct snib_error *reterr);

/* Start a wait for a latch or barrier, for event loops and for waits that
 * somebody may end. Does not block; for pull clients, too. Take the one event
 * from snib_client_next (snib_client_fd says when). It is PASSED, with the
 * generation of a barrier as grant.token, or REFUSED with the error. After an
 * error there is no event. Nothing is held in any case, and nothing need be
 * released. wait_ms counts from this call. user comes back in the event;
 * ret_ticket may be NULL.
 *
 * snib_client_cancel(client, ticket) gives up. The event is REFUSED with
 * CANCELLED (this party was not counted and will not be) or UNKNOWN. It is
 * PASSED when the latch or barrier opened before the cancel came to the store,
 * even if nobody here had heard of that yet. When snib_client_close ends the
 * wait the same holds, with CLOSED for CANCELLED.
 *
 * Errors: USAGE, NOMEM, LIMIT, CLOSED, FORKED; those of the wait are in the
 * event. Errors of snib_latch_try_start: BUSY (this client holds a mutex of
 * that name), and those of snib_latch_await_start. Errors of
 * snib_latch_try_for_start: BUSY (the same, and wait_ms <= 0), and those of
 * snib_latch_await_start. Errors of snib_barrier_try_start: those of
 * snib_latch_try_start. Errors of snib_barrier_try_for_start: those of
 * snib_latch_try_for_start. */
SNIB_API SNIB_CHECK snib_err snib_latch_await_start(
    struct snib_client *, const char *name, size_t name_size, void *user,
    uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_latch_try_start(struct snib_client *,
                                                  const char *name,
                                                  size_t name_size, void *user,
                                                  uint64_t *ret_ticket,
                                                  struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_latch_try_for_start(
    struct snib_client *, const char *name, size_t name_size, int64_t wait_ms,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_barrier_wait_start(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_barrier_try_start(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_barrier_try_for_start(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    int64_t wait_ms, void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

/* snib/latch.h — waiting for others: count-down latch and barrier.
 *
 * A latch is a lock that is kept closed, with so many steps to go; who awaits
 * it stands in the lock's queue and is let through when it opens. So no
 * wake-up is lost, late callers pass at once, and a waiter that died harms
 * nobody. The name is one with that of a lock: while the latch is closed,
 * nobody is granted that lock, whatever its kind.
 *
 * A barrier of n lets through n callers together, again and again. Who stands
 * in the queue counts for as long as it is alive: a party that died or gave up
 * is not counted, and the others wait for one in its place.
 *
 * name_size 0: strlen. Any thread. */
#ifndef SNIB_LATCH_H
#define SNIB_LATCH_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Close the latch with `count` steps to go (1 to SNIB_PERMITS_MAX), unless it
 * is closed already: then *ret_set (may be NULL) is false and nothing changes.
 * An open latch may be set again. It is forgotten, that is open, 30 days
 * after the last change. Blocks up to request_ms. Errors: USAGE, UNKNOWN (sent,
 * no answer: it may have been done, or be done within 10 s), UNREACHABLE,
 * DENIED, STORE, CORRUPT, CONFIG (the server is none that keeps locks),
 * UNSUPPORTED (a quorum), CLOSED, FORKED, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_latch_set(struct snib_client *,
                                            const char *name, size_t name_size,
                                            uint32_t count, bool *ret_set,
                                            struct snib_error *reterr);

/* Count down by `by` (at least 1), to 0 at most; at 0 it opens and all who wait
 * pass. *ret_left (may be NULL): steps to go now. On an open latch, or one that
 * was never set, nothing happens. Done once, however often its reply is lost.
 * Blocks as snib_latch_set. Errors: those of snib_latch_set. */
SNIB_API SNIB_CHECK snib_err snib_latch_count_down(
    struct snib_client *, const char *name, size_t name_size, uint32_t by,
    uint32_t *ret_left, struct snib_error *reterr);

/* Steps to go; 0: open, or never set. Blocks as snib_latch_set. Errors: those of
 * snib_latch_set, never UNKNOWN (nothing was to be done). */
SNIB_API SNIB_CHECK snib_err snib_latch_left(struct snib_client *,
                                             const char *name, size_t name_size,
                                             uint32_t *ret_left,
                                             struct snib_error *reterr);

/* Open it, whatever its count. Errors: those of snib_latch_set. */
SNIB_API SNIB_CHECK snib_err snib_latch_open(struct snib_client *,
                                             const char *name, size_t name_size,
                                             struct snib_error *reterr);

/* Wait until the latch is open, up to wait_ms (0: look once, SNIB_FOREVER).
 * OK: it was open at a moment between call and return, which may be heard of
 * in the last moment only, by the answer to what ends the wait at its limit.
 * Errors: BUSY (wait_ms 0 and closed), TIMEOUT, UNKNOWN (no answer), and those of snib_acquire, never
 * LOST, DEADLOCK (who awaits holds nothing here), CANCELLED (nobody else has
 * the handle), TOO_MANY (a latch has no permits). */
SNIB_API SNIB_CHECK snib_err snib_latch_await(struct snib_client *,
                                              const char *name,
                                              size_t name_size, int64_t wait_ms,
                                              struct snib_error *reterr);

/* Wait until `parties` callers (1 to SNIB_PERMITS_MAX) of the same number are
 * here, up to wait_ms (not 0). All of them get the same *ret_generation (may be
 * NULL), higher than that of every group before. The group has met when the
 * last one comes to the store, whoever has heard of it: one whose limit ends
 * between the two is told OK, since the others pass with it. (Not one that is
 * cut off from the store, or stopped, for more than 3 s just then: it is
 * forgotten, and waits for the next group.) Errors: TIMEOUT (this caller was not
 * counted and is not any more: the store has said so), UNKNOWN (it may have been
 * counted: the store did not answer, up to a fifth of request_ms beyond the
 * limit, or does not work), and those of snib_acquire, never BUSY (it waits),
 * LOST, DEADLOCK (who waits here holds nothing here), CANCELLED (nobody else has
 * the handle), TOO_MANY (a barrier has no permits). */
SNIB_API SNIB_CHECK snib_err snib_barrier_wait(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    int64_t wait_ms, int64_t *ret_generation, struct snib_error *reterr);

/* The same for event loops, and for waits that somebody may end: start, and
 * take the one event of it from snib_next (snib_fd says when): PASSED, with the
 * generation of a barrier as grant.token, or REFUSED with the error. Nothing is
 * held either way, and nothing need be released. wait_ms counts from here.
 * snib_cancel(client, ticket) gives up: REFUSED with CANCELLED (this party was
 * not counted and is not any more), UNKNOWN, or PASSED when the latch or the
 * barrier has opened before the cancel came to the store: also when nobody here
 * had heard of that yet. So it is when snib_client_close ends the wait, with
 * CLOSED in the place of CANCELLED. user comes back
 * in the event; ret_ticket may be NULL. Do not block; pull clients, too. After
 * an error there is no event. Errors: USAGE, NOMEM, LIMIT, CLOSED, FORKED; those
 * of the wait are in the event. */
SNIB_API SNIB_CHECK snib_err snib_latch_await_start(
    struct snib_client *, const char *name, size_t name_size, int64_t wait_ms,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_barrier_wait_start(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    int64_t wait_ms, void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

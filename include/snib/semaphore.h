/* snib/semaphore.h — permits: at most so many at once.
 *
 * A semaphore is a lock (a name in a store) of kind SNIB_PERMITS with a size.
 * Acquiring takes lock options' `permits` at once, first come first served: a
 * large request is not overtaken by small ones. Each acquire gives a grant of
 * its own, with its own lease and token: renew, release and status work on it
 * alone, from any thread of the client, and export, abandon and adopt carry it
 * to another process (what others call expirable permits with ids). Permits of
 * an owner that died come back when its lease ends, so the number in use never
 * drifts; a reply that was lost takes nothing twice.
 *
 *     struct snib_lock_options o = SNIB_INIT(snib_lock_options);
 *     o.kind = SNIB_PERMITS;
 *     o.capacity = 5;                          (the size, if it has none yet)
 *     snib_lock_new(client, "licences", &o, &lock, &err);
 *
 * The size is the store's: set by the first acquire that brings a capacity, or
 * by snib_semaphore_set, and kept for 30 days after the last use (SQLite: 30
 * days, memory: as long as the space lives). Later capacities are not looked
 * at. Making it smaller takes nothing from anybody: until enough permits have
 * come back, `available` is negative and nobody is granted any.
 *
 * Each grant has a slot, too: snib_semaphore_slot.
 *
 * Functions block up to the client's request_ms; any thread. */
#ifndef SNIB_SEMAPHORE_H
#define SNIB_SEMAPHORE_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snib_semaphore {
    int64_t size; /* -1: it has none yet                                    */
    int64_t used;
    int64_t available; /* size − used; below 0 after it was made smaller    */
    int64_t waiting;   /* requests in the queue (counted up to 1 024)       */
};

/* What it is now. name_size 0: strlen. Errors: USAGE, UNREACHABLE, DENIED,
 * STORE, CORRUPT, CONFIG (the server is none that keeps locks), UNSUPPORTED (a
 * quorum), CLOSED, FORKED, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_semaphore_get(struct snib_client *,
                                                const char *name,
                                                size_t name_size,
                                                struct snib_semaphore *ret,
                                                struct snib_error *reterr);

/* Set the size, 0 to SNIB_PERMITS_MAX. only_new: leave a size that is set as it
 * is. *ret_set (may be NULL): false when only_new found one. Who waits and now
 * fits is served before this returns. Errors: those of
 * snib_semaphore_get, UNKNOWN (sent, no answer: it may have been done, or be
 * done within 10 s). */
SNIB_API SNIB_CHECK snib_err snib_semaphore_set(struct snib_client *,
                                                const char *name,
                                                size_t name_size, uint32_t size,
                                                bool only_new, bool *ret_set,
                                                struct snib_error *reterr);

/* So many permits more, or fewer (by < 0). Done once, however often its reply
 * is lost. Errors: those of snib_semaphore_set, CONFIG (it has no size),
 * USAGE (the size would fall below 0 or grow above SNIB_PERMITS_MAX). */
SNIB_API SNIB_CHECK snib_err snib_semaphore_add(struct snib_client *,
                                                const char *name,
                                                size_t name_size, int64_t by,
                                                struct snib_error *reterr);

/* Take all permits that are available, at least one, at once: *ret_permits of
 * them (may be NULL) by one grant. Never waits in the queue, never overtakes
 * it. lock: of kind PERMITS; its `permits` is not looked at. Of the options owner
 * and reason count; all must be valid. Errors: BUSY (none is available, whatever
 * wait_ms), those of snib_acquire, never TIMEOUT, LOST, DEADLOCK, CANCELLED (it
 * does not wait, and permits belong to no owner), TOO_MANY (it asks for what
 * there is). */
SNIB_API SNIB_CHECK snib_err snib_semaphore_drain(
    struct snib_lock *lock, const struct snib_acquire_options *,
    struct snib_grant *ret, uint32_t *ret_permits, struct snib_error *reterr);

/* The slot of a grant of permits: a number from 0 on that no other standing
 * grant of this semaphore has, the lowest that was free when it was given. So
 * it is below the size (a grant from before the size shrank may have a higher
 * one), one for each grant, however many permits that is, and the same from
 * the grant to its end: by renewals, in another process that adopted it, after
 * a reply that was lost. An acquisition at one of N machines, ports, directories; and
 * the tokens of those who have had a slot rise (docs/FENCING.md). Others see
 * it in snib_party.slot. After a loss: the slot that it was. Compares
 * nothing, no I/O. Errors: NOT_HELD (a stale grant; *ret is left alone),
 * USAGE (lock is not of kind PERMITS), CLOSED, FORKED. */
SNIB_API SNIB_CHECK snib_err snib_semaphore_slot(struct snib_lock *lock,
                                                 struct snib_grant,
                                                 uint32_t *ret,
                                                 struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

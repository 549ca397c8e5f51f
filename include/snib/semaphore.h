/* snib/semaphore.h — permits: at most so many at once.
 *
 * A semaphore is a lock (a name in a store) of kind SNIB_KIND_PERMITS with a
 * size. An acquire takes as many permits at once as the lock options' `permits`
 * say, first come first served: small requests do not overtake a large one.
 * Each acquire gives a grant of its own, with its own lease and token. Renew,
 * release and status work on that grant alone, from any thread of the client;
 * export, abandon and adopt carry it to another process (others call these
 * expirable permits with ids). Permits of an owner that died come back when its
 * lease ends, so the number in use never drifts. A lost reply takes nothing
 * twice.
 *
 *     struct snib_lock_options o = SNIB_INIT(snib_lock_options);
 *     o.kind = SNIB_KIND_PERMITS;
 *     o.capacity = 5;                          (the size, if it has none yet)
 *     snib_lock_new(client, "licences", &o, &lock, &err);
 *
 * The store keeps the size. It is set by the first acquire that brings a
 * capacity, or by snib_semaphore_set; later capacities are ignored. It is kept
 * for 30 days after the last use (memory: as long as the space lives). Making
 * it smaller takes nothing from anybody: until enough permits have come back,
 * `available` is negative and nobody is granted any.
 *
 * Each grant has a slot, too: snib_semaphore_slot.
 *
 * Functions block up to the client's request_ms; in a pull client use their
 * started forms (USAGE otherwise; snib/event.h). Any thread may call them. */
#ifndef SNIB_SEMAPHORE_H
#define SNIB_SEMAPHORE_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snib_semaphore {
    int64_t size; /* -1: it has none yet */
    int64_t used;
    /* size − used; below 0 after the size was made smaller. */
    int64_t available;
    int64_t waiting; /* requests in the queue (counted up to 1 024)       */
};

/* Read the size and what is in use. A name_size of 0 means strlen. Errors:
 * USAGE, UNREACHABLE, DENIED, STORE, CORRUPT, CONFIG (the server keeps no
 * locks), UNSUPPORTED (a quorum), CLOSED, FORKED, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_semaphore_get(
    struct snib_client *, const char *name, size_t name_size,
    struct snib_semaphore *ret, size_t ret_size, struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h). For pull
 * clients, too. Errors: USAGE, LIMIT (no thread or file descriptor is left),
 * CLOSED, FORKED, NOMEM; all others come with the event. */
SNIB_API SNIB_CHECK snib_err snib_semaphore_get_start(
    struct snib_client *, const char *name, size_t name_size,
    struct snib_semaphore *ret, size_t ret_size, void *user,
    uint64_t *ret_ticket, struct snib_error *reterr);

/* Set the size, 0 to SNIB_PERMITS_MAX. only_new leaves a size that is set as it
 * is; *ret_set (may be NULL) is false when it found one. Waiters that now fit
 * are granted before this returns. Errors: those of snib_semaphore_get, UNKNOWN
 * (sent, no answer: it may have been done, or be done within 10 s). */
SNIB_API SNIB_CHECK snib_err snib_semaphore_set(struct snib_client *,
                                                const char *name,
                                                size_t name_size, uint32_t size,
                                                bool only_new, bool *ret_set,
                                                struct snib_error *reterr);

/* The same, started. Errors: those of snib_semaphore_get_start. */
SNIB_API SNIB_CHECK snib_err snib_semaphore_set_start(
    struct snib_client *, const char *name, size_t name_size, uint32_t size,
    bool only_new, bool *ret_set, void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);

/* Add so many permits, or take so many away (by < 0). It is done once, however
 * often its reply is lost. Errors: those of snib_semaphore_set, CONFIG (it has
 * no size), USAGE (the size would fall below 0 or grow above
 * SNIB_PERMITS_MAX). */
SNIB_API SNIB_CHECK snib_err snib_semaphore_add(struct snib_client *,
                                                const char *name,
                                                size_t name_size, int64_t by,
                                                struct snib_error *reterr);

/* The same, started. Errors: those of snib_semaphore_get_start. */
SNIB_API SNIB_CHECK snib_err snib_semaphore_add_start(
    struct snib_client *, const char *name, size_t name_size, int64_t by,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);

/* Take all permits that are available, at least one, at once by one grant.
 * *ret_permits (may be NULL) is how many. It never waits in the queue and never
 * overtakes it. lock is of kind PERMITS; its `permits` is ignored. Of the
 * options owner and reason count; all must be valid. Errors: BUSY (none is
 * available), those of snib_try, never LOST, DEADLOCK (permits belong to no
 * owner), TOO_MANY (it asks for what there is). */
SNIB_API SNIB_CHECK snib_err snib_semaphore_drain(
    struct snib_lock *lock, const struct snib_acquire_options *,
    struct snib_grant *ret, uint32_t *ret_permits, struct snib_error *reterr);

/* The same, started. The event is DONE. On OK its grant is *ret, its state
 * HELD, and SNIB_EVENT_STATE tells what becomes of it, as after snib_try_start.
 * The permits are held from the event's arrival on, taken or not: if the event
 * is never taken they go with the handle or the client. Errors: BUSY (another
 * owner of this client has a mutex of that name), and those of
 * snib_semaphore_get_start. */
SNIB_API SNIB_CHECK snib_err snib_semaphore_drain_start(
    struct snib_lock *lock, const struct snib_acquire_options *,
    struct snib_grant *ret, uint32_t *ret_permits, void *user,
    uint64_t *ret_ticket, struct snib_error *reterr);

/* The slot of a grant of permits. Use it for one of N machines, ports or
 * directories.
 *
 * A slot is a number from 0 on that no other standing grant of this semaphore
 * has: the lowest that was free when the grant was given. So it is below the
 * size (a grant from before the size shrank may have a higher one). Each grant
 * has one, however many permits it has. It stays the same from the grant to its
 * end: through renewals, in another process that adopted the grant, after a
 * lost reply. After a loss it is the slot that the grant had. The tokens of the
 * grants that have a slot one after another rise (docs/FENCING.md). Others see
 * it in snib_party.slot.
 *
 * It compares no clock and does no I/O. *ret is left alone after an error.
 * Errors: NOT_HELD (a stale grant), USAGE (lock is not of kind PERMITS; a grant
 * of another lock), CLOSED, FORKED. */
SNIB_API SNIB_CHECK snib_err snib_semaphore_slot(struct snib_lock *lock,
                                                 struct snib_grant,
                                                 uint32_t *ret,
                                                 struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

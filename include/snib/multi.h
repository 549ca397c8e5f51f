/* snib/multi.h — several locks as one: all or nothing.
 *
 * A *multi* names locks of one or several clients: any names, kinds and
 * stores. snib_multi_acquire gives all of them or none within one limit.
 *
 *   struct snib_lock *both[] = {from, to};
 *   struct snib_grant g[2];
 *   if (snib_multi_new(both, 2, NULL, &multi, &err) == SNIB_ERR_OK &&
 *       snib_multi_acquire(multi, NULL, g, &err) == SNIB_ERR_OK) {
 *       transfer(g[0].token, g[1].token);
 *       snib_multi_release(multi, g, &err);
 *   }
 *
 * No deadlock. Whatever order the locks are given in, they are waited for in
 * one order: by the store's identity, then by the name's bytes (memcmp, a
 * prefix first). The identity of a store is its URL without login and options
 * and with defaults filled in, compared as bytes:
 *     redis://host:6379/0    host in lower case
 *     redis+unix:/path?db=0
 *     sqlite:/path           as realpath(3) gives it
 *     memory:name
 * The order is the same in every process, and that of `snib run A B`. Nobody
 * who waits by this rule holds a lock behind the one that it waits for, so no
 * circle can close. It needs that
 *   - all callers name a server alike: an alias, an address or a socket of the
 *     same server is another identity, and another order;
 *   - nothing else is held meanwhile: an owner that holds a lock and then asks
 *     for a multi, or holds a multi and then asks for more, makes an order of
 *     its own.
 * Should a circle close all the same, wait_ms ends it.
 *
 * How. What is free is taken in one step of its store, up to 8 locks in each:
 * one script on Redis, one transaction in a file. So an uncontended multi costs
 * one round trip a store, not one a lock. The step ends at the first lock that
 * is not free. One that waits keeps those before it, takes none behind it, and
 * queues for that one, first come first served; then the rest is tried again.
 * One that does not wait (wait_ms 0) keeps none: that it was tried is seen by
 * nobody. Two cases go lock by lock instead, and others may see a lock held for
 * a moment that is then given back: a multi over several stores, or of more
 * than 8 locks, or on a quorum; and one whose client is still giving one of the
 * locks back.
 *
 * Threads. What a multi names does not change once made: all threads may use it
 * at the same time. Grants belong to the owner that acquired them, as with
 * snib_acquire. Not for pull clients, which cannot block. */
#ifndef SNIB_MULTI_H
#define SNIB_MULTI_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most locks in one multi. */
#define SNIB_MULTI_MAX 1024

struct snib_multi;

/* For later; NULL is the same. */
struct snib_multi_options {
    size_t size;
};

/* Several locks as one. The handles in locks are borrowed: they must live as
 * long as the multi; the array itself is copied. Options of their own (lease,
 * kind, on_change, …) hold for each. No I/O. *ret is NULL on error.
 * Errors: USAGE (no lock, NULL among them, more than SNIB_MULTI_MAX, a pull
 * client, one name of one store twice: also as a read and a write, and also
 * through two clients; the text names it), FORKED, NOMEM. CLOSED is told by
 * the acquire. */
SNIB_API SNIB_CHECK snib_err snib_multi_new(struct snib_lock *const locks[],
                                            size_t count,
                                            const struct snib_multi_options *,
                                            struct snib_multi **ret,
                                            struct snib_error *reterr);

/* Free the multi; the locks, and what is held, stay as they are. NULL is
 * allowed. No other thread may use it meanwhile. */
SNIB_API void snib_multi_free(struct snib_multi *);

/* How many locks it has: the room that grants must have. */
SNIB_API size_t snib_multi_count(const struct snib_multi *);

/* Acquire all, or none. ret_grants: room for snib_multi_count grants; they
 * come in the order in which the locks were given to snib_multi_new, each with
 * its own token. All zero on error.
 *
 * wait_ms is one limit for all together (0: try each once; NULL options wait
 * for ever). By then, and at most request_ms later when something has to be
 * given back, the call returns. An owner (0: the thread) holds all of them; one
 * that holds some already enters these again. When a lease ends while a later
 * lock is waited for, all are given back and it begins again, within the
 * limit. (A virtual clock of memory: counts for the queues of that store; the
 * limit here is real time.)
 *
 * Errors: those of snib_acquire, CANCELLED (snib_multi_cancel). Each has the
 * lock's name in the text, and nothing is held. The exception is UNKNOWN: a
 * request or a giving back was sent and not answered; it is cancelled or
 * repeated in the background and ends by the lease's end at the latest. */
SNIB_API SNIB_CHECK snib_err
snib_multi_acquire(struct snib_multi *, const struct snib_acquire_options *,
                   struct snib_grant ret_grants[], struct snib_error *reterr);

/* End all acquires of this multi that are under way, on whatever threads, with
 * CANCELLED, and so each later one that would wait: a multi that was cancelled
 * stays so (make another; it is cheap). From any thread; does not wait for
 * them: a try that is under way is answered first (up to request_ms), and what
 * was acquired is given back. One that was faster returns its grants. */
SNIB_API void snib_multi_cancel(struct snib_multi *);

/* Which lock is missing, an index into the locks as given: the one that an
 * acquire waits for now, or at which the latest one failed; the count when
 * none is. Of several acquires at once: the latest to wait or fail. For
 * people: it may be another one by the time that it is shown. */
SNIB_API size_t snib_multi_missing(struct snib_multi *);

/* Give all back, the last in order first, and for each go on whatever the
 * others say. Blocks up to request_ms. Returns the worst outcome, with the
 * lock's name in the text: LOST (one had ended before), UNKNOWN (sent, no
 * answer; repeated in the background), then any other. Errors: those of
 * snib_release, never USAGE (it is of clients that block). */
SNIB_API snib_err snib_multi_release(struct snib_multi *,
                                     const struct snib_grant grants[],
                                     struct snib_error *reterr);

/* The whole: LOST when one is lost, else RELEASED when one is, else AT_RISK
 * when one is, else HELD. left_ms: until the earliest deadline, 0 when it has
 * passed. member: which lock decides, an index into the locks as given: the
 * first lost, released or at risk one, else the one with the earliest
 * deadline; reason is that one's. */
struct snib_multi_status {
    snib_state state;
    snib_cause cause;
    int64_t left_ms;
    size_t member;
};

/* What the grants are at this instant; compares the clocks, no I/O. */
SNIB_API void snib_multi_status(struct snib_multi *,
                                const struct snib_grant grants[],
                                struct snib_multi_status *ret);

/* True while all are held or at risk with their deadlines ahead. */
SNIB_API bool snib_multi_held(struct snib_multi *,
                              const struct snib_grant grants[]);

#ifdef __cplusplus
}
#endif
#endif

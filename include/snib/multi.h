/* snib/multi.h — several locks as one: all or nothing.
 *
 * A *multi* names locks of one or several clients: any names, kinds and stores.
 * snib_multi_acquire gives all of them, snib_multi_try and snib_multi_try_for
 * all or none, within one limit.
 *
 *   struct snib_lock *both[] = {from, to};
 *   struct snib_grant g[2];
 *   if (snib_multi_new(both, 2, NULL, &multi, &err) == SNIB_ERR_OK &&
 *       snib_multi_acquire(multi, NULL, g, &err) == SNIB_ERR_OK) {
 *       transfer(g[0].token, g[1].token);
 *       snib_multi_release(multi, g, &err);
 *   }
 *
 * No deadlock. In whatever order the locks are given, they are waited for in
 * one order: by the store's identity, then by the name's bytes (memcmp, a
 * prefix first). The identity of a store is its URL without login and options
 * and with defaults filled in, compared as bytes:
 *     redis://host:6379/0    host in lower case
 *     redis://a:6379,b:6379/0           servers in order of host, then port
 *     redis+sentinel://a:26379,b:26379/service/0  Sentinels in that order
 *     redis+unix:/path?db=0
 *     file:/path             as realpath(3) gives it
 *     postgres://host:5432/database?schema=snib
 *     mysql://host:3306/database?prefix=snib
 *     postgres://host:5432/database?dialect=shedlock&table=shedlock&schema=public
 *     postgres://host:5432/database?dialect=int_lock&table=INT_LOCK&schema=public&region=DEFAULT
 *     postgres://host:5432/database?dialect=advisory
 *     mysql://host:3306/?dialect=getlock  in all databases there
 *     etcd://a:2379,b:2379,c:2379?prefix=snib  members in that order
 *     zookeeper://a:2181,b:2181/path    servers in order of host, then port
 *     (a dialect is part of it: ?dialect=concurrency, ?dialect=curator-mutex)
 *     amqp://a:5672,b:5672/vhost        nodes in order of host, then port
 *     memory:name
 *     redlock://a:6379,b:6379,c:6379/0  servers in order of host, then port
 *     redis+cluster://a:6379,b:6379/0   the nodes of the URL, in that order
 * The order is the same in every process, and that of `snib run A B`. A caller
 * that waits by this rule holds no lock behind the one that it waits for, so no
 * circle can close. The rule needs that
 *   - all callers name a server alike: an alias, an address or a socket of the
 *     same server is another identity, and another order;
 *   - nothing else is held meanwhile: an owner that holds a lock and then asks
 *     for a multi, or holds a multi and then asks for more, makes an order of
 *     its own.
 * Should a circle close all the same, a limit ends it.
 *
 * How. Locks that are free are taken in one step of their store, up to 8 in
 * each: one script on Redis, one transaction in a database; in a file a step a
 * name, given back where one of them is taken just then. So an uncontended multi
 * costs one round trip for 8 locks, not one a lock. The step ends at the first
 * lock that is not free. A call that waits keeps the locks before it, takes none
 * behind it, and queues for that one, first come first served; then it tries
 * the rest again. A call that does not wait (snib_multi_try) keeps none, and
 * nobody sees that it tried.
 *
 * In some cases the locks are tried one by one instead, and others may see a
 * lock held for a moment that is then given back: a multi over several stores,
 * of more than 8 locks, on a quorum, or on file:; and a multi that does not wait,
 * whose client is still giving one of the locks back.
 *
 * Threads. A multi does not change once it is made: all threads may use it at
 * the same time. Grants belong to the owner that acquired them, as with
 * snib_acquire. In a pull client the calls that block are refused (USAGE); use
 * the started forms there (snib/event.h). */
#ifndef SNIB_MULTI_H
#define SNIB_MULTI_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most locks in one multi. */
#define SNIB_MULTI_MAX 1024

struct snib_multi;

/* Options to come; it has none yet, and NULL is the same. */
struct snib_multi_options {
    size_t size;
};

/* Make a multi of several locks. The handles in locks are borrowed: they must
 * live as long as the multi. The array itself is copied. The options of each
 * lock (lease, kind, on_change, …) hold for it. No I/O. *ret is NULL on error.
 * CLOSED is told by the acquire. Errors: USAGE (no lock, NULL among them, more
 * than SNIB_MULTI_MAX, one name of one store twice: also as a read and a write,
 * and also through two clients; the text names it), FORKED, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_multi_new(struct snib_lock *const locks[],
                                            size_t count,
                                            const struct snib_multi_options *,
                                            struct snib_multi **ret,
                                            struct snib_error *reterr);

/* Free the multi. The locks, and what is held, stay as they are. What was
 * started goes on: its event comes all the same, and no other thread may take
 * it during the free. NULL is allowed. No other thread may use it meanwhile. */
SNIB_API void snib_multi_free(struct snib_multi *);

/* How many locks it has: so many grants an array of them must have room for. */
SNIB_API size_t snib_multi_count(const struct snib_multi *);

/* Acquire all, or none. ret_grants has room for snib_multi_count grants. They
 * come in the order in which the locks were given to snib_multi_new, each with
 * its own token. All are zero on error. options may be NULL.
 *
 * snib_multi_acquire waits without a limit, snib_multi_try tries each once.
 * wait_ms is one limit for all together. The call returns by then, or up to
 * request_ms later when something has to be given back. (The limit is real
 * time, also on a virtual clock of memory:, which counts for the queues of that
 * store only.) One owner (0: the calling thread) holds all of them. If it holds
 * some already it enters these again. When a lease ends while a later lock is
 * waited for, all are given back and the call begins again, within the limit.
 *
 * Errors of snib_multi_acquire: those of snib_acquire, CANCELLED
 * (snib_multi_cancel). Errors of snib_multi_try: those of snib_try. Errors of
 * snib_multi_try_for: those of snib_try_for. The text of each has the lock's
 * name. After an error nothing is held, except after UNKNOWN: a request or a
 * giving back was sent and not answered. It is cancelled or repeated in the
 * background, and ends by the lease's end at the latest. */
SNIB_API SNIB_CHECK snib_err
snib_multi_acquire(struct snib_multi *, const struct snib_acquire_options *,
                   struct snib_grant ret_grants[], struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_multi_try(struct snib_multi *,
                                            const struct snib_acquire_options *,
                                            struct snib_grant ret_grants[],
                                            struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_multi_try_for(
    struct snib_multi *, int64_t wait_ms, const struct snib_acquire_options *,
    struct snib_grant ret_grants[], struct snib_error *reterr);

/* Start such an acquire. Its event is SNIB_EVENT_DONE (snib/event.h), with the
 * ticket alone: ret_grants is written when that is taken. Until then the array
 * must stay valid; the start sets it to zero. All locks have to be of one
 * client, which has the event. owner 0 makes a new owner for these grants, so
 * any thread may release them. No SNIB_EVENT_STATE tells of them: give the
 * locks an on_change, or use snib_grant_fd.
 *
 * What the store has answered is looked at when events are taken: the acquire
 * goes from one lock to the next inside snib_client_next. Locks that it holds
 * meanwhile are renewed. snib_client_cancel and snib_multi_cancel end it
 * (CANCELLED, or UNKNOWN), a try too. What it had is given back before its
 * event comes.
 *
 * Errors of snib_multi_acquire_start: USAGE (options; locks of several
 * clients), LIMIT (no thread or file descriptor is left), CLOSED, FORKED,
 * NOMEM; all others come with the event. Errors of snib_multi_try_start: those
 * of snib_multi_acquire_start. Errors of snib_multi_try_for_start: those of
 * snib_multi_acquire_start. */
SNIB_API SNIB_CHECK snib_err snib_multi_acquire_start(
    struct snib_multi *, const struct snib_acquire_options *,
    struct snib_grant ret_grants[], void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err
snib_multi_try_start(struct snib_multi *, const struct snib_acquire_options *,
                     struct snib_grant ret_grants[], void *user,
                     uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_multi_try_for_start(
    struct snib_multi *, int64_t wait_ms, const struct snib_acquire_options *,
    struct snib_grant ret_grants[], void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);

/* End all acquires of this multi that are under way, on whatever threads, with
 * CANCELLED. Each later acquire that would wait ends so, too: a cancelled multi
 * stays cancelled (make another; it is cheap). Any thread may call it. It does
 * not wait for the acquires: a try that is under way is answered first (up to
 * request_ms), and what was acquired is given back. An acquire that was faster
 * returns its grants. */
SNIB_API void snib_multi_cancel(struct snib_multi *);

/* Which lock is missing, an index into the locks as given. It is the one that
 * an acquire waits for now, or at which the latest one failed; the count when
 * there is none. With several acquires at once it is the latest to wait or
 * fail. It is for people: it may be another one by the time that it is
 * shown. */
SNIB_API size_t snib_multi_missing(struct snib_multi *);

/* Give all back, the last in order first; a failure does not stop the rest.
 * Blocks up to request_ms. Returns the worst outcome, with the lock's name in
 * the text: first LOST (one had ended before), then UNKNOWN (sent, no answer;
 * repeated in the background), then any other. Errors: those of snib_release,
 * USAGE (a grant of another lock). */
SNIB_API snib_err snib_multi_release(struct snib_multi *,
                                     const struct snib_grant grants[],
                                     struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE, with the worst outcome, and is
 * not cancelled. The grants are copied. They are of the calling thread, or of
 * an owner of snib_owner_new. Errors: USAGE (locks of several clients), LIMIT
 * (no file descriptor is left), CLOSED (as snib_release), FORKED, NOMEM; all
 * others come with the event. */
SNIB_API SNIB_CHECK snib_err snib_multi_release_start(
    struct snib_multi *, const struct snib_grant grants[], void *user,
    uint64_t *ret_ticket, struct snib_error *reterr);

/* The state of all together: LOST when one is lost, else RELEASED when one is,
 * else AT_RISK when one is, else HELD. left_ms is the time until the earliest
 * deadline, 0 when it has passed. member is the index, among the locks as
 * given, of the lock that decides: the first that is lost, released or at risk,
 * else the one with the earliest deadline. cause is that lock's. */
struct snib_multi_status {
    snib_state state;
    snib_cause cause;
    int64_t left_ms;
    size_t member;
};

/* What the grants are at this instant. This compares the clocks and does no
 * I/O. */
SNIB_API void snib_multi_status(struct snib_multi *,
                                const struct snib_grant grants[],
                                struct snib_multi_status *ret, size_t ret_size);

/* True while all are held or at risk with their deadlines ahead. */
SNIB_API bool snib_multi_held(struct snib_multi *,
                              const struct snib_grant grants[]);

#ifdef __cplusplus
}
#endif
#endif

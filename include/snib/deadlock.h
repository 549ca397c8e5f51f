/* snib/deadlock.h — circles of owners that wait for each other.
 *
 * Two owners that each hold what the other wants would wait for ever: their
 * leases are renewed, so no lease ends it. The library finds such circles,
 * across threads, processes and hosts. An owner that holds a lock and waits for
 * another shows in the store what it holds, after half a second at the latest.
 * After a second of waiting its client begins to check whether the wait is part
 * of a circle. The youngest wait of a circle is refused with SNIB_ERR_DEADLOCK,
 * some 2 s after the circle closed; the error's text shows the circle. (Only
 * waits count whose owners hold what others of the circle wait for. On Redis a
 * wait begins when its request comes to the server.) The other owners go on as
 * soon as the refused one releases what it holds. Like any refusal this one
 * leaves nothing behind: unwind, release, begin again.
 *
 * A refusal is not a guess. All requests and grants of the circle were seen
 * twice: in two scans, of which the second began at least 600 ms after the
 * first had ended, and none of them could end before the next. A wait may say
 * what is held above it (snib_acquire_options.above). Of the client of such a
 * wait something must also have been heard since the first scan, which takes up
 * to 3 s more.
 *
 * One exception: a waiter that has died, or has given up and could not tell the
 * store, is seen as waiting for up to 3 s more. An owner that closes a circle
 * with such a wait in that time may be refused, although the circle would have
 * ended by itself.
 *
 * Not refused are:
 *   - circles through permits of a semaphore, since any thread may give those
 *     back (snib_client_deadlocks shows them, certain == false);
 *   - owners that wait for two locks at once;
 *   - barriers and latches, which wait for somebody to come;
 *   - circles through a client with no_deadlock_check, or through two clients
 *     of one thread;
 *   - circles through a program that runs a second one which locks, unless it
 *     is known to do nothing but wait for that (so a circle through `snib run`
 *     inside `snib run` is found, where it can prove it: snib-run(1));
 *   - circles through two stores, through more than 8 locks that one owner
 *     holds, or behind the first 100 waiters of a lock on Redis;
 *   - circles in a store that does not show who waits for what: a quorum,
 *     RabbitMQ, and locks of others in etcd, PostgreSQL or MariaDB (a dialect).
 *
 * An ordinary limit ends every circle, too, and so does a fixed lease in it.
 * The refusal does not wait for those.
 *
 * What it costs. Hardly anything where waits are short (docs/PERFORMANCE.md).
 * An owner that holds something queues inside its process like any other. If it
 * is not the first there for half a second, it leaves that queue, once, for a
 * request of its own, which stands at the end of the store's queue and is not
 * handed over inside the process. A request that shows what an owner holds ends
 * when that owner gives up: those that wait behind it in its process ask anew.
 *
 * While a wait of an owner that holds something lasts longer than a second, its
 * client scans the locks that are waited for, however many such waits it has.
 * It does so every 2 to 2.5 s, or every 50 times the duration of a scan (the
 * shorter of the last two) if that is longer. On Redis this is a SCAN of the
 * whole database (docs/REDIS.md). Switch it off with
 * snib_client_options.no_deadlock_check. */
#ifndef SNIB_DEADLOCK_H
#define SNIB_DEADLOCK_H

#include "snib.h"
#include "snib/inspect.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A waiter, as a part of a circle. Strings are never NULL. */
struct snib_wait {
    const char *name; /* of the lock; raw bytes, NUL-terminated */
    size_t name_size;
    const struct snib_party *who; /* the waiter; left_ms, token, holds: 0 */
    /* True: the next one only stands ahead in this queue. False: the next one
     * holds the lock. */
    bool behind;
};

/* A circle: each waits for the next one, the last for the first. */
struct snib_cycle {
    size_t count;
    const struct snib_wait *const *waits; /* the youngest first             */
    /* False: it goes through permits, which any thread of their process may
     * give back. */
    bool certain;
};

/* All deadlocks of the store that closed half a second ago or earlier, and
 * perhaps younger ones, one circle of each. *ret is an array of *ret_count,
 * NULL for none; free it with snib_deadlocks_free. The store is scanned once,
 * and again 600 ms later when the first scan finds any. Where nobody can see
 * who waits for what (redlock:, amqp:, ShedLock's table) it finds none. Blocks
 * up to twice as long as snib_client_list and that. Errors: those of
 * snib_client_list. */
SNIB_API SNIB_CHECK snib_err snib_client_deadlocks(struct snib_client *,
                                                   struct snib_cycle ***ret,
                                                   size_t *ret_count,
                                                   struct snib_error *reterr);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h). For pull
 * clients, too. Between the scans nothing waits. Errors: those of
 * snib_client_inspect_start. */
SNIB_API SNIB_CHECK snib_err snib_client_deadlocks_start(
    struct snib_client *, struct snib_cycle ***ret, size_t *ret_count,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API void snib_deadlocks_free(struct snib_cycle **, size_t count);

#ifdef __cplusplus
}
#endif
#endif

/* snib/deadlock.h — who waits for whom, in a circle.
 *
 * Two that each hold what the other wants would wait for ever: their leases
 * are renewed, so no lease ends it. Whoever holds a lock and waits for another
 * shows in the store what it holds; after a second of waiting it begins to
 * look whether its wait is part of such a circle, across threads, processes
 * and hosts. The youngest wait of a circle (of those whose owners hold what others
 * of it wait for) is refused with SNIB_ERR_DEADLOCK
 * and the circle in the error's text, some 2 s after the circle closed; the
 * others go on as soon as that owner releases what it holds. Like any refusal
 * it leaves nothing behind; unwind, release, begin again.
 *
 * A refusal is never a guess: all requests and grants of a circle were seen
 * twice, in looks of which the second began at least 600 ms after the first
 * had ended, and none of them can end before the next. Of a wait that says what
 * is held above it (snib_acquire_options.above) its client must have been heard
 * of since the first look, which takes up to 3 s more. (One exception: who has
 * died, or has given up and could not tell the store, is seen waiting for up to
 * 3 s yet. Whoever closes a circle with such a wait in that time may be refused,
 * although it would have ended by itself.) What is not refused:
 *   circles through permits of a semaphore, since any thread may give those
 *   back (snib_deadlocks shows them, certain == false); owners that wait for
 *   two locks at once; barriers and latches, which wait for somebody to come;
 *   circles through a client with no_deadlock_check, through two clients of
 *   one thread, through a program that runs a second one which locks, unless
 *   it is known to do nothing but wait for that (so `snib run` inside `snib
 *   run` is found, where it can prove it: snib-run(1)), through two stores,
 *   through more than 8 locks that one owner holds, or behind the first 100
 *   waiters of a lock on Redis.
 * Nor are any found in a store without a queue of its own (a quorum).
 * An ordinary wait_ms ends every circle, too, and so does a fixed lease that
 * is in it; the refusal does not wait for those.
 *
 * What it costs: an acquire by an owner that holds something already asks the
 * store by itself, it does not queue inside the process, and its grant is not
 * passed on there: many threads that take one common lock inside others get it
 * about half as often (docs/DECISIONS.md). While such a wait
 * lasts longer than a second, its client lists the locks that are waited for,
 * every 2 to 2.5 s, or 50 times the duration of such a look (of the last two the
 * shorter one's) if that is longer, however many such waits it has.
 * On Redis that is a SCAN of the whole database (docs/REDIS.md). Switch it off
 * with snib_client_options.no_deadlock_check. */
#ifndef SNIB_DEADLOCK_H
#define SNIB_DEADLOCK_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One that waits, as a part of a circle. Strings are never NULL. */
struct snib_wait {
    const char *name; /* of the lock; raw bytes, NUL-terminated             */
    size_t name_size;
    struct snib_party who; /* left_ms, token, holds: 0                      */
    bool behind;           /* the next one only stands ahead in this queue;
                              else it holds the lock                        */
};

/* Each waits for the next one, the last for the first. */
struct snib_cycle {
    size_t count;
    const struct snib_wait *waits; /* the youngest first                    */
    bool certain; /* false: permits are in it, which any thread of their
                     process may give back                                  */
};

/* All deadlocks of the store now, one circle of each; *ret is an array of
 * *ret_count, NULL for none. Two looks, 600 ms apart, when the first finds
 * any. Blocks up to twice request_ms and that. Free with
 * snib_deadlocks_free. Errors: those of snib_list. */
SNIB_API SNIB_CHECK snib_err snib_deadlocks(struct snib_client *,
                                            struct snib_cycle ***ret,
                                            size_t *ret_count,
                                            struct snib_error *reterr);
SNIB_API void snib_deadlocks_free(struct snib_cycle **, size_t count);

#ifdef __cplusplus
}
#endif
#endif

/* run/owner.c — owners: a thread, or a number that the caller drew.
 *
 * A thread's owner is a number from one process-wide counter, kept in
 * thread-local storage and never used again. It is not the thread's id, because
 * ids are reused. A new thread with the id of one that died holding a lock
 * would be taken for its owner, and get the lock as a re-entry. Numbers are not
 * per client either, so an owner is the same in all clients of the process.
 *
 * Drawn owners carry SNIB__OWNER_FREE: any thread may release their grants.
 * 2^63 owners, at one a nanosecond, last 292 years. */
#include <stdatomic.h>

#include "run/inside.h"

static _Atomic uint64_t last;
static _Thread_local uint64_t mine;

static uint64_t owner_next(void)
{
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

uint64_t snib__owner_of_thread(void)
{
    if (!mine) {
        mine = owner_next();
    }
    return mine;
}

uint64_t snib_owner_new(void)
{
    return owner_next() | SNIB__OWNER_FREE;
}

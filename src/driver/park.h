/* driver/park.h — one word on which one thread sleeps.
 *
 * The word is on the stack of the sleeping call. The waker marks the word while
 * it holds the client's mutex, so the call cannot have returned yet. It enters
 * the kernel after unlocking, when the stack frame may be gone. The kernel then
 * only compares an address and wakes no thread of this client (at worst some
 * other thread, spuriously, which every futex user tolerates). User space never
 * reads the word after the mutex was given back. */
#ifndef SNIB__PARK_H
#define SNIB__PARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* WOKEN: check again, under the mutex. SETTLED: the call is answered and
 * returns without the mutex. */
enum { SNIB__AWAKE, SNIB__ASLEEP, SNIB__WOKEN, SNIB__SETTLED };

typedef _Atomic uint32_t snib__word;

/* By the sleeper, mutex held: from now on a waker has to enter the kernel. */
static inline void snib__park_prepare(snib__word *w)
{
    atomic_store_explicit(w, SNIB__ASLEEP, memory_order_relaxed);
}

/* By the sleeper, mutex held again. */
static inline void snib__park_finish(snib__word *w)
{
    atomic_store_explicit(w, SNIB__AWAKE, memory_order_relaxed);
}

/* By the waker, mutex held. True: call snib__park_wake(w) after unlocking. */
static inline bool snib__park_mark(snib__word *w)
{
    uint32_t asleep = SNIB__ASLEEP;
    return atomic_compare_exchange_strong_explicit(
        w, &asleep, SNIB__WOKEN, memory_order_release, memory_order_relaxed);
}

/* By the waker, mutex held. Nothing of the sleeper may be touched afterwards:
 * it returns without the mutex. True: call snib__park_wake(w) after unlocking.
 * False: another thread has marked it and will wake it, or it wakes up by
 * itself. */
static inline bool snib__park_settle(snib__word *w)
{
    return atomic_exchange_explicit(w, SNIB__SETTLED, memory_order_release) ==
           SNIB__ASLEEP;
}

/* By the sleeper, mutex not held. */
static inline bool snib__park_settled(snib__word *w)
{
    return atomic_load_explicit(w, memory_order_acquire) == SNIB__SETTLED;
}

/* By the sleeper, mutex not held: sleep until the word is marked, or ns have
 * passed, or spuriously. It counts CLOCK_MONOTONIC, so callers sleep in slices
 * and read BOOTTIME. */
void snib__park_wait(snib__word *, int64_t ns);
/* By the waker, mutex not held. */
void snib__park_wake(snib__word *);

/* -- a word in memory that processes share --------------------------------- */

/* The notifier of a blocking store may have one (core/store.h). Its sleeper
 * sleeps as long as it has this value. It stays where it is as long as the
 * client, and any process may change it. */

/* By the sleeper, mutex not held; as snib__park_wait. */
void snib__park_wait_shared(snib__word *, uint32_t value, int64_t ns);
/* By the sleeper, awake, or by who is about to wake it: it has that value no
 * more. False: it had it no more before. */
static inline bool snib__park_leave_shared(snib__word *w, uint32_t value)
{
    return atomic_compare_exchange_strong(w, &value, value + 1);
}
/* By a waker of this client, mutex not held. */
void snib__park_wake_shared(snib__word *, uint32_t value);

#endif

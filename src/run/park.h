/* run/park.h — one word on which one thread sleeps.
 *
 * The word lives on the stack of the sleeping call. Whoever wakes it marks
 * the word while holding the client's mutex (so the call cannot have returned
 * yet) and enters the kernel after unlocking, when the stack frame may be
 * gone: the kernel then only compares an address and wakes nobody of ours (a
 * spurious wake at worst, which every futex user bears). User space never
 * reads the word after the mutex was given back. */
#ifndef SNIB__PARK_H
#define SNIB__PARK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* WOKEN: look again, under the mutex. SETTLED: all is said, go home. */
enum { SNIB__AWAKE, SNIB__ASLEEP, SNIB__WOKEN, SNIB__SETTLED };

typedef _Atomic uint32_t snib__word;

/* Sleeper, mutex held: from now on a waker has to enter the kernel. */
static inline void snib__park_prepare(snib__word *w)
{
    atomic_store_explicit(w, SNIB__ASLEEP, memory_order_relaxed);
}

/* Sleeper, mutex held again. */
static inline void snib__park_finish(snib__word *w)
{
    atomic_store_explicit(w, SNIB__AWAKE, memory_order_relaxed);
}

/* Waker, mutex held. True: call snib__park_wake(w) after unlocking. */
static inline bool snib__park_mark(snib__word *w)
{
    uint32_t asleep = SNIB__ASLEEP;
    return atomic_compare_exchange_strong_explicit(
        w, &asleep, SNIB__WOKEN, memory_order_release, memory_order_relaxed);
}

/* Waker, mutex held, and nothing of the sleeper may be touched afterwards: it
 * returns without the mutex. True: call snib__park_wake(w) after unlocking
 * (false: somebody woke it already and will, or it wakes up by itself). */
static inline bool snib__park_settle(snib__word *w)
{
    return atomic_exchange_explicit(w, SNIB__SETTLED, memory_order_release) ==
           SNIB__ASLEEP;
}

/* Sleeper, mutex not held. */
static inline bool snib__park_settled(snib__word *w)
{
    return atomic_load_explicit(w, memory_order_acquire) == SNIB__SETTLED;
}

/* Sleeper, mutex not held: until marked, or ns have passed, or for no reason.
 * Counts CLOCK_MONOTONIC: callers sleep in slices and read BOOTTIME. */
void snib__park_wait(snib__word *, int64_t ns);
/* Waker, mutex not held. */
void snib__park_wake(snib__word *);

#endif

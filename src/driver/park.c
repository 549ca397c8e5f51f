/* driver/park.c — the futex calls behind park.h. TSan sees the mutex that both
 * sides take around them, and the atomic word. It needs nothing more. */
#include "driver/park.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void snib__park_wait(snib__word *w, int64_t ns)
{
    if (ns <= 0 ||
        atomic_load_explicit(w, memory_order_acquire) != SNIB__ASLEEP) {
        return;
    }
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    (void)syscall(SYS_futex, w, FUTEX_WAIT_PRIVATE, SNIB__ASLEEP, &t, NULL, 0);
}

void snib__park_wake(snib__word *w)
{
    (void)syscall(SYS_futex, w, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

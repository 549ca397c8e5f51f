/* driver/park.c — the futex calls behind park.h. TSan sees the mutex that both
 * sides take around them, and the atomic word. It needs nothing more. */
#include "driver/park.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void park_sleep(snib__word *w, int how, uint32_t value, int64_t ns)
{
    if (ns <= 0 || atomic_load_explicit(w, memory_order_acquire) != value) {
        return;
    }
    struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    (void)syscall(SYS_futex, w, how, value, &t, NULL, 0);
}

void snib__park_wait(snib__word *w, int64_t ns)
{
    park_sleep(w, FUTEX_WAIT_PRIVATE, SNIB__ASLEEP, ns);
}

void snib__park_wait_shared(snib__word *w, uint32_t value, int64_t ns)
{
    park_sleep(w, FUTEX_WAIT, value, ns);
}

void snib__park_wake_shared(snib__word *w, uint32_t value)
{
    if (snib__park_leave_shared(w, value)) {
        (void)syscall(SYS_futex, w, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

void snib__park_wake(snib__word *w)
{
    (void)syscall(SYS_futex, w, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

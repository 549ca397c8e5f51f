/* driver/clock.h — the client's clock: BOOTTIME, which counts a suspend. */
#ifndef SNIB__CLOCK_H
#define SNIB__CLOCK_H

#include <time.h>

#include "base/time.h"

static inline int64_t snib__clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline snib_instant snib__boottime(void)
{
    return (snib_instant){snib__clock_ns(CLOCK_BOOTTIME)};
}

#endif

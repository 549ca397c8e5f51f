/* base/time.h — an instant and a duration that cannot be mixed up.
 *
 * An instant is nanoseconds on CLOCK_BOOTTIME (in the simulator: on the
 * simulated process' own clock). Arithmetic saturates: NEVER plus anything
 * stays NEVER. No clock is read here. */
#ifndef SNIB__TIME_H
#define SNIB__TIME_H

#include <stdbool.h>
#include <stdint.h>

typedef struct snib_instant {
    int64_t ns;
} snib_instant;

typedef struct snib_duration {
    int64_t ns;
} snib_duration;

#define SNIB__NEVER   ((snib_instant){INT64_MAX})
#define SNIB__ENDLESS ((snib_duration){INT64_MAX})

static inline snib_duration snib__ms(int64_t ms)
{
    if (ms < 0 || ms > INT64_MAX / 1000000) {
        return SNIB__ENDLESS;
    }
    return (snib_duration){ms * 1000000};
}

/* Rounded down; ENDLESS gives INT64_MAX. */
static inline int64_t snib__to_ms(snib_duration d)
{
    return d.ns == INT64_MAX ? INT64_MAX : d.ns / 1000000;
}

static inline snib_instant snib__after(snib_instant t, snib_duration d)
{
    int64_t ns;
    if (t.ns == INT64_MAX || d.ns == INT64_MAX ||
        __builtin_add_overflow(t.ns, d.ns, &ns)) {
        return SNIB__NEVER;
    }
    return (snib_instant){ns};
}

static inline snib_instant snib__before(snib_instant t, snib_duration d)
{
    if (t.ns == INT64_MAX) {
        return t;
    }
    return (snib_instant){t.ns - d.ns};
}

/* From a to b; negative when b is earlier. */
static inline snib_duration snib__between(snib_instant a, snib_instant b)
{
    if (b.ns == INT64_MAX) {
        return SNIB__ENDLESS;
    }
    return (snib_duration){b.ns - a.ns};
}

static inline bool snib__reached(snib_instant now, snib_instant t)
{
    return now.ns >= t.ns;
}

static inline snib_instant snib__sooner(snib_instant a, snib_instant b)
{
    return a.ns < b.ns ? a : b;
}

static inline snib_instant snib__later(snib_instant a, snib_instant b)
{
    return a.ns > b.ns ? a : b;
}

#endif

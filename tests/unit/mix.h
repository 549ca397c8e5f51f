/* tests/unit/mix.h — the last steps of splitmix64: of a number another one,
 * with no bit that is like one before. What dice are thrown with. */
#ifndef SNIB_TESTS_MIX_H
#define SNIB_TESTS_MIX_H

#include <stdint.h>

static inline uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

#endif

/* tests/fuzz/dice.h — the fuzzer's bytes, one throw each; 0 when there are no
 * more. */
#ifndef SNIB_TESTS_DICE_H
#define SNIB_TESTS_DICE_H

#include "fuzz.h"

struct dice {
    const uint8_t *p, *end;
};

static inline uint32_t roll(struct dice *d)
{
    return d->p < d->end ? *d->p++ : 0;
}

static inline bool one_in(struct dice *d, uint32_t n)
{
    uint32_t v = roll(d);
    return v && v % n == 0;
}

#endif

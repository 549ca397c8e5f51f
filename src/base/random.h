/* base/random.h — a seeded generator (xoshiro256**); request ids, jitter.
 *
 * The seed comes from outside: getrandom(2) in the driver, the seed in the
 * simulator. Not for keys or passwords. */
#ifndef SNIB__RANDOM_H
#define SNIB__RANDOM_H

#include <stdint.h>

struct snib__rng {
    uint64_t s[4];
};

struct snib__seed {
    uint64_t v[4]; /* 256 bits */
};

void snib__rng_init(struct snib__rng *, const struct snib__seed *);
uint64_t snib__rng_next(struct snib__rng *);
/* Uniform enough in [0, n); n > 0. */
uint64_t snib__rng_below(struct snib__rng *, uint64_t n);

#endif

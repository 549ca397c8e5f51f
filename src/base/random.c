/* base/random.c — xoshiro256** (Blackman, Vigna 2018), public domain
 * algorithm, written from its description. */
#include "base/random.h"

static uint64_t random_rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

/* splitmix64: spreads weak seeds (the simulator's 1, 2, 3 …). */
static uint64_t random_mix(uint64_t *x)
{
    uint64_t z = (*x += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void snib__rng_init(struct snib__rng *r, const struct snib__seed *seed)
{
    uint64_t x = 0;
    for (int i = 0; i < 4; i++) {
        x ^= seed->v[i];
        r->s[i] = random_mix(&x);
    }
}

uint64_t snib__rng_next(struct snib__rng *r)
{
    uint64_t *s = r->s, result = random_rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = random_rotl(s[3], 45);
    return result;
}

uint64_t snib__rng_below(struct snib__rng *r, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)snib__rng_next(r) * n) >> 64);
}

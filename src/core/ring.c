/* core/ring.c — see ring.h. */
#include "core/ring.h"

#define FNV_BASIS UINT64_C(0xcbf29ce484222325)
#define FNV_PRIME UINT64_C(0x00000100000001b3)
#define GOLDEN    UINT64_C(0x9e3779b97f4a7c15)

uint64_t snib__ring_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t snib__ring_hash(const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    uint64_t h = FNV_BASIS;
    while (size--) {
        h = (h ^ *p++) * FNV_PRIME;
    }
    return snib__ring_mix(h);
}

uint64_t snib__ring_score(uint64_t member_hash, uint32_t weight,
                          uint64_t key_hash)
{
    uint64_t best = 0;
    for (uint32_t i = 0; i < weight; i++) {
        uint64_t draw = snib__ring_mix((member_hash + i * GOLDEN) ^ key_hash);
        best = draw > best ? draw : best;
    }
    return best;
}

/* demo/requests.c — the same crowd for every variant, from a seed. */
#include "demo.h"

enum { USERS = 3000, RECENT = 12 };

/* splitmix64 */
static uint64_t dice(uint64_t *seed)
{
    uint64_t z = *seed += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Half of all users want product 0, a quarter product 1, and so on. */
static uint32_t wish_of(uint32_t user)
{
    uint64_t seed = user;
    uint64_t d = dice(&seed) % 16;
    return d < 8 ? 0 : d < 12 ? 1 : d < 14 ? 2 : d < 15 ? 3 : 4;
}

void make_requests(uint64_t seed, struct request *requests, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t user = (uint32_t)(dice(&seed) % USERS);
        if (i >= RECENT && dice(&seed) % 100 < 35) {
            user = requests[i - 1 - dice(&seed) % RECENT].user;
        }
        requests[i] = (struct request){
            .user = user,
            .product = wish_of(user),
            .work_us = 500 + (uint32_t)(dice(&seed) % 1500),
        };
    }
}

/* wide_kinds.c — semaphores, latches, barriers. */
#include <inttypes.h>

#include "snib/latch.h"
#include "snib/semaphore.h"
#include "wide.h"

static uint32_t count(void)
{
    static const uint32_t counts[] = {0, 1, 1,          2,          2,
                                      3, 5, 1000000000, 1000000001, UINT32_MAX};
    return ONE_OF("count", counts);
}

static void semaphore(struct snib_client *c, const char *name, size_t size)
{
    static const int64_t changes[] = {
        1,          -1,          2,           -2,        0,        1000000000,
        1000000001, -1000000000, -1000000001, INT64_MAX, INT64_MIN};
    struct snib_semaphore is = {7, 7, 7, 7};
    struct snib_error e, *to = reserve(&e);
    bool set = chance("set before", 2), untold = chance("untold", 5);
    uint32_t n = count();
    switch (pick("semaphore", 4)) {
    case 0:
        (void)told("semaphore_set",
                   snib_semaphore_set(c, name, size, n, chance("only new", 2),
                                      untold ? NULL : &set, to),
                   to);
        tell("%u set %d", n, set);
        break;
    case 1:
        (void)told("semaphore_add",
                   snib_semaphore_add(c, name, size, ONE_OF("by", changes), to),
                   to);
        break;
    default:
        (void)told("semaphore_get",
                   snib_semaphore_get(c, name, size,
                                      chance("nowhere", 20) ? NULL : &is,
                                      sizeof is, to),
                   to);
        tell("size %" PRId64 " used %" PRId64 " available %" PRId64
             " waiting %" PRId64,
             is.size, is.used, is.available, is.waiting);
        break;
    }
}

static snib_err await(struct snib_client *c, const char *name, size_t size,
                      struct snib_error *reterr)
{
    int64_t wait_ms = wide_wait();
    return wide_is_short(wait_ms, INT64_MAX)
               ? snib_latch_await(c, name, size, reterr)
           : wide_is_short(wait_ms, 0)
               ? snib_latch_try(c, name, size, reterr)
               : snib_latch_try_for(c, name, size, wait_ms, reterr);
}

static void latch(struct snib_client *c, const char *name, size_t size)
{
    struct snib_error e, *to = reserve(&e);
    bool set = chance("set before", 2), untold = chance("untold", 5);
    uint32_t left = 77, n = count();
    switch (pick("latch", 6)) {
    case 0:
        (void)told("latch_set",
                   snib_latch_set(c, name, size, n, untold ? NULL : &set, to),
                   to);
        tell("%u set %d", n, set);
        break;
    case 1:
    case 2:
        (void)told(
            "count_down",
            snib_latch_count_down(c, name, size, n, untold ? NULL : &left, to),
            to);
        tell("%u left %u", n, left);
        break;
    case 3:
        (void)told("latch_left",
                   snib_latch_left(c, name, size,
                                   chance("nowhere", 20) ? NULL : &left, to),
                   to);
        tell("left %u", left);
        break;
    case 4:
        (void)told("latch_open", snib_latch_open(c, name, size, to), to);
        break;
    default:
        (void)told("await", await(c, name ? name : "l", size, to), to);
        break;
    }
}

static void barrier(struct snib_client *c, const char *name, size_t size)
{
    struct snib_error e, *to = reserve(&e);
    int64_t generation = 77;
    uint32_t parties =
        chance("odd parties", 8) ? count() : 1 + (uint32_t)pick("of", 3);
    int64_t wait_ms = wide_wait();
    int64_t *ret = chance("untold", 5) ? NULL : &generation;
    snib_err err =
        wide_is_short(wait_ms, INT64_MAX)
            ? snib_barrier_wait(c, name, size, parties, ret, to)
        : wide_is_short(wait_ms, 0)
            ? snib_barrier_try(c, name, size, parties, ret, to)
            : snib_barrier_try_for(c, name, size, parties, wait_ms, ret, to);
    (void)told("barrier", err, to);
    tell("%u parties, generation %" PRId64, parties, generation);
}

void wide_kinds(struct wide_actor *a)
{
    if (chance("a throng", 100)) {
        wide_throng(a);
        return;
    }
    int client = (int)pick("client", (uint64_t)wide.clients);
    struct snib_client *c = chance("nobody", 40) ? NULL : wide.client[client];
    static void (*const calls[])(struct snib_client *, const char *,
                                 size_t) = {semaphore, latch, barrier};
    size_t size = 0;
    uint64_t kind = pick("kind", 3);
    const char *name =
        chance("odd", 10) ? wide_name(&size) : wide_plain("slm"[kind]);
    if (kind < 2 && chance("no name", 40)) {
        name = NULL;
    }
    calls[kind](c, name, size);
}

/* tests/unit/redis_dice.h — the number of a run of unit.redis_same, and its
 * dice.
 *
 * All that is drawn comes from the run's seed, in the order of drawing. All that
 * the store does is stirred into the number (same_list.h). */
#ifndef SNIB_TESTS_REDIS_DICE_H
#define SNIB_TESTS_REDIS_DICE_H

#include "same_list.h"

/* What a run is mostly about. */
enum topic {
    LOCKS,
    WAITING,
    RENEWALS,
    COMPANIES,
    INSPECTS,
    LISTS,
    DOCTORS,
    VALUES,
    GREETINGS,
    ERRORS,
    MANY,
    MEMORY,
    ANYTHING,
    TOPICS
};

static struct {
    uint64_t run, number, state;
    bool shows;
    enum topic topic;
    /* One in so many; 0: never. Answers that are errors; parts of one that are
     * something else; numbers at a bound; times that the server is silent; of
     * connections that are refused; answers of scripts that come from somebody
     * in between. */
    uint32_t errors, astray, odd, silent, refuses, between;
} same;

static uint64_t any_64(void) /* splitmix64 */
{
    return mix(same.state += 0x9e3779b97f4a7c15);
}

static uint64_t below(uint64_t n)
{
    return any_64() % n;
}

static bool one_in(uint64_t n)
{
    return n && below(n) == 0;
}

#define ANY_OF(list) ((list)[below(COUNT_OF(list))])

/* -- the number ------------------------------------------------------------------- */

static void stir(int64_t value)
{
    same.number = (same.number ^ (uint64_t)value) * 1099511628211u;
    same.number ^= same.number >> 29;
}

static void stir_bytes(const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    stir((int64_t)size);
    for (size_t i = 0; i < size; i++) {
        same.number = (same.number ^ p[i]) * 1099511628211u;
    }
    same.number ^= same.number >> 29;
}

static void stir_text(const char *text)
{
    stir_bytes(text, strlen(text));
}

/* For who reads along; no part of the number. */
__attribute__((format(printf, 1, 2))) static void show(const char *format, ...)
{
    if (same.shows) {
        va_list args;
        va_start(args, format);
        vprintf(format, args);
        va_end(args);
        printf("\n");
    }
}

/* -- numbers to say ------------------------------------------------------------------ */

#define TOP53 (INT64_C(1) << 53)

/* As it should be; now and then beside that, or at a bound. */
static int64_t number(int64_t right)
{
    static const int64_t bounds[] = {0,
                                     1,
                                     -1,
                                     2,
                                     INT64_MAX,
                                     INT64_MIN + 1,
                                     TOP53,
                                     TOP53 - 1,
                                     UINT32_MAX,
                                     INT64_C(1) << 32,
                                     INT32_MAX,
                                     1024,
                                     1025,
                                     86400000,
                                     172800000,
                                     172800001,
                                     1000000000,
                                     1000000001,
                                     INT64_C(9223372036854)};
    if (!one_in(same.odd)) {
        return right;
    }
    return one_in(2) ? right + (int64_t)below(3) - 1 : ANY_OF(bounds);
}

#endif

/* tests/unit/core_same.h — numbers of what a part of src/core does in a world
 * of dice, in this process.
 *
 * All that is seen of it is stirred into the number of its run; the numbers
 * stand in a list: same_list.h. */
#ifndef SNIB_TESTS_CORE_SAME_H
#define SNIB_TESTS_CORE_SAME_H

#include "same_list.h"

#include "snib.h"

#define MS INT64_C(1000000)

enum { DICE = 600 };

static struct {
    uint64_t run, number;
    uint64_t thrown[DICE]; /* so often, at each place                       */
    bool shows;
} same;

/* -- dice ------------------------------------------------------------------- */

/* Each place in the text has dice of its own: in which order a compiler comes to
 * several of one expression is its own affair. */
static uint64_t bits_at(uint32_t place)
{
    assert_true(place < DICE);
    return mix(same.run * 0x9e3779b97f4a7c15 + place * 0xd1342543de82ef95 +
               ++same.thrown[place] * 0x2545f4914f6cdd1d);
}

static uint32_t below_at(uint32_t place, uint32_t n)
{
    return (uint32_t)((bits_at(place) >> 32) * n >> 32);
}

/* One of n, as often as its weight says. */
static uint32_t weighted_at(uint32_t place, const uint8_t *weights, uint32_t n)
{
    uint32_t all = 0, i = 0;
    for (uint32_t k = 0; k < n; k++) {
        all += weights[k];
    }
    uint32_t at = below_at(place, all);
    while (at >= weights[i]) {
        at -= weights[i++];
    }
    return i;
}

#define some_bits()          bits_at(__COUNTER__)
#define below(n)             below_at(__COUNTER__, n) /* 0 … n - 1          */
#define one_in(n)            (below_at(__COUNTER__, n) == 0)
#define ONE_OF(table)        ((table)[below(COUNT_OF(table))])
#define weighted(weights, n) weighted_at(__COUNTER__, weights, n)

/* -- what is told ----------------------------------------------------------- */

static void stir(uint64_t v)
{
    same.number = (same.number ^ v) * 0xff51afd7ed558ccd;
    same.number ^= same.number >> 32;
}

static void stir_bytes(const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    uint64_t h = 14695981039346656037u ^ size;
    for (size_t i = 0; i < size; i++) {
        h = (h ^ p[i]) * 1099511628211u;
    }
    stir(h);
}

static void tell_numbers(const char *what, const int64_t *v, size_t n)
{
    stir_bytes(what, strlen(what));
    for (size_t i = 0; i < n; i++) {
        stir((uint64_t)v[i]);
    }
    if (same.shows) {
        printf("%s", what);
        for (size_t i = 0; i < n; i++) {
            printf(" %" PRId64, v[i]);
        }
        printf("\n");
    }
}

#define TELL(what, ...)                                                        \
    tell_numbers(what, (const int64_t[]){__VA_ARGS__},                         \
                 COUNT_OF(((const int64_t[]){__VA_ARGS__})))

static void tell_bytes(const char *what, const void *bytes, size_t size)
{
    stir_bytes(what, strlen(what));
    stir_bytes(bytes, size);
    if (same.shows) {
        const uint8_t *p = bytes;
        printf("%s \"", what);
        for (size_t i = 0; i < size; i++) {
            printf(p[i] >= 0x20 && p[i] < 0x7f ? "%c" : "\\x%02x", p[i]);
        }
        printf("\"\n");
    }
}

static void tell_text(const char *what, const char *text)
{
    tell_bytes(what, text ? text : "(none)", strlen(text ? text : "(none)"));
}

static void tell_error(const struct snib_error *e)
{
    if (e->code || e->text[0]) {
        TELL("error", e->code);
        tell_text("text", e->text);
    }
}

/* -- runs --------------------------------------------------------------------- */

/* The program's: all that happens in one. */
static void live(void);

static void same_run(uint64_t run, char *ret, size_t size)
{
    same.run = run;
    memset(same.thrown, 0, sizeof same.thrown);
    same.number = 14695981039346656037u;
    same.shows = same_is_shown(run);
    live();
    snprintf(ret, size, SAME_NUMBER, same.number);
}

#endif

/* tests/unit/core_same.h — numbers of what a part of src/core does in a world
 * of dice, in this process.
 *
 * All that is seen of it is stirred into the number of its run; the numbers
 * stand in a file, and a change of one is a change of what it does, meant (then
 * PROGRAM --record) or not. SNIB_TELL=N shows what run N has stirred in. */
#ifndef SNIB_TESTS_CORE_SAME_H
#define SNIB_TESTS_CORE_SAME_H

#include "unit.h"

#include <inttypes.h>
#include <stdlib.h>

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
    uint64_t z = same.run * 0x9e3779b97f4a7c15 + place * 0xd1342543de82ef95 +
                 ++same.thrown[place] * 0x2545f4914f6cdd1d;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
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

/* -- runs and their list ------------------------------------------------------ */

static uint64_t number_of(uint64_t run, void (*live)(void))
{
    const char *shown = getenv("SNIB_TELL");
    same.run = run;
    memset(same.thrown, 0, sizeof same.thrown);
    same.number = 14695981039346656037u;
    same.shows = shown && strtoull(shown, NULL, 10) == run;
    live();
    return same.number;
}

static void check_runs(const char *list, uint64_t runs, void (*live)(void))
{
    FILE *f = fopen(list, "r");
    char line[100], is[100];
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f)); /* what it is */
    for (uint64_t run = 1; run <= runs; run++) {
        snprintf(is, sizeof is, "%d %016" PRIx64 "\n", (int)run,
                 number_of(run, live));
        if (!fgets(line, sizeof line, f) || strcmp(line, is) != 0) {
            fail_msg("is %.30s, written down as %.30sWhat is done has changed "
                     "(SNIB_TELL=%d shows it). Meant? Then --record",
                     is, line, (int)run);
        }
    }
    fclose(f);
}

static int record_runs(const char *list, const char *title, uint64_t runs,
                       void (*live)(void))
{
    FILE *f = fopen(list, "w");
    if (!f) {
        perror(list);
        return 1;
    }
    fprintf(f, "# Run, what %s\n", title);
    for (uint64_t run = 1; run <= runs; run++) {
        fprintf(f, "%d %016" PRIx64 "\n", (int)run, number_of(run, live));
    }
    return fclose(f);
}

#endif

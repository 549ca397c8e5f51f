/* tests/unit/same_dice.h — dice, and the number that all that is seen makes.
 *
 * What a run shows is said here, one value after the other: they make a number,
 * and those of all runs stand in a list. SNIB_TELL=N shows the values of run N.
 * A header for stores that are called as they are; a process with calls of libc
 * that are answered has same.h. */
#ifndef SNIB_TESTS_UNIT_SAME_DICE_H
#define SNIB_TESTS_UNIT_SAME_DICE_H

#include "unit.h"

#include <stdlib.h>

#include "base/error.h"
#include "core/store.h"

#define MS INT64_C(1000000)

/* What stands in for a function has no header to declare it. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

static struct {
    uint64_t dice, number;
    bool shows;
} same;

/* -- dice ---------------------------------------------------------------------- */

static uint64_t mixed(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static uint64_t below(uint64_t n)
{
    return mixed(same.dice += 0x9e3779b97f4a7c15) % n;
}

static bool one_in(uint64_t n)
{
    return below(n) == 0;
}

static int64_t one_of(const int64_t *v, size_t n)
{
    return v[below(n)];
}

#define ANY_OF(...)                                                            \
    one_of((const int64_t[]){__VA_ARGS__},                                     \
           sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* -- the number ------------------------------------------------------------------ */

static void say(const char *what, int64_t value)
{
    same.number = (same.number ^ (uint64_t)value) * 0x9e3779b97f4a7c15;
    same.number ^= same.number >> 29;
    if (same.shows) {
        printf(" %s %lld", what, (long long)value);
    }
}

static void say_bytes(const char *what, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) {
        h = (h ^ p[i]) * 1099511628211u;
    }
    if (same.shows) {
        printf(" %s \"%.*s\"", what, (int)size, size ? (const char *)p : "");
    }
    say("of", (int64_t)size);
    say("is", (int64_t)(mixed(h) >> 1));
}

static void say_text(const char *what, const char *text)
{
    say_bytes(what, text ? text : "(none)", strlen(text ? text : "(none)"));
}

static void say_line(const char *what, int64_t value)
{
    if (same.shows) {
        printf("\n");
        fflush(stdout);
    }
    say(what, value);
}

/* -- what is said ------------------------------------------------------------------ */

/* As it is asked, of the core or of a member. */
static void say_request(const struct snib__request *r)
{
    say("verb", r->verb);
    say_text("name", r->name ? r->name->raw : NULL);
    say("id", (int64_t)r->id[0]);
    say(".", (int64_t)r->id[1]);
    say("kind", r->kind);
    say("permits", r->permits);
    say("capacity", r->capacity);
    say("company", r->company);
    say("rank", r->rank);
    say("flags", r->all | r->spin << 1 | r->placed << 2 | r->once << 3 |
                     r->may_queue << 4 | r->resent << 5 | r->revoked << 6 |
                     r->keepers << 7 | r->awaited_only << 8 |
                     r->only_asks << 9 | r->listen << 10 | r->far << 11 |
                     r->blocked << 12);
    say("token", r->token);
    say("floor", r->floor);
    say("room", r->room);
    say("lease", r->lease.ns);
    say("delay", r->delay.ns);
    say("limit", r->limit.ns);
    say("patience", r->patience.ns);
    say_bytes("text", r->text, r->text ? r->text_size : 0);
    say("rows", r->result != NULL);
    say("error", r->reterr ? (int64_t)r->reterr->code : -1);
    say("linked", snib__linked(&r->link));
}

static void say_answer(const struct snib__request *r)
{
    say("verb", r->verb);
    say("answer", r->answer);
    say("err", r->err);
    say("id", (int64_t)r->id[0]);
    say(".", (int64_t)r->id[1]);
    say("token", r->token);
    say("from", r->valid_from.ns);
    say("left", r->left.ns);
    say("room", r->room);
    say("lease", r->lease.ns);
    say("place", r->position);
    say("permits", r->permits);
    say("slot", r->slot);
    say("flags", r->far | r->revoked << 1 | r->resent << 2 | r->blocked << 3);
    say("granted", r->granted);
    if (r->reterr) {
        say("code", r->reterr->code);
        say_text("text", r->reterr->text);
    }
    if (r->result) {
        say("failed", r->result->failed);
        say_bytes("rows", snib__buf_bytes(r->result),
                  snib__buf_size(r->result));
    }
}

/* -- runs and their list ---------------------------------------------------------- */

static uint64_t same_run(uint64_t which, void (*live)(uint64_t which))
{
    const char *shown = getenv("SNIB_TELL");
    same.number = 14695981039346656037u;
    same.dice = which * 1000003;
    same.shows = shown && strtoull(shown, NULL, 10) == which;
    live(which);
    same.shows = false;
    return same.number;
}

/* 0 … last. */
static void same_check(const char *list, uint64_t last,
                       void (*live)(uint64_t which))
{
    FILE *f = fopen(list, "r");
    char line[100], is[100];
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f)); /* what it is */
    for (uint64_t i = 0; i <= last; i++) {
        snprintf(is, sizeof is, "%d %016llx\n", (int)i,
                 (unsigned long long)same_run(i, live));
        if (!fgets(line, sizeof line, f) || strcmp(line, is) != 0) {
            fail_msg("is %.30s, written down as %.30sWhat the store does has "
                     "changed (SNIB_TELL=%d shows it). Meant? Then --record",
                     is, line, (int)i);
        }
    }
    fclose(f);
}

static int same_record(const char *list, const char *title, uint64_t last,
                       void (*live)(uint64_t which))
{
    FILE *f = fopen(list, "w");
    if (!f) {
        perror(list);
        return 1;
    }
    fprintf(f, "# Run, what %s\n", title);
    for (uint64_t i = 0; i <= last; i++) {
        fprintf(f, "%d %016llx\n", (int)i,
                (unsigned long long)same_run(i, live));
    }
    return fclose(f);
}

#endif

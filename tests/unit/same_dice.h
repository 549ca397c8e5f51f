/* tests/unit/same_dice.h — dice, and the number that all that is seen makes.
 *
 * What a run shows is said here, one value after the other: they make a number,
 * and those of all runs stand in a list: same_list.h.
 * A header for stores that are called as they are; a process with calls of libc
 * that are answered has same.h. */
#ifndef SNIB_TESTS_UNIT_SAME_DICE_H
#define SNIB_TESTS_UNIT_SAME_DICE_H

#include "same_list.h"

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

static uint64_t below(uint64_t n)
{
    return mix(same.dice += 0x9e3779b97f4a7c15) % n;
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
    say("is", (int64_t)(mix(h) >> 1));
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
    say("company", r->batch);
    say("rank", r->rank);
    say("flags", r->all | r->spin << 1 | r->placed << 2 | r->once << 3 |
                     r->may_queue << 4 | r->resent << 5 | r->revoked << 6 |
                     r->background << 7 | r->awaited_only << 8 |
                     r->only_asks << 9 | r->listen << 10 | r->far << 11 |
                     r->blocked << 12);
    say("token", r->token);
    say("floor", r->floor);
    say("room", r->reserve);
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
    say("room", r->reserve);
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

/* -- runs ------------------------------------------------------------------------- */

/* The program's: all that happens in one. */
static void live(uint64_t run);

static void same_run(uint64_t run, char *ret, size_t size)
{
    same.number = 14695981039346656037u;
    same.dice = run * 1000003;
    same.shows = same_is_shown(run);
    live(run);
    same.shows = false;
    snprintf(ret, size, SAME_NUMBER, same.number);
}

#endif

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
    say("kind", r->acquire.kind);
    say("permits", r->acquire.permits);
    say("capacity", r->acquire.capacity);
    say("company", r->batch.number);
    say("rank", r->acquire.priority);
    say("flags", r->batch.all | r->acquire.spin << 1 | r->acquire.placed << 2 |
                     r->once << 3 | r->acquire.may_queue << 4 | r->resent << 5 |
                     r->said.revoked << 6 | r->background << 7 |
                     r->list.awaited_only << 8 | r->renew.only_asks << 9 |
                     r->renew.listen << 10 | r->said.far << 11 |
                     r->exec.blocked << 12);
    say("token", r->token);
    say("floor", r->floor);
    say("room", r->acquire.reserve);
    say("lease", r->lease.ns);
    say("delay", r->acquire.delay.ns);
    say("limit", r->limit.ns);
    say("patience", r->exec.patience.ns);
    say_bytes("text", r->text, r->text ? r->text_size : 0);
    say("rows", r->said.result != NULL);
    say("error", r->said.reterr ? (int64_t)r->said.reterr->code : -1);
    say("linked", snib__linked(&r->link));
}

static void say_answer(const struct snib__request *r)
{
    say("verb", r->verb);
    say("answer", r->said.answer);
    say("err", r->said.err);
    say("id", (int64_t)r->id[0]);
    say(".", (int64_t)r->id[1]);
    say("token", r->token);
    say("from", r->said.valid_from.ns);
    say("left", r->said.left.ns);
    say("room", r->acquire.reserve);
    say("lease", r->lease.ns);
    say("place", r->said.position);
    say("permits", r->acquire.permits);
    say("slot", r->said.slot);
    say("flags", r->said.far | r->said.revoked << 1 | r->resent << 2 |
                     r->exec.blocked << 3);
    say("granted", r->said.granted);
    if (r->said.reterr) {
        say("code", r->said.reterr->code);
        say_text("text", r->said.reterr->text);
    }
    if (r->said.result) {
        say("failed", r->said.result->failed);
        say_bytes("rows", snib__buf_bytes(r->said.result),
                  snib__buf_size(r->said.result));
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

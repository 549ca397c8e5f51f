/* api/optimistic.c — a version column of the program's own: attempt again until
 * nobody was faster.
 *
 * The problem: everybody writes the loop around UPDATE … WHERE version = ?, and
 * few write its ends. Without pauses at random those who lost meet again at
 * once. Without a limit a row that everybody wants keeps a request for ever. And
 * a commit that is not answered is taken for one that failed, and is made twice,
 * or for one that was done, and is not made at all.
 *
 *              0, of others or of the database
 *        +------------------ PAUSE <--+-------------------+
 *        v                            |                   | 0: it does not
 *   ATTEMPT --UNKNOWN--> ASK ---------+--BUSY--> PAUSE    |    stand
 *      | |                ^ |                      |      |
 *    1 | | an error     1 | +----------------------+------+
 *      v v                v |
 *     over               over: UNKNOWN, if it cannot tell, or the limit comes
 *
 * Forbidden: another attempt while one is not known to have failed. Only the
 * step's own 0 says that, so all else that an ASK ends in is UNKNOWN: a limit, a
 * cancel, an error.
 *
 * There is no client, no state between two calls and no thread: the clock, the
 * pauses and the dice come from the host (optimistic_i.h). Cost of an attempt
 * besides the step: two looks at the clock. */
#include "api/optimistic_i.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/api.h"
#include "base/error.h"
#include "driver/clock.h"

/* So often a pause asks whether it was cancelled. */
enum { SLICE_MS = 10 };

struct optimistic {
    const struct snib__optimistic_host *host;
    struct snib_version_options o;
    snib__version_step *step;
    void *data;
    snib_instant limit;
    struct snib__rng rng;
    uint32_t in_vain; /* attempts and asks; so the pauses grow               */
    struct snib_version_attempt attempt;
};

/* Whether to go on after an attempt or an ask in vain. */
enum optimistic_next { GO_ON, USED_UP, LATE, CANCELLED };

/* -- the step's answer -------------------------------------------------------- */

static void optimistic_make_one_line(char *text, size_t size)
{
    text[size - 1] = 0;
    for (char *p = text; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            *p = ' ';
        }
    }
    for (size_t n = strlen(text); n && text[n - 1] == ' ';) {
        text[--n] = 0;
    }
}

static int64_t optimistic_left_ms(const struct optimistic *u)
{
    int64_t ms =
        snib__to_ms(snib__between(u->host->now(u->host->data), u->limit));
    return ms > 0 ? ms : 0;
}

static int optimistic_call(struct optimistic *u)
{
    struct snib_version_attempt *a = &u->attempt;
    a->left_ms = optimistic_left_ms(u);
    a->why = SNIB_ERR_OK;
    a->stopped = 0;
    a->text[0] = 0;
    int answer = u->step(u->data, a);
    optimistic_make_one_line(a->text, sizeof a->text);
    return answer;
}

static int optimistic_attempt(struct optimistic *u)
{
    struct snib_version_attempt *a = &u->attempt;
    a->number++;
    a->asks = false;
    uint64_t high = snib__rng_next(&u->rng), low = snib__rng_next(&u->rng);
    snprintf(a->id, sizeof a->id, "%016" PRIx64 "%016" PRIx64, high, low);
    return optimistic_call(u);
}

static bool optimistic_is_answer(int answer)
{
    return answer == 0 || answer == 1 ||
           (answer < 0 && answer > -1000 &&
            snib_err_name((snib_err)-answer)[0] != '?');
}

/* -- how it ends -------------------------------------------------------------- */

/* What the step says of itself, or the error's own text. */
static const char *optimistic_text(const struct optimistic *u, snib_err err)
{
    return u->attempt.text[0] ? u->attempt.text : snib_err_text(err);
}

static snib_err optimistic_fail(const struct optimistic *u, snib_err err,
                                struct snib_error *reterr)
{
    return snib__fail(reterr, err, "%s", optimistic_text(u, err));
}

static snib_err optimistic_unknown(const struct optimistic *u, const char *why,
                                   struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_UNKNOWN,
                      "the commit of attempt %" PRIu32
                      " was not answered%s%s%s",
                      u->attempt.number, why, u->attempt.text[0] ? ": " : "",
                      u->attempt.text);
}

static snib_err optimistic_no_answer(int answer, struct snib_error *reterr)
{
    return snib__fail(
        reterr, SNIB_ERR_USAGE,
        "the step of snib_version_update answered %d; expected 1, "
        "0, or minus an error",
        answer);
}

/* All attempts that there are were in vain. */
static snib_err optimistic_late(const struct optimistic *u, snib_err err,
                                struct snib_error *reterr)
{
    const struct snib_version_attempt *a = &u->attempt;
    if (a->why) {
        return optimistic_fail(u, a->why, reterr);
    }
    return snib__fail(reterr, err,
                      "%" PRIu32 " attempt%s in vain; the last: %s", a->number,
                      a->number == 1 ? "" : "s",
                      a->text[0] ? a->text : "others had changed the row");
}

/* -- pauses --------------------------------------------------------------------- */

static bool optimistic_is_cancelled(const struct optimistic *u)
{
    return u->o.cancelled && u->o.cancelled(u->o.data);
}

/* At random between 0 and min(backoff * 2^n, max), and not beyond the limit. */
static snib_duration optimistic_draw(struct optimistic *u, snib_duration left)
{
    int64_t top = u->o.backoff_ms;
    for (uint32_t i = 0; i < u->in_vain && top < u->o.backoff_max_ms; i++) {
        top *= 2;
    }
    top = top < u->o.backoff_max_ms ? top : u->o.backoff_max_ms;
    int64_t ns = (int64_t)snib__rng_below(&u->rng, (uint64_t)top * 1000000 + 1);
    return (snib_duration){ns < left.ns ? ns : left.ns};
}

static enum optimistic_next optimistic_pause(struct optimistic *u)
{
    const struct snib__optimistic_host *h = u->host;
    const int64_t slice = snib__ms(SLICE_MS).ns;
    snib_duration left = snib__between(h->now(h->data), u->limit);
    u->in_vain++;
    if (optimistic_is_cancelled(u)) {
        return CANCELLED;
    }
    if (!u->attempt.ask && u->attempt.number == u->o.attempts) {
        return USED_UP;
    }
    if (left.ns <= 0) {
        return u->o.wait_ms > 0 ? LATE : USED_UP;
    }
    for (int64_t ns = optimistic_draw(u, left).ns; ns > 0; ns -= slice) {
        h->pause(h->data, (snib_duration){ns < slice ? ns : slice});
        if (optimistic_is_cancelled(u)) {
            return CANCELLED;
        }
    }
    return GO_ON;
}

/* -- the loop --------------------------------------------------------------------- */

/* The step has said that the attempt does not stand. Nobody else need have been
 * there: people are told that, and why its commit was not answered. */
static void optimistic_note_no(struct snib_version_attempt *a, const char *why)
{
    if (!a->text[0] && !a->why) {
        snprintf(a->text, sizeof a->text,
                 "its commit was not answered, and it does not stand%s%s",
                 why[0] ? ": " : "", why);
    }
}

/* The commit was not answered. True: the step has said whether it stands, in
 * *ret_answer. */
static bool optimistic_ask(struct optimistic *u, int *ret_answer,
                           struct snib_error *reterr)
{
    struct snib_version_attempt *a = &u->attempt;
    char why[sizeof a->text];
    if (!a->asks) {
        optimistic_unknown(u, "", reterr);
        return false;
    }
    a->ask = true;
    memcpy(why, a->text, sizeof why);
    for (;;) {
        *ret_answer = optimistic_call(u);
        if (*ret_answer == 0) {
            optimistic_note_no(a, why);
        }
        if (*ret_answer == 0 || *ret_answer == 1) {
            return true;
        }
        if (*ret_answer != -SNIB_ERR_BUSY) {
            optimistic_unknown(u, ", nor whether it stands", reterr);
            return false;
        }
        switch (optimistic_pause(u)) {
        case GO_ON:
            break;
        case CANCELLED:
            optimistic_unknown(u, ", nor until the cancel whether it stands",
                               reterr);
            return false;
        case USED_UP:
        case LATE:
            optimistic_unknown(u, ", nor in time whether it stands", reterr);
            return false;
        }
    }
}

static snib_err optimistic_run(struct optimistic *u, struct snib_error *reterr)
{
    if (optimistic_is_cancelled(u)) {
        return snib__fail_plain(reterr, SNIB_ERR_CANCELLED);
    }
    for (;;) {
        int answer = optimistic_attempt(u);
        if (!optimistic_is_answer(answer)) {
            return optimistic_no_answer(answer, reterr);
        }
        if (answer == -SNIB_ERR_UNKNOWN &&
            !optimistic_ask(u, &answer, reterr)) {
            return SNIB_ERR_UNKNOWN;
        }
        u->attempt.ask = false;
        if (answer < 0) {
            return optimistic_fail(u, (snib_err)-answer, reterr);
        }
        if (answer == 1) {
            u->attempt.stopped = 0;
            return snib__ok(reterr);
        }
        if (u->attempt.stopped) {
            return snib__ok(reterr);
        }
        switch (optimistic_pause(u)) {
        case GO_ON:
            break;
        case USED_UP:
            return optimistic_late(u, SNIB_ERR_BUSY, reterr);
        case LATE:
            return optimistic_late(u, SNIB_ERR_TIMEOUT, reterr);
        case CANCELLED:
            return snib__fail_plain(reterr, SNIB_ERR_CANCELLED);
        }
    }
}

/* -- the call ------------------------------------------------------------------------ */

static snib_err
optimistic_read_options(const struct snib_version_options *given,
                        struct snib_version_options *ret,
                        struct snib_error *reterr)
{
    snib_err err =
        snib__options_read(given, sizeof *ret, "version options", ret, reterr);
    return err ? err
               : snib__backoff_read(&ret->backoff_ms, &ret->backoff_max_ms,
                                    reterr);
}

static snib_err optimistic_begin(struct optimistic *u,
                                 const struct snib_version_options *options,
                                 struct snib_error *reterr)
{
    const struct snib__optimistic_host *h = u->host;
    struct snib__seed seed;
    if (!u->step) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_version_update: step must not be NULL");
    }
    snib_err err = optimistic_read_options(options, &u->o, reterr);
    if (!err) {
        err = h->seed(h->data, &seed, reterr);
    }
    if (!err) {
        snib__rng_init(&u->rng, &seed);
        u->limit = snib__after(h->now(h->data),
                               snib__ms(u->o.wait_ms > 0 ? u->o.wait_ms : 0));
    }
    return err;
}

snib_err snib__version_update(const struct snib__optimistic_host *host,
                              const struct snib_version_options *options,
                              snib__version_step *step, void *data,
                              int *ret_stopped, uint32_t *ret_attempts,
                              struct snib_error *reterr)
{
    struct optimistic u = {.host = host, .step = step, .data = data};
    snib_err err = optimistic_begin(&u, options, reterr);
    if (!err) {
        err = optimistic_run(&u, reterr);
    }
    if (ret_stopped) {
        *ret_stopped = u.attempt.stopped;
    }
    if (ret_attempts) {
        *ret_attempts = u.attempt.number;
    }
    return err;
}

static snib_instant optimistic_now(void *data)
{
    (void)data;
    return snib__boottime();
}

/* So that those who lost do not meet again at once: there is nothing to wait
 * for. A signal makes it shorter, which does no harm. */
static void optimistic_sleep(void *data, snib_duration d)
{
    struct timespec t = {.tv_sec = d.ns / 1000000000,
                         .tv_nsec = d.ns % 1000000000};
    (void)data;
    nanosleep(&t, NULL);
}

static snib_err optimistic_seed(void *data, struct snib__seed *ret,
                                struct snib_error *reterr)
{
    (void)data;
    return snib__self_seed(ret, reterr);
}

snib_err snib_version_update(const struct snib_version_options *options,
                             int (*step)(void *data,
                                         struct snib_version_attempt *attempt),
                             void *data, int *ret_stopped,
                             uint32_t *ret_attempts, struct snib_error *reterr)
{
    static const struct snib__optimistic_host host = {.now = optimistic_now,
                                                      .pause = optimistic_sleep,
                                                      .seed = optimistic_seed};
    return snib__version_update(&host, options, step, data, ret_stopped,
                                ret_attempts, reterr);
}

/* gates.c — latch l of two steps, barrier m of two.
 *
 * The space says how far the latch has to go, before and after a call. Where
 * nobody else counts or sets meanwhile, that says what the call has to answer:
 *
 *   set    set if it was open
 *   down   one step less
 *   await  OK if it was open, TIMEOUT if it was closed
 *
 * A barrier lets through two and two: a number is told to two threads, and to
 * no third; one that was told to one thread only was told to another, too,
 * unless that could not be heard of. */
#include "kinds.h"
#include "snib/latch.h"

enum { LATCH_STEPS = 2, PARTIES = 2 };

/* -- latch ----------------------------------------------------------------------- */

static void set(struct world *w, struct actor *a)
{
    bool done = false;
    int64_t gate = books_gate(w, "l");
    struct traffic was = kinds_begin(&w->latch.traffic);
    snib_err err =
        snib_latch_set(w->client[a->client], "l", 0, LATCH_STEPS, &done, NULL);
    bool alone = kinds_over(&w->latch.traffic, was);
    judge_answer(w, a, VERB_SET, err);
    int64_t now = books_gate(w, "l");
    if (!err && alone &&
        (done != (gate == 0) || now != (done ? LATCH_STEPS : gate))) {
        sched_fail("thread %d: set says %d of a latch that had %d steps to go, "
                   "and has %d",
                   judge_index(w, a), done, (int)gate, (int)now);
    }
}

static void down(struct world *w, struct actor *a)
{
    uint32_t left = 0;
    int64_t gate = books_gate(w, "l");
    struct traffic was = kinds_begin(&w->latch.traffic);
    snib_err err;
    do { /* far: nothing was done if no worker came to it in time */
        err =
            snib_latch_count_down(w->client[a->client], "l", 0, 1, &left, NULL);
    } while (err == SNIB_ERR_UNREACHABLE && w->far);
    bool alone = kinds_over(&w->latch.traffic, was);
    judge_answer(w, a, VERB_DOWN, err);
    int64_t should = gate > 0 ? gate - 1 : 0;
    if (!err && (left >= LATCH_STEPS ||
                 (alone && (left != should || books_gate(w, "l") != should)))) {
        sched_fail("thread %d: down says %u to go of a latch that had %d, and "
                   "has %d",
                   judge_index(w, a), left, (int)gate, (int)books_gate(w, "l"));
    }
}

/* Answers that all who wait here may get. */
static const char *bad_refusal(const struct world *w, const struct actor *a,
                               snib_err err)
{
    if (err == SNIB_ERR_CLOSED) {
        return w->shut[a->client].closing ? NULL : "nobody has closed it";
    }
    if (err == SNIB_ERR_UNKNOWN && w->shut[a->client].closing) {
        return NULL;
    }
    return judge_was_late(err, a->warps) ? NULL : "that may not be";
}

/* What gave up has left nothing, and nobody else of this client is there. */
static void check_left(const struct world *w, const struct actor *a,
                       const char *name, uint32_t inside, bool passed)
{
    if (!inside && !passed && !sched.run->warps &&
        !w->shut[a->client].closing && books_has(w, a->client, name)) {
        sched_fail("thread %d: something of what it asked of %s is left",
                   judge_index(w, a), name);
    }
}

static void judge_await(struct world *w, struct actor *a, snib_err err,
                        int64_t gate, bool calm)
{
    const char *why = NULL, *call = verb_text[a->now];
    if (!err) {
        w->latch.passed[a->client] = true;
        why = calm && gate ? "the latch was closed all the time" : NULL;
    } else if (err == SNIB_ERR_TIMEOUT && a->now == VERB_AWAIT5) {
        judge_timeout(w, a, call, a->limit, a->warps);
        /* Time that was pushed on may be over before the answer is there. */
        why = calm && !gate && a->warps == sched.run->warps
                  ? "the latch was open all the time"
                  : NULL;
    } else {
        why = bad_refusal(w, a, err);
    }
    if (why) {
        judge_wrong(w, a, call, err, why);
    }
}

static void await(struct world *w, struct actor *a, int64_t wait_ms)
{
    int64_t gate = books_gate(w, "l");
    struct traffic was = w->latch.traffic;
    uint32_t *inside = &w->latch.inside[a->client];
    judge_limits(w, a, wait_ms);
    ++*inside;
    snib_err err =
        snib_latch_try_for(w->client[a->client], "l", 0, wait_ms, NULL);
    --*inside;
    sched_say("= %s", snib_err_name(err));
    judge_await(w, a, err, gate, kinds_calm(&w->latch.traffic, was));
    if (err) {
        check_left(w, a, "l", *inside, w->latch.passed[a->client]);
    }
}

/* -- barrier ------------------------------------------------------------------------ */

static void met(struct world *w, struct actor *a, int64_t number, int64_t known)
{
    uint32_t i = 0;
    if (number <= known) {
        sched_fail("thread %d: the group's number does not rise",
                   judge_index(w, a));
    }
    while (i < w->barrier.groups && w->barrier.group[i].number != number) {
        i++;
    }
    if (i == GROUPS) {
        sched_fail("the judge knows %d groups at most", GROUPS);
    }
    w->barrier.groups += i == w->barrier.groups;
    w->barrier.group[i].number = number;
    if (++w->barrier.group[i].met > PARTIES) {
        sched_fail("thread %d is the third of a group", judge_index(w, a));
    }
    if (number > w->barrier.highest) {
        w->barrier.highest = number;
    }
}

static void meet(struct world *w, struct actor *a, int64_t wait_ms)
{
    int64_t number = 0, known = w->barrier.highest;
    uint32_t *inside = &w->barrier.inside_of[a->client];
    judge_limits(w, a, wait_ms);
    w->barrier.inside++;
    ++*inside;
    snib_err err = snib_barrier_try_for(w->client[a->client], "m", 0, PARTIES,
                                        wait_ms, &number, NULL);
    --*inside;
    w->barrier.inside--;
    sched_say("= %s %d", snib_err_name(err), (int)(number % 1000000));
    if (!err) {
        w->barrier.passed[a->client] = true;
        met(w, a, number, known);
        return;
    }
    if (err == SNIB_ERR_TIMEOUT && a->now == VERB_MEET5) {
        judge_timeout(w, a, verb_text[a->now], a->limit, a->warps);
    } else {
        const char *why = bad_refusal(w, a, err);
        w->barrier.unsure++;
        if (why) {
            judge_wrong(w, a, verb_text[a->now], err, why);
        }
    }
    check_left(w, a, "m", *inside, w->barrier.passed[a->client]);
}

/* -- all ------------------------------------------------------------------------------- */

void gates_act(struct world *w, struct actor *a, verb v)
{
    switch (v) {
    case VERB_SET:
        set(w, a);
        break;
    case VERB_DOWN:
        down(w, a);
        break;
    case VERB_AWAIT:
        await(w, a, INT64_MAX);
        break;
    case VERB_AWAIT5:
        await(w, a, 5);
        break;
    case VERB_MEET:
        meet(w, a, INT64_MAX);
        break;
    default:
        meet(w, a, 5);
        break;
    }
}

/* Who has not polled for seconds, since time was pushed, is passed over. */
const char *gates_idle(const struct world *w, const struct actor *a)
{
    bool late = sched.run->warps > 0;
    if (a->now == VERB_SET || a->now == VERB_DOWN) {
        return "that waits for nobody";
    }
    if (w->shut[a->client].closed) {
        return "its client is closed";
    }
    if (a->now == VERB_AWAIT || a->now == VERB_AWAIT5) {
        return books_gate(w, "l") || late ? NULL : "the latch is open";
    }
    return w->barrier.inside < PARTIES || late ? NULL
                                               : "enough are there to meet";
}

void gates_end(const struct world *w)
{
    for (uint32_t i = 0; i < w->barrier.groups; i++) {
        if (w->barrier.group[i].met < PARTIES && !w->barrier.unsure) {
            sched_fail("a group of %d has met, and %u heard of it", PARTIES,
                       w->barrier.group[i].met);
        }
    }
}

/* tests/unit/optimistic_world.h — snib_version_update with a step and a clock
 * that are made up. */
#ifndef SNIB_TESTS_OPTIMISTIC_WORLD_H
#define SNIB_TESTS_OPTIMISTIC_WORLD_H

#include "unit.h"

#include "api/optimistic_i.h"

enum { SAYS_MOST = 16, CALLS_MOST = 4096 };
static const int64_t MS = 1000000;

/* What the step answers to its n-th call, and says besides; the last one again
 * and again. */
struct says {
    int answer;
    bool asks;
    snib_err why;
    int stopped;
    const char *text;
    int64_t takes_ms;
};

/* A call of the step, as it was seen. */
struct call {
    uint32_t number;
    bool ask;
    char id[33];
    int64_t left_ms, at_ns, paused_ns;
};

static struct world {
    struct says says[SAYS_MOST];
    int says_count, calls;
    struct call call[CALLS_MOST];
    int64_t now_ns, paused_ns; /* paused: since the last call */
    int64_t longest_ns;        /* of the pieces of pauses */
    int64_t cancel_at_ns;      /* -1: never */
    int looks;                 /* at whether it is cancelled */
    snib_err seed_fails;
    uint64_t seed;
    struct snib_version_options o;
    int stopped;
    uint32_t attempts;
    struct snib_error e;
} w;

static void begin(int64_t wait_ms)
{
    uint64_t seed = w.seed;
    memset(&w, 0, sizeof w);
    w.seed = seed + 1;
    w.now_ns = 1000 * MS;
    w.cancel_at_ns = -1;
    w.o.size = sizeof w.o;
    w.o.wait_ms = wait_ms;
}

static void says(struct says s)
{
    assert_true(w.says_count < SAYS_MOST);
    w.says[w.says_count++] = s;
}

static void answers(int answer)
{
    says((struct says){.answer = answer});
}

static int step(void *data, struct snib_version_attempt *a)
{
    struct call *c = &w.call[w.calls];
    int n = w.calls < w.says_count ? w.calls : w.says_count - 1;
    const struct says *s = &w.says[n];
    assert_ptr_equal(data, &w);
    assert_true(w.calls < CALLS_MOST);
    assert_int_equal(a->why, SNIB_ERR_OK);
    assert_int_equal(a->stopped, 0);
    assert_string_equal(a->text, "");
    assert_int_equal(a->asks, a->ask); /* of that attempt, and no other */
    w.calls++;
    *c = (struct call){.number = a->number,
                       .ask = a->ask,
                       .left_ms = a->left_ms,
                       .at_ns = w.now_ns,
                       .paused_ns = w.paused_ns};
    memcpy(c->id, a->id, sizeof c->id);
    w.paused_ns = 0;
    w.now_ns += s->takes_ms * MS;
    a->asks = a->asks || s->asks;
    a->why = s->why;
    a->stopped = s->stopped;
    snprintf(a->text, sizeof a->text, "%s", s->text ? s->text : "");
    return s->answer;
}

static snib_instant now(void *data)
{
    assert_ptr_equal(data, &w);
    return (snib_instant){w.now_ns};
}

static void make_pause(void *data, snib_duration d)
{
    assert_ptr_equal(data, &w);
    assert_true(d.ns > 0);
    w.longest_ns = d.ns > w.longest_ns ? d.ns : w.longest_ns;
    w.now_ns += d.ns;
    w.paused_ns += d.ns;
}

static snib_err give_seed(void *data, struct snib__seed *ret,
                          struct snib_error *reterr)
{
    assert_ptr_equal(data, &w);
    *ret = (struct snib__seed){{w.seed, 1, 2, 3}};
    if (w.seed_fails && reterr) {
        reterr->code = w.seed_fails;
        snprintf(reterr->text, sizeof reterr->text, "no dice");
    }
    return w.seed_fails;
}

static bool is_cancelled(void *data)
{
    assert_ptr_equal(data, &w);
    w.looks++;
    return w.cancel_at_ns >= 0 && w.now_ns >= w.cancel_at_ns;
}

static void cancels_at(int64_t ms)
{
    w.cancel_at_ns = (1000 + ms) * MS;
    w.o.cancelled = is_cancelled;
    w.o.data = &w;
}

static snib_err update_with(const struct snib_version_options *o)
{
    static const struct snib__optimistic_host host = {now, make_pause,
                                                      give_seed, &w};
    w.stopped = 77;
    w.attempts = 77;
    memset(&w.e, 0x5a, sizeof w.e);
    snib_err err =
        snib__version_update(&host, o, step, &w, &w.stopped, &w.attempts, &w.e);
    assert_int_equal(w.e.code, err);
    assert_non_null(memchr(w.e.text, 0, sizeof w.e.text));
    return err;
}

static void ends(snib_err err, int calls, uint32_t attempts)
{
    snib_err got = update_with(&w.o);
    if (got != err || w.calls != calls || w.attempts != attempts) {
        fail_msg("%s after %d calls, %u attempts: %s", snib_err_name(got),
                 w.calls, w.attempts, w.e.text);
    }
}

#endif

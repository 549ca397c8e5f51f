/* tests/unit/sharing_world.h — a library with two sessions that answers what the
 * test says, and the store that core/blocking.c makes of it: requests are
 * started, taken by a session's worker, and given back. One world a test, made
 * by setup and ended by teardown. */
#ifndef SNIB_TESTS_SHARING_WORLD_H
#define SNIB_TESTS_SHARING_WORLD_H

#include "core/blocking.h"

#include "base/error.h"
#include "unit.h"

enum { REQUEST_MS = 2000 };

static struct snib__out out;
static struct snib__store *store;
static struct snib__name name = {.raw = "n", .safe = "n", .raw_size = 1};
static uint64_t next_id;

/* What each worker has. */
static struct snib__list has[SNIB__SESSIONS];

static const snib__session callers = SNIB__SESSION_CALLERS;
static const snib__session background = SNIB__SESSION_BACKGROUND;

static int instance;

static snib_err fake_open(const struct snib__store_config *c, void **ret,
                          struct snib_error *e)
{
    (void)c;
    (void)e;
    *ret = &instance;
    return SNIB_ERR_OK;
}

static void fake_exec(void *inst, snib__session session, snib_instant now,
                      struct snib__list *chain)
{
    (void)inst;
    (void)session;
    (void)now;
    (void)chain;
}

static int fake_fd(void *inst)
{
    (void)inst;
    return -1;
}

static uint64_t notified[2]; /* 0: nothing */

static uint32_t fake_notified(void *inst, uint64_t (*ids)[2], uint32_t max)
{
    (void)inst;
    (void)max;
    memcpy(ids[0], notified, sizeof notified);
    return notified[0] != 0;
}

static void fake_free(void *inst)
{
    (void)inst;
}

static const struct snib__blocking_ops ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof ops,
    .scheme = "far",
    .caps = SNIB__SAYS_SENT,
    .open = fake_open,
    .exec_in = fake_exec,
    .notifier_fd = fake_fd,
    .notified = fake_notified,
    .free = fake_free,
};

static const struct snib__store_ops *const st = &snib__blocking_store_ops;

static snib_instant at(int64_t ms)
{
    return (snib_instant){ms * 1000000};
}

static int setup(void **state)
{
    struct snib__store_config config = {
        .out = &out, .request = snib__ms(REQUEST_MS), .seed = {{1, 2, 3, 4}}};
    (void)state;
    memset(&out, 0, sizeof out);
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    snib__list_init(&has[callers]);
    snib__list_init(&has[background]);
    notified[0] = 0;
    next_id = 100;
    return snib__blocking_open(&ops, &config, &store, NULL);
}

static int teardown(void **state)
{
    (void)state;
    bool unused = snib__list_empty(&out.exec);
    st->free(store);
    return unused ? 0 : -1;
}

static struct snib__request spec(snib__verb verb)
{
    return (struct snib__request){.verb = verb,
                                  .name = &name,
                                  .id = {next_id++, 5},
                                  .limit = SNIB__NEVER,
                                  .background = verb == SNIB__RENEW,
                                  .store.timer = {.index = 99}};
}

static struct snib__request of(snib__verb verb, const struct snib__request *r)
{
    struct snib__request x = spec(verb);
    x.id[0] = r->id[0];
    x.id[1] = r->id[1];
    return x;
}

static void start(struct snib__request *r, int64_t now_ms)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__list_push(&chain, &r->link);
    st->start(store, at(now_ms), &chain);
    assert_true(snib__list_empty(&chain));
}

static uint32_t count(const struct snib__list *list)
{
    uint32_t n = 0;
    SNIB__LIST_EACH (l, list) {
        n++;
    }
    return n;
}

/* The worker of this session goes in; how many requests it has then. */
static uint32_t take(snib__session session, int64_t now_ms)
{
    snib__blocking_take(store, at(now_ms), session, &has[session]);
    return count(&has[session]);
}

/* It comes out with the one request that it has. */
static void back(snib__session session, struct snib__request *r, snib__answer a,
                 int64_t now_ms)
{
    assert_ptr_equal(snib__list_first(&has[session]), &r->link);
    assert_int_equal(count(&has[session]), 1);
    r->said.answer = a;
    r->said.position = 1;
    snib__blocking_returned(store, session);
    snib__blocking_done(store, at(now_ms), &has[session]);
}

/* The worker of this session executes this one alone. */
static void execute(snib__session session, struct snib__request *r,
                    snib__answer a, int64_t now_ms)
{
    assert_int_equal(take(session, now_ms), 1);
    back(session, r, a, now_ms);
}

static void expect_answer(struct snib__request *r, snib__answer a)
{
    assert_ptr_equal(snib__list_first(&out.answered), &r->link);
    assert_int_equal(r->said.answer, a);
    snib__list_pop(&out.answered);
}

static void expect_nothing(void)
{
    assert_true(snib__list_empty(&out.answered));
    assert_false(snib__blocking_waits(store, callers));
    assert_false(snib__blocking_waits(store, background));
}

static void tick(int64_t ms)
{
    struct snib__input in = {.kind = SNIB__IN_TICK};
    st->input(store, at(ms), &in);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif

/* tests/unit/test_sharing.c — core/sharing.c: which session executes what, and
 * in which order, over a library that answers what the test says. */
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

static uint64_t rung[2]; /* 0: nothing */

static uint32_t fake_notified(void *inst, uint64_t (*ids)[2], uint32_t max)
{
    (void)inst;
    (void)max;
    memcpy(ids[0], rung, sizeof rung);
    return rung[0] != 0;
}

static void fake_free(void *inst)
{
    (void)inst;
}

static const struct snib__blocking_ops ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof ops,
    .scheme = "far",
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
    rung[0] = 0;
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

/* -- which session ------------------------------------------------------------ */

static void renewals_have_a_session_of_their_own(void **state)
{
    (void)state;
    static struct snib__request a, n;
    a = spec(SNIB__ACQUIRE);
    n = spec(SNIB__RENEW);
    static struct snib__request scan, look;
    scan = spec(SNIB__LIST);
    look = spec(SNIB__INSPECT);
    scan.background = true;
    start(&a, 0);
    start(&n, 0);
    start(&scan, 0);
    start(&look, 0);
    assert_int_equal(take(callers, 0), 2);
    assert_ptr_equal(snib__list_first(&has[callers]), &a.link);
    assert_int_equal(take(background, 0), 2);
    assert_ptr_equal(snib__list_first(&has[background]), &n.link);
    expect_nothing();
}

/* One session stalls: all goes on in the other. */
static void a_session_that_stalls_delays_the_other_in_nothing(void **state)
{
    (void)state;
    static struct snib__request stuck;
    for (int s = 0; s < SNIB__SESSIONS; s++) {
        stuck = spec(s == (int)callers ? SNIB__ACQUIRE : SNIB__RENEW);
        start(&stuck, 0);
        assert_int_equal(take((snib__session)s, 0), 1);
        static struct snib__request r;
        r = spec(s == (int)callers ? SNIB__RENEW : SNIB__ACQUIRE);
        start(&r, 1);
        execute((snib__session)!s, &r, SNIB__DONE, 2);
        expect_answer(&r, SNIB__DONE);
        back((snib__session)s, &stuck, SNIB__DONE, 3);
        expect_answer(&stuck, SNIB__DONE);
    }
}

static void a_worker_takes_no_more_than_may_be_late_together(void **state)
{
    (void)state;
    static struct snib__request r[300];
    for (int i = 0; i < 300; i++) {
        r[i] = spec(SNIB__RENEW);
        start(&r[i], 0);
    }
    uint32_t n = take(background, 0);
    assert_int_equal(n, 128);
    assert_true(snib__blocking_waits(store, background));
}

/* Tries of one batch are one step of the library. */
static void a_batch_is_not_parted(void **state)
{
    (void)state;
    static struct snib__request r[140];
    for (int i = 0; i < 140; i++) {
        r[i] = spec(SNIB__ACQUIRE);
        r[i].batch.number = i >= 120 && i < 135 ? 7 : 0;
        start(&r[i], 0);
    }
    assert_int_equal(take(callers, 0), 135);
}

/* -- order -------------------------------------------------------------------- */

static void a_cancel_of_the_background_waits_for_its_acquire(void **state)
{
    (void)state;
    static const snib__answer first[] = {SNIB__DONE, SNIB__QUEUED,
                                         SNIB__UNKNOWN};
    for (size_t i = 0; i < COUNT_OF(first); i++) {
        static struct snib__request r, x;
        r = spec(SNIB__ACQUIRE);
        start(&r, 0);
        assert_int_equal(take(callers, 0), 1);
        x = of(SNIB__CANCEL, &r);
        x.background = true;
        start(&x, 1);
        assert_false(snib__blocking_waits(store, background));
        back(callers, &r, first[i], 2);
        expect_answer(&r, first[i]);
        execute(background, &x, SNIB__DONE, 3);
        if (first[i] == SNIB__QUEUED) {
            expect_answer(&r, SNIB__NO);
            assert_int_equal(r.said.err, SNIB_ERR_CANCELLED);
        }
        expect_answer(&x, SNIB__DONE);
        expect_nothing();
    }
}

static void a_release_waits_for_the_renewal_that_a_worker_has(void **state)
{
    (void)state;
    static struct snib__request n, x;
    n = spec(SNIB__RENEW);
    x = of(SNIB__RELEASE, &n);
    static struct snib__request other;
    other = spec(SNIB__RELEASE);
    start(&n, 0);
    assert_int_equal(take(background, 0), 1);
    start(&x, 1);
    assert_false(snib__blocking_waits(store, callers));
    start(&other, 1); /* another grant, if of the same name */
    execute(callers, &other, SNIB__DONE, 2);
    expect_answer(&other, SNIB__DONE);
    back(background, &n, SNIB__DONE, 3);
    expect_answer(&n, SNIB__DONE);
    execute(callers, &x, SNIB__DONE, 4);
    expect_answer(&x, SNIB__DONE);
    expect_nothing();
}

static void a_renewal_that_no_worker_has_is_in_no_releases_way(void **state)
{
    (void)state;
    static struct snib__request stuck, n;
    stuck = spec(SNIB__RENEW);
    n = spec(SNIB__RENEW);
    static struct snib__request x;
    x = of(SNIB__RELEASE, &n);
    start(&stuck, 0);
    assert_int_equal(take(background, 0), 1);
    start(&n, 0);
    start(&x, 1);
    expect_answer(&n, SNIB__NOT_APPLIED);
    execute(callers, &x, SNIB__DONE, 2);
    expect_answer(&x, SNIB__DONE);
    expect_nothing();
    back(background, &stuck, SNIB__DONE, 3);
    expect_answer(&stuck, SNIB__DONE);
}

/* The library did nothing for it, so it is to come again: but not beside, or
 * after, the release. */
static void a_renewal_that_is_to_come_again_is_in_no_releases_way(void **state)
{
    (void)state;
    static struct snib__request n, x;
    n = spec(SNIB__RENEW);
    x = of(SNIB__RELEASE, &n);
    start(&n, 0);
    execute(background, &n, SNIB__PENDING, 1);
    start(&x, 2);
    expect_answer(&n, SNIB__NOT_APPLIED);
    assert_int_equal(take(callers, 3), 1);
    tick(100);
    expect_nothing();
    back(callers, &x, SNIB__DONE, 101);
    expect_answer(&x, SNIB__DONE);
    assert_int_equal(st->due(store).ns, INT64_MAX);
}

static void
a_renewal_that_comes_back_before_the_release_is_not_repeated(void **state)
{
    (void)state;
    static struct snib__request n, x;
    n = spec(SNIB__RENEW);
    x = of(SNIB__RELEASE, &n);
    start(&n, 0);
    assert_int_equal(take(background, 0), 1);
    start(&x, 1);
    back(background, &n, SNIB__PENDING, 2);
    expect_answer(&n, SNIB__NOT_APPLIED);
    execute(callers, &x, SNIB__DONE, 3);
    expect_answer(&x, SNIB__DONE);
    assert_int_equal(st->due(store).ns, INT64_MAX);
}

static void one_that_is_to_come_again_waits_for_a_later_one(void **state)
{
    (void)state;
    static struct snib__request a, b;
    a = spec(SNIB__VALUE_PUT);
    b = of(SNIB__VALUE_PUT, &a);
    start(&a, 0);
    execute(callers, &a, SNIB__PENDING, 1);
    start(&b, 2);
    assert_int_equal(take(callers, 3), 1);
    tick(100); /* a is listed again */
    expect_nothing();
    back(callers, &b, SNIB__DONE, 101);
    expect_answer(&b, SNIB__DONE);
    execute(callers, &a, SNIB__DONE, 102);
    expect_answer(&a, SNIB__DONE);
}

static void three_of_an_id_are_executed_one_after_the_other(void **state)
{
    (void)state;
    static struct snib__request a, b, c;
    a = spec(SNIB__VALUE_PUT);
    b = of(SNIB__VALUE_PUT, &a); /* repeats of a caller that gave up */
    c = of(SNIB__VALUE_PUT, &a);
    start(&a, 0);
    assert_int_equal(take(callers, 0), 1);
    start(&b, 1);
    start(&c, 2);
    expect_nothing();
    back(callers, &a, SNIB__UNKNOWN, 3);
    expect_answer(&a, SNIB__UNKNOWN);
    assert_int_equal(take(callers, 3), 1);
    back(callers, &b, SNIB__DONE, 4);
    expect_answer(&b, SNIB__DONE);
    execute(callers, &c, SNIB__DONE, 5);
    expect_answer(&c, SNIB__DONE);
}

/* -- cancelling what no worker has ---------------------------------------------- */

static void what_was_not_executed_is_cancelled_without_the_library(void **state)
{
    (void)state;
    static struct snib__request stuck;
    stuck = spec(SNIB__ACQUIRE);
    static struct snib__request r, x;
    r = spec(SNIB__ACQUIRE);
    x = of(SNIB__CANCEL, &r);
    start(&stuck, 0);
    assert_int_equal(take(callers, 0), 1);
    r.limit = at(100);
    start(&r, 0);
    start(&x, 1);
    expect_answer(&r, SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_CANCELLED);
    expect_answer(&x, SNIB__DONE);
    expect_nothing();
    assert_int_equal(st->due(store).ns, INT64_MAX);
    back(callers, &stuck, SNIB__DONE, 2);
    expect_answer(&stuck, SNIB__DONE);
}

/* The library said that it did nothing: as if it had never had it. */
static void
a_cancel_behind_what_did_nothing_is_done_when_that_is_back(void **state)
{
    (void)state;
    static struct snib__request r, x;
    r = spec(SNIB__ACQUIRE);
    x = of(SNIB__CANCEL, &r);
    start(&r, 0);
    assert_int_equal(take(callers, 0), 1);
    start(&x, 1);
    expect_nothing();
    back(callers, &r, SNIB__PENDING, 2);
    expect_answer(&r, SNIB__NO);
    expect_answer(&x, SNIB__DONE);
    expect_nothing();
}

static void what_may_be_there_is_cancelled_by_the_library(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        static struct snib__request r, x;
        r = spec(SNIB__ACQUIRE);
        x = of(SNIB__CANCEL, &r);
        r.resent = i == 0;
        r.acquire.placed = i == 1;
        x.token = i == 2; /* a prior grant has to be ended, too */
        start(&r, 0);
        start(&x, 1);
        assert_true(snib__list_empty(&out.answered));
        execute(callers, &x, SNIB__DONE, 2); /* and r is not polled */
        expect_answer(&r, SNIB__NO);
        expect_answer(&x, SNIB__DONE);
        expect_nothing();
    }
}

/* A poll that is listed is not executed once the cancel starts. */
static void a_listed_poll_gives_way_to_the_cancel(void **state)
{
    (void)state;
    static struct snib__request r, x;
    r = spec(SNIB__ACQUIRE);
    x = of(SNIB__CANCEL, &r);
    struct snib__input in = {.kind = SNIB__IN_NOTIFIED};
    start(&r, 0);
    execute(callers, &r, SNIB__QUEUED, 1);
    expect_answer(&r, SNIB__QUEUED);
    memcpy(rung, r.id, sizeof rung);
    st->input(store, at(2), &in);
    assert_true(snib__blocking_waits(store, callers));
    start(&x, 3);
    execute(callers, &x, SNIB__DONE, 4);
    expect_answer(&r, SNIB__NO);
    expect_answer(&x, SNIB__DONE);
    expect_nothing();
}

/* -- limits --------------------------------------------------------------------- */

static void what_no_worker_came_to_is_answered_at_its_limit(void **state)
{
    (void)state;
    static const snib__verb verbs[] = {SNIB__ACQUIRE, SNIB__INSPECT,
                                       SNIB__PARAMS, SNIB__VALUE_PUT};
    static struct snib__request stuck;
    struct snib_error error = {0};
    stuck = spec(SNIB__ACQUIRE);
    start(&stuck, 0);
    assert_int_equal(take(callers, 0), 1);
    for (size_t i = 0; i < COUNT_OF(verbs); i++) {
        static struct snib__request r;
        r = spec(verbs[i]);
        r.said.reterr = &error;
        r.limit = at(300);
        start(&r, 100);
        assert_int_equal(st->due(store).ns, at(300).ns);
        tick(299);
        assert_true(snib__list_empty(&out.answered));
        tick(300);
        expect_answer(&r, SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, SNIB_ERR_UNREACHABLE);
        assert_string_equal(error.text, "no answer from the server for 300 ms");
        assert_false(snib__blocking_waits(store, callers));
        assert_int_equal(st->due(store).ns, INT64_MAX);
    }
    struct snib__store_state is = {0};
    st->state(store, at(300), &is); /* it is known by now */
    assert_false(is.reachable);
    assert_int_equal(is.err, SNIB_ERR_UNREACHABLE);
}

static void a_limit_that_moves_counts_as_it_is_then(void **state)
{
    (void)state;
    static struct snib__request r;
    r = spec(SNIB__ACQUIRE);
    r.limit = at(100);
    r.once = true;
    start(&r, 0);
    r.limit = at(500); /* somebody else waits for it now, too */
    r.once = false;
    tick(100);
    assert_true(snib__list_empty(&out.answered));
    assert_int_equal(st->due(store).ns, at(500).ns);
    assert_false(snib__blocking_runs(store, &r)); /* nobody has it yet */
    assert_int_equal(take(callers, 200), 1);
    assert_int_equal(r.exec.patience.ns, at(500).ns);
    assert_false(r.exec.impatient);
    tick(600); /* a worker has it: its answer counts */
    assert_true(snib__list_empty(&out.answered));
    assert_true(snib__blocking_runs(store, &r));
    back(callers, &r, SNIB__DONE, 700);
    expect_answer(&r, SNIB__DONE);
}

/* It is the core that cancels these, or they have to be executed. */
static void no_limit_ends_what_may_be_there(void **state)
{
    (void)state;
    static struct snib__request r[6];
    r[0] = spec(SNIB__ACQUIRE);
    r[0].resent = true;
    r[1] = spec(SNIB__ACQUIRE);
    r[1].acquire.placed = true;
    r[2] = spec(SNIB__RELEASE);
    r[3] = spec(SNIB__CANCEL);
    r[4] = spec(SNIB__RENEW);
    r[5] = spec(SNIB__ACQUIRE);
    r[5].token = 7; /* a grant of ours that it ends */
    for (int i = 0; i < 6; i++) {
        r[i].limit = at(100);
        start(&r[i], 0);
    }
    assert_int_equal(st->due(store).ns, INT64_MAX);
    tick(200);
    assert_true(snib__list_empty(&out.answered));
    assert_int_equal(take(callers, 200), 5);
    assert_int_equal(take(background, 200), 1);
}

static void one_behind_another_is_answered_at_its_limit(void **state)
{
    (void)state;
    static struct snib__request a, b, c;
    a = spec(SNIB__VALUE_PUT);
    b = of(SNIB__VALUE_PUT, &a);
    c = of(SNIB__VALUE_PUT, &a);
    b.limit = at(100);
    start(&a, 0);
    assert_int_equal(take(callers, 0), 1);
    start(&b, 0);
    start(&c, 0);
    tick(100);
    expect_answer(&b, SNIB__NOT_APPLIED);
    back(callers, &a, SNIB__DONE, 200);
    expect_answer(&a, SNIB__DONE);
    execute(callers, &c, SNIB__DONE, 201);
    expect_answer(&c, SNIB__DONE);
}

/* -- how the store is ------------------------------------------------------------ */

static void a_call_that_does_not_come_back_is_told(void **state)
{
    (void)state;
    static struct snib__request r;
    r = spec(SNIB__RENEW);
    struct snib__store_state is = {0};
    start(&r, 0);
    assert_int_equal(take(background, 10), 1);
    st->state(store, at(10 + REQUEST_MS - 1), &is);
    assert_int_equal(is.err, SNIB_ERR_OK);
    is = (struct snib__store_state){0};
    st->state(store, at(10 + REQUEST_MS), &is);
    assert_false(is.reachable);
    assert_int_equal(is.err, SNIB_ERR_UNREACHABLE);
    assert_int_equal(is.since.ns, at(10).ns);
    assert_string_equal(is.text, "no answer from the server for 2000 ms");
    back(background, &r, SNIB__DONE, 5000);
    expect_answer(&r, SNIB__DONE);
    is = (struct snib__store_state){0};
    st->state(store, at(5000), &is);
    assert_true(is.reachable);
}

/* A scan for deadlocks may take its time. */
static void a_scan_that_takes_its_time_is_no_trouble(void **state)
{
    (void)state;
    static struct snib__request r;
    r = spec(SNIB__LIST);
    struct snib__store_state is = {0};
    r.background = true;
    start(&r, 0);
    assert_int_equal(take(background, 10), 1);
    st->state(store, at(10 * REQUEST_MS), &is);
    assert_int_equal(is.err, SNIB_ERR_OK);
    back(background, &r, SNIB__DONE, 10 * REQUEST_MS);
    expect_answer(&r, SNIB__DONE);
}

/* -- by dice: order, whatever comes when ------------------------------------------ */

enum { CLAIMS = 4, ROUNDS = 20000 };

struct claim {
    struct snib__request acquire, renew, end;
    enum { NEW, ASKS, HOLDS, RENEWS, ENDS } is;
    bool acquire_due, renew_due, end_due; /* their answers are */
    int executed; /* of this id: 1 acquire, 2 renew, 3 end */
};

static struct claim claims[CLAIMS];
static uint64_t seed;

static struct claim *claim_of(const struct snib__request *r)
{
    for (int i = 0; i < CLAIMS; i++) {
        if (r == &claims[i].acquire || r == &claims[i].renew ||
            r == &claims[i].end) {
            return &claims[i];
        }
    }
    fail();
    return NULL;
}

static void begin(struct claim *c, struct snib__request *r, snib__verb verb,
                  int64_t now)
{
    *r = verb == SNIB__ACQUIRE ? spec(verb) : of(verb, &c->acquire);
    r->background =
        verb == SNIB__RENEW || (verb != SNIB__ACQUIRE && dice(&seed) % 2 == 0);
    r->limit = dice(&seed) % 3 ? SNIB__NEVER : at(now + dice(&seed) % 20);
    start(r, now);
}

/* What the core may start of a claim now. */
static void some_start(struct claim *c, int64_t now)
{
    switch (c->is) {
    case NEW:
        c->executed = 0;
        c->acquire_due = true;
        c->is = ASKS;
        begin(c, &c->acquire, SNIB__ACQUIRE, now);
        break;
    case ASKS: /* it gives up */
        c->is = ENDS;
        c->end_due = true;
        begin(c, &c->end, SNIB__CANCEL, now);
        break;
    case HOLDS:
        c->is = RENEWS;
        c->renew_due = true;
        begin(c, &c->renew, SNIB__RENEW, now);
        break;
    case RENEWS:
        c->is = ENDS;
        c->end_due = true;
        begin(c, &c->end, SNIB__RELEASE, now);
        break;
    case ENDS:
        break;
    }
}

static void heard(struct snib__request *r)
{
    struct claim *c = claim_of(r);
    if (r->said.answer == SNIB__QUEUED) {
        return;
    }
    if (r == &c->acquire) {
        c->acquire_due = false;
        if (c->is == ASKS) {
            c->is = r->said.answer == SNIB__DONE ? HOLDS : NEW;
        }
    } else if (r == &c->renew) {
        c->renew_due = false;
        c->is = c->is == RENEWS ? HOLDS : c->is;
    } else {
        c->end_due = false;
    }
    if (c->is == ENDS && !c->acquire_due && !c->renew_due && !c->end_due) {
        c->is = NEW;
    }
}

static void hear_all(void)
{
    struct snib__link *l;
    while ((l = snib__list_pop(&out.answered))) {
        heard(SNIB__CONTAINER(l, struct snib__request, link));
    }
}

static bool inside[SNIB__SESSIONS];

/* The worker of this session goes in, or comes out. */
static void some_work(snib__session k, int64_t now)
{
    static const snib__answer of_acquire[] = {SNIB__DONE, SNIB__QUEUED,
                                              SNIB__PENDING, SNIB__NO};
    if (!inside[k]) {
        if (snib__blocking_waits(store, k)) {
            inside[k] = true;
            (void)take(k, now);
        }
        return;
    }
    SNIB__LIST_EACH (l, &has[k]) {
        struct snib__request *r =
            SNIB__CONTAINER(l, struct snib__request, link);
        struct claim *c = claim_of(r);
        int step = r->verb == SNIB__ACQUIRE ? 1
                   : r->verb == SNIB__RENEW ? 2
                                            : 3;
        assert_true(step >= c->executed); /* the order of the starts */
        c->executed = step;
        r->said.err = SNIB_ERR_OK;
        r->said.answer = step == 1         ? of_acquire[dice(&seed) % 4]
                         : dice(&seed) % 4 ? SNIB__DONE
                                           : SNIB__PENDING;
        r->said.position = 1;
    }
    inside[k] = false;
    snib__blocking_returned(store, k);
    snib__blocking_done(store, at(now), &has[k]);
}

/* No two requests of one id are with workers at once, none is executed after one
 * that was started later, and each is answered. (Asserts of sharing.c look at
 * the first, too.) */
static void by_dice_order_is_kept(void **state)
{
    (void)state;
    int64_t now = 0, ends = 0;
    seed = 7;
    memset(claims, 0, sizeof claims);
    memset(inside, 0, sizeof inside);
    for (int i = 0; i < ROUNDS; i++) {
        now += dice(&seed) % 3;
        if (dice(&seed) % 2) {
            struct claim *c = &claims[dice(&seed) % CLAIMS];
            ends += c->is == ENDS;
            some_start(c, now);
        } else {
            some_work((snib__session)(dice(&seed) % 2), now);
        }
        hear_all();
        tick(now);
        hear_all();
    }
    for (int i = 0; i < 1000; i++) { /* all is answered in the end */
        some_work((snib__session)(i % 2), now += 10);
        tick(now);
        hear_all();
        for (int k = 0; k < CLAIMS; k++) {
            if (claims[k].is == ASKS) { /* it waits in the queue */
                some_start(&claims[k], now);
            }
        }
    }
    hear_all();
    for (int k = 0; k < CLAIMS; k++) {
        assert_false(claims[k].acquire_due || claims[k].renew_due ||
                     claims[k].end_due);
    }
    assert_true(ends > 100);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(renewals_have_a_session_of_their_own),
        CASE(a_session_that_stalls_delays_the_other_in_nothing),
        CASE(a_worker_takes_no_more_than_may_be_late_together),
        CASE(a_batch_is_not_parted),
        CASE(a_cancel_of_the_background_waits_for_its_acquire),
        CASE(a_release_waits_for_the_renewal_that_a_worker_has),
        CASE(a_renewal_that_no_worker_has_is_in_no_releases_way),
        CASE(a_renewal_that_is_to_come_again_is_in_no_releases_way),
        CASE(a_renewal_that_comes_back_before_the_release_is_not_repeated),
        CASE(one_that_is_to_come_again_waits_for_a_later_one),
        CASE(three_of_an_id_are_executed_one_after_the_other),
        CASE(what_was_not_executed_is_cancelled_without_the_library),
        CASE(a_cancel_behind_what_did_nothing_is_done_when_that_is_back),
        CASE(what_may_be_there_is_cancelled_by_the_library),
        CASE(a_listed_poll_gives_way_to_the_cancel),
        CASE(what_no_worker_came_to_is_answered_at_its_limit),
        CASE(a_limit_that_moves_counts_as_it_is_then),
        CASE(no_limit_ends_what_may_be_there),
        CASE(one_behind_another_is_answered_at_its_limit),
        CASE(a_call_that_does_not_come_back_is_told),
        CASE(a_scan_that_takes_its_time_is_no_trouble),
        CASE(by_dice_order_is_kept),
    };
    return RUN(cases);
}

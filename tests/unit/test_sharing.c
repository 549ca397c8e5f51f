/* tests/unit/test_sharing.c — core/sharing.c: which session executes what, and
 * in which order, over a library that answers what the test says. */
#include "sharing_world.h"

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

/* A library that never blocks leaves what it has no room for, and takes what is
 * behind it; what it left is answered at its limit. */
static void what_is_listed_can_be_taken_one_by_one(void **state)
{
    (void)state;
    static struct snib__request r[3];
    for (int i = 0; i < 3; i++) {
        r[i] = spec(SNIB__ACQUIRE);
        r[i].limit = at(50);
        start(&r[i], 0);
    }
    assert_ptr_equal(snib__blocking_peek(store, callers, NULL), &r[0]);
    assert_ptr_equal(snib__blocking_peek(store, callers, &r[0]), &r[1]);
    assert_null(snib__blocking_peek(store, callers, &r[2]));
    assert_null(snib__blocking_peek(store, background, NULL));
    snib__blocking_take_one(store, &r[1]);
    assert_ptr_equal(snib__blocking_peek(store, callers, &r[0]), &r[2]);
    tick(50);
    expect_answer(&r[0], SNIB__NOT_APPLIED);
    expect_answer(&r[2], SNIB__NOT_APPLIED);
    r[1].said.answer = SNIB__DONE;
    snib__list_push(&has[callers], &r[1].link);
    snib__blocking_done(store, at(60), &has[callers]);
    expect_answer(&r[1], SNIB__DONE);
    expect_nothing();
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
    memcpy(notified, r.id, sizeof notified);
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

/* No worker has it just then, but one had: the server is away. */
static void what_has_failed_before_is_not_told_as_blocked(void **state)
{
    (void)state;
    static struct snib__request r;
    struct snib__store_state is = {0};
    r = spec(SNIB__ACQUIRE);
    r.limit = at(60);
    start(&r, 0);
    assert_int_equal(take(callers, 0), 1);
    r.said.err = SNIB_ERR_UNREACHABLE;
    back(callers, &r, SNIB__PENDING, 1);
    tick(50); /* it is listed again */
    assert_true(snib__blocking_waits(store, callers));
    tick(60);
    expect_answer(&r, SNIB__NOT_APPLIED);
    assert_false(r.exec.blocked);
    st->state(store, at(60), &is);
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

/* -- what was not sent ----------------------------------------------------------- */

static bool is_unsent(const struct snib__request *r, int64_t now_ms,
                      int64_t *ret_ms)
{
    struct snib__unsent is = {0};
    bool unsent = snib__blocking_unsent(store, at(now_ms), r, &is);
    *ret_ms = is.waited.ns / 1000000;
    return unsent;
}

static void what_a_worker_has_not_sent_at_its_limit_is_never_sent(void **state)
{
    (void)state;
    static struct snib__request r;
    int64_t ms;
    r = spec(SNIB__ACQUIRE);
    r.limit = at(300);
    start(&r, 0);
    assert_false(is_unsent(&r, 299, &ms)); /* no worker has it */
    assert_int_equal(take(callers, 10), 1);
    assert_true(is_unsent(&r, 300, &ms));
    assert_int_equal(ms, 300);
    assert_false(snib__blocking_expired(&r, at(299)));
    snib__blocking_sends(&r);
    assert_false(is_unsent(&r, 300, &ms));
    assert_true(snib__blocking_expired(&r, at(300)));
    back(callers, &r, SNIB__NOT_APPLIED, 301);
    expect_answer(&r, SNIB__NOT_APPLIED);
    assert_false(is_unsent(&r, 302, &ms));
}

/* These are sent however late, so nothing can be said of them before. */
static void what_may_be_there_does_not_expire(void **state)
{
    (void)state;
    static struct snib__request r[6];
    int64_t ms;
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
    assert_int_equal(take(callers, 0), 5);
    assert_int_equal(take(background, 0), 1);
    for (int i = 0; i < 6; i++) {
        assert_false(is_unsent(&r[i], 200, &ms));
        assert_false(snib__blocking_expired(&r[i], at(200)));
    }
}

/* -- how the store is ------------------------------------------------------------ */

static void before_its_first_answer_nothing_is_known_of_it(void **state)
{
    (void)state;
    static struct snib__request r;
    struct snib__store_state is = {0};
    st->state(store, at(0), &is);
    assert_false(is.reachable);
    assert_int_equal(is.nodes_reachable, 0);
    assert_int_equal(is.err, SNIB_ERR_OK);
    assert_string_equal(is.text, "not asked yet");
    r = spec(SNIB__ACQUIRE);
    start(&r, 5);
    assert_int_equal(take(callers, 5), 1);
    is = (struct snib__store_state){0};
    st->state(store, at(10), &is);
    assert_false(is.reachable);
    assert_int_equal(is.err, SNIB_ERR_OK);
    assert_int_equal(is.since.ns, at(5).ns);
    assert_string_equal(is.text, "no answer yet");
    r.said.err = SNIB_ERR_UNREACHABLE; /* it may be away for a moment only */
    back(callers, &r, SNIB__PENDING, 20);
    is = (struct snib__store_state){0};
    st->state(store, at(21), &is);
    assert_false(is.reachable);
    assert_int_equal(is.err, SNIB_ERR_UNREACHABLE);
    assert_int_equal(is.since.ns, at(5).ns);
}

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

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(renewals_have_a_session_of_their_own),
        CASE(a_session_that_stalls_delays_the_other_in_nothing),
        CASE(a_worker_takes_no_more_than_may_be_late_together),
        CASE(a_batch_is_not_parted),
        CASE(what_is_listed_can_be_taken_one_by_one),
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
        CASE(what_has_failed_before_is_not_told_as_blocked),
        CASE(a_limit_that_moves_counts_as_it_is_then),
        CASE(no_limit_ends_what_may_be_there),
        CASE(one_behind_another_is_answered_at_its_limit),
        CASE(what_a_worker_has_not_sent_at_its_limit_is_never_sent),
        CASE(what_may_be_there_does_not_expire),
        CASE(before_its_first_answer_nothing_is_known_of_it),
        CASE(a_call_that_does_not_come_back_is_told),
        CASE(a_scan_that_takes_its_time_is_no_trouble),
    };
    return RUN(cases);
}

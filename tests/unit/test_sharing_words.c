/* tests/unit/test_sharing_words.c — core/sharing.c: what is said of a request of
 * which nothing was sent by its limit: that the server is silent only if it is. */
#include "sharing_world.h"

static struct snib_error error;

/* Started, to be answered at its limit. */
static struct snib__request late_one(int64_t limit_ms)
{
    struct snib__request r = spec(SNIB__ACQUIRE);
    r.said.reterr = &error;
    r.limit = at(limit_ms);
    return r;
}

static void expect_text(struct snib__request *r, const char *text)
{
    expect_answer(r, SNIB__NOT_APPLIED);
    assert_int_equal(r->said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text, text);
}

static void expect_unsent(const struct snib__request *r, int64_t now_ms,
                          const char *text)
{
    struct snib__unsent is;
    assert_true(snib__blocking_unsent(store, at(now_ms), r, &is));
    assert_string_equal(is.text, text);
}

/* The worker that comes out gives back what it has, in any order. */
static void all_back(snib__session session, snib__answer a, int64_t now_ms)
{
    SNIB__LIST_EACH (l, &has[session]) {
        SNIB__CONTAINER(l, struct snib__request, link)->said.answer = a;
    }
    snib__blocking_returned(store, session);
    snib__blocking_done(store, at(now_ms), &has[session]);
    while (snib__list_pop(&out.answered)) {
    }
}

static void behind_a_call_that_is_answered_it_was_not_sent(void **state)
{
    (void)state;
    static struct snib__request first, r;
    first = spec(SNIB__ACQUIRE);
    r = late_one(300);
    start(&first, 0);
    assert_int_equal(take(callers, 0), 1);
    start(&r, 100);
    snib__blocking_heard(&first, at(150));
    tick(300);
    expect_text(&r, "not sent to the server for 200 ms, behind other requests "
                    "of this client");
}

static void
behind_a_call_that_is_not_answered_the_server_is_silent(void **state)
{
    (void)state;
    static struct snib__request first, r;
    first = spec(SNIB__ACQUIRE);
    r = late_one(300);
    start(&first, 0);
    assert_int_equal(take(callers, 20), 1);
    snib__blocking_sends(&first);
    start(&r, 100);
    tick(300);
    expect_text(&r, "no answer from the server for 280 ms");
}

static void in_a_call_that_answers_others_it_was_not_sent(void **state)
{
    (void)state;
    static struct snib__request first, r;
    first = spec(SNIB__ACQUIRE);
    r = late_one(300);
    start(&first, 0);
    start(&r, 0);
    assert_int_equal(take(callers, 10), 2);
    expect_unsent(&r, 300, "no answer from the server for 290 ms");
    snib__blocking_sends(&first);
    snib__blocking_heard(&first, at(200));
    expect_unsent(&r, 300,
                  "not sent to the server for 290 ms, behind other requests of "
                  "this client");
}

/* What was heard in an earlier call is no answer in this one. */
static void an_earlier_call_does_not_count(void **state)
{
    (void)state;
    static struct snib__request r;
    r = late_one(300);
    start(&r, 0);
    assert_int_equal(take(callers, 0), 1);
    snib__blocking_heard(&r, at(5));
    r.said.err = SNIB_ERR_UNREACHABLE;
    back(callers, &r, SNIB__PENDING, 10);
    tick(100);
    assert_int_equal(take(callers, 110), 1);
    expect_unsent(&r, 300, "no answer from the server for 190 ms");
}

static void no_worker_has_come_so_the_server_is_not_to_blame(void **state)
{
    (void)state;
    static struct snib__request r;
    r = late_one(300);
    start(&r, 0);
    tick(300);
    expect_text(&r, "not sent to the server for 300 ms");
}

/* Of one id nothing is executed at once, in whichever sessions. */
static void behind_one_of_its_own_id_it_was_not_sent(void **state)
{
    (void)state;
    static struct snib__request renews, r;
    renews = spec(SNIB__RENEW);
    r = of(SNIB__PARAMS, &renews);
    r.said.reterr = &error;
    r.limit = at(300);
    start(&renews, 0);
    assert_int_equal(take(background, 0), 1);
    start(&r, 100);
    tick(300);
    expect_text(&r, "not sent to the server for 200 ms, behind other requests "
                    "of this client");
}

static void
while_the_other_session_is_answered_the_server_is_not_silent(void **state)
{
    (void)state;
    static struct snib__request renews, r;
    renews = spec(SNIB__RENEW);
    r = late_one(300);
    start(&r, 0);
    assert_int_equal(take(callers, 0), 1);
    start(&renews, 100);
    execute(background, &renews, SNIB__DONE, 200);
    expect_answer(&renews, SNIB__DONE);
    expect_unsent(&r, 300, "not sent to the server for 300 ms");
}

/* A long list, one answer after the other. */
static void a_call_that_is_answered_all_along_does_not_stall(void **state)
{
    (void)state;
    static struct snib__request r[3];
    struct snib__store_state is = {0};
    for (int i = 0; i < 3; i++) {
        r[i] = spec(SNIB__RENEW);
        start(&r[i], 0);
    }
    assert_int_equal(take(background, 0), 3);
    snib__blocking_heard(&r[0], at(1500));
    snib__blocking_heard(&r[1], at(1000));
    st->state(store, at(3499), &is);
    assert_int_equal(is.err, SNIB_ERR_OK);
    st->state(store, at(3500), &is);
    assert_int_equal(is.err, SNIB_ERR_UNREACHABLE);
    assert_int_equal(is.since.ns, at(1500).ns);
    assert_string_equal(is.text, "no answer from the server for 2000 ms");
    all_back(background, SNIB__DONE, 3600);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(behind_a_call_that_is_answered_it_was_not_sent),
        CASE(behind_a_call_that_is_not_answered_the_server_is_silent),
        CASE(in_a_call_that_answers_others_it_was_not_sent),
        CASE(an_earlier_call_does_not_count),
        CASE(no_worker_has_come_so_the_server_is_not_to_blame),
        CASE(behind_one_of_its_own_id_it_was_not_sent),
        CASE(while_the_other_session_is_answered_the_server_is_not_silent),
        CASE(a_call_that_is_answered_all_along_does_not_stall),
    };
    return RUN(cases);
}

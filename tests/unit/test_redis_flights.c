/* store/redis: which line is asked for, for how long, and when it is pinged. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_session.h"

static void refused(int i)
{
    struct snib__input in = {.kind = SNIB__IN_REFUSED,
                             .conn = (uint8_t)i,
                             .bytes = "Connection refused",
                             .size = 18};
    out.conn[i]->open = false;
    ops->input(store, now, &in);
}

/* Is the line asked for within its longest rest? */
static bool asked_for(int i)
{
    for (int n = 0; n < 110 && !(out.conn[i]->open); n++) {
        pass(10);
    }
    return out.conn[i]->open;
}

/* -- keeping ---------------------------------------------------------------------- */

static void a_renewal_that_waits_asks_for_its_line_again_and_again(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__RENEW);
    rq.background = true;
    start(&rq);
    for (int i = 0; i < 20; i++) {
        assert_true(asked_for(BACKGROUND));
        refused(BACKGROUND);
        if (out.conn[CALLERS]->open) {
            refused(CALLERS);
        }
        silence();
    }
    assert_true(asked_for(BACKGROUND));
    connected(BACKGROUND);
    assert_int_equal(script_heard(BACKGROUND), SNIB__SCRIPT_RENEW);
    say(BACKGROUND, "*2\r\n:1790000000300\r\n:1\r\n");
    answered(&rq, SNIB__DONE);
}

static void a_renewal_does_not_make_the_callers_line_its_only_one(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__RENEW);
    rq.background = true;
    start(&rq);
    assert_true(out.conn[CALLERS]->open); /* whichever is up first */
    connected(CALLERS);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RENEW);
    refused(BACKGROUND);
    pass(1900);
    say(CALLERS, "*2\r\n:1790000000300\r\n:1\r\n");
    answered(&rq, SNIB__DONE);
    assert_false(out.conn[BACKGROUND]->open); /* nothing waits for it */
}

/* Whoever holds is told that the store is away only when it is. */
static void a_line_that_is_refused_beside_another_is_no_absence(void **state)
{
    (void)state;
    for (int works = CALLERS; works <= BACKGROUND; works++) {
        int other = works == CALLERS ? BACKGROUND : CALLERS;
        struct snib__request rq = request(SNIB__RENEW);
        struct snib__store_state is;
        rq.background = true;
        out.holds = true;
        start(&rq);
        connected(works);
        assert_int_equal(script_heard(works), SNIB__SCRIPT_RENEW);
        say(works, "*2\r\n:1790000000300\r\n:1\r\n");
        answered(&rq, SNIB__DONE);
        if (out.conn[other]->open) {
            refused(other);
        }
        ops->state(store, now, &is);
        assert_true(is.reachable);
        assert_int_equal(is.err, SNIB_ERR_OK);
        closed(works); /* now neither is there */
        ops->state(store, now, &is);
        assert_false(is.reachable);
        assert_int_equal(is.err, SNIB_ERR_UNREACHABLE);
        tear_down(state);
        set_up(state);
    }
}

static void lines_that_nobody_needs_are_not_asked_for(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__RENEW);
    rq.background = true;
    start(&rq);
    connected(BACKGROUND);
    assert_int_equal(script_heard(BACKGROUND), SNIB__SCRIPT_RENEW);
    refused(CALLERS);
    say(BACKGROUND, "*2\r\n:1790000000300\r\n:1\r\n");
    answered(&rq, SNIB__DONE);
    closed(BACKGROUND);
    opens_taken(&out);
    pass(60000);
    assert_int_equal(opens(&out), 0);
    assert_int_equal(ops->due(store).ns, INT64_MAX);
}

/* -- listening ------------------------------------------------------------------- */

static void a_subscription_is_asked_for_as_long_as_somebody_waits(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), c;
    let_wait(&rq);
    closed(SUBS);
    for (int i = 0; i < 5; i++) {
        assert_true(asked_for(SUBS));
        refused(SUBS);
        while (heard(CALLERS)) { /* its polls */
            say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:3\r\n:20000\r\n");
            answered(&rq, SNIB__QUEUED);
        }
    }
    c = request(SNIB__CANCEL);
    c.id[1] = rq.id[1];
    start(&c);
    while (heard(CALLERS)) {
    }
    say(CALLERS, "*1\r\n:1\r\n");
    while (snib__list_pop(&out.answered)) {
    }
    opens_taken(&out);
    pass(60000);
    assert_false(out.conn[SUBS]->open);
}

static void pong(void)
{
    assert_true(heard(SUBS));
    assert_string_equal(word[0], "PING");
    assert_false(heard(SUBS));
    say(SUBS, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
}

static void who_waits_pings_the_subscription_each_second(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    pass(999);
    assert_false(heard(SUBS));
    pass(1);
    pong();
    pass(999);
    assert_false(heard(SUBS));
    pass(1);
    pong();
}

/* One in the queue, one held off: two reasons to listen, not none. */
static void one_queued_and_one_held_off_both_need_the_subscription(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b = request(SNIB__ACQUIRE);
    let_wait(&a);
    closed(SUBS);
    b.acquire.may_queue = true;
    start(&b);
    hears_acquire(CALLERS, "0"); /* no subscription: it must not queue */
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
    assert_true(asked_for(SUBS));
    connected(SUBS);
    while (heard(CALLERS)) { /* both ask again, and are not answered */
    }
    pass(1000);
    pong();
}

static void one_held_off_alone_needs_it_too(void **state)
{
    (void)state;
    struct snib__request b = request(SNIB__ACQUIRE);
    b.acquire.may_queue = true;
    start(&b);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
    connected(SUBS);
    hears_acquire(CALLERS, "1"); /* and is not answered */
    pass(1000);
    pong();
}

/* A silent subscription is noticed by who waits: the line is cut. */
static void a_subscription_that_does_not_answer_is_cut(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    pass(1000);
    assert_true(heard(SUBS));
    for (int i = 0; i < 300 && !(out.conn[SUBS]->shut); i++) {
        pass(10);
        while (heard(CALLERS)) {
            say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:3\r\n:20000\r\n");
            answered(&rq, SNIB__QUEUED);
        }
    }
    assert_true(out.conn[SUBS]->shut);
    assert_false(out.conn[SUBS]->pushes);
}

/* -- what is told of a line that is lost -------------------------------------------- */

static char log_text[400];
static int log_level, log_lines;

static void note_log(void *data, int level, const char *text)
{
    (void)data;
    log_level = level;
    log_lines++;
    snprintf(log_text, sizeof log_text, "%s", text);
}

static void a_lost_line_is_logged_with_its_reason(void **state)
{
    struct snib__request rq = request(SNIB__ACQUIRE);
    log_lines = 0;
    out.log = note_log;
    start(&rq);
    refused(CALLERS);
    assert_int_equal(log_lines, 1);
    assert_int_equal(log_level, SNIB_LOG_WARN);
    assert_non_null(strstr(log_text, "Connection refused"));
    assert_non_null(strstr(log_text, "redis: connection for calls lost: "));
    tear_down(state);
    open_store("redis://:wrong@h");
    out.log = note_log;
    rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    say(CALLERS, "-WRONGPASS invalid\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(log_lines, 2);
    assert_int_equal(log_level, SNIB_LOG_ERROR);
    assert_non_null(strstr(log_text, "WRONGPASS"));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_renewal_that_waits_asks_for_its_line_again_and_again),
        CASE(a_renewal_does_not_make_the_callers_line_its_only_one),
        CASE(a_line_that_is_refused_beside_another_is_no_absence),
        CASE(lines_that_nobody_needs_are_not_asked_for),
        CASE(a_subscription_is_asked_for_as_long_as_somebody_waits),
        CASE(who_waits_pings_the_subscription_each_second),
        CASE(one_queued_and_one_held_off_both_need_the_subscription),
        CASE(one_held_off_alone_needs_it_too),
        CASE(a_subscription_that_does_not_answer_is_cut),
        CASE(a_lost_line_is_logged_with_its_reason),
    };
    return RUN(cases);
}

#endif

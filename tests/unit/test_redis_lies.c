/* store/redis: a server that says what no script of ours says. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_session.h"

#define NOW_MS INT64_C(1790000000300)

/* -- a place in the queue ------------------------------------------------------- */

static void queued_is_no_answer_to_who_did_not_ask_for_it(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:3\r\n:20000\r\n");
    answered(&rq, SNIB__UNKNOWN);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_int_equal(opens(&out), 0); /* no subscription for it */
    pass(PATIENCE);
    silence();
}

static void spinning_does_not_make_queued_an_answer(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.acquire.spin = true;
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:3\r\n:20000\r\n");
    answered(&rq, SNIB__UNKNOWN);
}

static void there_is_no_place_before_the_first_in_a_queue(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.acquire.may_queue = true;
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:0\r\n:0\r\n");
    answered(&rq, SNIB__UNKNOWN);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(error.text, "not one of our scripts'"));
}

/* Nobody is left without an answer, and none is told what was not said. */
static void what_is_no_answer_to_a_verb_is_unknown(void **state)
{
    (void)state;
#define CLOCK  ":1790000000300\r\n"
    static const struct {
        snib__verb verb;
        const char *reply;
    } t[] = {
        {SNIB__RENEW, "*2\r\n" CLOCK ":4\r\n"},
        {SNIB__RENEW, "*2\r\n" CLOCK ":-1\r\n"},
        {SNIB__RENEW, "*2\r\n" CLOCK ":4294967301\r\n"}, /* 5 + a slot */
        {SNIB__RENEW, "*2\r\n" CLOCK "*0\r\n"},
        {SNIB__RENEW, "*1\r\n" CLOCK},
        {SNIB__RENEW, ":1\r\n"},
        {SNIB__RELEASE, "*0\r\n"},
        {SNIB__RELEASE, "*1\r\n$1\r\n1\r\n"},
        {SNIB__RELEASE, ":1\r\n"},
        {SNIB__CANCEL, "*0\r\n"},
        {SNIB__CANCEL, "*1\r\n$1\r\n1\r\n"},
        {SNIB__FORCE, "*0\r\n"},
        {SNIB__FORCE, "*1\r\n$1\r\n1\r\n"},
        {SNIB__PARAMS, "*2\r\n:99\r\n" CLOCK},
        {SNIB__PARAMS, "*1\r\n:0\r\n"},
        {SNIB__PARAMS, "*5\r\n:0\r\n" CLOCK ":1\r\n:1\r\n:1\r\n"},
        {SNIB__PARAMS, "*3\r\n:6\r\n" CLOCK ":-1\r\n"},
        {SNIB__RECOVERY, ":1\r\n"},
        {SNIB__RECOVERY, "*2\r\n:1\r\n" CLOCK},
        {SNIB__RECOVERY, "*3\r\n:-1\r\n" CLOCK ":0\r\n"},
        {SNIB__RECOVERY, "*3\r\n:1\r\n" CLOCK "$1\r\n1\r\n"},
    };
#undef CLOCK
    struct snib__request first = request(SNIB__RELEASE);
    struct snib__buf rows;
    snib__buf_init(&rows, 1000);
    start(&first);
    connected(CALLERS);
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&first, SNIB__DONE);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib__request rq = request(t[i].verb);
        rq.said.result = &rows;
        start(&rq);
        say(CALLERS, t[i].reply);
        answered(&rq, SNIB__UNKNOWN);
        assert_int_equal(rq.said.err, SNIB_ERR_STORE);
        assert_non_null(strstr(error.text, "not one of our scripts'"));
        assert_int_equal(snib__buf_size(&rows), 0);
    }
    snib__buf_free(&rows);
}

/* The first and the last token that there is, and its neighbours. */
static void a_token_out_of_range_is_no_grant(void **state)
{
    (void)state;
    static const struct {
        int64_t token;
        snib__answer answer;
    } t[] = {{1, SNIB__DONE},
             {0, SNIB__UNKNOWN},
             {(INT64_C(1) << 53) - 1, SNIB__DONE},
             {INT64_C(1) << 53, SNIB__UNKNOWN},
             {-1, SNIB__UNKNOWN}};
    struct snib__request first = request(SNIB__RELEASE);
    start(&first);
    connected(CALLERS);
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&first, SNIB__DONE);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib__request rq = request(SNIB__ACQUIRE);
        start(&rq);
        grant_reply(CALLERS, t[i].token);
        answered(&rq, t[i].answer);
        if (t[i].answer == SNIB__DONE) {
            assert_int_equal(rq.token, t[i].token);
        } else {
            assert_int_equal(rq.said.err, SNIB_ERR_STORE);
        }
    }
}

/* -- what is no answer at all ---------------------------------------------------- */

static void repeats_of_what_was_not_understood_wait(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    struct snib_error told;
    int64_t waited = 0;
    rq.said.reterr = &told;
    start(&rq);
    connected(CALLERS);
    for (int i = 0; i < 10; i++) {
        snib_instant asked = now;
        while (!heard(CALLERS)) {
            pass(1);
        }
        waited = snib__to_ms(snib__between(asked, now));
        assert_in_range(waited, i ? 10 : 0, 1000);
        say(CALLERS, "*2\r\n:99\r\n:1790000000300\r\n");
        answered(&rq, SNIB__UNKNOWN);
        assert_int_equal(rq.said.err, SNIB_ERR_STORE);
        rq.limit = snib__after(now, snib__ms(i < 9 ? 8000 : 5));
        start(&rq);
    }
    assert_in_range(waited, 300, 1000);
    pass(5); /* it has been executed, for all that is known */
    answered(&rq, SNIB__UNKNOWN);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(told.text, "not one of our scripts'"));
}

/* The limit falls between a repeat and its answer: the cause is known. */
static void
a_repeat_that_its_limit_cuts_tells_what_was_not_understood(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    struct snib_error told;
    rq.said.reterr = &told;
    start(&rq);
    connected(CALLERS);
    while (!heard(CALLERS)) {
        pass(1);
    }
    say(CALLERS, "*2\r\n:99\r\n:1790000000300\r\n");
    answered(&rq, SNIB__UNKNOWN);
    rq.limit = snib__after(now, snib__ms(300));
    start(&rq);
    while (!heard(CALLERS)) {
        pass(1);
    }
    told.text[0] = 0;
    pass(300);
    answered(&rq, SNIB__UNKNOWN);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_int_equal(told.code, SNIB_ERR_STORE);
    assert_non_null(strstr(told.text, "not one of our scripts'"));
}

static void who_was_understood_again_repeats_at_once(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__RELEASE);
    start(&rq);
    connected(CALLERS);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    say(CALLERS, "+OK\r\n");
    answered(&rq, SNIB__UNKNOWN);
    start(&rq);
    assert_false(heard(CALLERS));
    pass(21);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&rq, SNIB__DONE);
    start(&rq);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
}

/* -- how long others hold ------------------------------------------------------- */

static uint32_t polls_within(int64_t ms, const char *reply)
{
    snib_instant until = snib__after(now, snib__ms(ms));
    uint32_t n = 0;
    for (;;) {
        snib_instant due = ops->due(store);
        if (due.ns > until.ns) {
            return n;
        }
        pass(snib__to_ms(snib__between(now, due)) + 1);
        while (heard(CALLERS)) {
            n += !strncmp(word[0], "EVAL", 4);
            say(CALLERS, reply);
        }
        while (heard(SUBS)) {
            say(SUBS, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
        }
        assert_true(n < 1000);
    }
}

static void a_holder_until_the_end_of_time_does_not_hasten_polls(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    pass(1600);
    hears_acquire(CALLERS, "1");
    static const char reply[] =
        "*4\r\n:2\r\n:1790000000300\r\n:1\r\n:9223372036854775807\r\n";
    say(CALLERS, reply);
    assert_in_range(polls_within(4000, reply), 2, 5);
    assert_in_range(snib__to_ms(rq.said.left), 1, INT64_C(172800000));
}

static void a_holder_until_the_end_of_time_does_not_end_spinning(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.acquire.spin = rq.acquire.may_queue = true;
    rq.limit = snib__after(now, snib__ms(60000));
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    static const char reply[] =
        "*3\r\n:3\r\n:1790000000300\r\n:9000000000000000000\r\n";
    say(CALLERS, reply);
    assert_in_range(polls_within(4000, reply), 5, 60);
}

/* -- grants ---------------------------------------------------------------------- */

static void a_lease_longer_than_asked_is_cut(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.lease = snib__ms(3000);
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    sayf(CALLERS, "*5\r\n:1\r\n:%lld\r\n:1000\r\n:31\r\n:990000000\r\n",
         (long long)NOW_MS);
    answered(&rq, SNIB__DONE);
    assert_int_equal(snib__to_ms(rq.said.left), 3000);
}

static void a_pushed_claim_longer_than_the_lease_is_cut(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    push(&rq, 1000, 2000000000, rq.store.sends[0].number);
    answered(&rq, SNIB__DONE);
    assert_int_equal(snib__to_ms(rq.said.left), 30000);
}

static void a_grant_at_the_end_of_time_is_not_far(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS,
        "*5\r\n:1\r\n:9223372036854775807\r\n:1000\r\n:31\r\n:3000\r\n");
    answered(&rq, SNIB__DONE);
    assert_false(rq.said.far); /* it is behind the clock, not a day ahead */
}

static void no_caller_is_told_of_a_size_that_no_semaphore_has(void **state)
{
    (void)state;
    static const char *const sizes[] = {"-9223372036854775808", "-1",
                                        "9223372036854775807"};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct snib__request rq = request(SNIB__ACQUIRE);
        start(&rq);
        if (i == 0) {
            connected(CALLERS);
        }
        hears_acquire(CALLERS, "0");
        sayf(CALLERS, "*3\r\n:6\r\n:%lld\r\n:%s\r\n", (long long)NOW_MS,
             sizes[i]);
        answered(&rq, SNIB__UNKNOWN);
        assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    }
}

static void a_clock_at_the_end_of_time_is_not_believed(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b = request(SNIB__ACQUIRE);
    start(&a);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*3\r\n:3\r\n:9223372036854775807\r\n:1000\r\n");
    answered(&a, SNIB__NO);
    start(&b);
    hears_acquire(CALLERS, "0");
    assert_int_equal(word[16][0], '1'); /* not_after: 179000001…, no minus */
    assert_int_equal(strlen(word[16]), 13);
}

/* -- looks ------------------------------------------------------------------------ */

static void inspect_of(const char *holders, const char *waiters)
{
    struct snib__request rq = request(SNIB__INSPECT);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.said.result = &rows;
    start(&rq);
    connected(CALLERS);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    sayf(CALLERS, "*5\r\n:%lld\r\n:5031\r\n:1\r\n%s%s", (long long)NOW_MS,
         holders, waiters);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(error.text, "not one of our scripts'"));
    snib__buf_free(&rows);
}

static void an_owner_that_is_a_list_is_no_holder(void **state)
{
    (void)state;
    inspect_of("*2\r\n*1\r\n:1\r\n$2\r\nab\r\n", "*0\r\n");
}

static void a_record_that_is_a_list_is_no_holder(void **state)
{
    (void)state;
    inspect_of("*2\r\n$3\r\nabc\r\n*3\r\n:1\r\n:1\r\n:1\r\n", "*0\r\n");
}

static void a_waiter_that_is_a_list_is_no_waiter(void **state)
{
    (void)state;
    inspect_of("*0\r\n",
               "*3\r\n$1\r\nr\r\n$13\r\n1790000003000\r\n*2\r\n:1\r\n:1\r\n");
}

static void rights_told_as_lists_bar_no_connection(void **state)
{
    (void)state;
    tear_down(state);
    open_store("redis://u:p@h");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    static const char list[] =
        "*2\r\n*2\r\n*1\r\n$28\r\nNOPERM no permissions to run\r\n:1\r\n"
        ":0\r\n";
    while (heard(CALLERS)) {
        say(CALLERS, !strcmp(word[0], "AUTH")       ? "+OK\r\n"
                     : !strncmp(word[0], "EVAL", 4) ? list
                     : !strcmp(word[0], "SET")      ? "$-1\r\n"
                     : !strcmp(word[0], "GET")      ? "$1\r\n2\r\n"
                                                    : TIME_REPLY);
        if (shuts(&out)) {
            fail_msg("the connection was given up");
        }
        if (!strcmp(word[0], "TIME")) {
            break;
        }
    }
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(queued_is_no_answer_to_who_did_not_ask_for_it),
        CASE(what_is_no_answer_to_a_verb_is_unknown),
        CASE(a_token_out_of_range_is_no_grant),
        CASE(repeats_of_what_was_not_understood_wait),
        CASE(a_repeat_that_its_limit_cuts_tells_what_was_not_understood),
        CASE(who_was_understood_again_repeats_at_once),
        CASE(spinning_does_not_make_queued_an_answer),
        CASE(there_is_no_place_before_the_first_in_a_queue),
        CASE(a_holder_until_the_end_of_time_does_not_hasten_polls),
        CASE(a_holder_until_the_end_of_time_does_not_end_spinning),
        CASE(a_lease_longer_than_asked_is_cut),
        CASE(a_pushed_claim_longer_than_the_lease_is_cut),
        CASE(a_grant_at_the_end_of_time_is_not_far),
        CASE(no_caller_is_told_of_a_size_that_no_semaphore_has),
        CASE(a_clock_at_the_end_of_time_is_not_believed),
        CASE(an_owner_that_is_a_list_is_no_holder),
        CASE(a_record_that_is_a_list_is_no_holder),
        CASE(a_waiter_that_is_a_list_is_no_waiter),
        CASE(rights_told_as_lists_bar_no_connection),
    };
    return RUN(cases);
}
#endif

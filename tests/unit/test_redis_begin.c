/* tests/unit/test_redis_begin.c — ?recovery=: whose greeting begins a recovery, and whose does not; and
 * who looks without it. What the scripts do then is live.redis_epoch's. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_epoch.h"

#include "base/record.h"

/* They ask, and are answered that the connection is refused: that is enough. */
static void greets_as(struct snib__request *rq, const char *wish)
{
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq->said.result = &rows;
    rq->once = true;
    start(rq);
    hears_epoch(CALLERS, wish);
    say(CALLERS, "-SNIBRECOVERY no\r\n");
    answered(rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq->said.err, SNIB_ERR_CONFIG);
    snib__buf_free(&rows);
}

static void who_only_looks_begins_none(void **state)
{
    static const snib__verb looks_by[] = {
        SNIB__INSPECT, SNIB__LIST, SNIB__DOCTOR, SNIB__RECOVERY, SNIB__PARAMS};
    for (size_t k = 0; k < COUNT_OF(looks_by); k++) {
        tear_down(state);
        (void)set_up_recovery(state);
        struct snib__request rq = request(looks_by[k]);
        bool of_a_lock = rq.verb == SNIB__INSPECT || rq.verb == SNIB__PARAMS;
        rq.name = of_a_lock ? rq.name : NULL;
        rq.params.op = SNIB__PARAMS_GET;
        greets_as(&rq, "0");
    }
}

static void who_wants_a_lock_or_changes_one_begins_it(void **state)
{
    static const snib__verb verbs[] = {SNIB__ACQUIRE, SNIB__RELEASE,
                                       SNIB__CANCEL, SNIB__FORCE, SNIB__PARAMS};
    for (size_t k = 0; k < COUNT_OF(verbs); k++) {
        tear_down(state);
        (void)set_up_recovery(state);
        struct snib__request rq =
            verbs[k] == SNIB__ACQUIRE ? asked() : request(verbs[k]);
        rq.params.op = SNIB__PARAMS_SIZE;
        greets_as(&rq, "begin");
    }
}

/* Nobody has begun one, so the script that is to let somebody in does nothing:
 * that, and not the look, begins it. */
static void who_looked_first_begins_it_when_it_wants_a_lock(void **state)
{
    (void)state;
    struct snib__request look = request(SNIB__INSPECT), rq;
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    look.said.result = &rows;
    start(&look);
    hears_epoch(CALLERS, "0");
    say(CALLERS, EPOCH_AHEAD TIME_REPLY);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    say(CALLERS, "*6\r\n:1790000000000\r\n:5031\r\n:0\r\n*0\r\n*0\r\n"
                 "*2\r\n:-1\r\n:-1\r\n");
    answered(&look, SNIB__DONE);
    snib__buf_free(&rows);
    rq = asked();
    start(&rq);
    hears_acquire(CALLERS, "0");
    say(CALLERS,
        "-SNIBEPOCH the server was restarted, replaced or emptied\r\n");
    anew(CALLERS, "begin");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
}

/* A number that was mistyped was never served. */
static void who_was_served_or_holds_says_so(void **state)
{
    struct snib__request rq = asked();
    out.holds = true;
    greets_as(&rq, "known");
    tear_down(state);
    (void)set_up_recovery(state);
    rq = request(SNIB__INSPECT);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.said.result = &rows;
    start(&rq);
    looks(CALLERS);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    say(CALLERS, "-SNIBEPOCH x\r\n");
    anew(CALLERS, "0"); /* it is served, and looks all the same */
    say(CALLERS, "*6\r\n:1790000000000\r\n:5031\r\n:0\r\n*0\r\n*0\r\n"
                 "*2\r\n:-1\r\n:-1\r\n");
    answered(&rq, SNIB__DONE);
    snib__buf_free(&rows);
    rq = asked();
    start(&rq);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "-SNIBEPOCH x\r\n");
    anew(CALLERS, "known");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
}

/* -- who looks without it ----------------------------------------------------------- */

#define EMPTY                                                                  \
    ":1790000000000\r\n:5031\r\n:0\r\n*0\r\n*0\r\n*2\r\n:-1\r\n:-1\r\n"
#define DENIED "-NOPERM No permissions to access a key\r\n"

static void hears_inspect(bool epoch)
{
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    assert_int_equal(words, 3 + 6 + 2 + 2 * epoch);
    if (epoch) {
        assert_string_equal(word[9], "snib:epoch");
        assert_string_equal(word[12], "0");
    }
}

static void who_looks_without_it_sees_a_recovery_too(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__INSPECT);
    struct snib__buf rows;
    struct snib__rec r;
    int64_t left = 0;
    snib__buf_init(&rows, 10000);
    rq.said.result = &rows;
    start(&rq);
    connected(CALLERS);
    hears_inspect(true);
    say(CALLERS, "*8\r\n" EMPTY ":0\r\n:2500\r\n");
    answered(&rq, SNIB__DONE);
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    assert_true(snib__rec_next_row(&r));
    while (snib__rec_next_field(&r)) {
        left = r.field == SNIB__F_LEFT ? snib__rec_value_i64(&r) : left;
    }
    assert_int_equal(left, 2500);
    snib__buf_free(&rows);
}

static void who_may_not_read_the_epoch_looks_without_it(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) { /* each time: it may be of the lock's keys */
        struct snib__request rq = request(SNIB__INSPECT);
        struct snib__buf rows;
        snib__buf_init(&rows, 10000);
        rq.said.result = &rows;
        start(&rq);
        if (k == 0) {
            connected(CALLERS);
        }
        hears_inspect(true);
        say(CALLERS, DENIED);
        hears_inspect(false);
        say(CALLERS, k ? DENIED : "*6\r\n" EMPTY);
        answered(&rq, k ? SNIB__NOT_APPLIED : SNIB__DONE);
        assert_int_equal(rq.said.err, k ? SNIB_ERR_DENIED : SNIB_ERR_OK);
        snib__buf_free(&rows);
    }
}

static void list_of(bool awaited_only)
{
    struct snib__request rq = request(SNIB__LIST);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.name = NULL;
    rq.list.awaited_only = awaited_only;
    rq.said.result = &rows;
    start(&rq);
    if (!awaited_only) {
        connected(CALLERS);
    }
    for (int k = awaited_only; k < 2; k++) {
        assert_true(heard(CALLERS));
        assert_string_equal(word[0], "SCAN");
        say(CALLERS, "*2\r\n$1\r\n0\r\n*2\r\n$10\r\nsnib:{a}:a\r\n"
                     "$10\r\nsnib:{b}:a\r\n");
        hears_inspect(k == 0);
        hears_inspect(k == 0);
        for (int n = 0; n < 2; n++) {
            say(CALLERS, k ? "*6\r\n" EMPTY : DENIED);
        }
    }
    answered(&rq, SNIB__DONE);
    snib__buf_free(&rows);
}

/* The search for deadlocks does not look at it. */
static void so_does_a_list_and_who_searches_for_deadlocks(void **state)
{
    (void)state;
    list_of(false);
    list_of(true);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up_recovery, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(who_only_looks_begins_none),
        T(who_wants_a_lock_or_changes_one_begins_it),
        T(who_looked_first_begins_it_when_it_wants_a_lock),
        T(who_was_served_or_holds_says_so),
        CASE(who_looks_without_it_sees_a_recovery_too),
        CASE(who_may_not_read_the_epoch_looks_without_it),
        CASE(so_does_a_list_and_who_searches_for_deadlocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif

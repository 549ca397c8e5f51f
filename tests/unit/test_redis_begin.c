/* tests/unit/test_redis_begin.c — ?recovery=: whose greeting begins a recovery, and whose does not. What
 * the script does then is live.redis_epoch's. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_epoch.h"

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

#define T(f) cmocka_unit_test_setup_teardown(f, set_up_recovery, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(who_only_looks_begins_none),
        T(who_wants_a_lock_or_changes_one_begins_it),
        T(who_looked_first_begins_it_when_it_wants_a_lock),
        T(who_was_served_or_holds_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif

/* tests/unit/test_redis_replicas.c — ?replicas=: what follows a grant and a renewal on the wire, and
 * when they are told. What becomes of exclusion is the simulator's (--replicas); real servers are
 * live.redis_replicas'. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_replicas.h"

/* One reply after the other, and half of one. */
static void a_grant_is_told_when_the_replicas_have_it(void **state)
{
    (void)state;
    struct snib__request rq;
    asks(&rq);
    grant_reply(CALLERS, 1000);
    silence();
    say(CALLERS, ":1\r\n:2\r\n$54\r\nmaster_repl");
    silence();
    say(CALLERS, "id:" LIFE "\r\n");
    answered(&rq, SNIB__DONE);
}

static void a_grant_counts_from_when_it_was_sent(void **state)
{
    (void)state;
    struct snib__request rq;
    asks(&rq);
    snib_instant sent = now;
    pass(20);
    grant_reply(CALLERS, 1000);
    pass(20);
    silence();
    says_acks(CALLERS, 2, LIFE);
    answered(&rq, SNIB__DONE);
    assert_int_equal(rq.token, 1000);
    assert_int_equal(rq.said.valid_from.ns, sent.ns);
}

static void a_grant_that_too_few_have_is_unknown_and_says_why(void **state)
{
    (void)state;
    struct snib__request rq;
    lacks_a_replica(&rq);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_true(rq.store.unconfirmed);
    assert_non_null(strstr(error.text,
                           "1 of the 2 replicas that replicas= asks for have "
                           "acknowledged it within "));
    assert_false(out.conn[CALLERS]->shut);
}

static void what_another_life_acknowledges_does_not_count(void **state)
{
    (void)state;
    struct snib__request rq;
    asks(&rq);
    grant_reply(CALLERS, 1000);
    says_acks(CALLERS, 2, OTHER);
    answered(&rq, SNIB__UNKNOWN);
    assert_string_equal(
        error.text, "the server was restarted, replaced or emptied meanwhile");
    assert_true(out.conn[CALLERS]->shut);
}

/* The mark is gone, so nothing was written that could be acknowledged. */
static void without_a_write_nothing_counts(void **state)
{
    (void)state;
    struct snib__request rq;
    stays_unknown(&rq, ":0\r\n:2\r\n" INFO_OF_LIFE);
    assert_true(out.conn[CALLERS]->shut);
}

static void a_right_to_wait_that_is_missing_is_told(void **state)
{
    (void)state;
    struct snib__request rq;
    stays_unknown(&rq, ":1\r\n-NOPERM this user has no permissions to run the "
                       "'wait' command\r\n" INFO_OF_LIFE);
    assert_true(out.conn[CALLERS]->shut);
    refuses_the_next(SNIB_ERR_DENIED, "'wait'");
}

static void
a_server_that_takes_no_writes_for_a_while_keeps_its_connection(void **state)
{
    (void)state;
    struct snib__request rq;
    stays_unknown(&rq, "-NOREPLICAS Not enough good replicas to write.\r\n"
                       ":2\r\n" INFO_OF_LIFE);
    assert_non_null(strstr(error.text, "NOREPLICAS"));
    assert_false(out.conn[CALLERS]->shut);
}

static void what_gathers_meanwhile_goes_with_the_next_wait(void **state)
{
    (void)state;
    struct snib__request rq, more[2];
    asks(&rq);
    for (int k = 0; k < 2; k++) {
        more[k] = asked();
        start(&more[k]);
        assert_false(heard(CALLERS));
    }
    grant_reply(CALLERS, 1000);
    says_acks(CALLERS, 2, LIFE);
    answered(&rq, SNIB__DONE);
    hears_acquire(CALLERS, "0");
    hears_acquire(CALLERS, "0");
    hears_confirm(CALLERS);
    grant_reply(CALLERS, 2000);
    grant_reply(CALLERS, 3000);
    says_acks(CALLERS, 2, LIFE);
    answered(&more[0], SNIB__DONE);
    answered(&more[1], SNIB__DONE);
}

static void a_renewal_that_too_few_have_is_none(void **state)
{
    (void)state;
    struct snib__request rq, held;
    holds(&rq);
    held = renewal();
    renews(&held, CALLERS);
    say(CALLERS, RENEWED);
    silence();
    says_acks(CALLERS, 1, LIFE);
    answered(&held, SNIB__UNKNOWN);
    assert_int_equal(held.said.valid_from.ns, 0);
    assert_non_null(strstr(error.text, "1 of the 2 replicas"));
}

/* What is not ours here may be ours at the primary of now, or another's. Of
 * permits 5 and the slot are told. */
static void whatever_a_renewal_is_told_needs_them(void **state)
{
    (void)state;
    struct snib__request rq, held;
    static const struct {
        int code;
        snib__answer answer;
        bool forgotten;
        uint32_t slot;
    } t[] = {{2, SNIB__NO, true, 0},
             {0, SNIB__NO, false, 0},
             {5 + 3, SNIB__DONE, false, 3}};
    holds(&rq);
    for (int k = 0; k < 2 * (int)COUNT_OF(t); k++) {
        int acks = 1 + k % 2;
        held = renewal();
        renews(&held, CALLERS);
        sayf(CALLERS, "*2\r\n:1790000000300\r\n:%d\r\n", t[k / 2].code);
        says_acks(CALLERS, acks, LIFE);
        answered(&held, acks == 2 ? t[k / 2].answer : SNIB__UNKNOWN);
        assert_int_equal(held.said.forgotten, acks == 2 && t[k / 2].forgotten);
        if (acks == 2) {
            assert_int_equal(held.said.slot, t[k / 2].slot);
        } else {
            assert_int_equal(held.said.valid_from.ns, 0);
        }
    }
}

/* What asks is three flights more than what is asked for. */
static void goes_of_any_length_keep_their_order(void **state)
{
    (void)state;
    enum { MOST = 34 };
    struct snib__request rq[MOST];
    for (int count = 11; count <= MOST; count++) {
        for (int k = 0; k < count; k++) {
            rq[k] = asked();
            start(&rq[k]);
            if (k == 0) { /* the others gather behind it */
                if (count == 11) {
                    greeted(CALLERS);
                }
                hears_asked("0");
            }
        }
        grant_reply(CALLERS, 1);
        says_acks(CALLERS, 2, LIFE);
        for (int k = 1; k < count; k++) {
            hears_acquire(CALLERS, "0");
            grant_reply(CALLERS, k + 1);
        }
        hears_confirm(CALLERS);
        says_acks(CALLERS, 2, LIFE);
        for (int k = 0; k < count; k++) {
            answered(&rq[k], SNIB__DONE);
            assert_int_equal(rq[k].token, k + 1);
        }
    }
}

static void a_greeting_without_an_id_is_no_life(void **state)
{
    (void)state;
    struct snib__request rq = asked();
    start(&rq);
    greeted_in(CALLERS, "");
    hears_asked("0");
    grant_reply(CALLERS, 1000);
    says_acks(CALLERS, 2, LIFE);
    answered(&rq, SNIB__UNKNOWN);
    assert_true(out.conn[CALLERS]->shut);
}

/* Well before the silence of the server would be noticed. */
static void the_server_waits_for_an_eighth_of_the_patience(void **state)
{
    (void)state;
    static const char *const urls[] = {"redis://h?recovery=30s&replicas=2",
                                       "redis://h?recovery=600ms&replicas=2"};
    static const char *const ms[] = {"250", "150"};
    for (size_t k = 0; k < COUNT_OF(urls); k++) {
        struct snib__request rq;
        tear_down(state);
        open_store(urls[k]);
        rq = asked();
        start(&rq);
        opened(CALLERS);
        while (heard(CALLERS)) {
        }
        say(CALLERS, HELLO_REPLY LAYOUT_REPLY
            "*5\r\n:1790000000000\r\n:0\r\n:1790000030000\r\n:0\r\n$"
            "1\r\nx\r\n" TIME_REPLY);
        hears_acquire(CALLERS, "0");
        assert_true(heard(CALLERS) && heard(CALLERS));
        assert_string_equal(word[0], "WAIT");
        assert_string_equal(word[2], ms[k]);
    }
}

/* The two connections lead to two primaries. */
static void
where_too_few_acknowledge_beside_another_primary_it_is_left(void **state)
{
    (void)state;
    struct snib__request held;
    renews_at_another(&held);
    says_acks(BACKGROUND, 1, OTHER);
    answered(&held, SNIB__UNKNOWN);
    assert_true(out.conn[BACKGROUND]->shut);
    assert_false(out.conn[CALLERS]->shut);
}

static void a_release_waits_for_no_replica(void **state)
{
    (void)state;
    struct snib__request rq, rel;
    holds(&rq);
    rel = request(SNIB__RELEASE);
    rel.token = 1000;
    start(&rel);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    assert_false(heard(CALLERS));
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&rel, SNIB__DONE);
}

/* A look tells the life of the server, too; and both say how many replicas. */
static void a_look_and_an_end_by_hand_bring_the_number_along(void **state)
{
    (void)state;
    struct snib__request look = request(SNIB__INSPECT), end;
    struct snib__buf rows;
    struct snib__rec r;
    int64_t missing = 0;
    snib__buf_init(&rows, 10000);
    look.said.result = &rows;
    start(&look);
    greeted_as(CALLERS, "0", LIFE);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    assert_string_equal(word[words - 1], "0030000");
    assert_false(heard(CALLERS)); /* nothing to confirm */
    say(CALLERS, "*10\r\n:1790000000000\r\n:5031\r\n:0\r\n*0\r\n*0\r\n"
                 "*2\r\n:-1\r\n:-1\r\n:0\r\n:30000\r\n:1\r\n:2\r\n");
    answered(&look, SNIB__DONE);
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    assert_true(snib__rec_next_row(&r));
    while (snib__rec_next_field(&r)) {
        missing =
            r.field == SNIB__F_MISSING ? snib__rec_value_i64(&r) : missing;
    }
    assert_int_equal(missing, 2);
    end = request(SNIB__RECOVERY);
    end.name = NULL;
    end.said.result = &rows;
    end.params.op = SNIB__PARAMS_OPEN;
    end.params.amount = -1790000000000;
    start(&end);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_EPOCH);
    assert_string_equal(word[5], "0030000");
    assert_string_equal(word[6], "-1790000000000");
    say(CALLERS, "-SNIBREPLICAS 1 of the 2 replicas that replicas= asks for "
                 "are connected: without them the server lets nobody in\r\n");
    answered(&end, SNIB__NOT_APPLIED);
    assert_int_equal(end.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(error.text, "1 of the 2 replicas"));
    snib__buf_free(&rows);
}

static void its_number_is_read_or_refused(void **state)
{
    (void)state;
    static const struct {
        const char *query, *why; /* NULL: it is read */
    } t[] = {{"recovery=30s&replicas=1", NULL},
             {"recovery=30s&replicas=8", NULL},
             {"recovery=30s&replicas=0", "1 to 8"},
             {"recovery=30s&replicas=9", "1 to 8"},
             {"recovery=30s&replicas=12", "1 to 8"},
             {"recovery=30s&replicas=", "1 to 8"},
             {"recovery=30s&replicas=all", "1 to 8"},
             {"replicas=1", "goes with recovery="}};
    for (size_t k = 0; k < COUNT_OF(t); k++) {
        snib_duration most;
        struct snib_error e;
        snib_err err = url_opens(t[k].query, &most, &e);
        assert_int_equal(err, t[k].why ? SNIB_ERR_USAGE : SNIB_ERR_OK);
        if (err) {
            assert_non_null(strstr(e.text, t[k].why));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_grant_is_told_when_the_replicas_have_it),
        T(a_grant_counts_from_when_it_was_sent),
        T(a_grant_that_too_few_have_is_unknown_and_says_why),
        T(what_another_life_acknowledges_does_not_count),
        T(without_a_write_nothing_counts),
        T(a_right_to_wait_that_is_missing_is_told),
        T(a_server_that_takes_no_writes_for_a_while_keeps_its_connection),
        T(what_gathers_meanwhile_goes_with_the_next_wait),
        T(a_renewal_that_too_few_have_is_none),
        T(whatever_a_renewal_is_told_needs_them),
        T(goes_of_any_length_keep_their_order),
        T(a_greeting_without_an_id_is_no_life),
        T(the_server_waits_for_an_eighth_of_the_patience),
        T(where_too_few_acknowledge_beside_another_primary_it_is_left),
        T(a_release_waits_for_no_replica),
        T(a_look_and_an_end_by_hand_bring_the_number_along),
        cmocka_unit_test(its_number_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif

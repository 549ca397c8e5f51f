/* tests/unit/test_redis_repeats.c — ?replicas=: what is asked again, and when: for want of an
 * acknowledgement, and because a message named a grant. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_replicas.h"

/* It is asked again under its id, and its limit comes first. */
static void a_repeat_without_an_answer_says_what_was_before(void **state)
{
    (void)state;
    struct snib__request rq;
    lacks_a_replica(&rq);
    rq.resent = true;
    rq.limit = snib__after(now, snib__ms(200));
    start(&rq);
    pass(20);
    hears_asked("0");
    grant_reply(CALLERS, 1000);
    pass(179);
    silence();
    pass(1);
    answered(&rq, SNIB__UNKNOWN);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(error.text, "1 of the 2 replicas"));
    says_acks(CALLERS, 2, LIFE); /* it comes too late, and to nobody */
    silence();
}

/* The script that asks writes nothing, and the replicas are well: neither takes
 * any time. */
static void what_is_asked_where_writes_are_refused_pauses(void **state)
{
    (void)state;
    struct snib__request rq, held;
    holds(&rq);
    held = renewal();
    held.renew.only_asks = true;
    renews(&held, CALLERS);
    for (int k = 0; k < 3; k++) {
        say(CALLERS, RENEWED);
        say(CALLERS, "-MISCONF x\r\n:2\r\n" INFO_OF_LIFE);
        answered(&held, SNIB__UNKNOWN);
        assert_non_null(strstr(error.text, "MISCONF"));
        held.resent = true;
        start(&held);
        pass(9);
        assert_false(heard(CALLERS));
        pass(11);
        assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RENEW);
        hears_confirm(CALLERS);
    }
    say(CALLERS, RENEWED);
    says_acks(CALLERS, 2, LIFE);
    answered(&held, SNIB__DONE);
}

/* Its limit comes in that pause. */
static void a_repeat_that_pauses_says_what_was_before(void **state)
{
    (void)state;
    struct snib__request rq;
    lacks_a_replica(&rq);
    rq.resent = true;
    rq.limit = snib__after(now, snib__ms(5));
    start(&rq);
    pass(5);
    answered(&rq, SNIB__UNKNOWN);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(error.text, "1 of the 2 replicas"));
}

/* A repeat that was not sent has not been applied. */
static void a_repeat_that_was_kept_back_says_that(void **state)
{
    (void)state;
    struct snib__request rq, other = asked();
    lacks_a_replica(&rq);
    start(&other);
    hears_acquire(CALLERS, "0");
    rq.resent = true;
    rq.limit = snib__after(now, snib__ms(200));
    start(&rq);
    pass(200);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_null(strstr(error.text, "replicas"));
}

/* What was answered since is no more the reason. */
static void a_place_or_a_grant_ends_what_was_before(void **state)
{
    (void)state;
    struct snib__request rq;
    waits(&rq);
    push(&rq, 1000, 3000, rq.store.sends[0].number);
    hears_asked("1");
    for (int acks = 1; acks <= 2; acks++) {
        grant_reply(CALLERS, 1000);
        says_acks(CALLERS, acks, LIFE);
        answered(&rq, acks == 1 ? SNIB__UNKNOWN : SNIB__DONE);
        rq.resent = true;
        start(&rq);
        pass(acks == 1 ? 20 : 0); /* after a grant at once */
        hears_asked("1");
    }
    grant_reply(CALLERS, 1000);
    says_acks(CALLERS, 1, LIFE);
    answered(&rq, SNIB__UNKNOWN);
    rq.limit = snib__after(now, snib__ms(1900));
    start(&rq);
    pass(20);
    hears_asked("1");
    keeps_its_place(&rq);
    pass(1600);
    hears_acquire(CALLERS, "1");
    pass(280);
    answered(&rq, SNIB__UNKNOWN);
    assert_null(strstr(error.text, "replicas"));
}

/* No WAIT stands behind a message: it is a hint to ask. */
static void a_pushed_grant_is_asked_for(void **state)
{
    (void)state;
    struct snib__request rq;
    waits(&rq);
    push(&rq, 1000, 3000, rq.store.sends[0].number);
    silence();
    hears_asked("1");
    grant_reply(CALLERS, 1000);
    silence();
    says_acks(CALLERS, 2, LIFE);
    answered(&rq, SNIB__DONE);
    assert_int_equal(rq.token, 1000);
}

/* The poll under way may have been executed before that grant. */
static void a_message_during_a_poll_has_it_asked_again(void **state)
{
    (void)state;
    struct snib__request rq;
    waits(&rq);
    pass(1600);
    hears_asked("1");
    push(&rq, 1000, 3000, rq.store.sends[0].number);
    keeps_its_place(&rq);
    pass(10);
    hears_asked("1");
    keeps_its_place(&rq);
    pass(900); /* once */
    assert_false(heard(CALLERS));
}

/* Of a send before this one. */
static void an_old_message_hastens_no_repeat(void **state)
{
    (void)state;
    struct snib__request rq;
    waits(&rq);
    pass(1600);
    hears_acquire(CALLERS, "1");
    push(&rq, 1000, 3000, rq.store.sends[0].number);
    closed(CALLERS);
    answered(&rq, SNIB__UNKNOWN);
    rq.resent = true;
    start(&rq);
    pass(20);
    greeted_in(CALLERS, LIFE);
    hears_asked("1");
    keeps_its_place(&rq);
    pass(900);
    assert_false(heard(CALLERS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_repeat_without_an_answer_says_what_was_before),
        T(what_is_asked_where_writes_are_refused_pauses),
        T(a_repeat_that_pauses_says_what_was_before),
        T(a_repeat_that_was_kept_back_says_that),
        T(a_place_or_a_grant_ends_what_was_before),
        T(a_pushed_grant_is_asked_for),
        T(a_message_during_a_poll_has_it_asked_again),
        T(an_old_message_hastens_no_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif

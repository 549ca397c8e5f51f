/* tests/unit/test_redis_confirm.c — ?replicas=, while a WAIT is out and where it does not stand: who
 * asks next, what a primary that was replaced says, what is refused. What is told when is
 * test_redis_replicas.c's. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_replicas.h"

/* -- while a WAIT is out ------------------------------------------------------- */

/* Others of the client keep the connection busy: each WAIT that ends finds the
 * next acquire gathered. */
static void who_waits_asks_with_the_next_wait(void **state)
{
    (void)state;
    struct snib__request rq, more[2];
    waits(&rq);
    more[0] = asked();
    start(&more[0]);
    hears_asked("0");
    push(&rq, 1000, 3000, rq.store.sends[0].number);
    more[1] = asked();
    start(&more[1]);
    assert_true(snib__between(now, ops->due(store)).ns > 100000000);
    pass(20);
    assert_false(heard(CALLERS));
    grant_reply(CALLERS, 2000);
    says_acks(CALLERS, 2, LIFE);
    answered(&more[0], SNIB__DONE);
    hears_acquire(CALLERS, "1");
    assert_string_equal(word[12], hex_of(&rq));
    hears_acquire(CALLERS, "0");
    hears_confirm(CALLERS);
    grant_reply(CALLERS, 1000);
    grant_reply(CALLERS, 3000);
    says_acks(CALLERS, 2, LIFE);
    answered(&rq, SNIB__DONE);
    answered(&more[1], SNIB__DONE);
}

/* Each poll is asked for once, and a pause follows. */
static void a_poll_that_found_no_room_is_sent_once(void **state)
{
    (void)state;
    struct snib__request rq, other = asked();
    waits(&rq);
    start(&other);
    hears_asked("0");
    pass(1600); /* its poll was due */
    grant_reply(CALLERS, 2000);
    says_acks(CALLERS, 2, LIFE);
    answered(&other, SNIB__DONE);
    hears_asked("1");
    keeps_its_place(&rq);
    pass(900);
    assert_false(heard(CALLERS));
}

/* The connection may never be without a WAIT. */
static void a_new_login_goes_behind_a_wait(void **state)
{
    (void)state;
    struct snib_login login = {.user = "u", .password = "p", .valid_ms = 5000};
    struct snib__input in = {
        .kind = SNIB__IN_LOGIN, .conn = CALLERS, .login = &login};
    struct snib__request rq;
    asks(&rq);
    ((struct snib__redis *)(void *)store)->session[CALLERS].asked = true;
    ops->input(store, now, &in);
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "AUTH");
    grant_reply(CALLERS, 1000);
    says_acks(CALLERS, 2, LIFE);
    answered(&rq, SNIB__DONE);
    say(CALLERS, "+OK\r\n");
    assert_false(out.conn[CALLERS]->shut);
    assert_int_equal(out.conn[CALLERS]->awaited, 0);
}

/* -- a primary that was replaced ------------------------------------------------ */

/* The callers' connection is of before, and idle. It would be believed that the
 * grant is ended, or was stolen. */
static void a_release_goes_where_replicas_acknowledge(void **state)
{
    (void)state;
    struct snib__request held, rel;
    renews_at_another(&held);
    assert_false(out.conn[CALLERS]->shut);
    says_acks(BACKGROUND, 2, OTHER);
    answered(&held, SNIB__DONE);
    assert_true(out.conn[CALLERS]->shut);
    assert_false(out.conn[BACKGROUND]->shut);
    rel = request(SNIB__RELEASE);
    rel.token = 1000;
    start(&rel);
    assert_int_equal(script_heard(BACKGROUND), SNIB__SCRIPT_RELEASE);
}

static void that_an_upgrade_is_over_needs_them_too(void **state)
{
    (void)state;
    for (int acks = 1; acks <= 2; acks++) {
        struct snib__request rq = asked();
        rq.acquire.upgrade_of[0] = 5;
        start(&rq);
        if (acks == 1) {
            greeted(CALLERS);
        }
        hears_asked("0");
        say(CALLERS, "*2\r\n:7\r\n:1790000000300\r\n");
        says_acks(CALLERS, acks, LIFE);
        answered(&rq, acks == 1 ? SNIB__UNKNOWN : SNIB__NO);
        assert_int_equal(rq.said.err,
                         acks == 1 ? SNIB_ERR_STORE : SNIB_ERR_LOST);
    }
}

/* -- giving up ------------------------------------------------------------------- */

static void cancels(struct snib__request *cancel,
                    const struct snib__request *rq)
{
    *cancel = request(SNIB__CANCEL);
    cancel->id[0] = rq->id[0];
    cancel->id[1] = rq->id[1];
    start(cancel);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_CANCEL);
}

/* Who gives up is told that it has passed, so that is a grant. */
static void
a_barrier_that_opened_needs_them_though_who_came_gives_up(void **state)
{
    (void)state;
    struct snib__request rq, cancel;
    lacks_a_replica(&rq);
    cancels(&cancel, &rq);
    hears_confirm(CALLERS);
    say(CALLERS, "*2\r\n:2\r\n:1000\r\n");
    silence();
    says_acks(CALLERS, 1, LIFE);
    answered(&cancel, SNIB__UNKNOWN);
    assert_int_equal(cancel.said.granted, 0);
    assert_non_null(strstr(error.text, "1 of the 2 replicas"));
    cancels(&cancel, &rq);
    hears_confirm(CALLERS);
    say(CALLERS, "*2\r\n:2\r\n:1000\r\n");
    says_acks(CALLERS, 2, LIFE);
    answered(&cancel, SNIB__DONE);
    assert_int_equal(cancel.said.granted, 1000);
}

/* A place in a queue is no grant, and of a mutex nobody has passed. */
static void other_ends_need_none(void **state)
{
    (void)state;
    static const struct {
        snib_kind kind;
        const char *reply;
        bool asks;
    } t[] = {{SNIB_KIND_BARRIER, "*1\r\n:1\r\n", true},
             {SNIB_KIND_READ, "*1\r\n:3\r\n", true},
             {SNIB_KIND_MUTEX, "*2\r\n:2\r\n:1000\r\n", false},
             {SNIB_KIND_PERMITS, "*1\r\n:1\r\n", false}};
    for (size_t k = 0; k < COUNT_OF(t); k++) {
        struct snib__request rq = asked(), cancel;
        rq.acquire.kind = t[k].kind;
        start(&rq);
        if (k == 0) {
            greeted(CALLERS);
        }
        hears_asked("0");
        cancel = request(SNIB__CANCEL);
        cancel.id[0] = rq.id[0];
        cancel.id[1] = rq.id[1];
        start(&cancel);
        answered(&rq, SNIB__UNKNOWN);
        grant_reply(CALLERS, 1000);
        says_acks(CALLERS, 0, LIFE);
        assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_CANCEL);
        if (t[k].asks) {
            hears_confirm(CALLERS);
        }
        assert_false(heard(CALLERS));
        say(CALLERS, t[k].reply);
        if (t[k].asks) {
            says_acks(CALLERS, 0, LIFE);
        }
        answered(&cancel, SNIB__DONE);
    }
}

/* -- what is no number, and too much --------------------------------------------------- */

static void a_number_that_none_can_be_is_not_shown(void **state)
{
    (void)state;
    static const char *const said[] = {"-5", "4611686018427387904"};
    static const bool stands[] = {false, true};
    for (size_t k = 0; k < COUNT_OF(said); k++) {
        struct snib__request rq = asked();
        start(&rq);
        if (k == 0) {
            greeted(CALLERS);
        }
        hears_asked("0");
        grant_reply(CALLERS, 1000);
        sayf(CALLERS, ":1\r\n:%s\r\n$54\r\nmaster_replid:%s\r\n", said[k],
             LIFE);
        answered(&rq, stands[k] ? SNIB__DONE : SNIB__UNKNOWN);
        if (!stands[k]) {
            assert_true(!strncmp(error.text, "0 of the 2 replicas", 19));
        }
    }
}

/* 18 MB. It is not for want of memory. */
static void too_much_that_comes_meanwhile_is_told(void **state)
{
    (void)state;
    enum { MANY = 20, SIZE = 900000 };
    static struct snib__request rq[MANY];
    static char reply[SIZE + 1];
    int said = 0;
    memset(reply, 'x', SIZE);
    memcpy(reply, "$899989\r\n", 9);
    memcpy(reply + SIZE - 2, "\r\n", 2);
    for (int k = 0; k < MANY; k++) {
        rq[k] = asked();
        start(&rq[k]);
    }
    greeted(CALLERS);
    while (heard(CALLERS)) {
    }
    for (; said < MANY && !out.conn[CALLERS]->shut; said++) {
        silence();
        say(CALLERS, reply);
    }
    assert_int_equal(said, 19); /* 16 MiB are 18 of them, and a part        */
    for (int k = 0; k < MANY; k++) {
        answered(&rq[k], SNIB__UNKNOWN);
    }
    assert_string_equal(error.text, "more came while replicas were waited for "
                                    "than is kept");
}

/* -- what refuses writes ------------------------------------------------------------ */

/* A proxy, for one. Without that it would be connected anew again and again. */
static void a_server_without_wait_is_told_and_left_alone(void **state)
{
    (void)state;
    struct snib__request rq;
    stays_unknown(&rq, ":1\r\n-ERR unknown command 'WAIT', with args "
                       "beginning with: '2'\r\n" INFO_OF_LIFE);
    assert_true(out.conn[CALLERS]->shut);
    refuses_the_next(SNIB_ERR_CONFIG,
                     "replicas= asks for WAIT, which this server, or a proxy, "
                     "does not know: ERR unknown command 'WAIT'");
    pass(1000);
    assert_false(out.conn[CALLERS]->open);
}

/* Both are refused, and the first for a while only. */
static void what_is_refused_for_good_counts_beside_what_passes(void **state)
{
    (void)state;
    struct snib__request rq;
    stays_unknown(&rq, "-MISCONF x\r\n-NOPERM User u has no permissions to "
                       "run the 'wait' command\r\n-NOPERM User u has no "
                       "permissions to run the 'info' command\r\n");
    refuses_the_next(SNIB_ERR_DENIED, "'wait'");
}

static void what_passes_by_itself_cuts_nothing(void **state)
{
    (void)state;
    struct snib__request rq;
    stays_unknown(&rq, "-BUSY Redis is busy\r\n:2\r\n" INFO_OF_LIFE);
    assert_non_null(strstr(error.text, "BUSY"));
    assert_false(out.conn[CALLERS]->shut);
}

/* It was demoted while WAIT was out: it may be asked again at once. */
static void other_refusals_of_wait_bar_nothing(void **state)
{
    (void)state;
    struct snib__request rq;
    stays_unknown(&rq, ":1\r\n-UNBLOCKED force unblock from blocking "
                       "operation, instance state changed (master -> "
                       "replica?)\r\n" INFO_OF_LIFE);
    assert_true(out.conn[CALLERS]->shut);
    closed(CALLERS);
    rq = asked();
    start(&rq);
    silence();
    pass(20);
    opened(CALLERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(who_waits_asks_with_the_next_wait),
        T(a_poll_that_found_no_room_is_sent_once),
        T(a_new_login_goes_behind_a_wait),
        T(a_release_goes_where_replicas_acknowledge),
        T(that_an_upgrade_is_over_needs_them_too),
        T(a_barrier_that_opened_needs_them_though_who_came_gives_up),
        T(other_ends_need_none),
        T(a_number_that_none_can_be_is_not_shown),
        T(too_much_that_comes_meanwhile_is_told),
        T(a_server_without_wait_is_told_and_left_alone),
        T(what_is_refused_for_good_counts_beside_what_passes),
        T(what_passes_by_itself_cuts_nothing),
        T(other_refusals_of_wait_bar_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif

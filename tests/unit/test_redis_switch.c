/* tests/unit/test_redis_switch.c — another server becomes the primary, and
 * store/redis follows it. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_topology.h"

static void a_switch_moves_all_connections_at_once(void **state)
{
    (void)state;
    struct snib__request rq = granted_at("10.0.0.7", "10.0.0.7:6379");
    struct snib__request renewal = request(SNIB__RENEW), more;
    renewal.id[0] = rq.id[0];
    renewal.id[1] = rq.id[1];
    renewal.token = rq.token;
    renewal.background = true;
    start(&renewal);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RENEW);
    connected(BACKGROUND);
    publishes("svc 10.0.0.7 6379 10.0.0.8 6380");
    assert_true(out.moved);
    out.moved = false;
    assert_true(out.conn[CALLERS]->shut);
    assert_true(out.conn[BACKGROUND]->shut);
    assert_false(out.conn[WATCH]->shut);
    answered(&renewal, SNIB__UNKNOWN);
    assert_string_equal(error.text, "the primary is now 10.0.0.8:6380");
    /* What the old one still says counts for nothing. */
    say(CALLERS, "*2\r\n:1790000000300\r\n:1\r\n");
    silence();
    start(&renewal);
    closed(CALLERS);
    closed(BACKGROUND);
    opens_to(BACKGROUND, "10.0.0.8:6380");
    connected(BACKGROUND);
    assert_int_equal(script_heard(BACKGROUND), SNIB__SCRIPT_RENEW);
    say(BACKGROUND, "*2\r\n:1790000000300\r\n:2\r\n");
    answered(&renewal, SNIB__NO);
    assert_true(renewal.said.forgotten);
    more = request(SNIB__ACQUIRE);
    start(&more);
    opens_to(CALLERS, "10.0.0.8:6380");
}

static void who_waits_asks_the_new_primary_by_the_same_id(void **state)
{
    (void)state;
    struct snib__request held = granted_at("a", "a:6379");
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    char id[33];
    snprintf(id, sizeof id, "%s", hex_of(&rq));
    publishes("svc a 6379 b 6379");
    silence(); /* it has its position, and that may be at the new one       */
    assert_true(out.conn[SUBS]->shut);
    closed(SUBS);
    closed(CALLERS);
    pass(1);
    opens_to(CALLERS, "b:6379");
    connected(CALLERS);
    hears_acquire(CALLERS, "1");
    assert_string_equal(word[12], id);
    opens_to(SUBS, "b:6379");
    grant_reply(CALLERS, 2000);
    answered(&rq, SNIB__DONE);
    assert_true(rq.token > held.token);
}

static void messages_about_others_are_passed_over(void **state)
{
    static const char *const odd[] = {"other 10.0.0.7 6379 10.0.0.8 6380",
                                      "svc 10.0.0.7 6379 10.0.0.8 x",
                                      "svc 10.0.0.7 6379 10.0.0.8 0",
                                      "svc 10.0.0.7 6379 10.0.0.8 999999",
                                      "svc 10.0.0.7 6379 10.0.0.8",
                                      "svc 10.0.0.7 6379  6380",
                                      "svcc 10.0.0.7 6379 10.0.0.8 6380",
                                      "svc 10.0.0.7 6379 10.0.0.8/ 6380",
                                      "",
                                      " "};
    (void)state;
    granted_at("10.0.0.7", "10.0.0.7:6379");
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        publishes(odd[i]);
    }
    say(WATCH, "*3\r\n$7\r\nmessage\r\n$5\r\n+sdow\r\n$33\r\n"
               "svc 10.0.0.7 6379 10.0.0.8 6380 x\r\n");
    publishes("svc 10.0.0.6 6379 10.0.0.7 6379"); /* it is there already    */
    assert_false(out.moved);
    assert_false(shuts(&out));
}

/* A server that closes a connection may have been demoted. */
static void a_lost_connection_has_the_next_sentinel_asked(void **state)
{
    (void)state;
    granted_at("10.0.0.7", "10.0.0.7:6379");
    struct snib__request rq = request(SNIB__ACQUIRE);
    closed(CALLERS);
    start(&rq);
    left();
    assert_false(out.conn[CALLERS]->open);
    asked("s2:5");
    names("10.0.0.7", 6379); /* it was not                                  */
    assert_false(out.moved);
    pass(20);
    opens_to(CALLERS, "10.0.0.7:6379");
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    assert_false(out.moved);
}

static void a_read_only_primary_has_the_next_sentinel_asked(void **state)
{
    (void)state;
    granted_at("10.0.0.7", "10.0.0.7:6379");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "-READONLY You can't write against a read only replica.\r\n");
    assert_true(out.conn[CALLERS]->shut);
    closed(CALLERS);
    left();
    asked("s2:5");
    names("10.0.0.8", 6379);
    assert_true(out.moved);
    pass(200);
    opens_to(CALLERS, "10.0.0.8:6379");
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    silence();
}

/* Who has replica-serve-stale-data no says so of itself while it has not caught
 * up with the new primary. */
static void a_primary_that_became_a_replica_is_left(void **state)
{
    (void)state;
    granted_at("10.0.0.7", "10.0.0.7:6379");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "-MASTERDOWN Link with MASTER is down and "
                 "replica-serve-stale-data is set to 'no'.\r\n");
    assert_true(out.conn[CALLERS]->shut);
    closed(CALLERS);
    left();
    asked("s2:5");
    names("10.0.0.8", 6379);
    pass(200);
    opens_to(CALLERS, "10.0.0.8:6379");
    silence();
}

/* Meanwhile it had the data of another server. */
static void a_primary_that_was_a_replica_is_another_one(void **state)
{
    for (int greets = 0; greets < 2; greets++) {
        tear_down(state);
        with_sentinels(state);
        granted_at("a", "a:6379");
        struct snib__request rq = request(SNIB__ACQUIRE);
        start(&rq);
        hears_acquire(CALLERS, "0");
        if (greets) {
            closed(CALLERS);
            answered(&rq, SNIB__UNKNOWN);
            start(&rq);
        } else {
            say(CALLERS, "-READONLY x\r\n");
            closed(CALLERS);
        }
        for (int k = 0; k < 2; k++) {
            left();
            asked(k ? "s3:26379" : "s2:5");
            names("a", 6379);
            assert_false(out.moved);
            pass(200);
            opens_to(CALLERS, "a:6379");
            if (greets && k == 0) {
                opened(CALLERS);
                say(CALLERS, REPLICA_HELLO);
                say(CALLERS,
                    LAYOUT_REPLY "-NOPERM x\r\n" TIME_REPLY "-NOPERM x\r\n");
                while (heard(CALLERS)) {
                }
                closed(CALLERS);
            } else {
                break;
            }
        }
        connected(CALLERS);
        assert_true(out.moved);
        hears_acquire(CALLERS, "0");
        out.moved = false;
        closed(CALLERS);
        answered(&rq, SNIB__UNKNOWN);
        start(&rq); /* and now it is the same one again                     */
        left();
        asked(greets ? "s1:26379" : "s3:26379");
        names("a", 6379);
        pass(200);
        connected(CALLERS);
        assert_false(out.moved);
    }
}

/* It began anew under the same address before anybody called it dead. */
static void a_primary_that_was_restarted_is_known_by_its_run_id(void **state)
{
    static const struct {
        const char *id;
        bool other;
    } v[] = {{"run_id:aaa", false}, {"run_id:aaa", false}, {"run_id:b", true}};
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    for (size_t k = 0; k < COUNT_OF(v); k++) {
        static const char *const address[] = {"s1:26379", "s2:5", "s3:26379"};
        asked(address[k]);
        names("a", 6379);
        pass(40);
        opened(CALLERS);
        hears_hello(CALLERS);
        hears_layout_and_time(CALLERS);
        say(CALLERS, HELLO_REPLY LAYOUT_REPLY);
        sayf(CALLERS, "$%zu\r\n%s\r\n", strlen(v[k].id), v[k].id);
        say(CALLERS, TIME_REPLY);
        assert_int_equal(out.moved, v[k].other);
        hears_acquire(CALLERS, "0");
        closed(CALLERS);
        answered(&rq, SNIB__UNKNOWN);
        start(&rq);
        left();
    }
}

/* The store has ?replicas=1. */
static void greeted_with_replicas(void)
{
    opens_to(CALLERS, "a:6379");
    opened(CALLERS);
    while (heard(CALLERS)) {
    }
    say(CALLERS, HELLO_REPLY LAYOUT_REPLY
        "*5\r\n:1790000000000\r\n:0\r\n:1790000030000\r\n:0\r\n$1\r\nx\r\n"
        "-NOPERM x\r\n" TIME_REPLY);
}

static void asks_with_replicas(void **state, struct snib__request *rq)
{
    tear_down(state);
    open_store(SENTINELS "?recovery=30s&replicas=1");
    *rq = request(SNIB__ACQUIRE);
    start(rq);
    asked("s1:26379");
    names("a", 6379);
    greeted_with_replicas();
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    while (heard(CALLERS)) {
    }
}

/* A primary that was replaced goes on, and no connection breaks. */
static void too_few_acknowledgements_have_the_next_sentinel_asked(void **state)
{
    struct snib__request rq;
    asks_with_replicas(state, &rq);
    say(CALLERS, ":1\r\n:1\r\n$15\r\nmaster_replid:x\r\n");
    answered(&rq, SNIB__DONE);
    assert_false(out.conn[WATCH]->shut);
    out.holds = true;
    start(&rq);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    say(CALLERS, ":1\r\n:0\r\n$15\r\nmaster_replid:x\r\n");
    answered(&rq, SNIB__UNKNOWN);
    left();
    asked("s2:5");
    names("b", 6379);
    assert_true(out.moved);
    assert_true(out.conn[CALLERS]->shut);
    assert_false(out.conn[WATCH]->shut);
}

/* It was demoted behind the script, so only the write before WAIT meets that. */
static void a_primary_that_was_a_replica_meanwhile_is_another_one(void **state)
{
    struct snib__request rq;
    asks_with_replicas(state, &rq);
    say(CALLERS, "-READONLY x\r\n:0\r\n$15\r\nmaster_replid:x\r\n");
    answered(&rq, SNIB__UNKNOWN);
    assert_true(out.conn[CALLERS]->shut);
    closed(CALLERS);
    start(&rq);
    left();
    asked("s2:5");
    names("a", 6379);
    assert_false(out.moved);
    pass(200);
    greeted_with_replicas();
    assert_true(out.moved);
}

/* The pause was for the sake of somebody to listen to. */
static void in_doubt_the_next_sentinel_is_asked_at_once(void **state)
{
    (void)state;
    granted_at("a", "a:6379");
    closed(WATCH);
    for (int k = 0; k < 5; k++) {
        while (!out.conn[WATCH]->open) {
            pass(1);
        }
        refused(WATCH);
    }
    struct snib__request rq = request(SNIB__ACQUIRE);
    assert_false(out.conn[WATCH]->open);
    start(&rq);
    hears_acquire(CALLERS, "0");
    closed(CALLERS);
    assert_true(out.conn[WATCH]->open);
}

/* Renewals may go to the new one while no caller does. */
static void the_primary_is_shown_whoever_is_connected(void **state)
{
    (void)state;
    struct snib__server is = {0};
    granted_at("a", "a:6379");
    publishes("svc a 6379 b 6379");
    assert_true(ops->server(store, now, 0, &is));
    assert_string_equal(is.address, "b:6379");
}

/* Who is told of another server is told when that one has answered. */
static void another_server_that_answers_is_told(void **state)
{
    (void)state;
    ((struct snib__redis *)(void *)store)->watch = true;
    struct snib__request rq = request(SNIB__ACQUIRE);
    for (int k = 0; k < 2; k++) {
        rq = request(SNIB__ACQUIRE);
        start(&rq);
        if (k == 0) {
            asked("s1:26379");
            names("10.0.0.7", 6379);
        } else {
            publishes("svc 10.0.0.7 6379 10.0.0.8 6379");
            closed(CALLERS);
            pass(1);
        }
        assert_false(out.changed);
        opened(CALLERS);
        hears_hello(CALLERS);
        say(CALLERS, HELLO_REPLY LAYOUT_REPLY "$0\r\n\r\n" TIME_REPLY);
        assert_int_equal(out.changed, k == 1);
        while (heard(CALLERS)) {
        }
    }
}

/* The primary is dead, and all say that it is the primary. */
static void nobody_is_asked_in_a_loop(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.limit = snib__after(now, snib__ms(20000));
    int asks = 0, connects = 0;
    start(&rq);
    while (!snib__reached(now, rq.limit)) {
        if (out.conn[WATCH]->shut) {
            closed(WATCH);
        } else if (out.conn[WATCH]->open) {
            opened(WATCH);
            say(WATCH, SENTINEL_HELLO "-NOPERM x\r\n");
            names("10.0.0.7", 6379);
            asks++;
        } else if (out.conn[CALLERS]->open) {
            refused(CALLERS);
            connects++;
        } else {
            pass(1);
        }
    }
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text,
                        "no connection to 10.0.0.7:6379: Connection refused; "
                        "no primary is known at the moment: the Sentinels "
                        "still name 10.0.0.7:6379");
    assert_in_range(connects, 15, 60);
    assert_in_range(asks, 15, 60);
}

/* One Sentinel may be behind: a try is not refused before all were asked. */
static void a_try_outlives_a_sentinel_that_is_behind(void **state)
{
    (void)state;
    struct snib__request rq = once();
    start(&rq);
    asked("s1:26379");
    names("10.0.0.7", 6379);
    refused(CALLERS);
    silence();
    left();
    asked("s2:5");
    names("10.0.0.8", 6379);
    opens_to(CALLERS, "10.0.0.8:6379");
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
}

/* While it connects another primary is named: that was no attempt. */
static void a_try_outlives_a_switch(void **state)
{
    tear_down(state);
    open_store("redis+sentinel://s1/svc");
    struct snib__request rq = once();
    start(&rq);
    asked("s1:26379");
    names("a", 6379);
    out.conn[CALLERS]->open = false; /* it takes its time                    */
    publishes("svc a 6379 b 6379");
    silence();
    closed(CALLERS);
    opens_to(CALLERS, "b:6379");
    refused(CALLERS);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_string_equal(error.text,
                        "no connection to b:6379: Connection refused; no "
                        "primary is known at the moment: the Sentinels still "
                        "name b:6379");
}

static void a_silent_sentinel_is_noticed_while_something_is_held(void **state)
{
    (void)state;
    struct snib__request rq = granted_at("10.0.0.7", "10.0.0.7:6379");
    (void)rq;
    pass(WATCH_PING_MS);
    assert_true(heard(WATCH));
    assert_string_equal(word[0], "PING");
    say(WATCH, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    pass(WATCH_PING_MS);
    assert_true(heard(WATCH));
    pass(PATIENCE + PATIENCE / 10);
    left();
    assert_false(out.conn[CALLERS]->shut); /* that one works                */
    pass(20);
    opens_to(WATCH, "s2:5");
}

/* -- releases that the new primary may lack (ended.c) ------------------------ */

/* It was granted at a. The release is done there. */
static void released_at_a(struct snib__request *rq)
{
    rq->verb = SNIB__RELEASE;
    start(rq);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    say(CALLERS, "*1\r\n:1\r\n");
    answered(rq, SNIB__DONE);
    out.holds = false;
}

static void b_is_promoted(void)
{
    publishes("svc a 6379 b 6379");
    closed(CALLERS);
}

static void connected_to_b(void)
{
    pass(20);
    opens_to(CALLERS, "b:6379");
    connected(CALLERS);
}

/* renew: words 3, 4 keys, 5 client, then request, token, lease of each */
static void hears_question_for(const struct snib__request *rq)
{
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RENEW);
    assert_string_equal(word[0], "EVAL");
    assert_int_equal(words, 9);
    assert_string_equal(word[3], "snib:{n}");
    assert_string_equal(word[6], hex_of(rq));
    assert_string_equal(word[8], "0"); /* it writes nothing */
}

static void a_release_that_the_new_primary_lacks_is_done_there(void **state)
{
    (void)state;
    struct snib__request rq = granted_at("a", "a:6379"), next;
    released_at_a(&rq);
    b_is_promoted();
    next = request(SNIB__ACQUIRE);
    start(&next);
    connected_to_b();
    hears_question_for(&rq);
    hears_acquire(CALLERS, "0"); /* behind it, in the same write */
    say(CALLERS, "*2\r\n:1790000000300\r\n:1\r\n");
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_CANCEL);
    assert_string_equal(word[3], "snib:{n}");
    assert_string_equal(word[12], hex_of(&rq));
    grant_reply(CALLERS, 2000);
    answered(&next, SNIB__DONE);
    say(CALLERS, "*2\r\n:2\r\n:1000\r\n");
    silence(); /* and nobody is told of it */
    assert_false(out.conn[CALLERS]->shut);
}

static void a_release_that_the_new_primary_has_costs_a_question(void **state)
{
    static const char *const says[] = {":0\r\n", ":2\r\n", ":3\r\n",
                                       "$9\r\nREVOKED x\r\n", "$1\r\n1\r\n"};
    for (size_t k = 0; k < COUNT_OF(says); k++) {
        tear_down(state);
        with_sentinels(state);
        struct snib__request rq = granted_at("a", "a:6379");
        released_at_a(&rq);
        b_is_promoted();
        connected_to_b();
        hears_question_for(&rq);
        sayf(CALLERS, "*2\r\n:1790000000300\r\n%s", says[k]);
        assert_false(heard(CALLERS));
        silence();
    }
}

/* A cancelled request was granted; an acquire has ended the grant before it. */
static void other_ends_are_asked_for_as_releases_are(void **state)
{
    for (int granted = 0; granted < 2; granted++) {
        tear_down(state);
        with_sentinels(state);
        struct snib__request rq = granted_at("a", "a:6379"), ends;
        ends = request(granted ? SNIB__ACQUIRE : SNIB__CANCEL);
        if (granted) {
            ends.prior_id[0] = rq.id[0];
            ends.prior_id[1] = rq.id[1];
            ends.token = rq.token;
        } else {
            ends.id[1] = rq.id[1];
        }
        start(&ends);
        assert_int_equal(script_heard(CALLERS),
                         granted ? SNIB__SCRIPT_ACQUIRE : SNIB__SCRIPT_CANCEL);
        if (granted) {
            grant_reply(CALLERS, 2000);
        } else {
            say(CALLERS, "*2\r\n:2\r\n:1000\r\n");
        }
        answered(&ends, SNIB__DONE);
        out.holds = false;
        b_is_promoted();
        connected_to_b();
        hears_question_for(&rq);
    }
}

/* It holds nothing and asks for nothing more: others wait. */
static void who_has_released_connects_for_that_alone(void **state)
{
    (void)state;
    struct snib__request rq = granted_at("a", "a:6379");
    released_at_a(&rq);
    b_is_promoted();
    connected_to_b();
    hears_question_for(&rq);
    closed(CALLERS); /* before it was answered */
    left();
    asked("s2:5");
    names("b", 6379);
    connected_to_b();
    hears_question_for(&rq);
    say(CALLERS, "*2\r\n:1790000000300\r\n:2\r\n");
}

static void an_old_release_is_not_asked_for(void **state)
{
    (void)state;
    struct snib__request rq = granted_at("a", "a:6379"), next;
    released_at_a(&rq);
    pass(ENDED_MS);
    b_is_promoted();
    pass(20);
    assert_false(out.conn[CALLERS]->open);
    next = request(SNIB__ACQUIRE);
    start(&next);
    connected_to_b();
    hears_acquire(CALLERS, "0");
}

/* The latest ones are asked for, RENEWALS_MAX in a call. */
static void so_many_releases_are_asked_for_and_no_more(void **state)
{
    (void)state;
    struct snib__request rq = granted_at("a", "a:6379");
    for (int k = 0; k < ENDED_MAX + 10; k++) {
        rq.id[1] = next_id++;
        released_at_a(&rq);
    }
    b_is_promoted();
    connected_to_b();
    for (int k = 0; k < ENDED_MAX / RENEWALS_MAX; k++) {
        assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RENEW);
        assert_string_equal(word[0], k ? "EVALSHA" : "EVAL");
        assert_int_equal(words, 3 + 2 * RENEWALS_MAX + 1 + 3 * RENEWALS_MAX);
    }
    assert_false(heard(CALLERS));
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        SENTINEL_CASE(a_switch_moves_all_connections_at_once),
        SENTINEL_CASE(who_waits_asks_the_new_primary_by_the_same_id),
        SENTINEL_CASE(messages_about_others_are_passed_over),
        SENTINEL_CASE(a_lost_connection_has_the_next_sentinel_asked),
        SENTINEL_CASE(a_read_only_primary_has_the_next_sentinel_asked),
        SENTINEL_CASE(a_primary_that_became_a_replica_is_left),
        SENTINEL_CASE(a_primary_that_was_a_replica_is_another_one),
        SENTINEL_CASE(a_primary_that_was_restarted_is_known_by_its_run_id),
        SENTINEL_CASE(too_few_acknowledgements_have_the_next_sentinel_asked),
        SENTINEL_CASE(a_primary_that_was_a_replica_meanwhile_is_another_one),
        SENTINEL_CASE(in_doubt_the_next_sentinel_is_asked_at_once),
        SENTINEL_CASE(the_primary_is_shown_whoever_is_connected),
        SENTINEL_CASE(another_server_that_answers_is_told),
        SENTINEL_CASE(nobody_is_asked_in_a_loop),
        SENTINEL_CASE(a_try_outlives_a_sentinel_that_is_behind),
        SENTINEL_CASE(a_try_outlives_a_switch),
        SENTINEL_CASE(a_silent_sentinel_is_noticed_while_something_is_held),
        SENTINEL_CASE(a_release_that_the_new_primary_lacks_is_done_there),
        SENTINEL_CASE(a_release_that_the_new_primary_has_costs_a_question),
        SENTINEL_CASE(other_ends_are_asked_for_as_releases_are),
        SENTINEL_CASE(who_has_released_connects_for_that_alone),
        SENTINEL_CASE(an_old_release_is_not_asked_for),
        SENTINEL_CASE(so_many_releases_are_asked_for_and_no_more),
    };
    return RUN(cases);
}

#endif

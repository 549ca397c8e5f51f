/* tests/unit/test_redis_topology.c — store/redis finds the primary among several
 * servers: asked of Sentinels, or of the servers of a list. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_topology.h"

/* -- Sentinels ------------------------------------------------------------------ */

static void all_are_reached_through_tls_or_none(void **state)
{
    static const struct {
        const char *url;
        snib__transport transport;
    } v[] = {{"rediss+sentinel://a,b/svc", SNIB__TLS},
             {"rediss://a,b", SNIB__TLS},
             {SENTINELS, SNIB__PLAIN},
             {LIST, SNIB__PLAIN}};
    for (size_t k = 0; k < COUNT_OF(v); k++) {
        tear_down(state);
        open_store(v[k].url);
        for (int i = 0; i < SESSIONS_MOST; i++) {
            assert_int_equal(out.conn[i]->transport, v[k].transport);
        }
    }
}

static void a_sentinel_names_the_primary(void **state)
{
    (void)state;
    struct snib__server is = {0};
    struct snib__request rq = request(SNIB__ACQUIRE);
    assert_int_equal(out.conns, SESSIONS_MOST);
    start(&rq);
    assert_true(ops->server(store, now, 0, &is));
    assert_string_equal(is.address, "");
    is = (struct snib__server){0};
    assert_false(out.conn[CALLERS]->open);
    asked("s1:26379");
    say(WATCH, "*2\r\n$8\r\n10.0.0.7\r\n$4\r\n6380\r\n");
    assert_false(out.conn[CALLERS]->open); /* a switch could be missed      */
    say(WATCH, SUBSCRIBED);
    assert_true(out.conn[WATCH]->pushes);
    assert_false(out.conn[WATCH]->shut);
    opens_to(CALLERS, "10.0.0.7:6380");
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    assert_false(out.moved);
    assert_true(ops->server(store, now, 0, &is));
    assert_string_equal(is.address, "10.0.0.7:6380");
}

static void an_address_of_ipv6_has_brackets(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    asked("s1:26379");
    names("fe80::7", 6379);
    opens_to(CALLERS, "[fe80::7]:6379");
}

static void the_next_sentinel_is_asked_where_one_fails(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opens_to(WATCH, "s1:26379");
    refused(WATCH);
    asked("s2:5");
    pass(PATIENCE / QUIET_PART); /* it does not answer                      */
    left();
    asked("s3:26379");
    names("10.0.0.7", 6379);
    opens_to(CALLERS, "10.0.0.7:6379");
    silence();
}

static void one_that_does_not_connect_is_not_waited_for_long(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opens_to(WATCH, "s1:26379");
    out.conn[WATCH]->open = false;
    pass(PATIENCE / QUIET_PART - 1);
    assert_false(out.conn[WATCH]->shut);
    pass(1);
    left();
    opens_to(WATCH, "s2:5");
}

static void where_none_answers_it_is_told_and_tried_again(void **state)
{
    (void)state;
    static const char text[] = "none of the 3 Sentinels answers; no connection "
                               "to s1:26379: Connection refused";
    struct snib__request try = once(), rq = request(SNIB__ACQUIRE);
    struct snib__store_state is = {.nodes = 1};
    rq.limit = snib__after(now, snib__ms(900));
    start(&rq);
    start(&try);
    for (int k = 0; k < 3; k++) {
        silence();
        refused(WATCH);
    }
    answered(&try, SNIB__NOT_APPLIED);
    assert_int_equal(try.said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text, text);
    ops->state(store, now, &is);
    assert_false(is.reachable);
    assert_string_equal(is.text, text);
    silence();
    assert_false(out.conn[WATCH]->open); /* after a pause                   */
    int rounds = 0;
    while (!snib__reached(now, rq.limit)) {
        pass(1);
        for (; out.conn[WATCH]->open; rounds++) {
            refused(WATCH);
        }
    }
    assert_in_range(rounds, 3 * 4, 3 * 8); /* 20 ms, doubling               */
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text, text);
}

#define NO_SERVICE                                                             \
    "this Sentinel knows no service svc: the name is what stands in its line " \
    "sentinel monitor"

static void a_service_that_none_knows_is_told_at_once(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), next;
    rq.acquire.may_queue = true;
    start(&rq);
    asked("s1:26379");
    say(WATCH, "*-1\r\n");
    left();
    silence();
    refused(WATCH); /* s2 */
    asked("s3:26379");
    say(WATCH, "*-1\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
    assert_string_equal(error.text, "s1:26379: " NO_SERVICE);
    left();
    next = request(SNIB__ACQUIRE); /* nor is it asked again at once         */
    start(&next);
    assert_false(out.conn[WATCH]->open);
    answered(&next, SNIB__NOT_APPLIED);
    assert_int_equal(next.said.err, SNIB_ERR_CONFIG);
}

static void a_service_that_another_one_knows_is_served(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    asked("s1:26379");
    say(WATCH, "*-1\r\n");
    left();
    asked("s2:5");
    names("10.0.0.7", 6379);
    opens_to(CALLERS, "10.0.0.7:6379");
    silence();
}

static void what_is_no_answer_is_not_believed(void **state)
{
    static const char *const odd[] = {"*2\r\n$0\r\n\r\n$4\r\n6379\r\n",
                                      "*2\r\n$1\r\na\r\n$1\r\n0\r\n",
                                      "*2\r\n$1\r\na\r\n$5\r\n65536\r\n",
                                      "*2\r\n$3\r\na b\r\n$1\r\n1\r\n",
                                      "*2\r\n$1\r\n/\r\n$1\r\n1\r\n",
                                      "*2\r\n:1\r\n:1\r\n",
                                      "*1\r\n$1\r\na\r\n",
                                      "*0\r\n",
                                      "*2\r\n$1\r\na\r\n$1\r\nx\r\n",
                                      "*2\r\n$2\r\n\x01z\r\n$1\r\n1\r\n",
                                      "+OK\r\n",
                                      ":1\r\n",
                                      "-ERR what?\r\n"};
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        tear_down(state);
        with_sentinels(state);
        struct snib__request rq = request(SNIB__ACQUIRE);
        start(&rq);
        asked("s1:26379");
        say(WATCH, odd[i]);
        left();
        assert_false(out.conn[CALLERS]->open);
        opens_to(WATCH, "s2:5");
    }
}

static void who_is_no_sentinel_is_told_so(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(WATCH);
    say(WATCH, HELLO_REPLY);
    left();
    refused(WATCH);
    refused(WATCH);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
    assert_string_equal(error.text,
                        "s1:26379: this is no Sentinel but a server: give the "
                        "addresses of the Sentinels (their port is 26379 as a "
                        "rule), or write redis: for redis+sentinel:");
}

static void the_sentinels_have_a_login_of_their_own(void **state)
{
    tear_down(state);
    open_store("redis+sentinel://u:data@s1/svc?sentinel_user=w&"
               "sentinel_password=watch");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(WATCH);
    hears_hello(WATCH);
    assert_int_equal(words, 5);
    assert_string_equal(word[3], "w");
    assert_string_equal(word[4], "watch");
    say(WATCH, SENTINEL_HELLO "-NOPERM x\r\n");
    names("a", 1);
    opened(CALLERS);
    hears_hello(CALLERS);
    assert_int_equal(words, 5);
    assert_string_equal(word[3], "u");
    assert_string_equal(word[4], "data");
}

static void a_login_that_the_sentinels_refuse_is_denied(void **state)
{
    tear_down(state);
    open_store("redis+sentinel://s1,s2/svc?sentinel_password=no");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(WATCH);
    hears_hello(WATCH);
    assert_string_equal(word[3], "default");
    say(WATCH, "-WRONGPASS invalid username-password pair\r\n");
    left();
    opened(WATCH);
    say(WATCH, "-WRONGPASS invalid username-password pair\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
    assert_string_equal(error.text,
                        "s1:26379: WRONGPASS: the server refuses this user or "
                        "this password");
}

static void a_login_that_the_sentinels_miss_is_told(void **state)
{
    tear_down(state);
    open_store("redis+sentinel://:data@s1/svc");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(WATCH);
    say(WATCH, "-NOAUTH HELLO must be called with the client already "
               "authenticated\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
    assert_string_equal(error.text,
                        "s1:26379: NOAUTH: this Sentinel asks for a login: put "
                        "sentinel_password= into the URL, and sentinel_user= "
                        "if it has users");
}

static void who_does_not_know_hello_is_too_old(void **state)
{
    static const char *const urls[] = {"redis+sentinel://s1/svc",
                                       "redis://s1:26379,s1:26379"};
    for (size_t k = 0; k < COUNT_OF(urls); k++) {
        tear_down(state);
        open_store(urls[k]);
        struct snib__request rq = request(SNIB__ACQUIRE);
        start(&rq);
        opened(WATCH);
        say(WATCH, "-ERR unknown command `HELLO`, with args beginning with: "
                   "`2`, \r\n");
        answered(&rq, SNIB__NOT_APPLIED);
        assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
        assert_non_null(strstr(error.text, "s1:26379: "));
        assert_non_null(strstr(error.text, "older than Redis 6.2"));
    }
}

/* Where locks were served before, one that was set up anew ends nobody's wait
 * while others do not answer. */
static void a_service_that_one_has_forgotten_is_waited_for(void **state)
{
    (void)state;
    granted_at("a", "a:6379");
    struct snib__request rq = request(SNIB__ACQUIRE);
    closed(CALLERS);
    start(&rq);
    left();
    refused(WATCH); /* s2 */
    refused(WATCH); /* s3 */
    asked("s1:26379");
    say(WATCH, "*-1\r\n");
    left();
    silence();
    pass(20);
    asked("s2:5");
    names("b", 6379);
    opens_to(CALLERS, "b:6379");
}

/* A Sentinel that is behind names a host that is gone. */
static void a_host_that_does_not_exist_has_the_next_one_asked(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    struct snib__input gone = {.kind = SNIB__IN_REFUSED,
                               .conn = CALLERS,
                               .bytes = "no such host",
                               .size = 12,
                               .hopeless = true};
    start(&rq);
    for (int k = 1; k <= 3; k++) {
        asked(k == 2 ? "s2:5" : k == 1 ? "s1:26379" : "s3:26379");
        silence();
        names("gone", 6379);
        pass(40);
        opens_to(CALLERS, "gone:6379");
        out.conn[CALLERS]->open = false;
        ops->input(store, now, &gone);
        if (k < 3) {
            left();
        }
    }
    answered(&rq, SNIB__NOT_APPLIED); /* all of them name it                */
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text, "no connection to gone:6379: no such host");
}

/* The address is a hint: the server's own role decides. */
static void a_replica_that_was_named_is_asked_for_nothing(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    asked("s1:26379"); /* it is behind */
    names("10.0.0.7", 6379);
    opened(CALLERS);
    hears_hello(CALLERS);
    hears_layout_and_time(CALLERS);
    say(CALLERS, REPLICA_HELLO LAYOUT_REPLY "-NOPERM x\r\n" TIME_REPLY);
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "ROLE");
    assert_false(heard(CALLERS));
    say(CALLERS, "*3\r\n$5\r\nslave\r\n$8\r\n10.0.0.8\r\n:6379\r\n");
    assert_true(out.conn[CALLERS]->shut);
    closed(CALLERS);
    left();
    asked("s2:5");
    names("10.0.0.8", 6379);
    opens_to(CALLERS, "10.0.0.8:6379");
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    silence();
}

/* -- another primary ------------------------------------------------------------- */

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
    assert_string_equal(word[11], id);
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
                        "no connection to 10.0.0.7:6379: Connection refused");
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
                        "no connection to b:6379: Connection refused");
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

/* -- a list ------------------------------------------------------------------------ */

static void the_servers_of_a_list_are_asked_for_their_roles(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    tells_role("h1:6379", REPLICA_HELLO);
    tells_role("h2:5", HELLO_REPLY);
    assert_false(out.conn[CALLERS]->open); /* a second one may say so       */
    tells_role("h3:6379", REPLICA_HELLO);
    assert_false(out.conn[WATCH]->open);
    opens_to(CALLERS, "h2:5");
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
}

static void two_primaries_are_none(void **state)
{
    (void)state;
    struct snib__request rq = once();
    start(&rq);
    for (int k = 0; k < 2; k++) {
        tells_role("h1:6379", HELLO_REPLY);
        tells_role("h2:5", REPLICA_HELLO);
        silence();
        opened(WATCH);
        say(WATCH, HELLO_REPLY);
        if (k == 0) {
            left();
        }
    }
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_string_equal(error.text,
                        "h1:6379 and h3:6379 both say that they are the "
                        "primary: neither is asked for locks until one of "
                        "them is a replica (or are these two names of one "
                        "server? then leave out one)");
    left();
    assert_false(out.conn[CALLERS]->open);
}

/* The first was one before the third was made one. */
static void two_primaries_one_after_the_other_are_one(void **state)
{
    (void)state;
    struct snib__request rq = once();
    start(&rq);
    tells_role("h1:6379", HELLO_REPLY);
    tells_role("h2:5", REPLICA_HELLO);
    tells_role("h3:6379", HELLO_REPLY);
    tells_role("h1:6379", REPLICA_HELLO);
    tells_role("h2:5", REPLICA_HELLO);
    tells_role("h3:6379", HELLO_REPLY);
    silence();
    opens_to(CALLERS, "h3:6379");
}

static void a_list_without_a_primary_says_so(void **state)
{
    (void)state;
    struct snib__request rq = once();
    start(&rq);
    tells_role("h1:6379", REPLICA_HELLO);
    refused(WATCH);
    opened(WATCH);
    say(WATCH, REPLICA_HELLO);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text, "none of the 3 servers is the primary (2 "
                                    "replicas; 1 give no usable answer)");
}

static void a_list_is_asked_again_after_a_loss(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    tells_role("h1:6379", HELLO_REPLY);
    tells_role("h2:5", REPLICA_HELLO);
    tells_role("h3:6379", REPLICA_HELLO);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    input(CALLERS, SNIB__IN_CLOSED, NULL, 0);
    answered(&rq, SNIB__UNKNOWN);
    rq.resent = true;
    start(&rq);
    refused(WATCH); /* h1 is dead */
    tells_role("h2:5", HELLO_REPLY);
    tells_role("h3:6379", REPLICA_HELLO);
    assert_true(out.moved);
    pass(20);
    opens_to(CALLERS, "h2:5");
}

static void a_login_that_a_list_refuses_is_denied(void **state)
{
    tear_down(state);
    open_store("redis://:no@h1,h2");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    for (int k = 0; k < 2; k++) {
        silence();
        opened(WATCH);
        hears_hello(WATCH);
        assert_string_equal(word[4], "no");
        say(WATCH, "-WRONGPASS x\r\n");
        assert_true(out.conn[WATCH]->shut);
        closed(WATCH);
    }
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
}

/* -- URLs -------------------------------------------------------------------------- */

static void urls_of_several_are_understood(void **state)
{
    static const struct {
        const char *url, *first, *service;
        uint32_t nodes, db;
    } good[] = {
        {"redis://a,b:7,c", "a:6379", NULL, 3, 0},
        {"redis://a,b/4", "a:6379", NULL, 2, 4},
        {"redis://a,b,a:6379", "a:6379", NULL, 2, 0},
        {"redis://[::1],b?db=3", "[::1]:6379", NULL, 2, 3},
        {"redis+sentinel://a/svc", "a:26379", "svc", 1, 0},
        {"redis+sentinel://a:7,b/svc/5", "a:7", "svc", 2, 5},
        {"redis+sentinel://a,b/svc/?db=6", "a:26379", "svc", 2, 6},
        {"redis+sentinel://a,b/my%20svc", "a:26379", "my svc", 2, 0},
    };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        tear_down(state);
        open_store(good[i].url);
        const struct snib__redis *s = (struct snib__redis *)(void *)store;
        assert_non_null(s->topology);
        assert_string_equal(s->topology->node[0].address, good[i].first);
        assert_int_equal(s->topology->nodes, good[i].nodes);
        assert_int_equal(s->db, good[i].db);
        assert_int_equal(s->topology->service != NULL, good[i].service != NULL);
        assert_true(!good[i].service ||
                    !strcmp(s->topology->service, good[i].service));
    }
}

static void other_urls_of_several_are_refused(void **state)
{
    static const struct {
        const char *url, *why;
    } bad[] = {
        {"redis+sentinel://a,b", "the name of the service is missing"},
        {"redis+sentinel://a,b/", "the name of the service is missing"},
        {"redis+sentinel://a,b//1", "the name of the service is missing"},
        {"redis+sentinel://a,b/svc/x", "the database is a number"},
        {"redis+sentinel://a/svc?sentinel_user=u", "sentinel_password="},
        {"redis+sentinel://a/svc?socket=/x", "a socket leads to one server"},
        {"redis://a,b?socket=/x", "a socket leads to one server"},
        {"redis://a,b?sentinel_user=u", "not sentinel_user="},
        {"redis://a,b/svc", "the database is a number"},
        {"redis+unix://a,b/x", "a socket leads to one server"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct snib__url *url;
        struct snib__store *none;
        struct snib_error e;
        assert_int_equal(snib__url_parse(bad[i].url, &url, &e), SNIB_ERR_OK);
        struct snib__store_config cfg = {
            .url = url, .out = &out, .request = snib__ms(1)};
        assert_int_equal(ops->open(&cfg, &none, &e), SNIB_ERR_USAGE);
        if (!strstr(e.text, bad[i].why)) {
            fail_msg("%s: %s", bad[i].url, e.text);
        }
        snib__url_free(url);
    }
}

static void without_memory_nothing_is_opened_or_left(void **state)
{
    struct snib__url *url;
    struct snib__out none;
    struct snib__store *one;
    struct snib_error e;
    snib_err err = SNIB_ERR_NOMEM;
    int tries = 0;
    (void)state;
    assert_int_equal(
        snib__url_parse("redis+sentinel://u:p@a,b/svc?sentinel_user=w&"
                        "sentinel_password=p",
                        &url, &e),
        SNIB_ERR_OK);
    int64_t alive = snib__mem_alive();
    struct snib__store_config cfg = {
        .url = url, .out = &none, .request = snib__ms(1)};
    while (err) {
        none = (struct snib__out){0};
        snib__conns_init(&none, 1000);
        snib__mem_fail_at(++tries, false);
        err = ops->open(&cfg, &one, &e);
        snib__mem_fail_at(0, false);
        if (err) {
            assert_int_equal(err, SNIB_ERR_NOMEM);
        } else {
            ops->free(one);
        }
        snib__conns_free(&none);
        assert_int_equal(snib__mem_alive(), alive);
    }
    assert_in_range(tries, 12, 60);
    snib__url_free(url);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        SENTINEL_CASE(all_are_reached_through_tls_or_none),
        SENTINEL_CASE(a_sentinel_names_the_primary),
        SENTINEL_CASE(an_address_of_ipv6_has_brackets),
        SENTINEL_CASE(the_next_sentinel_is_asked_where_one_fails),
        SENTINEL_CASE(one_that_does_not_connect_is_not_waited_for_long),
        SENTINEL_CASE(where_none_answers_it_is_told_and_tried_again),
        SENTINEL_CASE(a_service_that_none_knows_is_told_at_once),
        SENTINEL_CASE(a_service_that_another_one_knows_is_served),
        SENTINEL_CASE(what_is_no_answer_is_not_believed),
        SENTINEL_CASE(who_is_no_sentinel_is_told_so),
        SENTINEL_CASE(the_sentinels_have_a_login_of_their_own),
        SENTINEL_CASE(a_login_that_the_sentinels_refuse_is_denied),
        SENTINEL_CASE(a_login_that_the_sentinels_miss_is_told),
        SENTINEL_CASE(who_does_not_know_hello_is_too_old),
        SENTINEL_CASE(a_service_that_one_has_forgotten_is_waited_for),
        SENTINEL_CASE(a_host_that_does_not_exist_has_the_next_one_asked),
        SENTINEL_CASE(a_replica_that_was_named_is_asked_for_nothing),
        SENTINEL_CASE(a_switch_moves_all_connections_at_once),
        SENTINEL_CASE(who_waits_asks_the_new_primary_by_the_same_id),
        SENTINEL_CASE(messages_about_others_are_passed_over),
        SENTINEL_CASE(a_lost_connection_has_the_next_sentinel_asked),
        SENTINEL_CASE(a_read_only_primary_has_the_next_sentinel_asked),
        SENTINEL_CASE(a_primary_that_became_a_replica_is_left),
        SENTINEL_CASE(a_primary_that_was_a_replica_is_another_one),
        SENTINEL_CASE(a_primary_that_was_restarted_is_known_by_its_run_id),
        SENTINEL_CASE(in_doubt_the_next_sentinel_is_asked_at_once),
        SENTINEL_CASE(the_primary_is_shown_whoever_is_connected),
        SENTINEL_CASE(another_server_that_answers_is_told),
        SENTINEL_CASE(nobody_is_asked_in_a_loop),
        SENTINEL_CASE(a_try_outlives_a_sentinel_that_is_behind),
        SENTINEL_CASE(a_try_outlives_a_switch),
        SENTINEL_CASE(a_silent_sentinel_is_noticed_while_something_is_held),
        LIST_CASE(the_servers_of_a_list_are_asked_for_their_roles),
        LIST_CASE(two_primaries_are_none),
        LIST_CASE(two_primaries_one_after_the_other_are_one),
        LIST_CASE(a_list_without_a_primary_says_so),
        LIST_CASE(a_list_is_asked_again_after_a_loss),
        LIST_CASE(a_login_that_a_list_refuses_is_denied),
        LIST_CASE(urls_of_several_are_understood),
        LIST_CASE(other_urls_of_several_are_refused),
        LIST_CASE(without_memory_nothing_is_opened_or_left),
    };
    return RUN(cases);
}

#endif

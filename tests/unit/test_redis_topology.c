/* tests/unit/test_redis_topology.c — store/redis finds the primary by asking
 * Sentinels. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_topology.h"

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
    assert_string_equal(error.text, "no connection to gone:6379: no such host; "
                                    "no primary is known at the moment: the "
                                    "Sentinels still name gone:6379");
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
    };
    return RUN(cases);
}

#endif

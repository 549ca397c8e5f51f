/* tests/unit/test_redis_list.c — store/redis finds the primary among the servers
 * of a list; URLs of several servers. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_topology.h"

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

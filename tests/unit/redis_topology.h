/* tests/unit/redis_topology.h — several servers and Sentinels, played by hand,
 * for the tests of how store/redis finds the primary among them. */
#ifndef SNIB_TESTS_REDIS_TOPOLOGY_H
#define SNIB_TESTS_REDIS_TOPOLOGY_H

#include "redis_session.h"

#define SENTINELS "redis+sentinel://s1,s2:5,s3/svc"
#define LIST      "redis://h1,h2:5,h3"

#define SENTINEL_HELLO HELLO_REPLY_OF("$8\r\nsentinel", "$8\r\nsentinel")
#define REPLICA_HELLO  HELLO_REPLY_OF("$10\r\nstandalone", "$7\r\nreplica")
#define SUBSCRIBED     "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"

static inline int with_sentinels(void **state)
{
    (void)state;
    open_store(SENTINELS);
    return 0;
}

static inline int with_a_list(void **state)
{
    (void)state;
    open_store(LIST);
    return 0;
}

#define SENTINEL_CASE(f)                                                       \
    cmocka_unit_test_setup_teardown(f, with_sentinels, tear_down)
#define LIST_CASE(f) cmocka_unit_test_setup_teardown(f, with_a_list, tear_down)

/* -- what the nodes say ------------------------------------------------------- */

static inline void opens_to(int i, const char *address)
{
    assert_true(out.conn[i]->open);
    assert_string_equal(out.conn[i]->address, address);
}

static inline void refused(int i)
{
    assert_true(out.conn[i]->open);
    out.conn[i]->open = false;
    input(i, SNIB__IN_REFUSED, "Connection refused", 18);
}

/* The Sentinel at this address is asked, and says who it is, and of how many
 * failovers it knows; below 0: it refuses to. */
static inline void asked_for_epoch(const char *address, int epoch)
{
    opens_to(WATCH, address);
    opened(WATCH);
    hears_hello(WATCH);
    assert_true(heard(WATCH));
    assert_string_equal(word[0], "SENTINEL");
    assert_string_equal(word[1], "MASTER");
    assert_string_equal(word[2], "svc");
    assert_true(heard(WATCH));
    assert_string_equal(word[0], "SENTINEL");
    assert_string_equal(word[1], "GET-MASTER-ADDR-BY-NAME");
    assert_string_equal(word[2], "svc");
    assert_true(heard(WATCH));
    assert_string_equal(word[0], "SUBSCRIBE");
    assert_string_equal(word[1], "+switch-master");
    assert_false(heard(WATCH));
    say(WATCH, SENTINEL_HELLO);
    if (epoch < 0) {
        say(WATCH, "-NOPERM x\r\n");
    } else {
        sayf(WATCH,
             "*4\r\n$4\r\nname\r\n$3\r\nsvc\r\n$12\r\nconfig-epoch\r\n"
             "$%d\r\n%d\r\n",
             epoch < 10 ? 1 : 2, epoch);
    }
}

static inline void asked(const char *address)
{
    asked_for_epoch(address, -1);
}

static inline void names(const char *host, int port)
{
    char digits[8];
    snprintf(digits, sizeof digits, "%d", port);
    sayf(WATCH, "*2\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(host), host,
         strlen(digits), digits);
    say(WATCH, SUBSCRIBED);
}

static inline void publishes(const char *text)
{
    sayf(WATCH,
         "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%zu\r\n%s\r\n",
         strlen(text), text);
}

/* WATCH is closed because it has served or failed. */
static inline void left(void)
{
    assert_true(out.conn[WATCH]->shut);
    closed(WATCH);
}

/* The server of a list at this address says what it is. */
static inline void tells_role(const char *address, const char *hello)
{
    opens_to(WATCH, address);
    opened(WATCH);
    hears_hello(WATCH);
    assert_false(heard(WATCH));
    say(WATCH, hello);
    left();
}

static inline struct snib__request once(void)
{
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.once = true;
    return rq;
}

/* A grant at the primary that the first Sentinel names. */
static inline struct snib__request granted_at(const char *host,
                                              const char *address)
{
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    asked("s1:26379");
    names(host, 6379);
    opens_to(CALLERS, address);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    out.holds = true;
    return rq;
}

#endif

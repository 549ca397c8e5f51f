/* tests/unit/redis_replicas.h — a store that asks for two replicas, what the
 * primary says of them, and what a grant, a renewal or a place comes to by that. */
#ifndef SNIB_TESTS_REDIS_REPLICAS_H
#define SNIB_TESTS_REDIS_REPLICAS_H

#include "redis_packet.h"

#define LIFE    "0123456789abcdef0123456789abcdef01234567"
#define OTHER   "ffffffffffffffffffffffffffffffffffffffff"
#define PLACE   "*4\r\n:2\r\n:1790000000300\r\n:1\r\n:20000\r\n"
#define RENEWED "*2\r\n:1790000000300\r\n:1\r\n"
/* What INFO says; behind the answers to the write and to WAIT. */
#define INFO_OF_LIFE "$54\r\nmaster_replid:" LIFE "\r\n"

static inline int set_up_replicas(void **state)
{
    (void)state;
    open_store("redis://h?recovery=30s&replicas=2");
    return 0;
}

/* wish: what it says of whether somebody wants a lock; NULL: whatever. */
static inline void greeted_as(int i, const char *wish, const char *life)
{
    opened(i);
    hears_hello(i);
    assert_true(heard(i) && heard(i)); /* the layout's number */
    assert_int_equal(script_heard(i), SNIB__SCRIPT_EPOCH);
    assert_string_equal(word[5], "0030000");
    if (wish) {
        assert_string_equal(word[6], wish);
    }
    bool looks = !strcmp(word[6], "0");
    assert_true(heard(i));
    assert_string_equal(word[0], "TIME");
    sayf(i,
         HELLO_REPLY LAYOUT_REPLY
         "*5\r\n:1790000000000\r\n:0\r\n:%s\r\n:0\r\n$%zu\r\n%s\r\n" TIME_REPLY,
         looks ? "-1790000000000" : "1790000030000", strlen(life), life);
}

static inline void greeted_in(int i, const char *life)
{
    greeted_as(i, NULL, life);
}

static inline void greeted(int i)
{
    greeted_as(i, "begin", LIFE);
}

/* A write, WAIT, INFO; and nothing more. */
static inline void hears_confirm(int i)
{
    assert_true(heard(i));
    assert_string_equal(word[0], "PEXPIRE");
    assert_string_equal(word[1], "snib:m");
    assert_true(heard(i));
    assert_string_equal(word[0], "WAIT");
    assert_string_equal(word[1], "2");
    assert_true(strtoll(word[2], NULL, 10) > 0);
    assert_true(heard(i));
    assert_string_equal(word[0], "INFO");
    assert_string_equal(word[1], "replication");
    assert_false(heard(i));
}

/* An acquire, and what confirms it; nothing more. */
static inline void hears_asked(const char *may_queue)
{
    hears_acquire(CALLERS, may_queue);
    hears_confirm(CALLERS);
}

static inline void says_acks(int i, int acks, const char *life)
{
    char info[200];
    int n =
        snprintf(info, sizeof info,
                 "# Replication\r\nrole:master\r\nmaster_replid:%s\r\n", life);
    sayf(i, ":1\r\n:%d\r\n$%d\r\n%s\r\n", acks, n, info);
}

static inline void asks(struct snib__request *rq)
{
    *rq = asked();
    start(rq);
    greeted(CALLERS);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[words - 1], "0030000");
    hears_confirm(CALLERS);
}

/* It is granted, and that is said of the write, of WAIT and of INFO. */
static inline void stays_unknown(struct snib__request *rq, const char *said)
{
    asks(rq);
    grant_reply(CALLERS, 1000);
    say(CALLERS, said);
    answered(rq, SNIB__UNKNOWN);
}

static inline void lacks_a_replica(struct snib__request *rq)
{
    asks(rq);
    grant_reply(CALLERS, 1000);
    says_acks(CALLERS, 1, LIFE);
    answered(rq, SNIB__UNKNOWN);
}

/* The connection goes, and whoever asks next is told why. */
static inline void refuses_the_next(snib_err err, const char *why)
{
    struct snib__request rq;
    closed(CALLERS);
    rq = asked();
    start(&rq);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, err);
    assert_non_null(strstr(error.text, why));
}

static inline void holds(struct snib__request *rq)
{
    asks(rq);
    grant_reply(CALLERS, 1000);
    says_acks(CALLERS, 2, LIFE);
    answered(rq, SNIB__DONE);
}

static inline struct snib__request renewal(void)
{
    struct snib__request rq = request(SNIB__RENEW);
    rq.token = 1000;
    return rq;
}

/* On that connection. */
static inline void renews(struct snib__request *held, int i)
{
    start(held);
    assert_int_equal(script_heard(i), SNIB__SCRIPT_RENEW);
    hears_confirm(i);
}

/* The callers' connection is of before; that of the background leads to another
 * primary, of which it is not known yet how many replicas have the renewal. */
static inline void renews_at_another(struct snib__request *held)
{
    struct snib__request rq;
    holds(&rq);
    *held = renewal();
    held->background = true;
    renews(held, CALLERS); /* it takes the connection that there is */
    say(CALLERS, RENEWED);
    says_acks(CALLERS, 2, LIFE);
    answered(held, SNIB__DONE);
    greeted_in(BACKGROUND, OTHER);
    renews(held, BACKGROUND);
    say(BACKGROUND, RENEWED);
}

/* Another one holds; the subscription is up. */
static inline void waits(struct snib__request *rq)
{
    *rq = asked();
    rq->acquire.may_queue = true;
    start(rq);
    greeted(CALLERS);
    hears_asked("0");
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
    says_acks(CALLERS, 2, LIFE);
    connected(SUBS);
    hears_asked("1");
    say(CALLERS, PLACE);
    says_acks(CALLERS, 0, LIFE); /* a place needs none */
    answered(rq, SNIB__QUEUED);
}

/* It polled, and waits on. */
static inline void keeps_its_place(struct snib__request *rq)
{
    say(CALLERS, PLACE);
    says_acks(CALLERS, 2, LIFE);
    answered(rq, SNIB__QUEUED);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up_replicas, tear_down)

#endif

/* tests/unit/redis_epoch.h — a store with ?recovery=, and its greeting. */
#ifndef SNIB_TESTS_REDIS_EPOCH_H
#define SNIB_TESTS_REDIS_EPOCH_H

#include "redis_packet.h"

static int set_up_recovery(void **state)
{
    (void)state;
    open_store("redis://h?recovery=30s");
    return 0;
}

#define LIFE "0123456789abcdef0123456789abcdef01234567"
#define EPOCH_REPLY(left)                                                      \
    "*5\r\n:1790000000000\r\n:" left                                           \
    "\r\n:1790000030000\r\n:0\r\n$40\r\n" LIFE "\r\n"
/* No recovery has begun. */
#define EPOCH_AHEAD                                                            \
    "*5\r\n:1790000000000\r\n:30000\r\n:-1790000000000\r\n:0\r\n$40\r\n" LIFE  \
    "\r\n"

/* wish: "0" of who only looks, "begin", or "known". */
static void hears_epoch(int i, const char *wish)
{
    opened(i);
    hears_hello(i);
    assert_true(heard(i) && heard(i)); /* the layout's number */
    assert_int_equal(script_heard(i), SNIB__SCRIPT_EPOCH);
    assert_string_equal(word[0], "EVAL");
    assert_string_equal(word[2], "2");
    assert_string_equal(word[3], "snib:epoch");
    assert_string_equal(word[4], "snib:m");
    assert_string_equal(word[5], "30000");
    assert_string_equal(word[6], wish);
    assert_true(heard(i));
    assert_string_equal(word[0], "TIME");
    say(i, HELLO_REPLY LAYOUT_REPLY);
}

static void in_step(int i)
{
    hears_epoch(i, "begin");
    say(i, EPOCH_REPLY("0") TIME_REPLY);
}

static void looks(int i)
{
    hears_epoch(i, "0");
    say(i, EPOCH_REPLY("0") TIME_REPLY);
}

/* The connection is made anew, and begins so. */
static void anew(int i, const char *wish)
{
    silence();
    assert_true(out.conn[i]->shut);
    closed(i);
    for (int k = 0; k < 50 && !out.conn[i]->open; k++) {
        pass(10);
    }
    hears_epoch(i, wish);
    say(i, EPOCH_REPLY("30000") TIME_REPLY);
    for (int k = 0; k < 50 && !heard(i); k++) {
        pass(10);
    }
}

#endif

/* tests/unit/redis_packet.h — a store that takes mutexes without a script: what it
 * sends for one, and what a server answers. */
#ifndef SNIB__UNIT_REDIS_PACKET_H
#define SNIB__UNIT_REDIS_PACKET_H

#include "redis_session.h"

#define QUEUED    "+OK\r\n+QUEUED\r\n+QUEUED\r\n"
#define MARK_AT   "1790000000300"
#define TOKEN(n)  (INT64_C(1790000000300) * 1024 + (n))
#define SET_OK    "*2\r\n+OK\r\n$15\r\n" MARK_AT "-7\r\n"
#define SET_TAKEN "*2\r\n$-1\r\n$15\r\n" MARK_AT "-7\r\n"

/* One grant by a script: the mark is there now. */
static void known(void)
{
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[2], "8");
    assert_string_equal(word[10], "snib:m");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    assert_false(rq.thin);
    assert_int_equal(rq.acquire.reserve, 31);
}

static void hears(const char *what)
{
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], what);
}

/* e: in server ms. */
static void hears_packet(const struct snib__request *rq, const char *e)
{
    char record[600], client[33];
    snprintf(client, sizeof client, "%s",
             ((struct snib__redis *)(void *)store)->client);
    hears("MULTI");
    assert_int_equal(words, 1);
    hears("SET");
    assert_int_equal(words, 6);
    assert_string_equal(word[1], "snib:{n}");
    snprintf(record, sizeof record, "%s %s %lld %lld 0 host=h", hex_of(rq),
             client, (long long)snib__to_ms(rq->lease),
             strtoll(e, NULL, 10) - (long long)(snib__to_ms(rq->lease) < 9900
                                                    ? snib__to_ms(rq->lease)
                                                    : 9900));
    assert_string_equal(word[2], record);
    assert_string_equal(word[3], "NX");
    assert_string_equal(word[4], "PXAT");
    assert_string_equal(word[5], e);
    hears("XADD");
    static const char *const draw[] = {"XADD", "snib:m", "NOMKSTREAM", "MAXLEN",
                                       "0",    "*",      "a",          ""};
    assert_int_equal(words, 8);
    for (uint32_t i = 0; i < words; i++) {
        assert_string_equal(word[i], draw[i]);
    }
    hears("EXEC");
    assert_int_equal(words, 1);
    assert_false(heard(CALLERS));
}

static struct snib__request asked(void)
{
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.acquire.permits = 1;
    rq.text = "host=h";
    rq.text_size = 6;
    return rq;
}

#endif

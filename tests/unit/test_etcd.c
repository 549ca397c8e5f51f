/* tests/unit/test_etcd.c — the parts of the store etcd: that look at bytes:
 * protobuf, keys, what the end of a call means, how long leases are. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/etcd/etcd_i.h"

#define store_opens snib__etcd_open
#define store_frees snib__etcd_free
#include "store_parts.h"

/* -- protobuf ---------------------------------------------------------------- */

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct snib__pb p;
    begin();
    size_t outer = snib__pb_begin(&bytes, 3);
    snib__pb_put_int(&bytes, 1, -5);
    snib__pb_put_text(&bytes, 2000, "text\n");
    snib__pb_end(&bytes, outer);
    snib__pb_put_int(&bytes, 4, INT64_MAX);
    snib__pb_open(&p, snib__buf_bytes(&bytes), snib__buf_size(&bytes));
    assert_true(snib__pb_next(&p));
    assert_int_equal(p.field, 3);
    struct snib__pb in = snib__pb_inside(&p);
    assert_true(snib__pb_next(&in));
    assert_int_equal(in.number, -5);
    assert_true(snib__pb_next(&in));
    char text[8];
    snib__pb_text(&in, text, sizeof text);
    assert_string_equal(text, "text ");
    assert_false(snib__pb_next(&in));
    assert_false(in.bad);
    assert_true(snib__pb_next(&p));
    assert_true(p.number == INT64_MAX);
    assert_false(snib__pb_next(&p));
    assert_false(p.bad);
}

/* -- rows -------------------------------------------------------------------- */

/* An answer to a range of so many keys, which says that there are `count`. */
static void answer(int keys, int64_t count, bool more)
{
    begin();
    size_t header = snib__pb_begin(&bytes, 1);
    snib__pb_put_int(&bytes, 3, 7);
    snib__pb_end(&bytes, header);
    for (int i = 0; i < keys; i++) {
        size_t pair = snib__pb_begin(&bytes, 2);
        snib__pb_put_text(&bytes, 1, "key");
        snib__pb_put_int(&bytes, 3, 100 + i);
        snib__pb_put_text(&bytes, 5, "value");
        snib__pb_put_int(&bytes, 6, 9);
        snib__pb_end(&bytes, pair);
    }
    if (more) {
        snib__pb_put_int(&bytes, 3, 1);
    }
    snib__pb_put_int(&bytes, 4, count);
}

static bool is_whole(size_t size)
{
    struct snib__etcd_rows rows;
    struct snib__etcd_pair pair;
    snib__etcd_read_range(snib__buf_bytes(&bytes), size, &rows);
    while (snib__etcd_next_pair(&rows, &pair)) {
        assert_int_equal(pair.lease, 9);
        assert_true(pair.mod_revision >= 100);
    }
    return snib__etcd_whole(&rows);
}

static void an_answer_that_is_not_whole_is_none(void **state)
{
    (void)state;
    answer(3, 3, false);
    assert_true(is_whole(snib__buf_size(&bytes)));
    for (size_t size = 0; size < snib__buf_size(&bytes); size++) {
        /* without a row it would be a lock that is free */
        assert_true(size < 10 || !is_whole(size));
    }
    answer(3, 4, false);
    assert_false(is_whole(snib__buf_size(&bytes)));
    answer(3, 3, true);
    assert_false(is_whole(snib__buf_size(&bytes)));
    answer(0, 0, false);
    assert_true(is_whole(snib__buf_size(&bytes)));
}

/* -- keys -------------------------------------------------------------------- */

static struct snib__etcd *etcd(void)
{
    return (struct snib__etcd *)(void *)store;
}

static void a_key_is_read_as_it_was_written(void **state)
{
    static const char *const names[] = {"n", "a/b", "a%2Fb",   "/",
                                        "!", "c/x", "\xff{}\n"};
    (void)state;
    assert_int_equal(opened("etcd://a,b,[::1]:7?prefix=x/y"), SNIB_ERR_OK);
    assert_int_equal(out.conns, 3);
    assert_string_equal(out.conn[0]->address, "a:2379");
    assert_string_equal(out.conn[2]->address, "[::1]:7");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct snib__name *name;
        struct etcd_key key, from, to;
        struct etcd_parts parts;
        assert_false(snib__name_new(names[i], 0, &name, &e));
        struct snib__key k = {.kind = SNIB__KEY_CLAIM, .name = name};
        const struct etcd_place place = {{UINT64_MAX, 3}, 0x8000000b};
        snib__etcd_key_row(etcd(), &k, &place, &key);
        snib__etcd_key_lock(etcd(), name, &from, &to);
        assert_true(strcmp(from.text, key.text) < 0);
        assert_true(strcmp(key.text, to.text) < 0);
        assert_true(
            snib__etcd_key_read(etcd(), snib__etcd_text_of(&key), &parts));
        assert_int_equal(parts.size, strlen(names[i]));
        assert_memory_equal(parts.name, names[i], parts.size);
        assert_int_equal(parts.kind, SNIB__KEY_CLAIM);
        assert_true(parts.place.opened[0] == UINT64_MAX &&
                    parts.place.opened[1] == 3 &&
                    parts.place.number == 0x8000000b);
        snib__free(name);
    }
    closed();
}

static void urls_that_say_nothing_sensible_are_refused(void **state)
{
    static const struct {
        const char *url, *words;
    } bad[] = {
        {"etcd://a/path", "no path"},
        {"etcd://a?nothing=1", "nothing="},
        {"etcd://a?prefix=", "?prefix="},
        {"etcd://a?prefix=a%20b", "?prefix="},
        {"etcd://user@a", "USER:PASSWORD"},
        {"etcd://:secret@a", "USER:PASSWORD"},
        {"etcd://a,a:2379", "twice"},
        {"etcd://a?tls_ca=x", "etcds:"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(opened(bad[i].url), SNIB_ERR_USAGE);
        if (!strstr(e.text, bad[i].words) || strstr(e.text, "secret")) {
            fail_msg("%s: %s", bad[i].url, e.text);
        }
        snib__conns_free(&out);
    }
}

/* -- what the end of a call means ---------------------------------------------- */

static struct etcd_reply judged(int status, const char *text, bool changes)
{
    struct snib__h2_stream s;
    struct etcd_reply reply = {.end = ETCD_OK};
    snib__h2_stream_init(&s);
    s.end = SNIB__H2_ANSWERED;
    s.status = status;
    s.http = 200;
    s.grpc = true;
    snprintf(s.text, sizeof s.text, "%s", text);
    snib__etcd_judge(&s, changes, &reply);
    snib__h2_stream_free(&s);
    return reply;
}

static void only_what_etcd_refuses_in_its_own_words_is_not_done(void **state)
{
    (void)state;
    for (int status = 1; status < 20; status++) {
        /* something in between, or a server that lost it */
        if (status != SNIB__GRPC_UNIMPLEMENTED) {
            assert_int_equal(judged(status, "proxy: no", true).end, ETCD_LOST);
            assert_int_equal(judged(status, "proxy: no", false).end,
                             ETCD_AGAIN);
        }
    }
    static const char *const lost[] = {
        "etcdserver: request timed out",
        "etcdserver: request timed out, possibly due to previous leader "
        "failure",
        "etcdserver: leader changed", "etcdserver: server stopped",
        "etcdserver: no leader"};
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
        assert_int_equal(judged(SNIB__GRPC_UNAVAILABLE, lost[i], true).end,
                         ETCD_LOST);
    }
    assert_int_equal(
        judged(5, "etcdserver: requested lease not found", true).end,
        ETCD_NO_LEASE);
    assert_int_equal(judged(7, "etcdserver: permission denied", true).end,
                     ETCD_REFUSED);
    assert_int_equal(judged(16, "etcdserver: invalid auth token", true).end,
                     ETCD_AGAIN);
    assert_true(judged(16, "etcdserver: invalid auth token", true).login);
    /* said of what was applied, too; of a lease that is granted it is a no */
    static const char full[] = "etcdserver: mvcc: database space exceeded";
    assert_int_equal(judged(8, full, true).end, ETCD_LOST);
    assert_int_equal(judged(8, full, false).end, ETCD_REFUSED);
    assert_int_equal(judged(8, full, false).err, SNIB_ERR_STORE);
    /* gRPC says the same of an answer that is too large: it was done */
    assert_int_equal(
        judged(8, "grpc: received message larger than max", true).end,
        ETCD_LOST);
}

/* -- leases -------------------------------------------------------------------- */

static void a_lease_gives_its_whole_length_from_the_request_on(void **state)
{
    static const int64_t ms[] = {1,    200,  999,   1000,    1750,
                                 1999, 2000, 30000, 86400000};
    (void)state;
    for (size_t i = 0; i < sizeof ms / sizeof ms[0]; i++) {
        struct etcd_ttl t =
            snib__etcd_ttl_hold(snib__ms(ms[i]), (snib_instant){0});
        assert_true(t.ttl >= 2);
        /* sent as long ago as it may be, it still ends after the lease, by a clock
         * that differs by a hundredth */
        int64_t drift = (t.ttl * 1000 - ms[i]) / 100;
        assert_true(t.ttl * 1000 - snib__to_ms(t.age) >= ms[i] + drift);
        snib_duration d = snib__etcd_lease_drift(t.ttl, snib__ms(ms[i]));
        assert_int_equal(snib__to_ms(d), drift);
        assert_true(t.age.ns > 0 && t.ttl * 1000 <= ms[i] + 2250);
    }
}

static int tidy(void **state)
{
    (void)state;
    snib__buf_free(&bytes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(an_answer_that_is_not_whole_is_none),
        cmocka_unit_test(a_key_is_read_as_it_was_written),
        cmocka_unit_test(urls_that_say_nothing_sensible_are_refused),
        cmocka_unit_test(only_what_etcd_refuses_in_its_own_words_is_not_done),
        cmocka_unit_test(a_lease_gives_its_whole_length_from_the_request_on),
    };
    return cmocka_run_group_tests(tests, NULL, tidy);
}

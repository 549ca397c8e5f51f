/* tests/unit/test_zookeeper.c — the parts of the store zookeeper: that look at
 * bytes: its protocol, names of nodes, who is next. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/zookeeper/zookeeper_i.h"

#define store_opens snib__zoo_open
#define store_frees snib__zoo_free
#include "store_parts.h"

/* -- the protocol ------------------------------------------------------------- */

static void what_is_written_is_read(void **state)
{
    (void)state;
    struct snib__jute j;
    begin();
    snib__jute_put_i32(&bytes, -2);
    snib__jute_put_i64(&bytes, INT64_MIN + 1);
    snib__jute_put_bool(&bytes, true);
    snib__jute_put_text(&bytes, "text");
    snib__jute_put_i32(&bytes, -1); /* no bytes */
    snib__jute_open(&j, snib__buf_bytes(&bytes), snib__buf_size(&bytes));
    assert_int_equal(snib__jute_i32(&j), -2);
    assert_true(snib__jute_i64(&j) == INT64_MIN + 1);
    assert_true(snib__jute_bool(&j));
    struct snib__jute_bytes text = snib__jute_bytes(&j);
    assert_int_equal(text.size, 4);
    assert_memory_equal(text.bytes, "text", 4);
    assert_null(snib__jute_bytes(&j).bytes);
    assert_false(j.bad);
    (void)snib__jute_bool(&j);
    assert_true(j.bad);
}

static void lengths_that_are_not_there_are_bad(void **state)
{
    static const int32_t lengths[] = {-2, 5, INT32_MAX, INT32_MIN};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct snib__jute j;
        begin();
        snib__jute_put_i32(&bytes, lengths[i]);
        snib__jute_put_i32(&bytes, 0);
        snib__jute_open(&j, snib__buf_bytes(&bytes), snib__buf_size(&bytes));
        assert_null(snib__jute_bytes(&j).bytes);
        assert_true(j.bad);
        snib__jute_open(&j, snib__buf_bytes(&bytes), snib__buf_size(&bytes));
        assert_int_equal(snib__jute_count(&j, 1), 0);
        assert_true(j.bad);
    }
}

static void a_frame_is_whole_or_not_there_or_none(void **state)
{
    (void)state;
    const uint8_t *frame;
    size_t size;
    begin();
    snib__zk_put_ping(&bytes);
    size_t whole = snib__buf_size(&bytes);
    for (size_t n = 0; n < whole; n++) {
        assert_int_equal(
            snib__zk_frame(snib__buf_bytes(&bytes), n, &frame, &size), 0);
    }
    assert_int_equal(
        snib__zk_frame(snib__buf_bytes(&bytes), whole, &frame, &size), 1);
    assert_int_equal(size, 8);
    static const char *const others[] = {"HTTP/1.1 400 Bad", "-ERR unknown",
                                         "\0\0\0\0    ", "\xff\xff\xff\xff  ",
                                         "\0\0\0\3   "};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        int got = snib__zk_frame((const uint8_t *)others[i], 7, &frame, &size);
        assert_true(got == -1 || got == 2); /* 2: too long */
    }
}

static void what_a_multi_says_is_read_to_its_end(void **state)
{
    (void)state;
    struct snib__jute j;
    struct snib__zk_result one;
    begin();
    for (int i = 0; i < 2; i++) {
        snib__jute_put_i32(&bytes, SNIB__ZK_ERROR);
        snib__jute_put_bool(&bytes, false);
        snib__jute_put_i32(&bytes, i ? -101 : -2);
        snib__jute_put_i32(&bytes, i ? -101 : -2);
    }
    snib__zk_put_multi_end(&bytes);
    snib__jute_open(&j, snib__buf_bytes(&bytes), snib__buf_size(&bytes));
    assert_true(snib__zk_next_result(&j, &one) && one.err == -2);
    assert_true(snib__zk_next_result(&j, &one) && one.err == -101);
    assert_false(snib__zk_next_result(&j, &one));
    assert_false(j.bad);
    for (size_t n = 0; n < snib__buf_size(&bytes); n++) {
        snib__jute_open(&j, snib__buf_bytes(&bytes), n);
        while (snib__zk_next_result(&j, &one)) {
        }
        assert_true(j.bad);
    }
}

/* -- names -------------------------------------------------------------------- */

static struct snib__zoo *zoo(void)
{
    return (struct snib__zoo *)(void *)store;
}

static void a_lock_is_read_as_it_was_written(void **state)
{
    static const char *const names[] = {"n",    "a/b", "a%2Fb",     "/",
                                        ".",    "..",  "zookeeper", "=x",
                                        "%3Dx", "z",   ".%",        "\xff{}\n"};
    static const char *const urls[] = {"zookeeper://a,b,[::1]:7/team/x",
                                       "zookeeper://h/"};
    (void)state;
    for (size_t u = 0; u < 2; u++) {
        assert_int_equal(opened(urls[u]), SNIB_ERR_OK);
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            struct snib__name *name;
            struct zoo_path path;
            char back[SNIB_NAME_MAX];
            assert_false(snib__name_new(names[i], 0, &name, &e));
            snib__zoo_path_lock(zoo(), name, &path);
            const char *node = path.text + strlen(zoo()->base) + 1;
            assert_null(strchr(node, '/'));
            assert_true(*node != '.' && *node != '=');
            assert_true(zoo()->base[0] || strcmp(node, "zookeeper") != 0);
            size_t size = snib__zoo_path_name(zoo(), node, strlen(node), back);
            assert_int_equal(size, strlen(names[i]));
            assert_memory_equal(back, names[i], size);
            snib__free(name);
        }
        closed();
    }
}

static void what_is_none_of_our_locks_has_no_name(void **state)
{
    static const char *const nodes[] = {"=fence-12", ".x", "a%2f", "%2Ex%",
                                        "%",         "%2", "a%3D", "\x01"};
    char back[SNIB_NAME_MAX];
    (void)state;
    assert_int_equal(opened("zookeeper://h"), SNIB_ERR_OK);
    assert_string_equal(zoo()->base, "/snib");
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        if (snib__zoo_path_name(zoo(), nodes[i], strlen(nodes[i]), back)) {
            fail_msg("%s is taken for a name", nodes[i]);
        }
    }
    closed();
}

static void urls_that_say_nothing_sensible_are_refused(void **state)
{
    static const struct {
        const char *url, *words;
    } bad[] = {
        {"zookeeper://a?nothing=1", "nothing="},
        {"zookeeper://a?session_ms=1", "session_ms"},
        {"zookeeper://a?session_ms=9x", "session_ms"},
        {"zookeeper://a?one_step=yes", "not one_step="},
        {"zookeeper://a//b", "a path like"},
        {"zookeeper://a/b/../c", "a path like"},
        {"zookeeper://a/b%20c", "a path like"},
        {"zookeeper://user@a", "USER:PASSWORD"},
        {"zookeeper://:secret@a", "USER:PASSWORD"},
        {"zookeeper://a,a:2181", "twice"},
        {"zookeeper:/a", "HOST"},
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

static void a_node_is_read_as_it_was_written(void **state)
{
    static const char *const numbers[] = {"0000000012", "-2147483648",
                                          "2147483647", "-000000005"};
    static const int32_t seqs[] = {12, INT32_MIN, INT32_MAX, -5};
    const uint64_t id[2] = {UINT64_MAX - 1, 3};
    char name[ZOO_CHILD_MAX];
    struct zoo_child c;
    (void)state;
    for (int i = 0; i < 4; i++) {
        snib__zoo_child_stands(id, i == 1, name);
        snprintf(name + strlen(name), 12, "%s", numbers[i]);
        snib__zoo_child_read(name, strlen(name), &c);
        assert_int_equal(c.what, ZOO_STANDS);
        assert_int_equal(c.reads, i == 1);
        assert_int_equal(c.seq, seqs[i]);
        assert_true(c.id[0] == id[0] && c.id[1] == id[1]);
        assert_string_equal(c.name, name);
    }
    snib__zoo_child_record(id, false, 30000, name);
    snib__zoo_child_read(name, strlen(name), &c);
    assert_int_equal(c.what, ZOO_RECORD);
    assert_true(!c.reads && c.lease_ms == 30000 && c.id[1] == 3);
}

static void the_nodes_of_others_are_foreign(void **state)
{
    static const char *const names[] = {
        "",
        "_c_",
        "f4c5b1c6a2e94d3bb0c3e8c0f5a6d7e8__lock__0000000001", /* kazoo */
        "_c_0f0e0d0c-0b0a-0908-0706-050403020100-lock-000000001",
        "_c_0f0e0d0c-0b0a-0908-0706-050403020100-lock0000000001",
        "lock-0000000001",
        "_c_0f0e0d0c-0b0a-0908-0706-050403020100-__WRIT__000000001",
        "_c_0f0e0d0c-0b0a-0908-0706-050403020100-__WRIT__9999999999",
        "_c_0f0e0d0c-0b0a-0908-0706-05040302010-__WRIT__0000000001",
        "_c_0F0e0d0c-0b0a-0908-0706-050403020100-__WRIT__0000000001",
        "=held-",
        "=held-0f0e0d0c0b0a09080706050403020100-W-",
        "=held-0f0e0d0c0b0a09080706050403020100-X-1",
        "=held-0f0e0d0c0b0a09080706050403020100-W-1x",
        "=held-0f0e0d0c0b0a09080706050403020100-W-1234567890123"};
    struct zoo_child c;
    char large[200];
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snib__zoo_child_read(names[i], strlen(names[i]), &c);
        if (c.what != ZOO_FOREIGN) {
            fail_msg("%s is taken for ours", names[i]);
        }
    }
    memset(large, 'x', sizeof large);
    snib__zoo_child_read(large, sizeof large, &c);
    assert_int_equal(c.what, ZOO_FOREIGN);
}

/* -- who is next -------------------------------------------------------------- */

static struct zoo_view view;
static uint32_t listed;

static void no_nodes(void)
{
    begin();
    snib__jute_put_i32(&bytes, 0);
    listed = 0;
}

static void node(uint64_t id, bool reads, const char *number)
{
    char name[ZOO_CHILD_MAX];
    const uint64_t ids[2] = {id, 0};
    snib__zoo_child_stands(ids, reads, name);
    snprintf(name + strlen(name), 12, "%s", number);
    snib__jute_put_text(&bytes, name);
    listed++;
}

static void record(uint64_t id, bool reads, int64_t lease_ms)
{
    char name[ZOO_CHILD_MAX];
    const uint64_t ids[2] = {id, 0};
    snib__zoo_child_record(ids, reads, lease_ms, name);
    snib__jute_put_text(&bytes, name);
    listed++;
}

static void seen(void)
{
    struct snib__jute j;
    bool bad;
    bytes.data[bytes.start + 3] = (uint8_t)listed;
    snib__jute_open(&j, snib__buf_bytes(&bytes), snib__buf_size(&bytes));
    assert_true(snib__zoo_view_read(&view, &j, &bad));
}

/* The id of the node that this one waits for; 0: nobody. */
static uint64_t ahead_of(uint64_t id, bool reads)
{
    struct zoo_request request = {.id = {id, 0}, .reads = reads};
    int at = snib__zoo_view_find(&view, request.id, -1);
    at =
        snib__zoo_view_ahead(&view, &request, at < 0 ? (int)view.standing : at);
    return at < 0 ? 0 : view.child[at].id[0];
}

static void writers_go_one_after_the_other(void **state)
{
    (void)state;
    no_nodes();
    node(3, false, "0000000007");
    node(1, false, "0000000002");
    node(2, false, "0000000005");
    record(1, false, 1000);
    seen();
    assert_int_equal(ahead_of(1, false), 0);
    assert_int_equal(ahead_of(2, false), 1);
    assert_int_equal(ahead_of(3, false), 2);
    assert_int_equal(ahead_of(9, false), 3);
    assert_int_equal(snib__zoo_view_position(&view, 1), 1);
    assert_int_equal(snib__zoo_view_position(&view, 2), 2);
}

static void readers_go_together_and_a_writer_waits_for_all_of_them(void **state)
{
    (void)state;
    no_nodes();
    node(1, true, "0000000001");
    node(2, true, "0000000002");
    node(3, false, "0000000003");
    node(4, true, "0000000004");
    node(5, true, "0000000005");
    record(1, true, 1000);
    record(2, true, 1000);
    seen();
    assert_int_equal(ahead_of(1, true), 0);
    assert_int_equal(ahead_of(2, true), 0);
    assert_int_equal(ahead_of(3, false), 2);
    assert_int_equal(snib__zoo_view_position(&view, 2), 1); /* two hold */
    assert_int_equal(snib__zoo_view_position(&view, 3), 2);
    assert_int_equal(ahead_of(4, true), 3);
    assert_int_equal(ahead_of(5, true), 3);
}

static void numbers_that_became_negative_are_later(void **state)
{
    (void)state;
    no_nodes();
    node(4, false, "-2147483647");
    node(2, false, "2147483647");
    node(3, false, "-2147483648");
    node(1, false, "2147483646");
    seen();
    assert_int_equal(ahead_of(1, false), 0);
    assert_int_equal(ahead_of(2, false), 1);
    assert_int_equal(ahead_of(3, false), 2);
    assert_int_equal(ahead_of(4, false), 3);
}

static void a_grant_behind_keeps_out_who_stands_before_it(void **state)
{
    (void)state;
    no_nodes();
    node(1, false, "0000000001");
    node(2, false, "0000000002");
    record(2, false, 1000); /* it cannot be; nobody is let in beside it */
    seen();
    assert_int_equal(ahead_of(1, false), 2);
    no_nodes();
    node(1, false, "0000000001");
    node(3, false, "0000000002");
    record(2, false, 1000); /* whose node is gone: it is none to wait for */
    record(3, false, 1000);
    seen();
    assert_int_equal(ahead_of(1, false), 3);
}

/* As Curator would call it if its UUID were that by chance. */
static void a_node_without_an_id_is_in_the_way_like_any_other(void **state)
{
    (void)state;
    no_nodes();
    node(0, false, "0000000001");
    node(1, false, "0000000002");
    seen();
    assert_int_equal(
        snib__zoo_view_ahead(&view, &(struct zoo_request){.id = {1, 0}}, 1), 0);
}

static int64_t dead_for(uint64_t id, bool reads)
{
    const struct zoo_request request = {.id = {id, 0}, .reads = reads};
    uint64_t hash;
    return snib__zoo_view_dead(&view, &request, &hash);
}

static void a_record_without_its_node_is_waited_for(void **state)
{
    (void)state;
    no_nodes();
    node(1, false, "0000000009");
    node(2, true, "0000000010");
    record(7, true, 700);
    record(8, false, 800);
    seen();
    assert_int_equal(dead_for(1, false), 800);
    assert_int_equal(dead_for(2, true), 800);
    assert_int_equal(dead_for(8, false), 700); /* its own is not in its way */
    no_nodes();
    record(7, true, 700);
    seen();
    assert_int_equal(dead_for(1, false), 700);
    assert_int_equal(dead_for(2, true), 0); /* readers go together */
    no_nodes();
    record(7, false, 0);
    seen();
    assert_true(dead_for(1, false) > 0);
}

static void an_answer_that_is_not_whole_is_no_view(void **state)
{
    (void)state;
    no_nodes();
    node(1, false, "0000000001");
    node(2, false, "0000000002");
    seen();
    for (size_t n = 0; n < snib__buf_size(&bytes); n++) {
        struct snib__jute j;
        bool bad = false;
        snib__jute_open(&j, snib__buf_bytes(&bytes), n);
        assert_false(snib__zoo_view_read(&view, &j, &bad));
        assert_true(bad);
        assert_int_equal(view.count, 0);
    }
}

static int tidy(void **state)
{
    (void)state;
    snib__buf_free(&bytes);
    snib__zoo_view_free(&view);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(lengths_that_are_not_there_are_bad),
        cmocka_unit_test(a_frame_is_whole_or_not_there_or_none),
        cmocka_unit_test(what_a_multi_says_is_read_to_its_end),
        cmocka_unit_test(a_lock_is_read_as_it_was_written),
        cmocka_unit_test(what_is_none_of_our_locks_has_no_name),
        cmocka_unit_test(urls_that_say_nothing_sensible_are_refused),
        cmocka_unit_test(a_node_is_read_as_it_was_written),
        cmocka_unit_test(the_nodes_of_others_are_foreign),
        cmocka_unit_test(writers_go_one_after_the_other),
        cmocka_unit_test(
            readers_go_together_and_a_writer_waits_for_all_of_them),
        cmocka_unit_test(numbers_that_became_negative_are_later),
        cmocka_unit_test(a_grant_behind_keeps_out_who_stands_before_it),
        cmocka_unit_test(a_node_without_an_id_is_in_the_way_like_any_other),
        cmocka_unit_test(a_record_without_its_node_is_waited_for),
        cmocka_unit_test(an_answer_that_is_not_whole_is_no_view),
    };
    return cmocka_run_group_tests(tests, NULL, tidy);
}

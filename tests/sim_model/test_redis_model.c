/*
 * test_redis_model.c — what the differential test cannot reach
 *
 * difftest compares answers with a real server; here are the things that need
 * a clock, a crash or a look inside: expiry to the millisecond, restarts,
 * snapshots, bytes in pieces, hooks, and that a run repeats itself.
 */
#include "model_test.h"

#include <stdlib.h>

int fixture_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->lua = sim_lua_new();
    f->srv = sim_redis_new(f->lua, 7);
    f->a = sim_redis_connect(f->srv);
    f->b = sim_redis_connect(f->srv);
    f->now = T0;
    *state = f;
    return 0;
}

int fixture_down(void **state)
{
    struct fixture *f = *state;
    sim_redis_free(f->srv);
    sim_lua_free(f->lua);
    free(f);
    return 0;
}

/* The next word of a request, or what stands between two quotes. */
static size_t next_word(const char **p)
{
    *p += strspn(*p, " ");
    char end = **p == '"' || **p == '\'' ? *(*p)++ : ' ';
    return strcspn(*p, (char[]){end, '\0'});
}

void tell(struct fixture *f, int id, const char *request)
{
    char bytes[8192];
    size_t used = 0;
    int words = 0;
    for (const char *p = request; *p != '\0'; words++) {
        size_t n = next_word(&p);
        used += (size_t)snprintf(bytes + used, sizeof bytes - used,
                                 "$%zu\r\n%.*s\r\n", n, (int)n, p);
        p += n;
        p += *p != '\0'; /* the blank, or the quote */
    }
    char head[24];
    int n = snprintf(head, sizeof head, "*%d\r\n", words);
    sim_redis_input(f->srv, id, head, (size_t)n, f->now);
    sim_redis_input(f->srv, id, bytes, used, f->now);
}

static void tell_bytes(struct fixture *f, int id, const char *bytes)
{
    sim_redis_input(f->srv, id, bytes, strlen(bytes), f->now);
}

const char *heard(struct fixture *f, int id)
{
    static char buf[8192];
    const void *p;
    size_t n;
    sim_redis_output(f->srv, id, &p, &n);
    assert_true(n < sizeof buf);
    memcpy(buf, p, n);
    buf[n] = '\0';
    sim_redis_consume(f->srv, id, n);
    return buf;
}

/* ---- time -------------------------------------------------------------- */

static void key_lives_through_its_last_millisecond(void **state)
{
    struct fixture *f = *state;
    ask(f, f->a, "set k v px 100", "+OK\r\n");
    f->now = T0 + 100 * 1000;
    ask(f, f->a, "pttl k", ":0\r\n");
    ask(f, f->a, "get k", "$1\r\nv\r\n");
    f->now = T0 + 101 * 1000;
    ask(f, f->a, "get k", "$-1\r\n");
    ask(f, f->a, "pttl k", ":-2\r\n");
}

static void unseen_expired_key_returns_when_clock_steps_back(void **state)
{
    struct fixture *f = *state;
    ask(f, f->a, "set k v px 100", "+OK\r\n");
    f->now = T0 + 200 * 1000;
    assert_int_equal(sim_redis_dbsize(f->srv, 0, f->now), 0);
    f->now = T0 + 50 * 1000;
    ask(f, f->a, "exists k", ":1\r\n");
    f->now = T0 + 200 * 1000;
    ask(f, f->a, "exists k", ":0\r\n"); /* now it was seen */
    f->now = T0 + 50 * 1000;
    ask(f, f->a, "exists k", ":0\r\n");
}

static void time_and_ttl_use_the_given_clock(void **state)
{
    struct fixture *f = *state;
    f->now = T0 + 123456;
    ask(f, f->a, "time", "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n");
    ask(f, f->a, "set k v ex 10", "+OK\r\n");
    f->now += 9600 * 1000;
    ask(f, f->a, "pttl k", ":400\r\n");
    ask(f, f->a, "eval \"return redis.call('time')[1]\" 0",
        "$10\r\n1700000009\r\n");
}

/* ---- bytes ------------------------------------------------------------- */

static void request_in_single_bytes_is_one_request(void **state)
{
    struct fixture *f = *state;
    const char *r = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n"
                    "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
    for (size_t i = 0; r[i] != '\0'; i++) {
        sim_redis_input(f->srv, f->a, r + i, 1, f->now);
    }
    assert_string_equal(heard(f, f->a), "+OK\r\n$4\r\na\r\nb\r\n");
}

static void protocol_error_closes(void **state)
{
    struct fixture *f = *state;
    tell_bytes(f, f->a, "*x\r\n");
    assert_string_equal(heard(f, f->a),
                        "-ERR Protocol error: invalid multibulk length\r\n");
    assert_true(sim_redis_is_closing(f->srv, f->a));
    ask(f, f->a, "ping", "");
    tell_bytes(f, f->b, "*1\r\n+3\r\nx");
    assert_string_equal(heard(f, f->b),
                        "-ERR Protocol error: expected '$', got '+'\r\n");
}

static void line_of_words_is_refused(void **state)
{
    struct fixture *f = *state;
    tell_bytes(f, f->a, "ping\r\n");
    assert_string_equal(heard(f, f->a),
                        "-ERR Protocol error: expected '*'\r\n");
    assert_true(sim_redis_is_closing(f->srv, f->a));
}

static void kill_answers_then_closes(void **state)
{
    struct fixture *f = *state;
    ask(f, f->a, "client id", ":1\r\n");
    ask(f, f->a, "client kill id 1", ":0\r\n");
    ask(f, f->a, "client kill id 1 skipme no", ":1\r\n");
    assert_true(sim_redis_is_closing(f->srv, f->a));
    int ids[4];
    assert_int_equal(sim_redis_pending(f->srv, ids, 4), 1);
    assert_int_equal(ids[0], f->a);
    sim_redis_disconnect(f->srv, f->a);
    assert_false(sim_redis_is_open(f->srv, f->a));
    assert_int_equal(sim_redis_connect(f->srv), f->b + 1);
}

/* ---- life -------------------------------------------------------------- */

static void restart_keeps_data_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    char run_id[41];
    snprintf(run_id, sizeof run_id, "%s", sim_redis_run_id(f->srv));
    ask(f, f->a, "set k v", "+OK\r\n");
    ask(f, f->a, "eval 'return 1' 0", ":1\r\n");
    ask(f, f->a, "evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
        ":1\r\n");
    tell(f, f->b, "subscribe c");
    sim_redis_restart(f->srv, true);
    assert_string_not_equal(run_id, sim_redis_run_id(f->srv));
    assert_false(sim_redis_is_open(f->srv, f->a));
    assert_int_equal(sim_redis_numsub(f->srv, "c"), 0);
    f->a = sim_redis_connect(f->srv);
    ask(f, f->a, "get k", "$1\r\nv\r\n");
    ask(f, f->a, "evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
        "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    sim_redis_restart(f->srv, false);
    f->a = sim_redis_connect(f->srv);
    ask(f, f->a, "get k", "$-1\r\n");
}

static void snapshot_brings_back_every_type(void **state)
{
    struct fixture *f = *state;
    tell(f, f->a, "set s v px 1000");
    tell(f, f->a, "hset h f 1 g 2");
    tell(f, f->a, "zadd z 2 b 1 a");
    tell(f, f->a, "rpush l x y");
    heard(f, f->a);
    struct sim_redis_snapshot *snap = sim_redis_snapshot(f->srv);
    tell(f, f->a, "flushall");
    tell(f, f->a, "set later 1");
    heard(f, f->a);
    sim_redis_restore(f->srv, snap);
    sim_redis_snapshot_free(snap);
    ask(f, f->a, "get later", "$-1\r\n");
    ask(f, f->a, "pttl s", ":1000\r\n");
    ask(f, f->a, "hgetall h",
        "*4\r\n$1\r\nf\r\n$1\r\n1\r\n$1\r\ng\r\n$1\r\n2\r\n");
    ask(f, f->a, "zrange z 0 -1", "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
    ask(f, f->a, "lrange l 0 -1", "*2\r\n$1\r\nx\r\n$1\r\ny\r\n");
    assert_true(sim_redis_evict(f->srv, 0, "s", 1));
    assert_false(sim_redis_evict(f->srv, 0, "s", 1));
}

static void message_reaches_only_those_subscribed_then(void **state)
{
    struct fixture *f = *state;
    ask(f, f->a, "publish c early", ":0\r\n");
    ask(f, f->b, "subscribe c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    ask(f, f->a, "publish c hi", ":1\r\n");
    assert_string_equal(heard(f, f->b),
                        "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n");
    ask(f, f->b, "get k",
        "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / "
        "PING / QUIT / RESET are allowed in this context\r\n");
    ask(f, f->b, "ping", "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    sim_redis_disconnect(f->srv, f->b);
    ask(f, f->a, "publish c late", ":0\r\n");
}

/* ---- looking in -------------------------------------------------------- */

struct seen {
    char text[256];
};

static void note_event(void *user, const struct sim_redis_event *ev)
{
    struct seen *s = user;
    size_t n = strlen(s->text);
    snprintf(s->text + n, sizeof s->text - n, "%s%s%s=%.*s;",
             ev->in_script ? ">" : "", ev->name, ev->script ? "!" : "",
             (int)ev->reply_len - 2, (const char *)ev->reply);
}

static void hook_sees_inner_commands_before_the_script(void **state)
{
    struct fixture *f = *state;
    struct seen s = {""};
    sim_redis_set_hook(f->srv, note_event, &s);
    tell(f, f->a, "eval \"redis.call('set','k','v') return 5\" 0");
    tell(f, f->a, "evalsha x 0");
    assert_string_equal(s.text,
                        ">set=+OK;eval!=:5;evalsha=-NOSCRIPT No matching "
                        "script. Please use EVAL.;");
}

static void count_key(void *user, const struct sim_redis_key *key)
{
    int *n = user;
    *n += key->expire_ms == -1 ? 100 : 1;
}

static void sum_scores(void *user, const struct sim_redis_item *item)
{
    double *sum = user;
    *sum += item->score;
}

static void checker_reads_without_touching(void **state)
{
    struct fixture *f = *state;
    tell(f, f->a, "set k v px 10");
    tell(f, f->a, "hset h f val");
    tell(f, f->a, "zadd z 2 b 1 a");
    int64_t later = T0 + 1000000;
    int n = 0;
    sim_redis_each_key(f->srv, 0, T0, count_key, &n);
    assert_int_equal(n, 201);
    n = 0;
    sim_redis_each_key(f->srv, 0, later, count_key, &n);
    assert_int_equal(n, 200);
    struct sim_redis_key key;
    assert_false(sim_redis_find(f->srv, 0, "k", 1, later, &key));
    assert_true(sim_redis_find(f->srv, 0, "k", 1, T0, &key));
    assert_int_equal(key.expire_ms, T0 / 1000 + 10);
    struct sim_redis_arg v;
    assert_true(sim_redis_hash_field(f->srv, 0, "h", 1, "f", T0, &v));
    assert_string_equal(v.ptr, "val");
    double sum = 0;
    assert_true(sim_redis_each_item(f->srv, 0, "z", 1, T0, sum_scores, &sum));
    assert_true(sum == 3);
}

static void same_seed_same_bytes(void **state)
{
    (void)state;
    static char first[8192];
    for (int i = 0; i < 2; i++) {
        struct fixture f = {.srv = sim_redis_new(NULL, 99), .now = T0};
        f.a = sim_redis_connect(f.srv);
        tell(&f, f.a, "eval 'local r = {} r[6] = tostring(r) return r' 0");
        tell(&f, f.a, "info");
        const char *out = heard(&f, f.a);
        if (i == 0) {
            snprintf(first, sizeof first, "%s", out);
        }
        assert_string_equal(first, out);
        sim_redis_free(f.srv);
    }
}

static void two_servers_share_a_host_but_no_scripts(void **state)
{
    struct fixture *f = *state;
    struct sim_redis *other = sim_redis_new(f->lua, 8);
    struct fixture g = {.srv = other, .now = T0};
    g.a = sim_redis_connect(other);
    tell(f, f->a, "eval 'return 1' 0");
    assert_int_equal(sim_redis_script_count(f->srv), 1);
    assert_int_equal(sim_redis_script_count(other), 0);
    ask(&g, g.a, "evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
        "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    sim_redis_free(other);
}

/* A thousand members and fields: growth, holes and order of the tables. */
static void large_collections_keep_their_order(void **state)
{
    struct fixture *f = *state;
    tell(f, f->a,
         "eval \"for i=1,2000 do redis.call('zadd','z',i%50,'m'..i) "
         "redis.call('hset','h','f'..i,i) end for i=1,2000,3 do "
         "redis.call('zrem','z','m'..i) redis.call('hdel','h','f'..i) end "
         "for i=1,100 do redis.call('hset','h','n'..i,i) end "
         "return {redis.call('zcard','z'),redis.call('hlen','h'),"
         "redis.call('hget','h','f1999'),redis.call('hkeys','h')[1],"
         "redis.call('zrange','z',0,0)[1]}\" 0");
    assert_string_equal(heard(f, f->a),
                        "*5\r\n:1333\r\n:1433\r\n$-1\r\n$2\r\nf2\r\n"
                        "$5\r\nm1050\r\n");
    ask(f, f->a, "hget h f2000", "$4\r\n2000\r\n");
}

static void ids_of_a_stream_only_rise(void **state)
{
    struct fixture *f = *state;
    ask(f, f->a, "xadd m nomkstream maxlen 0 * a ''", "$-1\r\n");
    ask(f, f->a, "exists m", ":0\r\n");
    ask(f, f->a, "xadd m maxlen 0 * a ''", "$15\r\n1700000000000-0\r\n");
    ask(f, f->a, "xadd m maxlen 0 * a ''", "$15\r\n1700000000000-1\r\n");
    f->now = T0 - 5 * 1000000; /* the clock is set back */
    ask(f, f->a, "xadd m nomkstream maxlen 0 * a ''",
        "$15\r\n1700000000000-2\r\n");
    ask(f, f->a, "xadd m maxlen 0 1700000000000-2 a ''",
        "-ERR The ID specified in XADD is equal or smaller than the target "
        "stream top item\r\n");
    ask(f, f->a, "xadd m maxlen 0 1700000000000-33 a ''",
        "$16\r\n1700000000000-33\r\n");
    f->now = T0 + 1000;
    ask(f, f->a, "xadd m maxlen 0 * a ''", "$15\r\n1700000000001-0\r\n");
    ask(f, f->a, "xlen m", ":0\r\n");
    ask(f, f->a, "pttl m", ":-1\r\n");
    struct sim_redis_snapshot *snap = sim_redis_snapshot(f->srv);
    ask(f, f->a, "del m", ":1\r\n");
    sim_redis_restore(f->srv, snap);
    sim_redis_snapshot_free(snap);
    ask(f, f->a, "xadd m maxlen 0 * a ''", "$15\r\n1700000000001-1\r\n");
    ask(f, f->a, "get m",
        "-WRONGTYPE Operation against a key holding the wrong kind of "
        "value\r\n");
    ask(f, f->a,
        "xadd m maxlen 0 18446744073709551615-18446744073709551614 a ''",
        "$41\r\n18446744073709551615-18446744073709551614\r\n");
    ask(f, f->a, "xadd m maxlen 0 * a ''",
        "$41\r\n18446744073709551615-18446744073709551615\r\n");
    ask(f, f->a, "xadd m maxlen 0 * a ''",
        "-ERR The stream has exhausted the last possible ID, unable to add "
        "more items\r\n");
}

static void what_is_set_in_the_past_is_not_there(void **state)
{
    struct fixture *f = *state;
    tell(f, f->a, "xadd m maxlen 0 * a ''");
    heard(f, f->a);
    tell(f, f->a, "multi");
    tell(f, f->a, "set k v nx pxat 1699999999999");
    tell(f, f->a, "xadd m nomkstream maxlen 0 * a ''");
    ask(f, f->a, "exec",
        "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n"
        "$15\r\n1700000000000-1\r\n");
    ask(f, f->a, "exists k", ":0\r\n");
    ask(f, f->a, "set k v nx pxat 1700000000100", "+OK\r\n");
    ask(f, f->a, "set k w nx pxat 1700000009999", "$-1\r\n");
    ask(f, f->a, "pttl k", ":100\r\n");
}

int main(void)
{
    static const struct CMUnitTest own[] = {
#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, fixture_up, fixture_down)
        TEST(key_lives_through_its_last_millisecond),
        TEST(unseen_expired_key_returns_when_clock_steps_back),
        TEST(time_and_ttl_use_the_given_clock),
        TEST(request_in_single_bytes_is_one_request),
        TEST(protocol_error_closes),
        TEST(line_of_words_is_refused),
        TEST(kill_answers_then_closes),
        TEST(restart_keeps_data_and_nothing_else),
        TEST(snapshot_brings_back_every_type),
        TEST(message_reaches_only_those_subscribed_then),
        TEST(hook_sees_inner_commands_before_the_script),
        TEST(checker_reads_without_touching),
        TEST(same_seed_same_bytes),
        TEST(two_servers_share_a_host_but_no_scripts),
        TEST(large_collections_keep_their_order),
        TEST(ids_of_a_stream_only_rise),
        TEST(what_is_set_in_the_past_is_not_there),
    };
    int failed = cmocka_run_group_tests_name("redis_model", own, NULL, NULL);
    failed += _cmocka_run_group_tests("redis_faults", fault_tests,
                                      fault_tests_n, NULL, NULL);
    return failed;
}

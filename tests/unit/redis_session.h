/* tests/unit/redis_session.h — store/redis as a step function, its bytes fed by
 * hand.
 *
 * The test is the server and the network: it reads the commands that the
 * store wrote (they are RESP arrays, so the reply reader reads them) and
 * answers what it likes, when it likes. */
#ifndef SNIB_TESTS_REDIS_SESSION_H
#define SNIB_TESTS_REDIS_SESSION_H

#include <stdlib.h>

#include "conns.h"
#include "core/name.h"
#include "core/url.h"
#include "proto/resp.h"
#include "store/redis/redis.h"
#include "store/redis/redis_i.h"

#define PATIENCE 2000

static struct snib__store *store;
static struct snib__out out;
static const struct snib__store_ops *const ops = &snib__redis_store_ops;
static struct snib__resp *reader[SESSIONS_MOST];
static snib_instant now;
static struct snib__name *name;
static char word[32][600]; /* of the command read last */
static uint32_t words;

static snib_err store_of(const char *text, struct snib__out *o,
                         struct snib__store **ret, struct snib_error *reterr)
{
    struct snib__url *url;
    *o = (struct snib__out){0};
    snib__list_init(&o->answered);
    snib__list_init(&o->exec);
    snib__conns_init(o, 1 << 22);
    assert_int_equal(snib__url_parse(text, &url, reterr), SNIB_ERR_OK);
    struct snib__store_config cfg = {.url = url,
                                     .out = o,
                                     .seed = {{1, 2, 3, 4}},
                                     .request = snib__ms(PATIENCE),
                                     .client = {0xabc, 0xdef}};
    snib_err err = ops->open(&cfg, ret, reterr);
    snib__url_free(url);
    return err;
}

/* What becomes of a URL with these keys. */
static snib_err url_opens(const char *query, snib_duration *ret_most,
                          struct snib_error *reterr)
{
    char text[80];
    struct snib__store *s = NULL;
    struct snib__out o;
    snprintf(text, sizeof text, "redis://h?%s", query);
    snib_err err = store_of(text, &o, &s, reterr);
    *ret_most = o.lease_most;
    if (!err) {
        ops->free(s);
    }
    snib__conns_free(&o);
    return err;
}

static void open_store(const char *text)
{
    struct snib_error e;
    now = (snib_instant){INT64_C(1000000000000)};
    if (store_of(text, &out, &store, &e)) {
        fail_msg("%s", e.text);
    }
    assert_int_equal(snib__name_new("n", 0, &name, NULL), SNIB_ERR_OK);
    for (int i = 0; i < SESSIONS_MOST; i++) {
        assert_int_equal(snib__resp_new(1 << 22, &reader[i]), SNIB_ERR_OK);
    }
}

static int set_up(void **state)
{
    (void)state;
    open_store("redis://h");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ops->free(store);
    snib__free(name);
    for (int i = 0; i < SESSIONS_MOST; i++) {
        snib__resp_free(reader[i]);
    }
    snib__conns_free(&out);
    return 0;
}

/* -- the world ---------------------------------------------------------------- */

/* Which allocation of the next step finds no memory; 0: none. */
static int no_memory_at;

static void input(int i, snib__input_kind kind, const void *p, size_t n)
{
    struct snib__input in = {
        .kind = kind, .conn = (uint32_t)i, .bytes = p, .size = n};
    if (no_memory_at) {
        snib__mem_fail_at(no_memory_at, false);
    }
    ops->input(store, now, &in);
    if (no_memory_at) {
        snib__mem_fail_at(0, false);
        no_memory_at = 0;
    }
}

static void say(int i, const char *bytes)
{
    input(i, SNIB__IN_BYTES, bytes, strlen(bytes));
}

static void sayf(int i, const char *fmt, ...)
{
    char text[4000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say(i, text);
}

static void opened(int i)
{
    assert_true(out.conn[i]->open);
    out.conn[i]->open = false;
    snib__resp_reset(reader[i]);
    input(i, SNIB__IN_OPENED, NULL, 0);
}

static void closed(int i)
{
    out.conn[i]->shut = false;
    input(i, SNIB__IN_CLOSED, NULL, 0);
}

/* The next command written to the line; false: none. */
static bool heard(int i)
{
    struct snib__buf *b = &out.conn[i]->out;
    const struct snib__resp_cell *c;
    snib__resp_feed(reader[i], snib__buf_bytes(b), snib__buf_size(b));
    snib__buf_consume(b, snib__buf_size(b));
    snib__resp_result got = snib__resp_next(reader[i], &c);
    if (got == SNIB__RESP_MORE) {
        return false;
    }
    assert_int_equal(got, SNIB__RESP_REPLY);
    assert_int_equal(c->type, SNIB__RESP_ARRAY);
    words = c->size;
    c++;
    for (uint32_t k = 0; k < words; k++, c++) {
        assert_int_equal(c->type, SNIB__RESP_STRING);
        if (k < COUNT_OF(word)) {
            snprintf(word[k], sizeof word[k], "%.*s",
                     c->size < 599 ? (int)c->size : 599, c->text);
        }
    }
    return true;
}

static enum snib__script script_heard(int i)
{
    assert_true(heard(i));
    bool full = !strcmp(word[0], "EVAL");
    if (!full) {
        assert_string_equal(word[0], "EVALSHA");
    }
    for (int s = 0; s < SNIB__SCRIPTS; s++) {
        if (full ? !strncmp(word[1], snib__redis_scripts[s].text, 590)
                 : !strcmp(word[1], snib__redis_scripts[s].sha1)) {
            return (enum snib__script)s;
        }
    }
    fail_msg("no script of ours");
    return SNIB__SCRIPTS;
}

/* acquire: words 3..10 keys, 11 client, 12 request, 14 may queue, 15 poll */
static void hears_acquire(int i, const char *may_queue)
{
    assert_int_equal(script_heard(i), SNIB__SCRIPT_ACQUIRE);
    assert_string_equal(word[14], may_queue);
}

static void pass(int64_t ms)
{
    snib_instant until = snib__after(now, snib__ms(ms));
    while (ops->due(store).ns <= until.ns) {
        now = snib__later(now, ops->due(store));
        int64_t before = now.ns;
        input(0, SNIB__IN_TICK, NULL, 0);
        if (ops->due(store).ns <= before) {
            fail_msg("due does not move");
        }
        if (shuts(&out)) {
            return; /* let the test close it */
        }
    }
    now = until;
}

#define LAYOUT_REPLY "+OK\r\n$1\r\n2\r\n"
#define TIME_REPLY   "*2\r\n$10\r\n1790000000\r\n$6\r\n250000\r\n"

#define HELLO_REPLY_OF(mode, role)                                             \
    "*6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$4\r\nmode\r\n" mode                 \
    "\r\n$4\r\nrole\r\n" role "\r\n"
#define HELLO_REPLY HELLO_REPLY_OF("$10\r\nstandalone", "$6\r\nmaster")

static void hears_hello(int i)
{
    assert_true(heard(i));
    assert_string_equal(word[0], "HELLO");
    assert_string_equal(word[1], "2");
}

static bool asks_info(void)
{
    return snib__session_asks_info((struct snib__redis *)(void *)store);
}

/* The layout is written, where there is none, and read; then INFO, where
 * several servers take turns, and the time. */
static void hears_layout_and_time(int i)
{
    static const char *const asked[] = {"SET", "GET", "INFO", "TIME"};
    for (size_t k = 0; k < COUNT_OF(asked); k++) {
        if (k != 2 || asks_info()) {
            assert_true(heard(i));
            assert_string_equal(word[0], asked[k]);
        }
    }
}

static void says_layout_and_time(int i)
{
    say(i, LAYOUT_REPLY);
    say(i, asks_info() ? "-NOPERM x\r\n" TIME_REPLY : TIME_REPLY);
}

static void connected(int i)
{
    opened(i);
    hears_hello(i);
    say(i, HELLO_REPLY);
    if (i == SUBS) {
        assert_true(heard(i));
        assert_string_equal(word[0], "SUBSCRIBE");
        char first[sizeof word[1]];
        snprintf(first, sizeof first, "%s", word[1]);
        sayf(i, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
             strlen(word[1]), word[1]);
        if (heard(i)) { /* a later one: also where force is told */
            assert_string_equal(word[0], "SUBSCRIBE");
            sayf(i, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:2\r\n",
                 strlen(word[1]), word[1]);
        }
        memcpy(word[1], first, sizeof first);
    } else {
        hears_layout_and_time(i);
        says_layout_and_time(i);
    }
}

/* -- requests ------------------------------------------------------------------ */

static struct snib_error error;
static uint64_t next_id = 1;

static struct snib__request request(snib__verb verb)
{
    struct snib__request rq = {.name = name,
                               .id = {7, next_id++},
                               .verb = verb,
                               .lease = snib__ms(30000),
                               .limit = SNIB__NEVER,
                               .said.reterr = &error,
                               .acquire.reserve = 31};
    error.text[0] = 0;
    return rq;
}

static void start(struct snib__request *rq)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&rq->link);
    snib__list_push(&chain, &rq->link);
    ops->start(store, now, &chain);
    assert_true(snib__list_empty(&chain));
}

/* Exactly this request is answered now. */
static void answered(struct snib__request *rq, snib__answer answer)
{
    struct snib__link *l = snib__list_pop(&out.answered);
    assert_non_null(l);
    assert_ptr_equal(SNIB__CONTAINER(l, struct snib__request, link), rq);
    assert_int_equal(rq->said.answer, answer);
}

static void silence(void)
{
    assert_true(snib__list_empty(&out.answered));
}

static void grant_reply(int i, int64_t token)
{
    sayf(i, "*5\r\n:1\r\n:1790000000300\r\n:%lld\r\n:31\r\n:30000\r\n",
         (long long)token);
}

static const char *hex_of(const struct snib__request *rq)
{
    static char text[33];
    snib__encode_hex(text, rq->id);
    return text;
}

static void push(const struct snib__request *rq, int64_t token, int claim,
                 uint32_t poll)
{
    char text[300];
    const char *channel = ((struct snib__redis *)(void *)store)->channel;
    int n = snprintf(text, sizeof text, "g %s %lld 31 %d %u 1790000000400 %s",
                     hex_of(rq), (long long)token, claim, poll, "snib:{n}");
    sayf(SUBS, "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%d\r\n%s\r\n",
         strlen(channel), channel, n, text);
}

/* An ACQUIRE waits in the server's queue, the subscription is up. */
static void let_wait(struct snib__request *rq)
{
    rq->acquire.may_queue = true;
    start(rq);
    if (out.conn[CALLERS]->open) {
        connected(CALLERS);
    }
    hears_acquire(CALLERS, out.conn[SUBS]->pushes ? "1" : "0");
    if (!out.conn[SUBS]->pushes) {
        say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
        silence();
        connected(SUBS);
        hears_acquire(CALLERS, "1");
    }
    say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:3\r\n:20000\r\n");
    answered(rq, SNIB__QUEUED);
    assert_int_equal(rq->said.position, 3);
    assert_int_equal(snib__to_ms(rq->said.left), 20000);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

#endif

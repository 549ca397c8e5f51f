/* tests/unit/cluster_world.h — store/cluster as a step function: the test is all
 * nodes and the network. Connections are found by their node's address and use;
 * a map is said as the nodes would say it. */
#ifndef SNIB_TESTS_CLUSTER_WORLD_H
#define SNIB_TESTS_CLUSTER_WORLD_H

#include "conns.h"
#include "core/url.h"
#include "proto/resp.h"
#include "redis_scripts.h"
#include "store/cluster/cluster_i.h"

enum { CALLS, BACK, EARS, USES }; /* connections of a node, in this order */

#define PATIENCE 2000
#define URL      "redis+cluster://a,b"

static const struct snib__store_ops *const ops = &snib__cluster_store_ops;
static struct snib__store *store;
static struct snib__out out;
static struct snib__resp *reader[SNIB__CONNS_MAX];
static snib_instant now;
static struct snib__name *low, *high, *low_too; /* slots 5920, 10284, 5920  */
static char word[64][300];
static uint32_t words;
static struct snib_error error;
static struct snib__buf rows;

static struct snib__cluster *cluster(void)
{
    return (struct snib__cluster *)(void *)store;
}

static struct snib__name *name_in(uint32_t from, uint32_t to, int nth)
{
    for (int i = 0;; i++) {
        struct snib__name *n;
        char text[20];
        snprintf(text, sizeof text, "n%d", i);
        assert_int_equal(snib__name_new(text, 0, &n, NULL), SNIB_ERR_OK);
        if (snib__slot_of(n) >= from && snib__slot_of(n) <= to && !nth--) {
            return n;
        }
        snib__free(n);
    }
}

static void open_cluster(const char *text)
{
    struct snib__url *url;
    now = (snib_instant){INT64_C(1000000000000)};
    out = (struct snib__out){0};
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    snib__conns_init(&out, 1 << 22);
    assert_int_equal(snib__url_parse(text, &url, &error), SNIB_ERR_OK);
    struct snib__store_config cfg = {.url = url,
                                     .out = &out,
                                     .seed = {{1, 2, 3, 4}},
                                     .request = snib__ms(PATIENCE),
                                     .client = {0xabc, 0xdef}};
    if (ops->open(&cfg, &store, &error)) {
        fail_msg("%s", error.text);
    }
    snib__url_free(url);
    low = name_in(0, 8191, 0);
    low_too = name_in(snib__slot_of(low), snib__slot_of(low), 1);
    high = name_in(8192, 16383, 0);
    snib__buf_init(&rows, 1 << 20);
}

static int set_up(void **state)
{
    (void)state;
    open_cluster(URL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    ops->free(store);
    for (int i = 0; i < SNIB__CONNS_MAX; i++) {
        snib__resp_free(reader[i]);
        reader[i] = NULL;
    }
    snib__conns_free(&out);
    snib__buf_free(&rows);
    snib__free(low);
    snib__free(low_too);
    snib__free(high);
    return 0;
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* -- the network ---------------------------------------------------------------- */

/* The connection to that address for that use: of the node that has it now. */
static uint32_t conn(const char *address, int use)
{
    for (uint32_t i = 0; i < out.conns; i++) {
        if (!strcmp(out.conn[i]->address, address)) {
            return i + (uint32_t)use;
        }
    }
    fail_msg("no connection to %s", address);
    return 0;
}

static void input(uint32_t i, snib__input_kind kind, const void *p, size_t n)
{
    struct snib__input in = {.kind = kind, .conn = i, .bytes = p, .size = n};
    ops->input(store, now, &in);
}

static void say(uint32_t i, const char *bytes)
{
    input(i, SNIB__IN_BYTES, bytes, strlen(bytes));
}

static void sayf(uint32_t i, const char *fmt, ...)
{
    char text[4000];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    say(i, text);
}

static void refused(uint32_t i)
{
    assert_true(out.conn[i]->open);
    out.conn[i]->open = false;
    input(i, SNIB__IN_REFUSED, "Connection refused", 18);
}

static void closed(uint32_t i)
{
    out.conn[i]->shut = false;
    input(i, SNIB__IN_CLOSED, NULL, 0);
}

static bool heard(uint32_t i)
{
    struct snib__buf *b = &out.conn[i]->out;
    const struct snib__resp_cell *c;
    if (!reader[i]) {
        assert_int_equal(snib__resp_new(1 << 22, &reader[i]), SNIB_ERR_OK);
    }
    snib__resp_feed(reader[i], snib__buf_bytes(b), snib__buf_size(b));
    snib__buf_consume(b, snib__buf_size(b));
    if (snib__resp_next(reader[i], &c) != SNIB__RESP_REPLY) {
        return false;
    }
    words = c->size;
    c++;
    for (uint32_t k = 0; k < words; k++, c++) {
        if (k < COUNT_OF(word)) {
            snprintf(word[k], sizeof word[k], "%.*s",
                     c->size < 299 ? (int)c->size : 299, c->text);
        }
    }
    return true;
}

static void hears(uint32_t i, const char *what)
{
    assert_true(heard(i));
    assert_string_equal(word[0], what);
}

static void hears_script(uint32_t i, enum snib__script s)
{
    assert_true(heard(i));
    if (strcmp(word[0], "EVALSHA") != 0 ||
        strcmp(word[1], snib__redis_scripts[s].sha1) != 0) {
        fail_msg("%s %s in place of %s", word[0], word[1],
                 snib__redis_scripts[s].name);
    }
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
    }
    now = until;
}

/* -- what nodes say -------------------------------------------------------------- */

#define HELLO_OF(mode, role)                                                   \
    "*6\r\n$6\r\nserver\r\n$5\r\nredis\r\n$4\r\nmode\r\n" mode                 \
    "\r\n$4\r\nrole\r\n" role "\r\n"
#define NODE_HELLO    HELLO_OF("$7\r\ncluster", "$6\r\nmaster")
#define REPLICA_HELLO HELLO_OF("$7\r\ncluster", "$7\r\nreplica")
#define ALONE_HELLO   HELLO_OF("$10\r\nstandalone", "$6\r\nmaster")
#define GREETED                                                                \
    "+OK\r\n$1\r\n2\r\n-NOPERM x\r\n*2\r\n$10\r\n1790000000\r\n$1\r\n0\r\n"

#define LINE(n) "000000000000000000000000000000000000000" n " "
#define LOW     LINE("1") "1.1.1.1:1@9 master - 0 0 1 connected 0-8191\n"
#define HIGH                                                                   \
    LINE("2") "2.2.2.2:2@9 myself,master - 0 0 2 connected 8192-16383\n"
#define TWO    LOW HIGH
#define A      "a:6379"
#define B      "b:6379"
#define ONE_AT "1.1.1.1:1"
#define TWO_AT "2.2.2.2:2"

static void says_map(uint32_t i, const char *map)
{
    sayf(i, "$%zu\r\n%s\r\n", strlen(map), map);
}

static void opened(uint32_t i)
{
    assert_true(out.conn[i]->open);
    out.conn[i]->open = false;
    snib__resp_free(reader[i]);
    reader[i] = NULL;
    input(i, SNIB__IN_OPENED, NULL, 0);
}

/* It is greeted, and says the map. */
static void tells(uint32_t i, const char *hello, const char *map)
{
    opened(i);
    hears(i, "HELLO");
    hears(i, "CLUSTER");
    assert_string_equal(word[1], "NODES");
    assert_false(heard(i));
    say(i, hello);
    says_map(i, map);
}

static void connected(uint32_t i, const char *map)
{
    static const char *const asked[] = {"SET", "GET", "INFO", "TIME"};
    tells(i, NODE_HELLO, map);
    for (size_t k = 0; k < COUNT_OF(asked); k++) {
        hears(i, asked[k]);
    }
    say(i, GREETED);
}

static void subscribed(uint32_t i)
{
    opened(i);
    hears(i, "HELLO");
    say(i, NODE_HELLO);
    for (int k = 1; heard(i); k++) {
        assert_string_equal(word[0], "SUBSCRIBE");
        sayf(i, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:%d\r\n",
             strlen(word[1]), word[1], k);
    }
}

/* -- requests -------------------------------------------------------------------- */

static uint64_t next_id = 1;

static struct snib__request request(snib__verb verb, const struct snib__name *n)
{
    error = (struct snib_error){0};
    return (struct snib__request){.name = n,
                                  .id = {7, next_id++},
                                  .verb = verb,
                                  .lease = snib__ms(30000),
                                  .limit = snib__after(now, snib__ms(60000)),
                                  .said.reterr = &error,
                                  .said.result = &rows,
                                  .acquire.permits = 1,
                                  .acquire.reserve = 31};
}

static void start_all(struct snib__request *const rq[], size_t count)
{
    struct snib__list chain;
    snib__list_init(&chain);
    for (size_t i = 0; i < count; i++) {
        snib__link_init(&rq[i]->link);
        snib__list_push(&chain, &rq[i]->link);
    }
    ops->start(store, now, &chain);
    assert_true(snib__list_empty(&chain));
}

static void start(struct snib__request *rq)
{
    start_all(&rq, 1);
}

/* Started, it is asked of the node at that address, by this script. */
static void asked_of(const char *address, struct snib__request *rq,
                     enum snib__script script)
{
    start(rq);
    hears_script(conn(address, CALLS), script);
}

/* The node that had the slot of `low` says that the other one serves it. */
static void low_is_moved(void)
{
    sayf(conn(ONE_AT, CALLS), "-MOVED %u 2.2.2.2:2\r\n", snib__slot_of(low));
}

static void is_held(const char *address)
{
    say(conn(address, CALLS), "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
}

static void is_queued(const char *address, int position)
{
    sayf(conn(address, CALLS),
         "*4\r\n:2\r\n:1790000000300\r\n:%d\r\n:20000\r\n", position);
}

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

static void grants(uint32_t i, int64_t token)
{
    sayf(i, "*5\r\n:1\r\n:1790000000300\r\n:%lld\r\n:31\r\n:30000\r\n",
         (long long)token);
}

/* The map is known, and a lock of each node was taken. */
static void settled(void)
{
    struct snib__request one = request(SNIB__ACQUIRE, low),
                         two = request(SNIB__ACQUIRE, high);
    start(&one);
    start(&two);
    tells(conn(A, CALLS), NODE_HELLO, TWO);
    closed(conn(A, CALLS)); /* it serves nothing */
    connected(conn(ONE_AT, CALLS), TWO);
    connected(conn(TWO_AT, CALLS), TWO);
    hears_script(conn(ONE_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    hears_script(conn(TWO_AT, CALLS), SNIB__SCRIPT_ACQUIRE);
    grants(conn(ONE_AT, CALLS), 1000);
    answered(&one, SNIB__DONE);
    grants(conn(TWO_AT, CALLS), 2000);
    answered(&two, SNIB__DONE);
    silence();
    pass(600); /* the map is asked for no oftener than that */
}

#endif

/* store/redis: the store as a step function, its bytes fed by hand. labels: oom
 *
 * The test is the server and the network: it reads the commands that the
 * store wrote (they are RESP arrays, so the reply reader reads them) and
 * answers what it likes, when it likes. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include <stdlib.h>

#include "core/name.h"
#include "core/url.h"
#include "proto/resp.h"
#include "store/redis/redis.h"
#include "store/redis/redis_i.h"

#define PATIENCE 2000

static struct snib__store *store;
static struct snib__out out;
static const struct snib__store_ops *const ops = &snib__redis_store_ops;
static struct snib__resp *reader[LINES];
static snib_instant now;
static struct snib__name *name;
static char word[24][600]; /* of the command read last */
static uint32_t words;

static void open_store(const char *text)
{
    struct snib__url *url;
    struct snib_error e;
    now = (snib_instant){INT64_C(1000000000000)};
    out = (struct snib__out){0};
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    for (int i = 0; i < SNIB__CHANS; i++) {
        snib__buf_init(&out.chan[i].out, 1 << 22);
    }
    assert_int_equal(snib__url_parse(text, &url, &e), SNIB_ERR_OK);
    struct snib__store_config cfg = {.url = url,
                                     .out = &out,
                                     .seed = {{1, 2, 3, 4}},
                                     .request = snib__ms(PATIENCE),
                                     .client = {0xabc, 0xdef}};
    if (ops->open(&cfg, &store, &e)) {
        fail_msg("%s", e.text);
    }
    snib__url_free(url);
    assert_int_equal(snib__name_new("n", 0, &name, NULL), SNIB_ERR_OK);
    for (int i = 0; i < LINES; i++) {
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
    for (int i = 0; i < LINES; i++) {
        snib__resp_free(reader[i]);
    }
    for (int i = 0; i < SNIB__CHANS; i++) {
        snib__buf_free(&out.chan[i].out);
    }
    return 0;
}

/* -- the world ---------------------------------------------------------------- */

static void input(int i, snib__input_kind kind, const void *p, size_t n)
{
    struct snib__input in = {
        .kind = kind, .chan = (uint8_t)i, .bytes = p, .size = n};
    ops->input(store, now, &in);
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
    assert_true(out.open & 1u << i);
    out.open &= ~(1u << i);
    snib__resp_reset(reader[i]);
    input(i, SNIB__IN_OPENED, NULL, 0);
}

static void closed(int i)
{
    out.shut &= ~(1u << i);
    input(i, SNIB__IN_CLOSED, NULL, 0);
}

/* The next command written to the line; false: none. */
static bool heard(int i)
{
    struct snib__buf *b = &out.chan[i].out;
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

/* acquire: words 3..8 keys, 9 client, 10 request, 12 may queue, 13 poll */
static void hears_acquire(int i, const char *may_queue)
{
    assert_int_equal(script_heard(i), SNIB__SCRIPT_ACQUIRE);
    assert_string_equal(word[12], may_queue);
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
        if (out.shut) {
            return; /* let the test close it */
        }
    }
    now = until;
}

#define TIME_REPLY "*2\r\n$10\r\n1790000000\r\n$6\r\n250000\r\n"

static void connected(int i)
{
    opened(i);
    assert_true(heard(i));
    if (i == SUBS) {
        assert_string_equal(word[0], "SUBSCRIBE");
        sayf(i, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
             strlen(word[1]), word[1]);
    } else {
        assert_string_equal(word[0], "TIME");
        say(i, TIME_REPLY);
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
                               .reterr = &error,
                               .room = 31};
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
    assert_int_equal(rq->answer, answer);
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
    rq->may_queue = true;
    start(rq);
    if (out.open & 1u << CALLERS) {
        connected(CALLERS);
    }
    hears_acquire(CALLERS, out.chan[SUBS].pushes ? "1" : "0");
    if (!out.chan[SUBS].pushes) {
        say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
        silence();
        connected(SUBS);
        hears_acquire(CALLERS, "1");
    }
    say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:3\r\n:20000\r\n");
    answered(rq, SNIB__QUEUED);
    assert_int_equal(rq->position, 3);
    assert_int_equal(snib__to_ms(rq->left), 20000);
}

/* -- connecting ------------------------------------------------------------------ */

static void nothing_is_opened_before_the_first_request(void **state)
{
    (void)state;
    assert_int_equal(out.open, 0);
    assert_int_equal(ops->due(store).ns, INT64_MAX);
    assert_string_equal(out.chan[0].address, "h:6379");
    assert_true(out.chan[2].used && !out.chan[3].used);
}

static void
the_greeting_is_one_write_and_nothing_precedes_its_answer(void **state)
{
    tear_down(state);
    open_store("redis://anna:secret@[::1]:7/5");
    assert_string_equal(out.chan[0].address, "[::1]:7");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "AUTH");
    assert_string_equal(word[1], "anna");
    assert_string_equal(word[2], "secret");
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "SELECT");
    assert_string_equal(word[1], "5");
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_PROBE);
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "TIME");
    assert_int_equal(out.chan[CALLERS].awaited, 4);
    assert_false(heard(CALLERS));
    say(CALLERS, "+OK\r\n+OK\r\n*2\r\n*0\r\n:0\r\n");
    assert_int_equal(out.chan[CALLERS].awaited, 1);
    assert_false(heard(CALLERS));
    say(CALLERS, TIME_REPLY);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[14], "1790000010150"); /* 250 ms + 9.9 s */
    assert_int_equal(out.chan[CALLERS].awaited, 1);
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    assert_int_equal(out.chan[CALLERS].awaited, 0);
    assert_int_equal(rq.token, 1000);
    assert_int_equal(rq.room, 31);
    assert_int_equal(snib__to_ms(rq.left), 30000);
}

static void urls_are_understood_or_refused(void **state)
{
    static const struct {
        const char *url, *address;
        uint32_t db;
    } good[] = {
        {"redis://h:1/", "h:1", 0},
        {"redis://h/15", "h:6379", 15},
        {"redis+unix:///run/r.sock?db=3", "/run/r.sock", 3},
    };
    static const char *const bad[] = {"redis://h/x", "redis://h?bd=3",
                                      "redis+unix:///r?db=-1", "redis://h/1x"};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        tear_down(state);
        open_store(good[i].url);
        assert_string_equal(out.chan[0].address, good[i].address);
        assert_int_equal(((struct snib__redis *)(void *)store)->db, good[i].db);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct snib__url *url;
        struct snib__store *none;
        struct snib_error e;
        if (snib__url_parse(bad[i], &url, &e)) {
            continue; /* refused even earlier */
        }
        struct snib__store_config cfg = {
            .url = url, .out = &out, .request = snib__ms(1)};
        assert_int_equal(ops->open(&cfg, &none, &e), SNIB_ERR_USAGE);
        assert_null(none);
        snib__url_free(url);
    }
}

static void never_connected_is_unreachable_after_one_patience(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    for (int i = 0; i < 40 && snib__list_empty(&out.answered); i++) {
        if (out.open & 1) {
            out.open = 0;
            input(0, SNIB__IN_REFUSED, "Connection refused", 18);
        }
        pass(100);
    }
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text, "Connection refused");
}

static void connected_before_it_goes_on_until_the_limit(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    closed(CALLERS);
    rq = request(SNIB__ACQUIRE);
    rq.limit = snib__after(now, snib__ms(60000));
    start(&rq);
    for (int i = 0; i < 590; i++) {
        if (out.open & 1) {
            out.open = 0;
            input(0, SNIB__IN_REFUSED, NULL, 0);
        }
        silence();
        pass(100);
    }
    if (out.open & 1) {
        connected(CALLERS);
    } else {
        pass(900);
        connected(CALLERS);
    }
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 2000);
    answered(&rq, SNIB__DONE);
}

static void reconnecting_backs_off_to_a_second(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__RELEASE);
    int tries = 0;
    start(&rq);
    connected(CALLERS);
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&rq, SNIB__DONE);
    closed(CALLERS);
    rq = request(SNIB__RELEASE);
    start(&rq);
    for (int i = 0; i < 1000; i++) {
        if (out.open & 1) {
            out.open = 0;
            tries++;
            input(0, SNIB__IN_REFUSED, NULL, 0);
        }
        pass(10);
    }
    assert_in_range(tries, 12, 30);
}

static void a_limit_that_passes_before_the_send_is_not_applied(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.limit = snib__after(now, snib__ms(300));
    start(&rq);
    pass(299);
    silence();
    pass(1);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.err, SNIB_ERR_UNREACHABLE);
    assert_int_equal(snib__buf_size(&out.chan[0].out), 0);
}

static void a_refused_login_is_denied_at_once_and_not_hammered(void **state)
{
    tear_down(state);
    open_store("redis://:wrong@h");
    struct snib__request rq = request(SNIB__ACQUIRE), two;
    start(&rq);
    opened(CALLERS);
    say(CALLERS, "-WRONGPASS invalid username-password pair or user is "
                 "disabled.\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.err, SNIB_ERR_DENIED);
    assert_non_null(strstr(error.text, "WRONGPASS"));
    assert_true(out.shut & 1);
    closed(CALLERS);
    two = request(SNIB__ACQUIRE);
    start(&two);
    answered(&two, SNIB__NOT_APPLIED);
    assert_int_equal(two.err, SNIB_ERR_DENIED);
    pass(4900);
    assert_int_equal(out.open, 0);
    pass(200);
    two = request(SNIB__ACQUIRE);
    start(&two);
    assert_int_equal(out.open, 1);
    pass(5000);
    answered(&two, SNIB__NOT_APPLIED);
}

/* A right that is missing in the middle of a script would leave half. */
static void a_login_without_all_rights_is_denied_before_anything(void **state)
{
    tear_down(state);
    open_store("redis://u:p@h");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    say(CALLERS, "+OK\r\n*2\r\n*4\r\n$7\r\nPUBLISH\r\n$8\r\nNOPERM x\r\n"
                 "$3\r\nSET\r\n$44\r\n"
                 "ERR The user executing the script can't run \r\n:-1\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.err, SNIB_ERR_DENIED);
    assert_non_null(strstr(error.text, "may not be run in scripts: SET"));
    assert_int_equal(out.shut, 1);
}

static void without_publish_or_with_some_keys_only_it_works(void **state)
{
    static const char *const replies[] = {
        "*2\r\n*2\r\n$7\r\nPUBLISH\r\n$8\r\nNOPERM x\r\n:1\r\n",
        "-NOPERM this user has no permissions to access one of the keys\r\n",
        "-LOADING x\r\n"};
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        tear_down(state);
        open_store("redis://u:p@h");
        struct snib__request rq = request(SNIB__ACQUIRE);
        start(&rq);
        opened(CALLERS);
        say(CALLERS, "+OK\r\n");
        say(CALLERS, replies[i]);
        say(CALLERS, TIME_REPLY);
        grant_reply(CALLERS, 1000);
        answered(&rq, SNIB__DONE);
    }
}

static void too_many_clients_is_the_servers_fault_with_its_words(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    for (int i = 0; i < 40 && snib__list_empty(&out.answered); i++) {
        if (out.open & 1) {
            opened(CALLERS);
            say(CALLERS, "-ERR max number of clients reached\r\n");
            closed(CALLERS);
        }
        pass(100);
    }
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.err, SNIB_ERR_STORE);
    assert_non_null(strstr(error.text, "max number of clients"));
}

static void what_is_no_redis_is_told(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    say(CALLERS, "HTTP/1.1 400 Bad Request\r\n");
    assert_true(out.shut & 1);
    pass(PATIENCE);
    closed(CALLERS);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.err, SNIB_ERR_STORE);
}

/* -- lost replies ------------------------------------------------------------------ */

static void a_cut_after_the_send_is_unknown_at_once(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b = request(SNIB__RELEASE);
    start(&a);
    connected(CALLERS);
    start(&b);
    assert_int_equal(out.chan[CALLERS].awaited, 2);
    closed(CALLERS);
    assert_int_equal(out.chan[CALLERS].awaited, 0);
    answered(&a, SNIB__UNKNOWN);
    answered(&b, SNIB__UNKNOWN);
    assert_int_equal(a.err, SNIB_ERR_UNKNOWN);
}

static void after_a_lost_acquire_a_release_leaves_a_tombstone(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), r;
    start(&a);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    closed(CALLERS);
    answered(&a, SNIB__UNKNOWN);
    start(&a); /* the core repeats */
    pass(100);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&a, SNIB__DONE);
    r = request(SNIB__RELEASE);
    r.id[1] = a.id[1];
    start(&r);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    assert_string_equal(word[12], "1");
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&r, SNIB__DONE);
    pass(10000); /* now no copy can be executed any more */
    r = request(SNIB__RELEASE);
    start(&r);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    assert_string_equal(word[12], "0");
}

static void a_silent_line_is_closed_by_its_oldest_answer(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b;
    start(&a);
    connected(CALLERS);
    pass(PATIENCE - 500);
    b = request(SNIB__RELEASE);
    start(&b);
    assert_int_equal(out.shut, 0);
    pass(500);
    assert_int_equal(out.shut, 1);
    answered(&a, SNIB__UNKNOWN);
    answered(&b, SNIB__UNKNOWN);
    say(CALLERS, "*1\r\n:1\r\n"); /* too late: nobody's */
    silence();
    closed(CALLERS);
}

static void a_callers_limit_closes_nothing(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b;
    a.limit = snib__after(now, snib__ms(5));
    start(&a);
    connected(CALLERS);
    pass(5);
    answered(&a, SNIB__UNKNOWN);
    assert_int_equal(out.shut, 0);
    b = request(SNIB__RELEASE);
    start(&b);
    assert_int_equal(out.chan[CALLERS].awaited, 2);
    grant_reply(CALLERS, 1000); /* a's, and nobody's */
    silence();
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&b, SNIB__DONE);
}

static void noscript_is_one_eval_and_then_sha_again(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b = request(SNIB__ACQUIRE),
                         c = request(SNIB__ACQUIRE);
    start(&a);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[0], "EVALSHA");
    start(&b);
    hears_acquire(CALLERS, "0");
    now.ns += 1000;
    say(CALLERS, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[0], "EVAL");
    snib_instant sent = now;
    say(CALLERS, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[0], "EVALSHA");
    silence();
    now.ns += 1000;
    grant_reply(CALLERS, 1000);
    answered(&a, SNIB__DONE);
    assert_int_equal(a.valid_from.ns, sent.ns);
    grant_reply(CALLERS, 2000);
    answered(&b, SNIB__DONE);
    start(&c);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[0], "EVALSHA");
}

/* -- errors ------------------------------------------------------------------------ */

static void error_words_mean_the_same_in_both_wrappings(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        error_kind kind;
    } cases[] = {
        {"LOADING Redis is loading the dataset in memory", E_RETRY},
        {"BUSY Redis is busy running a script. You can only call SCRIPT KILL",
         E_RETRY},
        {"MASTERDOWN Link with MASTER is down", E_RETRY},
        {"TRYAGAIN Multiple keys request during rehashing of slot", E_RETRY},
        {"CLUSTERDOWN The cluster is down", E_RETRY},
        {"READONLY You can't write against a read only replica.", E_DROP},
        {"READONLY You can't write against a read only replica. script: abc, "
         "on @user_script:1.",
         E_DROP},
        {"ERR Error running script (call to f_6b1bf): @user_script:6: "
         "@user_script: 6: -READONLY You can't write against a read only "
         "replica.",
         E_DROP},
        {"ERR Error running script (call to f_6b1bf): @user_script:6: -OOM "
         "command not allowed when used memory > 'maxmemory'.",
         E_STORE},
        {"ERR Error running script (call to f_6): @user_script:6: "
         "@user_script: 6: -WRONGTYPE Operation against a key",
         E_CORRUPT},
        {"NOAUTH Authentication required.", E_DENIED},
        {"WRONGPASS invalid username-password pair", E_DENIED},
        {"NOPERM this user has no permissions to run the 'evalsha' command",
         E_DENIED},
        {"ERR The user executing the script can't run this command or "
         "subcommand script: abc, on @user_script:1.",
         E_DENIED},
        {"ERR Error running script (call to f_6): @user_script:6: "
         "@user_script: 6: The user executing the script can't run this "
         "command or subcommand",
         E_DENIED},
        {"ERR invalid password", E_DENIED},
        {"ERR AUTH <password> called without any password configured for the "
         "default user.",
         E_DENIED},
        {"OOM command not allowed when used memory > 'maxmemory'.", E_STORE},
        {"MISCONF Redis is configured to save RDB snapshots", E_STORE},
        {"NOREPLICAS Not enough good replicas to write.", E_STORE},
        {"DENIED Redis is running in protected mode", E_STORE},
        {"ERR max number of clients reached", E_STORE},
        {"ERR unknown command `EVALSHA`, with args beginning with:", E_STORE},
        {"MOVED 3999 127.0.0.1:6381", E_STORE},
        {"WRONGTYPE Operation against a key holding the wrong kind of value",
         E_CORRUPT},
        {"CORRUPT a holder record of snib:{n} is damaged", E_CORRUPT},
        {"NOSCRIPT No matching script.", E_NOSCRIPT},
        {"SNIBARG acquire: bad arguments", E_BUG},
        {"SNIBFLOOR the clock of this server", E_STORE},
        {"BUSYBODY something new", E_STORE},
        {"READONLYX", E_STORE},
        {"ERR the name is READONLY: -READONLY", E_STORE},
        {"", E_STORE},
        {"OOM", E_STORE},
        {"NOAUTH", E_DENIED},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        error_kind kind = snib__redis_error_kind(
            cases[i].text, (uint32_t)strlen(cases[i].text));
        if (kind != cases[i].kind) {
            fail_msg("%s: %d, not %d", cases[i].text, (int)kind,
                     (int)cases[i].kind);
        }
    }
}

static void an_error_text_cannot_write_to_the_terminal(void **state)
{
    (void)state;
    char text[12];
    snib__redis_error_text(text, sizeof text, "a\x1b[2J\xff\0%s\r\nlong", 15);
    assert_string_equal(text, "a?[2J??%s??");
}

static void a_permanent_error_is_told_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        snib_err err;
    } cases[] = {
        {"-NOPERM no\r\n", SNIB_ERR_DENIED},
        {"-OOM no\r\n", SNIB_ERR_STORE},
        {"-WRONGTYPE no\r\n", SNIB_ERR_CORRUPT},
        {"-SNIBARG no\r\n", SNIB_ERR_INTERNAL},
    };
    struct snib__request first = request(SNIB__RELEASE);
    start(&first);
    connected(CALLERS);
    say(CALLERS, "*1\r\n:0\r\n");
    answered(&first, SNIB__NO);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct snib__request rq = request(SNIB__ACQUIRE);
        start(&rq);
        say(CALLERS, cases[i].reply);
        answered(&rq, SNIB__NOT_APPLIED);
        assert_int_equal(rq.err, cases[i].err);
        assert_int_equal(error.code, cases[i].err);
    }
    assert_int_equal(out.shut, 0);
}

static void loading_is_waited_out_until_the_limit(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.limit = snib__after(now, snib__ms(1000));
    start(&rq);
    connected(CALLERS);
    int asked = 0;
    while (snib__list_empty(&out.answered)) {
        while (heard(CALLERS)) {
            asked++;
            say(CALLERS, "-LOADING Redis is loading the dataset\r\n");
        }
        pass(10);
    }
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.err, SNIB_ERR_STORE);
    assert_non_null(strstr(error.text, "LOADING"));
    assert_in_range(asked, 6, 20);
}

static void readonly_drops_the_line_and_asks_the_next_server(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b = request(SNIB__RELEASE);
    start(&a);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    start(&b);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    say(CALLERS, "-READONLY You can't write against a read only replica.\r\n");
    assert_int_equal(out.shut, 0); /* b's answer is still due */
    say(CALLERS, "-READONLY You can't write against a read only replica.\r\n");
    assert_int_equal(out.shut, 1);
    silence();
    closed(CALLERS);
    pass(200);
    connected(CALLERS);
    pass(200);
    enum snib__script one = script_heard(CALLERS);
    enum snib__script other = script_heard(CALLERS);
    assert_int_equal(one + other, SNIB__SCRIPT_ACQUIRE + SNIB__SCRIPT_RELEASE);
    assert_false(heard(CALLERS));
}

static void a_late_request_is_asked_again_with_the_new_time(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*2\r\n:4\r\n:1790000500000\r\n");
    silence();
    pass(20);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[14], "1790000509910");
}

static void a_reply_of_another_shape_is_unknown(void **state)
{
    (void)state;
    static const char *const replies[] = {
        "+OK\r\n",
        ":1\r\n",
        "*0\r\n",
        "*2\r\n:9\r\n:1\r\n",
        "*5\r\n:1\r\n:1\r\n:-5\r\n:1\r\n:1\r\n",
        "*5\r\n:1\r\n:1\r\n:9007199254740992\r\n:1\r\n:1\r\n",
        "*3\r\n:1\r\n:1\r\n:5\r\n",
        "$-1\r\n"};
    struct snib__request first = request(SNIB__RELEASE);
    start(&first);
    connected(CALLERS);
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&first, SNIB__DONE);
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct snib__request rq = request(SNIB__ACQUIRE);
        start(&rq);
        say(CALLERS, replies[i]);
        answered(&rq, SNIB__UNKNOWN);
    }
}

static void a_reply_to_nothing_closes_the_line(void **state)
{
    (void)state;
    struct snib__request first = request(SNIB__RELEASE);
    start(&first);
    connected(CALLERS);
    say(CALLERS, "*1\r\n:1\r\n*1\r\n:1\r\n");
    answered(&first, SNIB__DONE);
    assert_int_equal(out.shut, 1);
}

/* -- renewals ---------------------------------------------------------------------- */

static void renewals_travel_in_one_call_with_one_answer_each(void **state)
{
    (void)state;
    enum { N = 130 };
    static struct snib__request rq[N];
    struct snib__list chain;
    snib__list_init(&chain);
    for (int i = 0; i < N; i++) {
        rq[i] = request(SNIB__RENEW);
        rq[i].keepers = true;
        snib__link_init(&rq[i].link);
        snib__list_push(&chain, &rq[i].link);
    }
    ops->start(store, now, &chain);
    connected(KEEPER);
    assert_int_equal(script_heard(KEEPER), SNIB__SCRIPT_RENEW);
    assert_string_equal(word[2], "256");
    assert_int_equal(script_heard(KEEPER), SNIB__SCRIPT_RENEW);
    assert_string_equal(word[2], "4");
    assert_int_equal(out.chan[KEEPER].awaited, 2);
    snib_instant sent = now;
    now.ns += 5;
    struct snib__buf b;
    snib__buf_init(&b, 10000);
    snib__buf_puts(&b, "*129\r\n:1790000000500\r\n");
    for (int i = 0; i < 128; i++) {
        snib__buf_puts(&b, i == 1   ? ":0\r\n"
                           : i == 2 ? ":2\r\n"
                           : i == 3 ? ":3\r\n"
                           : i == 4 ? "$6\r\n-OOM x\r\n"
                                    : ":1\r\n");
    }
    say(KEEPER, snib__buf_text(&b));
    snib__buf_free(&b);
    for (int i = 0; i < 128; i++) {
        answered(&rq[i], i == 1 || i == 2   ? SNIB__NO
                         : i == 3 || i == 4 ? SNIB__NOT_APPLIED
                                            : SNIB__DONE);
    }
    assert_int_equal(rq[0].valid_from.ns, sent.ns);
    assert_int_equal(rq[1].err, SNIB_ERR_LOST);
    assert_true(rq[2].revoked && !rq[1].revoked);
    assert_int_equal(rq[3].err, SNIB_ERR_CORRUPT);
    assert_int_equal(rq[4].err, SNIB_ERR_STORE);
    closed(KEEPER);
    answered(&rq[128], SNIB__UNKNOWN);
    answered(&rq[129], SNIB__UNKNOWN);
}

static void
renewals_take_the_callers_line_when_theirs_cannot_be_had(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), r = request(SNIB__RENEW);
    start(&a);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&a, SNIB__DONE);
    r.keepers = true;
    start(&r);
    assert_true(out.open & 1u << KEEPER);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RENEW);
    say(CALLERS, "*2\r\n:1790000000500\r\n:1\r\n");
    answered(&r, SNIB__DONE);
}

/* -- waiting ------------------------------------------------------------------------ */

static void a_try_never_subscribes(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    connected(CALLERS);
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
    answered(&rq, SNIB__NO);
    assert_int_equal(rq.err, SNIB_ERR_BUSY);
    assert_int_equal(snib__to_ms(rq.left), 20000);
    assert_int_equal(out.open, 0);
}

static void
the_subscription_is_acknowledged_before_a_request_queues(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    assert_true(out.chan[SUBS].pushes);
    assert_int_equal(out.chan[SUBS].awaited, 0);
    assert_int_equal(out.chan[CALLERS].awaited, 0);
}

static void a_waiter_polls_within_a_second_and_a_half(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    for (int i = 0; i < 5; i++) {
        snib_instant before = now;
        while (!heard(CALLERS)) {
            pass(10);
            if (heard(SUBS)) {
                say(SUBS, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
            }
        }
        int64_t ms = snib__to_ms(snib__between(before, now));
        assert_in_range(ms, 990, 1510);
        say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:3\r\n:100\r\n");
        answered(&rq, SNIB__QUEUED);
    }
    /* place 2 times its poll to the holder's end */
    pass(1600);
    while (heard(CALLERS)) {
    }
    say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:2\r\n:100\r\n");
    answered(&rq, SNIB__QUEUED);
    pass(99);
    assert_false(heard(CALLERS));
    pass(40);
    assert_true(heard(CALLERS));
}

static void a_push_may_overtake_the_queued_reply(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b = request(SNIB__ACQUIRE),
                         r;
    let_wait(&a);
    b.may_queue = true;
    start(&b);
    hears_acquire(CALLERS, "1");
    snib_instant sent = now;
    uint32_t poll = (uint32_t)strtoul(word[13], NULL, 10);
    now.ns += 1000000;
    push(&b, 5000, 3000, poll);
    answered(&b, SNIB__DONE);
    assert_int_equal(b.token, 5000);
    assert_int_equal(b.valid_from.ns, sent.ns);
    assert_int_equal(snib__to_ms(b.left), 3000);
    /* released while the answer is still due: a late copy is possible */
    r = request(SNIB__RELEASE);
    r.id[1] = b.id[1];
    r.token = 5000;
    start(&r);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    assert_string_equal(word[12], "1");
    say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:1\r\n:100\r\n");
    silence();
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&r, SNIB__DONE);
}

static void a_push_counts_from_the_poll_that_it_names(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    uint32_t first = rq.poll[0].number;
    snib_instant sent = rq.poll[0].sent;
    pass(1600);
    assert_true(rq.poll[0].number > first);
    push(&rq, 5000, 3000, first); /* the newer one was not seen yet */
    answered(&rq, SNIB__DONE);
    assert_int_equal(rq.valid_from.ns, sent.ns);
}

static void a_push_that_names_no_poll_of_ours_is_asked_for(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    push(&rq, 5000, 3000, rq.poll[0].number + 1);
    silence();
    hears_acquire(CALLERS, "1");
    snib_instant sent = now;
    now.ns += 1000;
    push(&rq, 5000, 3000, 77); /* its answer is on its way already */
    assert_false(heard(CALLERS));
    grant_reply(CALLERS, 5000);
    answered(&rq, SNIB__DONE);
    assert_int_equal(rq.valid_from.ns, sent.ns);
}

static void a_push_whose_claim_is_over_is_asked_for(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    now.ns += INT64_C(3000000000); /* this process stood still */
    push(&rq, 5000, 3000, rq.poll[0].number);
    silence();
    hears_acquire(CALLERS, "1");
    grant_reply(CALLERS, 6000);
    answered(&rq, SNIB__DONE);
    assert_int_equal(rq.token, 6000);
}

/* The poll was executed after the claim had ended: it was granted anew. */
static void what_an_overtaken_poll_was_given_is_ended(void **state)
{
    static const struct {
        const char *reply;
        bool ends;
    } cases[] = {
        {"*5\r\n:1\r\n:1790000000300\r\n:6000\r\n:31\r\n:30000\r\n", true},
        {"*5\r\n:1\r\n:1790000000300\r\n:5000\r\n:31\r\n:30000\r\n", false},
        {"*5\r\n:1\r\n:1790000000300\r\n:4000\r\n:31\r\n:30000\r\n", false},
        {"*4\r\n:2\r\n:1790000000300\r\n:1\r\n:100\r\n", false},
        {"*4\r\n:2\r\n:1790000003401\r\n:1\r\n:100\r\n", true},
        {"*2\r\n:5\r\n:1790000000300\r\n", false},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        tear_down(state);
        open_store("redis://h");
        struct snib__request rq = request(SNIB__ACQUIRE);
        let_wait(&rq);
        pass(1600);
        while (heard(CALLERS)) {
        }
        push(&rq, 5000, 3000, rq.poll[0].number);
        answered(&rq, SNIB__DONE);
        say(CALLERS, cases[i].reply);
        silence();
        assert_int_equal(heard(CALLERS), cases[i].ends);
        if (cases[i].ends) {
            assert_memory_equal(
                word[1], snib__redis_scripts[SNIB__SCRIPT_CANCEL].text, 300);
            assert_string_equal(word[3], "snib:{n}");
            assert_string_equal(word[10], hex_of(&rq));
        }
    }
}

static void a_duplicate_push_is_ignored(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    push(&rq, 5000, 3000, rq.poll[0].number);
    answered(&rq, SNIB__DONE);
    push(&rq, 5000, 3000, rq.poll[0].number);
    silence();
    assert_false(heard(CALLERS));
    assert_int_equal(out.open, 0);
}

static void a_grant_for_a_cancelled_request_is_given_back(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), c;
    let_wait(&rq);
    c = request(SNIB__CANCEL);
    c.id[1] = rq.id[1];
    c.keepers = true;
    start(&c);
    answered(&rq, SNIB__UNKNOWN);
    connected(KEEPER);
    while (heard(CALLERS)) {
        assert_string_equal(word[1],
                            snib__redis_scripts[SNIB__SCRIPT_CANCEL].sha1);
    }
    push(&rq, 5000, 3000, rq.poll[0].number);
    silence();
    assert_int_equal(script_heard(KEEPER), SNIB__SCRIPT_RELEASE);
    assert_string_equal(word[3], "snib:{n}");
    assert_string_equal(word[10], hex_of(&rq));
    assert_string_equal(word[11], "5000");
    assert_string_equal(word[12], "1");
    assert_int_equal(out.chan[KEEPER].awaited, 1);
    say(KEEPER, "*1\r\n:0\r\n");
    silence();
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&c, SNIB__DONE);
}

static void cancel_ends_an_acquire_that_was_never_sent(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), c;
    start(&rq);
    c = request(SNIB__CANCEL);
    c.id[1] = rq.id[1];
    start(&c);
    answered(&rq, SNIB__NOT_APPLIED);
    silence();
    connected(CALLERS);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_CANCEL);
    say(CALLERS, "*1\r\n:3\r\n");
    answered(&c, SNIB__DONE);
}

static void junk_on_the_subscription_is_ignored(void **state)
{
    (void)state;
    static const char *const junk[] = {
        "",
        "g",
        "hello world",
        "g 0 1 2 3 4 5 6",
        "g 00000000000000070000000000000001 5 31 3000 1 2 other",
        "g 0000000000000007000000000000000X 5 31 3000 1 2 snib:{n}",
        "g 00000000000000070000000000000001 99999999999999999 31 3 1 2 "
        "snib:{n}"};
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    const char *channel = ((struct snib__redis *)(void *)store)->channel;
    for (size_t i = 0; i < COUNT_OF(junk); i++) {
        sayf(SUBS, "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
             strlen(channel), channel, strlen(junk[i]), junk[i]);
    }
    silence();
    assert_int_equal(out.shut, 0);
}

static void a_silent_subscription_is_rebuilt_and_everybody_polls(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b = request(SNIB__ACQUIRE);
    char channel[64];
    let_wait(&a);
    let_wait(&b);
    snprintf(channel, sizeof channel, "%s",
             ((struct snib__redis *)(void *)store)->channel);
    snib_instant began = now;
    int pings = 0;
    while (!out.shut) {
        pass(10);
        if (heard(SUBS)) {
            assert_string_equal(word[0], "PING");
            pings++;
        }
        while (heard(CALLERS)) {
            say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:3\r\n:20000\r\n");
            struct snib__link *l = snib__list_pop(&out.answered);
            assert_non_null(l);
        }
    }
    assert_int_equal(out.shut, 1u << SUBS);
    assert_in_range(snib__to_ms(snib__between(began, now)), 2900, 3100);
    assert_int_equal(pings, 1);
    closed(SUBS);
    silence();
    pass(30);
    connected(SUBS);
    assert_string_not_equal(word[1], channel);
    hears_acquire(CALLERS, "1");
    hears_acquire(CALLERS, "1");
    assert_string_equal(word[18],
                        ((struct snib__redis *)(void *)store)->channel);
}

static void without_the_right_to_subscribe_a_waiter_is_denied(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.may_queue = true;
    start(&rq);
    connected(CALLERS);
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
    opened(SUBS);
    say(SUBS, "-NOPERM this user has no permissions to access one of the "
              "channels used as arguments\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.err, SNIB_ERR_DENIED);
}

static void held_off_until_the_limit_is_a_clean_no(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.may_queue = true;
    rq.limit = snib__after(now, snib__ms(500));
    start(&rq);
    connected(CALLERS);
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
    pass(500);
    answered(&rq, SNIB__NO);
    assert_int_equal(rq.err, SNIB_ERR_BUSY);
}

/* -- bounds ------------------------------------------------------------------------- */

static void no_more_than_1024_are_in_flight(void **state)
{
    (void)state;
    enum { N = 1500 };
    struct snib__request *rq = calloc(N, sizeof *rq);
    int sent = 0;
    for (int i = 0; i < N; i++) {
        rq[i] = request(SNIB__RELEASE);
        start(&rq[i]);
    }
    connected(CALLERS);
    while (heard(CALLERS)) {
        sent++;
    }
    assert_int_equal(sent, 1024);
    assert_int_equal(out.chan[CALLERS].awaited, 1024);
    for (int i = 0; i < N; i++) {
        say(CALLERS, "*1\r\n:1\r\n");
        answered(&rq[i], SNIB__DONE);
        sent += heard(CALLERS);
    }
    assert_int_equal(sent, N);
    free(rq);
}

static void no_memory_is_an_answer_at_every_allocation(void **state)
{
    for (int64_t nth = 1; nth < 60; nth++) {
        tear_down(state);
        open_store("redis://h");
        struct snib__request a = request(SNIB__ACQUIRE);
        a.may_queue = true;
        snib__mem_fail_at(nth, false);
        start(&a);
        for (int i = 0; i < 200 && (snib__list_empty(&out.answered) ||
                                    a.answer == SNIB__QUEUED);
             i++) {
            struct snib__link *l = snib__list_pop(&out.answered);
            (void)l;
            for (int line = 0; line < LINES; line++) {
                if (out.shut & 1u << line) {
                    closed(line);
                }
                if (out.open & 1u << line) {
                    opened(line);
                }
                if (!snib__buf_size(&out.chan[line].out)) {
                    continue;
                }
                snib__buf_clear(&out.chan[line].out);
                struct snib__redis *s = (struct snib__redis *)(void *)store;
                if (line == SUBS) {
                    sayf(line, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
                         strlen(s->channel), s->channel);
                } else if (s->line[line].state == LINE_TIME) {
                    say(line, TIME_REPLY);
                } else {
                    grant_reply(line, 1000);
                }
            }
            pass(50);
        }
        snib__mem_fail_at(0, false);
        struct snib__link *l = snib__list_pop(&out.answered);
        assert_non_null(l);
        assert_true(
            a.answer == SNIB__DONE || a.answer == SNIB__UNKNOWN ||
            (a.answer == SNIB__NOT_APPLIED &&
             (a.err == SNIB_ERR_NOMEM || a.err == SNIB_ERR_UNREACHABLE)));
    }
}

static void free_in_any_state_forgets_everything(void **state)
{
    (void)state;
    static struct snib__request a, b, c;
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    a = request(SNIB__ACQUIRE);
    let_wait(&a);
    b = request(SNIB__RELEASE);
    start(&b);
    c = request(SNIB__INSPECT);
    c.result = &rows;
    start(&c);
    snib__buf_free(&rows);
}

/* -- looking -------------------------------------------------------------------------- */

static void inspect_gives_rows(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__INSPECT);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.result = &rows;
    start(&rq);
    connected(CALLERS);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    static const char holder[] =
        "00000000000000070000000000000001 5000 1790000010000 0 1 1 31 host=h";
    static const char waiter[] = "0000000000000abc0000000000000def snib:abc 1 "
                                 "1 30000 0 0 0 1 host=w";
    sayf(CALLERS,
         "*5\r\n:1790000000000\r\n:5031\r\n:1\r\n*2\r\n$3\r\nabc\r\n"
         "$%zu\r\n%s\r\n*3\r\n$1\r\nr\r\n$13\r\n1790000003000\r\n"
         "$%zu\r\n%s\r\n",
         strlen(holder), holder, strlen(waiter), waiter);
    answered(&rq, SNIB__DONE);
    struct snib__rec r;
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_LOCK);
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_HOLDER);
    while (snib__rec_next_field(&r)) {
        if (r.field == SNIB__F_LEFT) {
            assert_int_equal(snib__rec_value_i64(&r), 10000);
        } else if (r.field == SNIB__F_ABOUT) {
            assert_memory_equal(r.data, "host=h", 6);
        } else if (r.field == SNIB__F_TOKEN) {
            assert_int_equal(snib__rec_value_i64(&r), 5000);
        }
    }
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_WAITER);
    assert_false(snib__rec_next_row(&r));
    snib__buf_free(&rows);
}

static void list_scans_once_each_and_filters_by_glob(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__LIST);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.name = NULL;
    rq.result = &rows;
    rq.text = "pay*";
    rq.text_size = 4;
    start(&rq);
    connected(CALLERS);
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "SCAN");
    say(CALLERS, "*2\r\n$2\r\n17\r\n*4\r\n$10\r\nsnib:{pay}\r\n"
                 "$12\r\nsnib:{pay}:a\r\n$12\r\nsnib:{pay}:t\r\n"
                 "$12\r\nsnib:{other}\r\n");
    assert_true(heard(CALLERS));
    assert_string_equal(word[1], "17");
    say(CALLERS, "*2\r\n$1\r\n0\r\n*2\r\n$10\r\nsnib:{pay}\r\n"
                 "$13\r\nsnib:{pay2}:a\r\n");
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    assert_string_equal(word[3], "snib:{pay}");
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_INSPECT);
    assert_string_equal(word[3], "snib:{pay2}");
    assert_false(heard(CALLERS));
    say(CALLERS, "*5\r\n:1\r\n:7\r\n:0\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n*0\r\n");
    silence();
    say(CALLERS, "*5\r\n:1\r\n:7\r\n:0\r\n*0\r\n*0\r\n"); /* ended meanwhile */
    answered(&rq, SNIB__DONE);
    struct snib__rec r;
    snib__rec_begin(&r, snib__buf_bytes(&rows), snib__buf_size(&rows));
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_LOCK);
    assert_true(snib__rec_next_row(&r));
    assert_int_equal(r.row, SNIB__ROW_HOLDER);
    assert_false(snib__rec_next_row(&r));
    snib__buf_free(&rows);
}

static void a_list_cut_in_the_middle_is_unknown_once(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__LIST);
    struct snib__buf rows;
    snib__buf_init(&rows, 10000);
    rq.name = NULL;
    rq.result = &rows;
    start(&rq);
    connected(CALLERS);
    say(CALLERS, "*2\r\n$1\r\n0\r\n*2\r\n$8\r\nsnib:{a}\r\n$8\r\nsnib:{b}\r\n");
    closed(CALLERS);
    answered(&rq, SNIB__UNKNOWN);
    silence();
    snib__buf_free(&rows);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest session[] = {
        CASE(nothing_is_opened_before_the_first_request),
        CASE(the_greeting_is_one_write_and_nothing_precedes_its_answer),
        CASE(urls_are_understood_or_refused),
        CASE(never_connected_is_unreachable_after_one_patience),
        CASE(connected_before_it_goes_on_until_the_limit),
        CASE(reconnecting_backs_off_to_a_second),
        CASE(a_limit_that_passes_before_the_send_is_not_applied),
        CASE(a_refused_login_is_denied_at_once_and_not_hammered),
        CASE(a_login_without_all_rights_is_denied_before_anything),
        CASE(without_publish_or_with_some_keys_only_it_works),
        CASE(too_many_clients_is_the_servers_fault_with_its_words),
        CASE(what_is_no_redis_is_told),
        CASE(a_cut_after_the_send_is_unknown_at_once),
        CASE(after_a_lost_acquire_a_release_leaves_a_tombstone),
        CASE(a_silent_line_is_closed_by_its_oldest_answer),
        CASE(a_callers_limit_closes_nothing),
        CASE(noscript_is_one_eval_and_then_sha_again),
        CASE(error_words_mean_the_same_in_both_wrappings),
        CASE(an_error_text_cannot_write_to_the_terminal),
        CASE(a_permanent_error_is_told_at_once),
        CASE(loading_is_waited_out_until_the_limit),
        CASE(readonly_drops_the_line_and_asks_the_next_server),
        CASE(a_late_request_is_asked_again_with_the_new_time),
        CASE(a_reply_of_another_shape_is_unknown),
        CASE(a_reply_to_nothing_closes_the_line),
        CASE(renewals_travel_in_one_call_with_one_answer_each),
        CASE(renewals_take_the_callers_line_when_theirs_cannot_be_had),
        CASE(a_try_never_subscribes),
        CASE(the_subscription_is_acknowledged_before_a_request_queues),
        CASE(a_waiter_polls_within_a_second_and_a_half),
        CASE(a_push_may_overtake_the_queued_reply),
        CASE(a_push_counts_from_the_poll_that_it_names),
        CASE(a_push_that_names_no_poll_of_ours_is_asked_for),
        CASE(a_push_whose_claim_is_over_is_asked_for),
        CASE(what_an_overtaken_poll_was_given_is_ended),
        CASE(a_duplicate_push_is_ignored),
        CASE(a_grant_for_a_cancelled_request_is_given_back),
        CASE(cancel_ends_an_acquire_that_was_never_sent),
        CASE(junk_on_the_subscription_is_ignored),
        CASE(a_silent_subscription_is_rebuilt_and_everybody_polls),
        CASE(without_the_right_to_subscribe_a_waiter_is_denied),
        CASE(held_off_until_the_limit_is_a_clean_no),
        CASE(no_more_than_1024_are_in_flight),
        CASE(no_memory_is_an_answer_at_every_allocation),
        CASE(free_in_any_state_forgets_everything),
        CASE(inspect_gives_rows),
        CASE(list_scans_once_each_and_filters_by_glob),
        CASE(a_list_cut_in_the_middle_is_unknown_once),
    };
    return RUN(session);
}
#endif

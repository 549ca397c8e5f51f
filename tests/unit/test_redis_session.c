/* store/redis: lines are opened, logged in, rested; bounds. labels: oom */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_session.h"

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
    assert_string_equal(word[15], "1790000010150"); /* 250 ms + 9.9 s */
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
    assert_string_equal(error.text,
                        "no connection to h:6379: Connection refused");
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

int main(void)
{
    const struct CMUnitTest cases[] = {
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
        CASE(no_more_than_1024_are_in_flight),
        CASE(no_memory_is_an_answer_at_every_allocation),
        CASE(free_in_any_state_forgets_everything),
    };
    return RUN(cases);
}

#endif

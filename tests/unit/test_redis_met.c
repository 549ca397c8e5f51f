/* tests/unit/test_redis_met.c — store/redis knows a server again by what its
 * greetings say. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_session.h"

static struct snib__request renewal;

/* Renewals keep two connections: the callers' and the background's. */
static int watching(void **state)
{
    (void)state;
    open_store("redis://h");
    ((struct snib__redis *)(void *)store)->watch = true;
    return 0;
}

#define MET_CASE(f) cmocka_unit_test_setup_teardown(f, watching, tear_down)

static void say_hello(int i, const char *product, const char *version,
                      int number)
{
    sayf(i,
         "*8\r\n$6\r\nserver\r\n$%zu\r\n%s\r\n$7\r\nversion\r\n$%zu\r\n%s\r\n"
         "$2\r\nid\r\n:%d\r\n$4\r\nrole\r\n$6\r\nmaster\r\n",
         strlen(product), product, strlen(version), version, number);
}

/* The layout, which is answered, INFO and TIME. */
static void hears_info(int i)
{
    static const char *const asked[] = {"SET", "GET", "INFO", "TIME"};
    for (size_t k = 0; k < COUNT_OF(asked); k++) {
        assert_true(heard(i));
        assert_string_equal(word[0], asked[k]);
        assert_true(k != 2 || !strcmp(word[1], "server"));
    }
    say(i, LAYOUT_REPLY);
}

static void say_info(int i, const char *text)
{
    sayf(i, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void wants(int i)
{
    static struct snib__request rq;
    if (i == CALLERS) {
        rq = request(SNIB__ACQUIRE);
        start(&rq);
    } else {
        renewal = request(SNIB__RENEW);
        renewal.background = true;
        start(&renewal);
    }
    for (int k = 0; k < 60 && !(out.conn[i]->open); k++) {
        pass(20);
    }
    opened(i);
    hears_hello(i);
}

/* A connection that says so is made. info NULL: this user may not ask. Returns
 * whether another server is told. */
static bool meets(int i, const char *version, int number, const char *info)
{
    wants(i);
    say_hello(i, "redis", version, number);
    hears_info(i);
    if (info) {
        say_info(i, info);
    } else {
        say(i, "-NOPERM this user has no permissions to run 'info'\r\n");
    }
    assert_false(out.changed);
    say(i, TIME_REPLY);
    bool told = out.changed;
    assert_int_equal(out.moved, told);
    out.changed = out.moved = false;
    while (heard(i)) { /* what was wanted */
    }
    return told;
}

static void goes(int i)
{
    closed(i);
    while (snib__list_pop(&out.answered)) {
    }
}

#define RUN_A "# Server\r\nredis_version:7.0.15\r\nrun_id:aaaa\r\nuptime:1\r\n"
#define RUN_B "run_id:bbbb"

static void another_run_id_is_another_server(void **state)
{
    (void)state;
    struct snib__server is = {0};
    assert_false(meets(CALLERS, "7.0.15", 5, RUN_A)); /* the first one */
    assert_true(ops->server(store, now, 0, &is));
    assert_string_equal(is.run_id, "aaaa");
    assert_string_equal(is.version, "7.0.15");
    goes(CALLERS);
    assert_false(meets(CALLERS, "7.0.15", 3, RUN_A)); /* its own number */
    goes(CALLERS);
    assert_true(meets(CALLERS, "7.0.15", 9, RUN_B));
    assert_true(ops->server(store, now, 0, &is));
    assert_string_equal(is.run_id, "bbbb");
    goes(CALLERS);
    assert_false(meets(CALLERS, "7.0.15", 10, RUN_B)); /* told once */
}

static void a_second_connection_to_it_is_none(void **state)
{
    (void)state;
    assert_false(meets(CALLERS, "7.0.15", 5, RUN_A));
    goes(CALLERS);
    assert_true(meets(BACKGROUND, "7.0.15", 5, RUN_B));
    assert_false(meets(CALLERS, "7.0.15", 6, RUN_B));
}

static void without_the_right_to_ask_the_greeting_tells(void **state)
{
    (void)state;
    struct snib__server is = {0};
    assert_false(meets(CALLERS, "7.0.15", 5, NULL));
    assert_true(ops->server(store, now, 0, &is));
    assert_string_equal(is.run_id, "");
    goes(CALLERS);
    assert_false(meets(CALLERS, "7.0.15", 6, NULL)); /* the next connection */
    goes(CALLERS);
    assert_true(meets(CALLERS, "7.0.15", 5, NULL)); /* they begin anew */
    goes(CALLERS);
    assert_false(meets(CALLERS, "7.0.15", 6, NULL));
    goes(CALLERS);
    assert_true(meets(CALLERS, "7.2.4", 7, NULL)); /* another version */
    goes(CALLERS);
    assert_false(meets(CALLERS, "7.2.4", 8, RUN_A)); /* it may be the same */
    goes(CALLERS);
    assert_false(meets(CALLERS, "7.2.4", 9, NULL));
}

/* Two connections that were made together may be answered in either order. */
static void numbers_of_connections_side_by_side_tell_nothing(void **state)
{
    (void)state;
    wants(CALLERS);
    renewal = request(SNIB__RENEW);
    renewal.background = true;
    start(&renewal);
    pass(1);
    opened(BACKGROUND);
    hears_hello(BACKGROUND);
    say_hello(BACKGROUND, "redis", "7.0.15", 6);
    hears_info(BACKGROUND);
    say(BACKGROUND, "-NOPERM x\r\n" TIME_REPLY);
    pass(1);
    say_hello(CALLERS, "redis", "7.0.15", 5);
    hears_info(CALLERS);
    say(CALLERS, "-NOPERM x\r\n" TIME_REPLY);
    assert_false(out.changed);
    goes(CALLERS);
    assert_true(meets(CALLERS, "7.0.15", 5, NULL)); /* but now 6 was heard */
}

static void valkey_gives_its_own_name(void **state)
{
    (void)state;
    struct snib__server is = {0};
    assert_false(meets(CALLERS, "7.2.4", 5,
                       "redis_version:7.2.4\nserver_name:valkey\n"
                       "valkey_version:8.0.1\nrun_id:cc\x01"
                       "c\n"));
    assert_true(ops->server(store, now, 0, &is));
    assert_string_equal(is.product, "valkey");
    assert_string_equal(is.version, "8.0.1");
    assert_string_equal(is.run_id, "cc?c");
}

static void what_is_no_answer_to_info_is_passed_over(void **state)
{
    (void)state;
    static const char *const odd[] = {"",        "run_id",     ":",
                                      "run_id:", "\r\n\r\n\n", "xrun_id:z"};
    struct snib__server is = {0};
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        assert_false(meets(CALLERS, "7.0.15", 5, odd[i]));
        assert_true(ops->server(store, now, 0, &is));
        assert_string_equal(is.run_id, "");
        tear_down(state);
        watching(state);
    }
    wants(CALLERS);
    say_hello(CALLERS, "redis", "7.0.15", 5);
    hears_info(CALLERS);
    say(CALLERS, "*1\r\n$4\r\nblah\r\n");
    say(CALLERS, TIME_REPLY);
    hears_acquire(CALLERS, "0");
}

static void who_did_not_ask_sends_no_command_more(void **state)
{
    tear_down(state);
    set_up(state);
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    connected(CALLERS); /* hears all of the greeting */
    hears_acquire(CALLERS, "0");
}

/* What is held is asked for all the same, where the greeting tells. */
static void who_did_not_ask_is_asked_about_what_is_held(void **state)
{
    tear_down(state);
    set_up(state);
    for (int number = 7; number > 0; number -= 2) {
        wants(CALLERS);
        say_hello(CALLERS, "redis", "7.0.15", number);
        hears_layout_and_time(CALLERS);
        say(CALLERS, LAYOUT_REPLY TIME_REPLY);
        assert_int_equal(out.moved, number < 7);
        assert_false(out.changed);
        out.moved = false;
        goes(CALLERS);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        MET_CASE(another_run_id_is_another_server),
        MET_CASE(a_second_connection_to_it_is_none),
        MET_CASE(without_the_right_to_ask_the_greeting_tells),
        MET_CASE(numbers_of_connections_side_by_side_tell_nothing),
        MET_CASE(valkey_gives_its_own_name),
        MET_CASE(what_is_no_answer_to_info_is_passed_over),
        MET_CASE(who_did_not_ask_sends_no_command_more),
        MET_CASE(who_did_not_ask_is_asked_about_what_is_held),
    };
    return RUN(cases);
}

#endif

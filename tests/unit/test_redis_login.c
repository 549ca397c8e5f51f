/* tests/unit/test_redis_login.c — store/redis: logins that the program gives,
 * asked for by the store as a step function. labels: oom */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_session.h"

#define WRONGPASS "-WRONGPASS invalid username-password pair\r\n"
#define NOAUTH    "-NOAUTH Authentication required.\r\n"

static void open_asking(const char *url)
{
    open_store(url);
    ((struct snib__redis *)(void *)store)->asks = true;
}

static int asking(void **state)
{
    (void)state;
    open_asking("redis://h");
    return 0;
}

#define LOGIN_CASE(f) cmocka_unit_test_setup_teardown(f, asking, tear_down)

/* -- the program --------------------------------------------------------------- */

static struct snib_login login;

static void give(int i, snib_err err)
{
    struct snib__input in = {.kind = SNIB__IN_LOGIN,
                             .conn = (uint8_t)i,
                             .login = &login,
                             .err = err};
    ops->input(store, now, &in);
    memset(&login, 0, sizeof login);
}

static void gives(int i, const char *user, const char *password,
                  int64_t valid_ms)
{
    snprintf(login.user, sizeof login.user, "%s", user);
    snprintf(login.password, sizeof login.password, "%s", password);
    login.valid_ms = valid_ms;
    give(i, SNIB_ERR_OK);
}

static void gives_none(int i, snib_err err, const char *text)
{
    snprintf(login.text, sizeof login.text, "%s", text);
    give(i, err);
}

/* The store asks for a login of this connection, and says whether the one
 * before was refused. */
static void is_asked(int i, bool refused)
{
    assert_int_equal(out.conn[i]->login, 1);
    assert_int_equal(out.conn[i]->refused, refused);
    out.conn[i]->login = false;
}

static void hears_login(int i, const char *user, const char *password)
{
    hears_hello(i);
    assert_int_equal(words, 5);
    assert_string_equal(word[2], "AUTH");
    assert_string_equal(word[3], user);
    assert_string_equal(word[4], password);
}

static void hears_auth(int i, const char *user, const char *password)
{
    assert_true(heard(i));
    assert_string_equal(word[0], "AUTH");
    assert_string_equal(word[1], user);
    assert_string_equal(word[2], password);
}

/* The rest of the greeting is sent and answered. */
static void is_let_in(int i)
{
    say(i, HELLO_REPLY);
    if (i == SUBS) {
        while (heard(i)) {
            assert_string_equal(word[0], "SUBSCRIBE");
            sayf(i, "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
                 strlen(word[1]), word[1]);
        }
        return;
    }
    assert_int_equal(script_heard(i), SNIB__SCRIPT_PROBE);
    hears_layout_and_time(i);
    say(i, "*2\r\n*0\r\n:0\r\n" LAYOUT_REPLY TIME_REPLY);
}

static void logs_in(int i, const char *user, const char *password,
                    int64_t valid_ms, bool refused)
{
    opened(i);
    is_asked(i, refused);
    gives(i, user, password, valid_ms);
    hears_login(i, user, password);
    is_let_in(i);
}

/* A request was answered on the callers' connection. */
static void works(void)
{
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
}

static void comes_again(void)
{
    assert_true(out.conn[CALLERS]->shut);
    closed(CALLERS);
    pass(20);
    opened(CALLERS);
}

/* -- the greeting --------------------------------------------------------------- */

static void a_connection_that_is_there_waits_for_its_login(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    assert_int_equal(logins(&out), 0);
    opened(CALLERS);
    is_asked(CALLERS, false);
    assert_false(heard(CALLERS));
    pass(60000); /* the program may take its time */
    assert_int_equal(shuts(&out), 0);
    gives(CALLERS, "anna", "secret", 0);
    hears_login(CALLERS, "anna", "secret");
    is_let_in(CALLERS);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    assert_int_equal(ops->due(store).ns, INT64_MAX); /* good for ever */
}

static void a_password_alone_is_the_default_users(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    gives(CALLERS, "", "secret", 0);
    hears_login(CALLERS, "default", "secret");
}

static void an_empty_answer_is_a_greeting_without_a_login(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    gives(CALLERS, "", "", 0);
    hears_hello(CALLERS);
    assert_int_equal(words, 2);
    say(CALLERS, HELLO_REPLY);
    hears_layout_and_time(CALLERS);
    say(CALLERS, LAYOUT_REPLY TIME_REPLY);
    hears_acquire(CALLERS, "0");
}

static void a_limit_that_comes_first_says_what_was_awaited(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.limit = snib__after(now, snib__ms(500));
    start(&rq);
    opened(CALLERS);
    pass(500);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text,
                        "no login for h:6379 within the time allowed");
}

static void a_server_that_speaks_first_is_heard(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.once = true;
    start(&rq);
    opened(CALLERS);
    say(CALLERS, "-ERR max number of clients reached\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_int_equal(logins(&out), 0); /* nobody needs it any more */
}

static void a_login_for_a_connection_that_is_gone_is_for_nobody(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    is_asked(CALLERS, false);
    closed(CALLERS);
    gives(CALLERS, "anna", "secret", 0);
    assert_false(heard(CALLERS));
    pass(100);
    logs_in(CALLERS, "anna", "secret", 0, false);
    gives(CALLERS, "anna", "secret", 0);
    hears_acquire(CALLERS, "0"); /* and no AUTH */
    assert_false(heard(CALLERS));
}

static void without_a_login_a_try_ends_and_others_wait(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), waits;
    waits = request(SNIB__ACQUIRE);
    rq.once = true;
    start(&rq);
    start(&waits);
    opened(CALLERS);
    gives_none(CALLERS, SNIB_ERR_UNREACHABLE, "tokens.\nare down");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text, "no login for h:6379: tokens.?are down");
    silence();
    closed(CALLERS);
    pass(20);
    logs_in(CALLERS, "anna", "secret", 0, false);
    hears_acquire(CALLERS, "0");
}

static void a_password_file_that_is_not_there_is_told_at_once(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    gives_none(CALLERS, SNIB_ERR_CONFIG, "password_file=/x: none");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
}

static void a_login_that_is_denied_by_the_program_is_told_at_once(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), later;
    start(&rq);
    opened(CALLERS);
    gives_none(CALLERS, SNIB_ERR_DENIED, "");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
    assert_non_null(strstr(error.text, "no login for h:6379: "));
    closed(CALLERS);
    later = request(SNIB__ACQUIRE);
    start(&later);
    answered(&later, SNIB__NOT_APPLIED);
    assert_int_equal(later.said.err, SNIB_ERR_DENIED);
    pass(5000);
    later = request(SNIB__ACQUIRE);
    start(&later);
    logs_in(CALLERS, "anna", "secret", 0, false);
    hears_acquire(CALLERS, "0");
}

static void what_the_server_refuses_is_asked_for_once_more(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.once = true; /* even a try hears nothing of it */
    start(&rq);
    opened(CALLERS);
    is_asked(CALLERS, false);
    gives(CALLERS, "anna", "old", 0);
    hears_login(CALLERS, "anna", "old");
    say(CALLERS, WRONGPASS);
    silence();
    comes_again();
    is_asked(CALLERS, true);
    gives(CALLERS, "anna", "new", 0);
    hears_login(CALLERS, "anna", "new");
    is_let_in(CALLERS);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    closed(CALLERS); /* each connection that was well has its second try */
    rq = request(SNIB__ACQUIRE);
    start(&rq);
    pass(20);
    opened(CALLERS);
    is_asked(CALLERS, false);
    gives(CALLERS, "anna", "old", 0);
    say(CALLERS, WRONGPASS);
    silence();
}

static void what_it_refuses_twice_is_denied(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), later;
    start(&rq);
    opened(CALLERS);
    gives(CALLERS, "anna", "old", 0);
    say(CALLERS, WRONGPASS);
    silence();
    comes_again();
    gives(CALLERS, "anna", "older", 0);
    say(CALLERS, WRONGPASS);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
    assert_memory_equal(error.text, "WRONGPASS", 9);
    closed(CALLERS);
    pass(4999);
    later = request(SNIB__ACQUIRE);
    start(&later);
    answered(&later, SNIB__NOT_APPLIED);
    pass(1);
    later = request(SNIB__ACQUIRE);
    start(&later);
    logs_in(CALLERS, "anna", "new", 0, true);
    hears_acquire(CALLERS, "0");
}

/* -- logins that end ---------------------------------------------------------------- */

static void before_its_time_is_over_it_logs_in_anew(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    logs_in(CALLERS, "anna", "one", 1000, false);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    pass(799);
    assert_int_equal(logins(&out), 0);
    pass(1);
    is_asked(CALLERS, false);
    rq = request(SNIB__ACQUIRE); /* it goes on meanwhile */
    start(&rq);
    hears_acquire(CALLERS, "0");
    gives(CALLERS, "anna", "two", 1000);
    hears_auth(CALLERS, "anna", "two");
    assert_int_equal(out.conn[CALLERS]->awaited, 2);
    grant_reply(CALLERS, 2000);
    answered(&rq, SNIB__DONE);
    say(CALLERS, "+OK\r\n");
    assert_int_equal(out.conn[CALLERS]->awaited, 0);
    pass(799);
    assert_int_equal(logins(&out), 0);
    pass(1);
    is_asked(CALLERS, false);
    gives(CALLERS, "", "three", 0);
    hears_auth(CALLERS, "default", "three");
    say(CALLERS, "+OK\r\n");
    pass(100000);
    assert_int_equal(logins(&out), 0);
    works();
}

static void a_tiny_time_does_not_keep_it_busy(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    logs_in(CALLERS, "anna", "one", 1, false);
    pass(99);
    assert_int_equal(logins(&out), 0);
    pass(1);
    is_asked(CALLERS, false);
}

static void a_refused_renewal_is_asked_for_again_and_told_nobody(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    logs_in(CALLERS, "anna", "one", 1000, false);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    pass(800);
    is_asked(CALLERS, false);
    gives(CALLERS, "anna", "old", 1000);
    hears_auth(CALLERS, "anna", "old");
    say(CALLERS, WRONGPASS);
    is_asked(CALLERS, true); /* at once */
    gives(CALLERS, "anna", "older", 1000);
    hears_auth(CALLERS, "anna", "older");
    say(CALLERS, WRONGPASS);
    assert_int_equal(logins(&out), 0); /* the server lets us work: later */
    works();
    pass(99);
    assert_int_equal(logins(&out), 0);
    pass(1);
    is_asked(CALLERS, true);
    gives_none(CALLERS, SNIB_ERR_DENIED, "no more");
    assert_int_equal(shuts(&out), 0);
    works();
    pass(100);
    is_asked(CALLERS, true);
    gives(CALLERS, "anna", "two", 60000);
    hears_auth(CALLERS, "anna", "two");
    say(CALLERS, "+OK\r\n");
    pass(48000);
    is_asked(CALLERS, false);
    gives_none(CALLERS, SNIB_ERR_STORE, "");
    pass(2999); /* a twentieth of its time */
    assert_int_equal(logins(&out), 0);
    pass(1);
    is_asked(CALLERS, false);
}

static void a_login_that_the_server_ends_is_replaced(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    logs_in(CALLERS, "anna", "one", 0, false);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    rq = request(SNIB__ACQUIRE);
    start(&rq);
    hears_acquire(CALLERS, "0");
    say(CALLERS, NOAUTH);
    silence();
    comes_again();
    is_asked(CALLERS, true);
    gives(CALLERS, "anna", "two", 0);
    hears_login(CALLERS, "anna", "two");
    is_let_in(CALLERS);
    pass(150);
    hears_acquire(CALLERS, "0");
    say(CALLERS, NOAUTH); /* it has not worked with that one */
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
}

static void hears_channel(const char *verb, char ret[64])
{
    assert_true(heard(SUBS));
    assert_string_equal(word[0], verb);
    snprintf(ret, 64, "%s", word[1]);
}

static void say_channel(const char *verb, const char *channel)
{
    sayf(SUBS, "*3\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n:0\r\n", strlen(verb), verb,
         strlen(channel), channel);
}

/* A waiter in the queue, its subscription logged in for a second. */
static void waits_in_queue(struct snib__request *rq)
{
    rq->acquire.may_queue = true;
    start(rq);
    logs_in(CALLERS, "anna", "one", 0, false);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "*3\r\n:3\r\n:1790000000300\r\n:20000\r\n");
    logs_in(SUBS, "anna", "one", 1000, false);
    hears_acquire(CALLERS, "1");
    say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:3\r\n:20000\r\n");
    answered(rq, SNIB__QUEUED);
    pass(800);
    is_asked(SUBS, false);
}

static void a_subscription_logs_in_anew_in_one_write(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    char left[64], joined[64];
    waits_in_queue(&rq);
    out.holds = true;
    gives(SUBS, "anna", "two", 1000);
    hears_channel("UNSUBSCRIBE", left);
    hears_auth(SUBS, "anna", "two");
    hears_channel("SUBSCRIBE", joined);
    assert_string_equal(left, joined);
    assert_false(heard(SUBS));
    say_channel("unsubscribe", left);
    say(SUBS, "+OK\r\n");
    assert_false(heard(CALLERS));
    assert_false(out.missed);
    say_channel("subscribe", joined);
    assert_true(out.missed);     /* what is held is asked for */
    hears_acquire(CALLERS, "1"); /* and who waits polls */
    assert_int_equal(out.conn[SUBS]->awaited, 0);
    say(CALLERS, "*4\r\n:2\r\n:1790000000300\r\n:1\r\n:20000\r\n");
    answered(&rq, SNIB__QUEUED);
}

static void a_message_during_that_is_heard(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    char channel[64];
    waits_in_queue(&rq);
    gives(SUBS, "anna", "two", 1000);
    hears_channel("UNSUBSCRIBE", channel);
    push(&rq, 1790000000400, 3000, 2); /* of the second poll */
    answered(&rq, SNIB__DONE);
    say_channel("unsubscribe", channel);
    say(SUBS, WRONGPASS); /* the old login stands: it subscribes with that */
    is_asked(SUBS, true);
    say_channel("subscribe", channel);
    assert_int_equal(shuts(&out), 0);
}

static void a_subscription_that_does_not_come_back_is_made_anew(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    char channel[64];
    waits_in_queue(&rq);
    gives(SUBS, "anna", "two", 1000);
    hears_channel("UNSUBSCRIBE", channel);
    say_channel("unsubscribe", channel);
    say(SUBS, "+OK\r\n-NOPERM no channel for this user\r\n");
    assert_true(out.conn[SUBS]->shut);
    silence();
}

/* After a reconnect there are two channels. */
static void both_channels_are_subscribed_again(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    char first[64], second[64], again[64];
    waits_in_queue(&rq);
    closed(SUBS);
    pass(20);
    logs_in(SUBS, "anna", "one", 1000, false);
    while (heard(CALLERS)) {
    }
    pass(800);
    is_asked(SUBS, false);
    gives(SUBS, "anna", "two", 1000);
    hears_channel("UNSUBSCRIBE", first);
    hears_channel("UNSUBSCRIBE", second);
    assert_string_not_equal(first, second);
    hears_auth(SUBS, "anna", "two");
    hears_channel("SUBSCRIBE", again);
    assert_string_equal(first, again);
    hears_channel("SUBSCRIBE", again);
    assert_string_equal(second, again);
}

/* -- secrets ------------------------------------------------------------------------ */

static bool keeps(int i, const char *secret)
{
    const struct snib__buf *b = &out.conn[i]->out;
    return b->data && memmem(b->data, b->cap, secret, strlen(secret));
}

static void what_was_sent_is_overwritten(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    gives(CALLERS, "anna", "s3cret-one", 1000);
    assert_true(keeps(CALLERS, "s3cret-one"));
    hears_login(CALLERS, "anna", "s3cret-one");
    assert_false(keeps(CALLERS, "s3cret-one"));
    is_let_in(CALLERS);
    hears_acquire(CALLERS, "0");
    pass(800);
    gives(CALLERS, "anna", "s3cret-two", 0);
    assert_true(keeps(CALLERS, "s3cret-two"));
    hears_auth(CALLERS, "anna", "s3cret-two");
    assert_false(keeps(CALLERS, "s3cret-two"));
    closed(CALLERS); /* nor is anything left of what was never sent */
    pass(20);
    rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    gives(CALLERS, "anna", "s3cret-three", 0);
    closed(CALLERS);
    assert_false(keeps(CALLERS, "s3cret-three"));
}

static void without_memory_the_connection_is_made_again(void **state)
{
    (void)state;
    for (int nth = 1; nth <= 3; nth++) {
        tear_down(state);
        open_asking("redis://h");
        struct snib__request rq = request(SNIB__ACQUIRE);
        start(&rq);
        opened(CALLERS);
        is_asked(CALLERS, false);
        snib__mem_fail_at(1, nth == 3);
        gives(CALLERS, "anna", "secret", 0);
        snib__mem_fail_at(0, false);
        assert_true(out.conn[CALLERS]->shut);
        silence();
        closed(CALLERS);
        pass(40);
        logs_in(CALLERS, "anna", "secret", 0, false);
        hears_acquire(CALLERS, "0");
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        LOGIN_CASE(a_connection_that_is_there_waits_for_its_login),
        LOGIN_CASE(a_password_alone_is_the_default_users),
        LOGIN_CASE(an_empty_answer_is_a_greeting_without_a_login),
        LOGIN_CASE(a_limit_that_comes_first_says_what_was_awaited),
        LOGIN_CASE(a_server_that_speaks_first_is_heard),
        LOGIN_CASE(a_login_for_a_connection_that_is_gone_is_for_nobody),
        LOGIN_CASE(without_a_login_a_try_ends_and_others_wait),
        LOGIN_CASE(a_password_file_that_is_not_there_is_told_at_once),
        LOGIN_CASE(a_login_that_is_denied_by_the_program_is_told_at_once),
        LOGIN_CASE(what_the_server_refuses_is_asked_for_once_more),
        LOGIN_CASE(what_it_refuses_twice_is_denied),
        LOGIN_CASE(before_its_time_is_over_it_logs_in_anew),
        LOGIN_CASE(a_tiny_time_does_not_keep_it_busy),
        LOGIN_CASE(a_refused_renewal_is_asked_for_again_and_told_nobody),
        LOGIN_CASE(a_login_that_the_server_ends_is_replaced),
        LOGIN_CASE(a_subscription_logs_in_anew_in_one_write),
        LOGIN_CASE(a_message_during_that_is_heard),
        LOGIN_CASE(a_subscription_that_does_not_come_back_is_made_anew),
        LOGIN_CASE(both_channels_are_subscribed_again),
        LOGIN_CASE(what_was_sent_is_overwritten),
        LOGIN_CASE(without_memory_the_connection_is_made_again),
    };
    return RUN(cases);
}

#endif

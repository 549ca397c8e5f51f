/* store/redis: what answers, errors and lost replies mean. */
#include "unit.h"

#if defined(SNIB_WITH_REDIS) && !SNIB_WITH_REDIS
int main(void)
{
    puts("skipped: built without Redis");
    return 77;
}
#else

#include "redis_session.h"

/* -- lost replies ------------------------------------------------------------------ */

static void a_limit_moved_later_before_the_first_connection_counts(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.limit = snib__after(now, snib__ms(5));
    start(&rq);
    rq.limit = snib__after(now, snib__ms(60000)); /* another owner has joined */
    pass(20);
    silence();
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
}

static void a_cut_after_the_send_is_unknown_at_once(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE), b = request(SNIB__RELEASE);
    start(&a);
    connected(CALLERS);
    start(&b);
    assert_int_equal(out.conn[CALLERS]->awaited, 2);
    closed(CALLERS);
    assert_int_equal(out.conn[CALLERS]->awaited, 0);
    answered(&a, SNIB__UNKNOWN);
    answered(&b, SNIB__UNKNOWN);
    assert_int_equal(a.said.err, SNIB_ERR_UNKNOWN);
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
    assert_string_equal(word[2], "9");
    assert_string_equal(word[15], "1");
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&r, SNIB__DONE);
    pass(10000); /* now no copy can be executed any more */
    r = request(SNIB__RELEASE);
    start(&r);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RELEASE);
    assert_string_equal(word[2], "8");
    assert_string_equal(word[14], "0");
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
    assert_int_equal(shuts(&out), 0);
    pass(500);
    assert_int_equal(shuts(&out), 1);
    answered(&a, SNIB__UNKNOWN);
    answered(&b, SNIB__UNKNOWN);
    say(CALLERS, "*1\r\n:1\r\n"); /* too late: nobody's */
    silence();
    closed(CALLERS);
}

static snib_err state_now(void)
{
    struct snib__store_state is = {.nodes = 1};
    ops->state(store, now, &is);
    assert_true(is.reachable == (is.err == SNIB_ERR_OK));
    return is.err;
}

/* Stopped, or without a processor, for a while: what came meanwhile is read
 * after the clock. */
static void who_stood_still_does_not_blame_the_server(void **state)
{
    (void)state;
    const struct snib__input tick = {.kind = SNIB__IN_TICK};
    for (int ms = 600; ms < 3 * PATIENCE; ms += 900) {
        struct snib__request a = request(SNIB__RELEASE);
        a.limit = SNIB__NEVER;
        start(&a);
        if (ms == 600) {
            connected(CALLERS);
        }
        heard(CALLERS);
        now = snib__after(now, snib__ms(ms)); /* and nobody ran */
        assert_int_equal(state_now(), SNIB_ERR_OK);
        ops->input(store, now, &tick);
        assert_int_equal(state_now(), SNIB_ERR_OK);
        assert_int_equal(shuts(&out), 0);
        say(CALLERS, "*1\r\n:1\r\n");
        answered(&a, SNIB__DONE);
    }
}

static void
an_awake_client_tells_silence_after_a_quarter_of_its_patience(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__RELEASE);
    a.limit = SNIB__NEVER;
    start(&a);
    connected(CALLERS);
    snib_instant began = now;
    while (!state_now()) {
        pass(1);
    }
    assert_int_equal(state_now(), SNIB_ERR_UNREACHABLE);
    assert_in_range(snib__to_ms(snib__between(began, now)), PATIENCE / 4,
                    PATIENCE / 4 + PATIENCE / 40 + 2);
    say(CALLERS, "*1\r\n:1\r\n");
    answered(&a, SNIB__DONE);
    assert_int_equal(state_now(), SNIB_ERR_OK);
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
    assert_int_equal(shuts(&out), 0);
    b = request(SNIB__RELEASE);
    start(&b);
    assert_int_equal(out.conn[CALLERS]->awaited, 2);
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
    assert_int_equal(a.said.valid_from.ns, sent.ns);
    grant_reply(CALLERS, 2000);
    answered(&b, SNIB__DONE);
    start(&c);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[0], "EVALSHA");
}

/* The text was sent as one of the last 32-bit numbers; the server's cache is
 * emptied after some more flights. */
static void flights_are_counted_past_32_bits(void **state)
{
    (void)state;
    struct snib__redis *s = (struct snib__redis *)(void *)store;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    s->session[CALLERS].number = UINT32_MAX - 2;
    say(CALLERS, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[0], "EVAL");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    for (int i = 2; i < 6; i++) {
        rq = request(SNIB__ACQUIRE);
        start(&rq);
        hears_acquire(CALLERS, "0");
        assert_string_equal(word[0], "EVALSHA");
        if (i < 5) {
            grant_reply(CALLERS, 1000 * i);
            answered(&rq, SNIB__DONE);
        }
    }
    say(CALLERS, "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[0], "EVAL");
    grant_reply(CALLERS, 9000);
    answered(&rq, SNIB__DONE);
}

/* -- errors ------------------------------------------------------------------------ */

static void error_words_are_told_with_their_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *text, *told;
    } cases[] = {
        {"LOADING Redis is loading the dataset in memory",
         "LOADING: the server is reading its data from disk and answers after "
         "that"},
        {"ERR Error running script (call to f_6b1bf): @user_script:6: "
         "@user_script: 6: -READONLY You can't write against a read only "
         "replica.",
         "READONLY: the server has become a read-only replica"},
        {"@user_script: 110: -READONLY You can't write against a read only "
         "replica.\r\n",
         "READONLY: the server has become a read-only replica"},
        {"-READONLY You can't write against a read only replica.\r\n",
         "READONLY: the server has become a read-only replica"},
        {"@user_script: 9: WRONGTYPE Operation against a key\r\n",
         "WRONGTYPE Operation against a key"},
        {"@user_script: 9: something else\r\n", "something else"},
        {"ERR Error running script (call to f_ed): @user_script:263: "
         "@user_script: 263: The user executing the script can't run this "
         "command or subcommand",
         "The user executing the script can't run this command or subcommand"},
        {"@user_script: 9", "@user_script: 9"},
        {"@user_script:9: ", "@user_script:9: "},
        {"ERR Error running script (call to f_6): @user_script:361: "
         "WRONGTYPE Operation against a key",
         "WRONGTYPE Operation against a key"},
        {"NOAUTH HELLO must be called with the client already authenticated",
         "NOAUTH: the server asks for a login: put user and password into the "
         "URL, redis://USER:PASSWORD@HOST (of the user default: "
         "redis://:PASSWORD@HOST)"},
        {"NOPERM this user has no permissions to run the 'evalsha' command",
         "NOPERM this user has no permissions to run the 'evalsha' command"},
        {"ERR max number\nof clients", "ERR max number?of clients"},
        {"", ""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[252];
        snib__redis_error_words(text, sizeof text, cases[i].text,
                                (uint32_t)strlen(cases[i].text));
        assert_string_equal(text, cases[i].told);
    }
}

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
        {"ERR Error running script (call to f_6): @user_script:361: "
         "WRONGTYPE Operation against a key holding the wrong kind of value",
         E_CORRUPT}, /* 6.2, without the dash */
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
        if (cases[i].err == SNIB_ERR_DENIED) {
            silence(); /* was it the mark? */
            say(CALLERS, cases[i].reply);
        }
        answered(&rq, SNIB__NOT_APPLIED);
        assert_int_equal(rq.said.err, cases[i].err);
        assert_int_equal(error.code, cases[i].err);
    }
    assert_int_equal(shuts(&out), 0);
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
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
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
    assert_int_equal(shuts(&out), 0); /* b's answer is still due */
    say(CALLERS, "-READONLY You can't write against a read only replica.\r\n");
    assert_int_equal(shuts(&out), 1);
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
    assert_string_equal(word[16], "1790000509910");
}

static void a_reply_of_another_shape_is_unknown(void **state)
{
    (void)state;
    static const char *const replies[] = {
        "+OK\r\n",
        ":1\r\n",
        "*0\r\n",
        "*2\r\n:19\r\n:1\r\n",
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
    assert_int_equal(shuts(&out), 1);
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
        rq[i].background = true;
        snib__link_init(&rq[i].link);
        snib__list_push(&chain, &rq[i].link);
    }
    ops->start(store, now, &chain);
    connected(BACKGROUND);
    assert_int_equal(script_heard(BACKGROUND), SNIB__SCRIPT_RENEW);
    assert_string_equal(word[2], "256");
    assert_int_equal(script_heard(BACKGROUND), SNIB__SCRIPT_RENEW);
    assert_string_equal(word[2], "4");
    assert_int_equal(out.conn[BACKGROUND]->awaited, 2);
    snib_instant sent = now;
    now.ns += 5;
    struct snib__buf b;
    snib__buf_init(&b, 10000);
    snib__buf_puts(&b, "*129\r\n:1790000000500\r\n");
    for (int i = 0; i < 128; i++) {
        snib__buf_puts(&b, i == 1   ? ":0\r\n"
                           : i == 2 ? "$18\r\nREVOKED revoked by\r\n"
                           : i == 3 ? ":3\r\n"
                           : i == 4 ? "$6\r\n-OOM x\r\n"
                                    : ":1\r\n");
    }
    say(BACKGROUND, snib__buf_text(&b));
    snib__buf_free(&b);
    for (int i = 0; i < 128; i++) {
        answered(&rq[i], i == 1 || i == 2   ? SNIB__NO
                         : i == 3 || i == 4 ? SNIB__NOT_APPLIED
                                            : SNIB__DONE);
    }
    assert_int_equal(rq[0].said.valid_from.ns, sent.ns);
    assert_int_equal(rq[1].said.err, SNIB_ERR_LOST);
    assert_true(rq[2].said.revoked && !rq[1].said.revoked);
    assert_int_equal(rq[3].said.err, SNIB_ERR_CORRUPT);
    assert_int_equal(rq[4].said.err, SNIB_ERR_STORE);
    closed(BACKGROUND);
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
    r.background = true;
    start(&r);
    assert_true(out.conn[BACKGROUND]->open);
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_RENEW);
    say(CALLERS, "*2\r\n:1790000000500\r\n:1\r\n");
    answered(&r, SNIB__DONE);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_limit_moved_later_before_the_first_connection_counts),
        CASE(a_cut_after_the_send_is_unknown_at_once),
        CASE(after_a_lost_acquire_a_release_leaves_a_tombstone),
        CASE(a_silent_line_is_closed_by_its_oldest_answer),
        CASE(who_stood_still_does_not_blame_the_server),
        CASE(an_awake_client_tells_silence_after_a_quarter_of_its_patience),
        CASE(a_callers_limit_closes_nothing),
        CASE(noscript_is_one_eval_and_then_sha_again),
        CASE(flights_are_counted_past_32_bits),
        CASE(error_words_are_told_with_their_meaning),
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
    };
    return RUN(cases);
}

#endif

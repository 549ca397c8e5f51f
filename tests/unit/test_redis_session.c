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
    assert_int_equal(opens(&out), 0);
    assert_int_equal(ops->due(store).ns, INT64_MAX);
    assert_string_equal(out.conn[0]->address, "h:6379");
    assert_int_equal(out.conns, SESSIONS);
}

static void
the_greeting_is_one_write_and_nothing_precedes_its_answer(void **state)
{
    tear_down(state);
    open_store("redis://anna:secret@[::1]:7/5");
    assert_string_equal(out.conn[0]->address, "[::1]:7");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    hears_hello(CALLERS);
    assert_string_equal(word[2], "AUTH");
    assert_string_equal(word[3], "anna");
    assert_string_equal(word[4], "secret");
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "SELECT");
    assert_string_equal(word[1], "5");
    assert_int_equal(script_heard(CALLERS), SNIB__SCRIPT_PROBE);
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "SET");
    assert_string_equal(word[1], "snib:layout");
    assert_string_equal(word[2], "2");
    assert_string_equal(word[3], "NX");
    assert_string_equal(word[4], "PX");
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "GET");
    assert_string_equal(word[1], "snib:layout");
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "TIME");
    assert_int_equal(out.conn[CALLERS]->awaited, 6);
    assert_false(heard(CALLERS));
    say(CALLERS, HELLO_REPLY "+OK\r\n*2\r\n*0\r\n:0\r\n");
    assert_int_equal(out.conn[CALLERS]->awaited, 3);
    say(CALLERS, LAYOUT_REPLY);
    assert_int_equal(out.conn[CALLERS]->awaited, 1);
    assert_false(heard(CALLERS));
    say(CALLERS, TIME_REPLY);
    hears_acquire(CALLERS, "0");
    assert_string_equal(word[16], "1790000010150"); /* 250 ms + 9.9 s */
    assert_int_equal(out.conn[CALLERS]->awaited, 1);
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
    assert_int_equal(out.conn[CALLERS]->awaited, 0);
    assert_int_equal(rq.token, 1000);
    assert_int_equal(rq.acquire.reserve, 31);
    assert_int_equal(snib__to_ms(rq.said.left), 30000);
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
    static const char *const bad[] = {
        "redis://h/x", "redis://h?bd=3", "redis+unix:///r?db=-1",
        "redis://h/1x", "redis://h?wait=no", "redis://h?wait=spins",
        /* two things, of which one would be dropped */
        "redis://h/4?db=7", "redis+unix:///s?socket=/t", "redis+unix://h/s"};
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        tear_down(state);
        open_store(good[i].url);
        assert_string_equal(out.conn[0]->address, good[i].address);
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
        assert_int_equal(strstr(bad[i], "wait=") != NULL,
                         strstr(e.text, "wait is queue") != NULL);
        assert_null(none);
        snib__url_free(url);
    }
}

/* As sun_path takes it, its NUL included. */
static void a_sockets_path_has_at_most_107_bytes(void **state)
{
    char text[160];
    for (int size = 107; size <= 108; size++) {
        struct snib__url *url;
        struct snib__store *one = NULL;
        struct snib_error e;
        tear_down(state);
        open_store("redis://h");
        int n = snprintf(text, sizeof text, "redis+unix:///%0*d", size - 1, 7);
        assert_int_equal(n, size + 13);
        assert_int_equal(snib__url_parse(text, &url, &e), SNIB_ERR_OK);
        struct snib__store_config cfg = {
            .url = url, .out = &out, .request = snib__ms(1)};
        assert_int_equal(ops->open(&cfg, &one, &e),
                         size == 107 ? SNIB_ERR_OK : SNIB_ERR_USAGE);
        if (one) {
            assert_string_equal(out.conn[SESSIONS]->address, text + 13);
            ops->free(one);
        } else {
            assert_non_null(strstr(e.text, "no usable host or socket path"));
        }
        snib__url_free(url);
    }
}

static void refuse(bool hopeless)
{
    struct snib__input in = {.kind = SNIB__IN_REFUSED,
                             .bytes = "Connection refused",
                             .size = 18,
                             .hopeless = hopeless};
    opens_taken(&out);
    ops->input(store, now, &in);
}

static void unreachable(struct snib__request *rq)
{
    answered(rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq->said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text,
                        "no connection to h:6379: Connection refused");
}

static void never_connected_is_waited_for_until_the_limit(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.limit = snib__after(now, snib__ms(60000));
    start(&rq);
    for (int i = 0; i < 599; i++) {
        if (out.conn[0]->open) {
            refuse(false);
        }
        silence();
        pass(100);
    }
    pass(100);
    unreachable(&rq);
}

static void a_try_ends_with_the_first_attempt_that_failed(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), waits;
    waits = request(SNIB__ACQUIRE);
    rq.once = true;
    start(&waits);
    start(&rq);
    refuse(false);
    unreachable(&rq);
    silence();
    rq = request(SNIB__ACQUIRE);
    rq.once = rq.resent = true; /* what became of the first copy? */
    start(&rq);
    pass(100);
    refuse(false);
    silence();
}

static void a_host_that_does_not_exist_ends_who_waits(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE), keeps;
    rq.acquire.may_queue = true;
    keeps = request(SNIB__RENEW);
    keeps.background = true;
    start(&rq);
    start(&keeps);
    refuse(true);
    refuse(true);
    unreachable(&rq);
    silence();
}

/* The name of a server may be gone while that restarts. */
static void a_host_that_was_there_is_waited_for(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    let_wait(&rq);
    closed(CALLERS);
    for (int i = 0; i < 8; i++) {
        if (out.conn[0]->open) {
            refuse(true);
        }
        silence();
        pass(100);
    }
    while (!(out.conn[0]->open)) {
        pass(100);
    }
    connected(CALLERS);
    hears_acquire(CALLERS, "1");
    grant_reply(CALLERS, 1000);
    answered(&rq, SNIB__DONE);
}

static void meets(const char *mode, const char *role, struct snib__request *rq)
{
    start(rq);
    opened(CALLERS);
    hears_hello(CALLERS);
    hears_layout_and_time(CALLERS);
    sayf(CALLERS,
         "*4\r\n$4\r\nmode\r\n$%zu\r\n%s\r\n$4\r\nrole\r\n$%zu\r\n%s\r\n",
         strlen(mode), mode, strlen(role), role);
}

static void a_replica_is_asked_for_nothing_but_its_primary(void **state)
{
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.once = true;
    meets("standalone", "replica", &rq);
    say(CALLERS, LAYOUT_REPLY TIME_REPLY);
    assert_true(heard(CALLERS));
    assert_string_equal(word[0], "ROLE");
    silence();
    say(CALLERS, "*5\r\n$5\r\nslave\r\n$8\r\n10.0.0.1\r\n:6379\r\n"
                 "$9\r\nconnected\r\n:14\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_string_equal(error.text,
                        "h:6379 is a replica of 10.0.0.1:6379; locks live on "
                        "the primary: give its URL, or promote this one");
    assert_false(heard(CALLERS));
    tear_down(state);
    set_up(state);
    rq = request(SNIB__ACQUIRE); /* this one waits                          */
    meets("standalone", "replica", &rq);
    say(CALLERS, LAYOUT_REPLY TIME_REPLY "-NOPERM x\r\n");
    silence();
    closed(CALLERS);
    pass(100);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
}

static void knows(const char *product, const char *version, const char *role,
                  bool connected)
{
    struct snib__server is = {0};
    assert_true(ops->server(store, now, 0, &is));
    assert_string_equal(is.address, "h:6379");
    assert_string_equal(is.product, product);
    assert_string_equal(is.version, version);
    assert_string_equal(is.role, role);
    assert_int_equal(is.connected.ns != 0, connected);
    assert_int_equal(is.state.nodes, 1);
    assert_false(ops->server(store, now, 1, &is));
}

#define NAMED(version, role)                                                   \
    "*6\r\n$6\r\nserver\r\n$6\r\nvalkey\r\n$7\r\nversion\r\n$5\r\n" version    \
    "\r\n$4\r\nrole\r\n" role "\r\n"

static void what_the_greeting_says_of_the_server_is_kept(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    struct snib__server is = {0};
    knows("", "", "", false);
    start(&rq);
    opened(CALLERS);
    snib_instant since = now;
    hears_hello(CALLERS);
    pass(5);
    say(CALLERS, NAMED("8.0.1", "$6\r\nmaster"));
    knows("valkey", "8.0.1", "primary", false);
    say(CALLERS, LAYOUT_REPLY TIME_REPLY);
    knows("valkey", "8.0.1", "primary", true);
    pass(100);
    assert_true(ops->server(store, now, 0, &is));
    assert_int_equal(is.connected.ns, since.ns);
    assert_true(is.state.reachable);
    closed(CALLERS);
    knows("valkey", "8.0.1", "primary", false); /* the latest that is known */
    rq = request(SNIB__ACQUIRE);
    start(&rq);
    pass(100);
    opened(CALLERS);
    say(CALLERS, NAMED("8.0.\x01", "$5\r\nslave"));
    knows("valkey", "8.0.?", "replica", false);
}

static void what_cannot_keep_locks_is_wrong_configuration(void **state)
{
    static const char *const modes[] = {"cluster", "sentinel"};
    struct snib__request rq;
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        rq = request(SNIB__ACQUIRE);
        meets(modes[i], "master", &rq);
        answered(&rq, SNIB__NOT_APPLIED);
        assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
        tear_down(state);
        set_up(state);
    }
    rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    say(CALLERS, "-ERR unknown command `HELLO`, with args beginning with: "
                 "`2`, \r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
    assert_non_null(strstr(error.text, "Redis 6.2 or later"));
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
        if (out.conn[0]->open) {
            opens_taken(&out);
            input(0, SNIB__IN_REFUSED, NULL, 0);
        }
        silence();
        pass(100);
    }
    if (out.conn[0]->open) {
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
        if (out.conn[0]->open) {
            opens_taken(&out);
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
    assert_int_equal(rq.said.err, SNIB_ERR_UNREACHABLE);
    assert_int_equal(snib__buf_size(&out.conn[0]->out), 0);
}

/* What was refused until now was surely not applied; what is under way at the
 * limit may be. */
static void a_limit_between_two_repeats_and_within_one(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.limit = snib__after(now, snib__ms(40));
    start(&rq);
    connected(CALLERS);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "-LOADING x\r\n");
    silence();
    pass(40);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    rq = request(SNIB__ACQUIRE);
    rq.limit = snib__after(now, snib__ms(300));
    start(&rq);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "-LOADING x\r\n");
    pass(200);
    hears_acquire(CALLERS, "0"); /* and is not answered                     */
    silence();
    pass(100);
    answered(&rq, SNIB__UNKNOWN);
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
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
    assert_non_null(strstr(error.text, "WRONGPASS"));
    assert_true(out.conn[0]->shut);
    closed(CALLERS);
    two = request(SNIB__ACQUIRE);
    start(&two);
    answered(&two, SNIB__NOT_APPLIED);
    assert_int_equal(two.said.err, SNIB_ERR_DENIED);
    pass(4900);
    assert_int_equal(opens(&out), 0);
    pass(200);
    two = request(SNIB__ACQUIRE);
    two.once = true;
    start(&two);
    assert_int_equal(opens(&out), 1);
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
    say(CALLERS,
        HELLO_REPLY "*2\r\n*4\r\n$7\r\nPUBLISH\r\n$8\r\nNOPERM x\r\n"
                    "$3\r\nSET\r\n$44\r\n"
                    "ERR The user executing the script can't run \r\n:-1\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
    assert_non_null(strstr(error.text, "may not be run in scripts: SET"));
    assert_int_equal(shuts(&out), 1);
}

static void all_commands_that_scripts_may_not_run_are_told(void **state)
{
    tear_down(state);
    open_store("redis://u:p@h");
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    say(CALLERS, HELLO_REPLY "*2\r\n*6\r\n$3\r\nSET\r\n$8\r\nNOPERM x\r\n"
                             "$3\r\nGET\r\n$9\r\nLOADING x\r\n"
                             "$4\r\nHGET\r\n$8\r\nNOPERM y\r\n:-1\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_DENIED);
    assert_non_null(strstr(error.text, "may not be run in scripts: SET HGET"));
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
        say(CALLERS, HELLO_REPLY);
        say(CALLERS, replies[i]);
        say(CALLERS, LAYOUT_REPLY TIME_REPLY);
        grant_reply(CALLERS, 1000);
        answered(&rq, SNIB__DONE);
    }
}

/* -- the layout --------------------------------------------------------------- */

static void another_layout_is_refused_in_words(void **state)
{
    static const struct {
        const char *reply, *text;
    } t[] = {
        {"$1\r\n3\r\n",
         "the locks of this server have layout 3, this snib knows 2; use the "
         "newer snib everywhere, or delete the key snib:layout when nobody "
         "uses them"},
        {"$4\r\n1\x1b[1\r\n",
         "the locks of this server have layout 1?[1, this snib knows 2; use "
         "the newer snib everywhere, or delete the key snib:layout when nobody "
         "uses them"},
        {"$0\r\n\r\n",
         "the locks of this server have layout , this snib knows 2; use the "
         "newer snib everywhere, or delete the key snib:layout when nobody "
         "uses them"},
        {"-WRONGTYPE Operation against a key\r\n",
         "the key snib:layout is of another type, so not ours: rename or "
         "delete it"},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib__request rq = request(SNIB__ACQUIRE);
        meets("standalone", "master", &rq);
        say(CALLERS, "$-1\r\n");
        say(CALLERS, t[i].reply);
        answered(&rq, SNIB__NOT_APPLIED);
        assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
        assert_string_equal(error.text, t[i].text);
        assert_int_equal(shuts(&out), 1);
        closed(CALLERS);
        rq = request(SNIB__ACQUIRE); /* not asked again for some seconds */
        start(&rq);
        answered(&rq, SNIB__NOT_APPLIED);
        assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
        assert_string_equal(error.text, t[i].text);
        pass(4900);
        assert_int_equal(opens(&out), 0);
        pass(200);
        rq = request(SNIB__ACQUIRE);
        start(&rq);
        connected(CALLERS);
        hears_acquire(CALLERS, "0");
        tear_down(state);
        set_up(state);
    }
}

/* Nor where the server takes no writes. */
static void who_may_not_see_the_layout_is_let_pass(void **state)
{
    static const char *const replies[] = {
        "-NOPERM x\r\n-NOPERM x\r\n", "-NOPERM x\r\n$1\r\n2\r\n",
        "-OOM x\r\n$-1\r\n", "$-1\r\n$1\r\n2\r\n"};
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct snib__request rq = request(SNIB__ACQUIRE);
        meets("standalone", "master", &rq);
        say(CALLERS, replies[i]);
        say(CALLERS, TIME_REPLY);
        hears_acquire(CALLERS, "0");
        grant_reply(CALLERS, 1000);
        answered(&rq, SNIB__DONE);
        assert_int_equal(shuts(&out), 0);
        tear_down(state);
        set_up(state);
    }
}

static void a_layout_that_is_no_text_is_no_redis(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    meets("standalone", "master", &rq);
    say(CALLERS, "+OK\r\n:1\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
}

/* Nothing more is sent on that connection once it has answered. */
static void
a_server_that_was_loading_is_asked_for_its_layout_again(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    meets("standalone", "master", &rq);
    say(CALLERS, "-LOADING x\r\n-LOADING x\r\n" TIME_REPLY);
    hears_acquire(CALLERS, "0");
    say(CALLERS, "-LOADING x\r\n");
    silence();
    assert_int_equal(shuts(&out), 1);
    closed(CALLERS);
    pass(200);
    opened(CALLERS);
    hears_hello(CALLERS);
    hears_layout_and_time(CALLERS);
    say(CALLERS, HELLO_REPLY "+OK\r\n$1\r\n3\r\n");
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_CONFIG);
}

/* -- what is no Redis ------------------------------------------------------------ */

static void too_many_clients_is_the_servers_fault_with_its_words(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    rq.limit = snib__after(now, snib__ms(PATIENCE));
    start(&rq);
    for (int i = 0; i < 40 && snib__list_empty(&out.answered); i++) {
        if (out.conn[0]->open) {
            opened(CALLERS);
            say(CALLERS, "-ERR max number of clients reached\r\n");
            closed(CALLERS);
        }
        pass(100);
    }
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
    assert_non_null(strstr(error.text, "max number of clients"));
}

static void what_is_no_redis_is_told(void **state)
{
    (void)state;
    struct snib__request rq = request(SNIB__ACQUIRE);
    start(&rq);
    opened(CALLERS);
    say(CALLERS, "HTTP/1.1 400 Bad Request\r\n");
    assert_true(out.conn[0]->shut);
    answered(&rq, SNIB__NOT_APPLIED);
    assert_int_equal(rq.said.err, SNIB_ERR_STORE);
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
    assert_int_equal(out.conn[CALLERS]->awaited, 1024);
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
        a.acquire.may_queue = true;
        snib__mem_fail_at(nth, false);
        start(&a);
        for (int i = 0; i < 200 && (snib__list_empty(&out.answered) ||
                                    a.said.answer == SNIB__QUEUED);
             i++) {
            struct snib__link *l = snib__list_pop(&out.answered);
            (void)l;
            for (int session = 0; session < SESSIONS; session++) {
                if (out.conn[session]->shut) {
                    closed(session);
                }
                if (out.conn[session]->open) {
                    opened(session);
                }
                if (!snib__buf_size(&out.conn[session]->out)) {
                    continue;
                }
                snib__buf_clear(&out.conn[session]->out);
                struct snib__redis *s = (struct snib__redis *)(void *)store;
                if (s->session[session].state == SESSION_HELLO) {
                    say(session, HELLO_REPLY);
                }
                if (session == SUBS) {
                    sayf(session,
                         "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
                         strlen(s->channel), s->channel);
                } else if (s->session[session].state == SESSION_LAYOUT_SET) {
                    say(session, LAYOUT_REPLY TIME_REPLY);
                } else if (s->session[session].state == SESSION_READY) {
                    grant_reply(session, 1000);
                }
            }
            pass(50);
        }
        snib__mem_fail_at(0, false);
        struct snib__link *l = snib__list_pop(&out.answered);
        assert_non_null(l);
        assert_true(a.said.answer == SNIB__DONE ||
                    a.said.answer == SNIB__UNKNOWN ||
                    (a.said.answer == SNIB__NOT_APPLIED &&
                     (a.said.err == SNIB_ERR_NOMEM ||
                      a.said.err == SNIB_ERR_UNREACHABLE)));
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
    c.said.result = &rows;
    start(&c);
    snib__buf_free(&rows);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(nothing_is_opened_before_the_first_request),
        CASE(the_greeting_is_one_write_and_nothing_precedes_its_answer),
        CASE(urls_are_understood_or_refused),
        CASE(a_sockets_path_has_at_most_107_bytes),
        CASE(never_connected_is_waited_for_until_the_limit),
        CASE(a_try_ends_with_the_first_attempt_that_failed),
        CASE(a_host_that_does_not_exist_ends_who_waits),
        CASE(a_host_that_was_there_is_waited_for),
        CASE(a_limit_between_two_repeats_and_within_one),
        CASE(a_replica_is_asked_for_nothing_but_its_primary),
        CASE(what_the_greeting_says_of_the_server_is_kept),
        CASE(what_cannot_keep_locks_is_wrong_configuration),
        CASE(connected_before_it_goes_on_until_the_limit),
        CASE(reconnecting_backs_off_to_a_second),
        CASE(a_limit_that_passes_before_the_send_is_not_applied),
        CASE(a_refused_login_is_denied_at_once_and_not_hammered),
        CASE(a_login_without_all_rights_is_denied_before_anything),
        CASE(all_commands_that_scripts_may_not_run_are_told),
        CASE(without_publish_or_with_some_keys_only_it_works),
        CASE(another_layout_is_refused_in_words),
        CASE(who_may_not_see_the_layout_is_let_pass),
        CASE(a_layout_that_is_no_text_is_no_redis),
        CASE(a_server_that_was_loading_is_asked_for_its_layout_again),
        CASE(too_many_clients_is_the_servers_fault_with_its_words),
        CASE(what_is_no_redis_is_told),
        CASE(no_more_than_1024_are_in_flight),
        CASE(no_memory_is_an_answer_at_every_allocation),
        CASE(free_in_any_state_forgets_everything),
    };
    return RUN(cases);
}

#endif

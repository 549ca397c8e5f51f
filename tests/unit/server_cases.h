/* tests/unit/server_cases.h — cases of a store that is a connection: which server is
 * next and what is said of those that will not do, logins. The including file says
 * before, as THREE_SERVERS, a URL of three. */
#ifndef SNIB_TESTS_UNIT_SERVER_CASES_H
#define SNIB_TESTS_UNIT_SERVER_CASES_H

/* -- several servers, none of which serves ------------------------------------------- */

static int begin_three(void **state)
{
    (void)state;
    return begin_at(THREE_SERVERS);
}

/* What waits is the store's. */
static void anew(void **state)
{
    (void)end(state);
    (void)begin_three(state);
}

/* The server that is to be connected to next has this to say. */
static void refused(snib_err err, bool hopeless)
{
    pass_ms(0);
    for (uint32_t i = 0; i < out.conns; i++) {
        if (out.conn[i]->open) {
            const struct snib__input in = {.kind = SNIB__IN_REFUSED,
                                           .conn = i,
                                           .err = err,
                                           .hopeless = hopeless,
                                           .bytes = "no",
                                           .size = 2};
            out.conn[i]->open = false;
            ops->input(store, now, &in);
            now = snib__after(now, snib__ms(1));
            const struct snib__input tick = {.kind = SNIB__IN_TICK};
            ops->input(store, now, &tick);
            return;
        }
    }
    fail_msg("nobody is asked");
}

static void start(struct snib__request *r)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&r->link);
    snib__list_push(&chain, &r->link);
    ops->start(store, now, &chain);
}

static void what_one_server_lacks_refuses_nobody(void **state)
{
    (void)state;
    static const snib_err last[] = {SNIB_ERR_CONFIG, SNIB_ERR_OK};
    for (uint64_t i = 0; i < 2; i++) {
        struct snib__request r = request(SNIB__ACQUIRE, 5 + i);
        start(&r);
        refused(SNIB_ERR_OK, false);
        refused(SNIB_ERR_OK, false);
        refused(last[i], i == 1); /* …, or has no such name */
        assert_int_equal(answer(&r), SNIB__PENDING);
        anew(state);
    }
}

static void what_all_servers_lack_is_said(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    start(&r);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(answer(&r), SNIB__PENDING);
        refused(SNIB_ERR_CONFIG, false);
    }
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
}

/* Until there was a connection; later they may come back. */
static void descriptors_that_lack_are_said(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    start(&r);
    refused(SNIB_ERR_LIMIT, false);
    refused(SNIB_ERR_LIMIT, false);
    assert_int_equal(answer(&r), SNIB__PENDING);
    refused(SNIB_ERR_LIMIT, false);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_LIMIT);
    r = request(SNIB__ACQUIRE, 6);
    anew(state);
    start(&r);
    refused(SNIB_ERR_LIMIT, false);
    refused(SNIB_ERR_OK, false);
    refused(SNIB_ERR_LIMIT, false);
    assert_int_equal(answer(&r), SNIB__PENDING);
    anew(state);
}

/* -- since when ----------------------------------------------------------------------- */

static void assert_since(bool reachable, snib_instant since)
{
    struct snib__store_state is = {.nodes = 1};
    ops->state(store, now, &is);
    assert_int_equal(is.reachable, reachable);
    assert_true(is.since.ns == since.ns);
}

/* Whatever is tried meanwhile. */
static void it_is_out_of_reach_since_it_was_lost_or_first_wanted(void **state)
{
    (void)state;
    static struct snib__request r, later; /* the store's to the end */
    snib_instant since = now;
    servers_away(true);
    r = request(SNIB__ACQUIRE, 5);
    r.lease = snib__ms(60000);
    ask(&r);
    pass_ms(4000);
    assert_since(false, since);
    servers_away(false);
    comes_in(&r);
    struct snib__store_state is = {.nodes = 1};
    ops->state(store, now, &is);
    assert_true(is.reachable && is.since.ns > since.ns);
    since = is.since;
    out.holds = true;
    pass_ms(2000);
    assert_since(true, since);
    since = now;
    servers_away(true);
    pass_ms(4000);
    assert_since(false, since);
    servers_away(false);
    pass_ms(3000);
    out.holds = false;
    struct snib__request cancel = request(SNIB__CANCEL, 5);
    ask(&cancel);
    pass_ms(3000);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    servers_away(true); /* nobody needs them */
    pass_ms(60000);
    since = now;
    later = request(SNIB__ACQUIRE, 6);
    ask(&later);
    pass_ms(4000);
    assert_since(false, since);
}

/* -- logins --------------------------------------------------------------------------- */

static int begin_login(void **state)
{
    logs_in = true;
    return begin(state);
}

static int end_login(void **state)
{
    logs_in = false;
    return end(state);
}

static void a_program_may_think_about_its_login(void **state)
{
    (void)state;
    static const struct snib_login login = {.user = ""};
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_true(out.conn[0]->login);
    out.conn[0]->login = false;
    pass_ms(10000);
    assert_false(out.conn[0]->login); /* it is asked once */
    (void)answer(&r);
    const struct snib__input in = {.kind = SNIB__IN_LOGIN, .login = &login};
    ops->input(store, now, &in);
    settle();
    pass_ms(100);
    assert_int_equal(answer(&r), SNIB__DONE);
}

#define AT_THREE(f) cmocka_unit_test_setup_teardown(f, begin_three, end)
#define AT_LOGIN(f) cmocka_unit_test_setup_teardown(f, begin_login, end_login)

#endif

/* tests/unit/test_etcd_session.c — the connection of the store etcd:, its logins and
 * the leases that outlive it, at a server in memory. */
#include "etcd_world.h"

#include "base/mem.h"

/* -- the connection ---------------------------------------------------------------- */

static int32_t no_number(nghttp2_session *session,
                         const nghttp2_priority_spec *priority,
                         const nghttp2_nv *nv, size_t count,
                         const nghttp2_data_provider *body, void *stream)
{
    (void)session;
    (void)priority;
    (void)nv;
    (void)count;
    (void)body;
    (void)stream;
    return NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE;
}

static void a_connection_without_numbers_for_calls_is_made_anew(void **state)
{
    (void)state;
    quiet.nghttp2_submit_request = no_number;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    start(&r);
    tick();
    assert_int_not_equal(w.e->session.state, ETCD_READY);
    assert_false(answered(&r));
    quiet.nghttp2_submit_request = w.e->lib->nghttp2_submit_request;
    lose_connection();
    pass(3000);
    assert_int_equal(w.e->session.state, ETCD_OPENING);
    be_ready();
    pass(10);
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
}

static void a_silent_connection_is_asked_and_left(void **state)
{
    (void)state;
    w.out.holds = true;
    snib_instant due = snib__etcd_store_ops.due(w.store);
    assert_int_equal(snib__between(w.now, due).ns, 10 * INT64_C(1000000000));
    w.now = due;
    tick();
    assert_true(w.e->session.pinged.ns != 0);
    assert_int_equal(w.e->session.state, ETCD_READY);
    pass(5000);
    assert_int_not_equal(w.e->session.state, ETCD_READY);
    assert_non_null(strstr(w.e->session.text, "no answer"));
}

static void a_cluster_that_went_back_in_time_is_noticed(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    assert_int_equal(ask(&r), SNIB__DONE);
    int64_t token = r.token;
    assert_false(w.out.moved);
    w.keys = 0; /* a backup of before */
    w.revision = 3;
    struct snib__request renew = ends(SNIB__RENEW, &r);
    assert_int_equal(ask(&renew), SNIB__NO);
    assert_true(w.out.moved);
    w.out.moved = false;
    pass(5);
    struct snib__request again = asks(SNIB__ACQUIRE, 2);
    assert_int_equal(ask(&again), SNIB__DONE);
    assert_true(again.token > token);
    assert_false(w.out.moved);
}

/* It gives a token for each login, and takes none. */
static void logins_that_are_not_taken_are_not_made_for_ever(void **state)
{
    end_world(state);
    open_world("etcd://u:p@a");
    w.unknown_login = true;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    assert_int_equal(ask(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_DENIED);
    assert_non_null(strstr(w.error.text, "does not take the logins"));
    assert_true(snib__between(w.now, w.e->session.rest_until).ns >=
                INT64_C(1000000000));
}

/* Each member takes connections, and leaves them at once: the cluster has no leader
 * for long. Whoever waits is not told, but nor is it asked without an end. */
static void
connections_that_last_for_nothing_are_not_made_for_ever(void **state)
{
    (void)state;
    static struct snib__request r; /* the store's to the end */
    int opened = 0;
    r = asks(SNIB__ACQUIRE, 1);
    w.keeps = true;
    start(&r);
    for (int i = 0; i < 10000; i++) {
        if (w.e->session.state == ETCD_OPENING) {
            be_ready();
            opened++;
        }
        if (w.e->session.state == ETCD_READY) {
            lose_connection();
        }
        pass(1);
    }
    assert_in_range(opened, 5, 20);
    pass(3000);
    be_ready();
    pass(2000); /* this one has lasted: what was before it is forgotten */
    lose_connection();
    pass(200);
    assert_int_equal(w.e->session.state, ETCD_OPENING);
}

static void assert_since(bool reachable, snib_instant since)
{
    struct snib__store_state is = {.nodes = 1};
    snib__etcd_store_ops.state(w.store, w.now, &is);
    assert_int_equal(is.reachable, reachable);
    assert_true(is.since.ns == since.ns);
}

/* Whatever is tried meanwhile. */
static void it_is_out_of_reach_since_it_was_lost(void **state)
{
    (void)state;
    static struct snib__request r; /* the store's to the end */
    r = asks(SNIB__ACQUIRE, 1);
    snib_instant since = w.now;
    pass(1000);
    assert_since(true, since);
    w.keeps = true;
    start(&r);
    since = w.now;
    lose_connection();
    for (int i = 0; i < 5; i++) {
        pass(3000);
        assert_int_equal(w.e->session.state, ETCD_OPENING);
        assert_since(false, since);
        refuse_connection(SNIB_ERR_OK);
        assert_since(false, since);
    }
}

/* Servers close what nobody uses. */
static void it_is_out_of_reach_since_it_was_wanted_anew(void **state)
{
    (void)state;
    static struct snib__request r; /* the store's to the end */
    r = asks(SNIB__ACQUIRE, 1);
    w.keeps = true;
    lose_connection();
    pass(60000);
    start(&r);
    tick();
    assert_int_equal(w.e->session.state, ETCD_OPENING);
    snib_instant since = w.now;
    refuse_connection(SNIB_ERR_OK);
    pass(3000);
    assert_since(false, since);
}

/* Its login is made anew: the same connection serves. */
static void a_login_that_is_made_anew_is_no_loss(void **state)
{
    (void)state;
    snib_instant since = w.now;
    w.e->session.state = ETCD_AUTH;
    pass(1);
    assert_since(true, since);
    w.now = snib__after(w.now, snib__ms(1000));
    since = w.now;
    lose_connection();
    struct snib__store_state is = {.nodes = 1};
    snib__etcd_store_ops.state(w.store, w.now, &is);
    assert_true(!is.reachable && is.since.ns == since.ns);
}

/* -- several members --------------------------------------------------------------- */

static void a_member_that_is_unfit_says_nothing_about_the_others(void **state)
{
    end_world(state);
    open_world("etcd://a,b");
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    w.keeps = true;
    start(&r);
    lose_connection(); /* a: there is no leader, say */
    pass(1);
    assert_int_equal(w.e->session.state, ETCD_OPENING);
    assert_int_equal(w.e->session.at, 1);
    refuse_connection(SNIB_ERR_CONFIG); /* b: its certificate */
    pass(1);
    assert_false(answered(&r));
    assert_int_not_equal(w.e->session.err, SNIB_ERR_CONFIG);
    pass(200);
    assert_int_equal(w.e->session.at, 0);
    be_ready();
    w.keeps = false;
    pass(1);
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
}

static void where_each_member_is_unfit_it_is_told_at_once(void **state)
{
    end_world(state);
    open_world("etcd://a,b");
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    w.keeps = true;
    start(&r);
    lose_connection();
    for (int i = 0; i < 3; i++) { /* b, and a round of its own */
        pass(2000);
        assert_int_equal(w.e->session.state, ETCD_OPENING);
        assert_false(answered(&r));
        refuse_connection(SNIB_ERR_CONFIG);
    }
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
}

static void a_server_that_ends_in_order_costs_a_connection(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    r.once = true;
    w.e->session.h2.away = true;
    start(&r);
    assert_false(answered(&r));
    lose_connection(); /* as we have asked for */
    pass(1);
    assert_int_equal(w.e->session.state, ETCD_OPENING);
    be_ready();
    pass(1);
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
}

static void hosts_of_two_clusters_are_not_taken_for_one(void **state)
{
    (void)state;
    assert_true(snib__etcd_cluster_is(w.e, 7));
    assert_false(w.out.moved);
    assert_true(snib__etcd_cluster_is(w.e, 8)); /* of a backup, say */
    assert_true(w.out.moved);
    assert_true(snib__etcd_cluster_is(w.e, 8));
    assert_false(snib__etcd_cluster_is(w.e, 7));
}

/* -- logins ------------------------------------------------------------------------ */

static struct {
    int calls, bare; /* without a login */
    int logins;      /* with one though it is asked for */
} sent;

static int32_t counted(nghttp2_session *session,
                       const nghttp2_priority_spec *priority,
                       const nghttp2_nv *nv, size_t count,
                       const nghttp2_data_provider *body, void *stream)
{
    bool has = false, asks_for_one = false;
    for (size_t i = 0; i < count; i++) {
        has = has || (nv[i].namelen == 5 && !memcmp(nv[i].name, "token", 5));
        asks_for_one = asks_for_one ||
                       memmem(nv[i].value, nv[i].valuelen, "Authenticate", 12);
    }
    sent.calls++;
    sent.bare += !has && !asks_for_one;
    sent.logins += has && asks_for_one;
    return w.e->lib->nghttp2_submit_request(session, priority, nv, count, body,
                                            stream);
}

static void with_a_login(void **state)
{
    end_world(state);
    open_world("etcd://u:p@a");
    w.e->session.token = snib__memdup("old", 3);
    assert_non_null(w.e->session.token);
    memset(&sent, 0, sizeof sent);
    quiet.nghttp2_submit_request = counted;
}

static struct etcd_call *first_call(bool of_lease)
{
    SNIB__LIST_EACH (l, &w.e->session.calls) {
        struct etcd_call *c = SNIB__CONTAINER(l, struct etcd_call, link);
        if (!c->heard && grants(c) == of_lease) {
            return c;
        }
    }
    return NULL;
}

/* Its leases come while the login is made anew. */
static void until_a_new_login_is_there_calls_have_the_old_one(void **state)
{
    with_a_login(state);
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    w.keeps = true;
    start(&r);
    answer(first_call(false)); /* what is there */
    tick();
    w.e->session.anew = true;
    tick();
    assert_int_equal(w.e->session.state, ETCD_AUTH);
    int before = sent.calls;
    for (struct etcd_call *c; (c = first_call(true));) {
        answer(c);
        tick();
    }
    assert_true(sent.calls > before); /* the write */
    assert_int_equal(sent.bare, 0);
    assert_int_equal(sent.logins, 0);
    w.keeps = false;
    serve();
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
    assert_string_equal(w.e->session.token, "token");
}

static void
a_login_that_was_replaced_says_nothing_about_the_new_one(void **state)
{
    with_a_login(state);
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    w.keeps = true;
    start(&r);
    struct etcd_call *late = first_call(false);
    for (int i = 0; i < 3; i++) {
        w.e->session.anew = true;
        tick();
        answer(&w.e->session.auth);
        tick();
    }
    assert_int_equal(w.e->session.state, ETCD_READY);
    w.unknown_login = true; /* the one with which it was sent */
    answer(late);
    w.unknown_login = false;
    tick();
    assert_int_equal(w.e->session.state, ETCD_READY);
    assert_false(w.e->session.anew);
    w.keeps = false;
    serve();
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
}

static void a_login_leaves_nothing_behind(void **state)
{
    with_a_login(state);
    w.e->session.anew = true;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    assert_int_equal(ask(&r), SNIB__DONE);
    assert_string_equal(w.e->session.token, "token");
    const struct snib__buf *b[] = {&w.e->session.auth.stream.in,
                                   &w.e->session.auth.stream.out};
    for (int i = 0; i < 2; i++) {
        for (size_t at = 0; at < b[i]->cap; at++) {
            assert_int_equal(b[i]->data[at], 0);
        }
    }
}

/* -- logins of the program --------------------------------------------------------- */

static void asks_the_program(void **state)
{
    with_a_login(state);
    w.e->asks = true;
}

static void program_says(const char *user, int64_t valid_ms, snib_err err)
{
    static struct snib_login login;
    memset(&login, 0, sizeof login);
    snprintf(login.user, sizeof login.user, "%s", user);
    snprintf(login.password, sizeof login.password, "%s", user);
    login.valid_ms = valid_ms;
    struct snib__input in = {.kind = SNIB__IN_LOGIN,
                             .conn = w.e->session.at,
                             .login = &login,
                             .err = err};
    assert_true(w.e->session.asked);
    snib__etcd_store_ops.input(w.store, w.now, &in);
}

static void acquires_and_releases(uint64_t id)
{
    struct snib__request r = asks(SNIB__ACQUIRE, id);
    assert_int_equal(ask(&r), SNIB__DONE);
    struct snib__request release = ends(SNIB__RELEASE, &r);
    assert_int_equal(ask(&release), SNIB__DONE);
}

static void a_program_may_give_no_login_any_more(void **state)
{
    asks_the_program(state);
    w.e->session.anew = true;
    tick();
    assert_int_equal(w.e->session.state, ETCD_LOGIN);
    program_says("", 0, SNIB_ERR_OK);
    assert_int_equal(w.e->session.state, ETCD_READY);
    assert_null(w.e->session.token);
    acquires_and_releases(1);
}

/* It is asked for before the old one ends, and is slow. */
static void a_login_that_is_due_holds_up_nobody(void **state)
{
    asks_the_program(state);
    w.e->session.login_at = snib__after(w.now, snib__ms(1000));
    pass(1000);
    assert_true(w.e->session.asked);
    for (int i = 1; i < 10; i++) {
        pass(3000);
        assert_int_equal(w.e->session.state, ETCD_READY);
        acquires_and_releases((uint64_t)i);
    }
    program_says("", 0, SNIB_ERR_DENIED);
    assert_int_equal(w.e->session.state, ETCD_READY);
    assert_string_equal(w.e->session.token, "old");
    pass(1000); /* it is asked again */
    program_says("u", INT64_MAX, SNIB_ERR_OK);
    serve();
    assert_string_equal(w.e->session.token, "token");
    acquires_and_releases(20);
    assert_int_equal(sent.bare, 0);
}

static void the_first_login_may_take_as_long_as_it_wants(void **state)
{
    asks_the_program(state);
    w.e->session.watching = false;
    w.e->session.anew = true;
    tick();
    for (int i = 0; i < 10; i++) {
        pass(3000);
        assert_int_equal(w.e->session.state, ETCD_LOGIN);
        assert_int_equal(snib__etcd_store_ops.due(w.store).ns, INT64_MAX);
    }
    program_says("u", 0, SNIB_ERR_OK);
    assert_int_equal(w.e->session.state, ETCD_AUTH);
}

/* Users were switched on, and the program had given none. */
static void where_a_login_is_wanted_now_the_program_is_asked(void **state)
{
    asks_the_program(state);
    snib__wipe(&w.e->session.token);
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    w.wants_login = true;
    start(&r);
    serve();
    assert_false(answered(&r));
    w.wants_login = false;
    program_says("u", 0, SNIB_ERR_OK);
    serve();
    assert_true(answered(&r));
    assert_int_equal(r.said.answer, SNIB__DONE);
}

/* -- renewals ---------------------------------------------------------------------- */

/* The owner's deadline only moves forwards, whatever became of the leases of
 * before. by_deadline: the renewals are of its owner; else of processes that take
 * it over one after the other, and know what stands in the row. */
static void shorten(bool by_deadline)
{
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    r.lease = snib__ms(3600000);
    snib_instant deadline = snib__after(w.now, r.lease);
    assert_int_equal(ask(&r), SNIB__DONE);
    for (int i = 0; i < 3; i++) {
        struct snib__request renew = ends(SNIB__RENEW, &r);
        renew.lease = snib__ms(10000);
        renew.renew.held_until = by_deadline ? deadline : (snib_instant){0};
        w.e->client[1] += !by_deadline;
        snib__etcd_leases_doubt(w.e);
        while (!snib__list_empty(&w.e->leases)) { /* as if of long ago */
            struct snib__link *l = snib__list_first(&w.e->leases);
            struct etcd_lease *old =
                SNIB__CONTAINER(l, struct etcd_lease, link);
            old->id = 0;
            snib__unlink(l);
            snib__etcd_call_free(w.e, &old->call);
            snib__free(old);
        }
        pass(2000);
        assert_int_equal(ask(&renew), SNIB__DONE);
        assert_lasts_until(claim_of(&r), deadline);
    }
}

static void
a_renewal_ends_no_grant_earlier_than_its_owner_believes(void **state)
{
    (void)state;
    shorten(true);
}

static void who_takes_over_a_grant_ends_it_no_earlier(void **state)
{
    (void)state;
    shorten(false);
}

static void a_lease_that_may_be_in_use_is_not_forgotten(void **state)
{
    (void)state;
    struct snib__request r = asks(SNIB__ACQUIRE, 1);
    assert_int_equal(ask(&r), SNIB__DONE);
    int64_t lease = claim_of(&r)->lease;
    snib__etcd_leases_doubt(w.e);
    pass(2000);
    struct snib__request other = asks(SNIB__ACQUIRE, 2);
    other.name = &name_m;
    assert_int_equal(ask(&other), SNIB__DONE);
    assert_non_null(snib__etcd_lease_of(w.e, lease));
    assert_int_not_equal(claim_of(&other)->lease, lease);
    pass(60000);
    struct snib__request renew = ends(SNIB__RENEW, &other);
    (void)ask(&renew);
    assert_null(snib__etcd_lease_of(w.e, lease));
}

/* A server that takes few operations at once. */
static void renewals_that_are_too_many_at_once_are_made_alone(void **state)
{
    (void)state;
    static struct snib__request holds[2], renew[2];
    struct snib__list chain;
    snib__list_init(&chain);
    for (uint64_t i = 0; i < 2; i++) {
        holds[i] = asks(SNIB__ACQUIRE, i + 1);
        holds[i].name = i ? &name_m : &name_n;
        assert_int_equal(ask(&holds[i]), SNIB__DONE);
    }
    w.most = 1;
    for (int i = 0; i < 2; i++) {
        renew[i] = ends(SNIB__RENEW, &holds[i]);
        renew[i].name = holds[i].name;
        snib__list_push(&chain, &renew[i].link);
    }
    snib__etcd_store_ops.start(w.store, w.now, &chain);
    serve();
    for (int i = 0; i < 2; i++) {
        assert_true(answered(&renew[i]));
        assert_int_equal(renew[i].said.answer, SNIB__DONE);
    }
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin_world, end_world)
    const struct CMUnitTest cases[] = {
        CASE(a_connection_without_numbers_for_calls_is_made_anew),
        CASE(a_silent_connection_is_asked_and_left),
        CASE(a_cluster_that_went_back_in_time_is_noticed),
        CASE(logins_that_are_not_taken_are_not_made_for_ever),
        CASE(connections_that_last_for_nothing_are_not_made_for_ever),
        CASE(it_is_out_of_reach_since_it_was_lost),
        CASE(it_is_out_of_reach_since_it_was_wanted_anew),
        CASE(a_login_that_is_made_anew_is_no_loss),
        CASE(a_member_that_is_unfit_says_nothing_about_the_others),
        CASE(where_each_member_is_unfit_it_is_told_at_once),
        CASE(until_a_new_login_is_there_calls_have_the_old_one),
        CASE(a_login_that_was_replaced_says_nothing_about_the_new_one),
        CASE(a_login_leaves_nothing_behind),
        CASE(a_renewal_ends_no_grant_earlier_than_its_owner_believes),
        CASE(who_takes_over_a_grant_ends_it_no_earlier),
        CASE(a_lease_that_may_be_in_use_is_not_forgotten),
        CASE(a_server_that_ends_in_order_costs_a_connection),
        CASE(hosts_of_two_clusters_are_not_taken_for_one),
        CASE(a_program_may_give_no_login_any_more),
        CASE(a_login_that_is_due_holds_up_nobody),
        CASE(the_first_login_may_take_as_long_as_it_wants),
        CASE(where_a_login_is_wanted_now_the_program_is_asked),
        CASE(renewals_that_are_too_many_at_once_are_made_alone),
    };
    return RUN(cases);
}

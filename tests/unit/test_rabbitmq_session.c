/* tests/unit/test_rabbitmq_session.c — the store rabbitmq beside a model of its
 * broker: what it has not, which server is next and what is said of those that will
 * not do, logins. */
#include "rabbitmq_world.h"

/* -- what is not there -------------------------------------------------------------------------------- */

static void what_there_is_not_is_said(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 1);
    r.acquire.kind = SNIB_KIND_READ;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
    r = request(SNIB__ACQUIRE, 1);
    r.lease = snib__ms(600001);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
    r = request(SNIB__FORCE, 1);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
}

static void errors_of_the_broker_are_told(void **state)
{
    (void)state;
    static const struct {
        int code;
        snib_err err;
    } row[] = {{403, SNIB_ERR_DENIED}, {406, SNIB_ERR_CONFIG}};
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct snib__request r = request(SNIB__ACQUIRE, 1 + i);
        struct snib__request warm = request(SNIB__INSPECT, 50 + i);
        struct snib__buf rows;
        snib__buf_init(&rows, 4096);
        warm.said.result = &rows;
        ask(&warm); /* the client's own queue is there */
        assert_int_equal(answer(&warm), SNIB__DONE);
        snib__buf_free(&rows);
        model.close_declare = row[i].code;
        ask(&r);
        assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, row[i].err);
        model.close_declare = 0;
    }
}

static void a_refused_login_and_a_missing_host_end_at_once(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 1);
    model.refuse_login = 1;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_DENIED);
    model.refuse_login = 0;
    model.refuse_vhost = 1;
    r = request(SNIB__ACQUIRE, 2);
    ask(&r);
    pass_ms(6000);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_CONFIG);
}

/* -- several servers, none of which serves ------------------------------------------- */

static int begin_three(void **state)
{
    (void)state;
    return begin_at("amqp://a,b,c");
}

/* What waits is the store's. */
static void anew(void **state)
{
    ops->free(store);
    snib__conns_free(&out);
    snib__free(name);
    snib__buf_free(&model_out);
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

/* -- silence ---------------------------------------------------------------------------- */

/* So many grants are lost within three seconds of silence. */
static uint32_t lost_by_silence(bool holds)
{
    static struct snib__request a, b; /* the store's to the end */
    a = request(SNIB__ACQUIRE, 1);
    b = request(SNIB__INSPECT, 2);
    static struct snib__buf rows;
    snib__buf_init(&rows, 4096);
    b.said.result = &rows;
    a.lease = snib__ms(60000);
    granted(&a);
    out.holds = holds;
    out.ended_count = 0;
    mute = true;
    ask(&b);
    pass_ms(3000);
    uint32_t lost = out.ended_count;
    pass_ms(20000);
    assert_int_equal(out.ended_count, 1);
    snib__buf_free(&rows);
    return lost;
}

static void a_silent_broker_is_borne_while_something_is_held(void **state)
{
    (void)state;
    assert_int_equal(lost_by_silence(true), 0);
}

static void a_silent_broker_is_left_where_nothing_is_held(void **state)
{
    (void)state;
    assert_int_equal(lost_by_silence(false), 1);
}

/* -- looks ------------------------------------------------------------------------------ */

/* The row of a holder that went, if the answer has one. */
static bool shows_closed(void)
{
    struct snib__request r = request(SNIB__INSPECT, 50);
    struct snib__buf rows;
    snib__buf_init(&rows, 4096);
    r.said.result = &rows;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    bool closed = memmem(snib__buf_bytes(&rows), snib__buf_size(&rows), "went",
                         4) != NULL;
    snib__buf_free(&rows);
    return closed;
}

/* It counts from when it was seen first, so whoever looks again sees an end. */
static void a_grant_without_its_holder_is_shown_for_its_lease(void **state)
{
    (void)state;
    lies_there("held", 9, 5, 2000);
    assert_true(shows_closed());
    pass_ms(1500);
    assert_true(shows_closed());
    pass_ms(600);
    assert_false(shows_closed());
    lies_there("free", 9, 5, 0);
    lies_there("held", 8, 6, 2000); /* another one */
    assert_true(shows_closed());
    pass_ms(2100);
    assert_false(shows_closed());
}

static void a_pattern_that_is_too_long_costs_nothing(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request r = request(SNIB__LIST, 50);
    struct snib__buf rows;
    char pattern[2000];
    memset(pattern, '*', sizeof pattern);
    snib__buf_init(&rows, 4096);
    r.said.result = &rows;
    r.text = pattern;
    r.text_size = sizeof pattern;
    granted(&a);
    out.ended_count = 0;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_USAGE);
    pass_ms(100);
    assert_true(up && !out.ended_count);
    snib__buf_free(&rows);
    give_back(&a);
}

/* Between "nobody consumes" and its own consuming somebody was first. */
static void a_look_whose_messages_went_to_another_asks_again(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__INSPECT, 50);
    struct snib__buf rows;
    snib__buf_init(&rows, 4096);
    r.said.result = &rows;
    lies_there("free", 9, 5, 0);
    model.first_to_consume = MODEL_OTHER;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__PENDING);
    assert_int_equal(model.asked_who, 0);
    pass_ms(600);
    assert_int_equal(model.asked_who, 1);
    pass_ms(600);
    assert_int_equal(answer(&r), SNIB__DONE);
    snib__buf_free(&rows);
    model_leave(MODEL_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_there_is_not_is_said),
        CASE(errors_of_the_broker_are_told),
        CASE(a_refused_login_and_a_missing_host_end_at_once),
        OF(what_one_server_lacks_refuses_nobody, begin_three, end),
        OF(what_all_servers_lack_is_said, begin_three, end),
        OF(descriptors_that_lack_are_said, begin_three, end),
        OF(a_program_may_think_about_its_login, begin_login, end_login),
        CASE(a_silent_broker_is_borne_while_something_is_held),
        CASE(a_silent_broker_is_left_where_nothing_is_held),
        CASE(a_grant_without_its_holder_is_shown_for_its_lease),
        CASE(a_pattern_that_is_too_long_costs_nothing),
        CASE(a_look_whose_messages_went_to_another_asks_again),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_is_left_alive);
}

/* tests/unit/test_rabbitmq_session.c — the store rabbitmq beside a model of its
 * broker: what it has not, which server is next and what is said of those that will
 * not do, logins. */
#include "rabbitmq_world.h"

#define THREE_SERVERS "amqp://a,b,c"
#include "server_cases.h"

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
    assert_int_equal(r.said.err, SNIB_ERR_USAGE); /* a shorter one is given */
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
    } row[] = {{403, SNIB_ERR_DENIED},
               {405, SNIB_ERR_CONFIG},
               {406, SNIB_ERR_CONFIG},
               {541, SNIB_ERR_STORE}};
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

/* Both send something within each heartbeat. */
static void a_connection_lasts_where_nothing_is_asked_for(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.lease = snib__ms(600000);
    out.holds = true;
    granted(&a);
    out.ended_count = 0;
    pass_ms(120000);
    assert_true(up && !out.ended_count);
    assert_true(model.consumers == 1);
    give_back(&a);
}

/* -- what the broker says -------------------------------------------------------------- */

static void only_a_rabbitmq_that_takes_passwords_will_do(void **state)
{
    (void)state;
    static const struct {
        const char *product, *mechanisms, *words;
        snib_err err;
    } row[] = {{"Qpid", "PLAIN", "not RabbitMQ", SNIB_ERR_CONFIG},
               {"RabbitMQ", "AMQPLAIN EXTERNAL", "(PLAIN)", SNIB_ERR_DENIED},
               {"RabbitMQ", "EXTERNAL PLAIN AMQPLAIN", NULL, SNIB_ERR_OK}};
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        struct snib__request r = request(SNIB__ACQUIRE, 5 + i);
        model.product = row[i].product;
        model.mechanisms = row[i].mechanisms;
        ask(&r);
        pass_ms(6000);
        assert_int_equal(answer(&r),
                         row[i].err ? SNIB__NOT_APPLIED : SNIB__DONE);
        assert_int_equal(r.said.err, row[i].err);
        assert_true(!row[i].words || strstr(said.text, row[i].words));
    }
}

/* 0: there is no bound. */
static void the_smaller_of_both_wishes_counts(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    out.holds = true;
    model.wishes = (struct model_tune){20, 4096, 4};
    granted(&a);
    assert_true(model.agreed.channels == 20 && model.agreed.frame == 4096);
    assert_int_equal(model.agreed.heartbeat_s, 4);
    pass_ms(20000);
    model.wishes = (struct model_tune){0, 0, 0};
    cut();
    pass_ms(200);
    assert_int_equal(model.agreed.channels, MQ_CHANNELS);
    assert_int_equal(model.agreed.frame, SNIB__AMQP_FRAME_MAX);
    assert_int_equal(model.agreed.heartbeat_s, MQ_HEARTBEAT_S);
}

/* What does not fit is not AMQP: the connection is left. */
static void a_content_is_what_its_header_says(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    granted(&a);
    give_back(&a);
    out.holds = true;
    for (int i = 0; i < 4; i++) {
        pass_ms(200);
        assert_true(up);
        (void)model_delivers(model.own, "answers", "");
        if (i == 1) {
            model_content(model.own, NULL, "te", 4); /* … and once more */
        }
        model_content(model.own, NULL, i == 2 ? "text!" : "text", 4);
        if (i == 3) { /* without a delivery before it */
            model_content(model.own, NULL, "text", 4);
        }
        settle();
        assert_int_equal(up, i == 0);
    }
}

static void its_state_is_that_of_the_connection(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__store_state is = {.nodes = 1};
    ops->state(store, now, &is);
    assert_false(is.reachable);
    granted(&a);
    ops->state(store, now, &is);
    assert_true(is.reachable && is.nodes_reachable == 1 && !*is.text);
    size_t begun = model_method(0, SNIB__AMQP_BLOCKED);
    snib__amqp_put_short(&model_out, "low on memory");
    model_end(begun);
    settle();
    ops->state(store, now, &is);
    assert_true(is.reachable && strstr(is.text, "low on memory"));
    cut();
    ops->state(store, now, &is);
    assert_true(!is.reachable && !is.nodes_reachable && *is.text);
    assert_int_equal(is.err, SNIB_ERR_UNREACHABLE);
}

/* It was refused once meanwhile, and told to ask again later. */
static void who_waits_asks_as_soon_as_the_broker_is_back(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.lease = snib__ms(6000); /* so the next poll is after a second */
    another_consumes();
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    refusals = 1;
    cut();
    assert_int_equal(model.consumers, 1);
    for (int ms = 0; ms < 300 && !model.entered; ms++) {
        pass_ms(1);
    }
    assert_int_equal(refusals, 0);
    assert_int_equal(model.consumers, 2);
    cancelled(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_there_is_not_is_said),
        CASE(errors_of_the_broker_are_told),
        CASE(a_refused_login_and_a_missing_host_end_at_once),
        AT_THREE(what_one_server_lacks_refuses_nobody),
        AT_THREE(what_all_servers_lack_is_said),
        AT_THREE(descriptors_that_lack_are_said),
        CASE(it_is_out_of_reach_since_it_was_lost_or_first_wanted),
        AT_LOGIN(a_program_may_think_about_its_login),
        CASE(a_silent_broker_is_borne_while_something_is_held),
        CASE(a_silent_broker_is_left_where_nothing_is_held),
        CASE(a_connection_lasts_where_nothing_is_asked_for),
        CASE(only_a_rabbitmq_that_takes_passwords_will_do),
        CASE(the_smaller_of_both_wishes_counts),
        CASE(a_content_is_what_its_header_says),
        CASE(its_state_is_that_of_the_connection),
        CASE(who_waits_asks_as_soon_as_the_broker_is_back),
    };
    return RUN(tests);
}

/* tests/unit/test_zookeeper_session.c — the store zookeeper, beside a model of its
 * server: which server is next and what is said of those that will not do, logins,
 * and sessions that end. */
#include "zookeeper_world.h"

#define THREE_SERVERS "zookeeper://a,b,c/l"
#include "server_cases.h"

static void what_one_server_lacks_does_not_add_up(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    start(&r);
    for (int round = 0; round < 4; round++) {
        refused(SNIB_ERR_CONFIG, false);
        refused(SNIB_ERR_OK, false);
        refused(SNIB_ERR_OK, false);
        assert_int_equal(answer(&r), SNIB__PENDING);
        now = snib__after(now, snib__ms(3000));
        const struct snib__input tick = {.kind = SNIB__IN_TICK};
        ops->input(store, now, &tick); /* it is listed again */
        ops->input(store, now, &tick);
    }
    anew(state);
}

/* -- sessions that end ------------------------------------------------------------------ */

static void a_try_behind_the_end_of_a_session_is_not_refused(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    give_back(&r);
    pass_ms(6000); /* then it looks first */
    model_expire();
    model.refuse = "/l";
    model.refuse_op = SNIB__ZK_CHILDREN;
    model.refuse_err = SNIB__ZK_EXPIRED;
    struct snib__request a = request(SNIB__ACQUIRE, 6),
                         b = request(SNIB__ACQUIRE, 7);
    a.acquire.may_queue = b.acquire.may_queue = false;
    a.once = b.once = true;
    ask(&a);
    ask(&b);
    model.refuse = NULL;
    pass_ms(200);
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
    assert_int_not_equal(answer(&b), SNIB__NOT_APPLIED);
}

static int loudest;
static char logged[300];

static void hear(void *data, int level, const char *line)
{
    (void)data;
    if (strstr(line, "session")) {
        loudest = level;
        snprintf(logged, sizeof logged, "%s", line);
    }
}

/* Only who has something loses it. */
static void the_end_of_a_session_is_no_loss_of_nothing(void **state)
{
    (void)state;
    for (int holds = 0; holds < 2; holds++) {
        struct snib__request r = request(SNIB__ACQUIRE, 5 + (uint64_t)holds);
        ask(&r);
        assert_int_equal(answer(&r), SNIB__DONE);
        if (!holds) {
            give_back(&r);
        }
        model_expire();
        out.log = hear;
        up = false;
        input(SNIB__IN_CLOSED, NULL, 0);
        struct snib__request again = request(SNIB__INSPECT, 90);
        struct snib__buf rows;
        snib__buf_init(&rows, 1 << 16);
        again.said.result = &rows;
        ask(&again);
        pass_ms(300);
        assert_int_equal(answer(&again), SNIB__DONE);
        assert_int_equal(loudest == SNIB_LOG_ERROR, holds);
        assert_int_equal(strstr(logged, "all that this client has") != NULL,
                         holds);
        snib__buf_free(&rows);
    }
}

/* settle() fails when there is no pause. */
static void a_server_that_ends_each_session_is_not_run_against(void **state)
{
    (void)state;
    model.refuse = "/l";
    model.refuse_op = SNIB__ZK_CHILDREN;
    model.refuse_err = SNIB__ZK_EXPIRED;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    int64_t began = model.zxid;
    pass_ms(1000);
    assert_true(model.zxid > began && model.zxid < began + 60);
    model.refuse = NULL;
    pass_ms(1000);
    assert_int_equal(answer(&r), SNIB__DONE);
}

static void a_login_by_sasl_that_is_wanted_is_said(void **state)
{
    (void)state;
    model.refuse = "/l";
    model.refuse_op = SNIB__ZK_CHILDREN;
    model.refuse_err = SNIB__ZK_SASL;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_DENIED);
    assert_non_null(strstr(said.text, "SASL, which is not supported"));
}

/* The server is silent until the limit of whom it was asked for first. */
static void
who_joins_a_request_is_not_refused_at_the_limit_of_another(void **state)
{
    (void)state;
    static const struct snib__input tick = {.kind = SNIB__IN_TICK};
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.limit = snib__after(now, snib__ms(500));
    start(&r);
    r.limit = snib__after(now, snib__ms(60000)); /* somebody has joined it */
    now = snib__after(now, snib__ms(500));
    ops->input(store, now, &tick);
    assert_int_equal(answer(&r), SNIB__PENDING);
    settle();
    pass_ms(100);
    assert_int_equal(answer(&r), SNIB__DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        AT_THREE(what_one_server_lacks_refuses_nobody),
        AT_THREE(what_one_server_lacks_does_not_add_up),
        AT_THREE(what_all_servers_lack_is_said),
        AT_THREE(descriptors_that_lack_are_said),
        CASE(it_is_out_of_reach_since_it_was_lost_or_first_wanted),
        AT_LOGIN(a_program_may_think_about_its_login),
        CASE(a_try_behind_the_end_of_a_session_is_not_refused),
        CASE(the_end_of_a_session_is_no_loss_of_nothing),
        CASE(a_server_that_ends_each_session_is_not_run_against),
        CASE(a_login_by_sasl_that_is_wanted_is_said),
        CASE(who_joins_a_request_is_not_refused_at_the_limit_of_another),
    };
    return RUN(tests);
}

/* tests/unit/test_zookeeper_ends.c — the store zookeeper, beside a model of its
 * server: an acquire that comes to nothing leaves nothing that others would wait
 * for, and what comes late ends nothing. */
#include "zookeeper_world.h"

/* Its node stands, and the look behind that is not answered: the connection is
 * lost, and there is no server. */
static void stands_and_is_cut_off(struct snib__request *r)
{
    struct snib__request first = request(SNIB__ACQUIRE, 4);
    ask(&first); /* so that all above is there, and the fence */
    assert_int_equal(answer(&first), SNIB__DONE);
    give_back(&first);
    another_node(98);
    model.frames = 0;
    model.silent_from = 4; /* is it alone? look, stand, look */
    down = true;
    ask(r);
    model.silent_from = 0;
    assert_int_equal(count("__WRIT__"), 2);
}

static void
who_stands_is_not_told_at_its_limit_that_nothing_was_done(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.limit = snib__after(now, snib__ms(10));
    stands_and_is_cut_off(&r);
    pass_ms(15);
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
}

static void who_stands_is_not_cancelled_without_a_look(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5),
                         cancel = request(SNIB__CANCEL, 5);
    stands_and_is_cut_off(&r);
    ask(&cancel);
    assert_int_equal(answer(&cancel), SNIB__PENDING);
    down = false;
    pass_ms(3000);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    (void)answer(&r);
    assert_int_equal(count("__WRIT__"), 1);
}

static uint32_t claims(void)
{
    return ((struct snib__zoo *)(void *)store)->claims;
}

static void what_a_session_took_with_it_is_not_remembered(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    another(true, 30000);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(claims(), 1);
    model_expire();
    model.refuse = "/l/n";
    model.refuse_op = SNIB__ZK_CHILDREN;
    model.refuse_err = SNIB__ZK_NO_AUTH;
    up = false;
    input(SNIB__IN_CLOSED, NULL, 0);
    pass_ms(500);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(claims(), 0);
}

/* A try that finds the lock taken removes the record that it has from a session
 * that is over. The removal comes when it was granted the lock, with a record of
 * the same name. */
static void a_removal_by_a_try_that_comes_late_ends_nothing(void **state)
{
    (void)state;
    another(false, 2000);
    others_go();
    another_record(5, 2000);
    another_node(98);
    keep("=held-0000000000000005", "never");
    model.keep_op = SNIB__ZK_MULTI;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.acquire.may_queue = false;
    ask(&r);
    assert_true(model.kept_size > 0);
    for (int i = 0; i < MODEL_NODES; i++) {
        model.node[i].there = model.node[i].there && model.node[i].owner != 77;
    }
    comes_in(&r);
    assert_int_equal(count("=held-"), 1);
    late();
    assert_int_equal(count("=held-"), 1);
}

/* The look of a cancel has not seen the record, and then it is made. */
static void a_grant_that_comes_late_makes_no_record(void **state)
{
    (void)state;
    keep("=held-", "never");
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
    pass_ms(100); /* it is connected again */
    late();
    assert_int_equal(count("=held-"), 0);
}

/* The server refuses what its grant would make. */
static void who_is_refused_does_not_go_on_standing(void **state)
{
    static const int32_t errors[] = {SNIB__ZK_QUOTA, SNIB__ZK_NO_AUTH};
    (void)state;
    for (uint64_t i = 0; i < 2; i++) {
        model.refuse = "=held-";
        model.refuse_op = SNIB__ZK_MULTI;
        model.refuse_err = errors[i];
        struct snib__request r = request(SNIB__ACQUIRE, 5 + i);
        ask(&r);
        assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
        assert_non_null(strstr(said.text, i ? "no right" : "quota"));
        assert_int_equal(count("__WRIT__"), 0);
    }
}

static void who_meets_a_stranger_does_not_go_on_standing(void **state)
{
    (void)state;
    struct model_node *made;
    another(true, 30000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_false(model_create("/l/n/lock-", "", 0, 2, &made));
    event(model.watch);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_non_null(strstr(said.text, "lock-0"));
    assert_int_equal(count("__WRIT__"), 1); /* the other one's */
}

/* More than go into one step. */
static void the_dead_are_removed_however_many_they_are(void **state)
{
    (void)state;
    another(false, 3000);
    for (uint64_t who = 200; who < 230; who++) {
        another_record(who, 3000);
    }
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    pass_ms(2900);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(count("=held-"), 31);
    pass_ms(1200);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(count("=held-"), 1);
}

static void a_try_waits_for_all_dead_at_once(void **state)
{
    (void)state;
    another(false, 2000);
    another_record(98, 1000);
    another_record(97, 2000);
    snib__answer got = SNIB__NO;
    int64_t first = now.ns;
    for (uint64_t id = 5; id < 40 && got == SNIB__NO; id++) {
        struct snib__request r = request(SNIB__ACQUIRE, id);
        r.acquire.may_queue = false;
        ask(&r);
        got = answer(&r);
        pass_ms(got == SNIB__NO ? 1000 : 0);
    }
    assert_int_equal(got, SNIB__DONE);
    assert_int_equal(count("=held-"), 1);
    assert_true(now.ns - first > INT64_C(14000000000));
    assert_true(now.ns - first < INT64_C(18000000000));
}

static int begin_below(void **state)
{
    (void)state;
    return begin_at("zookeeper://h/team/app/locks");
}

/* Who may not make anything in the root need not. */
static void the_path_is_made_below_what_is_there(void **state)
{
    (void)state;
    struct model_node *made;
    assert_false(model_create("/team", "", 0, 0, &made));
    model.closed = "/";
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_int_equal(count("/team/app/locks/n/=held-"), 1);
}

static void a_path_that_may_not_be_made_is_said(void **state)
{
    (void)state;
    model.closed = "/";
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_DENIED);
}

/* What the check-up says of rights; "": nothing. */
static const char *rights(snib_level *ret)
{
    static char text[300];
    struct snib__buf rows;
    struct snib__rec rec;
    snib__buf_init(&rows, 1 << 16);
    struct snib__request r = request(SNIB__DOCTOR, 9);
    r.said.result = &rows;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    text[0] = 0;
    snib__rec_begin(&rec, snib__buf_bytes(&rows), snib__buf_size(&rows));
    while (snib__rec_next_row(&rec)) {
        bool is = false;
        int64_t level = 0;
        while (snib__rec_next_field(&rec)) {
            level =
                rec.field == SNIB__F_LEVEL ? snib__rec_value_i64(&rec) : level;
            is = is || (rec.field == SNIB__F_CHECK &&
                        !memcmp(rec.data, "permissions", rec.size));
            if (is && rec.field == SNIB__F_TEXT) {
                snprintf(text, sizeof text, "%.*s", (int)rec.size, rec.data);
                *ret = (snib_level)level;
            }
        }
    }
    snib__buf_free(&rows);
    return text;
}

static void the_doctor_tries_where_the_path_would_be_made(void **state)
{
    (void)state;
    struct model_node *made;
    snib_level level = SNIB_LEVEL_OK;
    model.closed = "/";
    assert_non_null(strstr(rights(&level), "no right"));
    assert_int_equal(level, SNIB_LEVEL_FAIL);
    model.closed = NULL;
    assert_non_null(strstr(rights(&level), "can be made"));
    assert_int_equal(level, SNIB_LEVEL_OK);
    assert_false(model_create("/team", "", 0, 0, &made));
    model.closed = "/";
    assert_non_null(strstr(rights(&level), "can be made"));
    assert_int_equal(count("=doctor"), 0);
}

/* Longer than anything that is kept in memory: a list of very many locks. */
static void an_answer_that_is_too_long_ends_its_request_only(void **state)
{
    (void)state;
    static const uint8_t zeros[65536];
    struct snib__buf rows, head;
    snib__buf_init(&rows, 1 << 16);
    struct snib__request r = request(SNIB__ACQUIRE, 5),
                         list = request(SNIB__LIST, 6);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    list.name = NULL;
    list.text = "*";
    list.text_size = 1;
    list.said.result = &rows;
    model.frames = 0;
    model.silent_from = 2; /* the sync, the names */
    model.mute = true;
    ask(&list);
    model.silent_from = 0;
    model.mute = false;
    uint32_t xid = (uint32_t)((struct snib__zoo *)(void *)store)->session.xid;
    const int32_t size = SNIB__ZK_FRAME_MAX + 1000;
    snib__buf_init(&head, 100);
    snib__jute_put_i32(&head, size);
    snib__jute_put_i32(&head, (int32_t)xid);
    snib__jute_put_i64(&head, model.zxid);
    snib__jute_put_i32(&head, 0);
    input(SNIB__IN_BYTES, snib__buf_bytes(&head), snib__buf_size(&head));
    assert_int_equal(answer(&list), SNIB__NOT_APPLIED);
    assert_int_equal(list.said.err, SNIB_ERR_LIMIT);
    assert_non_null(strstr(said.text, "4 MB"));
    for (size_t left = (size_t)size - 16; left;) {
        size_t n = left < sizeof zeros ? left : sizeof zeros;
        input(SNIB__IN_BYTES, zeros, n);
        left -= n;
    }
    settle();
    assert_true(up); /* the connection is as it was */
    give_back(&r);
    snib__buf_free(&rows);
    snib__buf_free(&head);
}

/* Nobody asks for it again: what it was sent for is still to be ended. */
static void what_was_sent_too_late_is_sent_again(void **state)
{
    (void)state;
    another(true, 30000);
    struct snib__request r = request(SNIB__ACQUIRE, 5),
                         cancel = request(SNIB__CANCEL, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    cancel.limit = now;
    keep("__WRIT__", "never"); /* its removal */
    model.keep_op = SNIB__ZK_MULTI;
    ask(&cancel);
    assert_true(model.kept_size > 0);
    assert_int_equal(answer(&cancel), SNIB__PENDING);
    pass_ms(1000);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    assert_int_equal(count("__WRIT__"), 1); /* the other one's */
    (void)answer(&r);
}

/* The session is over, and nobody believes in the grant any more when its lease is. */
static void the_record_of_a_lost_grant_is_swept(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    model_expire();
    up = false;
    input(SNIB__IN_CLOSED, NULL, 0);
    pass_ms(1900);
    assert_int_equal(count("=held-"), 1);
    pass_ms(300);
    assert_int_equal(count("=held-"), 0);
}

/* The ensemble is away for longer than the core asks for: sessions live on in it, and
 * so does the node of one that waits for nothing any more. */
static void what_is_given_up_is_ended_when_the_server_is_back(void **state)
{
    (void)state;
    for (int silent = 0; silent < 2; silent++) {
        another(true, 30000);
        struct snib__request r = request(SNIB__ACQUIRE, 5),
                             cancel = request(SNIB__CANCEL, 5);
        ask(&r);
        assert_int_equal(answer(&r), SNIB__QUEUED);
        cancel.limit = snib__after(now, snib__ms(500));
        down = true;
        if (silent) { /* it was sent */
            model.frames = 0;
            model.silent_from = 1;
        } else {
            up = false;
            input(SNIB__IN_CLOSED, NULL, 0);
        }
        ask(&cancel);
        for (int i = 0; i < 50; i++) {
            snib__answer got = answer(&cancel);
            if (got == SNIB__UNKNOWN && now.ns < cancel.limit.ns) {
                cancel.resent = true;
                ask(&cancel);
            }
            pass_ms(100);
        }
        model.silent_from = 0;
        down = false;
        pass_ms(3000);
        assert_int_equal(count("__WRIT__"), 1); /* the other one's */
        (void)answer(&cancel);
        (void)answer(&r);
        others_go();
    }
}

/* Without a connection there is nothing to sweep. */
static void a_lease_that_is_over_wakes_nobody_without_a_connection(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    down = true;
    up = false;
    input(SNIB__IN_CLOSED, NULL, 0);
    pass_ms(20000);
    uint32_t ticks = 0;
    for (snib_instant last = snib__after(now, snib__ms(10000));
         now.ns < last.ns; ticks++) {
        now = snib__sooner(last, ops->due(store));
        settle();
    }
    assert_true(ticks < 20);
    down = false;
    pass_ms(3000);
    assert_int_equal(count("=held-") + count("__WRIT__"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(who_stands_is_not_told_at_its_limit_that_nothing_was_done),
        CASE(who_stands_is_not_cancelled_without_a_look),
        CASE(what_a_session_took_with_it_is_not_remembered),
        CASE(a_removal_by_a_try_that_comes_late_ends_nothing),
        CASE(a_grant_that_comes_late_makes_no_record),
        CASE(who_is_refused_does_not_go_on_standing),
        CASE(an_answer_that_is_too_long_ends_its_request_only),
        CASE(what_was_sent_too_late_is_sent_again),
        CASE(the_record_of_a_lost_grant_is_swept),
        CASE(what_is_given_up_is_ended_when_the_server_is_back),
        CASE(a_lease_that_is_over_wakes_nobody_without_a_connection),
        cmocka_unit_test_setup_teardown(
            the_doctor_tries_where_the_path_would_be_made, begin_below, end),
        CASE(who_meets_a_stranger_does_not_go_on_standing),
        CASE(the_dead_are_removed_however_many_they_are),
        CASE(a_try_waits_for_all_dead_at_once),
        cmocka_unit_test_setup_teardown(the_path_is_made_below_what_is_there,
                                        begin_below, end),
        cmocka_unit_test_setup_teardown(a_path_that_may_not_be_made_is_said,
                                        begin_below, end),
    };
    return RUN(tests);
}

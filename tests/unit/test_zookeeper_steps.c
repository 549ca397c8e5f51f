/* tests/unit/test_zookeeper_steps.c — the store zookeeper, beside a model of its
 * server: what is granted when, from when it counts, and when it is lost. */
#include "zookeeper_world.h"

static void a_free_lock_is_granted_and_leaves_nothing(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_true(r.token > 100);
    assert_true(r.said.valid_from.ns == now.ns);
    assert_int_equal(snib__to_ms(r.said.left), 2000);
    assert_int_equal(count("__WRIT__"), 1);
    assert_int_equal(count("=held-"), 1);
    struct snib__request release = request(SNIB__RELEASE, 5);
    release.token = r.token;
    ask(&release);
    assert_int_equal(answer(&release), SNIB__DONE);
    assert_int_equal(count("__WRIT__") + count("=held-"), 0);
}

static void a_renewal_counts_and_a_ping_does_not(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    pass_ms(1500);
    uint32_t writes = model.writes;
    struct snib__request renew = request(SNIB__RENEW, 5);
    renew.token = r.token;
    ask(&renew);
    assert_int_equal(answer(&renew), SNIB__DONE);
    assert_int_equal(model.writes, writes + 1); /* through the log */
    assert_true(renew.said.valid_from.ns == now.ns);
    renew = request(SNIB__RENEW, 5);
    renew.token = r.token + 1;
    ask(&renew);
    assert_int_equal(answer(&renew), SNIB__NO);
}

static void who_does_not_renew_is_swept_when_the_lease_is_over(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    pass_ms(1990);
    assert_int_equal(count("__WRIT__"), 1);
    pass_ms(200);
    assert_int_equal(count("__WRIT__") + count("=held-"), 0);
    struct snib__request renew = request(SNIB__RENEW, 5);
    renew.token = r.token;
    ask(&renew);
    assert_int_equal(answer(&renew), SNIB__NO);
}

static void a_waiter_watches_and_is_let_in_by_a_release(void **state)
{
    (void)state;
    another(true, 30000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_int_equal(r.said.position, 1);
    assert_non_null(strstr(model.watch, "-0063-"));
    pass_ms(10000);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    others_go();
    event(model.watch);
    assert_int_equal(answer(&r), SNIB__DONE);
}

static void a_session_that_is_over_is_the_loss_of_all(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    out.holds = true;
    model_expire();
    up = false;
    out.moved = false;
    input(SNIB__IN_CLOSED, NULL, 0);
    pass_ms(500);
    assert_true(out.moved);
    struct snib__request renew = request(SNIB__RENEW, 5);
    renew.token = r.token;
    ask(&renew);
    assert_int_equal(answer(&renew), SNIB__NO);
    assert_true(renew.said.forgotten);
    assert_non_null(strstr(said.text, "session"));
}

/* Who waits for its lease does not have it. */
static void what_was_lost_is_somebody_elses_once_that_one_has_it(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    model_expire();
    out.holds = true;
    up = false;
    input(SNIB__IN_CLOSED, NULL, 0);
    pass_ms(500);
    for (int granted = 0; granted < 2; granted++) {
        another_node(99);
        if (granted) {
            another_record(99, 30000);
        }
        struct snib__request renew = request(SNIB__RENEW, 5);
        renew.token = r.token;
        ask(&renew);
        assert_int_equal(answer(&renew), SNIB__NO);
        assert_int_equal(renew.said.forgotten, !granted);
    }
}

/* Its record alone proves nothing. */
static void a_grant_whose_node_is_gone_is_not_renewed(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    for (int i = 0; i < MODEL_NODES; i++) {
        struct model_node *n = &model.node[i];
        n->there = n->there && !strstr(n->path, "__WRIT__");
    }
    for (int longer = 0; longer < 2; longer++) {
        struct snib__request renew = request(SNIB__RENEW, 5);
        renew.token = r.token;
        renew.lease = snib__ms(longer ? 9000 : 2000);
        ask(&renew);
        assert_int_equal(answer(&renew), SNIB__NO);
        assert_int_equal(renew.said.err, SNIB_ERR_LOST);
    }
}

/* A token that would not rise is none. */
static void a_history_that_went_back_grants_nothing(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.floor = 1000000;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_non_null(strstr(said.text, "history has gone back"));
    assert_int_equal(count("__WRIT__") + count("=held-"), 0);
}

/* What it waited for ended while it was away; nobody tells it. */
static void who_was_cut_off_looks_when_it_is_back(void **state)
{
    (void)state;
    another(true, 30000);
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    up = false;
    others_go();
    int64_t seen = model.zxid;
    input(SNIB__IN_CLOSED, NULL, 0);
    pass_ms(100);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_true(model.seen > 100 && model.seen <= seen);
}

static void a_try_is_not_refused_by_what_is_old(void **state)
{
    (void)state;
    another(true, 30000);
    model_lag();
    others_go();
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.acquire.may_queue = false;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
}

static void a_look_does_not_show_what_is_old(void **state)
{
    (void)state;
    struct snib__buf rows;
    snib__buf_init(&rows, 1 << 16);
    another(true, 30000);
    model_lag();
    others_go();
    struct snib__request r = request(SNIB__INSPECT, 5);
    r.said.result = &rows;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_null(memmem(snib__buf_bytes(&rows), snib__buf_size(&rows),
                       "not%20snib", 10));
    snib__buf_free(&rows);
}

static void a_writer_reads_at_once_and_then_keeps_writers_out(void **state)
{
    (void)state;
    struct snib__request w = request(SNIB__ACQUIRE, 5),
                         b = request(SNIB__ACQUIRE, 6), r = reader(7, 5),
                         stranger = reader(8, 0);
    w.lease = r.lease = b.lease = snib__ms(60000);
    ask(&w);
    assert_int_equal(answer(&w), SNIB__DONE);
    ask(&b);
    assert_int_equal(answer(&b), SNIB__QUEUED);
    ask(&stranger);
    assert_int_equal(answer(&stranger), SNIB__QUEUED);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    give_back(&w);
    pass_ms(3500);
    assert_int_equal(answer(&b), SNIB__QUEUED);
    assert_int_equal(answer(&stranger), SNIB__QUEUED);
    give_back(&r);
    pass_ms(3500);
    assert_int_equal(answer(&b), SNIB__DONE);
    assert_int_equal(answer(&stranger), SNIB__QUEUED);
    cancelled(&stranger);
}

/* The token that is shown of the first who holds. */
static int64_t shown_token(void)
{
    struct snib__buf rows;
    struct snib__rec rec;
    int64_t token = 0;
    struct snib__request look = request(SNIB__INSPECT, 99);
    snib__buf_init(&rows, 1 << 16);
    look.said.result = &rows;
    ask(&look);
    assert_int_equal(answer(&look), SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&rows), snib__buf_size(&rows));
    while (!token && snib__rec_next_row(&rec)) {
        while (rec.row == SNIB__ROW_HOLDER && snib__rec_next_field(&rec)) {
            token =
                rec.field == SNIB__F_TOKEN ? snib__rec_value_i64(&rec) : token;
        }
    }
    snib__buf_free(&rows);
    return token;
}

static void all_who_wait_are_counted(void **state)
{
    (void)state;
    struct snib__buf rows;
    struct snib__rec rec;
    uint32_t waiting = 0;
    struct snib__request look = request(SNIB__INSPECT, 99);
    another(true, 30000);
    for (uint64_t who = 1000; who < 1300; who++) {
        another_node(who);
    }
    snib__buf_init(&rows, 1 << 18);
    look.said.result = &rows;
    for (int i = 0; i < 10 && answer(&look) == SNIB__PENDING; i++) {
        i ? settle() : ask(&look);
    }
    assert_int_equal(look.said.answer, SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&rows), snib__buf_size(&rows));
    while (snib__rec_next_row(&rec)) {
        waiting += rec.row == SNIB__ROW_WAITER;
    }
    assert_int_equal(waiting, 300);
    snib__buf_free(&rows);
}

/* So a resource that has seen it lets the next writer in. */
static void a_writer_who_reads_has_the_token_of_the_writer(void **state)
{
    (void)state;
    struct snib__request w = request(SNIB__ACQUIRE, 5),
                         b = request(SNIB__ACQUIRE, 6), r = reader(7, 5);
    w.lease = r.lease = b.lease = snib__ms(60000);
    ask(&w);
    assert_int_equal(answer(&w), SNIB__DONE);
    ask(&b);
    assert_int_equal(answer(&b), SNIB__QUEUED);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    assert_true(r.token == w.token);
    give_back(&w);
    assert_true(shown_token() == r.token);
    struct snib__request renew = request(SNIB__RENEW, 7);
    renew.token = r.token;
    ask(&renew);
    assert_int_equal(answer(&renew), SNIB__DONE);
    give_back(&r);
    pass_ms(4500);
    assert_int_equal(answer(&b), SNIB__DONE);
    assert_true(b.token > r.token);
}

static void another_token_ends_nothing(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 5),
                         release = request(SNIB__RELEASE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    release.token = r.token + 1;
    ask(&release);
    assert_int_equal(answer(&release), SNIB__NO);
    assert_int_equal(count("=held-") + count("__WRIT__"), 2);
    give_back(&r);
}

/* The clock of this host was set by an hour since the store was opened. */
static void what_is_shown_goes_by_the_clock_of_now(void **state)
{
    (void)state;
    struct snib__buf rows;
    struct snib__rec rec;
    int64_t left = -1;
    snib__buf_init(&rows, 1 << 16);
    model.wall_ms = 3600000;
    struct snib__request r = request(SNIB__ACQUIRE, 5),
                         look = request(SNIB__INSPECT, 6);
    r.lease = snib__ms(60000);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    out.wall_offset_ns = INT64_C(3600000000000) + INT64_C(20000000000) - now.ns;
    look.said.result = &rows;
    ask(&look);
    assert_int_equal(answer(&look), SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&rows), snib__buf_size(&rows));
    while (snib__rec_next_row(&rec)) {
        while (snib__rec_next_field(&rec)) {
            left = rec.field == SNIB__F_LEFT ? snib__rec_value_i64(&rec) : left;
        }
    }
    assert_int_equal(left, 40000);
    snib__buf_free(&rows);
}

/* Until the session is over. */
static void a_lease_that_is_over_has_nothing_left(void **state)
{
    (void)state;
    struct snib__buf rows;
    struct snib__rec rec;
    int64_t left = -1;
    snib__buf_init(&rows, 1 << 16);
    another(true, 2000);
    model.wall_ms += 3000;
    out.wall_offset_ns = model.wall_ms * 1000000 - now.ns;
    struct snib__request look = request(SNIB__INSPECT, 6);
    look.said.result = &rows;
    ask(&look);
    assert_int_equal(answer(&look), SNIB__DONE);
    snib__rec_begin(&rec, snib__buf_bytes(&rows), snib__buf_size(&rows));
    while (snib__rec_next_row(&rec)) {
        while (rec.row == SNIB__ROW_HOLDER && snib__rec_next_field(&rec)) {
            left = rec.field == SNIB__F_LEFT ? snib__rec_value_i64(&rec) : left;
        }
    }
    assert_int_equal(left, 0);
    snib__buf_free(&rows);
}

/* More callers than are begun at once, and a server that stands still. */
static void a_renewal_is_not_behind_callers(void **state)
{
    (void)state;
    static struct snib__request crowd[200];
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__DONE);
    model.frames = 0;
    model.silent_from = 1;
    model.mute = true;
    for (uint64_t i = 0; i < 200; i++) {
        crowd[i] = request(SNIB__ACQUIRE, 100 + i);
        ask(&crowd[i]);
    }
    uint32_t writes = model.writes;
    struct snib__request renew = request(SNIB__RENEW, 5);
    renew.token = r.token;
    renew.background = true;
    ask(&renew);
    assert_int_equal(model.writes, writes + 1);
    ops->free(store);
    snib__conns_free(&out);
    snib__free(name);
    (void)begin(state);
}

static void what_it_has_not_is_refused(void **state)
{
    (void)state;
    static const snib__verb verbs[] = {SNIB__FORCE, SNIB__PARAMS,
                                       SNIB__VALUE_GET, SNIB__VALUE_PUT,
                                       SNIB__VALUE_DELETE};
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct snib__request r = request(verbs[i], 5);
        ask(&r);
        assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
    }
    struct snib__request r = request(SNIB__ACQUIRE, 5);
    r.acquire.kind = SNIB_KIND_PERMITS;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    r = request(SNIB__ACQUIRE, 6);
    r.acquire.delay = snib__ms(5);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NOT_APPLIED);
    assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_free_lock_is_granted_and_leaves_nothing),
        CASE(a_renewal_counts_and_a_ping_does_not),
        CASE(who_does_not_renew_is_swept_when_the_lease_is_over),
        CASE(a_waiter_watches_and_is_let_in_by_a_release),
        CASE(a_session_that_is_over_is_the_loss_of_all),
        CASE(what_was_lost_is_somebody_elses_once_that_one_has_it),
        CASE(a_grant_whose_node_is_gone_is_not_renewed),
        CASE(a_history_that_went_back_grants_nothing),
        CASE(who_was_cut_off_looks_when_it_is_back),
        CASE(a_try_is_not_refused_by_what_is_old),
        CASE(a_look_does_not_show_what_is_old),
        CASE(a_writer_reads_at_once_and_then_keeps_writers_out),
        CASE(a_writer_who_reads_has_the_token_of_the_writer),
        CASE(all_who_wait_are_counted),
        CASE(another_token_ends_nothing),
        CASE(what_is_shown_goes_by_the_clock_of_now),
        CASE(a_lease_that_is_over_has_nothing_left),
        CASE(a_renewal_is_not_behind_callers),
        CASE(what_it_has_not_is_refused),
    };
    return RUN(tests);
}

/* tests/unit/test_rabbitmq_steps.c — the store rabbitmq beside a model of its
 * broker: who is granted the lock, when, with which token, and what is left. */
#include "unit.h"

#include <stdlib.h>

#include "rabbitmq_model.h"
#include "store/rabbitmq/rabbitmq.h"

static const struct snib__store_ops *const ops = &snib__rabbitmq_store_ops;
static struct snib__store *store;
static struct snib__out out;
static struct snib__name *name;
static struct snib_error e, said;
static snib_instant now;
static bool up;
static char queue[MQ_QUEUE_MAX];

/* -- the world ------------------------------------------------------------------ */

static void input(snib__input_kind kind, const void *bytes, size_t size)
{
    const struct snib__input in = {
        .kind = kind, .conn = 0, .bytes = bytes, .size = size};
    ops->input(store, now, &in);
}

/* Carry out what the store wishes, until it wishes nothing. */
static void settle(void)
{
    struct snib__conn *conn = out.conn[0];
    for (int i = 0; i < 2000; i++) {
        size_t took;
        if (conn->shut || (conn->open && up)) {
            conn->shut = up = false;
            model_cut();
            input(SNIB__IN_CLOSED, NULL, 0);
        } else if (conn->open) {
            conn->open = false;
            up = true;
            input(SNIB__IN_OPENED, NULL, 0);
        } else if (up && (took = model_hears(snib__buf_bytes(&conn->out),
                                             snib__buf_size(&conn->out)))) {
            snib__buf_consume(&conn->out, took);
        } else if (up && snib__buf_size(&model_out)) {
            uint8_t byte = *snib__buf_bytes(&model_out);
            snib__buf_consume(&model_out, 1); /* in the smallest pieces */
            input(SNIB__IN_BYTES, &byte, 1);
            i--;
        } else if (snib__reached(now, ops->due(store))) {
            input(SNIB__IN_TICK, NULL, 0);
        } else {
            return;
        }
    }
    fail_msg("it does not come to rest");
}

/* The server's heartbeats come. */
static void pass_ms(int64_t ms)
{
    for (snib_instant end = snib__after(now, snib__ms(ms)); now.ns < end.ns;) {
        now = snib__sooner(
            end, snib__sooner(snib__after(now, snib__ms(1000)),
                              snib__later(ops->due(store),
                                          snib__after(now, snib__ms(1)))));
        if (up && !model.deaf) {
            model_end(model_frame(SNIB__AMQP_HEARTBEAT, 0));
        }
        settle();
    }
}

static void cut(void)
{
    up = false;
    model_cut();
    snib__buf_clear(&out.conn[0]->out);
    input(SNIB__IN_CLOSED, NULL, 0);
    settle();
}

static int begin(void **state)
{
    (void)state;
    struct snib__url *url;
    model_begin();
    up = false;
    now = (snib_instant){INT64_C(1000000000)};
    out = (struct snib__out){.limit = 0};
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    snib__conns_init(&out, 1 << 20);
    assert_false(snib__url_parse("amqp://h", &url, &e));
    struct snib__store_config c = {
        .url = url, .out = &out, .client = {1, 2}, .request = snib__ms(1000)};
    c.seed.v[0] = 1;
    assert_false(ops->open(&c, &store, &e));
    snib__url_free(url);
    assert_false(snib__name_new("n", 0, &name, &e));
    snib__mq_queue(name, queue);
    return 0;
}

static int end(void **state)
{
    (void)state;
    ops->free(store);
    snib__conns_free(&out);
    snib__free(name);
    snib__buf_free(&model_out);
    return 0;
}

static struct snib__request request(snib__verb verb, uint64_t id)
{
    struct snib__request r = {.name = name,
                              .id = {id, id},
                              .verb = verb,
                              .lease = snib__ms(2000),
                              .limit = snib__after(now, snib__ms(60000))};
    r.said.reterr = &said;
    r.acquire.may_queue = verb == SNIB__ACQUIRE;
    return r;
}

static void ask(struct snib__request *r)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&r->link);
    snib__list_push(&chain, &r->link);
    ops->start(store, now, &chain);
    settle();
}

/* Its answer, taken; PENDING: there is none. */
static snib__answer answer(struct snib__request *r)
{
    SNIB__LIST_EACH_SAFE (l, next, &out.answered) {
        if (l == &r->link) {
            snib__unlink(l);
            return r->said.answer;
        }
    }
    return SNIB__PENDING;
}

static void granted(struct snib__request *r)
{
    ask(r);
    assert_int_equal(answer(r), SNIB__DONE);
}

static void give_back(const struct snib__request *r)
{
    struct snib__request release = request(SNIB__RELEASE, r->id[0]);
    release.token = r->token;
    ask(&release);
    assert_int_equal(answer(&release), SNIB__DONE);
}

static void cancelled(struct snib__request *r)
{
    struct snib__request cancel = request(SNIB__CANCEL, r->id[0]);
    ask(&cancel);
    pass_ms(500);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    if (r->said.answer == SNIB__QUEUED || r->said.answer == SNIB__PENDING) {
        assert_int_equal(answer(r), SNIB__NO);
    }
}

/* A message of somebody else's. */
static void lies_there(const char *kind, uint64_t id, int64_t token,
                       int64_t lease_ms)
{
    char text[200];
    memcpy(model.queue, queue, sizeof queue);
    snprintf(text, sizeof text, "snib1 %s %016llx%016llx %lld %lld 1\n", kind,
             (unsigned long long)id, (unsigned long long)id, (long long)token,
             (long long)lease_ms);
    model_put(queue, text, 0);
}

static void another_consumes(void)
{
    memcpy(model.queue, queue, sizeof queue);
    model_consume(MODEL_OTHER);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* -- grants ------------------------------------------------------------------------ */

static void
a_free_lock_is_granted_by_its_own_message_and_left_free(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    granted(&a);
    assert_true(a.token > 0);
    assert_int_equal(a.said.valid_from.ns, now.ns);
    assert_int_equal(a.said.left.ns, a.lease.ns);
    assert_int_equal(model_count("held"), 1);
    assert_int_equal(model_count("seed"), 0);
    give_back(&a);
    assert_int_equal(model_count("held"), 0);
    assert_int_equal(model_count("free"), 1);
    assert_int_equal(model.consumers, 0);
    granted(&b);
    assert_true(b.token > a.token);
    assert_int_equal(model_count("free"), 0);
    give_back(&b);
}

static void tokens_are_above_all_that_lies_there_and_the_floor(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    lies_there("free", 9, INT64_C(1) << 50, 0);
    lies_there("free", 8, 7, 0);
    granted(&a);
    assert_true(a.token == (INT64_C(1) << 50) + 1);
    give_back(&a);
    a = request(SNIB__ACQUIRE, 2);
    a.floor = INT64_C(1) << 51;
    granted(&a);
    assert_true(a.token == (INT64_C(1) << 51) + 1);
    give_back(&a);
}

/* The first message that comes is not the last one. */
static void a_token_that_was_too_low_is_raised(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    lies_there("seed", 9, 0, 0);
    lies_there("free", 9, 5000, 0);
    granted(&a);
    assert_true(a.token > 5000);
    assert_int_equal(model_count("held"), 1);
    give_back(&a);
}

static void tokens_that_come_to_their_end_are_an_error(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    lies_there("free", 9, (INT64_C(1) << 53) - 2, 0);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__NOT_APPLIED);
    assert_int_equal(a.said.err, SNIB_ERR_STORE);
}

/* -- grants whose holders went --------------------------------------------------------- */

static void a_grant_without_its_holder_is_waited_for(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    lies_there("held", 9, 5, 3000);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    pass_ms(2990);
    assert_true(answer(&a) != SNIB__DONE);
    pass_ms(20);
    assert_int_equal(answer(&a), SNIB__DONE);
    assert_true(now.ns - a.said.valid_from.ns <
                20000000); /* all of its lease */
    assert_true(a.token > 5);
    give_back(&a);
}

static void the_longest_one_counts_and_those_that_are_over_do_not(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    lies_there("held", 9, 7, 1000);
    lies_there("held", 8, 5, 5000); /* its token is lower; may be a late copy */
    lies_there("held", 7, 9, 60000);
    lies_there("free", 7, 9, 0);
    ask(&a);
    pass_ms(4900);
    assert_true(answer(&a) != SNIB__DONE);
    pass_ms(200);
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
}

static void a_message_that_it_is_over_ends_the_wait(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    lies_there("held", 9, 5, 60000);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    lies_there("free", 9, 5, 0);
    settle();
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
}

static void a_try_has_the_broker_say_later_that_it_is_over(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.acquire.may_queue = false;
    lies_there("held", 9, 5, 3000);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__NO);
    assert_int_equal(a.said.err, SNIB_ERR_BUSY);
    assert_int_equal(model_count("free"), 1);
    assert_int_equal(model_count("held"), 1);
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        const struct model_message *m = &model.message[i];
        if (m->there && strstr(m->text, " free ")) {
            assert_string_equal(m->queue, "snib.w.n");
            assert_true(m->expires_ms >= 2999 && m->expires_ms <= 3001);
        }
    }
    assert_int_equal(model.consumers, 0);
}

/* -- others -------------------------------------------------------------------------------- */

static void who_waits_is_granted_it_when_the_one_before_has_gone(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    another_consumes();
    lies_there("held", 9, 5, 2000);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    pass_ms(5000); /* its lease is the other's business */
    assert_true(answer(&a) != SNIB__DONE);
    lies_there("free", 9, 5, 0);
    model_leave(MODEL_OTHER);
    settle();
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
}

static void a_cut_connection_of_the_one_before_is_no_release(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    another_consumes();
    lies_there("held", 9, 5, 2000);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    pass_ms(5000);
    model_leave(MODEL_OTHER);
    settle();
    pass_ms(1990);
    assert_true(answer(&a) != SNIB__DONE);
    pass_ms(20);
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
}

static void a_try_asks_who_consumes_and_is_refused(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.acquire.may_queue = false;
    another_consumes();
    ask(&a);
    assert_int_equal(model.asked_who, 1);
    assert_int_equal(answer(&a), SNIB__PENDING);
    pass_ms(300); /* nobody says anything: frozen */
    assert_int_equal(answer(&a), SNIB__NO);
    assert_int_equal(a.said.err, SNIB_ERR_BUSY);
    assert_int_equal(model.consumers, 1);
}

static void a_try_goes_on_when_the_one_before_was_about_to_go(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.acquire.may_queue = false;
    another_consumes();
    lies_there("free", 9, 5, 0);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__PENDING);
    model_leave(MODEL_OTHER);
    pass_ms(50);
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
}

static void who_waits_and_gives_up_leaves_nothing(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    another_consumes();
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    cancelled(&a);
    assert_int_equal(model.consumers, 1);
    model_leave(MODEL_OTHER);
    assert_int_equal(model_count("held"), 0);
}

static void an_emptied_queue_is_found_out(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    another_consumes();
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    memset(model.message, 0, sizeof model.message); /* purged */
    model_leave(MODEL_OTHER);
    pass_ms(12000);
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
}

/* -- renewals --------------------------------------------------------------------------------- */

static void a_renewal_counts_from_before_its_message_was_sent(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request r = request(SNIB__RENEW, 1);
    granted(&a);
    pass_ms(1000);
    r.token = a.token;
    granted(&r);
    assert_int_equal(r.said.valid_from.ns, now.ns);
    assert_int_equal(r.said.left.ns, r.lease.ns);
    assert_int_equal(model_count("held"), 1);
    give_back(&a);
}

static void a_shorter_renewal_leaves_the_longer_lease_in_the_queue(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request r = request(SNIB__RENEW, 1);
    granted(&a);
    r.token = a.token;
    r.lease = snib__ms(100);
    granted(&r);
    assert_int_equal(r.said.left.ns, r.lease.ns);
    cut();
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        assert_true(!model.message[i].there ||
                    strstr(model.message[i].text, " 2000 "));
    }
}

/* Others were made the active ones, and nobody has said so. */
static void a_renewal_that_does_not_come_back_is_none(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request r = request(SNIB__RENEW, 1);
    granted(&a);
    model.consumer[0] = MODEL_OTHER;
    r.token = a.token;
    ask(&r);
    pass_ms(1100);
    assert_int_equal(answer(&r), SNIB__UNKNOWN);
}

static void another_token_is_not_renewed(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request r = request(SNIB__RENEW, 1);
    granted(&a);
    r.token = a.token + 1;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_LOST);
    give_back(&a);
}

static void a_lease_that_nobody_renews_is_given_back(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    granted(&a);
    pass_ms(1990);
    assert_int_equal(model.consumers, 1);
    pass_ms(100);
    assert_int_equal(model.consumers, 0);
    assert_int_equal(model_count("free"), 1);
}

/* -- losses -------------------------------------------------------------------------------------- */

static void a_cut_connection_is_the_loss_of_all_and_is_told(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request r = request(SNIB__RENEW, 1);
    out.holds = true;
    granted(&a);
    out.ended_count = 0;
    cut();
    assert_int_equal(out.ended_count, 1);
    assert_true(out.ended[0][0] == 1);
    assert_int_equal(model_count("held"), 1);
    pass_ms(500);
    r.token = a.token;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_LOST);
}

static void a_release_behind_that_lets_others_in(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    struct snib__request release = request(SNIB__RELEASE, 1);
    granted(&a);
    cut();
    release.token = a.token;
    ask(&release);
    pass_ms(500);
    assert_int_equal(answer(&release), SNIB__NO);
    assert_int_equal(model_count("free"), 1);
    granted(&b);
    assert_true(b.token > a.token);
    give_back(&b);
}

static void who_comes_back_is_not_kept_out_by_its_own_message(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    model.deaf = true;
    ask(&a);
    model.deaf = false;
    lies_there("held", 1, 5, 60000);
    cut();
    pass_ms(500);
    snib__answer got = answer(&a);
    if (got == SNIB__UNKNOWN || got == SNIB__NOT_APPLIED) {
        ask(&a);
        got = answer(&a);
    }
    assert_int_equal(got, SNIB__DONE);
    give_back(&a);
}

/* Its own message of the connection before comes back, and is not taken for the one
 * that was sent now: behind it lies the grant of somebody else. */
static void a_message_of_the_connection_before_proves_nothing(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request again = request(SNIB__ACQUIRE, 1);
    granted(&a);
    cut();
    lies_there("free", 7, 5, 0);
    lies_there("held", 9, a.token + 1, 3000);
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        if (strstr(model.message[i].text, " free ")) {
            model.message[i].order = 0; /* the first one that comes */
        }
    }
    pass_ms(500);
    ask(&again);
    assert_int_equal(answer(&again), SNIB__QUEUED);
    pass_ms(3100);
    assert_int_equal(answer(&again), SNIB__DONE);
    assert_true(again.token > a.token + 1);
    give_back(&again);
}

static void a_queue_that_was_removed_is_a_loss(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    granted(&a);
    out.ended_count = 0;
    model_say(model.consumer[0], SNIB__AMQP_CANCEL);
    settle();
    assert_int_equal(out.ended_count, 1);
}

static void the_grant_of_somebody_later_is_a_loss(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    granted(&a);
    out.ended_count = 0;
    lies_there("held", 9, a.token - 1, 1000);
    settle();
    assert_int_equal(out.ended_count, 0);
    lies_there("held", 9, a.token + 1, 1000);
    settle();
    assert_int_equal(out.ended_count, 1);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_free_lock_is_granted_by_its_own_message_and_left_free),
        CASE(tokens_are_above_all_that_lies_there_and_the_floor),
        CASE(a_token_that_was_too_low_is_raised),
        CASE(tokens_that_come_to_their_end_are_an_error),
        CASE(a_grant_without_its_holder_is_waited_for),
        CASE(the_longest_one_counts_and_those_that_are_over_do_not),
        CASE(a_message_that_it_is_over_ends_the_wait),
        CASE(a_try_has_the_broker_say_later_that_it_is_over),
        CASE(who_waits_is_granted_it_when_the_one_before_has_gone),
        CASE(a_cut_connection_of_the_one_before_is_no_release),
        CASE(a_try_asks_who_consumes_and_is_refused),
        CASE(a_try_goes_on_when_the_one_before_was_about_to_go),
        CASE(who_waits_and_gives_up_leaves_nothing),
        CASE(an_emptied_queue_is_found_out),
        CASE(a_renewal_counts_from_before_its_message_was_sent),
        CASE(a_shorter_renewal_leaves_the_longer_lease_in_the_queue),
        CASE(a_renewal_that_does_not_come_back_is_none),
        CASE(another_token_is_not_renewed),
        CASE(a_lease_that_nobody_renews_is_given_back),
        CASE(a_cut_connection_is_the_loss_of_all_and_is_told),
        CASE(a_release_behind_that_lets_others_in),
        CASE(who_comes_back_is_not_kept_out_by_its_own_message),
        CASE(a_message_of_the_connection_before_proves_nothing),
        CASE(a_queue_that_was_removed_is_a_loss),
        CASE(the_grant_of_somebody_later_is_a_loss),
        CASE(what_there_is_not_is_said),
        CASE(errors_of_the_broker_are_told),
        CASE(a_refused_login_and_a_missing_host_end_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_is_left_alive);
}

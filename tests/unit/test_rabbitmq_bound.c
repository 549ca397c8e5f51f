/* tests/unit/test_rabbitmq_bound.c — the store rabbitmq beside a model of its broker:
 * claims of locks that this client had lately, which are delivered no more than two
 * messages, and the channels that are kept for them. */
#include "rabbitmq_lean.h"

/* -- the bound ----------------------------------------------------------------------- */

static void two_dead_holders_are_waited_for_without_a_bound(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    empty();
    lies_there("held", 8, 500, 1000);
    lies_there("held", 9, 501, 1500);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    assert_int_equal(model.declared, 1);
    pass_ms(1400);
    assert_true(answer(&a) != SNIB__DONE);
    pass_ms(200);
    assert_int_equal(answer(&a), SNIB__DONE);
    assert_true(a.token > 501);
    give_back(&a);
}

/* The second one comes before its own message. */
static void so_it_is_where_it_has_sent_its_own(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    empty();
    lies_there("seed", 7, 0, 0);
    lies_there("held", 8, 500, 1000);
    lies_there("held", 9, 501, 1500);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    pass_ms(1600);
    assert_int_equal(answer(&a), SNIB__DONE);
    give_back(&a);
    assert_int_equal(model_count("held"), 0);
}

/* One that lies there is ended, whoever has sent it. */
static void who_begins_anew_takes_its_own_back(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    empty();
    lies_there("seed", 7, 0, 0);
    lies_there("held", 8, 500, 1000);
    lies_there("held", 9, 501, 1500);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    cancelled(&a);
    int own = 0;
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        own += model.message[i].there &&
               !strcmp(model.message[i].queue, queue) &&
               strstr(model.message[i].text, " free ");
    }
    assert_int_equal(own, 1);
}

static void one_dead_holder_that_renewed_is_waited_for_within_it(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    empty();
    lies_there("held", 9, 500, 1000);
    lies_there("held", 9, 500, 1500);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    pass_ms(1400);
    assert_true(answer(&a) != SNIB__DONE);
    pass_ms(200);
    assert_int_equal(answer(&a), SNIB__DONE);
    assert_int_equal(model.declared, 0);
    give_back(&a);
}

/* It sent its own at the sight of a seed, and that was too low. */
static void its_own_that_was_too_low_makes_room(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    empty();
    lies_there("seed", 8, 0, 0);
    lies_there("free", 9, INT64_C(1) << 50, 0);
    granted(&a);
    assert_true(a.token > INT64_C(1) << 50);
    assert_int_equal(model.declared, 0);
    give_back(&a);
    is_left_free();
}

static void a_message_that_it_is_over_comes_through(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    empty();
    lies_there("seed", 8, 0, 0);
    lies_there("held", 9, 500, 60000);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    lies_there("free", 9, 500, 0);
    settle();
    assert_int_equal(answer(&a), SNIB__DONE);
    assert_int_equal(model.declared, 0);
    give_back(&a);
}

/* -- channels that are kept ---------------------------------------------------------- */

static uint16_t kept(void)
{
    const struct snib__mq *z = (const void *)store;
    return z->pool[0].number;
}

static void a_channel_that_is_lost_is_not_kept(void **state)
{
    (void)state;
    for (uint64_t how = 0; how < 3; how++) {
        struct snib__request a = request(SNIB__ACQUIRE, 1 + how);
        out.holds = true;
        sections(2);
        int chan = kept();
        assert_int_not_equal(chan, 0);
        if (how == 0) {
            cut();
            pass_ms(500);
        } else if (how == 1) {
            model.open[chan] = false;
            model_close(chan, SNIB__AMQP_CHANNEL_CLOSE, 541, "as it is");
        } else {
            (void)model_delivers(chan, "messages-1", queue);
            model_content(chan, NULL, "x", 1);
        }
        settle();
        assert_int_equal(kept(), 0);
        model.opened = 0;
        granted(&a);
        assert_int_equal(model.opened, 1);
        give_back(&a);
        assert_true(up);
    }
}

/* What a broker has of a former consumer goes with its channel at the latest. */
static void none_is_kept_for_more_than_a_minute(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    pass_ms(1500);
    sections(1); /* not when heartbeats are due */
    int chan = kept();
    pass_ms(58400);
    assert_int_equal(kept(), chan);
    pass_ms(200); /* nobody has used it */
    assert_int_equal(kept(), 0);
    assert_false(model.open[chan]);
    assert_true(up);
    sections(1);
    chan = kept();
    pass_ms(59000);
    granted(&a);
    pass_ms(1100);
    assert_true(model.open[chan]); /* it is held by */
    give_back(&a);
    assert_int_equal(kept(), 0);
    assert_false(model.open[chan]);
    is_left_free();
    assert_int_equal(out.conn[0]->awaited, 0);
}

/* The next section may begin before time is looked at. */
static void one_that_is_older_is_not_kept_at_all(void **state)
{
    (void)state;
    struct mq_channel channel = {.number = 5, .opened = now};
    snib__mq_pool_put((void *)store, snib__after(now, snib__ms(60000)),
                      &channel);
    assert_int_equal(channel.number, 5);
    assert_int_equal(kept(), 0);
}

static void nor_for_more_than_a_thousand_sections(void **state)
{
    (void)state;
    sections(1);
    sections(1);
    int chan = kept();
    sections(998);
    assert_int_equal(kept(), chan);
    sections(1);
    assert_int_equal(kept(), 0);
    assert_false(model.open[chan]);
    is_left_free();
    sections(1);
    assert_int_not_equal(kept(), 0);
    is_left_free();
}

/* Without its bound. */
static void those_that_are_kept_are_used_before_numbers_run_out(void **state)
{
    (void)state;
    struct snib__buf rows;
    snib__buf_init(&rows, 8192);
    model.wishes.channels = 3; /* one of them hears who asks */
    sections(2);
    int chan = kept();
    assert_int_equal(model.credit[chan], 2);
    model.late_ends = true;
    for (uint64_t i = 0; i < 3; i++) {
        struct snib__request inspect = request(SNIB__INSPECT, 50 + i);
        inspect.said.result = &rows;
        ask(&inspect);
        assert_int_equal(answer(&inspect),
                         i < 2 ? SNIB__DONE : SNIB__NOT_APPLIED);
        assert_int_equal(kept() != 0, i == 0);
    }
    assert_int_equal(model.credit[chan], 0);
    snib__buf_free(&rows);
}

static void confirms_up_to(int chan, uint64_t message)
{
    uint64_t published = model.published[chan];
    model.published[chan] = message;
    model_confirm(chan);
    model.published[chan] = published;
    settle();
}

/* What the broker says of messages of before is not said of the one that is to wake a
 * queue: a consumer that came sooner would close the connection. */
static void on_one_that_is_kept_a_new_queue_is_waited_for(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.acquire.may_queue = false;
    model.wishes.channels = 2;
    sections(2);
    int chan = kept();
    uint64_t before = model.published[chan];
    empty();
    *model.queue = 0;
    model.unconfirmed = true;
    ask(&a);
    assert_int_equal(kept(), 0);
    assert_int_equal(model.declared, 1);
    confirms_up_to(chan, before);
    assert_int_equal(model.consumers, 0);
    pass_ms(250); /* one more was sent meanwhile: the first one will do */
    confirms_up_to(chan, before + 1);
    assert_int_equal(answer(&a), SNIB__DONE);
    assert_int_equal(model.consumers, 1);
    model.unconfirmed = false;
    give_back(&a);
}

static void many_at_once_keep_no_more_than_a_few(void **state)
{
    (void)state;
    const struct snib__mq *z = (const void *)store;
    struct snib__request many[20];
    sections(1);
    for (uint64_t i = 0; i < COUNT_OF(many);
         i++) { /* they wait for each other */
        if (i < 5) {
            many[i] = request(SNIB__ACQUIRE, 1 + i);
            ask(&many[i]);
        }
    }
    pass_ms(300);
    for (uint64_t i = 0; i < 5; i++) {
        (void)answer(&many[i]);
        many[i] = request(SNIB__ACQUIRE, 1 + i);
        ask(&many[i]);
        comes_in(&many[i]);
        give_back(&many[i]);
    }
    int n = 0;
    for (int i = 0; i < MQ_POOL; i++) {
        n += z->pool[i].number != 0;
        assert_true(
            !z->pool[i].number ||
            (!z->pool[i].due && z->channel[z->pool[i].number] == &z->pool[i]));
    }
    assert_int_equal(n, 5);
    assert_int_equal(out.conn[0]->awaited, 0);
    assert_int_equal(model.declared, 0);
    is_left_free();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(two_dead_holders_are_waited_for_without_a_bound),
        CASE(so_it_is_where_it_has_sent_its_own),
        CASE(who_begins_anew_takes_its_own_back),
        CASE(one_dead_holder_that_renewed_is_waited_for_within_it),
        CASE(its_own_that_was_too_low_makes_room),
        CASE(a_message_that_it_is_over_comes_through),
        CASE(a_channel_that_is_lost_is_not_kept),
        CASE(none_is_kept_for_more_than_a_minute),
        CASE(one_that_is_older_is_not_kept_at_all),
        CASE(nor_for_more_than_a_thousand_sections),
        CASE(those_that_are_kept_are_used_before_numbers_run_out),
        CASE(on_one_that_is_kept_a_new_queue_is_waited_for),
        CASE(many_at_once_keep_no_more_than_a_few),
    };
    return RUN(tests);
}

/* tests/unit/test_rabbitmq_lean.c — the store rabbitmq beside a model of its broker:
 * claims of locks that this client had lately, how they are renewed and given back. */
#include "rabbitmq_lean.h"

/* The end of its consumer is not confirmed yet. Returns its channel. */
static int begins_to_leave(struct snib__request *release,
                           const struct snib__request *a)
{
    int chan = model.consumer[0];
    model.late_cancels = true;
    *release = request(SNIB__RELEASE, a->id[0]);
    release->token = a->token;
    ask(release);
    assert_int_equal(answer(release), SNIB__PENDING);
    model.late_cancels = false;
    return chan;
}

static void goes_on_to_leave(int chan)
{
    model_say(chan, SNIB__AMQP_CANCEL_OK);
    settle();
}

/* -- sections -------------------------------------------------------------------- */

static void a_known_queue_is_not_asked_for_and_its_channel_is_kept(void **state)
{
    (void)state;
    int64_t token = 0;
    sections(1);
    for (uint64_t i = 0; i < 5; i++) {
        struct snib__request a = request(SNIB__ACQUIRE, 1 + i);
        granted(&a);
        assert_true(a.token > token);
        token = a.token;
        give_back(&a);
        assert_int_equal(model.declared, 0);
        assert_int_equal(model.opened, 1);
        is_left_free();
    }
}

static void a_channel_is_kept_when_the_release_is_confirmed(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request release = request(SNIB__RELEASE, 1);
    sections(2);
    granted(&a);
    int chan = model.consumer[0];
    release.token = a.token;
    model.unconfirmed = true;
    ask(&release);
    assert_int_equal(answer(&release), SNIB__PENDING);
    assert_int_equal(model.consumers, 0); /* that is confirmed already */
    model.unconfirmed = false;
    model_confirm(chan);
    settle();
    assert_int_equal(answer(&release), SNIB__DONE);
    is_left_free();
    a = request(SNIB__ACQUIRE, 2);
    granted(&a);
    assert_int_equal(model.consumer[0], chan);
    give_back(&a);
}

/* A broker that has lost one message of a channel takes none of those behind it: the
 * repeat goes another way, and so does whoever comes next. */
static void where_it_is_not_the_channel_is_closed(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request release = request(SNIB__RELEASE, 1);
    sections(2);
    granted(&a);
    int chan = model.consumer[0];
    release.token = a.token;
    model.drops[chan] = true;
    ask(&release);
    assert_int_equal(answer(&release), SNIB__PENDING);
    pass_ms(1100);
    assert_int_equal(answer(&release), SNIB__UNKNOWN);
    assert_false(model.open[chan]);
    assert_int_equal(model_count("free"), 0);
    ask(&release);
    assert_int_equal(answer(&release), SNIB__NO); /* it is not there any more */
    is_left_free();
    a = request(SNIB__ACQUIRE, 2);
    granted(&a);
    assert_true(a.token > release.token);
    give_back(&a);
    is_left_free();
}

/* Who is the first one, and whose messages the broker takes no more. */
static void who_hears_nothing_begins_anew(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    model.slow = true;
    ask(&a);
    model.drops[model.consumer[0]] = true;
    model.slow = false;
    model_deliver();
    settle();
    pass_ms(1100);
    assert_int_equal(answer(&a), SNIB__UNKNOWN);
    ask(&a);
    comes_in(&a);
    give_back(&a);
    is_left_free();
}

/* It has sent its own message to a broker that does not read just then. */
static void meets_a_broker_that_stands_still(struct snib__request *a,
                                             bool one_word)
{
    model.slow = true;
    ask(a);
    another_consumes();
    model.slow = false;
    model_deliver();
    mute = true;
    settle();
    if (one_word) {
        now = snib__after(now, snib__ms(1));
        model_end(model_frame(SNIB__AMQP_HEARTBEAT, 0));
    }
    pass_ms(2500);
    assert_int_equal(answer(a), SNIB__UNKNOWN);
    *a = request(SNIB__ACQUIRE, a->id[0]);
    ask(a);
}

/* Else its message would lie there, and the next one wait for that lease. */
static void keeps_its_position(bool one_word)
{
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    sections(1);
    granted(&b);
    give_back(&b);
    model.declared = 0;
    meets_a_broker_that_stands_still(&a, one_word);
    mute = false;
    settle();
    assert_int_equal(answer(&a), SNIB__DONE);
    assert_true(a.token > b.token);
    assert_int_equal(model.declared, 0);
    assert_int_equal(model_count("free"), 1); /* the last token, kept */
    assert_int_equal(model.consumers, 2);
    model_uncount(MODEL_OTHER);
    give_back(&a);
    is_left_free();
}

static void
who_meets_a_broker_that_stands_still_keeps_its_position(void **state)
{
    (void)state;
    keeps_its_position(false);
}

/* What it said right behind what it was sent says nothing of that. */
static void also_where_it_has_spoken_just_before(void **state)
{
    (void)state;
    keeps_its_position(true);
}

/* It speaks, but will take nothing until the alarm is over. */
static void so_does_who_meets_one_with_an_alarm(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    meets_a_broker_that_stands_still(&a, false);
    size_t begun = model_method(0, SNIB__AMQP_BLOCKED);
    snib__amqp_put_short(&model_out, "low on memory");
    model_end(begun);
    settle();
    pass_ms(2500);
    model_say(0, SNIB__AMQP_UNBLOCKED);
    mute = false;
    settle();
    comes_in(&a);
    assert_int_equal(model.declared, 0);
    model_uncount(MODEL_OTHER);
    give_back(&a);
    is_left_free();
}

/* The broker took its message, and did not say so in time. */
static void begins_anew_behind_another(struct snib__request *a)
{
    sections(2);
    model.slow = true;
    ask(a);
    another_consumes();
    model.unconfirmed = true;
    model.slow = false;
    model_deliver();
    model.slow = true;
    settle();
    assert_int_equal(model_count("held"), 1);
    pass_ms(2500);
    assert_int_equal(model.declared, 1);
    assert_int_equal(model.consumer[0], MODEL_OTHER);
    model.unconfirmed = model.slow = false;
}

static void who_begins_anew_says_that_its_message_is_over(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    begins_anew_behind_another(&a);
    assert_int_equal(model_count("free"), 2);
    model_leave(MODEL_OTHER);
    settle();
    a = request(SNIB__ACQUIRE, 1);
    ask(&a);
    comes_in(&a);
    give_back(&a);
    is_left_free();
}

static void who_begins_anew_can_give_up_though_it_is_not_its_turn(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    begins_anew_behind_another(&a);
    cancelled(&a);
    assert_int_equal(model.consumers, 1);
    model_leave(MODEL_OTHER);
}

/* An acknowledgement was lost with the queue's leader, and with it the room for what it
 * sends: that is there, and does not come. A broker may only be slow, so it asks once. */
static void who_is_not_given_what_is_there_begins_anew(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    model.slow = true;
    ask(&a);
    model.credit[model.consumer[0]] = 1;
    model.slow = false;
    model_deliver();
    settle();
    pass_ms(2500);
    assert_int_equal(answer(&a), SNIB__UNKNOWN);
    assert_int_equal(model_count("probe"), 1);
    assert_int_equal(model.declared, 0);
    a = request(SNIB__ACQUIRE, 1);
    ask(&a);
    comes_in(&a);
    assert_int_equal(model.declared, 1);
    give_back(&a);
    is_left_free();
}

/* That its FREE is there does not say that its queue takes consumers. */
static void
who_begins_anew_does_not_consume_before_its_queue_is_there(void **state)
{
    (void)state;
    const struct snib__mq *z = (const void *)store;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    model.slow = true;
    ask(&a);
    int chan = model.consumer[0];
    model.drops[chan] = true;
    model.slow = false;
    model_deliver();
    settle();
    pass_ms(1500);
    mute = true;
    pass_ms(1000);
    size_t sent = snib__buf_size(&out.conn[0]->out);
    assert_int_not_equal(z->channel_at, chan);
    model.published[z->channel_at] = 1;
    model_confirm(z->channel_at);
    settle();
    assert_int_equal(snib__buf_size(&out.conn[0]->out), sent);
    mute = false;
    a = request(SNIB__ACQUIRE, 1);
    ask(&a);
    comes_in(&a);
    give_back(&a);
}

/* A message of a consumer that has gone is not taken for one of the next one's: not
 * acknowledged, and who holds there hears that it has lost it. */
static void what_comes_for_a_former_consumer_closes_the_channel(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    out.holds = true;
    sections(2);
    granted(&a);
    int chan = model.consumer[0];
    assert_int_equal(model.consumed[chan], 2);
    out.ended_count = 0;
    (void)model_delivers(chan, "messages-1", model.queue);
    model_content(chan, NULL, "snib1 seed", 10);
    settle();
    assert_int_equal(out.ended_count, 1);
    assert_false(model.open[chan]);
    assert_int_equal(delivered(), 0);
    a = request(SNIB__ACQUIRE, 2); /* it waits for that lease */
    ask(&a);
    pass_ms(1900);
    assert_true(answer(&a) != SNIB__DONE);
    comes_in(&a);
    give_back(&a);
}

static void what_was_not_had_for_an_hour_is_asked_for(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    out.holds = true;
    sections(2);
    pass_ms(3599000);
    granted(&a);
    give_back(&a);
    assert_int_equal(model.declared, 0);
    pass_ms(3601000);
    a = request(SNIB__ACQUIRE, 2);
    granted(&a);
    assert_int_equal(model.declared, 1);
    give_back(&a);
}

static void a_try_asks_for_a_known_queue_too(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    a.acquire.may_queue = false;
    granted(&a);
    assert_int_equal(model.declared, 1);
    give_back(&a);
}

static void who_is_given_nothing_is_told_that_it_waits(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    another_consumes();
    ask(&a);
    pass_ms(190);
    assert_int_equal(answer(&a), SNIB__PENDING);
    pass_ms(20);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    cancelled(&a);
    assert_int_equal(model.consumers, 1);
    assert_int_equal(model.declared, 0);
}

/* It had nobody who waited with it when that would have been told. */
static void so_is_who_comes_back_to_it(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    another_consumes();
    a.limit = snib__after(now, snib__ms(100));
    ask(&a);
    pass_ms(110);
    assert_int_equal(answer(&a), SNIB__UNKNOWN);
    pass_ms(110);
    a = request(SNIB__ACQUIRE, 1);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    cancelled(&a);
    model_leave(MODEL_OTHER);
}

/* An operator has removed it: also one that tries once hears nothing of that. */
static void a_queue_that_is_not_there_is_made(void **state)
{
    (void)state;
    for (int once = 0; once < 2; once++) {
        struct snib__request a = request(SNIB__ACQUIRE, 1 + (uint64_t)once);
        a.once = once;
        sections(2);
        empty();
        *model.queue = 0;
        granted(&a);
        assert_int_equal(model.declared, 1);
        give_back(&a);
        is_left_free();
    }
}

/* It is not asked for once more in that way. */
static void a_queue_that_was_not_there_is_forgotten(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    sections(2);
    *model.queue = 0;
    model.close_declare = 403;
    ask(&a);
    assert_int_equal(answer(&a), SNIB__NOT_APPLIED);
    assert_int_equal(a.said.err, SNIB_ERR_DENIED);
    assert_int_equal(model.opened, 1);
    ask(&b);
    assert_int_equal(answer(&b), SNIB__NOT_APPLIED);
    assert_int_equal(model.opened, 2);
}

/* Nor is one that was removed while it was held. */
static void so_is_one_that_was_removed(void **state)
{
    (void)state;
    for (int returned = 0; returned < 2; returned++) {
        struct snib__request a = request(SNIB__ACQUIRE, 1);
        struct snib__request renew = request(SNIB__RENEW, 1);
        sections(2);
        granted(&a);
        renew.token = a.token;
        model.returns = returned;
        if (returned) {
            ask(&renew);
            assert_int_equal(answer(&renew), SNIB__NO);
        } else {
            model_say(model.consumer[0], SNIB__AMQP_CANCEL);
            settle();
        }
        model.returns = false;
        empty();
        *model.queue = 0;
        model.opened = 0;
        a = request(SNIB__ACQUIRE, 2);
        granted(&a);
        assert_int_equal(model.opened, 1);
        give_back(&a);
    }
}

/* -- given back ------------------------------------------------------------------- */

/* The one whose turn it is sees it first, and nothing else. */
static void the_message_free_lies_there_before_its_consumer_goes(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    static struct snib__request release; /* it is the store's to the end */
    sections(1);
    granted(&a);
    another_consumes();
    int chan = begins_to_leave(&release, &a);
    assert_int_equal(model.left_ready, 1);
    assert_int_equal(delivered(), 1);
    assert_int_equal(model_count("free"), 1);
    goes_on_to_leave(chan);
    assert_int_equal(answer(&release), SNIB__DONE);
    assert_int_equal(delivered(), 1);
    model_leave(MODEL_OTHER);
}

static void a_cut_before_the_end_is_confirmed_has_it_said_again(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    static struct snib__request release; /* it is the store's to the end */
    sections(1);
    granted(&a);
    (void)begins_to_leave(&release, &a);
    assert_int_equal(model_count("free"), 1);
    cut();
    pass_ms(500);
    assert_int_equal(answer(&release), SNIB__NO); /* it went with the cut */
    assert_int_equal(model_count("free"), 2);
}

static void so_it_is_where_its_channel_is_lost(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    static struct snib__request release; /* it is the store's to the end */
    sections(1);
    granted(&a);
    int chan = begins_to_leave(&release, &a);
    model.open[chan] = false;
    model_close(chan, SNIB__AMQP_CHANNEL_CLOSE, 541, "as it is");
    settle();
    assert_int_equal(answer(&release), SNIB__DONE);
    assert_int_equal(model_count("free"), 2);
}

static void confirms_up_to(int chan, uint64_t message)
{
    uint64_t published = model.published[chan];
    model.published[chan] = message;
    model_confirm(chan);
    model.published[chan] = published;
    settle();
}

/* Its renewal has not come back, so that its FREE cannot: that is confirmed, and then
 * the channel is closed. */
static void so_it_is_where_the_channel_is_to_be_closed(void **state)
{
    (void)state;
    for (int lost = 0; lost < 2; lost++) { /* its confirmation */
        struct snib__request a = request(SNIB__ACQUIRE, 1);
        struct snib__request renew = request(SNIB__RENEW, 1);
        struct snib__request release = request(SNIB__RELEASE, 1);
        out.holds = true;
        sections(2);
        granted(&a);
        renew.token = release.token = a.token;
        model.slow = model.late_ends = true;
        ask(&renew);
        pass_ms(1100);
        assert_int_equal(answer(&renew), SNIB__UNKNOWN);
        model.unconfirmed = lost;
        uint64_t before = model.published[model.consumer[0]];
        ask(&release);
        assert_int_equal(answer(&release), SNIB__PENDING);
        if (lost) { /* that of the renewal comes late */
            confirms_up_to(model.consumer[0], before);
        }
        assert_int_equal(model.consumers, lost);
        assert_int_equal(model_count("free"), 1);
        model.slow = model.late_ends = model.unconfirmed = false;
        cut();
        pass_ms(500);
        assert_int_equal(answer(&release), SNIB__NO); /* it went with it */
        assert_int_equal(model_count("free"), 1 + lost);
        a = request(SNIB__ACQUIRE, 2);
        granted(&a); /* nobody's lease is waited for */
        give_back(&a);
        is_left_free();
    }
}

static void what_comes_to_who_leaves_goes_on_to_the_next_one(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    static struct snib__request release; /* it is the store's to the end */
    sections(1);
    granted(&a);
    int chan = begins_to_leave(&release, &a);
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        if (model.message[i].there) {
            model.message[i].chan = chan;
            model_send(&model.message[i], chan);
        }
    }
    settle();
    assert_int_equal(delivered(), 1);
    goes_on_to_leave(chan);
    assert_int_equal(answer(&release), SNIB__DONE);
    assert_int_equal(delivered(), 0);
    assert_false(model.open[chan]);
    is_left_free();
}

static void a_lease_that_nobody_renews_is_given_back(void **state)
{
    (void)state;
    for (int confirmed = 1; confirmed >= 0; confirmed--) {
        struct snib__request a =
            request(SNIB__ACQUIRE, 5 + (uint64_t)confirmed);
        sections(1);
        granted(&a);
        int chan = model.consumer[0];
        model.late_cancels = !confirmed;
        pass_ms(2100);
        is_left_free();
        pass_ms(2100);
        assert_int_equal(model.open[chan], confirmed);
    }
}

/* -- renewals --------------------------------------------------------------------- */

static void renewals_come_back_though_two_messages_are_kept(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    granted(&a);
    for (int i = 0; i < 4; i++) {
        struct snib__request r = request(SNIB__RENEW, 1);
        lies_there("seed", 8, 0, 0); /* of those who wait */
        lies_there("seed", 9, 0, 0);
        pass_ms(500);
        r.token = a.token;
        granted(&r);
        assert_int_equal(delivered(), 2);
        assert_int_equal(model_count("seed"), 0);
    }
    give_back(&a);
    assert_int_equal(model.opened, 0);
    is_left_free();
}

/* They would all have to be taken before its own comes back, one by one. */
static void what_those_who_wait_send_does_not_stay_before_them(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    sections(2);
    granted(&a);
    ask(&b);
    pass_ms(300);
    assert_int_equal(answer(&b), SNIB__QUEUED);
    pass_ms(1100); /* it polls */
    (void)answer(&b);
    assert_int_equal(model_count("seed"), 1);
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        const struct model_message *m = &model.message[i];
        assert_int_equal(m->expires_ms,
                         m->there && strstr(m->text, " seed ") ? 5000 : 0);
    }
    give_back(&a);
    comes_in(&b);
    give_back(&b);
    is_left_free();
}

/* The broker took it for gone, and has thought better of it. */
static void who_is_given_its_messages_again_is_closed(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    sections(2);
    granted(&a);
    int chan = model.consumer[0];
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        model.message[i].chan = 0;
    }
    model_deliver();
    settle();
    assert_int_equal(delivered(), 1);
    model.late_cancels = true; /* that is not waited for */
    give_back(&a);
    assert_false(model.open[chan]);
    assert_int_equal(delivered(), 0);
    assert_int_equal(model_count("free"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_known_queue_is_not_asked_for_and_its_channel_is_kept),
        CASE(a_channel_is_kept_when_the_release_is_confirmed),
        CASE(where_it_is_not_the_channel_is_closed),
        CASE(who_hears_nothing_begins_anew),
        CASE(who_meets_a_broker_that_stands_still_keeps_its_position),
        CASE(also_where_it_has_spoken_just_before),
        CASE(so_does_who_meets_one_with_an_alarm),
        CASE(who_begins_anew_says_that_its_message_is_over),
        CASE(who_is_not_given_what_is_there_begins_anew),
        CASE(who_begins_anew_can_give_up_though_it_is_not_its_turn),
        CASE(who_begins_anew_does_not_consume_before_its_queue_is_there),
        CASE(what_comes_for_a_former_consumer_closes_the_channel),
        CASE(what_was_not_had_for_an_hour_is_asked_for),
        CASE(a_try_asks_for_a_known_queue_too),
        CASE(who_is_given_nothing_is_told_that_it_waits),
        CASE(so_is_who_comes_back_to_it),
        CASE(a_queue_that_is_not_there_is_made),
        CASE(a_queue_that_was_not_there_is_forgotten),
        CASE(so_is_one_that_was_removed),
        CASE(the_message_free_lies_there_before_its_consumer_goes),
        CASE(a_cut_before_the_end_is_confirmed_has_it_said_again),
        CASE(so_it_is_where_its_channel_is_lost),
        CASE(so_it_is_where_the_channel_is_to_be_closed),
        CASE(what_comes_to_who_leaves_goes_on_to_the_next_one),
        CASE(a_lease_that_nobody_renews_is_given_back),
        CASE(renewals_come_back_though_two_messages_are_kept),
        CASE(what_those_who_wait_send_does_not_stay_before_them),
        CASE(who_is_given_its_messages_again_is_closed),
    };
    return RUN(tests);
}

/* tests/unit/test_rabbitmq_ends.c — the store rabbitmq beside a model of its broker:
 * renewals, grants that are lost, and what becomes of their messages. */
#include "rabbitmq_world.h"

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

/* It slept, and is given what came meanwhile first. Others may have been the active
 * ones, and have waited for the lease before. */
static void a_renewal_that_comes_back_too_late_is_none(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request r = request(SNIB__RENEW, 1);
    granted(&a);
    int own = model.consumer[0];
    model.consumer[0] = MODEL_OTHER;
    r.token = a.token;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__PENDING);
    model_leave(MODEL_OTHER);
    model_consume(own); /* again the active one */
    out.ended_count = 0;
    now = snib__after(now, snib__ms(2001));
    settle();
    assert_int_equal(answer(&r), SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_LOST);
    assert_non_null(strstr(said.text, "lease is over"));
    assert_int_equal(out.ended_count, 1);
    pass_ms(100);
    assert_int_equal(model.consumers, 0);
    assert_int_equal(model_count("free"), 1);
}

/* The broker took it for gone, and has thought better of it. */
static void a_holder_that_is_given_its_message_again_keeps_it(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request r = request(SNIB__RENEW, 1);
    granted(&a);
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        model.message[i].chan = 0;
    }
    model_deliver();
    settle();
    assert_int_equal(model_count("held"), 1);
    r.token = a.token;
    granted(&r);
    assert_int_equal(model_count("held"), 1);
    give_back(&a);
    assert_int_equal(model_count("held"), 0);
}

static void a_message_that_another_took_is_sent_again(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    lies_there("free", 9, 5, 0);
    model.deaf = true;
    ask(&a);
    model.deaf = false;
    comes_in(&a);
    give_back(&a);
}

static void who_goes_leaves_what_others_have_said(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    static struct snib__request release; /* it is the store's to the end */
    release = request(SNIB__RELEASE, 1);
    granted(&a);
    release.token = a.token;
    model.deaf = true;
    ask(&release);
    model.deaf = false;
    lies_there("held", 9, a.token - 1, 3000);
    settle();
    assert_int_equal(model_count("held"), 2);
}

/* What it gave back by was lost: others are let in all the same. */
static void who_goes_does_not_stand_there_for_ever(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    granted(&a);
    model.deaf = true;
    pass_ms(2100); /* nobody has renewed it */
    assert_int_equal(model.consumers, 1);
    model.deaf = false;
    pass_ms(2500);
    assert_int_equal(model.consumers, 0);
}

/* Who waited for a lease asks first whether it is still the active one. */
static void who_is_not_the_active_one_any_more_sends_no_grant(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    lies_there("held", 9, 5, 2000);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    model.consumer[model.consumers++] = model.consumer[0];
    model.consumer[0] = MODEL_OTHER;
    pass_ms(3000);
    assert_int_equal(model_count("held"), 1);
    assert_int_equal(model_count("probe"), 1);
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        model.message[i].there &= !strstr(model.message[i].text, " probe ");
    }
    model_leave(MODEL_OTHER);
    comes_in(&a); /* that message was lost: it sends another one */
    give_back(&a);
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
    assert_non_null(strstr(said.text, "lease is over"));
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
    assert_non_null(strstr(said.text, "connection was cut"));
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

/* A request that was to take the place of a grant of its own. */
static void a_cancel_behind_that_gives_up_the_grant_before_too(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    struct snib__request cancel = request(SNIB__CANCEL, 3);
    granted(&a);
    cut();
    cancel.token = a.token;
    memcpy(cancel.prior_id, a.id, sizeof a.id);
    ask(&cancel);
    pass_ms(500);
    assert_int_equal(answer(&cancel), SNIB__DONE);
    assert_int_equal(model_count("free"), 2);
    granted(&b);
    assert_true(b.token > a.token);
    give_back(&b);
}

/* It had only begun to ask for its queue. */
static void so_does_a_cancel_of_what_has_not_consumed_yet(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    struct snib__request cancel = request(SNIB__CANCEL, 2);
    out.holds = true;
    granted(&a);
    cut();
    pass_ms(200);
    b.token = cancel.token = a.token;
    memcpy(b.prior_id, a.id, sizeof a.id);
    memcpy(cancel.prior_id, a.id, sizeof a.id);
    mute = true;
    ask(&b);
    pass_ms(1100);
    assert_int_equal(answer(&b), SNIB__UNKNOWN);
    ask(&cancel);
    mute = false;
    settle();
    assert_int_equal(answer(&cancel), SNIB__DONE);
    assert_int_equal(model_count("free"), 2);
}

static void who_takes_the_place_of_that_does_not_wait_for_it(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    granted(&a);
    cut();
    b.token = a.token;
    memcpy(b.prior_id, a.id, sizeof a.id);
    ask(&b);
    pass_ms(500);
    assert_int_equal(answer(&b), SNIB__DONE);
    assert_true(b.token > a.token);
    assert_int_equal(model_count("free"), 0);
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

/* A grant whose answer nobody took for a lease was given back; then the request came
 * again, and was granted the lock again under its id. Whoever comes next finds both
 * messages, if the connection is cut before the first one is acknowledged. */
static void a_free_of_the_grant_before_does_not_end_this_one(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request again = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    char first[MQ_MESSAGE_MAX + 1] = "";
    granted(&a);
    pass_ms(2100);
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        if (model.message[i].there && strstr(model.message[i].text, " free ")) {
            memcpy(first, model.message[i].text, sizeof first);
        }
    }
    assert_true(*first);
    granted(&again);
    cut();
    model_put(queue, first, 0);
    ask(&b);
    pass_ms(500);
    assert_int_equal(answer(&b), SNIB__QUEUED);
    pass_ms(1000);
    assert_true(answer(&b) != SNIB__DONE);
    pass_ms(1000);
    assert_int_equal(answer(&b), SNIB__DONE);
    give_back(&b);
}

/* It may have sent a message that others will wait for: so the core gives it up. */
static void a_try_behind_a_cut_is_unknown_if_it_has_written(void **state)
{
    (void)state;
    for (int wrote = 0; wrote < 2; wrote++) {
        struct snib__request a = request(SNIB__ACQUIRE, 5 + (uint64_t)wrote);
        a.acquire.may_queue = false;
        a.once = true;
        if (wrote) {
            lies_there("free", 9, 5, 0);
        } else {
            another_consumes();
        }
        model.deaf = wrote; /* its HELD does not come back */
        ask(&a);
        pass_ms(100);
        assert_int_equal(answer(&a), SNIB__PENDING);
        model.deaf = false;
        cut();
        assert_int_equal(answer(&a), wrote ? SNIB__UNKNOWN : SNIB__NOT_APPLIED);
        assert_int_equal(a.said.err, SNIB_ERR_UNREACHABLE);
        model_leave(MODEL_OTHER);
    }
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

/* The broker gives the message back: there is no such queue. */
static void a_renewal_that_no_queue_takes_is_a_loss(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request r = request(SNIB__RENEW, 1);
    granted(&a);
    out.ended_count = 0;
    model.returns = true;
    r.token = a.token;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_LOST);
    assert_non_null(strstr(said.text, "removed"));
    assert_int_equal(out.ended_count, 1);
    assert_true(up);
}

/* On the queue of the client's own, behind amq.fanout. */
static void asks_who(const char *reply_to)
{
    char text[MQ_QUEUE_MAX + 80];
    snprintf(text, sizeof text, "snib1 who %032d 0 0 0\n%s", 7, queue);
    *model.to = 0;
    model_passes(model.own, reply_to, text);
    settle();
}

static void
an_answer_never_goes_into_a_queue_that_the_question_names(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    granted(&a);
    asks_who("amq.rabbitmq.reply-to.g1");
    assert_string_equal(model.to, "amq.rabbitmq.reply-to.g1");
    asks_who("snib.l.other");
    assert_string_equal(model.to, "");
    assert_int_equal(model_count("held"), 1);
    give_back(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_renewal_counts_from_before_its_message_was_sent),
        CASE(a_shorter_renewal_leaves_the_longer_lease_in_the_queue),
        CASE(a_renewal_that_does_not_come_back_is_none),
        CASE(a_renewal_that_comes_back_too_late_is_none),
        CASE(a_holder_that_is_given_its_message_again_keeps_it),
        CASE(a_message_that_another_took_is_sent_again),
        CASE(who_is_not_the_active_one_any_more_sends_no_grant),
        CASE(who_goes_leaves_what_others_have_said),
        CASE(who_goes_does_not_stand_there_for_ever),
        CASE(another_token_is_not_renewed),
        CASE(a_lease_that_nobody_renews_is_given_back),
        CASE(a_cut_connection_is_the_loss_of_all_and_is_told),
        CASE(a_release_behind_that_lets_others_in),
        CASE(a_cancel_behind_that_gives_up_the_grant_before_too),
        CASE(so_does_a_cancel_of_what_has_not_consumed_yet),
        CASE(who_takes_the_place_of_that_does_not_wait_for_it),
        CASE(who_comes_back_is_not_kept_out_by_its_own_message),
        CASE(a_message_of_the_connection_before_proves_nothing),
        CASE(a_free_of_the_grant_before_does_not_end_this_one),
        CASE(a_try_behind_a_cut_is_unknown_if_it_has_written),
        CASE(a_queue_that_was_removed_is_a_loss),
        CASE(a_renewal_that_no_queue_takes_is_a_loss),
        CASE(an_answer_never_goes_into_a_queue_that_the_question_names),
        CASE(the_grant_of_somebody_later_is_a_loss),
    };
    return RUN(tests);
}

/* tests/unit/test_rabbitmq_steps.c — the store rabbitmq beside a model of its
 * broker: who is granted the lock, when, with which token, and what is left. */
#include "rabbitmq_world.h"

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
    assert_int_equal(model_count("free"), 1); /* kept: lean.c */
    give_back(&b);
    assert_int_equal(model_count("held"), 0);
    assert_int_equal(model_count("free"), 1);
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

/* The core does not make it the floor for other names. */
static void a_token_days_ahead_of_the_clock_is_told_apart(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    int64_t wall_ms = INT64_C(1790000000000), day_ms = 86400000;
    out.wall_offset_ns = wall_ms * 1000000 - now.ns;
    granted(&a);
    assert_true(a.token >= wall_ms * 1024 && !a.said.far);
    give_back(&a);
    lies_there("free", 9, (wall_ms + 2 * day_ms) * 1024, 0);
    granted(&b);
    assert_true(b.said.far);
    give_back(&b);
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

/* Each connection begins the wait anew, but not the lease. */
static void its_lease_is_counted_from_when_it_was_seen_at_first(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    lies_there("held", 9, 5, 3000);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__QUEUED);
    snib_instant seen = now;
    pass_ms(1500);
    cut();
    comes_in(&a);
    assert_in_range(now.ns - seen.ns, 3000000000, 3200000000);
    give_back(&a);
}

/* A renewal is another message, and another lease. */
static void a_renewal_is_counted_from_when_it_was_seen(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    another_consumes();
    lies_there("held", 9, 5, 3000);
    ask(&a);
    pass_ms(1000);
    model_leave(MODEL_OTHER);
    settle();
    pass_ms(2000);
    model_put(queue, "snib1 held 00000000000000090000000000000009 5 3000 65\n",
              0);
    settle();
    pass_ms(1500);
    assert_true(answer(&a) != SNIB__DONE);
    pass_ms(1600);
    assert_int_equal(answer(&a), SNIB__DONE);
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

/* It had sent its own message before it saw the other one. */
static void a_try_that_was_too_quick_takes_its_message_back(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    a.acquire.may_queue = false;
    lies_there("seed", 8, 0, 0);
    lies_there("held", 9, 5, 3000);
    ask(&a);
    assert_int_equal(answer(&a), SNIB__NO);
    pass_ms(500);
    assert_int_equal(model.consumers, 0);
    assert_int_equal(model_count("held"), 1);
    assert_int_equal(model_count("free"), 2); /* its own; the note */
}

/* Who comes next would wait for the whole lease from then on, and if he gives up as
 * soon, too, for ever. */
static void who_gives_up_leaves_word_of_when_a_dead_grant_is_over(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    lies_there("held", 9, 5, 3000);
    ask(&a);
    pass_ms(1000);
    assert_int_equal(model_count("free"), 0);
    cancelled(&a);
    assert_int_equal(model_count("free"), 1);
    for (int i = 0; i < MODEL_MESSAGES; i++) {
        const struct model_message *m = &model.message[i];
        if (m->there && strstr(m->text, " free ")) {
            assert_string_equal(m->queue, "snib.w.n");
            assert_true(m->expires_ms >= 1990 && m->expires_ms <= 2001);
        }
    }
    assert_int_equal(model_count("held"), 1);
    assert_int_equal(model.consumers, 0);
}

/* Nobody waits, and many try: what they leave does not pile up. */
static void many_tries_leave_no_more_than_one(void **state)
{
    (void)state;
    lies_there("free", 7, 3, 0);
    lies_there("held", 9, 5, 60000);
    for (uint64_t i = 0; i < 100; i++) {
        struct snib__request a = request(SNIB__ACQUIRE, 100 + i);
        a.acquire.may_queue = false;
        ask(&a);
        pass_ms(10);
        assert_int_equal(answer(&a), SNIB__NO);
        for (int j = 0; j < MODEL_MESSAGES; j++) { /* notes of the last one */
            model.message[j].there &=
                strcmp(model.message[j].queue, "snib.w.n") != 0;
        }
        assert_int_equal(model_count("held"), 1);
        assert_true(model_count("free") <= 2);
    }
}

/* The broker has moved them here all at once. */
static void many_notes_of_one_grant_are_one(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    for (int i = 0; i < 6; i++) {
        for (int j = 0; j < 60; j++) {
            lies_there("free", 9, 5, 0);
        }
        a = request(SNIB__ACQUIRE, 1 + (uint64_t)i);
        granted(&a);
        give_back(&a);
        assert_int_equal(model_count("free"), 1);
    }
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

/* What it had acknowledged as outdone by its own message is not to be forgotten when
 * it takes that back. */
static void
a_try_that_takes_its_message_back_leaves_the_highest_token(void **state)
{
    (void)state;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    struct snib__request b = request(SNIB__ACQUIRE, 2);
    int64_t high = INT64_C(1) << 50;
    a.acquire.may_queue = false;
    lies_there("free", 7, high, 0);
    lies_there("held", 9, 5, 3000); /* its client had not seen that one */
    ask(&a);
    assert_int_equal(answer(&a), SNIB__NO);
    pass_ms(500);
    ask(&b);
    comes_in(&b);
    assert_true(b.token > high);
    give_back(&b);
}

/* What asks for its queue waits for as many others as the broker makes at once. */
static void so_many_queues_are_asked_for_at_once(void **state)
{
    (void)state;
    static struct snib__request many[100]; /* the store's to the end */
    const struct snib__mq *z = (const void *)store;
    struct snib__request a = request(SNIB__ACQUIRE, 1);
    model.wishes.channels = MQ_CHANNELS;
    granted(&a);
    give_back(&a);
    mute = true;
    for (uint64_t i = 0; i < COUNT_OF(many); i++) {
        many[i] = request(SNIB__ACQUIRE, 100 + i);
        ask(&many[i]);
    }
    assert_int_equal(z->joining, MQ_JOINING);
    assert_int_equal(z->claims, MQ_JOINING);
}

/* Its claim has come to wait for that while nobody knew what had become of it. */
static void who_asks_again_behind_a_dead_grant_is_told_how_long(void **state)
{
    (void)state;
    struct snib__request r = request(SNIB__ACQUIRE, 1);
    lies_there("held", 9, 500, 1500);
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    pass_ms(500);
    (void)answer(&r);
    r.said.answer = SNIB__UNKNOWN;
    r.said.left = (snib_duration){0};
    r.resent = true;
    ask(&r);
    assert_int_equal(answer(&r), SNIB__QUEUED);
    assert_in_range(snib__to_ms(r.said.left), 900, 1000);
    pass_ms(1100);
    assert_int_equal(answer(&r), SNIB__DONE);
    give_back(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_free_lock_is_granted_by_its_own_message_and_left_free),
        CASE(tokens_are_above_all_that_lies_there_and_the_floor),
        CASE(a_token_that_was_too_low_is_raised),
        CASE(tokens_that_come_to_their_end_are_an_error),
        CASE(a_token_days_ahead_of_the_clock_is_told_apart),
        CASE(a_grant_without_its_holder_is_waited_for),
        CASE(its_lease_is_counted_from_when_it_was_seen_at_first),
        CASE(a_renewal_is_counted_from_when_it_was_seen),
        CASE(the_longest_one_counts_and_those_that_are_over_do_not),
        CASE(a_message_that_it_is_over_ends_the_wait),
        CASE(a_try_has_the_broker_say_later_that_it_is_over),
        CASE(a_try_that_was_too_quick_takes_its_message_back),
        CASE(a_try_that_takes_its_message_back_leaves_the_highest_token),
        CASE(many_tries_leave_no_more_than_one),
        CASE(who_gives_up_leaves_word_of_when_a_dead_grant_is_over),
        CASE(many_notes_of_one_grant_are_one),
        CASE(who_waits_is_granted_it_when_the_one_before_has_gone),
        CASE(a_cut_connection_of_the_one_before_is_no_release),
        CASE(who_waits_and_gives_up_leaves_nothing),
        CASE(an_emptied_queue_is_found_out),
        CASE(so_many_queues_are_asked_for_at_once),
        CASE(who_asks_again_behind_a_dead_grant_is_told_how_long),
    };
    return RUN(tests);
}

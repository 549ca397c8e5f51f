/* tests/unit/test_engine_keep_back.c — what is kept goes back: somebody waits, or
 * nothing is heard any more, or the client closes; and a try that meets what
 * another client keeps. */
#include "engine_keep.h"

static void when_somebody_waits_it_goes_back_at_once(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    somebody_waits(d);
    gives_back(d);
}

static void what_is_held_goes_back_when_it_is_released(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100), *ending;
    somebody_waits(d);
    assert_null(at(SNIB__RENEW));
    assert_int_equal(release(d, s->ticket, 1, &ending), SNIB_ERR_OK);
    assert_ptr_equal(ending, s);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    snib__acquisition_done(d->e, s);
    s = acquire(d, keep_of(1)); /* behind the one that waits */
    grant_alone(d, 300);
    let_go(d, s);
    assert_true(is_kept(d)); /* that was another grant */
}

static void a_message_may_come_before_the_grant(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, keep_of(1));
    somebody_waits(d);
    grant_alone(d, 100);
    let_go_for_good(d, s);
}

static void who_does_not_hear_keeps_nothing(void **state)
{
    struct desk *d = *state;
    out->hears = false;
    struct snib__acquisition *s = hold(d, 100);
    let_go_for_good(d, s);
}

static void what_is_kept_goes_back_when_nothing_is_heard_any_more(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    out->hears = false;
    feed(d);
    gives_back(d);
}

static void what_is_kept_goes_back_when_messages_may_be_missed(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    out->missed = true;
    feed(d);
    gives_back(d);
}

static void what_is_held_then_is_not_kept(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100);
    out->missed = true;
    feed(d);
    confirm(d, d->now);
    let_go_for_good(d, s);
}

static void what_is_kept_goes_back_when_it_was_ended_by_force(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    uint64_t id[2] = {d->local->claim->id[0], d->local->claim->id[1]};
    snib__out_ended(out, id);
    feed(d);
    at(SNIB__RELEASE)->said.revoked = true;
    say(d, at(SNIB__RELEASE), SNIB__NO);
    nothing_is_left(d);
}

static void what_is_kept_goes_back_when_the_machine_slept(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    snib__engine_jumped(d->e, d->now);
    gives_back(d);
}

static void what_is_kept_goes_back_when_another_server_answers(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    out->moved = true;
    feed(d);
    gives_back(d);
}

static void a_close_gives_back(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    snib__engine_close(d->e, d->now);
    assert_false(snib__engine_idle(d->e));
    gives_back(d);
}

static void who_holds_at_a_close_keeps_nothing(void **state)
{
    struct desk *d = *state;
    hold(d, 100);
    snib__engine_close(d->e, d->now);
    assert_non_null(at(SNIB__RELEASE));
}

static void when_the_client_is_closed_nothing_is_kept(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100);
    snib__engine_keep_no_more(d->e, d->now);
    let_go_for_good(d, s);
}

static void when_the_client_is_closed_what_is_kept_goes_back(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    snib__engine_keep_no_more(d->e, d->now);
    gives_back(d);
}

/* -- messages ---------------------------------------------------------------- */

static void many_messages_of_one_grant_ask_for_nothing_else(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100);
    const uint64_t id[2] = {d->local->claim->id[0], d->local->claim->id[1]};
    for (int i = 0; i < 20; i++) {
        snib__out_wanted(out, id);
    }
    assert_int_equal(out->wanted_count, 1);
    feed(d);
    assert_null(at(SNIB__RENEW));
    let_go_for_good(d, s);
}

static void too_many_messages(struct desk *d)
{
    for (uint64_t i = 1; i <= 20; i++) {
        snib__out_wanted(out, (const uint64_t[2]){i, i});
    }
    assert_false(out->missed);
    feed(d);
    assert_null(at(SNIB__RENEW));
    assert_false(out->wanted_all);
}

static void of_too_many_messages_one_may_mean_what_is_kept(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    too_many_messages(d);
    gives_back(d);
}

static void of_too_many_messages_one_may_mean_what_is_held(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100);
    too_many_messages(d);
    let_go_for_good(d, s);
}

static void of_too_many_messages_one_may_come_before_the_grant(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, keep_of(1));
    too_many_messages(d);
    grant_alone(d, 100);
    let_go_for_good(d, s);
}

static void what_a_tick_of_the_store_says_counts(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    out->wanted_all = true;
    wax_next = d->now;
    snib__engine_tick(d->e, d->now);
    gives_back(d);
}

/* -- tries ------------------------------------------------------------------- */

/* Another client holds it, or merely keeps it. */
static void says_kept(struct desk *d)
{
    at(SNIB__ACQUIRE)->said.kept = true;
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
}

/* A try that is told "held, kept" asks again after 1, 3 and 9 ms. */
static void a_try_asks_back_what_is_kept(void **state)
{
    static const int pauses[] = {1, 3, 9};
    struct desk *d = *state;
    struct snib__acquire_spec spec = try_of(ask_of(1));
    spec.limit = snib__after(d->now, snib__ms(2000));
    struct snib__acquisition *s = acquire(d, spec);
    for (int i = 0; i < 3; i++) {
        says_kept(d);
        assert_int_equal(s->state, SNIB__ACQ_WAITING);
        assert_null(at(SNIB__ACQUIRE));
        pass_ms(d, pauses[i]);
    }
    says_kept(d);
    is_refused(d, s, SNIB_ERR_BUSY);
    nothing_is_left(d);
}

static void a_try_gets_what_is_given_back(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, try_of(ask_of(1)));
    says_kept(d);
    pass_ms(d, 1);
    grant(d, 300);
    assert_int_equal(s->token, 300);
}

static void a_try_that_is_cancelled_in_between_ends(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, try_of(ask_of(1)));
    says_kept(d);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, s, SNIB_ERR_CANCELLED),
        SNIB_ERR_CANCELLED);
    assert_null(at(SNIB__CANCEL)); /* the store has said no */
    nothing_is_left(d);
}

static void a_try_does_not_pause_past_its_limit(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = try_of(ask_of(1));
    spec.limit = snib__after(d->now, snib__ms(10));
    struct snib__acquisition *s = acquire(d, spec);
    for (int i = 0; i < 2; i++) {
        says_kept(d);
        pass_ms(d, i ? 3 : 1);
    }
    says_kept(d); /* 9 ms would be too long */
    is_refused(d, s, SNIB_ERR_BUSY);
    nothing_is_left(d);
}

static void a_store_that_does_not_tell_refuses(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = keep_of(1);
    struct snib__acquisition *s;
    assert_int_equal(
        snib__engine_acquire(d->e, d->now, d->local, &spec, &s, &d->err),
        SNIB_ERR_UNSUPPORTED);
    assert_null(s);
    assert_non_null(strstr(d->err.text, "keep_ms"));
    nothing_is_left(d);
}

static void a_store_without_latches_lets_nobody_pass_one(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = reader_of(1);
    struct snib__acquisition *s;
    d->e->no_latch = true;
    spec.passes = true;
    assert_int_equal(
        snib__engine_acquire(d->e, d->now, d->local, &spec, &s, &d->err),
        SNIB_ERR_UNSUPPORTED);
    assert_null(s);
    assert_non_null(strstr(d->err.text, "no latches"));
    nothing_is_left(d);
}

int main(void)
{
    const struct CMUnitTest engine_keep_back[] = {
        K(when_somebody_waits_it_goes_back_at_once),
        K(what_is_held_goes_back_when_it_is_released),
        K(a_message_may_come_before_the_grant),
        K(who_does_not_hear_keeps_nothing),
        K(what_is_kept_goes_back_when_nothing_is_heard_any_more),
        K(what_is_kept_goes_back_when_messages_may_be_missed),
        K(what_is_held_then_is_not_kept),
        K(what_is_kept_goes_back_when_it_was_ended_by_force),
        K(what_is_kept_goes_back_when_the_machine_slept),
        K(what_is_kept_goes_back_when_another_server_answers),
        K(a_close_gives_back),
        K(who_holds_at_a_close_keeps_nothing),
        K(when_the_client_is_closed_nothing_is_kept),
        K(when_the_client_is_closed_what_is_kept_goes_back),
        K(many_messages_of_one_grant_ask_for_nothing_else),
        K(of_too_many_messages_one_may_mean_what_is_kept),
        K(of_too_many_messages_one_may_mean_what_is_held),
        K(of_too_many_messages_one_may_come_before_the_grant),
        K(what_a_tick_of_the_store_says_counts),
        T(a_try_asks_back_what_is_kept),
        T(a_try_gets_what_is_given_back),
        T(a_try_that_is_cancelled_in_between_ends),
        T(a_try_does_not_pause_past_its_limit),
        T(a_store_that_does_not_tell_refuses),
        T(a_store_without_latches_lets_nobody_pass_one),
    };
    return RUN(engine_keep_back);
}

/* tests/unit/test_engine_grant.c — the engine at a store that says what the test
 * tells it to say: a grant from its beginning to its loss. It is renewed, at risk,
 * lost, confirmed before it is served. (How it is asked for and given back:
 * test_engine.c.) */
#include "engine_desk.h"

static void a_renewal_is_due_each_third_and_moves_the_deadline(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    grant(d, 9);
    snib_instant sent = d->now;
    pass_ms(d, 9000);
    assert_null(at(SNIB__RENEW));
    pass_ms(d, 1000);
    sent = d->now;
    d->now.ns += 300 * MS;
    confirm(d, sent);
    struct snib_status st;
    snib__engine_status(d->e, d->now, s, &st);
    assert_int_equal(st.left_ms, 30000 - 300 - 305);
}

static void grant_thin(struct desk *d, int64_t given_ms)
{
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->token = 9;
    rq->thin = true;
    rq->said.left = snib__ms(given_ms);
    rq->said.valid_from = d->now;
    say(d, rq, SNIB__DONE);
}

/* The first lease of a thin grant is short. A process that stands still after a
 * second has all of the lease that it asked for. */
static void a_thin_grant_is_renewed_to_its_lease_after_a_second(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    grant_thin(d, 9900);
    snib_instant sent = d->now;
    pass_ms(d, 900);
    assert_null(at(SNIB__RENEW));
    pass_ms(d, 100);
    assert_int_equal(snib__to_ms(at(SNIB__RENEW)->lease), 30000);
    sent = d->now;
    confirm(d, sent);
    d->now.ns += 29000 * MS;
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
}

/* One that has nearly all that was asked for is renewed after a third of it. */
static void a_thin_grant_of_a_short_lease_is_renewed_after_a_third(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.lease = snib__ms(9000);
    acquire(d, spec);
    grant_thin(d, 8990);
    pass_ms(d, 2700);
    assert_null(at(SNIB__RENEW));
    pass_ms(d, 300);
    assert_non_null(at(SNIB__RENEW));
}

static void
an_unanswered_renewal_is_risk_then_loss_by_the_deadline(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    grant(d, 9);
    news_of(d, s);
    pass_ms(d, 10000);
    say(d, at(SNIB__RENEW), SNIB__UNKNOWN);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE);
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
    pass_ms(d, 19694);
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
    pass_ms(d, 1);
    assert_int_equal(s->state, SNIB__ACQ_DEAD);
    assert_int_equal(s->cause, SNIB_CAUSE_UNREACHABLE);
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
    /* the owner stays lost until it has unwound; others do not wait for it */
    struct snib__acquisition *none;
    struct snib__acquire_spec again = ask_of(1);
    assert_int_equal(
        snib__engine_acquire(d->e, d->now, d->local, &again, &none, &d->err),
        SNIB_ERR_LOST);
    assert_int_equal(release(d, s->ticket, 1, NULL), SNIB_ERR_LOST);
    say(d, at(SNIB__RELEASE), SNIB__NO);
    acquire(d, ask_of(1));
    grant(d, 10);
}

static void loss_shows_at_the_first_look_even_if_no_timer_ran(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    grant(d, 9);
    d->now = snib__after(d->now, snib__ms(60000)); /* frozen */
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
    assert_int_equal(release(d, s->ticket, 1, NULL), SNIB_ERR_LOST);
}

static void a_renewal_that_says_no_is_stolen_forgotten_or_revoked(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    grant(d, 9);
    pass_ms(d, 10000);
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_int_equal(s->cause, SNIB_CAUSE_STOLEN);
    release(d, s->ticket, 1, NULL);
    s = acquire(d, ask_of(1));
    grant(d, 9);
    pass_ms(d, 10000);
    at(SNIB__RENEW)->said.forgotten = true;
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_int_equal(s->cause, SNIB_CAUSE_FORGOTTEN);
    release(d, s->ticket, 1, NULL);
    s = acquire(d, ask_of(1));
    grant(d, 10);
    pass_ms(d, 10000);
    at(SNIB__RENEW)->said.revoked = true;
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_int_equal(s->cause, SNIB_CAUSE_REVOKED);
}

static int set_up_patient(void **state)
{
    return set_up_desk(state, &wax, snib__ms(9000));
}

/* It has the 9.9 s of a mutex that was taken without a script. */
static void a_first_renewal_without_an_answer_is_told_in_time(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.lease = snib__ms(60000);
    struct snib__acquisition *s = acquire(d, spec);
    grant_thin(d, 9900);
    pass_ms(d, 1000);
    assert_non_null(at(SNIB__RENEW));
    pass_ms(d, 4000);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    pass_ms(d, 1000);
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
}

static void aggressive_goes_on_until_the_store_says_no(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.aggressive = true;
    struct snib__acquisition *s = acquire(d, spec);
    grant(d, 9);
    pass_ms(d, 10000);
    say(d, at(SNIB__RENEW), SNIB__UNKNOWN);
    pass_ms(d, 60000);
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
}

static void a_fixed_lease_expires_by_itself(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    struct snib__acquisition *s = acquire(d, spec);
    assert_int_equal(at(SNIB__ACQUIRE)->acquire.reserve, 0);
    grant(d, 9);
    pass_ms(d, 15000);
    assert_null(at(SNIB__RENEW));
    pass_ms(d, 15000);
    assert_int_equal(s->state, SNIB__ACQ_DEAD);
    assert_int_equal(s->cause, SNIB_CAUSE_EXPIRED);
}

/* A store that is not told so would end the grant with its process. */
static void a_fixed_lease_is_never_asked_for_without_its_text(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    for (int64_t nth = 1; nth <= 12; nth++) {
        struct snib__acquisition *s = NULL;
        snib__mem_fail_at(nth, false);
        snib_err err =
            snib__engine_acquire(d->e, d->now, d->local, &spec, &s, &d->err);
        snib__mem_fail_at(0, false);
        if (err) {
            assert_int_equal(err, SNIB_ERR_NOMEM);
            continue;
        }
        pass_ms(d, 1000); /* it comes again */
        struct snib__request *rq = at(SNIB__ACQUIRE);
        assert_non_null(rq);
        assert_non_null(memmem(rq->text, rq->text_size, "leashed", 7));
        grant(d, nth);
        assert_int_equal(release(d, s->ticket, 1, NULL), SNIB_ERR_OK);
        say(d, at(SNIB__RELEASE), SNIB__DONE);
    }
}

static void a_late_grant_is_not_served_unconfirmed(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->said.valid_from = d->now;
    rq->said.left = rq->lease;
    rq->token = 9;
    d->now = snib__after(d->now, snib__ms(29900));
    say(d, rq, SNIB__DONE);
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    grant(d, 10);
    assert_int_equal(s->token, 10);
}

/* Nobody was told of the first one, so its lock-delay is in nobody's way: it is
 * cancelled before the acquire asks again. */
static void a_late_grant_with_a_lock_delay_is_cancelled_first(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.delay = snib__ms(5000);
    struct snib__acquisition *s = acquire(d, spec);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    uint64_t id = rq->id[0];
    rq->said.valid_from = d->now;
    rq->said.left = rq->lease;
    rq->token = 9;
    d->now = snib__after(d->now, snib__ms(29900));
    say(d, rq, SNIB__DONE);
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_null(at(SNIB__ACQUIRE));
    assert_int_equal(at(SNIB__CANCEL)->id[0], id);
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    assert_int_not_equal(at(SNIB__ACQUIRE)->id[0], id);
    grant(d, 10);
    assert_int_equal(s->token, 10);
}

static void
a_late_grant_with_a_lock_delay_is_cancelled_by_who_gives_up(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.delay = snib__ms(5000);
    struct snib__acquisition *s = acquire(d, spec);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->said.valid_from = d->now;
    rq->said.left = rq->lease;
    rq->token = 9;
    d->now = snib__after(d->now, snib__ms(29900));
    say(d, rq, SNIB__DONE);
    assert_int_equal(
        snib__engine_give_up(d->e, d->now, s, SNIB_ERR_TIMEOUT, &d->err),
        SNIB_ERR_OK);
    assert_null(at(SNIB__RELEASE));
    say(d, at(SNIB__CANCEL), SNIB__DONE);
}

static void push(struct desk *d, snib_instant polled)
{
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->token = 50;
    rq->said.left = snib__ms(3000);
    rq->said.valid_from = polled;
    say(d, rq, SNIB__DONE);
}

static void a_pushed_grant_counts_from_the_poll_it_names(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    snib_instant polled = d->now;
    d->now = snib__after(d->now, snib__ms(1000));
    push(d, polled);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    struct snib_status st;
    snib__engine_status(d->e, d->now, s, &st);
    assert_int_equal(st.left_ms, 3000 - 1000 - 35);
    pass_ms(d, 500); /* half of the push lease since the poll */
    confirm(d, d->now);
    snib__engine_status(d->e, d->now, s, &st);
    assert_int_equal(st.left_ms, 30000 - 305);
}

static void a_pushed_grant_near_its_end_is_confirmed_first(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    snib_instant polled = d->now;
    d->now = snib__after(d->now, snib__ms(2400));
    push(d, polled);
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    confirm(d, d->now);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
}

static void
a_pushed_grant_without_a_proven_start_is_confirmed_first(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    push(d, (snib_instant){0});
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_int_equal(s->state, SNIB__ACQ_WAITING); /* asks again */
    grant(d, 60);
    assert_int_equal(s->token, 60);
}

static void who_insists_on_confirmation_gets_it(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.confirm = true;
    struct snib__acquisition *s = acquire(d, spec);
    push(d, d->now);
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    confirm(d, d->now);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
}

static void hold_max_ends_a_grant(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.hold_max = snib__ms(5000);
    struct snib__acquisition *s = acquire(d, spec);
    grant(d, 9);
    pass_ms(d, 5000);
    assert_int_equal(s->cause, SNIB_CAUSE_HOLD_MAX);
    assert_int_equal(s->state, SNIB__ACQ_DEAD);
    assert_non_null(at(SNIB__RELEASE));
}

static void a_clock_jump_puts_grants_at_risk_until_confirmed(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    grant(d, 9);
    snib__engine_jumped(d->e, d->now);
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
    confirm(d, d->now);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
}

static void renewals_due_together_travel_as_one_chain(void **state)
{
    struct desk *d = *state;
    struct snib__local_lock *local_locks[100];
    char name[16];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "n%d", i);
        assert_int_equal(
            snib__engine_local_lock(d->e, name, 0, &local_locks[i], &d->err),
            SNIB_ERR_OK);
        struct snib__acquire_spec spec = ask_of(1);
        struct snib__acquisition *s;
        assert_int_equal(snib__engine_acquire(d->e, d->now, local_locks[i],
                                              &spec, &s, &d->err),
                         SNIB_ERR_OK);
        grant(d, i + 1);
        d->now.ns += MS / 10;
    }
    pass_ms(d, 10000);
    int n = 0;
    SNIB__LIST_EACH (l, &at_store) {
        n++;
    }
    assert_int_equal(n, 100);
}

int main(void)
{
    const struct CMUnitTest engine[] = {
        T(a_renewal_is_due_each_third_and_moves_the_deadline),
        T(a_thin_grant_is_renewed_to_its_lease_after_a_second),
        T(a_thin_grant_of_a_short_lease_is_renewed_after_a_third),
        T(an_unanswered_renewal_is_risk_then_loss_by_the_deadline),
        T(loss_shows_at_the_first_look_even_if_no_timer_ran),
        T(a_renewal_that_says_no_is_stolen_forgotten_or_revoked),
        T(aggressive_goes_on_until_the_store_says_no),
        cmocka_unit_test_setup_teardown(
            a_first_renewal_without_an_answer_is_told_in_time, set_up_patient,
            tear_down),
        T(a_fixed_lease_expires_by_itself),
        T(a_fixed_lease_is_never_asked_for_without_its_text),
        T(a_late_grant_is_not_served_unconfirmed),
        T(a_late_grant_with_a_lock_delay_is_cancelled_first),
        T(a_late_grant_with_a_lock_delay_is_cancelled_by_who_gives_up),
        T(a_pushed_grant_counts_from_the_poll_it_names),
        T(a_pushed_grant_near_its_end_is_confirmed_first),
        T(a_pushed_grant_without_a_proven_start_is_confirmed_first),
        T(who_insists_on_confirmation_gets_it),
        T(hold_max_ends_a_grant),
        T(a_clock_jump_puts_grants_at_risk_until_confirmed),
        T(renewals_due_together_travel_as_one_chain),
    };
    return RUN(engine);
}

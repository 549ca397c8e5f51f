/* tests/unit/test_engine_hints.c — somebody is said to have ended a grant by
 * force: what the engine asks then, and what it does not do before the answer. */
#include "core/engine_i.h"
#include "engine_desk.h"

static void hint(struct desk *d, const uint64_t id[2])
{
    uint64_t copy[2] = {id[0], id[1]};
    snib__out_ended(out, copy);
    feed(d);
}

static void revoke(struct desk *d)
{
    at(SNIB__RENEW)->said.revoked = true;
    say(d, at(SNIB__RENEW), SNIB__NO);
}

static void a_hint_that_crosses_a_renewal_leads_to_another(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    grant(d, 9);
    pass_ms(d, 10000);
    assert_non_null(at(SNIB__RENEW));
    hint(d, d->local->claim->id);
    confirm(d, d->now);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    revoke(d); /* the second one */
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
    assert_int_equal(s->cause, SNIB_CAUSE_REVOKED);
    release(d, s->ticket, 1, NULL);
}

static void a_hint_before_its_grant_is_confirmed_first(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    hint(d, at(SNIB__ACQUIRE)->id);
    grant(d, 9);
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    revoke(d);
    grant(d, 12); /* asked for anew */
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    assert_int_equal(s->token, 12);
}

static void who_has_heard_of_it_does_not_pass_it_on(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1)), *ending = NULL;
    grant(d, 9);
    struct snib__acquisition *next = acquire(d, ask_of(2));
    hint(d, d->local->claim->id);
    assert_int_equal(release(d, s->ticket, 1, &ending), SNIB_ERR_OK);
    assert_ptr_equal(ending, s);
    at(SNIB__RELEASE)->said.revoked = true;
    say(d, at(SNIB__RELEASE), SNIB__NO);
    assert_int_equal(s->err, SNIB_ERR_LOST);
    snib__acquisition_done(d->e, s);
    grant(d, 12);
    assert_int_equal(next->state, SNIB__ACQ_SERVED);
}

static void after_a_false_hint_it_is_passed_on_again(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1)), *ending = NULL;
    grant(d, 9);
    struct snib__acquisition *next = acquire(d, ask_of(2));
    hint(d, d->local->claim->id);
    confirm(d, d->now);
    assert_int_equal(release(d, s->ticket, 1, &ending), SNIB_ERR_OK);
    assert_null(ending);
    assert_int_equal(next->token, 10);
}

static void a_fixed_lease_is_not_renewed_for_a_hint(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    acquire(d, spec);
    grant(d, 9);
    hint(d, d->local->claim->id);
    assert_null(at(SNIB__RENEW));
}

static void of_a_fixed_lease_a_hint_asks_whether_it_stands(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    d->e->pushes = true;
    struct snib__acquisition *s = acquire(d, spec);
    grant(d, 9);
    snib_instant deadline = d->local->claim->deadline;
    hint(d, d->local->claim->id);
    assert_true(at(SNIB__RENEW)->renew.only_asks);
    confirm(d, d->now);
    assert_int_equal(d->local->claim->deadline.ns, deadline.ns);
    hint(d, d->local->claim->id);
    say(d, at(SNIB__RENEW), SNIB__NOT_APPLIED); /* it is asked again */
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    pass_ms(d, 200);
    assert_true(at(SNIB__RENEW)->renew.only_asks);
    revoke(d);
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
    assert_int_equal(s->cause, SNIB_CAUSE_REVOKED);
    release(d, s->ticket, 1, NULL);
}

static void who_renews_while_it_is_asked_about_is_renewed_after(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    d->e->pushes = true;
    struct snib__acquisition *s = acquire(d, spec), *renewed = NULL;
    grant(d, 9);
    hint(d, d->local->claim->id);
    assert_int_equal(snib__engine_renew(d->e, d->now, s->ticket,
                                        snib__ms(50000), &renewed, &d->err),
                     SNIB_ERR_OK);
    confirm(d, d->now);
    assert_false(at(SNIB__RENEW)->renew.only_asks);
    assert_int_equal(at(SNIB__RENEW)->lease.ns, 50000 * MS);
    assert_int_equal(news_of(d, s) & SNIB__NEWS_RENEWED, 0);
    confirm(d, d->now);
    assert_int_equal(news_of(d, s) & SNIB__NEWS_RENEWED, SNIB__NEWS_RENEWED);
    release(d, s->ticket, 1, NULL);
}

static void a_try_waits_for_what_a_hint_asks(void **state)
{
    struct desk *d = *state;
    acquire(d, ask_of(1));
    grant(d, 9);
    struct snib__acquire_spec spec = ask_of(2);
    spec.try_only = true;
    hint(d, d->local->claim->id);
    struct snib__acquisition *s = acquire(d, spec);
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    confirm(d, d->now); /* it was not so: still held */
    assert_int_equal(s->state, SNIB__ACQ_REFUSED);
    assert_int_equal(s->err, SNIB_ERR_BUSY);
    snib__acquisition_done(d->e, s);
}

static void who_holds_for_a_second_listens(void **state)
{
    struct desk *d = *state;
    d->e->pushes = true;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    grant(d, 9);
    pass_ms(d, 999);
    assert_false(out->listens);
    pass_ms(d, 1);
    assert_true(out->listens);
    release(d, s->ticket, 1, NULL);
}

/* A library's way of being told has broken: what is got later is to name the new
 * one, though nothing renews it. */
static void who_missed_something_begins_to_listen_anew(void **state)
{
    static const struct snib__blocking_ops library;
    struct desk *d = *state;
    d->e->pushes = true;
    d->e->cfg.blocking = &library;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    struct snib__acquisition *s = acquire(d, spec);
    grant(d, 9);
    pass_ms(d, 1000);
    assert_true(at(SNIB__RENEW)->renew.listen);
    confirm(d, d->now);
    release(d, s->ticket, 1, NULL);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    out->missed = true;
    feed(d);
    s = acquire(d, spec);
    grant(d, 10);
    assert_null(at(SNIB__RENEW));
    pass_ms(d, 1000);
    assert_non_null(at(SNIB__RENEW));
    assert_true(at(SNIB__RENEW)->renew.listen);
    confirm(d, d->now);
    release(d, s->ticket, 1, NULL);
}

static void more_hints_than_fit_ask_for_all(void **state)
{
    struct desk *d = *state;
    acquire(d, ask_of(1));
    grant(d, 9);
    for (uint64_t i = 0; i <= SNIB__HINTS; i++) {
        snib__out_ended(out, (uint64_t[]){i, 7});
    }
    feed(d);
    assert_non_null(at(SNIB__RENEW));
}

static void a_try_that_was_ended_unheard_hears_busy(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.try_only = true;
    struct snib__acquisition *s = acquire(d, spec);
    say(d, at(SNIB__ACQUIRE), SNIB__UNKNOWN);
    at(SNIB__ACQUIRE)->said.err = SNIB_ERR_CANCELLED;
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    assert_int_equal(s->err, SNIB_ERR_BUSY);
    snib__acquisition_done(d->e, s);
}

static void a_client_spins_when_all_of_it_do(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spinner = ask_of(1);
    spinner.spin = true;
    acquire(d, spinner);
    assert_true(at(SNIB__ACQUIRE)->acquire.spin);
    struct snib__acquire_spec trier = ask_of(3);
    trier.try_only = true;
    acquire(d, trier);
    assert_true(at(SNIB__ACQUIRE)->acquire.spin);
    acquire(d, ask_of(2));
    assert_false(at(SNIB__ACQUIRE)->acquire.spin);
}

int main(void)
{
    const struct CMUnitTest engine_hints[] = {
        T(a_hint_that_crosses_a_renewal_leads_to_another),
        T(a_hint_before_its_grant_is_confirmed_first),
        T(who_has_heard_of_it_does_not_pass_it_on),
        T(after_a_false_hint_it_is_passed_on_again),
        T(a_fixed_lease_is_not_renewed_for_a_hint),
        T(of_a_fixed_lease_a_hint_asks_whether_it_stands),
        T(who_renews_while_it_is_asked_about_is_renewed_after),
        T(a_try_waits_for_what_a_hint_asks),
        T(who_holds_for_a_second_listens),
        T(who_missed_something_begins_to_listen_anew),
        T(more_hints_than_fit_ask_for_all),
        T(a_try_that_was_ended_unheard_hears_busy),
        T(a_client_spins_when_all_of_it_do),
    };
    return RUN(engine_hints);
}

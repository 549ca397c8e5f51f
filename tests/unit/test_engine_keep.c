/* tests/unit/test_engine_keep.c — a released grant that is kept for the next
 * owner of its client: when it is, for how long, and what is entered. (When it goes
 * back because of others: test_engine_keep_back.c.) */
#include <stdlib.h>

#include "engine_keep.h"

/* What is kept stands at the store: a witness has to end it. */
static void what_is_kept_is_written_down_for_a_witness(void **state)
{
    struct snib__registry_found found;
    desk_registry = calloc(1, snib__registry_bytes(4));
    snib__registry_init(desk_registry, 4);
    set_up_to_keep(state);
    struct desk *d = *state;
    keep(d, 100);
    assert_true(snib__registry_read(desk_registry, 1, &found));
    assert_int_equal(found.record.id[0], d->local->claim->id[0]);
    acquire(d, other_lease_of(2)); /* a yield */
    assert_true(snib__registry_read(desk_registry, 1, &found));
    assert_int_equal(found.record.id[0], at(SNIB__ACQUIRE)->id[0]);
    assert_int_equal(found.record.prior, 100);
    grant_alone(d, 200);
    let_go(d, d->local->claim->holder);
    pass_ms(d, 50);
    gives_back(d);
    assert_false(snib__registry_read(desk_registry, 1, &found));
    tear_down(state);
    free(desk_registry);
    desk_registry = NULL;
}

/* Also in sections so short that no timer is due within one. */
static void who_may_keep_listens_from_the_first_request(void **state)
{
    struct desk *d = *state;
    (void)hold(d, 100);
    assert_true(out->listens);
}

static void who_may_not_keep_listens_later(void **state)
{
    struct desk *d = *state;
    (void)acquire(d, ask_of(1));
    grant_alone(d, 100);
    assert_false(out->listens);
}

static void the_next_owner_enters_without_a_request(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    assert_null(at(SNIB__RELEASE));
    d->now.ns += 49 * MS;
    struct snib__acquisition *s = acquire(d, keep_of(2));
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    assert_null(at(SNIB__ACQUIRE));
    assert_int_equal(s->token, 101);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    assert_int_equal(news_of(d, s), 0); /* the call has told it */
    let_go(d, s);
    assert_true(is_kept(d));
    s = acquire(d, keep_of(1));
    assert_int_equal(s->token, 102);
}

static void it_enters_with_what_is_left_of_the_lease(void **state)
{
    struct desk *d = *state;
    struct snib_status before, after;
    struct snib__acquisition *s = hold(d, 100);
    snib__engine_status(d->e, d->now, s, &before);
    let_go(d, s);
    d->now.ns += 20 * MS;
    s = acquire(d, keep_of(1));
    snib__engine_status(d->e, d->now, s, &after);
    assert_int_equal(after.left_ms, before.left_ms - 20);
}

static void when_its_time_is_up_it_goes_back(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    pass_ms(d, 49);
    assert_true(is_kept(d));
    pass_ms(d, 1);
    assert_int_equal(at(SNIB__RELEASE)->token, 100);
    gives_back(d);
}

static void a_process_that_stood_still_enters_nothing(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    d->now.ns += 40000 * MS; /* no timer has run; the lease is over */
    struct snib__acquisition *s = acquire(d, keep_of(1));
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    say(d, at(SNIB__RELEASE), SNIB__NO);
    grant_alone(d, 900);
    assert_int_equal(s->token, 900);
}

static void where_others_may_wait_it_is_not_kept(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, keep_of(1));
    grant(d, 100); /* by a message, or a repeat */
    let_go_for_good(d, s);
}

static void who_is_not_asked_to_keep_gives_back(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    assert_int_equal(at(SNIB__ACQUIRE)->acquire.keep_ms, 0);
    grant_alone(d, 100);
    let_go_for_good(d, s);
}

static void the_store_is_told_of_it(void **state)
{
    struct desk *d = *state;
    acquire(d, keep_of(1));
    assert_int_equal(at(SNIB__ACQUIRE)->acquire.keep_ms, 50);
    assert_int_equal(at(SNIB__ACQUIRE)->acquire.reserve, 31);
}

static void
an_owner_of_another_handle_keeps_no_longer_than_it_says(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    struct snib__acquisition *s = acquire(d, ask_of(2)); /* enters, … */
    assert_int_equal(s->token, 101);
    let_go_for_good(d, s); /* … and gives back */
}

static void what_does_not_fit_asks_in_one_step(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    struct snib__acquisition *s = acquire(d, other_lease_of(2));
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    assert_int_equal(at(SNIB__ACQUIRE)->token, 100); /* prior */
    assert_null(at(SNIB__RELEASE));
    grant_alone(d, 200);
    assert_int_equal(s->token, 200);
}

static void a_try_that_does_not_fit_asks_in_one_step(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    struct snib__acquisition *s = acquire(d, try_of(other_lease_of(2)));
    assert_false(at(SNIB__ACQUIRE)->acquire.may_queue);
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    is_refused(d, s, SNIB_ERR_BUSY);
    say(d, at(SNIB__CANCEL), SNIB__DONE); /* the prior grant, for certain */
    nothing_is_left(d);
}

static void after_its_tokens_it_is_not_kept(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100);
    for (int i = 1; i <= 31; i++) {
        let_go(d, s);
        assert_true(is_kept(d));
        s = acquire(d, keep_of(1));
        assert_int_equal(s->token, 100 + i);
    }
    let_go_for_good(d, s);
}

static void a_second_after_the_grant_it_goes_back(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100);
    d->now.ns += 990 * MS;
    let_go(d, s);
    s = acquire(d, keep_of(1));
    assert_int_equal(s->token, 101);
    let_go(d, s);
    pass_ms(d, 9);
    assert_true(is_kept(d));
    pass_ms(d, 1);
    gives_back(d);
}

static void a_second_after_the_grant_it_is_not_kept(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100);
    d->now.ns += 1000 * MS;
    let_go_for_good(d, s);
}

static void of_another_lease_it_is_not_kept(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100), *renewed;
    assert_int_equal(snib__engine_renew(d->e, d->now, s->ticket,
                                        snib__ms(60000), &renewed, &d->err),
                     SNIB_ERR_OK);
    confirm(d, d->now);
    let_go_for_good(d, s);
}

static void it_is_kept_for_no_longer_than_the_store_was_told(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec longer = keep_of(2);
    longer.keep_ms = 500;
    keep(d, 100);
    struct snib__acquisition *s = acquire(d, longer);
    assert_int_equal(s->token, 101);
    let_go(d, s);
    pass_ms(d, 49);
    assert_true(is_kept(d));
    pass_ms(d, 1);
    gives_back(d);
}

static void an_own_claim_that_waits_is_not_passed(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100);
    acquire(d, reader_of(2));
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    let_go_for_good(d, s);
    assert_non_null(at(SNIB__RELEASE));
}

static void who_needs_a_claim_of_its_own_has_it_given_back(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    struct snib__acquisition *s = acquire(d, reader_of(2));
    assert_non_null(at(SNIB__RELEASE));
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    grant(d, 101);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
}

static void beside_a_read_grant_of_its_owner_it_is_not_kept(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100);
    acquire(d, reader_of(1));
    grant(d, 100);
    let_go_for_good(d, s);
}

static void what_is_at_risk_or_renewed_is_not_kept(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = hold(d, 100);
    pass_ms(d, 10000);
    assert_non_null(at(SNIB__RENEW));
    let_go_for_good(d, s);
}

static void it_is_kept_until_its_renewal_would_be_due(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = keep_of(1);
    spec.keep_ms = 1000;
    spec.lease = snib__ms(300);
    struct snib__acquisition *s = acquire(d, spec);
    grant_alone(d, 100);
    let_go(d, s);
    pass_ms(d, 99);
    assert_null(at(SNIB__RENEW));
    pass_ms(d, 1);
    gives_back(d);
}

static void in_a_batch_it_is_entered_without_a_request(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    snib__engine_gather(d->e, true);
    struct snib__acquisition *s = acquire(d, try_of(keep_of(2)));
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    assert_int_equal(s->token, 101);
    assert_int_equal(snib__engine_batch(d->e), 0);
    snib__engine_gathered(d->e, d->now, SNIB__BATCH_GO);
    assert_null(at(SNIB__RELEASE));
}

static void in_a_batch_what_does_not_fit_is_given_back_first(void **state)
{
    struct desk *d = *state;
    keep(d, 100);
    snib__engine_gather(d->e, true);
    struct snib__acquisition *s = acquire(d, try_of(other_lease_of(2)));
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    snib__engine_gathered(d->e, d->now, SNIB__BATCH_GO);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    grant_alone(d, 200);
    assert_int_equal(s->token, 200);
}

static void owners_that_wait_here_go_before_it_is_kept(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = hold(d, 100), *b = acquire(d, keep_of(2));
    let_go(d, a);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    d->now.ns += 6 * MS;
    acquire(d, keep_of(3));
    let_go(d, b);
    assert_int_equal(at(SNIB__ACQUIRE)->token, 100); /* a yield, as ever */
}

int main(void)
{
    const struct CMUnitTest engine_keep[] = {
        cmocka_unit_test(what_is_kept_is_written_down_for_a_witness),
        K(who_may_keep_listens_from_the_first_request),
        K(who_may_not_keep_listens_later),
        K(the_next_owner_enters_without_a_request),
        K(it_enters_with_what_is_left_of_the_lease),
        K(when_its_time_is_up_it_goes_back),
        K(a_process_that_stood_still_enters_nothing),
        K(where_others_may_wait_it_is_not_kept),
        K(who_is_not_asked_to_keep_gives_back),
        K(the_store_is_told_of_it),
        K(an_owner_of_another_handle_keeps_no_longer_than_it_says),
        K(what_does_not_fit_asks_in_one_step),
        K(a_try_that_does_not_fit_asks_in_one_step),
        K(after_its_tokens_it_is_not_kept),
        K(a_second_after_the_grant_it_goes_back),
        K(a_second_after_the_grant_it_is_not_kept),
        K(of_another_lease_it_is_not_kept),
        K(it_is_kept_for_no_longer_than_the_store_was_told),
        K(an_own_claim_that_waits_is_not_passed),
        K(who_needs_a_claim_of_its_own_has_it_given_back),
        K(beside_a_read_grant_of_its_owner_it_is_not_kept),
        K(what_is_at_risk_or_renewed_is_not_kept),
        K(it_is_kept_until_its_renewal_would_be_due),
        K(in_a_batch_it_is_entered_without_a_request),
        K(in_a_batch_what_does_not_fit_is_given_back_first),
        K(owners_that_wait_here_go_before_it_is_kept),
    };
    return RUN(engine_keep);
}

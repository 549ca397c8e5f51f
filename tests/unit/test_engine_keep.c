/* tests/unit/test_engine_keep.c — a released grant that is kept for the next
 * owner of its client: when it is, when it goes back, and what is entered. */
#include <stdlib.h>

#include "core/engine_i.h"
#include "core/registry.h"
#include "engine_desk.h"

static struct snib__store_ops keeping; /* wax that says who waits */

static int set_up_to_keep(void **state)
{
    keeping = wax;
    keeping.caps = SNIB__CAN_KEEP;
    int bad = set_up_desk(state, &keeping, snib__ms(2000));
    out->hears = true;
    return bad;
}

static struct snib__acquire_spec keep_of(uint64_t owner)
{
    struct snib__acquire_spec spec = ask_of(owner);
    spec.keep_ms = 50;
    return spec;
}

/* Who wants another lease than what is kept has. */
static struct snib__acquire_spec other_lease_of(uint64_t owner)
{
    struct snib__acquire_spec spec = keep_of(owner);
    spec.lease = snib__ms(9000);
    return spec;
}

static struct snib__acquire_spec reader_of(uint64_t owner)
{
    struct snib__acquire_spec spec = ask_of(owner);
    spec.kind = SNIB_KIND_READ;
    return spec;
}

static struct snib__acquire_spec try_of(struct snib__acquire_spec spec)
{
    spec.try_only = true;
    return spec;
}

/* Nobody waits for what is granted. */
static void grant_alone(struct desk *d, int64_t token)
{
    at(SNIB__ACQUIRE)->said.alone = true;
    grant(d, token);
}

static struct snib__acquisition *hold(struct desk *d, int64_t token)
{
    struct snib__acquisition *s = acquire(d, keep_of(1));
    grant_alone(d, token);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    return s;
}

static void let_go(struct desk *d, const struct snib__acquisition *s)
{
    struct snib__acquisition *ending;
    assert_int_equal(release(d, s->ticket, s->owner, &ending), SNIB_ERR_OK);
    assert_true(!ending || at(SNIB__RELEASE));
}

static bool is_kept(const struct desk *d)
{
    return d->local->claim && d->local->claim->state == SNIB__CLAIM_KEPT;
}

/* It was granted, released, and is kept. */
static void keep(struct desk *d, int64_t token)
{
    let_go(d, hold(d, token));
    assert_true(is_kept(d));
}

/* Released, it is not kept. */
static void let_go_for_good(struct desk *d, const struct snib__acquisition *s)
{
    let_go(d, s);
    assert_false(is_kept(d));
}

static void gives_back(struct desk *d)
{
    assert_int_equal(d->local->claim->state, SNIB__CLAIM_LEAVING);
    assert_non_null(at(SNIB__RELEASE));
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    nothing_is_left(d);
}

static void somebody_waits(struct desk *d)
{
    uint64_t id[2] = {d->local->claim->id[0], d->local->claim->id[1]};
    snib__out_wanted(out, id);
    feed(d);
}

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

#define K(f) cmocka_unit_test_setup_teardown(f, set_up_to_keep, tear_down)

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
        K(when_somebody_waits_it_goes_back_at_once),
        K(what_is_held_goes_back_when_it_is_released),
        K(a_message_may_come_before_the_grant),
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
        K(in_a_batch_it_is_entered_without_a_request),
        K(in_a_batch_what_does_not_fit_is_given_back_first),
        K(many_messages_of_one_grant_ask_for_nothing_else),
        K(of_too_many_messages_one_may_mean_what_is_kept),
        K(of_too_many_messages_one_may_mean_what_is_held),
        K(of_too_many_messages_one_may_come_before_the_grant),
        K(what_a_tick_of_the_store_says_counts),
        K(owners_that_wait_here_go_before_it_is_kept),
        T(a_try_asks_back_what_is_kept),
        T(a_try_gets_what_is_given_back),
        T(a_try_that_is_cancelled_in_between_ends),
        T(a_try_does_not_pause_past_its_limit),
        T(a_store_that_does_not_tell_refuses),
    };
    return RUN(engine_keep);
}

/* The engine at a store that says what the test tells it to say, with a clock that
 * the test moves: claims are asked for, passed on, given up and given back. (What
 * becomes of a grant meanwhile: test_engine_grant.c.) */
#include "engine_desk.h"

static void a_grant_is_served_and_released(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(7)), *ending;
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    assert_true(at(SNIB__ACQUIRE)->acquire.may_queue);
    grant(d, 100);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    assert_int_equal(news_of(d, s), SNIB__NEWS_SETTLED);
    assert_int_equal(s->token, 100);
    uint64_t ticket = s->ticket;
    assert_int_equal(release(d, ticket, 7, &ending), SNIB_ERR_OK);
    assert_ptr_equal(ending, s);
    assert_int_equal(at(SNIB__RELEASE)->token, 100);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    assert_int_equal(s->state, SNIB__ACQ_GONE);
    assert_int_equal(s->err, SNIB_ERR_OK);
    snib__acquisition_done(d->e, s);
    assert_int_equal(release(d, ticket, 7, NULL), SNIB_ERR_NOT_HELD);
    assert_true(snib__engine_idle(d->e));
}

static void re_entry_costs_no_request_and_keeps_the_token(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(7));
    grant(d, 100);
    assert_ptr_equal(acquire(d, ask_of(7)), s);
    assert_null(at(SNIB__ACQUIRE));
    assert_int_equal(s->holds, 2);
    assert_int_equal(release(d, s->ticket, 7, NULL), SNIB_ERR_OK);
    assert_null(at(SNIB__RELEASE));
    assert_int_equal(release(d, s->ticket, 8, NULL), SNIB_ERR_WRONG_OWNER);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
}

static void re_entry_has_an_end(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(7)), *again = s;
    struct snib__acquire_spec spec = ask_of(7);
    grant(d, 100);
    s->holds = (1 << 30) - 1;
    assert_ptr_equal(acquire(d, spec), s);
    assert_int_equal(s->holds, 1 << 30);
    assert_int_equal(
        snib__engine_acquire(d->e, d->now, d->local, &spec, &again, &d->err),
        SNIB_ERR_LIMIT);
    assert_null(again);
    assert_int_equal(s->holds, 1 << 30);
}

static void
a_pass_hands_on_the_remaining_deadline_with_the_next_token(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = acquire(d, ask_of(1)),
                             *b = acquire(d, ask_of(2));
    struct snib__request *rq = at(SNIB__ACQUIRE);
    assert_int_equal(rq->acquire.reserve, 31);
    grant(d, 100);
    d->now.ns += 2 * MS;
    struct snib_status before, after;
    snib__engine_status(d->e, d->now, a, &before);
    struct snib__acquisition *ending;
    assert_int_equal(release(d, a->ticket, 1, &ending), SNIB_ERR_OK);
    assert_null(ending);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    assert_int_equal(b->token, 101);
    snib__engine_status(d->e, d->now, b, &after);
    assert_int_equal(after.left_ms, before.left_ms);
    assert_null(at(SNIB__RELEASE));
    /* the registered token is what the store knows */
    assert_int_equal(release(d, b->ticket, 2, &ending), SNIB_ERR_OK);
    assert_int_equal(at(SNIB__RELEASE)->token, 100);
}

static void a_local_claim_ends_after_five_ms_with_a_yield(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = acquire(d, ask_of(1)),
                             *b = acquire(d, ask_of(2));
    grant(d, 100);
    d->now.ns += 6 * MS;
    assert_int_equal(release(d, a->ticket, 1, NULL), SNIB_ERR_OK);
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    assert_int_equal(rq->token, 100); /* prior */
    say(d, rq, SNIB__QUEUED);
    grant(d, 200); /* the same request, answered again */
    assert_int_equal(b->token, 200);
}

static void
a_claim_with_late_copies_about_releases_instead_of_yielding(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = acquire(d, ask_of(1)),
                             *b = acquire(d, ask_of(2));
    say(d, at(SNIB__ACQUIRE), SNIB__UNKNOWN); /* a copy is on its way */
    grant(d, 100);
    d->now.ns += 6 * MS;
    struct snib__acquisition *ending;
    assert_int_equal(release(d, a->ticket, 1, &ending), SNIB_ERR_OK);
    assert_null(at(SNIB__ACQUIRE));
    assert_true(at(SNIB__RELEASE)->resent); /* leaves a tombstone */
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    snib__acquisition_done(d->e, ending);
    assert_int_equal(at(SNIB__ACQUIRE)->token, 0);
    grant(d, 200);
    assert_int_equal(b->token, 200);
}

static void
a_claim_whose_grant_overtook_a_poll_releases_instead_of_yielding(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = acquire(d, ask_of(1)),
                             *b = acquire(d, ask_of(2));
    at(SNIB__ACQUIRE)->resent = true; /* the store: a poll is on its way */
    grant(d, 100);
    d->now.ns += 6 * MS;
    struct snib__acquisition *ending;
    assert_int_equal(release(d, a->ticket, 1, &ending), SNIB_ERR_OK);
    assert_null(at(SNIB__ACQUIRE));
    assert_true(at(SNIB__RELEASE)->resent); /* leaves a tombstone */
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    snib__acquisition_done(d->e, ending);
    assert_int_equal(at(SNIB__ACQUIRE)->token, 0);
    grant(d, 200);
    assert_int_equal(b->token, 200);
}

static void a_claim_passes_at_most_31_times(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s[34];
    for (uint64_t i = 0; i < 34; i++) {
        s[i] = acquire(d, ask_of(i + 1));
    }
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->acquire.reserve = 31;
    grant(d, 1000);
    for (uint64_t i = 0; i < 31; i++) {
        assert_int_equal(s[i]->token, 1000 + (int64_t)i);
        assert_int_equal(release(d, s[i]->ticket, i + 1, NULL), SNIB_ERR_OK);
    }
    assert_int_equal(s[31]->token, 1031);
    assert_int_equal(release(d, s[31]->ticket, 32, NULL), SNIB_ERR_OK);
    assert_int_equal(s[32]->state, SNIB__ACQ_WAITING);
    assert_int_equal(at(SNIB__ACQUIRE)->token, 1000);
}

static void a_try_does_not_queue_and_hears_busy(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.try_only = true;
    struct snib__acquisition *s = acquire(d, spec);
    assert_false(at(SNIB__ACQUIRE)->acquire.may_queue);
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    assert_int_equal(s->state, SNIB__ACQ_REFUSED);
    assert_int_equal(s->err, SNIB_ERR_BUSY);
    snib__acquisition_done(d->e, s);
    acquire(d, ask_of(2));
    grant(d, 5);
    struct snib__acquisition *none;
    assert_int_equal(
        snib__engine_acquire(d->e, d->now, d->local, &spec, &none, &d->err),
        SNIB_ERR_BUSY); /* another owner of ours: no request */
    assert_null(at(SNIB__ACQUIRE));
}

static void a_try_that_came_before_the_grant_of_another_hears_busy(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(2);
    struct snib__acquisition *a = acquire(d, ask_of(1));
    spec.try_only = true;
    struct snib__acquisition *b = acquire(d, spec), *c = acquire(d, ask_of(3));
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
    grant(d, 100);
    assert_int_equal(a->state, SNIB__ACQ_SERVED);
    assert_int_equal(b->state, SNIB__ACQ_REFUSED);
    assert_int_equal(b->err, SNIB_ERR_BUSY);
    snib__acquisition_done(d->e, b);
    assert_int_equal(release(d, a->ticket, 1, NULL), SNIB_ERR_OK);
    assert_int_equal(c->state, SNIB__ACQ_SERVED);
}

static void a_lost_reply_is_repeated_with_the_same_id(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    struct snib__request *rq = at(SNIB__ACQUIRE);
    uint64_t id[2] = {rq->id[0], rq->id[1]};
    say(d, rq, SNIB__UNKNOWN);
    rq = at(SNIB__ACQUIRE);
    assert_true(rq->resent);
    assert_memory_equal(rq->id, id, sizeof id);
    grant(d, 9);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
}

static void a_release_is_repeated_for_as_long_as_a_copy_of_the_acquire_may_come(
    void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    struct snib__acquisition *ending;
    spec.lease = snib__ms(200);
    struct snib__acquisition *s = acquire(d, spec);
    say(d, at(SNIB__ACQUIRE), SNIB__UNKNOWN);
    grant(d, 9);
    assert_int_equal(release(d, s->ticket, 1, &ending), SNIB_ERR_OK);
    pass_ms(d, 300);
    say(d, at(SNIB__RELEASE), SNIB__UNKNOWN);
    assert_true(at(SNIB__RELEASE)->resent);
    assert_int_equal(ending->state, SNIB__ACQ_ENDING);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    assert_int_equal(ending->state, SNIB__ACQ_GONE);
    snib__acquisition_done(d->e, ending);
}

static void giving_up_unanswered_is_unknown_and_cancels(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, s, SNIB_ERR_TIMEOUT),
        SNIB_ERR_UNKNOWN);
    struct snib__request *cancel = at(SNIB__CANCEL);
    assert_memory_equal(cancel->id, at(SNIB__ACQUIRE)->id, 16);
    /* a new acquire waits until the ghost is gone */
    struct snib__acquisition *b = acquire(d, ask_of(2));
    grant(d, 9);
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
    say(d, cancel, SNIB__DONE);
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
    grant(d, 10);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    assert_int_equal(b->token, 10);
}

static void one_of_two_gives_up_and_nothing_is_sent(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = acquire(d, ask_of(1)),
                             *b = acquire(d, ask_of(2));
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, a, SNIB_ERR_TIMEOUT),
        SNIB_ERR_TIMEOUT);
    assert_null(at(SNIB__CANCEL));
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
}

static void a_queued_request_kept_to_its_limit_is_a_time_out(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.limit = snib__after(d->now, snib__ms(300));
    struct snib__acquisition *s = acquire(d, spec);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    pass_ms(d, 300);
    say(d, at(SNIB__ACQUIRE), SNIB__UNKNOWN);
    assert_int_equal(s->state, SNIB__ACQ_LEAVING); /* its place is there yet */
    assert_null(at(SNIB__ACQUIRE));
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    is_refused(d, s, SNIB_ERR_TIMEOUT);
    nothing_is_left(d);
}

static void a_release_reply_lost_is_repeated_and_no_means_done(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1)), *ending;
    grant(d, 9);
    release(d, s->ticket, 1, &ending);
    say(d, at(SNIB__RELEASE), SNIB__UNKNOWN);
    assert_true(at(SNIB__RELEASE)->resent);
    say(d, at(SNIB__RELEASE), SNIB__NO);
    assert_int_equal(ending->state, SNIB__ACQ_GONE);
    assert_int_equal(ending->err, SNIB_ERR_OK);
    snib__acquisition_done(d->e, ending);
}

/* Before its deadline, and by the first copy: somebody else may have had it. */
static void a_release_of_what_the_store_forgot_is_lost(void **state)
{
    struct desk *d = *state;
    for (int copies = 1; copies <= 3; copies++) {
        struct snib__acquisition *s = acquire(d, ask_of(1)), *ending;
        grant(d, 9 + copies);
        assert_int_equal(release(d, s->ticket, 1, &ending), SNIB_ERR_OK);
        if (copies > 1) {
            say(d, at(SNIB__RELEASE), SNIB__UNKNOWN);
        }
        if (copies > 2) {
            say(d, at(SNIB__RELEASE), SNIB__NOT_APPLIED);
            pass_ms(d, 1000);
            assert_false(at(SNIB__RELEASE)->resent);
        }
        say(d, at(SNIB__RELEASE), SNIB__NO);
        assert_int_equal(ending->state, SNIB__ACQ_GONE);
        assert_int_equal(ending->err, copies > 1 ? SNIB_ERR_OK : SNIB_ERR_LOST);
        snib__acquisition_done(d->e, ending);
    }
}

static void
a_release_that_finds_nothing_after_the_deadline_is_lost(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1)), *ending;
    grant(d, 9);
    release(d, s->ticket, 1, &ending);
    d->now = snib__after(d->now, snib__ms(29800));
    say(d, at(SNIB__RELEASE), SNIB__NO);
    assert_int_equal(ending->err, SNIB_ERR_LOST);
    snib__acquisition_done(d->e, ending);
}

static void an_unfit_store_refuses_with_its_reason(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->said.err = SNIB_ERR_DENIED;
    say(d, rq, SNIB__NOT_APPLIED);
    assert_int_equal(s->state, SNIB__ACQ_REFUSED);
    assert_int_equal(s->err, SNIB_ERR_DENIED);
    snib__acquisition_done(d->e, s);
    struct snib__counts c;
    snib__engine_counts(d->e, &c);
    assert_int_equal(c.claims, 0);
}

/* At any store: what is asked for a try alone is not asked for who has joined it
 * since. */
static void who_joins_a_try_asks_anew_when_it_fails(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec once = ask_of(1);
    once.try_only = true;
    struct snib__acquisition *a = acquire(d, once);
    assert_false(at(SNIB__ACQUIRE)->acquire.may_queue);
    struct snib__acquisition *b = acquire(d, ask_of(2)), *late;
    struct snib__acquire_spec spec = ask_of(3);
    spec.limit = d->now;
    late = acquire(d, spec);
    at(SNIB__ACQUIRE)->said.err = SNIB_ERR_UNREACHABLE;
    say(d, at(SNIB__ACQUIRE), SNIB__NOT_APPLIED);
    is_refused(d, a, SNIB_ERR_UNREACHABLE);
    is_refused(d, late, SNIB_ERR_UNREACHABLE);
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
    assert_true(at(SNIB__ACQUIRE)->acquire.may_queue);
    at(SNIB__ACQUIRE)->said.err = SNIB_ERR_UNREACHABLE;
    say(d, at(SNIB__ACQUIRE), SNIB__NOT_APPLIED);
    is_refused(d, b, SNIB_ERR_UNREACHABLE);
    assert_null(at(SNIB__ACQUIRE));
}

static void not_applied_after_a_doubt_is_unknown_and_cancelled(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    say(d, at(SNIB__ACQUIRE), SNIB__UNKNOWN);
    say(d, at(SNIB__ACQUIRE), SNIB__NOT_APPLIED);
    assert_int_equal(s->err, SNIB_ERR_UNKNOWN);
    snib__acquisition_done(d->e, s);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    assert_true(snib__engine_idle(d->e));
}

static void a_yield_that_is_given_up_cancels_the_prior_grant_too(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = acquire(d, ask_of(1)),
                             *b = acquire(d, ask_of(2));
    grant(d, 100);
    d->now.ns += 6 * MS;
    release(d, a->ticket, 1, NULL);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, b, SNIB_ERR_TIMEOUT),
        SNIB_ERR_UNKNOWN);
    assert_int_equal(at(SNIB__CANCEL)->token, 100);
}

/* Its token may not be shown at the store; its id is. It is still named when a
 * first ACQUIRE was refused, and what that one wrote is told to the CANCEL. */
static void a_prior_grant_is_named_by_its_id_too(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = acquire(d, ask_of(1)),
                             *b = acquire(d, ask_of(2));
    struct snib__request *rq = at(SNIB__ACQUIRE);
    uint64_t id[2] = {rq->id[0], rq->id[1]};
    rq->late = 900;
    grant(d, 100);
    d->now.ns += 6 * MS;
    release(d, a->ticket, 1, NULL);
    for (int i = 0; i < 2; i++) {
        rq = at(SNIB__ACQUIRE);
        assert_int_equal(rq->token, 100);
        assert_true(rq->prior_id[0] == id[0] && rq->prior_id[1] == id[1]);
        assert_true(rq->id[0] != id[0]);
        assert_int_equal(rq->late, 0);
        rq->late = 1000;
        if (i == 0) {
            rq->said.err = SNIB_ERR_BUSY;
            say(d, rq, SNIB__NO);
            pass_ms(d, 1000);
        }
    }
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, b, SNIB_ERR_TIMEOUT),
        SNIB_ERR_UNKNOWN);
    rq = at(SNIB__CANCEL);
    assert_int_equal(rq->token, 100);
    assert_true(rq->prior_id[0] == id[0] && rq->prior_id[1] == id[1]);
    assert_int_equal(rq->late, 1000);
}

/* As without a prior grant, and with one that was released. */
static void a_release_tells_what_its_acquire_wrote(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = acquire(d, ask_of(1));
    at(SNIB__ACQUIRE)->late = 900;
    grant(d, 100);
    release(d, a->ticket, 1, NULL);
    assert_int_equal(at(SNIB__RELEASE)->late, 900);
}

static void closing_refuses_waiters_and_releases_holders(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = acquire(d, ask_of(1)),
                             *b = acquire(d, ask_of(2));
    grant(d, 9);
    snib__engine_close(d->e, d->now);
    assert_int_equal(b->err, SNIB_ERR_CLOSED);
    assert_int_equal(a->state, SNIB__ACQ_ENDING);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    assert_true(snib__engine_idle(d->e));
}

int main(void)
{
    const struct CMUnitTest engine[] = {
        T(a_grant_is_served_and_released),
        T(re_entry_costs_no_request_and_keeps_the_token),
        T(re_entry_has_an_end),
        T(a_pass_hands_on_the_remaining_deadline_with_the_next_token),
        T(a_local_claim_ends_after_five_ms_with_a_yield),
        T(a_claim_with_late_copies_about_releases_instead_of_yielding),
        T(a_claim_whose_grant_overtook_a_poll_releases_instead_of_yielding),
        T(a_claim_passes_at_most_31_times),
        T(a_try_does_not_queue_and_hears_busy),
        T(a_try_that_came_before_the_grant_of_another_hears_busy),
        T(a_lost_reply_is_repeated_with_the_same_id),
        T(a_release_is_repeated_for_as_long_as_a_copy_of_the_acquire_may_come),
        T(giving_up_unanswered_is_unknown_and_cancels),
        T(one_of_two_gives_up_and_nothing_is_sent),
        T(a_queued_request_kept_to_its_limit_is_a_time_out),
        T(a_release_reply_lost_is_repeated_and_no_means_done),
        T(a_release_of_what_the_store_forgot_is_lost),
        T(a_release_that_finds_nothing_after_the_deadline_is_lost),
        T(an_unfit_store_refuses_with_its_reason),
        T(who_joins_a_try_asks_anew_when_it_fails),
        T(not_applied_after_a_doubt_is_unknown_and_cancelled),
        T(a_yield_that_is_given_up_cancels_the_prior_grant_too),
        T(a_prior_grant_is_named_by_its_id_too),
        T(a_release_tells_what_its_acquire_wrote),
        T(closing_refuses_waiters_and_releases_holders),
    };
    return RUN(engine);
}

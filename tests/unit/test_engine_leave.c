/* Giving up: it is told when the store has confirmed that nothing is left, or
 * a little later. */
#include "engine_desk.h"

#include "base/error.h"

static snib_err give_up(struct desk *d, struct snib__acquisition *s,
                        snib_err why)
{
    return snib__engine_give_up(d->e, d->now, s, why, &d->err);
}

static void a_cancel_is_told_when_the_store_has_confirmed_it(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    assert_int_equal(give_up(d, s, SNIB_ERR_CANCELLED), SNIB_ERR_OK);
    assert_int_equal(s->state, SNIB__ACQ_LEAVING);
    assert_false(at(SNIB__CANCEL)->background); /* its caller waits for it */
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);    /* it had been asked for */
    pass_ms(d, 99);
    assert_int_equal(s->state, SNIB__ACQ_LEAVING);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    is_refused(d, s, SNIB_ERR_CANCELLED);
    say(d, at(SNIB__ACQUIRE), SNIB__NO); /* an answer to nobody */
    nothing_is_left(d);
}

static void
a_grant_that_a_cancel_overtakes_is_ended_before_it_is_told(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    assert_int_equal(give_up(d, s, SNIB_ERR_CANCELLED), SNIB_ERR_OK);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->token = 9;
    rq->said.left = rq->lease;
    rq->said.valid_from = d->now;
    say(d, rq, SNIB__DONE);
    assert_int_equal(s->state, SNIB__ACQ_LEAVING);
    say(d, at(SNIB__CANCEL), SNIB__DONE); /* and released */
    is_refused(d, s, SNIB_ERR_CANCELLED);
    nothing_is_left(d);
}

/* UNKNOWN, TIMEOUT: as far as is known. Its end goes on in the background. */
static void
a_store_that_does_not_confirm_is_waited_for_so_long_only(void **state)
{
    struct desk *d = *state;
    for (int queued = 0; queued < 2; queued++) {
        struct snib__acquire_spec spec = ask_of(1);
        spec.limit = snib__after(d->now, snib__ms(300));
        spec.timed = true;
        struct snib__acquisition *s = acquire(d, spec);
        if (queued) {
            say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
        }
        pass_ms(d, 300);
        assert_int_equal(s->state, SNIB__ACQ_LEAVING);
        /* a twentieth of the patience for an answer, or a fifth */
        int64_t more = queued ? 100 : 400;
        assert_int_equal(snib__engine_due(d->e).ns, d->now.ns + more * MS);
        pass_ms(d, more - 1);
        assert_int_equal(s->state, SNIB__ACQ_LEAVING);
        pass_ms(d, 1);
        is_refused(d, s, queued ? SNIB_ERR_TIMEOUT : SNIB_ERR_UNKNOWN);
        say(d, at(SNIB__CANCEL), SNIB__DONE);
        say(d, at(SNIB__ACQUIRE), SNIB__NO);
        nothing_is_left(d);
    }
}

/* What waited is cancelled, however often that takes: a release names a token,
 * and nobody has one. And each says that one before it may have arrived. */
static void a_cancel_that_is_not_answered_is_a_repeat_later(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    assert_int_equal(give_up(d, s, SNIB_ERR_CANCELLED), SNIB_ERR_OK);
    assert_false(at(SNIB__CANCEL)->resent);
    say(d, at(SNIB__CANCEL), SNIB__UNKNOWN);
    assert_true(at(SNIB__CANCEL)->resent);
    say(d, at(SNIB__CANCEL), SNIB__NOT_APPLIED);
    assert_null(at(SNIB__CANCEL));
    pass_ms(d, 1000);
    is_refused(d, s, SNIB_ERR_CANCELLED); /* it waited so long only */
    assert_null(at(SNIB__RELEASE));
    assert_true(at(SNIB__CANCEL)->resent);
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    nothing_is_left(d);
}

static void who_comes_while_another_leaves_asks_for_itself(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    assert_int_equal(give_up(d, s, SNIB_ERR_CANCELLED), SNIB_ERR_OK);
    struct snib__acquisition *next = acquire(d, ask_of(2));
    struct snib__acquisition *third = acquire(d, ask_of(3));
    assert_int_equal(give_up(d, third, SNIB_ERR_CANCELLED), SNIB_ERR_CANCELLED);
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    is_refused(d, s, SNIB_ERR_CANCELLED);
    grant(d, 9);
    assert_int_equal(next->state, SNIB__ACQ_SERVED);
}

/* The place at the store is the client's: whose limit it is beside another has
 * nothing there, and only the last one has to wait for the store's word. */
static void
of_two_with_one_limit_the_last_waits_for_the_stores_word(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1), other = ask_of(2);
    spec.limit = other.limit = snib__after(d->now, snib__ms(300));
    struct snib__acquisition *first = acquire(d, spec),
                             *last = acquire(d, other);
    d->now = spec.limit;
    say(d, at(SNIB__ACQUIRE), SNIB__UNKNOWN);
    is_refused(d, first, SNIB_ERR_TIMEOUT);
    assert_int_equal(last->state, SNIB__ACQ_LEAVING);
    pass_ms(d, 400);
    is_refused(d, last, SNIB_ERR_UNKNOWN);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    nothing_is_left(d);
}

static void who_stays_for_the_stores_word_can_be_cut_off(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    assert_int_equal(give_up(d, s, SNIB_ERR_CLOSED), SNIB_ERR_OK);
    assert_int_equal(snib__engine_give_up_now(d->e, d->now, s, SNIB_ERR_CLOSED),
                     SNIB_ERR_UNKNOWN);
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    nothing_is_left(d);
}

/* -- who only passes ----------------------------------------------------------- */

static struct snib__acquire_spec to_pass(snib_kind kind, int64_t ms)
{
    struct snib__acquire_spec spec = ask_of(1);
    spec.kind = kind;
    spec.permits = kind == SNIB_KIND_BARRIER ? 2 : 0;
    spec.passes = true;
    spec.timed = ms > 0;
    return spec;
}

static struct snib__acquisition *waits_to_pass(struct desk *d, snib_kind kind,
                                               int64_t ms)
{
    struct snib__acquire_spec spec = to_pass(kind, ms);
    spec.limit = ms ? snib__after(d->now, snib__ms(ms)) : SNIB__NEVER;
    struct snib__acquisition *s = acquire(d, spec);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    return s;
}

static void cancelled(struct desk *d, int64_t granted)
{
    struct snib__request *rq = at(SNIB__CANCEL);
    assert_non_null(rq);
    rq->said.granted = granted;
    say(d, rq, SNIB__DONE);
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
}

/* It has passed, whatever became of the grant, and has nothing to give back. */
static void has_passed(struct desk *d, struct snib__acquisition *s,
                       int64_t token)
{
    assert_int_equal(s->state, SNIB__ACQ_DEAD);
    assert_int_equal(s->token, token);
    assert_int_equal(news_of(d, s), SNIB__NEWS_SETTLED);
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
    assert_int_equal(release(d, s->ticket, 1, NULL), SNIB_ERR_LOST);
}

static void whose_barrier_opened_before_its_limit_has_passed(void **state)
{
    struct desk *d = *state;
    static const snib_kind kinds[] = {SNIB_KIND_BARRIER, SNIB_KIND_READ};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct snib__acquisition *s = waits_to_pass(d, kinds[i], 300);
        pass_ms(d, 300);
        assert_int_equal(s->state, SNIB__ACQ_LEAVING);
        cancelled(d, 77);
        has_passed(d, s, 77);
        nothing_is_left(d);
    }
}

static void whose_barrier_opened_before_its_cancel_has_passed(void **state)
{
    struct desk *d = *state;
    static const snib_err why[] = {SNIB_ERR_CANCELLED, SNIB_ERR_CLOSED};
    for (size_t i = 0; i < COUNT_OF(why); i++) {
        struct snib__acquisition *s = waits_to_pass(d, SNIB_KIND_BARRIER, 0);
        assert_int_equal(give_up(d, s, why[i]), SNIB_ERR_OK);
        cancelled(d, 77);
        has_passed(d, s, 77);
        nothing_is_left(d);
    }
}

static void who_was_not_counted_is_told_so(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = waits_to_pass(d, SNIB_KIND_BARRIER, 300);
    pass_ms(d, 300);
    cancelled(d, 0);
    is_refused(d, s, SNIB_ERR_TIMEOUT);
    s = waits_to_pass(d, SNIB_KIND_BARRIER, 0);
    assert_int_equal(give_up(d, s, SNIB_ERR_CANCELLED), SNIB_ERR_OK);
    cancelled(d, 0);
    is_refused(d, s, SNIB_ERR_CANCELLED);
    nothing_is_left(d);
}

/* A grant that is given back was never held. */
static void a_readers_time_out_stays_one(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.kind = SNIB_KIND_READ;
    struct snib__acquisition *s = acquire(d, spec);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    assert_int_equal(give_up(d, s, SNIB_ERR_TIMEOUT), SNIB_ERR_OK);
    cancelled(d, 77);
    is_refused(d, s, SNIB_ERR_TIMEOUT);
    nothing_is_left(d);
}

/* The last one may have come since the store was last heard of. */
static void a_party_of_a_silent_store_is_unknown(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = waits_to_pass(d, SNIB_KIND_BARRIER, 300);
    pass_ms(d, 300);
    pass_ms(d, 399);
    assert_int_equal(s->state, SNIB__ACQ_LEAVING);
    pass_ms(d, 1);
    is_refused(d, s, SNIB_ERR_UNKNOWN);
    cancelled(d, 0);
    s = waits_to_pass(d, SNIB_KIND_BARRIER, 0); /* no patience at all: a stop */
    assert_int_equal(snib__engine_give_up_now(d->e, d->now, s, SNIB_ERR_CLOSED),
                     SNIB_ERR_UNKNOWN);
    cancelled(d, 0);
    nothing_is_left(d);
}

static void a_party_whose_place_the_store_refuses_is_unknown(void **state)
{
    struct desk *d = *state;
    struct snib_error err = {0};
    struct snib__acquire_spec spec = to_pass(SNIB_KIND_BARRIER, 0);
    spec.reterr = &err;
    struct snib__acquisition *s = acquire(d, spec);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    say(d, rq, SNIB__QUEUED);
    rq->said.err = snib__fail(rq->said.reterr, SNIB_ERR_DENIED, "no more");
    say(d, rq, SNIB__NOT_APPLIED);
    assert_non_null(strstr(err.text, ": no more"));
    is_refused(d, s, SNIB_ERR_UNKNOWN);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    nothing_is_left(d);
}

/* The answer to its poll, while the cancel is on its way. */
static void a_party_hears_of_its_grant_before_its_cancel_does(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = waits_to_pass(d, SNIB_KIND_BARRIER, 0);
    assert_int_equal(give_up(d, s, SNIB_ERR_CANCELLED), SNIB_ERR_OK);
    grant(d, 77);
    has_passed(d, s, 77);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    nothing_is_left(d);
}

/* A pushed grant of which nobody can say any more from when it counts: others
 * have gone on, so it is not asked for anew. */
static void a_party_that_hears_of_its_grant_too_late_has_passed(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = waits_to_pass(d, SNIB_KIND_BARRIER, 0);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->token = 77;
    rq->said.left = snib__ms(3000);
    rq->said.valid_from = d->now;
    d->now = snib__after(d->now, snib__ms(4000));
    say(d, rq, SNIB__DONE);
    assert_null(at(SNIB__RENEW));
    has_passed(d, s, 77);
    say(d, at(SNIB__RELEASE), SNIB__NO);
    nothing_is_left(d);
}

/* An end that is not answered is sent again, and its answer counts. */
static void a_repeated_cancel_says_it_too(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = waits_to_pass(d, SNIB_KIND_BARRIER, 300);
    pass_ms(d, 300);
    say(d, at(SNIB__CANCEL), SNIB__UNKNOWN);
    assert_int_equal(s->state, SNIB__ACQ_LEAVING);
    assert_true(at(SNIB__CANCEL)->resent);
    cancelled(d, 77);
    has_passed(d, s, 77);
    nothing_is_left(d);
}

/* 1 is a token; 0 and less are none. */
static void the_least_token_is_a_grant(void **state)
{
    struct desk *d = *state;
    for (int64_t token = -1; token < 2; token++) {
        struct snib__acquisition *s = waits_to_pass(d, SNIB_KIND_BARRIER, 300);
        pass_ms(d, 300);
        cancelled(d, token);
        if (token > 0) {
            has_passed(d, s, token);
        } else {
            is_refused(d, s, SNIB_ERR_TIMEOUT);
        }
        nothing_is_left(d);
    }
}

/* Refused, since an earlier copy of it was ended by force; that end is on its
 * way, and the party is counted nowhere. */
static void a_party_behind_an_end_is_in_no_doubt(void **state)
{
    struct desk *d = *state;
    static const snib_err why[] = {SNIB_ERR_CANCELLED, SNIB_ERR_CLOSED,
                                   SNIB_ERR_TIMEOUT};
    for (size_t i = 0; i < COUNT_OF(why); i++) {
        struct snib__acquisition *s = acquire(d, to_pass(SNIB_KIND_BARRIER, 0));
        say(d, at(SNIB__ACQUIRE), SNIB__UNKNOWN);
        say(d, at(SNIB__ACQUIRE), SNIB__NO);
        assert_int_equal(s->state, SNIB__ACQ_WAITING);
        assert_non_null(at(SNIB__CANCEL));
        assert_int_equal(give_up(d, s, why[i]), why[i]);
        say(d, at(SNIB__CANCEL), SNIB__DONE);
        nothing_is_left(d);
    }
}

/* A grant that did not fit is given back, for nobody. */
static void
who_gives_up_behind_what_is_given_back_hears_it_after_that(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec hour = ask_of(1), fixed = ask_of(2);
    hour.lease = snib__ms(3600000);
    hour.fixed = fixed.fixed = true;
    fixed.limit = snib__after(d->now, snib__ms(300));
    fixed.timed = true;
    struct snib__acquisition *a = acquire(d, hour), *b = acquire(d, fixed);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, a, SNIB_ERR_CANCELLED),
        SNIB_ERR_CANCELLED);
    grant(d, 9);
    assert_non_null(at(SNIB__RELEASE));
    pass_ms(d, 300);
    assert_int_equal(b->state, SNIB__ACQ_LEAVING);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    is_refused(d, b, SNIB_ERR_TIMEOUT);
    nothing_is_left(d);
}

/* All of them: it had been asked for each. Who came since is not one of them,
 * and one may be cut off. */
static void all_whose_it_was_hear_it_after_that(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec hour = ask_of(1);
    struct snib__acquisition *s[4], *a, *late;
    hour.lease = snib__ms(3600000);
    hour.fixed = true;
    a = acquire(d, hour);
    for (uint64_t i = 0; i < 4; i++) {
        struct snib__acquire_spec fixed = ask_of(2 + i);
        fixed.fixed = true;
        s[i] = acquire(d, fixed);
    }
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, a, SNIB_ERR_CANCELLED),
        SNIB_ERR_CANCELLED);
    grant(d, 9);
    late = acquire(d, ask_of(6));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(give_up(d, s[i], SNIB_ERR_TIMEOUT), SNIB_ERR_OK);
        assert_int_equal(s[i]->state, SNIB__ACQ_LEAVING);
    }
    assert_int_equal(give_up(d, late, SNIB_ERR_TIMEOUT), SNIB_ERR_TIMEOUT);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, s[0], SNIB_ERR_TIMEOUT),
        SNIB_ERR_TIMEOUT);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, s[2], SNIB_ERR_TIMEOUT),
        SNIB_ERR_TIMEOUT);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    is_refused(d, s[1], SNIB_ERR_TIMEOUT);
    is_refused(d, s[3], SNIB_ERR_TIMEOUT);
    nothing_is_left(d);
}

/* … but not behind what its holder gives back: that is not its own. */
static void who_gives_up_behind_a_release_hears_it_at_once(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = acquire(d, ask_of(1)), *ending, *b;
    struct snib__acquire_spec spec = ask_of(2);
    grant(d, 9);
    assert_int_equal(release(d, a->ticket, 1, &ending), SNIB_ERR_OK);
    spec.limit = snib__after(d->now, snib__ms(300));
    spec.timed = true;
    b = acquire(d, spec);
    pass_ms(d, 300);
    is_refused(d, b, SNIB_ERR_TIMEOUT);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    assert_int_equal(ending->state, SNIB__ACQ_GONE);
    snib__acquisition_done(d->e, ending);
    nothing_is_left(d);
}

/* … nor behind the end of what another owner has lost. */
static void who_gives_up_behind_a_loss_hears_it_at_once(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *a = acquire(d, ask_of(1)), *b;
    grant(d, 9);
    b = acquire(d, ask_of(2));
    d->now.ns += 60000 * MS; /* nobody ran: from held to lost in one step */
    snib__engine_tick(d->e, d->now);
    assert_int_equal(state_of(d, a), SNIB_STATE_LOST);
    assert_non_null(at(SNIB__RELEASE));
    assert_int_equal(give_up(d, b, SNIB_ERR_TIMEOUT), SNIB_ERR_TIMEOUT);
    assert_int_equal(release(d, a->ticket, 1, NULL), SNIB_ERR_LOST);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    nothing_is_left(d);
}

/* A no that comes after the limit, and a copy of its request may come, too. */
static void
a_no_that_comes_late_is_told_when_its_copies_are_cancelled(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.limit = snib__after(d->now, snib__ms(300));
    spec.timed = true;
    for (int copies = 0; copies < 2; copies++) {
        struct snib__acquisition *s = acquire(d, spec),
                                 *other = acquire(d, spec);
        struct snib__request *rq = at(SNIB__ACQUIRE);
        d->now = spec.limit;
        rq->resent = copies;
        say(d, rq, SNIB__NO);
        is_refused(d, s, SNIB_ERR_TIMEOUT);
        if (copies) {
            assert_int_equal(other->state, SNIB__ACQ_LEAVING);
            say(d, at(SNIB__CANCEL), SNIB__DONE);
        }
        is_refused(d, other, SNIB_ERR_TIMEOUT);
        nothing_is_left(d);
        spec.limit = snib__after(d->now, snib__ms(300));
    }
}

int main(void)
{
    const struct CMUnitTest engine_leave[] = {
        T(a_cancel_is_told_when_the_store_has_confirmed_it),
        T(a_grant_that_a_cancel_overtakes_is_ended_before_it_is_told),
        T(a_store_that_does_not_confirm_is_waited_for_so_long_only),
        T(a_cancel_that_is_not_answered_is_a_repeat_later),
        T(who_comes_while_another_leaves_asks_for_itself),
        T(of_two_with_one_limit_the_last_waits_for_the_stores_word),
        T(who_stays_for_the_stores_word_can_be_cut_off),
        T(whose_barrier_opened_before_its_limit_has_passed),
        T(whose_barrier_opened_before_its_cancel_has_passed),
        T(who_was_not_counted_is_told_so),
        T(a_readers_time_out_stays_one),
        T(a_party_of_a_silent_store_is_unknown),
        T(a_party_whose_place_the_store_refuses_is_unknown),
        T(a_party_hears_of_its_grant_before_its_cancel_does),
        T(a_party_that_hears_of_its_grant_too_late_has_passed),
        T(a_repeated_cancel_says_it_too),
        T(the_least_token_is_a_grant),
        T(a_party_behind_an_end_is_in_no_doubt),
        T(who_gives_up_behind_what_is_given_back_hears_it_after_that),
        T(all_whose_it_was_hear_it_after_that),
        T(who_gives_up_behind_a_release_hears_it_at_once),
        T(who_gives_up_behind_a_loss_hears_it_at_once),
        T(a_no_that_comes_late_is_told_when_its_copies_are_cancelled),
    };
    return RUN(engine_leave);
}

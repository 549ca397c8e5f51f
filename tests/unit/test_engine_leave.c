/* Giving up: it is told when the store has confirmed that nothing is left, or
 * a little later. */
#include "engine_desk.h"

static snib_err give_up(struct desk *d, struct snib__seat *s, snib_err why)
{
    return snib__engine_give_up(d->e, d->now, s, why, &d->err);
}

static void a_cancel_is_told_when_the_store_has_confirmed_it(void **state)
{
    struct desk *d = *state;
    struct snib__seat *s = acquire(d, ask_of(1));
    assert_int_equal(give_up(d, s, SNIB_ERR_CANCELLED), SNIB_ERR_OK);
    assert_int_equal(s->state, SNIB__SEAT_LEAVING);
    assert_false(at(SNIB__CANCEL)->keepers); /* its caller waits for it */
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED); /* it had been asked for */
    pass_ms(d, 99);
    assert_int_equal(s->state, SNIB__SEAT_LEAVING);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    is_refused(d, s, SNIB_ERR_CANCELLED);
    say(d, at(SNIB__ACQUIRE), SNIB__NO); /* an answer to nobody */
    nothing_is_left(d);
}

static void
a_grant_that_a_cancel_overtakes_is_ended_before_it_is_told(void **state)
{
    struct desk *d = *state;
    struct snib__seat *s = acquire(d, ask_of(1));
    assert_int_equal(give_up(d, s, SNIB_ERR_CANCELLED), SNIB_ERR_OK);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->token = 9;
    rq->left = rq->lease;
    rq->valid_from = d->now;
    say(d, rq, SNIB__DONE);
    assert_int_equal(s->state, SNIB__SEAT_LEAVING);
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
        struct snib__ask ask = ask_of(1);
        ask.limit = snib__after(d->now, snib__ms(300));
        ask.timed = true;
        struct snib__seat *s = acquire(d, ask);
        if (queued) {
            say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
        }
        pass_ms(d, 300);
        assert_int_equal(s->state, SNIB__SEAT_LEAVING);
        /* a twentieth of the patience for an answer, or a fifth */
        int64_t more = queued ? 100 : 400;
        assert_int_equal(snib__engine_due(d->e).ns, d->now.ns + more * MS);
        pass_ms(d, more - 1);
        assert_int_equal(s->state, SNIB__SEAT_LEAVING);
        pass_ms(d, 1);
        is_refused(d, s, queued ? SNIB_ERR_TIMEOUT : SNIB_ERR_UNKNOWN);
        say(d, at(SNIB__CANCEL), SNIB__DONE);
        say(d, at(SNIB__ACQUIRE), SNIB__NO);
        nothing_is_left(d);
    }
}

static void who_comes_while_another_leaves_asks_for_itself(void **state)
{
    struct desk *d = *state;
    struct snib__seat *s = acquire(d, ask_of(1));
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    assert_int_equal(give_up(d, s, SNIB_ERR_CANCELLED), SNIB_ERR_OK);
    struct snib__seat *next = acquire(d, ask_of(2));
    struct snib__seat *third = acquire(d, ask_of(3));
    assert_int_equal(give_up(d, third, SNIB_ERR_CANCELLED), SNIB_ERR_CANCELLED);
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    is_refused(d, s, SNIB_ERR_CANCELLED);
    grant(d, 9);
    assert_int_equal(next->state, SNIB__SEAT_SERVED);
}

static void who_stays_for_the_stores_word_can_be_cut_off(void **state)
{
    struct desk *d = *state;
    struct snib__seat *s = acquire(d, ask_of(1));
    assert_int_equal(give_up(d, s, SNIB_ERR_CLOSED), SNIB_ERR_OK);
    assert_int_equal(snib__engine_leave(d->e, d->now, s, SNIB_ERR_CLOSED),
                     SNIB_ERR_UNKNOWN);
    say(d, at(SNIB__ACQUIRE), SNIB__NO);
    say(d, at(SNIB__CANCEL), SNIB__DONE);
    nothing_is_left(d);
}

int main(void)
{
    const struct CMUnitTest engine_leave[] = {
        T(a_cancel_is_told_when_the_store_has_confirmed_it),
        T(a_grant_that_a_cancel_overtakes_is_ended_before_it_is_told),
        T(a_store_that_does_not_confirm_is_waited_for_so_long_only),
        T(who_comes_while_another_leaves_asks_for_itself),
        T(who_stays_for_the_stores_word_can_be_cut_off),
    };
    return RUN(engine_leave);
}

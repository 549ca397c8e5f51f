/* Leases of several lengths in one client: nobody is told a longer one than he
 * asked for, and a fixed one is no longer at the store, either. */
#include "engine_desk.h"

#include "base/error.h"

static struct snib__acquire_spec ask_for(uint64_t owner, int64_t lease_ms,
                                         bool fixed)
{
    struct snib__acquire_spec spec = ask_of(owner);
    spec.lease = snib__ms(lease_ms);
    spec.fixed = fixed;
    return spec;
}

static int64_t left_ms(struct desk *d, struct snib__acquisition *s)
{
    struct snib_status st;
    snib__engine_status(d->e, d->now, s, &st);
    return st.left_ms;
}

static void renew(struct desk *d, struct snib__acquisition *s, int64_t lease_ms)
{
    struct snib__acquisition *told;
    assert_int_equal(snib__engine_renew(d->e, d->now, s->ticket,
                                        snib__ms(lease_ms), &told, &d->err),
                     SNIB_ERR_OK);
}

/* The first one, of a lease of 30 s, holds it; the other waits behind. */
static struct snib__acquisition *held_before(struct desk *d,
                                             struct snib__acquire_spec spec,
                                             struct snib__acquisition **other)
{
    struct snib__acquisition *s = acquire(d, ask_of(1));
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    *other = acquire(d, spec);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->acquire.reserve = 31;
    grant(d, 9);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    return s;
}

/* -- what another of this client had asked for -------------------------------------- */

/* Who asked for an hour gives up; behind him waits one who asked for less. */
static struct snib__acquisition *inherits(struct desk *d, bool fixed)
{
    struct snib__acquire_spec hour = ask_of(1), less = ask_of(2);
    hour.lease = snib__ms(3600000);
    less.lease = snib__ms(1000);
    less.fixed = fixed;
    hour.fixed = fixed;
    struct snib__acquisition *a = acquire(d, hour), *b = acquire(d, less);
    say(d, at(SNIB__ACQUIRE), SNIB__QUEUED);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, a, SNIB_ERR_TIMEOUT),
        SNIB_ERR_TIMEOUT);
    return b;
}

/* A renewal would not shorten what stands, and others would wait for the hour. */
static void what_was_asked_for_more_is_given_back(void **state)
{
    struct desk *d = *state;
    for (int fixed = 0; fixed < 2; fixed++) {
        struct snib__acquisition *s = inherits(d, fixed);
        grant(d, 9);
        assert_int_equal(s->state, SNIB__ACQ_WAITING);
        say(d, at(SNIB__RELEASE), SNIB__DONE);
        assert_int_equal(snib__to_ms(at(SNIB__ACQUIRE)->lease), 1000);
        grant(d, 10);
        assert_int_equal(s->state, SNIB__ACQ_SERVED);
        assert_in_range(left_ms(d, s), 900, 1000);
        assert_int_equal(release(d, s->ticket, 2, NULL), SNIB_ERR_OK);
        say(d, at(SNIB__RELEASE), SNIB__DONE);
    }
}

/* -- handed on --------------------------------------------------------------------- */

static void what_was_renewed_for_less_is_handed_on_when_it_is_less(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *b,
        *a = held_before(d, ask_for(2, 1000, false), &b);
    renew(d, a, 1000);
    confirm(d, d->now);
    assert_int_equal(release(d, a->ticket, 1, NULL), SNIB_ERR_OK);
    assert_int_equal(b->state, SNIB__ACQ_WAITING); /* 30 s are left of it */
    assert_int_equal(snib__to_ms(at(SNIB__ACQUIRE)->lease), 1000);
    grant(d, 10);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    assert_in_range(left_ms(d, b), 900, 1000);
}

/* Asked for by who had it before, and answered when it is another's. */
static void a_renewal_of_who_had_it_before_gives_no_more(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec a_s = ask_for(1, 1000, false);
    struct snib__acquisition *a = acquire(d, a_s), *b;
    at(SNIB__ACQUIRE)->acquire.reserve = 31;
    grant(d, 9);
    renew(d, a, 30000);
    b = acquire(d, ask_for(2, 1000, false));
    renew(d, a, 1000);
    assert_int_equal(snib__to_ms(at(SNIB__RENEW)->lease), 30000);
    assert_int_equal(release(d, a->ticket, 1, NULL), SNIB_ERR_OK);
    assert_int_equal(b->state, SNIB__ACQ_SERVED);
    confirm(d, d->now);
    assert_in_range(left_ms(d, b), 900, 1000);
    pass_ms(d, 334); /* and is renewed in time for what it is told */
    assert_int_equal(snib__to_ms(at(SNIB__RENEW)->lease), 1000);
}

/* A copy of the reclaim may be executed after all of the acquire: so its end has
 * to keep out what the store sent last. */
static void the_end_of_what_was_reclaimed_keeps_out_later_copies(void **state)
{
    struct desk *d = *state;
    for (int reclaims = 0; reclaims < 2; reclaims++) {
        struct snib__acquisition *s = acquire(d, ask_of(1));
        at(SNIB__ACQUIRE)->late = 5000;
        grant(d, 9);
        if (reclaims) {
            renew(d, s, 30000);
            at(SNIB__RENEW)->said.reclaim = true;
            say(d, at(SNIB__RENEW), SNIB__NO);
            assert_true(at(SNIB__RENEW)->floor >= 9);
            confirm(d, d->now);
        }
        assert_int_equal(release(d, s->ticket, 1, NULL), SNIB_ERR_OK);
        assert_int_equal(at(SNIB__RELEASE)->late, reclaims ? 0 : 5000);
        assert_int_equal(at(SNIB__RELEASE)->resent, reclaims);
        say(d, at(SNIB__RELEASE), SNIB__DONE);
    }
}

static void a_release_is_repeated_as_long_as_anything_may_stand(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *ending, *a = acquire(d, ask_of(1));
    grant(d, 9);
    renew(d, a, 1000);
    confirm(d, d->now);
    assert_int_equal(release(d, a->ticket, 1, &ending), SNIB_ERR_OK);
    assert_true(at(SNIB__RELEASE)->limit.ns > d->now.ns + 29000 * MS);
    pass_ms(d, 20000);
    say(d, at(SNIB__RELEASE), SNIB__UNKNOWN);
    assert_int_equal(ending->state, SNIB__ACQ_ENDING);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    assert_int_equal(ending->state, SNIB__ACQ_GONE);
    assert_int_equal(ending->err, SNIB_ERR_OK);
}

/* The end of the one before travels with the acquire of the next, and nobody
 * knows whether that arrived. */
static void so_is_the_end_of_the_one_before(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec next = ask_for(2, 1000, true);
    struct snib__acquisition *b, *a = held_before(d, next, &b);
    assert_int_equal(release(d, a->ticket, 1, NULL), SNIB_ERR_OK);
    assert_int_equal(at(SNIB__ACQUIRE)->token, 9);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, b, SNIB_ERR_CANCELLED),
        SNIB_ERR_UNKNOWN);
    assert_int_equal(at(SNIB__CANCEL)->limit.ns, d->now.ns + 30000 * MS);
}

/* -- confirmed for another --------------------------------------------------------- */

/* The grant that 30 s were asked for comes without a proof of its time, and
 * while it is confirmed its caller gives up. */
static struct snib__acquisition *confirmed_for(struct desk *d,
                                               struct snib__acquire_spec spec)
{
    struct snib__acquire_spec first = ask_of(1);
    first.fixed = spec.fixed;
    struct snib__acquisition *a = acquire(d, first), *b = acquire(d, spec);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->token = 9;
    rq->said.left = rq->lease;
    rq->said.valid_from = (snib_instant){0};
    say(d, rq, SNIB__DONE);
    assert_int_equal(snib__to_ms(at(SNIB__RENEW)->lease), 30000);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, a, SNIB_ERR_CANCELLED),
        SNIB_ERR_CANCELLED);
    return b;
}

static void what_was_confirmed_for_less_is_confirmed_again(void **state)
{
    struct desk *d = *state;
    for (int fixed = 0; fixed < 2; fixed++) {
        struct snib__acquisition *b =
            confirmed_for(d, ask_for(2, 60000, fixed));
        confirm(d, d->now);
        assert_int_equal(b->state, SNIB__ACQ_WAITING);
        assert_int_equal(snib__to_ms(at(SNIB__RENEW)->lease), 60000);
        confirm(d, d->now);
        assert_int_equal(b->state, SNIB__ACQ_SERVED);
        assert_in_range(left_ms(d, b), 59000, 60000);
        assert_int_equal(release(d, b->ticket, 2, NULL), SNIB_ERR_OK);
        say(d, at(SNIB__RELEASE), SNIB__DONE);
    }
}

static void what_was_confirmed_for_more_is_given_back(void **state)
{
    struct desk *d = *state;
    for (int fixed = 0; fixed < 2; fixed++) {
        struct snib__acquisition *b = confirmed_for(d, ask_for(2, 1000, fixed));
        confirm(d, d->now);
        assert_int_equal(b->state, SNIB__ACQ_WAITING);
        say(d, at(SNIB__RELEASE), SNIB__DONE);
        assert_int_equal(snib__to_ms(at(SNIB__ACQUIRE)->lease), 1000);
        grant(d, 10);
        assert_int_equal(b->state, SNIB__ACQ_SERVED);
        assert_in_range(left_ms(d, b), 900, 1000);
        assert_int_equal(release(d, b->ticket, 2, NULL), SNIB_ERR_OK);
        say(d, at(SNIB__RELEASE), SNIB__DONE);
    }
}

int main(void)
{
    const struct CMUnitTest engine_lease[] = {
        T(what_was_asked_for_more_is_given_back),
        T(what_was_renewed_for_less_is_handed_on_when_it_is_less),
        T(a_renewal_of_who_had_it_before_gives_no_more),
        T(the_end_of_what_was_reclaimed_keeps_out_later_copies),
        T(a_release_is_repeated_as_long_as_anything_may_stand),
        T(so_is_the_end_of_the_one_before),
        T(what_was_confirmed_for_less_is_confirmed_again),
        T(what_was_confirmed_for_more_is_given_back),
    };
    return RUN(engine_lease);
}

/* The engine and grants that are left behind: adopted, abandoned. */
#include "engine_desk.h"

static const uint64_t LEFT[2] = {0xabcd, 0x1234};

static struct snib__acquire_spec ask_fixed(uint64_t owner)
{
    struct snib__acquire_spec spec = ask_of(owner);
    spec.fixed = true;
    return spec;
}

static struct snib__acquisition *adopt(struct desk *d, uint64_t owner)
{
    struct snib__acquire_spec spec = ask_fixed(owner);
    struct snib__acquisition *s = NULL;
    spec.limit = snib__after(d->now, snib__ms(2000));
    assert_int_equal(snib__engine_adopt(d->e, d->now, d->local, &spec, LEFT, 77,
                                        &s, &d->err),
                     SNIB_ERR_OK);
    assert_int_equal(s->state, SNIB__ACQ_WAITING);
    return s;
}

static bool store_is_asked(void)
{
    return at(SNIB__ACQUIRE) || at(SNIB__RELEASE) || at(SNIB__CANCEL);
}

static void no_claim_is_left(struct desk *d)
{
    struct snib__counts c;
    snib__engine_counts(d->e, &c);
    assert_int_equal(c.claims, 0);
    assert_int_equal(c.leaving, 0);
}

static void
an_adopted_grant_is_served_when_a_renewal_has_confirmed_it(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = adopt(d, 7), *ending;
    struct snib__request *rq = at(SNIB__RENEW);
    assert_memory_equal(rq->id, LEFT, sizeof LEFT);
    assert_int_equal(rq->token, 77);
    assert_int_equal(snib__to_ms(rq->lease), 30000);
    assert_false(store_is_asked());
    confirm(d, d->now);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
    assert_int_equal(s->token, 77);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    pass_ms(d, 15000);
    assert_null(at(SNIB__RENEW)); /* fixed */
    release(d, s->ticket, 7, &ending);
    rq = at(SNIB__RELEASE);
    assert_memory_equal(rq->id, LEFT, sizeof LEFT);
    assert_int_equal(rq->token, 77);
    say(d, rq, SNIB__DONE);
    assert_int_equal(ending->err, SNIB_ERR_OK);
    snib__acquisition_done(d->e, ending);
    no_claim_is_left(d);
}

/* Should the store lose its data: its token is the least that the next grant
 * of this client may have. */
static void the_token_of_an_adopted_grant_is_a_floor(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = adopt(d, 7), *next, *ending;
    confirm(d, d->now);
    release(d, s->ticket, 7, &ending);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    snib__acquisition_done(d->e, ending);
    next = acquire(d, ask_of(8));
    assert_int_equal(at(SNIB__ACQUIRE)->floor, 77);
    grant(d, 78);
    release(d, next->ticket, 8, NULL);
}

static void
an_adopted_grant_that_is_over_is_lost_and_not_asked_for(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = adopt(d, 7);
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_int_equal(s->state, SNIB__ACQ_REFUSED);
    assert_int_equal(s->err, SNIB_ERR_LOST);
    assert_int_equal(news_of(d, s), SNIB__NEWS_SETTLED);
    assert_false(store_is_asked());
    snib__acquisition_done(d->e, s);
    no_claim_is_left(d);
}

static void
an_adoption_confirmed_too_late_is_lost_and_not_released(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = adopt(d, 7);
    snib_instant sent = d->now;
    d->now = snib__after(d->now, snib__ms(29800));
    confirm(d, sent);
    assert_int_equal(s->err, SNIB_ERR_LOST);
    assert_false(store_is_asked());
    snib__acquisition_done(d->e, s);
    no_claim_is_left(d);
}

static void an_adoption_given_up_ends_nothing_at_the_store(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = adopt(d, 7);
    assert_int_equal(
        snib__engine_give_up_now(d->e, d->now, s, SNIB_ERR_TIMEOUT),
        SNIB_ERR_UNKNOWN);
    assert_false(store_is_asked());
    no_claim_is_left(d);
    confirm(d, d->now); /* to nobody */
    assert_false(store_is_asked());
    assert_true(snib__engine_idle(d->e));
}

static void an_adoption_not_answered_by_its_limit_is_unknown(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = adopt(d, 7);
    say(d, at(SNIB__RENEW), SNIB__UNKNOWN);
    assert_true(at(SNIB__RENEW)->resent);
    pass_ms(d, 2000);
    assert_int_equal(s->err, SNIB_ERR_UNKNOWN);
    assert_false(store_is_asked());
    snib__acquisition_done(d->e, s);
    no_claim_is_left(d);
}

static void an_adoption_that_could_not_be_sent_says_why(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = adopt(d, 7);
    at(SNIB__RENEW)->said.err = SNIB_ERR_DENIED;
    say(d, at(SNIB__RENEW), SNIB__NOT_APPLIED);
    assert_int_equal(s->err, SNIB_ERR_DENIED);
    snib__acquisition_done(d->e, s);
    s = adopt(d, 7); /* but not when an earlier copy may have been executed */
    say(d, at(SNIB__RENEW), SNIB__UNKNOWN);
    say(d, at(SNIB__RENEW), SNIB__NOT_APPLIED);
    assert_int_equal(s->err, SNIB_ERR_UNKNOWN);
    assert_false(store_is_asked());
    snib__acquisition_done(d->e, s);
    no_claim_is_left(d);
}

static void who_waits_behind_an_adoption_is_never_given_its_grant(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = adopt(d, 7), *b = acquire(d, ask_of(8));
    assert_null(at(SNIB__ACQUIRE));
    snib__engine_give_up_now(d->e, d->now, s, SNIB_ERR_TIMEOUT);
    assert_null(at(SNIB__RELEASE));
    assert_null(at(SNIB__CANCEL));
    confirm(d, d->now); /* the orphan */
    assert_int_equal(b->state, SNIB__ACQ_WAITING);
    grant(d, 90);
    assert_int_equal(b->token, 90);
}

static void a_client_with_business_of_its_own_adopts_nothing(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_fixed(9);
    struct snib__acquisition *s;
    acquire(d, ask_of(1));
    assert_int_equal(snib__engine_adopt(d->e, d->now, d->local, &spec, LEFT, 77,
                                        &s, &d->err),
                     SNIB_ERR_BUSY);
    assert_null(s);
    assert_null(at(SNIB__RENEW));
}

static void closing_while_adopting_ends_nothing_at_the_store(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = adopt(d, 7);
    snib__engine_close(d->e, d->now);
    assert_int_equal(s->state, SNIB__ACQ_REFUSED);
    assert_false(store_is_asked());
    no_claim_is_left(d);
}

static void an_abandoned_grant_is_forgotten_and_not_released(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_fixed(1)), *none;
    uint64_t id[2], want[2];
    int64_t token;
    memcpy(want, at(SNIB__ACQUIRE)->id, sizeof want);
    grant(d, 9);
    assert_int_equal(snib__engine_grant_id(d->e, d->now, s->ticket, true, id,
                                           &token, &d->err),
                     SNIB_ERR_OK);
    assert_memory_equal(id, want, sizeof id);
    assert_int_equal(token, 9);
    assert_int_equal(snib__engine_renew(d->e, d->now, s->ticket, snib__ms(5000),
                                        &none, &d->err),
                     SNIB_ERR_OK);
    uint64_t ticket = s->ticket;
    assert_int_equal(
        snib__engine_detach_grant(d->e, d->now, ticket, 2, &d->err),
        SNIB_ERR_WRONG_OWNER);
    assert_int_equal(
        snib__engine_detach_grant(d->e, d->now, ticket, 1, &d->err),
        SNIB_ERR_OK);
    assert_null(snib__engine_acquisition(d->e, ticket));
    assert_int_equal(
        snib__engine_detach_grant(d->e, d->now, ticket, 1, &d->err),
        SNIB_ERR_NOT_HELD);
    confirm(d, d->now); /* to nobody */
    pass_ms(d, 60000);
    snib__engine_close(d->e, d->now);
    assert_false(store_is_asked());
    assert_null(at(SNIB__RENEW));
    assert_true(snib__engine_idle(d->e));
    no_claim_is_left(d);
    assert_int_equal(
        snib__engine_detach_grant(d->e, d->now, ticket, 1, &d->err),
        SNIB_ERR_CLOSED);
}

static void who_waits_behind_an_abandoned_grant_asks_for_its_own(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_fixed(1));
    grant(d, 9);
    struct snib__acquisition *b = acquire(d, ask_of(2));
    assert_int_equal(
        snib__engine_detach_grant(d->e, d->now, s->ticket, 1, &d->err),
        SNIB_ERR_OK);
    assert_int_equal(at(SNIB__ACQUIRE)->token, 0); /* nothing is ended */
    grant(d, 10);
    assert_int_equal(b->token, 10);
}

static void a_renewed_lease_is_not_left_behind(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_of(1));
    uint64_t id[2];
    int64_t token;
    grant(d, 9);
    assert_int_equal(
        snib__engine_detach_grant(d->e, d->now, s->ticket, 1, &d->err),
        SNIB_ERR_USAGE);
    assert_int_equal(snib__engine_grant_id(d->e, d->now, s->ticket, true, id,
                                           &token, &d->err),
                     SNIB_ERR_USAGE);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
}

static void a_lost_grant_is_not_left_behind_and_its_owner_is_free(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(d, ask_fixed(1));
    uint64_t ticket = s->ticket;
    grant(d, 9);
    pass_ms(d, 30000);
    assert_int_equal(
        snib__engine_detach_grant(d->e, d->now, ticket, 1, &d->err),
        SNIB_ERR_LOST);
    assert_null(snib__engine_acquisition(d->e, ticket));
    say(d, at(SNIB__RELEASE), SNIB__NO);
    acquire(d, ask_of(1));
    grant(d, 10);
}

static void an_engine_may_be_given_its_client_id(void **state)
{
    (void)state;
    static const uint64_t client[2] = {5, 6};
    struct snib__engine_config cfg = {.ops = &wax,
                                      .seed = {{1, 2, 3, 4}},
                                      .client = client,
                                      .request = snib__ms(2000)};
    struct snib__engine *e;
    uint64_t is[2];
    assert_int_equal(snib__engine_open(&cfg, &e, NULL), SNIB_ERR_OK);
    snib__engine_client_id(e, is);
    assert_memory_equal(is, client, sizeof is);
    assert_memory_equal(wax_client, client, sizeof is);
    snib__engine_free(e);
}

int main(void)
{
    const struct CMUnitTest left[] = {
        T(an_adopted_grant_is_served_when_a_renewal_has_confirmed_it),
        T(the_token_of_an_adopted_grant_is_a_floor),
        T(an_adopted_grant_that_is_over_is_lost_and_not_asked_for),
        T(an_adoption_confirmed_too_late_is_lost_and_not_released),
        T(an_adoption_given_up_ends_nothing_at_the_store),
        T(an_adoption_not_answered_by_its_limit_is_unknown),
        T(an_adoption_that_could_not_be_sent_says_why),
        T(who_waits_behind_an_adoption_is_never_given_its_grant),
        T(a_client_with_business_of_its_own_adopts_nothing),
        T(closing_while_adopting_ends_nothing_at_the_store),
        T(an_abandoned_grant_is_forgotten_and_not_released),
        T(who_waits_behind_an_abandoned_grant_asks_for_its_own),
        T(a_renewed_lease_is_not_left_behind),
        T(a_lost_grant_is_not_left_behind_and_its_owner_is_free),
        T(an_engine_may_be_given_its_client_id),
    };
    return RUN(left);
}

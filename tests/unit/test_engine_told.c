/* tests/unit/test_engine_told.c — what a holder is told of its grant: by a look
 * at a moment when no timer has run yet, by the news of a loss, in words. */
#include "core/engine_i.h"
#include "engine_desk.h"

static struct snib__acquisition *held_by(struct desk *d,
                                         struct snib__acquire_spec spec)
{
    struct snib__acquisition *s = acquire(d, spec);
    grant(d, 9);
    (void)news_of(d, s);
    return s;
}

static struct snib_status status_of(struct desk *d, struct snib__acquisition *s)
{
    struct snib_status st;
    snib__engine_status(d->e, d->now, s, &st);
    return st;
}

/* -- a look before any timer ---------------------------------------------------- */

/* Nobody ran for so long: the clock is all that a look can go by. */
static void freeze(struct desk *d, int64_t ms)
{
    d->now = snib__after(d->now, snib__ms(ms));
}

/* What a look says now is what the timer will say in a moment. */
static void lost_for(struct desk *d, struct snib__acquisition *s,
                     snib_cause why)
{
    struct snib_status st = status_of(d, s);
    assert_int_equal(st.state, SNIB_STATE_LOST);
    assert_int_equal(st.cause, why);
    assert_int_equal(st.left_ms, 0);
    assert_int_equal(st.holds, 1);
    assert_int_equal(st.token, 9);
    pass_ms(d, 0);
    assert_int_equal(s->state, SNIB__ACQ_DEAD);
    st = status_of(d, s);
    assert_int_equal(st.state, SNIB_STATE_LOST);
    assert_int_equal(st.cause, why);
    assert_int_equal(st.holds, 1);
    assert_int_equal(release(d, s->ticket, 1, NULL), SNIB_ERR_LOST);
}

static void a_look_at_a_fixed_lease_that_is_over_says_expired(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    struct snib__acquisition *s = held_by(d, spec);
    freeze(d, 31000);
    lost_for(d, s, SNIB_CAUSE_EXPIRED);
}

static void a_look_after_nobody_ran_says_paused(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held_by(d, ask_of(1));
    freeze(d, 31000);
    lost_for(d, s, SNIB_CAUSE_PAUSED);
}

static void a_look_with_a_renewal_under_way_says_unreachable(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held_by(d, ask_of(1));
    pass_ms(d, 10000);
    assert_non_null(at(SNIB__RENEW));
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    freeze(d, 21000);
    lost_for(d, s, SNIB_CAUSE_UNREACHABLE);
}

static void a_look_says_the_cause_that_is_known(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held_by(d, ask_of(1));
    snib__engine_jumped(d->e, d->now);
    assert_non_null(at(SNIB__RENEW)); /* and yet it is no silence */
    assert_int_equal(status_of(d, s).state, SNIB_STATE_AT_RISK);
    assert_int_equal(status_of(d, s).cause, SNIB_CAUSE_PAUSED);
    freeze(d, 31000);
    lost_for(d, s, SNIB_CAUSE_PAUSED);
}

static void a_look_beyond_hold_max_says_so_before_all_else(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.hold_max = snib__ms(5000);
    struct snib__acquisition *s = held_by(d, spec);
    freeze(d, 4999);
    assert_int_equal(status_of(d, s).state, SNIB_STATE_HELD);
    assert_int_equal(status_of(d, s).left_ms, 1);
    freeze(d, 30000);
    lost_for(d, s, SNIB_CAUSE_HOLD_MAX);
}

static void a_look_at_an_aggressive_one_says_at_risk(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.aggressive = true;
    struct snib__acquisition *s = held_by(d, spec);
    freeze(d, 60000);
    assert_int_equal(status_of(d, s).state, SNIB_STATE_AT_RISK);
    assert_int_equal(status_of(d, s).left_ms, 0);
    assert_int_equal(s->state, SNIB__ACQ_SERVED);
}

static void a_look_tells_how_long_it_is_held_and_how_often(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held_by(d, ask_of(1)), *again;
    struct snib__acquire_spec spec = ask_of(1);
    assert_int_equal(
        snib__engine_acquire(d->e, d->now, d->local, &spec, &again, &d->err),
        SNIB_ERR_OK);
    freeze(d, 1234);
    struct snib_status st = status_of(d, s);
    assert_int_equal(st.state, SNIB_STATE_HELD);
    assert_int_equal(st.cause, SNIB_CAUSE_NONE);
    assert_int_equal(st.held_ms, 1234);
    assert_int_equal(st.left_ms, 30000 - 305 - 1234);
    assert_int_equal(st.holds, 2);
    assert_int_equal(st.slot, -1);
    assert_int_equal(st.permits, 0);
}

/* -- the news of a loss --------------------------------------------------------- */

static struct snib__acquisition *renew(struct desk *d,
                                       struct snib__acquisition *s)
{
    struct snib__acquisition *same = NULL;
    assert_int_equal(snib__engine_renew(d->e, d->now, s->ticket, snib__ms(0),
                                        &same, &d->err),
                     SNIB_ERR_OK);
    assert_ptr_equal(same, s);
    return s;
}

static void a_loss_answers_no_renewal_that_nobody_asked_for(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held_by(d, ask_of(1));
    pass_ms(d, 10000);
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE);
    release(d, s->ticket, 1, NULL);
}

static void a_loss_answers_the_renewal_that_was_asked_for(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = renew(d, held_by(d, ask_of(1)));
    say(d, at(SNIB__RENEW), SNIB__NO);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE | SNIB__NEWS_RENEWED);
    assert_int_equal(s->err, SNIB_ERR_LOST);
    release(d, s->ticket, 1, NULL);
}

static void a_deadline_answers_the_renewal_that_was_asked_for(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = renew(d, held_by(d, ask_of(1)));
    pass_ms(d, 2001);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE); /* at risk */
    pass_ms(d, 30000);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE | SNIB__NEWS_RENEWED);
    assert_int_equal(s->err, SNIB_ERR_LOST);
    assert_int_equal(s->cause, SNIB_CAUSE_UNREACHABLE);
    release(d, s->ticket, 1, NULL);
}

static void a_refused_renewal_is_told_with_the_stores_error(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = renew(d, held_by(d, ask_of(1)));
    struct snib__request *rq = at(SNIB__RENEW);
    rq->said.err = SNIB_ERR_DENIED;
    say(d, rq, SNIB__NOT_APPLIED);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE | SNIB__NEWS_RENEWED);
    assert_int_equal(s->err, SNIB_ERR_DENIED);
    assert_int_equal(status_of(d, s).state, SNIB_STATE_AT_RISK);
    pass_ms(d, 200); /* asked again by itself: nobody waits for that answer */
    confirm(d, d->now);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE);
    assert_int_equal(status_of(d, s).state, SNIB_STATE_HELD);
}

/* That the second copy was refused says nothing of the first. */
static void a_renewal_whose_first_copy_may_be_applied_is_unknown(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = renew(d, held_by(d, ask_of(1)));
    struct snib__request *rq = at(SNIB__RENEW);
    say(d, rq, SNIB__UNKNOWN);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE); /* at risk */
    rq = at(SNIB__RENEW);
    rq->said.err = SNIB_ERR_DENIED;
    say(d, rq, SNIB__NOT_APPLIED);
    assert_int_equal(news_of(d, s), SNIB__NEWS_RENEWED);
    assert_int_equal(s->err, SNIB_ERR_UNKNOWN);
    pass_ms(d, 200);
    confirm(d, d->now);
}

/* However its renewal fails: the library renews no fixed lease by itself, so
 * nothing about the grant has become less sure. */
static void a_fixed_lease_whose_renewal_fails_stays_held(void **state)
{
    static const enum snib__answer fails[] = {SNIB__UNKNOWN, SNIB__NOT_APPLIED};
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    for (size_t i = 0; i < COUNT_OF(fails); i++) {
        struct snib__acquisition *s = renew(d, held_by(d, spec));
        say(d, at(SNIB__RENEW), fails[i]);
        assert_int_equal(status_of(d, s).state, SNIB_STATE_HELD);
        if (fails[i] == SNIB__UNKNOWN) { /* it was sent again at once */
            say(d, at(SNIB__RENEW), SNIB__NOT_APPLIED);
        }
        assert_int_equal(status_of(d, s).state, SNIB_STATE_HELD);
        assert_int_equal(news_of(d, s), SNIB__NEWS_RENEWED);
        pass_ms(d, 200);
        struct snib__request *rq = at(SNIB__RENEW);
        assert_true(!rq || rq->renew.only_asks); /* nobody waits for another */
        if (rq) {
            confirm(d, d->now);
        }
        release(d, s->ticket, 1, NULL);
        say(d, at(SNIB__RELEASE), SNIB__DONE);
    }
}

static void a_renewal_that_was_asked_for_is_answered_once(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = renew(d, held_by(d, ask_of(1)));
    confirm(d, d->now);
    assert_int_equal(news_of(d, s), SNIB__NEWS_RENEWED);
    assert_int_equal(s->err, SNIB_ERR_OK);
    pass_ms(d, 10000);
    confirm(d, d->now); /* the client's own */
    assert_int_equal(news_of(d, s), 0);
}

/* -- words ---------------------------------------------------------------------- */

static const char *const characters[] = {"x", "\xc3\xa4", "\xe2\x82\xac",
                                         "\xf0\x90\x80\x80"};

static void a_cut_leaves_whole_characters_of_every_length(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held_by(d, ask_of(1));
    for (size_t i = 0; i < COUNT_OF(characters); i++) {
        char whole[32], text[32], half[32];
        size_t n = strlen(characters[i]);
        snprintf(whole, sizeof whole, "ab%s%s", characters[i], characters[i]);
        snib__acquisition_trouble(s, whole);
        snib__engine_jumped(d->e, d->now);
        for (size_t size = 1; size <= strlen(whole) + 1; size++) {
            size_t fit = size - 1 < 2 ? size - 1 : 2 + (size - 3) / n * n;
            snib__engine_explain(d->e, d->now, s, text, size);
            snprintf(half, sizeof half, "%.*s", (int)fit, whole);
            assert_string_equal(text, half);
        }
    }
}

static void a_forced_release_is_told_in_whole_characters(void **state)
{
    (void)state;
    struct snib__about by = {.user = "anna", .host = "ci-7"};
    for (size_t i = 1; i < COUNT_OF(characters); i++) {
        size_t n = strlen(characters[i]);
        for (size_t shift = 0; shift < n; shift++) {
            struct snib__buf b;
            char reason[1600] = "";
            memset(reason, '.', shift);
            for (size_t at = shift; at + n < sizeof reason - 1; at += n) {
                memcpy(reason + at, characters[i], n);
            }
            snib__buf_init(&b, 4096);
            snib__explain_force(&by, reason, &b);
            size_t head = strlen("revoked by anna on ci-7: ") + shift;
            assert_in_range(snib__buf_size(&b), 1000 - n, 999);
            assert_int_equal((snib__buf_size(&b) - head) % n, 0);
            snib__buf_free(&b);
        }
    }
}

/* With its NUL it is a byte too long. */
static void a_text_that_just_does_not_fit_is_cut_as_well(void **state)
{
    (void)state;
    struct snib__about by = {.user = "anna", .host = "ci-7"};
    char reason[1000] = "";
    struct snib__buf b;
    for (size_t i = 0; i < (1000 - 25) / 3; i++) {
        memcpy(reason + 3 * i, characters[2], 3);
    }
    snib__buf_init(&b, 4096);
    snib__explain_force(&by, reason, &b);
    assert_int_equal(snib__buf_size(&b), 997);
    snib__buf_clear(&b);
    memcpy(reason + strlen(reason) - 3, "\xc3\xa4", 3);
    snib__explain_force(&by, reason, &b);
    assert_int_equal(snib__buf_size(&b), 999);
    snib__buf_free(&b);
}

static void who_forced_is_told_as_far_as_it_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *user, *host, *reason, *says;
    } t[] = {
        {"anna", "ci-7", "x", "revoked by anna on ci-7: x"},
        {"anna", "", "", "revoked by anna"},
        {"", "ci-7", NULL, "revoked by somebody on ci-7"},
        {"", "", "a\nb\x7f", "revoked by somebody: a?b?"},
    };
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        struct snib__about by = {0};
        struct snib__buf b;
        snprintf(by.user, sizeof by.user, "%s", t[i].user);
        snprintf(by.host, sizeof by.host, "%s", t[i].host);
        snib__buf_init(&b, 4096);
        snib__explain_force(&by, t[i].reason, &b);
        assert_string_equal(snib__buf_text(&b), t[i].says);
        snib__buf_free(&b);
    }
}

/* A i's generation has 32 bits, and no ticket is ever that of an earlier one
 * again without 2^32 others in between; none is 0. */
static void tickets_begin_again_behind_the_last_generation(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *ending, *s = acquire(d, ask_of(1));
    uint32_t i = (uint32_t)s->ticket - 1;
    grant(d, 9);
    d->e->tickets[i].generation = UINT32_MAX;
    s->ticket = (uint64_t)UINT32_MAX << 32 | (i + 1);
    uint64_t last = s->ticket;
    assert_ptr_equal(snib__engine_acquisition(d->e, last), s);
    assert_int_equal(release(d, last, 1, &ending), SNIB_ERR_OK);
    say(d, at(SNIB__RELEASE), SNIB__DONE);
    snib__acquisition_done(d->e, ending);
    s = acquire(d, ask_of(1));
    assert_int_equal(s->ticket, (uint64_t)1 << 32 | (i + 1));
    assert_ptr_equal(snib__engine_acquisition(d->e, s->ticket), s);
    assert_null(snib__engine_acquisition(d->e, last));
}

int main(void)
{
    const struct CMUnitTest engine_told[] = {
        T(a_look_at_a_fixed_lease_that_is_over_says_expired),
        T(a_look_after_nobody_ran_says_paused),
        T(a_look_with_a_renewal_under_way_says_unreachable),
        T(a_look_says_the_cause_that_is_known),
        T(a_look_beyond_hold_max_says_so_before_all_else),
        T(a_look_at_an_aggressive_one_says_at_risk),
        T(a_look_tells_how_long_it_is_held_and_how_often),
        T(a_loss_answers_no_renewal_that_nobody_asked_for),
        T(a_loss_answers_the_renewal_that_was_asked_for),
        T(a_deadline_answers_the_renewal_that_was_asked_for),
        T(a_refused_renewal_is_told_with_the_stores_error),
        T(a_renewal_that_was_asked_for_is_answered_once),
        T(a_renewal_whose_first_copy_may_be_applied_is_unknown),
        T(a_fixed_lease_whose_renewal_fails_stays_held),
        T(a_cut_leaves_whole_characters_of_every_length),
        T(a_forced_release_is_told_in_whole_characters),
        T(a_text_that_just_does_not_fit_is_cut_as_well),
        T(who_forced_is_told_as_far_as_it_is_known),
        T(tickets_begin_again_behind_the_last_generation),
    };
    return RUN(engine_told);
}

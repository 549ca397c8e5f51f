/* tests/unit/test_engine_trouble.c — a renewal that fails: when the holder
 * hears that its grant is at risk, which cause a loss is given, in which words. */
#include "base/error.h"
#include "core/engine_i.h"
#include "engine_desk.h"

static const char *words(struct desk *d, const struct snib__acquisition *s)
{
    static char text[SNIB_EXPLAIN_TEXT];
    snib__engine_explain(d->e, d->now, s, text, sizeof text);
    return text;
}

static struct snib__acquisition *held(struct desk *d)
{
    struct snib__acquisition *s = acquire(d, ask_of(1));
    grant(d, 9);
    (void)news_of(d, s);
    return s;
}

static void refuse_renewal(struct desk *d, snib_err err, const char *why)
{
    struct snib__request *rq = at(SNIB__RENEW);
    assert_non_null(rq);
    rq->said.err = err;
    rq->said.reterr->code = err;
    snprintf(rq->said.reterr->text, sizeof rq->said.reterr->text, "%s", why);
    say(d, rq, SNIB__NOT_APPLIED);
}

static void silence_of_a_sixth_of_the_lease_is_a_risk(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(
        d, (struct snib__acquire_spec){
               .owner = 1, .limit = SNIB__NEVER, .lease = snib__ms(3000)});
    grant(d, 9);
    pass_ms(d, 1000);
    assert_non_null(at(SNIB__RENEW));
    pass_ms(d, 490);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    assert_string_equal(words(d, s), "");
    pass_ms(d, 10);
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
    assert_int_equal(s->cause, SNIB_CAUSE_UNREACHABLE);
    assert_string_equal(words(d, s), "a renewal is not answered");
    confirm(d, d->now); /* late, but it comes */
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    assert_string_equal(words(d, s), "");
    release(d, s->ticket, 1, NULL);
}

static void a_renewal_that_cannot_be_sent_is_a_risk_at_once(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    pass_ms(d, 10000);
    struct snib__request *rq = at(SNIB__RENEW);
    rq->said.err = SNIB_ERR_UNREACHABLE;
    snprintf(rq->said.reterr->text, sizeof rq->said.reterr->text,
             "no connection to db:6379: Connection refused");
    out->stuck = true;
    feed(d);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE);
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
    assert_string_equal(words(d, s),
                        "no connection to db:6379: Connection refused");
    pass_ms(d, 20000);
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
    assert_int_equal(s->cause, SNIB_CAUSE_UNREACHABLE);
    assert_string_equal(
        words(d, s),
        "unreachable: no connection to db:6379: Connection refused");
    release(d, s->ticket, 1, NULL);
}

/* "Renewed, or not" is for who asked for it. */
static void
a_renewal_of_the_background_that_fails_is_nobodys_answer(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    pass_ms(d, 10000);
    refuse_renewal(d, SNIB_ERR_STORE, "OOM");
    assert_int_equal(news_of(d, s) & SNIB__NEWS_RENEWED, 0);
    struct snib__acquisition *asked;
    assert_int_equal(snib__engine_renew(d->e, d->now, s->ticket, snib__ms(0),
                                        &asked, &d->err),
                     SNIB_ERR_OK);
    if (!at(SNIB__RENEW)) {
        pass_ms(d, 200);
    }
    refuse_renewal(d, SNIB_ERR_DENIED, "NOPERM");
    assert_int_equal(news_of(d, s) & SNIB__NEWS_RENEWED, SNIB__NEWS_RENEWED);
    assert_int_equal(s->err, SNIB_ERR_DENIED);
    pass_ms(d, 200);
    refuse_renewal(d, SNIB_ERR_STORE, "OOM");
    assert_int_equal(news_of(d, s) & SNIB__NEWS_RENEWED, 0);
    release(d, s->ticket, 1, NULL);
}

static void the_last_refusal_is_the_one_that_is_told(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    pass_ms(d, 10000);
    refuse_renewal(d, SNIB_ERR_DENIED, "NOPERM evalsha");
    assert_string_equal(words(d, s), "NOPERM evalsha");
    pass_ms(d, 200);
    refuse_renewal(d, SNIB_ERR_STORE, "OOM command\nnot allowed");
    assert_string_equal(words(d, s), "OOM command?not allowed");
    pass_ms(d, 20000);
    assert_string_equal(words(d, s), "unreachable: OOM command?not allowed");
    release(d, s->ticket, 1, NULL);
}

static void a_pause_whose_renewals_fail_is_lost_as_unreachable(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    snib__engine_jumped(d->e, d->now);
    assert_int_equal(s->cause, SNIB_CAUSE_PAUSED);
    refuse_renewal(d, SNIB_ERR_STORE, "READONLY");
    pass_ms(d, 30000);
    assert_int_equal(s->cause, SNIB_CAUSE_UNREACHABLE);
    assert_string_equal(words(d, s), "unreachable: READONLY");
    release(d, s->ticket, 1, NULL);
}

static void nobody_ran_is_a_pause(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    pass_ms(d, 31000);
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
    assert_int_equal(s->cause, SNIB_CAUSE_PAUSED);
    release(d, s->ticket, 1, NULL);
}

static void a_fixed_lease_expires(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    struct snib__acquisition *s = acquire(d, spec);
    grant(d, 9);
    pass_ms(d, 31000);
    assert_int_equal(s->cause, SNIB_CAUSE_EXPIRED);
    assert_string_equal(words(d, s),
                        "expired: the lease was fixed, and is over");
    release(d, s->ticket, 1, NULL);
}

static struct snib__acquisition *fixed_and_asked_about(struct desk *d)
{
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    d->e->pushes = true;
    struct snib__acquisition *s = acquire(d, spec);
    grant(d, 9);
    (void)news_of(d, s);
    snib__out_ended(
        out, (uint64_t[]){d->local->claim->id[0], d->local->claim->id[1]});
    feed(d);
    assert_true(at(SNIB__RENEW)->renew.only_asks);
    return s;
}

static void
a_question_that_was_answered_late_is_not_why_it_expired(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = fixed_and_asked_about(d);
    pass_ms(d, 5000);
    confirm(d, d->now);
    pass_ms(d, 30000);
    assert_int_equal(s->cause, SNIB_CAUSE_EXPIRED);
    assert_string_equal(words(d, s),
                        "expired: the lease was fixed, and is over");
    release(d, s->ticket, 1, NULL);
}

static void
a_question_that_failed_and_was_answered_then_is_no_cause(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = fixed_and_asked_about(d);
    refuse_renewal(d, SNIB_ERR_STORE, "LOADING");
    pass_ms(d, 200);
    assert_true(at(SNIB__RENEW)->renew.only_asks);
    confirm(d, d->now);
    pass_ms(d, 30000);
    assert_int_equal(s->cause, SNIB_CAUSE_EXPIRED);
    assert_string_equal(words(d, s),
                        "expired: the lease was fixed, and is over");
    release(d, s->ticket, 1, NULL);
}

/* A question extends nothing: its failure is not why the lease is over. */
static void a_question_that_failed_is_no_cause(struct desk *d,
                                               struct snib__acquisition *s)
{
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    assert_string_equal(words(d, s), "");
    pass_ms(d, 31000);
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
    assert_int_equal(s->cause, SNIB_CAUSE_EXPIRED);
    assert_string_equal(words(d, s),
                        "expired: the lease was fixed, and is over");
    release(d, s->ticket, 1, NULL);
}

static void a_question_that_was_refused_is_no_cause(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = fixed_and_asked_about(d);
    refuse_renewal(d, SNIB_ERR_STORE, "LOADING");
    a_question_that_failed_is_no_cause(d, s);
}

static void a_question_that_was_never_answered_is_no_cause(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = fixed_and_asked_about(d);
    struct snib__request *rq = at(SNIB__RENEW);
    snprintf(rq->said.reterr->text, sizeof rq->said.reterr->text,
             "the server does not answer");
    say(d, rq, SNIB__UNKNOWN);
    a_question_that_failed_is_no_cause(d, s);
}

/* As it is when the store gives up connecting by its own timer. */
static void a_renewal_found_stuck_by_a_timer_is_a_risk_at_once(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    pass_ms(d, 10000);
    struct snib__request *rq = at(SNIB__RENEW);
    rq->said.err = SNIB_ERR_UNREACHABLE;
    snprintf(rq->said.reterr->text, sizeof rq->said.reterr->text,
             "no connection");
    out->stuck = true;
    wax_next = snib__after(d->now, snib__ms(1));
    pass_ms(d, 1);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE);
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
    assert_string_equal(words(d, s), "no connection");
    release(d, s->ticket, 1, NULL);
}

/* A short lease would be over before a tenth of a second is. */
static void a_refused_renewal_is_tried_again_within_the_lease(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = acquire(
        d, (struct snib__acquire_spec){
               .owner = 1, .limit = SNIB__NEVER, .lease = snib__ms(320)});
    grant(d, 9);
    pass_ms(d, 107);
    refuse_renewal(d, SNIB_ERR_STORE, "LOADING");
    pass_ms(d, 9);
    assert_null(at(SNIB__RENEW));
    pass_ms(d, 1);
    assert_non_null(at(SNIB__RENEW)); /* a 32nd of it later */
    confirm(d, d->now);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    pass_ms(d, 107);
    assert_non_null(at(SNIB__RENEW));
    release(d, s->ticket, 1, NULL);
}

static void a_question_that_cannot_be_sent_is_no_cause(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = fixed_and_asked_about(d);
    struct snib__request *rq = at(SNIB__RENEW);
    rq->said.err = SNIB_ERR_UNREACHABLE;
    snprintf(rq->said.reterr->text, sizeof rq->said.reterr->text,
             "the server does not answer");
    out->stuck = true;
    feed(d);
    a_question_that_failed_is_no_cause(d, s);
}

static void
a_pause_while_it_is_asked_about_ends_with_a_confirmation(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = fixed_and_asked_about(d);
    snib__engine_jumped(d->e, d->now);
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
    confirm(d, d->now);
    assert_non_null(at(SNIB__RENEW));
    assert_false(at(SNIB__RENEW)->renew.only_asks);
    confirm(d, d->now);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    assert_string_equal(words(d, s), "");
    assert_null(at(SNIB__RENEW));
    release(d, s->ticket, 1, NULL);
}

static const char another[] =
    "another server answers than the one that granted it";

static void another_server_is_a_risk_at_once_and_is_asked(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    pass_ms(d, 100);
    assert_null(at(SNIB__RENEW)); /* none is due                            */
    out->moved = true;
    feed(d);
    assert_int_equal(news_of(d, s), SNIB__NEWS_STATE);
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
    assert_int_equal(s->cause, SNIB_CAUSE_UNREACHABLE);
    assert_string_equal(words(d, s), another);
    assert_false(at(SNIB__RENEW)->renew.only_asks);
    assert_false(out->moved);
    confirm(d, d->now);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    assert_string_equal(words(d, s), "");
    assert_null(at(SNIB__RENEW));
    release(d, s->ticket, 1, NULL);
}

static void what_another_server_does_not_know_is_forgotten(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    out->moved = true;
    feed(d);
    struct snib__request *rq = at(SNIB__RENEW);
    rq->said.forgotten = true;
    say(d, rq, SNIB__NO);
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
    assert_int_equal(s->cause, SNIB_CAUSE_FORGOTTEN);
    release(d, s->ticket, 1, NULL);
}

/* That renewal may have been sent to either server: its answer tells. */
static void a_renewal_on_its_way_is_not_sent_twice(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    pass_ms(d, 10000);
    assert_non_null(at(SNIB__RENEW));
    out->moved = true;
    feed(d);
    assert_non_null(at(SNIB__RENEW)); /* the only one                       */
    assert_int_equal(state_of(d, s), SNIB_STATE_AT_RISK);
    say(d, at(SNIB__RENEW), SNIB__UNKNOWN);
    assert_non_null(at(SNIB__RENEW));
    confirm(d, d->now);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    release(d, s->ticket, 1, NULL);
}

static void another_server_is_asked_about_a_fixed_lease(void **state)
{
    struct desk *d = *state;
    struct snib__acquire_spec spec = ask_of(1);
    spec.fixed = true;
    d->e->pushes = true;
    struct snib__acquisition *s = acquire(d, spec);
    grant(d, 9);
    (void)news_of(d, s);
    out->moved = true;
    feed(d);
    assert_int_equal(state_of(d, s), SNIB_STATE_HELD);
    struct snib__request *rq = at(SNIB__RENEW);
    assert_true(rq->renew.only_asks);
    rq->said.forgotten = true;
    say(d, rq, SNIB__NO);
    assert_int_equal(state_of(d, s), SNIB_STATE_LOST);
    assert_int_equal(s->cause, SNIB_CAUSE_FORGOTTEN);
    release(d, s->ticket, 1, NULL);
}

static void who_forced_it_and_why_is_told(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    pass_ms(d, 10000);
    struct snib__request *rq = at(SNIB__RENEW);
    rq->said.revoked = true;
    snprintf(rq->said.reterr->text, sizeof rq->said.reterr->text,
             "revoked by anna on ci-7: release 4.2 is bad");
    say(d, rq, SNIB__NO);
    assert_int_equal(s->cause, SNIB_CAUSE_REVOKED);
    assert_string_equal(words(d, s),
                        "revoked by anna on ci-7: release 4.2 is bad");
    release(d, s->ticket, 1, NULL);
}

static void a_text_is_cut_between_characters(void **state)
{
    struct desk *d = *state;
    struct snib__acquisition *s = held(d);
    char text[8];
    pass_ms(d, 10000);
    refuse_renewal(d, SNIB_ERR_STORE, "abcde\xc3\xa4\xc3\xb6");
    snib__engine_explain(d->e, d->now, s, text, 8);
    assert_string_equal(text, "abcde\xc3\xa4");
    snib__engine_explain(d->e, d->now, s, text, 7);
    assert_string_equal(text, "abcde");
    snib__engine_explain(d->e, d->now, s, text, 1);
    assert_string_equal(text, "");
    release(d, s->ticket, 1, NULL);
}

static void the_party_and_a_long_reason_fit(void **state)
{
    (void)state;
    struct snib__about by = {.user = "anna", .host = "ci-7"};
    struct snib__buf b;
    char reason[3000];
    snib__buf_init(&b, 4096);
    snib__explain_force(&by, NULL, &b);
    assert_string_equal(snib__buf_text(&b), "revoked by anna on ci-7");
    snib__buf_clear(&b);
    memset(reason, 'x', sizeof reason - 1);
    reason[sizeof reason - 1] = 0;
    snib__explain_force(&by, reason, &b);
    assert_true(snib__buf_size(&b) < 1000);
    snib__buf_free(&b);
}

/* Others were ahead of it on the connection until its limit, and the process stood
 * still for long behind that: by its limit nothing is known against the store. */
static void kept_back(struct desk *d, int64_t limit_ms, bool try_only,
                      snib_err told)
{
    struct snib__acquire_spec spec = ask_of(1);
    spec.limit = snib__after(d->now, snib__ms(limit_ms));
    spec.try_only = try_only;
    struct snib__acquisition *s = acquire(d, spec);
    struct snib__request *rq = at(SNIB__ACQUIRE);
    rq->limit = spec.limit;
    rq->exec.blocked = true;
    rq->exec.blocked_since = d->now;
    d->now = snib__after(d->now, snib__ms(limit_ms + 300));
    rq->said.err = snib__fail(rq->said.reterr, SNIB_ERR_UNREACHABLE, "behind");
    say(d, rq, SNIB__NOT_APPLIED);
    assert_int_equal(s->state, SNIB__ACQ_REFUSED);
    assert_int_equal(s->err, told);
    snib__acquisition_done(d->e, s);
}

static void who_was_kept_back_for_a_moment_has_timed_out(void **state)
{
    struct desk *d = *state;
    kept_back(d, 99, false, SNIB_ERR_TIMEOUT);
    kept_back(d, 100, false, SNIB_ERR_UNREACHABLE);
    kept_back(d, 3, true, SNIB_ERR_UNREACHABLE);
}

int main(void)
{
    const struct CMUnitTest engine_trouble[] = {
        T(silence_of_a_sixth_of_the_lease_is_a_risk),
        T(a_renewal_that_cannot_be_sent_is_a_risk_at_once),
        T(a_renewal_of_the_background_that_fails_is_nobodys_answer),
        T(the_last_refusal_is_the_one_that_is_told),
        T(a_pause_whose_renewals_fail_is_lost_as_unreachable),
        T(nobody_ran_is_a_pause),
        T(a_fixed_lease_expires),
        T(a_question_that_was_answered_late_is_not_why_it_expired),
        T(a_question_that_failed_and_was_answered_then_is_no_cause),
        T(a_question_that_was_refused_is_no_cause),
        T(a_question_that_was_never_answered_is_no_cause),
        T(a_renewal_found_stuck_by_a_timer_is_a_risk_at_once),
        T(a_refused_renewal_is_tried_again_within_the_lease),
        T(a_question_that_cannot_be_sent_is_no_cause),
        T(a_pause_while_it_is_asked_about_ends_with_a_confirmation),
        T(another_server_is_a_risk_at_once_and_is_asked),
        T(what_another_server_does_not_know_is_forgotten),
        T(a_renewal_on_its_way_is_not_sent_twice),
        T(another_server_is_asked_about_a_fixed_lease),
        T(who_forced_it_and_why_is_told),
        T(a_text_is_cut_between_characters),
        T(the_party_and_a_long_reason_fit),
        T(who_was_kept_back_for_a_moment_has_timed_out),
    };
    return RUN(engine_trouble);
}

/* api/optimistic.c: snib_version_update when a commit is not answered, and when it
 * is cancelled. */
#include "optimistic_world.h"

/* -- a commit that is not answered --------------------------------------------------- */

static void what_cannot_be_asked_for_is_unknown(void **state)
{
    (void)state;
    begin(500);
    says((struct says){.answer = -SNIB_ERR_UNKNOWN, .text = "server closed"});
    ends(SNIB_ERR_UNKNOWN, 1, 1);
    assert_string_equal(
        w.e.text, "the commit of attempt 1 was not answered: server closed");
    begin(500);
    answers(0);
    answers(-SNIB_ERR_UNKNOWN);
    ends(SNIB_ERR_UNKNOWN, 2, 2);
    assert_string_equal(w.e.text, "the commit of attempt 2 was not answered");
}

static const struct says lost = {
    .answer = -SNIB_ERR_UNKNOWN, .asks = true, .stopped = 8, .text = "lost"};

static void an_attempt_that_stands_is_done(void **state)
{
    (void)state;
    begin(0);
    says(lost);
    says((struct says){.answer = 1, .stopped = 9});
    ends(SNIB_ERR_OK, 2, 1);
    assert_int_equal(w.stopped, 0);
    assert_true(w.call[1].ask && !w.call[0].ask);
    assert_int_equal(w.call[1].number, 1);
    assert_string_equal(w.call[1].id, w.call[0].id);
    assert_int_equal(w.call[1].at_ns, w.call[0].at_ns); /* at once */
}

static void an_attempt_that_does_not_stand_was_in_vain(void **state)
{
    (void)state;
    begin(500);
    says(lost);
    answers(0);
    answers(1);
    ends(SNIB_ERR_OK, 3, 2);
    assert_true(w.call[1].ask && !w.call[2].ask);
    assert_int_equal(w.call[2].number, 2);
    assert_string_not_equal(w.call[2].id, w.call[0].id);
    assert_true(w.call[2].paused_ns > 0);
    begin(0);
    says(lost);
    answers(0);
    ends(SNIB_ERR_BUSY, 2, 1);
    assert_string_equal(w.e.text,
                        "1 attempt in vain; the last: its commit was not "
                        "answered, and it does not stand: lost");
    begin(500);
    w.o.attempts = 1;
    says(lost);
    says((struct says){.answer = 0, .text = "gone"});
    ends(SNIB_ERR_BUSY, 2, 1);
    assert_string_equal(w.e.text, "1 attempt in vain; the last: gone");
    begin(500);
    w.o.attempts = 2; /* the one after it was kept by others */
    says(lost);
    answers(0);
    answers(0);
    ends(SNIB_ERR_BUSY, 3, 2);
    assert_string_equal(
        w.e.text, "2 attempts in vain; the last: others had changed the row");
    begin(500);
    says(lost);
    says((struct says){.answer = 0, .stopped = 6});
    ends(SNIB_ERR_OK, 2, 1);
    assert_int_equal(w.stopped, 6);
}

static void it_is_asked_again_until_it_is_known(void **state)
{
    (void)state;
    begin(50000);
    w.o.attempts = 1; /* a question is no attempt */
    says(lost);
    answers(-SNIB_ERR_BUSY);
    answers(-SNIB_ERR_BUSY);
    answers(-SNIB_ERR_BUSY);
    answers(1);
    ends(SNIB_ERR_OK, 5, 1);
    for (int i = 1; i < 5; i++) {
        assert_true(w.call[i].ask);
        assert_string_equal(w.call[i].id, w.call[0].id);
        assert_true(i == 1 || w.call[i].paused_ns > 0);
    }
}

static void what_is_not_known_at_the_limit_is_unknown(void **state)
{
    (void)state;
    begin(100);
    says(lost);
    says((struct says){.answer = -SNIB_ERR_BUSY, .text = "starting up"});
    assert_int_equal(update_with(&w.o), SNIB_ERR_UNKNOWN);
    assert_string_equal(w.e.text,
                        "the commit of attempt 1 was not answered, nor in time "
                        "whether it stands: starting up");
    assert_true(w.calls > 3);
    assert_int_equal(w.attempts, 1);
    assert_int_equal(w.call[w.calls - 1].at_ns, 1100 * MS);
    begin(0);
    says(lost);
    answers(-SNIB_ERR_BUSY);
    ends(SNIB_ERR_UNKNOWN, 2, 1);
}

/* No error of a question says that nothing was applied. */
static void whatever_a_question_ends_in_is_unknown(void **state)
{
    (void)state;
    for (int answer = -(int)SNIB_ERR_TOO_MANY - 1; answer <= 2; answer++) {
        if (answer == 0 || answer == 1 || answer == -SNIB_ERR_BUSY) {
            continue;
        }
        begin(500);
        says(lost);
        says((struct says){.answer = answer, .text = "no rights"});
        ends(SNIB_ERR_UNKNOWN, 2, 1);
        assert_string_equal(w.e.text,
                            "the commit of attempt 1 was not answered, nor "
                            "whether it stands: no rights");
    }
}

/* Whether it can be asked is said of each attempt anew. */
static void the_next_attempt_can_be_lost_as_well(void **state)
{
    (void)state;
    begin(500);
    says(lost);
    answers(0);
    says(lost);
    answers(0);
    answers(-SNIB_ERR_UNKNOWN);
    ends(SNIB_ERR_UNKNOWN, 5, 3);
    assert_string_equal(w.e.text, "the commit of attempt 3 was not answered");
    assert_true(w.call[3].ask);
    assert_string_equal(w.call[3].id, w.call[2].id);
    assert_false(w.call[4].ask);
}

/* -- the caller's cancel -------------------------------------------------------------- */

static void what_is_cancelled_before_it_begins_does_nothing(void **state)
{
    (void)state;
    begin(500);
    cancels_at(0);
    answers(1);
    ends(SNIB_ERR_CANCELLED, 0, 0);
    assert_int_equal(w.stopped, 0);
}

static void a_cancel_ends_a_pause_within_ten_milliseconds(void **state)
{
    (void)state;
    for (int64_t at = 1; at < 200; at += 7) {
        begin(INT64_MAX);
        w.o.backoff_ms = 60000;
        w.o.backoff_max_ms = 60000;
        cancels_at(at);
        answers(0);
        assert_int_equal(update_with(&w.o), SNIB_ERR_CANCELLED);
        assert_int_equal(w.calls, 1);
        assert_true(w.now_ns < w.cancel_at_ns + 10 * MS);
        assert_true(w.longest_ns <= 10 * MS);
        assert_string_equal(w.e.text, snib_err_text(SNIB_ERR_CANCELLED));
    }
}

static void a_cancel_during_an_attempt_is_seen_behind_it(void **state)
{
    (void)state;
    begin(500);
    cancels_at(20);
    says((struct says){.answer = 0, .takes_ms = 30});
    ends(SNIB_ERR_CANCELLED, 1, 1);
    assert_int_equal(w.now_ns, 1030 * MS);
    begin(0); /* before it is told that there is no other attempt */
    cancels_at(20);
    says((struct says){.answer = 0, .takes_ms = 30});
    ends(SNIB_ERR_CANCELLED, 1, 1);
    begin(500); /* what is done is done */
    cancels_at(20);
    says((struct says){.answer = 1, .takes_ms = 30});
    ends(SNIB_ERR_OK, 1, 1);
    assert_int_equal(w.looks, 1);
}

static void a_cancel_makes_nothing_known(void **state)
{
    (void)state;
    begin(INT64_MAX);
    cancels_at(20);
    says((struct says){
        .answer = -SNIB_ERR_UNKNOWN, .asks = true, .takes_ms = 30});
    answers(-SNIB_ERR_BUSY);
    ends(SNIB_ERR_UNKNOWN, 2, 1);
    assert_string_equal(w.e.text,
                        "the commit of attempt 1 was not answered, nor until "
                        "the cancel whether it stands");
    begin(INT64_MAX); /* it is asked once, whatever was cancelled */
    cancels_at(20);
    says((struct says){
        .answer = -SNIB_ERR_UNKNOWN, .asks = true, .takes_ms = 30});
    answers(1);
    ends(SNIB_ERR_OK, 2, 1);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(what_cannot_be_asked_for_is_unknown),
        cmocka_unit_test(an_attempt_that_stands_is_done),
        cmocka_unit_test(an_attempt_that_does_not_stand_was_in_vain),
        cmocka_unit_test(it_is_asked_again_until_it_is_known),
        cmocka_unit_test(what_is_not_known_at_the_limit_is_unknown),
        cmocka_unit_test(whatever_a_question_ends_in_is_unknown),
        cmocka_unit_test(the_next_attempt_can_be_lost_as_well),
        cmocka_unit_test(what_is_cancelled_before_it_begins_does_nothing),
        cmocka_unit_test(a_cancel_ends_a_pause_within_ten_milliseconds),
        cmocka_unit_test(a_cancel_during_an_attempt_is_seen_behind_it),
        cmocka_unit_test(a_cancel_makes_nothing_known),
    };
    return RUN(cases);
}

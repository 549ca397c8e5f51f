/* api/optimistic.c: snib_version_update, its attempts, pauses and ends. */
#include "optimistic_world.h"

#include <errno.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver/clock.h"

/* -- done, in vain ------------------------------------------------------------ */

static void what_is_done_at_once_is_one_attempt(void **state)
{
    (void)state;
    begin(500);
    says((struct says){.answer = 1, .stopped = 5, .text = "not told"});
    ends(SNIB_ERR_OK, 1, 1);
    assert_int_equal(w.stopped, 0);
    assert_string_equal(w.e.text, "");
    assert_int_equal(w.call[0].number, 1);
    assert_false(w.call[0].ask);
    assert_int_equal(w.call[0].left_ms, 500);
    assert_int_equal(w.now_ns, 1000 * MS);
    assert_int_equal(strspn(w.call[0].id, "0123456789abcdef"), 32);
    assert_int_equal(strlen(w.call[0].id), 32);
}

static void who_was_slower_tries_again_upon_a_pause(void **state)
{
    (void)state;
    begin(500);
    answers(0);
    answers(0);
    answers(1);
    ends(SNIB_ERR_OK, 3, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(w.call[i].number, i + 1);
        assert_true(i == 0 || w.call[i].paused_ns > 0);
        assert_true(i == 0 || w.call[i].left_ms <= w.call[i - 1].left_ms);
        assert_true(i == 0 || strcmp(w.call[i].id, w.call[i - 1].id) != 0);
    }
    assert_string_not_equal(w.call[0].id, w.call[2].id);
}

static void two_updates_have_no_id_in_common(void **state)
{
    (void)state;
    char id[33];
    begin(0);
    answers(1);
    ends(SNIB_ERR_OK, 1, 1);
    memcpy(id, w.call[0].id, sizeof id);
    begin(0);
    answers(1);
    ends(SNIB_ERR_OK, 1, 1);
    assert_string_not_equal(id, w.call[0].id);
}

static void without_a_limit_there_is_one_attempt(void **state)
{
    (void)state;
    for (int64_t wait_ms = -1; wait_ms < 1; wait_ms++) {
        begin(wait_ms);
        answers(0);
        ends(SNIB_ERR_BUSY, 1, 1);
        assert_string_equal(
            w.e.text,
            "1 attempt in vain; the last: others had changed the row");
        assert_int_equal(w.call[0].left_ms, 0);
        assert_int_equal(w.now_ns, 1000 * MS);
    }
    begin(INT64_MIN);
    answers(0);
    assert_int_equal(update_with(NULL), SNIB_ERR_BUSY);
    assert_int_equal(w.attempts, 1);
    begin(INT64_MIN);
    answers(0);
    ends(SNIB_ERR_BUSY, 1, 1);
}

static void the_last_attempt_begins_at_the_limit(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        begin(100);
        answers(0);
        assert_int_equal(update_with(&w.o), SNIB_ERR_TIMEOUT);
        const struct call *last = &w.call[w.calls - 1];
        assert_int_equal(w.attempts, w.calls);
        assert_true(w.calls > 2);
        assert_int_equal(last->at_ns, 1100 * MS);
        assert_int_equal(last->left_ms, 0);
    }
}

static void a_millisecond_is_a_limit(void **state)
{
    (void)state;
    begin(1);
    says((struct says){.answer = 0, .text = "x"});
    assert_int_equal(update_with(&w.o), SNIB_ERR_TIMEOUT);
    assert_int_equal(w.call[0].left_ms, 1);
    assert_true(w.attempts > 1);
    assert_non_null(strstr(w.e.text, " in vain; the last: x"));
    begin(1);
    says((struct says){.answer = -SNIB_ERR_STORE, .text = "y"});
    ends(SNIB_ERR_STORE, 1, 1);
    assert_string_equal(w.e.text, "y");
}

static void
an_attempt_that_takes_longer_than_the_limit_is_the_last(void **state)
{
    (void)state;
    begin(100);
    says((struct says){.answer = 0, .takes_ms = 100});
    ends(SNIB_ERR_TIMEOUT, 1, 1);
    begin(100);
    says((struct says){.answer = 0, .takes_ms = 99});
    ends(SNIB_ERR_TIMEOUT, 2, 2);
}

static void so_many_attempts_and_no_more(void **state)
{
    (void)state;
    begin(100000);
    w.o.attempts = 3;
    answers(0);
    ends(SNIB_ERR_BUSY, 3, 3);
    assert_string_equal(
        w.e.text, "3 attempts in vain; the last: others had changed the row");
    begin(100000);
    w.o.attempts = 2;
    answers(0);
    says((struct says){.answer = 0, .text = "40P01: deadlock detected"});
    ends(SNIB_ERR_BUSY, 2, 2);
    assert_string_equal(
        w.e.text, "2 attempts in vain; the last: 40P01: deadlock detected");
}

static void no_limit_is_none(void **state)
{
    (void)state;
    begin(INT64_MAX);
    says((struct says){.answer = 0, .takes_ms = INT64_C(86400000)});
    w.o.attempts = 4000;
    ends(SNIB_ERR_BUSY, 4000, 4000);
    assert_true(w.call[0].left_ms == INT64_MAX);
    assert_true(w.call[3999].left_ms == INT64_MAX);
}

/* -- pauses ------------------------------------------------------------------- */

/* The longest and the mean pause before the n-th call of many updates. */
static void pauses(int64_t backoff_ms, int64_t max_ms, int n,
                   int64_t *ret_longest, int64_t *ret_mean)
{
    int64_t sum = 0, longest = 0;
    for (int i = 0; i < 400; i++) {
        begin(INT64_MAX);
        w.o.backoff_ms = backoff_ms;
        w.o.backoff_max_ms = max_ms;
        w.o.attempts = (uint32_t)n + 1;
        answers(0);
        ends(SNIB_ERR_BUSY, n + 1, (uint32_t)n + 1);
        int64_t ns = w.call[n].paused_ns;
        sum += ns;
        longest = ns > longest ? ns : longest;
    }
    *ret_longest = longest;
    *ret_mean = sum / 400;
}

static void pauses_grow_up_to_a_bound_and_are_random(void **state)
{
    (void)state;
    static const struct {
        int64_t backoff_ms, max_ms;
        int n;
        int64_t top_ms;
    } rows[] = {
        {0, 0, 1, 2},         {0, 0, 2, 4},  {0, 0, 5, 32},
        {0, 0, 6, 64},        {0, 0, 7, 64}, {0, 0, 60, 64},
        {3, 0, 1, 6},         {3, 5, 1, 5},  {3, 17, 2, 12},
        {3, 17, 3, 17},       {0, 1, 3, 1},  {9000, 60000, 9, 60000},
        {INT64_MAX, 7, 1, 7},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t longest, mean, top = rows[i].top_ms * MS;
        pauses(rows[i].backoff_ms, rows[i].max_ms, rows[i].n, &longest, &mean);
        assert_true(longest <= top && longest > top / 10 * 9);
        assert_true(mean > top / 10 * 4 && mean < top / 10 * 6);
    }
}

static void a_pause_is_cut_at_the_limit(void **state)
{
    (void)state;
    begin(5);
    w.o.backoff_ms = 60000;
    w.o.backoff_max_ms = 60000;
    answers(0);
    ends(SNIB_ERR_TIMEOUT, 2, 2);
    assert_int_equal(w.call[1].at_ns, 1005 * MS);
}

/* -- what the step says ----------------------------------------------------------- */

static void an_error_ends_it_and_is_handed_on(void **state)
{
    (void)state;
    for (snib_err err = SNIB_ERR_BUSY; err <= SNIB_ERR_TOO_MANY; err++) {
        if (err == SNIB_ERR_UNKNOWN) {
            continue;
        }
        begin(500);
        answers(0);
        says((struct says){
            .answer = -(int)err, .stopped = -3, .text = "as it said"});
        ends(err, 2, 2);
        assert_string_equal(w.e.text, "as it said");
        assert_int_equal(w.stopped, -3);
        begin(500);
        answers(-(int)err);
        ends(err, 1, 1);
        assert_string_equal(w.e.text, snib_err_text(err));
        assert_int_equal(w.stopped, 0);
    }
}

static void what_kept_the_last_attempt_is_told(void **state)
{
    (void)state;
    static const int64_t wait_ms[] = {0, 50};
    for (size_t i = 0; i < COUNT_OF(wait_ms); i++) {
        begin(wait_ms[i]);
        says((struct says){.answer = 0,
                           .why = SNIB_ERR_UNREACHABLE,
                           .text = "connection refused"});
        assert_int_equal(update_with(&w.o), SNIB_ERR_UNREACHABLE);
        assert_string_equal(w.e.text, "connection refused");
        assert_true((w.attempts > 1) == (wait_ms[i] > 0));
    }
    begin(500); /* and is forgotten by the next one */
    w.o.attempts = 2;
    says((struct says){.answer = 0, .why = SNIB_ERR_UNREACHABLE, .text = "x"});
    answers(0);
    ends(SNIB_ERR_BUSY, 2, 2);
}

static void a_step_that_wants_no_more_ends_it(void **state)
{
    (void)state;
    begin(500);
    answers(0);
    says((struct says){.answer = 0, .stopped = 42, .text = "sold out"});
    ends(SNIB_ERR_OK, 2, 2);
    assert_int_equal(w.stopped, 42);
    assert_string_equal(w.e.text, "");
}

static void a_number_that_is_no_answer_is_a_mistake(void **state)
{
    (void)state;
    static const int rows[] = {2,     7,      INT_MAX,
                               -999,  -1000,  -(int)SNIB_ERR_TOO_MANY - 1,
                               -1001, INT_MIN};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char said[32];
        begin(500);
        answers(rows[i]);
        ends(SNIB_ERR_USAGE, 1, 1);
        snprintf(said, sizeof said, "answered %d;", rows[i]);
        assert_non_null(strstr(w.e.text, said));
    }
}

static void a_text_is_one_line(void **state)
{
    (void)state;
    char long_one[300];
    begin(0);
    says((struct says){.answer = -SNIB_ERR_STORE,
                       .text = "server\n\tgone\x7f \x80 \r\n"});
    ends(SNIB_ERR_STORE, 1, 1);
    assert_string_equal(w.e.text, "server  gone  \x80");
    begin(0);
    says((struct says){.answer = -SNIB_ERR_STORE, .text = "\n \n"});
    ends(SNIB_ERR_STORE, 1, 1);
    assert_string_equal(w.e.text, snib_err_text(SNIB_ERR_STORE));
    memset(long_one, 'x', sizeof long_one - 1);
    long_one[sizeof long_one - 1] = 0;
    begin(0);
    says((struct says){.answer = -SNIB_ERR_STORE, .text = long_one});
    ends(SNIB_ERR_STORE, 1, 1);
    assert_int_equal(strlen(w.e.text), 199);
}

/* Nothing that a step writes may be read beyond its end. */
static int fills_all(void *data, struct snib_version_attempt *a)
{
    (void)data;
    memset(a->text, 'y', sizeof a->text);
    return -SNIB_ERR_STORE;
}

static void a_text_without_an_end_is_given_one(void **state)
{
    (void)state;
    struct snib_error e;
    assert_int_equal(snib_version_update(NULL, fills_all, NULL, NULL, NULL, &e),
                     SNIB_ERR_STORE);
    assert_int_equal(strspn(e.text, "y"), 199);
    assert_int_equal(strlen(e.text), 199);
}

/* -- the arguments ---------------------------------------------------------------------- */

static void a_wrong_option_is_told_before_anything_is_done(void **state)
{
    (void)state;
    static const struct snib_version_options rows[] = {
        {.size = 4},
        {.size = sizeof rows[0], .backoff_ms = -1},
        {.size = sizeof rows[0], .backoff_max_ms = -1},
        {.size = sizeof rows[0], .backoff_max_ms = 60001},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        begin(0);
        answers(1);
        w.o = rows[i];
        ends(SNIB_ERR_USAGE, 0, 0);
        assert_int_equal(w.stopped, 0);
        assert_non_null(strstr(w.e.text, i ? "backoff" : "version options"));
    }
    int stopped = 7;
    uint32_t attempts = 7;
    assert_int_equal(
        snib_version_update(NULL, NULL, NULL, &stopped, &attempts, &w.e),
        SNIB_ERR_USAGE);
    assert_non_null(strstr(w.e.text, "step must not be NULL"));
    assert_int_equal(stopped, 0);
    assert_int_equal(attempts, 0);
}

static void without_random_numbers_there_is_no_attempt(void **state)
{
    (void)state;
    begin(500);
    w.seed_fails = SNIB_ERR_CONFIG;
    answers(1);
    ends(SNIB_ERR_CONFIG, 0, 0);
    assert_string_equal(w.e.text, "no dice");
}

/* -- the real clock ------------------------------------------------------------------------ */

static int always_slower(void *data, struct snib_version_attempt *a)
{
    (void)a;
    ++*(int *)data;
    return 0;
}

static int third_time(void *data, struct snib_version_attempt *a)
{
    (void)data;
    return a->number == 3;
}

static bool at_once(void *data)
{
    (void)data;
    return true;
}

static void it_keeps_the_limit_by_the_real_clock(void **state)
{
    (void)state;
    struct snib_version_options o = SNIB_INIT(snib_version_options);
    struct snib_error e;
    int calls = 0;
    uint32_t attempts;
    o.wait_ms = 30;
    snib_instant from = snib__boottime();
    assert_int_equal(
        snib_version_update(&o, always_slower, &calls, NULL, &attempts, &e),
        SNIB_ERR_TIMEOUT);
    assert_true(snib__between(from, snib__boottime()).ns >= 30 * MS);
    assert_true(calls > 1 && calls < 1000); /* it sleeps */
    assert_int_equal(attempts, calls);
    o.wait_ms = INT64_MAX;
    assert_int_equal(
        snib_version_update(&o, third_time, NULL, NULL, &attempts, NULL),
        SNIB_ERR_OK);
    assert_int_equal(attempts, 3);
    o.cancelled = at_once;
    assert_int_equal(snib_version_update(&o, third_time, NULL, NULL, NULL, &e),
                     SNIB_ERR_CANCELLED);
}

static void a_forked_child_may_call_it(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        struct snib_version_options o = SNIB_INIT(snib_version_options);
        o.wait_ms = INT64_MAX;
        _exit(snib_version_update(&o, third_time, NULL, NULL, NULL, NULL) ==
                      SNIB_ERR_OK
                  ? 33
                  : 1);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 33);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(what_is_done_at_once_is_one_attempt),
        cmocka_unit_test(who_was_slower_tries_again_upon_a_pause),
        cmocka_unit_test(two_updates_have_no_id_in_common),
        cmocka_unit_test(without_a_limit_there_is_one_attempt),
        cmocka_unit_test(the_last_attempt_begins_at_the_limit),
        cmocka_unit_test(a_millisecond_is_a_limit),
        cmocka_unit_test(
            an_attempt_that_takes_longer_than_the_limit_is_the_last),
        cmocka_unit_test(so_many_attempts_and_no_more),
        cmocka_unit_test(no_limit_is_none),
        cmocka_unit_test(pauses_grow_up_to_a_bound_and_are_random),
        cmocka_unit_test(a_pause_is_cut_at_the_limit),
        cmocka_unit_test(an_error_ends_it_and_is_handed_on),
        cmocka_unit_test(what_kept_the_last_attempt_is_told),
        cmocka_unit_test(a_step_that_wants_no_more_ends_it),
        cmocka_unit_test(a_number_that_is_no_answer_is_a_mistake),
        cmocka_unit_test(a_text_is_one_line),
        cmocka_unit_test(a_text_without_an_end_is_given_one),
        cmocka_unit_test(a_wrong_option_is_told_before_anything_is_done),
        cmocka_unit_test(without_random_numbers_there_is_no_attempt),
        cmocka_unit_test(it_keeps_the_limit_by_the_real_clock),
        cmocka_unit_test(a_forked_child_may_call_it),
    };
    return RUN(cases);
}

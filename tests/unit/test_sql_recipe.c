/* store/sql/recipe: locks in a table by which others lock, too. */
#include "recipe_dice.h"

/* -- a free lock ----------------------------------------------------------- */

static void a_row_that_is_not_there_is_made(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    char by[SNIB__RECIPE_BY];
    (void)state;
    int64_t before = w.now;
    assert_int_equal(run(&r), SNIB__DONE);
    assert_true(r.token > 0);
    assert_int_equal(r.acquire.reserve, 0);
    assert_int_equal(r.said.left.ns, r.lease.ns);
    /* The lease counts from before the statement that took the row. */
    assert_true(r.said.valid_from.ns >= before);
    assert_true(r.said.valid_from.ns + r.lease.ns <= w.until * 1000);
    /* A column of milliseconds may round half of one down. */
    assert_true(w.until - w.at >= r.lease.ns / 1000 + 500);
    snib__sql_recipe_by(&w.recipe, r.id, r.token, by);
    assert_string_equal(w.by, by);
}

static void a_row_that_is_free_is_taken_with_a_higher_token(void **state)
{
    int64_t last = 0;
    (void)state;
    for (uint64_t i = 1; i < 6; i++) {
        struct snib__request r = verb(SNIB__ACQUIRE, i);
        if (i == 3) { /* the clock is set back */
            w.now -= 3600 * SECOND;
            w.until = 0;
        }
        assert_int_equal(run(&r), SNIB__DONE);
        assert_true(r.token > last);
        last = r.token;
        w.now = w.until * 1000;
    }
}

static void tokens_rise_over_what_others_have_locked(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    they_take();
    w.at += 5000000; /* µs ahead of the clock */
    they_end();
    assert_int_equal(run(&r), SNIB__DONE);
    assert_true(r.token > w.at / 1000 * 1024);
    assert_false(r.said.far);
}

static void another_clock_than_the_databases_drives_no_token_away(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    they_take();
    w.at += INT64_C(400) * 86400 * 1000000;
    they_end();
    assert_int_equal(run(&r), SNIB__DONE);
    assert_true(r.token < (w.now / MS + 1000) * 1024);
}

static void a_token_is_above_what_the_client_has_seen(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    r.floor = (w.now / MS + 2 * 86400000) * 1024;
    assert_int_equal(run(&r), SNIB__DONE);
    assert_int_equal(r.token, r.floor + 1);
    assert_true(r.said.far);
    struct snib__request other = verb(SNIB__ACQUIRE, 2);
    other.floor = SNIB__TOKEN_END - 1;
    w.until = 0;
    assert_int_equal(run(&other), SNIB__NOT_APPLIED);
    assert_int_equal(other.said.err, SNIB_ERR_CORRUPT);
}

/* -- held by another ------------------------------------------------------- */

static void what_others_hold_is_not_taken(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    they_take();
    assert_int_equal(run(&r), SNIB__NO);
    assert_int_equal(r.said.err, SNIB_ERR_BUSY);
    assert_in_range(r.said.left.ns, 59 * SECOND, 60 * SECOND);
    r.acquire.may_queue = true;
    assert_int_equal(run(&r), SNIB__QUEUED);
    assert_int_equal(w.changes, 0);
    w.now = w.until * 1000 + MS;
    assert_int_equal(run(&r), SNIB__DONE);
}

static void who_is_slower_than_others_waits(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    they_take();
    they_end();
    r.acquire.may_queue = true;
    w.meanwhile = they_take;
    w.meanwhile_at = 1; /* between its look and its statement */
    assert_int_equal(run(&r), SNIB__QUEUED);
    assert_string_equal(w.by, "their-host");
}

/* -- a grant --------------------------------------------------------------- */

static void a_renewal_extends_and_never_shortens(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    assert_int_equal(run(&r), SNIB__DONE);
    w.now += SECOND;
    struct snib__request renew = verb_of(SNIB__RENEW, &r);
    assert_int_equal(run(&renew), SNIB__DONE);
    assert_int_equal(renew.said.left.ns, 10 * SECOND);
    int64_t until = w.until;
    assert_true(renew.said.valid_from.ns + 10 * SECOND <= until * 1000);
    renew.lease.ns = SECOND;
    assert_int_equal(run(&renew), SNIB__DONE);
    assert_int_equal(w.until, until);
    assert_int_equal(renew.said.left.ns, SECOND);
}

static void a_question_extends_nothing(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    assert_int_equal(run(&r), SNIB__DONE);
    int64_t until = w.until;
    struct snib__request ask = verb_of(SNIB__RENEW, &r);
    ask.renew.only_asks = true;
    assert_int_equal(run(&ask), SNIB__DONE);
    assert_int_equal(w.until, until);
}

static void what_others_have_taken_is_lost(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    assert_int_equal(run(&r), SNIB__DONE);
    w.now = w.until * 1000;
    struct snib__request renew = verb_of(SNIB__RENEW, &r);
    assert_int_equal(run(&renew), SNIB__NO);
    assert_true(renew.said.forgotten);
    they_take();
    assert_int_equal(run(&renew), SNIB__NO);
    assert_int_equal(renew.said.err, SNIB_ERR_LOST);
    assert_false(renew.said.forgotten);
    struct snib__request release = verb_of(SNIB__RELEASE, &r);
    assert_int_equal(run(&release), SNIB__NO);
    assert_true(w.until > us()); /* theirs stands */
}

static void a_release_ends_it_at_once(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    assert_int_equal(run(&r), SNIB__DONE);
    struct snib__request release = verb_of(SNIB__RELEASE, &r);
    assert_int_equal(run(&release), SNIB__DONE);
    assert_true(w.until <= us());
    release.resent = true;
    assert_int_equal(run(&release), SNIB__NO);
}

static void an_acquire_ends_its_prior_grant_first(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1),
                         next = verb(SNIB__ACQUIRE, 2);
    (void)state;
    assert_int_equal(run(&r), SNIB__DONE);
    next.token = r.token;
    memcpy(next.prior_id, r.id, sizeof r.id);
    assert_int_equal(run(&next), SNIB__DONE);
    assert_true(next.token > r.token);
    struct snib__request renew = verb_of(SNIB__RENEW, &r);
    assert_int_equal(run(&renew), SNIB__NO);
}

/* -- repeats --------------------------------------------------------------- */

static void a_repeat_of_what_was_granted_is_the_same_grant(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    w.ends[1] = SNIB__SQL_LOST;
    w.done_all_the_same[1] = true;
    assert_int_equal(run(&r), SNIB__UNKNOWN);
    int64_t at = w.at;
    r.resent = true;
    assert_int_equal(run(&r), SNIB__DONE);
    assert_int_equal(w.at, at);
    assert_true(r.said.valid_from.ns + r.said.left.ns <= w.until * 1000);
    struct snib__request release = verb_of(SNIB__RELEASE, &r);
    assert_int_equal(run(&release), SNIB__DONE);
}

static void a_repeat_that_comes_too_late_is_not_granted(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    w.ends[1] = SNIB__SQL_LOST;
    w.done_all_the_same[1] = true;
    assert_int_equal(run(&r), SNIB__UNKNOWN);
    w.script = 0;
    w.ends[1] = SNIB__SQL_OK;
    w.meanwhile = they_take; /* its lease ends between look and renewal */
    w.meanwhile_at = 1;
    assert_int_equal(run(&r), SNIB__NO);
    assert_string_equal(w.by, "their-host");
}

static void a_look_that_is_lost_has_done_nothing(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    w.ends[0] = SNIB__SQL_LOST;
    assert_int_equal(run(&r), SNIB__PENDING);
    w.ends[1] = SNIB__SQL_DOWN;
    r.exec.impatient = true;
    assert_int_equal(run(&r), SNIB__NOT_APPLIED);
    assert_int_equal(w.changes, 0);
}

/* Who stands behind it in the same call is not told that the server is silent. */
static void a_server_that_answers_is_heard(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    w.ends[0] = SNIB__SQL_LOST;
    assert_int_equal(run(&r), SNIB__PENDING);
    assert_int_equal(r.exec.heard, 0);
    assert_int_equal(run(&r), SNIB__DONE);
    assert_int_equal(r.exec.heard, w.now);
}

static void conflicts_are_tried_again_for_a_while(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    w.ends[0] = w.ends[2] = SNIB__SQL_CONFLICT;
    assert_int_equal(run(&r), SNIB__DONE);
    they_end();
    struct snib__request other = verb(SNIB__ACQUIRE, 2);
    other.exec.impatient = true;
    w.script = 0;
    for (int i = 0; i < HURDLES; i++) {
        w.ends[i] = SNIB__SQL_CONFLICT;
    }
    assert_int_equal(run(&other), SNIB__PENDING);
    assert_int_equal(other.said.err, SNIB_ERR_UNREACHABLE);
    assert_true(other.exec.blocked);
}

/* -- what is executed late ------------------------------------------------- */

static void acquire_is_on_its_way(struct snib__request *r)
{
    w.script = 0;
    w.ends[0] = SNIB__SQL_OK;
    w.ends[1] = SNIB__SQL_LOST;
    w.keeps_for_later[1] = true;
    w.lates = 0;
    assert_int_equal(run(r), SNIB__UNKNOWN);
    w.ends[1] = SNIB__SQL_OK;
}

static void no_late_acquire_takes_what_its_client_has_given_up(void **state)
{
    (void)state;
    for (int there = 0; there < 2; there++) {
        struct snib__request r = verb(SNIB__ACQUIRE, 1 + (uint64_t)there);
        w.there = there;
        w.until = 0;
        acquire_is_on_its_way(&r);
        struct snib__request cancel = verb_of(SNIB__CANCEL, &r);
        cancel.token = 0;
        assert_int_equal(run(&cancel), SNIB__DONE);
        assert_int_equal(cancel.said.granted, 0);
        execute_late();
        assert_true(w.until <= us());
    }
}

/* Its first copy had the lock, unheard; the lease is over. */
static void no_late_acquire_takes_again_what_it_had_itself(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1),
                         cancel = verb(SNIB__CANCEL, 1);
    (void)state;
    w.ends[1] = SNIB__SQL_LOST;
    w.done_all_the_same[1] = true;
    assert_int_equal(run(&r), SNIB__UNKNOWN);
    w.done_all_the_same[1] = false;
    w.now = w.until * 1000;
    acquire_is_on_its_way(&r);
    assert_true(w.until <= us());
    assert_int_equal(run(&cancel), SNIB__DONE);
    assert_int_equal(cancel.said.granted, 0);
    assert_true(w.lates > 0);
    execute_late();
    assert_true(w.until <= us());
}

static void no_late_acquire_takes_what_others_had_meanwhile(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    they_come_and_go();
    acquire_is_on_its_way(&r);
    they_come_and_go();
    execute_late();
    assert_string_equal(w.by, "their-host");
    assert_true(w.until <= us());
}

static void no_acquire_is_executed_after_its_time(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    acquire_is_on_its_way(&r);
    w.now += 11 * SECOND;
    execute_late();
    assert_false(w.there);
}

static void no_late_renewal_or_release_touches_the_next_grant(void **state)
{
    static const snib__verb verbs[] = {SNIB__RENEW, SNIB__RELEASE,
                                       SNIB__CANCEL};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct snib__request r = verb(SNIB__ACQUIRE, 10 + (uint64_t)i);
        w.lates = 0;
        w.until = 0;
        assert_int_equal(run(&r), SNIB__DONE);
        w.script = 0;
        memset(w.ends, 0, sizeof w.ends);
        memset(w.keeps_for_later, 0, sizeof w.keeps_for_later);
        int at = verbs[i] == SNIB__CANCEL; /* which looks first */
        w.ends[at] = SNIB__SQL_LOST;
        w.keeps_for_later[at] = true;
        struct snib__request late = verb_of(verbs[i], &r);
        late.token = verbs[i] == SNIB__CANCEL ? 0 : late.token;
        assert_int_equal(run(&late), SNIB__UNKNOWN);
        assert_true(w.lates > 0);
        w.now = w.until * 1000;
        they_take();
        int64_t until = w.until;
        execute_late();
        assert_int_equal(w.until, until);
        they_end();
    }
}

/* -- cancels --------------------------------------------------------------- */

static void a_cancel_ends_what_was_granted_unheard(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1);
    (void)state;
    w.ends[1] = SNIB__SQL_LOST;
    w.done_all_the_same[1] = true;
    assert_int_equal(run(&r), SNIB__UNKNOWN);
    struct snib__request cancel = verb(SNIB__CANCEL, 1);
    assert_int_equal(run(&cancel), SNIB__DONE);
    assert_true(cancel.said.granted > 0);
    assert_true(w.until <= us());
    assert_int_equal(run(&cancel), SNIB__DONE);
    assert_int_equal(cancel.said.granted, 0);
}

static void a_cancel_leaves_what_others_hold(void **state)
{
    struct snib__request cancel = verb(SNIB__CANCEL, 1);
    (void)state;
    they_take();
    int64_t until = w.until;
    assert_int_equal(run(&cancel), SNIB__DONE);
    assert_int_equal(w.until, until);
    assert_string_equal(w.by, "their-host");
    assert_int_equal(w.changes, 0);
}

static void a_cancel_ends_a_prior_grant_too(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1),
                         cancel = verb(SNIB__CANCEL, 2);
    (void)state;
    assert_int_equal(run(&r), SNIB__DONE);
    cancel.token = r.token;
    memcpy(cancel.prior_id, r.id, sizeof r.id);
    assert_int_equal(run(&cancel), SNIB__DONE);
    assert_true(w.until <= us());
}

static void the_mark_of_a_cancel_keeps_the_last_token(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1),
                         cancel = verb(SNIB__CANCEL, 2),
                         next = verb(SNIB__ACQUIRE, 3);
    (void)state;
    assert_int_equal(run(&r), SNIB__DONE);
    w.until = 0;
    assert_int_equal(run(&cancel), SNIB__DONE);
    w.now -= 3600 * SECOND;
    assert_int_equal(run(&next), SNIB__DONE);
    assert_true(next.token > r.token);
}

/* -- looks ----------------------------------------------------------------- */

static bool result_has(const char *text)
{
    return memmem(snib__buf_bytes(&w.result), snib__buf_size(&w.result), text,
                  strlen(text)) != NULL;
}

static void a_look_shows_who_holds_it(void **state)
{
    struct snib__request r = verb(SNIB__ACQUIRE, 1),
                         look = verb(SNIB__INSPECT, 2);
    (void)state;
    assert_int_equal(run(&r), SNIB__DONE);
    assert_int_equal(run(&look), SNIB__DONE);
    assert_true(result_has("host=host"));
    assert_false(result_has("not%20snib"));
    snib__buf_clear(&w.result);
    they_take();
    assert_int_equal(run(&look), SNIB__DONE);
    assert_true(result_has("host=their-host"));
    assert_true(result_has("not%20snib"));
}

static void a_list_shows_what_is_held_and_fits(void **state)
{
    struct snib__request list = verb(SNIB__LIST, 2);
    (void)state;
    they_take();
    list.name = NULL;
    list.text = "b*";
    list.text_size = 2;
    assert_int_equal(run(&list), SNIB__DONE);
    assert_int_equal(snib__buf_size(&w.result), 0);
    list.text = "a*";
    assert_int_equal(run(&list), SNIB__DONE);
    assert_true(result_has("their-host"));
    snib__buf_clear(&w.result);
    list.list.awaited_only = true;
    assert_int_equal(run(&list), SNIB__DONE);
    assert_int_equal(snib__buf_size(&w.result), 0);
    list.list.awaited_only = false;
    list.exec.impatient = true;
    w.ends[w.script] = SNIB__SQL_LOST;
    assert_int_equal(run(&list), SNIB__NOT_APPLIED);
}

#define ZEROS "000000000000000000000000000000"

static void what_is_written_like_ours_and_is_not_is_theirs(void **state)
{
    static const char *const by[] = {
        "snib:",
        "snib:h:",
        "snib:h:0123456789abcdef0123456789abcdef",
        "snib:h:0123456789abcdef0123456789abcdef:",
        "snib:h:0123456789abcdef0123456789abcdef:-1",
        "snib:h:0123456789abcdef0123456789abcdef:9x",
        "snib:h:0123456789abcdef0123456789abcdef:9007199254740992",
        "snib:h:0123456789ABCDEF0123456789abcdef:9",
        "snob:h:0123456789abcdef0123456789abcdef:9",
        "snib:h:0123456789abcdef0123456789abcdef:" ZEROS ZEROS ZEROS ZEROS "9"};
    (void)state;
    for (size_t i = 0; i < sizeof by / sizeof by[0]; i++) {
        struct snib__request r = verb(SNIB__ACQUIRE, i + 1),
                             look = verb(SNIB__INSPECT, 99);
        take(SECOND / 1000, by[i]);
        snib__buf_clear(&w.result);
        assert_int_equal(run(&look), SNIB__DONE);
        assert_true(result_has("not%20snib"));
        assert_int_equal(run(&r), SNIB__NO);
        they_end();
        assert_int_equal(run(&r), SNIB__DONE);
        w.until = 0;
    }
}

/* By hand, mostly. */
static void what_is_held_for_ever_is_shown_as_held(void **state)
{
    struct snib__request look = verb(SNIB__INSPECT, 1),
                         r = verb(SNIB__ACQUIRE, 2);
    struct snib__rec row;
    bool holder = false;
    (void)state;
    they_take();
    w.until = INT64_C(253402300799) * 1000000; /* the end of the year 9999 */
    assert_int_equal(run(&r), SNIB__NO);
    assert_true(r.said.left.ns > 0);
    assert_int_equal(run(&look), SNIB__DONE);
    snib__rec_begin(&row, snib__buf_bytes(&w.result),
                    snib__buf_size(&w.result));
    while (snib__rec_next_row(&row)) {
        holder = holder || row.row == SNIB__ROW_HOLDER;
        while (snib__rec_next_field(&row)) {
            assert_true(row.field != SNIB__F_LEFT ||
                        snib__rec_value_i64(&row) > 0);
        }
    }
    assert_true(holder);
}

/* -- what there is not ----------------------------------------------------- */

static void what_their_table_has_not_is_unsupported(void **state)
{
    static const snib__verb verbs[] = {SNIB__FORCE,        SNIB__PARAMS,
                                       SNIB__VALUE_GET,    SNIB__VALUE_PUT,
                                       SNIB__VALUE_DELETE, SNIB__RECOVERY};
    (void)state;
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        struct snib__request r = verb(verbs[i], 1);
        assert_int_equal(run(&r), SNIB__NOT_APPLIED);
        assert_int_equal(r.said.err, SNIB_ERR_UNSUPPORTED);
    }
    struct snib__request kind = verb(SNIB__ACQUIRE, 1), delay = kind,
                         priority = kind;
    kind.acquire.kind = SNIB_KIND_READ;
    delay.acquire.delay.ns = 1;
    priority.acquire.priority = 1;
    assert_int_equal(run(&kind), SNIB__NOT_APPLIED);
    assert_int_equal(run(&delay), SNIB__NOT_APPLIED);
    assert_int_equal(run(&priority), SNIB__NOT_APPLIED);
    assert_int_equal(w.script, 0);
}

static void a_check_up_needs_no_connection_first(void **state)
{
    struct snib__request doctor = verb(SNIB__DOCTOR, 1),
                         r = verb(SNIB__ACQUIRE, 2);
    (void)state;
    w.down = SNIB__SQL_DOWN;
    assert_int_equal(run(&doctor), SNIB__DONE);
    assert_true(result_has("seen"));
    assert_int_equal(run(&r), SNIB__PENDING);
    assert_int_equal(w.script, 0);
}

static void an_answer_for_which_there_is_no_memory_is_none(void **state)
{
    struct snib__request look = verb(SNIB__INSPECT, 2);
    (void)state;
    w.result.failed = true;
    assert_int_equal(run(&look), SNIB__NOT_APPLIED);
    assert_int_equal(look.said.err, SNIB_ERR_NOMEM);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(a_row_that_is_not_there_is_made),
        CASE(a_row_that_is_free_is_taken_with_a_higher_token),
        CASE(tokens_rise_over_what_others_have_locked),
        CASE(another_clock_than_the_databases_drives_no_token_away),
        CASE(a_token_is_above_what_the_client_has_seen),
        CASE(what_others_hold_is_not_taken),
        CASE(who_is_slower_than_others_waits),
        CASE(a_renewal_extends_and_never_shortens),
        CASE(a_question_extends_nothing),
        CASE(what_others_have_taken_is_lost),
        CASE(a_release_ends_it_at_once),
        CASE(an_acquire_ends_its_prior_grant_first),
        CASE(a_repeat_of_what_was_granted_is_the_same_grant),
        CASE(a_repeat_that_comes_too_late_is_not_granted),
        CASE(a_look_that_is_lost_has_done_nothing),
        CASE(a_server_that_answers_is_heard),
        CASE(conflicts_are_tried_again_for_a_while),
        CASE(no_late_acquire_takes_what_its_client_has_given_up),
        CASE(no_late_acquire_takes_again_what_it_had_itself),
        CASE(no_late_acquire_takes_what_others_had_meanwhile),
        CASE(no_acquire_is_executed_after_its_time),
        CASE(no_late_renewal_or_release_touches_the_next_grant),
        CASE(a_cancel_ends_what_was_granted_unheard),
        CASE(a_cancel_leaves_what_others_hold),
        CASE(a_cancel_ends_a_prior_grant_too),
        CASE(the_mark_of_a_cancel_keeps_the_last_token),
        CASE(a_look_shows_who_holds_it),
        CASE(a_list_shows_what_is_held_and_fits),
        CASE(what_is_held_for_ever_is_shown_as_held),
        CASE(what_is_written_like_ours_and_is_not_is_theirs),
        CASE(what_their_table_has_not_is_unsupported),
        CASE(a_check_up_needs_no_connection_first),
        CASE(an_answer_for_which_there_is_no_memory_is_none),
        CASE(two_never_believe_whatever_is_lost_or_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

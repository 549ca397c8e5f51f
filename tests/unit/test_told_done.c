/* tests/unit/test_told_done.c — what SNIB_EVENT_DONE says, and leaves where the
 * results go, is what the blocking form says. labels: thread
 *
 * Most cases have no rows of their own in tests/told.tsv: they go through those
 * of the blocking forms. */
#include "snib/inspect.h"
#include "told_sick.h"
#include "told_started.h"

#define TOLD "unit.told_done"

/* -- what the event says --------------------------------------------------------- */

static void each_answer(const char *of_case, struct scene scene)
{
    scene.more |= SOME;
    each_row_of("unit.told_store", of_case, answers, COUNT_OF(answers), &scene);
    scene.more |= PULL;
    each_row_of("unit.told_store", of_case, answers, COUNT_OF(answers), &scene);
}

static void what_is_well_is_done(void **state)
{
    (void)state;
    each_answer("what_is_well_is_told_as_done", (struct scene){0});
}

static void what_the_store_says_comes_with_the_event(void **state)
{
    (void)state;
    each_answer("what_the_store_says_is_handed_on",
                (struct scene){.show = show_sick});
}

static void what_is_not_answered_ends_by_itself(void **state)
{
    (void)state;
    each_answer(
        "what_is_sent_and_not_answered_is_told_so",
        (struct scene){.more = HASTY, .set = mute, .show = show_unanswered});
}

/* -- a reply is lost -------------------------------------------------------------------- */

static snib_err with_lost_replies(const struct call *call, unsigned more,
                                  uint32_t replies)
{
    struct world w;
    world_begin(&w, call->needs | more | NO_TEXT);
    must(snib_test_drop_replies(w.c, replies));
    snib_err got = run_call(call, &w);
    must_say(call, got, got);
    world_end(&w);
    return got;
}

/* As its blocking form does: what may be sent again is, what may not be ends
 * UNKNOWN, or UNREACHABLE. */
static void a_lost_reply_is_mended_as_for_the_blocking_form(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        const char *f = answers[i].function;
        const struct call *blocks = call_named(calls, COUNT_OF(calls), f);
        for (uint32_t replies = 1; replies <= 3; replies++) {
            snib_err want = with_lost_replies(blocks, HASTY, replies);
            snib_err got = with_lost_replies(&answers[i], HASTY, replies);
            snib_err pull =
                with_lost_replies(&answers[i], HASTY | PULL, replies);
            if (got != want || pull != want) {
                fail_msg("%s, %u replies lost: %s, in a pull client %s; its "
                         "blocking form: %s",
                         f, replies, snib_err_name(got), snib_err_name(pull),
                         snib_err_name(want));
            }
        }
    }
}

/* -- the client's end comes first --------------------------------------------------------- */

/* Does told.tsv know of this result? */
static bool may_end_in(const char *function, const char *result)
{
    char line[512], want[128];
    bool found = false;
    FILE *rows = fopen(SNIB_TESTS "/told.tsv", "re");
    assert_non_null(rows);
    snprintf(want, sizeof want, "%s\t%s\t", function, result);
    while (!found && fgets(line, sizeof line, rows)) {
        found = strncmp(line, want, strlen(want)) == 0;
    }
    (void)fclose(rows);
    return found;
}

/* Started in a pull client that is not driven: it cannot be answered. */
static void begin_unanswered(struct world *w, const struct call *call)
{
    world_begin(w, call->needs | PULL | HASTY);
    must(call->run(w));
}

static snib_err event_now(struct world *w)
{
    struct snib_event ev;
    do {
        if (!snib_client_next(w->c, &ev, sizeof ev)) {
            fail_msg("there is no event");
        }
    } while (ev.kind == SNIB_EVENT_STATE);
    assert_int_equal(ev.kind, SNIB_EVENT_DONE);
    assert_int_equal(ev.grant.ticket, w->ticket);
    e = ev.error;
    return ev.error.code;
}

/* A drain and a campaign are acquires: what is cancelled of them, the store has
 * to say. A resignation is a release, and is not cancelled. The same goes for
 * several locks, rings and policies. An update reads first: unit.sequences. */
static bool asks(const struct call *call)
{
    static const char *const not [] = {
        "snib_semaphore_drain_start", "snib_elect_campaign_start",
        "snib_elect_try_start",       "snib_elect_try_for_start",
        "snib_elect_resign_start",    "snib_multi_acquire_start",
        "snib_multi_try_start",       "snib_multi_try_for_start",
        "snib_multi_release_start",   "snib_ring_join_start",
        "snib_ring_try_start",        "snib_ring_try_for_start",
        "snib_ring_leave_start",      "snib_policy_run_start",
        "snib_policy_try_start",      "snib_policy_try_for_start",
        "snib_value_update_start",    "snib_value_try_start",
        "snib_value_try_for_start"};
    for (size_t i = 0; i < COUNT_OF(not ); i++) {
        if (strcmp(not [i], call -> function) == 0) {
            return false;
        }
    }
    return true;
}

static snib_err given_up(const struct call *call, snib_err why)
{
    char blocking[64];
    snprintf(blocking, sizeof blocking, "%.*s",
             (int)(strlen(call->function) - strlen("_start")), call->function);
    return may_end_in(blocking, "UNKNOWN") ? SNIB_ERR_UNKNOWN : why;
}

static void what_is_cancelled_ends_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        struct world w;
        if (asks(&starts[i])) {
            begin_unanswered(&w, &starts[i]);
            snib_client_cancel(w.c, w.ticket);
            must_say(&starts[i], event_now(&w),
                     given_up(&starts[i], SNIB_ERR_CANCELLED));
            snib_client_cancel(w.c, w.ticket); /* not known any more */
            struct snib_event ev;
            assert_false(snib_client_next(w.c, &ev, sizeof ev));
            world_end(&w);
        }
    }
}

static void what_close_finds_ends_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        struct world w;
        struct snib_event ev;
        if (!asks(&starts[i])) {
            continue;
        }
        begin_unanswered(&w, &starts[i]);
        snib_client_close(w.c);
        if (strcmp(starts[i].function, "snib_renew_start") == 0) {
            assert_false(
                snib_client_next(w.c, &ev, sizeof ev)); /* it goes on */
            snib_client_stop(w.c);
            must_say(&starts[i], event_now(&w), SNIB_ERR_CLOSED);
        } else {
            must_say(&starts[i], event_now(&w),
                     given_up(&starts[i], SNIB_ERR_CLOSED));
        }
        world_end(&w);
    }
}

/* After stop the events are still there; and the results are written. */
static void what_stop_finds_is_told_afterwards(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        struct world w;
        if (!asks(&starts[i])) {
            continue;
        }
        begin_unanswered(&w, &starts[i]);
        snib_client_stop(w.c);
        snib_err want = given_up(&starts[i], SNIB_ERR_CLOSED);
        want = strcmp(starts[i].function, "snib_renew_start") == 0
                   ? SNIB_ERR_CLOSED
                   : want;
        must_say(&starts[i], event_now(&w), want);
        world_end(&w);
    }
}

static bool has_event(struct snib_client *c)
{
    pthread_mutex_lock(&c->mu);
    bool yes = !snib__list_empty(&c->ops.events);
    pthread_mutex_unlock(&c->mu);
    return yes;
}

/* Of a client that is freed nothing is written any more, answered or not. */
static void show_freed(const struct call *call, bool answered)
{
    struct world w, then;
    memset(&w, 0, sizeof w); /* with its padding */
    begin_unanswered(&w, call);
    for (int64_t end = now_ms() + 20000; answered && !has_event(w.c);) {
        must(snib_client_process(w.c));
        assert_true(now_ms() < end);
        nap(1);
    }
    snib_elect_free(w.elect);
    w.elect = NULL;
    memcpy(&then, &w, sizeof w);
    snib_client_free(w.c);
    must_hold(call, memcmp(&then, &w, sizeof w) == 0, "nothing was written");
    w.c = NULL;
    world_end(&w);
}

static void what_is_freed_is_not_written(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        show_freed(&starts[i], false);
        show_freed(&starts[i], true);
    }
}

/* -- SNIB_EVENT_DONE itself ------------------------------------------------------------------ */

static snib_err add(struct world *w)
{
    return answer_of(
        w, snib_semaphore_add_start(w->c, "x", 0, 2, w, &w->ticket, &e));
}

static const struct call done[] = {{"SNIB_EVENT_DONE", PERMITS | HELD, add}};

static void what_the_store_says_is_in_the_event(void **state)
{
    (void)state;
    each_row(done, .show = show_sick);
}

static void without_an_answer_the_event_says_so(void **state)
{
    (void)state;
    each_row(done, .more = HASTY, .set = mute);
}

static snib_err put_what_has_changed(struct world *w)
{
    return answer_of(w, snib_value_put_start(w->c, "v", 0, w->version - 1, "2",
                                             1, 0, NULL, w, &w->ticket, &e));
}

static snib_err take_too_many(struct world *w)
{
    return answer_of(
        w, snib_semaphore_add_start(w->c, "x", 0, -4, w, &w->ticket, &e));
}

static snib_err renew_lost(struct world *w)
{
    must(snib_test_expire(w->other, "x"));
    return answer_of(w, snib_renew_start(w->lock, w->g, 0, w, &w->ticket, &e));
}

static const struct call refused_by_store[] = {
    {"SNIB_EVENT_DONE", VALUE, put_what_has_changed}};
static const struct call refused_as_usage[] = {
    {"SNIB_EVENT_DONE", PERMITS | HELD, take_too_many}};
static const struct call lost[] = {
    {"SNIB_EVENT_DONE", HELD | OTHER, renew_lost}};

static void what_was_changed_meanwhile_is_in_the_event(void **state)
{
    (void)state;
    each_row(refused_by_store, 0);
}

static void what_the_store_takes_for_wrong_is_in_the_event(void **state)
{
    (void)state;
    each_row(refused_as_usage, 0);
}

static void what_a_renewal_finds_lost_is_in_the_event(void **state)
{
    (void)state;
    each_row(lost, 0);
}

static snib_err campaign_in_vain(struct world *w)
{
    must(snib_try(w->others, NULL, &w->got, &e));
    return answer_of(
        w, snib_elect_try_for_start(w->elect, 20, &w->term, w, &w->ticket, &e));
}

static void a_campaign_in_vain_is_in_the_event(void **state)
{
    (void)state;
    each_row(ONE("SNIB_EVENT_DONE", ELECT | OTHER, campaign_in_vain), 0);
}

static snib_err renew_and_release(struct world *w)
{
    struct snib_error mine;
    must(snib_renew_start(w->lock, w->g, 0, w, &w->ticket, &e));
    must(snib_release_start(w->lock, w->g, NULL, &mine));
    return event_now(w);
}

static snib_err cancel(struct world *w)
{
    must(snib_client_inspect_start(w->c, "x", 0, &w->view, w, &w->ticket, &e));
    snib_client_cancel(w->c, w->ticket);
    return event_now(w);
}

static snib_err close_it(struct world *w)
{
    must(snib_client_inspect_start(w->c, "x", 0, &w->view, w, &w->ticket, &e));
    snib_client_close(w->c);
    return event_now(w);
}

static void a_renewal_that_a_release_overtakes_is_told_so(void **state)
{
    (void)state;
    each_row(ONE("SNIB_EVENT_DONE", PULL | HELD, renew_and_release), 0);
}

static void what_only_reads_is_cancelled(void **state)
{
    (void)state;
    each_row(ONE("SNIB_EVENT_DONE", PULL, cancel), 0);
}

static void what_only_reads_ends_with_its_client(void **state)
{
    (void)state;
    each_row(ONE("SNIB_EVENT_DONE", PULL, close_it), 0);
}

int main(void)
{
    const struct CMUnitTest told_done[] = {
        cmocka_unit_test(what_is_well_is_done),
        cmocka_unit_test(what_the_store_says_comes_with_the_event),
        cmocka_unit_test(what_is_not_answered_ends_by_itself),
        cmocka_unit_test(a_lost_reply_is_mended_as_for_the_blocking_form),
        cmocka_unit_test(what_is_cancelled_ends_at_once),
        cmocka_unit_test(what_close_finds_ends_at_once),
        cmocka_unit_test(what_stop_finds_is_told_afterwards),
        cmocka_unit_test(what_is_freed_is_not_written),
        cmocka_unit_test(what_the_store_says_is_in_the_event),
        cmocka_unit_test(without_an_answer_the_event_says_so),
        cmocka_unit_test(what_was_changed_meanwhile_is_in_the_event),
        cmocka_unit_test(what_the_store_takes_for_wrong_is_in_the_event),
        cmocka_unit_test(what_a_renewal_finds_lost_is_in_the_event),
        cmocka_unit_test(a_campaign_in_vain_is_in_the_event),
        cmocka_unit_test(a_renewal_that_a_release_overtakes_is_told_so),
        cmocka_unit_test(what_only_reads_is_cancelled),
        cmocka_unit_test(what_only_reads_ends_with_its_client),
    };
    return RUN(told_done);
}

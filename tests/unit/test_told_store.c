/* tests/unit/test_told_store.c — what the store says is what a function says:
 * each function with each answer of a store that it may end in. labels: thread */
#include "snib/event.h"
#include "told_sick.h"

#define TOLD "unit.told_store"

static void what_is_well_is_told_as_done(void **state)
{
    (void)state;
    each_row(calls, 0);
}

static void what_the_store_says_is_handed_on(void **state)
{
    (void)state;
    each_row(calls, .show = show_sick);
}

/* What was to change something may have done so; what only looked has not. */
static void what_is_sent_and_not_answered_is_told_so(void **state)
{
    (void)state;
    each_row(calls, .more = HASTY, .set = mute, .show = show_unanswered);
}

/* -- answers as events -------------------------------------------------------- */

static void what_the_store_says_is_in_the_event(void **state)
{
    (void)state;
    each_row(events, .show = show_sick);
}

static void without_an_answer_the_event_says_so(void **state)
{
    (void)state;
    each_row(events, .more = HASTY, .set = mute);
}

static void what_passes_is_told_by_its_event(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, 0);
    must(snib_latch_try_start(w.c, "x", 0, &w, &w.ticket, &e));
    struct snib_event ev = next_event(&w, SNIB_EVENT_PASSED);
    assert_int_equal(ev.grant.ticket, w.ticket);
    assert_ptr_equal(ev.user, &w);
    assert_int_equal(ev.error.code, SNIB_ERR_OK);
    assert_int_equal(ev.state, SNIB_STATE_RELEASED);
    world_end(&w);
}

/* -- a store that goes away while something is held ------------------------------ */

struct story {
    _Atomic int count, state[8];
};

static void note(void *data, snib_elect_state state, int64_t term)
{
    struct story *s = data;
    assert_true(term > 0);
    int at = atomic_load(&s->count);
    atomic_store(&s->state[at < 8 ? at : 7], (int)state);
    atomic_store(&s->count, at + 1);
}

static void wait_for_story(struct story *s, int count, snib_elect_state state)
{
    int64_t end = now_ms() + 20000;
    while (atomic_load(&s->count) < count) {
        assert_true(now_ms() < end);
        nap(1);
    }
    assert_int_equal(atomic_load(&s->count), count);
    assert_int_equal(atomic_load(&s->state[count - 1]), state);
}

static void is_elect(struct snib_elect *el, snib_elect_state state,
                     snib_cause reason, int64_t term)
{
    struct snib_elect_status s;
    snib_elect_status(el, &s, sizeof s);
    assert_int_equal(s.state, state);
    assert_int_equal(s.cause, reason);
    assert_int_equal(s.term, term);
}

static void a_store_that_is_away_is_told_to_who_leads(void **state)
{
    (void)state;
    struct world w;
    struct story story = {0};
    struct snib_elect_options o = SNIB_INIT(snib_elect_options);
    world_begin(&w, VIRTUAL | OTHER);
    o.on_change = note;
    o.data = &story;
    must(snib_elect_new(w.c, "x", &o, &w.elect, &e));
    is_elect(w.elect, SNIB_ELECT_FOLLOWER, SNIB_CAUSE_NONE, 0);
    must(snib_elect_try(w.elect, &w.term, &e));
    wait_for_story(&story, 1, SNIB_ELECT_LEADER);
    is_elect(w.elect, SNIB_ELECT_LEADER, SNIB_CAUSE_NONE, w.term);
    atomic_store(&sick, SNIB_ERR_UNREACHABLE);
    must(snib_test_advance(w.other, 11000)); /* a third of the lease is over */
    wait_for_story(&story, 2, SNIB_ELECT_LEADER_AT_RISK);
    is_elect(w.elect, SNIB_ELECT_LEADER_AT_RISK, SNIB_CAUSE_UNREACHABLE,
             w.term);
    assert_true(snib_elect_leading(w.elect));
    must(snib_test_advance(w.other, 20000));
    wait_for_story(&story, 3, SNIB_ELECT_LEADER_LOST);
    is_elect(w.elect, SNIB_ELECT_LEADER_LOST, SNIB_CAUSE_UNREACHABLE, w.term);
    assert_false(snib_elect_leading(w.elect));
    atomic_store(&sick, 0);
    assert_int_equal(snib_elect_resign(w.elect, &e), SNIB_ERR_LOST);
    for (bool idle = false; !idle;) { /* its end is repeated; time stands */
        must(snib_test_advance(w.other, 1000));
        pthread_mutex_lock(&w.c->mu);
        idle = snib__engine_idle(w.c->engine);
        pthread_mutex_unlock(&w.c->mu);
        nap(1);
    }
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest told_store[] = {
        cmocka_unit_test(what_is_well_is_told_as_done),
        cmocka_unit_test(what_the_store_says_is_handed_on),
        cmocka_unit_test(what_is_sent_and_not_answered_is_told_so),
        cmocka_unit_test(what_the_store_says_is_in_the_event),
        cmocka_unit_test(without_an_answer_the_event_says_so),
        cmocka_unit_test(what_passes_is_told_by_its_event),
        cmocka_unit_test(a_store_that_is_away_is_told_to_who_leads),
    };
    return RUN(told_store);
}

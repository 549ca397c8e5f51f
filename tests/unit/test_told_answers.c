/* tests/unit/test_told_answers.c — results by a rule of their own: of who comes
 * second, of what stops itself, of statuses, texts and events, and where
 * something is NULL. labels: thread */
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/policy.h"
#include "told.h"

static void take_again(struct world *w)
{
    take(w, &w->g); /* permits are never entered again: the next slot */
}

/* -- results after an error, by a rule of their own ------------------------------ */

static void who_comes_second_is_told_the_version(void **state)
{
    static const char *const all[] = {"snib_value_put", "snib_value_delete"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        const struct call *call = call_named(calls, COUNT_OF(calls), all[i]);
        struct world w;
        int64_t theirs;
        world_begin(&w, call->needs | OTHER);
        must(
            snib_value_put(w.other, "v", 0, w.version, "3", 1, 0, &theirs, &e));
        must_say(call, run_call(call, &w), SNIB_ERR_BUSY);
        assert_int_equal(w.changed, theirs);
        world_end(&w);
    }
}

static int stop_at_once(void *data, const struct snib_value *now,
                        struct snib_value_next *next)
{
    int64_t *version = data;
    (void)next;
    *version = now->version;
    return 5;
}

static void an_update_that_stops_tells_what_it_saw(void **state)
{
    struct world w;
    int stopped = 9;
    int64_t version = 9, was;
    (void)state;
    world_begin(&w, VALUE | OTHER);
    must(snib_value_update(w.c, "v", 0, NULL, stop_at_once, &was, &stopped,
                           &version, &e));
    assert_int_equal(stopped, 5);
    assert_int_equal(version, w.version);
    assert_int_equal(was, w.version);
    atomic_store(&sick, SNIB_ERR_STORE);
    stopped = 9, version = 9;
    assert_int_equal(snib_value_update(w.c, "v", 0, NULL, stop_at_once, &was,
                                       &stopped, &version, &e),
                     SNIB_ERR_STORE);
    assert_int_equal(stopped, 0);
    assert_int_equal(version, 0); /* none was seen */
    world_end(&w);
}

static void force_it(struct world *w)
{
    must(snib_client_force_release(w->other, "x", 0, "told", NULL, &e));
    while (snib_renew(w->lock, w->g, 0, &e) == SNIB_ERR_OK) {
        nap(1);
    }
}

static int force_inside(void *data, struct snib_grant g)
{
    struct world *w = data;
    struct snib_lock *l;
    must(snib_lock_new(w->c, "x", NULL, &l, &e));
    must(snib_client_force_release(w->other, "x", 0, "told", NULL, &e));
    assert_int_equal(snib_renew(l, g, 0, &e), SNIB_ERR_LOST);
    snib_lock_free(l);
    return 3;
}

/* LOST has two causes; the body's result tells them apart. */
static void a_policy_tells_whether_its_body_ran(void **state)
{
    struct world w;
    int result = 9;
    (void)state;
    world_begin(&w, OTHER);
    assert_int_equal(snib_policy_run(w.c, policy_of(&w), NULL, force_inside, &w,
                                     &result, &e),
                     SNIB_ERR_LOST);
    assert_int_equal(result, 3);
    world_end(&w);
    world_begin(&w, OTHER | HELD);
    force_it(&w);
    result = 9;
    assert_int_equal(
        snib_policy_run(w.c, policy_of(&w), NULL, body, &w, &result, &e),
        SNIB_ERR_LOST);
    assert_int_equal(result, 9);
    world_end(&w);
}

/* -- what always answers ----------------------------------------------------------- */

static struct snib_status status_of(struct world *w, struct snib_grant g)
{
    struct snib_status s;
    memset(&s, POISON, sizeof s);
    snib_grant_status(w->lock, g, &s, sizeof s);
    return s;
}

static void a_status_is_whole(void **state)
{
    struct world w;
    (void)state;
    world_begin(&w, HELD | PERMITS | OTHER);
    take_again(&w);
    struct snib_view *v;
    must(snib_client_inspect(w.other, "x", 0, &v, &e));
    const struct snib_party *p = v->holders[v->holders[0]->slot != 1];
    assert_int_equal(p->token, w.g.token);
    struct snib_status s = status_of(&w, w.g);
    assert_int_equal(s.state, SNIB_STATE_HELD);
    assert_int_equal(s.cause, SNIB_CAUSE_NONE);
    assert_int_equal(s.token, p->token);
    assert_in_range(s.left_ms, 1, p->left_ms + 1000);
    assert_in_range(s.held_ms, 0, 20000);
    assert_int_equal(s.holds, 1);
    assert_int_equal(s.kind, SNIB_KIND_PERMITS);
    assert_int_equal(s.permits, p->permits);
    assert_int_equal(s.slot, p->slot);
    snib_view_free(v);
    must(snib_release(w.lock, w.g, &e));
    s = status_of(&w, w.g);
    assert_int_equal(s.state, SNIB_STATE_RELEASED);
    assert_int_equal(s.cause, SNIB_CAUSE_NONE);
    assert_int_equal(s.token, w.g.token);
    assert_int_equal(s.left_ms, 0);
    assert_int_equal(s.held_ms, 0);
    assert_int_equal(s.holds, 0);
    assert_int_equal(s.kind, 0);
    assert_int_equal(s.permits, 0);
    assert_int_equal(s.slot, -1);
    world_end(&w);
}

static void a_status_of_a_multi_is_whole(void **state)
{
    struct world w;
    struct snib_multi_status s;
    (void)state;
    world_begin(&w, MULTI_HELD | OTHER);
    memset(&s, POISON, sizeof s);
    snib_multi_status(w.multi, w.grants, &s, sizeof s);
    assert_int_equal(s.state, SNIB_STATE_HELD);
    assert_int_equal(s.cause, SNIB_CAUSE_NONE);
    assert_in_range(s.left_ms, 1, 30000);
    assert_true(s.member < 2);
    must(snib_release(w.second, w.grants[1], &e));
    memset(&s, POISON, sizeof s);
    snib_multi_status(w.multi, w.grants, &s, sizeof s);
    assert_int_equal(s.state, SNIB_STATE_RELEASED);
    assert_int_equal(s.member, 1);
    assert_int_equal(s.cause, SNIB_CAUSE_NONE);
    assert_int_equal(snib_multi_release(w.multi, w.grants, &e),
                     SNIB_ERR_NOT_HELD);
    world_end(&w);
}

static void a_status_of_a_store_is_whole(void **state)
{
    struct world w;
    struct snib_store_status s;
    (void)state;
    world_begin(&w, HELD);
    memset(&s, POISON, sizeof s);
    snib_client_store_status(w.c, &s);
    assert_true(s.reachable);
    assert_int_equal(s.error, SNIB_ERR_OK);
    assert_in_range(s.for_ms, 0, 20000);
    assert_int_equal(s.nodes, 1);
    assert_int_equal(s.nodes_reachable, 1);
    assert_string_equal(s.text, "");
    world_end(&w);
}

static void a_status_of_a_candidate_is_whole(void **state)
{
    struct world w;
    struct snib_elect_status s;
    (void)state;
    world_begin(&w, ELECT);
    memset(&s, POISON, sizeof s);
    snib_elect_status(w.elect, &s, sizeof s);
    assert_int_equal(s.state, SNIB_ELECT_FOLLOWER);
    assert_int_equal(s.cause, SNIB_CAUSE_NONE);
    assert_int_equal(s.term, 0);
    assert_int_equal(s.left_ms, 0);
    world_end(&w);
}

/* Nor is another candidate of the same client the one that leads. */
static void a_leader_is_told_from_its_neighbour(void **state)
{
    struct world w;
    (void)state;
    world_begin(&w, LEADS);
    must(snib_elect_new(w.c, "x", NULL, &w.made_elect, &e));
    must(snib_elect_leader(w.made_elect, &w.leader, &e));
    assert_int_equal(w.leader->term, w.term);
    assert_false(w.leader->self);
    world_end(&w);
}

static void why_it_was_lost_fits_into_what_is_given(void **state)
{
    struct world w;
    char text[SNIB_EXPLAIN_TEXT], cut[9];
    (void)state;
    world_begin(&w, HELD | OTHER);
    memset(text, POISON, sizeof text);
    snib_grant_explain(w.lock, w.g, text, sizeof text);
    assert_string_equal(text, "");
    force_it(&w);
    snib_grant_explain(w.lock, w.g, text, sizeof text);
    assert_memory_equal(text, "revoked by ", 11);
    assert_non_null(strstr(text, ": told"));
    memset(cut, POISON, sizeof cut);
    snib_grant_explain(w.lock, w.g, cut, 8);
    assert_string_equal(cut, "revoked");
    assert_int_equal((uint8_t)cut[8], POISON);
    snib_grant_explain(w.lock, w.g, cut, 0);
    assert_string_equal(cut, "revoked");
    assert_int_equal(snib_release(w.lock, w.g, &e), SNIB_ERR_LOST);
    snib_grant_explain(w.lock, w.g, text, sizeof text);
    assert_string_equal(text, "");
    world_end(&w);
}

static void no_event_changes_nothing(void **state)
{
    struct world w;
    struct snib_event ev;
    (void)state;
    world_begin(&w, PULL);
    memset(&ev, POISON, sizeof ev);
    assert_false(snib_client_next(w.c, &ev, sizeof ev));
    assert_true(all_are(&ev, sizeof ev, POISON));
    world_end(&w);
}

/* -- a NULL among the arguments ------------------------------------------------------ */

/* Where two results are given, or a result and no client. */
static void what_is_given_is_cleared_though_the_rest_is_missing(void **state)
{
    struct world w;
    (void)state;
    world_begin(&w, 0);
    w.count = 5;
    assert_int_equal(snib_client_list(w.c, NULL, NULL, &w.count, &e),
                     SNIB_ERR_USAGE);
    assert_int_equal(w.count, 0);
    memset(&w.views, POISON, sizeof w.views);
    assert_int_equal(snib_client_list(w.c, NULL, &w.views, NULL, &e),
                     SNIB_ERR_USAGE);
    assert_null(w.views);
    w.count = 5;
    assert_int_equal(snib_client_deadlocks(w.c, NULL, &w.count, &e),
                     SNIB_ERR_USAGE);
    assert_int_equal(w.count, 0);
    memset(&w.cycles, POISON, sizeof w.cycles);
    assert_int_equal(snib_client_deadlocks(NULL, &w.cycles, &w.count, &e),
                     SNIB_ERR_USAGE);
    assert_null(w.cycles);
    memset(&w.view, POISON, sizeof w.view);
    assert_int_equal(snib_client_inspect(NULL, "x", 0, &w.view, &e),
                     SNIB_ERR_USAGE);
    assert_null(w.view);
    memset(&w.joined, POISON, sizeof w.joined);
    assert_int_equal(snib_ring_join(NULL, "x", 0, "a", NULL, &w.joined, &e),
                     SNIB_ERR_USAGE);
    assert_null(w.joined);
    memset(&w.got, POISON, sizeof w.got);
    assert_int_equal(snib_semaphore_drain(NULL, NULL, &w.got, NULL, &e),
                     SNIB_ERR_USAGE);
    assert_true(all_are(&w.got, sizeof w.got, 0));
    assert_int_equal(snib_ring_read(w.c, "x", 0, NULL, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_semaphore_get(w.c, "x", 0, NULL, 0, &e),
                     SNIB_ERR_USAGE);
    assert_int_equal(snib_client_inspect(w.c, "x", 0, NULL, &e),
                     SNIB_ERR_USAGE);
    assert_int_equal(snib_latch_left(w.c, "x", 0, NULL, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_value_get(w.c, "x", 0, NULL, &e), SNIB_ERR_USAGE);
    world_end(&w);
}

/* What may be NULL by the header. */
static void a_result_that_nobody_wants_may_be_null(void **state)
{
    struct world w;
    (void)state;
    world_begin(&w, PERMITS);
    must(snib_semaphore_drain(w.lock, NULL, &w.got, NULL, &e));
    must(snib_client_force_release(w.c, "x", 0, NULL, NULL, &e));
    must(snib_semaphore_set(w.c, "x", 0, 2, false, NULL, &e));
    must(snib_latch_set(w.c, "y", 0, 2, NULL, &e));
    must(snib_latch_count_down(w.c, "y", 0, 2, NULL, &e));
    must(snib_barrier_try_for(w.c, "y", 0, 1, 20, NULL, &e));
    must(snib_barrier_try_for_start(w.c, "y", 0, 1, 20, NULL, NULL, &e));
    must(snib_latch_try_for_start(w.c, "y", 0, 20, NULL, NULL, &e));
    must(snib_value_put(w.c, "v", 0, 0, "1", 1, 0, NULL, &e));
    must(snib_value_update(w.c, "v", 0, NULL, compute, &w, NULL, NULL, &e));
    must(snib_policy_run(w.c, policy_of(&w), NULL, body, &w, NULL, &e));
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest told_answers[] = {
        cmocka_unit_test(who_comes_second_is_told_the_version),
        cmocka_unit_test(an_update_that_stops_tells_what_it_saw),
        cmocka_unit_test(a_policy_tells_whether_its_body_ran),
        cmocka_unit_test(a_status_is_whole),
        cmocka_unit_test(a_status_of_a_multi_is_whole),
        cmocka_unit_test(a_status_of_a_store_is_whole),
        cmocka_unit_test(a_status_of_a_candidate_is_whole),
        cmocka_unit_test(a_leader_is_told_from_its_neighbour),
        cmocka_unit_test(why_it_was_lost_fits_into_what_is_given),
        cmocka_unit_test(no_event_changes_nothing),
        cmocka_unit_test(what_is_given_is_cleared_though_the_rest_is_missing),
        cmocka_unit_test(a_result_that_nobody_wants_may_be_null),
    };
    return RUN(told_answers);
}

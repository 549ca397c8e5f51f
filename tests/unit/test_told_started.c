/* tests/unit/test_told_started.c — what each start says that would end in
 * SNIB_EVENT_DONE. labels: thread oom */
#include "snib/inspect.h"
#include "told_started.h"

#define TOLD "unit.told_started"

/* -- what a start says ------------------------------------------------------------ */

static void what_is_well_is_started(void **state)
{
    (void)state;
    each_row(starts, 0); /* the event is not taken: the world's end frees it */
}

static void stop(struct world *w, const struct call *call)
{
    (void)call;
    snib_client_stop(w->c);
}

static void a_client_that_was_stopped_starts_nothing(void **state)
{
    (void)state;
    each_row(starts, .set = stop);
}

static void show_forked(struct world *w, const struct call *call, snib_err want)
{
    int status;
    struct snib_event ev;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        alarm(20); /* a mutex of the parent's */
        snib_err got = run_call(call, w);
        snib_client_cancel(w->c, 1);
        bool quiet = !snib_client_next(w->c, &ev, sizeof ev);
        _exit(quiet && is_so(call, got, want) ? 0 : 1 + (int)got);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status) {
        fail_msg("%s in a child: not %s, or killed", call->function,
                 snib_err_name(want));
    }
}

static void in_a_forked_child_nothing_is_started(void **state)
{
    (void)state;
    each_row(starts, .show = show_forked);
}

/* What was started before the fork is freed with the client in the child. */
static void a_child_frees_what_its_parent_started(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(starts); i++) {
        struct world w;
        int status;
        world_begin(&w, starts[i].needs);
        must(starts[i].run(&w));
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            alarm(20);
            snib_client_free(w.c);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (status) {
            fail_msg("%s", starts[i].function);
        }
        (void)next_event(&w, SNIB_EVENT_DONE);
        world_end(&w);
    }
}

/* Memory ends at the n-th allocation of the start, for each n until it needs no
 * more. */
static void show_out_of_memory(struct world *w, const struct call *call,
                               snib_err want)
{
    bool said = false;
    for (int n = 1;; n++) {
        memset(&e, 0xa5, sizeof e);
        snib__mem_fail_at(n, true);
        snib_err got = run_call(call, w);
        snib__mem_fail_at(0, false);
        if (!got || n == 200) {
            break;
        }
        must_say(call, got, want);
        said = true;
        world_end(w);
        world_begin(w, call->needs | HASTY);
    }
    must_hold(call, said, "it says that memory ended");
}

static void without_memory_nothing_is_started(void **state)
{
    (void)state;
    each_row(starts, .more = HASTY, .show = show_out_of_memory);
}

static void show_out_of_descriptors(struct world *w, const struct call *call,
                                    snib_err want)
{
    struct rlimit was = take_descriptors();
    snib_err got = run_call(call, w);
    give_descriptors(was);
    must_say(call, got, want);
    must_hold(call, strstr(e.text, "ulimit -n"), "it says of what");
}

static void without_descriptors_nothing_is_started(void **state)
{
    (void)state;
    each_row(starts, .show = show_out_of_descriptors);
}

#define WRONG(X)                                                               \
    X(snib_renew, HELD, w->lock, w->g, 1)                                      \
    X(snib_client_inspect, 0, w->c, "", 0, &w->view)                           \
    X(snib_client_list, 0, NULL, NULL, &w->views, &w->count)                   \
    X(snib_client_force_release, 0, w->c, NULL, 0, NULL, &w->number)           \
    X(snib_client_doctor, 0, w->c, NULL, NULL)                                 \
    X(snib_client_recovery, 0, w->c, INT64_MAX, &w->recovery,                  \
      sizeof w->recovery)                                                      \
    X(snib_client_deadlocks, 0, NULL, &w->cycles, &w->count)                   \
    X(snib_semaphore_get, 0, w->c, "", 0, &w->size, sizeof w->size)            \
    X(snib_semaphore_set, 0, w->c, "x", 0, SNIB_PERMITS_MAX + 1u, false,       \
      &w->flag)                                                                \
    X(snib_semaphore_add, 0, w->c, "x", 0, INT64_MIN)                          \
    X(snib_semaphore_drain, 0, w->lock, NULL, &w->got, &w->number)             \
    X(snib_latch_set, 0, w->c, "x", 0, 0, &w->flag)                            \
    X(snib_latch_count_down, 0, w->c, "x", 0, 0, &w->number)                   \
    X(snib_latch_left, 0, w->c, "x", 0, NULL)                                  \
    X(snib_latch_open, 0, w->c, NULL, 0)                                       \
    X(snib_value_get, 0, w->c, "", 0, &w->value)                               \
    X(snib_value_put, 0, w->c, "v", 0, 0, "1", 1, -1, &w->changed)             \
    X(snib_value_delete, 0, w->c, "v", 0, 0, &w->changed)                      \
    X(snib_elect_campaign, ELECT | OTHER, (campaign_first(w), w->elect),       \
      &w->term)                                                                \
    X(snib_elect_try, ELECT | OTHER, (campaign_first(w), w->elect), &w->term)  \
    X(snib_elect_try_for, ELECT | OTHER, (campaign_first(w), w->elect), 20,    \
      &w->term)                                                                \
    X(snib_ring_read, 0, w->c, "", 0, &w->ring)                                \
    X(snib_ring_join, 0, w->c, "ring", 0, "", NULL, &w->joined)                \
    X(snib_ring_try, 0, w->c, "ring", 0, NULL, NULL, &w->joined)               \
    X(snib_ring_try_for, 0, NULL, "ring", 0, "b", 20, NULL, &w->joined)        \
    X(snib_ring_leave, 0, &w->place)                                           \
    X(snib_multi_acquire, MULTI, w->multi, senseless(), w->grants)             \
    X(snib_multi_try, OTHER, multi_of_two_clients(w), NULL, w->grants)         \
    X(snib_multi_try_for, OTHER, multi_of_two_clients(w), 20, NULL, w->grants) \
    X(snib_multi_release, OTHER, multi_of_two_clients(w), w->grants)           \
    X(snib_value_update, 0, w->c, "v", 0, NULL, NULL, w, &w->stopped,          \
      &w->changed)                                                             \
    X(snib_value_try, 0, w->c, "", 0, NULL, compute, w, &w->stopped,           \
      &w->changed)                                                             \
    X(snib_value_try_for, 0, NULL, "v", 0, 20, NULL, compute, w, &w->stopped,  \
      &w->changed)                                                             \
    X(snib_grant_adopt, LEFT | FIXED, w->lock, "x", 0, &w->got)                \
    X(snib_policy_run, 0, w->c, policy_without_value(w), NULL, body, w,        \
      &w->result)                                                              \
    X(snib_policy_try, 0, w->c, policy_of(w), NULL, NULL, w, &w->result)       \
    X(snib_policy_try_for, 0, w->c, 20, policy_without_value(w), NULL, body,   \
      w, &w->result)

static const struct snib_acquire_options *senseless(void)
{
    static const struct snib_acquire_options o = {.size = 1};
    return &o;
}

static const struct snib_policy *policy_without_value(const struct world *w)
{
    static struct snib_policy p;
    p = *policy_of(w);
    p.key = "{order}";
    return &p;
}

/* The other's lock has another name here. */
static struct snib_multi *multi_of_two_clients(struct world *w)
{
    struct snib_lock *both[2] = {w->lock};
    must(snib_lock_new(w->other, "y", NULL, &both[1], &e));
    must(snib_multi_new(both, 2, NULL, &w->multi, &e));
    return w->multi;
}

/* The other one has the lock. */
static void campaign_first(struct world *w)
{
    static int64_t term;
    struct snib_error mine;
    must(snib_try(w->others, NULL, &w->got, &e));
    must(snib_elect_campaign_start(w->elect, &term, NULL, NULL, &mine));
}

#define WRONG_BODY_(f, needs, ...)                                             \
    BODY_OF_(wrong_, f, f##_start(__VA_ARGS__, w, &w->ticket, &e))
#define WRONG_ROW_(f, needs, ...) {#f "_start", needs, wrong_##f},

WRONG(WRONG_BODY_)

static const struct call wrong[] = {WRONG(WRONG_ROW_)};

static void show_no_event(struct world *w, const struct call *call,
                          snib_err want)
{
    struct snib_event ev;
    must_say(call, run_call(call, w), want);
    must_hold(call, !snib_client_next(w->c, &ev, sizeof ev),
              "there is no event");
}

static void what_is_asked_wrongly_is_not_started(void **state)
{
    (void)state;
    each_row(wrong, .show = show_no_event);
}

static snib_err put_too_much(struct world *w)
{
    static const char bytes[SNIB_VALUE_MAX + 1];
    return snib_value_put_start(w->c, "v", 0, 0, bytes, sizeof bytes, 0,
                                &w->changed, w, &w->ticket, &e);
}

static void what_is_too_much_is_not_started(void **state)
{
    (void)state;
    each_row(ONE("snib_value_put_start", 0, put_too_much),
             .show = show_no_event);
}

/* A mutex of that name, held by another owner of this client. */
static void hold_mutex(struct world *w, const struct call *call)
{
    struct snib_lock *l = lock_for(w->c, 0);
    (void)call;
    must(snib_try(l, NULL, &w->g, &e));
}

#define BUSY(X)                                                                \
    X(snib_semaphore_drain, PERMITS, w->lock, &w->how, &w->got, &w->number)    \
    X(snib_elect_try, ELECT, w->elect, &w->term)                               \
    X(snib_elect_try_for, ELECT, w->elect, 0, &w->term)

#define BUSY_BODY_(f, needs, ...)                                              \
    BODY_OF_(busy_, f, f##_start(__VA_ARGS__, w, &w->ticket, &e))
#define BUSY_ROW_(f, needs, ...) {#f "_start", needs, busy_##f},

BUSY(BUSY_BODY_)

static const struct call busy[] = {BUSY(BUSY_ROW_)};

static void what_an_owner_of_its_client_has_is_busy_at_once(void **state)
{
    (void)state;
    each_row(busy, .set = hold_mutex, .show = show_no_event);
}

/* Adopted once, and not answered yet. */
static snib_err adopt_twice(struct world *w)
{
    static struct snib_grant g;
    must(snib_grant_adopt_start(w->lock, w->text, 0, &g, NULL, NULL, &e));
    return snib_grant_adopt_start(w->lock, w->text, 0, &w->got, w, &w->ticket,
                                  &e);
}

static void what_is_being_adopted_is_busy_at_once(void **state)
{
    (void)state;
    each_row(ONE("snib_grant_adopt_start", LEFT | FIXED | PULL, adopt_twice),
             .show = show_no_event);
}

static void *campaigns(void *data)
{
    struct world *w = data;
    struct snib_error mine;
    int64_t term;
    assert_int_equal(snib_elect_campaign(w->elect, &term, &mine),
                     SNIB_ERR_CANCELLED);
    return NULL;
}

/* A call campaigns in another thread: the other one has the lock. */
static snib_err resign_beside(struct world *w)
{
    pthread_t thread;
    struct snib_error mine;
    struct snib_view *v;
    must(snib_try(w->others, NULL, &w->got, &e));
    assert_int_equal(pthread_create(&thread, NULL, campaigns, w), 0);
    for (size_t n = 0; !n; nap(1)) {
        must(snib_client_inspect(w->other, "x", 0, &v, &e));
        n = v->waiter_count;
        snib_view_free(v);
    }
    snib_err err = snib_elect_resign_start(w->elect, w, &w->ticket, &e);
    must(snib_elect_resign(w->elect, &mine));
    assert_int_equal(pthread_join(thread, NULL), 0);
    return err;
}

static void a_call_that_campaigns_is_not_resigned_by_a_start(void **state)
{
    (void)state;
    each_row(ONE("snib_elect_resign_start", ELECT | OTHER, resign_beside),
             .show = show_no_event);
}

static snib_err resign_nothing(struct world *w)
{
    return snib_elect_resign_start(w->elect, w, &w->ticket, &e);
}

static void where_nothing_is_to_resign_nothing_is_started(void **state)
{
    (void)state;
    each_row(ONE("snib_elect_resign_start", ELECT, resign_nothing),
             .show = show_no_event);
}

static void give_back(struct world *w, const struct call *call)
{
    (void)call;
    must(snib_release(w->lock, w->g, &e));
}

static void a_renewal_of_what_was_given_back_is_not_started(void **state)
{
    (void)state;
    each_row(starts, .set = give_back, .show = show_no_event);
}

static void lose(struct world *w, const struct call *call)
{
    (void)call;
    must(snib_test_expire(w->other, "x"));
    assert_int_equal(snib_renew(w->lock, w->g, 0, &e), SNIB_ERR_LOST);
}

static void a_renewal_of_what_was_lost_is_not_started(void **state)
{
    (void)state;
    each_row(starts, .more = OTHER, .set = lose, .show = show_no_event);
}

int main(void)
{
    const struct CMUnitTest told_started[] = {
        cmocka_unit_test(what_is_well_is_started),
        cmocka_unit_test(a_client_that_was_stopped_starts_nothing),
        cmocka_unit_test(in_a_forked_child_nothing_is_started),
        cmocka_unit_test(a_child_frees_what_its_parent_started),
        cmocka_unit_test(without_memory_nothing_is_started),
        cmocka_unit_test(without_descriptors_nothing_is_started),
        cmocka_unit_test(what_is_asked_wrongly_is_not_started),
        cmocka_unit_test(what_is_too_much_is_not_started),
        cmocka_unit_test(what_an_owner_of_its_client_has_is_busy_at_once),
        cmocka_unit_test(what_is_being_adopted_is_busy_at_once),
        cmocka_unit_test(a_call_that_campaigns_is_not_resigned_by_a_start),
        cmocka_unit_test(where_nothing_is_to_resign_nothing_is_started),
        cmocka_unit_test(a_renewal_of_what_was_given_back_is_not_started),
        cmocka_unit_test(a_renewal_of_what_was_lost_is_not_started),
    };
    return RUN(told_started);
}

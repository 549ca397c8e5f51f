/* tests/unit/told_started.h — the started forms that end in SNIB_EVENT_DONE, as
 * rows of told.h: `starts` by their own names; `answers`, which wait for the
 * event and return what it says, by those of the blocking forms. */
#ifndef SNIB_TESTS_TOLD_STARTED_H
#define SNIB_TESTS_TOLD_STARTED_H

#include "told.h"

/* X(function, what it needs, its arguments) */
#define STARTED(X)                                                             \
    X(snib_renew, HELD, w->lock, w->g, 0)                                      \
    X(snib_client_inspect, 0, w->c, "x", 0, &w->view)                          \
    X(snib_client_list, 0, w->c, NULL, &w->views, &w->count)                   \
    X(snib_client_force_release, 0, w->c, "x", 0, NULL, &w->number)            \
    X(snib_client_doctor, 0, w->c, hear, NULL)                                 \
    X(snib_client_recovery, 0, w->c, 7, &w->recovery, sizeof w->recovery)      \
    X(snib_client_deadlocks, 0, w->c, &w->cycles, &w->count)                   \
    X(snib_semaphore_get, 0, w->c, "x", 0, &w->size, sizeof w->size)           \
    X(snib_semaphore_set, 0, w->c, "x", 0, 2, false, &w->flag)                 \
    X(snib_semaphore_add, PERMITS | HELD, w->c, "x", 0, 2)                     \
    X(snib_semaphore_drain, PERMITS, w->lock, &w->how, &w->got, &w->number)    \
    X(snib_latch_set, 0, w->c, "x", 0, 2, &w->flag)                            \
    X(snib_latch_count_down, 0, w->c, "x", 0, 1, &w->number)                   \
    X(snib_latch_left, 0, w->c, "x", 0, &w->number)                            \
    X(snib_latch_open, 0, w->c, "x", 0)                                        \
    X(snib_value_get, 0, w->c, "v", 0, &w->value)                              \
    X(snib_value_put, VALUE, w->c, "v", 0, w->version, "2", 1, 0, &w->changed) \
    X(snib_value_delete, VALUE, w->c, "v", 0, w->version, &w->changed)         \
    X(snib_elect_leader, ELECT, w->elect, &w->leader)                          \
    X(snib_elect_campaign, ELECT, w->elect, &w->term)                          \
    X(snib_elect_try, ELECT, w->elect, &w->term)                               \
    X(snib_elect_try_for, ELECT, w->elect, w->wait_ms, &w->term)               \
    X(snib_elect_resign, LEADS, w->elect)                                      \
    X(snib_ring_read, 0, w->c, "ring", 0, &w->ring)                            \
    X(snib_ring_join, 0, w->c, "ring", 0, "b", NULL, &w->joined)               \
    X(snib_ring_try, 0, w->c, "ring", 0, "b", NULL, &w->joined)                \
    X(snib_ring_try_for, 0, w->c, "ring", 0, "b", w->wait_ms, NULL,            \
      &w->joined)                                                              \
    X(snib_ring_leave, PLACE, &w->place)                                       \
    X(snib_multi_acquire, MULTI, w->multi, &w->how, w->grants)                 \
    X(snib_multi_try, MULTI, w->multi, &w->how, w->grants)                     \
    X(snib_multi_try_for, MULTI, w->multi, w->wait_ms, &w->how, w->grants)     \
    X(snib_multi_release, MULTI_HELD, w->multi, w->grants)                     \
    X(snib_value_update, 0, w->c, "v", 0, NULL, compute, w, &w->stopped,       \
      &w->changed)                                                             \
    X(snib_value_try, 0, w->c, "v", 0, NULL, compute, w, &w->stopped,          \
      &w->changed)                                                             \
    X(snib_value_try_for, 0, w->c, "v", 0, w->wait_ms, NULL, compute, w,       \
      &w->stopped, &w->changed)                                                \
    X(snib_elect_watch, LEADS, w->elect, 0, &w->leader)                        \
    X(snib_elect_watch_for, LEADS, w->elect, 0, 0, &w->leader)                 \
    X(snib_grant_adopt, LEFT | FIXED, w->lock, w->text, 0, &w->got)            \
    X(snib_policy_run, 0, w->c, policy_of(w), NULL, body, w, &w->result)       \
    X(snib_policy_try, 0, w->c, policy_of(w), NULL, body, w, &w->result)       \
    X(snib_policy_try_for, 0, w->c, w->wait_ms, policy_of(w), NULL, body, w,   \
      &w->result)

/* On OK the membership is no longer the world's. */
static snib_err leave_start(struct snib_ring_membership **place, void *user,
                            uint64_t *ret_ticket, struct snib_error *reterr)
{
    snib_err err = snib_ring_leave_start(*place, user, ret_ticket, reterr);
    *place = err ? *place : NULL;
    return err;
}
#define snib_ring_leave_start leave_start

#define START_BODY_(f, needs, ...)                                             \
    BODY_OF_(start_, f, f##_start(__VA_ARGS__, w, &w->ticket, &e))
#define START_ROW_(f, needs, ...) {#f "_start", needs, start_##f},

STARTED(START_BODY_)

static const struct call starts[] = {STARTED(START_ROW_)};

/* -- the answers, as the blocking forms' ---------------------------------------------- */

/* What becomes of a grant meanwhile is told as well. */
static struct snib_event done_event(struct world *w)
{
    struct snib_event ev;
    for (int64_t end = now_ms() + 20000;; nap(1)) {
        if (w->c->pull) {
            must(snib_client_process(w->c));
        }
        while (snib_client_next(w->c, &ev, sizeof ev)) {
            if (ev.kind != SNIB_EVENT_STATE) {
                assert_int_equal(ev.kind, SNIB_EVENT_DONE);
                return ev;
            }
        }
        assert_true(now_ms() < end);
    }
}

/* The answer of a start that returned err. */
static snib_err answer_of(struct world *w, snib_err err)
{
    if (err) {
        return err;
    }
    assert_true(w->ticket);
    struct snib_event ev = done_event(w);
    assert_ptr_equal(ev.user, w);
    assert_int_equal(ev.grant.ticket, w->ticket);
    assert_int_equal(ev.cause, SNIB_CAUSE_NONE);
    bool held = ev.state == SNIB_STATE_HELD;
    assert_true(held || ev.state == SNIB_STATE_RELEASED);
    assert_int_equal(held, ev.grant.token != 0);
    e = ev.error;
    return e.code;
}

#define ANSWER_BODY_(f, needs, ...)                                            \
    BODY_OF_(answer_, f,                                                       \
             answer_of(w, f##_start(__VA_ARGS__, w, &w->ticket, &e)))
#define ANSWER_ROW_(f, needs, ...) {#f, needs, answer_##f},

STARTED(ANSWER_BODY_)

static const struct call answers[] = {STARTED(ANSWER_ROW_)};

#endif

/* tests/unit/told_sick.h — calls at a store that is sick, or says nothing. */
#ifndef SNIB_TESTS_TOLD_SICK_H
#define SNIB_TESTS_TOLD_SICK_H

#include "told.h"

static void show_sick(struct world *w, const struct call *call, snib_err want)
{
    char says[32];
    atomic_store(&sick, (int)want);
    must_say(call, run_call(call, w), want);
    snprintf(says, sizeof says, "sick: %s", snib_err_name(want));
    must_hold(call, want == SNIB_ERR_NOMEM || strstr(e.text, says), says);
}

static void fall_silent(struct world *w)
{
    (void)w;
    atomic_store(&sick, SNIB_ERR_UNKNOWN);
}

static void mute(struct world *w, const struct call *call)
{
    if (strcmp(call->function, "snib_value_update") == 0 ||
        strncmp(call->function, "snib_value_try", 14) == 0) {
        w->meanwhile = fall_silent; /* it reads first, which is answered */
    } else {
        fall_silent(w);
    }
}

static bool has_no_limit(const char *f)
{
    static const char *const all[] = {
        "snib_acquire",       "snib_scope_begin",    "snib_policy_run",
        "snib_multi_acquire", "snib_elect_campaign", "snib_ring_join",
        "snib_latch_await",   "snib_barrier_wait"};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        if (strcmp(all[i], f) == 0) {
            return true;
        }
    }
    return false;
}

static void *close_soon(void *c)
{
    nap(SOON_MS);
    snib_client_close(c);
    return NULL;
}

/* Without a limit of its own a call ends with its client. */
static void show_unanswered(struct world *w, const struct call *call,
                            snib_err want)
{
    pthread_t closer;
    bool closes = has_no_limit(call->function);
    if (closes) {
        assert_int_equal(pthread_create(&closer, NULL, close_soon, w->c), 0);
    }
    snib_err got = run_call(call, w);
    if (closes) {
        assert_int_equal(pthread_join(closer, NULL), 0);
    }
    must_say(call, got, want);
}

#endif

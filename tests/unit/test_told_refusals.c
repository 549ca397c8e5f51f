/* tests/unit/test_told_refusals.c — a grant that comes with another lock: each
 * function refuses it. labels: thread */
#include "told.h"

#include <errno.h>

/* -- a grant of another lock ---------------------------------------------------- */

static struct snib_lock *lock_named(struct snib_client *c, const char *name,
                                    const struct snib_lock_options *o)
{
    struct snib_lock *l;
    must(snib_lock_new(c, name, o, &l, &e));
    return l;
}

static bool takes_a_grant(const struct call *call)
{
    return call->needs & HELD && strcmp(call->function, "snib_semaphore_add");
}

static void is_stale(struct snib_lock *l, struct snib_grant g)
{
    struct snib_status s;
    char why[SNIB_EXPLAIN_TEXT] = "?";
    snib_grant_status(l, g, &s, sizeof s);
    assert_int_equal(s.state, SNIB_STATE_RELEASED);
    assert_int_equal(s.token, g.token);
    assert_false(snib_grant_held(l, g));
    snib_grant_explain(l, g, why, sizeof why);
    assert_string_equal(why, "");
    errno = 0;
    assert_int_equal(snib_grant_fd(l, g), -1);
    assert_int_equal(errno, ENOENT);
}

static void show_foreign(const struct call *call)
{
    struct world w;
    world_begin(&w, call->needs);
    struct snib_lock *mine = w.lock;
    w.lock = lock_named(w.c, "n", &mine->o);
    must_say(call, run_call(call, &w), SNIB_ERR_USAGE);
    must_hold(call, strstr(e.text, "'x'") && strstr(e.text, "'n'"),
              "it names both");
    is_stale(w.lock, w.g);
    must_hold(call, snib_grant_held(mine, w.g), "it holds on");
    w.lock = lock_named(w.c, "x", &mine->o); /* another handle is no stranger */
    must_say(call, run_call(call, &w), SNIB_ERR_OK);
    world_end(&w);
}

static void a_grant_of_another_lock_is_refused(void **state)
{
    int shown = 0;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        if (takes_a_grant(&calls[i])) {
            show_foreign(&calls[i]);
            shown++;
        }
    }
    assert_int_equal(shown, 7);
}

static void a_grant_of_another_client_is_refused(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, HELD | OTHER);
    struct snib_lock *l = lock_named(w.other, "y", NULL);
    must(snib_try(l, NULL, &w.got, &e));
    assert_int_equal(snib_release(l, w.g, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_release(w.others, w.g, &e), SNIB_ERR_NOT_HELD);
    is_stale(l, w.g);
    assert_true(snib_grant_held(l, w.got));
    assert_true(snib_grant_held(w.lock, w.g));
    world_end(&w);
}

/* The grants of a multi come in the order of its locks. */
static void grants_of_a_multi_that_are_crossed_stay(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w, MULTI_HELD);
    struct snib_grant crossed[2] = {w.grants[1], w.grants[0]};
    assert_int_equal(snib_multi_release(w.multi, crossed, &e), SNIB_ERR_USAGE);
    assert_false(snib_multi_held(w.multi, crossed));
    assert_true(snib_multi_held(w.multi, w.grants));
    must(snib_multi_release(w.multi, w.grants, &e));
    world_end(&w);
}

int main(void)
{
    const struct CMUnitTest told_refusals[] = {
        cmocka_unit_test(a_grant_of_another_lock_is_refused),
        cmocka_unit_test(a_grant_of_another_client_is_refused),
        cmocka_unit_test(grants_of_a_multi_that_are_crossed_stay),
    };
    return RUN(told_refusals);
}

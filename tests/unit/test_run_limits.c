/* tests/unit/test_run_limits.c — how long a call waits is in its name: options
 * that are zero wait as NULL does, and a limit that is over is a try. */
#include "run_memory.h"

#include "snib/elect.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/multi.h"
#include "snib/policy.h"
#include "snib/ring.h"
#include "snib/value.h"

static const int64_t over[] = {0, -1, -2, INT64_MIN};

/* Somebody else holds "a". */
struct scene {
    struct snib_client *c, *other;
    struct snib_lock *lock, *theirs;
    struct snib_grant grant;
};

static void scene_begin(struct scene *s)
{
    struct snib_lock_options write = SNIB_INIT(snib_lock_options);
    write.kind = SNIB_KIND_WRITE;
    s->c = open_client("", false);
    s->other = open_client("", false);
    s->lock = lock_of(s->c, "a");
    assert_int_equal(snib_lock_new(s->other, "a", &write, &s->theirs, &e),
                     SNIB_ERR_OK);
    assert_int_equal(snib_acquire(s->theirs, NULL, &s->grant, &e), SNIB_ERR_OK);
}

static void scene_end(struct scene *s)
{
    snib_client_free(s->c);
    snib_client_free(s->other);
}

/* -- zero ------------------------------------------------------------------------ */

static snib_err acquire_zero(struct scene *s, struct snib_error *mine)
{
    struct snib_acquire_options zero = SNIB_INIT(snib_acquire_options);
    struct snib_grant g;
    return snib_acquire(s->lock, &zero, &g, mine);
}

static snib_err multi_zero(struct scene *s, struct snib_error *mine)
{
    struct snib_acquire_options zero = SNIB_INIT(snib_acquire_options);
    struct snib_multi_options none = SNIB_INIT(snib_multi_options);
    struct snib_grant g[1];
    struct snib_multi *m;
    snib_err err = snib_multi_new(&s->lock, 1, &none, &m, mine);
    err = err ? err : snib_multi_acquire(m, &zero, g, mine);
    snib_multi_free(m);
    return err;
}

static snib_err ring_zero(struct scene *s, struct snib_error *mine)
{
    struct snib_ring_options zero = SNIB_INIT(snib_ring_options);
    struct snib_ring_membership *p;
    snib_err err = snib_ring_join(s->c, "a", 0, "me", &zero, &p, mine);
    return err ? err : snib_ring_leave(p, mine);
}

static snib_err scope_zero(struct scene *s, struct snib_error *mine)
{
    struct snib_acquire_options zero = SNIB_INIT(snib_acquire_options);
    struct snib_scope scope = snib_scope_begin(s->lock, &zero, mine);
    snib_scope_end(&scope);
    return scope.err;
}

static int nothing(void *data, struct snib_grant g)
{
    (void)data;
    (void)g;
    return 0;
}

static snib_err policy_zero(struct scene *s, struct snib_error *mine)
{
    struct snib_policy p = SNIB_INIT(snib_policy);
    p.key = "a"; /* it has to have one */
    return snib_policy_run(s->c, &p, NULL, nothing, NULL, NULL, mine);
}

static snib_err (*const zeros[])(struct scene *, struct snib_error *) = {
    acquire_zero, multi_zero, ring_zero, scope_zero, policy_zero};

struct waiter {
    struct scene *scene;
    snib_err (*call)(struct scene *, struct snib_error *);
    _Atomic int ended;
    snib_err err;
};

static void *waits(void *arg)
{
    struct waiter *w = arg;
    struct snib_error mine;
    w->err = w->call(w->scene, &mine);
    atomic_store(&w->ended, 1);
    return NULL;
}

static bool somebody_waits(struct scene *s)
{
    struct snib_view *v;
    assert_int_equal(snib_client_inspect(s->other, "a", 0, &v, &e),
                     SNIB_ERR_OK);
    bool waits = v->waiter_count > 0;
    snib_view_free(v);
    return waits;
}

static void options_that_are_zero_wait_as_null_does(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(zeros); i++) {
        struct scene s;
        struct waiter w = {.scene = &s, .call = zeros[i]};
        pthread_t thread;
        scene_begin(&s);
        assert_int_equal(pthread_create(&thread, NULL, waits, &w), 0);
        while (!atomic_load(&w.ended) && !somebody_waits(&s)) {
            nap(1);
        }
        bool gave_up = atomic_load(&w.ended);
        assert_int_equal(snib_release(s.theirs, s.grant, &e), SNIB_ERR_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        if (gave_up || w.err) {
            fail_msg("%zu: %s", i, snib_err_name(w.err));
        }
        scene_end(&s);
        space++;
    }
}

static void a_start_with_zero_options_waits(void **state)
{
    struct snib_acquire_options zero = SNIB_INIT(snib_acquire_options);
    struct snib_event ev;
    struct scene s;
    uint64_t ticket;
    (void)state;
    scene_begin(&s);
    assert_int_equal(snib_acquire_start(s.lock, &zero, &s, &ticket, &e),
                     SNIB_ERR_OK);
    bool ended = false;
    while (!ended && !somebody_waits(&s)) {
        ended = snib_client_next(s.c, &ev, sizeof ev);
        nap(1);
    }
    assert_false(ended);
    assert_int_equal(snib_release(s.theirs, s.grant, &e), SNIB_ERR_OK);
    while (!snib_client_next(s.c, &ev, sizeof ev)) {
        nap(1);
    }
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    scene_end(&s);
}

/* Somebody else is faster, the first three times. */
static int come_fourth(void *data, const struct snib_value *now,
                       struct snib_value_next *next)
{
    int *rounds = data;
    struct snib_error mine;
    struct snib_client *other = open_client("", false);
    if (++*rounds < 4) {
        assert_int_equal(
            snib_value_put(other, "v", 0, now->version, "o", 1, 0, NULL, &mine),
            SNIB_ERR_OK);
    }
    snib_client_free(other);
    *next = (struct snib_value_next){.bytes = "m", .size = 1};
    return 0;
}

static void an_update_with_zero_options_goes_on(void **state)
{
    struct snib_value_options zero = SNIB_INIT(snib_value_options);
    struct snib_client *c = open_client("", false);
    int rounds = 0;
    (void)state;
    assert_int_equal(snib_value_update(c, "v", 0, &zero, come_fourth, &rounds,
                                       NULL, NULL, &e),
                     SNIB_ERR_OK);
    assert_int_equal(rounds, 4);
    snib_client_free(c);
}

/* -- a limit that is over --------------------------------------------------------- */

/* Each of these would wait. */
static void ends_at_once(struct scene *s, struct snib_multi *m,
                         struct snib_elect *el, int64_t ms)
{
    struct snib_ring_membership *p;
    struct snib_leader *leader;
    struct snib_policy policy = SNIB_INIT(snib_policy);
    struct snib_grant g;
    int rounds = 0;
    int64_t number;
    policy.key = "a";
    assert_int_equal(snib_try_for(s->lock, ms, NULL, &g, &e), SNIB_ERR_BUSY);
    assert_int_equal(snib_multi_try_for(m, ms, NULL, &g, &e), SNIB_ERR_BUSY);
    assert_int_equal(snib_ring_try_for(s->c, "a", 0, "me", ms, NULL, &p, &e),
                     SNIB_ERR_BUSY);
    assert_int_equal(snib_latch_try_for(s->c, "l", 0, ms, &e), SNIB_ERR_BUSY);
    assert_int_equal(snib_barrier_try_for(s->c, "b", 0, 2, ms, &number, &e),
                     SNIB_ERR_BUSY);
    assert_int_equal(snib_elect_try_for(el, ms, &number, &e), SNIB_ERR_BUSY);
    number = s->grant.token;
    assert_int_equal(snib_elect_watch_for(el, number, ms, &leader, &e),
                     SNIB_ERR_TIMEOUT);
    assert_int_equal(snib_value_try_for(s->c, "v", 0, ms, NULL, come_fourth,
                                        &rounds, NULL, NULL, &e),
                     SNIB_ERR_BUSY);
    assert_int_equal(
        snib_policy_try_for(s->c, ms, &policy, NULL, nothing, NULL, NULL, &e),
        SNIB_ERR_BUSY);
    struct snib_scope scope = snib_scope_try_for(s->lock, ms, NULL, &e);
    assert_int_equal(scope.err, SNIB_ERR_BUSY);
}

static void a_limit_that_is_over_is_a_try(void **state)
{
    struct scene s;
    struct snib_multi *m;
    struct snib_elect *el;
    (void)state;
    scene_begin(&s);
    assert_int_equal(snib_multi_new(&s.lock, 1, NULL, &m, &e), SNIB_ERR_OK);
    assert_int_equal(snib_elect_new(s.c, "a", NULL, &el, &e), SNIB_ERR_OK);
    assert_int_equal(snib_latch_set(s.c, "l", 0, 1, NULL, &e), SNIB_ERR_OK);
    for (size_t i = 0; i < COUNT_OF(over); i++) {
        ends_at_once(&s, m, el, over[i]);
    }
    snib_elect_free(el);
    snib_multi_free(m);
    scene_end(&s);
}

static void a_start_whose_limit_is_over_is_a_try(void **state)
{
    struct scene s;
    struct snib_event ev;
    (void)state;
    scene_begin(&s);
    assert_int_equal(snib_latch_set(s.c, "l", 0, 1, NULL, &e), SNIB_ERR_OK);
    for (size_t i = 0; i < COUNT_OF(over); i++) {
        assert_int_equal(
            snib_try_for_start(s.lock, over[i], NULL, NULL, NULL, &e),
            SNIB_ERR_OK);
        assert_int_equal(
            snib_latch_try_for_start(s.c, "l", 0, over[i], NULL, NULL, &e),
            SNIB_ERR_OK);
        assert_int_equal(
            snib_barrier_try_for_start(s.c, "b", 0, 2, over[i], NULL, NULL, &e),
            SNIB_ERR_OK);
        for (int n = 0; n < 3; n++) {
            while (!snib_client_next(s.c, &ev, sizeof ev)) {
                nap(1);
            }
            assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
            assert_int_equal(ev.error.code, SNIB_ERR_BUSY);
        }
    }
    scene_end(&s);
}

int main(void)
{
    const struct CMUnitTest run_limits[] = {
        cmocka_unit_test_setup(options_that_are_zero_wait_as_null_does,
                               new_space),
        cmocka_unit_test_setup(a_start_with_zero_options_waits, new_space),
        cmocka_unit_test_setup(an_update_with_zero_options_goes_on, new_space),
        cmocka_unit_test_setup(a_limit_that_is_over_is_a_try, new_space),
        cmocka_unit_test_setup(a_start_whose_limit_is_over_is_a_try, new_space),
    };
    return RUN(run_limits);
}

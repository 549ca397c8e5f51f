/* Giving up. A caller that is told TIMEOUT, CANCELLED or CLOSED has nothing at
 * the store any more, not even a claim in its queue. While the store answers,
 * the caller is not told UNKNOWN. Another client inspects the lock right after
 * the answer.
 *
 * The clients have a long request_ms: they wait for the store for a twentieth
 * of it, and so do not take a busy machine for a silent store. */
#include "kit.h"
#include "snib/event.h"

enum { ROUNDS = 40 };

static struct snib_client *patient(void)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c = NULL;
    o.url = store_url();
    o.request_ms = 60000;
    must(snib_client_open(&o, &c, NULL));
    return c;
}

static uint64_t started(struct snib_lock *l, int64_t wait_ms)
{
    uint64_t ticket = 0;
    must(snib_try_for_start(l, wait_ms, NULL, NULL, &ticket, NULL));
    return ticket;
}

static void next_is_refused(struct snib_client *c, snib_err err)
{
    struct snib_event ev = next_event(c);
    assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
    must_be(ev.error.code, err);
}

/* Client c holds `name` and inspects it; client d wants it. */
struct scene {
    const char *name;
    struct snib_client *c, *d;
    struct snib_lock *held, *wanted;
    struct snib_grant g;
};

static struct scene scene_new(void)
{
    struct scene s = {.name = fresh_name()};
    s.c = patient();
    s.d = patient();
    s.held = lock_with(s.c, s.name, NULL);
    s.wanted = lock_with(s.d, s.name, NULL);
    must(acquire_for(s.held, 0, &s.g));
    struct snib_grant none; /* after this try d is connected */
    must_be(try_by_other(s.wanted, &none), SNIB_ERR_BUSY);
    return s;
}

/* A quorum confirms the end when a majority has; the vote at one more node may
 * go a moment later. */
static void nobody_waits(const struct scene *s)
{
    if (has_a_majority()) {
        wait_for_fewer_waiters(s->c, s->name, 0);
    }
    assert_int_equal(waiters_of(s->c, s->name), 0);
    assert_int_equal(holders_of(s->c, s->name), 1);
}

static void scene_free(struct scene *s)
{
    must(snib_release(s->held, s->g, NULL));
    snib_client_free(s->d);
    snib_client_free(s->c);
}

static void who_is_told_timeout_stands_in_no_queue(void **state)
{
    (void)state;
    struct scene s = scene_new();
    struct snib_grant none;
    for (int i = 0; i < ROUNDS; i++) {
        must_be(take(s.wanted, 1 + i % 20, snib_owner_new(), &none),
                SNIB_ERR_TIMEOUT);
        nobody_waits(&s);
    }
    scene_free(&s);
}

static void nor_who_is_told_so_by_an_event(void **state)
{
    (void)state;
    struct scene s = scene_new();
    for (int i = 0; i < ROUNDS; i++) {
        started(s.wanted, 1 + i % 20);
        next_is_refused(s.d, SNIB_ERR_TIMEOUT);
        nobody_waits(&s);
    }
    scene_free(&s);
}

/* The cancel comes before the store has answered. */
static void who_is_told_cancelled_stands_in_no_queue(void **state)
{
    (void)state;
    struct scene s = scene_new();
    for (int i = 0; i < ROUNDS; i++) {
        snib_client_cancel(s.d, started(s.wanted, INT64_MAX));
        next_is_refused(s.d, SNIB_ERR_CANCELLED);
        nobody_waits(&s);
    }
    scene_free(&s);
}

static void nor_who_had_a_place_in_it(void **state)
{
    (void)state;
    skip_without_a_queue();
    struct scene s = scene_new();
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t ticket = started(s.wanted, INT64_MAX);
        wait_for_waiters(s.c, s.name, 1);
        snib_client_cancel(s.d, ticket);
        next_is_refused(s.d, SNIB_ERR_CANCELLED);
        nobody_waits(&s);
    }
    scene_free(&s);
}

/* If the event says CANCELLED, another client gets the lock at the first try.
 * Otherwise it had been GRANTED before. */
static void
a_grant_that_a_cancel_meets_is_given_back_before_it_is_told(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = patient(), *d = patient();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    struct snib_grant g;
    for (int i = 0; i < ROUNDS; i++) {
        snib_client_cancel(c, started(l, INT64_MAX));
        struct snib_event ev = next_event(c);
        if (ev.kind == SNIB_EVENT_GRANTED) {
            must(snib_release(l, ev.grant, NULL));
        } else {
            must_be(ev.error.code, SNIB_ERR_CANCELLED);
        }
        must(take(m, 0, snib_owner_new(), &g));
        must(snib_release(m, g, NULL));
        assert_false(snib_client_next(c, &ev, sizeof ev));
    }
    snib_client_free(c);
    snib_client_free(d);
}

static void who_is_told_closed_stands_in_no_queue(void **state)
{
    (void)state;
    struct scene s = scene_new();
    for (int i = 0; i < ROUNDS; i++) {
        struct snib_client *e = patient();
        struct snib_lock *m = lock_with(e, s.name, NULL);
        started(m, INT64_MAX);
        started(m, INT64_MAX);
        snib_client_close(e);
        next_is_refused(e, SNIB_ERR_CLOSED);
        next_is_refused(e, SNIB_ERR_CLOSED);
        nobody_waits(&s);
        snib_client_free(e);
    }
    scene_free(&s);
}

/* A close from another thread ends a call that waits. */
static void a_call_that_a_close_ends_stands_in_no_queue(void **state)
{
    (void)state;
    skip_without_a_queue();
    struct scene s = scene_new();
    for (int i = 0; i < ROUNDS / 4; i++) {
        struct snib_client *e = patient();
        struct task t = {0};
        start(&t, lock_with(e, s.name, NULL), INT64_MAX);
        wait_for_waiters(s.c, s.name, 1);
        snib_client_close(e);
        must_be(join(&t)->err, SNIB_ERR_CLOSED);
        nobody_waits(&s);
        snib_client_free(e);
    }
    scene_free(&s);
}

/* After a stop nobody can be told any more. */
static void a_stop_tells_all_that_a_close_has_not(void **state)
{
    (void)state;
    struct scene s = scene_new();
    struct snib_client *e = patient();
    struct snib_lock *m = lock_with(e, s.name, NULL);
    started(m, INT64_MAX);
    snib_client_stop(e);
    next_is_refused(e, SNIB_ERR_CLOSED);
    nobody_waits(&s);
    snib_client_free(e);
    scene_free(&s);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_told_timeout_stands_in_no_queue),
        cmocka_unit_test(nor_who_is_told_so_by_an_event),
        cmocka_unit_test(who_is_told_cancelled_stands_in_no_queue),
        cmocka_unit_test(nor_who_had_a_place_in_it),
        cmocka_unit_test(
            a_grant_that_a_cancel_meets_is_given_back_before_it_is_told),
        cmocka_unit_test(who_is_told_closed_stands_in_no_queue),
        cmocka_unit_test(a_call_that_a_close_ends_stands_in_no_queue),
        cmocka_unit_test(a_stop_tells_all_that_a_close_has_not),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

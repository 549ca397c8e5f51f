/* tests/unit/test_told_stop.c — who meets a stop that waits for the store is
 * told that the client is closed, which has released what it held; not that it
 * was released before. labels: thread */
#include "told.h"

/* -- a store that stands still ------------------------------------------------ */

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool stands; /* exec() waits until it does not                   */
static int inside;  /* calls of exec() that wait                        */

static void still_exec(void *instance, snib_instant now, struct snib__list *all)
{
    pthread_mutex_lock(&mu);
    inside++;
    pthread_cond_broadcast(&moved);
    while (stands) {
        pthread_cond_wait(&moved, &mu);
    }
    inside--;
    pthread_mutex_unlock(&mu);
    snib__memory_ops.exec(instance, now, all);
}

static void stand_still(bool on)
{
    pthread_mutex_lock(&mu);
    stands = on;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&mu);
}

/* Somebody waits in there. */
static void store_is_asked(void)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 20;
    pthread_mutex_lock(&mu);
    while (!inside) {
        assert_int_equal(pthread_cond_timedwait(&moved, &mu, &end), 0);
    }
    pthread_mutex_unlock(&mu);
}

static void stage(struct world *w, unsigned needs)
{
    world_begin(w, needs & ~NO_TEXT);
    sick_ops.exec = still_exec;
    stand_still(true);
}

static void *stops(void *arg)
{
    struct world *w = arg;
    snib_client_stop(w->c);
    return NULL;
}

static pthread_t start(void *(*what)(void *), void *arg)
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, what, arg), 0);
    return t;
}

/* -- what is asked of a grant meanwhile ------------------------------------------ */

static void show_stopping(const char *function)
{
    struct world w;
    const struct call *call = call_named(calls, COUNT_OF(calls), function);
    stage(&w, call->needs);
    pthread_t other = start(stops, &w);
    store_is_asked();
    snib_err got = run_call(call, &w);
    struct snib_error told = e;
    stand_still(false);
    pthread_join(other, NULL);
    e = told;
    must_say(call, got, SNIB_ERR_CLOSED);
    world_end(&w);
}

static void what_stop_is_releasing_is_closed(void **state)
{
    (void)state;
    static const char *const all[] = {
        "snib_release",       "snib_renew",         "snib_grant_request",
        "snib_grant_export",  "snib_grant_abandon", "snib_release_start",
        "snib_multi_release", "snib_ring_leave",    "snib_elect_resign"};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        show_stopping(all[i]);
    }
}

/* -- what was asked of it before ---------------------------------------------------- */

struct renewal {
    struct world *w;
    struct snib_error error;
    snib_err err;
};

static void *renews(void *arg)
{
    struct renewal *r = arg;
    r->err = snib_renew(r->w->lock, r->w->g, 0, &r->error);
    return NULL;
}

static bool is_stopping(struct snib_client *c)
{
    pthread_mutex_lock(&c->mu);
    bool yes = c->stopping;
    pthread_mutex_unlock(&c->mu);
    return yes;
}

static void wait_for_stop(struct snib_client *c)
{
    for (int64_t end = now_ms() + 20000; !is_stopping(c);) {
        assert_true(now_ms() < end);
        nap(1);
    }
}

static void a_renewal_that_stop_overtakes_is_closed(void **state)
{
    (void)state;
    struct world w;
    struct renewal r = {.w = &w};
    stage(&w, HELD);
    pthread_t first = start(renews, &r);
    store_is_asked();
    pthread_t other = start(stops, &w);
    wait_for_stop(w.c);
    stand_still(false);
    pthread_join(first, NULL);
    pthread_join(other, NULL);
    assert_int_equal(r.err, SNIB_ERR_CLOSED);
    assert_int_equal(r.error.code, SNIB_ERR_CLOSED);
    assert_string_equal(r.error.text, snib_err_text(SNIB_ERR_CLOSED));
    world_end(&w);
}

/* -- a callback that stops its client -------------------------------------------------- */

struct teller {
    struct snib_client *c;
    _Atomic bool told, alone, over;
};

static void stops_too(void *data, struct snib_grant g, snib_state to,
                      snib_cause why)
{
    struct teller *s = data;
    (void)g, (void)to, (void)why;
    s->told = true;
    if (!s->alone) {
        wait_for_stop(s->c);
    }
    snib_client_stop(s->c);
    s->over = true;
}

/* Not allowed, but no reason to hang for ever: there it is a close. */
static void show_stop_inside(bool alone)
{
    struct teller s = {.alone = alone};
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    struct snib_grant g;
    s.c = open_client("", false);
    o.hold_max_ms = 1;
    o.on_change = stops_too;
    o.data = &s;
    must(snib_lock_new(s.c, "x", &o, &l, &e));
    must(acquire(l, 0, &g));
    for (int64_t end = now_ms() + 20000; alone ? !s.over : !s.told;) {
        assert_true(now_ms() < end);
        nap(1);
    }
    snib_client_stop(s.c);
    assert_true(s.over); /* its thread was joined */
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_CLOSED);
    snib_lock_free(l);
    snib_client_free(s.c);
}

static void a_stop_from_a_callback_hangs_nobody(void **state)
{
    (void)state;
    alarm(15);
    show_stop_inside(false);
    show_stop_inside(true);
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest told_stop[] = {
        cmocka_unit_test(what_stop_is_releasing_is_closed),
        cmocka_unit_test(a_renewal_that_stop_overtakes_is_closed),
        cmocka_unit_test_setup(a_stop_from_a_callback_hangs_nobody, new_space),
    };
    return RUN(told_stop);
}

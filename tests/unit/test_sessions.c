/* tests/unit/test_sessions.c — a store across a network, whose two workers may
 * be stuck: nobody else is. labels: thread
 *
 * The public interface, over the library of far_library.h.
 * wraps: snib__store_find pthread_create */
#include "far_library.h"
#include "forks.h"

#include "snib/event.h"
#include "snib/inspect.h"

/* REQUEST_MS as the client has it; MUCH_MS: as nothing here takes, however busy
 * the machine is. */
enum { REQUEST_MS = 1000, MUCH_MS = 20000 };

static const snib__session callers = SNIB__SESSION_CALLERS;
static const snib__session background = SNIB__SESSION_BACKGROUND;

/* -- no thread ------------------------------------------------------------------ */

static _Atomic int threads_left = INT32_MAX;

int __real_pthread_create(pthread_t *, const pthread_attr_t *,
                          void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *, const pthread_attr_t *,
                          void *(*)(void *), void *);

int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr,
                          void *(*body)(void *), void *arg)
{
    if (atomic_fetch_sub(&threads_left, 1) <= 0) {
        return EAGAIN;
    }
    return __real_pthread_create(ret, attr, body, arg);
}

/* -- clients, and calls from threads of their own --------------------------------- */

static struct snib_client *far_client(bool pull)
{
    char url[64];
    snprintf(url, sizeof url, "memory:case%d", space);
    return client_on(url, pull, REQUEST_MS);
}

static struct snib_lock *leased(struct snib_client *c, const char *name,
                                int64_t lease_ms)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.lease_ms = lease_ms;
    assert_int_equal(snib_lock_new(c, name, &o, &l, &e), SNIB_ERR_OK);
    return l;
}

/* A call that may be stuck. */
struct call {
    struct snib_lock *lock;
    struct snib_grant grant;
    int64_t wait_ms, took_ms;
    struct snib_error error;
    snib_err err;
    pthread_t thread;
};

static void *call_acquires(void *arg)
{
    struct call *k = arg;
    int64_t t = now_ms();
    k->err = snib_try_for(k->lock, k->wait_ms, NULL, &k->grant, &k->error);
    k->took_ms = now_ms() - t;
    return NULL;
}

static void *call_renews(void *arg)
{
    struct call *k = arg;
    int64_t t = now_ms();
    k->err = snib_renew(k->lock, k->grant, 0, &k->error);
    k->took_ms = now_ms() - t;
    return NULL;
}

static void begin(struct call *k, void *(*body)(void *))
{
    assert_int_equal(pthread_create(&k->thread, NULL, body, k), 0);
}

static void end(struct call *k)
{
    assert_int_equal(pthread_join(k->thread, NULL), 0);
}

/* A plain client of the same space gets it. */
static void is_free_in_the_end(const char *name)
{
    struct snib_client *c = plain_client();
    struct snib_lock *l = lock_of(c, name);
    struct snib_grant g;
    assert_int_equal(acquire(l, MUCH_MS, &g), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- all is well ------------------------------------------------------------------- */

static void callers_and_renewals_have_threads_of_their_own(void **state)
{
    (void)state;
    struct snib_client *c = far_client(false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    struct snib_view *v;
    assert_int_equal(acquire(l, MUCH_MS, &g), SNIB_ERR_OK);
    assert_int_equal(snib_renew(l, g, 0, &e), SNIB_ERR_OK);
    assert_int_equal(snib_client_inspect(c, "x", 0, &v, &e), SNIB_ERR_OK);
    snib_view_free(v);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    pthread_mutex_lock(&far.mu);
    pthread_t a = far.session[callers].thread,
              b = far.session[background].thread;
    assert_true(far.session[callers].calls >= 3);
    assert_int_equal(far.session[background].calls, 1);
    pthread_mutex_unlock(&far.mu);
    assert_false(pthread_equal(a, b));
    assert_false(pthread_equal(a, pthread_self()));
    assert_false(pthread_equal(b, pthread_self()));
    snib_lock_free(l);
    snib_client_free(c);
    assert_int_equal(far_freed(1), 1);
}

static void a_waiter_is_told_by_the_notifier(void **state)
{
    (void)state;
    struct snib_client *c = plain_client(), *d = far_client(false);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(d, "x");
    struct call k = {.lock = m, .wait_ms = MUCH_MS};
    struct snib_grant g;
    assert_int_equal(acquire(l, MUCH_MS, &g), SNIB_ERR_OK);
    begin(&k, call_acquires);
    for (struct snib__counts n = {0}; !n.waiting;) {
        snib__client_counts(d, &n, NULL, NULL);
        nap(1);
    }
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    end(&k);
    assert_int_equal(k.err, SNIB_ERR_OK);
    snib_client_free(d);
    snib_client_free(c);
}

static void a_client_without_a_thread_is_not_opened(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        struct snib_client_options o = SNIB_INIT(snib_client_options);
        struct snib_client *c;
        o.url = "memory:none";
        threads_left = n;
        snib_err err = snib_client_open(&o, &c, &e);
        threads_left = INT32_MAX;
        assert_int_equal(err, SNIB_ERR_LIMIT);
        assert_null(c);
        assert_non_null(strstr(e.text, "no thread for a session"));
        assert_int_equal(far_freed((uint32_t)n + 1), n + 1);
    }
}

/* -- one session stalls ---------------------------------------------------------------- */

static void callers_that_stall_delay_no_renewal(void **state)
{
    (void)state;
    struct snib_client *c = far_client(false);
    struct snib_lock *l = leased(c, "kept", 600), *m = lock_of(c, "stuck");
    struct call k = {.lock = m, .wait_ms = MUCH_MS};
    struct snib__counts n;
    struct snib_status s;
    struct snib_grant g;
    assert_int_equal(acquire(l, MUCH_MS, &g), SNIB_ERR_OK);
    snib__client_counts(c, &n, NULL, NULL);
    uint64_t before = n.renewals;
    far_is(callers, STALLS);
    begin(&k, call_acquires);
    far_until_inside(callers);
    int64_t start = now_ms(); /* five leases */
    while (now_ms() - start < 3000) {
        assert_true(snib_grant_held(l, g));
        nap(20);
    }
    snib__client_counts(c, &n, NULL, NULL);
    assert_true(n.renewals - before >= 8);
    snib_grant_status(l, g, &s, sizeof s);
    assert_int_equal(s.state, SNIB_STATE_HELD);
    far_is(callers, WELL);
    end(&k);
    assert_int_equal(k.err, SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_client_free(c);
}

static void renewals_that_stall_delay_no_caller(void **state)
{
    (void)state;
    struct snib_client *c = far_client(false);
    struct snib_lock *l = lock_of(c, "kept"), *m = lock_of(c, "other");
    struct call k = {.lock = l};
    assert_int_equal(acquire(l, MUCH_MS, &k.grant), SNIB_ERR_OK);
    far_is(background, STALLS);
    begin(&k, call_renews);
    far_until_inside(background);
    for (int i = 0; i < 100; i++) {
        struct snib_grant g;
        struct snib_view *v;
        int64_t t = now_ms();
        assert_int_equal(acquire(m, MUCH_MS, &g), SNIB_ERR_OK);
        assert_int_equal(snib_release(m, g, &e), SNIB_ERR_OK);
        assert_int_equal(snib_client_inspect(c, "kept", 0, &v, &e),
                         SNIB_ERR_OK);
        snib_view_free(v);
        assert_true(now_ms() - t < 2000);
    }
    end(&k); /* its caller is told at the limit */
    assert_int_equal(k.err, SNIB_ERR_UNKNOWN);
    assert_true(k.took_ms >= REQUEST_MS && k.took_ms < MUCH_MS);
    assert_true(snib_grant_held(l, k.grant)); /* the lease is long */
    far_is(background, WELL);
    assert_int_equal(snib_release(l, k.grant, &e), SNIB_ERR_OK);
    snib_client_free(c);
}

/* Of one grant the order is kept, so its release waits, to its own limit. */
static void
a_release_behind_a_renewal_that_stalls_ends_at_its_limit(void **state)
{
    (void)state;
    struct snib_client *c = far_client(false);
    struct snib_lock *l = lock_of(c, "x");
    struct call renews = {.lock = l};
    assert_int_equal(acquire(l, MUCH_MS, &renews.grant), SNIB_ERR_OK);
    far_is(background, STALLS);
    begin(&renews, call_renews);
    far_until_inside(background);
    int64_t t = now_ms();
    assert_int_equal(snib_release(l, renews.grant, &e), SNIB_ERR_UNKNOWN);
    t = now_ms() - t;
    assert_true(t >= REQUEST_MS && t < MUCH_MS);
    far_is(background, WELL);
    end(&renews);
    is_free_in_the_end("x");
    pthread_mutex_lock(&far.mu);
    assert_int_equal(far.logged, 3);
    assert_int_equal(far.log[1].verb, SNIB__RENEW);
    assert_int_equal(far.log[2].verb, SNIB__RELEASE);
    pthread_mutex_unlock(&far.mu);
    snib_client_free(c);
}

static void a_caller_leaves_at_its_limit(void **state)
{
    (void)state;
    struct snib_client *c = far_client(false);
    struct snib_lock *l = lock_of(c, "inside"), *m = lock_of(c, "behind");
    struct call k = {.lock = l, .wait_ms = 2000}, late = {.lock = m};
    struct snib_store_status is;
    late.wait_ms = 300;
    far_is(callers, STALLS);
    begin(&k, call_acquires);
    far_until_inside(callers);
    begin(&late, call_acquires);
    end(&late); /* nobody has asked for it: that is known */
    assert_int_equal(late.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(late.error.text, "no answer from the server for"));
    assert_in_range(late.took_ms, 300, 1900);
    end(&k); /* it may be granted yet */
    assert_int_equal(k.err, SNIB_ERR_UNKNOWN);
    assert_in_range(k.took_ms, 2000, MUCH_MS);
    snib_err err = snib_try(m, NULL, &late.grant, &late.error);
    assert_int_equal(err, SNIB_ERR_UNREACHABLE);
    struct snib_view *v;
    err = snib_client_inspect(c, "x", 0, &v, &e);
    assert_int_equal(err, SNIB_ERR_UNREACHABLE);
    snib_client_store_status(c, &is);
    assert_false(is.reachable);
    assert_int_equal(is.error, SNIB_ERR_UNREACHABLE);
    assert_true(is.for_ms >= REQUEST_MS);
    assert_non_null(strstr(is.text, "no answer from the server for"));
    far_is(callers, WELL);
    is_free_in_the_end("inside"); /* the cancel was behind it */
    is_free_in_the_end("behind");
    assert_int_equal(acquire(m, MUCH_MS, &late.grant), SNIB_ERR_OK);
    snib_client_store_status(c, &is);
    assert_true(is.reachable);
    snib_client_free(c);
}

/* A try has no place in a queue to be taken back: the background cancels it,
 * which must not overtake it. */
static void a_cancel_of_the_background_does_not_overtake(void **state)
{
    (void)state;
    struct snib_client *c = far_client(false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    far_is(callers, STALLS);
    snib_err err = snib_try(l, NULL, &g, &e);
    assert_int_equal(err, SNIB_ERR_UNKNOWN);
    pthread_mutex_lock(&far.mu);
    assert_int_equal(far.session[background].calls, 0);
    assert_int_equal(far.logged, 0);
    pthread_mutex_unlock(&far.mu);
    far_is(callers, WELL);
    is_free_in_the_end("x");
    snib_client_free(c);
    pthread_mutex_lock(&far.mu);
    assert_int_equal(far.logged, 2);
    assert_int_equal(far.log[0].verb, SNIB__ACQUIRE);
    assert_int_equal(far.log[1].verb, SNIB__CANCEL);
    assert_int_equal(far.log[1].session, background);
    assert_int_equal(far.log[0].id, far.log[1].id);
    pthread_mutex_unlock(&far.mu);
}

static void what_no_worker_has_is_called_off_at_once(void **state)
{
    (void)state;
    struct snib_client *c = far_client(false);
    struct snib_lock *l = lock_of(c, "inside"), *m = lock_of(c, "behind");
    struct call k = {.lock = l, .wait_ms = MUCH_MS};
    struct snib_event ev;
    uint64_t ticket;
    far_is(callers, STALLS);
    begin(&k, call_acquires);
    far_until_inside(callers);
    assert_int_equal(snib_acquire_start(m, NULL, NULL, &ticket, &e),
                     SNIB_ERR_OK);
    snib_client_cancel(c, ticket);
    assert_true(
        snib_client_next(c, &ev, sizeof ev)); /* and not after a while */
    assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_CANCELLED);
    far_is(callers, WELL);
    end(&k);
    assert_int_equal(k.err, SNIB_ERR_OK);
    snib_client_free(c);
}

static void a_grant_whose_answer_comes_too_late_is_given_back(void **state)
{
    (void)state;
    struct snib_client *c = far_client(false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    far_is(callers, LATE);
    assert_int_equal(acquire(l, 1000, &g), SNIB_ERR_UNKNOWN);
    far_is(callers, WELL);
    is_free_in_the_end("x");
    assert_int_equal(acquire(l, MUCH_MS, &g), SNIB_ERR_OK);
    snib_client_free(c);
}

/* -- cut, and lost answers ------------------------------------------------------------ */

static void a_store_that_is_cut_off_is_told(void **state)
{
    (void)state;
    struct snib_client *c = far_client(false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    far_both(CUT);
    int64_t t = now_ms();
    assert_int_equal(snib_try(l, NULL, &g, &e), SNIB_ERR_UNREACHABLE);
    assert_string_equal(e.text, "connection refused");
    assert_true(now_ms() - t < MUCH_MS);
    t = now_ms();
    assert_int_equal(acquire(l, 300, &g), SNIB_ERR_UNREACHABLE);
    assert_in_range(now_ms() - t, 300, MUCH_MS);
    far_both(WELL);
    assert_int_equal(acquire(l, MUCH_MS, &g), SNIB_ERR_OK);
    snib_client_free(c);
}

static void *makes_well(void *arg)
{
    (void)arg;
    nap(50);
    far_both(WELL);
    return NULL;
}

static void what_is_lost_is_repeated(void **state)
{
    (void)state;
    struct snib_client *c = far_client(false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g, h;
    pthread_t helper;
    for (int step = 0; step < 3; step++) { /* acquire, renew, release */
        far_both(LOSES);
        assert_int_equal(pthread_create(&helper, NULL, makes_well, NULL), 0);
        snib_err err = step == 0   ? acquire(l, MUCH_MS, &g)
                       : step == 1 ? snib_renew(l, g, 0, &e)
                                   : snib_release(l, g, &e);
        assert_int_equal(err, SNIB_ERR_OK);
        pthread_join(helper, NULL);
    }
    assert_int_equal(acquire(l, MUCH_MS, &h), SNIB_ERR_OK);
    assert_true(h.token > g.token);
    snib_client_free(c);
    is_free_in_the_end("x");
}

/* -- order, when both sessions race ---------------------------------------------------- */

struct racer {
    struct snib_client *c;
    pthread_t thread;
    _Atomic bool *over;
    uint64_t seed;
};

/* Acquires that are given up at any moment, by limits of all lengths. */
static void *races(void *arg)
{
    struct racer *r = arg;
    struct snib_error mine;
    struct snib_lock *l;
    if (snib_lock_new(r->c, r->seed % 2 ? "a" : "b", NULL, &l, &mine)) {
        return NULL;
    }
    while (!*r->over) {
        struct snib_grant g;
        int64_t ns = 1 + dice(&r->seed) % 3000000;
        if (!snib__acquire_within(l, ns, &g, &mine)) {
            if (dice(&r->seed) % 4 == 0) {
                snib_err err = snib_renew(l, g, 0, &mine);
                (void)err;
            }
            (void)snib_release(l, g, &mine);
        }
    }
    snib_lock_free(l);
    return NULL;
}

/* Of each id: ACQUIRE before RENEW before RELEASE or CANCEL. */
static void check_log(void)
{
    static const int rank[] = {[SNIB__ACQUIRE] = 1,
                               [SNIB__RENEW] = 2,
                               [SNIB__RELEASE] = 3,
                               [SNIB__CANCEL] = 3};
    for (uint32_t i = 0; i < far.logged; i++) {
        for (uint32_t k = i + 1; k < far.logged; k++) {
            assert_true(far.log[k].id != far.log[i].id ||
                        far.log[k].verb > SNIB__CANCEL ||
                        rank[far.log[k].verb] >= rank[far.log[i].verb]);
        }
    }
}

static void order_is_kept_when_both_sessions_race(void **state)
{
    (void)state;
    enum { RACERS = 4 };
    _Atomic bool over = false;
    struct snib_client *c = far_client(false);
    struct racer r[RACERS];
    far.session[callers].slow_ms = 1;
    far.session[background].slow_ms = 2;
    far_both(SLOW);
    for (int i = 0; i < RACERS; i++) {
        r[i] = (struct racer){.c = c, .over = &over, .seed = (uint64_t)i};
        assert_int_equal(pthread_create(&r[i].thread, NULL, races, &r[i]), 0);
    }
    uint32_t logged = 0;
    for (int64_t t = now_ms(); logged < FAR_LOG / 2 && now_ms() - t < 3000;) {
        static const way some[] = {SLOW, SLOW, SLOW, LOSES, CUT, WELL};
        uint64_t seed = (uint64_t)now_ms();
        far_is((snib__session)(dice(&seed) % 2), some[dice(&seed) % 6]);
        nap(2);
        pthread_mutex_lock(&far.mu);
        logged = far.logged;
        pthread_mutex_unlock(&far.mu);
    }
    far_both(WELL);
    over = true;
    for (int i = 0; i < RACERS; i++) {
        pthread_join(r[i].thread, NULL);
    }
    is_free_in_the_end("a");
    is_free_in_the_end("b");
    snib_client_free(c);
    assert_true(far.logged > 100);
    check_log();
}

/* -- an event loop ------------------------------------------------------------------------ */

/* Runs the loop until an event comes; no step of it may take long. */
static void loop_until(struct snib_client *c, struct snib_event *ret)
{
    struct pollfd p = {.fd = snib_client_fd(c), .events = POLLIN};
    int64_t give_up = now_ms() + MUCH_MS;
    while (!snib_client_next(c, ret, sizeof *ret)) {
        assert_true(now_ms() < give_up);
        (void)poll(&p, 1, 1000);
        int64_t t = now_ms();
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
        assert_true(now_ms() - t < REQUEST_MS / 2);
    }
}

static void an_event_loop_never_blocks(void **state)
{
    (void)state;
    struct snib_client *c = far_client(true);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(c, "y");
    struct snib_event ev;
    uint64_t ticket;
    assert_int_equal(snib_acquire_start(l, NULL, NULL, &ticket, &e),
                     SNIB_ERR_OK);
    struct pollfd p = {.fd = snib_client_fd(c), .events = POLLIN};
    assert_int_equal(poll(&p, 1, MUCH_MS), 1);
    assert_false(
        snib_client_next(c, &ev, sizeof ev)); /* all is done by process */
    loop_until(c, &ev);
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    struct snib_grant g = ev.grant;
    far_both(STALLS);
    int64_t t = now_ms();
    assert_int_equal(snib_try_for_start(m, 1000, NULL, NULL, &ticket, &e),
                     SNIB_ERR_OK);
    assert_true(now_ms() - t < REQUEST_MS / 2);
    loop_until(c, &ev);
    assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_UNKNOWN);
    t = now_ms();
    assert_int_equal(snib_release_start(l, g, NULL, &e), SNIB_ERR_OK);
    assert_true(now_ms() - t < REQUEST_MS / 2);
    loop_until(c, &ev);
    assert_int_equal(ev.kind, SNIB_EVENT_RELEASED);
    assert_int_equal(ev.error.code, SNIB_ERR_UNKNOWN);
    far_both(WELL);
    assert_int_equal(snib_try_for_start(m, MUCH_MS, NULL, NULL, &ticket, &e),
                     SNIB_ERR_OK);
    loop_until(c, &ev);
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    snib_client_free(c);
    is_free_in_the_end("x");
    is_free_in_the_end("y");
}

/* -- the end, while workers are stuck --------------------------------------------------- */

/* A client with both workers stuck; a pull client with that of callers. (What is
 * started has no limit, so a worker comes to it, however late.) */
static struct snib_client *stuck_client(struct call *renews, bool pull)
{
    struct snib_client *c = far_client(pull);
    uint64_t ticket;
    if (!pull) {
        *renews = (struct call){.lock = lock_of(c, "x")};
        assert_int_equal(acquire(renews->lock, MUCH_MS, &renews->grant),
                         SNIB_ERR_OK);
    }
    far_both(STALLS);
    if (!pull) {
        begin(renews, call_renews);
        far_until_inside(background);
        end(renews);
    }
    assert_int_equal(
        snib_acquire_start(lock_of(c, "y"), NULL, NULL, &ticket, &e),
        SNIB_ERR_OK);
    far_until_inside(callers);
    return c;
}

/* A release to its limit, then the wait for the workers; and some more, on a
 * machine that is busy. */
enum { END_MS = REQUEST_MS + SNIB__COME_BACK_MS, BUSY_MS = 10000 };

static void free_leaves_what_is_stuck_to_its_worker(void **state)
{
    (void)state;
    for (int pull = 0; pull < 2; pull++) {
        struct call a;
        int64_t alive = snib__mem_alive();
        far_both(WELL);
        struct snib_client *c = stuck_client(&a, pull);
        int64_t t = now_ms();
        snib_client_close(c);
        assert_true(now_ms() - t < BUSY_MS);
        snib_client_free(c);
        t = now_ms() - t;
        assert_in_range(t, SNIB__COME_BACK_MS, END_MS + BUSY_MS);
        assert_int_equal(far.freed, pull);
        far_both(WELL); /* the peer answers, or the kernel gives up */
        assert_int_equal(far_freed((uint32_t)pull + 1), pull + 1);
        for (t = now_ms(); snib__mem_alive() != alive;) {
            assert_true(now_ms() - t < MUCH_MS);
            nap(1);
        }
    }
}

static void until_over(struct snib_client *c, snib__session k)
{
    for (bool over = false; !over;) {
        pthread_mutex_lock(&c->mu);
        over = c->sessions.worker[k].over;
        pthread_mutex_unlock(&c->mu);
        nap(1);
    }
}

static void a_worker_that_comes_back_before_free_leaves_all_to_it(void **state)
{
    (void)state;
    struct call a;
    struct snib_client *c = stuck_client(&a, false);
    snib_client_stop(c);
    assert_int_equal(far.freed, 0);
    far_is(callers, WELL);
    far_is(background, WELL);
    until_over(c, callers);
    until_over(c, background);
    assert_int_equal(far.freed, 0);
    snib_client_free(c);
    assert_int_equal(far.freed, 1);
}

static void of_two_that_are_stuck_the_last_one_frees(void **state)
{
    (void)state;
    struct call a;
    struct snib_client *c = stuck_client(&a, false);
    snib_client_free(c);
    far_is(background, WELL);
    until_over(c, background); /* the other one still has the client */
    assert_int_equal(far_freed(0), 0);
    far_is(callers, WELL);
    assert_int_equal(far_freed(1), 1);
}

static void a_library_that_can_be_interrupted_leaves_nothing(void **state)
{
    (void)state;
    struct call a;
    struct snib_client *c = stuck_client(&a, false);
    far.interrupts = true;
    snib_client_free(c);
    assert_int_equal(far.freed, 1);
    assert_int_equal(far.session[callers].way, STALLS);
}

/* Calls of other threads end while a stop waits for a worker. */
static void a_stop_lets_the_callers_go(void **state)
{
    (void)state;
    struct snib_client *c = far_client(false);
    struct call k = {.lock = lock_of(c, "x"), .wait_ms = MUCH_MS};
    far_is(callers, STALLS);
    begin(&k, call_acquires);
    far_until_inside(callers);
    snib_client_stop(c);
    end(&k);
    assert_true(k.err == SNIB_ERR_CLOSED || k.err == SNIB_ERR_UNKNOWN);
    assert_true(k.took_ms < MUCH_MS);
    snib_client_free(c);
    far_is(callers, WELL);
    assert_int_equal(far_freed(1), 1);
}

/* -- fork ------------------------------------------------------------------------------------ */

static int in_child(struct snib_client *c, struct call *a)
{
    struct snib_error mine;
    struct snib_grant g;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    if (snib_try(a->lock, NULL, &g, &mine) != SNIB_ERR_FORKED) {
        return 1;
    }
    snib_client_close(c);
    snib_client_stop(c);
    snib_client_free(c);
    far.on = false; /* a client of its own works */
    o.url = "memory:child";
    struct snib_lock *l;
    if (snib_client_open(&o, &c, &mine) ||
        snib_lock_new(c, "x", NULL, &l, &mine) ||
        snib_try(l, NULL, &g, &mine) || snib_release(l, g, &mine)) {
        return 2;
    }
    snib_lock_free(l);
    snib_client_free(c);
    return 0;
}

static void a_child_is_not_stuck_with_its_parent(void **state)
{
    (void)state;
    needs_an_allocator_that_forks();
    struct call a;
    int status = -1;
    struct snib_client *c = stuck_client(&a, false);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(60);
        _exit(in_child(c, &a));
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(far.freed, 0);
    far_both(WELL);
    assert_int_equal(snib_release(a.lock, a.grant, &e), SNIB_ERR_OK);
    snib_client_free(c);
    assert_int_equal(far.freed, 1);
    is_free_in_the_end("y");
}

#define CASE(f) cmocka_unit_test_setup(f, far_new)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(callers_and_renewals_have_threads_of_their_own),
        CASE(a_waiter_is_told_by_the_notifier),
        CASE(a_client_without_a_thread_is_not_opened),
        CASE(callers_that_stall_delay_no_renewal),
        CASE(renewals_that_stall_delay_no_caller),
        CASE(a_release_behind_a_renewal_that_stalls_ends_at_its_limit),
        CASE(a_caller_leaves_at_its_limit),
        CASE(a_cancel_of_the_background_does_not_overtake),
        CASE(what_no_worker_has_is_called_off_at_once),
        CASE(a_grant_whose_answer_comes_too_late_is_given_back),
        CASE(a_store_that_is_cut_off_is_told),
        CASE(what_is_lost_is_repeated),
        CASE(order_is_kept_when_both_sessions_race),
        CASE(an_event_loop_never_blocks),
        CASE(free_leaves_what_is_stuck_to_its_worker),
        CASE(a_worker_that_comes_back_before_free_leaves_all_to_it),
        CASE(of_two_that_are_stuck_the_last_one_frees),
        CASE(a_library_that_can_be_interrupted_leaves_nothing),
        CASE(a_stop_lets_the_callers_go),
        CASE(a_child_is_not_stuck_with_its_parent),
    };
    return RUN(cases);
}

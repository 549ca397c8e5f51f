/* tests/unit/test_run_memory.c — the public interface, on memory:.
 * labels: thread
 *
 * Threads, re-entry, limits, events, callbacks, close and fork: everything
 * that src/run adds to the engine, without a server. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run/client.h"
#include "run/testing.h"
#include "snib.h"
#include "snib/test.h"

static struct snib_error e;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void nap(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Each case has a space of its own. */
static int space;

static int new_space(void **state)
{
    (void)state;
    space++;
    return 0;
}

static struct snib_client *open_client(const char *query, bool pull)
{
    char url[64];
    snprintf(url, sizeof url, "memory:case%d%s", space, query);
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    o.url = url;
    o.pull = pull;
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_OK);
    return c;
}

static struct snib_lock *lock_of(struct snib_client *c, const char *name)
{
    struct snib_lock *l;
    assert_int_equal(snib_lock_new(c, name, NULL, &l, &e), SNIB_ERR_OK);
    return l;
}

static struct snib_acquire_options waiting(int64_t ms)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.wait_ms = ms;
    return o;
}

static snib_err acquire(struct snib_lock *l, int64_t ms, struct snib_grant *g)
{
    struct snib_acquire_options o = waiting(ms);
    return snib_acquire(l, &o, g, &e);
}

/* -- one thread ------------------------------------------------------------- */

static void acquire_then_release(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g, h;
    assert_int_equal(snib_acquire(l, NULL, &g, &e), SNIB_ERR_OK);
    assert_true(g.ticket != 0 && g.token > 0);
    assert_true(snib_grant_held(l, g));
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    assert_false(snib_grant_held(l, g));
    assert_int_equal(acquire(l, 0, &h), SNIB_ERR_OK);
    assert_true(h.token > g.token);
    assert_int_equal(snib_release(l, h, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void same_thread_enters_again_with_the_same_token(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g, h;
    struct snib_status s;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(acquire(l, 0, &h), SNIB_ERR_OK);
    assert_int_equal(g.token, h.token);
    snib_grant_status(l, g, &s);
    assert_int_equal(s.holds, 2);
    assert_int_equal(snib_release(l, h, &e), SNIB_ERR_OK);
    assert_true(snib_grant_held(l, g));
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_grant_status(l, g, &s);
    assert_int_equal(s.state, SNIB_RELEASED);
    snib_lock_free(l);
    snib_client_free(c);
}

static void second_release_is_recognised(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g, none = {0};
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_release(l, none, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_renew(l, g, 0, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_grant_fd(l, g), -1);
    assert_int_equal(errno, ENOENT);
    snib_lock_free(l);
    snib_client_free(c);
}

static void two_handles_of_one_name_share_the_grant(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(c, "x");
    struct snib_grant g, h;
    struct snib_status s;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(acquire(m, 0, &h), SNIB_ERR_OK);
    assert_int_equal(g.ticket, h.ticket);
    snib_lock_free(l); /* gives back its own hold only */
    snib_grant_status(m, h, &s);
    assert_int_equal(s.holds, 1);
    assert_int_equal(snib_release(m, h, &e), SNIB_ERR_OK);
    snib_lock_free(m);
    snib_client_free(c);
}

static void freeing_a_handle_releases_what_it_holds(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x"), *m;
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    snib_lock_free(l);
    m = lock_of(c, "x");
    struct snib_acquire_options o = waiting(5000);
    o.lane = snib_lane_new();
    assert_int_equal(snib_acquire(m, &o, &g, &e), SNIB_ERR_OK);
    snib_client_free(c); /* frees m too */
}

static void renewing_extends_the_deadline(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    struct snib_status s;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_renew(l, g, 120000, &e), SNIB_ERR_OK);
    snib_grant_status(l, g, &s);
    assert_true(s.left_ms > 100000);
    assert_int_equal(snib_renew(l, g, 1, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void wrong_options_are_refused(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l;
    struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
    struct snib_acquire_options ao = waiting(-2);
    struct snib_grant g;
    lo.lease_ms = 49;
    assert_int_equal(snib_lock_new(c, "x", &lo, &l, &e), SNIB_ERR_USAGE);
    lo.lease_ms = 0;
    lo.kind = SNIB_READ;
    assert_int_equal(snib_lock_new(c, "x", &lo, &l, &e), SNIB_ERR_UNSUPPORTED);
    lo = (struct snib_lock_options){.size = 8};
    assert_int_equal(snib_lock_new(c, "x", &lo, &l, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_lock_new(c, "", NULL, &l, &e), SNIB_ERR_USAGE);
    l = lock_of(c, "x");
    assert_int_equal(snib_acquire(l, &ao, &g, &e), SNIB_ERR_USAGE);
    ao = waiting(0);
    ao.lane = 7;
    assert_int_equal(snib_acquire(l, &ao, &g, &e), SNIB_ERR_USAGE);
    snib_lock_free(l);
    snib_client_free(c);
    struct snib_client_options co = SNIB_INIT(snib_client_options);
    co.url = "carrier-pigeon:coop";
    assert_int_equal(snib_client_open(&co, &c, &e), SNIB_ERR_UNSUPPORTED);
    assert_null(c);
    co.url = "memory:a";
    co.request_ms = -1;
    assert_int_equal(snib_client_open(&co, &c, &e), SNIB_ERR_USAGE);
    snib_client_free(NULL);
    snib_lock_free(NULL);
}

/* -- several threads --------------------------------------------------------------- */

struct job {
    struct snib_lock *lock;
    struct snib_grant grant;
    int64_t wait_ms, took_ms;
    snib_err err;
};

static void *acquires(void *arg)
{
    struct job *j = arg;
    struct snib_error mine;
    struct snib_acquire_options o = waiting(j->wait_ms);
    int64_t t = now_ms();
    j->err = snib_acquire(j->lock, &o, &j->grant, &mine);
    j->took_ms = now_ms() - t;
    if (!j->err) {
        (void)snib_release(j->lock, j->grant, &mine);
    }
    return NULL;
}

static void *releases(void *arg)
{
    struct job *j = arg;
    struct snib_error mine;
    j->err = snib_release(j->lock, j->grant, &mine);
    return NULL;
}

static void run_thread(void *(*body)(void *), struct job *j)
{
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, body, j), 0);
    pthread_join(t, NULL);
}

static void another_thread_is_refused_by_a_try(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct job j = {.lock = l, .wait_ms = 0};
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    run_thread(acquires, &j);
    assert_int_equal(j.err, SNIB_ERR_BUSY);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void limits_are_kept(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_client *d = open_client("", false);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(d, "x");
    struct job local = {.lock = l, .wait_ms = 60},
               far = {.lock = m, .wait_ms = 60};
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    run_thread(acquires, &local);
    run_thread(acquires, &far);
    assert_int_equal(local.err, SNIB_ERR_TIMEOUT);
    assert_int_equal(far.err, SNIB_ERR_TIMEOUT);
    assert_true(local.took_ms >= 60 && local.took_ms < 2000);
    assert_true(far.took_ms >= 60 && far.took_ms < 2000);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
    snib_client_free(d);
}

static void another_thread_must_not_release(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct job j = {.lock = l};
    assert_int_equal(acquire(l, 0, &j.grant), SNIB_ERR_OK);
    run_thread(releases, &j);
    assert_int_equal(j.err, SNIB_ERR_WRONG_LANE);
    assert_true(snib_grant_held(l, j.grant));
    assert_int_equal(snib_release(l, j.grant, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_lane_of_ones_own_may_move(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct job j = {.lock = l};
    struct snib_acquire_options o = waiting(0);
    o.lane = snib_lane_new();
    assert_int_equal(snib_acquire(l, &o, &j.grant, &e), SNIB_ERR_OK);
    run_thread(releases, &j);
    assert_int_equal(j.err, SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_new_thread_is_never_the_owner_of_a_dead_ones_lock(void **state)
{
    (void)state; /* H27: thread ids are reused at once by most systems */
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_acquire_options o = waiting(0);
    o.lane = snib_lane_new();
    struct job j = {.lock = l, .wait_ms = 0};
    assert_int_equal(snib_acquire(l, &o, &j.grant, &e), SNIB_ERR_OK);
    for (int i = 0; i < 20; i++) {
        run_thread(acquires, &j);
        assert_int_equal(j.err, SNIB_ERR_BUSY);
    }
    snib_lock_free(l);
    snib_client_free(c);
}

struct crowd {
    struct snib_lock *lock[4];
    _Atomic int inside;
    _Atomic int64_t token;
    _Atomic int next, wrong;
    int rounds;
};

static void *member(void *arg)
{
    struct crowd *x = arg;
    struct snib_lock *l = x->lock[atomic_fetch_add(&x->next, 1) % 4];
    struct snib_error mine;
    for (int i = 0; i < x->rounds; i++) {
        struct snib_grant g;
        struct snib_acquire_options o = waiting(60000);
        if (snib_acquire(l, &o, &g, &mine)) {
            atomic_fetch_add(&x->wrong, 1);
            continue;
        }
        if (atomic_exchange(&x->inside, 1) ||
            atomic_exchange(&x->token, g.token) >= g.token) {
            atomic_fetch_add(&x->wrong, 1);
        }
        atomic_store(&x->inside, 0);
        if (snib_release(l, g, &mine)) {
            atomic_fetch_add(&x->wrong, 1);
        }
    }
    return NULL;
}

static void crowd_of(int threads, int clients, int rounds)
{
    struct snib_client *c[4];
    struct crowd x = {.rounds = rounds};
    pthread_t t[32];
    for (int i = 0; i < 4; i++) {
        if (i < clients) {
            c[i] = open_client("", false);
        }
        x.lock[i] = i < clients ? lock_of(c[i], "x") : x.lock[i % clients];
    }
    for (int i = 0; i < threads; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, member, &x), 0);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(t[i], NULL);
    }
    assert_int_equal(x.wrong, 0);
    struct snib__counts n;
    snib__client_counts(c[0], &n, NULL, NULL);
    if (clients == 1) {
        assert_true(n.passes > 0);
    }
    for (int i = 0; i < clients; i++) {
        snib_lock_free(x.lock[i]);
        snib_client_free(c[i]);
    }
}

static void many_threads_exclude_each_other_and_tokens_rise(void **state)
{
    (void)state;
    crowd_of(16, 1, 300);
}

static void many_threads_of_several_clients_exclude_each_other(void **state)
{
    (void)state;
    crowd_of(16, 4, 60);
}

/* -- ending ---------------------------------------------------------------------------- */

static void *waits_for_ever(void *arg)
{
    struct job *j = arg;
    struct snib_error mine;
    j->err = snib_acquire(j->lock, NULL, &j->grant, &mine);
    return NULL;
}

static void until_waiting(struct snib_client *c, uint32_t n)
{
    struct snib__counts counts;
    do {
        nap(1);
        snib__client_counts(c, &counts, NULL, NULL);
    } while (counts.waiting < n);
}

static void close_ends_those_who_wait(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x"), *m;
    struct job j[3];
    pthread_t t[3];
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    for (int i = 0; i < 3; i++) {
        j[i] = (struct job){.lock = l};
        pthread_create(&t[i], NULL, waits_for_ever, &j[i]);
    }
    until_waiting(c, 3);
    snib_client_close(c);
    for (int i = 0; i < 3; i++) {
        pthread_join(t[i], NULL);
        assert_int_equal(j[i].err, SNIB_ERR_CLOSED);
    }
    assert_true(snib_grant_held(l, g)); /* close does not take it away */
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_CLOSED);
    assert_int_equal(snib_lock_new(c, "y", NULL, &m, &e), SNIB_ERR_CLOSED);
    snib_lock_free(l);
    snib_client_free(c);
}

static void after_close_the_holder_still_releases(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    snib_client_close(c);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void stop_releases_what_is_held(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_client *d = open_client("", false);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(d, "x");
    struct snib_grant g, h;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    snib_client_stop(c);
    snib_client_stop(c);
    assert_int_equal(acquire(m, 0, &h), SNIB_ERR_OK);
    assert_int_not_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_child_is_refused_and_the_parent_undisturbed(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    pid_t child = fork();
    if (child == 0) {
        struct snib_grant h;
        struct snib_lock *m;
        bool good = acquire(l, 0, &h) == SNIB_ERR_FORKED &&
                    snib_release(l, g, &e) == SNIB_ERR_FORKED &&
                    snib_renew(l, g, 0, &e) == SNIB_ERR_FORKED &&
                    snib_lock_new(c, "y", NULL, &m, &e) == SNIB_ERR_FORKED &&
                    !snib_grant_held(l, g) && snib_fd(c) == -1;
        snib_lock_free(l);
        snib_client_close(c);
        snib_client_free(c);
        space = -1; /* memory: came along, with the parent's claim in it */
        c = open_client("", true); /* one of its own */
        l = lock_of(c, "x");
        struct snib_event ev;
        uint64_t ticket;
        good = good &&
               snib_acquire_start(l, NULL, NULL, &ticket, &e) == SNIB_ERR_OK &&
               snib_next(c, &ev) && ev.kind == SNIB_EV_GRANTED;
        snib_lock_free(l);
        snib_client_free(c);
        _exit(good ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(snib_grant_held(l, g));
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- loss -------------------------------------------------------------------------------- */

struct diary {
    _Atomic int changes;
    _Atomic int state, reason;
};

static void note_change(void *data, struct snib_grant g, snib_state s,
                        snib_reason r)
{
    struct diary *d = data;
    (void)g;
    atomic_store(&d->state, (int)s);
    atomic_store(&d->reason, (int)r);
    atomic_fetch_add(&d->changes, 1);
}

static struct snib_lock *watched_lock(struct snib_client *c, int64_t lease,
                                      int64_t hold_max, bool fixed,
                                      struct diary *d)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.lease_ms = lease;
    o.hold_max_ms = hold_max;
    o.fixed_lease = fixed;
    o.on_change = note_change;
    o.data = d;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &e), SNIB_ERR_OK);
    return l;
}

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

static void until_changes(struct diary *d, int n)
{
    int64_t end = now_ms() + 20000;
    while (atomic_load(&d->changes) < n && now_ms() < end) {
        nap(1);
    }
    assert_true(atomic_load(&d->changes) >= n);
}

static void a_fixed_lease_that_ends_is_told_by_its_deadline(void **state)
{
    (void)state;
    struct diary d = {0};
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = watched_lock(c, 200, 0, true, &d);
    struct snib_grant g, h;
    struct snib_status s;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    int fd = snib_grant_fd(l, g);
    assert_true(fd >= 0);
    assert_int_equal(snib_grant_fd(l, g), fd);
    assert_true(readable(fd, 20000));
    until_changes(&d, 1);
    assert_int_equal(d.state, SNIB_LOST);
    assert_int_equal(d.reason, SNIB_WHY_EXPIRED);
    snib_grant_status(l, g, &s);
    assert_int_equal(s.state, SNIB_LOST);
    /* the lane stays lost until it has unwound */
    assert_int_equal(acquire(l, 0, &h), SNIB_ERR_LOST);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_LOST);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(acquire(l, 5000, &h), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, h, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_stolen_lock_is_told_at_the_next_renewal(void **state)
{
    (void)state;
    struct diary d = {0};
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = watched_lock(c, 300, 0, false, &d);
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_test_steal(c, "x", 60000), SNIB_ERR_OK);
    until_changes(&d, 1);
    assert_int_equal(d.state, SNIB_LOST);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_LOST);
    snib_lock_free(l);
    snib_client_free(c);
}

static void hold_max_ends_a_renewed_lease(void **state)
{
    (void)state;
    struct diary d = {0};
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = watched_lock(c, 60000, 150, false, &d);
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    until_changes(&d, 1);
    assert_int_equal(d.state, SNIB_LOST);
    assert_int_equal(d.reason, SNIB_WHY_HOLD_MAX);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_LOST);
    snib_lock_free(l);
    snib_client_free(c);
}

static void the_keeper_renews(void **state)
{
    (void)state;
    struct diary d = {0};
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = watched_lock(c, 300, 0, false, &d);
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    nap(900);
    assert_true(snib_grant_held(l, g));
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    assert_int_equal(d.changes, 0);
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_release_makes_the_loss_descriptor_readable(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    for (int i = 0; i < 40; i++) { /* more than stay open */
        assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
        int fd = snib_grant_fd(l, g);
        assert_true(fd >= 0);
        assert_false(readable(fd, 0));
        assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
        assert_true(readable(fd, 0));
    }
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_callback_may_release_and_free(void **state);

struct freer {
    struct snib_lock *lock;
    struct snib_grant grant;
    _Atomic int done;
};

static void release_and_free(void *data, struct snib_grant g, snib_state s,
                             snib_reason r)
{
    struct freer *f = data;
    struct snib_error mine;
    (void)r;
    if (s == SNIB_LOST) {
        (void)snib_release(f->lock, g, &mine);
        snib_lock_free(f->lock);
        atomic_store(&f->done, 1);
    }
}

static void a_callback_may_release_and_free(void **state)
{
    (void)state;
    struct freer f = {0};
    struct snib_client *c = open_client("", false);
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_acquire_options a = waiting(0);
    o.lease_ms = 100;
    o.fixed_lease = true;
    o.on_change = release_and_free;
    o.data = &f;
    a.lane = snib_lane_new();
    assert_int_equal(snib_lock_new(c, "x", &o, &f.lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_acquire(f.lock, &a, &f.grant, &e), SNIB_ERR_OK);
    int64_t end = now_ms() + 20000;
    while (!atomic_load(&f.done) && now_ms() < end) {
        nap(1);
    }
    assert_int_equal(atomic_load(&f.done), 1);
    snib_client_free(c);
}

/* -- events ---------------------------------------------------------------------------------- */

static struct snib_event next_event(struct snib_client *c, bool pull)
{
    struct snib_event ev;
    int64_t end = now_ms() + 20000;
    while (!snib_next(c, &ev)) {
        assert_true(now_ms() < end);
        (void)readable(snib_fd(c), 50);
        if (pull) {
            assert_int_equal(snib_process(c), SNIB_ERR_OK);
        }
    }
    return ev;
}

static void events_of(bool pull)
{
    struct snib_client *c = open_client("", pull);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_acquire_options forever = waiting(SNIB_FOREVER);
    struct snib_acquire_options brief = waiting(50), once = waiting(0);
    uint64_t t1, t2, t3;
    int one, two, three, four;
    struct snib_event ev;
    assert_int_equal(snib_acquire_start(l, &forever, &one, &t1, &e),
                     SNIB_ERR_OK);
    ev = next_event(c, pull);
    assert_int_equal(ev.kind, SNIB_EV_GRANTED);
    assert_ptr_equal(ev.user, &one);
    assert_int_equal(ev.grant.ticket, t1);
    struct snib_grant g = ev.grant;

    /* a limit, a cancel, and one that is served */
    assert_int_equal(snib_acquire_start(l, &brief, &two, &t2, &e), SNIB_ERR_OK);
    ev = next_event(c, pull);
    assert_int_equal(ev.kind, SNIB_EV_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_TIMEOUT);
    assert_ptr_equal(ev.user, &two);
    assert_int_equal(snib_acquire_start(l, &forever, &two, &t2, &e),
                     SNIB_ERR_OK);
    snib_cancel(c, t2);
    snib_cancel(c, t2);
    snib_cancel(c, 0);
    ev = next_event(c, pull);
    assert_int_equal(ev.kind, SNIB_EV_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_CANCELLED);
    assert_int_equal(snib_acquire_start(l, &once, &four, &t3, &e),
                     SNIB_ERR_BUSY);
    assert_int_equal(snib_acquire_start(l, &forever, &three, &t3, &e),
                     SNIB_ERR_OK);
    assert_int_equal(snib_release_start(l, g, &four, &e), SNIB_ERR_OK);
    bool released = false, granted = false;
    for (int i = 0; i < 2; i++) {
        ev = next_event(c, pull);
        if (ev.kind == SNIB_EV_RELEASED) {
            assert_ptr_equal(ev.user, &four);
            assert_int_equal(ev.error.code, SNIB_ERR_OK);
            released = true;
        } else {
            assert_int_equal(ev.kind, SNIB_EV_GRANTED);
            assert_ptr_equal(ev.user, &three);
            assert_true(ev.grant.token > g.token);
            granted = true;
            t3 = ev.grant.ticket;
        }
    }
    assert_true(released && granted);
    assert_false(snib_next(c, &ev));
    assert_int_equal(snib_release_start(l, g, &four, &e), SNIB_ERR_NOT_HELD);
    g.ticket = t3;
    assert_int_equal(snib_release_start(l, g, &four, &e), SNIB_ERR_OK);
    ev = next_event(c, pull);
    assert_int_equal(ev.kind, SNIB_EV_RELEASED);
    assert_false(readable(snib_fd(c), pull ? 0 : 0) && !pull);
    snib_lock_free(l);
    snib_client_free(c);
}

static void every_start_ends_in_one_event(void **state)
{
    (void)state;
    events_of(false);
}

static void every_start_ends_in_one_event_without_a_thread(void **state)
{
    (void)state;
    events_of(true);
}

static void close_answers_started_acquires(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    struct snib_event ev;
    uint64_t t;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_acquire_start(l, NULL, NULL, &t, &e), SNIB_ERR_OK);
    snib_client_close(c);
    ev = next_event(c, false);
    assert_int_equal(ev.kind, SNIB_EV_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_CLOSED);
    assert_int_equal(snib_acquire_start(l, NULL, NULL, &t, &e),
                     SNIB_ERR_CLOSED);
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_pull_client_does_not_block(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", true);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g = {0};
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_USAGE);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_USAGE);
    snib_lock_free(l);
    snib_client_free(c);
    c = open_client("", false);
    assert_int_equal(snib_process(c), SNIB_ERR_USAGE);
    assert_int_equal(snib_timeout_ms(c), -1);
    snib_client_free(c);
}

/* -- virtual time ------------------------------------------------------------------------------ */

static void a_pull_client_lives_in_virtual_time(void **state)
{
    (void)state;
    struct diary d = {0};
    struct snib_client *c = open_client("?clock=virtual", true);
    struct snib_lock *l = watched_lock(c, 1000, 0, true, &d);
    struct snib_event ev;
    uint64_t t;
    assert_int_equal(snib_acquire_start(l, NULL, &d, &t, &e), SNIB_ERR_OK);
    ev = next_event(c, true);
    assert_int_equal(ev.kind, SNIB_EV_GRANTED);
    assert_true(snib_grant_held(l, ev.grant));
    nap(20);
    assert_true(snib_timeout_ms(c) > 900 && snib_timeout_ms(c) <= 1000);
    assert_int_equal(snib_test_advance(c, 500), SNIB_ERR_OK);
    assert_int_equal(snib_process(c), SNIB_ERR_OK);
    assert_true(snib_grant_held(l, ev.grant));
    assert_int_equal(snib_test_advance(c, 600), SNIB_ERR_OK);
    assert_false(snib_grant_held(l, ev.grant));
    ev = next_event(c, true);
    assert_int_equal(ev.kind, SNIB_EV_STATE);
    assert_int_equal(ev.state, SNIB_LOST);
    assert_int_equal(ev.reason, SNIB_WHY_EXPIRED);
    assert_int_equal(snib_process(c), SNIB_ERR_OK); /* callbacks run there */
    assert_int_equal(d.changes, 1);
    assert_int_equal(snib_release_start(l, ev.grant, NULL, &e), SNIB_ERR_OK);
    ev = next_event(c, true);
    assert_int_equal(ev.kind, SNIB_EV_RELEASED);
    assert_int_equal(ev.error.code, SNIB_ERR_LOST);
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_virtual_limit_ends_a_blocking_call(void **state)
{
    (void)state;
    struct snib_client *c = open_client("?clock=virtual", false);
    struct snib_client *b = open_client("?clock=virtual", false);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(b, "x");
    struct job j = {.lock = m, .wait_ms = 5000};
    struct snib_grant g;
    pthread_t t;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    pthread_create(&t, NULL, acquires, &j);
    until_waiting(b, 1);
    assert_int_equal(snib_test_advance(c, 5001), SNIB_ERR_OK);
    pthread_join(t, NULL);
    assert_int_equal(j.err, SNIB_ERR_TIMEOUT);
    snib_lock_free(l);
    snib_client_free(c);
    snib_client_free(b);
}

/* -- replies that are lost ------------------------------------------------------------------------ */

static void a_lost_reply_is_asked_for_again(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    assert_int_equal(snib_test_drop_replies(c, 3), SNIB_ERR_OK);
    assert_int_equal(acquire(l, 10000, &g), SNIB_ERR_OK);
    assert_int_equal(snib_test_drop_replies(c, 3), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    assert_int_equal(acquire(l, 10000, &g), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- nothing is left ---------------------------------------------------------------------------------- */

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

static void no_descriptor_is_left(void **state)
{
    int before = open_descriptors();
    every_start_ends_in_one_event(state);
    every_start_ends_in_one_event_without_a_thread(state);
    a_release_makes_the_loss_descriptor_readable(state);
    close_ends_those_who_wait(state);
    assert_int_equal(open_descriptors(), before);
}

/* -- grants left behind ------------------------------------------------------------ */

static struct snib_client *open_as(const char *identity)
{
    char url[64];
    snprintf(url, sizeof url, "memory:case%d", space);
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c = NULL;
    o.url = url;
    o.identity = identity;
    if (snib_client_open(&o, &c, &e)) {
        assert_int_equal(e.code, SNIB_ERR_USAGE);
        assert_null(c);
    }
    return c;
}

static struct snib_lock *fixed_lock_of(struct snib_client *c, const char *name)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.fixed_lease = true;
    assert_int_equal(snib_lock_new(c, name, &o, &l, &e), SNIB_ERR_OK);
    return l;
}

static void a_grant_left_behind_is_adopted_by_another_client(void **state)
{
    (void)state;
    struct snib_client *look = open_client("", false); /* keeps the space */
    struct snib_lock *other = lock_of(look, "x");
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = fixed_lock_of(c, "x");
    struct snib_grant g, h;
    char text[SNIB_GRANT_TEXT], identity[SNIB_IDENTITY_TEXT];
    struct snib_status s;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_grant_export(l, g, text, 10, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_grant_export(l, g, text, sizeof text, &e),
                     SNIB_ERR_OK);
    assert_int_equal(snib_grant_abandon(l, g, &e), SNIB_ERR_OK);
    assert_false(snib_grant_held(l, g));
    assert_int_equal(snib_grant_abandon(l, g, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_grant_export(l, g, text + 1, 0, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_grant_identity(text, identity, sizeof identity, &e),
                     SNIB_ERR_OK);
    assert_string_equal(identity, snib_client_id(c));
    snib_lock_free(l);
    snib_client_free(c);
    assert_int_equal(acquire(other, 0, &h), SNIB_ERR_BUSY);
    assert_int_equal(snib_grant_adopt(other, text, 0, &h, &e), SNIB_ERR_USAGE);

    c = open_as(identity);
    l = fixed_lock_of(c, "x");
    assert_int_equal(snib_grant_adopt(l, text, 1, &h, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_grant_adopt(l, text, 60000, &h, &e), SNIB_ERR_OK);
    assert_int_equal(h.token, g.token);
    assert_int_equal(snib_grant_adopt(l, text, 0, &g, &e), SNIB_ERR_BUSY);
    snib_grant_status(l, h, &s);
    assert_int_equal(s.state, SNIB_HELD);
    assert_true(s.left_ms > 50000);
    assert_int_equal(snib_renew(l, h, 0, &e), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, h, &e), SNIB_ERR_OK);
    assert_int_equal(acquire(other, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_grant_adopt(l, text, 0, &h, &e), SNIB_ERR_LOST);
    assert_int_equal(h.ticket, 0);
    assert_int_equal(snib_release(other, g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_grant_adopt(l, text, 0, &h, &e), SNIB_ERR_LOST);
    snib_lock_free(l);
    snib_client_free(c);
    snib_lock_free(other);
    snib_client_free(look);
}

static void all_holds_are_abandoned_and_a_renewed_lease_is_not(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = fixed_lock_of(c, "x"), *m = fixed_lock_of(c, "x");
    struct snib_lock *r = lock_of(c, "y");
    struct snib_grant g, h;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(acquire(m, 0, &h), SNIB_ERR_OK);
    assert_int_equal(h.token, g.token);
    assert_true(snib_grant_fd(l, g) >= 0);
    assert_int_equal(snib_grant_abandon(m, h, &e), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_NOT_HELD);
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_BUSY);
    assert_int_equal(acquire(r, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_grant_abandon(r, g, &e), SNIB_ERR_USAGE);
    assert_true(snib_grant_held(r, g));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_lock_free(r);
    snib_client_free(c);
}

static void an_identity_is_thirty_two_hexadecimal_digits(void **state)
{
    (void)state;
    char identity[SNIB_IDENTITY_TEXT];
    assert_null(open_as(""));
    assert_null(open_as("0123456789abcdef0123456789abcde"));
    assert_null(open_as("0123456789abcdef0123456789abcdefa"));
    assert_null(open_as("0123456789abcdef0123456789abcdeg"));
    struct snib_client *c = open_as("0123456789abcdefFEDCBA9876543210");
    assert_string_equal(snib_client_id(c), "0123456789abcdeffedcba9876543210");
    snib_client_free(c);
    static const char *const bad[] = {
        NULL,
        "",
        "snib1:",
        "snib1:0123456789abcdef0123456789abcdef:"
        "0123456789abcdef0123456789abcdef:",
        "snib1:0123456789abcdef0123456789abcdef:"
        "0123456789abcdef0123456789abcdef:0",
        "snib1:0123456789abcdef0123456789abcdef:"
        "0123456789abcdef0123456789abcdef:1x",
        "snib1:0123456789abcdef0123456789abcdef:"
        "0123456789abcdef0123456789abcdef:9999999999999999999",
        "snib1:0123456789abcdef0123456789abcdef:"
        "0123456789abcdef0123456789abcdef:-1",
        "snib1:0123456789abcdef0123456789abcdeg:"
        "0123456789abcdef0123456789abcdef:1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(
            snib_grant_identity(bad[i], identity, sizeof identity, &e),
            SNIB_ERR_USAGE);
    }
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(acquire_then_release, new_space),
        cmocka_unit_test_setup(same_thread_enters_again_with_the_same_token,
                               new_space),
        cmocka_unit_test_setup(second_release_is_recognised, new_space),
        cmocka_unit_test_setup(two_handles_of_one_name_share_the_grant,
                               new_space),
        cmocka_unit_test_setup(freeing_a_handle_releases_what_it_holds,
                               new_space),
        cmocka_unit_test_setup(renewing_extends_the_deadline, new_space),
        cmocka_unit_test_setup(wrong_options_are_refused, new_space),
        cmocka_unit_test_setup(another_thread_is_refused_by_a_try, new_space),
        cmocka_unit_test_setup(limits_are_kept, new_space),
        cmocka_unit_test_setup(another_thread_must_not_release, new_space),
        cmocka_unit_test_setup(a_lane_of_ones_own_may_move, new_space),
        cmocka_unit_test_setup(
            a_new_thread_is_never_the_owner_of_a_dead_ones_lock, new_space),
        cmocka_unit_test_setup(many_threads_exclude_each_other_and_tokens_rise,
                               new_space),
        cmocka_unit_test_setup(
            many_threads_of_several_clients_exclude_each_other, new_space),
        cmocka_unit_test_setup(close_ends_those_who_wait, new_space),
        cmocka_unit_test_setup(after_close_the_holder_still_releases,
                               new_space),
        cmocka_unit_test_setup(stop_releases_what_is_held, new_space),
        cmocka_unit_test_setup(a_child_is_refused_and_the_parent_undisturbed,
                               new_space),
        cmocka_unit_test_setup(a_fixed_lease_that_ends_is_told_by_its_deadline,
                               new_space),
        cmocka_unit_test_setup(a_stolen_lock_is_told_at_the_next_renewal,
                               new_space),
        cmocka_unit_test_setup(hold_max_ends_a_renewed_lease, new_space),
        cmocka_unit_test_setup(the_keeper_renews, new_space),
        cmocka_unit_test_setup(a_release_makes_the_loss_descriptor_readable,
                               new_space),
        cmocka_unit_test_setup(a_callback_may_release_and_free, new_space),
        cmocka_unit_test_setup(every_start_ends_in_one_event, new_space),
        cmocka_unit_test_setup(every_start_ends_in_one_event_without_a_thread,
                               new_space),
        cmocka_unit_test_setup(close_answers_started_acquires, new_space),
        cmocka_unit_test_setup(a_pull_client_does_not_block, new_space),
        cmocka_unit_test_setup(a_pull_client_lives_in_virtual_time, new_space),
        cmocka_unit_test_setup(a_virtual_limit_ends_a_blocking_call, new_space),
        cmocka_unit_test_setup(a_lost_reply_is_asked_for_again, new_space),
        cmocka_unit_test_setup(a_grant_left_behind_is_adopted_by_another_client,
                               new_space),
        cmocka_unit_test_setup(
            all_holds_are_abandoned_and_a_renewed_lease_is_not, new_space),
        cmocka_unit_test_setup(an_identity_is_thirty_two_hexadecimal_digits,
                               new_space),
        cmocka_unit_test_setup(no_descriptor_is_left, new_space),
    };
    return RUN(cases);
}

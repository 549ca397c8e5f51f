/* Several locks as one (snib/multi.h), on every store and on two at a time.
 *
 *   snib_conformance_multi [-f] URL OTHER_URL [CASE]
 *
 * Every case uses names of its own. `memory:` lives in one process, so cases
 * that fork are skipped there. -f: the way to the store loses answers; then
 * UNKNOWN and UNREACHABLE are outcomes like others, and the counters and that
 * all is free in the end are what counts. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "snib.h"
#include "snib/multi.h"

static const char *url, *other_url;
static struct snib_error e;
static bool faults;

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static const char *fresh(const char *what)
{
    static char names[64][64];
    static int n;
    char *name = names[n % 64];
    snprintf(name, sizeof names[0], "multi-%d-%d-%s", (int)getpid(), n++, what);
    return name;
}

static struct snib_client *open_at(const char *at)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    o.url = at;
    o.program = "multi";
    if (snib_client_open(&o, &c, &e)) {
        fail_msg("open %s: %s", at, e.text);
    }
    return c;
}

static struct snib_lock *lock_of(struct snib_client *c, const char *name)
{
    struct snib_lock *l;
    if (snib_lock_new(c, name, NULL, &l, &e)) {
        fail_msg("%s: %s", name, e.text);
    }
    return l;
}

static struct snib_multi *multi_of(struct snib_lock *const locks[], size_t n)
{
    struct snib_multi *m;
    if (snib_multi_new(locks, n, NULL, &m, &e)) {
        fail_msg("multi: %s", e.text);
    }
    return m;
}

static struct snib_acquire_options waiting(int64_t ms)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.wait_ms = ms;
    return o;
}

static snib_err take(struct snib_multi *m, int64_t ms, struct snib_grant g[])
{
    struct snib_acquire_options o = waiting(ms);
    return snib_multi_acquire(m, &o, g, &e);
}

static void must(snib_err err)
{
    if (err) {
        fail_msg("unexpected %s: %s", snib_err_name(err), e.text);
    }
}

/* Nobody holds it: asked with another client. */
static void assert_free(const char *at, const char *name)
{
    struct snib_client *c = open_at(at);
    struct snib_view *v;
    must(snib_inspect(c, name, 0, &v, &e));
    size_t holders = v->holder_count, waiters = v->waiter_count;
    snib_view_free(v);
    snib_client_free(c);
    assert_int_equal(holders, 0);
    assert_int_equal(waiters, 0);
}

/* Waits for nothing but a fact; up to 10 s. */
static void wait_for_waiter(struct snib_client *c, const char *name)
{
    int64_t until = now_ms() + 10000;
    size_t n = 0;
    while (!n) {
        struct snib_view *v;
        must(snib_inspect(c, name, 0, &v, &e));
        n = v->waiter_count;
        snib_view_free(v);
        assert_true(now_ms() < until);
        poll(NULL, 0, 2);
    }
}

/* Two clients, three names: x and z at url, y at the other one. */
struct rig {
    struct snib_client *here, *there, *stranger;
    const char *x, *y, *z;
    struct snib_lock *lock[3]; /* x, y, z                                   */
    struct snib_multi *multi;
};

static struct rig rig_new(void)
{
    struct rig r = {.here = open_at(url),
                    .there = open_at(other_url),
                    .x = fresh("x"),
                    .y = fresh("y"),
                    .z = fresh("z")};
    r.stranger = open_at(url);
    r.lock[0] = lock_of(r.here, r.x);
    r.lock[1] = lock_of(r.there, r.y);
    r.lock[2] = lock_of(r.here, r.z);
    r.multi = multi_of(r.lock, 3);
    return r;
}

static void rig_free(struct rig *r)
{
    snib_multi_free(r->multi);
    for (int i = 0; i < 3; i++) {
        snib_lock_free(r->lock[i]);
    }
    snib_client_free(r->here);
    snib_client_free(r->there);
    snib_client_free(r->stranger);
}

static void assert_all_free(const struct rig *r)
{
    assert_free(url, r->x);
    assert_free(other_url, r->y);
    assert_free(url, r->z);
}

/* -- one caller ------------------------------------------------------------- */

static void all_are_held_until_all_are_released(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_grant g[3];
    struct snib_multi_status s;
    assert_int_equal(snib_multi_count(r.multi), 3);
    must(take(r.multi, 0, g));
    for (int i = 0; i < 3; i++) {
        assert_true(g[i].ticket && g[i].token > 0);
        assert_true(snib_grant_held(r.lock[i], g[i]));
    }
    assert_true(snib_multi_held(r.multi, g));
    snib_multi_status(r.multi, g, &s);
    assert_int_equal(s.state, SNIB_HELD);
    assert_in_range(s.left_ms, 1, 30000);
    must(snib_multi_release(r.multi, g, &e));
    assert_false(snib_multi_held(r.multi, g));
    snib_multi_status(r.multi, g, &s);
    assert_int_equal(s.state, SNIB_RELEASED);
    assert_all_free(&r);
    rig_free(&r);
}

static void tokens_rise_for_each_lock(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_grant g[3], h[3];
    must(take(r.multi, 0, g));
    must(snib_multi_release(r.multi, g, &e));
    must(take(r.multi, 0, h));
    for (int i = 0; i < 3; i++) {
        assert_true(h[i].token > g[i].token);
    }
    must(snib_multi_release(r.multi, h, &e));
    rig_free(&r);
}

static void the_same_lane_enters_again(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_grant single, g[3], h[3];
    struct snib_acquire_options once = waiting(0);
    must(snib_acquire(r.lock[2], &once, &single, &e));
    must(take(r.multi, 0, g));
    assert_int_equal(g[2].token, single.token);
    must(take(r.multi, 0, h));
    must(snib_multi_release(r.multi, h, &e));
    assert_true(snib_multi_held(r.multi, g));
    must(snib_multi_release(r.multi, g, &e));
    assert_true(snib_grant_held(r.lock[2], single));
    must(snib_release(r.lock[2], single, &e));
    assert_all_free(&r);
    rig_free(&r);
}

static void an_explicit_lane_holds_all(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_grant g[3], h[3];
    struct snib_acquire_options o = waiting(0);
    o.lane = snib_lane_new();
    must(snib_multi_acquire(r.multi, &o, g, &e));
    /* This thread is another lane. */
    assert_int_equal(take(r.multi, 0, h), SNIB_ERR_BUSY);
    must(snib_multi_release(r.multi, g, &e));
    assert_all_free(&r);
    rig_free(&r);
}

static void twenty_locks_of_one_store(void **state)
{
    (void)state;
    enum { MANY = 20 };
    struct snib_client *c = open_at(url);
    struct snib_lock *lock[MANY];
    struct snib_grant g[MANY], h;
    const char *name[MANY];
    for (int i = 0; i < MANY; i++) {
        name[i] = fresh("many");
        lock[(i * 7) % MANY] = lock_of(c, name[i]);
    }
    struct snib_multi *m = multi_of(lock, MANY);
    must(take(m, 0, g));
    must(snib_multi_release(m, g, &e));
    /* One of them is taken: nothing is left of the others. */
    struct snib_client *stranger = open_at(url);
    struct snib_lock *theirs = lock_of(stranger, name[11]);
    must(snib_acquire(theirs, NULL, &h, &e));
    assert_int_equal(take(m, 0, g), SNIB_ERR_BUSY);
    assert_non_null(strstr(e.text, name[11]));
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(g[i].ticket, 0);
        if (i != 11) {
            assert_free(url, name[i]);
        }
    }
    must(snib_release(theirs, h, &e));
    must(take(m, 0, g));
    must(snib_multi_release(m, g, &e));
    snib_lock_free(theirs);
    snib_client_free(stranger);
    snib_multi_free(m);
    for (int i = 0; i < MANY; i++) {
        snib_lock_free(lock[i]);
    }
    snib_client_free(c);
}

/* NULL: the store has no such kind. */
static struct snib_lock *lock_of_kind(struct snib_client *c, const char *name,
                                      snib_kind kind)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.kind = kind;
    if (kind == SNIB_PERMITS) {
        o.permits = 1;
        o.capacity = 2;
    }
    snib_err err = snib_lock_new(c, name, &o, &l, &e);
    if (err != SNIB_ERR_UNSUPPORTED) {
        must(err);
    }
    return l;
}

static void kinds_can_be_mixed(void **state)
{
    (void)state;
    struct snib_client *c[2] = {open_at(url), open_at(url)};
    const char *x = fresh("x"), *y = fresh("y"), *z = fresh("z");
    struct snib_lock *lock[2][3];
    struct snib_multi *m[2];
    struct snib_grant g[2][3];
    for (int i = 0; i < 2; i++) {
        lock[i][0] = lock_of_kind(c[i], z, SNIB_READ);
        lock[i][1] = lock_of_kind(c[i], y, SNIB_PERMITS);
        lock[i][2] = lock_of_kind(c[i], x, i ? SNIB_READ : SNIB_WRITE);
        if (!lock[i][0] || !lock[i][1] || !lock[i][2]) {
            print_message("skipped: this store has mutexes only\n");
            skip();
        }
        m[i] = multi_of(lock[i], 3);
    }
    must(take(m[0], 0, g[0]));
    /* The write of x is in the way, and nothing else. */
    assert_int_equal(take(m[1], 0, g[1]), SNIB_ERR_BUSY);
    assert_non_null(strstr(e.text, x));
    must(snib_multi_release(m[0], g[0], &e));
    must(take(m[1], 0, g[1]));
    must(snib_multi_release(m[1], g[1], &e));
    /* A read and a write of one name would wait for each other. */
    struct snib_lock *both[] = {lock[0][2], lock[1][2]};
    struct snib_multi *none;
    assert_int_equal(snib_multi_new(both, 2, NULL, &none, &e), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, x));
    for (int i = 0; i < 2; i++) {
        snib_multi_free(m[i]);
        snib_client_free(c[i]);
    }
    assert_free(url, x);
    assert_free(url, y);
    assert_free(url, z);
}

/* -- nothing is left --------------------------------------------------------- */

static void a_try_that_fails_leaves_nothing(void **state)
{
    (void)state;
    struct rig r = rig_new();
    const char *names[] = {r.x, r.z};
    for (int i = 0; i < 2; i++) {
        struct snib_grant g[3], h;
        struct snib_lock *theirs = lock_of(r.stranger, names[i]);
        must(snib_acquire(theirs, NULL, &h, &e));
        assert_int_equal(take(r.multi, 0, g), SNIB_ERR_BUSY);
        assert_non_null(strstr(e.text, names[i]));
        assert_int_equal(g[0].ticket | g[1].ticket | g[2].ticket, 0);
        must(snib_release(theirs, h, &e));
        assert_all_free(&r);
        snib_lock_free(theirs);
    }
    rig_free(&r);
}

static void a_time_out_leaves_nothing_and_is_in_time(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_lock *theirs = lock_of(r.stranger, r.z);
    struct snib_grant g[3], h;
    must(snib_acquire(theirs, NULL, &h, &e));
    int64_t from = now_ms();
    assert_int_equal(take(r.multi, 300, g), SNIB_ERR_TIMEOUT);
    assert_in_range(now_ms() - from, 290, 2000);
    assert_non_null(strstr(e.text, r.z));
    /* At once, while the stranger still holds his. */
    assert_free(url, r.x);
    assert_free(other_url, r.y);
    must(snib_release(theirs, h, &e));
    assert_all_free(&r);
    snib_lock_free(theirs);
    rig_free(&r);
}

static void a_store_that_is_away_leaves_nothing(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *here = open_at(url), *away;
    const char *x = fresh("x");
    struct snib_lock *lock[2] = {lock_of(here, x), NULL};
    struct snib_grant g[2];
    o.url = "redis://127.0.0.1:1"; /* in order before sqlite, not memory     */
    o.request_ms = 300;
    if (snib_client_open(&o, &away, &e)) {
        print_message("skipped: redis is not in this build\n");
        skip();
    }
    lock[1] = lock_of(away, "y");
    struct snib_multi *m = multi_of(lock, 2);
    assert_int_equal(take(m, 0, g), SNIB_ERR_UNREACHABLE);
    assert_int_equal(take(m, 2000, g), SNIB_ERR_UNREACHABLE);
    assert_int_equal(g[0].ticket | g[1].ticket, 0);
    assert_free(url, x);
    snib_multi_free(m);
    snib_lock_free(lock[0]);
    snib_lock_free(lock[1]);
    snib_client_free(away);
    snib_client_free(here);
}

/* -- waiting ------------------------------------------------------------------- */

struct job {
    struct snib_multi *multi;
    struct snib_grant grants[3];
    snib_err err;
    int64_t wait_ms;
    atomic_int done;
};

static void *take_and_release(void *arg)
{
    struct job *j = arg;
    struct snib_error mine = {0};
    struct snib_acquire_options o = waiting(j->wait_ms);
    j->err = snib_multi_acquire(j->multi, &o, j->grants, &mine);
    if (!j->err) {
        j->err = snib_multi_release(j->multi, j->grants, &mine);
    }
    atomic_store(&j->done, 1);
    return NULL;
}

static void one_that_waits_gets_all_after_the_release(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_lock *theirs = lock_of(r.stranger, r.x);
    struct snib_grant h;
    struct job j = {.multi = r.multi, .wait_ms = 20000};
    pthread_t t;
    must(snib_acquire(theirs, NULL, &h, &e));
    assert_int_equal(pthread_create(&t, NULL, take_and_release, &j), 0);
    wait_for_waiter(r.stranger, r.x);
    /* What stands behind x in the order is nobody's while x is waited for. */
    assert_free(url, r.z);
    assert_int_equal(atomic_load(&j.done), 0);
    must(snib_release(theirs, h, &e));
    pthread_join(t, NULL);
    assert_int_equal(j.err, SNIB_ERR_OK);
    assert_all_free(&r);
    snib_lock_free(theirs);
    rig_free(&r);
}

static void a_closed_client_ends_the_wait(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_lock *theirs = lock_of(r.stranger, r.z);
    struct snib_grant h;
    struct job j = {.multi = r.multi, .wait_ms = SNIB_FOREVER};
    pthread_t t;
    must(snib_acquire(theirs, NULL, &h, &e));
    assert_int_equal(pthread_create(&t, NULL, take_and_release, &j), 0);
    wait_for_waiter(r.stranger, r.z);
    snib_client_close(r.here);
    pthread_join(t, NULL);
    assert_int_equal(j.err, SNIB_ERR_CLOSED);
    must(snib_release(theirs, h, &e));
    assert_free(other_url, r.y);
    assert_free(url, r.x);
    snib_lock_free(theirs);
    rig_free(&r);
}

static void a_cancelled_multi_ends_all_its_waits(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_lock *theirs = lock_of(r.stranger, r.z);
    struct snib_grant g[3], h;
    struct job j[2] = {{.multi = r.multi, .wait_ms = SNIB_FOREVER},
                       {.multi = r.multi, .wait_ms = SNIB_FOREVER}};
    pthread_t t[2];
    must(snib_acquire(theirs, NULL, &h, &e));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, take_and_release, &j[i]),
                         0);
    }
    wait_for_waiter(r.stranger, r.z);
    snib_multi_cancel(r.multi);
    for (int i = 0; i < 2; i++) {
        pthread_join(t[i], NULL);
        /* UNKNOWN: others saw it wait before its client was told so. */
        assert_true(j[i].err == SNIB_ERR_CANCELLED ||
                    j[i].err == SNIB_ERR_UNKNOWN);
        assert_int_equal(j[i].grants[0].ticket | j[i].grants[1].ticket, 0);
    }
    assert_free(url, r.x);
    assert_free(other_url, r.y);
    /* It stays so: nobody waits any more, and who need not wait gets all. */
    assert_int_equal(take(r.multi, SNIB_FOREVER, g), SNIB_ERR_CANCELLED);
    assert_int_equal(take(r.multi, 0, g), SNIB_ERR_BUSY);
    must(snib_release(theirs, h, &e));
    must(take(r.multi, 0, g));
    must(snib_multi_release(r.multi, g, &e));
    assert_all_free(&r);
    snib_lock_free(theirs);
    rig_free(&r);
}

/* A fact that comes true; up to 10 s. */
static void wait_until_missing(struct snib_multi *m, size_t index)
{
    int64_t until = now_ms() + 10000;
    while (snib_multi_missing(m) != index) {
        assert_true(now_ms() < until);
        poll(NULL, 0, 2);
    }
}

static void the_missing_lock_is_named(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_lock *x = lock_of(r.stranger, r.x);
    struct snib_lock *z = lock_of(r.stranger, r.z);
    struct snib_grant hx, hz, g[3];
    struct job j = {.multi = r.multi, .wait_ms = 20000};
    pthread_t t;
    assert_int_equal(snib_multi_missing(r.multi), 3);
    must(snib_acquire(x, NULL, &hx, &e));
    must(snib_acquire(z, NULL, &hz, &e));
    assert_int_equal(take(r.multi, 0, g), SNIB_ERR_BUSY);
    assert_int_equal(snib_multi_missing(r.multi), 0);
    assert_int_equal(pthread_create(&t, NULL, take_and_release, &j), 0);
    wait_for_waiter(r.stranger, r.x);
    wait_until_missing(r.multi, 0);
    must(snib_release(x, hx, &e));
    wait_for_waiter(r.stranger, r.z);
    wait_until_missing(r.multi, 2);
    must(snib_release(z, hz, &e));
    pthread_join(t, NULL);
    assert_int_equal(j.err, SNIB_ERR_OK);
    assert_int_equal(snib_multi_missing(r.multi), 3);
    snib_lock_free(x);
    snib_lock_free(z);
    rig_free(&r);
}

/* -- loss ------------------------------------------------------------------------ */

static void the_loss_of_one_is_the_loss_of_the_whole(void **state)
{
    (void)state;
    struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
    struct snib_client *here = open_at(url), *there = open_at(other_url);
    const char *x = fresh("x"), *y = fresh("y");
    struct snib_lock *lock[2] = {lock_of(here, x)};
    struct snib_grant g[2];
    struct snib_multi_status s;
    lo.lease_ms = 200;
    lo.fixed_lease = true;
    must(snib_lock_new(there, y, &lo, &lock[1], &e));
    struct snib_multi *m = multi_of(lock, 2);
    must(take(m, 5000, g));
    snib_multi_status(m, g, &s);
    assert_int_equal(s.member, 1); /* the earliest deadline                   */
    assert_in_range(s.left_ms, 0, 200);
    int64_t until = now_ms() + 10000;
    do {
        assert_true(now_ms() < until);
        poll(NULL, 0, 5);
        snib_multi_status(m, g, &s);
    } while (s.state != SNIB_LOST);
    assert_false(snib_multi_held(m, g));
    assert_int_equal(s.reason, SNIB_WHY_EXPIRED);
    assert_int_equal(s.member, 1);
    assert_int_equal(s.left_ms, 0);
    assert_true(snib_grant_held(lock[0], g[0]));
    assert_int_equal(snib_multi_release(m, g, &e), SNIB_ERR_LOST);
    assert_non_null(strstr(e.text, y));
    assert_free(url, x);
    /* Unwound: it can be had again. */
    must(take(m, 5000, g));
    must(snib_multi_release(m, g, &e));
    snib_multi_free(m);
    snib_lock_free(lock[0]);
    snib_lock_free(lock[1]);
    snib_client_free(here);
    snib_client_free(there);
}

static void a_lease_that_ends_during_the_wait_is_taken_anew(void **state)
{
    (void)state;
    struct snib_lock_options lo = SNIB_INIT(snib_lock_options);
    struct snib_client *c = open_at(url), *stranger = open_at(url);
    const char *x = fresh("a"), *z = fresh("b");
    struct snib_lock *lock[2], *theirs = lock_of(stranger, z);
    struct snib_grant h;
    pthread_t t;
    lo.lease_ms = 300;
    lo.fixed_lease = true;
    must(snib_lock_new(c, x, &lo, &lock[0], &e));
    lock[1] = lock_of(c, z);
    struct snib_multi *m = multi_of(lock, 2);
    struct job j = {.multi = m, .wait_ms = 20000};
    must(snib_acquire(theirs, NULL, &h, &e));
    assert_int_equal(pthread_create(&t, NULL, take_and_release, &j), 0);
    wait_for_waiter(stranger, z);
    /* Until x's lease, which nobody renews, has ended. */
    int64_t until = now_ms() + 10000;
    for (bool held = true; held;) {
        struct snib_view *v;
        must(snib_inspect(stranger, x, 0, &v, &e));
        held = v->holder_count > 0;
        snib_view_free(v);
        assert_true(now_ms() < until);
        poll(NULL, 0, 5);
    }
    must(snib_release(theirs, h, &e));
    pthread_join(t, NULL);
    assert_int_equal(j.err, SNIB_ERR_OK); /* released whole, nothing lost     */
    assert_free(url, x);
    assert_free(url, z);
    snib_multi_free(m);
    snib_lock_free(lock[0]);
    snib_lock_free(lock[1]);
    snib_lock_free(theirs);
    snib_client_free(c);
    snib_client_free(stranger);
}

/* -- bad input ------------------------------------------------------------------- */

static void bad_input_is_refused_with_the_name(void **state)
{
    (void)state;
    struct snib_client_options co = SNIB_INIT(snib_client_options);
    struct snib_client *c = open_at(url), *same = open_at(url), *pull;
    struct snib_lock *a = lock_of(c, "multi-a"), *b = lock_of(c, "multi-b"),
                     *again = lock_of(c, "multi-a"),
                     *twin = lock_of(same, "multi-a");
    struct snib_lock *twice[] = {a, b, again}, *twins[] = {b, a, twin},
                     *hole[] = {a, NULL}, *fine[] = {b, a};
    struct snib_multi_options o = {.size = 1};
    struct snib_multi *m;
    struct snib_grant g[2] = {{1, 1}, {1, 1}};
    assert_int_equal(snib_multi_new(twice, 3, NULL, &m, &e), SNIB_ERR_USAGE);
    assert_null(m);
    assert_non_null(strstr(e.text, "'multi-a' is named twice (locks 0 and 2)"));
    assert_int_equal(snib_multi_new(twins, 3, NULL, &m, &e), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "'multi-a' is named twice (locks 1 and 2)"));
    assert_int_equal(snib_multi_new(hole, 2, NULL, &m, &e), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "lock 1"));
    assert_int_equal(snib_multi_new(fine, 0, NULL, &m, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_multi_new(NULL, 2, NULL, &m, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_multi_new(fine, SNIB_MULTI_MAX + 1, NULL, &m, &e),
                     SNIB_ERR_USAGE);
    assert_int_equal(snib_multi_new(fine, 2, &o, &m, &e), SNIB_ERR_USAGE);
    co.url = url;
    co.pull = true;
    must(snib_client_open(&co, &pull, &e));
    struct snib_lock *pulled = lock_of(pull, "multi-p"), *mix[] = {a, pulled};
    assert_int_equal(snib_multi_new(mix, 2, NULL, &m, &e), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "pull client"));
    m = multi_of(fine, 2);
    assert_int_equal(take(m, -2, g), SNIB_ERR_USAGE);
    assert_int_equal(g[0].ticket | g[1].ticket, 0);
    assert_int_equal(snib_multi_release(m, g, &e), SNIB_ERR_NOT_HELD);
    assert_non_null(strstr(e.text, "'multi-"));
    snib_multi_free(m);
    snib_multi_free(NULL);
    snib_lock_free(pulled);
    snib_client_free(pull);
    snib_lock_free(twin);
    snib_client_free(same);
    snib_client_free(c);
}

static void two_spellings_of_one_store_are_one(void **state)
{
    (void)state;
    char spelling[512];
    if (strncmp(url, "redis://127", 11) == 0) {
        snprintf(spelling, sizeof spelling, "redis://%.*s?db=00",
                 (int)strcspn(url + 8, "/"), url + 8);
    } else if (strncmp(url, "memory:", 7) == 0) {
        snprintf(spelling, sizeof spelling, "%s?clock=real", url);
    } else {
        print_message("skipped: no second spelling of this store\n");
        skip();
    }
    struct snib_client *c = open_at(url), *same = open_at(spelling);
    struct snib_lock *twins[] = {lock_of(c, "twin"), lock_of(same, "twin")};
    struct snib_multi *m;
    assert_int_equal(snib_multi_new(twins, 2, NULL, &m, &e), SNIB_ERR_USAGE);
    snib_client_free(c);
    snib_client_free(same);
}

static void a_child_is_told_that_it_is_one(void **state)
{
    (void)state;
    struct rig r = rig_new();
    pid_t child = fork();
    int status;
    if (child == 0) {
        struct snib_grant g[3];
        _exit(take(r.multi, 0, g) == SNIB_ERR_FORKED &&
                      snib_multi_release(r.multi, g, &e) == SNIB_ERR_FORKED
                  ? 0
                  : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    rig_free(&r);
}

/* -- crowds ------------------------------------------------------------------------ */

enum { NAMES = 5, CROWD_MS = 2500, PROGRESS_MS = 30000 };

/* Plain counters, each under the lock of its name; beside them what they must
 * come to. */
struct ledger {
    volatile int64_t count[NAMES];
    atomic_llong due[NAMES], rounds, unanswered;
    atomic_int failed;
    char why[300];
};

struct crowd {
    struct ledger *ledger;
    struct snib_client *here, *there;
    struct snib_lock *lock[NAMES];
    unsigned seed;
};

static char crowd_names[NAMES][64];

static void name_crowd(void)
{
    for (int i = 0; i < NAMES; i++) {
        snprintf(crowd_names[i], sizeof crowd_names[i], "%s", fresh("crowd"));
    }
}

static void crowd_locks(struct crowd *c)
{
    for (int i = 0; i < NAMES; i++) {
        /* Odd ones live in the other store. */
        c->lock[i] = lock_of(i % 2 ? c->there : c->here, crowd_names[i]);
    }
}

static void give_out(struct ledger *l, const char *what, const char *text)
{
    if (!atomic_exchange(&l->failed, 1)) {
        snprintf(l->why, sizeof l->why, "%s: %.200s", what, text);
    }
}

/* A random subset in random order. */
static size_t pick(unsigned *seed, int ret[NAMES])
{
    size_t n = 1 + (size_t)rand_r(seed) % NAMES;
    for (int i = 0; i < NAMES; i++) {
        ret[i] = i;
    }
    for (int i = NAMES - 1; i > 0; i--) {
        int j = rand_r(seed) % (i + 1), k = ret[i];
        ret[i] = ret[j];
        ret[j] = k;
    }
    return n;
}

static void section(struct crowd *c, const int which[], size_t n)
{
    struct ledger *l = c->ledger;
    int64_t seen[NAMES];
    for (size_t i = 0; i < n; i++) {
        seen[i] = l->count[which[i]];
    }
    sched_yield();
    for (size_t i = 0; i < n; i++) {
        l->count[which[i]] = seen[i] + 1;
        atomic_fetch_add(&l->due[which[i]], 1);
    }
    atomic_fetch_add(&l->rounds, 1);
}

/* What a limit of a few milliseconds may end in. A file that others write to
 * for longer than that is STORE: nothing was applied. */
static bool is_short_of_time(snib_err err)
{
    return snib_err_class(err) == SNIB_CLASS_REFUSED ||
           err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE ||
           err == SNIB_ERR_STORE;
}

static void *crowd_member(void *arg)
{
    struct crowd *c = arg;
    struct ledger *l = c->ledger;
    struct snib_error mine = {0};
    int64_t until = now_ms() + CROWD_MS;
    while (now_ms() < until && !atomic_load(&l->failed)) {
        int which[NAMES];
        size_t n = pick(&c->seed, which);
        struct snib_lock *locks[NAMES];
        struct snib_grant g[NAMES];
        struct snib_multi *m;
        /* Now and then one that gives up early. */
        bool hasty = rand_r(&c->seed) % 4 == 0;
        struct snib_acquire_options o =
            waiting(hasty ? rand_r(&c->seed) % 5 : PROGRESS_MS);
        for (size_t i = 0; i < n; i++) {
            locks[i] = c->lock[which[i]];
        }
        if (snib_multi_new(locks, n, NULL, &m, &mine)) {
            give_out(l, "new", mine.text);
            break;
        }
        snib_err err = snib_multi_acquire(m, &o, g, &mine);
        if (!err) {
            section(c, which, n);
            err = snib_multi_release(m, g, &mine);
        } else if (hasty && is_short_of_time(err)) {
            err = SNIB_ERR_OK;
        }
        bool unanswered =
            err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE;
        if (err && !(faults && unanswered)) {
            give_out(l, snib_err_name(err), mine.text);
        }
        atomic_fetch_add(&l->unanswered, err && unanswered);
        snib_multi_free(m);
    }
    return NULL;
}

static struct ledger *ledger_new(void)
{
    struct ledger *l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(l != MAP_FAILED);
    return l;
}

/* Releases that got no answer were repeated until their client was freed. */
static void assert_free_soon(const char *at, const char *name)
{
    struct snib_client *c = open_at(at);
    int64_t until = now_ms() + (faults ? 5000 : 0);
    size_t left = 1;
    while (left) {
        struct snib_view *v;
        if (snib_inspect(c, name, 0, &v, &e) == SNIB_ERR_OK) {
            left = v->holder_count + v->waiter_count;
            snib_view_free(v);
        }
        if (left) {
            if (now_ms() >= until) {
                fail_msg("%s is left at %s", name, at);
            }
            poll(NULL, 0, 10);
        }
    }
    snib_client_free(c);
}

static void judge(struct ledger *l)
{
    if (atomic_load(&l->failed)) {
        fail_msg("%s", l->why);
    }
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(l->count[i], atomic_load(&l->due[i]));
        assert_true(l->count[i] > 0);
        assert_free_soon(i % 2 ? other_url : url, crowd_names[i]);
    }
    print_message("%lld rounds, %lld without an answer\n",
                  atomic_load(&l->rounds), atomic_load(&l->unanswered));
    munmap(l, sizeof *l);
}

static void threads_in_random_orders(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    struct crowd c[THREADS];
    pthread_t t[THREADS];
    struct ledger *l = ledger_new();
    struct snib_client *here[2] = {open_at(url), open_at(url)},
                       *there[2] = {open_at(other_url), open_at(other_url)};
    name_crowd();
    for (int i = 0; i < THREADS; i++) {
        c[i] = (struct crowd){.ledger = l,
                              .here = here[i % 2],
                              .there = there[i % 2],
                              .seed = (unsigned)i + 1};
        crowd_locks(&c[i]);
        assert_int_equal(pthread_create(&t[i], NULL, crowd_member, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        for (int k = 0; k < NAMES; k++) {
            snib_lock_free(c[i].lock[k]);
        }
    }
    for (int i = 0; i < 2; i++) {
        snib_client_free(here[i]);
        snib_client_free(there[i]);
    }
    judge(l);
}

static void processes_in_random_orders(void **state)
{
    (void)state;
    enum { PROCESSES = 4 };
    pid_t pid[PROCESSES];
    if (!strncmp(url, "memory:", 7) || !strncmp(other_url, "memory:", 7)) {
        print_message("skipped: memory: lives in one process\n");
        skip();
    }
    struct ledger *l = ledger_new();
    name_crowd();
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            struct crowd c = {.ledger = l, .seed = (unsigned)i + 100};
            c.here = open_at(url);
            c.there = open_at(other_url);
            crowd_locks(&c);
            crowd_member(&c);
            snib_client_free(c.here);
            snib_client_free(c.there);
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        waitpid(pid[i], &status, 0);
        assert_int_equal(status, 0);
    }
    judge(l);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(all_are_held_until_all_are_released),
        cmocka_unit_test(tokens_rise_for_each_lock),
        cmocka_unit_test(the_same_lane_enters_again),
        cmocka_unit_test(an_explicit_lane_holds_all),
        cmocka_unit_test(twenty_locks_of_one_store),
        cmocka_unit_test(kinds_can_be_mixed),
        cmocka_unit_test(a_try_that_fails_leaves_nothing),
        cmocka_unit_test(a_time_out_leaves_nothing_and_is_in_time),
        cmocka_unit_test(a_store_that_is_away_leaves_nothing),
        cmocka_unit_test(one_that_waits_gets_all_after_the_release),
        cmocka_unit_test(a_closed_client_ends_the_wait),
        cmocka_unit_test(a_cancelled_multi_ends_all_its_waits),
        cmocka_unit_test(the_missing_lock_is_named),
        cmocka_unit_test(the_loss_of_one_is_the_loss_of_the_whole),
        cmocka_unit_test(a_lease_that_ends_during_the_wait_is_taken_anew),
        cmocka_unit_test(bad_input_is_refused_with_the_name),
        cmocka_unit_test(two_spellings_of_one_store_are_one),
        cmocka_unit_test(a_child_is_told_that_it_is_one),
        cmocka_unit_test(threads_in_random_orders),
        cmocka_unit_test(processes_in_random_orders),
    };
    if (argc > 1 && !strcmp(argv[1], "-f")) {
        faults = true;
        argv++;
        argc--;
    }
    if (argc < 3) {
        fprintf(stderr,
                "usage: snib_conformance_multi [-f] URL OTHER_URL [CASE]\n");
        return 64;
    }
    url = argv[1];
    other_url = argv[2];
    if (argc > 3) {
        cmocka_set_test_filter(argv[3]);
    }
    return cmocka_run_group_tests(cases, NULL, NULL);
}

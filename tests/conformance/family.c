/* Readers, writers, permits and barriers: one set of cases for every store,
 * through the public interface only.
 *
 *   snib_family URL [CASE]
 *
 * Many of these re-express a test of Redisson 4.7, so that its users find what
 * they rely on (docs/PROOF.md has the whole table, with those elsewhere and
 * those that do not apply):
 *
 *   RedissonReadWriteLockTest
 *     testMultiRead, testWriteLock      readers_share_and_keep_the_writer_out
 *     testWriteReadReentrancy           the_writer_may_read_and_others_may_not
 *     testWR, testWriteRead             twenty_readers_proceed_within_a_second…
 *     testReadLockIsLocked, testIsHeld… each_grant_tells_of_itself_only
 *     testUnlockFail                    another_thread_may_not_release_a_read…
 *     testReadLockExpiration,
 *     testReadLockLeaseTimeout, …RRW    expired_readers_keep_the_writer_out_for…
 *     …DiffThreadsWRR, testExpireWrite  readers_come_in_when_a_writers_lease_…
 *     testReadLockExpirationRenewal     the_keeper_renews_fifty_readers_beyond…
 *     testReadWriteTTL                  a_downgraded_reader_is_renewed_all_along
 *     testWriteLockExpiration           a_re_entry_with_a_shorter_lease_does_…
 *     testForceUnlock                   force_release_ends_all_readers,
 *                                       force_release_ends_the_writer_and_what…
 *     testName                          names_with_braces_serve_ten_times_ten…
 *     testMultiInstanceReadLockZombieCleanup
 *                                       a_killed_reader_keeps_the_writer_out_…
 *     testAutoExpire                    a_client_that_closes_gives_back_what_…
 *     testConcurrency_*                 writers_and_readers_never_see_half_of…
 *   RedissonNonReentrantLockTest        no_reentry_is_refused_at_once
 *   RedissonFencedLockTest.testTokenIncrease
 *                                       tokens_rise_by_whatever_way_a_lock_is…
 *   RedissonLockTest.testRemainTimeToLive2
 *                                       a_partial_release_leaves_the_lease_as…
 *   RedissonSemaphoreTest, RedissonPermitExpirableSemaphoreTest
 *     trySetPermits                     the_first_capacity_is_the_size
 *     testBlockingAcquire               permits_are_counted_and_given_back
 *     acquire(4)                        a_request_for_four_waits_for_two_rel…
 *     tryAcquire(4, 2 s)                a_timed_request_gets_permits_that_come…
 *     testAcquireAfterAddPermits        a_request_for_two_is_not_served_by_one…
 *     testConcurrency_*                 one_permit_excludes
 *     Integer.MAX permits               the_largest_semaphore_counts
 *     expire                            permits_that_expire_come_back,
 *                                       permits_of_a_killed_process_come_back…
 *     release after expiry              permits_that_expire_come_back
 *     updateLeaseTime                   a_fixed_lot_of_permits_is_renewed_by_hand
 *     concurrency, 2 permits            two_permits_serve_both_threads
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"

/* What is counted in these cases is how long somebody waited: a machine that
 * is busy adds this much. */
enum { SLACK_MS = 1200 };

/* A lease is over for its owner a little earlier than at the store, and the
 * owner says so to the store. */
static int64_t least_ms(int64_t lease_ms)
{
    return lease_ms - lease_ms / 100 - 7;
}

static struct snib_lock_options terms(snib_kind kind, uint32_t permits,
                                      uint32_t capacity)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.kind = kind;
    o.permits = permits;
    o.capacity = capacity;
    return o;
}

static struct snib_lock *of_kind(struct snib_client *c, const char *name,
                                 snib_kind kind)
{
    struct snib_lock_options o = terms(kind, 0, 0);
    return lock_with(c, name, &o);
}

static struct snib_lock *fixed(struct snib_client *c, const char *name,
                               snib_kind kind, int64_t lease_ms)
{
    struct snib_lock_options o = terms(kind, 0, 0);
    o.fixed_lease = true;
    o.lease_ms = lease_ms;
    return lock_with(c, name, &o);
}

static struct snib_lock *permits_of(struct snib_client *c, const char *name,
                                    uint32_t permits, uint32_t capacity)
{
    struct snib_lock_options o = terms(SNIB_PERMITS, permits, capacity);
    return lock_with(c, name, &o);
}

static snib_err take(struct snib_lock *l, int64_t wait_ms, uint64_t lane,
                     struct snib_grant *g)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.wait_ms = wait_ms;
    o.lane = lane;
    return snib_acquire(l, &o, g, NULL);
}

/* A try by a lane that has nothing yet. */
static snib_err try_by_other(struct snib_lock *l, struct snib_grant *g)
{
    return take(l, 0, snib_lane_new(), g);
}

/* One acquire in a thread of its own. */
struct task {
    pthread_t thread;
    struct snib_lock *lock;
    uint64_t lane;
    int64_t wait_ms, began_ms, ended_ms;
    struct snib_grant grant;
    snib_err err;
    atomic_int *order;
    int place;
    bool release; /* at once */
};

static void *do_task(void *arg)
{
    struct task *t = arg;
    t->began_ms = now_ms();
    t->err = take(t->lock, t->wait_ms, t->lane, &t->grant);
    t->ended_ms = now_ms();
    if (!t->err && t->order) {
        t->place = atomic_fetch_add(t->order, 1);
    }
    if (!t->err && t->release) {
        t->err = snib_release(t->lock, t->grant, NULL);
    }
    return NULL;
}

static void start(struct task *t, struct snib_lock *l, int64_t wait_ms)
{
    t->lock = l;
    t->wait_ms = wait_ms;
    if (t->lane == 0) {
        t->lane = snib_lane_new();
    }
    assert_int_equal(pthread_create(&t->thread, NULL, do_task, t), 0);
}

static struct task *join(struct task *t)
{
    assert_int_equal(pthread_join(t->thread, NULL), 0);
    return t;
}

static struct snib_status status_of(struct snib_lock *l, struct snib_grant g)
{
    struct snib_status st;
    snib_grant_status(l, g, &st);
    return st;
}

static size_t holders_of(struct snib_client *c, const char *name)
{
    struct snib_view *v;
    must(snib_inspect(c, name, 0, &v, NULL));
    size_t n = v->holder_count;
    snib_view_free(v);
    return n;
}

/* -- other processes ---------------------------------------------------------- */

static void skip_in_one_process(void)
{
    if (is_memory()) {
        print_message("skipped: memory: lives in one process\n");
        skip();
    }
}

/* A process that does `work` and then sits there until it is killed. The
 * caller has no client open yet: children of threads are another case. */
struct child {
    pid_t pid;
    int said;
};

static struct child start_child(int (*work)(const char *name), const char *name)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char ok = work(name) == 0 ? 'y' : 'n';
        ssize_t n = write(ends[1], &ok, 1);
        (void)n;
        for (;;) {
            pause();
        }
    }
    close(ends[1]);
    return (struct child){pid, ends[0]};
}

static void wait_for_child(const struct child *c)
{
    struct pollfd p = {.fd = c->said, .events = POLLIN};
    char ok = 0;
    assert_int_equal(poll(&p, 1, 10000), 1);
    assert_int_equal(read(c->said, &ok, 1), 1);
    assert_int_equal(ok, 'y');
}

static void kill_child(const struct child *c)
{
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    close(c->said);
}

/* -- readers and writers ------------------------------------------------------ */

static void readers_share_and_keep_the_writer_out(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_READ),
                     *s = of_kind(d, name, SNIB_READ),
                     *w = of_kind(d, name, SNIB_WRITE),
                     *m = of_kind(c, name, SNIB_MUTEX);
    struct snib_grant a, b, x, none;
    must(take(r, 0, snib_lane_new(), &a));
    must(take(r, 0, snib_lane_new(), &b));
    must(take(s, 0, snib_lane_new(), &x));
    assert_int_equal(holders_of(c, name), 3);
    must_be(try_by_other(w, &none), SNIB_ERR_BUSY);
    must_be(try_by_other(m, &none), SNIB_ERR_BUSY);
    must(snib_release(r, a, NULL));
    must(snib_release(s, x, NULL));
    must_be(try_by_other(w, &none), SNIB_ERR_BUSY);
    assert_true(snib_grant_held(r, b));
    must(snib_release(r, b, NULL));
    must(take(w, 1000, snib_lane_new(), &x));
    must_be(try_by_other(r, &none), SNIB_ERR_BUSY);
    must_be(try_by_other(s, &none), SNIB_ERR_BUSY);
    must_be(try_by_other(m, &none), SNIB_ERR_BUSY);
    must(snib_release(w, x, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void the_writer_may_read_and_others_may_not(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *w = of_kind(c, name, SNIB_WRITE),
                     *r = of_kind(c, name, SNIB_READ),
                     *w2 = of_kind(d, name, SNIB_WRITE),
                     *r2 = of_kind(d, name, SNIB_READ);
    uint64_t lane = snib_lane_new();
    struct snib_grant write, read, other, none;
    must(take(w, 0, lane, &write));
    must(take(r, 0, lane, &read));
    must_be(try_by_other(r, &none), SNIB_ERR_BUSY);
    must_be(try_by_other(r2, &none), SNIB_ERR_BUSY);
    must(snib_release(w, write, NULL)); /* the downgrade */
    assert_true(snib_grant_held(r, read));
    must_be(try_by_other(w2, &none), SNIB_ERR_BUSY);
    must(take(r2, 1000, snib_lane_new(), &other));
    must(snib_release(r2, other, NULL));
    must_be(try_by_other(w2, &none), SNIB_ERR_BUSY);
    must(snib_release(r, read, NULL));
    must(take(w2, 1000, snib_lane_new(), &other));
    must(snib_release(w2, other, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void
twenty_readers_proceed_within_a_second_of_the_write_unlock(void **state)
{
    (void)state;
    enum { N = 20, CLIENTS = 4 };
    const char *name = fresh_name();
    struct snib_client *c[CLIENTS];
    struct snib_lock *r[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        c[i] = open_client();
        r[i] = of_kind(c[i], name, SNIB_READ);
    }
    struct snib_lock *w = of_kind(c[0], name, SNIB_WRITE);
    uint64_t lane = snib_lane_new();
    struct snib_grant write, nested;
    struct task t[N] = {0};
    must(take(w, 0, lane, &write));
    must(take(r[0], 0, lane, &nested)); /* changes nothing for the others */
    for (int i = 0; i < N; i++) {
        start(&t[i], r[i % CLIENTS], 20000);
    }
    wait_for_waiters(c[0], name, N);
    assert_true(snib_grant_held(w, write));
    int64_t begin = now_ms();
    must(snib_release(w, write, NULL));
    for (int i = 0; i < N; i++) {
        must(join(&t[i])->err);
        assert_true(t[i].ended_ms - begin < 1000);
    }
    for (int i = 0; i < N; i++) { /* all at the same time */
        assert_true(snib_grant_held(t[i].lock, t[i].grant));
        must(snib_release(t[i].lock, t[i].grant, NULL));
    }
    must(snib_release(r[0], nested, NULL));
    for (int i = 0; i < CLIENTS; i++) {
        snib_client_free(c[i]);
    }
}

static void each_grant_tells_of_itself_only(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *w = of_kind(c, name, SNIB_WRITE),
                     *r = of_kind(c, name, SNIB_READ);
    uint64_t lane = snib_lane_new();
    struct snib_grant write, read, again;
    must(take(w, 0, lane, &write));
    must(take(r, 0, lane, &read));
    must(take(r, 0, lane, &again));
    assert_int_equal(status_of(w, write).kind, SNIB_WRITE);
    assert_int_equal(status_of(w, write).holds, 1);
    assert_int_equal(status_of(r, read).kind, SNIB_READ);
    assert_int_equal(status_of(r, read).holds, 2);
    assert_int_equal(status_of(r, read).permits, 0);
    must(snib_release(w, write, NULL));
    assert_int_equal(status_of(w, write).state, SNIB_RELEASED);
    assert_int_equal(status_of(r, read).state, SNIB_HELD);
    must(snib_release(r, again, NULL));
    assert_int_equal(status_of(r, read).holds, 1);
    must(snib_release(r, read, NULL));
    assert_int_equal(status_of(r, read).state, SNIB_RELEASED);
    assert_int_equal(holders_of(c, name), 0);
    snib_client_free(c);
}

struct stranger {
    struct snib_lock *lock;
    struct snib_grant grant;
    snib_err err;
};

static void *release_elsewhere(void *arg)
{
    struct stranger *s = arg;
    s->err = snib_release(s->lock, s->grant, NULL);
    return NULL;
}

static snib_err by_stranger(struct snib_lock *l, struct snib_grant g)
{
    struct stranger s = {.lock = l, .grant = g};
    pthread_t t;
    pthread_create(&t, NULL, release_elsewhere, &s);
    pthread_join(t, NULL);
    return s.err;
}

static void another_thread_may_not_release_a_read_lock(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *r = of_kind(c, fresh_name(), SNIB_READ);
    struct snib_grant g;
    must(acquire_for(r, 0, &g));
    must_be(by_stranger(r, g), SNIB_ERR_WRONG_LANE);
    assert_true(snib_grant_held(r, g));
    must(snib_release(r, g, NULL));
    must_be(snib_release(r, g, NULL), SNIB_ERR_NOT_HELD);
    snib_client_free(c);
}

static void
expired_readers_keep_the_writer_out_for_their_lease_only(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *lng = fixed(c, name, SNIB_READ, 1500),
                     *shrt = fixed(d, name, SNIB_READ, 300),
                     *w = of_kind(d, name, SNIB_WRITE);
    struct snib_grant a, b, x;
    int64_t begin = now_ms();
    must(take(lng, 0, snib_lane_new(), &a));
    must(take(shrt, 0, snib_lane_new(), &b));
    must(take(w, 5000, snib_lane_new(), &x));
    int64_t took = now_ms() - begin;
    assert_true(took >= least_ms(1500) && took < 1500 + SLACK_MS);
    must_be(snib_release(lng, a, NULL), SNIB_ERR_LOST);
    must_be(snib_release(shrt, b, NULL), SNIB_ERR_LOST);
    assert_true(snib_grant_held(w, x)); /* the late ones touched nothing */
    must(snib_release(w, x, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void readers_come_in_when_a_writers_lease_runs_out(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *w = fixed(c, name, SNIB_WRITE, 700),
                     *r = of_kind(d, name, SNIB_READ),
                     *s = of_kind(c, name, SNIB_READ);
    struct snib_grant g;
    struct task t[3] = {0};
    int64_t begin = now_ms();
    must(take(w, 0, snib_lane_new(), &g));
    for (int i = 0; i < 3; i++) {
        start(&t[i], i == 0 ? s : r, 5000);
    }
    for (int i = 0; i < 3; i++) {
        must(join(&t[i])->err);
        assert_true(t[i].ended_ms - begin >= least_ms(700));
        assert_true(t[i].ended_ms - begin < 700 + SLACK_MS);
    }
    must_be(snib_release(w, g, NULL), SNIB_ERR_LOST);
    for (int i = 0; i < 3; i++) {
        must(snib_release(t[i].lock, t[i].grant, NULL));
    }
    snib_client_free(c);
    snib_client_free(d);
}

static void the_keeper_renews_fifty_readers_beyond_their_lease(void **state)
{
    (void)state;
    enum { N = 50 };
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock_options o = terms(SNIB_READ, 0, 0);
    o.lease_ms = 1000;
    struct snib_lock *r = lock_with(c, name, &o),
                     *w = of_kind(d, name, SNIB_WRITE);
    struct snib_grant g[N], none;
    for (int i = 0; i < N; i++) {
        must(take(r, 1000, snib_lane_new(), &g[i]));
    }
    must_be(take(w, 2500, snib_lane_new(), &none), SNIB_ERR_TIMEOUT);
    for (int i = 0; i < N; i++) {
        assert_true(snib_grant_held(r, g[i]));
        must(snib_release(r, g[i], NULL));
    }
    must(take(w, 1000, snib_lane_new(), &none));
    must(snib_release(w, none, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_downgraded_reader_is_renewed_all_along(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock_options o = terms(SNIB_WRITE, 0, 0);
    o.lease_ms = 500;
    struct snib_lock *w = lock_with(c, name, &o);
    o.kind = SNIB_READ;
    struct snib_lock *r = lock_with(c, name, &o),
                     *w2 = of_kind(d, name, SNIB_WRITE);
    uint64_t lane = snib_lane_new();
    struct snib_grant write, read, none;
    must(take(w, 0, lane, &write));
    must(take(r, 0, lane, &read));
    must_be(take(w2, 1200, snib_lane_new(), &none), SNIB_ERR_TIMEOUT);
    assert_true(status_of(w, write).left_ms > 100);
    assert_true(status_of(r, read).left_ms > 100);
    must(snib_release(w, write, NULL));
    must_be(take(w2, 1200, snib_lane_new(), &none), SNIB_ERR_TIMEOUT);
    assert_true(status_of(r, read).left_ms > 100);
    must(snib_release(r, read, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void
a_re_entry_with_a_shorter_lease_does_not_shorten_the_first(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *lng = fixed(c, name, SNIB_WRITE, 2000),
                     *shrt = fixed(c, name, SNIB_WRITE, 200),
                     *w2 = of_kind(d, name, SNIB_WRITE);
    struct snib_grant a, b, none;
    must(acquire_for(lng, 0, &a));
    must(acquire_for(shrt, 0, &b));
    must_be(take(w2, 700, snib_lane_new(), &none), SNIB_ERR_TIMEOUT);
    assert_true(snib_grant_held(lng, a));
    must(snib_release(shrt, b, NULL));
    must(snib_release(lng, a, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_partial_release_leaves_the_lease_as_it_is(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l = fixed(c, fresh_name(), SNIB_MUTEX, 10000);
    struct snib_grant g[3];
    for (int i = 0; i < 3; i++) {
        must(acquire_for(l, 0, &g[i]));
    }
    must(snib_release(l, g[2], NULL));
    must(snib_release(l, g[1], NULL));
    struct snib_status st = status_of(l, g[0]);
    assert_int_equal(st.holds, 1);
    assert_true(st.left_ms > 9000 - SLACK_MS && st.left_ms <= 10000);
    must(snib_release(l, g[0], NULL));
    snib_client_free(c);
}

static void tell_of_loss(struct changes *seen)
{
    int64_t deadline = now_ms() + 5000;
    while (!atomic_load(&seen->lost)) {
        assert_true(now_ms() < deadline);
        look_again_after_ms(2);
    }
    assert_int_equal(atomic_load(&seen->reason), SNIB_WHY_REVOKED);
}

static void force_release_ends_all_readers(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct changes seen[3] = {0};
    struct snib_lock *r[3];
    struct snib_grant g[3], x;
    uint32_t ended = 0;
    for (int i = 0; i < 3; i++) {
        struct snib_lock_options o = terms(SNIB_READ, 0, 0);
        o.lease_ms = 900;
        o.on_change = note_change;
        o.data = &seen[i];
        r[i] = lock_with(i < 2 ? c : d, name, &o);
        must(take(r[i], 0, snib_lane_new(), &g[i]));
    }
    struct snib_lock *w = of_kind(d, name, SNIB_WRITE);
    must(snib_force_release(d, name, 0, "stuck", &ended, NULL));
    assert_int_equal(ended, 3);
    must(take(w, 0, snib_lane_new(), &x));
    for (int i = 0; i < 3; i++) {
        tell_of_loss(&seen[i]);
        must_be(snib_release(r[i], g[i], NULL), SNIB_ERR_LOST);
    }
    assert_true(snib_grant_held(w, x));
    must(snib_release(w, x, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void
force_release_ends_the_writer_and_what_it_reads_and_permits(void **state)
{
    (void)state;
    const char *name = fresh_name(), *sem = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *w = of_kind(c, name, SNIB_WRITE),
                     *r = of_kind(c, name, SNIB_READ),
                     *m = of_kind(d, name, SNIB_MUTEX),
                     *p = permits_of(c, sem, 2, 2),
                     *q = permits_of(d, sem, 2, 2);
    uint64_t lane = snib_lane_new();
    struct snib_grant a, b, x;
    uint32_t ended = 0;
    must(take(w, 0, lane, &a));
    must(take(r, 0, lane, &b));
    must(snib_force_release(d, name, 0, "stuck", &ended, NULL));
    assert_int_equal(ended, 2);
    must(take(m, 0, snib_lane_new(), &x));
    assert_true(x.token > a.token);
    must(snib_release(m, x, NULL));
    must_be(snib_renew(w, a, 0, NULL), SNIB_ERR_LOST); /* it learns of it */
    must_be(snib_renew(r, b, 0, NULL), SNIB_ERR_LOST);
    must_be(snib_release(w, a, NULL), SNIB_ERR_LOST);
    must_be(snib_release(r, b, NULL), SNIB_ERR_LOST);
    must(take(p, 0, lane, &a));
    must(snib_force_release(d, sem, 0, "stuck", &ended, NULL));
    assert_int_equal(ended, 1);
    must(take(q, 0, snib_lane_new(), &x)); /* the size is what it was */
    assert_true(x.token > a.token);
    must(snib_release(q, x, NULL));
    must_be(snib_renew(p, a, 0, NULL), SNIB_ERR_LOST);
    must_be(snib_release(p, a, NULL), SNIB_ERR_LOST);
    snib_client_free(c);
    snib_client_free(d);
}

struct reading {
    struct snib_client *client;
    const char *name;
    int bad;
};

static void *read_ten_times(void *arg)
{
    struct reading *k = arg;
    struct snib_lock_options o = terms(SNIB_READ, 0, 0);
    struct snib_lock *l;
    k->bad = snib_lock_new(k->client, k->name, &o, &l, NULL) != SNIB_ERR_OK;
    for (int i = 0; i < 10 && !k->bad; i++) {
        struct snib_grant g;
        k->bad = acquire_for(l, 10000, &g) || snib_release(l, g, NULL);
    }
    return NULL;
}

static void names_with_braces_serve_ten_times_ten_readers(void **state)
{
    (void)state;
    static const char *const before[] = {"{", "a{", "a}{", "{}"};
    static const char *const after[] = {"}", "", "}", ""};
    struct snib_client *c[2] = {open_client(), open_client()};
    for (int f = 0; f < 4; f++) {
        char name[80];
        struct reading k[10];
        pthread_t t[10];
        snprintf(name, sizeof name, "%s%s%s", before[f], fresh_name(),
                 after[f]);
        for (int i = 0; i < 10; i++) {
            k[i] = (struct reading){.client = c[i % 2], .name = name};
            pthread_create(&t[i], NULL, read_ten_times, &k[i]);
        }
        int bad = 0;
        for (int i = 0; i < 10; i++) {
            pthread_join(t[i], NULL);
            bad += k[i].bad;
        }
        assert_int_equal(bad, 0);
        struct snib_lock *w = of_kind(c[0], name, SNIB_WRITE);
        struct snib_grant g;
        must(take(w, 1000, snib_lane_new(), &g));
        must(snib_release(w, g, NULL));
    }
    snib_client_free(c[0]);
    snib_client_free(c[1]);
}

static int read_and_stay(const char *name)
{
    struct snib_client *c = open_client();
    struct snib_lock_options o = terms(SNIB_READ, 0, 0);
    struct snib_grant g;
    o.lease_ms = 1500;
    return (int)acquire_for(lock_with(c, name, &o), 0, &g);
}

static void
a_killed_reader_keeps_the_writer_out_for_its_own_lease_only(void **state)
{
    (void)state;
    skip_in_one_process();
    const char *name = fresh_name();
    struct child dead = start_child(read_and_stay, name);
    wait_for_child(&dead);
    struct snib_client *b = open_client(), *d = open_client();
    struct snib_lock *r = of_kind(b, name, SNIB_READ), /* 30 s, renewed */
        *w = of_kind(d, name, SNIB_WRITE);
    struct snib_grant g, x;
    struct task writer = {0};
    must(take(r, 0, snib_lane_new(), &g));
    kill_child(&dead);
    int64_t killed = now_ms();
    must_be(take(w, 300, snib_lane_new(), &x), SNIB_ERR_TIMEOUT);
    start(&writer, w, 10000);
    while (now_ms() - killed < 1500) { /* its lease, not b's, is waited out */
        look_again_after_ms(20);
    }
    int64_t begin = now_ms();
    must(snib_release(r, g, NULL));
    must(join(&writer)->err);
    assert_true(writer.ended_ms - begin < SLACK_MS);
    must(snib_release(w, writer.grant, NULL));
    snib_client_free(b);
    snib_client_free(d);
}

static void a_killed_reader_alone_blocks_no_longer_than_its_lease(void **state)
{
    (void)state;
    skip_in_one_process();
    const char *name = fresh_name();
    struct child dead = start_child(read_and_stay, name);
    wait_for_child(&dead);
    struct snib_client *d = open_client();
    struct snib_lock *w = of_kind(d, name, SNIB_WRITE);
    struct snib_grant x;
    must_be(take(w, 0, snib_lane_new(), &x), SNIB_ERR_BUSY);
    kill_child(&dead);
    int64_t begin = now_ms();
    must(take(w, 10000, snib_lane_new(), &x));
    assert_true(now_ms() - begin < 1500 + SLACK_MS);
    must(snib_release(w, x, NULL));
    snib_client_free(d);
}

static void a_client_that_closes_gives_back_what_it_shares(void **state)
{
    (void)state;
    const char *name = fresh_name(), *sem = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_READ),
                     *p = permits_of(c, sem, 3, 3),
                     *w = of_kind(d, name, SNIB_WRITE),
                     *q = permits_of(d, sem, 3, 0);
    struct snib_grant g;
    uint64_t lane = snib_lane_new();
    must(take(r, 0, lane, &g));
    must(take(r, 0, snib_lane_new(), &g));
    must(take(p, 0, lane, &g));
    snib_client_free(c);
    must(take(w, 0, lane, &g));
    must(snib_release(w, g, NULL));
    must(take(q, 0, lane, &g));
    must(snib_release(q, g, NULL));
    snib_client_free(d);
}

struct pair {
    struct snib_client *client;
    const char *name;
    volatile int *v;
    bool writes;
    int bad, rounds;
};

static void *keep_the_pair(void *arg)
{
    struct pair *k = arg;
    struct snib_lock_options o =
        terms(k->writes ? SNIB_WRITE : SNIB_READ, 0, 0);
    struct snib_lock *l;
    k->bad = snib_lock_new(k->client, k->name, &o, &l, NULL) != SNIB_ERR_OK;
    for (int i = 0; i < k->rounds && !k->bad; i++) {
        struct snib_grant g;
        k->bad = acquire_for(l, SNIB_FOREVER, &g) != SNIB_ERR_OK;
        if (k->bad) {
            break;
        }
        int first = k->v[0];
        if (k->writes) {
            k->v[0] = first + 1;
            sched_yield();
            k->v[1] = first + 1;
        } else {
            sched_yield();
            k->bad = first != k->v[1];
        }
        k->bad = snib_release(l, g, NULL) || k->bad;
    }
    return NULL;
}

static void writers_and_readers_never_see_half_of_a_change(void **state)
{
    (void)state;
    enum { CLIENTS = 3, N = 12, ROUNDS = 40 };
    const char *name = fresh_name();
    struct snib_client *c[CLIENTS];
    struct pair k[N];
    pthread_t t[N];
    volatile int v[2] = {0, 0}; /* no atomics: the lock is the protection */
    for (int i = 0; i < CLIENTS; i++) {
        c[i] = open_client();
    }
    for (int i = 0; i < N; i++) {
        k[i] = (struct pair){.client = c[i % CLIENTS],
                             .name = name,
                             .v = v,
                             .writes = i % 4 == 0,
                             .rounds = ROUNDS};
        pthread_create(&t[i], NULL, keep_the_pair, &k[i]);
    }
    int bad = 0;
    for (int i = 0; i < N; i++) {
        pthread_join(t[i], NULL);
        bad += k[i].bad;
    }
    assert_int_equal(bad, 0);
    assert_int_equal(v[0], N / 4 * ROUNDS);
    assert_int_equal(v[1], N / 4 * ROUNDS);
    for (int i = 0; i < CLIENTS; i++) {
        snib_client_free(c[i]);
    }
}

static void a_reader_shows_the_token_of_the_last_writer(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *w = fixed(c, name, SNIB_WRITE, 30000),
                     *r = of_kind(d, name, SNIB_READ);
    struct snib_grant write, a, b, next;
    must(take(w, 0, snib_lane_new(), &write));
    must(snib_release(w, write, NULL));
    must(take(r, 0, snib_lane_new(), &a));
    must(take(r, 0, snib_lane_new(), &b));
    assert_true(a.token >= write.token);
    assert_int_equal(a.token, b.token);
    must(snib_release(r, a, NULL));
    must(snib_release(r, b, NULL));
    must(take(w, 1000, snib_lane_new(), &next));
    assert_true(next.token > a.token);
    must(snib_release(w, next, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

/* -- becoming the writer ------------------------------------------------------- */

static void
an_upgrade_waits_for_readers_ahead_of_the_writers_that_wait(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client(),
                       *e = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_READ),
                     *w = of_kind(c, name, SNIB_WRITE),
                     *r2 = of_kind(d, name, SNIB_READ),
                     *w3 = of_kind(e, name, SNIB_WRITE);
    uint64_t lane = snib_lane_new();
    struct snib_grant mine, other, none;
    struct task queued = {0}, upgrade = {.lane = lane};
    atomic_int order = 0;
    queued.order = upgrade.order = &order;
    must(take(r, 0, lane, &mine));
    must(take(r2, 0, snib_lane_new(), &other));
    start(&queued, w3, 20000);
    wait_for_waiters(d, name, 1);
    start(&upgrade, w, 20000);
    wait_for_waiters(d, name, 2);
    must_be(try_by_other(r2, &none), SNIB_ERR_BUSY);
    must(snib_release(r2, other, NULL));
    must(join(&upgrade)->err);
    assert_int_equal(upgrade.place, 0);
    assert_true(snib_grant_held(r, mine));
    assert_int_equal(holders_of(d, name), 2);
    assert_int_equal(waiters_of(d, name), 1);
    must(snib_release(w, upgrade.grant, NULL));
    must(snib_release(r, mine, NULL));
    must(join(&queued)->err);
    assert_true(queued.grant.token > upgrade.grant.token);
    must(snib_release(w3, queued.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
    snib_client_free(e);
}

static void a_second_upgrade_is_refused_and_the_first_succeeds(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_READ),
                     *w = of_kind(c, name, SNIB_WRITE),
                     *r2 = of_kind(d, name, SNIB_READ),
                     *w2 = of_kind(d, name, SNIB_WRITE);
    uint64_t one = snib_lane_new(), two = snib_lane_new(),
             three = snib_lane_new();
    struct snib_grant a, b, x, none;
    struct task first = {.lane = one};
    must(take(r, 0, one, &a));
    must(take(r2, 0, two, &b));
    must(take(r, 0, three, &x)); /* a lane of the same client as the first */
    start(&first, w, 20000);
    wait_for_waiters(d, name, 1);
    int64_t begin = now_ms();
    must_be(take(w2, SNIB_FOREVER, two, &none), SNIB_ERR_DEADLOCK);
    must_be(take(w, SNIB_FOREVER, three, &none), SNIB_ERR_DEADLOCK);
    must_be(take(w2, 0, two, &none), SNIB_ERR_DEADLOCK);
    assert_true(now_ms() - begin < SLACK_MS);
    assert_true(snib_grant_held(r2, b));
    must(snib_release(r2, b, NULL));
    must(snib_release(r, x, NULL));
    must(join(&first)->err);
    must(snib_release(w, first.grant, NULL));
    must(snib_release(r, a, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void an_upgrade_that_times_out_leaves_the_read_lock_held(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_READ),
                     *w = of_kind(c, name, SNIB_WRITE),
                     *r2 = of_kind(d, name, SNIB_READ),
                     *w2 = of_kind(d, name, SNIB_WRITE);
    uint64_t one = snib_lane_new(), two = snib_lane_new();
    struct snib_grant a, b, x, none;
    must(take(r, 0, one, &a));
    must(take(r2, 0, two, &b));
    must_be(take(w, 0, one, &none), SNIB_ERR_BUSY);
    must_be(take(w, 300, one, &none), SNIB_ERR_TIMEOUT);
    assert_true(snib_grant_held(r, a));
    wait_for_fewer_waiters(d, name, 0);
    must(take(r2, 1000, snib_lane_new(), &x)); /* nothing bars readers now */
    must(snib_release(r2, x, NULL));
    must_be(take(w2, 0, two, &none), SNIB_ERR_BUSY); /* no DEADLOCK either */
    must(snib_release(r, a, NULL));
    must(take(w2, 2000, two, &x));
    must(snib_release(w2, x, NULL));
    must(snib_release(r2, b, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void an_upgrade_of_a_lost_read_lock_is_lost(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = fixed(c, name, SNIB_READ, 200),
                     *r30 = of_kind(c, name, SNIB_READ),
                     *w = of_kind(c, name, SNIB_WRITE),
                     *w2 = of_kind(d, name, SNIB_WRITE);
    uint64_t one = snib_lane_new(), two = snib_lane_new();
    struct snib_grant a, b, x, none;
    uint32_t ended;
    must(take(r, 0, one, &a));
    while (status_of(r, a).state != SNIB_LOST) {
        look_again_after_ms(5);
    }
    must_be(take(w, 1000, one, &none), SNIB_ERR_LOST);
    must_be(snib_release(r, a, NULL), SNIB_ERR_LOST);
    must(take(w, 1000, one, &x)); /* unwound: a fresh start */
    must(snib_release(w, x, NULL));
    /* The store ended it, and the client does not know yet. */
    must(take(r30, 1000, two, &b));
    must(snib_force_release(d, name, 0, NULL, &ended, NULL));
    must(take(w2, 0, snib_lane_new(), &x));
    must_be(take(w, 2000, two, &none), SNIB_ERR_LOST);
    must(snib_release(w2, x, NULL));
    must_be(snib_renew(r30, b, 0, NULL), SNIB_ERR_LOST);
    must_be(snib_release(r30, b, NULL), SNIB_ERR_LOST);
    snib_client_free(c);
    snib_client_free(d);
}

/* -- nobody starves ------------------------------------------------------------- */

struct stream {
    struct snib_client *client;
    const char *name;
    snib_kind kind;
    uint32_t permits;
    atomic_bool *stop;
    atomic_int rounds;
    snib_err err;
};

static void *flow(void *arg)
{
    struct stream *s = arg;
    struct snib_lock_options o = terms(s->kind, s->permits, 0);
    struct snib_lock *l;
    s->err = snib_lock_new(s->client, s->name, &o, &l, NULL);
    while (!s->err && !atomic_load(s->stop)) {
        struct snib_grant g;
        s->err = acquire_for(l, 20000, &g);
        if (!s->err) {
            look_again_after_ms(3); /* the work */
            s->err = snib_release(l, g, NULL);
            atomic_fetch_add(&s->rounds, 1);
        }
    }
    return NULL;
}

/* `one` gets the lock within a few rounds, while a stream of others, whose
 * holds overlap, never leaves it free. */
static void gets_through(snib_kind of_stream, uint32_t small, snib_kind one,
                         uint32_t large)
{
    enum { N = 6 };
    const char *name = fresh_name();
    struct snib_client *c[3] = {open_client(), open_client(), open_client()};
    struct stream s[N];
    pthread_t t[N];
    atomic_bool stop = false;
    struct snib_lock_options o =
        terms(one, large, one == SNIB_PERMITS ? large : 0);
    struct snib_lock *l = lock_with(c[2], name, &o);
    struct snib_grant g;
    must(take(l, 0, snib_lane_new(), &g)); /* sets the size */
    must(snib_release(l, g, NULL));
    for (int i = 0; i < N; i++) {
        s[i] = (struct stream){.client = c[i % 2],
                               .name = name,
                               .kind = of_stream,
                               .permits = small,
                               .stop = &stop};
        pthread_create(&t[i], NULL, flow, &s[i]);
    }
    for (int i = 0; i < N; i++) { /* all at it */
        int64_t deadline = now_ms() + 5000;
        while (atomic_load(&s[i].rounds) == 0) {
            assert_true(now_ms() < deadline);
            look_again_after_ms(2);
        }
    }
    snib_err err = SNIB_ERR_OK;
    int64_t longest = 0;
    for (int i = 0; i < 10 && !err; i++) {
        int64_t begin = now_ms();
        err = take(l, 5000, snib_lane_new(), &g);
        longest = now_ms() - begin > longest ? now_ms() - begin : longest;
        if (!err) {
            err = snib_release(l, g, NULL);
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < N; i++) {
        pthread_join(t[i], NULL);
        must(s[i].err);
    }
    must(err);
    assert_true(longest < 3000);
    for (int i = 0; i < 3; i++) {
        snib_client_free(c[i]);
    }
}

static void a_stream_of_readers_does_not_starve_the_writer(void **state)
{
    (void)state;
    gets_through(SNIB_READ, 0, SNIB_WRITE, 0);
}

static void a_stream_of_writers_does_not_starve_the_reader(void **state)
{
    (void)state;
    gets_through(SNIB_WRITE, 0, SNIB_READ, 0);
}

static void small_requests_do_not_starve_a_large_one(void **state)
{
    (void)state;
    gets_through(SNIB_PERMITS, 1, SNIB_PERMITS, 4);
}

/* -- re-entry and tokens ---------------------------------------------------------- */

static void no_reentry_is_refused_at_once(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_MUTEX, SNIB_READ, SNIB_WRITE};
    for (int i = 0; i < 3; i++) {
        const char *name = fresh_name();
        struct snib_client *c = open_client(), *d = open_client();
        struct snib_lock_options o = terms(kinds[i], 0, 0);
        o.no_reentry = true;
        struct snib_lock *l = lock_with(c, name, &o),
                         *handle = lock_with(c, name, &o),
                         *w = of_kind(d, name, SNIB_WRITE);
        struct snib_grant g, none;
        struct task contender = {0};
        must(acquire_for(l, 0, &g));
        int64_t begin = now_ms();
        must_be(acquire_for(l, 0, &none), SNIB_ERR_DEADLOCK);
        must_be(acquire_for(l, 5000, &none), SNIB_ERR_DEADLOCK);
        must_be(acquire_for(l, SNIB_FOREVER, &none), SNIB_ERR_DEADLOCK);
        must_be(acquire_for(handle, SNIB_FOREVER, &none), SNIB_ERR_DEADLOCK);
        assert_true(now_ms() - begin < SLACK_MS);
        assert_int_equal(status_of(l, g).holds, 1);
        start(&contender, w, 20000);
        wait_for_waiters(c, name, 1);
        must(snib_release(l, g, NULL));
        must(join(&contender)->err);
        must(snib_release(w, contender.grant, NULL));
        must(acquire_for(l, 1000, &g));
        must(snib_release(l, g, NULL));
        snib_client_free(c);
        snib_client_free(d);
    }
}

static void tokens_rise_by_whatever_way_a_lock_is_taken(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *l[4] = {
        of_kind(c, name, SNIB_MUTEX), of_kind(c, name, SNIB_WRITE),
        fixed(c, name, SNIB_MUTEX, 5000), permits_of(c, name, 2, 3)};
    static const int64_t wait_ms[] = {0, 1000, SNIB_FOREVER};
    int64_t last = 0;
    for (int i = 0; i < 24; i++) {
        struct snib_grant g;
        must(take(l[i % 4], wait_ms[i % 3], snib_lane_new(), &g));
        assert_true(g.token > last);
        last = g.token;
        must(snib_release(l[i % 4], g, NULL));
    }
    snib_client_free(c);
}

/* -- permits ----------------------------------------------------------------------- */

static void permits_are_counted_and_given_back(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *two = permits_of(c, name, 2, 5),
                     *three = permits_of(d, name, 3, 5),
                     *one = permits_of(d, name, 0, 5);
    struct snib_grant a, b, x, none;
    uint64_t lane = snib_lane_new();
    must(take(two, 0, lane, &a));
    must(take(three, 0, lane, &b));
    must_be(take(one, 0, lane, &none), SNIB_ERR_BUSY);
    must_be(take(one, 200, lane, &none), SNIB_ERR_TIMEOUT);
    struct task waiter = {0};
    start(&waiter, one, 20000);
    wait_for_waiters(c, name, 1);
    must(snib_release(two, a, NULL));
    must(join(&waiter)->err);
    must(take(one, 1000, lane, &x)); /* the same lane: not a re-entry */
    assert_true(x.ticket != waiter.grant.ticket);
    assert_true(x.token > waiter.grant.token);
    must_be(take(one, 0, lane, &none), SNIB_ERR_BUSY);
    must(snib_release(one, x, NULL));
    must(snib_release(one, waiter.grant, NULL));
    must(snib_release(three, b, NULL));
    must_be(snib_release(three, b, NULL), SNIB_ERR_NOT_HELD);
    must(take(three, 0, lane, &a)); /* five again, not six */
    must(take(two, 0, lane, &b));
    must_be(take(one, 0, lane, &none), SNIB_ERR_BUSY);
    snib_client_free(c);
    snib_client_free(d);
}

static void the_first_capacity_is_the_size(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *first = permits_of(c, name, 1, 2),
                     *later = permits_of(d, name, 1, 9),
                     *plain = permits_of(d, name, 1, 0);
    struct snib_grant a, b, none;
    must(take(first, 0, snib_lane_new(), &a));
    must(take(later, 0, snib_lane_new(), &b));
    must_be(try_by_other(later, &none), SNIB_ERR_BUSY);
    must(snib_release(first, a, NULL));
    must(snib_release(later, b, NULL));
    must(take(plain, 0, snib_lane_new(), &a)); /* it is still known */
    must(take(plain, 0, snib_lane_new(), &b));
    must_be(try_by_other(plain, &none), SNIB_ERR_BUSY);
    snib_client_free(c);
    snib_client_free(d);
}

static void what_can_never_be_granted_is_refused(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *one = permits_of(c, name, 1, 3),
                     *four = permits_of(c, name, 4, 0),
                     *nine = permits_of(c, name, 4, 9),
                     *nosize = permits_of(c, fresh_name(), 1, 0), *l;
    struct snib_acquire_options a = SNIB_INIT(snib_acquire_options);
    struct snib_grant g, none;
    struct snib_error err;
    a.wait_ms = SNIB_FOREVER;
    must(take(one, 0, snib_lane_new(), &g));
    must_be(snib_acquire(four, &a, &none, &err), SNIB_ERR_USAGE);
    assert_non_null(strstr(err.text, "4 permits"));
    assert_non_null(strstr(err.text, "3 in all"));
    must_be(snib_acquire(nine, &a, &none, &err), SNIB_ERR_USAGE);
    must_be(snib_acquire(nosize, &a, &none, &err), SNIB_ERR_CONFIG);
    assert_non_null(strstr(err.text, "size"));
    must(snib_release(one, g, NULL));
    static const struct {
        snib_kind kind;
        uint32_t permits, capacity;
    } bad[] = {{SNIB_PERMITS, 3, 2},
               {SNIB_PERMITS, 1, UINT32_MAX},
               {SNIB_PERMITS, UINT32_MAX, 0},
               {SNIB_MUTEX, 1, 0},
               {SNIB_READ, 0, 1},
               {SNIB_WRITE, 2, 2},
               {SNIB_BARRIER, 0, 0},
               {SNIB_BARRIER, 2, 2},
               {SNIB_BARRIER, UINT32_MAX, 0},
               {(snib_kind)77, 0, 0}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct snib_lock_options o =
            terms(bad[i].kind, bad[i].permits, bad[i].capacity);
        must_be(snib_lock_new(c, name, &o, &l, &err), SNIB_ERR_USAGE);
        assert_true(strlen(err.text) > 10);
        assert_null(l);
    }
    struct snib_lock_options o = terms(SNIB_MUTEX, 0, 0);
    o.priority = SNIB_PRIORITY_MAX + 1;
    must_be(snib_lock_new(c, name, &o, &l, &err), SNIB_ERR_USAGE);
    o.priority = 0;
    o.lock_delay_ms = -1;
    must_be(snib_lock_new(c, name, &o, &l, &err), SNIB_ERR_USAGE);
    o.lock_delay_ms = SNIB_LEASE_MAX_MS + 1;
    must_be(snib_lock_new(c, name, &o, &l, &err), SNIB_ERR_USAGE);
    snib_client_free(c);
}

static void a_request_for_four_waits_for_two_releases(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *two = permits_of(c, name, 2, 4),
                     *four = permits_of(d, name, 4, 0);
    struct snib_grant a, b;
    struct task waiter = {0};
    must(take(two, 0, snib_lane_new(), &a));
    must(take(two, 0, snib_lane_new(), &b));
    start(&waiter, four, 5000);
    wait_for_waiters(c, name, 1);
    must(snib_release(two, a, NULL));
    assert_int_equal(waiters_of(c, name), 1);
    must(snib_release(two, b, NULL));
    must(join(&waiter)->err);
    assert_int_equal(status_of(four, waiter.grant).permits, 4);
    must(snib_release(four, waiter.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_timed_request_gets_permits_that_come_in_time(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock_options o = terms(SNIB_PERMITS, 3, 4);
    o.fixed_lease = true;
    o.lease_ms = 1000;
    struct snib_lock *three = lock_with(c, name, &o),
                     *four = permits_of(d, name, 4, 0);
    struct snib_grant a, b;
    int64_t begin = now_ms();
    must(take(three, 0, snib_lane_new(), &a));
    must(take(four, 1000 + 3 * SLACK_MS, snib_lane_new(), &b));
    int64_t took = now_ms() - begin;
    assert_true(took >= least_ms(1000) && took < 1000 + SLACK_MS);
    must(snib_release(four, b, NULL));
    must_be(snib_release(three, a, NULL), SNIB_ERR_LOST);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_request_for_two_is_not_served_by_one_release(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *one = permits_of(c, name, 1, 3),
                     *two = permits_of(d, name, 2, 0);
    struct snib_grant g[3], none;
    struct task waiter = {0};
    for (int i = 0; i < 3; i++) {
        must(take(one, 0, snib_lane_new(), &g[i]));
    }
    start(&waiter, two, 5000);
    wait_for_waiters(c, name, 1);
    must(snib_release(one, g[0], NULL));
    assert_int_equal(waiters_of(c, name), 1);
    must_be(try_by_other(one, &none), SNIB_ERR_BUSY); /* not overtaken */
    must(snib_release(one, g[1], NULL));
    must(join(&waiter)->err);
    must(snib_release(one, g[2], NULL));
    must(snib_release(two, waiter.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void permits_are_given_in_order_of_arrival(void **state)
{
    (void)state;
    enum { N = 5 };
    const char *name = fresh_name();
    struct snib_client *c[3] = {open_client(), open_client(), open_client()};
    struct snib_lock *l[3];
    struct task t[N] = {0};
    struct snib_grant g;
    int64_t last = 0;
    for (int i = 0; i < 3; i++) {
        l[i] = permits_of(c[i], name, 2, 3); /* no two of them fit */
    }
    must(take(l[0], 0, snib_lane_new(), &g));
    for (int i = 0; i < N; i++) { /* two of a client among them */
        t[i].release = true;
        start(&t[i], l[i % 3], 20000);
        wait_for_waiters(c[0], name, (size_t)i + 1);
    }
    must(snib_release(l[0], g, NULL));
    for (int i = 0; i < N; i++) {
        must(join(&t[i])->err);
        assert_true(t[i].grant.token > last);
        last = t[i].grant.token;
    }
    for (int i = 0; i < 3; i++) {
        snib_client_free(c[i]);
    }
}

struct counting {
    struct snib_client *client;
    const char *name;
    uint32_t permits, capacity;
    volatile int *value;
    atomic_int *inside;
    int most, rounds;
    snib_err err;
};

static void *count(void *arg)
{
    struct counting *k = arg;
    struct snib_lock_options o = terms(SNIB_PERMITS, k->permits, k->capacity);
    struct snib_lock *l;
    k->err = snib_lock_new(k->client, k->name, &o, &l, NULL);
    for (int i = 0; i < k->rounds && !k->err; i++) {
        struct snib_grant g;
        k->err = acquire_for(l, SNIB_FOREVER, &g);
        if (k->err) {
            break;
        }
        int n = atomic_fetch_add(k->inside, (int)k->permits) + (int)k->permits;
        k->most = n > k->most ? n : k->most;
        if (k->capacity == 1) {
            int v = *k->value;
            sched_yield();
            *k->value = v + 1;
        }
        atomic_fetch_sub(k->inside, (int)k->permits);
        k->err = snib_release(l, g, NULL);
    }
    return NULL;
}

/* Returns the most permits that were ever in use. */
static int contend(int clients, int threads, int rounds, uint32_t most_wanted,
                   uint32_t size, volatile int *value)
{
    const char *name = fresh_name();
    struct snib_client *c[8];
    struct counting k[32];
    pthread_t t[32];
    atomic_int inside = 0;
    int most = 0;
    for (int i = 0; i < clients; i++) {
        c[i] = open_client();
    }
    for (int i = 0; i < threads; i++) {
        k[i] = (struct counting){.client = c[i % clients],
                                 .name = name,
                                 .permits = 1 + (uint32_t)i % most_wanted,
                                 .capacity = size,
                                 .value = value,
                                 .inside = &inside,
                                 .rounds = rounds};
        pthread_create(&t[i], NULL, count, &k[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(t[i], NULL);
        must(k[i].err);
        most = k[i].most > most ? k[i].most : most;
    }
    for (int i = 0; i < clients; i++) {
        snib_client_free(c[i]);
    }
    return most;
}

static void one_permit_excludes(void **state)
{
    (void)state;
    volatile int value = 0;
    assert_int_equal(contend(4, 16, 25, 1, 1, &value), 1);
    assert_int_equal(value, 16 * 25);
}

static void never_more_permits_are_in_use_than_there_are(void **state)
{
    (void)state;
    int most = contend(4, 16, 25, 4, 5, NULL);
    assert_true(most <= 5 && most > 1);
}

static void the_largest_semaphore_counts(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *most = permits_of(c, name, SNIB_PERMITS_MAX - 1,
                                        SNIB_PERMITS_MAX),
                     *one = permits_of(c, name, 1, 0);
    struct snib_grant a, b, none;
    must(take(most, 0, snib_lane_new(), &a));
    assert_int_equal(status_of(most, a).permits, SNIB_PERMITS_MAX - 1);
    must(take(one, 0, snib_lane_new(), &b));
    must_be(try_by_other(one, &none), SNIB_ERR_BUSY);
    must(snib_release(most, a, NULL));
    must(snib_release(one, b, NULL));
    snib_client_free(c);
}

static struct snib_lock *leased(struct snib_client *c, const char *name,
                                uint32_t permits, int64_t lease_ms, bool fix)
{
    struct snib_lock_options o = terms(SNIB_PERMITS, permits, permits);
    o.fixed_lease = fix;
    o.lease_ms = lease_ms;
    return lock_with(c, name, &o);
}

static void permits_that_expire_come_back(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = leased(c, name, 2, 800, true),
                     *m = leased(d, name, 2, 30000, false);
    struct snib_grant g, h, none;
    int64_t begin = now_ms();
    must(take(l, 0, snib_lane_new(), &g));
    must_be(try_by_other(m, &none), SNIB_ERR_BUSY);
    must(take(m, 5000, snib_lane_new(), &h));
    int64_t took = now_ms() - begin;
    assert_true(took >= least_ms(800) && took < 800 + SLACK_MS);
    assert_int_equal(status_of(l, g).state, SNIB_LOST);
    assert_int_equal(status_of(l, g).reason, SNIB_WHY_EXPIRED);
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    assert_true(snib_grant_held(m, h));
    must_be(try_by_other(l, &none), SNIB_ERR_BUSY);
    must(snib_release(m, h, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void the_keeper_renews_permits(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = leased(c, name, 2, 400, false),
                     *m = leased(d, name, 2, 30000, false);
    struct snib_grant g, none;
    must(take(l, 0, snib_lane_new(), &g));
    must_be(take(m, 1500, snib_lane_new(), &none), SNIB_ERR_TIMEOUT);
    assert_true(snib_grant_held(l, g));
    must(snib_release(l, g, NULL));
    must(take(m, 1000, snib_lane_new(), &g));
    must(snib_release(m, g, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_fixed_lot_of_permits_is_renewed_by_hand(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l = leased(c, fresh_name(), 2, 1000, true);
    struct snib_grant g;
    must(take(l, 0, snib_lane_new(), &g));
    assert_true(status_of(l, g).left_ms <= 1000);
    must(snib_renew(l, g, 20000, NULL));
    assert_true(status_of(l, g).left_ms > 15000);
    must(snib_release(l, g, NULL));
    must_be(snib_renew(l, g, 0, NULL), SNIB_ERR_NOT_HELD);
    snib_client_free(c);
}

static void any_thread_may_release_permits(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *l = permits_of(c, name, 2, 2);
    struct snib_grant g;
    must(acquire_for(l, 0, &g)); /* by the lane of this thread */
    must(by_stranger(l, g));
    assert_int_equal(status_of(l, g).state, SNIB_RELEASED);
    must_be(snib_release(l, g, NULL), SNIB_ERR_NOT_HELD);
    must(acquire_for(l, 0, &g));
    must(snib_release(l, g, NULL));
    snib_client_free(c);
}

static int take_two_permits_and_stay(const char *name)
{
    struct snib_client *c = open_client();
    struct snib_grant g;
    return (int)acquire_for(leased(c, name, 2, 1500, false), 0, &g);
}

static void permits_of_a_killed_process_come_back_by_its_lease(void **state)
{
    (void)state;
    skip_in_one_process();
    const char *name = fresh_name();
    struct child dead = start_child(take_two_permits_and_stay, name);
    wait_for_child(&dead);
    struct snib_client *d = open_client();
    struct snib_lock *m = permits_of(d, name, 1, 0);
    struct snib_grant g;
    must_be(try_by_other(m, &g), SNIB_ERR_BUSY);
    kill_child(&dead);
    int64_t begin = now_ms();
    must(take(m, 10000, snib_lane_new(), &g));
    assert_true(now_ms() - begin < 1500 + SLACK_MS);
    must(snib_release(m, g, NULL));
    snib_client_free(d);
}

static void two_permits_serve_both_threads(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *two = permits_of(c, name, 2, 2),
                     *one = permits_of(d, name, 1, 0),
                     *uno = permits_of(c, name, 1, 0);
    struct snib_grant g;
    struct task a = {0}, b = {0};
    must(take(two, 0, snib_lane_new(), &g));
    start(&a, one, 10000);
    start(&b, uno, 10000);
    wait_for_waiters(d, name, 2);
    int64_t begin = now_ms();
    must(snib_release(two, g, NULL));
    must(join(&a)->err);
    must(join(&b)->err);
    assert_true(now_ms() - begin < SLACK_MS);
    assert_int_equal(holders_of(d, name), 2);
    must(snib_release(one, a.grant, NULL));
    must(snib_release(uno, b.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void kind_and_permits_are_seen_by_status_and_inspect(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = permits_of(c, name, 3, 4),
                     *m = permits_of(d, name, 2, 0);
    struct snib_grant g;
    struct snib_view *v;
    struct task waiter = {0};
    must(take(l, 0, snib_lane_new(), &g));
    assert_int_equal(status_of(l, g).kind, SNIB_PERMITS);
    assert_int_equal(status_of(l, g).permits, 3);
    assert_int_equal(status_of(l, g).holds, 1);
    start(&waiter, m, 10000);
    wait_for_waiters(c, name, 1);
    must(snib_inspect(c, name, 0, &v, NULL));
    assert_int_equal(v->holder_count, 1);
    assert_int_equal(v->holders[0].kind, SNIB_PERMITS);
    assert_int_equal(v->holders[0].permits, 3);
    assert_true(v->holders[0].self);
    assert_int_equal(v->holders[0].token, g.token);
    assert_int_equal(v->waiter_count, 1);
    assert_int_equal(v->waiters[0].kind, SNIB_PERMITS);
    assert_int_equal(v->waiters[0].permits, 2);
    snib_view_free(v);
    must(snib_release(l, g, NULL));
    must(join(&waiter)->err);
    must(snib_release(m, waiter.grant, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

/* -- lock-delay ---------------------------------------------------------------------- */

static struct snib_lock *delayed(struct snib_client *c, const char *name,
                                 snib_kind kind, int64_t lease_ms, bool fix,
                                 int64_t delay_ms)
{
    struct snib_lock_options o =
        terms(kind, kind == SNIB_PERMITS ? 1 : 0, kind == SNIB_PERMITS ? 1 : 0);
    o.lease_ms = lease_ms;
    o.fixed_lease = fix;
    o.lock_delay_ms = delay_ms;
    return lock_with(c, name, &o);
}

static void
a_lease_that_ran_out_keeps_the_lock_closed_for_its_delay(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_MUTEX, SNIB_READ, SNIB_PERMITS};
    for (int i = 0; i < 3; i++) {
        const char *name = fresh_name();
        struct snib_client *c = open_client(), *d = open_client();
        struct snib_lock *l = delayed(c, name, kinds[i], 400, true, 1000),
                         *m = kinds[i] == SNIB_PERMITS
                                  ? permits_of(d, name, 1, 0)
                                  : of_kind(d, name, SNIB_WRITE);
        struct snib_grant g, h;
        int64_t begin = now_ms();
        must(take(l, 0, snib_lane_new(), &g));
        must_be(take(m, 900, snib_lane_new(), &h), SNIB_ERR_TIMEOUT);
        assert_false(snib_grant_held(l, g)); /* its owner has lost it */
        must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
        must(take(m, 5000, snib_lane_new(), &h));
        int64_t took = now_ms() - begin;
        assert_true(took >= 1390 && took < 1400 + SLACK_MS);
        must(snib_release(m, h, NULL));
        snib_client_free(c);
        snib_client_free(d);
    }
}

static void a_release_opens_a_lock_with_a_delay_at_once(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = delayed(c, name, SNIB_MUTEX, 30000, false, 60000),
                     *r = delayed(c, name, SNIB_READ, 30000, false, 60000),
                     *m = of_kind(d, name, SNIB_WRITE);
    struct snib_grant g, h;
    must(take(l, 0, snib_lane_new(), &g));
    must(snib_release(l, g, NULL));
    must(take(m, 0, snib_lane_new(), &h));
    must(snib_release(m, h, NULL));
    must(take(r, 0, snib_lane_new(), &g));
    must(snib_release(r, g, NULL));
    must(take(m, 0, snib_lane_new(), &h));
    must(snib_release(m, h, NULL));
    must(take(l, 0, snib_lane_new(), &g));
    snib_client_free(c); /* a release, too */
    must(take(m, 0, snib_lane_new(), &h));
    must(snib_release(m, h, NULL));
    snib_client_free(d);
}

/* Granted by another's release, confirmed, renewed: the delay stays. */
static void a_renewed_grant_keeps_its_delay(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *first = of_kind(d, name, SNIB_MUTEX),
                     *l = delayed(c, name, SNIB_MUTEX, 300, true, 6000),
                     *m = of_kind(d, name, SNIB_WRITE);
    struct snib_grant g, none;
    struct task waiter = {0};
    must(take(first, 0, snib_lane_new(), &g));
    start(&waiter, l, 10000);
    wait_for_waiters(d, name, 1);
    must(snib_release(first, g, NULL));
    must(join(&waiter)->err);
    must(snib_renew(l, waiter.grant, 500, NULL));
    must_be(take(m, 2000, snib_lane_new(), &none), SNIB_ERR_TIMEOUT);
    assert_false(snib_grant_held(l, waiter.grant));
    snib_client_free(c);
    snib_client_free(d);
}

static int hold_with_a_delay_and_stay(const char *name)
{
    struct snib_client *c = open_client();
    struct snib_grant g;
    return (int)acquire_for(delayed(c, name, SNIB_MUTEX, 700, false, 1500), 0,
                            &g);
}

static void a_killed_holder_keeps_the_lock_closed_for_its_delay(void **state)
{
    (void)state;
    skip_in_one_process();
    const char *name = fresh_name();
    struct child dead = start_child(hold_with_a_delay_and_stay, name);
    wait_for_child(&dead);
    struct snib_client *d = open_client();
    struct snib_lock *m = of_kind(d, name, SNIB_MUTEX);
    struct snib_grant g;
    kill_child(&dead);
    int64_t begin = now_ms();
    must(take(m, 10000, snib_lane_new(), &g));
    int64_t took = now_ms() - begin;
    /* Its last renewal was at most a third of the lease ago (and a bit). */
    assert_true(took >= 1500 && took < 2200 + SLACK_MS);
    must(snib_release(m, g, NULL));
    snib_client_free(d);
}

/* -- priority ------------------------------------------------------------------------- */

static void higher_priorities_are_served_first_and_equals_in_order(void **state)
{
    (void)state;
    static const int priority[] = {0, -100, 100, 0, 100, 7};
    static const int want[] = {3, 5, 0, 4, 1, 2};
    enum { N = 6 };
    const char *name = fresh_name();
    struct snib_client *c[N], *d = open_client();
    struct snib_lock *l = of_kind(d, name, SNIB_MUTEX);
    struct task t[N] = {0};
    struct snib_grant g;
    atomic_int order = 0;
    must(take(l, 0, snib_lane_new(), &g));
    for (int i = 0; i < N; i++) {
        struct snib_lock_options o = terms(SNIB_MUTEX, 0, 0);
        o.priority = priority[i];
        c[i] = open_client();
        t[i].order = &order;
        t[i].release = true;
        start(&t[i], lock_with(c[i], name, &o), 20000);
        wait_for_waiters(d, name, (size_t)i + 1);
    }
    must(snib_release(l, g, NULL));
    for (int i = 0; i < N; i++) {
        must(join(&t[i])->err);
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(t[i].place, want[i]);
        snib_client_free(c[i]);
    }
    snib_client_free(d);
}

static void lanes_of_one_client_go_by_priority_too(void **state)
{
    (void)state;
    static const int priority[] = {0, -100, 100, 0, 100, 7};
    static const int want[] = {3, 5, 0, 4, 1, 2};
    enum { N = 6 };
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *l = of_kind(c, name, SNIB_MUTEX);
    struct snib_lock_options o = terms(SNIB_MUTEX, 0, 0);
    struct snib_acquire_options a = SNIB_INIT(snib_acquire_options);
    struct snib_grant g;
    uint64_t ticket;
    int place[N];
    must(take(l, 0, snib_lane_new(), &g));
    a.wait_ms = SNIB_FOREVER;
    for (int i = 0; i < N; i++) { /* started: in this very order */
        o.priority = priority[i];
        must(snib_acquire_start(lock_with(c, name, &o), &a, &place[i], &ticket,
                                NULL));
    }
    must(snib_release(l, g, NULL));
    for (int i = 0; i < N; i++) {
        struct snib_event ev = next_event(c);
        assert_int_equal(ev.kind, SNIB_EV_GRANTED);
        *(int *)ev.user = i;
        must(snib_release(l, ev.grant, NULL));
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(place[i], want[i]);
    }
    snib_client_free(c);
}

/* -- barriers -------------------------------------------------------------------------- */

static struct snib_lock *barrier(struct snib_client *c, const char *name,
                                 uint32_t parties)
{
    struct snib_lock_options o = terms(SNIB_BARRIER, parties, 0);
    return lock_with(c, name, &o);
}

static void a_barrier_lets_all_pass_together_twice(void **state)
{
    (void)state;
    enum { N = 5 };
    const char *name = fresh_name();
    struct snib_client *c[2] = {open_client(), open_client()};
    struct snib_lock *l[2] = {barrier(c[0], name, N), barrier(c[1], name, N)};
    int64_t generation = 0;
    for (int round = 0; round < 2; round++) {
        struct task t[N] = {0};
        for (int i = 0; i < N; i++) {
            if (i == N - 1) {
                wait_for_waiters(c[0], name, N - 1);
            }
            start(&t[i], l[i % 2], 10000);
        }
        for (int i = 0; i < N; i++) {
            must(join(&t[i])->err);
            assert_true(t[i].ended_ms >= t[N - 1].began_ms);
            assert_int_equal(t[i].grant.token, t[0].grant.token);
        }
        assert_true(t[0].grant.token > generation);
        generation = t[0].grant.token;
        for (int i = 0; i < N; i++) {
            must(snib_release(t[i].lock, t[i].grant, NULL));
        }
    }
    snib_client_free(c[0]);
    snib_client_free(c[1]);
}

static void a_party_that_gives_up_does_not_count(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = barrier(c, name, 3), *m = barrier(d, name, 3);
    struct snib_grant none;
    struct task a = {0}, b = {0}, late = {0};
    must_be(take(l, 0, snib_lane_new(), &none), SNIB_ERR_BUSY);
    must_be(take(l, 200, snib_lane_new(), &none), SNIB_ERR_TIMEOUT);
    wait_for_fewer_waiters(d, name, 0);
    start(&a, l, 10000);
    start(&b, m, 10000);
    wait_for_waiters(c, name, 2);
    assert_int_equal(holders_of(c, name), 0);
    start(&late, m, 10000);
    must(join(&a)->err);
    must(join(&b)->err);
    must(join(&late)->err);
    snib_client_free(c);
    snib_client_free(d);
}

static int wait_at_the_barrier(const char *name)
{
    struct snib_client *c = open_client();
    uint64_t ticket;
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.wait_ms = SNIB_FOREVER;
    return (int)snib_acquire_start(barrier(c, name, 3), &o, NULL, &ticket,
                                   NULL);
}

static void a_party_that_died_does_not_count(void **state)
{
    (void)state;
    skip_in_one_process();
    const char *name = fresh_name();
    struct child dead = start_child(wait_at_the_barrier, name);
    wait_for_child(&dead);
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = barrier(c, name, 3), *m = barrier(d, name, 3);
    struct task a = {0}, b = {0}, late = {0};
    wait_for_waiters(c, name, 1);
    kill_child(&dead);
    wait_for_fewer_waiters(c, name, 0);
    start(&a, l, 10000);
    start(&b, m, 10000);
    wait_for_waiters(c, name, 2);
    assert_int_equal(holders_of(c, name), 0);
    start(&late, m, 10000);
    must(join(&a)->err);
    must(join(&b)->err);
    must(join(&late)->err);
    snib_client_free(c);
    snib_client_free(d);
}

/* -- left behind, forked, closed, started ------------------------------------------------ */

static void a_shared_grant_left_behind_is_adopted(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *name = fresh_name();
        struct snib_client *c = open_client(), *d = open_client();
        struct snib_lock *l = i == 0 ? fixed(c, name, SNIB_READ, 20000)
                                     : leased(c, name, 2, 20000, true),
                         *w = i == 0 ? of_kind(d, name, SNIB_WRITE)
                                     : permits_of(d, name, 1, 0);
        struct snib_grant g, h, none;
        char text[SNIB_GRANT_TEXT], identity[SNIB_IDENTITY_TEXT];
        must(acquire_for(l, 0, &g));
        must(snib_grant_export(l, g, text, sizeof text, NULL));
        must(snib_grant_abandon(l, g, NULL));
        assert_int_equal(status_of(l, g).state, SNIB_RELEASED);
        snib_client_free(c);
        must_be(try_by_other(w, &none), SNIB_ERR_BUSY);
        must(snib_grant_identity(text, identity, sizeof identity, NULL));
        struct snib_client_options o = SNIB_INIT(snib_client_options);
        o.url = store_url();
        o.identity = identity;
        must(snib_client_open(&o, &c, NULL));
        l = i == 0 ? fixed(c, name, SNIB_READ, 20000)
                   : leased(c, name, 2, 20000, true);
        must(snib_grant_adopt(l, text, 0, &h, NULL));
        must_be(snib_grant_adopt(l, text, 0, &none, NULL), SNIB_ERR_BUSY);
        assert_int_equal(h.token, g.token);
        assert_int_equal(status_of(l, h).kind,
                         i == 0 ? SNIB_READ : SNIB_PERMITS);
        assert_int_equal(status_of(l, h).permits, i == 0 ? 0 : 2);
        must(snib_renew(l, h, 10000, NULL));
        must_be(try_by_other(w, &none), SNIB_ERR_BUSY);
        must(snib_release(l, h, NULL));
        must(take(w, 1000, snib_lane_new(), &none));
        must(snib_release(w, none, NULL));
        must_be(snib_grant_adopt(l, text, 0, &h, NULL), SNIB_ERR_LOST);
        snib_client_free(c);
        snib_client_free(d);
    }
}

static void a_forked_child_does_not_touch_what_is_shared(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_READ),
                     *p = permits_of(c, fresh_name(), 1, 2);
    struct snib_grant g, h, none;
    must(acquire_for(r, 0, &g));
    must(acquire_for(p, 0, &h));
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = acquire_for(r, 0, &none) == SNIB_ERR_FORKED &&
                  acquire_for(p, 0, &none) == SNIB_ERR_FORKED &&
                  snib_release(r, g, NULL) == SNIB_ERR_FORKED &&
                  snib_release(p, h, NULL) == SNIB_ERR_FORKED;
        snib_client_free(c);
        _exit(ok ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_true(snib_grant_held(r, g));
    assert_true(snib_grant_held(p, h));
    must(snib_release(r, g, NULL));
    must(snib_release(p, h, NULL));
    snib_client_free(c);
}

static void closing_ends_all_kinds_of_waiting(void **state)
{
    (void)state;
    const char *name = fresh_name(), *bar = fresh_name(), *sem = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = of_kind(d, name, SNIB_READ),
                     *w = of_kind(d, name, SNIB_WRITE),
                     *other = of_kind(c, name, SNIB_READ),
                     *p = permits_of(c, sem, 2, 2);
    uint64_t lane = snib_lane_new();
    struct task t[4] = {{.lane = lane}};
    struct snib_grant mine, held, x;
    must(take(r, 0, lane, &mine));
    must(take(other, 0, snib_lane_new(), &held));
    must(take(p, 0, snib_lane_new(), &x));
    start(&t[0], w, 30000); /* an upgrade */
    wait_for_waiters(c, name, 1);
    start(&t[1], r, 30000);
    wait_for_waiters(c, name, 2);
    start(&t[2], barrier(d, bar, 2), 30000);
    wait_for_waiters(c, bar, 1);
    start(&t[3], permits_of(d, sem, 1, 0), 30000);
    wait_for_waiters(c, sem, 1);
    snib_client_close(d);
    for (int i = 0; i < 4; i++) {
        snib_err ended = join(&t[i])->err;
        /* UNKNOWN: in the store's queue, but its answer was on the way. */
        assert_true(ended == SNIB_ERR_CLOSED || ended == SNIB_ERR_UNKNOWN);
    }
    must_be(take(r, 0, snib_lane_new(), &x), SNIB_ERR_CLOSED);
    snib_client_free(d);
    must(snib_release(other, held, NULL));
    struct snib_lock *writer = of_kind(c, name, SNIB_WRITE);
    must(take(writer, 2000, snib_lane_new(), &x)); /* d's read is back, too */
    must(snib_release(writer, x, NULL));
    assert_int_equal(waiters_of(c, bar) + waiters_of(c, sem), 0);
    snib_client_free(c);
}

static void started_acquires_of_all_kinds_end_in_one_event_each(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_READ, SNIB_PERMITS, SNIB_BARRIER};
    for (int i = 0; i < 3; i++) {
        const char *name = fresh_name();
        struct snib_client *c = open_client(), *d = open_client();
        struct snib_lock_options o =
            terms(kinds[i], kinds[i] == SNIB_READ ? 0 : 1,
                  kinds[i] == SNIB_PERMITS ? 1 : 0);
        struct snib_lock *w = of_kind(c, name, SNIB_WRITE),
                         *l = lock_with(d, name, &o);
        struct snib_acquire_options a = SNIB_INIT(snib_acquire_options);
        struct snib_grant g;
        uint64_t ticket;
        a.wait_ms = SNIB_FOREVER;
        must(take(w, 0, snib_lane_new(), &g));
        must(snib_acquire_start(l, &a, NULL, &ticket, NULL));
        wait_for_waiters(c, name, 1);
        snib_cancel(d, ticket);
        struct snib_event ev = next_event(d);
        assert_int_equal(ev.kind, SNIB_EV_REFUSED);
        /* UNKNOWN: it is in the queue, and d has not read that yet. */
        assert_true(ev.error.code == SNIB_ERR_CANCELLED ||
                    ev.error.code == SNIB_ERR_UNKNOWN);
        wait_for_fewer_waiters(c, name, 0);
        a.wait_ms = 100;
        must(snib_acquire_start(l, &a, NULL, &ticket, NULL));
        ev = next_event(d);
        must_be(ev.error.code, SNIB_ERR_TIMEOUT);
        wait_for_fewer_waiters(c, name, 0);
        a.wait_ms = SNIB_FOREVER;
        must(snib_acquire_start(l, &a, &ticket, &ticket, NULL));
        wait_for_waiters(c, name, 1);
        must(snib_release(w, g, NULL));
        ev = next_event(d);
        assert_int_equal(ev.kind, SNIB_EV_GRANTED);
        assert_ptr_equal(ev.user, &ticket);
        must(snib_release_start(l, ev.grant, NULL, NULL));
        ev = next_event(d);
        assert_int_equal(ev.kind, SNIB_EV_RELEASED);
        must(ev.error.code);
        assert_false(snib_next(d, &ev));
        snib_client_free(c);
        snib_client_free(d);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(readers_share_and_keep_the_writer_out),
        cmocka_unit_test(the_writer_may_read_and_others_may_not),
        cmocka_unit_test(
            twenty_readers_proceed_within_a_second_of_the_write_unlock),
        cmocka_unit_test(each_grant_tells_of_itself_only),
        cmocka_unit_test(another_thread_may_not_release_a_read_lock),
        cmocka_unit_test(
            expired_readers_keep_the_writer_out_for_their_lease_only),
        cmocka_unit_test(readers_come_in_when_a_writers_lease_runs_out),
        cmocka_unit_test(the_keeper_renews_fifty_readers_beyond_their_lease),
        cmocka_unit_test(a_downgraded_reader_is_renewed_all_along),
        cmocka_unit_test(
            a_re_entry_with_a_shorter_lease_does_not_shorten_the_first),
        cmocka_unit_test(a_partial_release_leaves_the_lease_as_it_is),
        cmocka_unit_test(force_release_ends_all_readers),
        cmocka_unit_test(
            force_release_ends_the_writer_and_what_it_reads_and_permits),
        cmocka_unit_test(names_with_braces_serve_ten_times_ten_readers),
        cmocka_unit_test(
            a_killed_reader_keeps_the_writer_out_for_its_own_lease_only),
        cmocka_unit_test(a_killed_reader_alone_blocks_no_longer_than_its_lease),
        cmocka_unit_test(a_client_that_closes_gives_back_what_it_shares),
        cmocka_unit_test(writers_and_readers_never_see_half_of_a_change),
        cmocka_unit_test(a_reader_shows_the_token_of_the_last_writer),
        cmocka_unit_test(
            an_upgrade_waits_for_readers_ahead_of_the_writers_that_wait),
        cmocka_unit_test(a_second_upgrade_is_refused_and_the_first_succeeds),
        cmocka_unit_test(an_upgrade_that_times_out_leaves_the_read_lock_held),
        cmocka_unit_test(an_upgrade_of_a_lost_read_lock_is_lost),
        cmocka_unit_test(a_stream_of_readers_does_not_starve_the_writer),
        cmocka_unit_test(a_stream_of_writers_does_not_starve_the_reader),
        cmocka_unit_test(small_requests_do_not_starve_a_large_one),
        cmocka_unit_test(no_reentry_is_refused_at_once),
        cmocka_unit_test(tokens_rise_by_whatever_way_a_lock_is_taken),
        cmocka_unit_test(permits_are_counted_and_given_back),
        cmocka_unit_test(the_first_capacity_is_the_size),
        cmocka_unit_test(what_can_never_be_granted_is_refused),
        cmocka_unit_test(a_request_for_four_waits_for_two_releases),
        cmocka_unit_test(a_timed_request_gets_permits_that_come_in_time),
        cmocka_unit_test(a_request_for_two_is_not_served_by_one_release),
        cmocka_unit_test(permits_are_given_in_order_of_arrival),
        cmocka_unit_test(one_permit_excludes),
        cmocka_unit_test(never_more_permits_are_in_use_than_there_are),
        cmocka_unit_test(the_largest_semaphore_counts),
        cmocka_unit_test(permits_that_expire_come_back),
        cmocka_unit_test(the_keeper_renews_permits),
        cmocka_unit_test(a_fixed_lot_of_permits_is_renewed_by_hand),
        cmocka_unit_test(any_thread_may_release_permits),
        cmocka_unit_test(permits_of_a_killed_process_come_back_by_its_lease),
        cmocka_unit_test(two_permits_serve_both_threads),
        cmocka_unit_test(kind_and_permits_are_seen_by_status_and_inspect),
        cmocka_unit_test(
            a_lease_that_ran_out_keeps_the_lock_closed_for_its_delay),
        cmocka_unit_test(a_release_opens_a_lock_with_a_delay_at_once),
        cmocka_unit_test(a_renewed_grant_keeps_its_delay),
        cmocka_unit_test(a_killed_holder_keeps_the_lock_closed_for_its_delay),
        cmocka_unit_test(
            higher_priorities_are_served_first_and_equals_in_order),
        cmocka_unit_test(lanes_of_one_client_go_by_priority_too),
        cmocka_unit_test(a_barrier_lets_all_pass_together_twice),
        cmocka_unit_test(a_party_that_gives_up_does_not_count),
        cmocka_unit_test(a_party_that_died_does_not_count),
        cmocka_unit_test(a_shared_grant_left_behind_is_adopted),
        cmocka_unit_test(a_forked_child_does_not_touch_what_is_shared),
        cmocka_unit_test(closing_ends_all_kinds_of_waiting),
        cmocka_unit_test(started_acquires_of_all_kinds_end_in_one_event_each),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tests/unit/test_run_events.c — being told, on memory:. labels: thread
 *
 * Loss, callbacks, close, stop and fork; events, clients without a thread of
 * ours, virtual time. */
#include "run_memory.h"
#include "snib/event.h"

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

static void a_blocking_call_is_not_cancelled_by_its_ticket(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_client *d = open_client("", false);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(d, "x");
    struct job j = {.lock = l};
    struct snib_grant g, h;
    pthread_t t;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    assert_int_equal(acquire(m, 0, &h), SNIB_ERR_OK);
    pthread_create(&t, NULL, waits_for_ever, &j);
    until_waiting(c, 1);
    snib_client_cancel(
        c, g.ticket + (UINT64_C(1) << 32)); /* its acquisition, once more */
    assert_int_equal(snib_release(m, h, &e), SNIB_ERR_OK);
    pthread_join(t, NULL);
    assert_int_equal(j.err, SNIB_ERR_OK);
    assert_int_equal(j.grant.ticket, g.ticket + (UINT64_C(1) << 32));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
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

static void a_child_gets_no_loss_descriptor_of_its_parents_grant(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    int status;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    assert_true(snib_grant_fd(l, g) >= 0);
    pid_t child = fork();
    if (child == 0) {
        errno = 0;
        _exit(snib_grant_fd(l, g) == -1 && errno == ENOENT ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    snib_lock_free(l);
    snib_client_free(c);
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
                    !snib_grant_held(l, g) && snib_client_fd(c) == -1;
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
               snib_client_next(c, &ev, sizeof ev) &&
               ev.kind == SNIB_EVENT_GRANTED;
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
                        snib_cause r)
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
    assert_int_equal(d.state, SNIB_STATE_LOST);
    assert_int_equal(d.reason, SNIB_CAUSE_EXPIRED);
    snib_grant_status(l, g, &s, sizeof s);
    assert_int_equal(s.state, SNIB_STATE_LOST);
    /* the owner stays lost until it has unwound */
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
    assert_int_equal(d.state, SNIB_STATE_LOST);
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
    assert_int_equal(d.state, SNIB_STATE_LOST);
    assert_int_equal(d.reason, SNIB_CAUSE_HOLD_MAX);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_LOST);
    snib_lock_free(l);
    snib_client_free(c);
}

static uint64_t renewals_of(struct snib_client *c)
{
    struct snib__counts n;
    snib__client_counts(c, &n, NULL, NULL);
    return n.renewals;
}

/* Each third of the lease, here a second. A renewal is late after a sixth of
 * it, and that is told: a lease of 300 ms left a busy machine 50. */
static void the_keeper_renews(void **state)
{
    (void)state;
    struct diary d = {0};
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = watched_lock(c, 3000, 0, false, &d);
    struct snib_grant g;
    assert_int_equal(acquire(l, 0, &g), SNIB_ERR_OK);
    for (int i = 0; renewals_of(c) < 2; i++) {
        assert_true(i < 1000); /* 10 s */
        nap(10);
    }
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
                             snib_cause r)
{
    struct freer *f = data;
    struct snib_error mine;
    (void)r;
    if (s == SNIB_STATE_LOST) {
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
    struct snib_acquire_options a = SNIB_INIT(snib_acquire_options);
    o.lease_ms = 100;
    o.fixed_lease = true;
    o.on_change = release_and_free;
    o.data = &f;
    a.owner = snib_owner_new();
    assert_int_equal(snib_lock_new(c, "x", &o, &f.lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_try(f.lock, &a, &f.grant, &e), SNIB_ERR_OK);
    int64_t end = now_ms() + 20000;
    while (!atomic_load(&f.done) && now_ms() < end) {
        nap(1);
    }
    assert_int_equal(atomic_load(&f.done), 1);
    snib_client_free(c);
}

struct slow {
    struct snib_lock *lock;
    _Atomic int begun, open, ended, freed, early;
};

static void run_until_opened(void *data, struct snib_grant g, snib_state s,
                             snib_cause r)
{
    struct slow *slow = data;
    int64_t end = now_ms() + 20000;
    (void)g, (void)s, (void)r;
    atomic_fetch_add(&slow->begun, 1);
    while (!atomic_load(&slow->open) && now_ms() < end) {
        nap(1);
    }
    slow->early += atomic_load(&slow->freed);
    atomic_fetch_add(&slow->ended, 1);
}

static void *open_late(void *data)
{
    struct slow *slow = data;
    nap(30); /* in which snib_lock_free could be wrong */
    atomic_store(&slow->open, 1);
    return NULL;
}

static void
the_handle_waits_for_a_callback_and_the_release_does_not(void **state)
{
    (void)state;
    struct slow slow = {0};
    struct snib_client *c = open_client("", false);
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_grant g;
    pthread_t opener;
    o.lease_ms = 100;
    o.fixed_lease = true;
    o.on_change = run_until_opened;
    o.data = &slow;
    assert_int_equal(snib_lock_new(c, "x", &o, &slow.lock, &e), SNIB_ERR_OK);
    assert_int_equal(snib_try(slow.lock, NULL, &g, &e), SNIB_ERR_OK);
    int64_t end = now_ms() + 20000;
    while (!atomic_load(&slow.begun) && now_ms() < end) {
        nap(1);
    }
    assert_int_equal(snib_release(slow.lock, g, &e), SNIB_ERR_LOST);
    assert_int_equal(atomic_load(&slow.ended), 0);
    assert_int_equal(pthread_create(&opener, NULL, open_late, &slow), 0);
    snib_lock_free(slow.lock);
    atomic_store(&slow.freed, 1);
    pthread_join(opener, NULL);
    assert_int_equal(slow.early, 0);
    assert_int_equal(atomic_load(&slow.ended), 1);
    snib_client_free(c);
    assert_int_equal(atomic_load(&slow.begun), 1);
}

/* -- events ---------------------------------------------------------------------------------- */

static struct snib_event next_event(struct snib_client *c, bool pull)
{
    struct snib_event ev;
    int64_t end = now_ms() + 20000;
    while (!snib_client_next(c, &ev, sizeof ev)) {
        assert_true(now_ms() < end);
        (void)readable(snib_client_fd(c), 50);
        if (pull) {
            assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
        }
    }
    return ev;
}

static void events_of(bool pull)
{
    struct snib_client *c = open_client("", pull);
    struct snib_lock *l = lock_of(c, "x");
    uint64_t t1, t2, t3;
    int one, two, three, four;
    struct snib_event ev;
    assert_int_equal(snib_acquire_start(l, NULL, &one, &t1, &e), SNIB_ERR_OK);
    ev = next_event(c, pull);
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    assert_ptr_equal(ev.user, &one);
    assert_int_equal(ev.grant.ticket, t1);
    struct snib_grant g = ev.grant;

    /* a limit, a cancel, and one that is served */
    assert_int_equal(snib_try_for_start(l, 50, NULL, &two, &t2, &e),
                     SNIB_ERR_OK);
    ev = next_event(c, pull);
    assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_TIMEOUT);
    assert_ptr_equal(ev.user, &two);
    assert_int_equal(snib_acquire_start(l, NULL, &two, &t2, &e), SNIB_ERR_OK);
    snib_client_cancel(c, t2);
    snib_client_cancel(c, t2);
    snib_client_cancel(c, 0);
    ev = next_event(c, pull);
    assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_CANCELLED);
    assert_int_equal(snib_try_start(l, NULL, &four, &t3, &e), SNIB_ERR_BUSY);
    assert_int_equal(snib_acquire_start(l, NULL, &three, &t3, &e), SNIB_ERR_OK);
    assert_int_equal(snib_release_start(l, g, &four, &e), SNIB_ERR_OK);
    bool released = false, granted = false;
    for (int i = 0; i < 2; i++) {
        ev = next_event(c, pull);
        if (ev.kind == SNIB_EVENT_RELEASED) {
            assert_ptr_equal(ev.user, &four);
            assert_int_equal(ev.error.code, SNIB_ERR_OK);
            released = true;
        } else {
            assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
            assert_ptr_equal(ev.user, &three);
            assert_true(ev.grant.token > g.token);
            granted = true;
            t3 = ev.grant.ticket;
        }
    }
    assert_true(released && granted);
    assert_false(snib_client_next(c, &ev, sizeof ev));
    assert_int_equal(snib_release_start(l, g, &four, &e), SNIB_ERR_NOT_HELD);
    g.ticket = t3;
    assert_int_equal(snib_release_start(l, g, &four, &e), SNIB_ERR_OK);
    ev = next_event(c, pull);
    assert_int_equal(ev.kind, SNIB_EVENT_RELEASED);
    assert_false(readable(snib_client_fd(c), pull ? 0 : 0) && !pull);
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
    assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
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
    assert_int_equal(snib_client_process(c), SNIB_ERR_USAGE);
    assert_int_equal(snib_client_timeout_ms(c), -1);
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
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    assert_true(snib_grant_held(l, ev.grant));
    nap(20);
    assert_true(snib_client_timeout_ms(c) > 900 &&
                snib_client_timeout_ms(c) <= 1000);
    assert_int_equal(snib_test_advance(c, 500), SNIB_ERR_OK);
    assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    assert_true(snib_grant_held(l, ev.grant));
    assert_int_equal(snib_test_advance(c, 600), SNIB_ERR_OK);
    assert_false(snib_grant_held(l, ev.grant));
    ev = next_event(c, true);
    assert_int_equal(ev.kind, SNIB_EVENT_STATE);
    assert_int_equal(ev.state, SNIB_STATE_LOST);
    assert_int_equal(ev.cause, SNIB_CAUSE_EXPIRED);
    assert_int_equal(snib_client_process(c),
                     SNIB_ERR_OK); /* callbacks run there */
    assert_int_equal(d.changes, 1);
    assert_int_equal(snib_release_start(l, ev.grant, NULL, &e), SNIB_ERR_OK);
    ev = next_event(c, true);
    assert_int_equal(ev.kind, SNIB_EVENT_RELEASED);
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

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test_setup(close_ends_those_who_wait, new_space),
        cmocka_unit_test_setup(after_close_the_holder_still_releases,
                               new_space),
        cmocka_unit_test_setup(stop_releases_what_is_held, new_space),
        cmocka_unit_test_setup(
            a_child_gets_no_loss_descriptor_of_its_parents_grant, new_space),
        cmocka_unit_test_setup(a_blocking_call_is_not_cancelled_by_its_ticket,
                               new_space),
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
        cmocka_unit_test_setup(
            the_handle_waits_for_a_callback_and_the_release_does_not,
            new_space),
        cmocka_unit_test_setup(every_start_ends_in_one_event, new_space),
        cmocka_unit_test_setup(every_start_ends_in_one_event_without_a_thread,
                               new_space),
        cmocka_unit_test_setup(close_answers_started_acquires, new_space),
        cmocka_unit_test_setup(a_pull_client_does_not_block, new_space),
        cmocka_unit_test_setup(a_pull_client_lives_in_virtual_time, new_space),
        cmocka_unit_test_setup(a_virtual_limit_ends_a_blocking_call, new_space),
        cmocka_unit_test_setup(no_descriptor_is_left, new_space),
    };
    return RUN(cases);
}

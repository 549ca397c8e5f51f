/* One set of cases for every store, through the public interface only.
 *
 *   snib_conformance URL [CASE]
 *
 * What a store cannot do is skipped visibly, with the reason. Every case uses
 * a name of its own, so that one store serves them all. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"

/* For cases that look at who waits. True: skipped. */
static bool lacks_a_queue(void)
{
    if (strncmp(store_url(), "redlock:", 8) != 0) {
        return false;
    }
    print_message("skipped: redlock: nobody queues at the nodes of a quorum\n");
    return true;
}

/* -- one owner ------------------------------------------------------------------ */

static void tokens_rise_from_grant_to_grant(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, fresh_name(), NULL);
    int64_t last = 0;
    for (int i = 0; i < 20; i++) {
        struct snib_grant g;
        must(acquire_for(l, 0, &g));
        assert_true(g.token > last);
        assert_true(g.token < INT64_C(1) << 53);
        last = g.token;
        must(snib_release(l, g, NULL));
    }
    snib_lock_free(l);
    snib_client_free(c);
}

static void status_shows_a_held_grant(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, fresh_name(), NULL);
    struct snib_grant g;
    struct snib_status st;
    must(acquire_for(l, 0, &g));
    snib_grant_status(l, g, &st);
    assert_int_equal(st.state, SNIB_HELD);
    assert_int_equal(st.token, g.token);
    assert_int_equal(st.holds, 1);
    assert_true(st.left_ms > 25000 && st.left_ms <= 29695);
    must(snib_release(l, g, NULL));
    snib_grant_status(l, g, &st);
    assert_int_equal(st.state, SNIB_RELEASED);
    assert_false(snib_grant_held(l, g));
    snib_lock_free(l);
    snib_client_free(c);
}

static void re_entry_keeps_the_token_and_counts(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, fresh_name(), NULL);
    struct snib_grant a, b;
    must(acquire_for(l, 0, &a));
    must(acquire_for(l, 0, &b));
    assert_int_equal(a.token, b.token);
    must(snib_release(l, b, NULL));
    assert_true(snib_grant_held(l, a));
    must(snib_release(l, a, NULL));
    assert_int_equal(snib_release(l, a, NULL), SNIB_ERR_NOT_HELD);
    snib_lock_free(l);
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

static void another_thread_may_not_release(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, fresh_name(), NULL);
    struct stranger s = {.lock = l};
    pthread_t t;
    must(acquire_for(l, 0, &s.grant));
    pthread_create(&t, NULL, release_elsewhere, &s);
    pthread_join(t, NULL);
    assert_int_equal(s.err, SNIB_ERR_WRONG_LANE);
    must(snib_release(l, s.grant, NULL));
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.lane = snib_lane_new();
    must(snib_acquire(l, &o, &s.grant, NULL));
    pthread_create(&t, NULL, release_elsewhere, &s);
    pthread_join(t, NULL);
    must(s.err);
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_fixed_lease_expires_and_is_told(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.fixed_lease = true;
    o.lease_ms = 150;
    struct snib_lock *l = lock_with(c, name, &o);
    struct snib_lock *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    struct snib_status st;
    must(acquire_for(l, 0, &g));
    struct pollfd p = {.fd = snib_grant_fd(l, g), .events = POLLIN};
    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, 5000), 1);
    snib_grant_status(l, g, &st);
    assert_int_equal(st.state, SNIB_LOST);
    assert_int_equal(st.reason, SNIB_WHY_EXPIRED);
    must(acquire_for(m, 5000, &h));
    assert_true(h.token > g.token);
    struct snib_grant again;
    assert_int_equal(acquire_for(l, 0, &again), SNIB_ERR_LOST);
    assert_int_equal(snib_release(l, g, NULL), SNIB_ERR_LOST);
    assert_int_equal(acquire_for(l, 0, &again), SNIB_ERR_BUSY);
    assert_true(snib_grant_held(m, h)); /* the late release touched nothing */
    must(snib_release(m, h, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_fixed_lease_can_be_renewed_by_hand(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.fixed_lease = true;
    o.lease_ms = 1000;
    struct snib_lock *l = lock_with(c, fresh_name(), &o);
    struct snib_grant g;
    struct snib_status st;
    must(acquire_for(l, 0, &g));
    must(snib_renew(l, g, 20000, NULL));
    snib_grant_status(l, g, &st);
    assert_true(st.left_ms > 15000);
    must(snib_release(l, g, NULL));
    assert_int_equal(snib_renew(l, g, 0, NULL), SNIB_ERR_NOT_HELD);
    snib_lock_free(l);
    snib_client_free(c);
}

static void the_keeper_renews_beyond_the_lease(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.lease_ms = 300;
    struct snib_lock *l = lock_with(c, name, &o);
    struct snib_lock *m = lock_with(d, name, &o);
    struct snib_grant g, h;
    must(acquire_for(l, 0, &g));
    assert_int_equal(acquire_for(m, 1000, &h), SNIB_ERR_TIMEOUT);
    assert_true(snib_grant_held(l, g));
    must(snib_release(l, g, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

static void hold_max_is_told_by_callback(void **state)
{
    (void)state;
    struct changes seen = {0};
    struct snib_client *c = open_client();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.hold_max_ms = 100;
    o.on_change = note_change;
    o.data = &seen;
    struct snib_lock *l = lock_with(c, fresh_name(), &o);
    struct snib_grant g;
    must(acquire_for(l, 0, &g));
    int64_t deadline = now_ms() + 5000;
    while (!atomic_load(&seen.lost)) {
        assert_true(now_ms() < deadline);
        look_again_after_ms(2);
    }
    assert_int_equal(atomic_load(&seen.reason), SNIB_WHY_HOLD_MAX);
    assert_int_equal(snib_release(l, g, NULL), SNIB_ERR_LOST);
    must(acquire_for(l, 1000, &g));
    must(snib_release(l, g, NULL));
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- several owners ---------------------------------------------------------------- */

static void a_try_on_a_held_lock_is_busy_at_once(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    must(acquire_for(l, 0, &g));
    int64_t start = now_ms();
    assert_int_equal(acquire_for(m, 0, &h), SNIB_ERR_BUSY);
    assert_true(now_ms() - start < 1000);
    if (strncmp(store_url(), "redlock:", 8) == 0) {
        /* A node that was the last to hear of the holder may have let the try
         * in; it gives that back in the background. */
        wait_for_fewer_waiters(c, name, 0);
    } else {
        assert_int_equal(waiters_of(c, name), 0);
    }
    must(snib_release(l, g, NULL));
    must(acquire_for(m, 0, &h));
    assert_true(h.token > g.token);
    must(snib_release(m, h, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_timed_wait_ends_by_its_limit_and_leaves_the_queue(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    must(acquire_for(l, 0, &g));
    int64_t start = now_ms();
    assert_int_equal(acquire_for(m, 300, &h), SNIB_ERR_TIMEOUT);
    int64_t took = now_ms() - start;
    assert_true(took >= 299 && took < 800);
    int64_t deadline = now_ms() + 3000;
    while (waiters_of(c, name) != 0) {
        assert_true(now_ms() < deadline);
        look_again_after_ms(2);
    }
    must(snib_release(l, g, NULL));
    must(acquire_for(l, 0, &g));
    must(snib_release(l, g, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

struct runner {
    struct snib_client *client;
    const char *name;
    atomic_int *turn;
    int64_t token, waited_ms;
    int place;
    snib_err err;
};

static void *wait_in_line(void *arg)
{
    struct runner *r = arg;
    struct snib_lock *l = lock_with(r->client, r->name, NULL);
    struct snib_grant g;
    int64_t start = now_ms();
    r->err = acquire_for(l, 20000, &g);
    r->waited_ms = now_ms() - start;
    if (!r->err) {
        r->token = g.token;
        r->place = atomic_fetch_add(r->turn, 1);
        r->err = snib_release(l, g, NULL);
    }
    snib_lock_free(l);
    return NULL;
}

static void clients_are_served_in_order_of_arrival(void **state)
{
    (void)state;
    if (lacks_a_queue()) {
        skip();
    }
    enum { N = 5 };
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, name, NULL);
    struct snib_grant g;
    atomic_int turn = 0;
    struct runner r[N];
    pthread_t t[N];
    must(acquire_for(l, 0, &g));
    for (int i = 0; i < N; i++) {
        r[i] = (struct runner){
            .client = open_client(), .name = name, .turn = &turn};
        pthread_create(&t[i], NULL, wait_in_line, &r[i]);
        wait_for_waiters(c, name, (size_t)i + 1);
    }
    int64_t start = now_ms();
    must(snib_release(l, g, NULL));
    int64_t last = g.token;
    for (int i = 0; i < N; i++) {
        pthread_join(t[i], NULL);
        must(r[i].err);
        assert_int_equal(r[i].place, i);
        assert_true(r[i].token > last);
        last = r[i].token;
        snib_client_free(r[i].client);
    }
    assert_true(now_ms() - start < 2000); /* pushed, not polled */
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_waiter_that_gives_up_does_not_block_the_next(void **state)
{
    (void)state;
    if (lacks_a_queue()) {
        skip();
    }
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    atomic_int turn = 0;
    struct runner r = {.client = open_client(), .name = name, .turn = &turn};
    pthread_t t;
    must(acquire_for(l, 0, &g));
    assert_int_equal(acquire_for(m, 100, &h), SNIB_ERR_TIMEOUT);
    pthread_create(&t, NULL, wait_in_line, &r);
    wait_for_waiters(c, name, 1);
    must(snib_release(l, g, NULL));
    pthread_join(t, NULL);
    must(r.err);
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
    snib_client_free(r.client);
}

/* A reader waits for nobody who waits behind it. */
static void a_newcomer_has_the_place_of_its_class(void **state)
{
    (void)state;
    if (lacks_a_queue()) {
        skip();
    }
    const char *name = fresh_name();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.kind = SNIB_READ;
    struct snib_client *c = open_client(), *d = open_client(),
                       *e = open_client();
    struct snib_lock *first = lock_with(c, name, &o),
                     *equal = lock_with(d, name, &o);
    o.priority = 10;
    struct snib_lock *better = lock_with(e, name, &o);
    struct snib_grant g, h, none;
    atomic_int turn = 0;
    struct runner writer = {
        .client = open_client(), .name = name, .turn = &turn};
    pthread_t t;
    must(acquire_for(first, 0, &g));
    pthread_create(&t, NULL, wait_in_line, &writer);
    wait_for_waiters(c, name, 1);
    assert_int_equal(acquire_for(equal, 0, &none), SNIB_ERR_BUSY);
    must(acquire_for(better, 0, &h));
    must(snib_release(better, h, NULL));
    must(snib_release(first, g, NULL));
    pthread_join(t, NULL);
    must(writer.err);
    snib_lock_free(first);
    snib_lock_free(equal);
    snib_lock_free(better);
    snib_client_free(c);
    snib_client_free(d);
    snib_client_free(e);
    snib_client_free(writer.client);
}

struct counter {
    struct snib_client *client;
    const char *name;
    struct snib_lock_options options;
    int rounds;
    volatile int *value; /* no atomics: the lock is the protection    */
    volatile int64_t *last_token;
    int bad_tokens;
};

static void *count(void *arg)
{
    struct counter *k = arg;
    struct snib_lock *l = lock_with(k->client, k->name, &k->options);
    for (int i = 0; i < k->rounds; i++) {
        struct snib_grant g;
        must(acquire_for(l, SNIB_FOREVER, &g));
        int v = *k->value;
        if (v % 7 == 0) {
            sched_yield();
        }
        k->bad_tokens += g.token <= *k->last_token;
        *k->last_token = g.token;
        *k->value = v + 1;
        must(snib_release(l, g, NULL));
    }
    snib_lock_free(l);
    return NULL;
}

static void contend(bool pass)
{
    enum { CLIENTS = 4, THREADS = 4, ROUNDS = 60 };
    const char *name = fresh_name();
    struct snib_client *c[CLIENTS];
    struct counter k[CLIENTS * THREADS];
    pthread_t t[CLIENTS * THREADS];
    volatile int value = 0;
    volatile int64_t last = 0;
    for (int i = 0; i < CLIENTS; i++) {
        c[i] = open_client();
    }
    for (int i = 0; i < CLIENTS * THREADS; i++) {
        k[i] = (struct counter){.client = c[i % CLIENTS],
                                .name = name,
                                .options = SNIB_INIT(snib_lock_options),
                                .rounds = ROUNDS,
                                .value = &value,
                                .last_token = &last};
        k[i].options.no_local_pass = !pass;
        pthread_create(&t[i], NULL, count, &k[i]);
    }
    int bad = 0;
    for (int i = 0; i < CLIENTS * THREADS; i++) {
        pthread_join(t[i], NULL);
        bad += k[i].bad_tokens;
    }
    assert_int_equal(value, CLIENTS * THREADS * ROUNDS);
    assert_int_equal(bad, 0);
    for (int i = 0; i < CLIENTS; i++) {
        snib_client_free(c[i]);
    }
}

static void an_unprotected_counter_is_exact_with_local_hand_over(void **state)
{
    (void)state;
    contend(true);
}

static void an_unprotected_counter_is_exact_without_it(void **state)
{
    (void)state;
    contend(false);
}

static void a_dead_process_frees_its_lock_by_its_lease(void **state)
{
    (void)state;
    if (is_memory()) {
        print_message("skipped: memory: lives in one process\n");
        skip();
    }
    const char *name = fresh_name();
    pid_t pid = fork();
    if (pid == 0) {
        struct snib_client *c = open_client();
        struct snib_lock_options o = SNIB_INIT(snib_lock_options);
        struct snib_grant g;
        o.lease_ms = 1500;
        struct snib_lock *l = lock_with(c, name, &o);
        _exit(acquire_for(l, 0, &g) ? 1 : 0); /* no release: as if killed */
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    struct snib_client *d = open_client();
    struct snib_lock *m = lock_with(d, name, NULL);
    struct snib_grant h;
    must(acquire_for(m, 4000, &h));
    must(snib_release(m, h, NULL));
    snib_lock_free(m);
    snib_client_free(d);
}

static void a_forked_child_is_refused(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, fresh_name(), NULL);
    struct snib_grant g, h;
    must(acquire_for(l, 0, &g));
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = acquire_for(l, 0, &h) == SNIB_ERR_FORKED &&
                  snib_release(l, g, NULL) == SNIB_ERR_FORKED;
        snib_client_free(c);
        _exit(ok ? 0 : 1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
    assert_true(snib_grant_held(l, g));
    must(snib_release(l, g, NULL));
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- events ------------------------------------------------------------------------------ */

static void started_acquires_end_in_one_event_each(void **state)
{
    (void)state;
    if (lacks_a_queue()) {
        skip();
    }
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    int mark;
    uint64_t ticket, second;
    o.wait_ms = SNIB_FOREVER;
    must(snib_acquire_start(l, &o, &mark, &ticket, NULL));
    struct snib_event ev = next_event(c);
    assert_int_equal(ev.kind, SNIB_EV_GRANTED);
    assert_ptr_equal(ev.user, &mark);
    assert_int_equal(ev.grant.ticket, ticket);
    struct snib_grant held = ev.grant;
    must(snib_acquire_start(m, &o, NULL, &second, NULL));
    wait_for_waiters(c, name, 1);
    snib_cancel(d, second);
    ev = next_event(d);
    assert_int_equal(ev.kind, SNIB_EV_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_CANCELLED);
    o.wait_ms = 100;
    must(snib_acquire_start(m, &o, NULL, &second, NULL));
    ev = next_event(d);
    assert_int_equal(ev.kind, SNIB_EV_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_TIMEOUT);
    o.wait_ms = SNIB_FOREVER;
    must(snib_acquire_start(m, &o, NULL, &second, NULL));
    wait_for_waiters(c, name, 1);
    must(snib_release_start(l, held, NULL, NULL));
    ev = next_event(c);
    assert_int_equal(ev.kind, SNIB_EV_RELEASED);
    must(ev.error.code);
    ev = next_event(d);
    assert_int_equal(ev.kind, SNIB_EV_GRANTED);
    must(snib_release(m, ev.grant, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

static void *close_soon(void *arg)
{
    struct runner *r = arg;
    wait_for_waiters(r->client, r->name, 1);
    snib_client_close(r[1].client);
    return NULL;
}

static void closing_ends_the_waiting(void **state)
{
    (void)state;
    if (lacks_a_queue()) {
        skip();
    }
    const char *name = fresh_name();
    struct runner r[2] = {{.client = open_client(), .name = name},
                          {.client = open_client()}};
    struct snib_lock *l = lock_with(r[0].client, name, NULL);
    struct snib_lock *m = lock_with(r[1].client, name, NULL);
    struct snib_grant g, h;
    pthread_t t;
    must(acquire_for(l, 0, &g));
    pthread_create(&t, NULL, close_soon, r);
    snib_err ended = acquire_for(m, SNIB_FOREVER, &h);
    /* UNKNOWN: the store had it in its queue, its answer was on the way. */
    assert_true(ended == SNIB_ERR_CLOSED || ended == SNIB_ERR_UNKNOWN);
    pthread_join(t, NULL);
    assert_int_equal(acquire_for(m, 0, &h), SNIB_ERR_CLOSED);
    snib_lock_free(m);
    snib_client_free(r[1].client);
    must(snib_release(l, g, NULL));
    snib_lock_free(l);
    snib_client_free(r[0].client);
}

/* -- looking ------------------------------------------------------------------------------- */

static void inspect_shows_holder_and_waiter(void **state)
{
    (void)state;
    if (lacks_a_queue()) {
        skip();
    }
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, name, NULL);
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_grant g;
    struct snib_view *v;
    atomic_int turn = 0;
    struct runner r = {.client = open_client(), .name = name, .turn = &turn};
    pthread_t t;
    o.reason = "release 4.2 & more";
    must(snib_acquire(l, &o, &g, NULL));
    pthread_create(&t, NULL, wait_in_line, &r);
    wait_for_waiters(c, name, 1);
    must(snib_inspect(c, name, 0, &v, NULL));
    assert_string_equal(v->name, name);
    assert_int_equal(v->holder_count, 1);
    assert_int_equal(v->holders[0].token, g.token);
    assert_int_equal(v->holders[0].pid, getpid());
    assert_string_equal(v->holders[0].reason, "release 4.2 & more");
    assert_string_equal(v->holders[0].program, "conformance");
    assert_true(v->holders[0].self);
    assert_true(v->holders[0].left_ms > 0);
    assert_true(v->holders[0].since_ms / 1000 > 1600000000);
    assert_int_equal(v->waiter_count, 1);
    assert_false(v->waiters[0].self);
    snib_view_free(v);
    must(snib_release(l, g, NULL));
    pthread_join(t, NULL);
    must(r.err);
    must(snib_inspect(c, name, 0, &v, NULL));
    assert_int_equal(v->holder_count, 0);
    assert_int_equal(v->waiter_count, 0);
    snib_view_free(v);
    snib_lock_free(l);
    snib_client_free(c);
    snib_client_free(r.client);
}

static void list_finds_by_glob(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    char a[64], b[64], glob[64];
    snprintf(a, sizeof a, "%s-list{a}", fresh_name());
    snprintf(b, sizeof b, "%s-other", fresh_name());
    snprintf(glob, sizeof glob, "case-%d-*-list*", (int)getpid());
    struct snib_lock *l = lock_with(c, a, NULL), *m = lock_with(c, b, NULL);
    struct snib_grant g, h;
    struct snib_view **v;
    size_t n;
    must(acquire_for(l, 0, &g));
    must(acquire_for(m, 0, &h));
    must(snib_list(c, glob, &v, &n, NULL));
    assert_int_equal(n, 1);
    assert_string_equal(v[0]->name, a);
    assert_int_equal(v[0]->holder_count, 1);
    snib_views_free(v, n);
    must(snib_list(c, NULL, &v, &n, NULL));
    assert_true(n >= 2);
    snib_views_free(v, n);
    must(snib_release(l, g, NULL));
    must(snib_release(m, h, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
}

static void force_release_ends_the_holder_and_it_is_told_why(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct changes seen = {0};
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.lease_ms = 900;
    o.on_change = note_change;
    o.data = &seen;
    struct snib_lock *l = lock_with(c, name, &o), *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    uint32_t ended = 0;
    must(acquire_for(l, 0, &g));
    must(snib_force_release(d, name, 0, "stuck", &ended, NULL));
    assert_int_equal(ended, 1);
    must(acquire_for(m, 0, &h));
    assert_true(h.token > g.token);
    int64_t deadline = now_ms() + 5000;
    while (!atomic_load(&seen.lost)) {
        assert_true(now_ms() < deadline);
        look_again_after_ms(2);
    }
    assert_int_equal(atomic_load(&seen.reason), SNIB_WHY_REVOKED);
    assert_int_equal(snib_release(l, g, NULL), SNIB_ERR_LOST);
    assert_true(snib_grant_held(m, h));
    must(snib_release(m, h, NULL));
    must(snib_force_release(d, name, 0, NULL, &ended, NULL));
    assert_int_equal(ended, 0);
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

struct findings {
    int all, failed;
};

static void note_finding(void *data, const struct snib_finding *f)
{
    struct findings *n = data;
    n->all++;
    if (f->level == SNIB_LEVEL_FAIL) {
        n->failed++;
        print_message("doctor: %s: %s (%s)\n", f->check, f->text, f->remedy);
    }
    assert_true(f->level == SNIB_LEVEL_OK || f->remedy[0]);
}

static void the_doctor_finds_a_fresh_store_well(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct findings n = {0};
    must(snib_doctor(c, note_finding, &n, NULL));
    assert_true(n.all >= 1);
    assert_int_equal(n.failed, 0);
    snib_client_free(c);
}

/* -- names and bad input ------------------------------------------------------------------------ */

static void nasty_names_are_distinct_locks(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t size;
    } nasty[] = {{"a", 0},    {"A", 0},        {"a ", 0},       {" a", 0},
                 {"}x", 0},   {"{", 0},        {"{}", 0},       {"%7B", 0},
                 {"%", 0},    {"a\0b", 3},     {"a\0c", 3},     {"\xff", 0},
                 {"\r\n", 0}, {"'; --", 0},    {"*", 0},        {"a:t", 0},
                 {"../a", 0}, {"\xc3\xa4", 0}, {"a\xcc\x88", 0}};
    enum { N = sizeof nasty / sizeof nasty[0] };
    struct snib_client *c = open_client();
    struct snib_lock *l[N];
    struct snib_grant g[N];
    for (int i = 0; i < N; i++) {
        struct snib_lock_options o = SNIB_INIT(snib_lock_options);
        o.name_size = nasty[i].size;
        l[i] = lock_with(c, nasty[i].name, &o);
        must(acquire_for(l[i], 0, &g[i]));
    }
    for (int i = 0; i < N; i++) {
        struct snib_view *v;
        must(snib_inspect(c, nasty[i].name, nasty[i].size, &v, NULL));
        assert_int_equal(v->holder_count, 1);
        assert_int_equal(v->holders[0].token, g[i].token);
        snib_view_free(v);
        must(snib_release(l[i], g[i], NULL));
        snib_lock_free(l[i]);
    }
    snib_client_free(c);
}

static void bad_input_is_a_clear_error(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l;
    struct snib_error err;
    char *big = malloc(100001);
    memset(big, 'x', 100000);
    big[100000] = 0;
    assert_int_equal(snib_lock_new(c, "", NULL, &l, &err), SNIB_ERR_USAGE);
    assert_true(strlen(err.text) > 10);
    assert_null(l);
    assert_int_equal(snib_lock_new(c, big, NULL, &l, &err), SNIB_ERR_USAGE);
    assert_int_equal(snib_lock_new(c, NULL, NULL, &l, &err), SNIB_ERR_USAGE);
    free(big);
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.lease_ms = 1;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &err), SNIB_ERR_USAGE);
    o.lease_ms = INT64_MAX;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &err), SNIB_ERR_USAGE);
    o.lease_ms = -5;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &err), SNIB_ERR_USAGE);
    o.lease_ms = 0;
    o.kind = SNIB_READ;
    o.permits = 2;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &err), SNIB_ERR_USAGE);
    l = lock_with(c, fresh_name(), NULL);
    struct snib_grant g, none = {0, 0};
    assert_int_equal(acquire_for(l, -7, &g), SNIB_ERR_USAGE);
    assert_int_equal(snib_release(l, none, &err), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_grant_fd(l, none), -1);
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- scoped and declared ------------------------------------------------------------------------------ */

static int leave_by_return(struct snib_lock *lock)
{
    SNIB_WITH (s, lock, NULL, NULL) {
        return s.grant.token > 0;
    }
    return -1;
}

static void a_scope_cannot_leak_its_lock(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, name, NULL);
    assert_int_equal(leave_by_return(l), 1);
    int ran = 0;
    SNIB_WITH (s, l, NULL, NULL) {
        ran++;
        assert_true(snib_grant_held(l, s.grant));
    }
    assert_int_equal(ran, 1);
    struct snib_view *v;
    must(snib_inspect(c, name, 0, &v, NULL));
    assert_int_equal(v->holder_count, 0);
    snib_view_free(v);
    snib_lock_free(l);
    snib_client_free(c);
}

static int body(void *data, struct snib_grant g)
{
    *(int64_t *)data = g.token;
    return 7;
}

static void a_policy_wraps_a_function(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    char key[64];
    snprintf(key, sizeof key, "%s:{order_no}", fresh_name());
    struct snib_policy p = SNIB_INIT(snib_policy);
    p.name = "pay";
    p.key = key;
    p.lock.size = sizeof p.lock;
    p.wait_ms = 1000;
    const char *pairs[] = {"order_no", "4711", NULL}, *wrong[] = {NULL};
    int64_t token = 0;
    int result = 0;
    must(snib_policy_run(c, &p, pairs, body, &token, &result, NULL));
    assert_int_equal(result, 7);
    assert_true(token > 0);
    assert_int_equal(snib_policy_run(c, &p, wrong, body, &token, &result, NULL),
                     SNIB_ERR_USAGE);
    snib_client_free(c);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_rise_from_grant_to_grant),
        cmocka_unit_test(status_shows_a_held_grant),
        cmocka_unit_test(re_entry_keeps_the_token_and_counts),
        cmocka_unit_test(another_thread_may_not_release),
        cmocka_unit_test(a_fixed_lease_expires_and_is_told),
        cmocka_unit_test(a_fixed_lease_can_be_renewed_by_hand),
        cmocka_unit_test(the_keeper_renews_beyond_the_lease),
        cmocka_unit_test(hold_max_is_told_by_callback),
        cmocka_unit_test(a_try_on_a_held_lock_is_busy_at_once),
        cmocka_unit_test(a_timed_wait_ends_by_its_limit_and_leaves_the_queue),
        cmocka_unit_test(clients_are_served_in_order_of_arrival),
        cmocka_unit_test(a_waiter_that_gives_up_does_not_block_the_next),
        cmocka_unit_test(a_newcomer_has_the_place_of_its_class),
        cmocka_unit_test(an_unprotected_counter_is_exact_with_local_hand_over),
        cmocka_unit_test(an_unprotected_counter_is_exact_without_it),
        cmocka_unit_test(a_dead_process_frees_its_lock_by_its_lease),
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(started_acquires_end_in_one_event_each),
        cmocka_unit_test(closing_ends_the_waiting),
        cmocka_unit_test(inspect_shows_holder_and_waiter),
        cmocka_unit_test(list_finds_by_glob),
        cmocka_unit_test(force_release_ends_the_holder_and_it_is_told_why),
        cmocka_unit_test(the_doctor_finds_a_fresh_store_well),
        cmocka_unit_test(nasty_names_are_distinct_locks),
        cmocka_unit_test(bad_input_is_a_clear_error),
        cmocka_unit_test(a_scope_cannot_leak_its_lock),
        cmocka_unit_test(a_policy_wraps_a_function),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Readers and writers. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"
#include "snib/inspect.h"

/* -- readers and writers --------------------------------------------------- */

static void readers_share_and_keep_the_writer_out(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_KIND_READ),
                     *s = of_kind(d, name, SNIB_KIND_READ),
                     *w = of_kind(d, name, SNIB_KIND_WRITE),
                     *m = of_kind(c, name, SNIB_KIND_MUTEX);
    struct snib_grant a, b, x, none;
    must(take(r, 0, snib_owner_new(), &a));
    must(take(r, 0, snib_owner_new(), &b));
    must(take(s, 0, snib_owner_new(), &x));
    assert_int_equal(holders_of(c, name), 3);
    must_be(try_by_other(w, &none), SNIB_ERR_BUSY);
    must_be(try_by_other(m, &none), SNIB_ERR_BUSY);
    must(snib_release(r, a, NULL));
    must(snib_release(s, x, NULL));
    must_be(try_by_other(w, &none), SNIB_ERR_BUSY);
    assert_true(snib_grant_held(r, b));
    must(snib_release(r, b, NULL));
    must(take(w, SOON_MS, snib_owner_new(), &x));
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
    struct snib_lock *w = of_kind(c, name, SNIB_KIND_WRITE),
                     *r = of_kind(c, name, SNIB_KIND_READ),
                     *w2 = of_kind(d, name, SNIB_KIND_WRITE),
                     *r2 = of_kind(d, name, SNIB_KIND_READ);
    uint64_t owner = snib_owner_new();
    struct snib_grant write, read, other, none;
    must(take(w, 0, owner, &write));
    must(take(r, 0, owner, &read));
    must_be(try_by_other(r, &none), SNIB_ERR_BUSY);
    must_be(try_by_other(r2, &none), SNIB_ERR_BUSY);
    must(snib_release(w, write, NULL)); /* the downgrade */
    assert_true(snib_grant_held(r, read));
    must_be(try_by_other(w2, &none), SNIB_ERR_BUSY);
    must(take(r2, SOON_MS, snib_owner_new(), &other));
    must(snib_release(r2, other, NULL));
    must_be(try_by_other(w2, &none), SNIB_ERR_BUSY);
    must(snib_release(r, read, NULL));
    must(take(w2, SOON_MS, snib_owner_new(), &other));
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
        r[i] = of_kind(c[i], name, SNIB_KIND_READ);
    }
    struct snib_lock *w = of_kind(c[0], name, SNIB_KIND_WRITE);
    uint64_t owner = snib_owner_new();
    struct snib_grant write, nested;
    struct task t[N] = {0};
    must(take(w, 0, owner, &write));
    must(take(r[0], 0, owner, &nested)); /* changes nothing for others */
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
    for (int i = 0; i < N; i++) { /* all hold at the same time */
        assert_true(snib_grant_held(t[i].lock, t[i].grant));
        must(snib_release(t[i].lock, t[i].grant, NULL));
    }
    must(snib_release(r[0], nested, NULL));
    for (int i = 0; i < CLIENTS; i++) {
        snib_client_free(c[i]);
    }
}

/* How many holders of that kind an inspect shows. */
static int holders_of_kind(struct snib_client *c, const char *name,
                           snib_kind kind)
{
    struct snib_view *v;
    int n = 0;
    must(snib_client_inspect(c, name, 0, &v, NULL));
    for (size_t i = 0; i < v->holder_count; i++) {
        n += v->holders[i]->kind == kind;
    }
    snib_view_free(v);
    return n;
}

static void each_grant_tells_of_itself_only(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *w = of_kind(c, name, SNIB_KIND_WRITE),
                     *r = of_kind(c, name, SNIB_KIND_READ),
                     *w2 = of_kind(d, name, SNIB_KIND_WRITE);
    uint64_t owner = snib_owner_new();
    struct snib_grant write, read, again, none;
    must(take(w, 0, owner, &write));
    assert_int_equal(holders_of_kind(d, name, SNIB_KIND_WRITE), 1);
    assert_int_equal(holders_of_kind(d, name, SNIB_KIND_READ), 0);
    must(take(r, 0, owner, &read));
    must(take(r, 0, owner, &again));
    assert_int_equal(holders_of_kind(d, name, SNIB_KIND_WRITE), 1);
    assert_int_equal(holders_of_kind(d, name, SNIB_KIND_READ), 1);
    assert_int_equal(status_of(w, write).kind, SNIB_KIND_WRITE);
    assert_int_equal(status_of(w, write).holds, 1);
    assert_int_equal(status_of(r, read).kind, SNIB_KIND_READ);
    assert_int_equal(status_of(r, read).holds, 2);
    assert_int_equal(status_of(r, read).permits, 0);
    must(snib_release(w, write, NULL));
    assert_int_equal(status_of(w, write).state, SNIB_STATE_RELEASED);
    assert_int_equal(status_of(r, read).state, SNIB_STATE_HELD);
    must(snib_release(r, again, NULL));
    assert_int_equal(status_of(r, read).holds, 1);
    must_be(try_by_other(w2, &none), SNIB_ERR_BUSY); /* one hold is left */
    must(snib_release(r, read, NULL));
    assert_int_equal(status_of(r, read).state, SNIB_STATE_RELEASED);
    assert_int_equal(holders_of(c, name), 0);
    must(try_by_other(w2, &write));
    must(snib_release(w2, write, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void another_thread_may_not_release_a_read_lock(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *r = of_kind(c, fresh_name(), SNIB_KIND_READ);
    struct snib_grant g;
    must(acquire_for(r, 0, &g));
    must_be(by_stranger(r, g), SNIB_ERR_WRONG_OWNER);
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
    struct snib_lock *lng = fixed(c, name, SNIB_KIND_READ, 1500),
                     *shrt = fixed(d, name, SNIB_KIND_READ, 300),
                     *w = of_kind(d, name, SNIB_KIND_WRITE);
    struct snib_grant a, b, x;
    int64_t begin = now_ms();
    must(take(lng, 0, snib_owner_new(), &a));
    must(take(shrt, 0, snib_owner_new(), &b));
    must(take(w, 5000, snib_owner_new(), &x));
    int64_t took = now_ms() - begin;
    assert_true(took >= least_ms(1500) && took < 1500 + slack_ms());
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
    struct snib_lock *w = fixed(c, name, SNIB_KIND_WRITE, 700),
                     *r = of_kind(d, name, SNIB_KIND_READ),
                     *s = of_kind(c, name, SNIB_KIND_READ);
    struct snib_grant g;
    struct task t[3] = {0};
    int64_t begin = now_ms();
    must(take(w, 0, snib_owner_new(), &g));
    for (int i = 0; i < 3; i++) {
        start(&t[i], i == 0 ? s : r, 5000);
    }
    for (int i = 0; i < 3; i++) {
        must(join(&t[i])->err);
        assert_true(t[i].ended_ms - begin >= least_ms(700));
        assert_true(t[i].ended_ms - begin < 700 + slack_ms());
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
    struct snib_lock_options o = terms(SNIB_KIND_READ, 0, 0);
    o.lease_ms = 3000;
    struct snib_lock *r = lock_with(c, name, &o),
                     *w = of_kind(d, name, SNIB_KIND_WRITE);
    struct snib_grant g[N], none;
    for (int i = 0; i < N; i++) {
        must(take(r, SOON_MS, snib_owner_new(), &g[i]));
    }
    must_be(take(w, 4500, snib_owner_new(), &none), SNIB_ERR_TIMEOUT);
    for (int i = 0; i < N; i++) {
        assert_true(snib_grant_held(r, g[i]));
        must(snib_release(r, g[i], NULL));
    }
    must(take(w, SOON_MS, snib_owner_new(), &none));
    must(snib_release(w, none, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_downgraded_reader_is_renewed_all_along(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock_options o = terms(SNIB_KIND_WRITE, 0, 0);
    o.lease_ms = 1200;
    struct snib_lock *w = lock_with(c, name, &o);
    o.kind = SNIB_KIND_READ;
    struct snib_lock *r = lock_with(c, name, &o),
                     *w2 = of_kind(d, name, SNIB_KIND_WRITE);
    uint64_t owner = snib_owner_new();
    struct snib_grant write, read, none;
    must(take(w, 0, owner, &write));
    must(take(r, 0, owner, &read));
    must_be(take(w2, 2600, snib_owner_new(), &none), SNIB_ERR_TIMEOUT);
    assert_true(status_of(w, write).left_ms > 100);
    assert_true(status_of(r, read).left_ms > 100);
    must(snib_release(w, write, NULL));
    must_be(take(w2, 2600, snib_owner_new(), &none), SNIB_ERR_TIMEOUT);
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
    struct snib_lock *lng = fixed(c, name, SNIB_KIND_WRITE, 2000),
                     *shrt = fixed(c, name, SNIB_KIND_WRITE, 200),
                     *w2 = of_kind(d, name, SNIB_KIND_WRITE);
    struct snib_grant a, b, none;
    must(acquire_for(lng, 0, &a));
    must(acquire_for(shrt, 0, &b));
    must_be(take(w2, 700, snib_owner_new(), &none), SNIB_ERR_TIMEOUT);
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
    struct snib_lock *l = fixed(c, fresh_name(), SNIB_KIND_MUTEX, 10000);
    struct snib_grant g[3];
    for (int i = 0; i < 3; i++) {
        must(acquire_for(l, 0, &g[i]));
    }
    must(snib_release(l, g[2], NULL));
    must(snib_release(l, g[1], NULL));
    struct snib_status st = status_of(l, g[0]);
    assert_int_equal(st.holds, 1);
    assert_true(st.left_ms > 9000 - slack_ms() && st.left_ms <= 10000);
    must(snib_release(l, g[0], NULL));
    snib_client_free(c);
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
        struct snib_lock_options o = terms(SNIB_KIND_READ, 0, 0);
        o.lease_ms = 900;
        o.on_change = note_change;
        o.data = &seen[i];
        r[i] = lock_with(i < 2 ? c : d, name, &o);
        must(take(r[i], 0, snib_owner_new(), &g[i]));
    }
    struct snib_lock *w = of_kind(d, name, SNIB_KIND_WRITE);
    must(snib_client_force_release(d, name, 0, "stuck", &ended, NULL));
    assert_int_equal(ended, 3);
    must(take(w, 0, snib_owner_new(), &x));
    for (int i = 0; i < 3; i++) {
        wait_for_loss(&seen[i], SNIB_CAUSE_REVOKED);
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
    struct snib_lock *w = of_kind(c, name, SNIB_KIND_WRITE),
                     *r = of_kind(c, name, SNIB_KIND_READ),
                     *m = of_kind(d, name, SNIB_KIND_MUTEX),
                     *p = permits_of(c, sem, 2, 2),
                     *q = permits_of(d, sem, 2, 2);
    uint64_t owner = snib_owner_new();
    struct snib_grant a, b, x;
    uint32_t ended = 0;
    must(take(w, 0, owner, &a));
    must(take(r, 0, owner, &b));
    must(snib_client_force_release(d, name, 0, "stuck", &ended, NULL));
    assert_int_equal(ended, 2);
    must(take(m, 0, snib_owner_new(), &x));
    assert_true(x.token > a.token);
    must(snib_release(m, x, NULL));
    must_be(snib_renew(w, a, 0, NULL), SNIB_ERR_LOST); /* it finds out */
    must_be(snib_renew(r, b, 0, NULL), SNIB_ERR_LOST);
    must_be(snib_release(w, a, NULL), SNIB_ERR_LOST);
    must_be(snib_release(r, b, NULL), SNIB_ERR_LOST);
    must(take(p, 0, owner, &a));
    must(snib_client_force_release(d, sem, 0, "stuck", &ended, NULL));
    assert_int_equal(ended, 1);
    must(take(q, 0, snib_owner_new(), &x)); /* the size is what it was */
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
    struct snib_lock_options o = terms(SNIB_KIND_READ, 0, 0);
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
        struct snib_lock *w = of_kind(c[0], name, SNIB_KIND_WRITE);
        struct snib_grant g;
        must(take(w, SOON_MS, snib_owner_new(), &g));
        must(snib_release(w, g, NULL));
    }
    snib_client_free(c[0]);
    snib_client_free(c[1]);
}

static int read_and_stay(const char *name)
{
    struct snib_client *c = open_client();
    struct snib_lock_options o = terms(SNIB_KIND_READ, 0, 0);
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
    struct snib_lock *r = of_kind(b, name, SNIB_KIND_READ), /* 30 s, renewed */
        *w = of_kind(d, name, SNIB_KIND_WRITE);
    struct snib_grant g, x;
    struct task writer = {0};
    must(take(r, 0, snib_owner_new(), &g));
    (void)holders_of(d, name); /* it is connected */
    kill_child(&dead);
    int64_t killed = now_ms();
    must_be(take(w, 300, snib_owner_new(), &x), SNIB_ERR_TIMEOUT);
    start(&writer, w, 10000);
    while (now_ms() - killed < 1500) { /* until its lease ends, not b's */
        look_again_after_ms(20);
    }
    int64_t begin = now_ms();
    must(snib_release(r, g, NULL));
    must(join(&writer)->err);
    assert_true(writer.ended_ms - begin < lease_slack_ms());
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
    struct snib_lock *w = of_kind(d, name, SNIB_KIND_WRITE);
    struct snib_grant x;
    must_be(take(w, 0, snib_owner_new(), &x), SNIB_ERR_BUSY);
    kill_child(&dead);
    int64_t begin = now_ms();
    must(take(w, 10000, snib_owner_new(), &x));
    assert_true(now_ms() - begin < 1500 + lease_slack_ms());
    must(snib_release(w, x, NULL));
    snib_client_free(d);
}

static void a_client_that_closes_gives_back_what_it_shares(void **state)
{
    (void)state;
    const char *name = fresh_name(), *sem = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *r = of_kind(c, name, SNIB_KIND_READ),
                     *p = permits_of(c, sem, 3, 3),
                     *w = of_kind(d, name, SNIB_KIND_WRITE),
                     *q = permits_of(d, sem, 3, 0);
    struct snib_grant g;
    uint64_t owner = snib_owner_new();
    must(take(r, 0, owner, &g));
    must(take(r, 0, snib_owner_new(), &g));
    must(take(p, 0, owner, &g));
    snib_client_free(c);
    must(take(w, 0, owner, &g));
    must(snib_release(w, g, NULL));
    must(take(q, 0, owner, &g));
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
        terms(k->writes ? SNIB_KIND_WRITE : SNIB_KIND_READ, 0, 0);
    struct snib_lock *l;
    k->bad = snib_lock_new(k->client, k->name, &o, &l, NULL) != SNIB_ERR_OK;
    for (int i = 0; i < k->rounds && !k->bad; i++) {
        struct snib_grant g;
        k->bad = acquire_for(l, INT64_MAX, &g) != SNIB_ERR_OK;
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
    volatile int v[2] = {0, 0}; /* no atomics: the lock protects it */
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
    struct snib_lock *w = fixed(c, name, SNIB_KIND_WRITE, 30000),
                     *r = of_kind(d, name, SNIB_KIND_READ);
    struct snib_grant write, a, b, next;
    must(take(w, 0, snib_owner_new(), &write));
    must(snib_release(w, write, NULL));
    must(take(r, 0, snib_owner_new(), &a));
    must(take(r, 0, snib_owner_new(), &b));
    assert_true(a.token >= write.token);
    if (!is_zookeeper()) { /* there each has that of its own place */
        assert_int_equal(a.token, b.token);
    }
    must(snib_release(r, a, NULL));
    must(snib_release(r, b, NULL));
    must(take(w, SOON_MS, snib_owner_new(), &next));
    assert_true(next.token > a.token);
    must(snib_release(w, next, NULL));
    snib_client_free(c);
    snib_client_free(d);
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
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

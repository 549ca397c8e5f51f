/* What a store tells about a lock and its end: who force-released it, until
 * when a lock-delay keeps it closed, which slot a grant of permits has. The
 * case of a plain mutex that was force-released is in client.c. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "kit.h"
#include "snib/inspect.h"
#include "snib/semaphore.h"
#include "snib/sys.h"
#include "snib/test.h"

static struct snib_lock *lock_of(struct snib_client *c, const char *name,
                                 snib_kind kind, int64_t lease_ms, bool fixed)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.kind = kind;
    o.capacity = kind == SNIB_KIND_PERMITS ? 4 : 0;
    o.lease_ms = lease_ms;
    o.fixed_lease = fixed;
    return lock_with(c, name, &o);
}

/* -- a release that comes after a forced one ------------------------------- */

/* Whether the holder has just heard of the force-release or not: it is told
 * that it has lost the lock. */
static void release_after_force(snib_kind kind, bool fixed)
{
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = lock_of(c, name, kind, 30000, fixed),
                     *m = lock_of(d, name, kind, 30000, false);
    struct snib_grant g, h;
    uint32_t ended = 0;
    must(acquire_for(l, 0, &g));
    must(snib_client_force_release(d, name, 0, "stuck", &ended, NULL));
    assert_int_equal(ended, 1);
    must(acquire_for(m, 0, &h)); /* another holds it by now */
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    assert_true(snib_grant_held(m, h)); /* and undisturbed */
    must(snib_renew(m, h, 0, NULL));
    must(snib_release(m, h, NULL));
    must(acquire_for(l, 5000, &g)); /* the owner has unwound */
    must(snib_release(l, g, NULL));
    snib_client_free(c);
    snib_client_free(d);
}

static void a_release_of_a_share_after_a_forced_one_says_lost(void **state)
{
    (void)state;
    release_after_force(SNIB_KIND_READ, false);
    release_after_force(SNIB_KIND_READ, true);
    release_after_force(SNIB_KIND_PERMITS, false);
    release_after_force(SNIB_KIND_PERMITS, true);
}

/* The holder learns who did it and for what reason, whether it finds out by a
 * renewal or is notified. */
static void who_forced_a_release_and_why_is_told(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct changes heard = {0};
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.lease_ms = 30000;
    o.on_change = note_change;
    o.data = &heard;
    struct snib_lock *l = lock_with(c, name, &o);
    struct snib_grant g;
    char why[SNIB_EXPLAIN_TEXT];
    const char *end;
    must(acquire_for(l, 0, &g));
    snib_grant_explain(l, g, why, sizeof why);
    assert_string_equal(why, "");
    must(snib_client_force_release(d, name, 0, "release 4.2 is bad", NULL,
                                   NULL));
    must_be(snib_renew(l, g, 0, NULL), SNIB_ERR_LOST);
    wait_for_loss(&heard, SNIB_CAUSE_REVOKED);
    snib_grant_explain(l, g, why, sizeof why);
    assert_int_equal(strncmp(why, "revoked by ", 11), 0);
    assert_non_null(strstr(why, " on "));
    end = strrchr(why, ':');
    assert_non_null(end);
    assert_string_equal(end, ": release 4.2 is bad");
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    snib_grant_explain(l, g, why, sizeof why);
    assert_string_equal(why, "");
    snib_client_free(c);
    snib_client_free(d);
}

/* Far below a third of the lease, after which a renewal would tell. */
enum { AT_ONCE_MS = 4000 };

/* The holder has never waited for anything, while another owner of its client
 * waits for the lock. */
static void force_is_told(snib_kind kind, bool fixed, bool by_itself)
{
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct changes heard = {0};
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_grant g;
    uint32_t ended = 0;
    o.kind = kind;
    o.capacity = kind == SNIB_KIND_PERMITS ? 1 : 0;
    o.lease_ms = 30000;
    o.fixed_lease = fixed;
    o.on_change = note_change;
    o.data = &heard;
    struct snib_lock *l = lock_with(c, name, &o);
    o.on_change = NULL;
    struct snib_lock *m = lock_with(c, name, &o);
    struct task waiter = {.release = true};
    must(take(l, 0, snib_owner_new(), &g));
    if (kind == SNIB_KIND_MUTEX) {
        start(&waiter, m, 20000);
    }
    int64_t began = now_ms();
    must(snib_client_force_release(by_itself ? c : d, name, 0, "bad", &ended,
                                   NULL));
    assert_int_equal(ended, 1);
    wait_for_loss(&heard, SNIB_CAUSE_REVOKED);
    assert_true(now_ms() - began < AT_ONCE_MS);
    if (kind == SNIB_KIND_MUTEX) {
        must(join(&waiter)->err);
        assert_true(waiter.ended_ms - began < AT_ONCE_MS);
    }
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_forced_release_is_told_at_once_to_who_never_waited(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                      SNIB_KIND_PERMITS};
    for (int i = 0; i < 3; i++) {
        for (int by_itself = 0; by_itself < 2; by_itself++) {
            force_is_told(kinds[i], false, by_itself);
            force_is_told(kinds[i], true, by_itself);
        }
    }
}

static void who_forces_its_own_lock_can_have_it_again(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    for (int is_fixed = 0; is_fixed < 2; is_fixed++) {
        struct snib_lock *l =
            lock_of(c, name, SNIB_KIND_MUTEX, 30000, is_fixed);
        struct snib_grant g, h;
        must(acquire_for(l, 0, &g));
        must_be(try_by_other(l, &h), SNIB_ERR_BUSY);
        must(snib_client_force_release(c, name, 0, "bad", NULL, NULL));
        must(try_by_other(l, &h));
        must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
        must(snib_release(l, h, NULL));
    }
    snib_client_free(c);
}

/* The store is asked whether the grant still stands: that does not extend a
 * fixed lease. */
static void a_fixed_lease_that_stands_is_not_extended(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    enum { LEASE_MS = 6000 }; /* far longer than this case takes anywhere */
    struct snib_lock *l = lock_of(c, name, SNIB_KIND_READ, LEASE_MS, true),
                     *m = lock_of(c, name, SNIB_KIND_READ, 30000, false);
    struct snib_grant g, h;
    struct snib_view *v;
    must(take(l, 0, snib_owner_new(), &g));
    must(take(m, 0, snib_owner_new(), &h));
    int64_t began = now_ms();
    do { /* in this time the store has been asked */
        must(snib_client_inspect(c, name, 0, &v, NULL));
        int64_t left = LEASE_MS;
        for (size_t i = 0; i < v->holder_count; i++) {
            left =
                v->holders[i]->left_ms < left ? v->holders[i]->left_ms : left;
        }
        snib_view_free(v);
        assert_true(left <= LEASE_MS - (now_ms() - began) + slack_ms() / 2);
        look_again_after_ms(50);
    } while (now_ms() - began < 1500);
    must(snib_release(l, g, NULL));
    must(snib_release(m, h, NULL));
    snib_client_free(c);
}

static void a_release_whose_reply_is_lost_is_told_as_what_it_did(void **state)
{
    (void)state;
    skip_where_no_reply_is_lost();
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = lock_of(c, name, SNIB_KIND_MUTEX, 30000, true);
    struct snib_grant g;
    must(acquire_for(l, 0, &g));
    must(snib_test_drop_replies(c, 1));
    must(snib_release(l, g, NULL)); /* its first copy ended it */
    must(acquire_for(l, 0, &g));
    must(snib_client_force_release(d, name, 0, "stuck", NULL, NULL));
    must(snib_test_drop_replies(c, 1));
    must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
    snib_client_free(c);
    snib_client_free(d);
}

/* -- closed until ---------------------------------------------------------- */

/* Long enough that the answer is not later than the lease: else the acquire asks
 * again, and what it was given first is closed beside or before it. */
enum { DELAYED_LEASE_MS = 1500 };

static struct snib_lock *delayed(struct snib_client *c, const char *name,
                                 snib_kind kind, int64_t lease_ms,
                                 int64_t delay_ms)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.kind = kind;
    o.capacity = kind == SNIB_KIND_PERMITS ? 2 : 0;
    o.permits = o.capacity;
    o.lease_ms = lease_ms;
    o.fixed_lease = true;
    o.lock_delay_ms = delay_ms;
    return lock_with(c, name, &o);
}

static struct snib_view *view_of(struct snib_client *c, const char *name)
{
    struct snib_view *v;
    must(snib_client_inspect(c, name, 0, &v, NULL));
    return v;
}

/* How long the lock is still closed, by a view that is consistent in itself. */
static int64_t closed_ms(struct snib_client *c, const char *name,
                         struct snib_grant g, snib_kind kind)
{
    struct snib_view *v = view_of(c, name);
    int64_t ms = v->closed_ms;
    assert_int_equal(v->closed_count, ms > 0);
    if (ms > 0) {
        assert_int_equal(v->holder_count, 0);
        assert_int_equal(v->closed_by[0]->token, g.token);
        assert_int_equal(v->closed_by[0]->kind, kind);
        assert_int_equal(v->closed_by[0]->left_ms, ms);
        assert_string_equal(v->closed_by[0]->program, "conformance");
    }
    snib_view_free(v);
    return ms;
}

static void wait_until_closed(struct snib_client *c, const char *name)
{
    int64_t deadline = now_ms() + 10000, ms = 0;
    while (!ms) {
        struct snib_view *v = view_of(c, name);
        ms = v->closed_ms;
        snib_view_free(v);
        assert_true(now_ms() < deadline);
        look_again_after_ms(5);
    }
}

static void a_lock_delay_is_told_while_it_runs(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                      SNIB_KIND_PERMITS};
    for (int i = 0; i < 3; i++) {
        struct snib_client *c = open_client(), *d = open_client();
        const char *name = fresh_name();
        struct snib_lock *m = lock_of(
            d, name, kinds[i] == SNIB_KIND_READ ? SNIB_KIND_WRITE : kinds[i],
            30000, false);
        struct snib_grant g, h;
        must(acquire_for(delayed(c, name, kinds[i], DELAYED_LEASE_MS, 2000), 0,
                         &g));
        wait_until_closed(d, name);
        int64_t was = 2000, ms;
        while ((ms = closed_ms(d, name, g, kinds[i])) > 0) {
            assert_true(ms <= was); /* it never grows */
            was = ms;
            snib_err err = acquire_for(m, 0, &h);
            if (closed_ms(d, name, g, kinds[i]) > 0) { /* closed during it */
                must_be(err, SNIB_ERR_BUSY);
            }
            if (!err) {
                must(snib_release(m, h, NULL));
            }
            look_again_after_ms(20);
        }
        must(acquire_for(m, 0, &h)); /* it is open again */
        snib_client_free(c);
        snib_client_free(d);
    }
}

static void a_list_shows_what_is_closed(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_view **all;
    struct snib_grant g;
    size_t n;
    must(acquire_for(delayed(c, name, SNIB_KIND_MUTEX, DELAYED_LEASE_MS, 60000),
                     0, &g));
    wait_until_closed(d, name);
    must(snib_client_list(d, name, &all, &n, NULL));
    assert_int_equal(n, 1);
    assert_int_equal(all[0]->holder_count, 0);
    assert_int_equal(all[0]->closed_count, 1);
    assert_int_equal(all[0]->closed_by[0]->token, g.token);
    snib_views_free(all, n);
    snib_client_free(c);
    snib_client_free(d);
}

static void who_fits_beside_a_lock_delay_is_let_in(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *read = lock_of(d, name, SNIB_KIND_READ, 30000, false);
    struct snib_grant g, h;
    must(acquire_for(delayed(c, name, SNIB_KIND_READ, DELAYED_LEASE_MS, 60000),
                     0, &g));
    wait_until_closed(d, name);
    must(acquire_for(read, 0, &h));
    struct snib_view *v = view_of(d, name);
    assert_int_equal(v->holder_count, 1);
    assert_int_equal(v->closed_count, 1);
    assert_true(v->closed_ms > 30000 && v->closed_ms <= 60000);
    assert_true(v->holders[0]->self && !v->closed_by[0]->self);
    snib_view_free(v);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_release_or_a_forced_one_leaves_nothing_closed(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = delayed(c, name, SNIB_KIND_MUTEX, 30000, 60000);
    struct snib_grant g;
    uint32_t ended = 9;
    must(acquire_for(l, 0, &g));
    must(snib_release(l, g, NULL));
    assert_int_equal(closed_ms(d, name, g, SNIB_KIND_MUTEX), 0);
    must(acquire_for(delayed(c, name, SNIB_KIND_MUTEX, DELAYED_LEASE_MS, 60000),
                     0, &g));
    wait_until_closed(d, name);
    must(snib_client_force_release(d, name, 0, "it is gone", &ended, NULL));
    assert_int_equal(ended, 0); /* nobody held any more */
    assert_int_equal(closed_ms(d, name, g, SNIB_KIND_MUTEX), 0);
    must(acquire_for(lock_of(d, name, SNIB_KIND_MUTEX, 30000, false), 0, &g));
    snib_client_free(c);
    snib_client_free(d);
}

/* -- slots of permits ------------------------------------------------------ */

static uint32_t slot_of(struct snib_lock *l, struct snib_grant g)
{
    uint32_t slot = UINT32_MAX;
    struct snib_status st;
    must(snib_semaphore_slot(l, g, &slot, NULL));
    snib_grant_status(l, g, &st, sizeof st);
    assert_int_equal(st.slot, slot);
    return slot;
}

/* The slot that an inspect shows. */
static int64_t slot_shown(struct snib_client *c, const char *name,
                          struct snib_grant g)
{
    struct snib_view *v = view_of(c, name);
    int64_t slot = -2;
    for (size_t i = 0; i < v->holder_count; i++) {
        slot = v->holders[i]->token == g.token ? v->holders[i]->slot : slot;
    }
    for (size_t i = 0; i < v->waiter_count; i++) {
        assert_int_equal(v->waiters[i]->slot, -1);
    }
    snib_view_free(v);
    return slot;
}

static struct snib_grant take_slot(struct snib_lock *l, uint32_t slot)
{
    struct snib_grant g;
    must(acquire_for(l, 0, &g));
    assert_int_equal(slot_of(l, g), slot);
    return g;
}

static void a_lot_of_permits_has_the_lowest_slot_that_is_free(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *one = permits_of(c, name, 1, 6),
                     *two = permits_of(d, name, 2, 0);
    struct snib_grant g[4];
    g[0] = take_slot(one, 0);
    g[1] = take_slot(two, 1); /* one slot for however many permits */
    g[2] = take_slot(one, 2);
    g[3] = take_slot(one, 3);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(slot_shown(d, name, g[i]), i);
    }
    must(snib_renew(two, g[1], 0, NULL));
    assert_int_equal(slot_of(two, g[1]), 1);
    assert_int_equal(slot_shown(c, name, g[1]), 1);
    must(snib_release(one, g[2], NULL));
    must(snib_release(one, g[0], NULL));
    int64_t was = g[2].token;
    g[0] = take_slot(one, 0);
    g[2] = take_slot(one, 2);
    assert_true(g[2].token > was); /* the tokens of a slot rise */
    must(snib_release(two, g[1], NULL));
    g[1] = take_slot(two, 1);
    for (int i = 0; i < 4; i++) {
        must(snib_release(i == 1 ? two : one, g[i], NULL));
    }
    take_slot(two, 0);
    snib_client_free(c);
    snib_client_free(d);
}

static void only_permits_that_are_held_have_a_slot(void **state)
{
    (void)state;
    static const snib_kind kinds[] = {SNIB_KIND_MUTEX, SNIB_KIND_READ,
                                      SNIB_KIND_WRITE};
    struct snib_client *c = open_client();
    struct snib_grant g;
    struct snib_status st;
    uint32_t slot = 7;
    for (int i = 0; i < 3; i++) {
        const char *name = fresh_name();
        struct snib_lock *l = lock_of(c, name, kinds[i], 30000, false);
        must(acquire_for(l, 0, &g));
        snib_grant_status(l, g, &st, sizeof st);
        assert_int_equal(st.slot, -1);
        assert_int_equal(slot_shown(c, name, g), -1);
        must_be(snib_semaphore_slot(l, g, &slot, NULL), SNIB_ERR_USAGE);
        must(snib_release(l, g, NULL));
    }
    struct snib_lock *l = permits_of(c, fresh_name(), 1, 1);
    g = take_slot(l, 0);
    must(snib_release(l, g, NULL));
    must_be(snib_semaphore_slot(l, g, &slot, NULL), SNIB_ERR_NOT_HELD);
    assert_int_equal(slot, 7);
    snib_client_free(c);
}

enum { WAITERS = 3 };

struct wait {
    pthread_t thread;
    struct snib_lock *lock;
    struct snib_grant grant;
    snib_err err;
};

static void *do_wait(void *arg)
{
    struct wait *w = arg;
    w->err = acquire_for(w->lock, 20000, &w->grant);
    return NULL;
}

static void start_waits(struct wait *w, struct snib_lock *l)
{
    for (int i = 0; i < WAITERS; i++) {
        w[i].lock = l;
        assert_int_equal(pthread_create(&w[i].thread, NULL, do_wait, &w[i]), 0);
    }
}

static void who_waited_gets_the_slots_that_came_free(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = permits_of(c, name, 1, 4),
                     *m = permits_of(d, name, 1, 0);
    struct wait w[WAITERS] = {0};
    struct snib_grant g[4];
    bool seen[8] = {false};
    for (uint32_t i = 0; i < 4; i++) {
        g[i] = take_slot(l, i);
    }
    start_waits(w, m);
    wait_for_waiters(c, name, WAITERS);
    must(snib_release(l, g[1], NULL));
    must(snib_semaphore_set(c, name, 0, 6, false, NULL, NULL)); /* two more */
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(pthread_join(w[i].thread, NULL), 0);
        must(w[i].err);
        uint32_t slot = slot_of(m, w[i].grant);
        assert_true(slot == 1 || slot == 4 || slot == 5);
        assert_false(seen[slot]);
        seen[slot] = true;
        assert_int_equal(slot_shown(c, name, w[i].grant), slot);
        must(snib_renew(m, w[i].grant, 0, NULL));
        assert_int_equal(slot_of(m, w[i].grant), slot);
    }
    snib_client_free(c);
    snib_client_free(d);
}

static void who_adopts_a_grant_has_its_slot(void **state)
{
    (void)state;
    struct snib_client_options co = SNIB_INIT(snib_client_options);
    struct snib_client *c = open_client(), *d = open_client(), *next_one;
    const char *name = fresh_name();
    char text[SNIB_GRANT_TEXT], identity[SNIB_IDENTITY_TEXT];
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.kind = SNIB_KIND_PERMITS;
    o.capacity = 3;
    o.fixed_lease = true;
    struct snib_lock *l = lock_with(c, name, &o);
    take_slot(permits_of(d, name, 1, 3), 0);
    struct snib_grant g = take_slot(l, 1), h;
    must(snib_grant_export(l, g, text, sizeof text, NULL));
    must(snib_grant_identity(text, identity, sizeof identity, NULL));
    must(snib_grant_abandon(l, g, NULL));
    co.url = store_url();
    co.identity = identity;
    must(snib_client_open(&co, &next_one, NULL));
    struct snib_lock *m = lock_with(next_one, name, &o);
    must(snib_grant_adopt(m, text, 0, &h, NULL));
    assert_int_equal(slot_of(m, h), 1);
    assert_int_equal(slot_shown(d, name, h), 1);
    must(snib_release(m, h, NULL));
    snib_client_free(next_one);
    snib_client_free(c);
    snib_client_free(d);
}

static void an_acquire_whose_reply_is_lost_is_told_its_slot(void **state)
{
    (void)state;
    skip_where_no_reply_is_lost();
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = permits_of(c, name, 1, 3);
    struct snib_grant g;
    take_slot(permits_of(d, name, 1, 3), 0);
    must(snib_test_drop_replies(c, 1));
    must(acquire_for(l, 5000, &g));
    assert_int_equal(slot_of(l, g), 1);
    assert_int_equal(slot_shown(d, name, g), 1);
    take_slot(l, 2); /* the first copy took no other slot */
    snib_client_free(c);
    snib_client_free(d);
}

static void slots_outlive_a_size_that_shrinks(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = permits_of(c, name, 1, 3);
    struct snib_grant g[3], none;
    for (uint32_t i = 0; i < 3; i++) {
        g[i] = take_slot(l, i);
    }
    must(snib_semaphore_set(c, name, 0, 2, false, NULL, NULL));
    assert_int_equal(slot_of(l, g[2]), 2);
    must(snib_release(l, g[0], NULL));
    must_be(acquire_for(l, 0, &none), SNIB_ERR_BUSY);
    must(snib_release(l, g[1], NULL));
    take_slot(l, 0); /* slot 2 is still held */
    assert_int_equal(slot_shown(c, name, g[2]), 2);
    snib_client_free(c);
}

static void a_lease_that_is_over_gives_its_slot_back(void **state)
{
    (void)state;
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l = permits_of(d, name, 1, 3);
    o.kind = SNIB_KIND_PERMITS;
    o.capacity = 3;
    o.lease_ms = 500;
    o.fixed_lease = true;
    struct snib_lock *quick = lock_with(c, name, &o);
    o.lock_delay_ms = 60000;
    struct snib_lock *closing = lock_with(c, name, &o);
    struct snib_grant g, first = take_slot(closing, 0);
    must(acquire_for(quick, 0, &g));
    int64_t deadline = now_ms() + 10000;
    while (slot_shown(d, name, first) >= 0 || slot_shown(d, name, g) >= 0) {
        assert_true(now_ms() < deadline);
        look_again_after_ms(5);
    }
    take_slot(l, 1); /* the lock-delay keeps slot 0 and its permit */
    take_slot(l, 2);
    must_be(acquire_for(l, 0, &g), SNIB_ERR_BUSY);
    snib_client_free(c);
    snib_client_free(d);
}

static void hundreds_of_lots_have_a_slot_each(void **state)
{
    (void)state;
    enum { N = 560 };
    struct snib_client *c = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = permits_of(c, name, 1, N);
    struct snib_grant g[N];
    for (uint32_t i = 0; i < N; i++) {
        g[i] = take_slot(l, i);
    }
    static const uint32_t some[] = {555, 300, 256, 255, 63};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        must(snib_release(l, g[some[i]], NULL));
    }
    for (size_t i = sizeof some / sizeof *some; i-- > 0;) {
        g[some[i]] = take_slot(l, some[i]);
    }
    snib_client_free(c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_of_a_share_after_a_forced_one_says_lost),
        cmocka_unit_test(who_forced_a_release_and_why_is_told),
        cmocka_unit_test(a_forced_release_is_told_at_once_to_who_never_waited),
        cmocka_unit_test(who_forces_its_own_lock_can_have_it_again),
        cmocka_unit_test(a_fixed_lease_that_stands_is_not_extended),
        cmocka_unit_test(a_release_whose_reply_is_lost_is_told_as_what_it_did),
        cmocka_unit_test(a_lock_delay_is_told_while_it_runs),
        cmocka_unit_test(a_list_shows_what_is_closed),
        cmocka_unit_test(who_fits_beside_a_lock_delay_is_let_in),
        cmocka_unit_test(a_release_or_a_forced_one_leaves_nothing_closed),
        cmocka_unit_test(a_lot_of_permits_has_the_lowest_slot_that_is_free),
        cmocka_unit_test(only_permits_that_are_held_have_a_slot),
        cmocka_unit_test(who_waited_gets_the_slots_that_came_free),
        cmocka_unit_test(who_adopts_a_grant_has_its_slot),
        cmocka_unit_test(an_acquire_whose_reply_is_lost_is_told_its_slot),
        cmocka_unit_test(slots_outlive_a_size_that_shrinks),
        cmocka_unit_test(a_lease_that_is_over_gives_its_slot_back),
        cmocka_unit_test(hundreds_of_lots_have_a_slot_each),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* tests/unit/test_multi_started.c — several locks acquired and released by
 * starts, on memory:, in threaded and in pull clients; they end in
 * SNIB_EVENT_DONE. labels: thread
 *
 * What the starts say, and what the store makes of their events:
 * unit.told_started, unit.told_done. */
#include "started.h"

#include "snib/multi.h"

enum { MANY = 20 };

struct several {
    struct snib_client *c, *other;
    struct snib_lock *lock[MANY];
    struct snib_multi *m;
    struct snib_grant g[MANY];
    uint64_t ticket;
    struct snib_lock *theirs; /* the other's handle of the second lock     */
    struct snib_grant held;
};

static void several_begin(struct several *v, bool pull, size_t count)
{
    char name[8];
    memset(v, 0, sizeof *v);
    v->c = open_client("", pull);
    v->other = open_client("", false);
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "l%02zu", i);
        v->lock[i] = lock_of(v->c, name);
    }
    must(snib_multi_new(v->lock, count, NULL, &v->m, &e));
    v->theirs = lock_of(v->other, "l01");
}

static void several_end(struct several *v)
{
    snib_multi_free(v->m);
    snib_client_free(v->c);
    snib_client_free(v->other);
}

static void several_are_acquired_by_a_start(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct several v;
        several_begin(&v, pull, 3);
        must(snib_try(v.theirs, NULL, &v.held, &e));
        must(snib_multi_acquire_start(v.m, NULL, v.g, &v, &v.ticket, &e));
        is_waited_for(v.c, v.other, "l01");
        assert_int_equal(snib_multi_missing(v.m), 1);
        assert_false(free_for(v.other, "l00")); /* kept meanwhile */
        assert_true(free_for(v.other, "l02"));
        assert_true(!v.g[0].ticket);
        must(snib_release(v.theirs, v.held, &e));
        struct snib_event ev = done_of(v.c, v.ticket);
        must(ev.error.code);
        assert_ptr_equal(ev.user, &v);
        assert_int_equal(ev.state, SNIB_STATE_RELEASED);
        assert_int_equal(ev.grant.token, 0);
        assert_true(snib_multi_held(v.m, v.g));
        assert_int_equal(snib_multi_missing(v.m), 3);
        must(snib_multi_release_start(v.m, v.g, NULL, &v.ticket, &e));
        must(done_of(v.c, v.ticket).error.code);
        for (int i = 0; i < 3; i++) {
            char name[8];
            snprintf(name, sizeof name, "l%02d", i);
            assert_true(free_for(v.other, name));
        }
        no_event(v.c);
        several_end(&v);
    }
}

static void many_are_acquired_chunk_by_chunk(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct several v;
        several_begin(&v, pull, MANY);
        must(snib_multi_try_start(v.m, NULL, v.g, NULL, &v.ticket, &e));
        must(done_of(v.c, v.ticket).error.code);
        assert_true(snib_multi_held(v.m, v.g));
        for (int i = 1; i < MANY; i++) {
            assert_true(v.g[i].ticket && v.g[i].ticket != v.g[0].ticket);
        }
        must(snib_multi_release_start(v.m, v.g, NULL, &v.ticket, &e));
        must(done_of(v.c, v.ticket).error.code);
        assert_true(free_for(v.other, "l00") && free_for(v.other, "l19"));
        must(snib_multi_release_start(v.m, v.g, NULL, &v.ticket, &e));
        struct snib_event ev = done_of(v.c, v.ticket);
        assert_int_equal(ev.error.code, SNIB_ERR_NOT_HELD);
        assert_non_null(strstr(ev.error.text, "'l"));
        several_end(&v);
    }
}

static void a_try_in_vain_leaves_nothing(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct several v;
        several_begin(&v, pull, MANY);
        must(snib_try(v.theirs, NULL, &v.held, &e));
        must(snib_multi_try_start(v.m, NULL, v.g, NULL, &v.ticket, &e));
        struct snib_event ev = done_of(v.c, v.ticket);
        assert_int_equal(ev.error.code, SNIB_ERR_BUSY);
        assert_non_null(strstr(ev.error.text, "'l01'"));
        must(snib_multi_try_for_start(v.m, 20, NULL, v.g, NULL, &v.ticket, &e));
        ev = done_of(v.c, v.ticket);
        assert_int_equal(ev.error.code, SNIB_ERR_TIMEOUT);
        for (int i = 0; i < MANY; i++) {
            assert_true(!v.g[i].ticket);
        }
        assert_true(free_for(v.other, "l00") && free_for(v.other, "l02"));
        several_end(&v);
    }
}

static void cancel_ticket(struct several *v)
{
    snib_client_cancel(v->c, v->ticket);
}

static void cancel_multi(struct several *v)
{
    snib_multi_cancel(v->m);
}

static void close_client(struct several *v)
{
    snib_client_close(v->c);
}

static void stop_client(struct several *v)
{
    snib_client_stop(v->c);
}

static void what_ends_a_wait_gives_back_what_it_had(void **state)
{
    static const struct {
        void (*end)(struct several *);
        snib_err want;
    } ends[] = {{cancel_ticket, SNIB_ERR_CANCELLED},
                {cancel_multi, SNIB_ERR_CANCELLED},
                {close_client, SNIB_ERR_CLOSED},
                {stop_client, SNIB_ERR_CLOSED}};
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        BOTH(pull)
        {
            struct several v;
            several_begin(&v, pull, 3);
            must(snib_try(v.theirs, NULL, &v.held, &e));
            must(snib_multi_acquire_start(v.m, NULL, v.g, NULL, &v.ticket, &e));
            is_waited_for(v.c, v.other, "l01");
            ends[i].end(&v);
            struct snib_event ev = done_of(v.c, v.ticket);
            if (ends[i].end == stop_client) { /* which has released it */
                assert_true(ev.error.code == SNIB_ERR_CLOSED ||
                            ev.error.code == SNIB_ERR_UNKNOWN);
            } else {
                assert_int_equal(ev.error.code, ends[i].want);
            }
            assert_true(!v.g[0].ticket);
            assert_true(free_for(v.other, "l00"));
            snib_client_cancel(v.c, v.ticket); /* not known any more */
            several_end(&v);
        }
    }
}

static void its_multi_may_be_freed_first(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct several v;
        several_begin(&v, pull, 3);
        must(snib_try(v.theirs, NULL, &v.held, &e));
        must(snib_multi_acquire_start(v.m, NULL, v.g, NULL, &v.ticket, &e));
        is_waited_for(v.c, v.other, "l01");
        snib_multi_free(v.m);
        v.m = NULL;
        must(snib_release(v.theirs, v.held, &e));
        must(done_of(v.c, v.ticket).error.code);
        for (int i = 0; i < 3; i++) {
            assert_true(snib_grant_held(v.lock[i], v.g[i]));
        }
        several_end(&v);
    }
}

/* At whatever point it is. */
static void its_client_may_be_freed_first(void **state)
{
    (void)state;
    for (int steps = 0; steps < 12; steps++) {
        BOTH(pull)
        {
            struct several v;
            struct snib_event ev;
            several_begin(&v, pull, MANY);
            must(snib_multi_try_start(v.m, NULL, v.g, NULL, &v.ticket, &e));
            for (int i = 0; i < steps; i++) {
                if (i % 3) {
                    drive(v.c);
                } else {
                    (void)snib_client_next(v.c, &ev, sizeof ev);
                }
            }
            snib_client_free(v.c);
            v.c = NULL;
            assert_true(free_for(v.other, "l00") && free_for(v.other, "l19"));
            several_end(&v);
        }
    }
}

static void a_grant_that_is_lost_on_the_way_is_acquired_again(void **state)
{
    (void)state;
    BOTH(pull)
    {
        struct several v;
        several_begin(&v, pull, 2);
        must(snib_try(v.theirs, NULL, &v.held, &e));
        must(snib_multi_acquire_start(v.m, NULL, v.g, NULL, &v.ticket, &e));
        is_waited_for(v.c, v.other, "l01");
        uint32_t ended;
        must(snib_client_force_release(v.other, "l00", 0, NULL, &ended, &e));
        assert_int_equal(ended, 1);
        must(snib_release(v.theirs, v.held, &e));
        must(done_of(v.c, v.ticket).error.code);
        nap(20);
        drive(v.c);
        struct snib_view *seen;
        must(snib_client_inspect(v.other, "l00", 0, &seen, &e));
        assert_int_equal(seen->holder_count, 1);
        assert_int_equal(seen->holders[0]->token, v.g[0].token);
        snib_view_free(seen);
        several_end(&v);
    }
}

static void a_second_acquire_of_ones_own_is_told_so(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", true);
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_acquire_options mine = SNIB_INIT(snib_acquire_options);
    struct snib_lock *lock[2];
    struct snib_multi *m;
    struct snib_grant g[2];
    uint64_t ticket;
    o.no_reentry = true;
    mine.owner = snib_owner_new();
    for (int i = 0; i < 2; i++) {
        must(snib_lock_new(c, i ? "a" : "b", &o, &lock[i], &e));
    }
    must(snib_multi_new(lock, 2, NULL, &m, &e));
    must(snib_try_start(lock[0], &mine, NULL, &ticket, &e));
    assert_int_equal(next_of(c).kind, SNIB_EVENT_GRANTED);
    must(snib_multi_acquire_start(m, &mine, g, NULL, &ticket, &e));
    struct snib_event ev = done_of(c, ticket);
    assert_int_equal(ev.error.code, SNIB_ERR_DEADLOCK);
    assert_true(!g[0].ticket && !g[1].ticket);
    snib_multi_free(m);
    snib_client_free(c);
}

static void more_permits_than_there_are_is_told_so(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", true);
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_acquire_options five = SNIB_INIT(snib_acquire_options);
    struct snib_lock *lock;
    struct snib_multi *m;
    struct snib_grant g;
    uint64_t ticket;
    o.kind = SNIB_KIND_PERMITS;
    o.capacity = 3;
    five.permits = 5;
    must(snib_lock_new(c, "p", &o, &lock, &e));
    must(snib_multi_new(&lock, 1, NULL, &m, &e));
    must(snib_multi_acquire_start(m, &five, &g, NULL, &ticket, &e));
    assert_int_equal(done_of(c, ticket).error.code, SNIB_ERR_TOO_MANY);
    snib_multi_free(m);
    snib_client_free(c);
}

static void *tries(void *arg)
{
    struct several *v = arg;
    struct snib_error mine;
    assert_int_equal(snib_multi_try(v->m, NULL, v->g, &mine), SNIB_ERR_OK);
    return NULL;
}

static void what_another_thread_holds_is_told_so(void **state)
{
    (void)state;
    struct several v;
    pthread_t thread;
    several_begin(&v, false, 2);
    assert_int_equal(pthread_create(&thread, NULL, tries, &v), 0);
    pthread_join(thread, NULL);
    must(snib_multi_release_start(v.m, v.g, NULL, &v.ticket, &e));
    assert_int_equal(done_of(v.c, v.ticket).error.code, SNIB_ERR_WRONG_OWNER);
    assert_true(snib_multi_held(v.m, v.g));
    several_end(&v);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(several_are_acquired_by_a_start),
        CASE(many_are_acquired_chunk_by_chunk),
        CASE(a_try_in_vain_leaves_nothing),
        CASE(what_ends_a_wait_gives_back_what_it_had),
        CASE(its_multi_may_be_freed_first),
        CASE(its_client_may_be_freed_first),
        CASE(a_grant_that_is_lost_on_the_way_is_acquired_again),
        CASE(a_second_acquire_of_ones_own_is_told_so),
        CASE(more_permits_than_there_are_is_told_so),
        CASE(what_another_thread_holds_is_told_so),
    };
    return RUN(cases);
}

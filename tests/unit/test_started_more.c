/* tests/unit/test_started_more.c — operations of several requests; a drain;
 * crowds of operations, and a client's end beside them. labels: thread */
#include "started.h"

/* -- several requests of one operation ------------------------------------------------------------ */

static void hold_and_want(struct snib_client *c, struct snib_lock *held,
                          struct snib_lock *wanted, uint64_t owner)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.owner = owner;
    if (held) {
        must(snib_try_start(held, &o, NULL, NULL, &e));
        assert_int_equal(next_of(c).kind, SNIB_EVENT_GRANTED);
    }
    if (wanted) {
        must(snib_acquire_start(wanted, &o, NULL, NULL, &e));
        no_event(c);
    }
}

static void a_circle_is_told_after_the_second_scan(void **state)
{
    (void)state;
    struct snib_client *c = open_client("?clock=virtual", true);
    struct snib_lock *a = lock_of(c, "a"), *b = lock_of(c, "b");
    uint64_t one = snib_owner_new(), two = snib_owner_new(), ticket;
    struct snib_cycle **v;
    size_t n = 77;
    hold_and_want(c, a, NULL, one);
    hold_and_want(c, b, NULL, two);
    must(snib_client_deadlocks_start(c, &v, &n, NULL, &ticket, &e));
    must(done_of(c, ticket).error.code); /* no circle: one scan */
    assert_int_equal(n, 0);
    assert_null(v);
    hold_and_want(c, NULL, b, one);
    hold_and_want(c, NULL, a, two);
    must(snib_test_advance(c, 500)); /* till both waits are shown */
    no_event(c);
    must(snib_client_deadlocks_start(c, &v, &n, NULL, &ticket, &e));
    no_event(c);
    must(snib_test_advance(c, 599));
    no_event(c);
    assert_int_equal(snib_client_timeout_ms(c), 1);
    must(snib_test_advance(c, 1));
    must(done_of(c, ticket).error.code);
    assert_int_equal(n, 1);
    assert_int_equal(v[0]->count, 2);
    assert_true(v[0]->certain);
    snib_deadlocks_free(v, n);
    /* Once more, and between the scans: a cancel, the end. */
    must(snib_client_deadlocks_start(c, &v, &n, NULL, &ticket, &e));
    no_event(c);
    snib_client_cancel(c, ticket);
    assert_int_equal(done_of(c, ticket).error.code, SNIB_ERR_CANCELLED);
    must(snib_client_deadlocks_start(c, &v, &n, NULL, &ticket, &e));
    no_event(c);
    snib_client_close(c);
    assert_int_equal(done_of(c, ticket).error.code, SNIB_ERR_CLOSED);
    assert_int_equal(n, 0);
    snib_lock_free(a);
    snib_lock_free(b);
    snib_client_free(c);
}

static void a_put_whose_reply_is_lost_is_done_once(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct snib_client *c =
            open_client(i & 1 ? "?clock=virtual" : "", i & 2);
        struct snib_value *v;
        int64_t version = 0;
        uint64_t ticket;
        must(snib_test_drop_replies(c, 3));
        must(snib_value_put_start(c, "v", 0, 0, "1", 1, 0, &version, NULL,
                                  &ticket, &e));
        must(done_of(c, ticket).error.code);
        assert_true(version > 0);
        must(snib_value_get_start(c, "v", 0, &v, NULL, &ticket, &e));
        must(done_of(c, ticket).error.code);
        assert_int_equal(v->version, version);
        snib_value_free(v);
        snib_client_free(c);
        space++;
    }
}

/* Between two copies of a put its outcome is unknown. */
static void a_put_that_is_cancelled_between_its_copies_is_unknown(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", true);
    uint64_t ticket;
    int tries = 0;
    struct snib_event ev;
    for (bool paused = false; !paused; tries++) {
        int64_t version = 77;
        assert_true(tries < 1000);
        must(snib_test_drop_replies(c, 1));
        must(snib_value_put_start(c, "v", 0, 1, "1", 1, 0, &version, NULL,
                                  &ticket, &e));
        paused = !snib_client_next(c, &ev, sizeof ev);
        if (paused) {
            snib_client_cancel(c, ticket);
            ev = done_of(c, ticket);
            assert_int_equal(ev.error.code, SNIB_ERR_UNKNOWN);
            assert_int_equal(version, 0);
        }
    }
    snib_client_free(c);
}

/* -- drain ----------------------------------------------------------------------------------------- */

static void a_drain_is_told_of_its_grants_end(void **state)
{
    (void)state;
    struct snib_client *c = open_client("?clock=virtual", true);
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    struct snib_grant g;
    struct snib_event ev;
    uint32_t permits = 0;
    uint64_t ticket;
    int me;
    o.kind = SNIB_KIND_PERMITS;
    o.capacity = 7;
    o.permits = 2;
    o.lease_ms = 1000;
    o.fixed_lease = true;
    must(snib_lock_new(c, "x", &o, &l, &e));
    must(snib_try_start(l, NULL, NULL, &ticket, &e));
    assert_int_equal(next_of(c).kind, SNIB_EVENT_GRANTED);
    must(snib_semaphore_drain_start(l, NULL, &g, &permits, &me, &ticket, &e));
    ev = done_of(c, ticket);
    assert_int_equal(ev.state, SNIB_STATE_HELD);
    assert_int_equal(ev.grant.ticket, g.ticket);
    assert_int_equal(ev.grant.token, g.token);
    assert_true(g.token > 0);
    assert_int_equal(permits, 5);
    struct snib_grant none = {7, 7};
    permits = 77;
    must(
        snib_semaphore_drain_start(l, NULL, &none, &permits, &me, &ticket, &e));
    assert_int_equal(none.ticket, 0);
    ev = done_of(c, ticket);
    assert_int_equal(ev.error.code, SNIB_ERR_BUSY);
    assert_int_equal(ev.state, SNIB_STATE_RELEASED);
    assert_int_equal(none.ticket, 0);
    assert_int_equal(none.token, 0);
    assert_int_equal(permits, 77);
    must(snib_test_advance(c, 1000));
    for (int lost = 0; lost < 2; lost++) { /* of the first acquire, too */
        ev = next_of(c);
        assert_int_equal(ev.kind, SNIB_EVENT_STATE);
        assert_int_equal(ev.state, SNIB_STATE_LOST);
        assert_true(ev.grant.ticket != g.ticket || ev.user == &me);
    }
    must(snib_release_start(l, g, NULL, &e));
    assert_int_equal(next_of(c).error.code, SNIB_ERR_LOST);
    snib_lock_free(l);
    snib_client_free(c);
}

/* Nobody took the event: what it holds goes with the handle. */
static void a_drain_that_nobody_took_is_given_back(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_client *other = open_client("", false);
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_semaphore size;
    struct snib_lock *l;
    struct snib_grant g;
    o.kind = SNIB_KIND_PERMITS;
    o.capacity = 7;
    must(snib_lock_new(c, "x", &o, &l, &e));
    must(snib_semaphore_drain_start(l, NULL, &g, NULL, NULL, NULL, &e));
    assert_true(readable(snib_client_fd(c), 20000));
    must(snib_semaphore_get(other, "x", 0, &size, sizeof size, &e));
    assert_int_equal(size.used, 7);
    snib_lock_free(l);
    must(next_of(c).error.code); /* it was so */
    for (int64_t end = now_ms() + 20000; size.used; nap(1)) {
        must(snib_semaphore_get(other, "x", 0, &size, sizeof size, &e));
        assert_true(now_ms() < end);
    }
    snib_client_free(c);
    snib_client_free(other);
}

/* -- threads ------------------------------------------------------------------------------------------ */

enum { CROWD = 4, EACH = 200 };

struct crowd {
    struct snib_client *c;
    _Atomic int taken;
    int64_t version[CROWD][EACH];
    struct snib_view *view[CROWD][EACH];
};

struct starter {
    struct crowd *of;
    int number;
};

static void *starts_and_takes(void *arg)
{
    struct starter *s = arg;
    struct crowd *of = s->of;
    struct snib_error mine;
    struct snib_event ev;
    for (int i = 0; i < EACH; i++) {
        uint64_t ticket;
        char name[32];
        snprintf(name, sizeof name, "v%d.%d", s->number, i);
        assert_int_equal(snib_client_inspect_start(of->c, name, 0,
                                                   &of->view[s->number][i], of,
                                                   &ticket, &mine),
                         SNIB_ERR_OK);
        assert_int_equal(snib_value_put_start(of->c, name, 0, 0, "1", 1, 0,
                                              &of->version[s->number][i], of,
                                              NULL, &mine),
                         SNIB_ERR_OK);
        if (i % 3 == 0) {
            snib_client_cancel(of->c, ticket);
        }
        if (i % 2 && snib_client_next(of->c, &ev, sizeof ev)) {
            atomic_fetch_add(&of->taken, 1);
        }
    }
    return NULL;
}

/* Each start has one event, whoever takes it, and its results. */
static void a_crowd_starts_and_takes(void **state)
{
    (void)state;
    static struct crowd of;
    struct starter s[CROWD];
    pthread_t t[CROWD];
    of.c = open_client("", false);
    for (int i = 0; i < CROWD; i++) {
        s[i] = (struct starter){&of, i};
        assert_int_equal(pthread_create(&t[i], NULL, starts_and_takes, &s[i]),
                         0);
    }
    for (int i = 0; i < CROWD; i++) {
        pthread_join(t[i], NULL);
    }
    while (atomic_load(&of.taken) < 2 * CROWD * EACH) {
        struct snib_event ev = next_of(of.c);
        assert_int_equal(ev.kind, SNIB_EVENT_DONE);
        atomic_fetch_add(&of.taken, 1);
    }
    no_event(of.c);
    for (int i = 0; i < CROWD * EACH; i++) {
        assert_true(of.version[i / EACH][i % EACH] > 0);
        assert_true(of.view[i / EACH][i % EACH] || i % EACH % 3 == 0);
        snib_view_free(of.view[i / EACH][i % EACH]);
    }
    snib_client_free(of.c);
}

/* Stop and free while they are under way. */
static void a_client_may_end_beside_its_operations(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        struct snib_client *c = open_client("", i & 1);
        struct snib_view *view[20];
        struct snib_event ev;
        uint32_t left;
        int events = 0;
        slow_down(c);
        for (int k = 0; k < 20; k++) {
            view[k] = NULL;
            must(
                snib_client_inspect_start(c, "x", 0, &view[k], NULL, NULL, &e));
            must(snib_latch_left_start(c, "x", 0, &left, NULL, NULL, &e));
        }
        for (int k = 0; i & 2 && k < 30; k++) {
            must(next_of(c).error.code);
            events++;
        }
        if (i & 4) {
            snib_client_close(c);
        }
        if (i & 8) {
            snib_client_stop(c);
            while (snib_client_next(c, &ev, sizeof ev)) {
                events++;
            }
            assert_int_equal(events, 40);
        }
        snib_client_free(c);
        for (int k = 0; k < 20; k++) {
            snib_view_free(view[k]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest started_more[] = {
        CASE(a_circle_is_told_after_the_second_scan),
        CASE(a_put_whose_reply_is_lost_is_done_once),
        CASE(a_put_that_is_cancelled_between_its_copies_is_unknown),
        CASE(a_drain_is_told_of_its_grants_end),
        CASE(a_drain_that_nobody_took_is_given_back),
        CASE(a_crowd_starts_and_takes),
        CASE(a_client_may_end_beside_its_operations),
    };
    return RUN(started_more);
}

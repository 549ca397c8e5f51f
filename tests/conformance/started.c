/* Operations that end in SNIB_EVENT_DONE (snib/event.h): on each store, in
 * threaded and in pull clients, they answer what the blocking forms do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "snib/deadlock.h"
#include "snib/elect.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/ring.h"
#include "snib/semaphore.h"
#include "snib/value.h"

static void hear(void *data, const struct snib_finding *f)
{
    *(int *)data += *f->check && *f->text;
}

static void looks_answer_what_the_blocking_ones_do(void **state)
{
    (void)state;
    for (int pull = 0; pull < 2; pull++) {
        const char *name = fresh_name();
        struct snib_client *c = open_for(pull), *other = open_client();
        struct snib_lock *l = lock_with(other, name, NULL);
        struct snib_view *view, **views;
        struct snib_cycle **cycles;
        struct snib_grant g;
        size_t n = 0;
        int findings = 0;
        uint64_t ticket;
        uint32_t ended = 0;
        must(snib_try(l, NULL, &g, NULL));
        must(ANSWER(snib_client_inspect, c, name, 0, &view));
        assert_string_equal(view->name, name);
        assert_int_equal(view->holder_count, 1);
        assert_string_equal(view->holders[0]->client_id, snib_client_id(other));
        assert_int_equal(view->holders[0]->token, g.token);
        snib_view_free(view);
        must(ANSWER(snib_client_list, c, name, &views, &n));
        assert_int_equal(n, 1);
        assert_string_equal(views[0]->name, name);
        snib_views_free(views, n);
        must(ANSWER(snib_client_deadlocks, c, &cycles, &n));
        snib_deadlocks_free(cycles, n);
        must(ANSWER(snib_client_doctor, c, hear, &findings));
        assert_true(findings > 0);
        must(ANSWER(snib_client_force_release, c, name, 0, "conformance",
                    &ended));
        assert_int_equal(ended, 1);
        assert_int_equal(holders_of(other, name), 0);
        assert_int_equal(snib_release(l, g, NULL), SNIB_ERR_LOST);
        snib_client_free(c);
        snib_client_free(other);
    }
}

/* A quorum has plain mutexes only, and says so with the event. */
static bool is_refused_by_a_quorum(void)
{
    for (int pull = 0; has_a_majority() && pull < 2; pull++) {
        struct snib_client *c = open_for(pull);
        struct snib_lock *l = permits_of(c, fresh_name(), 1, 1);
        struct snib_grant g;
        struct snib_value *v;
        uint64_t ticket;
        uint32_t left;
        must_be(ANSWER(snib_latch_left, c, "x", 0, &left),
                SNIB_ERR_UNSUPPORTED);
        must_be(ANSWER(snib_value_get, c, "x", 0, &v), SNIB_ERR_UNSUPPORTED);
        assert_null(v);
        must_be(ANSWER(snib_semaphore_drain, l, NULL, &g, NULL),
                SNIB_ERR_UNSUPPORTED);
        snib_lock_free(l);
        snib_client_free(c);
    }
    return has_a_majority();
}

static void params_are_set_and_read(void **state)
{
    (void)state;
    if (is_refused_by_a_quorum()) {
        return;
    }
    for (int pull = 0; pull < 2; pull++) {
        const char *name = fresh_name(), *latch = fresh_name();
        struct snib_client *c = open_for(pull), *other = open_client();
        struct snib_semaphore s;
        uint64_t ticket;
        uint32_t left = 77;
        bool set = false;
        must(ANSWER(snib_semaphore_set, c, name, 0, 4, true, &set));
        assert_true(set);
        must(ANSWER(snib_semaphore_set, c, name, 0, 9, true, &set));
        assert_false(set);
        must(ANSWER(snib_semaphore_add, c, name, 0, -1));
        must_be(ANSWER(snib_semaphore_add, c, name, 0, -4), SNIB_ERR_USAGE);
        must(ANSWER(snib_semaphore_get, c, name, 0, &s, sizeof s));
        assert_int_equal(s.size, 3);
        assert_int_equal(s.available, 3);
        must(snib_semaphore_get(other, name, 0, &s, sizeof s, NULL));
        assert_int_equal(s.size, 3);
        must(ANSWER(snib_latch_set, c, latch, 0, 3, &set));
        assert_true(set);
        must(ANSWER(snib_latch_count_down, c, latch, 0, 1, &left));
        assert_int_equal(left, 2);
        must(snib_latch_left(other, latch, 0, &left, NULL));
        assert_int_equal(left, 2);
        must(ANSWER(snib_latch_open, c, latch, 0));
        must(ANSWER(snib_latch_left, c, latch, 0, &left));
        assert_int_equal(left, 0);
        snib_client_free(c);
        snib_client_free(other);
    }
}

static void values_are_read_and_written(void **state)
{
    (void)state;
    if (is_refused_by_a_quorum()) {
        return;
    }
    for (int pull = 0; pull < 2; pull++) {
        const char *name = fresh_name();
        struct snib_client *c = open_for(pull);
        struct snib_value *v;
        int64_t first, second, seen;
        uint64_t ticket;
        must(ANSWER(snib_value_get, c, name, 0, &v));
        assert_int_equal(v->version, 0);
        snib_value_free(v);
        must(ANSWER(snib_value_put, c, name, 0, 0, "one", 3, 0, &first));
        must(ANSWER(snib_value_put, c, name, 0, first, "two", 3, 0, &second));
        assert_true(second > first);
        must_be(ANSWER(snib_value_put, c, name, 0, first, "no", 2, 0, &seen),
                SNIB_ERR_BUSY);
        assert_int_equal(seen, second);
        must(ANSWER(snib_value_get, c, name, 0, &v));
        assert_int_equal(v->version, second);
        assert_string_equal(v->bytes, "two");
        snib_value_free(v);
        must_be(ANSWER(snib_value_delete, c, name, 0, first, &seen),
                SNIB_ERR_BUSY);
        must(ANSWER(snib_value_delete, c, name, 0, second, &seen));
        must(ANSWER(snib_value_get, c, name, 0, &v));
        assert_int_equal(v->version, 0);
        snib_value_free(v);
        snib_client_free(c);
    }
}

static void a_ring_and_its_leader_are_read(void **state)
{
    (void)state;
    if (is_refused_by_a_quorum()) {
        return;
    }
    const char *name = fresh_name(), *election = fresh_name();
    struct snib_client *other = open_client();
    struct snib_ring_membership *m;
    struct snib_elect *e;
    struct snib_leader *leader;
    int64_t term;
    must(snib_ring_join(other, name, 0, "member-1", NULL, &m, NULL));
    for (int pull = 0; pull < 2; pull++) {
        struct snib_client *c = open_for(pull);
        struct snib_ring *ring;
        uint64_t ticket;
        must(ANSWER(snib_ring_read, c, name, 0, &ring));
        assert_int_equal(snib_ring_count(ring), 1);
        assert_string_equal(snib_ring_id(ring, 0, NULL), "member-1");
        snib_ring_free(ring);
        snib_client_free(c);
    }
    must(snib_ring_leave(m, NULL));
    must(snib_elect_new(other, election, NULL, &e, NULL));
    must(snib_elect_try(e, &term, NULL));
    struct snib_client *c = other;
    bool pull = false;
    uint64_t ticket;
    must(ANSWER(snib_elect_leader, e, &leader));
    assert_int_equal(leader->term, term);
    assert_true(leader->self);
    snib_leader_free(leader);
    must(snib_elect_resign(e, NULL));
    snib_elect_free(e);
    snib_client_free(other);
}

static void grants_are_drained_and_renewed(void **state)
{
    (void)state;
    if (is_refused_by_a_quorum()) {
        return;
    }
    for (int pull = 0; pull < 2; pull++) {
        const char *name = fresh_name();
        struct snib_client *c = open_for(pull);
        struct snib_lock *l = leased(c, name, 3, 10000, true);
        struct snib_grant g, none;
        uint64_t ticket;
        uint32_t permits = 0;
        must(ANSWER(snib_semaphore_drain, l, NULL, &g, &permits));
        assert_int_equal(g.ticket, ticket);
        assert_int_equal(permits, 3);
        must_be(ANSWER(snib_semaphore_drain, l, NULL, &none, &permits),
                SNIB_ERR_BUSY);
        must(ANSWER(snib_renew, l, g, 60000));
        assert_true(status_of(l, g).left_ms > 20000);
        must(snib_release_start(l, g, NULL, NULL));
        assert_int_equal(event_of(c, pull).kind, SNIB_EVENT_RELEASED);
        snib_lock_free(l);
        snib_client_free(c);
    }
}

/* The last of many is answered when all others are: beside other cases that may
 * take a server longer than one answer. */
static struct snib_client *patient(bool pull)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c = NULL;
    o.url = store_url();
    o.pull = pull;
    o.request_ms = 30000;
    must(snib_client_open(&o, &c, NULL));
    return c;
}

static void many_operations_are_under_way_at_once(void **state)
{
    (void)state;
    enum { MANY = 500 };
    static struct snib_view *view[MANY];
    for (int pull = 0; pull < 2; pull++) {
        const char *name = fresh_name();
        struct snib_client *c = patient(pull);
        for (int i = 0; i < MANY; i++) {
            must(snib_client_inspect_start(c, name, 0, &view[i], &view[i], NULL,
                                           NULL));
        }
        for (int i = 0; i < MANY; i++) {
            struct snib_event ev = event_of(c, pull);
            must(ev.error.code);
            struct snib_view **of = ev.user;
            assert_non_null(*of);
            snib_view_free(*of);
            *of = NULL;
        }
        snib_client_free(c);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest started[] = {
        cmocka_unit_test(looks_answer_what_the_blocking_ones_do),
        cmocka_unit_test(params_are_set_and_read),
        cmocka_unit_test(values_are_read_and_written),
        cmocka_unit_test(a_ring_and_its_leader_are_read),
        cmocka_unit_test(grants_are_drained_and_renewed),
        cmocka_unit_test(many_operations_are_under_way_at_once),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(started, NULL, NULL);
}

/* tests/unit/test_started.c — operations that end in DONE, on memory:
 * labels: thread
 *
 * When results are written and by whom; limits to the millisecond (in virtual
 * time); cancels; renewals through several handles. What each start and its
 * event say: unit.told_started. */
#include "started.h"

/* -- results ------------------------------------------------------------------------- */

static void results_are_written_when_the_event_is_taken(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_semaphore size = {.size = 77};
    struct snib_event ev;
    uint64_t ticket;
    int me;
    must(snib_semaphore_set(c, "x", 0, 5, false, NULL, &e));
    must(snib_semaphore_get_start(c, "x", 0, &size, sizeof size, &me, &ticket,
                                  &e));
    assert_true(readable(snib_client_fd(c), 20000));
    assert_int_equal(size.size, 77); /* answered, and not taken */
    assert_true(snib_client_next(c, &ev, sizeof ev));
    assert_int_equal(ev.kind, SNIB_EVENT_DONE);
    assert_int_equal(ev.error.code, SNIB_ERR_OK);
    assert_string_equal(ev.error.text, "");
    assert_int_equal(ev.state, SNIB_STATE_RELEASED);
    assert_int_equal(ev.cause, SNIB_CAUSE_NONE);
    assert_int_equal(ev.grant.ticket, ticket);
    assert_int_equal(ev.grant.token, 0);
    assert_ptr_equal(ev.user, &me);
    assert_int_equal(size.size, 5);
    assert_int_equal(size.available, 5);
    assert_false(readable(snib_client_fd(c), 0));
    snib_client_free(c);
}

static void what_is_passed_to_a_start_is_copied(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", true);
    struct snib_client *other = open_client("", false);
    char name[] = "counter", bytes[] = "one", reason[] = "it hangs";
    struct snib_value *v;
    int64_t version;
    uint64_t ticket;
    slow_down(c);
    must(snib_value_put_start(c, name, 0, 0, bytes, 3, 0, &version, NULL,
                              &ticket, &e));
    memset(bytes, '?', 3);
    memset(name, '?', sizeof name - 1);
    must(done_of(c, ticket).error.code);
    must(snib_value_get(other, "counter", 0, &v, &e));
    assert_int_equal(v->version, version);
    assert_memory_equal(v->bytes, "one", 4);
    snib_value_free(v);
    struct snib_view *view;
    memcpy(name, "counter", sizeof name);
    must(snib_client_inspect_start(c, name, 0, &view, NULL, &ticket, &e));
    memset(name, '?', sizeof name - 1);
    must(done_of(c, ticket).error.code);
    assert_string_equal(view->name, "counter");
    snib_view_free(view);
    memcpy(name, "counter", sizeof name);
    must(snib_client_force_release_start(c, name, 0, reason, NULL, NULL,
                                         &ticket, &e));
    memset(reason, '?', sizeof reason - 1);
    must(done_of(c, ticket).error.code);
    snib_client_free(c);
    snib_client_free(other);
}

struct heard {
    struct snib_client *c;
    pthread_t by;
    int findings;
    struct snib_view *view;
    uint64_t ticket;
};

static void hear(void *data, const struct snib_finding *f)
{
    struct heard *h = data;
    struct snib_store_status s;
    assert_true(f->check[0]);
    h->by = pthread_self();
    snib_client_store_status(h->c, &s); /* no lock is held */
    if (!h->findings++) {
        must(snib_client_inspect_start(h->c, "x", 0, &h->view, NULL, &h->ticket,
                                       &e));
    }
}

static void the_doctor_tells_who_takes_the_event(void **state)
{
    (void)state;
    for (int pull = 0; pull < 2; pull++) {
        struct heard h = {.c = open_client("", pull)};
        uint64_t ticket;
        must(snib_client_doctor_start(h.c, hear, &h, NULL, &ticket, &e));
        drive(h.c);
        assert_int_equal(h.findings, 0);
        must(done_of(h.c, ticket).error.code);
        assert_true(h.findings > 0);
        assert_true(pthread_equal(h.by, pthread_self()));
        must(done_of(h.c, h.ticket).error.code);
        snib_view_free(h.view);
        snib_client_free(h.c);
    }
}

static void results_that_nobody_wants_are_not_written(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    must(snib_semaphore_set_start(c, "x", 0, 2, true, NULL, NULL, NULL, &e));
    must(snib_latch_set_start(c, "y", 0, 2, NULL, NULL, NULL, NULL));
    must(snib_latch_count_down_start(c, "y", 0, 1, NULL, NULL, NULL, &e));
    must(
        snib_client_force_release_start(c, "z", 0, NULL, NULL, NULL, NULL, &e));
    must(snib_value_put_start(c, "v", 0, 0, NULL, 0, 0, NULL, NULL, NULL, &e));
    for (int i = 0; i < 5; i++) {
        must(next_of(c).error.code);
    }
    no_event(c);
    snib_client_free(c);
}

/* -- tickets --------------------------------------------------------------------------- */

static void a_ticket_is_no_grant_and_no_other_operations(void **state)
{
    (void)state;
    enum { MANY = 300 };
    struct snib_client *c = open_client("", true);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_status st;
    uint32_t left[MANY];
    uint64_t ticket[MANY];
    for (int i = 0; i < MANY; i++) {
        must(snib_latch_left_start(c, "y", 0, &left[i], &left[i], &ticket[i],
                                   &e));
        assert_true(!i || ticket[i] == ticket[i - 1] + 1);
        struct snib_grant g = {.ticket = ticket[i]};
        snib_grant_status(l, g, &st, sizeof st);
        assert_int_equal(st.state, SNIB_STATE_RELEASED);
        assert_int_equal(snib_release_start(l, g, NULL, &e), SNIB_ERR_NOT_HELD);
        assert_int_equal(snib_renew_start(l, g, 0, NULL, NULL, &e),
                         SNIB_ERR_NOT_HELD);
    }
    for (int i = 0; i < MANY; i++) { /* in the order of their answers */
        struct snib_event ev = done_of(c, ticket[i]);
        assert_ptr_equal(ev.user, &left[i]);
        assert_int_equal(left[i], 0);
    }
    snib_client_cancel(c, ticket[0]);
    snib_client_cancel(c, 0);
    no_event(c);
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- limits, in virtual time --------------------------------------------------------------- */

enum { REQUEST_MS = 2000 };

/* Not by snib_test_advance(): it takes the slow store for another one. */
static void advance(struct snib_client *c, int64_t ms)
{
    must(snib__memory_advance(c->exec.instance, ms, NULL));
    snib__client_kick(c);
}

static void without_an_answer_an_operation_ends_after_request_ms(void **state)
{
    (void)state;
    struct snib_client *c = open_client("?clock=virtual", true);
    struct snib_lock *l = lock_of(c, "x");
    struct snib_view *view;
    uint64_t look, set, renew, ticket, sum = 0;
    bool was = true;
    must(snib_try_start(l, NULL, NULL, &ticket, &e));
    struct snib_grant g = next_of(c).grant;
    slow_down(c);
    stand_still(true);
    must(snib_client_inspect_start(c, "x", 0, &view, NULL, &look, &e));
    must(snib_latch_set_start(c, "y", 0, 1, &was, NULL, &set, &e));
    must(snib_renew_start(l, g, 0, NULL, &renew, &e));
    assert_in_range(snib_client_timeout_ms(c), 1, REQUEST_MS);
    advance(c, REQUEST_MS - 1);
    no_event(c);
    assert_int_equal(snib_client_timeout_ms(c), 1);
    advance(c, 1);
    for (int i = 0; i < 3; i++) { /* at one instant: in no order */
        struct snib_event ev = next_of(c);
        assert_int_equal(ev.kind, SNIB_EVENT_DONE);
        assert_int_equal(ev.error.code, ev.grant.ticket == look
                                            ? SNIB_ERR_UNREACHABLE
                                            : SNIB_ERR_UNKNOWN);
        assert_true(ev.grant.ticket != look ||
                    strstr(ev.error.text, "did not answer in time"));
        sum += ev.grant.ticket;
    }
    assert_int_equal(sum, look + set + renew);
    assert_null(view);
    assert_true(was);
    stand_still(false);
    for (int i = 0; i < 20; i++) { /* what comes late is nobody's */
        struct snib_event ev = {.kind = SNIB_EVENT_STATE};
        drive(c);
        (void)snib_client_next(c, &ev, sizeof ev);
        assert_int_equal(ev.kind, SNIB_EVENT_STATE);
        nap(1);
    }
    speed_up(c);
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- cancels -------------------------------------------------------------------------------- */

static void what_is_cancelled_may_be_done_all_the_same(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_client *other = open_client("", false);
    struct snib_event ev;
    uint64_t ticket;
    uint32_t left = 0;
    bool set = false;
    slow_down(c);
    stand_still(true);
    must(snib_latch_set_start(c, "x", 0, 3, &set, NULL, &ticket, &e));
    snib_client_cancel(c, ticket);
    ev = done_of(c, ticket);
    assert_int_equal(ev.error.code, SNIB_ERR_UNKNOWN);
    assert_string_equal(ev.error.text,
                        "it was cancelled before the store had answered");
    assert_false(set);
    stand_still(false);
    for (int64_t end = now_ms() + 20000; left != 3; nap(1)) {
        must(snib_latch_left(other, "x", 0, &left, &e));
        assert_true(now_ms() < end);
    }
    no_event(c);
    snib_client_free(c);
    snib_client_free(other);
}

static void a_renewal_that_is_cancelled_harms_no_other(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", true);
    struct snib_lock *l = lock_of(c, "x");
    uint64_t ticket[4];
    must(snib_try_start(l, NULL, NULL, &ticket[0], &e));
    struct snib_grant g = next_of(c).grant;
    slow_down(c);
    for (int i = 0; i < 4; i++) {
        must(snib_renew_start(l, g, 0, NULL, &ticket[i], &e));
    }
    static const int order[] = {1, 3}; /* of a chain of four */
    for (int i = 0; i < 2; i++) {
        struct snib_event ev;
        snib_client_cancel(c, ticket[order[i]]);
        assert_true(snib_client_next(c, &ev, sizeof ev));
        assert_int_equal(ev.grant.ticket, ticket[order[i]]);
        assert_int_equal(ev.error.code, SNIB_ERR_UNKNOWN);
    }
    uint64_t sum = next_of(c).grant.ticket;
    sum += next_of(c).grant.ticket;
    assert_int_equal(sum, ticket[0] + ticket[2]);
    no_event(c);
    assert_true(snib_grant_held(l, g));
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- renewals ---------------------------------------------------------------------------------- */

static void a_renewal_lengthens_the_lease(void **state)
{
    (void)state;
    for (int pull = 0; pull < 2; pull++) {
        struct snib_client *c = open_client("?clock=virtual", pull);
        struct snib_lock_options o = SNIB_INIT(snib_lock_options);
        struct snib_lock *l;
        struct snib_status st;
        uint64_t ticket;
        o.lease_ms = 10000;
        o.fixed_lease = true;
        must(snib_lock_new(c, "x", &o, &l, &e));
        must(snib_try_start(l, NULL, NULL, &ticket, &e));
        struct snib_grant g = next_of(c).grant;
        must(snib_renew_start(l, g, 60000, NULL, &ticket, &e));
        must(done_of(c, ticket).error.code);
        snib_grant_status(l, g, &st, sizeof st);
        assert_true(st.left_ms > 50000);
        snib_lock_free(l);
        snib_client_free(c);
    }
}

/* The renewals hang on the grant, not on the handle that went. */
static void a_handle_that_is_freed_takes_no_renewal_with_it(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", true);
    struct snib_lock *l = lock_of(c, "x"), *m = lock_of(c, "x");
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    uint64_t ticket;
    o.owner = snib_owner_new();
    must(snib_try_start(l, &o, NULL, &ticket, &e));
    struct snib_grant g = next_of(c).grant;
    must(snib_try_start(m, &o, NULL, &ticket, &e));
    assert_int_equal(next_of(c).kind, SNIB_EVENT_GRANTED);
    slow_down(c);
    must(snib_renew_start(l, g, 0, NULL, &ticket, &e));
    snib_lock_free(l);
    must(done_of(c, ticket).error.code);
    must(snib_renew_start(m, g, 0, NULL, &ticket, &e));
    snib_lock_free(m);
    assert_int_equal(done_of(c, ticket).error.code, SNIB_ERR_NOT_HELD);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest started[] = {
        CASE(results_are_written_when_the_event_is_taken),
        CASE(what_is_passed_to_a_start_is_copied),
        CASE(the_doctor_tells_who_takes_the_event),
        CASE(results_that_nobody_wants_are_not_written),
        CASE(a_ticket_is_no_grant_and_no_other_operations),
        CASE(without_an_answer_an_operation_ends_after_request_ms),
        CASE(what_is_cancelled_may_be_done_all_the_same),
        CASE(a_renewal_that_is_cancelled_harms_no_other),
        CASE(a_renewal_lengthens_the_lease),
        CASE(a_handle_that_is_freed_takes_no_renewal_with_it),
    };
    return RUN(started);
}

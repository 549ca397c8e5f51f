/* Deadlocks inside one client, by explicit owners and without a thread of the
 * library: memory:, a pull client, events.
 * labels: thread */
#include "run_memory.h"

#include "driver/client.h"
#include "driver/clock.h"

#include "snib/deadlock.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/sys.h"

static struct snib_client *checking_client(bool pull, bool check)
{
    char url[64];
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    snprintf(url, sizeof url, "memory:deadlock%d", ++space);
    o.url = url;
    o.pull = pull;
    o.no_deadlock_check = !check;
    assert_int_equal(snib_client_open(&o, &c, &e), SNIB_ERR_OK);
    return c;
}

static const char *reason; /* of those that start                          */

static uint64_t start(struct snib_lock *l, uint64_t owner, int64_t wait_ms)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    uint64_t ticket;
    o.owner = owner;
    o.reason = reason;
    assert_int_equal(snib_try_for_start(l, wait_ms, &o, l, &ticket, &e),
                     SNIB_ERR_OK);
    return ticket;
}

/* The next event within limit_ms; false: none. */
static bool next_event(struct snib_client *c, int64_t limit_ms,
                       struct snib_event *ret)
{
    int64_t end = now_ms() + limit_ms;
    for (;;) {
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
        if (snib_client_next(c, ret, sizeof *ret)) {
            return true;
        }
        int64_t left = end - now_ms();
        if (left <= 0) {
            return false;
        }
        struct pollfd p = {.fd = snib_client_fd(c), .events = POLLIN};
        (void)poll(&p, 1, (int)left);
    }
}

static struct snib_grant granted(struct snib_client *c)
{
    struct snib_event ev;
    assert_true(next_event(c, 5000, &ev));
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    return ev.grant;
}

struct circle {
    struct snib_client *c;
    struct snib_lock *x, *y;
    struct snib_grant held_x, held_y;
    uint64_t a, b;
};

/* Owner a has X and wants Y; owner b the other way round, later. */
static struct circle close_circle(bool check, int64_t wait_ms)
{
    struct circle k = {.c = checking_client(true, check),
                       .a = snib_owner_new(),
                       .b = snib_owner_new()};
    struct snib_event none;
    k.x = lock_of(k.c, "X");
    k.y = lock_of(k.c, "Y");
    start(k.x, k.a, 0);
    k.held_x = granted(k.c);
    start(k.y, k.b, 0);
    k.held_y = granted(k.c);
    start(k.y, k.a, wait_ms);
    assert_false(next_event(k.c, 5, &none)); /* younger by its clock */
    start(k.x, k.b, wait_ms);
    return k;
}

static void end_circle(struct circle *k)
{
    snib_lock_free(k->x);
    snib_lock_free(k->y);
    snib_client_free(k->c);
}

static void a_pull_client_looks_in_process(void **state)
{
    (void)state;
    struct circle k = close_circle(true, INT64_MAX);
    struct snib_event ev;
    int64_t began = now_ms();
    assert_true(next_event(k.c, 5000, &ev));
    assert_true(now_ms() - began >= 1500); /* a second, and two looks */
    assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_DEADLOCK);
    assert_ptr_equal(ev.user, k.x); /* b's wait, the younger one */
    assert_non_null(strstr(ev.error.text, "deadlock: this waits for 'X' held "
                                          "by "));
    assert_non_null(strstr(ev.error.text, " waits for 'Y' held by this"));
    /* The other goes on once b has released. */
    assert_false(next_event(k.c, 100, &ev));
    assert_int_equal(snib_release_start(k.y, k.held_y, NULL, &e), SNIB_ERR_OK);
    bool got = false;
    while (!got) {
        assert_true(next_event(k.c, 5000, &ev));
        assert_true(ev.kind == SNIB_EVENT_GRANTED ||
                    ev.kind == SNIB_EVENT_RELEASED);
        got = ev.kind == SNIB_EVENT_GRANTED;
    }
    end_circle(&k);
}

static void switched_off_it_waits_until_its_limit(void **state)
{
    (void)state;
    struct circle k = close_circle(false, 2500);
    struct snib_event ev;
    for (int i = 0; i < 2; i++) {
        assert_true(next_event(k.c, 5000, &ev));
        assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
        assert_int_equal(ev.error.code, SNIB_ERR_TIMEOUT);
    }
    end_circle(&k);
}

/* Owner a waits for two things: it goes on with whichever comes first. */
static void a_owner_that_waits_twice_is_not_refused(void **state)
{
    (void)state;
    struct circle k = close_circle(true, 3000);
    struct snib_lock *z = lock_of(k.c, "Z");
    struct snib_event ev;
    start(z, snib_owner_new(), 0);
    (void)granted(k.c);
    start(z, k.a, 3000);
    for (int i = 0; i < 3; i++) {
        assert_true(next_event(k.c, 5000, &ev));
        assert_int_equal(ev.error.code, SNIB_ERR_TIMEOUT);
    }
    snib_lock_free(z);
    end_circle(&k);
}

/* -- what is held above ------------------------------------------------------- */

/* Three clients of one store: `outer` holds X; `inner`, below it, waits for Y;
 * `other` holds Y and waits for X, the youngest wait. */
struct nest {
    struct snib_client *outer, *inner, *other;
    struct snib_lock *x, *y, *their_x, *their_y;
    struct snib_grant held_x, held_y;
};

static struct nest nest_new(void)
{
    char url[64], request[SNIB_REQUEST_TEXT];
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    uint64_t owner = snib_owner_new();
    struct snib_event none;
    snprintf(url, sizeof url, "memory:nest%d", ++space);
    struct nest n = {.outer = client_on(url, true, 0),
                     .inner = client_on(url, true, 0),
                     .other = client_on(url, true, 0)};
    n.x = lock_of(n.outer, "X");
    n.y = lock_of(n.inner, "Y");
    n.their_x = lock_of(n.other, "X");
    n.their_y = lock_of(n.other, "Y");
    start(n.x, snib_owner_new(), 0);
    n.held_x = granted(n.outer);
    start(n.their_y, owner, 0);
    n.held_y = granted(n.other);
    assert_int_equal(
        snib_grant_request(n.x, n.held_x, request, sizeof request, &e),
        SNIB_ERR_OK);
    o.above = request;
    assert_int_equal(snib_acquire_start(n.y, &o, n.y, NULL, &e), SNIB_ERR_OK);
    assert_false(next_event(n.inner, 5, &none)); /* older by its clock */
    start(n.their_x, owner, 8000);
    return n;
}

static void nest_free(struct nest *n)
{
    snib_lock_free(n->x);
    snib_lock_free(n->y);
    snib_lock_free(n->their_x);
    snib_lock_free(n->their_y);
    snib_client_free(n->outer);
    snib_client_free(n->inner);
    snib_client_free(n->other);
}

static void a_circle_through_what_is_held_above_is_refused(void **state)
{
    (void)state;
    struct nest n = nest_new();
    struct snib_event ev;
    int64_t end = now_ms() + 7000;
    bool any = false;
    while (!any && now_ms() < end) {
        assert_false(next_event(n.outer, 1, &ev));
        assert_false(next_event(n.inner, 1, &ev)); /* polls */
        any = next_event(n.other, 20, &ev);
    }
    assert_true(any);
    assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_DEADLOCK);
    assert_ptr_equal(ev.user, n.their_x);
    nest_free(&n);
}

/* It may be dead: then who holds above it can go on. */
static void a_wait_that_is_not_heard_of_refuses_nobody(void **state)
{
    (void)state;
    struct nest n = nest_new();
    struct snib_event ev;
    int64_t end = now_ms() + 6000;
    while (now_ms() < end) {
        assert_false(next_event(n.outer, 1, &ev));
        assert_false(next_event(n.other, 20, &ev));
    }
    nest_free(&n);
}

static void ids_of_requests_are_read_or_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"x",
                                      "0123456789abcde",
                                      ",0123456789abcdef",
                                      "0123456789abcdeg",
                                      "0123456789abcdef0123456789abcde",
                                      "0000000000000001,0000000000000001,"
                                      "0000000000000001,0000000000000001,"
                                      "0000000000000001,0000000000000001,"
                                      "0000000000000001,0000000000000001,"
                                      "0000000000000001"};
    struct snib_client *c = checking_client(false, true);
    struct snib_lock *l = lock_of(c, "X");
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_grant g;
    char request[SNIB_REQUEST_TEXT] = "x";
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        o.above = bad[i];
        assert_int_equal(snib_try(l, &o, &g, &e), SNIB_ERR_USAGE);
        assert_non_null(strstr(e.text, "above: "));
    }
    o.above = "0123456789ABCDEF,0123456789abcdef0123456789abcdef";
    assert_int_equal(snib_try(l, &o, &g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_grant_request(l, g, request, 32, &e), SNIB_ERR_USAGE);
    assert_string_equal(request, "");
    assert_int_equal(snib_grant_request(l, g, request, sizeof request, &e),
                     SNIB_ERR_OK);
    struct snib_view *v;
    assert_int_equal(snib_client_inspect(c, "X", 0, &v, &e), SNIB_ERR_OK);
    assert_string_equal(v->holders[0]->request, request);
    snib_view_free(v);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_grant_request(l, g, request, sizeof request, &e),
                     SNIB_ERR_NOT_HELD);
    snib_lock_free(l);
    snib_client_free(c);
}

/* All that another client is shown of a circle; the youngest wait first. */
static void a_circle_is_shown_with_all_that_is_known(void **state)
{
    (void)state;
    char url[64], request[2][SNIB_REQUEST_TEXT], host[256] = "";
    reason = "a\x01\x1f\x20~\x7fz";
    struct circle k = close_circle(true, 5000);
    struct snib_event none;
    assert_false(next_event(k.c, 600, &none)); /* till both waits are shown */
    reason = NULL;
    snprintf(url, sizeof url, "memory:deadlock%d", space);
    struct snib_client *other = client_on(url, false, 0);
    struct snib_cycle **v;
    size_t n;
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    assert_int_equal(
        snib_grant_request(k.x, k.held_x, request[1], sizeof request[1], &e),
        SNIB_ERR_OK);
    assert_int_equal(
        snib_grant_request(k.y, k.held_y, request[0], sizeof request[0], &e),
        SNIB_ERR_OK);
    assert_int_equal(snib_client_deadlocks(other, &v, &n, &e), SNIB_ERR_OK);
    assert_int_equal(n, 1);
    assert_int_equal(v[0]->count, 2);
    assert_true(v[0]->certain);
    for (int i = 0; i < 2; i++) {
        const struct snib_wait *w = v[0]->waits[i];
        assert_string_equal(w->name, i ? "Y" : "X");
        assert_int_equal(w->name_size, 1);
        assert_false(w->behind);
        assert_int_equal(w->who->owner, (i ? k.a : k.b) & INT64_MAX);
        assert_int_equal(w->who->pid, getpid());
        assert_string_equal(w->who->host, host);
        assert_string_equal(w->who->reason, "a?? ~?z");
        assert_int_equal(strlen(w->who->request), 32);
        request[i][16] = 0; /* of what it holds its first half is shown */
        assert_string_equal(w->who->holding, request[i]);
        assert_string_equal(w->who->client_id, v[0]->waits[0]->who->client_id);
        assert_false(w->who->self);
        assert_true(w->who->since_ms > 0);
        assert_int_equal(w->who->kind, SNIB_KIND_MUTEX);
    }
    assert_true(v[0]->waits[0]->who->since_ms >= v[0]->waits[1]->who->since_ms);
    snib_deadlocks_free(v, n);
    snib_client_free(other);
    end_circle(&k);
}

/* A call of snib_client_deadlocks, in a thread of its own. */
struct scan {
    pthread_t thread;
    struct snib_client *c;
    snib_err err;
    snib_instant back;
    _Atomic bool over;
};

static void *scans(void *arg)
{
    struct scan *s = arg;
    struct snib_cycle **v;
    size_t n;
    s->err = snib_client_deadlocks(s->c, &v, &n, NULL);
    s->back = snib__boottime();
    snib_deadlocks_free(v, n);
    s->over = true;
    return NULL;
}

/* Until when it pauses between its two scans; 0: it does not yet. */
static snib_instant pauses_until(struct snib_client *c)
{
    snib_instant until = {0};
    pthread_mutex_lock(&c->mu);
    struct snib__link *l = snib__list_first(&c->calls.roles.waiting);
    if (l) {
        struct snib__call *call =
            snib__call_of(SNIB__CONTAINER(l, struct snib__waiter, link));
        until = call->direct->inner ? until : call->limit;
    }
    pthread_mutex_unlock(&c->mu);
    return until;
}

/* A circle is refused a while after it has closed, so each try has its own. */
static bool close_ends_a_pause(void)
{
    char url[64];
    struct circle k = close_circle(true, 60000);
    struct snib_event none;
    struct scan s = {0};
    snib_instant until = {0};
    assert_false(next_event(k.c, 600, &none)); /* till both waits are shown */
    snprintf(url, sizeof url, "memory:deadlock%d", space);
    s.c = client_on(url, false, 0);
    assert_int_equal(pthread_create(&s.thread, NULL, scans, &s), 0);
    while (!until.ns && !s.over) {
        until = pauses_until(s.c);
    }
    snib_client_close(s.c);
    assert_int_equal(pthread_join(s.thread, NULL), 0);
    bool ended = until.ns && s.back.ns < until.ns - 100000000;
    if (ended) {
        assert_int_equal(s.err, SNIB_ERR_CLOSED);
    }
    snib_client_free(s.c);
    end_circle(&k);
    return ended;
}

/* The pause takes 600 ms. Whether the close ended it is seen only if this
 * machine did not stand still for that long: so ten times. */
static void a_close_ends_the_pause_between_two_scans(void **state)
{
    (void)state;
    bool ended = false;
    for (int i = 0; i < 10 && !ended; i++) {
        ended = close_ends_a_pause();
    }
    assert_true(ended);
}

static void wrong_arguments_are_told(void **state)
{
    (void)state;
    struct snib_client *c = checking_client(false, true);
    struct snib_cycle **v;
    size_t n;
    assert_int_equal(snib_client_deadlocks(NULL, &v, &n, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_client_deadlocks(c, NULL, &n, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_client_deadlocks(c, &v, NULL, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_client_deadlocks(c, &v, &n, &e), SNIB_ERR_OK);
    assert_int_equal(n, 0);
    assert_null(v);
    snib_deadlocks_free(v, n);
    snib_client_close(c);
    assert_int_equal(snib_client_deadlocks(c, &v, &n, &e), SNIB_ERR_CLOSED);
    snib_client_free(c);
}

int main(void)
{
    const struct CMUnitTest deadlock[] = {
        cmocka_unit_test(a_pull_client_looks_in_process),
        cmocka_unit_test(switched_off_it_waits_until_its_limit),
        cmocka_unit_test(a_owner_that_waits_twice_is_not_refused),
        cmocka_unit_test(a_circle_through_what_is_held_above_is_refused),
        cmocka_unit_test(a_wait_that_is_not_heard_of_refuses_nobody),
        cmocka_unit_test(ids_of_requests_are_read_or_refused),
        cmocka_unit_test(a_circle_is_shown_with_all_that_is_known),
        cmocka_unit_test(a_close_ends_the_pause_between_two_scans),
        cmocka_unit_test(wrong_arguments_are_told),
    };
    return RUN(deadlock);
}

/* tests/unit/test_unsent.c — callers of a store across a network whose limits
 * come while it still looks for its server: nothing of theirs was sent, they
 * hear so, and it stays true. labels: thread
 *
 * The public interface, over the library of far_library.h.
 * wraps: snib__store_find snib__sharing_stalls */
#include "far_library.h"

#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/semaphore.h"

enum { REQUEST_MS = 1000, MUCH_MS = 20000, LIMIT_MS = 200 };

static const snib__session callers = SNIB__SESSION_CALLERS;

/* Nothing else has told that the server does not answer. */
static bool nobody_says_so;

bool __real_snib__sharing_stalls(const struct snib__store *, snib_instant now,
                                 struct snib__store_state *ret);
bool __wrap_snib__sharing_stalls(const struct snib__store *, snib_instant now,
                                 struct snib__store_state *ret);

bool __wrap_snib__sharing_stalls(const struct snib__store *s, snib_instant now,
                                 struct snib__store_state *ret)
{
    return !nobody_says_so && __real_snib__sharing_stalls(s, now, ret);
}

static struct snib_client *far_client(void)
{
    char url[64];
    snprintf(url, sizeof url, "memory:case%d", space);
    return client_on(url, false, REQUEST_MS);
}

/* What the server did until now. */
static uint32_t logged(void)
{
    pthread_mutex_lock(&far.mu);
    uint32_t n = far.logged;
    pthread_mutex_unlock(&far.mu);
    return n;
}

/* The limit counts, and nothing is waited for beside it. */
static void expect_unreachable(struct snib_lock *l)
{
    struct snib_grant g;
    int64_t t = now_ms();
    assert_int_equal(acquire(l, LIMIT_MS, &g), SNIB_ERR_UNREACHABLE);
    t = now_ms() - t;
    assert_non_null(strstr(e.text, "no answer from the server for"));
    assert_in_range(t, LIMIT_MS, MUCH_MS);
}

/* The second one has a request of its own, which no worker has. */
static void a_limit_before_the_connection_is_told_as_what_it_is(void **state)
{
    (void)state;
    struct snib_client *c = far_client();
    struct snib_lock *l = lock_of(c, "x");
    struct snib_store_status is;
    struct snib_grant g;
    far_is(callers, CONNECTS);
    expect_unreachable(l);
    expect_unreachable(l);
    snib_client_store_status(c, &is);
    assert_false(is.reachable);
    far_is(callers, WELL);
    assert_int_equal(acquire(l, MUCH_MS, &g), SNIB_ERR_OK);
    assert_int_equal(logged(), 1); /* the last one's, and no cancel */
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    snib_client_free(c);
}

static void a_try_before_the_connection_is_told_as_what_it_is(void **state)
{
    (void)state;
    struct snib_client *c = far_client();
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    far_is(callers, CONNECTS);
    assert_int_equal(snib_try(l, NULL, &g, &e), SNIB_ERR_UNREACHABLE);
    far_is(callers, WELL);
    assert_int_equal(acquire(l, MUCH_MS, &g), SNIB_ERR_OK);
    assert_int_equal(logged(), 1);
    snib_client_free(c);
}

static void one_that_was_started_is_told_so_too(void **state)
{
    (void)state;
    struct snib_client *c = far_client();
    struct snib_lock *l = lock_of(c, "x");
    struct snib_event ev;
    uint64_t ticket;
    far_is(callers, CONNECTS);
    assert_int_equal(snib_try_for_start(l, LIMIT_MS, NULL, NULL, &ticket, &e),
                     SNIB_ERR_OK);
    while (!snib_client_next(c, &ev, sizeof ev)) {
        nap(1);
    }
    assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_UNREACHABLE);
    far_is(callers, WELL);
    snib_client_free(c);
    assert_int_equal(logged(), 0);
}

/* Another caller's limit is later: the request goes on for that one alone. */
static void who_waits_longer_is_served(void **state)
{
    (void)state;
    struct snib_client *c = far_client();
    struct snib_lock *l = lock_of(c, "x");
    struct snib_event ev;
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    uint64_t ticket;
    far_is(callers, CONNECTS);
    o.owner = snib_owner_new();
    assert_int_equal(snib_try_for_start(l, MUCH_MS, &o, NULL, &ticket, &e),
                     SNIB_ERR_OK);
    far_until_inside(callers);
    struct snib_grant g;
    assert_int_equal(acquire(l, LIMIT_MS, &g), SNIB_ERR_UNREACHABLE);
    assert_int_equal(logged(), 0);
    far_is(callers, WELL);
    while (!snib_client_next(c, &ev, sizeof ev)) {
        nap(1);
    }
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    snib_client_free(c);
}

static void a_change_before_the_connection_is_not_unknown(void **state)
{
    (void)state;
    struct snib_client *c = far_client();
    far_is(callers, CONNECTS);
    snib_err err = snib_semaphore_set(c, "s", 0, 5, false, NULL, &e);
    assert_int_equal(err, SNIB_ERR_UNREACHABLE);
    far_is(callers, WELL);
    struct snib_grant g;
    struct snib_lock *l = lock_of(c, "x");
    assert_int_equal(acquire(l, MUCH_MS, &g), SNIB_ERR_OK);
    assert_int_equal(logged(), 1);
    snib_client_free(c);
}

/* A worker that began a little later than the caller is not late by the caller's
 * limit. */
static void a_look_before_the_connection_says_what_was_waited_for(void **state)
{
    (void)state;
    struct snib_client *c = far_client();
    struct snib_view *v;
    far_is(callers, CONNECTS);
    nobody_says_so = true;
    snib_err err = snib_client_inspect(c, "x", 0, &v, &e);
    nobody_says_so = false;
    assert_int_equal(err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "no answer from the server for"));
    far_is(callers, WELL);
    snib_client_free(c);
}

/* The bytes are on their way: nobody knows. */
static void after_it_was_sent_it_is_unknown(void **state)
{
    (void)state;
    struct snib_client *c = far_client();
    struct snib_lock *l = lock_of(c, "x");
    struct snib_grant g;
    far_is(callers, STALLS);
    assert_int_equal(acquire(l, LIMIT_MS, &g), SNIB_ERR_UNKNOWN);
    far_is(callers, WELL);
    snib_client_free(c);
}

#define CASE(f) cmocka_unit_test_setup(f, far_new)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_limit_before_the_connection_is_told_as_what_it_is),
        CASE(a_try_before_the_connection_is_told_as_what_it_is),
        CASE(one_that_was_started_is_told_so_too),
        CASE(who_waits_longer_is_served),
        CASE(a_change_before_the_connection_is_not_unknown),
        CASE(a_look_before_the_connection_says_what_was_waited_for),
        CASE(after_it_was_sent_it_is_unknown),
    };
    return RUN(cases);
}

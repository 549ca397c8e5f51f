/* tests/unit/test_multi_apart.c — a multi, one of whose locks its client is
 * still giving back, over a server that is slow to hear of it. labels: thread
 *
 * The public interface, over the library of far_library.h.
 * wraps: snib__store_find */
#include "far_library.h"

#include "snib/event.h"
#include "snib/multi.h"

enum { REQUEST_MS = 20000, LIMIT_MS = 600 };

static const snib__session callers = SNIB__SESSION_CALLERS;

struct apart {
    struct snib_client *c, *stranger;
    struct snib_lock *l[2], *theirs;
    struct snib_multi *m;
    struct snib_grant held; /* of theirs */
    snib_err err;
    int64_t limit_ms;
};

static void *tries(void *arg)
{
    struct apart *a = arg;
    struct snib_grant g[2];
    a->err = snib_multi_try_for(a->m, a->limit_ms, NULL, g, NULL);
    return NULL;
}

/* How many acquires, by their ids, the server has seen. */
static int acquires_seen(void)
{
    int n = 0;
    pthread_mutex_lock(&far.mu);
    for (uint32_t i = 0; i < far.logged; i++) {
        bool is = far.log[i].verb == SNIB__ACQUIRE;
        for (uint32_t k = 0; k < i; k++) {
            is = is && far.log[k].id != far.log[i].id;
        }
        n += is;
    }
    pthread_mutex_unlock(&far.mu);
    return n;
}

/* All that it asks for at once it asks for in one step. */
static void until_it_waits(struct snib_client *c)
{
    struct snib__counts counts;
    do {
        nap(1);
        snib__client_counts(c, &counts, NULL, NULL);
    } while (!counts.waiting);
}

/* A multi of a and b, begun while b's release is on its way. Is a free? */
static void run_beside_a_release(struct apart *a, bool is_free,
                                 int64_t limit_ms)
{
    char url[64];
    struct snib_grant g;
    struct snib_event ev;
    pthread_t thread;
    snprintf(url, sizeof url, "memory:case%d", space);
    *a = (struct apart){.c = client_on(url, false, REQUEST_MS),
                        .limit_ms = limit_ms};
    a->stranger = plain_client();
    a->theirs = lock_of(a->stranger, "a");
    a->l[0] = lock_of(a->c, "a");
    a->l[1] = lock_of(a->c, "b");
    assert_int_equal(snib_multi_new(a->l, 2, NULL, &a->m, &e), SNIB_ERR_OK);
    if (!is_free) {
        assert_int_equal(snib_try(a->theirs, NULL, &a->held, &e), SNIB_ERR_OK);
    }
    assert_int_equal(snib_try(a->l[1], NULL, &g, &e), SNIB_ERR_OK);
    far_is(callers, STALLS);
    assert_int_equal(snib_release_start(a->l[1], g, NULL, &e), SNIB_ERR_OK);
    far_until_inside(callers);
    pthread_create(&thread, NULL, tries, a);
    until_it_waits(a->c);
    far_is(callers, WELL);
    pthread_join(thread, NULL);
    while (!snib_client_next(a->c, &ev, sizeof ev)) {
        nap(1);
    }
}

static void apart_free(struct apart *a)
{
    snib_multi_free(a->m);
    snib_lock_free(a->l[0]);
    snib_lock_free(a->l[1]);
    snib_lock_free(a->theirs);
    snib_client_free(a->c);
    snib_client_free(a->stranger);
}

/* b was held, a is tried and waited for: three, and none for b behind a. */
static void who_waits_asks_for_nothing_behind_what_it_waits_for(void **state)
{
    (void)state;
    struct apart a;
    run_beside_a_release(&a, false, LIMIT_MS);
    assert_int_equal(a.err, SNIB_ERR_TIMEOUT);
    assert_int_equal(acquires_seen(), 3);
    apart_free(&a);
}

/* It is asked for when a is held. */
static void what_was_not_asked_for_comes_next(void **state)
{
    (void)state;
    struct apart a;
    run_beside_a_release(&a, true, REQUEST_MS);
    assert_int_equal(a.err, SNIB_ERR_OK);
    assert_int_equal(acquires_seen(), 3);
    apart_free(&a);
}

/* A try has no second visit, so each is asked for by itself. */
static void a_try_asks_for_all_of_them(void **state)
{
    (void)state;
    struct apart a;
    run_beside_a_release(&a, true, 0);
    assert_int_equal(a.err, SNIB_ERR_OK);
    assert_int_equal(acquires_seen(), 3);
    apart_free(&a);
}

#define CASE(f) cmocka_unit_test_setup(f, far_new)

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(who_waits_asks_for_nothing_behind_what_it_waits_for),
        CASE(what_was_not_asked_for_comes_next),
        CASE(a_try_asks_for_all_of_them),
    };
    return RUN(cases);
}

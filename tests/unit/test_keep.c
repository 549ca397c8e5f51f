/* tests/unit/test_keep.c — released locks that are kept, by the public
 * interface, on memory:.
 * labels: thread */
#include "run_memory.h"
#include "snib/inspect.h"
#include "snib/multi.h"

static struct snib_lock *kept_of(struct snib_client *c, int64_t keep_ms)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.keep_ms = keep_ms;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &e), SNIB_ERR_OK);
    return l;
}

/* How long the only holder of x may merely keep it; -1: nobody holds it. */
static int64_t shown(struct snib_client *c)
{
    struct snib_view *v;
    assert_int_equal(snib_client_inspect(c, "x", 0, &v, &e), SNIB_ERR_OK);
    int64_t ms = v->holder_count ? v->holders[0]->keep_ms : -1;
    snib_view_free(v);
    return ms;
}

/* Holds and releases until it is kept: not before the client hears of others. */
static int64_t keep(struct snib_client *c, struct snib_lock *l)
{
    struct snib_grant g = {0};
    for (int i = 0; shown(c) < 0; i++) {
        assert_true(i < 2000);
        assert_int_equal(snib_acquire(l, NULL, &g, &e), SNIB_ERR_OK);
        assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
        if (shown(c) < 0) {
            nap(1);
        }
    }
    return g.token;
}

static void its_client_enters_again_with_a_higher_token(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = kept_of(c, 1000);
    struct snib_grant g;
    int64_t token = keep(c, l);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(snib_acquire(l, NULL, &g, &e), SNIB_ERR_OK);
        assert_true(g.token > token);
        assert_true(snib_grant_held(l, g));
        token = g.token;
        assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
        assert_false(snib_grant_held(l, g));
    }
    snib_lock_free(l);
    snib_client_free(c);
}

static void another_client_gets_it_when_it_asks(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false), *d = open_client("", false);
    struct snib_lock *l = kept_of(c, 1000), *m = kept_of(d, 0);
    struct snib_grant g, h;
    for (int i = 0; i < 20; i++) {
        int64_t token = keep(c, l), from = now_ms();
        assert_int_equal(snib_acquire(m, NULL, &h, &e), SNIB_ERR_OK);
        assert_true(now_ms() - from < 900);
        assert_true(h.token > token);
        assert_int_equal(snib_try(l, NULL, &g, &e), SNIB_ERR_BUSY);
        assert_int_equal(snib_release(m, h, &e), SNIB_ERR_OK);
    }
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(d);
    snib_client_free(c);
}

/* What was asked for while its owner was inside is not kept once its client has
 * heard of that: long before its time is up, in the quickest of five rounds. */
static void a_try_of_another_is_told_of_a_holder(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false), *d = open_client("", false);
    struct snib_lock *l = kept_of(c, SNIB_KEEP_MAX_MS), *m = kept_of(d, 0);
    struct snib_grant g, h;
    int64_t quickest = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        keep(c, l);
        assert_int_equal(snib_acquire(l, NULL, &g, &e), SNIB_ERR_OK);
        assert_int_equal(snib_try(m, NULL, &h, &e), SNIB_ERR_BUSY);
        assert_non_null(strstr(e.text, "or keeps it for its own next use"));
        assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
        int64_t from = now_ms();
        while (shown(d) >= 0) {
            nap(1);
        }
        quickest = now_ms() - from < quickest ? now_ms() - from : quickest;
    }
    assert_true(quickest < SNIB_KEEP_MAX_MS / 2);
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(d);
    snib_client_free(c);
}

static void it_goes_back_when_its_time_is_up(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = kept_of(c, 20);
    keep(c, l);
    for (int i = 0; shown(c) >= 0; i++) {
        assert_true(i < 2000);
        nap(1);
    }
    snib_lock_free(l);
    snib_client_free(c);
}

static void a_client_that_ends_gives_it_back(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false), *d = open_client("", false);
    struct snib_lock *l = kept_of(c, 1000);
    keep(c, l);
    snib_lock_free(l);
    snib_client_free(c);
    assert_int_equal(shown(d), -1);
    snib_client_free(d);
}

static void inspect_shows_how_long_it_may_be_kept(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l = kept_of(c, 250), *m = lock_of(c, "x");
    struct snib_grant g;
    assert_int_equal(snib_acquire(l, NULL, &g, &e), SNIB_ERR_OK);
    assert_int_equal(shown(c), 250);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_acquire(m, NULL, &g, &e), SNIB_ERR_OK);
    assert_int_equal(snib_release(m, g, &e), SNIB_ERR_OK);
    assert_int_equal(shown(c), -1);
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
}

static void several_as_one_enter_what_is_kept(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    struct snib_lock *l[2] = {kept_of(c, 1000), lock_of(c, "y")};
    struct snib_multi *m;
    struct snib_grant g[2];
    assert_int_equal(snib_multi_new(l, 2, NULL, &m, &e), SNIB_ERR_OK);
    for (int i = 0; i < 20; i++) {
        int64_t token = keep(c, l[0]);
        assert_int_equal(i % 2 ? snib_multi_try(m, NULL, g, &e)
                               : snib_multi_try_for(m, 5000, NULL, g, &e),
                         SNIB_ERR_OK);
        assert_true(g[0].token > token);
        assert_true(snib_grant_held(l[0], g[0]) && snib_grant_held(l[1], g[1]));
        assert_int_equal(snib_multi_release(m, g, &e), SNIB_ERR_OK);
    }
    snib_multi_free(m);
    snib_lock_free(l[0]);
    snib_lock_free(l[1]);
    snib_client_free(c);
}

static void a_closed_client_keeps_nothing(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false), *d = open_client("", false);
    struct snib_lock *l = kept_of(c, 1000);
    struct snib_grant g;
    keep(c, l);
    snib_client_close(c);
    for (int i = 0; shown(d) >= 0; i++) {
        assert_true(i < 500);
        nap(1);
    }
    snib_lock_free(l);
    snib_client_free(c);
    c = open_client("", false);
    l = kept_of(c, 1000);
    keep(c, l);
    assert_int_equal(snib_acquire(l, NULL, &g, &e), SNIB_ERR_OK);
    snib_client_close(c);
    assert_int_equal(snib_release(l, g, &e), SNIB_ERR_OK);
    assert_int_equal(shown(d), -1);
    snib_lock_free(l);
    snib_client_free(c);
    snib_client_free(d);
}

static void what_cannot_be_kept_is_refused(void **state)
{
    (void)state;
    struct snib_client *c = open_client("", false);
    for (int i = 0; i < 10; i++) {
        struct snib_lock_options o = SNIB_INIT(snib_lock_options);
        struct snib_lock *l;
        o.keep_ms = i == 1 ? -1 : i == 2 ? 1001 : 1000;
        o.kind = i == 3   ? SNIB_KIND_WRITE
                 : i == 4 ? SNIB_KIND_READ
                          : SNIB_KIND_MUTEX;
        o.fixed_lease = i == 5;
        o.aggressive = i == 6;
        o.spin = i == 7;
        o.no_local_hand_over = i == 8;
        o.lock_delay_ms = i == 9;
        assert_int_equal(snib_lock_new(c, "x", &o, &l, &e),
                         i ? SNIB_ERR_USAGE : SNIB_ERR_OK);
        assert_true(!i || !strncmp(e.text, "keep_ms is ", 11));
        snib_lock_free(l);
    }
    snib_client_free(c);
}

static void a_store_that_tells_nobody_refuses_it(void **state)
{
    (void)state;
    char path[] = "/tmp/snib-keep-XXXXXX", url[64];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    snprintf(url, sizeof url, "file:%s", path);
    struct snib_client *c = client_on(url, false, 0);
    struct snib_lock *l = kept_of(c, 10);
    struct snib_grant g;
    assert_int_equal(snib_acquire(l, NULL, &g, &e), SNIB_ERR_UNSUPPORTED);
    assert_non_null(strstr(e.text, "keep_ms"));
    snib_lock_free(l);
    snib_client_free(c);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest keep_tests[] = {
        cmocka_unit_test_setup(its_client_enters_again_with_a_higher_token,
                               new_space),
        cmocka_unit_test_setup(another_client_gets_it_when_it_asks, new_space),
        cmocka_unit_test_setup(a_try_of_another_is_told_of_a_holder, new_space),
        cmocka_unit_test_setup(it_goes_back_when_its_time_is_up, new_space),
        cmocka_unit_test_setup(a_client_that_ends_gives_it_back, new_space),
        cmocka_unit_test_setup(inspect_shows_how_long_it_may_be_kept,
                               new_space),
        cmocka_unit_test_setup(several_as_one_enter_what_is_kept, new_space),
        cmocka_unit_test_setup(a_closed_client_keeps_nothing, new_space),
        cmocka_unit_test(what_cannot_be_kept_is_refused),
        cmocka_unit_test(a_store_that_tells_nobody_refuses_it),
    };
    return RUN(keep_tests);
}

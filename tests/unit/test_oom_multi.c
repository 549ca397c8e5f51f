/* tests/unit/test_oom_multi.c — every allocation fails once: several locks as
 * one, and elections.
 * labels: oom
 *
 * As test_oom.c: allocation n fails, alone and with all later ones, until a
 * run passes untouched. Outcomes are documented ones; nothing stays alive, and
 * nothing stays held. */
#include "unit.h"

#include "snib.h"
#include "snib/elect.h"
#include "snib/multi.h"

static const char *const url = "memory:oom-multi";
static const char *wrong;

static void expect(bool good, const char *what)
{
    if (!good && !wrong) {
        wrong = what;
    }
}

static bool clean(snib_err err)
{
    return err == SNIB_ERR_OK || err == SNIB_ERR_NOMEM ||
           err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE ||
           err == SNIB_ERR_TIMEOUT || err == SNIB_ERR_LIMIT;
}

static bool use_multi(struct snib_lock *const locks[2])
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_multi *m;
    struct snib_grant g[2];
    struct snib_error e;
    snib_err err = snib_multi_new(locks, 2, NULL, &m, &e);
    expect(clean(err) && err == e.code && !err == (m != NULL), "multi_new");
    if (err) {
        return false;
    }
    o.wait_ms = 2000;
    o.reason = "out of memory";
    err = snib_multi_acquire(m, &o, g, &e);
    expect(clean(err) && err == e.code, "multi_acquire");
    if (err) {
        expect(!g[0].ticket && !g[1].ticket, "grants of a failure");
    } else {
        err = snib_multi_release(m, g, &e);
        expect(clean(err) || err == SNIB_ERR_LOST, "multi_release");
    }
    snib_multi_free(m);
    return !err;
}

static bool use_elect(struct snib_client *c)
{
    struct snib_elect_options o = SNIB_INIT(snib_elect_options);
    struct snib_elect *el;
    struct snib_leader *l;
    struct snib_error e;
    int64_t term;
    o.id = "out of memory";
    snib_err err = snib_elect_new(c, "oom-e", &o, &el, &e);
    expect(clean(err) && err == e.code && !err == (el != NULL), "elect_new");
    if (err) {
        return false;
    }
    err = snib_elect_campaign(el, 2000, &term, &e);
    expect(clean(err) && err == e.code, "campaign");
    bool all = !err;
    err = snib_elect_leader(el, &l, &e);
    expect(clean(err) && !err == (l != NULL), "leader");
    all = all && !err;
    snib_leader_free(l);
    if (snib_elect_leading(el)) {
        err = snib_elect_resign(el, &e);
        expect(clean(err) || err == SNIB_ERR_LOST, "resign");
        all = all && !err;
    }
    snib_elect_free(el);
    return all;
}

/* True: nothing was in the way. */
static bool one_run(void)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_lock *lock[2] = {NULL, NULL};
    struct snib_error e;
    bool all = false;
    o.url = url;
    o.request_ms = 250;
    snib_err err = snib_client_open(&o, &c, &e);
    expect(clean(err), "open");
    if (err) {
        return false;
    }
    if (snib_lock_new(c, "oom-b", NULL, &lock[0], &e) == SNIB_ERR_OK &&
        snib_lock_new(c, "oom-a", NULL, &lock[1], &e) == SNIB_ERR_OK) {
        all = use_multi(lock);
    }
    all = use_elect(c) && all;
    snib_lock_free(lock[0]);
    snib_lock_free(lock[1]);
    snib_client_free(c);
    return all;
}

/* Within less than a lease. */
static void somebody_else_gets(const char *name)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_acquire_options a = SNIB_INIT(snib_acquire_options);
    struct snib_client *c;
    struct snib_lock *l;
    struct snib_grant g;
    struct snib_error e;
    o.url = url;
    a.wait_ms = 5000;
    if (snib_client_open(&o, &c, &e) || snib_lock_new(c, name, NULL, &l, &e)) {
        expect(false, "open afterwards");
        return;
    }
    expect(snib_acquire(l, &a, &g, &e) == SNIB_ERR_OK, "left held");
    snib_lock_free(l);
    snib_client_free(c);
}

/* Whether the failure that was ordered has come: else it comes now. */
static bool failure_has_come(bool for_ever)
{
    void *p[64];
    int n = 0;
    while (n < 64 && (p[n] = snib__alloc(1))) {
        n++;
    }
    bool all = n == 64, at_once = n == 0;
    while (n > 0) {
        snib__free(p[--n]);
    }
    return for_ever ? at_once : all;
}

static void fail_each(bool for_ever)
{
    int64_t n = 1;
    for (bool passed = false; !passed; n++) {
        wrong = NULL;
        snib__mem_fail_at(n, for_ever);
        bool all = one_run();
        bool came = failure_has_come(for_ever);
        snib__mem_fail_at(0, false);
        expect(snib__mem_alive() == 0, "blocks are alive");
        if (!wrong) {
            somebody_else_gets("oom-a");
            somebody_else_gets("oom-b");
            somebody_else_gets("oom-e");
        }
        if (wrong) {
            print_error("allocation %lld (%s): %s; %lld alive\n", (long long)n,
                        for_ever ? "and later" : "alone", wrong,
                        (long long)snib__mem_alive());
        }
        assert_null(wrong);
        passed = all && !came;
        assert_true(n < 5000);
    }
    print_message("%lld allocations\n", (long long)n - 2);
}

static void each_failed_allocation_is_borne(void **state)
{
    (void)state;
    fail_each(false);
}

static void the_end_of_memory_is_borne(void **state)
{
    (void)state;
    fail_each(true);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        cmocka_unit_test(each_failed_allocation_is_borne),
        cmocka_unit_test(the_end_of_memory_is_borne),
    };
    return RUN(cases);
}

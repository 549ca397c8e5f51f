/* tests/conformance/multi_rig.h — two clients, three names, one multi. */
#ifndef SNIB_TESTS_CONFORMANCE_MULTI_RIG_H
#define SNIB_TESTS_CONFORMANCE_MULTI_RIG_H

#include "kit.h"
#include "snib/inspect.h"
#include "snib/multi.h"

static struct snib_error e;

static struct snib_multi *multi_of(struct snib_lock *const locks[], size_t n)
{
    struct snib_multi *m;
    if (snib_multi_new(locks, n, NULL, &m, &e)) {
        fail_msg("multi: %s", e.text);
    }
    return m;
}

static snib_err take_all(struct snib_multi *m, int64_t ms,
                         struct snib_grant g[])
{
    return snib_multi_try_for(m, ms, NULL, g, &e);
}

/* No client holds or awaits it, as another client sees. */
static void assert_free(const char *at, const char *name)
{
    struct snib_client *c = open_at(at);
    struct snib_view *v;
    must(snib_client_inspect(c, name, 0, &v, &e));
    size_t holders = v->holder_count, waiters = v->waiter_count;
    snib_view_free(v);
    snib_client_free(c);
    assert_int_equal(holders, 0);
    assert_int_equal(waiters, 0);
}

/* Two clients, three names: x and z at store_url(), y at the other one. */
struct rig {
    struct snib_client *here, *there, *stranger;
    const char *x, *y, *z;
    struct snib_lock *lock[3]; /* x, y, z */
    struct snib_multi *multi;
};

static struct rig rig_new(void)
{
    struct rig r = {.here = open_client(),
                    .there = open_at(other_url()),
                    .x = fresh_name(),
                    .y = fresh_name(),
                    .z = fresh_name()};
    r.stranger = open_client();
    r.lock[0] = lock_with(r.here, r.x, NULL);
    r.lock[1] = lock_with(r.there, r.y, NULL);
    r.lock[2] = lock_with(r.here, r.z, NULL);
    r.multi = multi_of(r.lock, 3);
    return r;
}

static void rig_free(struct rig *r)
{
    snib_multi_free(r->multi);
    for (int i = 0; i < 3; i++) {
        snib_lock_free(r->lock[i]);
    }
    snib_client_free(r->here);
    snib_client_free(r->there);
    snib_client_free(r->stranger);
}

static void assert_all_free(const struct rig *r)
{
    assert_free(store_url(), r->x);
    assert_free(other_url(), r->y);
    assert_free(store_url(), r->z);
}

#endif

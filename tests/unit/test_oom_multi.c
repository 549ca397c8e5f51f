/* tests/unit/test_oom_multi.c — every allocation fails once (oom.h): several
 * locks as one, and elections.
 * labels: oom */
#include "oom.h"

#include "snib/elect.h"
#include "snib/multi.h"

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
    o.reason = "out of memory";
    err = snib_multi_try_for(m, 2000, &o, g, &e);
    expect(clean(err) && err == e.code, "multi_acquire");
    bool all = !err;
    if (err) {
        expect(!g[0].ticket && !g[1].ticket, "grants of a failure");
    } else {
        all = done_or_lost(snib_multi_release(m, g, &e), "multi_release");
    }
    snib_multi_free(m);
    return all;
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
    err = snib_elect_try_for(el, 2000, &term, &e);
    expect(clean(err) && err == e.code, "campaign");
    bool all = !err;
    err = snib_elect_leader(el, &l, &e);
    expect(clean(err) && !err == (l != NULL), "leader");
    all = all && !err;
    snib_leader_free(l);
    if (snib_elect_leading(el)) {
        all = done_or_lost(snib_elect_resign(el, &e), "resign") && all;
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
    if (!done(snib_client_open(&o, &c, &e), "open")) {
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

#define CASE(name, for_ever)                                                   \
    {                                                                          \
#name, bears, set_url, NULL, &(struct oom)                             \
        {                                                                      \
            "memory:oom-multi", for_ever, one_run,                             \
            {                                                                  \
                "oom-a", "oom-b", "oom-e"                                      \
            }                                                                  \
        }                                                                      \
    }

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(each_failed_allocation_is_borne, false),
        CASE(the_end_of_memory_is_borne, true),
    };
    return RUN(cases);
}

/* wide_several.c — several locks as one, blocks and declared locks. */
#include <inttypes.h>
#include <string.h>

#include "snib/policy.h"
#include "wide.h"

static void make(struct wide_actor *a)
{
    struct snib_multi_options o = SNIB_INIT(snib_multi_options);
    struct snib_lock *locks[5];
    struct snib_error e, *to = reserve(&e);
    struct snib_multi *m = NULL;
    size_t n = pick("locks", 5);
    for (size_t i = 0; i < n; i++) {
        locks[i] = a->lock[pick("lock", WIDE_LOCKS)];
        for (int k = 0; k < WIDE_LOCKS && !locks[i]; k++) {
            locks[i] = a->lock[k];
        }
        if (chance("none", 40)) {
            locks[i] = NULL;
        }
    }
    o.size += chance("odd size", 30);
    size_t most = chance("too many", 60) ? SNIB_MULTI_MAX + 1 : n;
    snib_err err = snib_multi_new(chance("no locks", 60) ? NULL : locks, most,
                                  chance("no options", 2) ? NULL : &o, &m, to);
    (void)told("multi_new", err, to);
    if (!err != !!m || (m && snib_multi_count(m) != n)) {
        sched_fail("multi_new returned %s and a multi, or none",
                   snib_err_name(err));
    }
    a->multi = m;
    a->multi_held = false;
    memset(a->of_multi, 0, sizeof a->of_multi);
}

static void status(struct wide_actor *a)
{
    struct snib_multi_status s;
    memset(&s, 1, sizeof s);
    snib_multi_status(a->multi, a->of_multi, &s, sizeof s);
    bool held = snib_multi_held(a->multi, a->of_multi);
    size_t missing = snib_multi_missing(a->multi);
    tell("multi %s %s left %" PRId64 " member %zu held %d missing %zu",
         snib_state_text(s.state), snib_cause_text(s.cause), s.left_ms,
         s.member, held, missing);
}

static void acquire(struct wide_actor *a)
{
    struct snib_acquire_options o;
    struct snib_error e, *to = reserve(&e);
    int64_t wait_ms;
    bool given = wide_options(&o, &wait_ms);
    size_t n = snib_multi_count(a->multi);
    struct snib_grant was[4];
    memcpy(was, a->of_multi, sizeof was);
    snib_err err =
        wide_is_short(wait_ms, INT64_MAX)
            ? snib_multi_acquire(a->multi, given ? &o : NULL, a->of_multi, to)
        : wide_is_short(wait_ms, 0)
            ? snib_multi_try(a->multi, given ? &o : NULL, a->of_multi, to)
            : snib_multi_try_for(a->multi, wait_ms, given ? &o : NULL,
                                 a->of_multi, to);
    (void)told("multi_acquire", err, to);
    for (size_t i = 0; i < n; i++) {
        tell_grant("member", err, a->of_multi[i]);
        if (!err && chance("by itself", 12)) {
            for (int k = 0; k < WIDE_LOCKS; k++) {
                wide_remember(a, a->lock[k], a->of_multi[i]);
            }
        }
    }
    if (!err) {
        a->multi_held = true;
    } else if (a->multi_held) {
        memcpy(a->of_multi, was, sizeof was);
    }
}

/* The one that all threads use, and that the watch cancels. */
static void all_of(struct wide_actor *a)
{
    struct snib_acquire_options o;
    struct snib_grant g[2] = {{7, 7}, {7, 7}};
    struct snib_error e, *to = reserve(&e);
    if (!wide.multi) {
        return;
    }
    int64_t wait_ms;
    bool given = wide_options(&o, &wait_ms);
    snib_err err =
        snib_multi_try_for(wide.multi, wait_ms, given ? &o : NULL, g, to);
    (void)told("acquire all", err, to);
    tell_grant("first", err, g[0]);
    tell_grant("second", err, g[1]);
    if (!err) {
        sched_sleep(sched_now() + (int64_t)pick("holds", 300) * 1000000);
        (void)told("release all", snib_multi_release(wide.multi, g, to), to);
    }
    tell("all but %zu", snib_multi_missing(wide.multi));
    (void)a;
}

static void multi(struct wide_actor *a)
{
    struct snib_error e, *to = reserve(&e);
    if (chance("of all", 4)) {
        all_of(a);
        return;
    }
    if (!a->multi) {
        make(a);
    }
    if (!a->multi) {
        return;
    }
    switch (pick("multi", 7)) {
    case 0:
    case 1:
    case 2:
        acquire(a);
        break;
    case 3:
    case 4:
    case 5:
        (void)told("multi_release",
                   snib_multi_release(a->multi, a->of_multi, to), to);
        a->multi_held = false;
        break;
    default:
        snib_multi_free(a->multi);
        a->multi = NULL;
        return;
    }
    status(a);
}

/* -- blocks ----------------------------------------------------------------------------- */

static void block(struct wide_actor *a)
{
    struct snib_acquire_options o;
    struct snib_error e = {0}, *to = chance("no room", 8) ? NULL : &e;
    struct snib_lock *lock = a->lock[pick("lock", WIDE_LOCKS)];
    int64_t wait_ms;
    bool given = wide_options(&o, &wait_ms);
    if (!lock && !chance("none", 4)) {
        return;
    }
    SNIB_WITH_TRY_FOR (s, lock, wait_ms, given ? &o : NULL, to) {
        tell_grant("block", s.err, s.grant);
        tell_status(s.lock, s.grant);
        if (chance("long", 3)) {
            sched_sleep(sched_now() + 300000000);
        }
        if (chance("breaks", 3)) {
            break;
        }
        if (to && chance("own error", 8)) {
            to->code = SNIB_ERR_BUSY;
        }
    }
    tell("block %s: %s", snib_err_name(e.code), e.text);
    struct snib_scope s =
        wide_is_short(wait_ms, INT64_MAX)
            ? snib_scope_begin(lock, given ? &o : NULL, to)
        : wide_is_short(wait_ms, 0)
            ? snib_scope_try(lock, given ? &o : NULL, to)
            : snib_scope_try_for(lock, wait_ms, given ? &o : NULL, to);
    tell("scope %s live %d", snib_err_name(s.err), s.live);
    snib_scope_end(&s);
    tell("scope %s live %d %s: %s", snib_err_name(s.err), s.live,
         snib_err_name(e.code), e.text);
}

/* -- declared locks ------------------------------------------------------------------------ */

static int body(void *data, struct snib_grant g)
{
    tell("body %d: %" PRIu64 " %" PRId64, (int)(intptr_t)data, g.ticket,
         g.token);
    if (chance("body is slow", 3)) {
        sched_sleep(sched_now() + 400000000);
    }
    return (int)pick("result", 5);
}

static int busy(void *data, const struct snib_error *e)
{
    tell("busy %d: %s %s", (int)(intptr_t)data, snib_err_name(e->code),
         e->text);
    return 10 + (int)pick("result", 5);
}

static void policy(void)
{
    static const char *const keys[] = {
        "a",  "a",      "{x}", "{x}{y}", "k:{x}", "{{{x}}}", "{x",     "x}",
        "{}", "{none}", "",    NULL,     "}}{{",  "{x}{",    "{y}:{x}"};
    static const char *const pairs[][6] = {{"x", "a", "y", "b", NULL},
                                           {"y", "b", "x", "a", NULL},
                                           {"x", "", NULL},
                                           {"x", NULL},
                                           {NULL}};
    static const int64_t leases[] = {0, 0, 200, 200, 1000, 49};
    struct snib_policy p = SNIB_INIT(snib_policy);
    struct snib_error e, *to = reserve(&e);
    int result = 77;
    int client = (int)pick("client", (uint64_t)wide.clients);
    struct snib_client *c = chance("nobody", 40) ? NULL : wide.client[client];
    p.name = chance("named", 4) ? "pay" : NULL;
    p.key = ONE_OF("key", keys);
    p.lock.lease_ms = ONE_OF("lease", leases);
    p.lock.fixed_lease = chance("fixed", 3);
    int64_t wait_ms = wide_wait();
    p.on_busy = (snib_on_busy)((int)pick("on busy", 5) - 1);
    p.busy = chance("no function", 4) ? NULL : busy;
    p.size -= chance("odd size", 30);
    const struct snib_policy *of = chance("no policy", 40) ? NULL : &p;
    const char *const *with =
        chance("no pairs", 12) ? NULL : ONE_OF("pairs", pairs);
    int (*runs)(void *, struct snib_grant) =
        chance("no body", 30) ? NULL : body;
    int *ret = chance("untold", 6) ? NULL : &result;
    void *data = (void *)(intptr_t)4;
    snib_err err =
        wide_is_short(wait_ms, INT64_MAX)
            ? snib_policy_run(c, of, with, runs, data, ret, to)
        : wide_is_short(wait_ms, 0)
            ? snib_policy_try(c, of, with, runs, data, ret, to)
            : snib_policy_try_for(c, wait_ms, of, with, runs, data, ret, to);
    (void)told("policy", err, to);
    tell("result %d", result);
}

void wide_several(struct wide_actor *a)
{
    switch (pick("several", 6)) {
    case 0:
        block(a);
        break;
    case 1:
        policy();
        break;
    case 2:
        wide_crowd(a);
        break;
    default:
        multi(a);
        break;
    }
}

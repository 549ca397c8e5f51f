/* tests/unit/test_oom_started.c — oom.h for operations that end in DONE: each
 * start has its event or its error, whatever allocation fails meanwhile, and
 * the results are by the call's rules. labels: thread oom */
#include "oom.h"

#include <unistd.h>

#include "snib/deadlock.h"
#include "snib/elect.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/multi.h"
#include "snib/policy.h"
#include "snib/ring.h"
#include "snib/semaphore.h"
#include "snib/value.h"

/* The answer to a start that returned err. */
static snib_err answer(struct snib_client *c, snib_err err, const char *what)
{
    struct snib_event ev;
    expect(clean(err), what);
    if (err) {
        return err;
    }
    for (int i = 0; i < 5000; i++) {
        if (snib_client_next(c, &ev, sizeof ev)) {
            if (ev.kind != SNIB_EVENT_DONE) {
                continue; /* a STATE */
            }
            expect(clean(ev.error.code), what);
            return ev.error.code;
        }
        usleep(1000);
    }
    expect(false, "no event");
    return SNIB_ERR_INTERNAL;
}

static void hear(void *data, const struct snib_finding *f)
{
    *(int *)data += f->check[0] != 0;
}

static bool look(struct snib_client *c)
{
    struct snib_view *view, **views;
    struct snib_cycle **cycles;
    struct snib_ring *ring;
    struct snib_error e;
    size_t n;
    int findings = 0;
    snib_err err, any = SNIB_ERR_OK;
    err = answer(c, snib_client_inspect_start(c, "oom", 0, &view, c, NULL, &e),
                 "inspect");
    expect(!err == !!view, "inspect's ret");
    snib_view_free(view);
    any = any ? any : err;
    err = answer(c, snib_client_list_start(c, NULL, &views, &n, c, NULL, &e),
                 "list");
    expect(!err || (!views && !n), "list's ret");
    snib_views_free(views, n);
    any = any ? any : err;
    err = answer(c, snib_client_deadlocks_start(c, &cycles, &n, c, NULL, &e),
                 "deadlocks");
    expect(!err || (!cycles && !n), "deadlocks' ret");
    snib_deadlocks_free(cycles, n);
    any = any ? any : err;
    err = answer(c, snib_ring_read_start(c, "oom", 0, &ring, c, NULL, &e),
                 "ring_read");
    expect(!err == !!ring, "ring_read's ret");
    snib_ring_free(ring);
    any = any ? any : err;
    err = answer(c, snib_client_doctor_start(c, hear, &findings, c, NULL, &e),
                 "doctor");
    expect(err || findings, "doctor tells");
    return !any && !err;
}

static bool change(struct snib_client *c)
{
    struct snib_semaphore size = {.size = -7};
    struct snib_error e;
    uint32_t left = 77;
    snib_err err, any = SNIB_ERR_OK;
    err = answer(
        c, snib_semaphore_set_start(c, "oom-s", 0, 3, false, NULL, c, NULL, &e),
        "semaphore_set");
    any = any ? any : err;
    err = answer(c,
                 snib_semaphore_get_start(c, "oom-s", 0, &size, sizeof size, c,
                                          NULL, &e),
                 "semaphore_get");
    expect(err ? size.size == -7 : any || size.size == 3, "the size");
    any = any ? any : err;
    err = answer(c, snib_latch_left_start(c, "oom-l", 0, &left, c, NULL, &e),
                 "latch_left");
    expect(left == (err ? 77 : 0), "the steps to go");
    any = any ? any : err;
    err = answer(c,
                 snib_client_force_release_start(c, "oom-f", 0, "so", &left, c,
                                                 NULL, &e),
                 "force_release");
    return !any && !err;
}

static bool write_value(struct snib_client *c)
{
    struct snib_value *v = NULL;
    struct snib_error e;
    int64_t version, then;
    snib_err err =
        answer(c, snib_value_get_start(c, "oom", 0, &v, c, NULL, &e), "get");
    expect(!err == !!v, "get's ret");
    if (err) {
        return false;
    }
    snib_err put = answer(c,
                          snib_value_put_start(c, "oom", 0, v->version, "1", 1,
                                               0, &version, c, NULL, &e),
                          "put");
    snib_value_free(v);
    expect(!put == !!version, "put's version");
    if (put) {
        return false;
    }
    err = answer(
        c, snib_value_delete_start(c, "oom", 0, version, &then, c, NULL, &e),
        "delete");
    return !err;
}

static bool hold(struct snib_client *c)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    struct snib_grant g;
    struct snib_error e;
    uint32_t permits = 77;
    o.kind = SNIB_KIND_PERMITS;
    o.capacity = 3;
    if (!done(snib_lock_new(c, "oom-d", &o, &l, &e), "lock_new")) {
        return false;
    }
    snib_err err = answer(
        c, snib_semaphore_drain_start(l, NULL, &g, &permits, c, NULL, &e),
        "drain");
    expect(err ? !g.ticket && permits == 77 : g.ticket && permits == 3,
           "drain's results");
    bool all = !err;
    if (all) {
        snib_err renewed = snib_renew_start(l, g, 0, c, NULL, &e);
        if (renewed != SNIB_ERR_LOST) {
            renewed = answer(c, renewed, "renew");
        }
        all = !renewed;
    }
    snib_lock_free(l);
    return all;
}

/* -- operations of several requests ------------------------------------------ */

static bool hold_both(struct snib_client *c)
{
    struct snib_lock *l[2] = {NULL, NULL};
    struct snib_multi *m = NULL;
    struct snib_grant g[2];
    struct snib_error e;
    bool all = done(snib_lock_new(c, "oom-1", NULL, &l[0], &e), "lock_new") &&
               done(snib_lock_new(c, "oom-2", NULL, &l[1], &e), "lock_new") &&
               done(snib_multi_new(l, 2, NULL, &m, &e), "multi_new");
    if (all) {
        snib_err err = answer(
            c, snib_multi_acquire_start(m, NULL, g, c, NULL, &e), "multi");
        expect(!err == !!g[0].ticket && !err == !!g[1].ticket, "all or none");
        all = !err && !answer(c, snib_multi_release_start(m, g, c, NULL, &e),
                              "multi_release");
    }
    snib_multi_free(m);
    snib_lock_free(l[0]);
    snib_lock_free(l[1]);
    return all;
}

static int put_one(void *data, const struct snib_value *now,
                   struct snib_value_next *next)
{
    (void)data;
    (void)now;
    *next = (struct snib_value_next){.bytes = "1", .size = 1};
    return 0;
}

static bool update(struct snib_client *c)
{
    struct snib_error e;
    int64_t version;
    snib_err err =
        answer(c,
               snib_value_update_start(c, "oom-u", 0, NULL, put_one, NULL, NULL,
                                       &version, c, NULL, &e),
               "value_update");
    expect(err || version, "the version written");
    return !err;
}

static bool join(struct snib_client *c)
{
    struct snib_ring_membership *p;
    struct snib_error e;
    snib_err err = answer(
        c, snib_ring_join_start(c, "oom-r", 0, "me", NULL, &p, c, NULL, &e),
        "ring_join");
    expect(!err == !!p, "join's ret");
    if (err) {
        return false;
    }
    err = snib_ring_leave_start(p, c, NULL, &e);
    if (err) {
        expect(clean(err), "ring_leave");
        (void)snib_ring_leave(p, &e);
        return false;
    }
    return !answer(c, err, "ring_leave");
}

static int body(void *data, struct snib_grant g)
{
    *(int *)data += g.ticket != 0;
    return 5;
}

static bool run(struct snib_client *c)
{
    struct snib_policy policy = SNIB_INIT(snib_policy);
    struct snib_error e;
    int ran = 0, result = 0;
    policy.key = "oom-p";
    snib_err err = answer(c,
                          snib_policy_run_start(c, &policy, NULL, body, &ran,
                                                &result, c, NULL, &e),
                          "policy_run");
    expect(ran == (result == 5), "body's result");
    expect(err || ran, "body has run");
    return !err;
}

static bool watch(struct snib_client *c)
{
    struct snib_elect *el;
    struct snib_leader *l;
    struct snib_error e;
    if (!done(snib_elect_new(c, "oom-e", NULL, &el, &e), "elect_new")) {
        return false;
    }
    snib_err err = answer(
        c, snib_elect_watch_for_start(el, 1, 0, &l, c, NULL, &e), "watch");
    expect(!err == !!l, "watch's ret");
    snib_leader_free(l);
    snib_elect_free(el);
    return !err;
}

static bool one_run(void)
{
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *c;
    struct snib_error e;
    o.url = url;
    o.request_ms = 250;
    snib_err err = snib_client_open(&o, &c, &e);
    expect(clean(err), "open");
    if (err) {
        return false;
    }
    bool all = look(c);
    all = change(c) && all;
    all = write_value(c) && all;
    all = hold(c) && all;
    all = hold_both(c) && all;
    all = update(c) && all;
    all = join(c) && all;
    all = run(c) && all;
    all = watch(c) && all;
    /* Nobody takes this one. */
    struct snib_view *view;
    all = done(snib_client_inspect_start(c, "oom", 0, &view, c, NULL, &e),
               "inspect") &&
          all;
    snib_client_free(c);
    return all;
}

int main(void)
{
    const struct CMUnitTest cases[] = {BOTH_STORES_BEAR(one_run)};
    return RUN(cases);
}

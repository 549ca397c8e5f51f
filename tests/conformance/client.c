/* What a client offers around a lock: events, inspect, force-release, names,
 * errors, scopes, policies. */
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kit.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/policy.h"
#include "snib/sys.h"

/* -- events ---------------------------------------------------------------- */

static void started_acquires_end_in_one_event_each(void **state)
{
    (void)state;
    skip_without_a_queue();
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    int mark;
    uint64_t ticket, second;
    must(snib_acquire_start(l, NULL, &mark, &ticket, NULL));
    struct snib_event ev = next_event(c);
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    assert_ptr_equal(ev.user, &mark);
    assert_int_equal(ev.grant.ticket, ticket);
    struct snib_grant held = ev.grant;
    must(snib_acquire_start(m, NULL, NULL, &second, NULL));
    wait_for_waiters(c, name, 1);
    snib_client_cancel(d, second);
    ev = next_event(d);
    assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
    /* UNKNOWN: the claim is in the queue, but d has not read that yet. */
    assert_true(ev.error.code == SNIB_ERR_CANCELLED ||
                ev.error.code == SNIB_ERR_UNKNOWN);
    wait_for_fewer_waiters(c, name, 0);
    must(snib_try_for_start(m, 1000, NULL, NULL, &second, NULL));
    ev = next_event(d);
    assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
    assert_int_equal(ev.error.code, SNIB_ERR_TIMEOUT);
    must(snib_acquire_start(m, NULL, NULL, &second, NULL));
    wait_for_waiters(c, name, 1);
    must(snib_release_start(l, held, NULL, NULL));
    ev = next_event(c);
    assert_int_equal(ev.kind, SNIB_EVENT_RELEASED);
    must(ev.error.code);
    ev = next_event(d);
    assert_int_equal(ev.kind, SNIB_EVENT_GRANTED);
    must(snib_release(m, ev.grant, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

static void an_acquire_cancelled_at_once_leaves_nothing(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    for (int i = 0; i < 20; i++) {
        struct snib_grant g;
        uint64_t ticket;
        must(snib_try_for_start(l, 10000, NULL, NULL, &ticket, NULL));
        snib_client_cancel(c, ticket); /* the request is on its way */
        struct snib_event ev = next_event(c);
        if (ev.kind == SNIB_EVENT_GRANTED) {
            must(snib_release(l, ev.grant, NULL));
        } else {
            assert_int_equal(ev.kind, SNIB_EVENT_REFUSED);
            assert_true(ev.error.code == SNIB_ERR_CANCELLED ||
                        ev.error.code == SNIB_ERR_UNKNOWN);
        }
        must(take(m, 10000, snib_owner_new(), &g)); /* l's lease is 30 s */
        must(snib_release(m, g, NULL));
        assert_false(snib_client_next(c, &ev, sizeof ev));
    }
    wait_for_fewer_waiters(d, name, 0);
    assert_int_equal(holders_of(d, name), 0);
    snib_client_free(c);
    snib_client_free(d);
}

static void closing_ends_the_waiting(void **state)
{
    (void)state;
    skip_without_a_queue();
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = lock_with(c, name, NULL),
                     *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    struct task t = {0};
    must(acquire_for(l, 0, &g));
    start(&t, m, INT64_MAX);
    wait_for_waiters(c, name, 1);
    snib_client_close(d);
    snib_err ended = join(&t)->err;
    /* UNKNOWN: the store had queued the claim; its answer was on the way. */
    assert_true(ended == SNIB_ERR_CLOSED || ended == SNIB_ERR_UNKNOWN);
    assert_int_equal(acquire_for(m, 0, &h), SNIB_ERR_CLOSED);
    snib_lock_free(m);
    snib_client_free(d);
    must(snib_release(l, g, NULL));
    snib_lock_free(l);
    snib_client_free(c);
}

/* -- inspect and list ------------------------------------------------------ */

static void inspect_shows_holder_and_waiter(void **state)
{
    (void)state;
    skip_without_a_queue();
    const char *name = fresh_name();
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock *l = lock_with(c, name, NULL);
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_grant g;
    struct snib_view *v;
    struct task next = {.release = true};
    o.reason = "release 4.2 & more";
    must(snib_try(l, &o, &g, NULL));
    start(&next, lock_with(d, name, NULL), 20000);
    wait_for_waiters(c, name, 1);
    must(snib_client_inspect(c, name, 0, &v, NULL));
    assert_string_equal(v->name, name);
    assert_int_equal(v->holder_count, 1);
    assert_int_equal(v->holders[0]->token, g.token);
    assert_int_equal(v->holders[0]->pid, getpid());
    assert_string_equal(v->holders[0]->reason, "release 4.2 & more");
    assert_string_equal(v->holders[0]->program, "conformance");
    assert_true(v->holders[0]->self);
    assert_true(v->holders[0]->left_ms > 0);
    assert_true(v->holders[0]->since_ms / 1000 > 1600000000);
    assert_int_equal(v->waiter_count, 1);
    assert_false(v->waiters[0]->self);
    snib_view_free(v);
    must(snib_release(l, g, NULL));
    must(join(&next)->err);
    must(snib_client_inspect(c, name, 0, &v, NULL));
    assert_int_equal(v->holder_count, 0);
    assert_int_equal(v->waiter_count, 0);
    snib_view_free(v);
    snib_lock_free(l);
    snib_client_free(c);
    snib_client_free(d);
}

static void list_finds_by_glob(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    char a[64], b[64], glob[64];
    snprintf(a, sizeof a, "%s-list{a}", fresh_name());
    snprintf(b, sizeof b, "%s-other", fresh_name());
    snprintf(glob, sizeof glob, "case-%d-*-list*", (int)getpid());
    struct snib_lock *l = lock_with(c, a, NULL), *m = lock_with(c, b, NULL);
    struct snib_grant g, h;
    struct snib_view **v;
    size_t n;
    must(acquire_for(l, 0, &g));
    must(acquire_for(m, 0, &h));
    must(snib_client_list(c, glob, &v, &n, NULL));
    assert_int_equal(n, 1);
    assert_string_equal(v[0]->name, a);
    assert_int_equal(v[0]->holder_count, 1);
    snib_views_free(v, n);
    must(snib_client_list(c, NULL, &v, &n, NULL));
    assert_true(n >= 2);
    snib_views_free(v, n);
    must(snib_release(l, g, NULL));
    must(snib_release(m, h, NULL));
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
}

static void force_release_ends_the_holder_and_it_is_told_why(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct changes seen = {0};
    struct snib_client *c = open_client(), *d = open_client();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.lease_ms = 3000; /* it is renewed on a slow machine, too */
    o.on_change = note_change;
    o.data = &seen;
    struct snib_lock *l = lock_with(c, name, &o), *m = lock_with(d, name, NULL);
    struct snib_grant g, h;
    uint32_t ended = 0;
    must(acquire_for(l, 0, &g));
    must(snib_client_force_release(d, name, 0, "stuck", &ended, NULL));
    assert_int_equal(ended, 1);
    must(acquire_for(m, 0, &h));
    assert_true(h.token > g.token);
    wait_for_loss(&seen, SNIB_CAUSE_REVOKED);
    assert_int_equal(snib_release(l, g, NULL), SNIB_ERR_LOST);
    assert_true(snib_grant_held(m, h));
    must(snib_release(m, h, NULL));
    must(snib_client_force_release(d, name, 0, NULL, &ended, NULL));
    assert_int_equal(ended, 0);
    snib_lock_free(l);
    snib_lock_free(m);
    snib_client_free(c);
    snib_client_free(d);
}

/* Whether the holder has just heard of the force-release or not: it is told
 * that it has lost the lock. */
static void a_release_after_a_forced_one_says_lost(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct snib_client *c = open_client(), *d = open_client();
        const char *name = fresh_name();
        struct snib_lock *l = i ? fixed(c, name, SNIB_KIND_MUTEX, 30000)
                                : lock_with(c, name, NULL),
                         *m = lock_with(d, name, NULL);
        struct snib_grant g, h;
        must(acquire_for(l, 0, &g));
        must(snib_client_force_release(d, name, 0, "stuck", NULL, NULL));
        must(acquire_for(m, 5000, &h)); /* another holds it by now */
        must_be(snib_release(l, g, NULL), SNIB_ERR_LOST);
        assert_true(snib_grant_held(m, h)); /* and undisturbed */
        must(snib_renew(m, h, 0, NULL));
        must(snib_release(m, h, NULL));
        must(acquire_for(l, 5000, &g)); /* the owner has unwound */
        must(snib_release(l, g, NULL));
        snib_client_free(c);
        snib_client_free(d);
    }
}

struct findings {
    int all, failed;
};

static void note_finding(void *data, const struct snib_finding *f)
{
    struct findings *n = data;
    n->all++;
    if (f->level == SNIB_LEVEL_FAIL) {
        n->failed++;
        print_message("doctor: %s: %s (%s)\n", f->check, f->text, f->remedy);
    }
    assert_true(f->level == SNIB_LEVEL_OK || f->remedy[0]);
}

static void the_doctor_finds_a_fresh_store_well(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct findings n = {0};
    must(snib_client_doctor(c, note_finding, &n, NULL));
    assert_true(n.all >= 1);
    assert_int_equal(n.failed, 0);
    snib_client_free(c);
}

/* -- names and bad input --------------------------------------------------- */

static void nasty_names_are_distinct_locks(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t size;
    } nasty[] = {{"a", 0},    {"A", 0},        {"a ", 0},       {" a", 0},
                 {"}x", 0},   {"{", 0},        {"{}", 0},       {"%7B", 0},
                 {"%", 0},    {"a\0b", 3},     {"a\0c", 3},     {"\xff", 0},
                 {"\r\n", 0}, {"'; --", 0},    {"*", 0},        {"a:t", 0},
                 {"../a", 0}, {"\xc3\xa4", 0}, {"a\xcc\x88", 0}};
    enum { N = sizeof nasty / sizeof nasty[0] };
    struct snib_client *c = open_client();
    struct snib_lock *l[N];
    struct snib_grant g[N];
    for (int i = 0; i < N; i++) {
        struct snib_lock_options o = SNIB_INIT(snib_lock_options);
        o.name_size = nasty[i].size;
        l[i] = lock_with(c, nasty[i].name, &o);
        must(acquire_for(l[i], 0, &g[i]));
    }
    for (int i = 0; i < N; i++) {
        struct snib_view *v;
        must(snib_client_inspect(c, nasty[i].name, nasty[i].size, &v, NULL));
        assert_int_equal(v->holder_count, 1);
        if (v->holders[0]->token) { /* else its client alone knows it so far */
            assert_int_equal(v->holders[0]->token, g[i].token);
        }
        snib_view_free(v);
        must(snib_release(l[i], g[i], NULL));
        snib_lock_free(l[i]);
    }
    snib_client_free(c);
}

static void bad_input_is_a_clear_error(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock *l;
    struct snib_error err;
    char *big = malloc(100001);
    memset(big, 'x', 100000);
    big[100000] = 0;
    assert_int_equal(snib_lock_new(c, "", NULL, &l, &err), SNIB_ERR_USAGE);
    assert_true(strlen(err.text) > 10);
    assert_null(l);
    assert_int_equal(snib_lock_new(c, big, NULL, &l, &err), SNIB_ERR_USAGE);
    assert_int_equal(snib_lock_new(c, NULL, NULL, &l, &err), SNIB_ERR_USAGE);
    free(big);
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.lease_ms = 1;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &err), SNIB_ERR_USAGE);
    o.lease_ms = INT64_MAX;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &err), SNIB_ERR_USAGE);
    o.lease_ms = -5;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &err), SNIB_ERR_USAGE);
    o.lease_ms = 0;
    o.kind = SNIB_KIND_READ;
    o.permits = 2;
    assert_int_equal(snib_lock_new(c, "x", &o, &l, &err), SNIB_ERR_USAGE);
    l = lock_with(c, fresh_name(), NULL);
    struct snib_acquire_options wrong = {.size = 1};
    struct snib_grant g, none = {0, 0};
    assert_int_equal(snib_try(l, &wrong, &g, NULL), SNIB_ERR_USAGE);
    assert_int_equal(snib_release(l, none, &err), SNIB_ERR_NOT_HELD);
    assert_int_equal(snib_grant_fd(l, none), -1);
    snib_lock_free(l);
    snib_client_free(c);
}

/* A client keeps nothing of names that it no longer uses. */
static void thousands_of_names_leave_nothing_in_the_client(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    char base[48];
    size_t used[2];
    snprintf(base, sizeof base, "%s", fresh_name());
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 3000; i++) {
            char name[80];
            struct snib_grant g;
            snprintf(name, sizeof name, "%s-%d-%d", base, round, i);
            struct snib_lock *l = lock_with(c, name, NULL);
            must(acquire_for(l, SOON_MS, &g));
            must(snib_release(l, g, NULL));
            snib_lock_free(l);
        }
        used[round] = mallinfo2().uordblks;
    }
    /* The slow nodes of a quorum get the releases later, a few at a time. */
    for (int i = 0; i < 100 && used[1] >= used[0] + 3000 * 128; i++) {
        look_again_after_ms(50);
        used[1] = mallinfo2().uordblks;
    }
    print_message("%zu, then %zu bytes\n", used[0], used[1]);
    assert_true(used[1] < used[0] + 3000 * 128);
    snib_client_free(c);
}

/* -- scoped and declared --------------------------------------------------- */

static int leave_by_return(struct snib_lock *lock)
{
    SNIB_WITH (s, lock, NULL, NULL) {
        return s.grant.token > 0;
    }
    return -1;
}

static void a_scope_cannot_leak_its_lock(void **state)
{
    (void)state;
    const char *name = fresh_name();
    struct snib_client *c = open_client();
    struct snib_lock *l = lock_with(c, name, NULL);
    assert_int_equal(leave_by_return(l), 1);
    int ran = 0;
    SNIB_WITH (s, l, NULL, NULL) {
        ran++;
        assert_true(snib_grant_held(l, s.grant));
    }
    assert_int_equal(ran, 1);
    struct snib_view *v;
    must(snib_client_inspect(c, name, 0, &v, NULL));
    assert_int_equal(v->holder_count, 0);
    snib_view_free(v);
    snib_lock_free(l);
    snib_client_free(c);
}

static int body(void *data, struct snib_grant g)
{
    *(int64_t *)data = g.token;
    return 7;
}

static void a_policy_wraps_a_function(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    char key[64];
    snprintf(key, sizeof key, "%s:{order_no}", fresh_name());
    struct snib_policy p = SNIB_INIT(snib_policy);
    p.name = "pay";
    p.key = key;
    p.lock.size = sizeof p.lock;
    const char *pairs[] = {"order_no", "4711", NULL}, *wrong[] = {NULL};
    int64_t token = 0;
    int result = 0;
    must(snib_policy_try_for(c, SOON_MS, &p, pairs, body, &token, &result,
                             NULL));
    assert_int_equal(result, 7);
    assert_true(token > 0);
    assert_int_equal(snib_policy_run(c, &p, wrong, body, &token, &result, NULL),
                     SNIB_ERR_USAGE);
    snib_client_free(c);
}

/* A claim that has waited long is shown as a holder since its grant, not since
 * its arrival, and under its request id. */
static void who_has_waited_is_shown_as_a_holder_since_the_grant(void **state)
{
    (void)state;
    enum { WAITED_MS = 1500 };
    struct snib_client *c = open_client(), *d = open_client();
    const char *name = fresh_name();
    struct snib_lock *l = of_kind(c, name, SNIB_KIND_MUTEX),
                     *m = of_kind(d, name, SNIB_KIND_MUTEX);
    struct snib_grant g;
    struct task waiter = {0};
    char request[SNIB_REQUEST_TEXT];
    struct snib_view *v;
    must(acquire_for(l, 0, &g));
    int64_t began = now_ms();
    start(&waiter, m, 20000);
    do {
        look_again_after_ms(50);
    } while (now_ms() - began < WAITED_MS);
    must(snib_release(l, g, NULL));
    must(join(&waiter)->err);
    int64_t granted = now_ms();
    must(snib_client_inspect(c, name, 0, &v, NULL));
    assert_int_equal(v->holder_count, 1);
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int64_t age = t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000 -
                  v->holders[0]->since_ms;
    assert_in_range(age + 20, 0, now_ms() - granted + WAITED_MS / 2);
    must(snib_grant_request(m, waiter.grant, request, sizeof request, NULL));
    assert_string_equal(v->holders[0]->request, request);
    snib_view_free(v);
    snib_client_free(c);
    snib_client_free(d);
}

static void a_grant_is_exported_unless_it_ends_with_its_client(void **state)
{
    (void)state;
    struct snib_client *c = open_client();
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    o.fixed_lease = true;
    o.lease_ms = 20000;
    struct snib_lock *l = lock_with(c, fresh_name(), &o);
    struct snib_grant g;
    char text[SNIB_GRANT_TEXT];
    must(acquire_for(l, 0, &g));
    must_be(snib_grant_export(l, g, text, sizeof text, NULL),
            is_zookeeper() || is_rabbitmq() ? SNIB_ERR_UNSUPPORTED
                                            : SNIB_ERR_OK);
    must(snib_release(l, g, NULL));
    snib_client_free(c);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(started_acquires_end_in_one_event_each),
        cmocka_unit_test(an_acquire_cancelled_at_once_leaves_nothing),
        cmocka_unit_test(closing_ends_the_waiting),
        cmocka_unit_test(inspect_shows_holder_and_waiter),
        cmocka_unit_test(who_has_waited_is_shown_as_a_holder_since_the_grant),
        cmocka_unit_test(list_finds_by_glob),
        cmocka_unit_test(force_release_ends_the_holder_and_it_is_told_why),
        cmocka_unit_test(a_release_after_a_forced_one_says_lost),
        cmocka_unit_test(the_doctor_finds_a_fresh_store_well),
        cmocka_unit_test(nasty_names_are_distinct_locks),
        cmocka_unit_test(bad_input_is_a_clear_error),
        cmocka_unit_test(thousands_of_names_leave_nothing_in_the_client),
        cmocka_unit_test(a_scope_cannot_leak_its_lock),
        cmocka_unit_test(a_policy_wraps_a_function),
        cmocka_unit_test(a_grant_is_exported_unless_it_ends_with_its_client),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Several locks as one (snib/multi.h), on every store and on two at a time. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "multi_rig.h"

/* -- one caller ------------------------------------------------------------ */

static void all_are_held_until_all_are_released(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_grant g[3];
    struct snib_multi_status s;
    assert_int_equal(snib_multi_count(r.multi), 3);
    must(take_all(r.multi, 0, g));
    for (int i = 0; i < 3; i++) {
        assert_true(g[i].ticket && g[i].token > 0);
        assert_true(snib_grant_held(r.lock[i], g[i]));
    }
    assert_true(snib_multi_held(r.multi, g));
    snib_multi_status(r.multi, g, &s, sizeof s);
    assert_int_equal(s.state, SNIB_STATE_HELD);
    assert_in_range(s.left_ms, 1, 30000);
    must(snib_multi_release(r.multi, g, &e));
    assert_false(snib_multi_held(r.multi, g));
    snib_multi_status(r.multi, g, &s, sizeof s);
    assert_int_equal(s.state, SNIB_STATE_RELEASED);
    assert_all_free(&r);
    rig_free(&r);
}

static void tokens_rise_for_each_lock(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_grant g[3], h[3];
    must(take_all(r.multi, 0, g));
    must(snib_multi_release(r.multi, g, &e));
    must(take_all(r.multi, 0, h));
    for (int i = 0; i < 3; i++) {
        assert_true(h[i].token > g[i].token);
    }
    must(snib_multi_release(r.multi, h, &e));
    rig_free(&r);
}

static void the_same_owner_enters_again(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_grant single, g[3], h[3];
    must(snib_try(r.lock[2], NULL, &single, &e));
    must(take_all(r.multi, 0, g));
    assert_int_equal(g[2].token, single.token);
    must(take_all(r.multi, 0, h));
    must(snib_multi_release(r.multi, h, &e));
    assert_true(snib_multi_held(r.multi, g));
    must(snib_multi_release(r.multi, g, &e));
    assert_true(snib_grant_held(r.lock[2], single));
    must(snib_release(r.lock[2], single, &e));
    assert_all_free(&r);
    rig_free(&r);
}

static void an_explicit_owner_holds_all(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_grant g[3], h[3];
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    o.owner = snib_owner_new();
    must(snib_multi_try(r.multi, &o, g, &e));
    /* This thread is another owner. */
    assert_int_equal(take_all(r.multi, 0, h), SNIB_ERR_BUSY);
    must(snib_multi_release(r.multi, g, &e));
    assert_all_free(&r);
    rig_free(&r);
}

static void twenty_locks_of_one_store(void **state)
{
    (void)state;
    enum { MANY = 20 };
    struct snib_client *c = open_client();
    struct snib_lock *lock[MANY];
    struct snib_grant g[MANY], h;
    const char *name[MANY];
    for (int i = 0; i < MANY; i++) {
        name[i] = fresh_name();
        lock[(i * 7) % MANY] = lock_with(c, name[i], NULL);
    }
    struct snib_multi *m = multi_of(lock, MANY);
    must(take_all(m, 0, g));
    must(snib_multi_release(m, g, &e));
    /* One of them is held by another: none of the others is kept. */
    struct snib_client *stranger = open_client();
    struct snib_lock *theirs = lock_with(stranger, name[11], NULL);
    must(snib_acquire(theirs, NULL, &h, &e));
    assert_int_equal(take_all(m, 0, g), SNIB_ERR_BUSY);
    assert_non_null(strstr(e.text, name[11]));
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(g[i].ticket, 0);
        if (i != 11) {
            assert_free(store_url(), name[i]);
        }
    }
    must(snib_release(theirs, h, &e));
    must(take_all(m, 0, g));
    must(snib_multi_release(m, g, &e));
    snib_lock_free(theirs);
    snib_client_free(stranger);
    snib_multi_free(m);
    for (int i = 0; i < MANY; i++) {
        snib_lock_free(lock[i]);
    }
    snib_client_free(c);
}

/* NULL: the store has no such kind. */
static struct snib_lock *lock_of_kind(struct snib_client *c, const char *name,
                                      snib_kind kind)
{
    struct snib_lock_options o = SNIB_INIT(snib_lock_options);
    struct snib_lock *l;
    o.kind = kind;
    if (kind == SNIB_KIND_PERMITS) {
        o.permits = 1;
        o.capacity = 2;
    }
    snib_err err = snib_lock_new(c, name, &o, &l, &e);
    if (err != SNIB_ERR_UNSUPPORTED) {
        must(err);
    }
    return l;
}

static void kinds_can_be_mixed(void **state)
{
    (void)state;
    struct snib_client *c[2] = {open_client(), open_client()};
    const char *x = fresh_name(), *y = fresh_name(), *z = fresh_name();
    struct snib_lock *lock[2][3];
    struct snib_multi *m[2];
    struct snib_grant g[2][3];
    for (int i = 0; i < 2; i++) {
        lock[i][0] = lock_of_kind(c[i], z, SNIB_KIND_READ);
        lock[i][1] = lock_of_kind(c[i], y, SNIB_KIND_PERMITS);
        lock[i][2] =
            lock_of_kind(c[i], x, i ? SNIB_KIND_READ : SNIB_KIND_WRITE);
        if (!lock[i][0] || !lock[i][1] || !lock[i][2]) {
            print_message("skipped: this store has mutexes only\n");
            skip();
        }
        m[i] = multi_of(lock[i], 3);
    }
    must(take_all(m[0], 0, g[0]));
    /* The write of x is in the way, and nothing else. */
    assert_int_equal(take_all(m[1], 0, g[1]), SNIB_ERR_BUSY);
    assert_non_null(strstr(e.text, x));
    must(snib_multi_release(m[0], g[0], &e));
    must(take_all(m[1], 0, g[1]));
    must(snib_multi_release(m[1], g[1], &e));
    /* A read and a write of one name would wait for each other. */
    struct snib_lock *both[] = {lock[0][2], lock[1][2]};
    struct snib_multi *none;
    assert_int_equal(snib_multi_new(both, 2, NULL, &none, &e), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, x));
    for (int i = 0; i < 2; i++) {
        snib_multi_free(m[i]);
        snib_client_free(c[i]);
    }
    assert_free(store_url(), x);
    assert_free(store_url(), y);
    assert_free(store_url(), z);
}

/* -- nothing is left ------------------------------------------------------- */

static void a_try_that_fails_leaves_nothing(void **state)
{
    (void)state;
    struct rig r = rig_new();
    const char *names[] = {r.x, r.z};
    for (int i = 0; i < 2; i++) {
        struct snib_grant g[3], h;
        struct snib_lock *theirs = lock_with(r.stranger, names[i], NULL);
        must(snib_acquire(theirs, NULL, &h, &e));
        assert_int_equal(take_all(r.multi, 0, g), SNIB_ERR_BUSY);
        assert_non_null(strstr(e.text, names[i]));
        assert_int_equal(g[0].ticket | g[1].ticket | g[2].ticket, 0);
        must(snib_release(theirs, h, &e));
        assert_all_free(&r);
        snib_lock_free(theirs);
    }
    rig_free(&r);
}

/* -- others see nothing of what is not had --------------------------------- */

struct trial {
    struct snib_multi *multi;
    int64_t wait_ms;
    atomic_int rounds, had;
    atomic_bool over;
};

static void *try_again_and_again(void *arg)
{
    struct trial *t = arg;
    while (!atomic_load(&t->over)) {
        struct snib_grant g[3];
        t->had += !snib_multi_try_for(t->multi, t->wait_ms, NULL, g, NULL);
        t->rounds++;
    }
    return NULL;
}

/* A stranger holds one of a, b and c, and tries another one again and again: it
 * must always get it, while a multi tries all three. */
static void never_taken(size_t held, size_t probed, int64_t wait_ms, int rounds)
{
    struct snib_client *c = open_client(), *stranger = open_client();
    char names[3][80];
    struct snib_lock *lock[3];
    const char *base = fresh_name();
    for (int i = 0; i < 3; i++) {
        snprintf(names[i], sizeof names[i], "%s-%c", base, 'a' + i);
        lock[i] = lock_with(c, names[i], NULL);
    }
    struct snib_lock *theirs = lock_with(stranger, names[held], NULL),
                     *probe = lock_with(stranger, names[probed], NULL);
    struct trial t = {.multi = multi_of(lock, 3), .wait_ms = wait_ms};
    struct snib_grant h, g;
    pthread_t thread;
    int busy = 0;
    must(snib_acquire(theirs, NULL, &h, &e));
    pthread_create(&thread, NULL, try_again_and_again, &t);
    while (t.rounds < rounds) {
        snib_err err = snib_try(probe, NULL, &g, &e);
        busy += err == SNIB_ERR_BUSY;
        if (err != SNIB_ERR_BUSY) {
            must(err);
            must(snib_release(probe, g, &e));
        }
    }
    atomic_store(&t.over, true);
    pthread_join(thread, NULL);
    must(snib_release(theirs, h, &e));
    assert_int_equal(t.had, 0);
    assert_int_equal(busy, 0);
    snib_multi_free(t.multi);
    for (int i = 0; i < 3; i++) {
        snib_lock_free(lock[i]);
    }
    snib_lock_free(theirs);
    snib_lock_free(probe);
    snib_client_free(c);
    snib_client_free(stranger);
}

static void a_try_that_fails_is_seen_by_nobody(void **state)
{
    (void)state;
    never_taken(2, 0, 0, 150);
    never_taken(1, 0, 0, 150);
    never_taken(1, 2, 0, 150);
}

static void who_waits_takes_nothing_behind_what_it_waits_for(void **state)
{
    (void)state;
    never_taken(0, 1, 30, 15);
    never_taken(1, 2, 30, 15);
}

static void a_time_out_leaves_nothing_and_is_in_time(void **state)
{
    (void)state;
    struct rig r = rig_new();
    struct snib_lock *theirs = lock_with(r.stranger, r.z, NULL);
    struct snib_grant g[3], h;
    must(snib_acquire(theirs, NULL, &h, &e));
    /* long enough to get to z */
    int64_t limit = (int64_t)(1000 * crowding()), from = now_ms();
    assert_int_equal(take_all(r.multi, limit, g), SNIB_ERR_TIMEOUT);
    assert_in_range(now_ms() - from, limit - 10, limit + 2 * slack_ms());
    assert_non_null(strstr(e.text, r.z));
    /* These are free at once, while the stranger still holds z. */
    assert_free(store_url(), r.x);
    assert_free(other_url(), r.y);
    must(snib_release(theirs, h, &e));
    assert_all_free(&r);
    snib_lock_free(theirs);
    rig_free(&r);
}

static void a_store_that_is_away_leaves_nothing(void **state)
{
    (void)state;
    struct snib_client_options o = SNIB_INIT(snib_client_options);
    struct snib_client *here = open_client(), *away;
    const char *x = fresh_name();
    struct snib_lock *lock[2] = {lock_with(here, x, NULL), NULL};
    struct snib_grant g[2];
    o.url = "redis://127.0.0.1:1"; /* ordered behind file: and memory: */
    o.request_ms = 300;
    if (snib_client_open(&o, &away, &e)) {
        print_message("skipped: redis is not in this build\n");
        skip();
    }
    lock[1] = lock_with(away, "y", NULL);
    struct snib_multi *m = multi_of(lock, 2);
    assert_int_equal(take_all(m, 0, g), SNIB_ERR_UNREACHABLE);
    assert_int_equal(take_all(m, 2000, g), SNIB_ERR_UNREACHABLE);
    assert_int_equal(g[0].ticket | g[1].ticket, 0);
    assert_free(store_url(), x);
    snib_multi_free(m);
    snib_lock_free(lock[0]);
    snib_lock_free(lock[1]);
    snib_client_free(away);
    snib_client_free(here);
}

/* -- bad input ------------------------------------------------------------- */

static void bad_input_is_refused_with_the_name(void **state)
{
    (void)state;
    struct snib_client_options co = SNIB_INIT(snib_client_options);
    struct snib_client *c = open_client(), *same = open_client(), *pull;
    struct snib_lock *a = lock_with(c, "multi-a", NULL),
                     *b = lock_with(c, "multi-b", NULL),
                     *again = lock_with(c, "multi-a", NULL),
                     *twin = lock_with(same, "multi-a", NULL);
    struct snib_lock *twice[] = {a, b, again}, *twins[] = {b, a, twin},
                     *hole[] = {a, NULL}, *fine[] = {b, a};
    struct snib_multi_options o = {.size = 1};
    struct snib_acquire_options wrong = {.size = 1};
    struct snib_multi *m;
    struct snib_grant g[2] = {{1, 1}, {1, 1}};
    assert_int_equal(snib_multi_new(twice, 3, NULL, &m, &e), SNIB_ERR_USAGE);
    assert_null(m);
    assert_non_null(strstr(e.text, "'multi-a' is named twice (locks 0 and 2)"));
    assert_int_equal(snib_multi_new(twins, 3, NULL, &m, &e), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "'multi-a' is named twice (locks 1 and 2)"));
    assert_int_equal(snib_multi_new(hole, 2, NULL, &m, &e), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "lock 1"));
    assert_int_equal(snib_multi_new(fine, 0, NULL, &m, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_multi_new(NULL, 2, NULL, &m, &e), SNIB_ERR_USAGE);
    assert_int_equal(snib_multi_new(fine, SNIB_MULTI_MAX + 1, NULL, &m, &e),
                     SNIB_ERR_USAGE);
    assert_int_equal(snib_multi_new(fine, 2, &o, &m, &e), SNIB_ERR_USAGE);
    co.url = store_url();
    co.pull = true;
    must(snib_client_open(&co, &pull, &e));
    struct snib_lock *pulled = lock_with(pull, "multi-p", NULL),
                     *mix[] = {a, pulled};
    m = multi_of(mix, 2); /* may be made, but nothing that waits is for it */
    assert_int_equal(snib_multi_try(m, NULL, g, &e), SNIB_ERR_USAGE);
    assert_non_null(strstr(e.text, "pull client"));
    assert_int_equal(g[0].ticket | g[1].ticket, 0);
    snib_multi_free(m);
    m = multi_of(fine, 2);
    assert_int_equal(snib_multi_try(m, &wrong, g, &e), SNIB_ERR_USAGE);
    assert_int_equal(g[0].ticket | g[1].ticket, 0);
    assert_int_equal(snib_multi_release(m, g, &e), SNIB_ERR_NOT_HELD);
    assert_non_null(strstr(e.text, "'multi-"));
    snib_multi_free(m);
    snib_multi_free(NULL);
    snib_lock_free(pulled);
    snib_client_free(pull);
    snib_lock_free(twin);
    snib_client_free(same);
    snib_client_free(c);
}

static void two_spellings_of_one_store_are_one(void **state)
{
    (void)state;
    char spelling[512];
    if (strncmp(store_url(), "redis://127", 11) == 0) {
        snprintf(spelling, sizeof spelling, "redis://%.*s?db=00",
                 (int)strcspn(store_url() + 8, "/"), store_url() + 8);
    } else if (strncmp(store_url(), "postgres:", 9) == 0) {
        snprintf(spelling, sizeof spelling, "%s?schema=snib", store_url());
    } else if (strncmp(store_url(), "mysql:", 6) == 0) {
        snprintf(spelling, sizeof spelling, "%s?prefix=snib", store_url());
    } else if (strncmp(store_url(), "etcd:", 5) == 0) {
        snprintf(spelling, sizeof spelling, "%s?prefix=snib/", store_url());
    } else if (is_zookeeper()) {
        snprintf(spelling, sizeof spelling, "%.*s/snib/",
                 (int)strcspn(store_url(), "?"), store_url());
    } else if (is_rabbitmq()) {
        snprintf(spelling, sizeof spelling, "%.*s/%%2f",
                 (int)strcspn(store_url(), "?"), store_url());
    } else if (strncmp(store_url(), "memory:", 7) == 0) {
        snprintf(spelling, sizeof spelling, "%s?clock=real", store_url());
    } else {
        print_message("skipped: no second spelling of this store\n");
        skip();
    }
    struct snib_client *c = open_client(), *same = open_at(spelling);
    struct snib_lock *twins[] = {lock_with(c, "twin", NULL),
                                 lock_with(same, "twin", NULL)};
    struct snib_multi *m;
    assert_int_equal(snib_multi_new(twins, 2, NULL, &m, &e), SNIB_ERR_USAGE);
    snib_client_free(c);
    snib_client_free(same);
}

static void a_child_is_told_that_it_is_one(void **state)
{
    (void)state;
    struct rig r = rig_new();
    pid_t child = fork();
    int status;
    if (child == 0) {
        struct snib_grant g[3];
        _exit(take_all(r.multi, 0, g) == SNIB_ERR_FORKED &&
                      snib_multi_release(r.multi, g, &e) == SNIB_ERR_FORKED
                  ? 0
                  : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    rig_free(&r);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_held_until_all_are_released),
        cmocka_unit_test(tokens_rise_for_each_lock),
        cmocka_unit_test(the_same_owner_enters_again),
        cmocka_unit_test(an_explicit_owner_holds_all),
        cmocka_unit_test(twenty_locks_of_one_store),
        cmocka_unit_test(kinds_can_be_mixed),
        cmocka_unit_test(a_try_that_fails_leaves_nothing),
        cmocka_unit_test(a_try_that_fails_is_seen_by_nobody),
        cmocka_unit_test(who_waits_takes_nothing_behind_what_it_waits_for),
        cmocka_unit_test(a_time_out_leaves_nothing_and_is_in_time),
        cmocka_unit_test(a_store_that_is_away_leaves_nothing),
        cmocka_unit_test(bad_input_is_refused_with_the_name),
        cmocka_unit_test(two_spellings_of_one_store_are_one),
        cmocka_unit_test(a_child_is_told_that_it_is_one),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

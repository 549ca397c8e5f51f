/* Several locks as one (snib/multi.h): threads and processes that take random
 * subsets in random orders. With -f, UNKNOWN and UNREACHABLE are outcomes like
 * others; what counts is that the counters are right and that all is free in
 * the end. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kit.h"
#include "snib/inspect.h"
#include "snib/multi.h"

enum { NAMES = 5, CROWD_MS = 2500, PROGRESS_MS = 30000 };

/* Plain counters, each protected by the lock of its name; `due` is what they
 * must come to. */
struct ledger {
    volatile int64_t count[NAMES];
    atomic_llong due[NAMES], rounds, unanswered;
    atomic_int failed;
    char why[300];
};

struct crowd {
    struct ledger *ledger;
    struct snib_client *here, *there;
    struct snib_lock *lock[NAMES];
    unsigned seed;
};

static char crowd_names[NAMES][64];

static void name_crowd(void)
{
    for (int i = 0; i < NAMES; i++) {
        snprintf(crowd_names[i], sizeof crowd_names[i], "%s", fresh_name());
    }
}

static void crowd_locks(struct crowd *c)
{
    for (int i = 0; i < NAMES; i++) {
        /* Those with an odd index are in the other store. */
        c->lock[i] =
            lock_with(i % 2 ? c->there : c->here, crowd_names[i], NULL);
    }
}

static void give_out(struct ledger *l, const char *what, const char *text)
{
    if (!atomic_exchange(&l->failed, 1)) {
        snprintf(l->why, sizeof l->why, "%s: %.200s", what, text);
    }
}

/* A random subset in random order. */
static size_t pick(unsigned *seed, int ret[NAMES])
{
    size_t n = 1 + (size_t)rand_r(seed) % NAMES;
    for (int i = 0; i < NAMES; i++) {
        ret[i] = i;
    }
    for (int i = NAMES - 1; i > 0; i--) {
        int j = rand_r(seed) % (i + 1), k = ret[i];
        ret[i] = ret[j];
        ret[j] = k;
    }
    return n;
}

static void section(struct crowd *c, const int which[], size_t n)
{
    struct ledger *l = c->ledger;
    int64_t seen[NAMES];
    for (size_t i = 0; i < n; i++) {
        seen[i] = l->count[which[i]];
    }
    sched_yield();
    for (size_t i = 0; i < n; i++) {
        l->count[which[i]] = seen[i] + 1;
        atomic_fetch_add(&l->due[which[i]], 1);
    }
    atomic_fetch_add(&l->rounds, 1);
}

/* The errors that a limit of a few milliseconds may end in. STORE: other
 * processes were writing to the file for longer than that; nothing was
 * applied. */
static bool is_short_of_time(snib_err err)
{
    return snib_err_class(err) == SNIB_CLASS_REFUSED ||
           err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE ||
           err == SNIB_ERR_STORE;
}

static void *crowd_member(void *arg)
{
    struct crowd *c = arg;
    struct ledger *l = c->ledger;
    struct snib_error mine = {0};
    int64_t until = now_ms() + CROWD_MS;
    while (now_ms() < until && !atomic_load(&l->failed)) {
        int which[NAMES];
        size_t n = pick(&c->seed, which);
        struct snib_lock *locks[NAMES];
        struct snib_grant g[NAMES];
        struct snib_multi *m;
        /* Now and then an acquire gives up early. */
        bool hasty = rand_r(&c->seed) % 4 == 0;
        int64_t wait_ms = hasty ? rand_r(&c->seed) % 5 : PROGRESS_MS;
        for (size_t i = 0; i < n; i++) {
            locks[i] = c->lock[which[i]];
        }
        if (snib_multi_new(locks, n, NULL, &m, &mine)) {
            give_out(l, "new", mine.text);
            break;
        }
        snib_err err = snib_multi_try_for(m, wait_ms, NULL, g, &mine);
        if (!err) {
            section(c, which, n);
            err = snib_multi_release(m, g, &mine);
        } else if (hasty && is_short_of_time(err)) {
            err = SNIB_ERR_OK;
        }
        bool unanswered =
            err == SNIB_ERR_UNKNOWN || err == SNIB_ERR_UNREACHABLE;
        if (err && !(has_faults() && unanswered)) {
            give_out(l, snib_err_name(err), mine.text);
        }
        atomic_fetch_add(&l->unanswered, err && unanswered);
        snib_multi_free(m);
    }
    return NULL;
}

/* A connection that is first made in the middle of the crowd may be late; that is
 * not what a crowd is about. */
static void connect_first(struct snib_client *c)
{
    struct snib_view *v;
    if (snib_client_inspect(c, crowd_names[0], 0, &v, NULL) == SNIB_ERR_OK) {
        snib_view_free(v);
    }
}

static struct ledger *ledger_new(void)
{
    struct ledger *l = mmap(NULL, sizeof *l, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(l != MAP_FAILED);
    return l;
}

/* Releases that got no answer were repeated until their client was freed. */
static void assert_free_soon(const char *at, const char *name)
{
    struct snib_client *c = open_at(at);
    int64_t until = now_ms() + (has_faults() ? 5000 : 0);
    size_t left = 1;
    while (left) {
        struct snib_view *v;
        if (snib_client_inspect(c, name, 0, &v, NULL) == SNIB_ERR_OK) {
            left = v->holder_count + v->waiter_count;
            snib_view_free(v);
        }
        if (left) {
            if (now_ms() >= until) {
                fail_msg("%s is left at %s", name, at);
            }
            look_again_after_ms(10);
        }
    }
    snib_client_free(c);
}

static void judge(struct ledger *l)
{
    if (atomic_load(&l->failed)) {
        fail_msg("%s", l->why);
    }
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(l->count[i], atomic_load(&l->due[i]));
        assert_true(l->count[i] > 0);
        assert_free_soon(i % 2 ? other_url() : store_url(), crowd_names[i]);
    }
    print_message("%lld rounds, %lld without an answer\n",
                  atomic_load(&l->rounds), atomic_load(&l->unanswered));
    munmap(l, sizeof *l);
}

static void threads_in_random_orders(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    struct crowd c[THREADS];
    pthread_t t[THREADS];
    struct ledger *l = ledger_new();
    struct snib_client *here[2] = {open_client(), open_client()},
                       *there[2] = {open_at(other_url()), open_at(other_url())};
    name_crowd();
    for (int i = 0; i < 2; i++) {
        connect_first(here[i]);
        connect_first(there[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        c[i] = (struct crowd){.ledger = l,
                              .here = here[i % 2],
                              .there = there[i % 2],
                              .seed = (unsigned)i + 1};
        crowd_locks(&c[i]);
        assert_int_equal(pthread_create(&t[i], NULL, crowd_member, &c[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(t[i], NULL);
        for (int k = 0; k < NAMES; k++) {
            snib_lock_free(c[i].lock[k]);
        }
    }
    for (int i = 0; i < 2; i++) {
        snib_client_free(here[i]);
        snib_client_free(there[i]);
    }
    judge(l);
}

static void processes_in_random_orders(void **state)
{
    (void)state;
    enum { PROCESSES = 4 };
    pid_t pid[PROCESSES];
    skip_in_one_process();
    struct ledger *l = ledger_new();
    name_crowd();
    for (int i = 0; i < PROCESSES; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            struct crowd c = {.ledger = l, .seed = (unsigned)i + 100};
            c.here = open_client();
            c.there = open_at(other_url());
            connect_first(c.here);
            connect_first(c.there);
            crowd_locks(&c);
            crowd_member(&c);
            snib_client_free(c.here);
            snib_client_free(c.there);
            _exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        waitpid(pid[i], &status, 0);
        assert_int_equal(status, 0);
    }
    judge(l);
}

/* -- tries at the same time ------------------------------------------------ */

struct rival {
    pthread_t thread;
    struct snib_client *here, *there;
    struct snib_multi *multi;
    struct snib_grant grants[3];
    int64_t wait_ms, took_ms;
    snib_err err;
    bool keep; /* no release */
};

static void *compete(void *arg)
{
    struct rival *r = arg;
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    int64_t begin = now_ms();
    o.owner = snib_owner_new();
    r->err = snib_multi_try_for(r->multi, r->wait_ms, &o, r->grants, NULL);
    r->took_ms = now_ms() - begin;
    if (!r->err && !r->keep) {
        r->err = snib_multi_release(r->multi, r->grants, NULL);
    }
    return NULL;
}

static void all_compete(struct rival r[], int n, int64_t wait_ms, bool keep)
{
    for (int i = 0; i < n; i++) {
        r[i].wait_ms = wait_ms;
        r[i].keep = keep;
        assert_int_equal(pthread_create(&r[i].thread, NULL, compete, &r[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        assert_int_equal(pthread_join(r[i].thread, NULL), 0);
    }
}

/* In one store a try is one step, so one wins. Over two stores the tries mix:
 * none may win, but never two. */
static void of_ten_tries_one_wins_and_ten_that_wait_all_do(void **state)
{
    (void)state;
    enum { N = 10 };
    bool same = strcmp(store_url(), other_url()) == 0;
    const char *name[] = {fresh_name(), fresh_name(), fresh_name()};
    struct rival r[N] = {0};
    int won = 0;
    for (int i = 0; i < N; i++) {
        r[i].here = open_client();
        r[i].there = same ? r[i].here : open_at(other_url());
        struct snib_lock *lock[] = {lock_with(r[i].here, name[0], NULL),
                                    lock_with(r[i].there, name[1], NULL),
                                    lock_with(r[i].here, name[2], NULL)};
        must(snib_multi_new(lock, 3, NULL, &r[i].multi, NULL));
    }
    all_compete(r, N, 0, true);
    for (int i = 0; i < N; i++) {
        won += r[i].err == SNIB_ERR_OK;
        assert_true(r[i].err == SNIB_ERR_OK || r[i].err == SNIB_ERR_BUSY);
        assert_true(r[i].took_ms < slack_ms());
    }
    assert_in_range(won, same, 1);
    for (int i = 0; i < N; i++) {
        if (r[i].err == SNIB_ERR_OK) {
            must(snib_multi_release(r[i].multi, r[i].grants, NULL));
        }
    }
    all_compete(r, N, 30000, false);
    for (int i = 0; i < N; i++) {
        must(r[i].err);
    }
    for (int i = 0; i < 3; i++) {
        assert_free_soon(i == 1 ? other_url() : store_url(), name[i]);
    }
    for (int i = 0; i < N; i++) {
        snib_multi_free(r[i].multi);
        snib_client_free(r[i].here);
        if (!same) {
            snib_client_free(r[i].there);
        }
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_in_random_orders),
        cmocka_unit_test(processes_in_random_orders),
        cmocka_unit_test(of_ten_tries_one_wins_and_ten_that_wait_all_do),
    };
    if (!take_arguments(argc, argv)) {
        return 64;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

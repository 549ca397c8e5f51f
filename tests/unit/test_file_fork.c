/* tests/unit/test_file_fork.c — the mapped file: a child that came by fork() opens
 * a client of its own, whatever threads of its parent were doing.
 * labels: thread */
#include "forks.h"
#include "processes.h"

#include <pthread.h>
#include <stdatomic.h>

/* A sanitizer makes a fork some hundred milliseconds long: who listens has
 * patience for some of them, not for all. */
enum { THREADS = 4, FORKS = 200, TELLS_EACH = 20, CHILD_MS = 10000 };

static _Atomic bool stop;
static _Atomic uint64_t sections;

static struct snib_lock *lock_named(struct snib_client *c, const char *name)
{
    struct snib_lock *l = NULL;
    return snib_lock_new(c, name, NULL, &l, NULL) ? NULL : l;
}

static void *be_busy(void *arg)
{
    struct snib_error e = {0};
    struct snib_lock *l = arg;
    while (!stop) {
        struct snib_grant g;
        snib_err err = acquire(l, 20000, &g, &e);
        err = err ? err : snib_release(l, g, &e);
        if (err) {
            say_error(err, &e);
            _exit(7);
        }
        sections++;
    }
    return NULL;
}

/* In the child: 0, or which step told something else than it should. */
static int be_a_client(struct snib_client *of_parent, int number)
{
    char name[16];
    struct snib_error e = {0};
    struct snib_grant g;
    struct snib_client *c = open_as(NULL, &e);
    snprintf(name, sizeof name, "c%d", number % 7);
    if (!c) {
        fprintf(stderr, "child %d: %s: %s\n", number, snib_err_name(e.code),
                e.text);
        return 1;
    }
    struct snib_lock *own = lock_named(c, name), *held = lock_named(c, "held");
    snib_err err = acquire(held, 0, &g, &e);
    if (err != SNIB_ERR_BUSY) { /* the parent has it */
        fprintf(stderr, "child %d: held: %s: %s\n", number, snib_err_name(err),
                err ? e.text : "acquired");
        return 2;
    }
    if (acquire(own, 5000, &g, &e) || snib_release(own, g, &e)) {
        fprintf(stderr, "child %d: %s: %s\n", number, snib_err_name(e.code),
                e.text);
        return 3;
    }
    snib_lock_free(own);
    snib_lock_free(held);
    if (number % 2) { /* the parent's may be freed here, or be left alone */
        snib_client_free(of_parent);
    }
    snib_client_free(c);
    return 0;
}

static int outcome_of(pid_t pid)
{
    int status;
    for (int ms = 0; waitpid(pid, &status, WNOHANG) != pid; ms++) {
        if (ms == CHILD_MS) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return -1;
        }
        poll(NULL, 0, 1);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int64_t ms_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void fork_beside_threads(void)
{
    pthread_t thread[THREADS];
    struct snib_client *c = must_open(NULL);
    struct snib_error e = {0};
    struct snib_grant held;
    int64_t longest = 0;
    if (acquire(lock_named(c, "held"), 0, &held, &e)) {
        say_error(e.code, &e);
        return;
    }
    for (int i = 0; i < THREADS; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        pthread_create(&thread[i], NULL, be_busy, lock_named(c, name));
    }
    while (sections < 20) {
        poll(NULL, 0, 1);
    }
    for (int i = 0; i < FORKS; i++) {
        int64_t from = ms_now();
        pid_t pid = fork();
        if (pid == 0) {
            _exit(be_a_client(c, i));
        }
        int64_t took = ms_now() - from;
        longest = took > longest ? took : longest;
        int code = outcome_of(pid);
        if (code) {
            dprintf(child_out, "child %d: %s %d\n", i,
                    code < 0 ? "hangs" : "exit", code);
            _exit(0);
        }
        if ((i + 1) % TELLS_EACH == 0) {
            dprintf(child_out, "so far %d\n", i + 1);
        }
    }
    stop = true;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    dprintf(child_out, "all %d; the longest fork took %lld ms\n", FORKS,
            (long long)longest);
    say_error(snib_release(lock_named(c, "held"), held, &e), &e);
    snib_client_free(c);
}

static void children_of_a_busy_parent_open_clients_of_their_own(void **state)
{
    (void)state;
    needs_an_allocator_that_forks();
    struct process parent = begin(fork_beside_threads);
    for (int told = 0; told < FORKS; told += TELLS_EACH) {
        hear_that(&parent, "so far");
    }
    hear_that(&parent, "all 200");
    hear_that(&parent, "ok");
    assert_int_equal(over(&parent), 0);
}

/* Nobody is excluded by record locks that only the parent has: a child's
 * client and the parent's use one file, and so does a grandchild's. */
static int grand(struct snib_client *top, int depth)
{
    struct snib_error e = {0};
    struct snib_grant g;
    char deep[16];
    snprintf(deep, sizeof deep, "deep%d", depth);
    int code = be_a_client(top, 0);
    if (code || depth == 3) {
        return code;
    }
    struct snib_client *c = must_open(NULL);
    struct snib_lock *l = lock_named(c, deep);
    if (acquire(l, 5000, &g, &e)) {
        return 8;
    }
    pid_t pid = fork();
    if (pid == 0) {
        struct snib_client *mine = must_open(NULL);
        if (acquire(lock_named(mine, deep), 0, &g, &e) != SNIB_ERR_BUSY) {
            _exit(9);
        }
        snib_client_free(mine);
        _exit(grand(c, depth + 1));
    }
    code = outcome_of(pid);
    snib_err err = snib_release(l, g, &e);
    snib_lock_free(l);
    snib_client_free(c);
    return code ? code : err ? 10 : 0;
}

static void have_grandchildren(void)
{
    struct snib_client *c = must_open(NULL);
    struct snib_error e = {0};
    struct snib_grant held;
    if (acquire(lock_named(c, "held"), 0, &held, &e)) {
        say_error(e.code, &e);
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        _exit(grand(c, 1));
    }
    dprintf(child_out, "exit %d\n", outcome_of(pid));
    say_error(snib_release(lock_named(c, "held"), held, &e), &e);
}

static void grandchildren_open_clients_of_their_own(void **state)
{
    (void)state;
    needs_an_allocator_that_forks();
    struct process parent = begin(have_grandchildren);
    hear_that(&parent, "exit 0");
    hear_that(&parent, "ok");
    assert_int_equal(over(&parent), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, fresh_dir, remove_dir)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest cases[] = {
        CASE(children_of_a_busy_parent_open_clients_of_their_own),
        CASE(grandchildren_open_clients_of_their_own),
    };
    return RUN(cases);
}

/* tests/harness/mutexes.c — a program linked with this uses its mutexes as
 * POSIX says, or is ended by abort(), with a line that says where it did not.
 *
 * A lock or unlock that is missing is seldom seen otherwise: a thread that
 * comes in between would have to be there just then. Here each thread keeps
 * which mutexes it has itself. It must not unlock, or wait with, one that it
 * does not have; nor lock one that it has (a recursive one excepted); nor end,
 * or let the program end, with one. What the product, the tests and the
 * archives that they link call comes here by -Wl,--wrap.
 *
 * Only its own thread's are kept for each thread: what another one has is
 * nobody's business here, and no order between threads is added that the
 * product does not make. A child by fork() has those of the thread that
 * called it. */
#include <execinfo.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define HELD_MAX   64
#define REAL(name) __real_##name
#define WRAP(name) __wrap_##name
#define WRAPPED(name, ...)                                                     \
    int REAL(name)(__VA_ARGS__);                                               \
    int WRAP(name)(__VA_ARGS__)
#define HERE __builtin_return_address(0)

WRAPPED(pthread_mutex_init, pthread_mutex_t *, const pthread_mutexattr_t *);
WRAPPED(pthread_mutex_destroy, pthread_mutex_t *);
WRAPPED(pthread_mutex_lock, pthread_mutex_t *);
WRAPPED(pthread_mutex_trylock, pthread_mutex_t *);
WRAPPED(pthread_mutex_timedlock, pthread_mutex_t *, const struct timespec *);
WRAPPED(pthread_mutex_unlock, pthread_mutex_t *);
WRAPPED(pthread_cond_wait, pthread_cond_t *, pthread_mutex_t *);
WRAPPED(pthread_cond_timedwait, pthread_cond_t *, pthread_mutex_t *,
        const struct timespec *);

/* A test that has such a function comes in between wherever a mutex was let go. */
__attribute__((weak)) void mutexes_freed(void);

/* What this thread has, and where it was locked. */
static _Thread_local struct {
    int count;
    struct {
        const pthread_mutex_t *mutex;
        void *at;
    } v[HELD_MAX];
} held;
static pthread_key_t ends;
static pid_t program;

static _Noreturn void wrong(const char *what, void *at, void *locked)
{
    fflush(NULL);
    fprintf(stderr, "mutexes: %s, at\n", what);
    backtrace_symbols_fd(&at, at ? 1 : 0, STDERR_FILENO);
    if (locked) {
        fprintf(stderr, "mutexes: it was locked at\n");
        backtrace_symbols_fd(&locked, 1, STDERR_FILENO);
    }
    abort();
}

/* Its place among those that this thread has; -1: it has not. */
static int place_of(const pthread_mutex_t *m)
{
    for (int i = held.count - 1; i >= 0; i--) {
        if (held.v[i].mutex == m) {
            return i;
        }
    }
    return -1;
}

static void take(const pthread_mutex_t *m, void *at)
{
    if (held.count == HELD_MAX) {
        wrong("a thread has more mutexes than can be kept", at, NULL);
    }
    if (held.count == 0) {
        pthread_setspecific(ends, &held);
    }
    held.v[held.count].at = at;
    held.v[held.count++].mutex = m;
}

static void forget(int place)
{
    held.count--;
    for (int i = place; i < held.count; i++) {
        held.v[i] = held.v[i + 1];
    }
}

static void must_have(const pthread_mutex_t *m, const char *what, void *at)
{
    if (place_of(m) < 0) {
        wrong(what, at, NULL);
    }
}

/* In a child by fork() one that was held begins anew. */
int WRAP(pthread_mutex_init)(pthread_mutex_t *m, const pthread_mutexattr_t *a)
{
    for (int place = place_of(m); place >= 0; place = place_of(m)) {
        forget(place);
    }
    return REAL(pthread_mutex_init)(m, a);
}

int WRAP(pthread_mutex_destroy)(pthread_mutex_t *m)
{
    int rc = REAL(pthread_mutex_destroy)(m);
    if (rc != 0 || place_of(m) >= 0) {
        wrong("a mutex is destroyed that somebody has", HERE, NULL);
    }
    return rc;
}

int WRAP(pthread_mutex_lock)(pthread_mutex_t *m)
{
    int rc, place = place_of(m);
    if (place < 0) {
        rc = REAL(pthread_mutex_lock)(m);
    } else { /* only a recursive one can be had twice */
        rc = REAL(pthread_mutex_trylock)(m);
        if (rc != 0) {
            wrong("a mutex is locked that this thread has", HERE,
                  held.v[place].at);
        }
    }
    if (rc == 0) {
        take(m, HERE);
    }
    return rc;
}

int WRAP(pthread_mutex_trylock)(pthread_mutex_t *m)
{
    int rc = REAL(pthread_mutex_trylock)(m);
    if (rc == 0) {
        take(m, HERE);
    }
    return rc;
}

int WRAP(pthread_mutex_timedlock)(pthread_mutex_t *m,
                                  const struct timespec *until)
{
    int rc = REAL(pthread_mutex_timedlock)(m, until);
    if (rc == 0) {
        take(m, HERE);
    }
    return rc;
}

int WRAP(pthread_mutex_unlock)(pthread_mutex_t *m)
{
    must_have(m, "a mutex is unlocked that this thread has not", HERE);
    forget(place_of(m));
    int rc = REAL(pthread_mutex_unlock)(m);
    if (mutexes_freed) {
        mutexes_freed();
    }
    return rc;
}

int WRAP(pthread_cond_wait)(pthread_cond_t *c, pthread_mutex_t *m)
{
    must_have(m, "a wait without the mutex of the condition", HERE);
    return REAL(pthread_cond_wait)(c, m);
}

int WRAP(pthread_cond_timedwait)(pthread_cond_t *c, pthread_mutex_t *m,
                                 const struct timespec *until)
{
    must_have(m, "a wait without the mutex of the condition", HERE);
    return REAL(pthread_cond_timedwait)(c, m, until);
}

static void thread_ends(void *unused)
{
    (void)unused;
    if (held.count > 0) {
        wrong("a thread ends that has a mutex", NULL, held.v[0].at);
    }
}

__attribute__((constructor)) static void program_begins(void)
{
    program = getpid();
    if (pthread_key_create(&ends, thread_ends)) {
        abort();
    }
}

/* By the thread that ends it; a child of a test may end as it likes. */
__attribute__((destructor)) static void program_ends(void)
{
    if (getpid() == program && held.count > 0) {
        wrong("the program ends with a mutex locked", NULL, held.v[0].at);
    }
}

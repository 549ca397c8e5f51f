/* store/sqlite/forked.c — fork() beside threads that are inside SQLite.
 *
 * A child of fork() has one thread and all of SQLite's memory: mutexes that a
 * thread of the parent had locked, which nothing will ever unlock, and for each
 * open file a count of record locks that the child does not have. A client that
 * the child opens on top of that hangs or is not excluded. Renewals run in the
 * background, so this happens even to programs that know of no thread.
 *
 * So no thread forks while another is inside SQLite. pthread_atfork handlers
 * wait until the threads that are inside have come out (a transaction takes
 * some 10 us; a thread that waits for the write lock gives up for the moment).
 * They keep other threads from going in until fork() is done. So the parent's
 * connections are idle in the child, which closes them before it opens one of
 * its own. Closing them writes nothing and drops none of the parent's record
 * locks, since those belong to the process.
 *
 * The wait is bounded: after FORK_S (a disk that hangs) fork() goes on all the
 * same. Its child is then refused (FORKED) until it has called exec. */
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "store/sqlite/internal.h"

#define FORK_S 2

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct snib__list open; /* of this process; in a child: of its parent */
    pid_t pid;              /* the process whose they are; 0: none was opened */
    int inside;             /* threads */
    int forks;              /* forks that wait or are under way */
    bool spoilt;            /* forked while a thread was inside */
    bool handlers;
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* A copy of all.forks. A thread that waits for the write lock reads it without
 * the mutex. */
static int forks_wait;
/* This thread's fork has the mutex. False if a signal handler forks that
 * interrupted its own thread while that had the mutex. */
static _Thread_local bool locked;

static void forked_init_cond(void)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&all.changed, &attr);
    pthread_condattr_destroy(&attr);
}

/* No thread has the mutex for long, so the wait is short. CLOCK_REALTIME makes
 * it wrong only if that clock is set meanwhile. (ThreadSanitizer does not know
 * pthread_mutex_clocklock.) */
static bool forked_lock_in_time(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += FORK_S;
    return !pthread_mutex_timedlock(&all.mutex, &until);
}

static void forked_before_fork(void)
{
    struct timespec until;
    int rc = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += FORK_S;
    locked = forked_lock_in_time();
    if (!locked) {
        return;
    }
    all.forks++;
    __atomic_store_n(&forks_wait, all.forks, __ATOMIC_RELAXED);
    while (all.inside > 0 && rc != ETIMEDOUT) {
        rc = pthread_cond_timedwait(&all.changed, &all.mutex, &until);
    }
}

static void forked_after_fork(void)
{
    if (!locked) {
        return;
    }
    all.forks--;
    __atomic_store_n(&forks_wait, all.forks, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.mutex);
}

static void forked_in_child(void)
{
    all.spoilt = all.spoilt || all.inside > 0 || !locked;
    all.inside = all.forks = 0;
    __atomic_store_n(&forks_wait, 0, __ATOMIC_RELAXED);
    forked_init_cond(); /* threads of the parent may have waited in it */
    if (locked) {
        pthread_mutex_unlock(&all.mutex);
    } else {
        pthread_mutex_init(&all.mutex, NULL);
    }
}

static void forked_go_in(void)
{
    while (all.forks) {
        pthread_cond_wait(&all.changed, &all.mutex);
    }
    all.inside++;
}

void snib__forked_in(void)
{
    pthread_mutex_lock(&all.mutex);
    forked_go_in();
    pthread_mutex_unlock(&all.mutex);
}

void snib__forked_out(void)
{
    pthread_mutex_lock(&all.mutex);
    all.inside--;
    if (all.forks) {
        pthread_cond_broadcast(&all.changed);
    }
    pthread_mutex_unlock(&all.mutex);
}

bool snib__forked_waits(void)
{
    return __atomic_load_n(&forks_wait, __ATOMIC_RELAXED) > 0;
}

/* Close what the parent had open, before SQLite opens anything for us. */
static void forked_close_inherited(void)
{
    struct snib__link *l;
    while ((l = snib__list_pop(&all.open))) {
        snib__db_close(&SNIB__CONTAINER(l, struct snib__sqlite, link)->db);
    }
}

snib_err snib__forked_open(struct snib__sqlite *self, struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    pthread_mutex_lock(&all.mutex);
    if (!all.handlers) {
        forked_init_cond();
        snib__list_init(&all.open);
        all.handlers = !pthread_atfork(forked_before_fork, forked_after_fork,
                                       forked_in_child);
    }
    if (!all.handlers) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    } else if (all.spoilt) {
        err = snib__fail(reterr, SNIB_ERR_FORKED,
                         "this process was forked while a thread of its parent "
                         "was inside a lock file; it can use one itself only "
                         "after exec");
    } else {
        if (all.pid != getpid()) {
            forked_close_inherited();
            all.pid = getpid();
        }
        snib__list_push(&all.open, &self->link);
        forked_go_in();
    }
    pthread_mutex_unlock(&all.mutex);
    return err;
}

void snib__forked_close(struct snib__sqlite *self)
{
    pthread_mutex_lock(&all.mutex);
    if (!all.spoilt) {
        forked_go_in();
        pthread_mutex_unlock(&all.mutex);
        snib__db_close(&self->db);
        pthread_mutex_lock(&all.mutex);
        all.inside--;
        pthread_cond_broadcast(&all.changed);
    }
    snib__unlink(&self->link);
    pthread_mutex_unlock(&all.mutex);
}

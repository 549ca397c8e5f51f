/* wrap.c — what the product calls instead of the C library (-Wl,--wrap).
 *
 * Calls of threads that are not of a run go through. In a child by fork there
 * is one thread: nothing is scheduled, and what would have to wait there ends
 * it with a status of its own (sched.c).
 *
 * Each mutex that the scheduler gives to a thread is taken in earnest, too,
 * and is free by then. So ThreadSanitizer sees what the product orders, and
 * nothing of how the scheduler lets one thread run after the other.
 *
 * Two functions of the product are replaced, too: what a client says of its
 * process and its random numbers, since both differ from run to run; and the
 * table of stores, which can be told to give a memory: whose exec() counts as
 * one that blocks. */
#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/engine.h"
#include "program.h"
#include "real.h"
#include "redis.h"
#include "run/inside.h"
#include "sched.h"
#include "store/memory/memory.h"

static bool ours(void)
{
    return sched_self() >= 0;
}

static int64_t ns_of(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

static int64_t until(const struct timespec *t)
{
    return t ? sched_now() + ns_of(t) : INT64_MAX;
}

/* -- mutexes and conditions ------------------------------------------------------ */

/* For AddressSanitizer: the scheduler knows addresses only. */
static void look_at(const void *object)
{
    (void)*(const volatile char *)object;
}

int WRAP(pthread_mutex_lock)(pthread_mutex_t *m)
{
    look_at(m);
    if (sched.child && sched_is_taken(m)) {
        _exit(97); /* for ever: its owner is the parent's */
    }
    if (!ours()) {
        return REAL(pthread_mutex_lock)(m);
    }
    sched_lock(m);
    return REAL(pthread_mutex_lock)(m);
}

int WRAP(pthread_mutex_trylock)(pthread_mutex_t *m)
{
    if (!ours() && !sched.child) {
        return REAL(pthread_mutex_trylock)(m);
    }
    return sched_trylock(m) ? REAL(pthread_mutex_trylock)(m) : EBUSY;
}

int WRAP(pthread_mutex_unlock)(pthread_mutex_t *m)
{
    look_at(m);
    if (!ours()) {
        return REAL(pthread_mutex_unlock)(m);
    }
    int err = REAL(pthread_mutex_unlock)(m);
    sched_unlock(m);
    return err;
}

int WRAP(pthread_mutex_destroy)(pthread_mutex_t *m)
{
    if (ours()) {
        sched_destroy(m);
    }
    return REAL(pthread_mutex_destroy)(m);
}

static bool wait_for(pthread_cond_t *c, pthread_mutex_t *m, int64_t end)
{
    REAL(pthread_mutex_unlock)(m); /* nobody takes it before it is sched's */
    bool woken = sched_cond_wait(c, m, end);
    REAL(pthread_mutex_lock)(m);
    return woken;
}

int WRAP(pthread_cond_wait)(pthread_cond_t *c, pthread_mutex_t *m)
{
    if (!ours()) {
        return REAL(pthread_cond_wait)(c, m);
    }
    (void)wait_for(c, m, INT64_MAX);
    return 0;
}

/* The product sets its conditions to MONOTONIC, which is the run's time. */
int WRAP(pthread_cond_timedwait)(pthread_cond_t *c, pthread_mutex_t *m,
                                 const struct timespec *at)
{
    if (!ours()) {
        return REAL(pthread_cond_timedwait)(c, m, at);
    }
    return wait_for(c, m, ns_of(at)) ? 0 : ETIMEDOUT;
}

int WRAP(pthread_cond_signal)(pthread_cond_t *c)
{
    look_at(c);
    if (!ours()) {
        return REAL(pthread_cond_signal)(c);
    }
    sched_cond_wake(c, false);
    return 0;
}

int WRAP(pthread_cond_broadcast)(pthread_cond_t *c)
{
    look_at(c);
    if (!ours()) {
        return REAL(pthread_cond_broadcast)(c);
    }
    sched_cond_wake(c, true);
    return 0;
}

/* -- threads ------------------------------------------------------------------------- */

int WRAP(pthread_create)(pthread_t *ret, const pthread_attr_t *attr,
                         void *(*body)(void *), void *arg)
{
    if (!ours()) {
        return REAL(pthread_create)(ret, attr, body, arg);
    }
    return sched_create(ret, body, arg);
}

int WRAP(pthread_join)(pthread_t id, void **ret)
{
    return ours() ? sched_join(id) : REAL(pthread_join)(id, ret);
}

/* -- sleeping -------------------------------------------------------------------------- */

int WRAP(ppoll)(struct pollfd *v, nfds_t n, const struct timespec *patience,
                const sigset_t *mask)
{
    if (!ours()) {
        return REAL(ppoll)(v, n, patience, mask);
    }
    return sched_poll(v, n, until(patience), NULL);
}

int WRAP(__ppoll_chk)(struct pollfd *v, nfds_t n,
                      const struct timespec *patience, const sigset_t *mask,
                      size_t size)
{
    if (!ours()) {
        return REAL(__ppoll_chk)(v, n, patience, mask, size);
    }
    return sched_poll(v, n, until(patience), NULL);
}

int WRAP(epoll_wait)(int fd, struct epoll_event *ev, int max, int ms)
{
    if (ours()) {
        struct pollfd v = {.fd = fd, .events = POLLIN};
        int64_t end = ms < 0 ? INT64_MAX : sched_now() + ms * INT64_C(1000000);
        (void)sched_poll(&v, 1, end, NULL);
        ms = 0;
    }
    return REAL(epoll_wait)(fd, ev, max, ms);
}

static long futex(const uint32_t *word, int op, uint32_t value,
                  const struct timespec *patience)
{
    if (op == FUTEX_WAIT_PRIVATE) {
        sched_point("sleep on", word);
        if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) {
            errno = EAGAIN;
            return -1;
        }
        if (!sched_word_wait(word, until(patience))) {
            errno = ETIMEDOUT;
            return -1;
        }
        return 0;
    }
    sched_point("wake", word);
    sched_word_wake(word);
    return 0;
}

long WRAP(syscall)(long number, ...)
{
    long a[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(args, long);
    }
    va_end(args);
    if (number == SYS_futex && ours()) {
        return futex((const uint32_t *)a[0], (int)a[1], (uint32_t)a[2],
                     (const struct timespec *)a[3]);
    }
    return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int WRAP(nanosleep)(const struct timespec *t, struct timespec *left)
{
    if (!ours()) {
        return REAL(nanosleep)(t, left);
    }
    sched_sleep(until(t));
    return 0;
}

/* -- descriptors ------------------------------------------------------------------------- */

static ssize_t touched(int fd, ssize_t n, const char *what)
{
    if (n < 0 && errno == EBADF) {
        sched_fail("%s: descriptor %d is closed", what, fd);
    }
    return n;
}

ssize_t WRAP(read)(int fd, void *to, size_t size)
{
    if (!ours()) {
        return REAL(read)(fd, to, size);
    }
    sched_touch("read");
    return touched(fd, REAL(read)(fd, to, size), "read");
}

ssize_t WRAP(write)(int fd, const void *from, size_t size)
{
    if (!ours()) {
        return REAL(write)(fd, from, size);
    }
    sched_touch("write");
    return touched(fd, REAL(write)(fd, from, size), "write");
}

int WRAP(eventfd_read)(int fd, uint64_t *ret)
{
    return WRAP(read)(fd, ret, sizeof *ret) == sizeof *ret ? 0 : -1;
}

int WRAP(eventfd_write)(int fd, uint64_t value)
{
    return WRAP(write)(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}

int WRAP(close)(int fd)
{
    if (ours()) {
        sched_closed(fd);
    }
    return REAL(close)(fd);
}

/* -- sockets ------------------------------------------------------------------------------ */

int WRAP(connect)(int fd, const struct sockaddr *to, socklen_t size)
{
    if (!ours()) {
        return REAL(connect)(fd, to, size);
    }
    sched_touch("connect");
    return redis_connect(fd);
}

ssize_t WRAP(send)(int fd, const void *from, size_t size, int flags)
{
    if (!ours()) {
        return REAL(send)(fd, from, size, flags);
    }
    sched_touch("send");
    return touched(fd, REAL(send)(fd, from, size, flags), "send");
}

ssize_t WRAP(recv)(int fd, void *to, size_t size, int flags)
{
    if (!ours()) {
        return REAL(recv)(fd, to, size, flags);
    }
    sched_touch("recv");
    return touched(fd, REAL(recv)(fd, to, size, flags), "recv");
}

ssize_t WRAP(__recv_chk)(int fd, void *to, size_t size, size_t room, int flags)
{
    (void)room; /* recv() looks at it, where it is asked for at all */
    return WRAP(recv)(fd, to, size, flags);
}

/* -- time ------------------------------------------------------------------------------------ */

int WRAP(clock_gettime)(clockid_t clock, struct timespec *ret)
{
    int64_t now = sched_now();
    if (!ours()) {
        return REAL(clock_gettime)(clock, ret);
    }
    if (clock == CLOCK_REALTIME) {
        now += INT64_C(1700000000) * 1000000000;
    }
    *ret = (struct timespec){.tv_sec = now / 1000000000,
                             .tv_nsec = now % 1000000000};
    return 0;
}

/* The timer on REALTIME is there for steps of the clock, which do not come. */
int WRAP(timerfd_create)(int clock, int flags)
{
    if (!ours()) {
        return REAL(timerfd_create)(clock, flags);
    }
    return sched_timer_new(clock == CLOCK_BOOTTIME);
}

int WRAP(timerfd_settime)(int fd, int flags, const struct itimerspec *t,
                          struct itimerspec *old)
{
    if (!ours()) {
        return REAL(timerfd_settime)(fd, flags, t, old);
    }
    int64_t at = ns_of(&t->it_value);
    sched_timer_set(fd, at ? at : INT64_MAX);
    return 0;
}

/* -- of the product ---------------------------------------------------------------------------- */

void WRAP(snib__self_about)(struct snib__about *, const char *, const char *);
snib_err WRAP(snib__self_seed)(struct snib__seed *, struct snib_error *);
const struct snib__registered *WRAP(snib__store_find)(const char *scheme);
const struct snib__registered *REAL(snib__store_find)(const char *scheme);

void WRAP(snib__self_about)(struct snib__about *a, const char *program,
                            const char *reason)
{
    (void)reason;
    *a = (struct snib__about){.pid = 4711, .start = 1}; /* told in words */
    snprintf(a->program, sizeof a->program, "%s", program ? program : "?");
}

/* Of the same bytes are the same ids and the same jitter. */
snib_err WRAP(snib__self_seed)(struct snib__seed *ret,
                               struct snib_error *reterr)
{
    (void)reterr;
    memset(ret, 0, sizeof *ret);
    uint64_t n = program_next_seed();
    memcpy(ret, &n, sizeof n);
    return SNIB_ERR_OK;
}

const struct snib__registered *WRAP(snib__store_find)(const char *scheme)
{
    static struct snib__blocking_ops ops;
    static struct snib__registered slow;
    if (!program_slow() || strcmp(scheme, "memory") != 0) {
        return REAL(snib__store_find)(scheme);
    }
    slow = *REAL(snib__store_find)(scheme);
    ops = *slow.blocking;
    ops.caps &= ~(uint32_t)SNIB__IN_PROCESS;
    slow.blocking = &ops;
    return &slow;
}

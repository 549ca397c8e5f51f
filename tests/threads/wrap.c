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
 * A program may let a call fail (host_fails), move the wall clock, and hear what
 * is asked of the kernel (host_does). */
#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"
#include "real.h"
#include "redis.h"
#include "sched.h"

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
    sigset_t blocked;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    host_does("a thread", -1, sigismember(&blocked, SIGTERM),
              sigismember(&blocked, SIGUSR1));
    int err = host_fails("pthread_create");
    return err ? err : sched_create(ret, body, arg);
}

int WRAP(pthread_detach)(pthread_t id)
{
    return ours() ? sched_detach(id) : REAL(pthread_detach)(id);
}

int WRAP(pthread_join)(pthread_t id, void **ret)
{
    return ours() ? sched_join(id) : REAL(pthread_join)(id, ret);
}

/* -- sleeping -------------------------------------------------------------------------- */

static int poll_until(struct pollfd *v, nfds_t n,
                      const struct timespec *patience)
{
    for (nfds_t i = 0; i < n; i++) {
        host_does("polls", v[i].fd, v[i].events, 0);
    }
    host_does("so long", -1, patience ? ns_of(patience) : -1, (int64_t)n);
    int ready = sched_poll(v, n, until(patience), NULL);
    for (nfds_t i = 0; i < n && ready > 0; i++) {
        host_does("is ready", v[i].fd, v[i].revents, ready);
    }
    return ready;
}

int WRAP(ppoll)(struct pollfd *v, nfds_t n, const struct timespec *patience,
                const sigset_t *mask)
{
    if (!ours()) {
        return REAL(ppoll)(v, n, patience, mask);
    }
    return poll_until(v, n, patience);
}

int WRAP(__ppoll_chk)(struct pollfd *v, nfds_t n,
                      const struct timespec *patience, const sigset_t *mask,
                      size_t size)
{
    if (!ours()) {
        return REAL(__ppoll_chk)(v, n, patience, mask, size);
    }
    return poll_until(v, n, patience);
}

int WRAP(epoll_wait)(int fd, struct epoll_event *ev, int max, int ms)
{
    if (!ours()) {
        return REAL(epoll_wait)(fd, ev, max, ms);
    }
    struct pollfd v = {.fd = fd, .events = POLLIN};
    int64_t end = ms < 0 ? INT64_MAX : sched_now() + ms * INT64_C(1000000);
    host_does("waits at", fd, ms, max);
    (void)sched_poll(&v, 1, end, NULL);
    int n = REAL(epoll_wait)(fd, ev, max, 0);
    for (int i = 0; i < n; i++) {
        host_does("comes", -1, (int64_t)ev[i].data.u64, ev[i].events);
    }
    return n;
}

static long futex(const uint32_t *word, int op, uint32_t value,
                  const struct timespec *patience)
{
    if ((op & ~FUTEX_PRIVATE_FLAG) == FUTEX_WAIT) {
        host_does("sleeps on a word", -1, patience ? ns_of(patience) : -1, 0);
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
    host_does("pauses", -1, ns_of(t), 0);
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
    ssize_t n = touched(fd, REAL(read)(fd, to, size), "read");
    host_does("reads", fd, n, (int64_t)size);
    if (n > 0 && sched_timer_steps(fd)) {
        errno = ECANCELED;
        return -1;
    }
    return n;
}

ssize_t WRAP(write)(int fd, const void *from, size_t size)
{
    if (!ours()) {
        return REAL(write)(fd, from, size);
    }
    sched_touch("write");
    host_does("writes", fd, (int64_t)size, 0);
    return touched(fd, REAL(write)(fd, from, size), "write");
}

int WRAP(eventfd_read)(int fd, uint64_t *ret)
{
    return WRAP(read)(fd, ret, sizeof *ret) == sizeof *ret ? 0 : -1;
}

int WRAP(eventfd_write)(int fd, uint64_t value)
{
    if (ours() && host_wakes(fd)) {
        return 0;
    }
    return WRAP(write)(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}

int WRAP(close)(int fd)
{
    if (ours()) {
        host_does("closes", fd, 0, 0);
        host_fd_goes(fd);
        sched_closed(fd);
    }
    return REAL(close)(fd);
}

/* -- sockets ------------------------------------------------------------------------------ */

static int64_t digest(const void *bytes, size_t size)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < size; i++) {
        h = (h ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
    }
    return (int64_t)(h >> 1);
}

int WRAP(connect)(int fd, const struct sockaddr *to, socklen_t size)
{
    if (!ours()) {
        return REAL(connect)(fd, to, size);
    }
    sched_touch("connect");
    host_does("connects", fd, to->sa_family, digest(to, size));
    int err = host_fails("connect");
    if (err) {
        errno = err;
        return -1;
    }
    err = redis_connect(fd);
    return host_size("connect", 2) == 1 ? 0 : err;
}

ssize_t WRAP(send)(int fd, const void *from, size_t size, int flags)
{
    if (!ours()) {
        return REAL(send)(fd, from, size, flags);
    }
    sched_touch("send");
    int err = host_fails("send");
    if (err) {
        errno = err;
        return -1;
    }
    host_does("sends", fd, (int64_t)size, flags);
    size = host_size("send", size);
    return touched(fd, REAL(send)(fd, from, size, flags), "send");
}

ssize_t WRAP(recv)(int fd, void *to, size_t size, int flags)
{
    if (!ours()) {
        return REAL(recv)(fd, to, size, flags);
    }
    sched_touch("recv");
    int err = host_fails("recv");
    if (err) {
        errno = err;
        return -1;
    }
    size = host_size("recv", size);
    ssize_t n = touched(fd, REAL(recv)(fd, to, size, flags), "recv");
    host_does("receives", fd, n, (int64_t)size);
    return n;
}

ssize_t WRAP(__recv_chk)(int fd, void *to, size_t size, size_t room, int flags)
{
    (void)room; /* recv() looks at it, where it is asked for at all */
    return WRAP(recv)(fd, to, size, flags);
}

/* -- time ------------------------------------------------------------------------------------ */

int WRAP(clock_gettime)(clockid_t clock, struct timespec *ret)
{
    if (!ours()) {
        return REAL(clock_gettime)(clock, ret);
    }
    host_clock();
    int64_t now = sched_now();
    if (clock == CLOCK_REALTIME) {
        now += host_wall();
    }
    *ret = (struct timespec){.tv_sec = now / 1000000000,
                             .tv_nsec = now % 1000000000};
    return 0;
}

/* The timer on REALTIME is there for steps of the clock: sched_step. */
int WRAP(timerfd_create)(int clock, int flags)
{
    if (!ours()) {
        return REAL(timerfd_create)(clock, flags);
    }
    int err = flags == (TFD_CLOEXEC | TFD_NONBLOCK)
                  ? host_fails("timerfd_create")
                  : EINVAL;
    if (err) {
        errno = err;
        return -1;
    }
    int fd = sched_timer_new(clock == CLOCK_BOOTTIME);
    host_fd("timer", fd);
    host_does("makes", fd, clock, flags);
    return fd;
}

int WRAP(timerfd_settime)(int fd, int flags, const struct itimerspec *t,
                          struct itimerspec *old)
{
    if (!ours()) {
        return REAL(timerfd_settime)(fd, flags, t, old);
    }
    int64_t at = ns_of(&t->it_value);
    if (flags & ~(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET)) {
        errno = EINVAL;
        return -1;
    }
    if (at && !(flags & TFD_TIMER_ABSTIME)) {
        at += sched_now();
    }
    if (sched_timer_steps(fd) && !(flags & TFD_TIMER_CANCEL_ON_SET)) {
        at = 0; /* it will not hear of a step */
    }
    host_does("arms", fd, at, flags);
    sched_timer_set(fd, at ? at : INT64_MAX);
    return 0;
}

/* tests/unit/holder_host.h — what the holder process of `snib run` calls, in
 * place of libc's: time, threads, descriptors, signals. See holder_world.h. */
#ifndef SNIB_TESTS_HOLDER_HOST_H
#define SNIB_TESTS_HOLDER_HOST_H

#include "holder_moves.h"

#include "cli/store/look.h"

#include <sys/ioctl.h>
#include <sys/signalfd.h>

/* -- time, threads ----------------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (!same.on) {
        return __real_clock_gettime(clock, ret);
    }
    if (same.run % 4 == 1 && chance("stopped at the clock", 60)) {
        w.now += 20 * S;
    }
    *ret = (struct timespec){.tv_sec = w.now / S, .tv_nsec = w.now % S};
    return 0;
}

int __real_nanosleep(const struct timespec *t, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest)
{
    if (!same.on) {
        return __real_nanosleep(t, rest);
    }
    tell("sleeps %lld", (long long)t->tv_sec * 1000 + t->tv_nsec / MS);
    pass(t->tv_sec * S + t->tv_nsec);
    if (chance("meanwhile", 40)) {
        something_happens();
    }
    return 0;
}

/* This and the timed wait below are in the place of libc's for all that is
 * linked here: nothing is to wait. */
int pthread_create(pthread_t *ret, const pthread_attr_t *attributes,
                   void *(*start)(void *), void *data)
{
    static const int64_t delays[] = {0, MS, 30 * MS, 90 * MS, 2 * S, 12 * S};
    struct fake_thread *t = &w.threads[w.thread_count];
    int64_t due = w.now + delays[pick("thread", COUNT_OF(delays))];
    if (!look_pending()) { /* it waits for several */
        int64_t limit = limit_of_wait();
        bool limited = w.plan.wait_ms > 0 && w.plan.wait_ms != INT64_MAX;
        limit += limited && chance("late", 3) ? 2 * S : 0;
        due += w.slow ? 100 * S : 0;
        due = due < limit ? due : limit;
    }
    tell("thread %d %d", w.thread_count, attributes != NULL);
    if (fails("pthread_create")) {
        return errno;
    }
    if (w.thread_count + 1 == THREADS_MAX) {
        same_end();
    }
    *t = (struct fake_thread){
        .main = start, .data = data, .due = due, .here = true};
    memset(ret, 0, sizeof *ret);
    memcpy(ret, &w.thread_count, sizeof w.thread_count);
    w.thread_count++;
    return 0;
}

static int thread_number(pthread_t thread)
{
    int number;
    memcpy(&number, &thread, sizeof number);
    return number;
}

int __wrap_pthread_detach(pthread_t thread)
{
    w.threads[thread_number(thread)].detached = true;
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **ret)
{
    struct fake_thread *t = &w.threads[thread_number(thread)];
    (void)ret;
    tell("joins %d %d", thread_number(thread), t->detached);
    if (t->here) {
        if (!w.multi.cancelled && t->due > w.now) {
            pass(t->due - w.now);
        }
        if (t->here) {
            thread_runs(t);
        }
    }
    return 0;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                           const struct timespec *until)
{
    int64_t limit = until->tv_sec * S + until->tv_nsec;
    int64_t due = threads_due(limit);
    (void)cond;
    tell("waits %lld", (long long)(limit - w.now));
    pthread_mutex_unlock(mutex);
    pass(due > w.now ? due - w.now : 0);
    pthread_mutex_lock(mutex);
    return due < limit ? 0 : ETIMEDOUT;
}

/* -- poll, read, write ---------------------------------------------------------------- */

/* One that asks or answers, or stderr: soon, or not at all. */
static int poll_one(struct pollfd *p, int timeout)
{
    if (fd_is(p->fd, "stderr") ? chance("stderr is stopped", 30)
                               : chance("silent", 8)) {
        pass(timeout * MS);
        return 0;
    }
    pass(fd_is(p->fd, "outer") ? (int64_t)pick("outer after", 3) * MS : 0);
    p->revents = chance("hung up", 30) ? POLLHUP : p->events;
    return 1;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    char what[200] = "";
    for (nfds_t i = 0; i < count; i++) {
        size_t used = strlen(what);
        snprintf(what + used, sizeof what - used, " %s:%d:%d",
                 fd_kind(fds[i].fd), fds[i].events, fds[i].revents);
    }
    tell("polls%s for %d", what, timeout);
    tell("page: until %lld, group %d, offer %d",
         (long long)atomic_load(&w.page.deadline_ns),
         (int)atomic_load(&w.page.group), (int)atomic_load(&w.page.offer));
    if (fails("poll")) {
        something_happens();
        for (nfds_t i = 0; i < count; i++) {
            fds[i].revents = (short)(count > 1 ? POLLERR : 0);
        }
        return -1;
    }
    return count == 1 ? poll_one(fds, timeout) : wait_for(fds, count, timeout);
}

int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout,
                      size_t size);
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout,
                      size_t size)
{
    (void)size;
    return __wrap_poll(fds, count, timeout);
}

static ssize_t read_signal(struct signalfd_siginfo *to)
{
    if (w.signal_count == 0) {
        errno = EAGAIN;
        return -1;
    }
    *to = (struct signalfd_siginfo){.ssi_signo = (uint32_t)w.signals[0]};
    memmove(w.signals, w.signals + 1,
            sizeof *w.signals * (size_t)--w.signal_count);
    return sizeof *to;
}

static ssize_t read_count(uint64_t *to)
{
    errno = EAGAIN;
    *to = w.changed;
    w.changed = 0;
    return *to > 0 ? 8 : -1;
}

static ssize_t read_file(char *to, size_t size)
{
    size_t left = w.file_size - w.file_at;
    size = size < left ? size : left;
    memcpy(to, w.file + w.file_at, size);
    w.file_at += size;
    return (ssize_t)size;
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
    if (!same.on) {
        return __real_read(fd, to, size);
    }
    if (fd_is(fd, "file")) {
        return fails("read") ? -1 : read_file(to, size);
    }
    tell("reads %s", fd_kind(fd));
    if (fails("read")) {
        return -1;
    }
    if (fd_is(fd, "signals") && size >= sizeof(struct signalfd_siginfo)) {
        return read_signal(to);
    }
    if (fd_is(fd, "changed") && size >= 8) {
        return read_count(to);
    }
    errno = EBADF;
    return -1;
}

ssize_t __wrap___read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __wrap___read_chk(int fd, void *to, size_t size, size_t room)
{
    assert_true(size <= room);
    return __wrap_read(fd, to, size);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    if (!same.on) {
        return __real_write(fd, bytes, size);
    }
    if (fd_is(fd, "changed")) {
        w.changed++;
        tell("wakes");
        return fails("write") ? -1 : 8;
    }
    size = fd == 2 && size > 30 && chance("a piece", 30) ? 30 : size;
    tell("writes to %s: %.*s", fd_kind(fd), (int)size, (const char *)bytes);
    return fails("write") ? -1 : (ssize_t)size;
}

/* -- descriptors ------------------------------------------------------------------------ */

int __wrap_close(int fd)
{
    if (!same.on) {
        return __real_close(fd);
    }
    if (!fd_is(fd, "file") && !fd_is(fd, "pidfd")) {
        tell("closes %s", fd_kind(fd));
    }
    w.listens = w.listens && !fd_is(fd, "listener");
    w.asker = w.asker && !fd_is(fd, "listener");
    if (fd >= FD_FIRST && fd < FD_MAX) {
        fds_open[fd].kind = NULL;
    }
    return 0;
}

int __wrap_close_range(unsigned from, unsigned to, int flags)
{
    tell("closes %u to %u, %d", from, to, flags);
    for (unsigned fd = from; fd < FD_MAX && fd <= to; fd++) {
        fds_open[fd].kind = NULL;
    }
    return 0;
}

int __wrap_dup2(int from, int to)
{
    tell("makes %s of %d", fd_kind(from), to);
    return fails("dup2") ? -1 : to;
}

int __wrap_fcntl(int fd, int what, ...)
{
    va_list list;
    va_start(list, what);
    int value = va_arg(list, int);
    va_end(list);
    tell("fcntl %d %d %d", fd, what, value);
    return fails("fcntl") ? -1 : fd_new("spare");
}

int __wrap_eventfd(unsigned count, int flags)
{
    tell("eventfd %u %d", count, flags);
    return fails("eventfd") ? -1 : fd_new("changed");
}

static void tell_set(const char *what, int how, const sigset_t *set)
{
    char list[200] = "";
    for (int sig = 1; set && sig < 32; sig++) {
        size_t used = strlen(list);
        if (sigismember(set, sig) == 1) {
            snprintf(list + used, sizeof list - used, " %d", sig);
        }
    }
    tell("%s %d%s", what, how, list);
}

int __wrap_signalfd(int fd, const sigset_t *set, int flags)
{
    tell_set("signalfd", flags + fd + 1, set);
    errno = ENOMEM;
    return same.run % 16 == 5 || fails("signalfd") ? -1 : fd_new("signals");
}

int __real_sigprocmask(int, const sigset_t *, sigset_t *);
int __wrap_sigprocmask(int how, const sigset_t *to, sigset_t *was)
{
    if (!same.on) {
        return __real_sigprocmask(how, to, was);
    }
    tell_set("mask", how, to);
    return 0;
}

int __real_isatty(int fd);
int __wrap_isatty(int fd)
{
    return same.on ? same.run % 2 != 0 && fd == 2 : __real_isatty(fd);
}

int __wrap_ioctl(int fd, unsigned long what, ...)
{
    va_list list;
    va_start(list, what);
    struct winsize *size = va_arg(list, struct winsize *);
    va_end(list);
    if (fd != 2 || what != TIOCGWINSZ || fails("ioctl")) {
        return -1;
    }
    *size = (struct winsize){.ws_col = same.run % 3 == 0 ? 15 : 60};
    return 0;
}

#include "holder_proc.h"
#include "holder_sockets.h"

#endif

/* tests/unit/file_host.h — what a mapped file's store calls besides files: clocks,
 * processes, sets of what to wait for, in place of libc's and of the host's own.
 * Each tells its line. See file_world.h. */
#ifndef SNIB_TESTS_FILE_HOST_H
#define SNIB_TESTS_FILE_HOST_H

#include "file_calls.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

/* -- clocks -------------------------------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (!same.on) {
        return __real_clock_gettime(clock, ret);
    }
    int64_t ns = w.now + (clock == CLOCK_REALTIME ? w.wall_ms * MS : 0);
    *ret = (struct timespec){.tv_sec = ns / S, .tv_nsec = ns % S};
    return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *rest)
{
    static const int64_t more[] = {0, 0, 2, 900, 3000, 6000};
    (void)rest;
    tell("sleeps %lld", (long long)t->tv_sec * S + t->tv_nsec);
    w.now += t->tv_sec * S + t->tv_nsec + more[pick("oversleeps", 6)] * MS;
    meanwhile();
    return 0;
}

int __wrap_sched_yield(void)
{
    tell("yields");
    w.now += chance("others run", 3) ? 300 * MS : 0;
    return 0;
}

/* -- processes -------------------------------------------------------------------------------- */

static int64_t pid_of(int client); /* file_clients.h                        */

pid_t __wrap_getpid(void)
{
    return (pid_t)(pid_of(w.who) + (w.child ? 500 : 0));
}

bool __wrap_snib__host_gone(const struct snib__host *h, int64_t pid,
                            int64_t start, int64_t pidns, bool thorough);
bool __wrap_snib__host_gone(const struct snib__host *h, int64_t pid,
                            int64_t start, int64_t pidns, bool thorough)
{
    tell("is %lld gone, of %lld in %lld, %d", (long long)pid, (long long)start,
         (long long)pidns, thorough);
    if (pid <= 0 || !pidns || pidns != h->pidns || goes_wrong("pidfd")) {
        return false;
    }
    const struct process *p = process_of(pid);
    return !p || p->ended || (thorough && start > 0 && p->start != start);
}

int __wrap_snib__host_pidfd(const struct snib__host *h, int64_t pid,
                            int64_t pidns);
int __wrap_snib__host_pidfd(const struct snib__host *h, int64_t pid,
                            int64_t pidns)
{
    tell("pidfd of %lld in %lld", (long long)pid, (long long)pidns);
    if (pid <= 0 || !pidns || pidns != h->pidns || goes_wrong("pidfd") ||
        !process_of(pid)) {
        return -1;
    }
    int fd = open_fd(FD_PIDFD, NULL);
    FD(fd).pid = pid;
    return fd;
}

bool __wrap_snib__host_user_of(int fd, char ret[SNIB__WHO]);
bool __wrap_snib__host_user_of(int fd, char ret[SNIB__WHO])
{
    tell("who uses %s", fd_text(fd));
    ret[0] = 0;
    if (chance("is known", 2)) {
        snprintf(ret, SNIB__WHO, "process 4312");
    }
    return ret[0] != 0;
}

bool __wrap_snib__host_user_at(int fd, uint32_t inode, bool mine,
                               char ret[SNIB__WHO]);
bool __wrap_snib__host_user_at(int fd, uint32_t inode, bool mine,
                               char ret[SNIB__WHO])
{
    bool known = false;
    for (int i = 0; i < FDS; i++) {
        known = known || (w.fds[i].is == FD_FILE && w.fds[i].flock &&
                          w.fds[i].node->ino == inode);
    }
    tell("who uses %u beside %s, mine %d: %d", inode, fd_text(fd), mine, known);
    known = known && !chance("is in no list", 4);
    snprintf(ret, SNIB__WHO, known ? "process 4312" : "");
    return known;
}

void __wrap_snib__host_read(struct snib__host *h);
void __wrap_snib__host_read(struct snib__host *h)
{
    const struct process *p = process_of(pid_of(w.who));
    *h = (struct snib__host){.proc = true,
                             .pid = pid_of(w.who),
                             .start = p ? p->start : 0,
                             .pidns = w.pidns};
    memcpy(h->boot, w.boot, sizeof h->boot);
    tell("reads the host");
}

/* -- sets ---------------------------------------------------------------------------------------- */

int __wrap_eventfd(unsigned count, int flags)
{
    tell("eventfd %u %d", count, flags);
    return goes_wrong("event") ? -1 : open_fd(FD_EVENT, NULL);
}

int __wrap_eventfd_write(int fd, eventfd_t n)
{
    tell("eventfd_write %s %d", fd_text(fd), (int)n);
    assert_true(is_open(fd, FD_EVENT));
    FD(fd).count += n;
    return 0;
}

int __wrap_eventfd_read(int fd, eventfd_t *ret)
{
    assert_true(is_open(fd, FD_EVENT));
    tell("eventfd_read %s: %d", fd_text(fd), FD(fd).count > 0);
    *ret = FD(fd).count;
    FD(fd).count = 0;
    return *ret ? 0 : fault(EAGAIN);
}

int __wrap_epoll_create1(int flags)
{
    tell("epoll_create1 %d", flags);
    return goes_wrong("epoll") ? -1 : open_fd(FD_EPOLL, NULL);
}

int __wrap_epoll_ctl(int set, int what, int fd, struct epoll_event *e)
{
    tell("epoll_ctl %s %d %s %d %d", fd_text(set), what, fd_text(fd),
         e ? (int)e->events : -1, e ? (int)e->data.u32 : -1);
    if (goes_wrong("epoll_ctl")) {
        return -1;
    }
    if (!is_open(set, FD_EPOLL)) {
        return fault(EBADF);
    }
    for (int i = 0; i < WATCHED; i++) {
        int *there = &FD(set).watched[i].fd;
        if (what == EPOLL_CTL_DEL ? *there == fd : *there == 0) {
            *there = what == EPOLL_CTL_DEL ? 0 : fd;
            FD(set).watched[i].data = e ? e->data.u32 : 0;
            return 0;
        }
    }
    return fault(ENOENT);
}

static bool is_ready(int fd)
{
    if (is_open(fd, FD_PIDFD)) {
        const struct process *p = process_of(FD(fd).pid);
        return !p || p->ended;
    }
    return is_open(fd, FD_EVENT) && FD(fd).count > 0;
}

int __wrap_epoll_wait(int set, struct epoll_event *e, int max, int timeout)
{
    int n = 0;
    tell("epoll_wait %s %d %d", fd_text(set), max, timeout);
    if (goes_wrong("epoll_wait")) {
        return -1;
    }
    for (int i = 0; i < WATCHED && n < max; i++) {
        if (FD(set).watched[i].fd && is_ready(FD(set).watched[i].fd)) {
            e[n].events = EPOLLIN;
            e[n++].data.u32 = FD(set).watched[i].data;
        }
    }
    return n;
}

/* -- for same.h and the watches ------------------------------------------------------ */

pid_t __wrap_fork(void)
{
    return __real_fork();
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
    return __real_read(fd, to, size);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    return __real_write(fd, bytes, size);
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    return __real_waitpid(pid, status, options);
}

_Noreturn void __wrap__exit(int code);
_Noreturn void __wrap__exit(int code)
{
    __real__exit(code);
}

#endif

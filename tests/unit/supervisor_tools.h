/* tests/unit/supervisor_tools.h — the rest of supervisor_host.h: the page, signals, the
 * timer, the terminal. */
#ifndef SNIB_TESTS_SUPERVISOR_TOOLS_H
#define SNIB_TESTS_SUPERVISOR_TOOLS_H

#include "supervisor_world.h"

#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

void *__real_mmap(void *, size_t, int, int, int, off_t);
int __real_munmap(void *, size_t);
int __real_sigaction(int, const struct sigaction *, struct sigaction *);
int __real_sigprocmask(int, const sigset_t *, sigset_t *);

void *__wrap_mmap(void *at, size_t size, int prot, int flags, int fd, off_t off)
{
    if (!same.on || size != sizeof w.page || !(flags & MAP_SHARED)) {
        return __real_mmap(at, size, prot, flags, fd, off);
    }
    tell("maps %d %d", prot, flags);
    memset(&w.page, 0, sizeof w.page);
    return fails("mmap") ? MAP_FAILED : &w.page;
}

int __wrap_munmap(void *at, size_t size)
{
    if (at != &w.page) {
        return __real_munmap(at, size);
    }
    tell("unmaps %d", size == sizeof w.page);
    return 0;
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

int __wrap_sigaction(int sig, const struct sigaction *to, struct sigaction *was)
{
    if (!same.on) {
        return __real_sigaction(sig, to, was);
    }
    tell("sigaction %d %d %d", sig, to && to->sa_handler == SIG_DFL,
         was != NULL);
    if (was) {
        /* what was ignored when it began; SIGCHLD always */
        *was = (struct sigaction){
            .sa_handler = to || (same.run + sig) % 3 == 0 ? SIG_IGN : SIG_DFL};
    }
    return 0;
}

int __wrap_sigprocmask(int how, const sigset_t *to, sigset_t *was)
{
    if (!same.on) {
        return __real_sigprocmask(how, to, was);
    }
    tell_set("mask", how, to);
    if (was) {
        sigemptyset(was);
        sigaddset(was, SIGUSR2);
    }
    return 0;
}

int __wrap_signalfd(int fd, const sigset_t *set, int flags)
{
    tell_set("signalfd", flags + fd + 1, set);
    return fails("signalfd") ? -1 : fd_new("signals");
}

int __wrap_timerfd_create(int clock, int flags)
{
    tell("timerfd %d %d", clock, flags);
    return fails("timerfd") ? -1 : fd_new("timer");
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *to,
                           struct itimerspec *was)
{
    int64_t at = to->it_value.tv_sec * S + to->it_value.tv_nsec;
    (void)was;
    tell("arms %s %d %lld %lld", fd_kind(fd), flags, (long long)at,
         (long long)to->it_interval.tv_nsec);
    w.armed = at ? at : INT64_MAX;
    return 0;
}

int __wrap_isatty(int fd)
{
    return w.foreground != 0 && fd != (int)(same.run % 3);
}

pid_t __wrap_tcgetpgrp(int fd)
{
    errno = ENOTTY;
    return fd == (int)(same.run % 4) && w.foreground ? w.foreground : -1;
}

int __wrap_tcsetpgrp(int fd, pid_t group)
{
    tell("terminal %d to %d", fd, (int)group);
    if (fails("tcsetpgrp")) {
        return -1;
    }
    w.foreground = group;
    return 0;
}

pid_t __wrap_getpgrp(void)
{
    return SELF;
}

#endif

/* tests/unit/supervisor_host.h — what the supervisor of `snib run` calls, in place of
 * libc's and of what is not under test. Each tells its line. See same.h. */
#ifndef SNIB_TESTS_SUPERVISOR_HOST_H
#define SNIB_TESTS_SUPERVISOR_HOST_H

#include "supervisor_world.h"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>

#include "cli/holder/holder.h"
#include "cli/supervisor/proc.h"

/* -- time, descriptors ---------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (!same.on) {
        return __real_clock_gettime(clock, ret);
    }
    if (chance("stopped at the clock", 60)) { /* and looks at the page next */
        w.now += 20 * S;
    }
    *ret = (struct timespec){.tv_sec = w.now / S, .tv_nsec = w.now % S};
    return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *rest)
{
    (void)rest;
    tell("sleeps %lld", (long long)t->tv_sec * 1000 + t->tv_nsec / MS);
    w.now += t->tv_sec * S + t->tv_nsec;
    return 0;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    char what[100] = "";
    for (nfds_t i = 0; i < count; i++) {
        size_t used = strlen(what);
        snprintf(what + used, sizeof what - used, " %s:%d:%d",
                 fd_kind(fds[i].fd), fds[i].events, fds[i].revents);
    }
    tell("polls%s for %d", what, timeout);
    if (fds[0].fd != 2 && fails("poll")) {
        something_happens();
        signal_comes(SIGCHLD);
        return -1;
    }
    return wait_for(fds, count, timeout);
}

int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout,
                      size_t size);
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout,
                      size_t size)
{
    (void)size;
    return __wrap_poll(fds, count, timeout);
}

static ssize_t read_signals(struct signalfd_siginfo *to, size_t size)
{
    size_t n = 0;
    while (n < size / sizeof *to && n < (size_t)w.signal_count) {
        to[n] = (struct signalfd_siginfo){.ssi_signo = (uint32_t)w.signals[n]};
        n++;
    }
    if (n == 0) {
        errno = EAGAIN;
        return -1;
    }
    w.signal_count -= (int)n;
    memmove(w.signals, w.signals + n,
            sizeof *w.signals * (size_t)w.signal_count);
    return (ssize_t)(n * sizeof *to);
}

static ssize_t read_children(char *to, size_t size)
{
    size_t left = strlen(w.children) - (size_t)w.read_at;
    size = size < left ? size : left;
    size = size > 7 ? 7 : size; /* as little as it likes */
    memcpy(to, w.children + w.read_at, size);
    w.read_at += (int)size;
    return (ssize_t)size;
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
    if (!same.on) {
        return __real_read(fd, to, size);
    }
    if (fd_is(fd, "children")) {
        return fails("read") ? -1 : read_children(to, size);
    }
    tell("reads %s", fd_kind(fd));
    if (fails("read")) {
        return -1;
    }
    if (fd_is(fd, "signals")) {
        return read_signals(to, size);
    }
    if (fd_is(fd, "timer") && w.armed <= w.now) {
        w.armed = INT64_MAX;
        return 8;
    }
    errno = EAGAIN;
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
    tell("writes to %s: %.*s", fd_kind(fd), (int)size, (const char *)bytes);
    return fails("write") ? -1 : (ssize_t)size;
}

int __wrap_close(int fd)
{
    if (!same.on) {
        return __real_close(fd);
    }
    tell("closes %s", fd_kind(fd));
    if (fd >= FD_FIRST && fd < FD_MAX) {
        fds_open[fd].kind = NULL;
    }
    return 0;
}

int __wrap_open(const char *path, int flags, ...)
{
    (void)flags;
    if (fails("open")) {
        return -1;
    }
    size_t used = 0;
    w.read_at = 0;
    used += (size_t)snprintf(w.children + used, sizeof w.children - used, "%d ",
                             HOLDER + w.terms);
    if (w.command != NOBODY && w.command != REAPED) {
        used += (size_t)snprintf(w.children + used, sizeof w.children - used,
                                 "%d ", COMMAND);
    }
    for (int i = 0; i < ADOPTED_MAX; i++) {
        if (w.adopted[i] != NOBODY) {
            used +=
                (size_t)snprintf(w.children + used, sizeof w.children - used,
                                 "%d ", ADOPTED + i);
        }
    }
    return strstr(path, "children") ? fd_new("children") : -1;
}

int __wrap_fcntl(int fd, int what, ...)
{
    va_list list;
    va_start(list, what);
    int value = va_arg(list, int);
    va_end(list);
    tell("fcntl %s %d %d", fd_kind(fd), what, value);
    return fails("fcntl") ? -1 : what == F_DUPFD_CLOEXEC ? fd_new("status") : 0;
}

/* -- the socket, the gate ---------------------------------------------------------- */

ssize_t __wrap_send(int fd, const void *bytes, size_t size, int flags)
{
    const struct plan_message *m = bytes;
    bool message = fd_is(fd, "keeper") && size == sizeof *m;
    if (message) {
        tell("says %d %d %d %d %d %s, %#x", m->kind, m->code, m->why, m->grant,
             m->lingers, m->text, (unsigned)flags);
    } else {
        int32_t value = 0;
        memcpy(&value, bytes, size < 4 ? size : 4);
        tell("sends %zu to %s: %d, %#x", size, fd_kind(fd), (int)value,
             (unsigned)flags);
    }
    if (fails("send")) {
        return -1;
    }
    if (message && w.socket_ended) {
        errno = EPIPE;
        return -1;
    }
    if (message) {
        holder_hears(m->kind);
    }
    return (ssize_t)size;
}

ssize_t __wrap_recv(int fd, void *to, size_t size, int flags)
{
    tell("hears %s %#x", fd_kind(fd), (unsigned)flags);
    if (fails("recv")) {
        return -1;
    }
    if (fd_is(fd, "gate")) {
        errno = EAGAIN;
        if (w.exec_error == 0) {
            return -1;
        }
        *(int *)to = w.exec_error;
        return w.exec_error == 2 ? (ssize_t)sizeof(int) : 2;
    }
    if (fd_is(fd, "inner gate")) {
        *(char *)to = 'g';
        return chance("leash dead", 8) ? 0 : 1;
    }
    if (w.said_count == 0) {
        errno = EAGAIN;
        return w.socket_ended ? 0 : -1;
    }
    memcpy(to, w.said, size);
    memmove(w.said, w.said + 1, sizeof w.said[0] * (size_t)--w.said_count);
    return w.cut ? (ssize_t)size / 2 : (ssize_t)size;
}

ssize_t __wrap___recv_chk(int fd, void *to, size_t size, size_t room,
                          int flags);
ssize_t __wrap___recv_chk(int fd, void *to, size_t size, size_t room, int flags)
{
    assert_true(size <= room);
    return __wrap_recv(fd, to, size, flags);
}

int __wrap_socketpair(int domain, int type, int protocol, int ret[2])
{
    bool gate = (type & SOCK_STREAM) == SOCK_STREAM &&
                (type & SOCK_SEQPACKET) != SOCK_SEQPACKET;
    tell("socketpair %d %d %d", domain, type, protocol);
    if (fails("socketpair")) {
        return -1;
    }
    w.last_pair = gate;
    ret[0] = fd_new(gate ? "gate" : "keeper");
    ret[1] = fd_new(gate ? "inner gate" : "inner keeper");
    return 0;
}

int __wrap_pipe2(int ret[2], int flags)
{
    tell("pipe2 %d", flags);
    if (fails("pipe2")) {
        return -1;
    }
    ret[0] = fd_new("lease read");
    ret[1] = fd_new("lease");
    return 0;
}

/* -- processes ------------------------------------------------------------------------ */

pid_t __wrap_fork(void)
{
    if (!same.on) {
        return __real_fork();
    }
    tell("forks, offer %d, group %d", (int)w.page.offer, (int)w.page.group);
    if (fails("fork")) {
        return -1;
    }
    if (chance("is the child", w.last_pair ? 10 : 60)) {
        return 0;
    }
    if (w.last_pair) {
        w.command = RUNS;
        return COMMAND;
    }
    w.terms++;
    w.holder = RUNS;
    w.socket_ended = false;
    w.said_count = 0;
    w.answer = -1;
    w.answer_at = INT64_MAX;
    w.command = NOBODY;
    return HOLDER + w.terms;
}

void __wrap_holder_main(const struct plan *plan, struct plan_page *page,
                        int socket);
void __wrap_holder_main(const struct plan *plan, struct plan_page *page,
                        int socket)
{
    tell("keeper %d %d %s", plan == &w.plan, page == &w.page, fd_kind(socket));
    same_end();
}

int __wrap_kill(pid_t pid, int sig)
{
    tell("kills %d by %d", (int)pid, sig);
    if (fails("kill")) {
        return -1;
    }
    if (pid == -COMMAND && sig == 0) {
        errno = ESRCH;
        return w.command != REAPED || w.group_others > 0 ? 0 : -1;
    }
    if (pid == -COMMAND || pid == COMMAND) {
        command_gets(sig);
    } else if (pid == HOLDER + w.terms) {
        holder_ends();
    } else if (pid >= ADOPTED && pid < ADOPTED + ADOPTED_MAX) {
        adopted_gets(pid - ADOPTED, sig);
    } else if (pid == SELF) {
        w.now += (int64_t)pick("stopped", 45) * S;
        something_happens();
        signal_comes(SIGCONT);
    }
    return 0;
}

static pid_t reap_one(int *status, int options)
{
    *status = 0;
    if (w.holder == ENDED) {
        w.holder = REAPED;
        return HOLDER + w.terms;
    }
    if (w.command == ENDED ||
        (w.command == HALTED && !w.halt_told && (options & WUNTRACED))) {
        *status = w.command_status;
        w.halt_told = true;
        w.command = w.command == ENDED ? REAPED : HALTED;
        return COMMAND;
    }
    for (int i = 0; i < ADOPTED_MAX; i++) {
        if (w.adopted[i] == ENDED) {
            w.adopted[i] = NOBODY;
            return ADOPTED + i;
        }
        if (w.adopted[i] == HALTED && !w.adopted_halt_told[i] &&
            (options & WUNTRACED)) {
            w.adopted_halt_told[i] = true;
            *status = (i == 0 ? SIGSTOP : SIGTSTP) << 8 | 0x7f;
            return ADOPTED + i;
        }
    }
    errno = ECHILD;
    return w.holder == RUNS || w.command == RUNS || w.command == HALTED ? 0
                                                                        : -1;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    int none;
    if (!same.on) {
        return __real_waitpid(pid, status, options);
    }
    tell("waits for %d %d", (int)pid, options);
    if (pid == -1) {
        return fails("waitpid") ? -1
                                : reap_one(status ? status : &none, options);
    }
    if (pid == COMMAND) {
        w.command = REAPED;
        return pid;
    }
    if (w.holder == ENDED) {
        w.holder = REAPED;
        return pid;
    }
    return 0;
}

int __wrap_waitid(idtype_t type, id_t id, siginfo_t *end, int options)
{
    (void)type;
    tell("has %d ended, %#x", (int)id, (unsigned)options);
    if (w.command == ENDED) {
        end->si_pid = COMMAND;
    }
    return 0;
}

int __wrap_setpgid(pid_t pid, pid_t group)
{
    tell("setpgid %d %d", (int)pid, (int)group);
    return 0;
}

pid_t __wrap_getpid(void)
{
    return SELF;
}

pid_t __wrap_getppid(void)
{
    return chance("adopted at the gate", 8) ? 1 : SELF;
}

long __wrap_syscall(long number, ...)
{
    tell("pidfd_open");
    (void)number;
    return fails("pidfd_open") ? -1 : fd_new("pidfd");
}

int __wrap_prctl(int what, ...)
{
    int values[4];
    va_list list;
    va_start(list, what);
    for (int i = 0; i < 4; i++) {
        values[i] = va_arg(list, int);
    }
    va_end(list);
    tell("prctl %d %d %d %d %d", what, values[0], values[1], values[2],
         values[3]);
    return fails("prctl") ? -1 : 0;
}

void __wrap_proc_set_mark(const char *address);
void __wrap_proc_set_mark(const char *address)
{
    tell("mark %s", address);
}

int __wrap_execvp(const char *file, char *const argv[])
{
    static const char *const names[] = {
        "SNIB_NAME", "SNIB_TOKEN",     "SNIB_TERM",   "SNIB_SLOT",
        "SNIB_HELD", "SNIB_OWNER",     "SNIB_TTL_MS", "SNIB_LEASE_FD",
        "SNIB_URL",  "SNIB_STORE_FILE"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const char *value = getenv(names[i]);
        tell("%zu %s=%s", value ? strlen(value) : 0, names[i],
             value ? value : "(none)");
    }
    tell("execs %s %s", file, argv[0]);
    errno = chance("no such", 2) ? ENOENT : EACCES;
    return -1;
}

void __wrap__exit(int code);
void __wrap__exit(int code)
{
    if (!same.on) {
        __real__exit(code);
    }
    tell("exits %d", code);
    same_end();
}

#endif

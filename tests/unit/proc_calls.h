/* tests/unit/proc_calls.h — what asks and signals processes, in place of libc's, for
 * unit.proc_same. Each tells its line. See proc_world.h. */
#ifndef SNIB_TESTS_PROC_CALLS_H
#define SNIB_TESTS_PROC_CALLS_H

#include "proc_world.h"

/* -- in place of libc's ------------------------------------------------------------- */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    if (!same.on) {
        return __real_open(path, flags);
    }
    tell("open %s %o", path, (unsigned)flags);
    meanwhile();
    if (goes_wrong("open")) {
        return -1;
    }
    int fd = fd_new("file");
    if (strcmp(path, "/proc") == 0) {
        w.dir_at = -2;
        return fd;
    }
    if (!write_file(path, fd)) {
        fds_open[fd].kind = NULL;
        return -1;
    }
    return fd;
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
    if (!same.on) {
        return __real_read(fd, to, size);
    }
    tell("read %d %zu", fd, size);
    if (goes_wrong("read")) {
        return -1;
    }
    assert_true(fd_is(fd, "file"));
    size_t left = (size_t)(w.files[fd].size - w.files[fd].at);
    size = size < left ? size : left;
    if (size > 30 && strstr(w.files[fd].text, "PATH=") &&
        chance("in pieces", 2)) {
        size = 30;
    }
    memcpy(to, w.files[fd].text + w.files[fd].at, size);
    w.files[fd].at += (int)size;
    return (ssize_t)size;
}

ssize_t __wrap___read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __wrap___read_chk(int fd, void *to, size_t size, size_t room)
{
    assert_true(size <= room);
    return __wrap_read(fd, to, size);
}

int __wrap_close(int fd)
{
    if (!same.on) {
        return __real_close(fd);
    }
    tell("close %s", fd_kind(fd));
    assert_true(fd >= FD_FIRST && fd < FD_MAX && fds_open[fd].kind);
    fds_open[fd].kind = NULL;
    return 0;
}

ssize_t __wrap_readlink(const char *path, char *ret, size_t size)
{
    char text[100];
    int pid = 0;
    tell("readlink %s %zu", path, size);
    if (goes_wrong("readlink")) {
        return -1;
    }
    if (strcmp(path, "/proc/self") == 0) {
        snprintf(text, sizeof text, chance("another's", 3) ? "%d7" : "%d",
                 SELF);
    } else {
        sscanf(path, "/proc/%d/exe", &pid);
        const struct process *p = process_of(pid);
        if (!p || p->hidden) {
            errno = p ? EACCES : ENOENT;
            return -1;
        }
        snprintf(text, sizeof text, "%s%s", p->program,
                 chance("replaced", 9) ? " (deleted)" : "");
    }
    size = strlen(text) < size ? strlen(text) : size;
    memcpy(ret, text, size);
    return (ssize_t)size;
}

ssize_t __wrap___readlink_chk(const char *path, char *ret, size_t size,
                              size_t room);
ssize_t __wrap___readlink_chk(const char *path, char *ret, size_t size,
                              size_t room)
{
    assert_true(size <= room);
    return __wrap_readlink(path, ret, size);
}

static int signal_to(int pid, int sig)
{
    struct process *p = process_of(pid);
    bool any = p != NULL;
    for (int i = 0; i < PROCESSES && pid < 0; i++) {
        any = any || (processes[i].pid && processes[i].group == -pid);
    }
    if (!any || goes_wrong("kill")) {
        errno = any ? errno : ESRCH;
        return -1;
    }
    if (sig == SIGKILL && p) {
        p->state = 'Z';
        p->pid = chance("is reaped", 3) ? 0 : p->pid;
    }
    return 0;
}

int __wrap_kill(pid_t pid, int sig)
{
    tell("kill %d %d", (int)pid, sig);
    return signal_to(pid, sig);
}

/* The next entry of /proc; NULL: there are no more. */
static const char *next_entry(void)
{
    static const char *const others[] = {"self", "sys"};
    static char name[24];
    meanwhile();
    if (w.dir_at < 0) {
        return others[-1 - w.dir_at++];
    }
    while (w.dir_at < PROCESSES && !processes[w.dir_at].pid) {
        w.dir_at++;
    }
    if (w.dir_at == PROCESSES) {
        return NULL;
    }
    snprintf(name, sizeof name, "%d", processes[w.dir_at++].pid);
    return name;
}

DIR *__wrap_opendir(const char *path);
DIR *__wrap_opendir(const char *path)
{
    tell("opendir %s", path);
    if (goes_wrong("opendir")) {
        return NULL;
    }
    w.dir_at = -2;
    return (DIR *)&w.entry;
}

struct dirent *__wrap_readdir(DIR *d);
struct dirent *__wrap_readdir(DIR *d)
{
    assert_ptr_equal(d, &w.entry);
    if (goes_wrong("readdir")) {
        return NULL;
    }
    const char *name = next_entry();
    snprintf(w.entry.d_name, sizeof w.entry.d_name, "%s", name ? name : "");
    return name ? &w.entry : NULL;
}

int __wrap_closedir(DIR *d);
int __wrap_closedir(DIR *d)
{
    tell("closedir %d", (const void *)d == &w.entry);
    errno = EBADF; /* whatever it leaves there                              */
    return 0;
}

/* A few entries at a time. */
static long list_entries(uint8_t *to, size_t size)
{
    long used = 0;
    assert_true(size >= 4096);
    for (int i = 0; i < 3; i++) {
        const char *name = next_entry();
        if (!name) {
            break;
        }
        struct dirent64 *e = (struct dirent64 *)(void *)(to + used);
        memset(e, 0, 48);
        e->d_reclen = 48;
        snprintf(e->d_name, 24, "%s", name);
        used += 48;
    }
    return used;
}

long __wrap_syscall(long number, ...)
{
    va_list list;
    va_start(list, number);
    int first = va_arg(list, int);
    if (number == SYS_getdents64) {
        uint8_t *to = va_arg(list, uint8_t *);
        size_t size = va_arg(list, size_t);
        va_end(list);
        tell("getdents %s %zu", fd_kind(first), size);
        return goes_wrong("getdents") ? -1 : list_entries(to, size);
    }
    int second = va_arg(list, int);
    va_end(list);
    tell("syscall %ld %d %d", number, first, second);
    meanwhile();
    if (number == SYS_pidfd_send_signal) {
        return goes_wrong("pidfd_send_signal")
                   ? -1
                   : signal_to(w.files[first].at, second);
    }
    if (goes_wrong("pidfd_open")) {
        return -1;
    }
    if (!process_of(first)) {
        errno = ESRCH;
        return -1;
    }
    int fd = fd_new("pidfd");
    w.files[fd].at = first;
    return fd;
}

pid_t __wrap_getpid(void)
{
    return SELF;
}

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (!same.on) {
        return __real_clock_gettime(clock, ret);
    }
    tell("clock %d", (int)clock);
    *ret = (struct timespec){.tv_sec = w.now / 1000000000,
                             .tv_nsec = w.now % 1000000000};
    return 0;
}

int __wrap_getrlimit(int which, struct rlimit *ret);
int __wrap_getrlimit(int which, struct rlimit *ret)
{
    tell("getrlimit %d", which);
    if (goes_wrong("getrlimit")) {
        return -1;
    }
    *ret = (struct rlimit){w.limit, w.most};
    return 0;
}

int __real_setrlimit(int which, const struct rlimit *may);
int __wrap_setrlimit(int which, const struct rlimit *may);
int __wrap_setrlimit(int which, const struct rlimit *may)
{
    if (!same.on) {
        return __real_setrlimit(which, may);
    }
    tell("setrlimit %d %llu %llu", which, (unsigned long long)may->rlim_cur,
         (unsigned long long)may->rlim_max);
    if (goes_wrong("setrlimit")) {
        return -1;
    }
    w.limit = may->rlim_cur;
    return 0;
}

pid_t __wrap_fork(void)
{
    return __real_fork();
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

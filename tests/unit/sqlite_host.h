/* tests/unit/sqlite_host.h — what the lock file's store calls besides files:
 * /proc, descriptors, flock, the clock, sockets, pidfds; in place of libc's.
 * Each tells its line. See sqlite_world.h. */
#ifndef SNIB_TESTS_SQLITE_HOST_H
#define SNIB_TESTS_SQLITE_HOST_H

#include "sqlite_tree.h"

#include <dirent.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

/* -- /proc ------------------------------------------------------------------------ */

/* comm may have spaces and parentheses, and what is read may be cut. */
static bool write_stat(int64_t pid, char *ret, size_t size)
{
    static const char *const names[] = {"snib", "a) b", ")", "x (y) z", ""};
    const struct process *p = process_of(pid);
    int cut = (int)pick("cut stat", 12);
    if (!p) {
        return false;
    }
    int n = snprintf(ret, size, "%d (%s) %c", (int)pid,
                     names[pick("comm", COUNT_OF(names))], p->state);
    for (int field = 4; field <= 24 && !(cut == 0 && field == 20); field++) {
        n += snprintf(ret + n, size - (size_t)n, " %lld",
                      field == 22 ? (long long)p->start : field);
    }
    if (cut == 1) {
        snprintf(ret, size, "%d (snib", (int)pid);
    } else if (cut == 2) {
        snprintf(ret, size, "%d (snib)", (int)pid);
    } else if (cut == 3) {
        snprintf(ret, size, "%d (snib)x", (int)pid);
    } else if (cut == 4) { /* no space behind the name */
        strrchr(ret, ')')[1] = 'x';
    }
    return true;
}

static bool write_text(const char *path, char *ret, size_t size)
{
    static const char *const boots[] = {
        "b007a", "b007a\n", "b007b\n", "\n",
        "0123456789012345678901234567890123456789012345\n"};
    static const char *const offsets[] = {
        "monotonic           0         0\nboottime            0         0\n",
        "monotonic           9         9\nboottime            0         0\n",
        "monotonic           0         0\nboottime            7         0\n",
        "monotonic           0         0\nboottime           -7         0\n",
        "monotonic           0         0\nboottime            0         7\n",
        "boottime 5",
        "nothing"};
    static const char *const lengths[] = {"10\n",      "512\n", "0\n",
                                          "-5\n",      "abc",   "999999\n",
                                          "1000000\n", "1\n",   "2\n"};
    long long pid;
    char end[8];
    if (strstr(path, "boot_id")) {
        snprintf(ret, size, "%s",
                 chance("plain boot id", 2)
                     ? boots[1]
                     : boots[pick("boot id", COUNT_OF(boots))]);
    } else if (strstr(path, "timens_offsets")) {
        snprintf(ret, size, "%s",
                 chance("no offset", 2)
                     ? offsets[0]
                     : offsets[pick("offsets", COUNT_OF(offsets))]);
    } else if (strstr(path, "max_dgram_qlen")) {
        snprintf(ret, size, "%s", lengths[pick("length", COUNT_OF(lengths))]);
    } else if (sscanf(path, "/proc/%lld/%7s", &pid, end) == 2) {
        return write_stat(pid, ret, size);
    } else {
        return false;
    }
    return true;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    if (!same.on) {
        return __real_open(path, flags);
    }
    struct node *n = flags & O_NOFOLLOW ? node_at(path) : followed(path);
    tell("open %s %o", path, (unsigned)flags);
    if (goes_wrong("open")) {
        return -1;
    }
    if (strncmp(path, "/proc/", 6) == 0) {
        int fd = open_fd(FD_TEXT, NULL);
        if (write_text(path, FD(fd).text, sizeof FD(fd).text)) {
            return fd;
        }
        FD(fd).is = FD_CLOSED;
        return fault(ENOENT);
    }
    if (!n || !S_ISDIR(n->mode)) {
        return fault(!n ? ENOENT : S_ISLNK(n->mode) ? ELOOP : ENOTDIR);
    }
    return open_fd(FD_DIR, n);
}

int __wrap_openat(int dir, const char *name, int flags, ...)
{
    const char *path = full(dir, name);
    struct node *n = flags & O_NOFOLLOW ? node_at(path) : followed(path);
    tell("openat %s %o", path, (unsigned)flags);
    if (goes_wrong("openat")) {
        return -1;
    }
    if (!n || !S_ISDIR(n->mode)) {
        return fault(!n ? ENOENT : S_ISLNK(n->mode) ? ELOOP : ENOTDIR);
    }
    return open_fd(FD_DIR, n);
}

ssize_t __wrap_read(int fd, void *to, size_t size)
{
    if (!same.on) {
        return __real_read(fd, to, size);
    }
    tell("read %s %zu", fd_text(fd), size);
    if (goes_wrong("read")) {
        return -1;
    }
    assert_true(is_open(fd, FD_TEXT));
    size_t left = strlen(FD(fd).text) - (size_t)FD(fd).at;
    size = size < left ? size : left;
    size = size > 7 && chance("a little", 3) ? 7 : size;
    memcpy(to, FD(fd).text + FD(fd).at, size);
    FD(fd).at += (int)size;
    return (ssize_t)size;
}

ssize_t __wrap___read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __wrap___read_chk(int fd, void *to, size_t size, size_t room)
{
    assert_true(size <= room);
    return __wrap_read(fd, to, size);
}

ssize_t __real_readlink(const char *path, char *ret, size_t size);
ssize_t __wrap_readlink(const char *path, char *ret, size_t size)
{
    char text[100];
    if (!same.on) {
        return __real_readlink(path, ret, size);
    }
    tell("readlink %s %zu", path, size);
    if (goes_wrong("readlink")) {
        return -1;
    }
    int what = (int)pick("proc self", 9);
    snprintf(text, sizeof text,
             what == 0   ? "77"
             : what == 1 ? "%070d"
                         : "%d",
             (int)w.pid);
    if (what == 2) {
        text[0] = 0;
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

int __wrap_close(int fd)
{
    if (!same.on) {
        return __real_close(fd);
    }
    tell("close %s", fd_text(fd));
    assert_true(fd >= FIRST_FD && fd < FIRST_FD + FDS &&
                FD(fd).is != FD_CLOSED); /* never one twice                */
    if (FD(fd).is == FD_SOCKET && FD(fd).node) {
        FD(fd).node->heard = false;
    }
    FD(fd).is = FD_CLOSED;
    for (int i = 0; i < FDS; i++) { /* and out of each set                 */
        for (int k = 0; k < WATCHED; k++) {
            if (w.fds[i].watched[k].fd == fd) {
                w.fds[i].watched[k].fd = 0;
            }
        }
    }
    return 0;
}

static void add_line(char *text, size_t size, const char *type,
                     const char *mode, long long pid, uint64_t ino,
                     const char *bytes)
{
    size_t used = strlen(text);
    snprintf(text + used, size - used,
             "%d: %s%s  ADVISORY  %s %lld %s:%llu %s\n", (int)pick("line", 90),
             chance("waits for it", 12) ? "-> " : "", type, mode, pid,
             chance("as stat says", 2) ? "00:00" : "fe:01",
             (unsigned long long)ino, bytes);
}

/* Some that may be of these files. */
static const char *locks_text(void)
{
    static const char *const types[] = {"POSIX", "POSIX", "FLOCK", "OFDLCK"};
    static const char *const modes[] = {"WRITE", "WRITE", "READ"};
    static const char *const bytes[] = {"120 120", "120 120", "0 EOF",
                                        "119 119", "121 121", "100 EOF",
                                        "128 129", "110 120", "120 125"};
    static const long long pids[] = {STRANGER, 2001, SELF, -1, 0, 999999};
    static char text[3000];
    int lines = (int)pick("locks", 7);
    text[0] = 0;
    for (int i = 0; i < lines; i++) {
        const struct node *n = &w.nodes[pick("of", (uint64_t)w.node_count)];
        const char *type = types[pick("type", 4)];
        add_line(text, sizeof text, type, modes[pick("mode", 3)],
                 pids[pick("who", COUNT_OF(pids))], n->ino,
                 bytes[pick("bytes", COUNT_OF(bytes))]);
    }
    /* Those that a caller will ask for, now and then. */
    for (int i = 0; i < ENTRIES; i++) {
        const char *path = w.entries[i].path;
        bool shm = strstr(path, "-shm"), notifiers = strstr(path, "-bells");
        if (path[0] && (shm || notifiers || strstr(path, ".db")) &&
            chance("lock of it", 2) && strlen(text) < 2000) {
            add_line(text, sizeof text,
                     chance("other type", 5) ? "OFDLCK"
                     : notifiers             ? "FLOCK"
                                             : "POSIX",
                     modes[pick("mode", 3)], pids[pick("who", COUNT_OF(pids))],
                     w.entries[i].node->ino,
                     bytes[pick("bytes", COUNT_OF(bytes))]);
        }
    }
    return text;
}

/* What is there, and then it cannot be read any more. */
static ssize_t read_broken(void *at, char *to, size_t size)
{
    const char **text = at;
    size_t n = strlen(*text);
    if (n == 0) {
        errno = EIO;
        return -1;
    }
    n = n < size ? n : size;
    memcpy(to, *text, n);
    *text += n;
    return (ssize_t)n;
}

static FILE *broken_file(const char *text)
{
    static const cookie_io_functions_t calls = {.read = read_broken};
    static const char *at; /* one is open at a time                         */
    at = text;
    return fopencookie(&at, "r", calls);
}

FILE *__real_fopen(const char *path, const char *how);
FILE *__wrap_fopen(const char *path, const char *how)
{
    if (!same.on) {
        return __real_fopen(path, how);
    }
    tell("fopen %s %s", path, how);
    if (goes_wrong("fopen")) {
        return NULL;
    }
    const char *text = locks_text();
    int e = errno;
    FILE *f = falters("read") ? broken_file(text)
              : text[0]       ? fmemopen((void *)text, strlen(text), "r")
                              : __real_fopen("/dev/null", "re");
    assert_non_null(f);
    errno = e;
    return f;
}

static void while_asleep(void); /* sqlite_strangers.h                       */
static void meanwhile(void);

/* -- who is alone -------------------------------------------------------------------- */

static bool may_flock(int fd, int how)
{
    for (int i = 0; i < FDS; i++) {
        bool other = w.fds[i].is == FD_DIR && i + FIRST_FD != fd &&
                     w.fds[i].node == FD(fd).node;
        if (other && w.fds[i].flock &&
            (how == LOCK_EX || w.fds[i].flock == LOCK_EX)) {
            return false;
        }
    }
    return !w.outside || (how == LOCK_SH && w.outside == LOCK_SH);
}

int __wrap_flock(int fd, int how)
{
    tell("flock %s %d", fd_text(fd), how);
    if (goes_wrong("flock")) {
        return -1;
    }
    if (!is_open(fd, FD_DIR)) {
        return fault(EBADF);
    }
    int kind = how & ~LOCK_NB;
    if (kind == LOCK_UN) {
        FD(fd).flock = 0;
        return 0;
    }
    FD(fd).flock = 0; /* the change lets go of it first                     */
    meanwhile();
    if (chance("stranger comes", 40)) {
        w.outside = chance("alone", 2) ? LOCK_EX : LOCK_SH;
    }
    if (!may_flock(fd, kind)) {
        return fault(EWOULDBLOCK);
    }
    FD(fd).flock = kind;
    return 0;
}

/* -- time ---------------------------------------------------------------------------- */

/* No line: in which order two are read in one expression is the compiler's. */
int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (!same.on) {
        return __real_clock_gettime(clock, ret);
    }
    int64_t ns = w.now;
    if (clock == CLOCK_REALTIME) {
        ns = w.wall_ms * MS + w.now;
    } else if (clock == CLOCK_MONOTONIC) {
        ns = S; /* what waits until then does not, on whatever host         */
    }
    *ret = (struct timespec){.tv_sec = ns / S, .tv_nsec = ns % S};
    return 0;
}

/* A sanitizer sleeps and yields, too, when the program ends. */
int __real_nanosleep(const struct timespec *t, struct timespec *rest);
int __wrap_nanosleep(const struct timespec *t, struct timespec *rest)
{
    if (!same.on) {
        return __real_nanosleep(t, rest);
    }
    static const int64_t late[] = {0, 0, 0, 100000, 3 * MS, 90 * MS, S};
    tell("sleeps %lld", (long long)t->tv_sec * S + t->tv_nsec);
    w.now += t->tv_sec * S + t->tv_nsec + late[pick("late", COUNT_OF(late))];
    while_asleep();
    return 0;
}

int __real_sched_yield(void);
int __wrap_sched_yield(void)
{
    if (!same.on) {
        return __real_sched_yield();
    }
    static const int64_t takes[] = {1000,   20000,  499999,
                                    500000, 500001, 20 * MS};
    tell("yields");
    w.now += takes[pick("yield", COUNT_OF(takes))];
    while_asleep();
    return 0;
}

pid_t __real_getpid(void);
pid_t __wrap_getpid(void)
{
    return same.on ? w.pid : __real_getpid();
}

/* -- processes ------------------------------------------------------------------------ */

int __real_kill(pid_t pid, int sig);
int __wrap_kill(pid_t pid, int sig)
{
    if (!same.on) {
        return __real_kill(pid, sig);
    }
    tell("kill %d %d", (int)pid, sig);
    return process_of(pid)                ? 0
           : chance("of another user", 4) ? fault(EPERM)
                                          : fault(ESRCH);
}

long __wrap_syscall(long number, ...)
{
    va_list list;
    va_start(list, number);
    int pid = va_arg(list, int);
    unsigned flags = va_arg(list, unsigned);
    va_end(list);
    tell("pidfd_open %d %d %u", (int)number, pid, flags);
    if (goes_wrong("pidfd")) {
        return -1;
    }
    if (!process_of(pid)) {
        return fault(ESRCH);
    }
    int fd = open_fd(FD_PIDFD, NULL);
    FD(fd).pid = pid;
    return fd;
}

static bool is_ready(int fd)
{
    if (is_open(fd, FD_PIDFD)) {
        const struct process *p = process_of(FD(fd).pid);
        return !p || p->ended;
    }
    return is_open(fd, FD_SOCKET) && FD(fd).node && FD(fd).node->unread > 0;
}

int __real_poll(struct pollfd *fds, nfds_t count, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if (!same.on) {
        return __real_poll(fds, count, timeout);
    }
    tell("poll %d %s %d", (int)count, count ? fd_text(fds[0].fd) : "-",
         timeout);
    w.now += timeout > 0 ? timeout * MS : 0;
    if (count == 0) {
        return 0;
    }
    assert_int_equal(count, 1);
    fds[0].revents = 0;
    if (goes_wrong("poll")) {
        fds[0].revents = (short)(chance("odd", 2) ? POLLIN : POLLNVAL);
        return chance("and counts", 2) ? 1 : -1;
    }
    fds[0].revents = is_ready(fds[0].fd) ? POLLIN : 0;
    return fds[0].revents != 0;
}

int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout,
                      size_t size);
int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout,
                      size_t size)
{
    (void)size;
    return __wrap_poll(fds, count, timeout);
}

#endif

/* tests/unit/grantfile_world.h — the host of unit.grantfile_same: a few files
 * that somebody else changes in between, processes, users, a clock. See same.h.
 *
 * At most one path is asked for, and the new file that is to take its place. */
#ifndef SNIB_TESTS_GRANTFILE_WORLD_H
#define SNIB_TESTS_GRANTFILE_WORLD_H

#include "same.h"
#include "same_limits.h"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>

#include "cli/holder/detached.h"
#include "cli/holder/held.h"
#include "cli/supervisor/proc.h"

#define MS INT64_C(1000000)
#define S  INT64_C(1000000000)

enum { NODES = 60, ENTRIES = 6, BYTES = 9000, SELF = 4242, HOLDER = 77 };

struct node {
    mode_t mode;
    const struct node *to; /* of a link                                     */
    size_t size;
    char bytes[BYTES];
};

static struct {
    int64_t now;
    uid_t uid;
    const char *boot, *url;
    bool alive, ended; /* the holder                                        */
    int names_as;      /* what the file system cannot do                    */
    struct node nodes[NODES];
    int node_count;
    struct {
        char path[40]; /* "": free                                          */
        struct node *node;
    } entries[ENTRIES];
    struct {
        const struct node *node;
        size_t at;
    } fds[FD_MAX];
    bool meddled; /* since the product was called last                      */
    bool whole;   /* what is read                                           */
    struct cli_args args;
    struct plan plan;
    struct plan_page page;
    struct grantfile g;
    char text[GRANT_TEXT_MAX]; /* of a grant                                */
} w;

static const char there[] = "/t/f";

/* -- files ---------------------------------------------------------------------- */

static struct node *node_new(mode_t mode, const char *bytes)
{
    assert_true(w.node_count < NODES);
    struct node *n = &w.nodes[w.node_count++];
    n->mode = mode;
    n->size = strlen(bytes);
    memcpy(n->bytes, bytes, n->size);
    return n;
}

static int entry_at(const char *path)
{
    for (int i = 0; i < ENTRIES; i++) {
        if (w.entries[i].path[0] && strcmp(w.entries[i].path, path) == 0) {
            return i;
        }
    }
    return -1;
}

static void entry_put(const char *path, struct node *n)
{
    int i = entry_at(path);
    for (int k = 0; k < ENTRIES && i < 0; k++) {
        i = w.entries[k].path[0] ? -1 : k;
    }
    assert_true(i >= 0);
    snprintf(w.entries[i].path, sizeof w.entries[i].path, "%s", path);
    w.entries[i].node = n;
}

static bool entry_drop(const char *path)
{
    int i = entry_at(path);
    if (i >= 0) {
        w.entries[i].path[0] = 0;
    }
    return i >= 0;
}

static const struct node *node_at(const char *path)
{
    int i = entry_at(path);
    return i < 0 ? NULL : w.entries[i].node;
}

/* Something else is there from now on, or nothing. */
static void something_is_there(void)
{
    static const mode_t kinds[] = {S_IFREG | 0600, S_IFREG | 0644,
                                   S_IFCHR | 0666, S_IFLNK | 0777,
                                   S_IFDIR | 0755, S_IFIFO | 0600};
    static struct node target = {
        .mode = S_IFREG | 0600, .size = 4, .bytes = "keep"};
    size_t i = pick("kind of file", COUNT_OF(kinds) + 2);
    w.meddled = true;
    if (i >= COUNT_OF(kinds)) {
        tell("nothing is there: %d", entry_drop(there));
        return;
    }
    struct node *n = node_new(kinds[i], chance("empty", 2) ? "" : "other\n");
    n->to = S_ISLNK(n->mode) ? &target : NULL;
    entry_put(there, n);
    tell("%o is there", (unsigned)n->mode);
}

static void meddle(void)
{
    if (chance("meddles", 14)) {
        something_is_there();
    }
}

/* All that is there, with its bytes. */
static void tell_files(void)
{
    for (int i = 0; i < ENTRIES; i++) {
        const struct node *n = w.entries[i].node;
        if (w.entries[i].path[0]) {
            tell("file %s %o, %zu bytes", w.entries[i].path, (unsigned)n->mode,
                 n->size);
            same_stir(n->bytes, n->size);
        }
    }
}

static int fault(int e)
{
    errno = e;
    return -1;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
    va_end(list);
    if (!same.on) {
        return __real_open(path, flags, mode);
    }
    tell("open %s %#x %o", path, (unsigned)flags, (unsigned)mode);
    meddle();
    if (fails("open")) {
        return -1;
    }
    const struct node *n = node_at(path);
    if (n && (flags & O_CREAT) && (flags & O_EXCL)) {
        return fault(EEXIST);
    }
    if (!n && (flags & O_CREAT)) {
        entry_put(path, node_new(S_IFREG | mode, ""));
        n = node_at(path);
    }
    if (!n || (S_ISLNK(n->mode) && (flags & O_NOFOLLOW))) {
        return fault(n ? ELOOP : ENOENT);
    }
    int fd = fd_new("file");
    w.fds[fd].node = S_ISLNK(n->mode) ? n->to : n;
    w.fds[fd].at = 0;
    return fd;
}

ssize_t __wrap_read(int fd, void *to, size_t size);
ssize_t __wrap_read(int fd, void *to, size_t size)
{
    if (!same.on) {
        return __real_read(fd, to, size);
    }
    tell("read %s %zu", fd_kind(fd), size);
    if (fails("read")) {
        return -1;
    }
    assert_true(fd_is(fd, "file"));
    const struct node *n = w.fds[fd].node;
    if (S_ISDIR(n->mode) || S_ISFIFO(n->mode)) {
        return fault(S_ISDIR(n->mode) ? EISDIR : EAGAIN);
    }
    if (chance("interrupted", 12)) {
        return fault(EINTR);
    }
    size_t left = n->size - w.fds[fd].at, got = left < size ? left : size;
    if (got > 1 && !w.whole && chance("short read", 16)) {
        got = 1 + pick("so short", got - 1);
    }
    memcpy(to, n->bytes + w.fds[fd].at, got);
    w.fds[fd].at += got;
    return (ssize_t)got;
}

ssize_t __wrap___read_chk(int fd, void *to, size_t size, size_t room)
{
    assert_true(size <= room);
    return __wrap_read(fd, to, size);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    static const int errors[] = {ENOSPC, EDQUOT, EFBIG, EIO, EINTR};
    if (!same.on) {
        return __real_write(fd, bytes, size);
    }
    tell("write %s %zu", fd_kind(fd), size);
    same_stir(bytes, size);
    if (fd == 2) {
        tell("%.*s", (int)size, (const char *)bytes);
        return (ssize_t)size;
    }
    if (chance("cannot write", 16)) {
        return fault(errors[pick("why", COUNT_OF(errors))]);
    }
    if (chance("writes nothing", 40)) {
        return 0;
    }
    struct node *n = (struct node *)w.fds[fd].node;
    if (size > 1 && chance("in pieces", 4)) {
        size = 1 + pick("piece", size - 1);
    }
    assert_true(n->size + size <= BYTES);
    memcpy(n->bytes + n->size, bytes, size);
    n->size += size;
    return (ssize_t)size;
}

int __wrap_close(int fd)
{
    if (!same.on) {
        return __real_close(fd);
    }
    tell("close %s", fd_kind(fd));
    assert_true(fd >= FD_FIRST && fd < FD_MAX && fds_open[fd].kind);
    fds_open[fd].kind = NULL;
    errno = chance("close forgets", 2) ? EBADF : errno;
    return 0;
}

int __wrap_fsync(int fd)
{
    static const int errors[] = {EINVAL, EIO, ENOSPC, EINVAL};
    tell("fsync %s", fd_kind(fd));
    return chance("cannot sync", 10) ? fault(errors[pick("why", 4)]) : 0;
}

int __real_fstat(int fd, struct stat *ret);
int __wrap_fstat(int fd, struct stat *ret)
{
    if (!same.on) {
        return __real_fstat(fd, ret);
    }
    tell("fstat %s", fd_kind(fd));
    if (fails("fstat")) {
        return -1;
    }
    *ret = (struct stat){.st_mode = w.fds[fd].node->mode};
    return 0;
}

int __real_faccessat(int dir, const char *path, int mode, int flags);
int __wrap_faccessat(int dir, const char *path, int mode, int flags)
{
    if (!same.on) {
        return __real_faccessat(dir, path, mode, flags);
    }
    tell("faccessat %s, %d %d %d", path, dir, mode, flags);
    meddle();
    return fails("faccessat") ? -1 : 0;
}

int __real_lstat(const char *path, struct stat *ret);
int __wrap_lstat(const char *path, struct stat *ret)
{
    if (!same.on) {
        return __real_lstat(path, ret);
    }
    tell("lstat %s", path);
    meddle();
    if (fails("lstat")) {
        return -1;
    }
    const struct node *n = node_at(path);
    if (!n) {
        return fault(ENOENT);
    }
    *ret = (struct stat){.st_mode = n->mode};
    return 0;
}

int __wrap_unlink(const char *path)
{
    tell("unlink %s", path);
    if (fails("unlink")) {
        return -1;
    }
    return entry_drop(path) ? 0 : fault(ENOENT);
}

static void move_entry(const char *from, const char *to)
{
    entry_put(to, w.entries[entry_at(from)].node);
    entry_drop(from);
}

int __wrap_rename(const char *from, const char *to)
{
    tell("rename %s %s", from, to);
    if (fails("rename") || entry_at(from) < 0) {
        return -1;
    }
    move_entry(from, to);
    return 0;
}

int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to,
                     unsigned flags)
{
    int i = entry_at(from);
    tell("renameat2 %d %s %d %s %u", from_dir, from, to_dir, to, flags);
    meddle();
    if (fails("renameat2")) {
        return -1;
    }
    if (w.names_as == 1 || (w.names_as == 2 && flags == RENAME_EXCHANGE)) {
        return fault(EINVAL);
    }
    if (w.names_as == 3) {
        return fault(ENOSYS);
    }
    if (i < 0) {
        return fault(ENOENT);
    }
    int k = entry_at(to);
    if (flags == RENAME_NOREPLACE && k >= 0) {
        return fault(EEXIST);
    }
    if (flags == RENAME_EXCHANGE && k < 0) {
        return fault(ENOENT);
    }
    if (flags != RENAME_EXCHANGE) {
        move_entry(from, to);
        return 0;
    }
    struct node *was = w.entries[k].node;
    w.entries[k].node = w.entries[i].node;
    w.entries[i].node = was;
    return 0;
}

/* -- time, processes, users ------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *ret);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (!same.on) {
        return __real_clock_gettime(clock, ret);
    }
    *ret = (struct timespec){.tv_sec = w.now / S, .tv_nsec = w.now % S};
    return 0;
}

pid_t __real_getpid(void);
pid_t __wrap_getpid(void)
{
    return same.on ? SELF : __real_getpid();
}

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void)
{
    return same.on ? w.uid : __real_geteuid();
}

pid_t __wrap_fork(void)
{
    return __real_fork();
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    return __real_waitpid(pid, status, options);
}

_Noreturn void __wrap__exit(int code)
{
    __real__exit(code);
}

void __wrap_proc_boot_id(char ret[PROC_BOOT_ID])
{
    snprintf(ret, PROC_BOOT_ID, "%s", w.boot);
}

int64_t __wrap_proc_start(pid_t pid)
{
    tell("when did %d start", (int)pid);
    return pid != HOLDER || !w.alive       ? 0
           : chance("another process", 12) ? 6
                                           : 1234567;
}

bool __wrap_proc_ended(pid_t pid)
{
    tell("has %d ended", (int)pid);
    return w.ended;
}

struct passwd *__wrap_getpwuid(uid_t uid)
{
    static char name[] = "an\x01na";
    static struct passwd entry = {.pw_name = name};
    tell("who is %d", (int)uid);
    return chance("nobody knows", 3) ? NULL : &entry;
}

#endif

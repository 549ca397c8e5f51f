/* tests/unit/file_calls.h — what a mapped file's store calls to find, make, map and
 * lock files, in place of libc's. Each tells its line. See file_world.h. */
#ifndef SNIB_TESTS_FILE_CALLS_H
#define SNIB_TESTS_FILE_CALLS_H

#include "file_world.h"

#include <limits.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

/* -- paths ------------------------------------------------------------------------ */

static void fill(const struct node *n, struct stat *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->st_dev = 7;
    ret->st_ino = n->ino;
    ret->st_mode = n->mode;
    ret->st_uid = n->uid;
    ret->st_nlink = n->links;
    ret->st_size = (off_t)n->size;
}

int __real_stat(const char *path, struct stat *ret);
int __wrap_stat(const char *path, struct stat *ret)
{
    if (!same.on) {
        return __real_stat(path, ret);
    }
    const struct node *n = node_at(followed(path));
    tell("stat %s: %d", path, n ? (int)n->ino : 0);
    if (goes_wrong("stat")) {
        return -1;
    }
    if (!n) {
        return fault(ENOENT);
    }
    fill(n, ret);
    return 0;
}

int __real_fstat(int fd, struct stat *ret);
int __wrap_fstat(int fd, struct stat *ret)
{
    if (!same.on) {
        return __real_fstat(fd, ret);
    }
    tell("fstat %s", fd_text(fd));
    if (goes_wrong("fstat")) {
        return -1;
    }
    if (!is_open(fd, FD_DIR) && !is_open(fd, FD_FILE)) {
        return fault(EBADF);
    }
    fill(FD(fd).node, ret);
    return 0;
}

char *__wrap_getcwd(char *ret, size_t size);
char *__wrap_getcwd(char *ret, size_t size)
{
    tell("getcwd %zu", size);
    if (goes_wrong("getcwd")) {
        return NULL;
    }
    snprintf(ret, size, "/v");
    return ret;
}

char *__wrap___getcwd_chk(char *ret, size_t size, size_t room);
char *__wrap___getcwd_chk(char *ret, size_t size, size_t room)
{
    assert_true(size <= room);
    return __wrap_getcwd(ret, size);
}

char *__real_realpath(const char *path, char *ret);
char *__wrap_realpath(const char *path, char *ret)
{
    if (!same.on) {
        return __real_realpath(path, ret);
    }
    const struct node *n =
        strcmp(path, ".") == 0 ? node_at("/v") : node_at(followed(path));
    assert_non_null(ret);
    tell("realpath %s", path);
    if (goes_wrong("realpath")) {
        return NULL;
    }
    if (!n) {
        errno = ENOENT;
        return NULL;
    }
    snprintf(ret, PATH_MAX, "%s", path_of(n));
    return ret;
}

char *__wrap___realpath_chk(const char *path, char *ret, size_t room);
char *__wrap___realpath_chk(const char *path, char *ret, size_t room)
{
    assert_true(room >= PATH_MAX);
    return __wrap_realpath(path, ret);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    if (!same.on) {
        return __real_open(path, flags);
    }
    struct node *n = node_at(path);
    tell("open %s %o", path, (unsigned)flags);
    if (goes_wrong("open")) {
        return -1;
    }
    if (!n || !S_ISDIR(n->mode)) {
        return fault(!n ? ENOENT : ENOTDIR);
    }
    return open_fd(FD_DIR, n);
}

int __wrap_openat(int dir, const char *name, int flags, ...)
{
    char path[300];
    assert_true(is_open(dir, FD_DIR));
    if (strcmp(name, ".") == 0) {
        tell("openat . of %s %o", fd_text(dir), (unsigned)flags);
        return goes_wrong("openat") ? -1 : open_fd(FD_DIR, FD(dir).node);
    }
    const char *above = path_of(FD(dir).node);
    snprintf(path, sizeof path, "%s/%s", strcmp(above, "/") ? above : "", name);
    struct node *n = node_at(path);
    tell("openat %s %o", path, (unsigned)flags);
    if (goes_wrong("openat")) {
        return -1;
    }
    if (n && !S_ISREG(n->mode) && !S_ISFIFO(n->mode)) {
        return fault(S_ISLNK(n->mode) ? ELOOP : EISDIR);
    }
    if (!n) {
        n = node_new(S_IFREG | 0600);
        entry_put(path, n);
    }
    node_remember(n);
    return open_fd(FD_FILE, n);
}

int __wrap_close(int fd)
{
    if (!same.on) {
        return __real_close(fd);
    }
    tell("close %s", fd_text(fd));
    assert_true(fd >= FIRST_FD && fd < FIRST_FD + FDS &&
                FD(fd).is != FD_CLOSED); /* never one twice                */
    fd_close(fd);
    return 0;
}

/* -- the file system ------------------------------------------------------------------- */

int __wrap_fstatfs(int fd, struct statfs *ret)
{
    tell("fstatfs %s", fd_text(fd));
    if (goes_wrong("fstatfs")) {
        return -1;
    }
    memset(ret, 0, sizeof *ret);
    ret->f_type = (__fsword_t)w.magic;
    return 0;
}

int __wrap_fstatvfs(int fd, struct statvfs *ret)
{
    static const unsigned long blocks[] = {0,   63,   64,   65,     255,
                                           256, 1023, 1024, 100000, 40000000};
    tell("fstatvfs %s", fd_text(fd));
    if (goes_wrong("fstatvfs")) {
        return -1;
    }
    memset(ret, 0, sizeof *ret);
    ret->f_frsize = chance("large blocks", 2) ? 4096 : 1024;
    ret->f_bsize = 512;
    ret->f_bfree = blocks[pick("blocks", COUNT_OF(blocks))];
    ret->f_bavail = ret->f_bfree - ret->f_bfree / 4;
    return 0;
}

uid_t __wrap_geteuid(void)
{
    return w.uid;
}

int __wrap_uname(struct utsname *ret);
int __wrap_uname(struct utsname *ret)
{
    tell("uname");
    if (goes_wrong("uname")) {
        return -1;
    }
    memset(ret, 0, sizeof *ret);
    memset(ret->nodename, 'h', chance("long host", 3) ? 64 : 3);
    return 0;
}

/* -- room ------------------------------------------------------------------------------- */

int __real_getrlimit(__rlimit_resource_t which, struct rlimit *ret);
int __wrap_getrlimit(__rlimit_resource_t which, struct rlimit *ret)
{
    if (!same.on) {
        return __real_getrlimit(which, ret);
    }
    tell("getrlimit %d", (int)which);
    if (goes_wrong("limit")) {
        return -1;
    }
    ret->rlim_cur = ret->rlim_max =
        which == RLIMIT_FSIZE ? w.fsize : RLIM_INFINITY;
    return 0;
}

int __wrap_fallocate(int fd, int how, off_t from, off_t size)
{
    uint64_t end = (uint64_t)from + (uint64_t)size;
    if (!same.on) {
        return __real_fallocate(fd, how, from, size);
    }
    tell("fallocate %s %d %lld %lld", fd_text(fd), how, (long long)from,
         (long long)size);
    if (goes_wrong("fallocate")) {
        return -1;
    }
    assert_true(is_open(fd, FD_FILE));
    struct node *n = FD(fd).node;
    if (end > n->size) {
        if (end > w.most) {
            return fault(chance("quota", 2) ? EDQUOT : ENOSPC);
        }
        assert_return_code(__real_fallocate(n->memory, 0, (off_t)n->size,
                                            (off_t)(end - n->size)),
                           0);
        n->size = end;
    }
    return 0;
}

/* The whole of it is on the disk now. */
static void node_sync(struct node *n)
{
    memcpy(n->disk, n->bytes, n->size);
    n->disk_size = n->size;
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
    if (!same.on) {
        return __real_fdatasync(fd);
    }
    tell("fdatasync %s", fd_text(fd));
    if (goes_wrong("fdatasync")) {
        return -1;
    }
    assert_true(is_open(fd, FD_FILE));
    node_sync(FD(fd).node);
    return 0;
}

void *__wrap_mmap(void *at, size_t size, int rights, int how, int fd,
                  off_t from);
void *__wrap_mmap(void *at, size_t size, int rights, int how, int fd,
                  off_t from)
{
    if (!same.on || !is_open(fd, FD_FILE)) {
        return __real_mmap(at, size, rights, how, fd, from);
    }
    tell("mmap %zu %d %d %s %lld", size, rights, how, fd_text(fd),
         (long long)from);
    if (goes_wrong("mmap")) {
        return MAP_FAILED;
    }
    int i = 0;
    while (w.mappings[i].base) {
        i++;
        assert_true(i < MAPPINGS);
    }
    w.mappings[i].base =
        __real_mmap(at, size, rights, how, FD(fd).node->memory, from);
    assert_true((void *)w.mappings[i].base != MAP_FAILED);
    w.mappings[i].size = size;
    w.mappings[i].node = FD(fd).node;
    w.mappings[i].who = w.who;
    return w.mappings[i].base;
}

int __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size)
{
    for (int i = 0; i < MAPPINGS && same.on; i++) {
        if (w.mappings[i].base == at) {
            tell("munmap %zu", size);
            w.mappings[i].base = NULL;
            return __real_munmap(at, w.mappings[i].size);
        }
    }
    return __real_munmap(at, size);
}

/* -- locks of a directory's bytes ---------------------------------------------------------- */

int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...)
{
    va_list list;
    va_start(list, what);
    struct flock *l = va_arg(list, struct flock *);
    va_end(list);
    if (!same.on) {
        return __real_fcntl(fd, what, l);
    }
    assert_true(is_open(fd, FD_DIR));
    tell("fcntl %s %d %d %llx %llx", fd_text(fd), what, l->l_type,
         (unsigned long long)l->l_start, (unsigned long long)l->l_len);
    if (goes_wrong("fcntl")) {
        return -1;
    }
    if (what == F_OFD_SETLK) {
        assert_int_equal(l->l_len, 1);
        FD(fd).locked = l->l_type != F_UNLCK;
        FD(fd).lock = l->l_start;
        return 0;
    }
    assert_int_equal(what, F_OFD_GETLK);
    l->l_type = F_UNLCK;
    for (int i = 0; i < FDS; i++) {
        if (w.fds[i].is == FD_DIR && i + FIRST_FD != fd && w.fds[i].locked &&
            w.fds[i].node == FD(fd).node && w.fds[i].lock >= l->l_start &&
            w.fds[i].lock - l->l_start < l->l_len) {
            *l = (struct flock){.l_type = F_RDLCK,
                                .l_start = w.fds[i].lock,
                                .l_len = 1,
                                .l_pid = -1};
            break;
        }
    }
    return 0;
}

/* -- locks of the file --------------------------------------------------------------------- */

static void meanwhile(void); /* others go on: file_clients.h                */

int __wrap_flock(int fd, int how)
{
    tell("flock %s %d", fd_text(fd), how);
    if (goes_wrong("flock")) {
        return -1;
    }
    assert_true(is_open(fd, FD_FILE));
    int wanted = how & ~LOCK_NB, sole = FD(fd).node->stranger == LOCK_EX,
        shared = FD(fd).node->stranger == LOCK_SH;
    FD(fd).flock = 0; /* a change drops it first                            */
    if (chance("meanwhile", 30)) {
        meanwhile();
    }
    for (int i = 0; i < FDS; i++) {
        bool other = w.fds[i].is == FD_FILE && i + FIRST_FD != fd &&
                     w.fds[i].node == FD(fd).node;
        sole += other && w.fds[i].flock == LOCK_EX;
        shared += other && w.fds[i].flock == LOCK_SH;
    }
    if (wanted != LOCK_UN && (sole || (wanted == LOCK_EX && shared))) {
        assert_true(how & LOCK_NB); /* nobody waits there                  */
        return fault(EWOULDBLOCK);
    }
    FD(fd).flock = wanted == LOCK_UN ? 0 : wanted;
    return 0;
}

#endif

/* tests/unit/sqlite_tree.h — what the lock file's store calls to find, make and
 * look at files, in place of libc's. Each tells its line. See sqlite_world.h. */
#ifndef SNIB_TESTS_SQLITE_TREE_H
#define SNIB_TESTS_SQLITE_TREE_H

#include "sqlite_world.h"

#include <grp.h>
#include <pwd.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>

/* -- paths ------------------------------------------------------------------------ */

/* Where this name is, seen from that directory. */
static const char *full(int dir, const char *name)
{
    static char path[2][700];
    static int claim;
    claim = !claim;
    if (name[0] == '/') {
        snprintf(path[claim], sizeof path[claim], "%s", name);
    } else if (!is_open(dir, FD_DIR)) {
        path[claim][0] = 0;
    } else if (strcmp(name, ".") == 0) {
        snprintf(path[claim], sizeof path[claim], "%s", path_of(FD(dir).node));
    } else {
        const char *above = path_of(FD(dir).node);
        snprintf(path[claim], sizeof path[claim], "%s/%s",
                 strcmp(above, "/") == 0 ? "" : above, name);
    }
    return path[claim];
}

/* Links in the end of it are followed. */
static struct node *followed(const char *path)
{
    struct node *n = node_at(path);
    for (int i = 0; n && S_ISLNK(n->mode) && i < 3; i++) {
        n = node_at(n->to);
    }
    return n;
}

static void fill(const struct node *n, struct stat *ret)
{
    memset(ret, 0, sizeof *ret);
    ret->st_ino = n->ino;
    ret->st_mode = n->mode;
    ret->st_uid = n->uid;
    ret->st_gid = n->gid;
    ret->st_nlink = n->links;
    ret->st_size = n->size;
}

static int look(const char *call, const char *path, bool follow,
                struct stat *ret)
{
    struct node *n = follow ? followed(path) : node_at(path);
    tell("%s %s: %d", call, path, n ? (int)n->ino : 0);
    if (goes_wrong(call)) {
        return -1;
    }
    if (!n) {
        return fault(ENOENT);
    }
    fill(n, ret);
    return 0;
}

int __real_stat(const char *path, struct stat *ret);
int __wrap_stat(const char *path, struct stat *ret)
{
    if (same.on && strcmp(path, "/proc/self/ns/pid") == 0) {
        memset(ret, 0, sizeof *ret);
        ret->st_ino = (ino_t)w.pidns;
        tell("stat %s", path);
        return goes_wrong("stat") ? -1 : 0;
    }
    return same.on ? look("stat", path, true, ret) : __real_stat(path, ret);
}

int __real_lstat(const char *path, struct stat *ret);
int __wrap_lstat(const char *path, struct stat *ret)
{
    return same.on ? look("lstat", path, false, ret) : __real_lstat(path, ret);
}

int __wrap_fstatat(int dir, const char *name, struct stat *ret, int flags)
{
    const char *path = full(dir, name);
    tell("fstatat with %d", flags);
    return path[0] ? look("fstatat", path, !(flags & AT_SYMLINK_NOFOLLOW), ret)
                   : fault(EBADF);
}

int __wrap_statx(int dir, const char *name, int flags, unsigned mask,
                 struct statx *ret)
{
    const char *path = full(dir, name);
    struct node *n = node_at(path);
    tell("statx %s %d %u: %d", path, flags, mask, n ? (int)n->ino : 0);
    if (goes_wrong("statx")) {
        return -1;
    }
    if (!n) {
        return fault(ENOENT);
    }
    memset(ret, 0, sizeof *ret);
    ret->stx_attributes_mask = chance("knows no mounts", 4) ? 0 : 0x2000;
    ret->stx_attributes = chance("mounted", 25) ? 0x2000 : 0x10;
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
    if (!is_open(fd, FD_DIR)) {
        return fault(EBADF);
    }
    fill(FD(fd).node, ret);
    return 0;
}

/* Of a process of the test's, not of this one. */
char *__wrap_getcwd(char *ret, size_t size);
char *__wrap_getcwd(char *ret, size_t size)
{
    snprintf(ret, size, "/v");
    tell("getcwd");
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
    struct node *n = node_at(path[0] == '.' ? "/v" : path);
    assert_null(ret);
    tell("realpath %s", path);
    if (goes_wrong("realpath")) {
        return NULL;
    }
    if (!n) {
        errno = ENOENT;
        return NULL;
    }
    return strdup(S_ISLNK(n->mode) ? n->to : path_of(n));
}

/* -- rights ----------------------------------------------------------------------- */

static bool is_member(gid_t group)
{
    bool in = w.gid == group;
    for (int i = 0; i < w.group_count; i++) {
        in = in || w.groups[i] == group;
    }
    return in;
}

static bool may(const struct node *n, int how)
{
    unsigned bits = n->uid == w.uid     ? n->mode >> 6
                    : is_member(n->gid) ? n->mode >> 3
                                        : n->mode;
    return w.uid == 0 || ((unsigned)how & ~bits & 7) == 0;
}

int __wrap_faccessat(int dir, const char *name, int how, int flags)
{
    struct node *n = node_at(full(dir, name));
    tell("faccessat %s %d %d", full(dir, name), how, flags);
    if (goes_wrong("faccess")) {
        return -1;
    }
    return !n ? fault(ENOENT) : may(n, how) ? 0 : fault(EACCES);
}

uid_t __wrap_geteuid(void)
{
    return w.uid;
}

gid_t __wrap_getegid(void)
{
    return w.gid;
}

int __wrap_getgroups(int size, gid_t *ret)
{
    if (goes_wrong("groups")) {
        return -1;
    }
    for (int i = 0; i < w.group_count && size; i++) {
        assert_true(i < size);
        ret[i] = w.groups[i];
    }
    return w.group_count;
}

int __wrap___getgroups_chk(int size, gid_t *ret, size_t room);
int __wrap___getgroups_chk(int size, gid_t *ret, size_t room)
{
    assert_true((size_t)size * sizeof *ret <= room);
    return __wrap_getgroups(size, ret);
}

int __wrap_getpwuid_r(uid_t uid, struct passwd *pw, char *buf, size_t size,
                      struct passwd **ret)
{
    static char name[] = "anna", home[] = "/home/anna", odd[] = "home";
    static char far[4090];
    int what = (int)pick("home", 12);
    (void)buf;
    tell("getpwuid %d %zu", (int)uid, size);
    *ret = NULL;
    if (goes_wrong("pwuid")) {
        return errno;
    }
    memset(far, 'x', sizeof far - 1);
    far[0] = '/';
    pw->pw_name = name;
    pw->pw_dir = what == 0 ? NULL : what == 1 ? odd : what == 2 ? far : home;
    *ret = what == 3 ? NULL : pw;
    return 0;
}

int __wrap_getgrgid_r(gid_t group, struct group *gr, char *buf, size_t size,
                      struct group **ret)
{
    static char name[] = "locks", bert[] = "bert", anna[] = "anna";
    static char *with[] = {bert, anna, NULL}, *without[] = {bert, NULL};
    static const size_t needs[] = {100, 100, 4096, 4097, 100000};
    static size_t needed; /* the same until there is room for it              */
    (void)buf;
    tell("getgrgid %d %zu", (int)group, size);
    *ret = NULL;
    if (goes_wrong("grgid")) {
        return errno;
    }
    needed = needed ? needed : needs[pick("members", COUNT_OF(needs))];
    if (size < needed) {
        return ERANGE;
    }
    needed = 0;
    gr->gr_name = name;
    gr->gr_mem = chance("listed", 2) ? with : without;
    *ret = chance("no group", 5) ? NULL : gr;
    return 0;
}

int __wrap_getgrouplist(const char *user, gid_t first, gid_t *ret, int *count);
int __wrap_getgrouplist(const char *user, gid_t first, gid_t *ret, int *count)
{
    static int needed; /* the same until there is room for it               */
    int room = *count;
    tell("getgrouplist %s %d", user, room);
    if (goes_wrong("grouplist")) {
        return -1;
    }
    needed = needed ? needed : chance("many groups", 4) ? 300 : 2;
    *count = needed;
    if (room < needed) {
        return -1;
    }
    for (int i = 0; i < needed; i++) {
        ret[i] = i ? 1000u + (gid_t)i : first;
    }
    if (chance("listed elsewhere", 4)) {
        ret[needed - 1] = 50;
    }
    needed = 0;
    return *count;
}

/* -- making and removing ---------------------------------------------------------------- */

static int make_at(const char *call, const char *path, mode_t mode)
{
    char above[700];
    tell("%s %s %o", call, path, (unsigned)mode);
    if (goes_wrong(call)) {
        return -1;
    }
    parent_of(path, above, sizeof above);
    if (node_at(path)) {
        return fault(EEXIST);
    }
    if (!node_at(above)) {
        return fault(ENOENT);
    }
    make_file(path, mode);
    return 0;
}

int __wrap_mkdir(const char *path, mode_t mode)
{
    return make_at("mkdir", path, S_IFDIR | mode);
}

int __wrap_mkdirat(int dir, const char *name, mode_t mode)
{
    return make_at("mkdirat", full(dir, name), S_IFDIR | mode);
}

int __wrap_mknodat(int dir, const char *name, mode_t mode, dev_t device)
{
    tell("mknodat of %d", (int)device);
    return make_at("mknodat", full(dir, name), mode);
}

int __wrap_fchmodat(int dir, const char *name, mode_t mode, int flags)
{
    struct node *n = node_at(full(dir, name));
    tell("fchmodat %s %o %d", full(dir, name), (unsigned)mode, flags);
    if (goes_wrong("fchmodat")) {
        return -1;
    }
    if (!n) {
        return fault(ENOENT);
    }
    n->mode = (n->mode & S_IFMT) | mode;
    return 0;
}

static int move(const char *from, const char *to, bool replace)
{
    struct node *n = node_at(from);
    if (!n) {
        return fault(ENOENT);
    }
    if (!replace && node_at(to)) {
        return fault(EEXIST);
    }
    entry_drop(to);
    entry_drop(from);
    n->links++;
    entry_put(to, n);
    return 0;
}

int __wrap_renameat(int dir, const char *from, int other, const char *to)
{
    tell("renameat %s to %s", full(dir, from), full(other, to));
    if (goes_wrong("renameat")) {
        return -1;
    }
    return move(full(dir, from), full(other, to), true);
}

int __wrap_renameat2(int dir, const char *from, int other, const char *to,
                     unsigned flags)
{
    tell("renameat2 %s to %s %u", full(dir, from), full(other, to), flags);
    if (goes_wrong("renameat2")) {
        return -1;
    }
    if (chance("somebody was faster", 9)) {
        make_file(full(other, to),
                  strstr(to, "-bells") ? S_IFDIR | 02770 : S_IFREG | 0660);
    }
    return move(full(dir, from), full(other, to), !(flags & 1));
}

int __wrap_unlinkat(int dir, const char *name, int flags)
{
    tell("unlinkat %s %d", full(dir, name), flags);
    if (goes_wrong("unlinkat")) {
        return -1;
    }
    return entry_drop(full(dir, name)) ? 0 : fault(ENOENT);
}

int __wrap_symlinkat(const char *text, int dir, const char *name)
{
    tell("symlinkat %s at %s", text, full(dir, name));
    if (goes_wrong("symlink")) {
        return -1;
    }
    if (node_at(full(dir, name))) {
        return fault(EEXIST);
    }
    struct node *n = make_file(full(dir, name), S_IFLNK | 0777);
    snprintf(n->to, sizeof n->to, "%s", text);
    return 0;
}

ssize_t __wrap_readlinkat(int dir, const char *name, char *ret, size_t size)
{
    struct node *n = node_at(full(dir, name));
    tell("readlinkat %s %zu", full(dir, name), size);
    if (goes_wrong("readlinkat")) {
        return -1;
    }
    if (!n || !S_ISLNK(n->mode)) {
        return fault(n ? EINVAL : ENOENT);
    }
    size = strlen(n->to) < size ? strlen(n->to) : size;
    memcpy(ret, n->to, size);
    return (ssize_t)size;
}

ssize_t __wrap___readlinkat_chk(int dir, const char *name, char *ret,
                                size_t size, size_t room);
ssize_t __wrap___readlinkat_chk(int dir, const char *name, char *ret,
                                size_t size, size_t room)
{
    assert_true(size <= room);
    return __wrap_readlinkat(dir, name, ret, size);
}

/* -- the file system -------------------------------------------------------------------- */

int __wrap_statfs(const char *path, struct statfs *ret)
{
    tell("statfs %s", path);
    if (goes_wrong("statfs")) {
        return -1;
    }
    memset(ret, 0, sizeof *ret);
    ret->f_type = (__fsword_t)w.magic;
    return 0;
}

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
    static const unsigned long blocks[] = {0,    63,   64,     65,      255,
                                           1023, 1024, 100000, 40000000};
    tell("fstatvfs %s", fd_text(fd));
    if (goes_wrong("fstatvfs")) {
        return -1;
    }
    memset(ret, 0, sizeof *ret);
    ret->f_frsize = chance("large blocks", 2) ? 4096 : 1024;
    ret->f_bsize = 512;
    ret->f_bfree = blocks[pick("blocks", COUNT_OF(blocks))];
    ret->f_bavail = ret->f_bfree - ret->f_bfree / 4;
    ret->f_files = chance("counts inodes", 2) ? 100 : 0;
    ret->f_ffree = chance("has inodes", 2) ? 1 : 0;
    return 0;
}

#endif

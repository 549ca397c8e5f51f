/* store/sqlite/lockfile.c — the lock file's path, and whether it may be
 * trusted.
 *
 * Two processes that mean the same lock must meet in the same file, and nobody
 * else may be able to put another file in its place:
 *
 * - shared.c says which file is meant when none is named;
 * - the directory is resolved once; if that went through a link, each step
 *   looks whether it still leads there (host_path.c). The file itself must not be a symbolic link
 *   (its -wal would lie elsewhere), nor have a second hard link, nor be mounted
 *   by itself (two names, two -wal files, a broken database);
 * - the file belongs to this user: another user could rewrite leases, and could
 *   not notify our waiters. Or it lies in a shared directory, which root made
 *   for a group (setgid, writable for the group, for nobody else). Then
 *   everything in it is the group's, whichever member made it with whatever
 *   umask: 0660, directories 2770;
 * - it lies on a file system whose locks and clock are this host's.
 *
 * The file is made by mknod, not by open: internal.h says what close() would
 * do. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/sqlite/internal.h"

#define REMEDY   SNIB__SQLITE_REMEDY
#define BASE_MAX 200 /* bytes; "-bells" or "-shm" is appended */
#ifndef STATX_ATTR_MOUNT_ROOT
#define STATX_ATTR_MOUNT_ROOT 0x2000
#endif
#define REMEDY_TWO                                                             \
    "two users need a directory that root made for a group of theirs "         \
    "(install -d -m 2770 -g GROUP DIRECTORY), or a server"

bool snib__lockfile_is_sole(const struct snib__lockfile *p)
{
    char standard[4096];
    return !p->shared &&
           !snib__shared_default(standard, sizeof standard, NULL) &&
           strcmp(p->path, standard) == 0;
}

/* -- making ---------------------------------------------------------------- */

/* Make the missing directories above the last '/', 0700 each. */
static snib_err lockfile_make_dirs(char *path, struct snib_error *reterr)
{
    for (char *p = strchr(path + 1, '/'); p; p = strchr(p + 1, '/')) {
        *p = 0;
        int rc = mkdir(path, 0700);
        int e = errno;
        if (rc && e != EEXIST) {
            snib_err err = snib__host_cannot(
                e, path, reterr, "cannot make directory %s: %s; " REMEDY, path,
                strerror(e));
            *p = '/';
            return err;
        }
        *p = '/';
    }
    return SNIB_ERR_OK;
}

static snib_err lockfile_check_fs(struct snib__lockfile *p,
                                  const struct snib__host *h, const char *path,
                                  struct snib_error *reterr)
{
    struct statfs fs;
    char other[24];
    uint64_t magic = h->fs_magic;
    if (!magic) {
        if (statfs(path, &fs)) {
            return snib__host_cannot(errno, path, reterr,
                                     "cannot ask the file system of %s: %s",
                                     path, strerror(errno));
        }
        magic = (uint64_t)(uint32_t)fs.f_type;
    }
    const char *name = snib__fs_name(magic, other, sizeof other);
    if (magic == SNIB__FS_PROC || magic == SNIB__FS_SYSFS) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "%s lies on %s, where no file can be made; put it "
                          "on a local disk, " REMEDY,
                          path, other);
    }
    if (!name) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "%s lies on %s: other hosts may share it, and its "
                          "locks and clock are not this host's; put it on a "
                          "local disk, " REMEDY,
                          path, other);
    }
    snprintf(p->fs, sizeof p->fs, "%s", name);
    return SNIB_ERR_OK;
}

/* A mount of the file alone is a second name of it, with a -wal, a -shm and a
 * -bells of its own beside it. Kernels before Linux 5.8 do not tell of such a
 * mount, and some sandboxes do not let us ask (EPERM): then there is taken to
 * be none. */
static snib_err lockfile_is_mounted(const struct snib__lockfile *p,
                                    const char *base, bool *ret,
                                    struct snib_error *reterr)
{
    struct statx st;
    *ret = false;
    if (statx(p->dir, base, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st)) {
        return errno == EPERM || errno == ENOSYS
                   ? SNIB_ERR_OK
                   : snib__host_cannot(errno, p->path, reterr,
                                       "%s: %s; " REMEDY, p->path,
                                       strerror(errno));
    }
    *ret = st.stx_attributes & st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT;
    return SNIB_ERR_OK;
}

static snib_err lockfile_check_file(struct snib__lockfile *p, const char *base,
                                    struct snib_error *reterr)
{
    struct stat st;
    const char *wrong = NULL;
    bool mounted;
    if (fstatat(p->dir, base, &st, AT_SYMLINK_NOFOLLOW)) {
        return snib__host_cannot(errno, p->path, reterr, "%s: %s; " REMEDY,
                                 p->path, strerror(errno));
    }
    snib_err err = lockfile_is_mounted(p, base, &mounted, reterr);
    if (!err && mounted) {
        err = snib__fail(reterr, SNIB_ERR_CONFIG,
                         "lock file %s is mounted by itself, and what lies "
                         "beside it is not what others have there; mount its "
                         "directory instead, or " REMEDY,
                         p->path);
    }
    if (err) {
        return err;
    }
    wrong = snib__seen_wrong(p, &st);
    if (wrong) {
        /* reported below */
    } else if (faccessat(p->dir, base, R_OK | W_OK, AT_EACCESS)) {
        wrong = errno == EROFS ? "is on a read-only file system"
                               : "is not writable";
    } else if (faccessat(p->dir, ".", W_OK | X_OK, AT_EACCESS)) {
        wrong = "is in a directory that is not writable";
    }
    if (wrong && !p->shared && st.st_uid != geteuid()) {
        return snib__fail(
            reterr, SNIB_ERR_CONFIG,
            "lock file %s %s; each user has a file of his own; " REMEDY_TWO,
            p->path, wrong);
    }
    if (wrong) {
        return snib__fail(reterr, SNIB_ERR_CONFIG, "lock file %s %s; " REMEDY,
                          p->path, wrong);
    }
    return SNIB_ERR_OK;
}

bool snib__lockfile_make(const struct snib__lockfile *p, int dir,
                         const char *name, mode_t type)
{
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        return true;
    }
    bool folder = type == S_IFDIR;
    bool ok = p->shared
                  ? snib__stage_make(dir, name, type | (folder ? 02770 : 0660))
              : folder ? mkdirat(dir, name, 0700) == 0
                       : mknodat(dir, name, S_IFREG | 0600, 0) == 0;
    return ok || errno == EEXIST;
}

/* Some file systems (ZFS before 2.2) cannot do what a shared directory needs,
 * see stage.c. */
const char *snib__lockfile_why(const struct snib__lockfile *p, int e)
{
    return p->shared && e == EOPNOTSUPP
               ? "a shared directory needs a file system that renames "
                 "without replacing (RENAME_NOREPLACE; ZFS from 2.2 on)"
               : strerror(e);
}

static const char *lockfile_wrong_notifiers(const struct snib__lockfile *p,
                                            const struct stat *st)
{
    if (p->shared) {
        return st->st_gid != p->group || (st->st_mode & 07777) != 02770
                   ? "must be a directory of the group with mode 2770"
                   : NULL;
    }
    return st->st_uid != geteuid() ? "belongs to another user"
           : (st->st_mode & 077)   ? "must have mode 0700"
                                   : NULL;
}

snib_err snib__lockfile_notifiers(struct snib__lockfile *p,
                                  struct snib_error *reterr)
{
    char name[300];
    struct stat st;
    snprintf(name, sizeof name, "%s-bells", p->base);
    if (!snib__lockfile_make(p, p->dir, name, S_IFDIR)) {
        return snib__host_cannot(errno, p->notifiers_path, reterr,
                                 "cannot make directory %s: %s; " REMEDY,
                                 p->notifiers_path,
                                 snib__lockfile_why(p, errno));
    }
    p->notifiers =
        openat(p->dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->notifiers < 0 || fstat(p->notifiers, &st)) {
        return snib__host_cannot(errno, p->notifiers_path, reterr,
                                 "directory %s: %s; " REMEDY, p->notifiers_path,
                                 errno == ELOOP ? "is a symbolic link"
                                                : strerror(errno));
    }
    const char *wrong = lockfile_wrong_notifiers(p, &st);
    if (wrong) {
        return snib__fail(reterr, SNIB_ERR_CONFIG, "%s %s; " REMEDY,
                          p->notifiers_path, wrong);
    }
    return SNIB_ERR_OK;
}

/* e: why it could not be made. It may be there already, where this user may not
 * look. */
static snib_err lockfile_cannot_make(const struct snib__lockfile *p,
                                     const char *base, int e,
                                     struct snib_error *reterr)
{
    struct stat st, dir;
    bool hidden =
        fstatat(p->dir, base, &st, AT_SYMLINK_NOFOLLOW) && errno == EACCES;
    bool group = hidden && !fstat(p->dir, &dir) && (dir.st_mode & S_ISGID);
    return snib__host_cannot(
        e, p->path, reterr,
        hidden ? "cannot reach lock file %s: %s%s; " REMEDY
               : "cannot make lock file %s: %s%s; " REMEDY,
        p->path, snib__lockfile_why(p, e),
        group ? " (only members of its directory's group may)" : "");
}

/* Is there a private file of this user? It stays private, wherever it lies. */
static bool lockfile_is_private(int dir, const char *base)
{
    struct stat st;
    return fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 0777) == 0600;
}

static snib_err lockfile_open_in(struct snib__lockfile *p, const char *dir,
                                 const char *base, const struct snib__host *h,
                                 bool is_default, struct snib_error *reterr)
{
    struct stat st;
    snib_err err;
    bool in;
    size_t size = strlen(dir) + strlen(base) + 16;
    p->path = snib__alloc(size);
    p->notifiers_path = snib__alloc(size);
    if (!p->path || !p->notifiers_path) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snprintf(p->path, size, "%s/%s", strcmp(dir, "/") ? dir : "", base);
    snprintf(p->notifiers_path, size, "%s-bells", p->path);
    p->base = strrchr(p->path, '/') + 1;
    p->dir = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->dir < 0 || fstat(p->dir, &st)) {
        return snib__host_cannot(errno, dir, reterr,
                                 "directory %s: %s; " REMEDY, dir,
                                 strerror(errno));
    }
    err = snib__shared_is_member(st.st_gid, &in, reterr);
    if (err) {
        return err;
    }
    p->shared =
        in && snib__shared_is_dir(&st) && !lockfile_is_private(p->dir, base);
    p->group = st.st_gid;
    p->is_default = is_default;
    if (is_default && !p->shared &&
        (st.st_uid != geteuid() || (st.st_mode & 022))) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "directory %s must belong to this user and be "
                          "writable by nobody else; " REMEDY,
                          dir);
    }
    err = lockfile_check_fs(p, h, dir,
                            reterr); /* before anything is made there */
    if (err) {
        return err;
    }
    if (!snib__lockfile_make(p, p->dir, base, S_IFREG)) {
        return lockfile_cannot_make(p, base, errno, reterr);
    }
    err = lockfile_check_file(p, base, reterr);
    if (!err) {
        /* The file may be a mount that lockfile_is_mounted was not told of. */
        err = lockfile_check_fs(p, h, p->path, reterr);
    }
    return err ? err : snib__lockfile_notifiers(p, reterr);
}

snib_err snib__lockfile_open(struct snib__lockfile *p, const char *path,
                             const struct snib__host *h,
                             struct snib_error *reterr)
{
    char standard[4096], *copy, *slash, *real = NULL;
    const char *base;
    snib_err err = SNIB_ERR_OK;
    *p = (struct snib__lockfile){.dir = -1, .notifiers = -1};
    snib_err none =
        path[0] ? snib__shared_default(standard, sizeof standard, NULL)
                : snib__sqlite_default_path(standard, sizeof standard, reterr);
    if (!path[0]) {
        if (none) {
            return none;
        }
        path = standard;
    }
    bool is_default = !none && strcmp(path, standard) == 0;
    copy = snib__strdup(path);
    if (!copy) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (is_default && strcmp(path, SNIB__SQLITE_OF_GROUP "/locks.db") != 0) {
        err = lockfile_make_dirs(copy, reterr);
    }
    slash = strrchr(copy, '/');
    base = slash ? slash + 1 : copy;
    if (!err && (!base[0] || !strcmp(base, ".") || !strcmp(base, ".."))) {
        err = snib__fail(reterr, SNIB_ERR_CONFIG,
                         "sqlite:%.200s does not name a file", path);
    }
    if (!err && strlen(base) > BASE_MAX) {
        err = snib__fail(reterr, SNIB_ERR_CONFIG,
                         "sqlite:%.100s...: the file's name has %zu bytes; at "
                         "most %d (others are made beside it)",
                         path, strlen(base), BASE_MAX);
    }
    if (!err) {
        if (slash) {
            *slash = 0;
        }
        real = realpath(!slash ? "." : slash == copy ? "/" : copy, NULL);
        if (!real) {
            err = snib__host_cannot(
                errno, path, reterr,
                "the directory of lock file %s: %s; make it or " REMEDY, path,
                strerror(errno));
        }
    }
    if (!err) {
        err = snib__host_given(slash ? copy : ".", real, &p->given, reterr);
    }
    if (!err) {
        err = lockfile_open_in(p, real, base, h, is_default, reterr);
    }
    free(real);
    snib__free(copy);
    if (err) {
        snib__lockfile_close(p);
    }
    return err;
}

void snib__lockfile_close(struct snib__lockfile *p)
{
    if (p->dir >= 0) {
        close(p->dir);
    }
    if (p->notifiers >= 0) {
        close(p->notifiers);
    }
    snib__free(p->path);
    snib__free(p->given);
    snib__free(p->notifiers_path);
    *p = (struct snib__lockfile){.dir = -1, .notifiers = -1};
}

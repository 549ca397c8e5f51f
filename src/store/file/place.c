/* store/file/place.c — the lock file's path, and whether it may be trusted.
 *
 * Two processes that mean the same lock must meet in the same file, and nobody
 * else may be able to put another file in its place. So shared.c says which file
 * is meant when none is named. The directory is resolved once; the file is no
 * symbolic link, has no second hard link, belongs to this user, and lies on a
 * file system whose memory and clock are this host's. Or it lies in a shared
 * directory, which root made for a group (setgid, writable for the group,
 * closed to others). Then it is the group's, whichever member made it with
 * whatever umask: 0660.
 *
 * A file that is removed or replaced while it is in use is a second truth:
 * guard.c keeps newcomers out of it, and snib__place_moved() tells those who go
 * on in the old one. So is the file in another directory, to which a link in the
 * path was switched. */
#include "store/file/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/file/shared.h"

#define REMEDY SNIB__FILE_REMEDY
#define REMEDY_TWO                                                             \
    "two users need a directory that root made for a group of theirs "         \
    "(install -d -m 2770 -g GROUP DIRECTORY), or a server"

static snib_err place_check_fs(struct snib__place *p,
                               const struct snib__host *h,
                               struct snib_error *reterr)
{
    struct statfs fs;
    char other[24];
    uint64_t magic = h->fs_magic;
    if (!magic) {
        if (fstatfs(p->fd >= 0 ? p->fd : p->dir, &fs)) {
            return snib__host_cannot(errno, p->path, reterr,
                                     "cannot ask the file system of %s: %s",
                                     p->path, strerror(errno));
        }
        magic = (uint64_t)(uint32_t)fs.f_type;
    }
    const char *name = snib__fs_name(magic, other, sizeof other);
    if (magic == SNIB__FS_PROC || magic == SNIB__FS_SYSFS) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "%s lies on %s, where no file can be made; put it "
                          "on a local disk, " REMEDY,
                          p->path, other);
    }
    if (!name) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "%s lies on %s: other hosts may share it, and its "
                          "memory and clock are not this host's; put it on a "
                          "local disk, " REMEDY,
                          p->path, other);
    }
    snprintf(p->fs, sizeof p->fs, "%s", name);
    return SNIB_ERR_OK;
}

/* -- the file --------------------------------------------------------------- */

static const char *place_wrong(const struct snib__place *p,
                               const struct stat *st)
{
    if (!S_ISREG(st->st_mode)) {
        return "is not a regular file";
    }
    if (st->st_nlink > 1) {
        return "has a second hard link";
    }
    if (p->shared) {
        return st->st_gid != p->group ? "is not of its directory's group"
               : (st->st_mode & 0777) != 0660
                   ? "does not have mode 0660, as all in a shared directory"
                   : NULL;
    }
    return st->st_uid != geteuid() ? "belongs to another user" : NULL;
}

/* e: why the file cannot be opened or made. */
static const char *place_why(const struct snib__place *p, int e)
{
    struct stat dir;
    bool group = e == EACCES && !p->shared && !fstat(p->dir, &dir) &&
                 (dir.st_mode & S_ISGID) && dir.st_uid != geteuid();
    return e == ELOOP    ? "is a symbolic link"
           : e == EISDIR ? "is a directory"
           : e == EROFS  ? "is on a read-only file system"
           : group ? "Permission denied (only members of its directory's group "
                     "may)"
           : p->shared && e == EOPNOTSUPP
               ? "a shared directory needs a file system that renames without "
                 "replacing (RENAME_NOREPLACE; ZFS from 2.2 on)"
               : strerror(e);
}

/* Open the file, or make it. -1: errno. What a group shares is opened by
 * another call than it is made by: an open that may make a file is refused
 * where the kernel protects what others have made (fs.protected_regular). */
static int place_open_or_make(const struct snib__place *p, const char *base)
{
    const int how = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    if (!p->shared) {
        return openat(p->dir, base, how | O_CREAT, 0600);
    }
    int fd = openat(p->dir, base, how);
    if (fd < 0 && errno == ENOENT &&
        (snib__stage_make(p->dir, base, 0660) || errno == EEXIST)) {
        fd = openat(p->dir, base, how);
    }
    return fd;
}

static snib_err place_open_file(struct snib__place *p, const char *base,
                                struct snib_error *reterr)
{
    struct stat st;
    p->fd = place_open_or_make(p, base);
    int e = p->fd < 0 || fstat(p->fd, &st) ? errno : 0;
    const char *wrong = e ? NULL : place_wrong(p, &st);
    /* What may not be opened may be looked at, which says more. */
    if (e == EACCES && fstatat(p->dir, base, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        wrong = place_wrong(p, &st);
    }
    if (e && !wrong) {
        return snib__host_cannot(e, p->path, reterr,
                                 "lock file %s: %s; " REMEDY, p->path,
                                 place_why(p, e));
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
    p->dev = st.st_dev;
    p->ino = st.st_ino;
    return snib__guard_enter(p, reterr);
}

/* -- its directory ---------------------------------------------------------- */

/* Is there a private file of this user? It stays private, wherever it lies. */
static bool place_is_private(int dir, const char *base)
{
    struct stat st;
    return fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 0777) == 0600;
}

/* Whose is this directory? */
static snib_err place_judge(struct snib__place *p, const struct stat *dir,
                            const char *base, struct snib_error *reterr)
{
    bool in = false;
    snib_err err = SNIB_ERR_OK;
    if (snib__shared_is_dir(dir)) {
        err = snib__shared_is_member(dir->st_gid, &in, reterr);
    }
    p->shared = in && !place_is_private(p->dir, base);
    p->group = dir->st_gid;
    if (!err && p->is_default && !p->shared &&
        (dir->st_uid != geteuid() || (dir->st_mode & 022))) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "the directory of lock file %s must belong to this "
                          "user and be writable by nobody else; " REMEDY,
                          p->path);
    }
    return err;
}

static snib_err place_open_in(struct snib__place *p, const char *dir,
                              const char *base, const struct snib__host *h,
                              struct snib_error *reterr)
{
    struct stat st;
    size_t size = strlen(dir) + strlen(base) + 2;
    p->path = snib__alloc(size);
    if (!p->path) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snprintf(p->path, size, "%s/%s", strcmp(dir, "/") ? dir : "", base);
    p->dir = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->dir < 0 || fstat(p->dir, &st)) {
        return snib__host_cannot(errno, dir, reterr,
                                 "directory %s: %s; " REMEDY, dir,
                                 strerror(errno));
    }
    snib_err err = place_judge(p, &st, base, reterr);
    /* before anything is made there; the file may be a mount of its own */
    err = err ? err : place_check_fs(p, h, reterr);
    err = err ? err : place_open_file(p, base, reterr);
    return err ? err : place_check_fs(p, h, reterr);
}

/* -- the path --------------------------------------------------------------- */

/* Make the missing directories above the last '/', 0700 each. */
static snib_err place_make_dirs(char *path, struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    for (char *p = strchr(path + 1, '/'); p && !err; p = strchr(p + 1, '/')) {
        *p = 0;
        if (mkdir(path, 0700) && errno != EEXIST) {
            err = snib__host_cannot(errno, path, reterr,
                                    "cannot make directory %s: %s; " REMEDY,
                                    path, strerror(errno));
        }
        *p = '/';
    }
    return err;
}

static bool place_ends_in(const char *path, const char *end)
{
    size_t size = strlen(path), tail = strlen(end);
    return size > tail && strcmp(path + size - tail, end) == 0;
}

/* Only for a path that looks like it is the user looked up: that may take
 * longer than all the rest of an open. */
static bool place_may_be_default(const char *path)
{
    return place_ends_in(path, SNIB__FILE_OF_USER SNIB__FILE_NAME) ||
           strcmp(path, SNIB__FILE_OF_ROOT SNIB__FILE_NAME) == 0 ||
           strcmp(path, SNIB__FILE_OF_GROUP SNIB__FILE_NAME) == 0;
}

/* Which file is meant? Its path goes into `copy`. */
static snib_err place_choose(struct snib__place *p, const char *path,
                             char copy[PATH_MAX], struct snib_error *reterr)
{
    char standard[PATH_MAX] = "";
    snib_err err = SNIB_ERR_OK;
    if (!path[0]) {
        err = snib__file_default_path(standard, sizeof standard, reterr);
        path = standard;
    } else if (place_may_be_default(path)) {
        (void)snib__shared_default(standard, sizeof standard, NULL);
    }
    if (err) {
        return err;
    }
    p->is_default = strcmp(path, standard) == 0;
    if ((size_t)snprintf(copy, PATH_MAX, "%s", path) >= PATH_MAX) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "the path of the lock file is too long; " REMEDY);
    }
    /* Root makes the directory of a group. */
    return p->is_default && strcmp(path, SNIB__FILE_OF_GROUP SNIB__FILE_NAME)
               ? place_make_dirs(copy, reterr)
               : SNIB_ERR_OK;
}

snib_err snib__place_open(struct snib__place *p, const char *path,
                          const struct snib__host *h, struct snib_error *reterr)
{
    char real[PATH_MAX], copy[PATH_MAX];
    *p = (struct snib__place){.dir = -1, .users = -1, .fd = -1};
    snib_err err = place_choose(p, path, copy, reterr);
    if (err) {
        return err;
    }
    char *slash = strrchr(copy, '/');
    const char *base = slash ? slash + 1 : copy;
    if (strlen(base) > NAME_MAX) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "the path of the lock file is too long; " REMEDY);
    }
    if (!base[0] || !strcmp(base, ".") || !strcmp(base, "..")) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "file:%.200s does not name a file; write "
                          "file:/path/to/file",
                          path);
    }
    if (slash) {
        *slash = 0;
    }
    if (!realpath(!slash ? "." : slash == copy ? "/" : copy, real)) {
        return snib__host_cannot(
            errno, path, reterr,
            "the directory of lock file %s: %s; make it or " REMEDY, path,
            strerror(errno));
    }
    err = snib__host_given(slash ? copy : ".", real, &p->given, reterr);
    err = err ? err : place_open_in(p, real, base, h, reterr);
    if (err) {
        snib__place_close(p, false);
    }
    return err;
}

void snib__place_close(struct snib__place *p, bool forked)
{
    if (!forked) {
        snib__guard_leave(p);
    }
    if (p->users >= 0) {
        close(p->users);
    }
    if (p->fd >= 0) {
        close(p->fd);
    }
    if (p->dir >= 0) {
        close(p->dir);
    }
    snib__free(p->path);
    snib__free(p->given);
    *p = (struct snib__place){.dir = -1, .users = -1, .fd = -1};
}

bool snib__place_moved(const struct snib__place *p, uint64_t *ret_size)
{
    struct stat st;
    bool moved = !snib__host_leads_to(p->given, p->dir) || stat(p->path, &st) ||
                 st.st_dev != p->dev || st.st_ino != p->ino;
    *ret_size = moved ? 0 : (uint64_t)st.st_size;
    return moved;
}

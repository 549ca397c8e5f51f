/* store/file/place.c — the lock file's path, and whether it may be trusted.
 *
 * Two processes that mean the same lock must meet in the same file, and nobody
 * else may be able to put another file in its place. So the directory is
 * resolved once; the file is no symbolic link, has no second hard link, belongs
 * to this user, and lies on a file system whose memory and clock are this
 * host's. A file that is removed or replaced while it is in use is a second
 * truth: guard.c keeps newcomers out of it, and snib__place_moved() tells those
 * who go on in the old one. So is the file
 * in another directory, to which a link in the path was switched. */
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

#define REMEDY SNIB__FILE_REMEDY

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

static const char *place_wrong(const struct stat *st)
{
    if (!S_ISREG(st->st_mode)) {
        return "is not a regular file";
    }
    if (st->st_nlink > 1) {
        return "has a second hard link";
    }
    return st->st_uid != geteuid()
               ? "belongs to another user, and each user has a file of his own"
               : NULL;
}

static const char *place_why(int e)
{
    return e == ELOOP    ? "is a symbolic link"
           : e == EISDIR ? "is a directory"
           : e == EROFS  ? "is on a read-only file system"
                         : strerror(e);
}

static snib_err place_open_file(struct snib__place *p, const char *base,
                                struct snib_error *reterr)
{
    struct stat st;
    const int how = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    p->fd = openat(p->dir, base, how | O_CREAT, 0600);
    if (p->fd < 0 || fstat(p->fd, &st)) {
        return snib__host_cannot(errno, p->path, reterr,
                                 "lock file %s: %s; " REMEDY, p->path,
                                 place_why(errno));
    }
    const char *wrong = place_wrong(&st);
    if (wrong) {
        return snib__fail(reterr, SNIB_ERR_CONFIG, "lock file %s %s; " REMEDY,
                          p->path, wrong);
    }
    p->dev = st.st_dev;
    p->ino = st.st_ino;
    return snib__guard_enter(p, reterr);
}

static snib_err place_open_in(struct snib__place *p, const char *dir,
                              const char *base, const struct snib__host *h,
                              struct snib_error *reterr)
{
    size_t size = strlen(dir) + strlen(base) + 2;
    p->path = snib__alloc(size);
    if (!p->path) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snprintf(p->path, size, "%s/%s", strcmp(dir, "/") ? dir : "", base);
    p->dir = open(dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (p->dir < 0) {
        return snib__host_cannot(errno, dir, reterr,
                                 "directory %s: %s; " REMEDY, dir,
                                 strerror(errno));
    }
    /* before anything is made there; the file may be a mount of its own */
    snib_err err = place_check_fs(p, h, reterr);
    err = err ? err : place_open_file(p, base, reterr);
    return err ? err : place_check_fs(p, h, reterr);
}

snib_err snib__place_open(struct snib__place *p, const char *path,
                          const struct snib__host *h, struct snib_error *reterr)
{
    char real[PATH_MAX], copy[PATH_MAX];
    *p = (struct snib__place){.dir = -1, .users = -1, .fd = -1};
    int n = snprintf(copy, sizeof copy, "%s", path);
    char *slash = strrchr(copy, '/');
    const char *base = slash ? slash + 1 : copy;
    if (n < 0 || (size_t)n >= sizeof copy || strlen(base) > NAME_MAX) {
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
    snib_err err =
        snib__host_given(slash ? copy : ".", real, &p->given, reterr);
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

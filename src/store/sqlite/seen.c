/* store/sqlite/seen.c — what is seen at the paths of a lock file, and the note
 * that says what it has to be. What it is for: files.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "store/sqlite/seen.h"

#define NOTE "files"

const char *const snib__suffix[SNIB__SEEN] = {"", "-wal", "-shm", "-bells"};

void snib__seen_name_of(const struct snib__lockfile *p, int i, char *ret,
                        size_t size)
{
    snprintf(ret, size, "%s%s", p->base, snib__suffix[i]);
}

const char *snib__seen_wrong(const struct snib__lockfile *p,
                             const struct stat *st)
{
    if (S_ISLNK(st->st_mode)) {
        return "is a symbolic link";
    }
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

static snib_err seen_fail_wrong(const struct snib__lockfile *p, int i,
                                const char *why, struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_CONFIG,
                      "lock file %s%s %s: remove it when nobody uses the lock "
                      "file, and use a directory that others cannot write to",
                      p->path, snib__suffix[i], why);
}

snib_err snib__seen_now(const struct snib__lockfile *p,
                        struct snib__seen_files *ret, struct snib_error *reterr)
{
    char name[300];
    struct stat st;
    *ret = (struct snib__seen_files){.empty = true};
    for (int i = 0; i < SNIB__SEEN; i++) {
        snib__seen_name_of(p, i, name, sizeof name);
        if (fstatat(p->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            const char *why = i < SNIB__FILES ? snib__seen_wrong(p, &st) : NULL;
            if (why) {
                return seen_fail_wrong(p, i, why, reterr);
            }
            ret->inode[i] = st.st_ino;
            ret->empty = i == 0 ? st.st_size == 0 : ret->empty;
        } else if (errno != ENOENT) {
            return snib__host_cannot(errno, p->path, reterr,
                                     "lock file %s%s: %s", p->path,
                                     snib__suffix[i], strerror(errno));
        }
    }
    return SNIB_ERR_OK;
}

int snib__seen_missing(const struct snib__seen_files *now)
{
    for (int i = 0; i < SNIB__FILES; i++) {
        if (!now->inode[i]) {
            return i;
        }
    }
    return -1;
}

int snib__seen_differs(const struct snib__seen_files *now,
                       const uint64_t known[])
{
    for (int i = 0; i < SNIB__SEEN; i++) {
        if (known[i] && now->inode[i] != known[i]) {
            return i;
        }
    }
    return -1;
}

bool snib__note_read(const struct snib__lockfile *p,
                     const struct snib__seen_files *now, uint64_t ret[])
{
    char text[100];
    unsigned long long n[SNIB__SEEN] = {0};
    ssize_t size = readlinkat(p->notifiers, NOTE, text, sizeof text - 1);
    if (size <= 0) {
        return false;
    }
    text[size] = 0;
    if (sscanf(text, "1:%llu:%llu:%llu:%llu", &n[0], &n[SNIB__WAL],
               &n[SNIB__SHM], &n[SNIB__NOTIFIERS]) < SNIB__FILES) {
        return false;
    }
    for (int i = 0; i < SNIB__SEEN; i++) {
        ret[i] = n[i];
    }
    return n[0] && n[SNIB__WAL] && n[SNIB__SHM] &&
           (!n[SNIB__NOTIFIERS] ||
            n[SNIB__NOTIFIERS] == now->inode[SNIB__NOTIFIERS]);
}

bool snib__note_write(const struct snib__lockfile *p,
                      const struct snib__seen_files *now)
{
    char text[100];
    snprintf(text, sizeof text, "1:%llu:%llu:%llu:%llu",
             (unsigned long long)now->inode[0],
             (unsigned long long)now->inode[SNIB__WAL],
             (unsigned long long)now->inode[SNIB__SHM],
             (unsigned long long)now->inode[SNIB__NOTIFIERS]);
    if (p->alone && unlinkat(p->notifiers, NOTE, 0) && errno != ENOENT) {
        return false;
    }
    return symlinkat(text, p->notifiers, NOTE) == 0 || errno == EEXIST;
}

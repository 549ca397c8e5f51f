/* store/file/guard.c — newcomers are kept out while others work in a file that is
 * no longer at its path.
 *
 * Those who have a file open go on in it when it is removed or replaced, and
 * still exclude each other. A newcomer would find or make another one at the
 * same path, and there would be two owners. Nothing in the new file tells it of
 * the old one, and nothing of ours lies next to it. So each client has the
 * directory open and holds a lock in it, on one byte whose offset says the name of
 * the file and its inode (an open file description's read lock; no two of them
 * are in each other's way, and the kernel drops it when the process ends). A
 * newcomer sets its own first, and then looks whether anybody has one of the same
 * name with another inode. Of two that meet so at least one sees the other.
 *
 * What one sees may be a client that is just being refused itself, or that is
 * told to try again: so it looks for a while before it believes it.
 *
 * Who may read the directory can set such a lock. If strangers may, what is seen
 * counts only if the list of locks (/proc/locks) shows a process of this user
 * that has the flock of a file of that inode, as each client has. The kernel says
 * one lock at a time, so a client is looked for among those of strangers; behind
 * one over many bytes it is not seen. Processes of other pid namespaces are not in
 * that list: they are seen only where strangers may not read the directory.
 *
 * A directory that was moved, or to which a link was switched, is another one: its
 * newcomers see nothing. A directory that this user may not read cannot be
 * locked. In these cases those in the old file are told by their next step
 * (place.c), and until then there may be two owners. */
#include "store/file/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

#define REMEDY SNIB__FILE_REMEDY

/* So many looks in a row, half a ms apart, must see others. */
#define LOOKS 50
/* So many locks are looked at where strangers may set some. */
#define STRANGERS 64

#define INODES (INT64_C(1) << 32)

/* The first byte of all files of this name, whichever their inodes: 30 bits say
 * the name. No number behind the last one is beyond what there is. */
static int64_t guard_first(const char *path)
{
    const char *base = strrchr(path, '/') + 1;
    return (int64_t)(snib__map_hash(0, base, strlen(base)) >> 34 << 32);
}

/* The byte of this file. */
static int64_t guard_byte(const struct snib__place *p)
{
    return guard_first(p->path) | snib__host_inode(p->ino);
}

/* *ret_byte: one of so many bytes from there on that another description has
 * locked. */
static bool guard_sees(const struct snib__place *p, int64_t from, int64_t count,
                       int64_t *ret_byte)
{
    struct flock l = {.l_type = F_WRLCK,
                      .l_whence = SEEK_SET,
                      .l_start = from,
                      .l_len = count};
    if (!count || fcntl(p->users, F_OFD_GETLK, &l) || l.l_type == F_UNLCK) {
        return false;
    }
    *ret_byte = l.l_start;
    return true;
}

/* Does anybody use another file of this name? */
static bool guard_sees_others(const struct snib__place *p, int64_t *ret_byte)
{
    int64_t own = guard_byte(p), before = own % INODES;
    return guard_sees(p, own - before, before, ret_byte) ||
           guard_sees(p, own + 1, INODES - 1 - before, ret_byte);
}

/* Members of a group that shares the file are none: they may write to it. */
static bool guard_is_open_to_strangers(const struct snib__place *p)
{
    struct stat dir;
    return fstat(p->dir, &dir) ||
           (dir.st_mode & (p->shared ? S_IROTH : S_IRGRP | S_IROTH));
}

/* Is one of these bytes that of a file which a process of this user has locked?
 * It is looked for on both sides of a stranger's. */
static bool guard_finds(const struct snib__place *p, int64_t from,
                        int64_t count, int *left, char ret_who[SNIB__WHO])
{
    int64_t byte;
    if (--*left < 0 || !guard_sees(p, from, count, &byte) || byte < from) {
        return false;
    }
    return snib__host_user_at(p->fd, (uint32_t)(byte % INODES), true,
                              ret_who) ||
           guard_finds(p, from, byte - from, left, ret_who) ||
           guard_finds(p, byte + 1, count - (byte - from) - 1, left, ret_who);
}

static bool guard_finds_others(const struct snib__place *p,
                               char ret_who[SNIB__WHO])
{
    int64_t own = guard_byte(p), before = own % INODES;
    int left = STRANGERS;
    return guard_finds(p, own - before, before, &left, ret_who) ||
           guard_finds(p, own + 1, INODES - 1 - before, &left, ret_who);
}

static snib_err guard_refuse(const struct snib__place *p, int64_t byte,
                             struct snib_error *reterr)
{
    char who[SNIB__WHO] = "";
    bool strangers = guard_is_open_to_strangers(p);
    bool known =
        strangers
            ? guard_finds_others(p, who)
            : snib__host_user_at(p->fd, (uint32_t)(byte % INODES), false, who);
    if (strangers && !known) {
        return SNIB_ERR_OK;
    }
    return snib__fail(reterr, SNIB_ERR_CONFIG,
                      "lock file %s: it was removed or replaced while "
                      "others%s%s%s use it, and what they hold cannot be seen "
                      "any more; it can be used again once they have ended",
                      p->path, known ? " (" : "", who, known ? ")" : "");
}

static bool guard_lock(const struct snib__place *p, short how)
{
    struct flock l = {.l_type = how,
                      .l_whence = SEEK_SET,
                      .l_start = guard_byte(p),
                      .l_len = 1};
    return fcntl(p->users, F_OFD_SETLK, &l) == 0;
}

snib_err snib__guard_enter(struct snib__place *p, struct snib_error *reterr)
{
    const struct timespec pause = {.tv_nsec = 500000};
    int64_t byte = 0;
    p->users = openat(p->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->users < 0) {
        return errno == EACCES
                   ? SNIB_ERR_OK
                   : snib__host_cannot(errno, p->path, reterr,
                                       "the directory of lock file %s: "
                                       "%s; " REMEDY,
                                       p->path, strerror(errno));
    }
    if (!guard_lock(p, F_RDLCK)) {
        snib_err err = snib__host_lacks(errno, p->path, reterr);
        close(p->users);
        p->users = -1; /* its file system has no locks of directories */
        return err;
    }
    for (int i = 0; i < LOOKS; i++) {
        if (!guard_sees_others(p, &byte)) {
            return SNIB_ERR_OK;
        }
        nanosleep(&pause, NULL);
    }
    return guard_refuse(p, byte, reterr);
}

/* Sets no lock of its own, so that it is in no newcomer's way. */
snib_err snib__guard_is_used(const char *path, bool *ret,
                             char ret_who[SNIB__WHO], struct snib_error *reterr)
{
    int64_t first = guard_first(path), byte;
    int left = STRANGERS;
    char *dir = snib__strdup(path);
    *ret = false;
    ret_who[0] = 0;
    if (!dir) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    *strrchr(dir, '/') = 0;
    int fd = open(dir[0] ? dir : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int e = fd < 0 ? errno : 0;
    snib__free(dir);
    if (fd < 0) {
        return e == ENOENT || e == ENOTDIR || e == EACCES
                   ? SNIB_ERR_OK
                   : snib__host_cannot(e, path, reterr,
                                       "whether the lock file %s is still "
                                       "used cannot be told: %s; " REMEDY,
                                       path, strerror(e));
    }
    struct snib__place p = {.dir = fd, .users = fd, .fd = fd};
    if (guard_is_open_to_strangers(&p)) {
        *ret = guard_finds(&p, first, INODES, &left, ret_who);
    } else if (guard_sees(&p, first, INODES, &byte)) {
        *ret = true;
        (void)snib__host_user_at(fd, (uint32_t)(byte % INODES), false, ret_who);
    }
    close(fd);
    return SNIB_ERR_OK;
}

void snib__guard_leave(struct snib__place *p)
{
    if (p->users >= 0) {
        /* Not by close() alone: a copy in a forked child would keep the
         * lock. */
        (void)guard_lock(p, F_UNLCK);
    }
}

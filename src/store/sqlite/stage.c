/* store/sqlite/stage.c — making what a group shares where it cannot reach it.
 *
 * A file that others of a group may use gets its mode by chmod, since the umask
 * cuts the mode that a file is made with. But chmod goes by a path. If the file
 * were made where the group may write, a member could replace it before the
 * chmod by a symbolic or hard link to a file of ours, which then gets that
 * mode. So it is made in a stage, a directory that only we may write to. It
 * gets its mode there and is then moved to its path.
 *
 * The name of the stage, too, may lead elsewhere an instant after the stage was
 * made. So all goes by its descriptor, which must be of a directory of ours,
 * closed to others: then what is in it is ours, whichever directory it is. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/internal.h"

static bool stage_is_ours(int fd)
{
    struct stat st;
    if (fstat(fd, &st)) {
        return false;
    }
    errno = EACCES;
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022);
}

bool snib__stage_open(struct snib__stage *s, int dir, mode_t mode)
{
    *s = (struct snib__stage){.dir = dir, .fd = -1, .mode = mode};
    snprintf(s->name, sizeof s->name, ".snib-%ld-%llx", (long)getpid(),
             (unsigned long long)snib__host_now().ns);
    if (mkdirat(dir, s->name, 0700)) {
        return false;
    }
    s->fd = openat(dir, s->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (s->fd >= 0 && stage_is_ours(s->fd)) {
        return true;
    }
    int e = errno;
    if (s->fd >= 0) {
        close(s->fd);
    }
    unlinkat(dir, s->name, AT_REMOVEDIR);
    errno = e;
    return false;
}

bool snib__stage_close(struct snib__stage *s, bool made, const char *name)
{
    bool ok =
        made && fchmodat(s->fd, SNIB__STAGED, s->mode & 07777, 0) == 0 &&
        renameat2(s->fd, SNIB__STAGED, s->dir, name, RENAME_NOREPLACE) == 0;
    /* Without RENAME_NOREPLACE (ZFS before 2.2) nothing can be shared: a link
     * makes a second name for an instant, or for good if we are killed, and a
     * plain rename replaces a directory that another member has just made. */
    int e = errno == EINVAL ? EOPNOTSUPP : errno;
    if (!ok) {
        unlinkat(s->fd, SNIB__STAGED, S_ISDIR(s->mode) ? AT_REMOVEDIR : 0);
    }
    unlinkat(s->dir, s->name, AT_REMOVEDIR);
    close(s->fd);
    errno = e;
    return ok;
}

bool snib__stage_make(int dir, const char *name, mode_t mode)
{
    struct snib__stage s;
    if (!snib__stage_open(&s, dir, mode)) {
        return false;
    }
    int rc = S_ISDIR(mode) ? mkdirat(s.fd, SNIB__STAGED, mode & 07777)
                           : mknodat(s.fd, SNIB__STAGED, mode, 0);
    return snib__stage_close(&s, rc == 0, name);
}

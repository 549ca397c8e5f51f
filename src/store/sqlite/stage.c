/* store/sqlite/stage.c — what a group shares is made out of its reach.
 *
 * A file that others of a group may use gets its mode by chmod, since a umask
 * cuts what it is made with; and chmod goes by a path. Made where they may
 * write, it could be replaced before that: by a link to a file of ours, or by
 * one, which then got that mode. So it is made in a directory of its own that
 * nobody but us may write to, gets its mode there, and is moved to its place.
 *
 * That directory's name may lead elsewhere an instant after it was made, too.
 * All goes by its descriptor, which must be of a directory of ours, closed to
 * others: then what is in it is ours, whichever directory it is. */
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
    /* Without RENAME_NOREPLACE (ZFS before 2.2) nothing is shared: a link makes
     * a second name for an instant, or for good if we are killed, and rename
     * replaces a directory that another has just made. */
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

/* store/file/stage.c — making a file that a group shares where the group cannot
 * reach it.
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

#include "store/file/shared.h"
#include "store/host.h"

/* The name of the file in the stage, until it is moved to its path. */
#define MADE "made"

struct stage {
    int dir; /* holds the stage, and then the file */
    int fd;  /* O_PATH: the stage, a directory */
    char name[64];
};

static bool stage_is_ours(int fd)
{
    struct stat st;
    if (fstat(fd, &st)) {
        return false;
    }
    errno = EACCES;
    return S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022);
}

static bool stage_open(struct stage *s, int dir)
{
    *s = (struct stage){.dir = dir, .fd = -1};
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

bool snib__stage_make(int dir, const char *name, mode_t mode)
{
    struct stage s;
    if (!stage_open(&s, dir)) {
        return false;
    }
    /* Without RENAME_NOREPLACE (ZFS before 2.2) nothing can be shared: a link
     * makes a second name for an instant, or for good if we are killed, and a
     * plain rename replaces a file that another member has just made. */
    bool ok = mknodat(s.fd, MADE, S_IFREG | mode, 0) == 0 &&
              fchmodat(s.fd, MADE, mode, 0) == 0 &&
              renameat2(s.fd, MADE, s.dir, name, RENAME_NOREPLACE) == 0;
    int e = errno == EINVAL ? EOPNOTSUPP : errno;
    if (!ok) {
        unlinkat(s.fd, MADE, 0);
    }
    unlinkat(s.dir, s.name, AT_REMOVEDIR);
    close(s.fd);
    errno = e;
    return ok;
}

/* sole.c — warn that `sudo snib run n` and `snib run n` do not exclude each
 * other.
 *
 * Each user has a default file of their own, unless the host has a directory
 * that a group shares. A user who becomes root for a moment may not think of
 * that. A file next to the lock file holds the boot id at which it was said.
 */
#include "cli/store/sole.h"

#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROOTS  "file:/var/lib/snib/locks.db"
#define OTHERS "/.local/state/snib/locks.db"

static bool sole_read_line(const char *path, char *ret, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? TEMP_FAILURE_RETRY(read(fd, ret, size - 1)) : -1;

    if (fd >= 0) {
        close(fd);
    }
    if (n <= 0) {
        return false;
    }
    ret[n] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
    return true;
}

/* True once a boot, and whenever that file cannot be written. */
static bool sole_is_news(const char *url)
{
    char note[4200], boot[64], said[64];
    const char *path = url + strlen("file:"), *slash = strrchr(path, '/');
    int fd;

    snprintf(note, sizeof note, "%.*s/told", (int)(slash - path), path);
    if (!sole_read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot)) {
        return true;
    }
    if (sole_read_line(note, said, sizeof said) && strcmp(said, boot) == 0) {
        return false;
    }
    fd =
        open(note, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        if (TEMP_FAILURE_RETRY(write(fd, boot, strlen(boot))) < 0) {
            /* then it is said again */
        }
        close(fd);
    }
    return true;
}

void sole_tell(const char *url)
{
    size_t size = strlen(url), tail = strlen(OTHERS);
    bool own = strcmp(url, ROOTS) == 0 ||
               (strncmp(url, "file:/", 6) == 0 && size > tail &&
                strcmp(url + size - tail, OTHERS) == 0);

    if (own && isatty(STDERR_FILENO) &&
        (geteuid() == 0 || getenv("SUDO_UID") != NULL) && sole_is_news(url)) {
        say("only programs of this user are excluded: other users have lock "
            "files of their own (snib doctor says how to share one)");
    }
}

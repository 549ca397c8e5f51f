/* supervisor_left.c — is what the command left behind only snib's own, and
 * about to end?
 *
 * A script that holds a lock by the text of snib acquire --sh has a holder
 * process next to it, which lost its parent and so belongs to this supervisor.
 * It is tied to the script: it ends by itself soon after the script, and the
 * user did not leave it behind. The pidfd by which it is tied shows that the
 * script has ended.
 */
#define _GNU_SOURCE
#include "cli/supervisor/proc.h"
#include "cli/supervisor/supervisor_i.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FDS_MAX = 64 }; /* a holder has fewer */

static bool supervisor_left_read(const char *path, char *ret, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t used;

    if (fd < 0) {
        return false;
    }
    used = TEMP_FAILURE_RETRY(read(fd, ret, size - 1));
    close(fd);
    ret[used > 0 ? used : 0] = '\0';
    return used >= 0;
}

static bool supervisor_left_is_holder(pid_t pid)
{
    char path[64], text[32];

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    return supervisor_left_read(path, text, sizeof text) &&
           strcmp(text, "snib-keeper\n") == 0;
}

/* Is it ending by now? The kernel closes its descriptors one by one then. */
static bool supervisor_left_exits(pid_t pid)
{
    enum { PF_EXITING = 4 };
    char path[64], text[512];
    const char *after;
    unsigned flags = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (!supervisor_left_read(path, text, sizeof text) ||
        (after = strrchr(text, ')')) == NULL ||
        sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) != 1) {
        return false;
    }
    return (flags & PF_EXITING) != 0;
}

/* Does it have the pidfd of a process that has ended? */
static bool supervisor_left_is_tied_to_ended(pid_t pid)
{
    char path[64], text[512];

    for (int fd = 0; fd < FDS_MAX; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fdinfo/%d", (int)pid, fd);
        if (supervisor_left_read(path, text, sizeof text) &&
            strstr(text, "\nPid:\t-1\n") != NULL) {
            return true;
        }
    }
    return supervisor_left_exits(pid);
}

bool supervisor_left_ends_itself(const struct body *b)
{
    char children[4096];
    const char *at = children;
    pid_t pid;

    if (!b->group_gone || !supervisor_left_read("/proc/thread-self/children",
                                                children, sizeof children)) {
        return false;
    }
    while (proc_next_pid(&at, &pid)) {
        if (pid != b->holder && !proc_ended(pid) &&
            !(supervisor_left_is_holder(pid) &&
              supervisor_left_is_tied_to_ended(pid))) {
            return false;
        }
    }
    return *at == '\0'; /* the whole list was seen, or nobody is left by now */
}

/* holder_fds.c — the holder keeps no descriptor of the user's but stderr: the
 * reader of a pipe would wait for this process. */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* The user's stdin and stdout are dropped at once: the reader of such a pipe
 * would wait for this process. */
static void holder_fds_drop(struct holder *k)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null < 0) {
        holder_cannot(k, "open /dev/null");
    }
    holder_drop(null, 0);
    holder_drop(null, 1);
    if (null > 2) {
        close(null);
    }
}

static void holder_fds_close_each(unsigned from, unsigned to)
{
    enum { MOST = 1 << 20 };
    struct rlimit limit = {.rlim_cur = MOST};
    DIR *dir = opendir("/proc/self/fd");
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        unsigned fd = (unsigned)atoi(entry->d_name);

        if (isdigit((unsigned char)entry->d_name[0]) && fd >= from &&
            fd <= to && (int)fd != dirfd(dir)) {
            close((int)fd);
        }
    }
    if (dir != NULL) {
        closedir(dir);
        return;
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    for (unsigned fd = from; fd <= to && fd < limit.rlim_cur && fd < MOST;
         fd++) {
        close((int)fd);
    }
}

/* A filter of system calls (seccomp) may refuse close_range. */
static void holder_fds_close(unsigned from, unsigned to)
{
    if (close_range(from, to, 0) != 0) {
        holder_fds_close_each(from, to);
    }
}

void holder_close_inherited(struct holder *k)
{
    int keep[2] = {k->socket, k->plan->holder_pidfd};
    unsigned from = 3;

    if (keep[1] >= 0 && keep[1] < keep[0]) {
        keep[0] = keep[1];
        keep[1] = k->socket;
    }
    for (int i = 0; i < 2; i++) {
        if (keep[i] < 0) {
            continue;
        }
        if ((unsigned)keep[i] > from) {
            holder_fds_close(from, (unsigned)keep[i] - 1);
        }
        from = (unsigned)keep[i] + 1;
    }
    holder_fds_close(from, ~0u);
    holder_fds_drop(k);
}

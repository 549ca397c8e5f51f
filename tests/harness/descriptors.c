/* tests/harness/descriptors.c — a program linked with this ends with the
 * descriptors that it had open when it began, or is ended by abort(), with a
 * line for each that is left open or is gone.
 *
 * So every test looks for a close() that is missing, on whatever path it goes.
 * Where a thread is left that may be about to close its own, the end waits for
 * that, within bounds. A child by fork() may end as it likes. */
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define FDS_MAX 1024
#define WAIT_MS 10000

static bool at_start[FDS_MAX];
static pid_t program;

/* false: /proc cannot be read. */
static bool look(bool open[FDS_MAX])
{
    DIR *d = opendir("/proc/self/fd");
    struct dirent *e;
    if (!d) {
        return false;
    }
    while ((e = readdir(d))) {
        char *end;
        long fd = strtol(e->d_name, &end, 10);
        if (end != e->d_name && fd < FDS_MAX && fd != dirfd(d)) {
            open[fd] = true;
        }
    }
    closedir(d);
    return true;
}

static int threads(void)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    int n = 0;
    while (d && (e = readdir(d))) {
        n += e->d_name[0] != '.';
    }
    if (d) {
        closedir(d);
    }
    return n;
}

static int tell(int fd, bool open)
{
    char path[64], what[256];
    ssize_t n;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    n = open ? readlink(path, what, sizeof what - 1) : 0;
    what[n < 0 ? 0 : n] = 0;
    fprintf(stderr, "descriptors: %d %s%s\n", fd,
            open ? "is left open: " : "was open when the program began", what);
    return 1;
}

/* How many are not as they were. */
static int differ(bool told)
{
    bool now[FDS_MAX] = {false};
    int n = 0;
    if (!look(now)) {
        return 0;
    }
    for (int fd = 0; fd < FDS_MAX; fd++) {
        if (now[fd] != at_start[fd]) {
            n += told ? tell(fd, now[fd]) : 1;
        }
    }
    return n;
}

__attribute__((constructor)) static void program_begins(void)
{
    program = look(at_start) ? getpid() : 0;
}

__attribute__((destructor)) static void program_ends(void)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000000};
    if (getpid() != program) {
        return;
    }
    for (int ms = 0; differ(false) && threads() > 1 && ms < WAIT_MS; ms += 10) {
        nanosleep(&pause, NULL);
    }
    if (differ(false)) {
        fflush(NULL);
        differ(true);
        abort();
    }
}

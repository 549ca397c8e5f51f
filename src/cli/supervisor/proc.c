/* proc.c — see proc.h.
 *
 * /proc/PID/stat: the name in parentheses may hold anything, so fields count
 * from the last ')'. A process may vanish between two reads; each reader
 * answers "no such process" then, never garbage.
 */
#define _GNU_SOURCE
#include "cli/supervisor/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct stat_fields {
    char state;
    pid_t parent;
    pid_t group;
    int64_t start;
};

int64_t proc_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static ssize_t proc_read_whole(const char *path, char *to, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t used;

    if (fd < 0) {
        return -1;
    }
    used = TEMP_FAILURE_RETRY(read(fd, to, size - 1));
    close(fd);
    if (used >= 0) {
        to[used] = '\0';
    }
    return used;
}

static bool proc_read_stat(pid_t pid, struct stat_fields *ret)
{
    char path[64], line[1024];
    const char *after;
    int parent, group;
    unsigned long long start;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (proc_read_whole(path, line, sizeof line) <= 0) {
        return false;
    }
    after = strrchr(line, ')');
    if (after == NULL ||
        sscanf(after + 1,
               " %c %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%*s %*s %*s %llu",
               &ret->state, &parent, &group, &start) != 4) {
        return false;
    }
    ret->parent = parent;
    ret->group = group;
    ret->start = (int64_t)start;
    return true;
}

void proc_boot_id(char ret[PROC_BOOT_ID])
{
    if (proc_read_whole("/proc/sys/kernel/random/boot_id", ret, PROC_BOOT_ID) <
        0) {
        ret[0] = '\0';
    }
    ret[strcspn(ret, "\n")] = '\0';
}

bool proc_is_ours(void)
{
    char text[32];
    ssize_t n = readlink("/proc/self", text, sizeof text - 1);

    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    return atoi(text) == (int)getpid();
}

int64_t proc_start(pid_t pid)
{
    struct stat_fields s;

    return pid > 0 && proc_read_stat(pid, &s) ? s.start : 0;
}

bool proc_ended(pid_t pid)
{
    struct stat_fields s;

    return pid > 0 && proc_read_stat(pid, &s) && s.state == 'Z';
}

pid_t proc_parent(pid_t pid)
{
    struct stat_fields s;

    return pid > 0 && proc_read_stat(pid, &s) ? s.parent : 0;
}

bool proc_stopped(pid_t pid)
{
    struct stat_fields s;

    return pid > 0 && proc_read_stat(pid, &s) && s.state == 'T';
}

pid_t proc_group(pid_t pid)
{
    struct stat_fields s;

    return pid > 0 && proc_read_stat(pid, &s) ? s.group : 0;
}

/* The fields of /proc/PID/status that show whether a process has run. */
struct standstill {
    char state;
    long threads;
    long long voluntary, forced; /* context switches */
};

static bool proc_read_standstill(pid_t pid, struct standstill *ret)
{
    static char text[8192];
    char path[64];
    const char *state, *threads, *voluntary, *forced;

    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    if (proc_read_whole(path, text, sizeof text) <= 0 ||
        (state = strstr(text, "\nState:\t")) == NULL ||
        (threads = strstr(state, "\nThreads:\t")) == NULL ||
        (voluntary = strstr(threads, "\nvoluntary_ctxt_switches:\t")) == NULL ||
        (forced = strstr(voluntary, "\nnonvoluntary_ctxt_switches:\t")) ==
            NULL) {
        return false;
    }
    ret->state = state[8];
    ret->threads = strtol(threads + 10, NULL, 10);
    ret->voluntary = strtoll(voluntary + 26, NULL, 10);
    ret->forced = strtoll(forced + 29, NULL, 10);
    return true;
}

bool proc_next_pid(const char **at, pid_t *ret)
{
    char *end;
    long pid = strtol(*at, &end, 10);

    if (end == *at || *end != ' ' || pid <= 0 || pid > INT_MAX) {
        return false;
    }
    *ret = (pid_t)pid;
    *at = end + 1;
    return true;
}

/* Is `child` its only child? */
static bool proc_has_one_child(pid_t pid, pid_t child)
{
    char path[64], text[256], want[32];

    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid,
             (int)pid);
    snprintf(want, sizeof want, "%d ", (int)child);
    return proc_read_whole(path, text, sizeof text) > 0 &&
           strcmp(text, want) == 0;
}

/* Does it sleep in the kernel's function of wait4 and waitid? */
static bool proc_sleeps_in_wait(pid_t pid)
{
    char path[64], text[64];

    snprintf(path, sizeof path, "/proc/%d/wchan", (int)pid);
    return proc_read_whole(path, text, sizeof text) > 0 &&
           strcmp(text, "do_wait") == 0;
}

/* The context switches are read before and after the rest. If they are the
 * same, all of it was true at one instant: a process that has not run in
 * between cannot have made a child, or left the wait. */
enum proc_waits proc_only_waits(pid_t pid, pid_t child)
{
    struct standstill before, after;

    if (!proc_read_standstill(pid, &before) || before.threads != 1) {
        return PROC_WAITS_NOT;
    }
    if (before.state == 'R') {
        return PROC_RUNS;
    }
    if (before.state != 'S' || !proc_has_one_child(pid, child) ||
        !proc_sleeps_in_wait(pid) || !proc_read_standstill(pid, &after)) {
        return PROC_WAITS_NOT;
    }
    return after.state == 'S' && after.threads == 1 &&
                   after.voluntary == before.voluntary &&
                   after.forced == before.forced
               ? PROC_WAITS
               : PROC_RUNS;
}

enum above { ABOVE, ABOVE_NOT, ABOVE_UNSEEN };

static enum above proc_look_above(pid_t candidate, pid_t of)
{
    struct stat_fields s;

    for (int depth = 0; of > 1 && depth < 4096; depth++) {
        if (of == candidate) {
            return ABOVE;
        }
        if (!proc_read_stat(of, &s)) {
            return ABOVE_UNSEEN;
        }
        of = s.parent;
    }
    return of > 1 ? ABOVE_UNSEEN : ABOVE_NOT;
}

bool proc_is_ancestor(pid_t candidate, pid_t of)
{
    return candidate > 1 && proc_look_above(candidate, of) == ABOVE;
}

bool proc_is_no_ancestor(pid_t candidate, pid_t of)
{
    return candidate > 1 && proc_look_above(candidate, of) == ABOVE_NOT;
}

bool proc_same_program(pid_t a, pid_t b)
{
    char path[64], one[4096], two[4096];
    ssize_t m, n;

    snprintf(path, sizeof path, "/proc/%d/exe", (int)a);
    m = readlink(path, one, sizeof one);
    snprintf(path, sizeof path, "/proc/%d/exe", (int)b);
    n = readlink(path, two, sizeof two);
    return m > 0 && m == n && memcmp(one, two, (size_t)m) == 0;
}

/* Call each(pid, data) for every process until it returns true. */
static bool proc_for_each(bool (*each)(pid_t, void *), void *data)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    bool found = false;

    if (dir == NULL) {
        return false;
    }
    while (!found && (entry = readdir(dir)) != NULL) {
        if (isdigit((unsigned char)entry->d_name[0])) {
            found = each((pid_t)atoi(entry->d_name), data);
        }
    }
    closedir(dir);
    return found;
}

static bool proc_runs_in_group(pid_t pid, void *data)
{
    struct stat_fields s;

    return proc_read_stat(pid, &s) && s.group == *(pid_t *)data &&
           s.state != 'Z' && s.state != 'X';
}

bool proc_group_alive(pid_t pgid)
{
    if (kill(-pgid, 0) != 0 && errno == ESRCH) {
        return false;
    }
    return proc_for_each(proc_runs_in_group, &pgid);
}

/* -- the mark ----------------------------------------------------------------
 *
 * A process that makes itself a daemon closes descriptors, clears its
 * environment, leaves its group and loses its parent. The limits stay through
 * all of that, and /proc shows them. RLIMIT_LOCKS has had no effect since Linux
 * 2.4.25; its soft value is the mark: 61 of the random bits of the holder's
 * address. A nested run replaces it. So a process that is killed for its mark
 * may have descendants with another one, and a holder waits for the holders of
 * the runs that are nested in its own. */

static rlim_t proc_mark_of(const char *address)
{
    const char *random = strchr(address, '.');

    return random == NULL ? 0
                          : (rlim_t)(strtoull(random + 1, NULL, 16) >> 3) |
                                ((rlim_t)1 << 61);
}

void proc_set_mark(const char *address)
{
    struct rlimit limit;
    rlim_t mark = proc_mark_of(address);

    if (mark != 0 && getrlimit(RLIMIT_LOCKS, &limit) == 0 &&
        limit.rlim_max >= mark) {
        limit.rlim_cur = mark;
        if (setrlimit(RLIMIT_LOCKS, &limit) != 0) {
            return; /* the environment has a mark, too */
        }
    }
}

struct marked {
    const char *address;
    rlim_t mark;
    bool spare_holders;
    int count;
};

static bool proc_limits_have(pid_t pid, rlim_t mark)
{
    char path[64], text[4096];
    const char *line;

    snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
    return mark != 0 && proc_read_whole(path, text, sizeof text) > 0 &&
           (line = strstr(text, "\nMax file locks")) != NULL &&
           strtoull(line + sizeof "\nMax file locks" - 1, NULL, 10) == mark;
}

static bool proc_environ_has(pid_t pid, const char *address)
{
    static char bytes[256 * 1024];
    char path[64];
    size_t used = 0;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    while ((n = TEMP_FAILURE_RETRY(
                read(fd, bytes + used, sizeof bytes - 1 - used))) > 0) {
        used += (size_t)n;
    }
    close(fd);
    bytes[used] = '\0';
    for (const char *p = bytes; p < bytes + used; p += strlen(p) + 1) {
        if (strncmp(p, "SNIB_HELD=", 10) == 0) {
            return strstr(p, address) != NULL;
        }
    }
    return false;
}

static bool proc_is_holder(pid_t pid)
{
    char path[64], text[32];

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    return proc_read_whole(path, text, sizeof text) > 0 &&
           strcmp(text, "snib-keeper\n") == 0;
}

/* The pidfd is opened before the checks, so that the signal goes to the process
 * that was checked. */
static bool kill_marked(pid_t pid, void *data)
{
    struct marked *m = data;
    struct stat_fields s;
    int fd, sig;

    if (pid == getpid() || (fd = (int)syscall(SYS_pidfd_open, pid, 0)) < 0) {
        return false;
    }
    if ((proc_limits_have(pid, m->mark) || proc_environ_has(pid, m->address)) &&
        proc_read_stat(pid, &s) && s.state != 'Z' && s.state != 'X') {
        sig = m->spare_holders && proc_is_holder(pid) ? SIGTERM : SIGKILL;
        if (syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0) == 0) {
            m->count++;
        }
    }
    close(fd);
    return false;
}

int proc_kill_marked(const char *address, bool spare_holders)
{
    struct marked m = {.address = address,
                       .mark = proc_mark_of(address),
                       .spare_holders = spare_holders};

    proc_for_each(kill_marked, &m);
    return m.count;
}

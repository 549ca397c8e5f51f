/* proc.c — see proc.h.
 *
 * /proc/PID/stat: the name in parentheses may hold anything, so fields count
 * from the last ')'. A process may vanish between two reads; each reader
 * answers "no such process" then, never garbage.
 */
#define _GNU_SOURCE
#include "cli/supervisor/proc.h"
#include "cli/supervisor/proc_i.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t proc_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

ssize_t proc_read_whole(const char *path, char *to, size_t size)
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

bool proc_read_stat(pid_t pid, struct stat_fields *ret)
{
    char path[64], line[1024];
    const char *after;
    int parent, group;
    long threads;
    unsigned long long start;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (proc_read_whole(path, line, sizeof line) <= 0) {
        return false;
    }
    after = strrchr(line, ')');
    if (after == NULL ||
        sscanf(after + 1,
               " %c %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
               "%*s %ld %*s %llu",
               &ret->state, &parent, &group, &threads, &start) != 5) {
        return false;
    }
    ret->parent = parent;
    ret->group = group;
    ret->threads = threads;
    ret->start = (int64_t)start;
    return true;
}

bool proc_is_dead(const struct stat_fields *s)
{
    return s->state == 'X' || (s->state == 'Z' && s->threads <= 1);
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

    return pid > 0 && proc_read_stat(pid, &s) && proc_is_dead(&s);
}

bool proc_is_gone(pid_t pid, int64_t start)
{
    struct stat_fields s;

    if (proc_read_stat(pid, &s)) {
        return proc_is_dead(&s) || s.start != start;
    }
    return kill(pid, 0) != 0 && errno == ESRCH;
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

static size_t list_room; /* of proc_list_pids, which stays allocated */
pid_t *proc_list_pids;
size_t proc_list_count;

static bool proc_list_add(pid_t pid)
{
    if (proc_list_count == list_room) {
        size_t room = list_room > 0 ? 2 * list_room : 1024;
        pid_t *more = realloc(proc_list_pids, room * sizeof *more);

        if (more == NULL) {
            return false;
        }
        proc_list_pids = more;
        list_room = room;
    }
    proc_list_pids[proc_list_count++] = pid;
    return true;
}

bool proc_list(void)
{
    DIR *dir = opendir("/proc");
    struct dirent *entry;
    bool all = true;

    proc_list_count = 0;
    if (dir == NULL) {
        return false;
    }
    while (all && (errno = 0, entry = readdir(dir)) != NULL) {
        all = !isdigit((unsigned char)entry->d_name[0]) ||
              proc_list_add((pid_t)atoi(entry->d_name));
    }
    all = all && errno == 0;
    closedir(dir);
    return all;
}

/* One child more, with a space behind it; false: it does not fit. */
static bool proc_add_child(char *to, size_t size, size_t *used, int pid)
{
    int n = snprintf(to + *used, size - *used, "%d ", pid);

    if (n < 0 || (size_t)n >= size - *used) {
        to[*used] = '\0';
        return false;
    }
    *used += (size_t)n;
    return true;
}

/* Is the entry of /proc a child of parent? One that was reaped is none. */
static enum proc_seen proc_is_child(const char *entry, pid_t parent, bool *yes)
{
    struct stat_fields s;

    *yes = false;
    if (!isdigit((unsigned char)entry[0])) {
        return PROC_SEEN;
    }
    errno = ESRCH;
    if (!proc_read_stat((pid_t)atoi(entry), &s)) {
        return proc_how_failed();
    }
    *yes = s.parent == parent;
    return PROC_SEEN;
}

/* readdir would allocate. */
bool proc_read_children(pid_t parent, char *to, size_t size)
{
    static _Alignas(long) char entries[16 * 1024];
    size_t used = 0;
    long n;
    int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool all = fd >= 0, yes;

    to[0] = '\0';
    while (all &&
           (n = syscall(SYS_getdents64, fd, entries, sizeof entries)) != 0) {
        const char *end = entries + n;

        all = n > 0;
        for (const char *at = entries; all && at < end;) {
            const struct dirent64 *e = (const void *)at;

            all = proc_is_child(e->d_name, parent, &yes) != PROC_SEEN_NOT;
            if (yes && !proc_add_child(to, size, &used, atoi(e->d_name))) {
                close(fd);
                return true; /* the rest is seen once these have ended */
            }
            at += e->d_reclen;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return all;
}

enum proc_seen proc_how_failed(void)
{
    switch (errno) {
    case ENOENT:
    case ESRCH:
        return PROC_SEEN_GONE;
    case EACCES:
    case EPERM:
        return PROC_SEEN_BARRED;
    default:
        return PROC_SEEN_NOT;
    }
}

/* Can it run, and is it in the group? One that cannot be looked at counts. */
static bool proc_runs_in_group(pid_t pid, pid_t group)
{
    struct stat_fields s;

    errno = 0;
    if (!proc_read_stat(pid, &s)) {
        return proc_how_failed() == PROC_SEEN_NOT;
    }
    return s.group == group && !proc_is_dead(&s);
}

bool proc_group_alive(pid_t pgid)
{
    if (kill(-pgid, 0) != 0 && errno == ESRCH) {
        return false;
    }
    if (!proc_list()) {
        return true;
    }
    for (size_t i = 0; i < proc_list_count; i++) {
        if (proc_runs_in_group(proc_list_pids[i], pgid)) {
            return true;
        }
    }
    return false;
}

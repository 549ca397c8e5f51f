/* proc_marked.c — the mark on a command's processes, and who has it.
 *
 * A process that makes itself a daemon closes descriptors, clears its
 * environment, leaves its group and loses its parent. The limits stay through
 * all of that, and /proc shows them. RLIMIT_LOCKS has had no effect since Linux
 * 2.4.25; its soft value is the mark: 61 of the random bits of the holder's
 * address. A nested run replaces it. So a process that is killed for its mark
 * may have descendants with another one, and a holder waits for the holders of
 * the runs that are nested in its own.
 *
 * A look that failed is not a look that found nobody, and is told apart.
 */
#define _GNU_SOURCE
#include "cli/supervisor/proc.h"
#include "cli/supervisor/proc_i.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    bool unseen;   /* a look failed */
    bool vanished; /* one ended before it was looked at */
    int count;
    uint64_t dead; /* which marked ones are zombies: a sum over them */
};

/* `yes` is set if that is the soft limit. */
static enum proc_seen proc_limits_have(pid_t pid, rlim_t mark, bool *yes)
{
    char path[64], text[4096];
    const char *line;

    if (mark == 0) {
        return PROC_SEEN;
    }
    snprintf(path, sizeof path, "/proc/%d/limits", (int)pid);
    errno = ESRCH; /* an empty file: it has just ended */
    if (proc_read_whole(path, text, sizeof text) <= 0) {
        return proc_how_failed();
    }
    *yes = (line = strstr(text, "\nMax file locks")) != NULL &&
           strtoull(line + sizeof "\nMax file locks" - 1, NULL, 10) == mark;
    return PROC_SEEN;
}

/* `yes` is set if the address is in it. */
static enum proc_seen proc_environ_has(pid_t pid, const char *address,
                                       bool *yes)
{
    static char bytes[256 * 1024];
    char path[64];
    size_t used = 0;
    ssize_t n;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return proc_how_failed();
    }
    while ((n = TEMP_FAILURE_RETRY(
                read(fd, bytes + used, sizeof bytes - 1 - used))) > 0) {
        used += (size_t)n;
    }
    if (n < 0) {
        enum proc_seen failed = proc_how_failed();

        close(fd);
        return failed;
    }
    close(fd);
    bytes[used] = '\0';
    for (const char *p = bytes; p < bytes + used; p += strlen(p) + 1) {
        if (strncmp(p, "SNIB_HELD=", 10) == 0) {
            *yes = strstr(p, address) != NULL;
            break;
        }
    }
    return PROC_SEEN;
}

static bool proc_is_holder(pid_t pid)
{
    char path[64], text[32];

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    return proc_read_whole(path, text, sizeof text) > 0 &&
           strcmp(text, "snib-keeper\n") == 0;
}

static void proc_note_seen(struct marked *m, enum proc_seen seen)
{
    m->unseen = m->unseen || seen == PROC_SEEN_NOT;
    m->vanished = m->vanished || seen == PROC_SEEN_GONE;
}

/* A kernel's thread, or a zombie, has no environment, and answers as if it were
 * gone. */
static bool proc_is_marked(pid_t pid, struct marked *m)
{
    struct stat_fields s;
    bool yes = false;
    enum proc_seen seen;

    proc_note_seen(m, proc_limits_have(pid, m->mark, &yes));
    if (yes) {
        return true;
    }
    seen = proc_environ_has(pid, m->address, &yes);
    if (seen != PROC_SEEN_GONE || !proc_read_stat(pid, &s)) {
        proc_note_seen(m, seen);
    }
    return yes;
}

/* Where there is no pidfd (a filter of system calls refuses it), the signal
 * goes to the number: the process was looked at just before. */
static bool proc_signal(pid_t pid, int pidfd, int sig)
{
    if (pidfd >= 0) {
        if (syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) == 0) {
            return true;
        }
        if (errno == ESRCH) {
            return false; /* it has ended */
        }
    }
    return kill(pid, sig) == 0;
}

static void proc_kill_if_marked(pid_t pid, int pidfd, struct marked *m)
{
    struct stat_fields s;
    int sig;

    if (!proc_is_marked(pid, m)) {
        return;
    }
    errno = ESRCH;
    if (!proc_read_stat(pid, &s)) {
        proc_note_seen(m, proc_how_failed());
        return;
    }
    if (proc_is_dead(&s)) {
        m->dead += (uint64_t)s.start * 4194304u + (uint64_t)pid;
        return;
    }
    sig = m->spare_holders && proc_is_holder(pid) ? SIGTERM : SIGKILL;
    if (proc_signal(pid, pidfd, sig)) {
        m->count++;
    } else if (errno == ESRCH) {
        m->vanished = true;
    }
}

/* The pidfd is opened before the checks, so that the signal goes to the process
 * that was checked. */
static void proc_look_for_mark(pid_t pid, struct marked *m)
{
    int fd;

    if (pid == getpid()) {
        return;
    }
    fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0 && errno == ESRCH) {
        m->vanished = true;
        return;
    }
    proc_kill_if_marked(pid, fd, m);
    if (fd >= 0) {
        close(fd);
    }
}

/* The newest first: a process that forks on and on is to be met before it has
 * forked again. One that has ended since the list was made, or is a zombie that
 * the last scan has not seen, may have left a child that is not in the list. */
enum proc_marked proc_kill_marked(const char *address, bool spare_holders)
{
    static uint64_t dead_before;
    struct marked m = {.address = address,
                       .mark = proc_mark_of(address),
                       .spare_holders = spare_holders};

    m.unseen = !proc_list();
    for (size_t i = proc_list_count; i > 0; i--) {
        proc_look_for_mark(proc_list_pids[i - 1], &m);
    }
    m.vanished = m.vanished || m.dead != dead_before;
    dead_before = m.dead;
    return m.count > 0  ? PROC_MARKED
           : m.unseen   ? PROC_MARKED_UNSEEN
           : m.vanished ? PROC_MARKED_PERHAPS
                        : PROC_MARKED_NONE;
}

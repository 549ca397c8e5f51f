/* supervisor_group.c — the command's processes, and who has the terminal.
 *
 * "All processes of the command" are its process group and, as the supervisor
 * is their subreaper, every process that left the group with setsid and lost
 * its parent.
 *
 * Terminal. The command gets the foreground when stdout is a terminal and the
 * supervisor's group has the foreground. In a pipeline the command gets it only
 * when it asks (stopped by TTIN or TTOU), because the other members of the job
 * need it too. Ctrl-Z stops the command; the supervisor takes the terminal back
 * and stops as well, so that the shell sees a stopped job. The holder goes on
 * renewing.
 *
 * No allocation: /proc is read into a static buffer.
 */
#define _GNU_SOURCE
#include "cli/supervisor/proc.h"
#include "cli/supervisor/supervisor_i.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static char children_bytes[64 * 1024];

/* Children that do not fit into the buffer are seen once others have ended.
 * False: they cannot be seen just now. */
static bool supervisor_group_read_children(void)
{
    size_t used = 0;
    ssize_t n = 1;
    int fd = open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC);

    children_bytes[0] = '\0';
    if (fd < 0) { /* a kernel without that file, or no descriptor */
        return proc_read_children(getpid(), children_bytes,
                                  sizeof children_bytes);
    }
    while (n > 0 && used < sizeof children_bytes - 1) {
        n = TEMP_FAILURE_RETRY(
            read(fd, children_bytes + used, sizeof children_bytes - 1 - used));
        used += n > 0 ? (size_t)n : 0;
    }
    close(fd);
    children_bytes[used] = '\0';
    return n >= 0;
}

int supervisor_signal_adopted(const struct body *b, int sig)
{
    const char *at = children_bytes;
    pid_t pid;
    int count = 0;

    if (!supervisor_group_read_children()) {
        return -1;
    }
    while (proc_next_pid(&at, &pid)) {
        if (pid == b->holder || (pid == b->command && !b->command_ended)) {
            continue;
        }
        count++;
        if (sig != 0) {
            kill(pid, sig);
        }
    }
    return count;
}

void supervisor_signal_group(struct body *b, int sig)
{
    if (b->command > 0 && !b->group_gone) {
        kill(-b->command, sig);
    }
}

int supervisor_others_left(struct body *b)
{
    if (b->command_ended && !b->group_gone && kill(-b->command, 0) != 0 &&
        errno == ESRCH) {
        b->group_gone = true;
    }
    return b->group_gone ? supervisor_signal_adopted(b, 0) : 1;
}

static bool supervisor_group_have_foreground(const struct body *b)
{
    return b->terminal >= 0 && tcgetpgrp(b->terminal) == getpgrp();
}

void supervisor_hand_over(struct body *b)
{
    if (supervisor_group_have_foreground(b) &&
        tcsetpgrp(b->terminal, b->command) == 0) {
        b->handed_over = true;
    }
}

void supervisor_take_back(struct body *b)
{
    if (b->handed_over) {
        tcsetpgrp(b->terminal, getpgrp()); /* TTOU is blocked */
        b->handed_over = false;
    }
}

void supervisor_stop_self(struct body *b)
{
    b->stopped_self = true;
    supervisor_take_back(b);
    kill(getpid(), SIGSTOP);
}

void supervisor_command_stopped(struct body *b, int sig)
{
    if (b->terminal < 0 || b->supervisor.state != SUPERVISOR_RUNNING) {
        return;
    }
    if ((sig == SIGTTIN || sig == SIGTTOU) &&
        supervisor_group_have_foreground(b)) {
        supervisor_hand_over(b);
        supervisor_signal_group(b, SIGCONT);
        return;
    }
    if (sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU) {
        supervisor_stop_self(b);
    }
}

void supervisor_continued(struct body *b)
{
    if (b->stopped_self) {
        b->stopped_self = false;
        supervisor_hand_over(b);
    }
}

void supervisor_find_terminal(struct body *b)
{
    for (int fd = 0; fd <= 2; fd++) {
        if (tcgetpgrp(fd) >= 0) {
            b->terminal = fd;
            return;
        }
    }
}

/* bench/child.c — programs that are spoken to by lines: servers.py, and clients
 * of others. One socket is their stdin and their stdout. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static const double END_S = 60;

/* SIGTERM: servers.py ends its server then, too. */
static void child_become(int fd, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || dup2(fd, STDIN_FILENO) < 0 ||
        dup2(fd, STDOUT_FILENO) < 0) {
        _exit(127);
    }
}

struct child child_start(const char *program, const char *a, const char *b,
                         const char *c)
{
    struct child child = {.program = program};
    int pair[2];
    pid_t parent = getpid();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        die("no socket");
    }
    fflush(NULL);
    child.pid = fork();
    if (child.pid == 0) {
        child_become(pair[1], parent);
        execlp(program, program, a, b, c, (char *)NULL);
        _exit(127);
    }
    close(pair[1]);
    child.lines = fdopen(pair[0], "r");
    if (child.pid < 0 || !child.lines) {
        die("%s cannot be started", program);
    }
    return child;
}

void child_say(struct child *child, const char *line)
{
    size_t size = strlen(line);
    if (send(fileno(child->lines), line, size, MSG_NOSIGNAL) != (ssize_t)size) {
        die("%s has ended", child->program);
    }
}

void child_line(struct child *child, char *ret, int size, int wait_s)
{
    struct timeval most = {.tv_sec = wait_s};
    setsockopt(fileno(child->lines), SOL_SOCKET, SO_RCVTIMEO, &most,
               sizeof most);
    if (!fgets(ret, size, child->lines)) {
        die("%s: no answer", child->program);
    }
    ret[strcspn(ret, "\n")] = 0;
}

void child_end(struct child *child)
{
    fclose(child->lines);
    for (double end = now_s() + END_S;
         waitpid(child->pid, NULL, WNOHANG) == 0;) {
        if (now_s() > end) {
            kill(child->pid, SIGKILL);
        }
        pause_s(0.01);
    }
}

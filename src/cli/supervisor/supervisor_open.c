/* supervisor_open.c — a supervisor begins and ends: signals, timer, holder, and
 * what is told to the caller. In between: supervisor.c. */
#define _GNU_SOURCE
#include "cli/holder/holder.h"
#include "cli/supervisor/proc.h"
#include "cli/supervisor/supervisor.h"
#include "cli/supervisor/supervisor_i.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* The kernel keeps a blocked signal also for who ignores it, so signalfd tells
 * of it: what its parent asked for is kept by hand. */
static void supervisor_find_ignored(struct body *b)
{
    static const int asked[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
    struct sigaction was;

    sigemptyset(&b->ignored);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if (sigaction(asked[i], NULL, &was) == 0 && was.sa_handler == SIG_IGN) {
            sigaddset(&b->ignored, asked[i]);
        }
    }
}

bool supervisor_ignores(const struct body *b, int sig)
{
    return sigismember(&b->ignored, sig) == 1;
}

static bool supervisor_open_signals(struct body *b)
{
    static const int ours[] = {SIGHUP,  SIGINT,   SIGQUIT, SIGTERM, SIGUSR1,
                               SIGUSR2, SIGWINCH, SIGCONT, SIGCHLD, SIGTSTP};
    struct sigaction def = {.sa_handler = SIG_DFL};
    sigset_t all, set;

    sigfillset(&all);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        sigaddset(&set, ours[i]);
    }
    supervisor_find_ignored(b);
    /* An inherited "ignore" would make the kernel reap the command. */
    sigaction(SIGCHLD, &def, &b->old_chld);
    sigprocmask(SIG_SETMASK, &all, &b->old_mask);
    b->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return b->signals >= 0;
}

bool supervisor_fork_holder(struct body *b)
{
    int pair[2];

    b->page = mmap(NULL, sizeof *b->page, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b->page == MAP_FAILED ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    b->holder_done = false;
    b->holder = fork();
    if (b->holder == 0) {
        /* With it open the holder would never read that this process has
         * ended. */
        close(pair[0]);
        holder_main(b->plan, b->page, pair[1]);
    }
    close(pair[1]);
    b->socket = pair[0];
    return b->holder > 0;
}

bool supervisor_open(struct body *b, const struct plan *plan)
{
    *b = (struct body){.plan = plan,
                       .signals = -1,
                       .timer = -1,
                       .socket = -1,
                       .gate = -1,
                       .lease = -1,
                       .terminal = -1,
                       .status = -1,
                       .armed = SUPERVISOR_NEVER,
                       .end = {.kind = SUPERVISOR_EV_EMPTY}};
    supervisor_init(&b->supervisor, &plan->rules, plan->started_ns);
    b->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (b->timer < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 ||
        !supervisor_open_signals(b) || !supervisor_fork_holder(b)) {
        say("cannot start: %s", say_errno(errno));
        return false;
    }
    /* The holder is at work already; the rest is done meanwhile. */
    supervisor_keep_status_fd(b, (int)plan->args->status_fd);
    if (plan->command != NULL) {
        supervisor_find_terminal(b);
    }
    return true;
}

/* A holder that has sent its last message is about to end. If the supervisor
 * ended first, whoever adopts the holder would have to reap it, and the init of
 * many containers does not; inside another snib run the holder would look like
 * a process that was left behind. A holder that still tries to give back has
 * not sent its last message, and goes on alone. So does one whose cancel the
 * store has not answered. */
static void supervisor_open_reap(struct body *b)
{
    enum { PATIENCE_MS = 2000 };
    struct pollfd p = {.fd = -1, .events = POLLIN};

    if (b->holder <= 0 || b->holder_gone || !b->holder_done) {
        return;
    }
    p.fd = (int)syscall(SYS_pidfd_open, b->holder, 0);
    if (p.fd >= 0) {
        poll(&p, 1, PATIENCE_MS);
        close(p.fd);
    }
    b->holder_gone = waitpid(b->holder, NULL, WNOHANG) == b->holder;
}

int supervisor_live(struct body *b)
{
    int code;

    supervisor_loop(b);
    if (b->plan->command == NULL && b->supervisor.state == SUPERVISOR_RUNNING) {
        return CLI_OK;
    }
    supervisor_take_back(b);
    supervisor_open_reap(b);
    code = supervisor_exit_status(b);
    supervisor_report(b, code);
    return code;
}

int supervisor_run(const struct plan *plan, struct plan_page **ret_page,
                   int *ret_socket)
{
    static struct body body;
    int code;

    if (!supervisor_open(&body, plan)) {
        return CLI_INTERNAL;
    }
    code = supervisor_live(&body);
    if (plan->command == NULL && body.supervisor.state == SUPERVISOR_RUNNING) {
        *ret_page = body.page;
        *ret_socket = body.socket;
    }
    return code;
}

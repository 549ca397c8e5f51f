/* supervisor_again.c — one term after the other, by one supervisor.
 *
 * Each term has a holder, a page and a command of its own. What belongs to the
 * process stays: the blocked signals and their descriptor (a TERM between two
 * params waits there), the timer, the terminal, the children to reap.
 *
 * A holder may outlive its term: it repeats a release that was not answered
 * until the lease is over. It would look like a process that the next command
 * left behind, so the next term begins when that holder is gone. A holder that
 * hangs is killed when its lease, and the request that it sent, are surely
 * over: then it can keep nobody out any more.
 */
#define _GNU_SOURCE
#include "cli/supervisor/proc.h"
#include "cli/supervisor/supervisor.h"
#include "cli/supervisor/supervisor_i.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static void supervisor_again_close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

/* Reset what belonged to the last term. */
static bool supervisor_again_open_again(struct body *b, struct plan *plan)
{
    plan->started_ns = proc_now();
    munmap(b->page, sizeof *b->page);
    b->page = NULL;
    b->holder = b->command = 0;
    b->handed_over = b->command_ended = b->group_gone = b->term_sent = false;
    b->holder_gone = b->stopped_self = false;
    b->end = (struct supervisor_event){.kind = SUPERVISOR_EV_EMPTY};
    b->unseen = 0;
    b->risk_text[0] = b->lost_text[0] = '\0';
    supervisor_init(&b->supervisor, &plan->rules, plan->started_ns);
    if (!supervisor_fork_holder(b)) {
        say("cannot start: %s", say_errno(errno));
        return false;
    }
    return true;
}

static void supervisor_again_reap_all(struct body *b)
{
    pid_t pid;

    while ((pid = (pid_t)TEMP_FAILURE_RETRY(waitpid(-1, NULL, WNOHANG))) > 0) {
        if (pid == b->holder) {
            b->holder_gone = true;
        }
    }
    if (pid < 0 && errno == ECHILD) {
        b->holder_gone = true;
    }
}

/* A signal that asks to end, or 0. */
static int supervisor_again_take_signals(struct body *b)
{
    struct signalfd_siginfo info[8];
    ssize_t size = read(b->signals, info, sizeof info);

    for (ssize_t i = 0; i < size / (ssize_t)sizeof info[0]; i++) {
        int sig = (int)info[i].ssi_signo;

        if (supervisor_ignores(b, sig)) {
            continue;
        }
        if (sig == SIGHUP || sig == SIGINT || sig == SIGQUIT ||
            sig == SIGTERM) {
            return sig;
        }
        if (sig == SIGTSTP) {
            supervisor_stop_self(b);
        }
    }
    return 0;
}

/* Wait until the pause is over and the holder is gone. A signal that ends the
 * wait, or 0. */
static int supervisor_again_rest(struct body *b, int64_t ms)
{
    int64_t until = proc_now() + ms * SUPERVISOR_MS;
    int64_t hung = atomic_load(&b->page->deadline_ns);

    if (!b->holder_done) { /* it may still cancel its request */
        hung = hung > proc_now() + PLAN_NOT_AFTER ? hung
                                                  : proc_now() + PLAN_NOT_AFTER;
    }
    hung = (hung > until ? hung : until) + b->plan->rules.request;
    for (;;) {
        struct pollfd p = {.fd = b->signals, .events = POLLIN};
        int64_t now = proc_now(), due = now < until ? until : hung;
        int sig;

        supervisor_again_reap_all(b);
        if (now >= until && b->holder_gone) {
            return 0;
        }
        if (now >= hung) {
            kill(b->holder, SIGKILL);
            due = now + SUPERVISOR_S;
        }
        if (poll(&p, 1, (int)((due - now) / SUPERVISOR_MS) + 1) > 0 &&
            (sig = supervisor_again_take_signals(b)) != 0) {
            return sig;
        }
    }
}

static struct supervisor_term
supervisor_again_how_it_ended(const struct body *b, int code)
{
    return (struct supervisor_term){.code = code,
                                    .why = b->supervisor.why,
                                    .ran = b->supervisor.ran,
                                    .by_command = b->supervisor.by_command,
                                    .lost = b->supervisor.lost,
                                    .asked_to_end = b->asked_to_end};
}

int supervisor_repeat(struct plan *plan,
                      int64_t (*next)(void *data,
                                      const struct supervisor_term *),
                      void *data)
{
    static struct body body;
    struct body *b = &body;

    if (!supervisor_open(b, plan)) {
        return CLI_INTERNAL;
    }
    for (;;) {
        int code = supervisor_live(b), sig;
        struct supervisor_term term = supervisor_again_how_it_ended(b, code);
        int64_t ms;

        /* A holder that still waits ends by itself then. */
        supervisor_again_close_fd(&b->socket);
        supervisor_again_close_fd(&b->gate);
        supervisor_again_close_fd(&b->lease);
        if (b->asked_to_end != 0) {
            return CLI_SIGNAL + b->asked_to_end;
        }
        ms = next(data, &term);
        if (ms == SUPERVISOR_ENOUGH) {
            return code;
        }
        sig = supervisor_again_rest(b, ms);
        if (sig != 0) {
            return CLI_SIGNAL + sig;
        }
        if (!supervisor_again_open_again(b, plan)) {
            return CLI_INTERNAL;
        }
    }
}

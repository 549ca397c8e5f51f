/* supervisor_act.c — what the supervisor does: it starts the command and opens
 * its gate, reaps children, signals, speaks, and tells the holder.
 *
 * The command is "gone" when its group answers ESRCH and the supervisor has no
 * child but the holder. */
#define _GNU_SOURCE
#include "cli/supervisor/proc.h"
#include "cli/supervisor/supervisor.h"
#include "cli/supervisor/supervisor_i.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void supervisor_command_failed(struct body *b, int code,
                                      enum supervisor_why why)
{
    struct supervisor_event ev = {
        .kind = SUPERVISOR_EV_ENDED, .code = code, .why = why};

    b->group_gone = b->command_ended = true;
    supervisor_take_event(b, &ev);
}

static void supervisor_cannot_start(struct body *b)
{
    say("%s: cannot start the command: %s", shown(b->plan->names[0]),
        say_errno(errno));
    supervisor_command_failed(b, CLI_INTERNAL, SUPERVISOR_CAUSE_INTERNAL);
}

/* Has the child ended? It can still be waited for after this. */
static bool supervisor_has_ended(pid_t pid)
{
    siginfo_t end = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &end, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           end.si_pid == pid;
}

static void supervisor_open_gate(struct body *b)
{
    int error;

    if (TEMP_FAILURE_RETRY(send(b->gate, "g", 1, MSG_NOSIGNAL)) == 1) {
        return;
    }
    error = errno;
    if (error == EPIPE && supervisor_has_ended(b->command)) {
        return; /* it was killed at the gate: its end is told as any */
    }
    kill(b->command, SIGKILL); /* it would wait for that byte for ever */
    waitpid(b->command, NULL, 0);
    errno = error;
    supervisor_cannot_start(b);
}

static void supervisor_start_command(struct body *b)
{
    int32_t none = 0;
    int lease[2], gate[2];
    pid_t self = getpid(), pid;

    if (pipe2(lease, O_CLOEXEC) != 0) {
        supervisor_cannot_start(b);
        return;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) != 0) {
        supervisor_cannot_start(b);
        close(lease[0]);
        close(lease[1]);
        return;
    }
    pid = fork();
    if (pid == 0) {
        supervisor_become_command(b, self, gate[1], lease[0]);
    }
    close(gate[1]);
    close(lease[0]);
    b->gate = gate[0];
    b->lease = lease[1];
    if (pid < 0) {
        supervisor_cannot_start(b);
        return;
    }
    setpgid(pid, pid);
    b->command = pid;
    /* The holder closes the gate when it is time to kill and the page has no
     * group yet, because this process was stopped just here. The holder has
     * told the cause of the loss. */
    if (!atomic_compare_exchange_strong(&b->page->group, &none, (int32_t)pid)) {
        kill(pid, SIGKILL);
        return;
    }
    if (b->terminal >= 0 && isatty(1)) {
        supervisor_hand_over(b);
    }
    supervisor_open_gate(b);
}

void supervisor_tell_end(struct body *b)
{
    enum { TELL_AT = 50 }; /* after a second */
    int left = supervisor_others_left(b);
    struct supervisor_event ev = b->end;

    if (left < 0) {
        if (++b->unseen == TELL_AT) {
            say("%s: cannot see in /proc whether the command left processes "
                "behind (%s): the lock is kept until that can be seen",
                shown(b->plan->names[0]), say_errno(errno));
        }
        return;
    }
    b->unseen = 0;
    b->end.kind = SUPERVISOR_EV_EMPTY;
    ev.others = left > 0;
    if (ev.kind != SUPERVISOR_EV_ENDED) {
        ev.kind = ev.others ? SUPERVISOR_EV_ADOPTED : SUPERVISOR_EV_EMPTY;
    }
    supervisor_take_event(b, &ev);
}

void supervisor_reap(struct body *b)
{
    bool news = false;
    int status;
    pid_t pid;

    while ((pid = (pid_t)TEMP_FAILURE_RETRY(
                waitpid(-1, &status, WNOHANG | WUNTRACED))) > 0) {
        if (pid == b->holder) {
            b->holder_gone = !WIFSTOPPED(status);
            continue; /* its socket tells of its end */
        }
        if (WIFSTOPPED(status)) {
            if (pid == b->command) {
                supervisor_command_stopped(b, WSTOPSIG(status));
            }
            continue;
        }
        news = true;
        if (pid == b->command) {
            b->command_ended = true;
            supervisor_take_back(b);
            supervisor_ended_event(b, status, &b->end);
        }
    }
    if (news && b->command_ended) {
        supervisor_tell_end(b);
    }
}

/* A holder that is gone may have told a cause before: that message is still to
 * be read, and the end of the socket comes behind it. */
void supervisor_tell(struct body *b, enum plan_message_kind kind)
{
    struct plan_message m = {.kind = kind};
    struct supervisor_event eof = {.kind = SUPERVISOR_EV_HOLDER_EOF};

    if (b->socket >= 0 &&
        (TEMP_FAILURE_RETRY(
             send(b->socket, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL)) >= 0 ||
         errno == EPIPE || errno == ECONNRESET)) {
        return;
    }
    supervisor_take_event(b, &eof); /* nobody will answer */
}

/* The first TERM goes to all processes. Later ones go only to those adopted
 * since, or a command's own handler would run again and again. */
static void supervisor_act_term(struct body *b)
{
    if (!b->term_sent) {
        supervisor_signal_group(b, SIGTERM);
        supervisor_signal_group(b, SIGCONT);
    }
    b->term_sent = true;
    supervisor_signal_adopted(b, SIGTERM);
    supervisor_signal_adopted(b, SIGCONT);
}

static void supervisor_act(struct body *b, struct supervisor_actions a)
{
    if (a.todo & SUPERVISOR_DO_REFUSE) {
        atomic_store(&b->page->offer, PLAN_WITHDRAWN);
        supervisor_tell(b, PLAN_HERE);
    }
    if ((a.todo & SUPERVISOR_SAY_LEFT) && supervisor_left_ends_itself(b)) {
        a.todo &= ~SUPERVISOR_SAY_LEFT;
    }
    if (a.todo & SUPERVISOR_DO_KILL) {
        supervisor_signal_group(b, SIGKILL);
        supervisor_signal_adopted(b, SIGKILL);
    }
    if (a.todo & SUPERVISOR_DO_TERM) {
        supervisor_act_term(b);
    }
    if (a.todo & SUPERVISOR_DO_SIGNAL) {
        supervisor_signal_group(b, a.signal);
    }
    if ((a.todo & SUPERVISOR_DO_EOF) && b->lease >= 0) {
        close(b->lease);
        b->lease = -1;
    }
    supervisor_speak(b, a.todo);
    if ((a.todo & SUPERVISOR_DO_START) && b->plan->command != NULL) {
        supervisor_start_command(b);
    }
    if (a.todo & SUPERVISOR_DO_LEAVE) {
        supervisor_tell(b, PLAN_LEAVE);
    }
    if (a.todo & SUPERVISOR_DO_RELEASE) {
        supervisor_tell(b, PLAN_RELEASE);
    }
}

void supervisor_look_at_page(struct body *b, int64_t now)
{
    struct supervisor_event ev = {.kind = SUPERVISOR_EV_DEADLINE,
                                  .at = atomic_load(&b->page->deadline_ns)};

    if (ev.at > b->supervisor.deadline) {
        supervisor_act(b, supervisor_step(&b->supervisor, &ev, now));
    }
}

/* The clock is read before the page. This process may be stopped for long between
 * the two, and a deadline read before the clock could then be an old one that
 * seems to be over. */
void supervisor_take_event(struct body *b, const struct supervisor_event *ev)
{
    int64_t now = proc_now();

    supervisor_look_at_page(b, now);
    supervisor_act(b, supervisor_step(&b->supervisor, ev, now));
}

/* supervisor.c — what the supervisor senses and does; supervisor_step.c
 * decides.
 *
 *                  (shell, cron, systemd)
 *                          |
 *                    snib = supervisor         one thread, no network, no store
 *                   /   SEQPACKET  \
 *              holder               COMMAND   own group, PDEATHSIG=KILL
 *           store, renewals      (and all it starts)
 *
 * One loop waits for three descriptors: the holder's socket, a signalfd with
 * every signal that the supervisor acts on, and a timerfd on CLOCK_BOOTTIME
 * (which runs through suspend). Each round first reads the newest confirmed
 * deadline, then the clock, then everything else: a supervisor that was stopped
 * for an hour must neither stop a healthy command for an old deadline nor let
 * one run past a real one.
 *
 * The command is "gone" when its group answers ESRCH and the supervisor has no
 * child but the holder.
 *
 * After the start this file allocates no memory: no FILE is used.
 */
#define _GNU_SOURCE
#include "cli/supervisor/supervisor.h"
#include "cli/supervisor/proc.h"
#include "cli/supervisor/supervisor_i.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

static void step(struct body *b, const struct supervisor_event *ev);

static void supervisor_command_failed(struct body *b, int code,
                                      enum supervisor_why why)
{
    struct supervisor_event ev = {
        .kind = SUPERVISOR_EV_ENDED, .code = code, .why = why};

    b->group_gone = b->command_ended = true;
    step(b, &ev);
}

static void supervisor_cannot_start(struct body *b)
{
    say("%s: cannot start the command: %s", shown(b->plan->names[0]),
        strerror(errno));
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

/* A process of the command has ended. As long as it cannot be seen whether
 * others are left the command counts as not ended: the lock is kept, and the
 * loop calls this again. */
static void supervisor_tell_end(struct body *b)
{
    enum { TELL_AT = 50 }; /* after a second */
    int left = supervisor_others_left(b);
    struct supervisor_event ev = b->end;

    if (left < 0) {
        if (++b->unseen == TELL_AT) {
            say("%s: cannot see in /proc whether the command left processes "
                "behind (%s): the lock is kept until that can be seen",
                shown(b->plan->names[0]), strerror(errno));
        }
        return;
    }
    b->unseen = 0;
    b->end.kind = SUPERVISOR_EV_EMPTY;
    ev.others = left > 0;
    if (ev.kind != SUPERVISOR_EV_ENDED) {
        ev.kind = ev.others ? SUPERVISOR_EV_ADOPTED : SUPERVISOR_EV_EMPTY;
    }
    step(b, &ev);
}

static void supervisor_reap(struct body *b)
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
static void supervisor_tell(struct body *b, enum plan_message_kind kind)
{
    struct plan_message m = {.kind = kind};
    struct supervisor_event eof = {.kind = SUPERVISOR_EV_HOLDER_EOF};

    if (b->socket >= 0 &&
        (TEMP_FAILURE_RETRY(
             send(b->socket, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL)) >= 0 ||
         errno == EPIPE || errno == ECONNRESET)) {
        return;
    }
    step(b, &eof); /* nobody will answer */
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

static void supervisor_look_at_page(struct body *b, int64_t now)
{
    struct supervisor_event ev = {.kind = SUPERVISOR_EV_DEADLINE,
                                  .at = atomic_load(&b->page->deadline_ns)};

    if (ev.at > b->supervisor.deadline) {
        supervisor_act(b, supervisor_step(&b->supervisor, &ev, now));
    }
}

/* Read the clock before the page. This process may be stopped for long between
 * the two, and a deadline read before the clock could then be an old one that
 * seems to be over. */
static void step(struct body *b, const struct supervisor_event *ev)
{
    int64_t now = proc_now();

    supervisor_look_at_page(b, now);
    supervisor_act(b, supervisor_step(&b->supervisor, ev, now));
}

/* False: the holder withdrew the offer while this process was stopped. */
static bool supervisor_take_offer(struct body *b)
{
    int32_t offered = PLAN_OFFERED;

    return atomic_compare_exchange_strong(&b->page->offer, &offered,
                                          PLAN_TAKEN);
}

/* Is the message about an earlier grant, one that was withdrawn while this
 * process was stopped? The grant that it took is a later one. In WAITING no
 * grant is taken yet, and neither kind of message changes anything. */
static bool supervisor_is_of_earlier_grant(const struct body *b,
                                           const struct plan_message *m)
{
    return (m->kind == PLAN_RISK || m->kind == PLAN_LOST) &&
           b->supervisor.state != SUPERVISOR_WAITING &&
           m->grant != b->page->grants;
}

static void supervisor_hear_signal(struct body *b, int sig);

static void supervisor_hear_message(struct body *b,
                                    const struct plan_message *m)
{
    struct supervisor_event ev = {.why = (enum supervisor_why)m->why,
                                  .code = m->code};

    if (supervisor_is_of_earlier_grant(b, m)) {
        return;
    }
    switch ((enum plan_message_kind)m->kind) {
    case PLAN_GRANT:
        if (b->supervisor.state == SUPERVISOR_WAITING &&
            !supervisor_take_offer(b)) {
            supervisor_tell(b, PLAN_HERE);
            return;
        }
        if (b->supervisor.state == SUPERVISOR_WAITING) {
            supervisor_fit(&b->supervisor.rules, &b->plan->rules,
                           b->page->outer_ttl_ns);
        }
        ev.kind = SUPERVISOR_EV_GRANT;
        ev.at = atomic_load(&b->page->deadline_ns);
        break;
    case PLAN_RISK:
        memcpy(b->risk_text, m->text, sizeof b->risk_text);
        ev.kind = SUPERVISOR_EV_RISK;
        break;
    case PLAN_LOST:
        memcpy(b->lost_text, m->text, sizeof b->lost_text);
        ev.kind = SUPERVISOR_EV_LOST;
        break;
    case PLAN_FAILED:
        b->holder_done = !m->lingers;
        ev.kind = SUPERVISOR_EV_FAILED;
        break;
    case PLAN_RELEASED:
        b->holder_done = !m->lingers;
        if (b->lost_text[0] == '\0') {
            memcpy(b->lost_text, m->text, sizeof b->lost_text);
        }
        ev.kind = SUPERVISOR_EV_RELEASED;
        ev.lost = m->code != 0;
        break;
    case PLAN_SIGNAL:
        /* Somebody who signals all processes of a unit has signalled the
         * supervisor as well: one signal is enough. */
        if (b->asked_to_end == 0) {
            supervisor_hear_signal(b, m->code);
        }
        return;
    case PLAN_LEAVE:
    case PLAN_RELEASE:
    case PLAN_STOPPED:
    case PLAN_HERE:
    case PLAN_DETACH:
        return;
    }
    step(b, &ev);
}

static void supervisor_hear_holder(struct body *b)
{
    struct supervisor_event eof = {.kind = SUPERVISOR_EV_HOLDER_EOF};
    struct plan_message m;

    while (b->socket >= 0 && b->supervisor.state != SUPERVISOR_DONE) {
        switch (plan_hear(b->socket, &m)) {
        case PLAN_HEARD:
            supervisor_hear_message(b, &m);
            break;
        case PLAN_SILENT:
            return;
        case PLAN_ENDED:
            close(b->socket);
            b->socket = -1;
            b->holder_done = true;
            step(b, &eof);
            break;
        }
    }
}

static void supervisor_hear_signal(struct body *b, int sig)
{
    struct supervisor_event ev = {.kind = SUPERVISOR_EV_SIGNAL, .code = sig};

    if (sig == SIGCHLD) {
        supervisor_reap(b);
        return;
    }
    if (sig == SIGTSTP) {
        if (b->command > 0 && !b->command_ended) {
            supervisor_signal_group(b, SIGTSTP); /* its stop will stop us */
        } else if (b->supervisor.state == SUPERVISOR_WAITING) {
            supervisor_tell(b, PLAN_STOPPED); /* the grant may come meanwhile */
            supervisor_stop_self(b);
            supervisor_tell(b, PLAN_HERE);
        }
        return;
    }
    if (sig == SIGCONT) {
        supervisor_continued(b);
    }
    if (sig == SIGINT || sig == SIGQUIT || sig == SIGTERM) {
        b->asked_to_end = sig;
    }
    step(b, &ev);
}

/* In LEAVING and GONE the supervisor only waits for the holder's last message.
 * It may have come while this process was stopped: read it before the patience
 * is over. */
static void supervisor_look_at_clock(struct body *b)
{
    struct supervisor_event ev = {.kind = SUPERVISOR_EV_TIMER};

    if (proc_now() < b->supervisor.timer) {
        return;
    }
    if (b->supervisor.state == SUPERVISOR_LEAVING ||
        b->supervisor.state == SUPERVISOR_GONE) {
        supervisor_hear_holder(b);
    }
    step(b, &ev);
}

static void supervisor_hear_signals(struct body *b)
{
    struct signalfd_siginfo info[8];
    ssize_t size = read(b->signals, info, sizeof info);

    for (ssize_t i = 0; i < size / (ssize_t)sizeof info[0]; i++) {
        supervisor_hear_signal(b, (int)info[i].ssi_signo);
    }
}

static void supervisor_arm(struct body *b)
{
    struct itimerspec when = {0};

    if (b->supervisor.timer == b->armed) {
        return;
    }
    b->armed = b->supervisor.timer;
    if (b->armed != SUPERVISOR_NEVER) {
        int64_t at = b->armed > 0 ? b->armed : 1;

        when.it_value.tv_sec = (time_t)(at / SUPERVISOR_S);
        when.it_value.tv_nsec = (long)(at % SUPERVISOR_S);
    }
    timerfd_settime(b->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static bool supervisor_loop_over(const struct body *b)
{
    return b->supervisor.state == SUPERVISOR_DONE ||
           (b->plan->command == NULL &&
            b->supervisor.state == SUPERVISOR_RUNNING);
}

/* Without memory poll fails. Nothing may end for that: look at every descriptor
 * (none blocks), and try again. */
static void supervisor_poll_all(struct pollfd *fds, nfds_t count,
                                int timeout_ms)
{
    const struct timespec pause = {.tv_nsec = 10 * SUPERVISOR_MS};

    if (poll(fds, count, timeout_ms) >= 0) {
        return;
    }
    if (errno != EINTR) {
        nanosleep(&pause, NULL);
    }
    for (nfds_t i = 0; i < count; i++) {
        fds[i].revents = POLLIN;
    }
}

static void supervisor_drain(int timer)
{
    uint64_t ticks;

    if (read(timer, &ticks, sizeof ticks) < 0) {
        return; /* not due */
    }
}

void supervisor_loop(struct body *b)
{
    enum { LOOK_AGAIN_MS = 20 };

    while (!supervisor_loop_over(b)) {
        struct pollfd fds[3] = {{.fd = b->socket, .events = POLLIN},
                                {.fd = b->signals, .events = POLLIN},
                                {.fd = b->timer, .events = POLLIN}};

        supervisor_arm(b);
        supervisor_poll_all(fds, 3, b->unseen > 0 ? LOOK_AGAIN_MS : -1);
        if (fds[2].revents != 0) {
            supervisor_drain(b->timer);
        }
        supervisor_look_at_page(b, proc_now());
        supervisor_look_at_clock(b);
        if (fds[0].revents != 0) {
            supervisor_hear_holder(b);
        }
        if (fds[1].revents != 0) {
            supervisor_hear_signals(b);
        }
        if (b->unseen > 0) {
            supervisor_tell_end(b);
        }
    }
}

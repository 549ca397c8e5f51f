/* supervisor.c — what the supervisor senses; supervisor_step.c decides, and
 * supervisor_act.c does it.
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
 * After the start neither file allocates memory: no FILE is used.
 */
#define _GNU_SOURCE
#include "cli/supervisor/supervisor.h"
#include "cli/supervisor/proc.h"
#include "cli/supervisor/supervisor_i.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

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
    supervisor_take_event(b, &ev);
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
            supervisor_take_event(b, &eof);
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
    if (b->command <= 0 && supervisor_ignores(b, sig)) {
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
    supervisor_take_event(b, &ev);
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
    supervisor_take_event(b, &ev);
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

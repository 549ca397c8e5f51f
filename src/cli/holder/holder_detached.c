/* holder_detached.c — signals to the holder; and the holder of snib acquire,
 * once the grant is out.
 *
 * Others are shown the holder's process number, so it is what somebody kills
 * who wants to end the holder. As long as there is a supervisor, TERM and INT mean
 * that one, which ends the command first; it gets them a moment later, when it
 * knows whether they were sent to all of us.
 *
 * Detached it has no supervisor any more. It lives until release, or until the
 * process it is tied to has ended. Tied to none, also until TERM or INT (the
 * machine shuts down, somebody stops the unit: what it holds is given back, as
 * long as there is time). A process that it is tied to got the same signal and
 * may be finishing its work: then its end is what counts.
 *
 * When the lease is lost nobody hears of it before he asks, and nobody else
 * knows the cause: so it stays to answer, as long as the process it is tied to
 * lives, or, tied to none, for the time of one more lease. TERM and INT end it
 * then in either case: it holds nothing that somebody works under.
 *
 * With --sh the text that was printed ties it to the shell that evaluates the
 * text, and nobody else knows that shell: until then it holds the lock for
 * some seconds only. A shell that was killed in between, or that threw the
 * text away, leaves nothing behind.
 */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A busy machine must find the time to start one process. */
#define TIE_PATIENCE (10 * SUPERVISOR_S)
/* A sender to all has reached the last one by then. */
#define PASS_ON (100 * SUPERVISOR_MS)

/* All signals are blocked since the supervisor's start. */
void holder_hear_signals(struct holder *k)
{
    sigset_t ends;

    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    k->signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (k->signals < 0 && k->detached) {
        /* Then these two end us at once, and the lease ends by itself. */
        sigprocmask(SIG_UNBLOCK, &ends, NULL);
    }
}

void holder_detach(struct holder *k)
{
    if (k->plan->args->no_holder) {
        /* LOST is nothing to tell any more: check and release will. */
        snib_grant_abandon(k->slots[0].lock, k->slots[0].grant, NULL);
        holder_end(k, 0);
    }
    k->detached = true;
    close(k->socket);
    k->socket = -1;
    if (k->plan->args->sh) {
        k->tie_ns = proc_now() + TIE_PATIENCE;
    }
    if (k->signals < 0) {
        holder_hear_signals(k);
    }
    holder_drop(0, 2); /* 0 is /dev/null by now */
}

int holder_tie(struct holder *k, int64_t pid)
{
    int fd;

    if (!k->detached) {
        return EBUSY;
    }
    fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd < 0) {
        return errno;
    }
    if (k->holder_pidfd >= 0) {
        close(k->holder_pidfd);
    }
    k->holder_pidfd = fd;
    k->holder_pid = pid;
    k->tie_ns = INT64_MAX;
    return 0;
}

void holder_stay_lost(struct holder *k, int64_t now)
{
    k->look_ns = k->renew_ns = INT64_MAX;
    if (k->stay_ns == INT64_MAX) {
        k->stay_ns = now + k->rules.ttl;
    } else if (k->holder_pidfd < 0 && now >= k->stay_ns) {
        holder_end(k, CLI_LOST);
    }
}

void holder_pass_on(struct holder *k)
{
    k->told_ns = INT64_MAX;
    if (k->detached) {
        holder_told_to_end(k);
    } else {
        holder_tell(k, PLAN_SIGNAL, k->told, SUPERVISOR_CAUSE_SIGNALLED, "");
    }
}

void holder_told_to_end(struct holder *k)
{
    struct signalfd_siginfo info;

    if (!k->detached) {
        if (read(k->signals, &info, sizeof info) == (ssize_t)sizeof info) {
            k->told = (int)info.ssi_signo;
            k->told_ns = proc_now() + PASS_ON;
        }
        return;
    }
    if (k->lost || (k->holder_pidfd < 0 && k->tie_ns == INT64_MAX)) {
        holder_release_and_end(k);
    }
    close(k->signals); /* they stay blocked */
    k->signals = -1;
}

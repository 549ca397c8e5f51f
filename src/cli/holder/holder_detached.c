/* holder_detached.c — signals to the holder; and the holder of snib acquire,
 * once the grant is printed.
 *
 * The store shows others the holder's pid, so that is the process which
 * somebody kills who wants to end the lock's owner. As long as there is a
 * supervisor, TERM and INT are meant for the supervisor, which ends the command
 * first. The holder tells it a moment later, when it is clear whether the
 * signals were sent to all processes of the run.
 *
 * Detached, the holder has no supervisor any more. It lives until release, or
 * until the process that it is tied to has ended. If it is tied to none, TERM
 * or INT end it, too (the machine shuts down, somebody stops the unit): it
 * gives back the lock while there is time. A process that it is tied to got the
 * same signal and may be finishing its work: then only the end of that process
 * counts.
 *
 * When the lease is lost, nobody hears of it before asking, and only this
 * process knows the cause. So it stays to answer: as long as the process that
 * it is tied to lives or, tied to none, for the time of one more lease. TERM
 * and INT end it then in either case: it holds nothing that somebody works
 * under.
 *
 * With --sh the printed text ties the holder to the shell that evaluates the
 * text. Until then it holds the lock for some seconds only, since nobody else
 * knows that shell: a shell that was killed in between, or that threw the text
 * away, leaves nothing behind.
 */
#define _GNU_SOURCE
#include "cli/holder/holder_i.h"
#include "cli/supervisor/proc.h"
#include "snib/sys.h"

#include <errno.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A busy machine must find the time to start one process. */
#define TIE_PATIENCE (10 * SUPERVISOR_S)
/* A sender that signals several processes has reached the last one by then. */
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
        /* Without the signalfd, TERM and INT end this process, and the lease
         * ends by itself. */
        sigprocmask(SIG_UNBLOCK, &ends, NULL);
    }
}

void holder_detach(struct holder *k)
{
    if (k->plan->args->no_holder) {
        /* A loss is not told here any more: check and release will tell it. */
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
    k->check_ns = k->renew_ns = INT64_MAX;
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
        k->ending = true;
        return;
    }
    /* Ignored, but read: another one counts once the lock is lost. */
    if (read(k->signals, &info, sizeof info) < 0) {
        return;
    }
}

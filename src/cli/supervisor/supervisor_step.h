/* supervisor_step.h — what the supervisor does next: a pure function.
 *
 * The supervisor is the process that the user started with `snib run`. It owns
 * the command. The holder, another child of the supervisor, owns the lock. This
 * header is all that the supervisor decides with: events go in, actions come
 * out, no system call is made. So every cell of the table is tested in virtual
 * time (unit.supervisor_running, unit.supervisor_ending). supervisor.c senses
 * the events, and supervisor_act.c carries out the actions.
 *
 * All instants are CLOCK_BOOTTIME in nanoseconds, all durations nanoseconds.
 */
#ifndef SNIB_CLI_SUPERVISOR_STEP_H
#define SNIB_CLI_SUPERVISOR_STEP_H

#include <stdbool.h>
#include <stdint.h>

#define SUPERVISOR_MS    INT64_C(1000000)
#define SUPERVISOR_S     INT64_C(1000000000)
#define SUPERVISOR_NEVER INT64_MAX

/* How often KILL is repeated while a process is left: one that was adopted only
 * now, or one that forks faster than the supervisor kills. */
#define SUPERVISOR_KILL_AGAIN (50 * SUPERVISOR_MS)

/* How long after the wait limit the holder's answer may come. */
#define SUPERVISOR_SLACK (300 * SUPERVISOR_MS)

/* WAITING   for the grant; no command yet
 * LEAVING   the holder was told to leave the queue; no command will run
 * RUNNING   the command runs, and the instant to stop it is ahead
 * STOPPING  the lease is not safe (or --max-run is over): TERM sent, KILL due
 * ENDING    the command ended by itself, but left processes behind
 * HOLDING   all processes are gone, --hold-min is not over
 * GONE      all processes are gone, the holder was told to release
 * DONE      nothing is left to do */
enum supervisor_state {
    SUPERVISOR_WAITING,
    SUPERVISOR_LEAVING,
    SUPERVISOR_RUNNING,
    SUPERVISOR_STOPPING,
    SUPERVISOR_ENDING,
    SUPERVISOR_HOLDING,
    SUPERVISOR_GONE,
    SUPERVISOR_DONE
};

/* How snib ended: the "cause" in the --status-fd line. */
#define SUPERVISOR_WHYS(X)                                                     \
    X(EXITED, "exited")                                                        \
    X(SIGNALLED, "signalled")                                                  \
    X(EXPIRED, "expired")                                                      \
    X(STOLEN, "stolen")                                                        \
    X(FORGOTTEN, "forgotten")                                                  \
    X(UNREACHABLE, "unreachable")                                              \
    X(PAUSED, "paused")                                                        \
    X(REVOKED, "revoked")                                                      \
    X(HOLDER, "keeper-died")                                                   \
    X(BUSY, "busy")                                                            \
    X(TIMEOUT, "timeout")                                                      \
    X(DEADLOCK, "deadlock")                                                    \
    X(INTERRUPTED, "interrupted")                                              \
    X(MAX_RUN, "max-run")                                                      \
    X(NOT_FOUND, "not-found")                                                  \
    X(NOT_EXECUTABLE, "not-executable")                                        \
    X(DENIED, "denied")                                                        \
    X(STORE, "store")                                                          \
    X(CONFIG, "config")                                                        \
    X(USAGE, "usage")                                                          \
    X(INTERNAL, "internal")

enum supervisor_why {
#define SUPERVISOR_CAUSE_ENUM_(name, text) SUPERVISOR_CAUSE_##name,
    SUPERVISOR_WHYS(SUPERVISOR_CAUSE_ENUM_)
#undef SUPERVISOR_CAUSE_ENUM_
};

const char *supervisor_why_text(enum supervisor_why);

enum supervisor_on_lost {
    SUPERVISOR_LOST_KILL,
    SUPERVISOR_LOST_SIGNAL,
    SUPERVISOR_LOST_IGNORE
};

/* The options of one run, fixed before the start. */
struct supervisor_rules {
    int64_t ttl;
    int64_t grace;    /* from TERM to KILL */
    int64_t margin;   /* from KILL to the deadline */
    int64_t wait;     /* SUPERVISOR_NEVER: no limit */
    int64_t slack;    /* patience in LEAVING after the wait limit */
    int64_t request;  /* patience for the holder's last message */
    int64_t hold_min; /* 0: none */
    int64_t max_run;  /* 0: none */
    enum supervisor_on_lost on_lost;
    int lost_signal; /* with SUPERVISOR_LOST_SIGNAL */
};

enum supervisor_event_kind {
    SUPERVISOR_EV_GRANT, /* holder: granted; `at` is the deadline */
    /* holder: renewed; `at` is the deadline */
    SUPERVISOR_EV_DEADLINE,
    SUPERVISOR_EV_RISK,   /* holder: at risk; why: the cause */
    SUPERVISOR_EV_LOST,   /* holder: the lock is lost; why: the cause */
    SUPERVISOR_EV_FAILED, /* holder: not acquired, nothing held; code, why */
    /* holder: nothing is held any more; lost: the store said that the grant had
     * ended before */
    SUPERVISOR_EV_RELEASED,
    SUPERVISOR_EV_HOLDER_EOF, /* the holder is dead */
    /* the command itself ended; code, why; others: it left processes behind */
    SUPERVISOR_EV_ENDED,
    /* after ENDED: one of the processes ended, others are left */
    SUPERVISOR_EV_ADOPTED,
    SUPERVISOR_EV_EMPTY, /* the last of the processes is gone */
    SUPERVISOR_EV_TIMER, /* a timer may be due: compare `now` */
    SUPERVISOR_EV_SIGNAL /* the supervisor got the signal `code` */
};

struct supervisor_event {
    enum supervisor_event_kind kind;
    int64_t at;
    int code;
    enum supervisor_why why;
    bool others;
    bool lost;
};

#define SUPERVISOR_DO_START 0x001u /* fork and start the command */
#define SUPERVISOR_DO_TERM  0x002u /* TERM, then CONT, to all processes */
#define SUPERVISOR_DO_KILL  0x004u /* KILL to all processes */
#define SUPERVISOR_DO_SIGNAL                                                   \
    0x008u                         /* send `signal` to the command's process
                                      group */
#define SUPERVISOR_DO_EOF   0x010u /* close the pipe of SNIB_LEASE_FD */
#define SUPERVISOR_DO_LEAVE 0x020u /* tell the holder: leave the queue */
#define SUPERVISOR_DO_RELEASE                                                  \
    0x040u /* tell the holder: all are gone, release the lock */
#define SUPERVISOR_DO_EXIT 0x080u
#define SUPERVISOR_DO_REFUSE                                                   \
    0x2000u /* tell the holder: too late, ask the store again */
/* Texts for stderr; never needed for safety. */
#define SUPERVISOR_SAY_RISK 0x100u
#define SUPERVISOR_SAY_LOST 0x200u
#define SUPERVISOR_SAY_LEFT 0x400u /* the command left processes behind */
#define SUPERVISOR_SAY_UNRELEASED                                              \
    0x800u /* the store has not confirmed the release */
#define SUPERVISOR_SAY_MAX_RUN 0x1000u
#define SUPERVISOR_SAY_LIMIT   0x4000u /* limit over, no cause was told */
#define SUPERVISOR_SAY_HOLDER  0x8000u /* the holder died before the grant */

struct supervisor_actions {
    unsigned todo;
    int signal;
};

struct supervisor {
    struct supervisor_rules rules;
    enum supervisor_state state;
    int64_t started; /* when the wait began */
    int64_t granted;
    int64_t deadline; /* confirmed by the holder */
    /* Wake the supervisor then; SUPERVISOR_NEVER: no need. */
    int64_t timer;
    int64_t kill_at;
    bool killed;
    bool ran;   /* the command was started */
    bool asked; /* INT, QUIT or TERM asked to end: --hold-min is off */
    bool ended; /* the command itself has ended */
    bool lost;
    bool risk;
    bool max_run_over;
    enum supervisor_why risk_why, lost_why;
    /* The outcome so far. */
    int exit;
    bool by_command;
    enum supervisor_why why;
};

/* The margin for this ttl: 100 ms + 1 % of it, but at most a tenth, so that a
 * ttl of a second still leaves time for work and for TERM. */
int64_t supervisor_margin(int64_t ttl);

/* The smaller of 5 s and a third of the ttl. */
int64_t supervisor_default_grace(int64_t ttl);

/* The rules that were asked for, made to fit a lease of `ttl` that another snib
 * run, further up the process tree, holds and renews (0: there is none). Its
 * renewals leave a third of that lease to spare, and that third is all the time
 * there is to stop a command. */
void supervisor_fit(struct supervisor_rules *ret,
                    const struct supervisor_rules *asked, int64_t ttl);

void supervisor_init(struct supervisor *, const struct supervisor_rules *,
                     int64_t now);

/* Take one event. Deliver DEADLINE before TIMER when both are due: a supervisor
 * that was stopped and goes on must first see what the holder has confirmed. */
struct supervisor_actions supervisor_step(struct supervisor *,
                                          const struct supervisor_event *,
                                          int64_t now);

#endif

/* leash_step.h — what the leash does next: a pure function.
 *
 * The leash is the process that the user started with `snib run`. It owns the
 * command; its sibling, the keeper, owns the lock. This header is the whole of
 * the leash's mind: events go in, things to do come out, no system call is
 * made, so that every cell of the table is tested in virtual time
 * (unit.leash_running, unit.leash_ending). leash.c is the body that senses and
 * acts.
 *
 * All instants are CLOCK_BOOTTIME in nanoseconds, all durations nanoseconds.
 */
#ifndef SNIB_CLI_LEASH_STEP_H
#define SNIB_CLI_LEASH_STEP_H

#include <stdbool.h>
#include <stdint.h>

#define LEASH_MS    INT64_C(1000000)
#define LEASH_S     INT64_C(1000000000)
#define LEASH_NEVER INT64_MAX

/* How often KILL is repeated while somebody still is there (a process that
 * was adopted only now, or one that forks faster than we kill). */
#define LEASH_KILL_AGAIN (50 * LEASH_MS)

/* How long after the wait limit the keeper's word may come. */
#define LEASH_SLACK (300 * LEASH_MS)

/* WAITING   for the grant; no command yet
 * LEAVING   the keeper was told to leave the queue; no command will run
 * RUNNING   the command runs under a lease with its stop ahead
 * STOPPING  the lease is not safe (or --max-run is over): TERM sent, KILL due
 * ENDING    the command ended by itself, but left processes behind
 * HOLDING   all are gone, --hold-min is not over
 * GONE      all are gone, the keeper was told to release
 * DONE      nothing left to do                                            */
enum leash_state {
    LEASH_WAITING,
    LEASH_LEAVING,
    LEASH_RUNNING,
    LEASH_STOPPING,
    LEASH_ENDING,
    LEASH_HOLDING,
    LEASH_GONE,
    LEASH_DONE
};

/* Why snib ended: the "cause" in the --status-fd line. */
#define LEASH_WHYS(X)                                                          \
    X(EXITED, "exited")                                                        \
    X(SIGNALLED, "signalled")                                                  \
    X(EXPIRED, "expired")                                                      \
    X(STOLEN, "stolen")                                                        \
    X(UNREACHABLE, "unreachable")                                              \
    X(PAUSED, "paused")                                                        \
    X(REVOKED, "revoked")                                                      \
    X(KEEPER, "keeper-died")                                                   \
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

enum leash_why {
#define LEASH_WHY_ENUM_(name, text) LEASH_WHY_##name,
    LEASH_WHYS(LEASH_WHY_ENUM_)
#undef LEASH_WHY_ENUM_
};

const char *leash_why_text(enum leash_why);

enum leash_on_lost { LEASH_LOST_KILL, LEASH_LOST_SIGNAL, LEASH_LOST_IGNORE };

/* Fixed before the start. */
struct leash_rules {
    int64_t ttl;
    int64_t grace;    /* from TERM to KILL                                 */
    int64_t margin;   /* from KILL to the deadline                         */
    int64_t wait;     /* LEASH_NEVER: for ever                             */
    int64_t slack;    /* the same, when the wait limit is over             */
    int64_t request;  /* patience for the keeper's last word               */
    int64_t hold_min; /* 0: none                                           */
    int64_t max_run;  /* 0: none                                           */
    enum leash_on_lost on_lost;
    int lost_signal; /* for LEASH_LOST_SIGNAL                             */
};

enum leash_event_kind {
    LEASH_EV_GRANT,      /* keeper: ours until at                           */
    LEASH_EV_DEADLINE,   /* keeper: renewed, ours until at                  */
    LEASH_EV_RISK,       /* keeper: a renewal failed; why                   */
    LEASH_EV_LOST,       /* keeper: the lock is not ours any more; why      */
    LEASH_EV_FAILED,     /* keeper: not acquired, nothing held; code, why   */
    LEASH_EV_RELEASED,   /* keeper: nothing held any more; lost: the store
                            said that it had ended before                   */
    LEASH_EV_KEEPER_EOF, /* the keeper is dead                              */
    LEASH_EV_ENDED,      /* the command itself ended; code, why; others: it
                            left processes behind                           */
    LEASH_EV_ADOPTED,    /* somebody of the group died, others are there    */
    LEASH_EV_EMPTY,      /* the last of them is gone                        */
    LEASH_EV_TIMER,      /* the clock says now                              */
    LEASH_EV_SIGNAL      /* code: a signal for us                           */
};

struct leash_event {
    enum leash_event_kind kind;
    int64_t at;
    int code;
    enum leash_why why;
    bool others;
    bool lost;
};

#define LEASH_DO_START   0x001u /* fork and start the command              */
#define LEASH_DO_TERM    0x002u /* TERM, then CONT, to all of them         */
#define LEASH_DO_KILL    0x004u /* KILL to all of them                     */
#define LEASH_DO_SIGNAL  0x008u /* signal to the group                     */
#define LEASH_DO_EOF     0x010u /* close our end of SNIB_LEASE_FD          */
#define LEASH_DO_LEAVE   0x020u /* tell the keeper: leave the queue        */
#define LEASH_DO_RELEASE 0x040u /* tell the keeper: all gone, release      */
#define LEASH_DO_EXIT    0x080u
#define LEASH_DO_REFUSE  0x2000u /* tell the keeper: too late, ask again   */
/* Words for stderr; never needed for safety. */
#define LEASH_SAY_RISK       0x100u
#define LEASH_SAY_LOST       0x200u
#define LEASH_SAY_LEFT       0x400u /* the command left processes behind   */
#define LEASH_SAY_UNRELEASED 0x800u /* release not confirmed               */
#define LEASH_SAY_MAX_RUN    0x1000u
#define LEASH_SAY_LIMIT      0x4000u /* the keeper did not say why         */
#define LEASH_SAY_KEEPER     0x8000u /* it died before the grant           */

struct leash_actions {
    unsigned todo;
    int signal;
};

struct leash {
    struct leash_rules rules;
    enum leash_state state;
    int64_t started; /* when waiting began                                */
    int64_t granted;
    int64_t deadline; /* confirmed by the keeper                           */
    int64_t timer;    /* wake the leash then; LEASH_NEVER: no need         */
    int64_t kill_at;
    bool killed;
    bool ran;   /* the command was started                           */
    bool asked; /* by INT, QUIT or TERM to end: nothing is held on then     */
    bool ended; /* the command itself has ended                      */
    bool lost;
    bool risk;
    bool max_run_over;
    enum leash_why risk_why, lost_why;
    /* The outcome so far. */
    int exit;
    bool by_command;
    enum leash_why why;
};

/* A margin for this ttl: 100 ms + 1 % of it, but at most a tenth, so that a
 * ttl of a second still leaves time for work and for TERM. */
int64_t leash_margin(int64_t ttl);

/* The smaller of 5 s and a third of the ttl. */
int64_t leash_default_grace(int64_t ttl);

/* What was asked for, under a lease of `ttl` that is held and renewed up the
 * tree (0: there is none): a third of that one, which is what its renewals leave
 * to spare, is all the time to stop a command in. */
void leash_fit(struct leash_rules *ret, const struct leash_rules *asked,
               int64_t ttl);

void leash_init(struct leash *, const struct leash_rules *, int64_t now);

/* One event. Deliver DEADLINE before TIMER when both are due: a leash that
 * was stopped and goes on looks first at what the keeper has confirmed. */
struct leash_actions leash_step(struct leash *, const struct leash_event *,
                                int64_t now);

#endif

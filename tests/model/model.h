/* model.h — `snib run`'s processes as a machine whose states can be counted.
 *
 * One struct of bytes contains the supervisor, the holder, the command, the
 * kernel between them, and the store. The supervisor's decisions are the
 * product's own: supervisor_step.c and supervisor_moves.c are linked as they
 * are (supervisor.c unpacks its state, steps, packs). What is around it is written down a second time, by
 * hand: the supervisor's loop (supervisor.c), the holder (holder.c), kernel and
 * store (world.c). There a comment "supervisor.c| text" or "holder.c| text"
 * quotes the line of the product that the code stands for. tests/model/plant
 * --check fails when that line is no longer there: a change of the line has to
 * be made here, too.
 *
 * Times are in ticks, relative to now. Time moves only when no process that can
 * run has anything to do: a process is slow only while it is stopped.
 * Everything that comes from outside may come at any moment. */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/supervisor/supervisor_step.h"

enum {
    NEVER = 127,    /* a time */
    NONE = -128,    /* the time 0 of the product: no deadline yet */
    PAST = -2,      /* all that is earlier counts as this */
    LONG_AGO = -12, /* the same for the start of a grant */
    TO_SUP = 6,
    TO_HOLDER = 8
};

/* The lease, in ticks. TERM is due 4 after the grant, KILL 6, the holder's own
 * KILL 7, the end 8. */
enum {
    TTL = 8,
    GRACE = 2,
    MARGIN = 2,
    REQUEST = 3, /* how long the holder's last message is awaited */
    SLACK = 1,
    LIMIT = 3,    /* of the wait, if it has one */
    HOLD_MIN = 6, /* where there is one */
    MAX_RUN = 5,  /* where there is one */
    OFFER = 2,    /* a grant that nobody takes is withdrawn then */
    PASS_ON = 2,  /* a signal to the holder is passed on then */
    RENEWED = 5,  /* with that much left the next renewal may be sent */
    PATIENCE = 2, /* the holder's, with a cancel or a release */
    EXITED_0 = 0, /* how commands end */
    EXITED_1 = 1,
    BY_TERM = 143,
    BY_KILL = 137,
    NOT_FOUND = 127,
    FAR_OUT = 4 /* disturbances at most */
};

enum runs { RUNS, STOPPED, KILLED, EXITED };

enum signals {
    SIG_HUP = 1,
    SIG_INT = 2,
    SIG_TERM = 4,
    SIG_CHLD = 8,
    SIG_CONT = 16,
    SIG_TSTP = 32
};

/* Where the supervisor is: in poll; then in these steps, in this order. Between
 * any two of them it may be stopped or killed. */
enum sup_at { IN_POLL, AT_CLOCK, AT_SOCKET, AT_SIGNALS, AT_BATCH };

/* start_command(), step by step. */
enum start { NOT_STARTING, TO_FORK, TO_PUBLISH, TO_OPEN_GATE };

enum message {
    NO_MESSAGE,
    MSG_GRANT,
    MSG_RISK,
    MSG_LOST,
    MSG_FAILED, /* with holder_code */
    MSG_RELEASED,
    MSG_RELEASED_LOST,
    MSG_SIG_TERM,
    MSG_LEAVE,
    MSG_RELEASE,
    MSG_STOPPED,
    MSG_HERE
};

enum phase { ACQUIRING, HOLDING, LEAVING };
enum holder_at { LIVES, KILLS, KILLS_MARKED, RELEASES, SEES_RELEASED };
enum after_release { THEN_END, THEN_ASIDE, THEN_ASK_AGAIN };
enum offer { NO_OFFER, OFFERED, TAKEN, WITHDRAWN };
enum group { NO_GROUP, PUBLISHED, TOO_LATE };
enum ask { NOT_ASKED, ASKED, GRANTED };
enum renewal { NOT_RENEWING, SENT, EXECUTED, REFUSED };
enum lock { FREE, ANOTHERS, OURS };
enum leader { NOT_BORN, AT_GATE, RUNNING, ZOMBIE, REAPED };
enum other { NOBODY, ALIVE, OTHER_ZOMBIE };

/* What has happened since the beginning, seen from outside; judge.c. */
enum fact {
    F_RAN = 1,          /* the command was executed */
    F_BOTH_OUT = 2,     /* supervisor and holder were stopped or dead at once */
    F_FORCED = 4,       /* the lock was taken away at the store */
    F_LOST_MAY = 8,     /* there was a reason to report a loss */
    F_LOST_MUST = 16,   /* … and time to report it */
    F_SILENT = 32,      /* a release was not answered */
    F_RAN_OUT_MAY = 64, /* --max-run is over */
    F_RAN_OUT_MUST = 128,
    F_LIMIT = 256, /* the wait's limit was reached */
    F_TERM = 512,  /* the command was told to end */
    F_LOST_SIGNAL = 1024,
    F_TOLD_LOST = 2048, /* the holder told so */
    F_TOLD_RELEASED = 4096,
    F_FAILED_FIRST = 8192, /* the holder's FAILED came before the limit */
    F_KILLED_AT_GATE = 16384,
    F_NOT_FOUND = 32768,
    F_ASKED = 131072,    /* HUP, INT or TERM came to the supervisor */
    F_LEFT = 262144,     /* … and there was time to leave the queue */
    F_TAKEN_AWAY = 65536 /* by force, while the command ran */
};

/* The product's struct supervisor, with times in ticks. */
struct mind {
    uint8_t state, exit, why, risk_why, lost_why, flags;
    int8_t granted, deadline, timer, kill_at;
};

/* All of it is compared and hashed: there is no padding, and what no longer
 * counts is cleared. */
struct world {
    uint32_t facts;
    uint8_t sent; /* signals sent to the supervisor to end it: enum signals */
    uint8_t left; /* disturbances that may still come */
    /* supervisor */
    uint8_t sup, at, start, ctrl_z;
    uint8_t hear_socket, hear_signals, batch, pending;
    uint8_t sup_socket, lease_fd;
    uint8_t reaped, group_gone, term_sent, stopped_self, asked_to_end;
    struct mind mind;
    /* sockets */
    uint8_t to_sup[TO_SUP], to_sup_count, sup_reset;
    uint8_t to_holder[TO_HOLDER], to_holder_count, holder_reset;
    /* the page */
    int8_t page_deadline;
    uint8_t page_group, page_offer;
    /* holder */
    uint8_t holder, phase, holder_at, then, holder_socket;
    uint8_t aside, paused, again, lost, slot_lost, at_risk, holder_code;
    uint8_t told_signal;
    int8_t told_at, slot_deadline, guard_at, offer_at, limit_at, patience_at;
    uint8_t ask, renewal;
    int8_t renewal_at;
    /* store */
    uint8_t lock;
    int8_t lock_end;
    /* command */
    uint8_t leader, leader_stopped, stop_news, gate, code, member, away;
    int8_t age, term_age; /* since the grant was taken; since TERM */
    uint8_t unused[3];
};

/* One experiment: its options, and what may happen in it. */
struct setup {
    const char *name;
    enum supervisor_on_lost on_lost;
    bool hold_min, max_run, limit, fixed, terminal, others, slow, risk;
    int left; /* disturbances */
};

/* model.c: of enum supervisor_state */
extern const char *const mind_text[];

/* setups.c */
extern const struct setup setups[];
extern const size_t setup_count;
extern struct setup setup; /* the one that is explored */
extern struct supervisor_rules rules;
void set_up(const struct setup *);

/* What may happen. Each move from STOP_SUP on costs one of `left`. */
#define MOVES(X)                                                               \
    X(TICK, "a tick passes")                                                   \
    X(SUP_STEP, "supervisor:")                                                 \
    X(HOLDER_HEARS, "holder hears the supervisor")                             \
    X(HOLDER_GRANT, "holder hears of the grant")                               \
    X(HOLDER_LIMIT, "holder: the limit is over")                               \
    X(HOLDER_OFFER_DUE, "holder: nobody took the offer")                       \
    X(HOLDER_EXPIRED, "holder: the lease is over")                             \
    X(HOLDER_GUARD, "holder: time to kill")                                    \
    X(HOLDER_PASS_ON, "holder passes the signal on")                           \
    X(HOLDER_GOES_ON, "holder goes on with what it does")                      \
    X(HOLDER_GIVES_UP, "holder: the cancel was not answered")                  \
    X(CHILD_EXEC, "command is executed")                                       \
    X(CHILD_NOT_FOUND, "command is not found")                                 \
    X(ANOTHER_FREES, "store: another frees the lock")                          \
    X(STORE_GRANTS, "store grants")                                            \
    X(STORE_CANCELS, "store cancels the request")                              \
    X(STORE_REFUSES, "store refuses, 69")                                      \
    X(RENEWAL_SENT, "holder sends a renewal")                                  \
    X(RENEWAL_EXECUTED, "store executes the renewal")                          \
    X(RENEWAL_ANSWERED, "holder hears of the renewal")                         \
    X(RENEWAL_LOST, "holder gives the renewal up")                             \
    X(RELEASE_ANSWERED, "store releases and says so")                          \
    X(RELEASE_SILENT, "store releases and does not say so")                    \
    X(RELEASE_DROPPED, "store does not get the release")                       \
    X(COMMAND_ENDS_0, "command exits 0")                                       \
    X(COMMAND_ENDS_1, "command exits 1")                                       \
    X(COMMAND_ENDS_TERM, "command ends by TERM")                               \
    X(MEMBER_BORN, "command starts another in its group")                      \
    X(AWAY_BORN, "command starts another that leaves the group")               \
    X(MEMBER_ENDS, "the other in the group ends")                              \
    X(AWAY_ENDS, "the other outside of the group ends")                        \
    X(CONT_SUP, "CONT to the supervisor")                                      \
    X(CONT_HOLDER, "CONT to the holder")                                       \
    X(CONT_COMMAND, "CONT to the command")                                     \
    X(STOP_SUP, "STOP to the supervisor")                                      \
    X(KILL_SUP, "KILL to the supervisor")                                      \
    X(STOP_HOLDER, "STOP to the holder")                                       \
    X(KILL_HOLDER, "KILL to the holder")                                       \
    X(STOP_COMMAND, "STOP to the command")                                     \
    X(KILL_COMMAND, "KILL to the command")                                     \
    X(HUP_SUP, "HUP to the supervisor")                                        \
    X(INT_SUP, "INT to the supervisor")                                        \
    X(TERM_SUP, "TERM to the supervisor")                                      \
    X(TSTP_SUP, "TSTP to the supervisor")                                      \
    X(TERM_HOLDER, "TERM to the holder")                                       \
    X(FORCED, "the lock is taken away by force")                               \
    X(FORCED_TOLD, "holder hears that the lock was taken away")

enum move {
#define MOVE_ENUM_(name, text) name,
    MOVES(MOVE_ENUM_)
#undef MOVE_ENUM_
        MOVE_COUNT
};

/* supervisor.c */
void sup_begin(struct world *);
bool sup_can_step(const struct world *);
void sup_step(struct world *);
/* The supervisor is gone, by its own exit or by KILL. */
void sup_gone(struct world *, enum runs how);

/* holder.c */
void holder_begin(struct world *);
bool holder_can(const struct world *, enum move);
void holder_do(struct world *, enum move);
bool holder_tell(struct world *, enum message);
void holder_gone(struct world *, enum runs how);

/* same.c: a number made of all that supervisor_step() is given and answers. */
void same_begin(void);
void same_init(const struct supervisor *);
void same_step(const struct supervisor *before, const struct supervisor_event *,
               const struct supervisor *behind, struct supervisor_actions);
/* All states of a setup were visited. */
void same_end(const char *setup_name, int disturbances);
void same_record(const char *file);
void same_compare(const char *file);
/* False: differences were printed. all: each setup was visited. */
bool same_close(bool all);

/* world.c */
bool world_can(const struct world *, enum move);
void world_do(struct world *, enum move);
bool urgent(const struct world *);
void end_leader(struct world *, int code);
void group_signal(struct world *, int sig);
void group_kill(struct world *);
void away_kill(struct world *);
/* Is a process of the command alive, which could do harm? */
bool anybody(const struct world *);
/* May another client hold the lock? */
bool not_ours(const struct world *);

/* judge.c */

/* The first thing that is wrong with this state, or with the move that led
 * here; NULL: nothing. */
extern const char *wrong;
extern int exit_status; /* of the exit just judged; -1: there was none */
void judge_move(struct world *, enum move);
void judge_tick(struct world *);
void judge_kill(struct world *);
void judge_term(struct world *);
void judge_exit(struct world *);
void judge_release(struct world *);
/* Nothing more can happen, and nothing has to. */
bool is_end(const struct world *);

#define WRONG(text) (wrong = wrong != NULL ? wrong : (text))

#endif

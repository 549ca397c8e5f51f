/* sim/plan.h — a world's options and faults. They are data, drawn before the
 * run from streams of random numbers of their own, and kept in scenarios as
 * text. */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIM_FAULTS 64

enum sim_fault_kind {
    SIM_CUT,        /* a client's connection breaks; a: client, b: which */
    SIM_LOSE_REPLY, /* the next reply on it is lost after execution */
    SIM_HALF_OPEN,  /* nothing passes any more, nobody is told */
    SIM_PAUSE,      /* a client stands still for `ms` */
    SIM_CRASH,      /* a client dies; a new process takes its place */
    SIM_FREEZE,     /* the server stands still for `ms` */
    SIM_RESTART,    /* the server restarts with its data, down for `ms` */
    SIM_WIPE,       /* the server restarts empty, down for `ms` */
    SIM_SCRIPT_FLUSH,
    SIM_FLUSHALL,
    SIM_STEP_BACK,    /* the server's wall clock steps back by `ms` */
    SIM_STEP_FORWARD, /* … forward by `ms` */
    SIM_ERROR,        /* error class a (enum sim_redis_fault) for `ms` */
    SIM_SLOW,         /* latency * 50 for `ms` */
    SIM_EVICT,  /* all keys of name a are evicted; of recovery: the epoch */
    SIM_JUMP,   /* a client's REALTIME jumps; the engine is told */
    SIM_REFUSE, /* connecting is refused for `ms` */
    /* Bytes on their way to the server arrive `ms` late, and nothing comes
     * back: late copies of an acquire or a renewal. */
    SIM_LATE,
    SIM_ISOLATE, /* a client cannot reach the server for `ms` */
    /* A replica that is `ms` behind takes over. In a world of a failover the old
     * primary goes on for a ms more; b 1: it stands still from the beginning of
     * these `ms`, and wakes when another has taken over; b 2: it is the primary
     * again, and connections stay. */
    SIM_PROMOTE,
    /* These are not drawn but where a world is about them (rare.c). */
    SIM_DENY,    /* a right is lost: to a, one of sim_denied; b 1: the server
                    does not know the command any more */
    SIM_SLEEP,   /* nobody asks for anything new for `ms` */
    SIM_FOREIGN, /* somebody writes under the keys of name b: a (sim_foreign) */
    /* In worlds of witnesses only (witness.c). */
    SIM_EXEC,      /* a client's process calls exec, and ends `ms` later */
    SIM_MAIN_ENDS, /* its main thread ends, others go on */
    /* In worlds of etcd only (sim/etcd). */
    SIM_APART,   /* a member does not reach the others for `ms` */
    SIM_LEADER,  /* another member leads from now on */
    SIM_UNWATCH, /* a member ends all watches */
    SIM_GOAWAY, /* … asks its clients to go; a odd: it looks at nothing more */
    SIM_FAULT_KINDS,
    SIM_FAULTS_DRAWN = SIM_DENY
};

/* The commands of which one may be taken from the login. Not PEXPIRE: scripts
 * would stop behind their first write (store/redis/errors.c). */
enum { SIM_DENIED = 4 };
extern const char *const sim_denied[SIM_DENIED];

/* What somebody else writes. */
enum sim_foreign {
    SIM_MARK_TYPE, /* the mark is of another type */
    SIM_MARK_LAST, /* … has given its last id */
    SIM_MARK_WORN, /* … is some seconds ahead, and gave a thousand ids there */
    SIM_THIN_DAMAGED, /* a thin record is none any more */
    SIM_THIN_FOREVER, /* … has no time to live */
    SIM_TOKEN_FAR,    /* the token memory is days ahead of the clock */
    SIM_FOREIGNS
};
#define SIM_FAR_MS (INT64_C(10) * 86400000)

/* As the client of a fault: the one that holds a lock at that instant. */
enum { SIM_HOLDER = 99 };

struct sim_fault {
    int64_t at_ms;
    int kind, a, b;
    int64_t ms;
};

struct sim_options {
    uint64_t seed;
    int clients, owners, names, ops; /* operations of each owner */
    int64_t lease_ms, latency_us, hold_us, think_us, request_ms;
    int64_t limit_ms; /* callers with a limit: up to this */
    int try_pct, timed_pct, fixed_pct, reenter_pct, confirm_pct, nopass_pct;
    int overrun_pct;        /* sections longer than their lease */
    int rate_ppm;           /* clocks differ by up to this */
    int split_pct;          /* segments are split */
    int flavour;            /* enum sim_flavour: what the locks are */
    int read_pct, nest_pct; /* RW: readers; the other kind besides */
    int size, params_pct;   /* permits or parties; changes of the params */
    int delay_ms, prio_pct; /* lock-delay; claims not of the ordinary class */
    int many_pct, all_pct; /* batches of several names; of those, all or none */
    int mixed;             /* every second name is a read/write lock; where all
                              are, writers ask for mutexes */
    int searched;          /* clients scan for deadlocks */
    int force_pct;         /* grants near which somebody forces a release */
    int spin, spin_pct;    /* enum sim_spin; clients that spin */
    int nodes;             /* servers of a quorum; 0, 1: no quorum */
    int node_ms;           /* … and the patience for one of them */
    int64_t apart_ms;      /* their clocks differ by up to this */
    int far_node;          /* the clock of this one is days ahead; 0: none */
    int circle_pct;        /* sections that take another lock inside */
    int skew_ms; /* … and clients' wall clocks differ by up to this */
    int value_pct, keep_ms; /* work on values; how long they are kept */
    int churn_pct;          /* … created and removed, not updated */
    int again_ms;           /* … asked again so late; 0: not */
    int leave_pct;          /* … whose caller does not wait for it */
    int look_pct;           /* inspect who holds, and do nothing */
    int64_t lease2_ms;      /* the lease of every second caller; 0: none */
    int renew_pct;          /* steps of a section that renew by hand */
    int keeper_pct,
        keeper_ms; /* acquires that keep what they release; so long */
    int whole; /* each lock is taken by a script, free or not               */
    int list; /* the URL names two servers, one of which is the primary       */
    int witness;         /* each client has a witness */
    int64_t recovery_ms; /* ?recovery=, of all clients; 0: without            */
    int unaware; /* … but the first                                           */
    int replicas; /* ?replicas=1, of all clients: enum sim_third; 0: without  */
    int failover; /* a replica is behind the primary, and may be promoted    */
    int table, workers; /* the store is a table; threads of a client at it */
    int sql;            /* … of a database */
    int etcd;           /* … a cluster of so many members; 0: it is not */
    int fault_count;
    struct sim_fault fault[SIM_FAULTS];
};

/* What the server does that is neither of the two primaries (failover.c). */
enum sim_third {
    SIM_THIRD_GOES_OVER = 1,
    SIM_THIRD_STAYS,
    SIM_THIRD_LAGS /* goes over; before that it gets nothing either */
};

/* The kinds of locks of a world. */
enum sim_flavour {
    SIM_MUTEX,
    SIM_RW,
    SIM_PERMITS,
    SIM_BARRIER,
    SIM_LATCH, /* mutexes behind a latch, closed and counted down */
    SIM_FLAVOURS
};

/* Which callers spin instead of queueing. */
enum sim_spin {
    SIM_SPIN_NONE,         /* only spin_pct of the clients */
    SIM_SPIN_ALL,          /* all: ?wait=spin */
    SIM_SPIN_UNRESPONSIVE, /* … on a server without channels */
    SIM_SPINS
};

void sim_options_draw(struct sim_options *, uint64_t seed);
/* Are mutexes often free when they are asked for? */
bool sim_calm(const struct sim_options *);
/* The text form: one "key value" or "fault …" a line. Reading answers false and
 * a message in why. */
void sim_options_print(const struct sim_options *, FILE *);
bool sim_options_read(struct sim_options *, FILE *, char *why, size_t size);
const char *sim_fault_name(int kind);

#endif

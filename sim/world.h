/* sim/world.h — the deterministic world: who is in it and what it can do.
 *
 * Everything real about snib runs here unchanged: the engine (src/core), the
 * Redis store (src/store/redis) and its Lua scripts; or the adapter of blocking
 * stores and a snapshot of a table's rows (src/core). Modelled are time, clocks,
 * the network, the server (sim/server, or sim/table.h) and the threads of
 * callers and workers.
 *
 * Only the world and the theorems know true time, `w->t` (ns). A process reads
 * its own clock, whose offset and rate differ. While it is paused it does
 * nothing, but its clock goes on (CLOCK_BOOTTIME). A seed decides everything.
 * Each subsystem draws from a stream of its own, so that taking one fault out
 * of a plan does not shift the rest. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "core/engine.h"
#include "core/witness.h"
#include "sim/plan.h"
#include "sim/seen.h"
#include "sim/server/redis_model.h"
#include "sim/told.h"

#define SIM_MS      INT64_C(1000000)
#define SIM_CLIENTS 8
#define SIM_OWNERS  6
/* Clients of a world of witnesses, at most; their witnesses are the clients
 * behind them. */
#define SIM_WITNESSES (SIM_CLIENTS / 2)
#define SIM_NAMES     4
#define SIM_ACQS      (SIM_OWNERS * (1 + SIM_NAMES)) /* … and those of a batch */
#define SIM_WIRE_UP   64
#define SIM_NODES     5 /* servers of a quorum */
#define SIM_CONNS     3 /* connections to each */
#define SIM_WIRES     (SIM_NODES * SIM_CONNS)

/* -- events ---------------------------------------------------------------- */

enum sim_event_kind {
    SIM_EV_NONE,
    SIM_EV_FAULT,   /* a: index */
    SIM_EV_TIMER,   /* client: engine due */
    SIM_EV_OWNER,   /* client, a: owner */
    SIM_EV_UP,      /* bytes for the server */
    SIM_EV_DOWN,    /* bytes for a client */
    SIM_EV_OPENED,  /* a connection is made */
    SIM_EV_CLOSED,  /* the client learns that its connection is gone */
    SIM_EV_GONE,    /* the server learns it */
    SIM_EV_PROMOTE, /* the replica takes over */
    SIM_EV_PARAMS,  /* healed: client a opens the latches */
    SIM_EV_MANY,    /* client, a: owner that wants several names */
    SIM_EV_FORCE,   /* client force-releases name a */
    SIM_EV_WITNESS, /* of the witness of client: witness.c */
    SIM_EV_ENDS,    /* the process of client, which has called exec */
    SIM_EV_DEMOTE,  /* the old primary hears that another was promoted */
    SIM_EV_MEMBERS, /* of a cluster of etcd: who takes part? */
    SIM_EV_LEASE,   /* … lease a may be over */
    SIM_EV_SQL      /* of a database: session a has waited long */
};

struct sim_event {
    int64_t at;
    uint64_t seq;
    int kind, client, a, node;
    uint32_t wire; /* which connection; 0: none */
    uint32_t life; /* the client's life it belongs to */
    uint8_t *bytes;
    size_t size;
};

/* -- people ---------------------------------------------------------------- */

enum sim_wire_state { SIM_WIRE_NONE, SIM_WIRE_CONNECTING, SIM_WIRE_OPEN };

struct sim_wire { /* a client's end of a connection */
    int state;
    uint32_t id;     /* unique over the run */
    int server_conn; /* 0: none */
    int node;        /* the server to which it leads, in a world of a list */
    bool half_open, lose_reply;
    int64_t late; /* ns by which the way to the server is delayed */
    int64_t last_up, last_down; /* streams stay in order */
};

enum sim_owner_state {
    SIM_OWNER_IDLE,
    SIM_OWNER_WAITING,
    SIM_OWNER_HOLDING,
    SIM_OWNER_NESTING, /* holds, and waits for the other kind besides */
    SIM_OWNER_ENDING,
    SIM_OWNER_DIRECT, /* a value, an inspect: direct.h */
    SIM_OWNER_DONE,
    SIM_OWNER_MANY /* has to do with several names: see struct sim_many */
};

/* The locks that an owner has inside its first one, and wants there
 * (work_circles.c). */
enum { SIM_INSIDE = 2, SIM_GRANTS = 2 + SIM_INSIDE };
struct sim_grant {
    struct snib__acquisition *acq;
    int name;
};
struct sim_inner {
    struct snib__acquisition *acq;
    uint64_t ticket;
    int64_t token, read_value;
    int name, kind;
    bool again; /* a re-entry: the acquisition is an earlier one's */
};
struct sim_nest {
    struct sim_inner in[SIM_INSIDE];
    int depth, wishes;
    bool unwinding; /* refused with DEADLOCK: all goes back */
    bool asks;      /* it waits for `name`, `kind` */
    bool upgrade;   /* … to write what it reads */
    /* NULL: not settled yet */
    struct snib__acquisition *wait;
    int name, kind;
    int64_t since;       /* true time of the wait */
    int64_t circle_at;   /* last seen in a circle, since then; 0: never */
    int64_t youngest_at; /* … as the one that is to give up */
    uint64_t circle;     /* which one: a number of its waits and edges */
};

struct sim_owner {
    int state, ops_left, name, reentries;
    uint64_t owner, ticket;
    int64_t token, read_value, asked_at, limit_at; /* true time; 0: none */
    bool is_try, overran; /* overran: it has outstayed a lease, at most once */
    bool nested;          /* … and asks for the other kind */
    int kind;
    int64_t size_seen;  /* largest size since it asked */
    int64_t entered_at; /* true time */
    struct snib__acquisition *acq;
    struct snib__acquisition *more; /* the other grant, or what waits for it */
    int64_t more_token, more_value;
    int64_t more_entered_at;
    struct sim_nest nest; /* in worlds of circles */
    struct snib_error error;
    char id[33], more_id[33]; /* which grants these are */
    /* In worlds with forced releases: were they force-released? */
    const struct sim_forced *forced, *more_forced;
    struct sim_releasing releasing; /* what it gave back last */
    struct sim_shown shown[SIM_GRANTS];
    /* The lease that it wants of its acquisition. */
    int64_t lease_ms;
    int64_t longest_ms; /* … and the longest that it wanted in this section */
    struct sim_by_hand by_hand;
    uint64_t waits_by[2];   /* the request by which it waits; 0: none */
    bool spins;             /* asks again and again */
    int64_t unqueued_since; /* it should stand in the queue; 0: it does */
    int64_t behind;         /* when it last waited behind its client */
    int64_t granted_since;  /* it waits, and its grant stands; 0: it does not */
};

/* One name of a batch. Its acquisition belongs to a struct sim_owner of its own
 * among those after the callers (sim_part()), with the engine's owner of its
 * caller. */
struct sim_part {
    char id[33];        /* its request, if it joined the batch */
    bool asked, joined; /* in this batch */
    snib_err err;       /* why it was not granted */
};

/* The state of an owner that wants several names as one, as with the library's
 * multi. */
struct sim_many {
    enum {
        SIM_MANY_TRY,  /* names from `from` on were asked for as one */
        SIM_MANY_WAIT, /* waits for one that was missed, in its queue */
        SIM_MANY_HOLD, /* has all: the section */
        SIM_MANY_BACK  /* gives back */
    } phase;
    /* what follows */
    enum { SIM_MANY_AGAIN, SIM_MANY_QUEUE, SIM_MANY_END } next;
    enum snib__batch_way way;
    /* held: so many names, from the first on, are ours */
    int count, held, from;
    int open;   /* answers awaited */
    int missed; /* the name to wait for */
    int rounds;
    bool all;   /* all or none, at once */
    bool apart; /* one failed on the way: the others are CANCELLED */
    /* It takes names in the order that all others use, and keeps what stands
     * before a miss. */
    bool ordered;
    int64_t limit_at, due; /* true time; limit_at 0: none */
    struct sim_part part[SIM_NAMES];
};

struct sim_client {
    struct snib__engine *engine;
    struct sim_driver *driver;  /* of a client at a table; NULL: it has none */
    struct sim_sql_client *sql; /* … in a database */
    struct snib__local_lock *local[SIM_NAMES];
    struct sim_wire wire[SIM_WIRES]; /* SIM_CONNS for each server */
    struct sim_owner owner[SIM_ACQS];
    struct sim_many many[SIM_OWNERS];
    int64_t offset, ppm, paused_until, timer_at;
    int64_t isolated_until[SIM_NODES]; /* from that server */
    uint32_t life;                     /* counts crashes */
    bool dead;
    struct snib__registry *registry; /* in a world of witnesses */
    const uint64_t *identity;        /* of a witness: whose it is; else NULL */
    bool execed, main_ended;         /* of its process; of a witness: through */
    struct snib__direct params;      /* a change of params under way */
    bool params_busy;
    char hex[33]; /* its id, as the server shows it */
    struct {
        int64_t from, to; /* the last scan for circles, at the server */
        int64_t before;   /* end of the one before that */
        int64_t length;   /* of that one; 0: on another connection */
        int conn;
    } look;
    struct snib__direct force; /* a forced release under way */
    bool force_busy;
    int64_t force_at; /* … since then */
    int spins;        /* enum sim_spinner */
    /* 0: it does not listen; it is not deaf. */
    int64_t listens_since, unresponsive_since;
    uint64_t heard_faults; /* applied until then */
    bool listened;         /* it listened once for long enough to know of it */
};

/* The witness of one life of a client. */
struct sim_witness {
    struct snib__registry *registry; /* NULL: there is none */
    struct snib__witness is;
    uint32_t life;
    char hex[33];  /* the client's id */
    int64_t since; /* it ends what is left, since then */
};

/* A client of which a witness has ended all, since then. */
enum { SIM_GONES = 16 };
struct sim_gone {
    char hex[33];
    int64_t since;
};

/* A resource behind a fence: owners raise the mark before the first read, and
 * compare with it at the write. If value is not accepted, an update was
 * lost. */
struct sim_resource {
    int64_t mark, value, accepted, refused;
    int64_t last_token;  /* highest token of any grant */
    int64_t free_since;  /* waiters and a free lock since then; -1: no */
    int64_t ghost_since; /* waiters, held at the server, by nobody here */
    int64_t held_at;     /* last seen held, after a script; 0: never */
    int64_t freed_at;    /* found free by a script since then; 0: it is not */
    int64_t damaged_at;  /* somebody wrote at its holders' key; 0: no */
    int64_t mended_at;   /* … and a force was answered first then */
    int64_t busy_since;  /* who tries was told so, held by nobody; 0: no */
    /* A grant pushed to a client that does not want it; 0: none. */
    int64_t unwanted_since;
    uint64_t unwanted_faults;
    int unwanted_client;
    char unwanted[32];
};

#include "sim/books.h"

/* One server: a Redis, a table, or a member of a cluster of etcd. */
struct sim_server {
    struct sim_world *world;
    struct sim_redis *redis;            /* NULL: it is none */
    struct sim_table *table;            /* NULL: it is none */
    struct sim_etcd_member *etcd;       /* NULL: it is none */
    struct sim_redis_snapshot *replica; /* for the fault promote */
    int64_t paused_until, down_until, refuse_until, slow_until;
    int64_t step_us, ppm; /* of its wall clock */
    bool is_old;          /* a primary beside the one that was promoted */
    struct sim_packet packet;
};

/* What a client keeps of a name: since when, and since when beside a waiter, in
 * true time; 0: it does not. */
struct sim_keeping {
    int64_t since, beside;
    uint64_t faults; /* applied before that */
};

/* Which grants it was told to give back. */
enum { SIM_TOLD_KEEPER = 32 };
struct sim_keeper {
    struct sim_keeping name[SIM_NAMES];
    char told[SIM_TOLD_KEEPER][SIM_ID];
    uint32_t tolds;
};

/* The last grant of the store, and when that was. */
struct sim_given {
    char id[SIM_ID];
    int64_t at;
};

struct sim_world {
    struct sim_options opt;
    int64_t t;
    uint64_t seq, events, hash;
    uint64_t same; /* of what servers and callers see: sim/same.c */
    struct sim_event *heap;
    size_t heap_size, heap_cap;
    struct snib__rng net, work, misc;
    struct sim_client client[SIM_CLIENTS];
    struct sim_witness witness[SIM_WITNESSES], late[SIM_WITNESSES];
    struct sim_gone gone[SIM_GONES];
    uint32_t gones; /* so far */
    struct sim_resource resource[SIM_NAMES];
    struct sim_queue queue_at[SIM_NAMES];
    struct sim_shelf shelf[SIM_NAMES];
    struct sim_server node[SIM_NODES];
    int nodes; /* 1, or the servers of a quorum */
    /* In a world of a list: which of the URL's two names leads to the primary,
     * node 0; the other one leads to a replica, node 1, that has nothing. */
    int named;
    int wires; /* … and a client's connections to them */
    /* Owners that do something. opt.owners of this world also counts those that
     * stand for the names of batches (work_many.c). */
    int callers;
    int64_t wall_base_us;
    struct sim_stand stand[SIM_NODES][SIM_NAMES];
    struct sim_memory memory[SIM_NODES][SIM_NAMES];
    struct sim_forgotten forgotten[SIM_NAMES][SIM_FORGOTTEN];
    uint32_t forgotten_count[SIM_NAMES];
    struct sim_ended ended[SIM_NODES][SIM_ENDED];
    uint32_t ended_count[SIM_NODES];
    struct sim_forced forced[SIM_NAMES][SIM_FORCED];
    int forced_count[SIM_NAMES];
    struct sim_told told;
    struct sim_spinning spinning[SIM_SPINNING];
    uint32_t spinning_count;
    /* with a spinning caller beside it; 0: no */
    int64_t spin_free_since[SIM_NAMES];
    /* a position that nobody wants; 0: no */
    int64_t spin_left_since[SIM_NAMES];
    uint32_t no_memory[SIM_NAMES]; /* servers that lost the token memory */
    uint32_t touched;              /* servers that faults are about */
    bool minor; /* all faults are those of a minority of the servers */
    struct sim_party party[SIM_PARTIES];
    uint32_t parties; /* so far */
    struct sim_circle circle[SIM_CIRCLES];
    struct sim_past past[SIM_PASTS];
    int pasts; /* so far */
    struct sim_edge edge[SIM_CLIENTS * SIM_OWNERS][SIM_CLIENTS * SIM_OWNERS];
    struct sim_keeper keeper[SIM_CLIENTS];
    struct sim_given given[SIM_NAMES];
    uint64_t entries; /* without a request, of what was kept */
    uint32_t next_wire;
    bool two_primaries; /* at once, at some time */
    int64_t demoted_at; /* the older one is none since then; 0: never */
    int64_t forgot_at;  /* acknowledged grants, in a world of recovery */
    int64_t closed_at;  /* last seen to let nobody in anew */
    struct sim_epoch {
        char id[41];
        int64_t till; /* ms of the server's clock; 0: there is none */
    } epoch;          /* of the server, when it was looked at last */
    bool p1_off;      /* the store lost or forgot: exclusion not promised */
    bool died;        /* a process crashed: its leases must run out */
    bool p2_off;      /* clock behind and data lost: tokens may fall */
    int64_t looked_at;
    bool healed;
    int64_t healed_at;
    int64_t asleep_until;  /* nobody asks for anything new before that */
    int64_t trouble_until; /* end of the last fault so far */
    uint64_t grants, losses, refusals, unknowns;
    uint64_t faults; /* applied so far */
    bool failed;
    char theorem[48], why[400];
    FILE *trace;                 /* timeline; NULL: none */
    struct sim_directs *directs; /* values and inspects; NULL: none */
    struct sim_etcd *etcd;       /* in a world of etcd; else NULL */
};

#include "sim/parts.h"
#include "sim/theorems/theorems.h"

#endif

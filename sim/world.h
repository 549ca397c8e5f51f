/* sim/world.h — the deterministic world: who is in it and what it can do.
 *
 * Everything real about snib runs here unchanged: the engine (src/core), the
 * Redis store (src/store/redis) and its Lua scripts. Modelled are time, clocks,
 * the network, the server (sim/server) and the callers' threads.
 *
 * Only the world and the theorems know true time, `w->t` (ns). A process reads
 * its own clock, whose offset and rate differ. While it is paused it does
 * nothing, but its clock goes on (CLOCK_BOOTTIME). A seed decides everything.
 * Each subsystem draws from a stream of its own, so that taking one fault out
 * of a plan does not shift the rest. */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "core/engine.h"
#include "sim/plan.h"
#include "sim/server/redis_model.h"
#include "sim/told.h"

#define SIM_MS      INT64_C(1000000)
#define SIM_CLIENTS 8
#define SIM_OWNERS  6
#define SIM_NAMES   4
#define SIM_ACQS    (SIM_OWNERS * (1 + SIM_NAMES)) /* … and those of a batch */
#define SIM_WIRE_UP 64
#define SIM_NODES   5 /* servers of a quorum */
#define SIM_CONNS   3 /* connections to each */
#define SIM_WIRES   (SIM_NODES * SIM_CONNS)

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
    SIM_EV_FORCE    /* client force-releases name a */
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
    struct snib__local_lock *local[SIM_NAMES];
    struct sim_wire wire[SIM_WIRES]; /* SIM_CONNS for each server */
    struct sim_owner owner[SIM_ACQS];
    struct sim_many many[SIM_OWNERS];
    int64_t offset, ppm, paused_until, timer_at;
    int64_t isolated_until[SIM_NODES]; /* from that server */
    uint32_t life;                     /* counts crashes */
    bool dead;
    struct snib__direct params; /* a change of params under way */
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
    int spins; /* enum sim_spinner */
    /* 0: it does not listen; it is not deaf. */
    int64_t listens_since, unresponsive_since;
    uint64_t heard_faults; /* applied until then */
    bool listened;         /* it listened once for long enough to know of it */
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
    /* A grant pushed to a client that does not want it; 0: none. */
    int64_t unwanted_since;
    uint64_t unwanted_faults;
    int unwanted_client;
    char unwanted[32];
};

/* The waiters for a name, in order of arrival at the server. */
struct sim_queue {
    char key[48], holder[32], id[SIM_WIRE_UP][32], given_id[32];
    int64_t given; /* highest token the server gave */
    int n;
};

/* A script about one lock, recognised by how many arguments the event has:
 * EVALSHA, the script, "7", seven keys, then those at the head of the .lua
 * file. (A release with a tombstone has the tombstone's key besides:
 * sim_args.) */
enum sim_script {
    SIM_SCRIPT_NONE,
    SIM_SCRIPT_FORCE = 3 + 7 + 1, /* names no client, no request */
    SIM_SCRIPT_CANCEL = 3 + 7 + 3,
    SIM_SCRIPT_RELEASE = 3 + 7 + 4,
    SIM_SCRIPT_PARAMS = 3 + 7 + 5,
    SIM_SCRIPT_ACQUIRE = 3 + 7 + 16
};
enum { SIM_ARG_KEY = 3, SIM_ARG_CLIENT = 10, SIM_ARG_REQUEST = 11 };

/* -- what the server knows of a name, read after every script -------------- */

enum { SIM_BOOK = 64, SIM_ID = 32 };

struct sim_holder {
    char id[SIM_ID], client[SIM_ID], upgrade_of[SIM_ID];
    int mode; /* 0 mutex, 1 read, 2 write, 3 permits, 4 barrier */
    int64_t permits, token, end, delay; /* ms of the server's clock */
    int64_t reserve;                    /* tokens reserved behind its own */
    int64_t slot;                       /* of permits; -1: none */
};

struct sim_waiter {
    char id[SIM_ID], upgrade_of[SIM_ID], conn[48];
    int mode, class;
    double rank;
    bool queued; /* it was not put aside as unresponsive */
    int64_t permits, alive;
    uint64_t arrival; /* as told by the order of scripts */
    int64_t since;    /* when it began to wait, by its client's clock */
};

struct sim_book {
    int holders, waiters;
    int64_t size, gate, now; /* size -1: none */
    struct sim_holder holder[SIM_BOOK];
    struct sim_waiter waiter[SIM_BOOK];
};

/* One lock of a script of several locks. */
enum { SIM_BATCH = 8 };
struct sim_part_step {
    struct sim_redis_event ev; /* as if acquire.lua had been asked */
    struct sim_redis_arg argv[SIM_SCRIPT_ACQUIRE];
    int name;
    int64_t code, token; /* of its reply; the token if it was granted */
    bool looked_at;      /* it is not behind the first that was refused */
};
struct sim_batch {
    int count, missed; /* the first that was refused; -1: none */
    bool all;
    struct sim_part_step part[SIM_BATCH];
};

/* A name's last book, and what theorems remember besides. */
struct sim_shelf {
    struct sim_book book;
    uint64_t number; /* of this book; rises with each */
    uint64_t arrivals;
    int64_t given, given_exclusive; /* highest tokens */
    int64_t fits_since, ghost_since;
    char down[16][SIM_ID]; /* count-downs that were applied */
    uint32_t downs;
    bool opened; /* healed, and the latch is open */
};

/* A script on a name, and the name before and after it. */
struct sim_step {
    enum sim_script script; /* NONE: a renewal */
    const struct sim_redis_event *ev;
    int name;
    const struct sim_book *was, *is;
};

/* -- grants that were ended by force --------------------------------------- */

enum { SIM_FORCED = 256, SIM_SPINNING = 512 };

struct sim_forced {
    char id[SIM_ID], client[SIM_ID];
    int mode;
    int64_t token, end; /* as the server had it, ms of its clock */
    int64_t said;       /* when it was ended, ms of the same clock */
    int64_t at;         /* true time */
    uint64_t faults;    /* applied before it */
    bool heard;         /* its client listened, on sound connections */
    bool listened;      /* … or has done so before */
    int64_t answered;   /* a renewal was told it soundly; 0: not yet */
};

/* A request that is asked again and again, as the server sees it. */
struct sim_spinning {
    char id[SIM_ID];
    int64_t at;   /* when it was executed last */
    int64_t left; /* ms of the first holder's lease, as it was told */
    int asks;
};

/* -- what the servers of a quorum know of a name --------------------------- */

/* The grant at one server. */
struct sim_stand {
    char id[SIM_ID], client[SIM_ID];
    int64_t token, end;  /* ms of the server's clock; end 0: there is none */
    int64_t stray_since; /* nobody's grant, as far as is known; 0: it is */
};

/* The token memory of one server, and what it was before the grant that raised
 * it last. */
struct sim_memory {
    int64_t is, was;
    char by[SIM_ID];
};

/* A grant that servers lost by a fault, not by its end. */
struct sim_forgotten {
    char id[SIM_ID];
    uint32_t nodes; /* which, as bits */
    uint32_t early; /* … and were there again before its lease was over */
};
enum { SIM_FORGOTTEN = 64, SIM_ENDED = 32 };

/* A request that was cancelled at a server: it may not be granted any more. */
struct sim_ended {
    char id[SIM_ID];
    int64_t at;
};

/* A request of a party of a barrier: sim/theorems/barrier.c. */
struct sim_party {
    char id[SIM_ID];
    int client, owner; /* owner -1: its caller has its answer */
    /* Of the generation with which it was counted; 0: not yet. */
    int64_t token;
    int64_t earlier[4]; /* … before, when its claim lease ran out unheard */
    bool ended;         /* … which its own cancel has ended */
    bool told_no;       /* its caller was told that it is not counted */
};
enum { SIM_PARTIES = 128 };

/* The waits that there are in truth now: sim/circles.c. */
enum { SIM_WAITS = 48, SIM_CIRCLES = 16 };
struct sim_wait {
    char id[SIM_ID];
    int name;
    uint64_t owners;     /* that wait by this request, as bits */
    uint64_t ever;       /* … or ever waited */
    bool ghost;          /* none of them waits now */
    uint64_t hold, wire; /* waits of its holders' owners; waits ahead */
    uint64_t reach;      /* along the edges that are sure */
    int64_t since;
};
/* The grants that the owner of a wait had when it was last seen waiting. */
struct sim_past {
    char id[SIM_ID], grant[SIM_GRANTS][SIM_ID];
    int name, grants;
    uint64_t owners;
    int64_t over; /* in the queue but nobody's wait, since then; or 0 */
};
enum { SIM_PASTS = 64 };
struct sim_circle {
    uint64_t mark; /* a number of its waits and edges; 0: none */
    int64_t since, again;
    uint64_t seen;    /* at which event */
    uint64_t refused; /* owners, as bits */
};

/* An owner waits for another that holds a name, or stands ahead: when it was
 * last seen. */
struct sim_edge {
    int64_t held[SIM_NAMES], ahead[SIM_NAMES];
};

/* One Redis server. */
struct sim_server {
    struct sim_world *world;
    struct sim_redis *redis;
    struct sim_redis_snapshot *replica; /* for the fault promote */
    int64_t paused_until, down_until, refuse_until, slow_until;
    int64_t step_us, ppm; /* of its wall clock */
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
    struct sim_resource resource[SIM_NAMES];
    struct sim_queue queue_at[SIM_NAMES];
    struct sim_shelf shelf[SIM_NAMES];
    struct sim_server node[SIM_NODES];
    int nodes; /* 1, or the servers of a quorum */
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
    uint32_t next_wire;
    bool p1_off; /* the store lost or forgot: exclusion not promised */
    bool died;   /* a process crashed: its leases must run out */
    bool p2_off; /* clock behind and data lost: tokens may fall */
    int64_t looked_at;
    bool healed;
    int64_t healed_at;
    int64_t trouble_until; /* end of the last fault so far */
    uint64_t grants, losses, refusals, unknowns;
    uint64_t faults; /* applied so far */
    bool failed;
    char theorem[48], why[400];
    FILE *trace;                 /* timeline; NULL: none */
    struct sim_directs *directs; /* values and inspects; NULL: none */
};

enum sim_script sim_script(const struct sim_redis_event *);
/* The arguments of a script, as seen behind seven keys: SIM_ARG_CLIENT and on
 * (not of a forced release). */
const struct sim_redis_arg *sim_args(const struct sim_redis_event *);
/* The request that the script is for; spaces: none. */
const char *sim_request_of(const struct sim_redis_event *);

/* world.c */
struct sim_lua;
/* Run one world to its end. True: all theorems held. */
bool sim_run(struct sim_world *, const struct sim_options *, struct sim_lua *,
             FILE *trace);
void sim_push(struct sim_world *, struct sim_event);
/* The name that has this key, with that tail; -1: none. */
int sim_name_of(const struct sim_world *, const char *key, const char *tail);
int64_t sim_local(const struct sim_client *, int64_t t);
int64_t sim_true(const struct sim_client *, int64_t own_time);
/* The time by a client's clock. */
static inline snib_instant sim_now(const struct sim_world *w, int client)
{
    return (snib_instant){sim_local(&w->client[client], w->t)};
}
static inline int sim_upto(struct snib__rng *r, int n)
{
    return (int)snib__rng_below(r, (uint64_t)n);
}
static inline bool sim_chance(struct sim_world *w, int pct)
{
    return sim_upto(&w->work, 100) < pct;
}
int64_t sim_wall_us(const struct sim_world *, int node);
void sim_fail(struct sim_world *, const char *theorem, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void sim_note(struct sim_world *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* net.c */
/* takes what the engine wants sent */
void sim_net_drive(struct sim_world *, int client);
void sim_net_event(struct sim_world *, const struct sim_event *);
void sim_net_server_out(struct sim_world *, int node);
void sim_net_break(struct sim_world *, int client, int conn);
void sim_net_break_all(struct sim_world *, int node);
void sim_net_drop_client(struct sim_world *, int client);

/* client.c */
bool sim_client_start(struct sim_world *, int client);
void sim_client_stop(struct sim_world *, int client);
void sim_client_after(struct sim_world *, int client); /* after every step */
void sim_client_timer(struct sim_world *, int client);
void sim_client_input(struct sim_world *, int client, int conn,
                      enum snib__input_kind, const void *, size_t);

/* work.c */
void sim_owner_event(struct sim_world *, int client, int owner);
void sim_owner_told(struct sim_world *, int client, struct snib__acquisition *,
                    uint8_t news);
bool sim_work_done(const struct sim_world *);
void sim_owner_done(struct sim_world *, int client, int owner);

/* direct.c, work_values.c, work_inspect.c: what owners do besides locking */
void sim_directs_draw(struct sim_options *);
void sim_directs_start(struct sim_world *);
void sim_directs_end(struct sim_world *);
void sim_directs_stop(struct sim_world *, int client);
/* An owner has nothing to do. True: it makes a direct request instead of
 * locking. */
bool sim_direct_start(struct sim_world *, int client, int owner);
void sim_direct_event(struct sim_world *, int client, int owner);
void sim_direct_told(struct sim_world *, struct snib__direct *);
void sim_directs_step(struct sim_world *, const struct sim_redis_event *);
/* Just after a fault: which values it cost. */
void sim_directs_fault(struct sim_world *, const struct sim_fault *);

/* work_kinds.c: what owners do with other locks than plain mutexes */
bool sim_kinds(const struct sim_world *);
void sim_kinds_ask(struct sim_world *, struct sim_owner *,
                   struct snib__acquire_spec *);
bool sim_kinds_reenters(const struct sim_owner *);
/* Change the params, now and then. */
void sim_kinds_start(struct sim_world *, int client);
/* Upgrade, nested read, downgrade. True: the owner's event was for that. */
bool sim_kinds_nest(struct sim_world *, int client, int owner);
void sim_kinds_told(struct sim_world *, int client, int owner, uint8_t news);
void sim_kinds_entered(struct sim_world *, int client, int owner);
void sim_kinds_directs(struct sim_world *, int client);
void sim_kinds_open(struct sim_world *, int client);
void sim_kinds_draw(struct sim_options *);
void sim_owner_wake(struct sim_world *, int client, int owner, int64_t us);
void sim_owner_write(struct sim_world *, int name, int64_t token,
                     int64_t read_value);

/* work_lease.c: leases of two lengths, and renewals by hand */
void sim_lease_draw(struct sim_options *);
/* The lease that a caller asks for, in ms. */
int64_t sim_lease_ask(struct sim_world *);
/* The shortest lease that anybody asks for, and the longest. */
int64_t sim_lease_least(const struct sim_options *);
int64_t sim_lease_most(const struct sim_options *);
/* True: the owner's event was for a renewal. */
bool sim_lease_renew(struct sim_world *, int client, int owner);

/* work_many.c: several names as one */
/* always: in every world, not in some only. */
void sim_many_draw(struct sim_options *, bool always);
/* Begin with several names, by chance. False: the owner takes one name. */
bool sim_many_start(struct sim_world *, int client, int owner);
void sim_many_event(struct sim_world *, int client, int owner);
void sim_many_told(struct sim_world *, int client, int owner,
                   struct snib__acquisition *, uint8_t news);
/* The index of the owner that has the acquisition of its k-th name. */
int sim_part(const struct sim_world *, int owner, int k);

/* several.c: the script of a batch. False: it is none. */
bool sim_several(const struct sim_world *, const struct sim_redis_event *,
                 struct sim_batch *);
/* work_circles.c: locks inside locks, in any order */
void sim_circles_draw(struct sim_options *);
bool sim_circles(const struct sim_world *);
/* Is this name a plain mutex, in a world where names differ? */
bool sim_circles_plain(const struct sim_world *, int name);
/* True: the owner's event was for that. */
bool sim_circles_nest(struct sim_world *, int client, int owner);
/* An event of an owner that waits inside. */
void sim_circles_meanwhile(struct sim_world *, int client, int owner);
/* True: the acquisition is not the owner's first. */
bool sim_circles_told(struct sim_world *, int client, int owner,
                      struct snib__acquisition *, uint8_t news);
/* The name that an owner asks for, if it asks for any. */
int sim_wants(const struct sim_owner *);
/* Does it wait, and has it not given up yet? */
bool sim_still_waits(const struct sim_owner *);
/* All grants that an owner has while it holds or nests; returns how many. */
int sim_grants(const struct sim_owner *, struct sim_grant ret[SIM_GRANTS]);
void sim_owner_give_back(struct sim_world *, int client, int owner,
                         uint64_t ticket);

/* circles.c: the waits and edges that there are; returns how many waits. A wait
 * is in a circle if it reaches itself. ghosts: include waits that are still in
 * the queue but whose owners have given up or died. */
int sim_waits(struct sim_world *, bool ghosts, struct sim_wait ret[SIM_WAITS]);
/* At each event: note who waits by which request, and with what, for the
 * ghosts. */
void sim_waits_note(struct sim_world *);
/* The waits that reach wait i and are reached from it, as bits. */
uint64_t sim_waits_set(const struct sim_wait *, int count, int i);
/* The wait of such a set that is to give up. */
int sim_waits_youngest(const struct sim_wait *, int count, uint64_t set);
uint64_t sim_waits_mark(const struct sim_wait *, int count, uint64_t set);
/* work_force.c: forced releases, and callers that spin */
static inline bool sim_force(const struct sim_world *w)
{
    return w->opt.force_pct > 0;
}
static inline bool sim_spin(const struct sim_world *w)
{
    return w->opt.spin || w->opt.spin_pct;
}
enum sim_spinner { SIM_QUEUES, SIM_SPINS_ALWAYS, SIM_SPINS_OR_QUEUES };
void sim_force_draw(struct sim_options *);
/* A client begins: does it spin? */
void sim_force_begin(struct sim_world *, int client);
/* Deny channels, also when all else is healed. */
void sim_force_deafen(struct sim_world *);
bool sim_spin_ask(struct sim_world *, int client, struct sim_owner *);
/* Something was granted at the server: somebody may force-release it soon. */
void sim_force_soon(struct sim_world *, int name);
void sim_force_now(struct sim_world *, int client, int name);
void sim_force_told(struct sim_world *, int client, struct snib__direct *);
/* An owner has entered: which grant is that, and was it force-released
 * already? */
void sim_force_entered(struct sim_world *, int client, int owner, bool more);

/* book.c: the server's books */
void sim_book_read(const struct sim_world *, int name, struct sim_book *);
void sim_book_step(struct sim_world *, const struct sim_redis_event *);
/* The store lost or forgot: books begin anew with what is there now. */
void sim_book_again(struct sim_world *);
/* All that stands now is over sooner than was promised. */
void sim_book_lapse(struct sim_world *);
/* Did that grant stand when the store lost or forgot? */
bool sim_lapsed(const struct sim_world *, int name, const char *id);
bool sim_same(const char *id, const char *other);
bool sim_alone(int mode); /* exclusive */
bool sim_live(const struct sim_holder *, int64_t now);
const struct sim_holder *sim_holder_of(const struct sim_book *, const char *id);
const struct sim_waiter *sim_waiter_of(const struct sim_book *, const char *id);
/* Is this grant new in this step? (One that was over may be given again.) */
bool sim_is_new(const struct sim_step *, const struct sim_holder *);
/* The first in the queue that is alive, heard of, and would fit; or NULL. */
const struct sim_waiter *sim_book_fits(const struct sim_world *,
                                       const struct sim_book *);

/* quorum.c */
void sim_quorum_draw(struct sim_options *);
/* Does this seed mean a world of a quorum? */
bool sim_quorum_drawn(uint64_t seed);
void sim_quorum_start(struct sim_world *);
/* A script has run at a server. */
void sim_quorum_step(struct sim_world *, int node,
                     const struct sim_redis_event *);
/* Call both around a fault at a server. A grant that stood there before and
 * does not stand afterwards is noted as forgotten. */
void sim_quorum_before(struct sim_world *, int node);
void sim_quorum_after(struct sim_world *, int node, const struct sim_fault *);
int sim_majority(const struct sim_world *);
/* The servers at which a grant stands, as bits. */
uint32_t sim_stands(const struct sim_world *, int name, const char *id);
bool sim_stand_live(const struct sim_world *, int node, int name);
/* The servers that have lost it by a fault. */
struct sim_forgotten sim_lost_at(const struct sim_world *, int name,
                                 const char *id);
/* The servers whose token memory has reached this token, but not by the grant
 * itself, as bits. */
uint32_t sim_remember(const struct sim_world *, int name, int64_t token,
                      const char *id);
void sim_acquisition_id(const struct snib__acquisition *, char ret[33]);
static inline bool sim_quorum(const struct sim_world *w)
{
    return w->nodes > 1;
}

/* plan.c */
void sim_fault_apply(struct sim_world *, int index);
void sim_promote(struct sim_world *, int node);
void sim_heal(struct sim_world *);
/* Is there a fault of that kind in the plan? */
bool sim_planned(const struct sim_world *, int kind);

#include "sim/theorems/theorems.h"

#endif

/* judge.h — what may be answered; the head of program.c says by what rules. */
#ifndef THREADS_JUDGE_H
#define THREADS_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "sched.h"
#include "snib.h"
#include "snib/event.h"

enum {
    CLIENTS = 4,
    ACTORS = 10,
    STEPS = 12,
    LETTERS = 9,
    BOTH_A = 7, /* the handles of a and b that x takes as one              */
    BOTH_B = 8,
    NAMES = 4,
    CANDIDATES = CLIENTS + ACTORS,
    GROUPS = 32,
    WRITES = 64,
    SIZE_T = 3, /* permits of t                                             */
    LEASE_MS = 30000
};

/* name, text, letters behind the dot ("": none, it is the client's) */
#define OF_LOCKS "abnrcst"
#define VERBS(X)                                                               \
    X(ACQUIRE, "acquire", OF_LOCKS "x")                                        \
    X(WAIT5, "wait5", OF_LOCKS "x")                                            \
    X(TRY, "try", OF_LOCKS "x")                                                \
    X(DRAIN, "drain", "st")                                                    \
    X(RELEASE, "release", OF_LOCKS "x")                                        \
    X(RENEW, "renew", OF_LOCKS)                                                \
    X(STATUS, "status", OF_LOCKS)                                              \
    X(EXPLAIN, "explain", OF_LOCKS)                                            \
    X(INSPECT, "inspect", OF_LOCKS)                                            \
    X(FORCE, "force", OF_LOCKS)                                                \
    X(EXPIRE, "expire", OF_LOCKS)                                              \
    X(FREE, "free", OF_LOCKS)                                                  \
    X(START, "start", OF_LOCKS "x")                                            \
    X(START5, "start5", OF_LOCKS "x")                                          \
    X(CANCEL, "cancel", OF_LOCKS "x")                                          \
    X(TAKE, "take", OF_LOCKS "x")                                              \
    X(DROP, "drop", OF_LOCKS "x")                                              \
    X(SET, "set", "l")                                                         \
    X(DOWN, "down", "l")                                                       \
    X(AWAIT, "await", "l")                                                     \
    X(AWAIT5, "await5", "l")                                                   \
    X(MEET, "meet", "m")                                                       \
    X(MEET5, "meet5", "m")                                                     \
    X(CAMPAIGN, "campaign", "eo")                                              \
    X(CAMPAIGN5, "campaign5", "eo")                                            \
    X(RESIGN, "resign", "eo")                                                  \
    X(WATCH, "watch", "eo")                                                    \
    X(LEADS, "leads", "eo")                                                    \
    X(GET, "get", "v")                                                         \
    X(PUT, "put", "v")                                                         \
    X(UPDATE, "update", "v")                                                   \
    X(LOSE, "lose", "")                                                        \
    X(CLOSE, "close", "")                                                      \
    X(STOP, "stop", "")                                                        \
    X(FORK, "fork", "")                                                        \
    X(PROCESS, "process", "")                                                  \
    X(SLEEP5, "sleep5", "")                                                    \
    X(CUT, "cut", "")

typedef enum verb {
#define VERB(name, text, of) VERB_##name,
    VERBS(VERB)
#undef VERB
        VERB_COUNT
} verb;

extern const char *const verb_text[VERB_COUNT];

struct step {
    verb verb;
    int letter; /* of a handle; -1                                         */
    char thing; /* what stands behind the dot; 0                           */
};

struct actor;

/* A start, from its call to its event. */
struct start {
    struct handle *of;
    struct actor *actor_of;
    bool drops; /* a release                                               */
    bool done;  /* its event is DONE                                       */
    bool open, answered, cancelled;
    bool freed; /* its handle was                                          */
    uint32_t events;
    uint64_t ticket;
    int64_t since, limit;
    uint32_t warps, forces; /* so often time had been pushed, the name forced */
    struct snib_event ev;
};

/* A thread's handle, and what it was granted through it. */
struct handle {
    struct snib_lock *lock;
    int name;
    bool reads, permits;
    bool calling; /* its callback runs                                     */
    bool owner;   /* granted to an owner of its own, by a start              */
    bool wants;   /* its owner has or wants the lock                       */
    struct snib_grant grant;
    uint32_t count; /* holds                                               */
    uint32_t permits_held;
    uint32_t forces; /* of its name, when it was granted                   */
    int64_t since;
    struct start start, drop;
};

struct actor {
    int client, steps;
    struct step step[STEPS];
    struct handle handle[LETTERS];
    verb now; /* the call it is in                                         */
    struct handle *waits_for;
    int64_t began, limit; /* of the wait                           */
    uint32_t warps, forces, others, came; /* when the call began           */
    bool shut;    /* its client was closed by then         */
    bool lost_ok; /* what it gives back may be lost        */
    bool live;    /* its thread has begun                  */
    int thread;   /* as the scheduler calls it             */
    struct snib_multi *both;
    bool both_cancelled;
    struct start both_start, both_drop; /* started: see multis.c             */
    struct snib_grant both_grants[2];
    uint32_t both_forces[2];
    struct candidate *candidate; /* in whose name it calls now              */
    int64_t seen_term;           /* by watch                                */
    bool ended;                  /* somebody has resigned its campaign      */
    int64_t version, number;     /* of the value, as last seen              */
};

/* One candidate of the election e: of a client, or of one thread. */
struct candidate {
    struct snib_elect *elect;
    int client;
    int64_t term; /* which it leads, as told; 0                            */
    int64_t gone; /* which it has resigned                                 */
    int64_t since;
    bool unsure; /* a campaign and a resignation have met                  */
    uint32_t campaigns, begun; /* under way, ever begun                    */
    uint32_t resigning, resigns;
    bool telling; /* its callback runs                                     */
    int told;     /* snib_elect_state                                      */
    int64_t told_term;
};

/* What is changed by several: so far begun or ended, under way. */
struct traffic {
    uint32_t moves, under_way;
};

struct world {
    const char *text;
    bool slow, far, word, pull, closed, redis, narrow;
    uint64_t seeds;
    struct snib_client *stranger, *client[CLIENTS];
    struct {
        bool closing, stopping, closed;
    } shut[CLIENTS];
    int actors;
    struct actor actor[ACTORS];
    struct {
        uint32_t wanted; /* owners that have or want it                    */
        uint32_t came;   /* how many ever came to want it                  */
        uint32_t forces, forcing; /* so far begun and ended; under way     */
        bool expired; /* made to, behind the backs of its owners           */
        bool blurred; /* something of it goes on in the background         */
        int64_t token;
        bool used;
    } name[NAMES];
    struct {
        struct traffic traffic;
        uint32_t inside[CLIENTS]; /* who awaits it                          */
        bool passed[CLIENTS];     /* what passed is given back in its time  */
    } latch;
    struct {
        uint32_t inside, unsure;
        uint32_t inside_of[CLIENTS];
        bool passed[CLIENTS];
        int64_t highest;
        uint32_t groups;
        struct {
            int64_t number;
            uint32_t met;
        } group[GROUPS];
    } barrier;
    struct candidate candidate[CANDIDATES];
    int64_t last_term;
    struct {
        struct traffic traffic;
        bool used;
        int64_t latest;
        uint32_t done, unknown, writes, lost, tries;
        struct {
            int64_t expected, version, number;
        } write[WRITES];
    } value;
};

const char *judge_name(const struct handle *);

void judge_asks(struct world *, struct actor *, struct handle *,
                int64_t wait_ms);
void judge_acquired(struct world *, struct actor *, struct handle *, snib_err,
                    struct snib_grant, const char *text);
void judge_gives_back(struct world *, struct actor *, struct handle *);
void judge_released(struct world *, struct actor *, struct handle *, snib_err,
                    const char *text);
void judge_renewed(struct world *, struct actor *, struct handle *, snib_err);
void judge_status(struct world *, struct actor *, struct handle *,
                  const struct snib_status *, const char *explained);
void judge_answer(struct world *, struct actor *, verb, snib_err);
void judge_forces(struct world *, struct handle *, bool silently);
void judge_frees(struct world *, struct actor *, struct handle *);
void judge_starts(struct world *, struct actor *, struct handle *,
                  int64_t wait_ms);
void judge_started(struct world *, struct actor *, struct handle *, snib_err,
                   uint64_t ticket);
void judge_drops(struct world *, struct actor *, struct handle *);
void judge_dropped(struct world *, struct actor *, struct handle *, snib_err);
void judge_event(struct world *, const struct snib_event *);
void judge_took(struct world *, struct actor *, struct handle *);
void judge_took_drop(struct world *, struct actor *, struct handle *);
void judge_closes(struct world *, int client, bool stop);
void judge_all_answered(struct world *);

/* For the rules beside these. */
_Noreturn void judge_wrong(const struct world *, const struct actor *,
                           const char *call, snib_err, const char *why);
int judge_index(const struct world *, const struct actor *);
bool judge_was_late(snib_err, uint32_t warps);
/* When a call begins. A push of time may have ended a connection, so later
 * calls of a server's client feel it, too. */
uint32_t judge_warps(const struct world *);
void judge_timeout(const struct world *, const struct actor *, const char *call,
                   int64_t limit, uint32_t warps);
void judge_granted(struct world *, struct actor *, struct handle *,
                   struct snib_grant, bool owner, uint32_t forces);
const char *judge_bad_end(const struct world *, const struct actor *,
                          const struct handle *, snib_err);
void judge_wants(struct world *, struct handle *, bool yes);
/* A wait for a handle's lock begins; for something that is no handle. */
void judge_begin(struct world *, struct actor *, struct handle *,
                 int64_t wait_ms);
void judge_limits(struct world *, struct actor *, int64_t wait_ms);
void judge_drained(struct world *, struct actor *, struct handle *, snib_err);

/* quiet.c: nobody can run, and time is about to move. */
void judge_quiet(struct world *);

/* books.c: what the space memory: has. After each call of this thread: what the
 * judge knows to be held is held there, until the told deadline at least, and
 * where nobody of a client holds or wants a name the client has nothing. */
void books_check(const struct world *, const struct actor *);
/* For the trace, and the number of the run: what each client counts. */
void books_say(const struct world *);
/* And what its lines do: before a failure. */
void books_say_lines(const struct world *);
/* Has this client a claim there that waits or holds? */
bool books_has(const struct world *, int client, const char *name);
bool books_holds(const struct world *, int client, const char *name);
/* Steps that the latch has to go. */
int64_t books_gate(const struct world *, const char *name);

#endif

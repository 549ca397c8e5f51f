/* judge.h — what may be answered; the head of program.c says by what rules. */
#ifndef THREADS_JUDGE_H
#define THREADS_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "sched.h"
#include "snib.h"

enum {
    CLIENTS = 4,
    ACTORS = 10,
    STEPS = 12,
    LETTERS = 6,
    NAMES = 3,
    LEASE_MS = 30000
};

#define VERBS(X)                                                               \
    X(ACQUIRE, "acquire")                                                      \
    X(WAIT5, "wait5")                                                          \
    X(TRY, "try")                                                              \
    X(RELEASE, "release")                                                      \
    X(RENEW, "renew")                                                          \
    X(STATUS, "status")                                                        \
    X(EXPLAIN, "explain")                                                      \
    X(INSPECT, "inspect")                                                      \
    X(FORCE, "force")                                                          \
    X(EXPIRE, "expire")                                                        \
    X(FREE, "free")                                                            \
    X(START, "start")                                                          \
    X(START5, "start5")                                                        \
    X(CANCEL, "cancel")                                                        \
    X(TAKE, "take")                                                            \
    X(DROP, "drop")                                                            \
    X(CLOSE, "close")                                                          \
    X(STOP, "stop")                                                            \
    X(FORK, "fork")                                                            \
    X(PROCESS, "process")                                                      \
    X(SLEEP5, "sleep5")

typedef enum verb {
#define VERB(name, text) VERB_##name,
    VERBS(VERB)
#undef VERB
        VERB_COUNT
} verb;

static inline bool verb_is_of_client(verb v)
{
    return v >= VERB_CLOSE;
}

struct step {
    verb verb;
    int letter; /* of a handle; -1                                         */
};

struct actor;

/* A start, from its call to its event. */
struct start {
    struct handle *of;
    struct actor *owner;
    bool drops; /* a release                                               */
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
    bool lane;    /* granted to a lane of its own, by a start              */
    bool wants;   /* its owner has or wants the lock                       */
    struct snib_grant grant;
    uint32_t count;  /* holds                                               */
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
};

struct world {
    const char *text;
    bool slow, pull;
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
        uint32_t forces;
        bool expired; /* made to, behind the backs of its owners           */
        bool blurred; /* something of it goes on in the background         */
        int64_t token;
    } name[NAMES];
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
/* Nobody can run, and time is about to move. */
void judge_quiet(struct world *);

#endif

/* side.h — one of the two stores that are compared: its clients, in a time that
 * passes only when the test says so.
 *
 * RULES is the memory store, the rules of a lock in C. LUA is the Redis store
 * on a model server, which runs the scripts. A history asks both for the same
 * at the same instant, by the table that the core uses (core/store.h). No
 * timer of a store ever fires: the test says which waiter polls, and when. */
#ifndef SNIB_TESTS_LUA_RULES_SIDE_H
#define SNIB_TESTS_LUA_RULES_SIDE_H

#include "core/store.h"

enum { RULES, LUA, SIDES };
/* The virtual clock of memory: where it begins, and its wall clock's zero. */
#define START_MS INT64_C(1000000)
#define EPOCH_MS INT64_C(1700000000000)

enum { CLIENTS = 4, CHAIN = 4, HEARD = 32 };

/* A request on one side, with the places where its answer goes. */
struct asked {
    struct snib__request r;
    struct snib_error error;
    struct snib__buf rows;
    bool owned; /* started, and not answered for good */
    bool told;  /* answered since the step began */
};

/* Ids of grants that a client was told of: ended by force, or kept and wanted
 * (the rules say both alike). */
struct heard {
    uint64_t ended[HEARD][2];
    uint32_t count;
};

struct side {
    const char *name;
    void (*open)(void);
    void (*close)(void);
    void (*pass)(int64_t ms);
    snib_instant (*now)(void);
    /* One client starts these, as one chain. All have an answer afterwards. */
    void (*ask)(int client, struct asked *const *, int count);
    /* A request that waits asks again. */
    void (*poll)(int client, struct asked *);
    /* What was sent to this client unasked reaches it, or is lost. */
    void (*hear)(int client, bool lost, struct heard *);
};

extern const struct side side_rules, side_lua;

/* The id of a client, the same on both sides. */
static inline void side_client_id(int client, uint64_t ret[2])
{
    ret[0] = UINT64_C(0xc11e) << 48 | (uint64_t)client;
    ret[1] = (uint64_t)client;
}

/* Make it ready to be asked, with an empty answer. */
void side_prepare(struct asked *);

#endif

/* sim/seen.h — what a store did, said alike of all stores.
 *
 * Theorems judge by these words, by the books (what stands there: sim/books.h)
 * and by what clients are told; they know of no script, key or message. Two
 * files say them: redis_seen.c for each command that the Redis model has
 * executed, and table.c for each fetch or write at the model of a table. */
#ifndef SIM_SEEN_H
#define SIM_SEEN_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_ID = 32 };

/* What was asked of the store, or what it did by itself. */
enum sim_deed {
    SIM_DID_OTHER,
    SIM_DID_ACQUIRE,
    SIM_DID_RENEW,
    SIM_DID_RELEASE,
    SIM_DID_CANCEL,
    SIM_DID_FORCE,
    SIM_DID_PARAMS,
    SIM_DID_KEEP,      /* a node of a quorum: brought in line */
    SIM_DID_INSPECT,   /* one lock */
    SIM_DID_LIST,      /* began to walk all locks */
    SIM_DID_LIST_ON,   /* … went on */
    SIM_DID_VALUE_GET, /* a versioned value */
    SIM_DID_VALUE_PUT, /* … put or deleted */
    SIM_DID_TELL       /* told a client that its waiter was granted */
};

/* The answer that it gave, be it that nobody hears it. */
enum sim_said {
    SIM_SAID_ERROR,   /* refused for a reason of the server: nothing was done */
    SIM_SAID_FAILED,  /* … of one lock of several */
    SIM_SAID_GRANTED, /* ACQUIRE */
    SIM_SAID_QUEUED,
    SIM_SAID_HELD,    /* by another, and it was not queued */
    SIM_SAID_LATE,    /* it came too late */
    SIM_SAID_ENDED,   /* ACQUIRE: the request was cancelled. RELEASE, CANCEL: a
                       grant was ended by it */
    SIM_SAID_OVER,    /* another of several was refused */
    SIM_SAID_REVOKED, /* RENEW, RELEASE: it was force-released */
    SIM_SAID_DONE,
    SIM_SAID_NO,
    SIM_SAID_FORGOTTEN /* VALUE_PUT: too late to tell */
};

/* One request for one lock, and what became of it. Of ids the first SIM_ID
 * letters count; "": there is none. */
struct sim_seen {
    enum sim_deed deed;
    enum sim_said said;
    int name;    /* which lock; -1: none of this world's */
    int conn;    /* at the server; 0: none */
    int class;   /* ACQUIRE: lower ones are served first */
    bool resent; /* RELEASE: leaves a tombstone. VALUE_PUT: is a repeat */
    /* It changed nothing; its answer was true at the instant `at`. */
    bool looked;
    int64_t at; /* true time */
    char client[SIM_ID + 1], request[SIM_ID + 1];
    int64_t token;    /* RENEW, RELEASE: of the grant that they name */
    int64_t prior;    /* ACQUIRE, CANCEL: the own grant to be ended; 0: none */
    int64_t lease_ms; /* RENEW; 0: it only asks */
    /* The token of the grant (ACQUIRE, TELL); the version (values). */
    int64_t given;
    int64_t left_ms; /* HELD: of the first holder; 0: none */
    /* The clock by which it was decided, ms of the store's; 0: the present
     * one. */
    int64_t now_ms;
    int64_t count; /* FORCE: how many were ended */
    /* True time at which the clock was read by which tokens are drawn, where that
     * is the client's; 0: it is the store's. */
    int64_t decided;
};

enum { SIM_PARTS = 128 };

/* A transaction that is being executed: its acquires, and when each ends. */
struct sim_packet {
    int count;
    int64_t end[SIM_PARTS];
    struct sim_seen part[SIM_PARTS];
};

/* One step of a server, of which nobody sees a half. */
struct sim_act {
    int node;
    /* Locks are changed that it does not name: all are looked at. */
    bool everywhere;
    /* Several locks as one; all: or none. missed: the first that was refused;
     * -1: none. */
    bool several, all;
    int missed;
    int count;
    struct sim_seen part[SIM_PARTS];
};

#endif

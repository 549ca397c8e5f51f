/* sim/books.h — what servers know of a name, read after every step, and what
 * theorems remember of it. Included by sim/world.h, whose types these are part
 * of. */
#ifndef SIM_BOOKS_H
#define SIM_BOOKS_H

#include "sim/world.h"

/* The waiters for a name, in order of arrival at the server. */
struct sim_queue {
    char holder[32], id[SIM_WIRE_UP][32], given_id[32];
    int64_t given; /* highest token the server gave */
    /* The last grant without a script, and its token, which only its reply
     * tells. */
    char thin_id[32];
    int64_t thin;
    int n;
};

/* -- what the store knows of a name, read after every step ----------------- */

enum { SIM_BOOK = 64, SIM_BATCH = 8 };

struct sim_holder {
    char id[SIM_ID], client[SIM_ID], upgrade_of[SIM_ID];
    int mode; /* 0 mutex, 1 read, 2 write, 3 permits, 4 barrier */
    int64_t permits, token, end, delay; /* ms of the store's clock */
    int64_t reserve;                    /* tokens reserved behind its own */
    int64_t slot;                       /* of permits; -1: none */
    int64_t
        sure; /* the store ends it no sooner; 0: it says nothing but `end` */
    int listener; /* of a database: the connection that is told of it; or 0 */
    bool untold;  /* the server does not know the token; the book does */
    bool thin;    /* it stands there as its own record, not in the hash */
};

struct sim_waiter {
    char id[SIM_ID], client[SIM_ID], upgrade_of[SIM_ID];
    char channel[48]; /* of Redis: how it is told */
    int mode, class;
    double rank;
    bool queued; /* it was not put aside as unresponsive */
    int64_t permits, alive;
    uint64_t arrival; /* as told by the order of steps */
    int64_t since;    /* when it began to wait, by its client's clock */
};

struct sim_book {
    int holders, waiters;
    int64_t size, gate, now; /* size -1: none */
    struct sim_holder holder[SIM_BOOK];
    struct sim_waiter waiter[SIM_BOOK];
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

/* A step on a name, and the name before and after it. */
struct sim_step {
    const struct sim_seen *by; /* OTHER: not known, or another name's */
    int name;
    const struct sim_book *was, *is;
};

/* -- grants that were ended by force --------------------------------------- */

enum { SIM_FORCED = 256, SIM_SPINNING = 512 };

struct sim_forced {
    char id[SIM_ID], client[SIM_ID];
    char was[SIM_ID]; /* its request, also when that may be granted anew */
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
    int64_t earlier[4]; /* … before, when its push lease ran out unheard */
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

#endif

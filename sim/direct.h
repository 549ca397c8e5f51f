/* sim/direct.h — what owners do besides locking: they work on versioned values
 * (work_values.c) and inspect locks that others hold (work_inspect.c).
 *
 * A struct sim_direct is a direct request of the engine, with what led to it
 * and what follows. Next to it is what the theorems know: each change (a put or
 * a delete, one id) that was ever asked for, what the server has under each
 * name by the order of its scripts, and what it was seen to answer. All this is
 * allocated only in worlds that have direct requests, so that the others stay
 * as small as they were. */
#ifndef SIM_DIRECT_H
#define SIM_DIRECT_H

#include "sim/world.h"

enum {
    SIM_VALUE_BYTES = 48,
    SIM_READS = 256, /* answers to reads that are remembered */
    SIM_MARKS = 64,  /* changes of a name that are remembered */
    SIM_VIEWS = 32,  /* answers to an inspect that are remembered */
    SIM_PARAMS_SEEN = 64
};

struct sim_bytes {
    int size;
    char text[SIM_VALUE_BYTES]; /* "<counter> <who wrote it>" */
};

/* A script's answer to a change. */
struct sim_reply {
    int64_t at, version;
    enum sim_said said;
};

/* A put or a delete: one id, however often it is sent. */
struct sim_change {
    char id[SIM_ID + 1];
    int name;
    bool remove, counts; /* counts: it adds one to what was read */
    int64_t expected, keep_ms;
    struct sim_bytes bytes;
    int64_t born;  /* true time */
    int64_t until; /* no copy is sent after this */
    int64_t floor; /* highest version its client had been told */
    int64_t number;
    uint32_t applied; /* how often, as far as the store remembers */
    bool noted;       /* the store wrote down that it was refused */
    bool refused;     /* its caller was told that it is not applied */
    /* The store lost its data since this was asked for, or the value must be
     * absent and the store's clock was set. */
    bool hazy;
    uint32_t replies;
    struct sim_reply reply[8];
};

/* A change, or a refusal that was noted (number 0), in order. */
struct sim_mark {
    int64_t at, number;
};

/* The answer to a read. */
struct sim_read {
    int64_t at, version;
    struct sim_bytes bytes;
};

/* A name's value by the order of scripts. */
struct sim_value {
    int64_t version; /* 0: absent */
    struct sim_bytes bytes;
    int64_t expires_ms; /* by the server's clock */
    int64_t top;        /* highest number ever given */
    int64_t lost_at;    /* when its memory was lost; 0: never */
    uint64_t memory;    /* a hash of its text */
    bool slept;         /* its time was over, and nobody had read it */
    uint32_t marks, reads;
    struct sim_mark mark[SIM_MARKS];
    struct sim_read read[SIM_READS];
};

/* The state of a name at the server when it answered an inspect. */
struct sim_view {
    int64_t at, token;
    bool closed; /* nobody was let in anew (recovery.c) … */
    bool epoch;  /* … which also who does not ask for it is told */
    struct sim_book book;
};

struct sim_term {
    int64_t token;
    char id[SIM_ID], client[SIM_ID];
};

/* All that observers were shown of a name. */
struct sim_sight {
    int64_t highest; /* exclusive token shown so far */
    uint32_t params, views;
    struct sim_term term[SIM_PARAMS_SEEN];
    struct sim_view view[SIM_VIEWS];
};

enum sim_direct_plan {
    SIM_UPDATE, /* read, compute, put; again until it is done */
    SIM_CREATE, /* put; the value must be absent */
    SIM_REMOVE, /* read, delete */
    SIM_STALE,  /* put or delete a version that was replaced long ago */
    SIM_READ,
    SIM_LOOK
};

struct sim_direct {
    struct snib__direct q;
    int client, owner, name;
    enum sim_direct_plan plan;
    bool busy;         /* the engine has the request */
    bool again;        /* pausing before a repeat of the same request */
    bool late;         /* it was repeated long after its patience ended */
    int rounds;        /* how often another was first */
    int change;        /* of a put or delete: its index; -1: none */
    int64_t asked;     /* true time of this request */
    int64_t leave_at;  /* its caller waits no longer than this; 0: it does */
    snib_instant last; /* last instant for repeats */
    int64_t highest;   /* inspect: highest shown before it was asked */
    int64_t old[SIM_NAMES]; /* a version seen long ago */
    struct sim_bytes bytes;
};

struct sim_directs {
    struct sim_direct direct[SIM_CLIENTS][SIM_OWNERS];
    int64_t told[SIM_CLIENTS]; /* highest version, of any name */
    struct sim_change *change;
    int changes, reserve;
    bool stepped; /* the server's clock was set */
    struct sim_value value[SIM_NAMES];
    struct sim_sight *sight; /* of each name; NULL: nobody inspects */
    uint64_t written, second, shown;
};

/* direct.c */
void sim_direct_wake(struct sim_world *, const struct sim_direct *, int64_t ns);
struct snib__direct *sim_direct_begin(struct sim_world *, struct sim_direct *,
                                      snib__verb);
void sim_direct_ask(struct sim_world *, struct sim_direct *);
void sim_direct_over(struct sim_world *, struct sim_direct *);

/* work_inspect.c */
bool sim_look_start(struct sim_world *, struct sim_direct *);
void sim_look_told(struct sim_world *, struct sim_direct *);

/* theorems/values.c: at the server, after every step */
void theorem_values(struct sim_world *, const struct sim_seen *);
/* The store lost data of a name. memory: what is remembered of it, too; else
 * the value only. */
void theorem_values_lost(struct sim_world *, int name, bool memory);

/* theorems/values_told.c: at the clients */
void theorem_value_read(struct sim_world *, const struct sim_direct *);
void theorem_change_told(struct sim_world *, const struct sim_direct *);

/* theorems/look.c */
void theorem_look_seen(struct sim_world *, const struct sim_seen *);
void theorem_look_told(struct sim_world *, const struct sim_direct *);

#endif

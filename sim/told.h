/* sim/told.h — what theorems remember of what callers were told: until when a
 * grant was shown, which grant an owner gives back, which requests ended by
 * their own release or cancel, which were refused, and what the store lost.
 * Included by sim/world.h, whose types these are part of. */
#ifndef SIM_TOLD_H
#define SIM_TOLD_H

#include <stdbool.h>
#include <stdint.h>

enum {
    SIM_TOLD_ID = 32,
    SIM_ENDINGS = 256,
    SIM_LAPSES = 256,
    SIM_REFUSED = 64
};

/* An owner renews by hand what it has. */
struct sim_by_hand {
    bool asked;     /* and was not answered yet */
    bool under_way; /* a renewal of that length was, when it asked */
    int count;      /* in this section */
    int64_t at;     /* true time of the last */
};

/* An owner releases what it has. */
struct sim_releasing {
    int64_t at, left_ms; /* true time; left of its lease, as it was shown */
    uint64_t faults;     /* applied before it */
    bool lost;           /* it was shown as lost */
    bool sound;          /* its connections and the server were sound */
};

/* The last that an owner was shown of a grant. */
struct sim_shown {
    uint64_t ticket;
    int64_t deadline; /* by its client's clock */
    uint64_t book;    /* number of the server's book at that instant */
};

/* A grant, by its request. */
struct sim_named {
    char id[SIM_TOLD_ID];
    int name;
};

/* A request that was refused: nothing of it may stay. */
struct sim_refused {
    char id[SIM_TOLD_ID];
    int name, client, owner;
    uint32_t life; /* of its client */
    int64_t asked; /* true time at which its wait began */
    /* Since when it stands for nobody while nothing is broken; 0: it does
     * not. */
    int64_t since;
    uint64_t faults; /* applied before that */
};

/* About one server (a quorum's servers have books of their own). */
struct sim_told {
    struct sim_named ending[SIM_ENDINGS]; /* by its own release or cancel */
    struct sim_named lapse[SIM_LAPSES];   /* stood when the store lost data */
    struct sim_named again[SIM_LAPSES];   /* waits again since then */
    struct sim_refused refused[SIM_REFUSED];
    uint32_t endings, lapses, agains, refusals; /* so far */
    int64_t lost_at; /* data were lost, or its clock was set back; 0: never */
    int64_t stepped_at;      /* its clock was set forward; 0: never */
    int long_tombstones;     /* long after that */
    int64_t stepped_back_at; /* … back; 0: never */
};

#endif

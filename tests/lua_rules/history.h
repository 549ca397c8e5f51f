/* history.h — what happens: steps that both stores are asked for alike.
 *
 * A history is drawn step by step while it runs, since what may be asked
 * depends on what was answered. What was drawn is kept, so that it can be run
 * again without some of its steps: a step for which there is nothing any more
 * is left out. */
#ifndef SNIB_TESTS_LUA_RULES_HISTORY_H
#define SNIB_TESTS_LUA_RULES_HISTORY_H

#include <stdio.h>

#include "side.h"

enum { CLAIMS = 12, NAMES = 4, STEPS = 90 };
enum { NOBODY = -1 };

enum act {
    ACQUIRE, /* something new */
    REPEAT,  /* ask again for what was granted */
    POLL,
    RENEW,
    RELEASE,
    CANCEL,
    YIELD, /* end a grant and ask anew, in one step */
    BATCH,
    FORCE,
    PARAMS,
    LIST,
    PASS, /* time passes */
    ACTS
};

/* Where the floor of an acquire comes from. */
enum floor_of { FLOOR_NONE, FLOOR_SEEN, FLOOR_ABOVE, FLOOR_DAY };

struct wish {
    int claim, name;
    int base; /* the claim that is not in its way, or NOBODY */
    snib_kind kind;
    uint32_t permits, capacity, reserve;
    int rank;
    bool queue;
    enum floor_of floor;
    int64_t lease_ms, delay_ms;
};

struct step {
    enum act act;
    int client;
    int lost;  /* a client to which nothing gets through, or NOBODY */
    int count; /* of wishes */
    struct wish
        wish[CHAIN]; /* also says which claim or name any other act is of */
    bool all;        /* of a batch */
    bool resent;
    bool wrong; /* with a token that is not its own */
    bool again; /* the same request once more */
    bool late;  /* afterwards a late copy of its acquire arrives */
    bool asks;  /* RENEW: only_asks */
    bool keep;  /* PASS: the waiters poll meanwhile */
    bool awaited;
    int op;
    int64_t amount, ms;
};

struct history {
    uint64_t seed;
    int count;
    struct step step[STEPS];
};

/* One line, without its end. */
void step_write(FILE *, const struct step *);

#endif

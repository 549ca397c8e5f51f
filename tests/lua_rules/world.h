/* world.h — what is known of a history from its answers. */
#ifndef SNIB_TESTS_LUA_RULES_WORLD_H
#define SNIB_TESTS_LUA_RULES_WORLD_H

#include "history.h"

/* A request, put to both stores. */
struct pair {
    struct asked on[SIDES];
};

/* What an acquire of the history has made, as its client knows it. */
struct claim {
    bool used, holds;
    bool forced; /* a FORCE has ended it, and its client asked nothing since */
    int client, name;
    int64_t until_ms;  /* the end of its lease at the stores; waits: that of a
                          grant of which its client has not heard, or 0 */
    int64_t polled_ms; /* waits */
    int64_t forced_ms;
    struct wish wish;
    struct pair pair;
};

/* How often something was seen, so that a hollow history is noticed. */
enum seen {
    SEEN_GRANTED,
    SEEN_QUEUED,
    SEEN_PUSHED,
    SEEN_BUSY,
    SEEN_REFUSED,
    SEEN_RENEWED,
    SEEN_RELEASED,
    SEEN_ENDED, /* a lease that ended by itself */
    SEEN_UPGRADED,
    SEEN_REVOKED,
    SEEN_BARRIERS,
    SEEN_BATCHES,
    SEEN_LATE,
    SEEN_UNHEARD,
    SEENS
};

struct world {
    struct claim claim[CLAIMS];
    struct snib__name *name[NAMES];
    int64_t size[NAMES]; /* of the semaphore, as last told; -1: none */
    int64_t highest;     /* token that was shown */
    uint64_t ids;
    uint32_t batches;
    bool speaks; /* print each step and both answers */
    uint32_t seen[SEENS];
    char why[400]; /* the first difference; "": none */
    bool over;     /* they rightly differ from now on: the history ends here */
};

extern struct world world;
extern const struct side *const sides[SIDES];

void world_open(bool speaks);
void world_close(void);

/* -- what is known --------------------------------------------------------- */

int64_t world_now(void);
bool world_failed(void);
/* Does it hold, as far as its client knows, with its lease running? */
bool world_stands(const struct claim *);
/* It waits, but has not polled for so long that it counts as dead. */
bool world_dead(const struct claim *);
bool world_dead_at(int name);
/* It waits for what it can never get any more. */
bool world_lost(const struct claim *);
/* Its lease ends then; never earlier than it did. */
void world_extend(struct claim *, int64_t until_ms);
struct claim *world_of_id(const uint64_t id[2]);

#endif

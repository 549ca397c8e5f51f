/* core/witness.h — what a witness does about what it sees of its client.
 *
 * The witness is a small process next to a client's. When the client's process is
 * over it ends at the store what the client held or had asked for (registry.h).
 * It must never do so while that process may still work under one of those
 * grants. So only one thing counts as the end: the kernel says, by a pidfd that
 * the client opened of itself, that the process is over with all its threads. A
 * pidfd names that one process for ever, whoever gets its number later.
 *
 *   the connection to the client is closed   it may have called exec: the client
 *                                            is gone, the process is not, and
 *                                            what it became may go on with what
 *                                            the client had begun
 *   the main thread has ended                the others may hold locks
 *   the client does not move                 it is stopped, or busy
 *
 * None of these is the end. After an exec nobody renews what was held, so it ends
 * by its lease, or sooner with the process. */
#ifndef SNIB__WITNESS_H
#define SNIB__WITNESS_H

#include "base/time.h"
#include "core/registry.h"

/* What it sees. */
struct snib__witness_sight {
    bool over;    /* the client's pidfd is readable */
    bool hung_up; /* the client's end of the connection is closed */
};

typedef enum snib__witness_next {
    SNIB__WITNESS_WAITS, /* until it sees something else */
    SNIB__WITNESS_ENDS,  /* … what the client has left, and then itself */
    SNIB__WITNESS_LEAVES /* there is nothing to do any more */
} snib__witness_next;

struct snib__witness {
    const struct snib__registry *registry;
    /* The client is gone and its process is not: nothing of it is at the store
     * any more after this instant. NEVER: the client is there. */
    snib_instant leaves;
};

void snib__witness_begin(struct snib__witness *, const struct snib__registry *);
snib__witness_next snib__witness_step(struct snib__witness *, snib_instant now,
                                      struct snib__witness_sight);

#endif

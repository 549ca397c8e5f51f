/* core/waits.h — who waits for whom: the graph of what a store shows.
 *
 * Pure: rows of LIST (base/record.h) in, cycles out. Terms:
 *
 *   wait   a request in the queue of a lock: a node. Its text (core/about.h)
 *          names the grants that its owner held when it began to wait.
 *   edge   from a wait to another that must end first, because the other's
 *          owner holds a grant that this one does not fit with, or because the
 *          other stands ahead in the same queue (first come, first served).
 *
 * An edge through a grant exists only if a *waiting* owner says that it holds
 * it; who holds and does not wait can go on, and so can everybody behind it.
 * Or a waiting process says that the grant is held *above* it, by a client
 * whose command does nothing but wait for this process (snib run in snib run).
 * What an owner holds stays held when its process dies, until the lease is over;
 * what is held above may go on as soon as this process is dead. So of such a
 * wait it counts when it was last heard of (snib__waits_unheard).
 * An owner that waits for two things at once is taken for one that can go on: both
 * waits say what it holds, or neither does (core/cycles.c).
 * Each edge is necessary: the wait cannot end before the other has ended. So
 * a cycle of edges that exist at one instant is a deadlock whatever else
 * happens, unless somebody gives up.
 *
 * Permits are the exception, twice: a request for some waits until enough of
 * the holders, not all, have given back; and any thread may give back permits,
 * not only the owner that waits. A cycle that needs either is found (when every
 * holder waits in vain), but is not `sure`. Barriers and latches wait for
 * somebody to come, not to go: no edges. */
#ifndef SNIB__WAITS_H
#define SNIB__WAITS_H

#include "core/about.h"
#include "snib.h"

#define SNIB__WAIT_NONE UINT32_MAX

struct snib__wait {
    const void *name; /* of the lock; in the rows                            */
    uint32_t name_size;
    uint32_t lock;       /* number of the lock in the rows                   */
    char client_id[33];  /* client id                                        */
    uint64_t request[2]; /* of the wait                                      */
    int64_t rank;
    snib_kind kind;
    bool apart; /* it can go on: its owner waits for more than one, …         */
    int64_t left_ms;      /* until it counts as dead                         */
    uint32_t edge, edges; /* in snib__waits.edges                            */
    uint32_t set;         /* of the deadlock it is part of; WAIT_NONE        */
    uint32_t sure_set;    /* the same, by edges that are sure                */
    struct snib__about about;
};

struct snib__edge {
    uint32_t from, to;
    bool any;    /* of the holders of permits: not this one alone            */
    bool sure;   /* necessary, and only the owner that waits can end it       */
    bool queue;  /* it stands ahead; else its owner holds:                    */
    bool above;  /* no, a client above it does                              */
    uint64_t by; /* the grant, or the wait ahead                             */
};

struct snib__waits {
    struct snib__wait *waits;
    struct snib__edge *edges;
    uint32_t count, edge_count, edge_cap;
    uint32_t sets, sure_sets;
};

/* Build the graph and find the deadlocks. The rows must outlive it. NULL: no
 * memory. */
struct snib__waits *snib__waits_new(const void *rows, size_t size);
void snib__waits_free(struct snib__waits *);

/* The wait of this request, or WAIT_NONE. */
uint32_t snib__waits_find(const struct snib__waits *,
                          const uint64_t request[2]);
/* Who of a set is to give up: of those whose owners hold what another one of it
 * waits for, the youngest. (The others only stand in a queue: their going
 * breaks no cycle, and who holds nothing does not look.) Latest since, then
 * the higher request id, so that all who look agree. */
uint32_t snib__waits_youngest(const struct snib__waits *, uint32_t set,
                              bool sure);
/* A number of what the set is made of: its waits, grants and edges. The same
 * in two looks, of which the second began after the first had ended: then all
 * of it existed together at one instant in between, however long each look
 * took and in whatever order it saw the locks. */
uint64_t snib__waits_mark(const struct snib__waits *, uint32_t set, bool sure);
/* How long ago, at most, each wait of the set whose end would set somebody free
 * above it was heard of last, in ms as of when its row was read; 0: there is
 * no such wait; INT64_MAX: not known. */
int64_t snib__waits_unheard(const struct snib__waits *, uint32_t set,
                            bool sure);
/* A shortest cycle through the wait `from`: its waits in order, at most max;
 * each waits for the next, the last for the first. Returns its length, which
 * may be more than max; 0: there is none. No memory: 0. */
uint32_t snib__waits_cycle(const struct snib__waits *, uint32_t from, bool sure,
                           uint32_t *ret, uint32_t max);
/* The edge from one wait to the next of such a cycle. */
const struct snib__edge *snib__waits_edge(const struct snib__waits *,
                                          uint32_t from, uint32_t to,
                                          bool sure);

#endif

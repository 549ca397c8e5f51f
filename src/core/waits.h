/* core/waits.h — who waits for whom: the graph of what a store shows.
 *
 * Pure: it reads rows of LIST (base/record.h) and finds cycles. Terms:
 *
 *   wait   a node: a request in the queue of a lock. Its text (core/about.h)
 *          names the grants that its owner held when it began to wait.
 *   edge   from a wait to another that must end first, because the other's
 *          owner holds a grant that this one does not fit with, or because the
 *          other stands ahead in the same queue (first come, first served).
 *
 * An edge through a grant exists only if a *waiting* owner says that it holds
 * the grant. An owner that holds and does not wait can go on, and so can
 * everybody behind it. A waiting process may also say that a grant is held
 * *above* it, by a client whose command does nothing but wait for this process
 * (snib run in snib run). What an owner holds stays held when its process dies,
 * until the lease is over; what is held above may go on as soon as this process
 * is dead. So for such a wait it matters when it was last heard of
 * (snib__waits_unheard). An owner that waits for two things at once is taken
 * for one that can go on: both waits say what it holds, or neither does
 * (core/cycles.c).
 *
 * Each edge is necessary: the wait cannot end before the other has ended. So a
 * cycle of edges that exist at one instant is a deadlock whatever else happens,
 * unless somebody gives up.
 *
 * Permits are the exception, twice. A request for some permits waits until
 * enough of the holders, not all, have given theirs back; and any thread may
 * give back permits, not only the owner that waits. A cycle that needs either
 * is found (when every holder waits in vain), but is not `sure`. Barriers and
 * latches wait for somebody to come, not to go, so they have no edges. */
#ifndef SNIB__WAITS_H
#define SNIB__WAITS_H

#include "core/about.h"
#include "snib.h"

#define SNIB__WAIT_NONE UINT32_MAX

struct snib__wait {
    const void *name; /* of the lock; points into the rows */
    uint32_t name_size;
    uint32_t lock;       /* number of the lock in the rows */
    char client_id[33];  /* the client's id, hexadecimal */
    uint64_t request[2]; /* its id */
    int64_t rank;
    snib_kind kind;
    /* It is taken for one that can go on: a party of a barrier, a wait without
     * an id, or one whose owner waits for more than one thing. */
    bool apart;
    int64_t left_ms;      /* until the store takes it for dead */
    uint32_t edge, edges; /* first of them in snib__waits.edges; how many */
    uint32_t set;         /* its deadlock; WAIT_NONE: in none */
    uint32_t sure_set;    /* the same, by sure edges only */
    struct snib__about about;
};

struct snib__edge {
    uint32_t from, to;
    bool any;    /* waits for any of the holders of permits, not for this one */
    bool sure;   /* necessary, and only the owner that waits can end it */
    bool queue;  /* `to` stands ahead in the queue; else its owner holds `by` */
    bool above;  /* … or rather a client above that owner does */
    uint64_t by; /* the grant, or the request ahead */
};

struct snib__waits {
    struct snib__wait *waits;
    struct snib__edge *edges;
    uint32_t count, edge_count, edge_cap;
    uint32_t sets, sure_sets;
};

/* Builds the graph and finds the deadlocks. The rows must outlive it. NULL: no
 * memory. */
struct snib__waits *snib__waits_new(const void *rows, size_t size);
void snib__waits_free(struct snib__waits *);

/* The wait of this request, or WAIT_NONE. */
uint32_t snib__waits_find(const struct snib__waits *,
                          const uint64_t request[2]);
/* Which wait of a set is to give up: the youngest of those whose owners hold
 * what another one of the set waits for. (The others only stand in a queue: if
 * they go, no cycle breaks, and an owner that holds nothing does not scan.) The
 * youngest has the latest `since`, then the higher request id, so all clients
 * that scan agree. */
uint32_t snib__waits_youngest(const struct snib__waits *, uint32_t set,
                              bool sure);
/* A number made of the set's waits, grants and edges. If it is the same in two
 * scans, of which the second began after the first had ended, then all of the
 * set existed together at one instant in between, however long each scan took
 * and in whatever order it saw the locks. */
uint64_t snib__waits_id(const struct snib__waits *, uint32_t set, bool sure);
/* How long ago, at most, the store last heard of each wait of the set whose end
 * would free a client above it; in ms, as of when its row was read. 0: there is
 * no such wait; INT64_MAX: not known. */
int64_t snib__waits_unheard(const struct snib__waits *, uint32_t set,
                            bool sure);
/* A shortest cycle through the wait `from`: writes its waits in order, at most
 * max; each waits for the next, the last for the first. Returns its length,
 * which may be more than max; 0: there is none, or no memory. */
uint32_t snib__waits_cycle(const struct snib__waits *, uint32_t from, bool sure,
                           uint32_t *ret, uint32_t max);
/* The edge from one wait to the next of such a cycle. */
const struct snib__edge *snib__waits_edge(const struct snib__waits *,
                                          uint32_t from, uint32_t to,
                                          bool sure);

/* Between core/waits.c and core/waits_sets.c: numbers the sets of a graph that
 * has all its edges. False: no memory. */
bool snib__waits_find_sets(struct snib__waits *);

#endif

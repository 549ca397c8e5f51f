/* base/heap.h — a 4-ary heap of timers, intrusive.
 *
 * A node knows its place, so moving or removing it needs no search. The array
 * is grown by snib__heap_reserve (may fail) before nodes are inserted;
 * insertion itself never allocates. index 0 means "not in the heap". */
#ifndef SNIB__HEAP_H
#define SNIB__HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

struct snib__timer {
    snib_instant at;
    uint32_t index; /* 1-based place; 0: not in                             */
};

struct snib__heap {
    struct snib__timer **v; /* v[0] unused                                  */
    uint32_t size, cap;
};

void snib__heap_free(struct snib__heap *);
/* Room for `total` timers in all. */
bool snib__heap_reserve(struct snib__heap *, uint32_t total);
/* Insert, or move when it is in already. NEVER removes. */
void snib__heap_set(struct snib__heap *, struct snib__timer *, snib_instant);
void snib__heap_remove(struct snib__heap *, struct snib__timer *);
/* Earliest timer or NULL. */
struct snib__timer *snib__heap_min(const struct snib__heap *);
static inline snib_instant snib__heap_due(const struct snib__heap *h)
{
    return h->size ? h->v[1]->at : SNIB__NEVER;
}

#endif

/* base/heap.h — a 4-ary heap of timers, intrusive.
 *
 * A timer knows its index, so moving or removing it needs no search.
 * snib__heap_reserve grows the array before timers are inserted, and may fail;
 * insertion itself never allocates. index 0 means "not in the heap". */
#ifndef SNIB__HEAP_H
#define SNIB__HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/time.h"

struct snib__timer {
    snib_instant at;
    uint32_t index; /* 1-based; 0: not in the heap */
};

struct snib__heap {
    struct snib__timer **v; /* v[0] unused */
    uint32_t size, cap;
};

void snib__heap_free(struct snib__heap *);
/* Makes room for `total` timers in all. False: no memory. */
bool snib__heap_reserve(struct snib__heap *, uint32_t total);
/* Inserts the timer, or moves it when it is in already. NEVER removes it. */
void snib__heap_set(struct snib__heap *, struct snib__timer *, snib_instant);
void snib__heap_remove(struct snib__heap *, struct snib__timer *);
/* The earliest timer, or NULL. */
struct snib__timer *snib__heap_min(const struct snib__heap *);
static inline snib_instant snib__heap_due(const struct snib__heap *h)
{
    return h->size ? h->v[1]->at : SNIB__NEVER;
}

#endif

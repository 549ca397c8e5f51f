/* seen.h — the states that were visited, and how. */
#ifndef SEEN_H
#define SEEN_H

#include "model.h"

#define QUICK (UINT32_C(1) << 31)

struct seen {
    struct world *worlds;
    uint32_t *from; /* the state before */
    uint8_t *by;    /* the move */
    size_t count, reserve;
    uint32_t *slots; /* hash table of numbers + 1 */
    size_t mask;
    uint32_t *edges; /* pairs of fair moves: from, to */
    size_t fair, fair_room;
    uint64_t moves;
    bool failed;
};
extern struct seen seen;

/* As calloc and realloc; without memory the program ends. */
void *zeroed(size_t count, size_t size);
void *grown(void *bytes, size_t size);
/* The number of this state. If it is new, it was reached from `from` by
 * `by`. */
uint32_t note(const struct world *, uint32_t from, enum move by);
/* from: with QUICK when running processes make the move at once. */
void note_fair(uint32_t from, uint32_t to);
void forget_all(void);

#endif

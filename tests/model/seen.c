/* seen.c — the states that were visited: a table of all of them, how each was
 * reached first, and the moves that a process makes by itself. */
#include "seen.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(struct world) == offsetof(struct world, unused) + 3,
              "bytes that nobody sets would tell equal states apart");

struct seen seen;

void *zeroed(size_t count, size_t size)
{
    void *bytes = calloc(count, size);

    if (bytes == NULL) {
        fprintf(stderr, "model: out of memory\n");
        exit(2);
    }
    return bytes;
}

void *grown(void *bytes, size_t size)
{
    void *more = realloc(bytes, size);

    if (more == NULL) {
        fprintf(stderr, "model: out of memory\n");
        exit(2);
    }
    return more;
}

static uint64_t hash_of(const struct world *w)
{
    const unsigned char *p = (const unsigned char *)w;
    uint64_t h = 0x9e3779b97f4a7c15u, word;
    size_t i = 0;

    for (; i + 8 <= sizeof *w; i += 8) {
        memcpy(&word, p + i, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, p + i, sizeof *w - i);
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    return h ^ h >> 29;
}

static size_t slot_of(const struct world *w)
{
    size_t slot = hash_of(w) & seen.mask;

    while (seen.slots[slot] != 0 &&
           memcmp(&seen.worlds[seen.slots[slot] - 1], w, sizeof *w) != 0) {
        slot = (slot + 1) & seen.mask;
    }
    return slot;
}

static void widen(void)
{
    size_t size = seen.mask == 0 ? 1u << 16 : (seen.mask + 1) * 2;

    free(seen.slots);
    seen.slots = zeroed(size, sizeof *seen.slots);
    seen.mask = size - 1;
    for (size_t i = 0; i < seen.count; i++) {
        seen.slots[slot_of(&seen.worlds[i])] = (uint32_t)i + 1;
    }
}

uint32_t note(const struct world *w, uint32_t from, enum move by)
{
    size_t slot;

    if (seen.count * 2 >= seen.mask) {
        widen();
    }
    slot = slot_of(w);
    if (seen.slots[slot] != 0) {
        return seen.slots[slot] - 1;
    }
    if (seen.count == seen.reserve) {
        seen.reserve = seen.reserve == 0 ? 1u << 16 : seen.reserve * 2;
        seen.worlds = grown(seen.worlds, seen.reserve * sizeof *seen.worlds);
        seen.from = grown(seen.from, seen.reserve * sizeof *seen.from);
        seen.by = grown(seen.by, seen.reserve);
    }
    seen.worlds[seen.count] = *w;
    seen.from[seen.count] = from;
    seen.by[seen.count] = (uint8_t)by;
    seen.slots[slot] = (uint32_t)++seen.count;
    return (uint32_t)seen.count - 1;
}

void note_fair(uint32_t from, uint32_t to)
{
    if (seen.fair == seen.fair_room) {
        seen.fair_room = seen.fair_room == 0 ? 1u << 16 : seen.fair_room * 2;
        seen.edges = grown(seen.edges, seen.fair_room * 2 * sizeof *seen.edges);
    }
    seen.edges[2 * seen.fair] = from;
    seen.edges[2 * seen.fair + 1] = to;
    seen.fair++;
}

void forget_all(void)
{
    free(seen.worlds);
    free(seen.from);
    free(seen.by);
    free(seen.slots);
    free(seen.edges);
    seen = (struct seen){0};
}

/* store/file/block.c — a block is taken, and given back.
 *
 * A block belongs to one of: a root that names it; a stack of free ones; the
 * client that took it. Nobody else can take it from there, so a client that is
 * killed loses what it has until a sweep finds it (sweep.c), and nobody else is
 * touched.
 *
 * A stack is a word, version << 32 | first block, and each block has the next
 * one. The version rises with each change: a swap that is late finds another
 * one, whatever the next block was read to be.
 *
 * Reserve. A release needs a block, too: the outcome is written next to what
 * is there. So some blocks of each class are kept back for steps that give back a
 * block as large, and each such step returns one. */
#include "store/file/internal.h"

#include <errno.h>

/* A free block is cut out of one that is at most so many classes larger. */
#define CUTS 6

uint32_t snib__block_class(size_t bytes)
{
    uint32_t class = 0;
    while (class < SNIB__FILE_CLASSES && snib__block_room(class) < bytes) {
        class ++;
    }
    return class;
}

/* The head says that there is room up to `end`: is the file so long? It grows
 * before the head says so, so it is asked once after each growth. Where it
 * cannot be told, the head is believed. */
static bool block_is_in_file(struct snib__map *m, uint64_t end)
{
    uint64_t there = atomic_load_explicit(&m->there, memory_order_relaxed);
    if (end > there && (there = snib__map_size(m)) != UINT64_MAX) {
        atomic_store_explicit(&m->there, there, memory_order_relaxed);
    }
    return end <= there;
}

struct snib__file_block *snib__block_at(struct snib__map *m, uint32_t unit,
                                        uint32_t class)
{
    if (class >= SNIB__FILE_CLASSES || unit < m->first ||
        unit % (SNIB__FILE_LEAST / SNIB__FILE_UNIT)) {
        return NULL;
    }
    uint64_t end =
        ((uint64_t)unit + snib__block_units(class)) * SNIB__FILE_UNIT;
    if (end > m->limit ||
        end > atomic_load_explicit(&m->head->size, memory_order_relaxed) ||
        !block_is_in_file(m, end)) {
        return NULL;
    }
    return (struct snib__file_block *)(void *)(m->base +
                                               (size_t)unit * SNIB__FILE_UNIT);
}

static uint64_t block_next_word(uint64_t word, uint32_t unit)
{
    return (((word >> 32) + 1) << 32) | unit;
}

void snib__block_push(struct snib__map *m, snib__file_word *stack,
                      uint32_t unit, uint32_t class)
{
    struct snib__file_block *b = snib__block_at(m, unit, class);
    uint64_t word;
    if (!b) {
        return; /* a damaged root named it: nobody misses it */
    }
    word = snib__file_load(stack);
    do {
        snib__file_store(&b->next, (uint32_t)word);
    } while (!snib__file_cas(stack, &word, block_next_word(word, unit)));
}

uint32_t snib__block_pop(struct snib__map *m, snib__file_word *stack,
                         uint32_t class)
{
    uint64_t word = snib__file_load(stack);
    for (;;) {
        uint32_t unit = (uint32_t)word;
        struct snib__file_block *b =
            unit ? snib__block_at(m, unit, class) : NULL;
        if (!b) {
            return 0;
        }
        /* Whoever has taken it meanwhile may have written anything there. Then
         * the swap fails. */
        uint32_t next = (uint32_t)snib__file_load(&b->next);
        if (snib__file_cas(stack, &word, block_next_word(word, next))) {
            return unit;
        }
    }
}

/* A block that was never used before. */
static uint32_t block_new(struct snib__map *m, uint32_t class)
{
    uint64_t top = snib__file_load(&m->head->top);
    for (;;) {
        uint64_t end = top + snib__block_units(class);
        bool sane = top <= UINT32_MAX &&
                    top * SNIB__FILE_UNIT <= snib__file_load(&m->head->size);
        if (sane && !snib__map_room(m, end * SNIB__FILE_UNIT)) {
            return 0;
        }
        if (!sane || !snib__block_at(m, (uint32_t)top, class)) {
            m->full = EIO; /* the head is damaged */
            return 0;
        }
        if (snib__file_cas(&m->head->top, &top, end)) {
            return (uint32_t)top;
        }
    }
}

/* Cut a block down: its first part stays, the others become free. */
static uint32_t block_cut(struct snib__map *m, uint32_t unit, uint32_t from,
                          uint32_t to)
{
    while (from > to) {
        from--;
        snib__block_push(m, &m->head->stack[from],
                         unit + snib__block_units(from), from);
    }
    return unit;
}

static uint32_t block_find(struct snib__map *m, uint32_t class)
{
    uint32_t unit;
    if (class < SNIB__FILE_SMALL && m->spare[class]) {
        unit = m->spare[class];
        m->spare[class] = 0;
        return unit;
    }
    for (uint32_t from = class;
         from < SNIB__FILE_CLASSES && from <= class + CUTS; from++) {
        unit = snib__block_pop(m, &m->head->stack[from], from);
        if (unit) {
            return block_cut(m, unit, from, class);
        }
    }
    return block_new(m, class);
}

/* A step that makes its bucket larger sees to it that a later one can give
 * back. */
static bool block_keep_reserve(struct snib__map *m, uint32_t class)
{
    if ((uint32_t)snib__file_load(&m->head->reserve[class])) {
        return true;
    }
    uint32_t unit = block_find(m, class);
    if (unit) {
        snib__block_push(m, &m->head->reserve[class], unit, class);
    }
    return unit != 0;
}

uint32_t snib__block_take(struct snib__map *m, uint32_t class, bool may_reserve,
                          bool *ret_reserved)
{
    uint32_t unit;
    *ret_reserved = false;
    if (class >= SNIB__FILE_CLASSES) {
        m->full = EFBIG;
        return 0;
    }
    if (!may_reserve && !block_keep_reserve(m, class)) {
        return 0;
    }
    unit = block_find(m, class);
    if (!unit && may_reserve) {
        unit = snib__block_pop(m, &m->head->reserve[class], class);
        *ret_reserved = unit != 0;
    }
    if (unit && !snib__block_at(m, unit, class)) {
        m->full = EIO; /* the head is damaged */
        return 0;
    }
    return unit;
}

void snib__block_give(struct snib__map *m, uint32_t unit, uint32_t class,
                      uint32_t owed)
{
    if (owed <= class) {
        unit = block_cut(m, unit, class, owed);
        snib__block_push(m, &m->head->reserve[owed], unit, owed);
    } else if (class < SNIB__FILE_SMALL && !m->spare[class] &&
               snib__block_at(m, unit, class)) {
        m->spare[class] = unit;
    } else {
        snib__block_push(m, &m->head->stack[class], unit, class);
    }
}

void snib__block_give_spares(struct snib__map *m)
{
    for (uint32_t i = 0; i < SNIB__FILE_SMALL; i++) {
        if (m->spare[i]) {
            snib__block_push(m, &m->head->stack[i], m->spare[i], i);
            m->spare[i] = 0;
        }
    }
}

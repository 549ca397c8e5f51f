/* driver/socks.h — sets of sockets, by their numbers.
 *
 * A set is a value of 32 bytes: it is copied, and needs no memory. What is done
 * with one costs as much as it has members. */
#ifndef SNIB__SOCKS_H
#define SNIB__SOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/conn.h"

/* As many as a client has connections. (A store that has a notifier has no
 * connections.) */
#define SNIB__SOCKETS_MAX SNIB__CONNS_MAX

enum { SNIB__SOCKS_WORDS = (SNIB__SOCKETS_MAX + 63) / 64 };

struct snib__socks {
    uint64_t word[SNIB__SOCKS_WORDS];
};

static inline bool snib__socks_has(const struct snib__socks *s, uint32_t i)
{
    return s->word[i / 64] >> i % 64 & 1;
}

static inline void snib__socks_put(struct snib__socks *s, uint32_t i, bool in)
{
    uint64_t bit = UINT64_C(1) << i % 64, *word = &s->word[i / 64];
    *word = in ? *word | bit : *word & ~bit;
}

static inline bool snib__socks_empty(const struct snib__socks *s)
{
    uint64_t any = 0;
    for (int k = 0; k < SNIB__SOCKS_WORDS; k++) {
        any |= s->word[k];
    }
    return !any;
}

static inline void snib__socks_clear(struct snib__socks *s)
{
    *s = (struct snib__socks){{0}};
}

/* Those of either. */
static inline struct snib__socks snib__socks_or(const struct snib__socks *a,
                                                const struct snib__socks *b)
{
    struct snib__socks both;
    for (int k = 0; k < SNIB__SOCKS_WORDS; k++) {
        both.word[k] = a->word[k] | b->word[k];
    }
    return both;
}

/* The first one that is not below `from`; SNIB__SOCKETS_MAX: there is none. */
static inline uint32_t snib__socks_next(const struct snib__socks *s,
                                        uint32_t from)
{
    for (uint32_t k = from / 64; k < SNIB__SOCKS_WORDS; k++, from = k * 64) {
        uint64_t word = s->word[k] >> from % 64;
        if (word) {
            return from + (uint32_t)__builtin_ctzll(word);
        }
    }
    return SNIB__SOCKETS_MAX;
}

/* SNIB__SOCKS_EACH (number, pointer to a set), in their order. The body may
 * take members out; those that it adds behind the number are met, too. */
#define SNIB__SOCKS_EACH(i, set)                                               \
    for (uint32_t i = snib__socks_next(set, 0); i < SNIB__SOCKETS_MAX;         \
         i = snib__socks_next(set, i + 1))

#endif

/* tests/unit/conns.h — what a store wants of its connections, as masks: bit i is
 * connection i. */
#ifndef SNIB_TESTS_CONNS_H
#define SNIB_TESTS_CONNS_H

#include "core/store.h"

static inline uint32_t opens(const struct snib__out *out)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < out->conns; i++) {
        mask |= (uint32_t)out->conn[i]->open << i;
    }
    return mask;
}

static inline uint32_t shuts(const struct snib__out *out)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < out->conns; i++) {
        mask |= (uint32_t)out->conn[i]->shut << i;
    }
    return mask;
}

static inline uint32_t logins(const struct snib__out *out)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < out->conns; i++) {
        mask |= (uint32_t)out->conn[i]->login << i;
    }
    return mask;
}

/* They are taken up. */
static inline void opens_taken(struct snib__out *out)
{
    for (uint32_t i = 0; i < out->conns; i++) {
        out->conn[i]->open = false;
    }
}

#endif

/* core/snapshot/snapshot_i.h — what the files of this folder share. No other
 * file includes this. */
#ifndef SNIB__SNAPSHOT_I_H
#define SNIB__SNAPSHOT_I_H

#include "core/snapshot/snapshot.h"

extern const struct snib__book_ops snib__snapshot_ops;

/* Is the name one of the step's? Then *ret is its index. */
bool snib__snapshot_has_lock(const struct snib__snapshot *,
                             const struct snib__name *, uint32_t *ret);
/* The name is one of the step's. */
uint32_t snib__snapshot_lock_of(const struct snib__snapshot *,
                                const struct snib__name *);
/* The claim of this request, also one that is gone; NULL: there is none. */
struct snib__snapshot_claim *snib__snapshot_claim_of(struct snib__snapshot *,
                                                     uint32_t lock,
                                                     const uint64_t request[2]);
/* A claim to be filled; NULL: no memory. */
struct snib__snapshot_claim *snib__snapshot_new_claim(struct snib__snapshot *);
/* Make room for one more in an array. False: no memory. */
bool snib__snapshot_grow(void **array, uint32_t count, uint32_t *capacity,
                         size_t size);
/* Does a stand before b in the queue? */
bool snib__snapshot_is_before(const struct snib__stored_claim *a,
                              const struct snib__stored_claim *b);

/* All rows are there. Of a queue that was cut the first waiters are complete up
 * to `last`; the request's own claim may stand further behind. A name without a
 * lock row begins at the floor. */
void snib__snapshot_settle_in(struct snib__snapshot *);

/* Write down the difference between what was fetched and what is now, with what
 * it relies on. Nothing differs: no guard. False: no memory. */
bool snib__snapshot_difference(struct snib__snapshot *);

/* Is it a claim that neither holds nor waits? */
static inline bool snib__snapshot_is_mark(const struct snib__stored_claim *c)
{
    return !snib__rules_claim_holds(c) && c->state != SNIB__WAITS;
}

#endif

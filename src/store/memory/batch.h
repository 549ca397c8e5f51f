/* store/memory/batch.h — several acquires as one step of a store that runs
 * its requests one after the other (core/store.h: batch). */
#ifndef SNIB__BATCH_H
#define SNIB__BATCH_H

#include "core/store.h"

enum { SNIB__BATCH_MAX = 8 };

/* Zero, but for run; it lasts for one step. */
struct snib__rules_batch {
    void (*run)(void *data, struct snib__request *); /* the rules            */
    void *data;
    struct snib__request *done[SNIB__BATCH_MAX];
    uint32_t number, count;
    bool refused;
};

/* Runs r, unless one before it in its batch was refused; and if r is, those
 * before it are released when they are to be all or none. */
void snib__rules_batch_run(struct snib__rules_batch *, struct snib__request *);

#endif

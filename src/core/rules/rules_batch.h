/* core/rules/rules_batch.h — several acquires as one step of a store that runs
 * its requests one after the other (see `batch` in core/request.h). */
#ifndef SNIB__BATCH_H
#define SNIB__BATCH_H

#include "core/store.h"

enum { SNIB__BATCH_MAX = 8 };

/* All fields are zero at first, except run and data. It lasts for one step of
 * the store. */
struct snib__rules_batch {
    void (*run)(void *data, struct snib__request *); /* the rules of a lock */
    void *data;
    struct snib__request *done[SNIB__BATCH_MAX];
    uint32_t number, count;
    bool refused;
};

/* Run request r. If a request before it in its batch was refused, r is refused
 * without being run. If r is refused and the batch is all or none
 * (r->batch.all), the grants before it in the batch are released again. */
void snib__rules_batch_run(struct snib__rules_batch *, struct snib__request *);

#endif

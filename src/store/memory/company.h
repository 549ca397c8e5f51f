/* store/memory/company.h — several acquires as one step of a store that runs
 * its requests one after the other (core/store.h: company). */
#ifndef SNIB__COMPANY_H
#define SNIB__COMPANY_H

#include "core/store.h"

enum { SNIB__COMPANY_MAX = 8 };

/* Zero, but for run; it lasts for one step. */
struct snib__company {
    void (*run)(void *data, struct snib__request *); /* the rules            */
    void *data;
    struct snib__request *done[SNIB__COMPANY_MAX];
    uint32_t number, count;
    bool refused;
};

/* Runs r, unless one before it in its company was refused; and if r is, those
 * before it are released when they are to be all or none. */
void snib__company_run(struct snib__company *, struct snib__request *);

#endif

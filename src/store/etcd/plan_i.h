/* store/etcd/plan_i.h — the transaction of a step and how long its keys stay, for
 * claims.c, plan.c and ttl.c. */
#ifndef SNIB__ETCD_PLAN_I_H
#define SNIB__ETCD_PLAN_I_H

#include "store/etcd/etcd_i.h"

/* So much older than its use a lease may be: */
enum {
    ETCD_MEMORY_AGE_MS = 3600 * 1000, /* of what a name remembers */
    ETCD_ALIVE_AGE_MS = 500           /* of who waits, and who is told */
};

/* -- ttl.c ----------------------------------------------------------------- */

struct etcd_ttl_of {
    const struct snib__etcd *e;
    snib_instant now;
    const struct etcd_step *k;
};

/* Of the lock row and the arrivals of a lock of the step. */
struct etcd_ttl snib__etcd_ttl_memory(const struct etcd_ttl_of *,
                                      uint32_t lock);
/* Of a claim of it. True: the row keeps the lease that it has. ret_own: which of
 * the step's requests has made it; their count: none. */
bool snib__etcd_ttl_claim(const struct etcd_ttl_of *, uint32_t claim,
                          struct etcd_ttl *ret, uint32_t *ret_own);

/* -- plan.c ----------------------------------------------------------------- */

/* The transaction of the snapshot's write, for claims.c. */
typedef enum etcd_planned {
    PLANNED,
    PLAN_WAITS, /* for leases */
    PLAN_LARGE, /* it has too many operations, and could have fewer */
    PLAN_NOMEM
} etcd_planned;

etcd_planned snib__etcd_plan(struct snib__etcd *, snib_instant now,
                             struct etcd_step *, struct snib__buf *ret);
/* It was applied: from when each lease that it gave counts. */
void snib__etcd_plan_answer(struct snib__etcd *, snib_instant now,
                            struct etcd_step *);
/* Ask for the leases that it will need, before it is known whether it will: for
 * seconds only, since a lease of a day that nothing hangs on stays for a day. */
void snib__etcd_plan_ahead(struct snib__etcd *, snib_instant now,
                           const struct etcd_step *);
/* The ranges by which the step's rows are fetched. */
void snib__etcd_plan_fetch(struct snib__etcd *, struct etcd_step *,
                           uint32_t branch, struct snib__buf *ret);

#endif

/* core/refusals.h — refusals whose words are the same in every store. */
#ifndef SNIB__REFUSALS_H
#define SNIB__REFUSALS_H

#include "core/store.h"

/* Each answers NO and sets err and the request's error text. The err is named
 * below. */

/* PERMITS: more than the semaphore has. TOO_MANY. */
void snib__refuse_too_many(struct snib__request *, int64_t size);
/* PERMITS: the store knows no size, and the request brings none. CONFIG. */
void snib__refuse_no_size(struct snib__request *);
/* PARAMS: the size would fall below 0 or grow beyond its bounds. USAGE. */
void snib__refuse_size(struct snib__request *, int64_t size);
/* The grant of upgrade_of has ended. LOST. */
void snib__refuse_upgrade_over(struct snib__request *);
/* Two readers that both want to write would wait for each other. DEADLOCK. */
void snib__refuse_second_upgrade(struct snib__request *);

#endif

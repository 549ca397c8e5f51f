/* store/memory/values.h — versioned values of a space (core/version.h). */
#ifndef SNIB__VALUES_H
#define SNIB__VALUES_H

#include "store/memory/space.h"

/* Run one VALUE_… request; the space's mutex is held. */
void snib__mem_values_run(struct snib__space *, struct snib__request *);

/* Called when the space ends; NULL is allowed. The highest version is kept for
 * later spaces of this process. */
void snib__mem_values_free(struct snib__mem_values *);

#endif

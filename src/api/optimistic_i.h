/* api/optimistic_i.h — the loop of an update of the program's own row, with what
 * it needs of the world: unit.optimistic_loop gives it a clock of its own. */
#ifndef SNIB__OPTIMISTIC_I_H
#define SNIB__OPTIMISTIC_I_H

#include "base/random.h"
#include "base/time.h"
#include "snib/optimistic.h"

struct snib__optimistic_host {
    snib_instant (*now)(void *data);
    void (*pause)(void *data, snib_duration);
    snib_err (*seed)(void *data, struct snib__seed *ret,
                     struct snib_error *reterr);
    void *data;
};

typedef int snib__version_step(void *data, struct snib_version_attempt *);

/* As snib_version_update. */
snib_err snib__version_update(const struct snib__optimistic_host *,
                              const struct snib_version_options *,
                              snib__version_step *step, void *data,
                              int *ret_stopped, uint32_t *ret_attempts,
                              struct snib_error *reterr);

#endif

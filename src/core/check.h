/* core/check.h — what is true of the engine's objects between two steps.
 *
 * Each check returns NULL, or the rule that is broken, in words, which are in
 * the caller's struct. Only with SNIB_CHECKS: core/check.c. */
#ifndef SNIB__CHECK_H
#define SNIB__CHECK_H

#include "core/engine_i.h"

struct snib__broken {
    char text[256];
};

const char *snib__check_claim(const struct snib__claim *,
                              struct snib__broken *);
const char *snib__check_acquisition(const struct snib__engine *,
                                    const struct snib__acquisition *,
                                    struct snib__broken *);
const char *snib__check_local_lock(struct snib__local_lock *,
                                   struct snib__broken *);
/* All of them, and the engine's counts. */
const char *snib__check_engine(const struct snib__engine *,
                               struct snib__broken *);
/* At the end of each step: ends the process when something is broken. */
void snib__check_step(struct snib__engine *);

#endif

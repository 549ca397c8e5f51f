/* api/params.h — the params of a lock, for semaphore.c and latch.c. */
#ifndef SNIB__PARAMS_H
#define SNIB__PARAMS_H

#include "core/engine.h"
#include "snib.h"

struct snib__params {
    int64_t done, size, permits, latch, waiting;
};

/* Change or read the params of a name. size 0: name is a C string. *ret: as
 * they are then. Blocks as snib__run_direct does. */
snib_err snib__params_ask(struct snib_client *, const char *name, size_t size,
                          snib__params_op, int64_t amount,
                          struct snib__params *ret, struct snib_error *reterr);
/* USAGE when n is not between least and SNIB_PERMITS_MAX. what names it. */
snib_err snib__params_check(const char *what, int64_t n, int64_t least,
                            struct snib_error *reterr);

#endif

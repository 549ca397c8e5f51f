#ifndef SNIB_DEADLOCK_H
#define SNIB_DEADLOCK_H

#include "snib.h"
#include "snib/inspect.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snib_wait {
    const char *name;
    size_t name_size;
    const struct snib_party *who;

    bool behind;
};

struct snib_cycle {
    size_t count;
    const struct snib_wait *const *waits;

    bool certain;
};

SNIB_API SNIB_CHECK snib_err snib_client_deadlocks(struct snib_client *,
                                                   struct snib_cycle ***ret,
                                                   size_t *ret_count,
                                                   struct snib_error *reterr);
SNIB_API void snib_deadlocks_free(struct snib_cycle **, size_t count);

#ifdef __cplusplus
}
#endif
#endif

#ifndef SNIB_SEMAPHORE_H
#define SNIB_SEMAPHORE_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snib_semaphore {
    int64_t size;
    int64_t used;

    int64_t available;
    int64_t waiting;
};

SNIB_API SNIB_CHECK snib_err snib_semaphore_get(
    struct snib_client *, const char *name, size_t name_size,
    struct snib_semaphore *ret, size_t ret_size, struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_semaphore_set(struct snib_client *,
                                                const char *name,
                                                size_t name_size, uint32_t size,
                                                bool only_new, bool *ret_set,
                                                struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_semaphore_add(struct snib_client *,
                                                const char *name,
                                                size_t name_size, int64_t by,
                                                struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_semaphore_drain(
    struct snib_lock *lock, const struct snib_acquire_options *,
    struct snib_grant *ret, uint32_t *ret_permits, struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_semaphore_slot(struct snib_lock *lock,
                                                 struct snib_grant,
                                                 uint32_t *ret,
                                                 struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

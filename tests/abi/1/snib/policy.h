#ifndef SNIB_POLICY_H
#define SNIB_POLICY_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum snib_on_busy {
    SNIB_ON_BUSY_FAIL,
    SNIB_ON_BUSY_RUN,
    SNIB_ON_BUSY_CALL
} snib_on_busy;

struct snib_policy {
    size_t size;
    const char *name;
    const char *key;
    snib_on_busy on_busy;
    int (*busy)(void *data, const struct snib_error *);
    struct snib_lock_options lock;
};

SNIB_API SNIB_CHECK snib_err snib_policy_run(
    struct snib_client *, const struct snib_policy *, const char *const pairs[],
    int (*body)(void *data, struct snib_grant), void *data, int *ret_body,
    struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_policy_try(
    struct snib_client *, const struct snib_policy *, const char *const pairs[],
    int (*body)(void *data, struct snib_grant), void *data, int *ret_body,
    struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_policy_try_for(
    struct snib_client *, int64_t wait_ms, const struct snib_policy *,
    const char *const pairs[], int (*body)(void *data, struct snib_grant),
    void *data, int *ret_body, struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

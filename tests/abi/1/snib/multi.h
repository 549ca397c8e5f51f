#ifndef SNIB_MULTI_H
#define SNIB_MULTI_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIB_MULTI_MAX 1024

struct snib_multi;

struct snib_multi_options {
    size_t size;
};

SNIB_API SNIB_CHECK snib_err snib_multi_new(struct snib_lock *const locks[],
                                            size_t count,
                                            const struct snib_multi_options *,
                                            struct snib_multi **ret,
                                            struct snib_error *reterr);

SNIB_API void snib_multi_free(struct snib_multi *);

SNIB_API size_t snib_multi_count(const struct snib_multi *);

SNIB_API SNIB_CHECK snib_err
snib_multi_acquire(struct snib_multi *, const struct snib_acquire_options *,
                   struct snib_grant ret_grants[], struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_multi_try(struct snib_multi *,
                                            const struct snib_acquire_options *,
                                            struct snib_grant ret_grants[],
                                            struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_multi_try_for(
    struct snib_multi *, int64_t wait_ms, const struct snib_acquire_options *,
    struct snib_grant ret_grants[], struct snib_error *reterr);

SNIB_API void snib_multi_cancel(struct snib_multi *);

SNIB_API size_t snib_multi_missing(struct snib_multi *);

SNIB_API snib_err snib_multi_release(struct snib_multi *,
                                     const struct snib_grant grants[],
                                     struct snib_error *reterr);

struct snib_multi_status {
    snib_state state;
    snib_cause cause;
    int64_t left_ms;
    size_t member;
};

SNIB_API void snib_multi_status(struct snib_multi *,
                                const struct snib_grant grants[],
                                struct snib_multi_status *ret, size_t ret_size);

SNIB_API bool snib_multi_held(struct snib_multi *,
                              const struct snib_grant grants[]);

#ifdef __cplusplus
}
#endif
#endif

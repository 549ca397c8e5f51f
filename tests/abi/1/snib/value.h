#ifndef SNIB_VALUE_H
#define SNIB_VALUE_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIB_VALUE_MAX ((size_t)65536)

#define SNIB_VALUE_TTL_MAX_MS INT64_C(2592000000)

struct snib_value {
    int64_t version;
    size_t size;
    const void *bytes;
};

SNIB_API SNIB_CHECK snib_err snib_value_get(struct snib_client *,
                                            const char *name, size_t name_size,
                                            struct snib_value **ret,
                                            struct snib_error *reterr);
SNIB_API void snib_value_free(struct snib_value *);

SNIB_API SNIB_CHECK snib_err snib_value_put(struct snib_client *,
                                            const char *name, size_t name_size,
                                            int64_t expected, const void *bytes,
                                            size_t size, int64_t ttl_ms,
                                            int64_t *ret_version,
                                            struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_value_delete(
    struct snib_client *, const char *name, size_t name_size, int64_t expected,
    int64_t *ret_version, struct snib_error *reterr);

struct snib_value_next {
    const void *bytes;
    size_t size;
    bool remove;
};

struct snib_value_options {
    size_t size;
    int64_t ttl_ms;

    int64_t backoff_ms, backoff_max_ms;
};

SNIB_API SNIB_CHECK snib_err
snib_value_update(struct snib_client *, const char *name, size_t name_size,
                  const struct snib_value_options *,
                  int (*compute)(void *data, const struct snib_value *now,
                                 struct snib_value_next *next),
                  void *data, int *ret_stopped, int64_t *ret_version,
                  struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err
snib_value_try(struct snib_client *, const char *name, size_t name_size,
               const struct snib_value_options *,
               int (*compute)(void *data, const struct snib_value *now,
                              struct snib_value_next *next),
               void *data, int *ret_stopped, int64_t *ret_version,
               struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err
snib_value_try_for(struct snib_client *, const char *name, size_t name_size,
                   int64_t wait_ms, const struct snib_value_options *,
                   int (*compute)(void *data, const struct snib_value *now,
                                  struct snib_value_next *next),
                   void *data, int *ret_stopped, int64_t *ret_version,
                   struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

#ifndef SNIB_INSPECT_H
#define SNIB_INSPECT_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snib_party {
    const char *client_id;
    const char *host;
    const char *user;
    const char *program;
    const char *reason;
    int64_t pid;

    int64_t since_ms;
    int64_t left_ms;
    int64_t token;
    snib_kind kind;
    uint32_t permits;
    uint32_t holds;
    bool self;

    uint64_t owner;
    const char *request;

    const char *holding;
    int64_t slot;
};

struct snib_view {
    const char *name;
    size_t name_size;
    int64_t token;
    size_t holder_count, waiter_count;
    const struct snib_party *const *holders;
    const struct snib_party *const *waiters;

    size_t closed_count;
    const struct snib_party *const *closed_by;
    int64_t closed_ms;

    uint32_t holders_more;
};

SNIB_API SNIB_CHECK snib_err snib_client_inspect(struct snib_client *,
                                                 const char *name,
                                                 size_t name_size,
                                                 struct snib_view **ret,
                                                 struct snib_error *reterr);
SNIB_API void snib_view_free(struct snib_view *);

SNIB_API SNIB_CHECK snib_err snib_client_list(struct snib_client *,
                                              const char *glob,
                                              struct snib_view ***ret,
                                              size_t *ret_count,
                                              struct snib_error *reterr);
SNIB_API void snib_views_free(struct snib_view **, size_t count);

SNIB_API SNIB_CHECK snib_err snib_client_force_release(
    struct snib_client *, const char *name, size_t name_size,
    const char *reason, uint32_t *ret_released, struct snib_error *reterr);

typedef enum snib_level {
    SNIB_LEVEL_OK,
    SNIB_LEVEL_WARN,
    SNIB_LEVEL_FAIL
} snib_level;
struct snib_finding {
    snib_level level;
    const char *check;
    const char *text;
    const char *remedy;
};

SNIB_API SNIB_CHECK snib_err snib_client_doctor(
    struct snib_client *, void (*tell)(void *data, const struct snib_finding *),
    void *data, struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

#ifndef SNIB_RING_H
#define SNIB_RING_H

#include "snib.h"
#include "snib/inspect.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SNIB_RING_MEMBERS_MAX ((size_t)4096)
#define SNIB_RING_ID_MAX      ((size_t)512)
#define SNIB_RING_WEIGHT_MAX  UINT32_C(100)

#define SNIB_RING_NOBODY SIZE_MAX

struct snib_ring;

struct snib_ring_member {
    const char *id;
    size_t id_size;

    uint32_t weight;
};

SNIB_API SNIB_CHECK snib_err snib_ring_new(const struct snib_ring_member *,
                                           size_t count, struct snib_ring **ret,
                                           struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_ring_of_view(const struct snib_view *,
                                               struct snib_ring **ret,
                                               struct snib_error *reterr);

SNIB_API void snib_ring_free(struct snib_ring *);

SNIB_API size_t snib_ring_count(const struct snib_ring *);
SNIB_API const char *snib_ring_id(const struct snib_ring *, size_t number,
                                  size_t *ret_size);

SNIB_API size_t snib_ring_find(const struct snib_ring *, const char *id,
                               size_t id_size);

SNIB_API size_t snib_ring_owner(const struct snib_ring *, const void *key,
                                size_t key_size);

SNIB_API size_t snib_ring_owners(const struct snib_ring *, const void *key,
                                 size_t key_size, size_t *ret, size_t max);

SNIB_API uint64_t snib_ring_fingerprint(const struct snib_ring *);

struct snib_ring_membership;

#define SNIB_RING_MEMBER_ID_MAX 64

struct snib_ring_options {
    size_t size;
    int64_t lease_ms;

    void (*on_change)(void *data, struct snib_grant, snib_state, snib_cause);
    void *data;
};

SNIB_API SNIB_CHECK snib_err snib_ring_join(struct snib_client *,
                                            const char *name, size_t name_size,
                                            const char *id,
                                            const struct snib_ring_options *,
                                            struct snib_ring_membership **ret,
                                            struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_ring_try(struct snib_client *,
                                           const char *name, size_t name_size,
                                           const char *id,
                                           const struct snib_ring_options *,
                                           struct snib_ring_membership **ret,
                                           struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_ring_try_for(
    struct snib_client *, const char *name, size_t name_size, const char *id,
    int64_t wait_ms, const struct snib_ring_options *,
    struct snib_ring_membership **ret, struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_ring_read(struct snib_client *,
                                            const char *name, size_t name_size,
                                            struct snib_ring **ret,
                                            struct snib_error *reterr);

SNIB_API bool snib_ring_mine(const struct snib_ring_membership *,
                             const struct snib_ring *, const void *key,
                             size_t key_size);

SNIB_API snib_err snib_ring_leave(struct snib_ring_membership *,
                                  struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

#ifndef SNIB_LATCH_H
#define SNIB_LATCH_H

#include "snib/event.h"

#ifdef __cplusplus
extern "C" {
#endif

SNIB_API SNIB_CHECK snib_err snib_latch_set(struct snib_client *,
                                            const char *name, size_t name_size,
                                            uint32_t count, bool *ret_set,
                                            struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_latch_count_down(
    struct snib_client *, const char *name, size_t name_size, uint32_t by,
    uint32_t *ret_left, struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_latch_left(struct snib_client *,
                                             const char *name, size_t name_size,
                                             uint32_t *ret_left,
                                             struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_latch_open(struct snib_client *,
                                             const char *name, size_t name_size,
                                             struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_latch_await(struct snib_client *,
                                              const char *name,
                                              size_t name_size,
                                              struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_latch_try(struct snib_client *,
                                            const char *name, size_t name_size,
                                            struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_latch_try_for(struct snib_client *,
                                                const char *name,
                                                size_t name_size,
                                                int64_t wait_ms,
                                                struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_barrier_wait(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    int64_t *ret_generation, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_barrier_try(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    int64_t *ret_generation, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_barrier_try_for(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    int64_t wait_ms, int64_t *ret_generation, struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_latch_await_start(
    struct snib_client *, const char *name, size_t name_size, void *user,
    uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_latch_try_start(struct snib_client *,
                                                  const char *name,
                                                  size_t name_size, void *user,
                                                  uint64_t *ret_ticket,
                                                  struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_latch_try_for_start(
    struct snib_client *, const char *name, size_t name_size, int64_t wait_ms,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_barrier_wait_start(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_barrier_try_start(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_barrier_try_for_start(
    struct snib_client *, const char *name, size_t name_size, uint32_t parties,
    int64_t wait_ms, void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);

#ifdef __cplusplus
}
#endif
#endif

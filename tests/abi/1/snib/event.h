#ifndef SNIB_EVENT_H
#define SNIB_EVENT_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum snib_event_kind {
    SNIB_EVENT_GRANTED,
    SNIB_EVENT_REFUSED,
    SNIB_EVENT_RELEASED,
    SNIB_EVENT_STATE,
    SNIB_EVENT_PASSED
} snib_event_kind;

struct snib_event {
    snib_event_kind kind;
    struct snib_grant grant;
    void *user;
    snib_state state;
    snib_cause cause;
    struct snib_error error;
};

SNIB_API SNIB_CHECK snib_err
snib_acquire_start(struct snib_lock *, const struct snib_acquire_options *,
                   void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_try_start(struct snib_lock *,
                                            const struct snib_acquire_options *,
                                            void *user, uint64_t *ret_ticket,
                                            struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_try_for_start(
    struct snib_lock *, int64_t wait_ms, const struct snib_acquire_options *,
    void *user, uint64_t *ret_ticket, struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_release_start(struct snib_lock *,
                                                struct snib_grant, void *user,
                                                struct snib_error *reterr);

SNIB_API void snib_client_cancel(struct snib_client *, uint64_t ticket);

SNIB_API int snib_client_fd(struct snib_client *);

SNIB_API int64_t snib_client_timeout_ms(struct snib_client *);

SNIB_API SNIB_CHECK snib_err snib_client_process(struct snib_client *);

SNIB_API bool snib_client_next(struct snib_client *, struct snib_event *ret,
                               size_t ret_size);

#ifdef __cplusplus
}
#endif
#endif

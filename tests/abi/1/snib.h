#ifndef SNIB_H
#define SNIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SNIB_VERSION_MAJOR 0
#define SNIB_VERSION_MINOR 1
#define SNIB_VERSION_PATCH 0
#define SNIB_VERSION       "0.1.0"

#define SNIB_API   __attribute__((visibility("default")))
#define SNIB_CHECK __attribute__((warn_unused_result))

#define SNIB_NAME_MAX 512

#define SNIB_LEASE_MIN_MS INT64_C(50)
#define SNIB_LEASE_MAX_MS INT64_C(86400000)

typedef enum snib_err {
    SNIB_ERR_OK,
    SNIB_ERR_BUSY,
    SNIB_ERR_TIMEOUT,
    SNIB_ERR_CANCELLED,
    SNIB_ERR_DEADLOCK,
    SNIB_ERR_LOST,
    SNIB_ERR_NOT_HELD,
    SNIB_ERR_WRONG_OWNER,
    SNIB_ERR_USAGE,
    SNIB_ERR_FORKED,
    SNIB_ERR_UNKNOWN,
    SNIB_ERR_UNREACHABLE,
    SNIB_ERR_DENIED,
    SNIB_ERR_STORE,
    SNIB_ERR_CORRUPT,
    SNIB_ERR_UNSUPPORTED,
    SNIB_ERR_CONFIG,
    SNIB_ERR_LIMIT,
    SNIB_ERR_CLOSED,
    SNIB_ERR_NOMEM,
    SNIB_ERR_INTERNAL,
    SNIB_ERR_TOO_MANY
} snib_err;

typedef enum snib_class {
    SNIB_CLASS_NONE,
    SNIB_CLASS_REFUSED,
    SNIB_CLASS_LOST,
    SNIB_CLASS_UNKNOWN,
    SNIB_CLASS_RETRY,
    SNIB_CLASS_USAGE,
    SNIB_CLASS_STORE,
    SNIB_CLASS_LIMIT,
    SNIB_CLASS_INTERNAL
} snib_class;

struct snib_error {
    snib_err code;
    char text[252];
};

SNIB_API const char *snib_err_name(snib_err);
SNIB_API const char *snib_err_text(snib_err);
SNIB_API snib_class snib_err_class(snib_err);

SNIB_API const char *snib_version(void);

typedef enum snib_kind {
    SNIB_KIND_MUTEX,
    SNIB_KIND_READ,
    SNIB_KIND_WRITE,
    SNIB_KIND_PERMITS,
    SNIB_KIND_BARRIER
} snib_kind;

#define SNIB_PERMITS_MAX 1000000000

#define SNIB_PRIORITY_MAX 100

typedef enum snib_state {
    SNIB_STATE_HELD,
    SNIB_STATE_AT_RISK,
    SNIB_STATE_LOST,
    SNIB_STATE_RELEASED
} snib_state;

typedef enum snib_cause {
    SNIB_CAUSE_NONE,
    SNIB_CAUSE_EXPIRED,
    SNIB_CAUSE_STOLEN,
    SNIB_CAUSE_UNREACHABLE,
    SNIB_CAUSE_PAUSED,
    SNIB_CAUSE_REVOKED,
    SNIB_CAUSE_HOLD_MAX,
    SNIB_CAUSE_FORGOTTEN
} snib_cause;

SNIB_API const char *snib_state_text(snib_state);
SNIB_API const char *snib_cause_text(snib_cause);

struct snib_client;
struct snib_lock;

struct snib_grant {
    uint64_t ticket;
    int64_t token;
};

struct snib_status {
    snib_state state;
    snib_cause cause;
    int64_t token;
    int64_t left_ms;
    int64_t held_ms;
    uint32_t holds;
    snib_kind kind;
    uint32_t permits;
    int64_t slot;
};

#define SNIB_LOG_ERROR 0
#define SNIB_LOG_WARN  1
#define SNIB_LOG_INFO  2
#define SNIB_LOG_DEBUG 3

struct snib_client_options {
    size_t size;

    const char *url;
    const char *program;
    const char *reason;

    const char *identity;
    bool pull;

    bool leashed;
    int64_t request_ms;

    void (*log)(void *data, int level, const char *line);
    void *data;

    bool no_deadlock_check;
};

#define SNIB_INIT(type)                                                        \
    {                                                                          \
        .size = sizeof(struct type)                                            \
    }

SNIB_API SNIB_CHECK snib_err
snib_client_open(const struct snib_client_options *options,
                 struct snib_client **ret, struct snib_error *reterr);

SNIB_API void snib_client_close(struct snib_client *);
SNIB_API void snib_client_stop(struct snib_client *);
SNIB_API void snib_client_free(struct snib_client *);

SNIB_API const char *snib_client_url(const struct snib_client *);

struct snib_store_status {
    bool reachable;
    snib_err error;
    int64_t for_ms;
    uint32_t nodes, nodes_reachable;
    char text[252];
};

SNIB_API void snib_client_store_status(struct snib_client *,
                                       struct snib_store_status *ret);

SNIB_API const char *snib_client_id(const struct snib_client *);

struct snib_lock_options {
    size_t size;
    size_t name_size;
    snib_kind kind;

    uint32_t permits;

    uint32_t capacity;
    int64_t lease_ms;
    int64_t hold_max_ms;

    bool fixed_lease;

    bool aggressive;

    bool confirm;

    bool no_reentry;

    bool spin;

    bool no_local_hand_over;

    int64_t lock_delay_ms;

    int priority;

    void (*on_change)(void *data, struct snib_grant, snib_state, snib_cause);
    void *data;
};

SNIB_API SNIB_CHECK snib_err snib_lock_new(struct snib_client *,
                                           const char *name,
                                           const struct snib_lock_options *,
                                           struct snib_lock **ret,
                                           struct snib_error *reterr);

SNIB_API void snib_lock_free(struct snib_lock *);

struct snib_acquire_options {
    size_t size;
    uint64_t owner;
    const char *reason;
    uint32_t permits;

    bool all_permits;

    const char *above;
};

SNIB_API SNIB_CHECK snib_err snib_acquire(struct snib_lock *,
                                          const struct snib_acquire_options *,
                                          struct snib_grant *ret,
                                          struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_try(struct snib_lock *,
                                      const struct snib_acquire_options *,
                                      struct snib_grant *ret,
                                      struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_try_for(struct snib_lock *, int64_t wait_ms,
                                          const struct snib_acquire_options *,
                                          struct snib_grant *ret,
                                          struct snib_error *reterr);

SNIB_API snib_err snib_release(struct snib_lock *, struct snib_grant,
                               struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_renew(struct snib_lock *, struct snib_grant,
                                        int64_t lease_ms,
                                        struct snib_error *reterr);

SNIB_API void snib_grant_status(struct snib_lock *, struct snib_grant,
                                struct snib_status *ret, size_t ret_size);

#define SNIB_EXPLAIN_TEXT 512

SNIB_API void snib_grant_explain(struct snib_lock *, struct snib_grant,
                                 char *ret_text, size_t size);

SNIB_API bool snib_grant_held(struct snib_lock *, struct snib_grant);

SNIB_API int snib_grant_fd(struct snib_lock *, struct snib_grant);

SNIB_API uint64_t snib_owner_new(void);

struct snib_scope {
    struct snib_lock *lock;
    struct snib_grant grant;
    snib_err err;
    bool live;
    struct snib_error *reterr;
};
SNIB_API struct snib_scope snib_scope_begin(struct snib_lock *,
                                            const struct snib_acquire_options *,
                                            struct snib_error *reterr);
SNIB_API struct snib_scope snib_scope_try(struct snib_lock *,
                                          const struct snib_acquire_options *,
                                          struct snib_error *reterr);
SNIB_API struct snib_scope
snib_scope_try_for(struct snib_lock *, int64_t wait_ms,
                   const struct snib_acquire_options *,
                   struct snib_error *reterr);
SNIB_API void snib_scope_end(struct snib_scope *);
#define SNIB_WITH_(s, begin)                                                   \
    for (struct snib_scope s __attribute__((cleanup(snib_scope_end))) = begin; \
         s.live; snib_scope_end(&s))
#define SNIB_WITH(s, lock, opts, err)                                          \
    SNIB_WITH_ (s, snib_scope_begin(lock, opts, err))
#define SNIB_WITH_TRY(s, lock, opts, err)                                      \
    SNIB_WITH_ (s, snib_scope_try(lock, opts, err))
#define SNIB_WITH_TRY_FOR(s, lock, wait_ms, opts, err)                         \
    SNIB_WITH_ (s, snib_scope_try_for(lock, wait_ms, opts, err))

#ifdef __cplusplus
}
#endif
#endif

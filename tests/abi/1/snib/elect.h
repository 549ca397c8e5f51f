#ifndef SNIB_ELECT_H
#define SNIB_ELECT_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct snib_elect;

typedef enum snib_elect_state {
    SNIB_ELECT_FOLLOWER,
    SNIB_ELECT_LEADER,
    SNIB_ELECT_LEADER_AT_RISK,
    SNIB_ELECT_LEADER_LOST
} snib_elect_state;

SNIB_API const char *snib_elect_state_text(snib_elect_state);

struct snib_elect_options {
    size_t size;
    size_t name_size;

    int64_t lease_ms;
    const char *id;

    void (*on_change)(void *data, snib_elect_state, int64_t term);
    void *data;
};

SNIB_API SNIB_CHECK snib_err snib_elect_new(struct snib_client *,
                                            const char *name,
                                            const struct snib_elect_options *,
                                            struct snib_elect **ret,
                                            struct snib_error *reterr);

SNIB_API void snib_elect_free(struct snib_elect *);

SNIB_API SNIB_CHECK snib_err snib_elect_campaign(struct snib_elect *,
                                                 int64_t *ret_term,
                                                 struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_elect_try(struct snib_elect *,
                                            int64_t *ret_term,
                                            struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_elect_try_for(struct snib_elect *,
                                                int64_t wait_ms,
                                                int64_t *ret_term,
                                                struct snib_error *reterr);

SNIB_API snib_err snib_elect_resign(struct snib_elect *,
                                    struct snib_error *reterr);

struct snib_elect_status {
    snib_elect_state state;
    snib_cause cause;
    int64_t term;
    int64_t left_ms;
};

SNIB_API void snib_elect_status(struct snib_elect *,
                                struct snib_elect_status *ret, size_t ret_size);

SNIB_API bool snib_elect_leading(struct snib_elect *);

SNIB_API int snib_elect_fd(struct snib_elect *);

struct snib_leader {
    int64_t term;
    const char *id;
    const char *client_id;
    const char *host;
    const char *user;
    const char *program;
    int64_t pid;
    int64_t since_ms;
    int64_t left_ms;
    size_t candidates;
    bool self;
};

SNIB_API SNIB_CHECK snib_err snib_elect_leader(struct snib_elect *,
                                               struct snib_leader **ret,
                                               struct snib_error *reterr);

SNIB_API SNIB_CHECK snib_err snib_elect_watch(struct snib_elect *,
                                              int64_t known_term,
                                              struct snib_leader **ret,
                                              struct snib_error *reterr);
SNIB_API SNIB_CHECK snib_err snib_elect_watch_for(struct snib_elect *,
                                                  int64_t known_term,
                                                  int64_t wait_ms,
                                                  struct snib_leader **ret,
                                                  struct snib_error *reterr);

SNIB_API void snib_leader_free(struct snib_leader *);

#ifdef __cplusplus
}
#endif
#endif

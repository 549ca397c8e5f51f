/* api/api.h — what the public functions share; for src/api only. */
#ifndef SNIB__API_H
#define SNIB__API_H

#include "api/caller.h"
#include "core/url.h"
#include "driver/driver.h"

/* -- started.c: what all starts share ---------------------------------------- */

/* Nothing is started yet: the ticket is 0. */
static inline void snib__no_ticket(uint64_t *ret_ticket)
{
    if (ret_ticket) {
        *ret_ticket = 0;
    }
}
/* Tell the ticket of an operation. */
static inline void snib__op_tell_ticket(const struct snib__op *op,
                                        uint64_t *ret_ticket)
{
    if (ret_ticket) {
        *ret_ticket = op->ev.grant.ticket;
    }
}
/* Make a struct of that size whose first member is an operation. kind: NULL if
 * its event is not DONE. Returns NULL without memory. */
void *snib__op_new(size_t size, const struct snib__op_kind *kind, void *user);
/* May it be started? This makes what events need. Errors: CLOSED, LIMIT,
 * NOMEM (also when op is NULL). */
snib_err snib__op_may_start(struct snib__step *, const struct snib__op *,
                            struct snib_error *reterr);
/* The same for one that ends something: also after close, until stop. */
snib_err snib__op_may_end(struct snib__step *, const struct snib__op *,
                          struct snib_error *reterr);
/* End the step of a start: what was started goes out. */
void snib__op_started(struct snib__step *);
/* The kind of a started snib__direct_op. */
extern const struct snib__op_kind snib__started_kind;

/* -- acquire.c, events.c ------------------------------------------------------ */

/* Check the caller's struct, and copy it. wait_ms below 0 is a try. */
snib_err snib__how_read(const struct snib_acquire_options *, int64_t wait_ms,
                        struct snib__how *ret, struct snib_error *reterr);
/* May a call ask for a grant? This starts the background thread, and waits
 * until limit while too many requests are in flight. */
snib_err snib__may_acquire(struct snib__step *, snib_instant limit,
                           struct snib_error *reterr);
/* A way to end a call from another thread. The client's mutex guards it while
 * the call runs. */
struct snib__canceller {
    bool asked;
    uint64_t ticket; /* of the waiting acquisition; 0: none yet */
};
/* Acquire with checked options, for an explicit owner or the thread's. It ends
 * with CANCELLED once the stop is asked for. */
snib_err snib__acquire_until(struct snib_lock *, const struct snib__how *,
                             struct snib__canceller *, struct snib_grant *ret,
                             struct snib_error *reterr);
/* End that call, if it still waits. */
void snib__canceller_ask(struct snib_client *, struct snib__canceller *);
/* Start an acquire with checked options, or a release. The operation, of
 * snib__op_new (NULL: NOMEM), still belongs to the caller after an error. */
snib_err snib__acquire_start(struct snib_lock *, const struct snib__how *,
                             struct snib__op *, uint64_t *ret_ticket,
                             struct snib_error *reterr);
snib_err snib__release_start(struct snib_lock *, struct snib_grant,
                             struct snib__op *, struct snib_error *reterr);
/* The error of an answered call, with its text. */
snib_err snib__call_outcome(const struct snib__call *,
                            struct snib_error *reterr);
/* USAGE for a lease out of bounds. */
snib_err snib__lease_check(int64_t ms, struct snib_error *reterr);

/* -- grant.c --------------------------------------------------------------- */

/* The acquisition that the grant is. NULL: the grant is stale, or of another
 * lock. */
struct snib__acquisition *snib__grant_of(const struct snib_lock *,
                                         struct snib_grant);
/* USAGE for a grant of another lock; a stale one is OK here. */
snib_err snib__grant_check(const struct snib_lock *, struct snib_grant,
                           struct snib_error *reterr);

/* -- batch.c: several requests in one visit -------------------------------- */

/* One lock of a batch. */
struct snib__batch_item {
    struct snib_lock *lock;
    struct snib_grant grant;
    struct snib_error error; /* code OK: acquired; released               */
    struct snib__op op;
    bool asked; /* op has the answer */
};
/* Try n locks of one client, for one owner, in one visit: in order, until one
 * is refused; with `all`, all or none. Each item's error says what became of
 * it. It is CANCELLED when the lock is not acquired because another one is not.
 * A store that cannot do it in one step may grant locks behind a refused one.
 * Blocks up to patience, and no request outlives that: one that is unanswered
 * then is UNREACHABLE (never sent) or UNKNOWN (being cancelled). */
void snib__batch_try(struct snib_client *, struct snib__batch_item[], size_t n,
                     const struct snib_acquire_options *, bool all,
                     snib_duration patience);
/* Start such tries: g counts those that will be answered. With the mutex
 * held; limit is that of each try. */
void snib__batch_start_tries(struct snib__step *, struct snib__batch_item[],
                             size_t n, struct snib__batch *g,
                             const struct snib__how *, bool all,
                             snib_instant limit, uint64_t owner);
/* All are answered: copy what the answers say into the items. */
void snib__batch_harvest(struct snib__batch_item[], size_t n);
/* Nothing was asked: each item's error is *why. */
void snib__batch_fail_all(struct snib__batch_item[], size_t n,
                          const struct snib_error *why);
/* Release n grants of one client in one visit. Blocks up to patience. A release
 * that is unanswered then is UNKNOWN, and repeated in the background. */
void snib__batch_release(struct snib_client *, struct snib__batch_item[],
                         size_t n, snib_duration patience);

/* -- stores.c, identity.c -------------------------------------------------- */

struct snib__registered {
    const char *scheme;
    const struct snib__store_ops *ops;
    const struct snib__blocking_ops *blocking;
    /* An example of its URL, for somebody who gave none; or NULL. */
    const char *offer;
    /* The statements that make the tables of this URL; NULL: it has none that
     * others could make. Errors: USAGE, NOMEM. */
    snib_err (*schema)(const struct snib__url *, struct snib__buf *ret,
                       struct snib_error *reterr);
    /* Writes what is the same for all URLs of one such store (identity.c);
     * NULL: the URL's parts. */
    void (*identity)(struct snib__buf *, const struct snib__url *);
    /* May its clients have a witness? */
    enum {
        SNIB__WITNESS_UNSUPPORTED,
        SNIB__WITNESS_NEEDLESS, /* the kernel tells this store who is dead */
        SNIB__WITNESS_SUPPORTED
    } witness;
};
const struct snib__registered *snib__store_find(const char *scheme);
/* "file:PATH or redis://HOST": examples of the stores that are built in. The
 * store for tests within a process is left out. */
void snib__stores_offered(char *ret, size_t size);
/* Say that there is no store of this scheme: UNSUPPORTED; CONFIG: no more. */
snib_err snib__store_missing(const char *scheme, struct snib_error *reterr);
/* The URL of the embedded file; the caller frees it. */
snib_err snib__default_url(char **ret, struct snib_error *reterr);
void snib__identity_redis(struct snib__buf *, const struct snib__url *);
void snib__identity_sentinel(struct snib__buf *, const struct snib__url *);
void snib__identity_quorum(struct snib__buf *, const struct snib__url *);
void snib__identity_postgres(struct snib__buf *, const struct snib__url *);
void snib__identity_mysql(struct snib__buf *, const struct snib__url *);
void snib__identity_etcd(struct snib__buf *, const struct snib__url *);
void snib__identity_zookeeper(struct snib__buf *, const struct snib__url *);
void snib__identity_rabbitmq(struct snib__buf *, const struct snib__url *);
void snib__identity_file(struct snib__buf *, const struct snib__url *);
/* The identity of a store: equal for two URLs of one store. The caller frees
 * it. NULL: no memory. Without a store: the URL's parts. */
char *snib__store_identity(const struct snib__registered *,
                           const struct snib__url *);

#endif

/* snib/inspect.h — who holds a lock and who waits, ending a grant by force, the
 * check-up of a store, and its server.
 *
 *   struct snib_view *v;
 *   if (!snib_client_inspect(client, "nightly", 0, &v, &err)) {
 *       for (size_t i = 0; i < v->holder_count; i++)
 *           puts(v->holders[i]->host);
 *       snib_view_free(v);
 *   }
 *
 * Any thread. The calls block up to request_ms (snib_client_list longer on
 * Redis), so in a pull client use their started forms (USAGE otherwise;
 * snib/event.h); but for snib_client_server, which any client may call. */
#ifndef SNIB_INSPECT_H
#define SNIB_INSPECT_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Somebody at a lock: a holder or a waiter. Strings are never NULL. */
struct snib_party {
    const char *client_id; /* hexadecimal */
    const char *host;
    const char *user;
    const char *program;
    const char *reason;
    int64_t pid; /* 0: not known */
    /* Unix time by this host's clock. For a holder: when it was granted. That
     * is measured by the store's clock, so an age of now - since_ms is right,
     * to a second, even if the clocks of other hosts are wrong (a local
     * hand-over is no grant of the store). For a waiter: when it came; on Redis by its own
     * host's clock. 0: the store does not know it. */
    int64_t since_ms;
    int64_t left_ms; /* holder: lease left; waiter: until it counts as dead */
    /* Of a holder. 0: not known yet; so it is, on Redis, of a mutex that was free
     * when it was taken, until its first renewal, a second later as a rule. */
    int64_t token;
    snib_kind kind;
    uint32_t permits;
    uint32_t holds; /* as last shown to the store */
    bool self;      /* it is this very client */
    /* The owner, a number in its process; 0: not known. A mutex that was handed
     * over between the threads of a process shows the owner that asked for it
     * first. Permits belong to no owner: this is the one that acquired them.
     * The number lacks its highest bit, by which an owner of snib_owner_new()
     * is told from a thread's. */
    uint64_t owner;
    const char *request; /* id of the grant or wait: 32 hexadecimal digits */
    /* For a waiter: what its owner held when it began to wait, and what was
     * held above it (snib_acquire_options.above). It has the first 16 digits of
     * those grants' requests, joined by ','; "": nothing known. */
    const char *holding;
    int64_t slot; /* holder of PERMITS: snib_semaphore_slot; else -1 */
    /* When that process began, as in field 22 of its /proc/PID/stat: together
     * with the pid it tells that process from another one that has the pid in
     * another container, or has it now. 0: not known. */
    int64_t start;
    /* Holder: its client may have released the mutex and keep it for up to so
     * long (snib_lock_options.keep_ms); it gives it back when it is asked for.
     * The store cannot see which of the two it is. 0: it holds. */
    int64_t keep_ms;
};

/* A lock as the store saw it at one moment. */
struct snib_view {
    const char *name; /* raw bytes, NUL-terminated */
    size_t name_size;
    int64_t token; /* last token given out that the store knows; 0: none */
    size_t holder_count, waiter_count;
    const struct snib_party *const *holders;
    const struct snib_party *const *waiters; /* in the order of the queue */
    /* Former holders that keep the lock closed: their leases ran out without a
     * release, and their lock-delays still run. To all who would not fit with
     * them the lock is closed as if they still held it. left_ms of each is the
     * time until its delay is over. closed_ms is that of the last; 0: nothing
     * keeps the lock closed. */
    size_t closed_count;
    const struct snib_party *const *closed_by;
    int64_t closed_ms;
    /* How many holders more there are than `holders` shows. Somebody who is not
     * found there may hold the lock nevertheless. 0: all are shown. */
    uint32_t holders_more;
    /* On a Redis server that is used with recovery=, in this URL or not: for so
     * long nothing new is granted, since the server was restarted, replaced or
     * emptied and may have forgotten who holds (docs/REDIS.md). 0: no recovery
     * runs, or this login may not see it. snib_client_list shows it of locks that
     * the server knows of. */
    int64_t recovery_ms;
    /* In a list: why the lock cannot be shown, and what to do, in one line: its
     * records are damaged, or not snib's (CORRUPT). All but the name is 0 then,
     * which does not mean that it is free. Of a damaged part of a lock file not
     * even the names are known: one row with the name "" stands for all of
     * them. NULL: it is shown. */
    const char *damage;
    /* The recovery has not begun: it does, and lasts recovery_ms, when somebody
     * wants a lock. To inspect begins none. */
    bool recovery_ahead;
    /* It cannot before so many replicas more are connected: they are used with
     * replicas= in the URL. 0: it can. */
    uint32_t replicas_missing;
};

/* Inspect one lock. A lock that nobody holds or waits for is a view with no
 * holders; it is free when nothing keeps it closed either. Free the view with
 * snib_view_free. *ret is NULL on error. Blocks up to request_ms.
 *
 * What is shown was so at one instant between the call and its return. On Redis
 * that is true of the first 200 holders and 100 waiters. Those behind are
 * fetched by the hundred, up to 1,000 holders (holders_more counts the rest);
 * while the queue moves, some may be missing or shown twice. A quorum asks its
 * servers one by one, so there is no such instant.
 *
 * Errors: USAGE (name, a NULL, a pull client), UNREACHABLE (no connection, or
 * no answer), DENIED, STORE, CORRUPT, CONFIG (the server keeps no locks), LIMIT
 * (the answer is too long), CLOSED, FORKED, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_client_inspect(struct snib_client *,
                                                 const char *name,
                                                 size_t name_size,
                                                 struct snib_view **ret,
                                                 struct snib_error *reterr);
SNIB_API void snib_view_free(struct snib_view *);

/* The same, started: it ends in SNIB_EVENT_DONE (snib/event.h). For pull
 * clients, too. Errors: USAGE (name, a NULL), LIMIT (no thread or file
 * descriptor is left), CLOSED, FORKED, NOMEM; those of snib_client_inspect
 * come with the event. */
SNIB_API SNIB_CHECK snib_err
snib_client_inspect_start(struct snib_client *, const char *name,
                          size_t name_size, struct snib_view **ret, void *user,
                          uint64_t *ret_ticket, struct snib_error *reterr);

/* All locks held, waited for or closed by a lock-delay (not a closed latch that
 * nobody waits for) whose name matches the glob (*, ?,
 * [a-z]); NULL: all. Each is as snib_client_inspect shows it, at an instant of
 * its own. *ret is an array of *ret_count views; free it with snib_views_free.
 * On Redis this scans (SCAN) and does not block the server. It shows 200
 * holders and 100 waiters of each lock, and of one whose records are damaged the
 * name alone (`damage` says why). There each of its steps may take
 * request_ms, and all together 10 times that; on other stores the whole may
 * take request_ms. Errors: those of snib_client_inspect, UNSUPPORTED (locks that
 * cannot be listed: etcd's by ?dialect=concurrency, PostgreSQL's by
 * ?dialect=advisory); LIMIT also where all that time was not enough. */
SNIB_API SNIB_CHECK snib_err snib_client_list(struct snib_client *,
                                              const char *glob,
                                              struct snib_view ***ret,
                                              size_t *ret_count,
                                              struct snib_error *reterr);
SNIB_API void snib_views_free(struct snib_view **, size_t count);

/* The same, started. Errors: those of snib_client_inspect_start. */
SNIB_API SNIB_CHECK snib_err
snib_client_list_start(struct snib_client *, const char *glob,
                       struct snib_view ***ret, size_t *ret_count, void *user,
                       uint64_t *ret_ticket, struct snib_error *reterr);

/* Revoke the grants of all holders of the lock, at once. The next waiter
 * is granted. The next token is higher. A lock that a lock-delay keeps closed
 * is open then.
 *
 * *ret_released (may be NULL) is how many grants were ended. snib_grant_explain
 * tells the holder the reason, with the user and host of this process. reason
 * is cut to 1 000 bytes (Redis) or 250; NULL: "".
 *
 * The old holder is told (REVOKED), whether its lease is renewed or fixed.
 * Until then it believes that it holds, and only the fence protects (exclusion,
 * promise P1, is off for that grant). When it is told:
 *   - at once, if its client listens. A client listens once it has waited for
 *     some lock, or has held one for a second. On Redis this is a
 *     subscription: if that was cut, the client is told as soon as it is there
 *     again.
 *   - at once, if it is the client that makes this call: that asks the store
 *     for its own grants.
 *   - else at its next renewal, by a third of its lease. With a quorum this is
 *     always so; a fixed lease there is told at its next call.
 *
 * Errors: those of snib_client_inspect, UNSUPPORTED (a store that has no such
 * release: docs/KINDS.md), UNKNOWN (sent, no answer: it may have been done),
 * never LIMIT (there is no answer to speak of). */
SNIB_API SNIB_CHECK snib_err snib_client_force_release(
    struct snib_client *, const char *name, size_t name_size,
    const char *reason, uint32_t *ret_released, struct snib_error *reterr);

/* The same, started. Errors: those of snib_client_inspect_start. */
SNIB_API SNIB_CHECK snib_err snib_client_force_release_start(
    struct snib_client *, const char *name, size_t name_size,
    const char *reason, uint32_t *ret_released, void *user,
    uint64_t *ret_ticket, struct snib_error *reterr);

/* One finding of a check-up. remedy is "" when level is OK. */
typedef enum snib_level {
    SNIB_LEVEL_OK,
    SNIB_LEVEL_WARN,
    SNIB_LEVEL_FAIL
} snib_level;
struct snib_finding {
    snib_level level;
    const char *check; /* "clock", "eviction", …                           */
    const char *text;
    const char *remedy;
};

/* Check the store's set-up: reachability, login, latency, clock, eviction
 * policy, persistence, replicas, permissions. Calls tell once a finding, on the
 * calling thread, with no lock held. Returns OK even when findings are FAIL.
 * Returns an error only when the store could not be asked at all, after telling
 * why. Errors: those of snib_client_inspect. */
SNIB_API SNIB_CHECK snib_err snib_client_doctor(
    struct snib_client *, void (*tell)(void *data, const struct snib_finding *),
    void *data, struct snib_error *reterr);

/* The same, started. tell is called inside the snib_client_next that takes the
 * event, with no lock held. If the start fails it is not called. Errors: those
 * of snib_client_inspect_start. */
SNIB_API SNIB_CHECK snib_err snib_client_doctor_start(
    struct snib_client *, void (*tell)(void *data, const struct snib_finding *),
    void *data, void *user, uint64_t *ret_ticket, struct snib_error *reterr);

/* A time in which nobody is let in anew, since the server may have forgotten who
 * holds (docs/REDIS.md, "When the server forgets"). */
struct snib_recovery {
    int64_t left_ms; /* for so long; 0: none runs */
    /* When it is over, ms by the server's clock: what it is named by below.
     * Below 0: it has not begun; it does, and lasts left_ms, when somebody wants a
     * lock. */
    int64_t end;
    bool ended; /* by this call: left_ms was left of it */
    /* It cannot begin before so many replicas more are connected (replicas= in
     * the URL). 0: it can. */
    uint32_t replicas_missing;
};

/* Ask for the recovery of a Redis server with recovery= in the URL, or end it.
 * end: 0 asks only. Else the `end` of an earlier answer: that recovery is over
 * at once, in one step of the server's; another one, which has begun since then,
 * goes on (ended is false, left_ms and end are its). Nothing else changes. Who
 * waits is served within 1.5 s. To ask changes nothing at the server. To end one
 * that has not begun (below 0) makes the server one that is used with recovery=:
 * its clients without it are told CONFIG from then on. It is ended by an answer
 * that is younger than the recovery is long: later one may have begun, others may
 * have held, and the server may have forgotten that, too. Where replicas are
 * missing it is not ended, and that is told (STORE).
 *
 * Exclusion (promise P1) is off for who held when the server forgot and has not
 * reclaimed it: others get the lock at once, and the holder works on until it is
 * told, by its next renewal, or until its lease ends, left_ms from now at the
 * latest. Only the fence protects then. So end it only where nothing was
 * forgotten (a planned failover, a server that was never used), or where nobody
 * goes on who held before.
 *
 * ret_size is that of *ret. Blocks up to request_ms. Errors: those of
 * snib_client_inspect, UNSUPPORTED (no recovery= in the URL, or another store),
 * UNKNOWN (sent, no answer: it may have been
 * ended), never LIMIT (there is no answer to speak of). */
SNIB_API SNIB_CHECK snib_err snib_client_recovery(struct snib_client *,
                                                  int64_t end,
                                                  struct snib_recovery *ret,
                                                  size_t ret_size,
                                                  struct snib_error *reterr);

/* The same, started. Errors: those of snib_client_inspect_start,
 * UNSUPPORTED. */
SNIB_API SNIB_CHECK snib_err snib_client_recovery_start(
    struct snib_client *, int64_t end, struct snib_recovery *ret,
    size_t ret_size, void *user, uint64_t *ret_ticket,
    struct snib_error *reterr);

/* The server that a client talks to, as far as the client knows from what it
 * has been told; nothing is sent to find out. Strings are never NULL; "": not
 * known, or there is no such thing. */
struct snib_server {
    /* "db:6379", "[::1]:6379", the path of a Unix socket; "file:/path/to/file",
     * "memory:NAME"; of a quorum or a cluster its servers' addresses, joined by
     * ','; of a cluster that has not said them yet, its URL without login and
     * options. Where the URL names Sentinels or a list, the primary's; "" until
     * it was found. */
    const char *address;
    const char *product; /* "redis", "valkey", "file", "memory", …          */
    const char *version; /* of the product: "7.0.15"                        */
    const char *role;    /* "primary", "replica"                            */
    /* The number that the server has drawn for this life of it: another one
     * after a restart. */
    const char *run_id;
    int64_t connected_ms; /* how long there is a connection; -1: none        */
    /* As in struct snib_store_status, of this server. */
    bool reachable;
    snib_err error;
    const char *text;
    /* Of a quorum: its servers in the order of the URL. Of a cluster: the
     * primaries that serve slots, as far as its nodes have said; none before
     * that. What is "" then, and -1, is said of each of them. Else none. */
    size_t server_count;
    const struct snib_server *const *servers;
};

/* The server. Any client, any thread, any time before snib_client_free; no I/O
 * is done or waited for. Free it with snib_server_free. *ret is NULL on error.
 *
 * On Redis product, version and role are known since the first greeting that
 * was answered, and stay what the latest one said. run_id is "" where nobody
 * asked for it.
 *
 * Errors: FORKED, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_client_server(struct snib_client *,
                                                struct snib_server **ret,
                                                struct snib_error *reterr);
SNIB_API void snib_server_free(struct snib_server *); /* NULL is allowed */

#ifdef __cplusplus
}
#endif
#endif

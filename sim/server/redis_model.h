/* redis_model.h — one Redis server (7.0 semantics) as plain data
 *
 * A model of one Redis server for the deterministic simulator. Request bytes go
 * in, reply bytes come out; the production client and the production Lua
 * scripts run against it byte for byte. There is no socket, no thread, no clock
 * and no libc randomness in here: the wall clock is an argument, and the same
 * calls with the same arguments give the same bytes.
 *
 * The model covers what a client can see of Redis 7.0.15: replies, error texts,
 * expiry, pub/sub delivery, script semantics, and the states in which a server
 * refuses. tests/sim_model/difftest.c compares this model with a real server,
 * reply by reply; what is known to differ:
 *
 *   - Commands, options and script functions that neither the store nor its
 *     scripts nor their tests use do not exist: sets, what is in streams
 *     (they have ids and a length), patterns of channels, RESP3, lines of
 *     words as requests, flags of scripts, bit, cjson and math.random in
 *     scripts (commands.h and lua_redis.c have what there is).
 *   - HGETALL and HKEYS keep insertion order for ever. Redis does so only for
 *     small values; beyond 512 fields, or for a field or value over 64 bytes,
 *     its order is that of a randomly seeded hash table.
 *   - SCAN, PUBSUB CHANNELS: order of insertion, and the cursor is a plain
 *     offset; keys are never returned twice.
 *   - No active expiry, and no eviction unless asked for (see below): an
 *     expired key goes when it is touched.
 *   - ACLs are the switches of sim_redis_deny_command and the faults below.
 *
 * Threads: a server and its Lua host belong to one thread at a time; servers
 * with different hosts are independent. Memory: allocation failure aborts (this
 * is test code). All pointers handed out stay valid until the next call that
 * changes the same server. */
#ifndef SNIB_SIM_REDIS_MODEL_H
#define SNIB_SIM_REDIS_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_redis;
struct sim_redis_snapshot;

/* ---- the Lua host ------------------------------------------------------ */

/*
 * One Lua 5.1 state with Redis' sandbox and a cache of compiled scripts,
 * keyed by sha1. Building it costs about 100 us and each script is compiled
 * once, so a simulator keeps one host per thread and lets every server of
 * every run use it; which scripts a server *knows* is the server's own
 * affair. Nothing a script does outlives it: globals are read-only, as in
 * Redis.
 */
struct sim_lua;

struct sim_lua *sim_lua_new(void);
/* Frees the host; NULL is allowed. All its servers must be gone. */
void sim_lua_free(struct sim_lua *lua);

/* ---- life of a server -------------------------------------------------- */

/*
 * A fresh, empty server. `lua` is borrowed and must outlive the server; NULL
 * lets the server own a host (slow: for unit tests). `seed` feeds the run id.
 */
struct sim_redis *sim_redis_new(struct sim_lua *lua, uint64_t seed);
void sim_redis_free(struct sim_redis *srv);

/*
 * Crash or restart: all connections, subscriptions and cached scripts are
 * gone, the run id changes; keys stay when `keep_data`. Faults stay as set.
 * No bytes are sent to anybody; connection ids are never reused.
 */
void sim_redis_restart(struct sim_redis *srv, bool keep_data);

/*
 * A copy of the keyspace (keys, values, expiry; no scripts, no clients), and
 * its return: promotion of a lagging replica, an old dump. The snapshot may
 * be restored any number of times and into any server.
 */
struct sim_redis_snapshot *sim_redis_snapshot(const struct sim_redis *srv);
void sim_redis_restore(struct sim_redis *srv,
                       const struct sim_redis_snapshot *snap);
void sim_redis_snapshot_free(struct sim_redis_snapshot *snap);

/*
 * What a failover does to a server. Promoted, it takes writes, under a new
 * replication id; as a replica it takes none, and follows with the id of
 * `primary`, whose keys it gets by a snapshot. A server begins as a primary, and
 * a restart gives it a new replication id, too.
 */
void sim_redis_promote(struct sim_redis *srv);
void sim_redis_follow(struct sim_redis *srv, const struct sim_redis *primary);

/* A replica follows, or none does; and whether it is cut off from now on, without
 * anybody's knowing. */
void sim_redis_followed(struct sim_redis *srv, bool is, bool cut_off);
/* The ms by which the replies that are there come later, but for so many bytes
 * of them, since the server waits for replicas (WAIT); 0: it does not. It is told
 * once. */
int64_t sim_redis_late_ms(struct sim_redis *srv, int id, size_t *ret_before);

/* SCRIPT FLUSH by somebody else. */
void sim_redis_script_flush(struct sim_redis *srv);
/* FLUSHALL by somebody else. */
void sim_redis_flushall(struct sim_redis *srv);
/* Eviction (or DEL by an operator) of one key; false when it is not there. */
bool sim_redis_evict(struct sim_redis *srv, int db, const void *key,
                     size_t len);

/* ---- connections ------------------------------------------------------- */

/*
 * Opens a connection; ids count up from 1. With the fault MAXCLIENTS on, the
 * connection holds Redis' error as its first bytes and is closing.
 */
int sim_redis_connect(struct sim_redis *srv);
/* The peer is gone: subscriptions end, buffers are dropped. */
void sim_redis_disconnect(struct sim_redis *srv, int id);
/* Is the id open (connected and not disconnected or restarted away)? */
bool sim_redis_is_open(const struct sim_redis *srv, int id);
/* Will the server close it once its output is read (CLIENT KILL, a protocol
 * error, max clients)? Input is ignored from then on. */
bool sim_redis_is_closing(const struct sim_redis *srv, int id);
/* How many channels this connection is subscribed to. */
size_t sim_redis_subscriptions(const struct sim_redis *srv, int id);

/*
 * Feeds request bytes, split anywhere, and executes every command that is
 * complete, in order. `wall_us` is the server's wall clock (microseconds
 * since 1970) for all of them and for every script in them. Replies and
 * messages are appended to the connections' output.
 */
void sim_redis_input(struct sim_redis *srv, int id, const void *bytes, size_t n,
                     int64_t wall_us);

/* Bytes waiting for the peer of `id`; sets *ptr, *len (0 for unknown ids). */
void sim_redis_output(const struct sim_redis *srv, int id, const void **ptr,
                      size_t *len);
/* Drops the first n of them. */
void sim_redis_consume(struct sim_redis *srv, int id, size_t n);
/*
 * Connections that hold output or are closing, in ascending order. Writes up
 * to `max` ids and returns how many there are.
 */
size_t sim_redis_pending(const struct sim_redis *srv, int *ids, size_t max);

/* ---- faults ------------------------------------------------------------ */

/* States of refusal; any set of them may be on. Order of checks and texts,
 * outside and inside scripts, are those of Redis' processCommand, scriptCall
 * and scriptPrepareForRun. */
enum sim_redis_fault {
    SIM_REDIS_LOADING = 1 << 0,        /* reading its dump */
    SIM_REDIS_BUSY = 1 << 1,           /* a script runs for too long */
    SIM_REDIS_READONLY = 1 << 2,       /* it is a replica */
    SIM_REDIS_OOM = 1 << 3,            /* over maxmemory, noeviction */
    SIM_REDIS_MISCONF = 1 << 4,        /* cannot persist */
    SIM_REDIS_NOREPLICAS = 1 << 5,     /* min-replicas-to-write not met */
    SIM_REDIS_NOAUTH = 1 << 6,         /* nobody is authenticated any more */
    SIM_REDIS_NOPERM = 1 << 7,         /* ACL: no command but AUTH, HELLO */
    SIM_REDIS_NOPERM_KEY = 1 << 8,     /* ACL: no key */
    SIM_REDIS_NOPERM_CHANNEL = 1 << 9, /* ACL: no channel (7.0's default
                                          for new users) */
    SIM_REDIS_MASTERDOWN = 1 << 10,    /* stale replica that does not serve */
    SIM_REDIS_MAXCLIENTS = 1 << 11     /* new connections are refused */
};

void sim_redis_set_fault(struct sim_redis *srv, enum sim_redis_fault fault,
                         bool on);
/* The set of faults that are on. */
unsigned sim_redis_faults(const struct sim_redis *srv);
/* requirepass for the user "default"; NULL for none. Open connections stay
 * authenticated, new ones are not. */
void sim_redis_set_password(struct sim_redis *srv, const char *password);
/* ACL: refuses one command ("publish", "pubsub|numsub") to everybody, top
 * level and in scripts; NULL clears the list. At most 8. */
void sim_redis_deny_command(struct sim_redis *srv, const char *name);
/* rename-command of one command to nothing, as providers and proxies do: it is
 * unknown, at top level and in scripts. NULL: every command is known again. */
void sim_redis_rename_command(struct sim_redis *srv, const char *name);

/* ---- watching ---------------------------------------------------------- */

struct sim_redis_arg {
    const char *ptr; /* NUL follows, may contain NULs */
    size_t len;
};

/* One executed command: at top level, or from redis.call in a script. */
struct sim_redis_event {
    int conn; /* connection that caused it */
    int db;   /* selected database */
    bool in_script;
    bool script; /* this is an EVAL or EVALSHA that ran to its end */
    int64_t wall_us;
    const char *name; /* full name, lower case: "set", "script|flush" */
    int argc;
    const struct sim_redis_arg *argv;
    const void *reply; /* RESP bytes of the answer */
    size_t reply_len;
};

/*
 * Called after each executed command, inner commands of a script before the
 * script itself; commands refused before execution are not reported. The
 * hook may read the server but must not change it. NULL switches it off.
 */
typedef void sim_redis_hook(void *user, const struct sim_redis_event *ev);
void sim_redis_set_hook(struct sim_redis *srv, sim_redis_hook *hook,
                        void *user);

/* ---- reading the keyspace ---------------------------------------------- */

enum sim_redis_type {
    SIM_REDIS_NONE,
    SIM_REDIS_STRING,
    SIM_REDIS_HASH,
    SIM_REDIS_ZSET,
    SIM_REDIS_LIST,
    SIM_REDIS_STREAM /* its last id and its length; see cmd_stream.c */
};

struct sim_redis_key {
    struct sim_redis_arg name;
    enum sim_redis_type type;
    int64_t expire_ms; /* wall clock, ms since 1970; -1: none */
    size_t size;       /* bytes of a string, else number of elements */
};

/* All of these hide keys that are expired at `wall_us` and change nothing. */

/* Number of live keys in `db`. */
size_t sim_redis_dbsize(const struct sim_redis *srv, int db, int64_t wall_us);
/* Calls `fn` for every live key in order of creation. */
void sim_redis_each_key(const struct sim_redis *srv, int db, int64_t wall_us,
                        void (*fn)(void *user, const struct sim_redis_key *key),
                        void *user);
/* Describes one key; false (type NONE) when it is not there. */
bool sim_redis_find(const struct sim_redis *srv, int db, const void *key,
                    size_t len, int64_t wall_us, struct sim_redis_key *out);
/* Value of a string key; false when there is none. */
bool sim_redis_string(const struct sim_redis *srv, int db, const void *key,
                      size_t len, int64_t wall_us, struct sim_redis_arg *out);
/* Value of a hash field; false when there is none. */
bool sim_redis_hash_field(const struct sim_redis *srv, int db, const void *key,
                          size_t len, const char *field, int64_t wall_us,
                          struct sim_redis_arg *out);

struct sim_redis_item {
    struct sim_redis_arg name;  /* field or member */
    struct sim_redis_arg value; /* of a hash field, else empty */
    double score;               /* of a sorted set's member, else 0 */
};

typedef void sim_redis_item_fn(void *user, const struct sim_redis_item *item);

/* Calls `fn` for each element of a hash or a sorted set, in order; false when
 * the key is not there or is neither. */
bool sim_redis_each_item(const struct sim_redis *srv, int db, const void *key,
                         size_t len, int64_t wall_us, sim_redis_item_fn *fn,
                         void *user);

/* Number of scripts in the cache. */
size_t sim_redis_script_count(const struct sim_redis *srv);
/* Subscribers of a channel (PUBSUB NUMSUB). */
size_t sim_redis_numsub(const struct sim_redis *srv, const char *channel);
/* The run id and the replication id (40 hex digits each) that INFO shows. */
const char *sim_redis_run_id(const struct sim_redis *srv);
const char *sim_redis_replid(const struct sim_redis *srv);

#endif

/*
 * internal.h — what the files of the Redis model share
 *
 * Layers, lowest first: bytes and numbers (util.c), ordered hash (dict.c),
 * sha1.c; values and databases (object.c, keyspace.c); replies (reply.c);
 * the table of commands (table.c), the ACL (access.c) and running one
 * (call.c); commands (cmd_*.c, pubsub.c, multi.c) and what runs scripts for
 * them (lua_convert.c, lua_redis.c, lua_host.c, script.c); the rules before a
 * command runs (gate.c); request parser (input.c); life and inspection
 * (server.c, inspect.c).
 */
#ifndef SNIB_SIM_SERVER_INTERNAL_H
#define SNIB_SIM_SERVER_INTERNAL_H

#include "redis_model.h"

#include <stdarg.h>

typedef struct lua_State lua_State;

/* ---- util.c ------------------------------------------------------------ */

void *sr_alloc(size_t n);
void *sr_zalloc(size_t n);
void *sr_realloc(void *p, size_t n);

struct sr_buf {
    char *p;
    size_t len;
    size_t cap;
};

void sr_buf_reserve(struct sr_buf *b, size_t more);
void sr_buf_add(struct sr_buf *b, const void *p, size_t n);
void sr_buf_add_cstr(struct sr_buf *b, const char *s);
void sr_buf_vprintf(struct sr_buf *b, const char *fmt, va_list ap);
void sr_buf_free(struct sr_buf *b);

/* An immutable string of its own; NUL follows. */
struct sr_str {
    uint32_t len;
    char p[];
};

struct sr_str *sr_str_new(const void *p, size_t n);

/* Redis' string2ll: no blanks, no plus, no leading zeros. */
bool sr_parse_ll(const char *p, size_t n, long long *out);
/* Redis' string2d. `p` is NUL-terminated. */
bool sr_parse_double(const char *p, size_t n, double *out);
/* Decimal digits of v into buf (>= 21 bytes); returns the length. */
size_t sr_format_ll(char *buf, long long v);
/* "%.17g", the form in which Redis shows scores, exact integers fast. */
size_t sr_format_double(char *buf, size_t cap, double v);
/* C's cast, and where that is undefined what x86-64 (hence Redis) does. */
long long sr_double_to_ll(double v);
/* Redis' glob match (stringmatchlen, case counts). */
bool sr_glob(const char *pat, size_t plen, const char *s, size_t slen);
/* strcasecmp of an argument with a lower-case word, as C strings. */
bool sr_is(const struct sim_redis_arg *a, const char *word);
/* Comparison as sdscmp does: bytes, then length. */
int sr_bytes_cmp(const char *a, size_t an, const char *b, size_t bn);

void sr_sha1_hex(char out[41], const void *p, size_t n);

/* ---- dict.c ------------------------------------------------------------ */

/*
 * A hash table that remembers the order of insertion. Up to SR_DICT_SMALL
 * entries it is an array; iteration is always by position.
 */
struct sr_ent {
    uint32_t hash;
    uint32_t klen;
    union {
        void *ptr;
        struct sr_str *str;
        double score;
    } v;
    char key[]; /* NUL follows */
};

struct sr_dict {
    struct sr_ent **ents; /* in order of insertion, NULL where removed */
    uint32_t used;        /* positions in use, holes included */
    uint32_t cap;
    uint32_t live; /* entries */
    uint32_t mask; /* of idx */
    uint32_t *idx; /* position + 1; 0 free; NULL while small */
};

#define SR_DICT_SMALL 8u

struct sr_ent *sr_dict_find(const struct sr_dict *d, const void *key, size_t n);
/* Finds or makes; *fresh says which. A fresh entry's value is zero. */
struct sr_ent *sr_dict_put(struct sr_dict *d, const void *key, size_t n,
                           bool *fresh);
/* Takes the entry out; the caller frees it with free(). */
struct sr_ent *sr_dict_take(struct sr_dict *d, const void *key, size_t n);
/* Frees the entries and the table, not the values. */
void sr_dict_clear(struct sr_dict *d);

/* Iteration: for (pos = 0; (e = sr_dict_next(d, &pos)) != NULL;) */
static inline struct sr_ent *sr_dict_next(const struct sr_dict *d,
                                          uint32_t *pos)
{
    while (*pos < d->used) {
        struct sr_ent *e = d->ents[(*pos)++];
        if (e != NULL) {
            return e;
        }
    }
    return NULL;
}

/* ---- object.c ---------------------------------------------------------- */

struct sr_list {
    struct sr_str **v; /* v[head .. head + n) */
    size_t head;
    size_t n;
    size_t cap;
};

struct sr_zset {
    struct sr_dict d;      /* member -> score */
    struct sr_ent **order; /* by score, then member */
    size_t cap;
};

struct sr_stream_id {
    uint64_t ms;
    uint64_t seq;
};

struct sr_stream {
    struct sr_stream_id last; /* above all that it will not give again */
    uint64_t n;               /* entries */
};

struct sr_obj {
    uint8_t type;      /* enum sim_redis_type */
    int64_t expire_ms; /* -1: none */
    union {
        struct sr_str *str;
        struct sr_dict dict; /* of a hash: v.str */
        struct sr_zset z;
        struct sr_list list;
        struct sr_stream stream;
    } u;
};

struct sr_obj *sr_obj_new(enum sim_redis_type type);
void sr_obj_free(struct sr_obj *o);
struct sr_obj *sr_obj_copy(const struct sr_obj *o);
size_t sr_obj_size(const struct sr_obj *o);

/* Returns true when the field is new. */
bool sr_hash_set(struct sr_obj *o, const char *f, size_t fn, const char *v,
                 size_t vn);
bool sr_hash_del(struct sr_obj *o, const char *f, size_t fn);

void sr_list_push(struct sr_list *l, bool head, struct sr_str *s);
struct sr_str *sr_list_pop(struct sr_list *l, bool head);
void sr_list_remove_at(struct sr_list *l, size_t i);

/* Adds or moves a member. */
void sr_zset_put(struct sr_zset *z, const char *p, size_t n, double score);
bool sr_zset_del(struct sr_zset *z, const char *p, size_t n);
/* Removes ranks [from, to). */
void sr_zset_del_ranks(struct sr_zset *z, size_t from, size_t to);
size_t sr_zset_rank(const struct sr_zset *z, const struct sr_ent *e);

/* ---- server and client ------------------------------------------------- */

#define SR_DBS      16
#define SR_DENY_MAX 32

struct sr_cmd;

struct sr_queued {
    const struct sr_cmd *cmd;
    int argc;
    struct sim_redis_arg *argv; /* one block with the bytes behind */
};

struct sr_client {
    int id; /* 0: the scripts' own client */
    int db;
    bool open;
    bool closing;
    bool authed;
    bool multi;
    bool multi_dirty; /* an error while queueing */
    struct sr_buf in;
    size_t in_pos;   /* parsed up to here */
    long multi_left; /* bulks still to come, 0 between requests */
    long bulk_len;   /* of the bulk in progress, -1 unknown */
    struct sr_buf out;
    size_t out_pos; /* consumed up to here */
    struct sim_redis_arg *argv;
    size_t *offs; /* while parsing: offsets of the arguments in `in` */
    int argc;
    int argv_cap;
    const struct sr_cmd *cmd;
    struct sr_dict channels;
    struct sr_queued *queue;
    int queued;
    int queue_cap;
    unsigned queue_flags; /* OR of the queued commands' flags */
    unsigned queue_inv;   /* OR of the inverses */
    int64_t wrote;        /* the server's `written` after its last write */
    int64_t late_ms;      /* its replies come later by that: it waits */
    size_t late_from;     /* … those from here on in `out` */
};

struct sr_snap_db {
    struct sr_dict keys;
};

struct sim_redis_snapshot {
    struct sr_dict db[SR_DBS];
};

struct sim_redis {
    struct sr_dict db[SR_DBS]; /* name -> struct sr_obj */
    int64_t now_us;            /* wall clock of the command under way */
    int64_t now_ms;
    struct sim_lua *lua;
    bool owns_lua;
    struct sr_dict scripts;     /* sha -> struct sr_script of the host */
    struct sr_dict channels;    /* name -> struct sr_subs */
    struct sr_client **clients; /* index id - 1; NULL when gone */
    int n_clients;
    int cap_clients;
    struct sr_client script_client;
    unsigned faults;
    char *password;
    char deny[SR_DENY_MAX][32];
    int n_deny;
    char renamed[32]; /* a command that this server does not know; "": none */
    uint64_t seed;
    uint32_t epoch, replids;
    char run_id[41], replid[41];
    bool oom_now; /* over maxmemory when the command started */
    bool in_exec;
    bool script_ran; /* the command was a script that ran to its end */
    /* Writes so far; how many of them a replica has that follows, and is cut
     * off. */
    int64_t written, followed_to;
    bool followed, cut_off;
    sim_redis_hook *hook;
    void *hook_user;
};

struct sr_subs {
    struct sr_client **v;
    size_t n;
    size_t cap;
};

/* ---- reply.c ----------------------------------------------------------- */

void sr_raw(struct sr_client *c, const char *text); /* with its CRLF */
void sr_ok(struct sr_client *c);
void sr_int(struct sr_client *c, long long v);
void sr_bulk(struct sr_client *c, const void *p, size_t n);
void sr_bulk_cstr(struct sr_client *c, const char *s);
void sr_bulk_ll(struct sr_client *c, long long v);
void sr_bulk_str(struct sr_client *c, const struct sr_str *s);
void sr_null(struct sr_client *c);
void sr_array(struct sr_client *c, size_t n);
void sr_double(struct sr_client *c, double d);
void sr_status(struct sr_client *c, const char *p, size_t n);
/* "-ERR text", or the text as it is when it starts with '-'. CR and LF in
 * the middle become blanks, at the end they go. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void sr_err(struct sr_client *c, const char *fmt, ...);
void sr_err_bytes(struct sr_client *c, const char *p, size_t n);
void sr_err_arity(struct sr_client *c);
void sr_err_syntax(struct sr_client *c);
void sr_err_type(struct sr_client *c);
void sr_err_subcommand(struct sr_client *c);
void sr_err_expire(struct sr_client *c);

/* Arguments as numbers; on failure the error is replied and false comes. */
bool sr_arg_ll(struct sr_client *c, int i, long long *out);
bool sr_arg_double(struct sr_client *c, int i, double *out);
/* Non-negative, with Redis' text for those. */
bool sr_arg_positive(struct sr_client *c, int i, long long *out);
/* Start and stop with negatives from the end; false: empty range. */
bool sr_range(long long *start, long long *stop, size_t len);

/* ---- keyspace.c -------------------------------------------------------- */

/* Live object of a key, or NULL; an expired one is removed on the way. */
struct sr_obj *sr_lookup(struct sim_redis *s, int db,
                         const struct sim_redis_arg *key);
/* The same with a type check: *ok is false after replying WRONGTYPE. */
struct sr_obj *sr_lookup_type(struct sim_redis *s, struct sr_client *c,
                              int argi, enum sim_redis_type type, bool *ok);
/* Find or make an object of this type; NULL after replying WRONGTYPE. */
struct sr_obj *sr_lookup_make(struct sim_redis *s, struct sr_client *c,
                              int argi, enum sim_redis_type type);
bool sr_del_key(struct sim_redis *s, int db, const char *p, size_t n);
/* Replaces whatever is there by an object; takes ownership. */
void sr_put_key(struct sim_redis *s, int db, const struct sim_redis_arg *key,
                struct sr_obj *o);
/* Removes the key when its collection is empty. */
void sr_drop_if_empty(struct sim_redis *s, struct sr_client *c, int argi,
                      struct sr_obj *o);
bool sr_is_expired(const struct sr_obj *o, int64_t now_ms);
void sr_db_clear(struct sr_dict *db);

/* ---- commands ---------------------------------------------------------- */

enum {
    SR_WRITE = 1 << 0,
    SR_DENYOOM = 1 << 1,
    SR_NOSCRIPT = 1 << 2,
    SR_LOADING_OK = 1 << 3,
    SR_STALE_OK = 1 << 4,
    SR_NO_AUTH = 1 << 5,
    SR_ALLOW_BUSY = 1 << 6,
    SR_SUBCTX = 1 << 7, /* allowed in subscriber mode */
    SR_CONTAINER = 1 << 8,
    SR_NOQUEUE = 1 << 9, /* runs at once inside MULTI */
    SR_CHANNELS = 1 << 10,
    SR_EVAL = 1 << 11,
    SR_PING = 1 << 12,
    SR_KEYS = 1 << 13
};

typedef void sr_proc(struct sim_redis *s, struct sr_client *c);

struct sr_cmd {
    const char *name; /* lower case, "script|load" */
    sr_proc *proc;
    int arity; /* < 0: at least -arity */
    unsigned flags;
};

extern const struct sr_cmd sr_commands[];
extern const size_t sr_commands_n;

#define SR_CMD_SLOTS 1024u
struct sr_cmd_index {
    uint16_t slot[SR_CMD_SLOTS]; /* index + 1 */
};
void sr_cmd_index_build(struct sr_cmd_index *ix);
/* Command or sub-command; NULL when unknown. */
const struct sr_cmd *sr_cmd_lookup(const struct sr_cmd_index *ix,
                                   const struct sim_redis_arg *argv, int argc);
bool sr_cmd_is_container(const struct sr_cmd_index *ix,
                         const struct sim_redis_arg *name);
bool sr_cmd_arity_ok(const struct sr_cmd *cmd, int argc);
/* Are there keys among the arguments? */
bool sr_has_keys(const struct sr_cmd *cmd, const struct sim_redis_arg *argv,
                 int argc);

/* ---- access.c, call.c, gate.c ------------------------------------------ */

bool sr_auth_required(const struct sim_redis *s);
enum sr_acl { SR_ACL_OK, SR_ACL_CMD, SR_ACL_KEY, SR_ACL_CHANNEL };
enum sr_acl sr_acl_check(const struct sim_redis *s, const struct sr_client *c);
/* Runs c->cmd and tells the hook. */
void sr_call(struct sim_redis *s, struct sr_client *c, bool in_script,
             int conn);
/* Checks and runs the command in c->argv at top level. */
void sr_process(struct sim_redis *s, struct sr_client *c);

extern const char SR_TXT_MISCONF[], SR_TXT_READONLY[], SR_TXT_OOM[],
    SR_TXT_NOREPLICAS[], SR_TXT_MASTERDOWN[], SR_TXT_LOADING[], SR_TXT_BUSY[],
    SR_TXT_NOAUTH[];

/* ---- pubsub.c, multi.c, input.c ---------------------------------------- */

void sr_pubsub_leave_all(struct sim_redis *s, struct sr_client *c);
void sr_multi_discard(struct sr_client *c);
void sr_multi_queue(struct sr_client *c);
void sr_multi_abort(struct sr_client *c, const char *why);
/* server.c */
struct sr_client *sr_client_of(const struct sim_redis *s, int id);

/* ---- scripts ----------------------------------------------------------- */

struct sr_script {
    int ref; /* of the function in the Lua registry */
    char sha[41];
};

/* The script under way. */
struct sr_run {
    struct sim_redis *srv;
    struct sr_client *caller;
    bool dirty; /* a write command was let through */
};

/* Memory of a Lua state: blocks up to SR_POOL_MAX by size, the rest malloc. */
#define SR_POOL_MAX 256u

struct sr_pool {
    struct sr_block *unused[SR_POOL_MAX / 16];
    struct sr_block *chunks;
    char *at; /* of the newest chunk */
    size_t left;
};

/* A text whose SHA-1 is known. */
struct sr_named {
    char *text;
    size_t n;
    char sha[41];
};

#define SR_NAMED 16u

struct sim_lua {
    lua_State *L;
    struct sr_pool pool;
    int real_globals; /* registry ref: the table behind the read-only _G */
    int errh;         /* registry ref: the error handler */
    struct sr_dict scripts;          /* sha -> struct sr_script */
    struct sr_named named[SR_NAMED]; /* texts seen last, by length */
    struct sr_cmd_index commands;
    struct sr_run *run; /* NULL outside a script */
    struct sim_redis_arg *argv;
    int argv_cap;
    char (*numbuf)[32];
};

/* lua_host.c: sr_sha1_hex of a script's text, remembered. */
void sr_lua_sha(struct sim_lua *h, char out[41],
                const struct sim_redis_arg *body);
/* lua_host.c: compiles, or finds the compiled; NULL after replying. */
struct sr_script *sr_lua_compile(struct sim_lua *h, struct sr_client *c,
                                 const char *sha,
                                 const struct sim_redis_arg *body);
/* lua_host.c: runs and replies. */
void sr_lua_run(struct sim_lua *h, struct sr_run *run,
                const struct sr_script *script, int nkeys,
                const struct sim_redis_arg *argv, int argc);
/* lua_redis.c: registers redis.* into the table on top of the stack. */
void sr_lua_open_redis(struct sim_lua *h);
/* lua_convert.c: one RESP reply pushed as a Lua value; *p moves behind it. */
void sr_lua_push_reply(lua_State *L, const char **p);
/* lua_convert.c: value on top of the stack as a reply; consumed. */
void sr_lua_reply(struct sim_lua *h, struct sr_client *c);
/* lua_convert.c: an error table, and the mark that Redis counted it. */
void sr_lua_push_error(lua_State *L, const char *text);
void sr_lua_mark_counted(lua_State *L);
/* lua_short.c: shorter ways of tonumber and string.format into the globals on
 * top of the stack; a lua_Alloc. */
void sr_lua_open_short(lua_State *L);
void *sr_pool_alloc(void *user, void *p, size_t was, size_t n);
void sr_pool_free(struct sr_pool *pool);
/* call.c: what redis.call does. On refusal *err is set and nothing was
 * replied; else the reply is in srv->script_client.out. */
void sr_script_call(struct sr_run *run, const char **err);

#endif

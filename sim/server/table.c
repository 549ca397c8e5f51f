/*
 * table.c — the command table: names, arity, flags, keys
 *
 * Flags and arities are those of Redis 7.0.15's command descriptions; they
 * decide who is refused in which state. Sub-commands are rows of their own
 * ("script|load"), found by the first two words; a container given an unknown
 * sub-command is an unknown command.
 */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

#define W    SR_WRITE
#define OOM  SR_DENYOOM
#define NS   SR_NOSCRIPT
#define LD   SR_LOADING_OK
#define ST   SR_STALE_OK
#define BUSY SR_ALLOW_BUSY
#define NA   SR_NO_AUTH

const struct sr_cmd sr_commands[] = {
    {"ping", sr_cmd_ping, -1, SR_SUBCTX | SR_PING, 0, 0},
    {"echo", sr_cmd_echo, 2, LD | ST, 0, 0},
    {"time", sr_cmd_time, 1, LD | ST, 0, 0},
    {"select", sr_cmd_select, 2, LD | ST, 0, 0},
    {"auth", sr_cmd_auth, -2, NS | LD | ST | NA | BUSY, 0, 0},
    {"hello", sr_cmd_hello, -1, NS | LD | ST | NA | BUSY, 0, 0},
    {"reset", sr_cmd_reset, 1,
     NS | LD | ST | NA | BUSY | SR_SUBCTX | SR_NOQUEUE, 0, 0},
    {"quit", sr_cmd_quit, -1, NS | LD | ST | NA | BUSY | SR_SUBCTX | SR_NOQUEUE,
     0, 0},
    {"info", sr_cmd_info, -1, LD | ST, 0, 0},
    {"role", sr_cmd_role, 1, NS | LD | ST, 0, 0},
    {"wait", sr_cmd_wait, 3, NS, 0, 0},
    {"config", sr_cmd_container, -2, SR_CONTAINER, 0, 0},
    {"config|get", sr_cmd_config_get, -3, NS | LD | ST, 0, 0},
    {"command", sr_cmd_command, -1, LD | ST | SR_CONTAINER, 0, 0},
    {"command|count", sr_cmd_command_count, 2, LD | ST, 0, 0},
    {"command|docs", sr_cmd_command, -2, LD | ST, 0, 0},
    {"client", sr_cmd_container, -2, SR_CONTAINER, 0, 0},
    {"client|id", sr_cmd_client_id, 2, NS | LD | ST, 0, 0},
    {"client|setname", sr_cmd_client_setname, 3, NS | LD | ST, 0, 0},
    {"client|getname", sr_cmd_client_getname, 2, NS | LD | ST, 0, 0},
    {"client|kill", sr_cmd_client_kill, -3, NS | LD | ST, 0, 0},
    {"client|list", sr_cmd_client_list, -2, NS | LD | ST, 0, 0},
    {"dbsize", sr_cmd_dbsize, 1, 0, 0, 0},
    {"flushall", sr_cmd_flushall, -1, W, 0, 0},
    {"flushdb", sr_cmd_flushdb, -1, W, 0, 0},
    {"keys", sr_cmd_keys, 2, 0, 0, 0},
    {"rename", sr_cmd_rename, 3, W, 1, 2},

    {"get", sr_cmd_get, 2, 0, 1, 1},
    {"set", sr_cmd_set, -3, W | OOM, 1, 1},
    {"setnx", sr_cmd_setnx, 3, W | OOM, 1, 1},
    {"setex", sr_cmd_setex, 4, W | OOM, 1, 1},
    {"psetex", sr_cmd_psetex, 4, W | OOM, 1, 1},
    {"getset", sr_cmd_getset, 3, W | OOM, 1, 1},
    {"getdel", sr_cmd_getdel, 2, W, 1, 1},
    {"strlen", sr_cmd_strlen, 2, 0, 1, 1},
    {"append", sr_cmd_append, 3, W | OOM, 1, 1},
    {"mget", sr_cmd_mget, -2, 0, 1, -1},
    {"mset", sr_cmd_mset, -3, W | OOM, 1, 1},
    {"incr", sr_cmd_incr, 2, W | OOM, 1, 1},
    {"decr", sr_cmd_decr, 2, W | OOM, 1, 1},
    {"incrby", sr_cmd_incrby, 3, W | OOM, 1, 1},
    {"decrby", sr_cmd_decrby, 3, W | OOM, 1, 1},

    {"del", sr_cmd_del, -2, W, 1, -1},
    {"unlink", sr_cmd_del, -2, W, 1, -1},
    {"exists", sr_cmd_exists, -2, 0, 1, -1},
    {"type", sr_cmd_type, 2, 0, 1, 1},
    {"expire", sr_cmd_expire, -3, W, 1, 1},
    {"expireat", sr_cmd_expireat, -3, W, 1, 1},
    {"pexpire", sr_cmd_pexpire, -3, W, 1, 1},
    {"pexpireat", sr_cmd_pexpireat, -3, W, 1, 1},
    {"ttl", sr_cmd_ttl, 2, 0, 1, 1},
    {"pttl", sr_cmd_pttl, 2, 0, 1, 1},
    {"expiretime", sr_cmd_expiretime, 2, 0, 1, 1},
    {"pexpiretime", sr_cmd_pexpiretime, 2, 0, 1, 1},
    {"persist", sr_cmd_persist, 2, W, 1, 1},
    {"scan", sr_cmd_scan, -2, 0, 0, 0},
    {"hscan", sr_cmd_hscan, -3, 0, 1, 1},
    {"sscan", sr_cmd_sscan, -3, 0, 1, 1},
    {"zscan", sr_cmd_zscan, -3, 0, 1, 1},

    {"hset", sr_cmd_hset, -4, W | OOM, 1, 1},
    {"hmset", sr_cmd_hmset, -4, W | OOM, 1, 1},
    {"hsetnx", sr_cmd_hsetnx, 4, W | OOM, 1, 1},
    {"hget", sr_cmd_hget, 3, 0, 1, 1},
    {"hmget", sr_cmd_hmget, -3, 0, 1, 1},
    {"hgetall", sr_cmd_hgetall, 2, 0, 1, 1},
    {"hkeys", sr_cmd_hkeys, 2, 0, 1, 1},
    {"hvals", sr_cmd_hvals, 2, 0, 1, 1},
    {"hdel", sr_cmd_hdel, -3, W, 1, 1},
    {"hlen", sr_cmd_hlen, 2, 0, 1, 1},
    {"hexists", sr_cmd_hexists, 3, 0, 1, 1},
    {"hincrby", sr_cmd_hincrby, 4, W | OOM, 1, 1},
    {"hstrlen", sr_cmd_hstrlen, 3, 0, 1, 1},

    {"zadd", sr_cmd_zadd, -4, W | OOM, 1, 1},
    {"zincrby", sr_cmd_zincrby, 4, W | OOM, 1, 1},
    {"zrem", sr_cmd_zrem, -3, W, 1, 1},
    {"zscore", sr_cmd_zscore, 3, 0, 1, 1},
    {"zmscore", sr_cmd_zmscore, -3, 0, 1, 1},
    {"zcard", sr_cmd_zcard, 2, 0, 1, 1},
    {"zrank", sr_cmd_zrank, 3, 0, 1, 1},
    {"zrevrank", sr_cmd_zrevrank, 3, 0, 1, 1},
    {"zpopmin", sr_cmd_zpopmin, -2, W, 1, 1},
    {"zpopmax", sr_cmd_zpopmax, -2, W, 1, 1},
    {"zrange", sr_cmd_zrange, -4, 0, 1, 1},
    {"zrevrange", sr_cmd_zrevrange, -4, 0, 1, 1},
    {"zrangebyscore", sr_cmd_zrangebyscore, -4, 0, 1, 1},
    {"zrevrangebyscore", sr_cmd_zrevrangebyscore, -4, 0, 1, 1},
    {"zrangebylex", sr_cmd_zrangebylex, -4, 0, 1, 1},
    {"zrevrangebylex", sr_cmd_zrevrangebylex, -4, 0, 1, 1},
    {"zcount", sr_cmd_zcount, 4, 0, 1, 1},
    {"zlexcount", sr_cmd_zlexcount, 4, 0, 1, 1},
    {"zremrangebyrank", sr_cmd_zremrangebyrank, 4, W, 1, 1},
    {"zremrangebyscore", sr_cmd_zremrangebyscore, 4, W, 1, 1},
    {"zremrangebylex", sr_cmd_zremrangebylex, 4, W, 1, 1},

    {"lpush", sr_cmd_lpush, -3, W | OOM, 1, 1},
    {"rpush", sr_cmd_rpush, -3, W | OOM, 1, 1},
    {"lpushx", sr_cmd_lpushx, -3, W | OOM, 1, 1},
    {"rpushx", sr_cmd_rpushx, -3, W | OOM, 1, 1},
    {"lpop", sr_cmd_lpop, -2, W, 1, 1},
    {"rpop", sr_cmd_rpop, -2, W, 1, 1},
    {"lrange", sr_cmd_lrange, 4, 0, 1, 1},
    {"llen", sr_cmd_llen, 2, 0, 1, 1},
    {"lrem", sr_cmd_lrem, 4, W, 1, 1},
    {"lindex", sr_cmd_lindex, 3, 0, 1, 1},
    {"lset", sr_cmd_lset, 4, W | OOM, 1, 1},
    {"ltrim", sr_cmd_ltrim, 4, W, 1, 1},

    {"sadd", sr_cmd_sadd, -3, W | OOM, 1, 1},
    {"srem", sr_cmd_srem, -3, W, 1, 1},
    {"sismember", sr_cmd_sismember, 3, 0, 1, 1},
    {"smembers", sr_cmd_smembers, 2, 0, 1, 1},
    {"scard", sr_cmd_scard, 2, 0, 1, 1},

    {"publish", sr_cmd_publish, 3, LD | ST | SR_MAY_REPL | SR_CHANNELS, 0, 0},
    {"subscribe", sr_cmd_subscribe, -2, NS | LD | ST | SR_SUBCTX | SR_CHANNELS,
     0, 0},
    {"unsubscribe", sr_cmd_unsubscribe, -1, NS | LD | ST | SR_SUBCTX, 0, 0},
    {"psubscribe", sr_cmd_psubscribe, -2,
     NS | LD | ST | SR_SUBCTX | SR_CHANNELS, 0, 0},
    {"punsubscribe", sr_cmd_punsubscribe, -1, NS | LD | ST | SR_SUBCTX, 0, 0},
    {"pubsub", sr_cmd_container, -2, SR_CONTAINER, 0, 0},
    {"pubsub|channels", sr_cmd_pubsub_channels, -2, LD | ST, 0, 0},
    {"pubsub|numsub", sr_cmd_pubsub_numsub, -2, LD | ST, 0, 0},
    {"pubsub|numpat", sr_cmd_pubsub_numpat, 2, LD | ST, 0, 0},

    {"multi", sr_cmd_multi, 1, NS | LD | ST | BUSY | SR_NOQUEUE, 0, 0},
    {"exec", sr_cmd_exec, 1, NS | LD | ST | SR_NOQUEUE, 0, 0},
    {"discard", sr_cmd_discard, 1, NS | LD | ST | BUSY | SR_NOQUEUE, 0, 0},

    {"eval", sr_cmd_eval, -3, NS | ST | SR_MAY_REPL | SR_EVAL, 0, 0},
    {"evalsha", sr_cmd_evalsha, -3, NS | ST | SR_MAY_REPL | SR_EVAL, 0, 0},
    {"eval_ro", sr_cmd_eval_ro, -3, NS | ST | SR_EVAL, 0, 0},
    {"evalsha_ro", sr_cmd_evalsha_ro, -3, NS | ST | SR_EVAL, 0, 0},
    {"script", sr_cmd_container, -2, SR_CONTAINER, 0, 0},
    {"script|load", sr_cmd_script_load, 3, NS | ST, 0, 0},
    {"script|exists", sr_cmd_script_exists, -3, NS, 0, 0},
    {"script|flush", sr_cmd_script_flush, -2, NS, 0, 0},
    {"script|kill", sr_cmd_script_kill, 2, NS | BUSY, 0, 0},
};

const size_t sr_commands_n = sizeof sr_commands / sizeof sr_commands[0];

static char lower(char ch)
{
    return ch >= 'A' && ch <= 'Z' ? (char)(ch - 'A' + 'a') : ch;
}

/* Of the letters in either case; what else falls together does no harm. */
static uint32_t hash_more(uint32_t h, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h = (h ^ ((unsigned char)p[i] | 0x20u)) * 16777619u;
    }
    return h;
}

static uint32_t finish(uint32_t h)
{
    return (h ^ (h >> 15)) & (SR_CMD_SLOTS - 1);
}

void sr_cmd_index_build(struct sr_cmd_index *ix)
{
    memset(ix, 0, sizeof *ix);
    for (size_t i = 0; i < sr_commands_n; i++) {
        const char *name = sr_commands[i].name;
        uint32_t at = finish(hash_more(2166136261u, name, strlen(name)));
        while (ix->slot[at] != 0) {
            at = (at + 1) & (SR_CMD_SLOTS - 1);
        }
        ix->slot[at] = (uint16_t)(i + 1);
    }
}

/* Does `name` read "a" or "a|b"? */
static bool spells(const char *name, const struct sim_redis_arg *a,
                   const struct sim_redis_arg *b)
{
    for (size_t i = 0; i < a->len; i++) {
        if (*name == '\0' || *name == '|' || *name++ != lower(a->ptr[i])) {
            return false;
        }
    }
    if (b == NULL) {
        return *name == '\0';
    }
    if (*name++ != '|') {
        return false;
    }
    for (size_t i = 0; i < b->len; i++) {
        if (*name == '\0' || *name++ != lower(b->ptr[i])) {
            return false;
        }
    }
    return *name == '\0';
}

static const struct sr_cmd *find(const struct sr_cmd_index *ix,
                                 const struct sim_redis_arg *a,
                                 const struct sim_redis_arg *b)
{
    uint32_t h = hash_more(2166136261u, a->ptr, a->len);
    if (b != NULL) {
        h = hash_more(h, "|", 1);
        h = hash_more(h, b->ptr, b->len);
    }
    for (uint32_t at = finish(h); ix->slot[at] != 0;
         at = (at + 1) & (SR_CMD_SLOTS - 1)) {
        const struct sr_cmd *cmd = &sr_commands[ix->slot[at] - 1];
        if (spells(cmd->name, a, b)) {
            return cmd;
        }
    }
    return NULL;
}

const struct sr_cmd *sr_cmd_lookup(const struct sr_cmd_index *ix,
                                   const struct sim_redis_arg *argv, int argc)
{
    const struct sr_cmd *cmd = find(ix, &argv[0], NULL);
    if (cmd != NULL && (cmd->flags & SR_CONTAINER) != 0 && argc > 1) {
        return find(ix, &argv[0], &argv[1]);
    }
    return cmd;
}

bool sr_cmd_is_container(const struct sr_cmd_index *ix,
                         const struct sim_redis_arg *name)
{
    const struct sr_cmd *cmd = find(ix, name, NULL);
    return cmd != NULL && (cmd->flags & SR_CONTAINER) != 0;
}

bool sr_cmd_arity_ok(const struct sr_cmd *cmd, int argc)
{
    return cmd->arity > 0 ? argc == cmd->arity : argc >= -cmd->arity;
}

bool sr_key_args(const struct sr_cmd *cmd, const struct sim_redis_arg *argv,
                 int argc, int *from, int *to)
{
    if ((cmd->flags & SR_EVAL) != 0) {
        int n = atoi(argv[2].ptr); /* as Redis does here: "1x" is 1 */
        if (n <= 0 || n > argc - 3) {
            return false;
        }
        *from = 3;
        *to = 2 + n;
        return true;
    }
    if (cmd->key_first == 0) {
        return false;
    }
    *from = cmd->key_first;
    *to = cmd->key_last < 0 ? argc + cmd->key_last : cmd->key_last;
    return true;
}

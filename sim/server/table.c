/*
 * table.c — the command table: names, arity, flags
 *
 * Flags and arities are those of Redis 7.0.15's command descriptions; they
 * decide who is refused in which state. Sub-commands are rows of their own
 * ("script|flush"), found by the first two words; a container given an unknown
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
#define K    SR_KEYS

const struct sr_cmd sr_commands[] = {
    {"ping", sr_cmd_ping, -1, SR_SUBCTX | SR_PING},
    {"time", sr_cmd_time, 1, LD | ST},
    {"select", sr_cmd_select, 2, LD | ST},
    {"auth", sr_cmd_auth, -2, NS | LD | ST | NA | BUSY},
    {"hello", sr_cmd_hello, -1, NS | LD | ST | NA | BUSY},
    {"info", sr_cmd_info, -1, LD | ST},
    {"role", sr_cmd_role, 1, NS | LD | ST},
    {"wait", sr_cmd_wait, 3, NS},
    {"config", sr_cmd_container, -2, SR_CONTAINER},
    {"config|get", sr_cmd_config_get, -3, NS | LD | ST},
    {"client", sr_cmd_container, -2, SR_CONTAINER},
    {"client|id", sr_cmd_client_id, 2, NS | LD | ST},
    {"client|kill", sr_cmd_client_kill, -3, NS | LD | ST},
    {"flushall", sr_cmd_flushall, -1, W},

    {"get", sr_cmd_get, 2, K},
    {"set", sr_cmd_set, -3, W | OOM | K},
    {"mget", sr_cmd_mget, -2, K},
    {"incr", sr_cmd_incr, 2, W | OOM | K},
    {"decr", sr_cmd_decr, 2, W | OOM | K},
    {"incrby", sr_cmd_incrby, 3, W | OOM | K},
    {"decrby", sr_cmd_decrby, 3, W | OOM | K},

    {"del", sr_cmd_del, -2, W | K},
    {"exists", sr_cmd_exists, -2, K},
    {"pexpire", sr_cmd_pexpire, -3, W | K},
    {"pttl", sr_cmd_pttl, 2, K},
    {"scan", sr_cmd_scan, -2, 0},

    {"hset", sr_cmd_hset, -4, W | OOM | K},
    {"hget", sr_cmd_hget, 3, K},
    {"hmget", sr_cmd_hmget, -3, K},
    {"hgetall", sr_cmd_hgetall, 2, K},
    {"hkeys", sr_cmd_hkeys, 2, K},
    {"hdel", sr_cmd_hdel, -3, W | K},
    {"hlen", sr_cmd_hlen, 2, K},
    {"hexists", sr_cmd_hexists, 3, K},
    {"hincrby", sr_cmd_hincrby, 4, W | OOM | K},

    {"zadd", sr_cmd_zadd, -4, W | OOM | K},
    {"zincrby", sr_cmd_zincrby, 4, W | OOM | K},
    {"zrem", sr_cmd_zrem, -3, W | K},
    {"zscore", sr_cmd_zscore, 3, K},
    {"zcard", sr_cmd_zcard, 2, K},
    {"zrank", sr_cmd_zrank, 3, K},
    {"zrange", sr_cmd_zrange, -4, K},
    {"zrangebyscore", sr_cmd_zrangebyscore, -4, K},

    {"lpush", sr_cmd_lpush, -3, W | OOM | K},
    {"rpush", sr_cmd_rpush, -3, W | OOM | K},
    {"lpop", sr_cmd_lpop, -2, W | K},
    {"rpop", sr_cmd_rpop, -2, W | K},
    {"lrange", sr_cmd_lrange, 4, K},
    {"llen", sr_cmd_llen, 2, K},
    {"lrem", sr_cmd_lrem, 4, W | K},
    {"lindex", sr_cmd_lindex, 3, K},

    {"xadd", sr_cmd_xadd, -5, W | OOM | K},
    {"xlen", sr_cmd_xlen, 2, K},

    {"publish", sr_cmd_publish, 3, LD | ST | SR_CHANNELS},
    {"subscribe", sr_cmd_subscribe, -2, NS | LD | ST | SR_SUBCTX | SR_CHANNELS},
    {"unsubscribe", sr_cmd_unsubscribe, -1, NS | LD | ST | SR_SUBCTX},
    {"pubsub", sr_cmd_container, -2, SR_CONTAINER},
    {"pubsub|channels", sr_cmd_pubsub_channels, -2, LD | ST},
    {"pubsub|numsub", sr_cmd_pubsub_numsub, -2, LD | ST},

    {"multi", sr_cmd_multi, 1, NS | LD | ST | BUSY | SR_NOQUEUE},
    {"exec", sr_cmd_exec, 1, NS | LD | ST | SR_NOQUEUE},
    {"discard", sr_cmd_discard, 1, NS | LD | ST | BUSY | SR_NOQUEUE},

    {"eval", sr_cmd_eval, -3, NS | ST | SR_EVAL},
    {"evalsha", sr_cmd_evalsha, -3, NS | ST | SR_EVAL},
    {"script", sr_cmd_container, -2, SR_CONTAINER},
    {"script|flush", sr_cmd_script_flush, -2, NS},
    {"script|kill", sr_cmd_script_kill, 2, NS | BUSY},
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

bool sr_has_keys(const struct sr_cmd *cmd, const struct sim_redis_arg *argv,
                 int argc)
{
    if ((cmd->flags & SR_EVAL) != 0) {
        int n = atoi(argv[2].ptr); /* as Redis does here: "1x" is 1 */
        return n > 0 && n <= argc - 3;
    }
    return (cmd->flags & SR_KEYS) != 0;
}

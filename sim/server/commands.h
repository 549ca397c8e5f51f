/*
 * commands.h — the procedures behind the command table (table.c)
 *
 * Each answers into its client's output; name, arity and flags are in the
 * table.
 */
#ifndef SNIB_SIM_SERVER_COMMANDS_H
#define SNIB_SIM_SERVER_COMMANDS_H

#include "internal.h"

/* cmd_string.c */
sr_proc sr_cmd_get, sr_cmd_set, sr_cmd_setnx, sr_cmd_setex, sr_cmd_psetex,
    sr_cmd_getset, sr_cmd_getdel, sr_cmd_incr, sr_cmd_decr, sr_cmd_incrby,
    sr_cmd_decrby, sr_cmd_mget, sr_cmd_mset, sr_cmd_strlen, sr_cmd_append;

/* cmd_generic.c */
sr_proc sr_cmd_del, sr_cmd_exists, sr_cmd_type, sr_cmd_expire, sr_cmd_expireat,
    sr_cmd_pexpire, sr_cmd_pexpireat, sr_cmd_ttl, sr_cmd_pttl,
    sr_cmd_expiretime, sr_cmd_pexpiretime, sr_cmd_persist, sr_cmd_dbsize,
    sr_cmd_flushall, sr_cmd_flushdb, sr_cmd_keys, sr_cmd_rename;

/* cmd_scan.c */
sr_proc sr_cmd_scan, sr_cmd_hscan, sr_cmd_sscan, sr_cmd_zscan;

/* cmd_hash.c */
sr_proc sr_cmd_hset, sr_cmd_hmset, sr_cmd_hsetnx, sr_cmd_hget, sr_cmd_hmget,
    sr_cmd_hgetall, sr_cmd_hkeys, sr_cmd_hvals, sr_cmd_hdel, sr_cmd_hlen,
    sr_cmd_hexists, sr_cmd_hincrby, sr_cmd_hstrlen;

/* cmd_zset.c, cmd_zrange.c */
sr_proc sr_cmd_zadd, sr_cmd_zincrby, sr_cmd_zrem, sr_cmd_zscore, sr_cmd_zmscore,
    sr_cmd_zcard, sr_cmd_zrank, sr_cmd_zrevrank, sr_cmd_zpopmin, sr_cmd_zpopmax,
    sr_cmd_zrange, sr_cmd_zrevrange, sr_cmd_zrangebyscore,
    sr_cmd_zrevrangebyscore, sr_cmd_zrangebylex, sr_cmd_zrevrangebylex,
    sr_cmd_zcount, sr_cmd_zlexcount, sr_cmd_zremrangebyrank,
    sr_cmd_zremrangebyscore, sr_cmd_zremrangebylex;

/* cmd_list.c */
sr_proc sr_cmd_lpush, sr_cmd_rpush, sr_cmd_lpushx, sr_cmd_rpushx, sr_cmd_lpop,
    sr_cmd_rpop, sr_cmd_lrange, sr_cmd_llen, sr_cmd_lrem, sr_cmd_lindex,
    sr_cmd_lset, sr_cmd_ltrim;

/* cmd_set.c */
sr_proc sr_cmd_sadd, sr_cmd_srem, sr_cmd_sismember, sr_cmd_smembers,
    sr_cmd_scard;

/* cmd_server.c, cmd_client.c */
sr_proc sr_cmd_ping, sr_cmd_echo, sr_cmd_time, sr_cmd_select, sr_cmd_info,
    sr_cmd_role, sr_cmd_config_get, sr_cmd_command, sr_cmd_command_count,
    sr_cmd_wait, sr_cmd_container;
sr_proc sr_cmd_auth, sr_cmd_hello, sr_cmd_reset, sr_cmd_quit, sr_cmd_client_id,
    sr_cmd_client_setname, sr_cmd_client_getname, sr_cmd_client_kill,
    sr_cmd_client_list;

/* pubsub.c */
sr_proc sr_cmd_publish, sr_cmd_subscribe, sr_cmd_unsubscribe, sr_cmd_psubscribe,
    sr_cmd_punsubscribe, sr_cmd_pubsub_channels, sr_cmd_pubsub_numsub,
    sr_cmd_pubsub_numpat;

/* multi.c */
sr_proc sr_cmd_multi, sr_cmd_exec, sr_cmd_discard;

/* script.c */
sr_proc sr_cmd_eval, sr_cmd_evalsha, sr_cmd_eval_ro, sr_cmd_evalsha_ro,
    sr_cmd_script_load, sr_cmd_script_exists, sr_cmd_script_flush,
    sr_cmd_script_kill;

#endif

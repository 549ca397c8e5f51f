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
sr_proc sr_cmd_get, sr_cmd_set, sr_cmd_mget, sr_cmd_incr, sr_cmd_decr,
    sr_cmd_incrby, sr_cmd_decrby;

/* cmd_generic.c */
sr_proc sr_cmd_del, sr_cmd_exists, sr_cmd_pexpire, sr_cmd_pttl, sr_cmd_scan,
    sr_cmd_flushall;

/* cmd_hash.c */
sr_proc sr_cmd_hset, sr_cmd_hget, sr_cmd_hmget, sr_cmd_hgetall, sr_cmd_hkeys,
    sr_cmd_hdel, sr_cmd_hlen, sr_cmd_hexists, sr_cmd_hincrby;

/* cmd_zset.c */
sr_proc sr_cmd_zadd, sr_cmd_zincrby, sr_cmd_zrem, sr_cmd_zscore, sr_cmd_zcard,
    sr_cmd_zrank, sr_cmd_zrange, sr_cmd_zrangebyscore;

/* cmd_stream.c */
sr_proc sr_cmd_xadd, sr_cmd_xlen;

/* cmd_list.c */
sr_proc sr_cmd_lpush, sr_cmd_rpush, sr_cmd_lpop, sr_cmd_rpop, sr_cmd_lrange,
    sr_cmd_llen, sr_cmd_lrem, sr_cmd_lindex;

/* cmd_server.c, cmd_client.c */
sr_proc sr_cmd_ping, sr_cmd_time, sr_cmd_select, sr_cmd_info, sr_cmd_role,
    sr_cmd_config_get, sr_cmd_wait, sr_cmd_container;
sr_proc sr_cmd_auth, sr_cmd_hello, sr_cmd_client_id, sr_cmd_client_kill;

/* pubsub.c */
sr_proc sr_cmd_publish, sr_cmd_subscribe, sr_cmd_unsubscribe,
    sr_cmd_pubsub_channels, sr_cmd_pubsub_numsub;

/* multi.c */
sr_proc sr_cmd_multi, sr_cmd_exec, sr_cmd_discard;

/* script.c */
sr_proc sr_cmd_eval, sr_cmd_evalsha, sr_cmd_script_flush, sr_cmd_script_kill;

#endif

/* cmd_server.c — what a server tells about itself
 *
 * INFO, ROLE and CONFIG GET carry the fields that a client or a doctor asks
 * for; they follow the faults (a replica says so, a loading server too). */
#include "commands.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

void sr_cmd_ping(struct sim_redis *s, struct sr_client *c)
{
    (void)s;
    if (c->argc > 2) {
        sr_err_arity(c);
        return;
    }
    if (c->channels.live > 0) {
        sr_array(c, 2);
        sr_bulk_cstr(c, "pong");
        if (c->argc == 1) {
            sr_bulk(c, "", 0);
        } else {
            sr_bulk(c, c->argv[1].ptr, c->argv[1].len);
        }
    } else if (c->argc == 1) {
        sr_raw(c, "+PONG\r\n");
    } else {
        sr_bulk(c, c->argv[1].ptr, c->argv[1].len);
    }
}

void sr_cmd_time(struct sim_redis *s, struct sr_client *c)
{
    sr_array(c, 2);
    sr_bulk_ll(c, s->now_us / 1000000);
    sr_bulk_ll(c, s->now_us % 1000000);
}

void sr_cmd_select(struct sim_redis *s, struct sr_client *c)
{
    (void)s;
    long long id;
    if (!sr_arg_ll(c, 1, &id)) {
        return;
    }
    if (id < INT_MIN || id > INT_MAX) {
        sr_err(c, "value is out of range, value must between %d and %d",
               INT_MIN, INT_MAX);
    } else if (id < 0 || id >= SR_DBS) {
        sr_err(c, "DB index is out of range");
    } else {
        c->db = (int)id;
        sr_ok(c);
    }
}

static bool is_replica(const struct sim_redis *s)
{
    return (s->faults & (SIM_REDIS_READONLY | SIM_REDIS_MASTERDOWN)) != 0;
}

/* Is that section asked for? Without an argument all are. */
static bool wants(const struct sr_client *c, const char *section)
{
    bool all = c->argc == 1;
    for (int i = 1; i < c->argc; i++) {
        const struct sim_redis_arg *a = &c->argv[i];
        all |= sr_is(a, section) || sr_is(a, "all") || sr_is(a, "default") ||
               sr_is(a, "everything");
    }
    return all;
}

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
static void
add_section(const struct sr_client *c, struct sr_buf *b, const char *section,
            const char *fmt, ...)
{
    char head[32];
    va_list ap;
    if (!wants(c, section)) {
        return;
    }
    int n = snprintf(head, sizeof head, "%s# %c%s\r\n", b->len ? "\r\n" : "",
                     section[0] - 'a' + 'A', section + 1);
    sr_buf_add(b, head, (size_t)n);
    va_start(ap, fmt);
    sr_buf_vprintf(b, fmt, ap);
    va_end(ap);
}

static void add_replication(const struct sim_redis *s, struct sr_client *c,
                            struct sr_buf *b)
{
    bool down = (s->faults & SIM_REDIS_MASTERDOWN) != 0;
    if (is_replica(s)) {
        add_section(c, b, "replication",
                    "role:slave\r\nmaster_link_status:%s\r\n"
                    "slave_read_only:1\r\nmaster_replid:%s\r\n",
                    down ? "down" : "up", s->replid);
    } else {
        add_section(c, b, "replication",
                    "role:master\r\nconnected_slaves:%d\r\n%s"
                    "master_replid:%s\r\n",
                    s->followed,
                    s->followed ? "slave0:ip=127.0.0.1,port=6380,state=online,"
                                  "offset=0,lag=0\r\n"
                                : "",
                    s->replid);
    }
}

static void add_keyspace(const struct sim_redis *s, struct sr_client *c,
                         struct sr_buf *b)
{
    char text[32 * SR_DBS] = "";
    size_t used = 0;
    for (int i = 0; i < SR_DBS; i++) {
        size_t keys = sim_redis_dbsize(s, i, s->now_us);
        if (keys > 0) {
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     "db%d:keys=%zu\r\n", i, keys);
        }
    }
    add_section(c, b, "keyspace", "%s", text);
}

void sr_cmd_info(struct sim_redis *s, struct sr_client *c)
{
    struct sr_buf b = {0};
    unsigned f = s->faults;
    size_t open = 0;
    for (int i = 0; i < s->n_clients; i++) {
        open += s->clients[i] != NULL;
    }
    add_section(c, &b, "server",
                "redis_version:7.0.15\r\nredis_mode:standalone\r\n"
                "run_id:%s\r\ntcp_port:6379\r\nserver_time_usec:%lld\r\n",
                s->run_id, (long long)s->now_us);
    add_section(c, &b, "clients", "connected_clients:%zu\r\n", open);
    add_section(c, &b, "memory",
                "maxmemory:%d\r\nmaxmemory_policy:noeviction\r\n"
                "number_of_cached_scripts:%u\r\n",
                (f & SIM_REDIS_OOM) != 0 ? 1048576 : 0, s->scripts.live);
    add_section(c, &b, "persistence",
                "loading:%d\r\nrdb_last_bgsave_status:%s\r\n"
                "aof_enabled:0\r\n",
                (f & SIM_REDIS_LOADING) != 0,
                (f & SIM_REDIS_MISCONF) != 0 ? "err" : "ok");
    add_replication(s, c, &b);
    add_keyspace(s, c, &b);
    sr_bulk(c, b.p, b.len);
    sr_buf_free(&b);
}

void sr_cmd_role(struct sim_redis *s, struct sr_client *c)
{
    if (!is_replica(s)) {
        sr_array(c, 3);
        sr_bulk_cstr(c, "master");
        sr_int(c, 0);
        sr_array(c, 0);
        return;
    }
    sr_array(c, 5);
    sr_bulk_cstr(c, "slave");
    sr_bulk_cstr(c, "127.0.0.1");
    sr_int(c, 6379);
    sr_bulk_cstr(c, (s->faults & SIM_REDIS_MASTERDOWN) != 0 ? "connect"
                                                            : "connected");
    sr_int(c, 0);
}

/* Alphabetical, as no order is promised. */
static const char *const config[][2] = {
    {"appendfsync", "everysec"},
    {"appendonly", "no"},
    {"databases", "16"},
    {"lua-time-limit", "5000"},
    {"maxclients", "10000"},
    {"maxmemory", "0"},
    {"maxmemory-policy", "noeviction"},
    {"min-replicas-to-write", "0"},
    {"notify-keyspace-events", ""},
    {"proto-max-bulk-len", "536870912"},
    {"replica-read-only", "yes"},
    {"replica-serve-stale-data", "yes"},
    {"save", ""},
    {"timeout", "0"},
};

void sr_cmd_config_get(struct sim_redis *s, struct sr_client *c)
{
    const size_t all = sizeof config / sizeof config[0];
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;
        for (size_t i = 0; i < all; i++) {
            const char *name = config[i][0];
            const char *value = config[i][1];
            bool hit = false;
            for (int j = 2; j < c->argc && !hit; j++) {
                hit =
                    sr_glob(c->argv[j].ptr, c->argv[j].len, name, strlen(name));
            }
            if (!hit) {
                continue;
            }
            n++;
            if (strcmp(name, "maxmemory") == 0 &&
                (s->faults & SIM_REDIS_OOM) != 0) {
                value = "1048576";
            }
            if (pass == 1) {
                sr_bulk_cstr(c, name);
                sr_bulk_cstr(c, value);
            }
        }
        if (pass == 0) {
            sr_array(c, 2 * n);
        }
    }
}

/* One replica may follow (sim_redis_followed). It has all, at once; or is cut
 * off, and has what there was then, so that who waits for it does so in vain.
 * What a connection has not written itself it does not wait for. */
void sr_cmd_wait(struct sim_redis *s, struct sr_client *c)
{
    long long numreplicas;
    long long timeout;
    if (is_replica(s)) {
        sr_err(c, "WAIT cannot be used with replica instances. Please also "
                  "note that since Redis 4.0 if a replica is configured to "
                  "be writable (which is not the default) writes to replicas "
                  "are just local and are not propagated.");
        return;
    }
    if (!sr_arg_ll(c, 1, &numreplicas)) {
        return;
    }
    if (!sr_parse_ll(c->argv[2].ptr, c->argv[2].len, &timeout)) {
        sr_err(c, "timeout is not an integer or out of range");
    } else if (timeout < 0) {
        sr_err(c, "timeout is negative");
    } else {
        int64_t has = s->cut_off ? s->followed_to : s->written;
        bool all = s->followed && has >= c->wrote;
        if (!all && numreplicas > 0 && c->late_ms == 0) {
            c->late_ms = timeout;
            c->late_from = c->out.len;
        }
        sr_int(c, all);
    }
}

/* Reached only without a sub-command, which arity forbids. */
void sr_cmd_container(struct sim_redis *s, struct sr_client *c)
{
    (void)s;
    sr_err_arity(c);
}

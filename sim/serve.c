/* sim/serve.c — a server as the network and the faults know it: a Redis, a table,
 * or a member of a cluster of etcd. */
#include "sim/table.h"

/* -- for the network ------------------------------------------------------- */

int sim_serve_connect(struct sim_server *s)
{
    return s->table  ? sim_table_connect(s->table)
           : s->etcd ? sim_etcd_connect(s->etcd)
                     : sim_redis_connect(s->redis);
}

void sim_serve_disconnect(struct sim_server *s, int conn)
{
    if (s->table) {
        sim_table_disconnect(s->table, conn);
    } else if (s->etcd) {
        sim_etcd_disconnect(s->etcd, conn);
    } else {
        sim_redis_disconnect(s->redis, conn);
    }
}

bool sim_serve_is_open(const struct sim_server *s, int conn)
{
    return s->table  ? sim_table_conn(s->table, conn) != NULL
           : s->etcd ? sim_etcd_is_open(s->etcd, conn)
                     : sim_redis_is_open(s->redis, conn);
}

bool sim_serve_is_closing(const struct sim_server *s, int conn)
{
    return s->etcd    ? sim_etcd_is_closing(s->etcd, conn)
           : s->table ? sim_table_conn(s->table, conn)->closing
                      : sim_redis_is_closing(s->redis, conn);
}

void sim_serve_input(struct sim_server *s, int conn, const void *bytes,
                     size_t size, int64_t wall_us)
{
    if (s->table) {
        sim_table_input(s->table, conn, bytes, size);
    } else if (s->etcd) {
        sim_etcd_input(s->etcd, conn, bytes, size);
    } else {
        sim_redis_input(s->redis, conn, bytes, size, wall_us);
    }
}

size_t sim_serve_pending(struct sim_server *s, int *ids, size_t most)
{
    size_t n = 0;
    if (!s->table) {
        return s->etcd ? sim_etcd_pending(s->etcd, ids, most)
                       : sim_redis_pending(s->redis, ids, most);
    }
    for (int i = 0; i < s->table->conns && n < most; i++) {
        const struct sim_table_conn *c = &s->table->conn[i];
        if (c->id && (snib__buf_size(&c->out) || c->closing)) {
            ids[n++] = c->id;
        }
    }
    return n;
}

void sim_serve_output(struct sim_server *s, int conn, const void **ret,
                      size_t *ret_size)
{
    if (!s->redis) {
        const struct snib__buf *out =
            s->etcd ? sim_etcd_output(s->etcd, conn)
                    : &sim_table_conn(s->table, conn)->out;
        *ret = snib__buf_bytes(out);
        *ret_size = snib__buf_size(out);
    } else {
        sim_redis_output(s->redis, conn, ret, ret_size);
    }
}

int64_t sim_serve_late(struct sim_server *s, int conn, size_t *ret_before)
{
    return s->redis ? SIM_MS * sim_redis_late_ms(s->redis, conn, ret_before)
                    : 0;
}

void sim_serve_consume(struct sim_server *s, int conn, size_t size)
{
    if (s->table) {
        snib__buf_consume(&sim_table_conn(s->table, conn)->out, size);
    } else if (s->etcd) {
        sim_etcd_consume(s->etcd, conn, size);
    } else {
        sim_redis_consume(s->redis, conn, size);
    }
}

/* Whoever deletes rows takes so long: the tokens of one tick of the clock are
 * told apart by what the table remembers, and by nothing else. */
enum { TICK_US = 1000 };

/* -- for the faults -------------------------------------------------------- */

void sim_serve_restart(struct sim_server *s, bool keep)
{
    if (s->table) {
        sim_table_restart(s->table, keep);
    } else if (s->etcd) {
        sim_etcd_restart(s->etcd);
    } else {
        sim_redis_restart(s->redis, keep);
    }
}

void sim_serve_flush(struct sim_server *s)
{
    if (s->table) {
        s->step_us += TICK_US;
        sim_table_flush(s->table);
    } else if (s->etcd) {
        sim_etcd_delete_keys(s->world, -1);
    } else {
        sim_redis_flushall(s->redis);
    }
}

void sim_serve_evict(struct sim_server *s, int name)
{
    static const char *const tails[] = {"", ":t", ":q", ":w"};
    if (s->table) {
        s->step_us += TICK_US;
        sim_table_evict(s->table, name);
        return;
    }
    if (s->etcd) {
        sim_etcd_delete_keys(s->world, name);
        return;
    }
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        char key[64];
        int n = snprintf(key, sizeof key, "%s%s", sim_keys[name], tails[i]);
        sim_redis_evict(s->redis, 0, key, (size_t)n);
    }
}

void sim_serve_backup(struct sim_server *s)
{
    if (s->table) {
        sim_table_backup(s->table);
    } else if (s->etcd) {
        sim_etcd_back_up(s->world);
    } else {
        sim_redis_snapshot_free(s->replica);
        s->replica = sim_redis_snapshot(s->redis);
    }
}

bool sim_serve_has_backup(const struct sim_server *s)
{
    return s->table  ? s->table->has_replica
           : s->etcd ? sim_etcd_has_backup(s->world)
                     : s->replica != NULL;
}

void sim_serve_restore(struct sim_server *s)
{
    if (s->table) {
        sim_table_restore(s->table);
    } else {
        sim_redis_restore(s->redis, s->replica);
        sim_redis_snapshot_free(s->replica);
        s->replica = NULL;
    }
}

void sim_serve_set_fault(struct sim_server *s, enum sim_redis_fault fault)
{
    if (s->table) {
        s->table->faults |= fault;
    } else if (s->etcd) {
        sim_etcd_set_fault(s->world, fault);
    } else {
        sim_redis_set_fault(s->redis, fault, true);
    }
}

void sim_serve_deny(struct sim_server *s, const char *command, bool renamed)
{
    if (s->redis) {
        (renamed ? sim_redis_rename_command : sim_redis_deny_command)(s->redis,
                                                                      command);
    }
}

void sim_serve_heal(struct sim_server *s)
{
    if (s->table) {
        s->table->faults = 0;
        return;
    }
    if (s->etcd) {
        return; /* with the cluster */
    }
    sim_redis_deny_command(s->redis, NULL);
    sim_redis_rename_command(s->redis, NULL);
    for (unsigned on; (on = sim_redis_faults(s->redis)) != 0;) {
        sim_redis_set_fault(s->redis, (enum sim_redis_fault)(on & -on), false);
    }
}

void sim_serve_free(struct sim_server *s)
{
    sim_table_free(s->table);
    sim_redis_snapshot_free(s->replica);
    s->table = NULL;
    s->replica = NULL;
    if (s->redis) {
        sim_redis_free(s->redis);
        s->redis = NULL;
    }
}

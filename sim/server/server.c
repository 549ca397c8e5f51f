/*
 * server.c — life of a server: connections, restarts, snapshots, faults
 *
 * Connections are numbered for ever: an id that was closed stays closed, so a
 * simulator that delivers bytes late delivers them to nobody. Everything that
 * looks random (the run id) comes from the seed and the number
 * of restarts.
 */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static void new_id(char ret[41], uint64_t x)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0; i < 40; i++) {
        if (i % 16 == 0) {
            x = mix(x);
        }
        ret[i] = hex[(x >> (4 * (i % 16))) & 15];
    }
    ret[40] = '\0';
}

static void new_replid(struct sim_redis *s)
{
    new_id(s->replid, mix(~s->seed ^ ((uint64_t)++s->replids << 32)));
}

static void new_epoch(struct sim_redis *s)
{
    new_id(s->run_id, mix(s->seed ^ ((uint64_t)s->epoch << 32)));
    s->epoch++;
    new_replid(s);
}

struct sim_redis *sim_redis_new(struct sim_lua *lua, uint64_t seed)
{
    struct sim_redis *s = sr_zalloc(sizeof *s);
    s->owns_lua = lua == NULL;
    s->lua = lua == NULL ? sim_lua_new() : lua;
    s->seed = seed;
    s->script_client.open = true;
    s->script_client.authed = true;
    s->script_client.bulk_len = -1;
    new_epoch(s);
    return s;
}

static void client_free(struct sim_redis *s, struct sr_client *c)
{
    if (c == NULL) {
        return;
    }
    sr_pubsub_leave_all(s, c);
    sr_multi_discard(c);
    sr_dict_clear(&c->channels);
    free(c->queue);
    free(c->argv);
    free(c->offs);
    sr_buf_free(&c->in);
    sr_buf_free(&c->out);
    free(c);
}

static void drop_clients(struct sim_redis *s)
{
    for (int i = 0; i < s->n_clients; i++) {
        client_free(s, s->clients[i]);
        s->clients[i] = NULL;
    }
}

void sim_redis_free(struct sim_redis *s)
{
    if (s == NULL) {
        return;
    }
    drop_clients(s);
    free(s->clients);
    sr_dict_clear(&s->channels);
    sr_dict_clear(&s->scripts);
    for (int i = 0; i < SR_DBS; i++) {
        sr_db_clear(&s->db[i]);
    }
    sr_buf_free(&s->script_client.out);
    free(s->password);
    if (s->owns_lua) {
        sim_lua_free(s->lua);
    }
    free(s);
}

void sim_redis_restart(struct sim_redis *s, bool keep_data)
{
    drop_clients(s);
    sr_dict_clear(&s->scripts);
    if (!keep_data) {
        sim_redis_flushall(s);
    }
    new_epoch(s);
}

void sim_redis_promote(struct sim_redis *s)
{
    sim_redis_set_fault(s, SIM_REDIS_READONLY, false);
    new_replid(s);
}

void sim_redis_follow(struct sim_redis *s, const struct sim_redis *primary)
{
    sim_redis_set_fault(s, SIM_REDIS_READONLY, true);
    memcpy(s->replid, primary->replid, sizeof s->replid);
}

void sim_redis_followed(struct sim_redis *s, bool is, bool cut_off)
{
    if (cut_off && !s->cut_off) {
        s->followed_to = s->written;
    }
    s->followed = is;
    s->cut_off = cut_off;
}

int64_t sim_redis_late_ms(struct sim_redis *s, int id, size_t *ret_before)
{
    struct sr_client *c = sr_client_of(s, id);
    int64_t ms = c == NULL ? 0 : c->late_ms;
    if (ms > 0) {
        *ret_before = c->late_from - c->out_pos;
        c->late_ms = 0;
    }
    return ms;
}

/* ---- keys, from outside ------------------------------------------------ */

static void copy_dbs(struct sr_dict *to, const struct sr_dict *from)
{
    for (int i = 0; i < SR_DBS; i++) {
        uint32_t pos = 0;
        struct sr_ent *e;
        while ((e = sr_dict_next(&from[i], &pos)) != NULL) {
            bool fresh;
            sr_dict_put(&to[i], e->key, e->klen, &fresh)->v.ptr =
                sr_obj_copy(e->v.ptr);
        }
    }
}

struct sim_redis_snapshot *sim_redis_snapshot(const struct sim_redis *s)
{
    struct sim_redis_snapshot *snap = sr_zalloc(sizeof *snap);
    copy_dbs(snap->db, s->db);
    return snap;
}

void sim_redis_restore(struct sim_redis *s,
                       const struct sim_redis_snapshot *snap)
{
    sim_redis_flushall(s);
    copy_dbs(s->db, snap->db);
}

void sim_redis_snapshot_free(struct sim_redis_snapshot *snap)
{
    if (snap == NULL) {
        return;
    }
    for (int i = 0; i < SR_DBS; i++) {
        sr_db_clear(&snap->db[i]);
    }
    free(snap);
}

void sim_redis_script_flush(struct sim_redis *s)
{
    sr_dict_clear(&s->scripts);
}

void sim_redis_flushall(struct sim_redis *s)
{
    for (int i = 0; i < SR_DBS; i++) {
        sr_db_clear(&s->db[i]);
    }
}

bool sim_redis_evict(struct sim_redis *s, int db, const void *key, size_t len)
{
    return sr_del_key(s, db, key, len);
}

/* ---- connections ------------------------------------------------------- */

struct sr_client *sr_client_of(const struct sim_redis *s, int id)
{
    return id < 1 || id > s->n_clients ? NULL : s->clients[id - 1];
}

int sim_redis_connect(struct sim_redis *s)
{
    if (s->n_clients == s->cap_clients) {
        s->cap_clients = s->cap_clients == 0 ? 16 : s->cap_clients * 2;
        s->clients =
            sr_realloc(s->clients, (size_t)s->cap_clients * sizeof *s->clients);
    }
    struct sr_client *c = sr_zalloc(sizeof *c);
    s->clients[s->n_clients++] = c;
    c->id = s->n_clients;
    c->open = true;
    c->bulk_len = -1;
    c->authed = !sr_auth_required(s);
    if ((s->faults & SIM_REDIS_MAXCLIENTS) != 0) {
        sr_raw(c, "-ERR max number of clients reached\r\n");
        c->closing = true;
    }
    return c->id;
}

void sim_redis_disconnect(struct sim_redis *s, int id)
{
    struct sr_client *c = sr_client_of(s, id);
    if (c != NULL) {
        s->clients[id - 1] = NULL;
        client_free(s, c);
    }
}

bool sim_redis_is_open(const struct sim_redis *s, int id)
{
    return sr_client_of(s, id) != NULL;
}

bool sim_redis_is_closing(const struct sim_redis *s, int id)
{
    const struct sr_client *c = sr_client_of(s, id);
    return c != NULL && c->closing;
}

size_t sim_redis_subscriptions(const struct sim_redis *s, int id)
{
    const struct sr_client *c = sr_client_of(s, id);
    return c == NULL ? 0 : c->channels.live;
}

void sim_redis_output(const struct sim_redis *s, int id, const void **ptr,
                      size_t *len)
{
    const struct sr_client *c = sr_client_of(s, id);
    *ptr = "";
    *len = 0;
    if (c != NULL && c->out.len > c->out_pos) {
        *ptr = c->out.p + c->out_pos;
        *len = c->out.len - c->out_pos;
    }
}

void sim_redis_consume(struct sim_redis *s, int id, size_t n)
{
    struct sr_client *c = sr_client_of(s, id);
    if (c == NULL) {
        return;
    }
    c->out_pos += n;
    if (c->out_pos >= c->out.len) {
        c->out_pos = 0;
        c->out.len = 0;
    }
}

size_t sim_redis_pending(const struct sim_redis *s, int *ids, size_t max)
{
    size_t n = 0;
    for (int i = 0; i < s->n_clients; i++) {
        const struct sr_client *c = s->clients[i];
        if (c != NULL && (c->closing || c->out.len > c->out_pos)) {
            if (n < max) {
                ids[n] = c->id;
            }
            n++;
        }
    }
    return n;
}

/* ---- faults ------------------------------------------------------------ */

void sim_redis_set_fault(struct sim_redis *s, enum sim_redis_fault fault,
                         bool on)
{
    if (on) {
        s->faults |= (unsigned)fault;
    } else {
        s->faults &= ~(unsigned)fault;
    }
    for (int i = 0; fault == SIM_REDIS_NOAUTH && on && i < s->n_clients; i++) {
        if (s->clients[i] != NULL) {
            s->clients[i]->authed = false;
        }
    }
}

unsigned sim_redis_faults(const struct sim_redis *s)
{
    return s->faults;
}

void sim_redis_set_password(struct sim_redis *s, const char *password)
{
    free(s->password);
    s->password = NULL;
    if (password != NULL) {
        size_t n = strlen(password) + 1;
        s->password = sr_alloc(n);
        memcpy(s->password, password, n);
    }
}

void sim_redis_deny_command(struct sim_redis *s, const char *name)
{
    if (name == NULL) {
        s->n_deny = 0;
    } else if (s->n_deny < SR_DENY_MAX) {
        snprintf(s->deny[s->n_deny], sizeof s->deny[0], "%s", name);
        s->n_deny++;
    }
}

void sim_redis_set_hook(struct sim_redis *s, sim_redis_hook *hook, void *user)
{
    s->hook = hook;
    s->hook_user = user;
}

void sim_redis_rename_command(struct sim_redis *s, const char *name)
{
    snprintf(s->renamed, sizeof s->renamed, "%s", name ? name : "");
}

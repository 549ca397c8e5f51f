/* sim/redis_state.c — what a Redis of this world has, read from its keys as
 * text, without the scripts' own code. */
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

/* Reads "12", ",d5000", ",b<request>". */
static void read_wants(const char *text, int64_t *permits, int64_t *delay,
                       char *upgrade_of)
{
    char *at;
    *permits = strtoll(text, &at, 10);
    *delay = at[0] == ',' && at[1] == 'd' ? strtoll(at + 2, &at, 10) : 0;
    if (at[0] == ',' && at[1] == 'b' && strlen(at + 2) >= SIM_ID) {
        memcpy(upgrade_of, at + 2, SIM_ID);
    }
}

static void read_holder(void *user, const struct sim_redis_item *item)
{
    struct sim_book *b = user;
    char id[SIM_ID + 1], wants[96];
    long long token, end, reserve;
    int mode;
    struct sim_holder h = {0};
    if (b->holders == SIM_BOOK || item->name.len < SIM_ID ||
        sscanf(item->value.ptr, "%32s %lld %lld %d %95s %*s %lld", id, &token,
               &end, &mode, wants, &reserve) != 6) {
        return;
    }
    memcpy(h.id, id, SIM_ID);
    memcpy(h.client, item->name.ptr, SIM_ID);
    h.mode = mode;
    h.token = token;
    h.end = end;
    h.reserve = reserve;
    read_wants(wants, &h.permits, &h.delay, h.upgrade_of);
    const char *slot = strstr(wants, ",s");
    h.slot = slot ? strtoll(slot + 2, NULL, 10) : -1;
    b->holder[b->holders++] = h;
}

/* Of a grant that was given without a script the server may not know the token:
 * only the reply has told it. */
static void know_token(const struct sim_world *w, int name,
                       struct sim_holder *h)
{
    const struct sim_queue *q = &w->queue_at[name];
    h->untold = h->token == 0;
    if (h->untold && sim_same(q->thin_id, h->id)) {
        h->token = q->thin;
    }
}

/* "<request> <client> <lease> <since> <token> <about>", a string whose time to
 * live is the lease. */
static void read_thin(const struct sim_world *w, int name, struct sim_book *b)
{
    struct sim_redis_arg v;
    struct sim_redis_key key;
    struct sim_holder h = {.permits = 1, .slot = -1, .thin = true};
    char id[SIM_ID + 1], client[SIM_ID + 1];
    long long lease, token;
    size_t n = strlen(sim_keys[name]);
    int64_t us = sim_wall_us(w, 0);
    if (!sim_redis_string(w->node[0].redis, 0, sim_keys[name], n, us, &v) ||
        !sim_redis_find(w->node[0].redis, 0, sim_keys[name], n, us, &key) ||
        sscanf(v.ptr, "%32s %32s %lld %*s %lld", id, client, &lease, &token) !=
            4) {
        return;
    }
    memcpy(h.id, id, SIM_ID);
    memcpy(h.client, client, SIM_ID);
    h.token = token;
    /* Where its client's clock was ahead, or the server's was set back, scripts
     * give it no more than the lease. */
    h.end =
        us / 1000 + lease < key.expire_ms ? us / 1000 + lease : key.expire_ms;
    b->holder[b->holders++] = h;
}

static void read_waiter(void *user, const struct sim_redis_item *item)
{
    struct sim_book *b = user;
    char wants[96];
    int64_t delay;
    struct sim_waiter w = {0};
    if (b->waiters == SIM_BOOK || item->name.len != SIM_ID ||
        sscanf(item->value.ptr, "%*s %47s %*s %lf %*s %*s %*s %d %95s",
               w.channel, &w.rank, &w.mode, wants) != 4) {
        return;
    }
    memcpy(w.id, item->name.ptr, SIM_ID);
    if (strlen(w.channel) >= 5 + SIM_ID) { /* "snib:<client>" */
        memcpy(w.client, w.channel + 5, SIM_ID);
    }
    const char *since = strstr(item->value.ptr, "since=");
    w.since = since ? strtoll(since + 6, NULL, 10) : 0;
    read_wants(wants, &w.permits, &delay, w.upgrade_of);
    b->waiter[b->waiters++] = w;
}

static struct sim_waiter *waiter_named(struct sim_book *b,
                                       const struct sim_redis_item *item)
{
    for (int i = 0; item->name.len == SIM_ID && i < b->waiters; i++) {
        if (sim_same(b->waiter[i].id, item->name.ptr)) {
            return &b->waiter[i];
        }
    }
    return NULL;
}

static void read_queued(void *user, const struct sim_redis_item *item)
{
    struct sim_waiter *w = waiter_named(user, item);
    if (w) {
        w->queued = true;
        /* must be as in the record, else a theorem finds out */
        w->rank = item->score;
    }
}

static void read_alive(void *user, const struct sim_redis_item *item)
{
    struct sim_waiter *w = waiter_named(user, item);
    if (w) {
        w->alive = (int64_t)item->score;
    }
}

static void each(const struct sim_world *w, int name, const char *tail,
                 void (*fn)(void *, const struct sim_redis_item *),
                 struct sim_book *b)
{
    char key[64];
    int n = snprintf(key, sizeof key, "%s%s", sim_keys[name], tail);
    sim_redis_each_item(w->node[0].redis, 0, key, (size_t)n, sim_wall_us(w, 0),
                        fn, b);
}

static int64_t term(const struct sim_world *w, int node, int name,
                    const char *field, int64_t none)
{
    char key[64];
    struct sim_redis_arg v;
    int n = snprintf(key, sizeof key, "%s:c", sim_keys[name]);
    return sim_redis_hash_field(w->node[node].redis, 0, key, (size_t)n, field,
                                sim_wall_us(w, node), &v)
               ? strtoll(v.ptr, NULL, 10)
               : none;
}

int64_t sim_redis_size(const struct sim_world *w, int node, int name)
{
    return term(w, node, name, "size", -1);
}

void sim_redis_book(const struct sim_world *w, int name, struct sim_book *b)
{
    b->size = sim_redis_size(w, 0, name);
    b->gate = term(w, 0, name, "gate", 0);
    each(w, name, "", read_holder, b);
    read_thin(w, name, b);
    for (int i = 0; i < b->holders; i++) {
        know_token(w, name, &b->holder[i]);
    }
    each(w, name, ":w", read_waiter, b);
    each(w, name, ":q", read_queued, b);
    each(w, name, ":a", read_alive, b);
}

/* The hash may be there for the sake of others than holders. */
static void is_holder(void *user, const struct sim_redis_item *item)
{
    *(bool *)user |= item->name.len >= SIM_ID;
}

bool sim_redis_held(const struct sim_world *w, int name)
{
    struct sim_redis_key key;
    bool held = false;
    size_t n = strlen(sim_keys[name]);
    int64_t us = sim_wall_us(w, 0);
    if (!sim_redis_find(w->node[0].redis, 0, sim_keys[name], n, us, &key)) {
        return false;
    }
    sim_redis_each_item(w->node[0].redis, 0, sim_keys[name], n, us, is_holder,
                        &held);
    return held || key.type == SIM_REDIS_STRING;
}

bool sim_redis_hears(const struct sim_world *w, const struct sim_waiter *x)
{
    return sim_redis_numsub(w->node[0].redis, x->channel) == 1;
}

/* Once a client has subscribed anew it has two channels, and the second is the
 * one that counts. */
bool sim_redis_reaches(const struct sim_world *w, int client)
{
    enum { SUBS = 2 };
    const struct sim_client *c = &w->client[client];
    const struct sim_redis *redis = w->node[0].redis;
    char first[5 + 33];
    snprintf(first, sizeof first, "snib:%s", c->hex);
    size_t ears = sim_redis_subscriptions(redis, c->wire[SUBS].server_conn);
    return ears > 1 || (ears == 1 && sim_redis_numsub(redis, first) == 1);
}

int64_t sim_redis_last_token(const struct sim_world *w, int node, int name)
{
    char key[64];
    struct sim_redis_arg v;
    int n = snprintf(key, sizeof key, "%s:t", sim_keys[name]);
    return sim_redis_string(w->node[node].redis, 0, key, (size_t)n,
                            sim_wall_us(w, node), &v)
               ? strtoll(v.ptr, NULL, 10)
               : 0;
}

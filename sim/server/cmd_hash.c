/*
 * cmd_hash.c — hashes
 *
 * Fields keep the order in which they first came (see redis_model.h for where
 * Redis gives that up). A hash without fields does not exist.
 */
#include "commands.h"

#include <limits.h>

void sr_cmd_hset(struct sim_redis *s, struct sr_client *c)
{
    if (c->argc % 2 == 1) {
        sr_err_arity(c);
        return;
    }
    struct sr_obj *o = sr_lookup_make(s, c, 1, SIM_REDIS_HASH);
    if (o == NULL) {
        return;
    }
    long long fresh = 0;
    for (int i = 2; i < c->argc; i += 2) {
        fresh += sr_hash_set(o, c->argv[i].ptr, c->argv[i].len,
                             c->argv[i + 1].ptr, c->argv[i + 1].len);
    }
    sr_int(c, fresh);
}

static const struct sr_ent *field(const struct sr_obj *o,
                                  const struct sim_redis_arg *a)
{
    return o == NULL ? NULL : sr_dict_find(&o->u.dict, a->ptr, a->len);
}

static void reply_field(struct sr_client *c, const struct sr_ent *e)
{
    if (e == NULL) {
        sr_null(c);
    } else {
        sr_bulk_str(c, e->v.str);
    }
}

void sr_cmd_hget(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_HASH, &ok);
    if (ok) {
        reply_field(c, field(o, &c->argv[2]));
    }
}

void sr_cmd_hmget(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_HASH, &ok);
    if (!ok) {
        return;
    }
    sr_array(c, (size_t)c->argc - 2);
    for (int i = 2; i < c->argc; i++) {
        reply_field(c, field(o, &c->argv[i]));
    }
}

static void all(struct sim_redis *s, struct sr_client *c, bool values)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_HASH, &ok);
    if (!ok) {
        return;
    }
    size_t n = o == NULL ? 0 : o->u.dict.live;
    sr_array(c, values ? 2 * n : n);
    uint32_t pos = 0;
    struct sr_ent *e;
    while (o != NULL && (e = sr_dict_next(&o->u.dict, &pos)) != NULL) {
        sr_bulk(c, e->key, e->klen);
        if (values) {
            sr_bulk_str(c, e->v.str);
        }
    }
}

void sr_cmd_hgetall(struct sim_redis *s, struct sr_client *c)
{
    all(s, c, true);
}

void sr_cmd_hkeys(struct sim_redis *s, struct sr_client *c)
{
    all(s, c, false);
}

void sr_cmd_hdel(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_HASH, &ok);
    if (!ok) {
        return;
    }
    long long n = 0;
    for (int i = 2; o != NULL && i < c->argc; i++) {
        n += sr_hash_del(o, c->argv[i].ptr, c->argv[i].len);
    }
    if (o != NULL) {
        sr_drop_if_empty(s, c, 1, o);
    }
    sr_int(c, n);
}

void sr_cmd_hlen(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_HASH, &ok);
    if (ok) {
        sr_int(c, o == NULL ? 0 : (long long)o->u.dict.live);
    }
}

void sr_cmd_hexists(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_HASH, &ok);
    if (ok) {
        sr_int(c, field(o, &c->argv[2]) != NULL);
    }
}

void sr_cmd_hincrby(struct sim_redis *s, struct sr_client *c)
{
    long long by;
    long long v = 0;
    if (!sr_arg_ll(c, 3, &by)) {
        return;
    }
    struct sr_obj *o = sr_lookup_make(s, c, 1, SIM_REDIS_HASH);
    if (o == NULL) {
        return;
    }
    const struct sr_ent *e = field(o, &c->argv[2]);
    if (e != NULL && !sr_parse_ll(e->v.str->p, e->v.str->len, &v)) {
        sr_err(c, "hash value is not an integer");
        return;
    }
    if ((by < 0 && v < 0 && by < LLONG_MIN - v) ||
        (by > 0 && v > 0 && by > LLONG_MAX - v)) {
        sr_err(c, "increment or decrement would overflow");
        return;
    }
    char buf[24];
    size_t n = sr_format_ll(buf, v + by);
    sr_hash_set(o, c->argv[2].ptr, c->argv[2].len, buf, n);
    sr_int(c, v + by);
}

/*
 * cmd_set.c — sets
 *
 * A set of integers shows itself in numeric order (Redis' intset), any other
 * in order of insertion where Redis has none.
 */
#include "commands.h"

#include <stdlib.h>

void sr_cmd_sadd(struct sim_redis *s, struct sr_client *c)
{
    struct sr_obj *o = sr_lookup_make(s, c, 1, SIM_REDIS_SET);
    if (o == NULL) {
        return;
    }
    long long n = 0;
    for (int i = 2; i < c->argc; i++) {
        n += sr_set_add(o, c->argv[i].ptr, c->argv[i].len);
    }
    sr_int(c, n);
}

void sr_cmd_srem(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_SET, &ok);
    if (!ok) {
        return;
    }
    long long n = 0;
    for (int i = 2; o != NULL && i < c->argc; i++) {
        n += sr_set_del(o, c->argv[i].ptr, c->argv[i].len);
    }
    if (o != NULL) {
        sr_drop_if_empty(s, c, 1, o);
    }
    sr_int(c, n);
}

void sr_cmd_sismember(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_SET, &ok);
    if (ok) {
        sr_int(c, o != NULL && sr_dict_find(&o->u.dict, c->argv[2].ptr,
                                            c->argv[2].len) != NULL);
    }
}

void sr_cmd_smembers(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_SET, &ok);
    if (!ok) {
        return;
    }
    if (o == NULL) {
        sr_set(c, 0);
        return;
    }
    struct sr_ent **v = sr_set_members(o);
    sr_set(c, o->u.dict.live);
    for (uint32_t i = 0; i < o->u.dict.live; i++) {
        sr_bulk(c, v[i]->key, v[i]->klen);
    }
    free(v);
}

void sr_cmd_scard(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_SET, &ok);
    if (ok) {
        sr_int(c, o == NULL ? 0 : (long long)o->u.dict.live);
    }
}

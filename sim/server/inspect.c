/*
 * inspect.c — the keyspace as checkers see it
 *
 * Nothing here changes the server: an expired key is passed over, not
 * removed, so that looking cannot hide a bug that a client would have met.
 */
#include "internal.h"

#include <string.h>

size_t sim_redis_dbsize(const struct sim_redis *s, int db, int64_t wall_us)
{
    size_t n = 0;
    uint32_t pos = 0;
    struct sr_ent *e;
    while ((e = sr_dict_next(&s->db[db], &pos)) != NULL) {
        n += !sr_is_expired(e->v.ptr, wall_us / 1000);
    }
    return n;
}

static struct sim_redis_arg arg_of(const char *p, size_t n)
{
    return (struct sim_redis_arg){.ptr = p, .len = n};
}

static void describe(const struct sr_ent *e, struct sim_redis_key *out)
{
    const struct sr_obj *o = e->v.ptr;
    out->name = arg_of(e->key, e->klen);
    out->type = (enum sim_redis_type)o->type;
    out->expire_ms = o->expire_ms;
    out->size = sr_obj_size(o);
}

void sim_redis_each_key(const struct sim_redis *s, int db, int64_t wall_us,
                        void (*fn)(void *user, const struct sim_redis_key *key),
                        void *user)
{
    uint32_t pos = 0;
    struct sr_ent *e;
    while ((e = sr_dict_next(&s->db[db], &pos)) != NULL) {
        if (!sr_is_expired(e->v.ptr, wall_us / 1000)) {
            struct sim_redis_key key;
            describe(e, &key);
            fn(user, &key);
        }
    }
}

static struct sr_ent *live(const struct sim_redis *s, int db, const void *key,
                           size_t len, int64_t wall_us)
{
    struct sr_ent *e = sr_dict_find(&s->db[db], key, len);
    return e == NULL || sr_is_expired(e->v.ptr, wall_us / 1000) ? NULL : e;
}

bool sim_redis_find(const struct sim_redis *s, int db, const void *key,
                    size_t len, int64_t wall_us, struct sim_redis_key *out)
{
    struct sr_ent *e = live(s, db, key, len, wall_us);
    memset(out, 0, sizeof *out);
    out->type = SIM_REDIS_NONE;
    out->expire_ms = -1;
    if (e != NULL) {
        describe(e, out);
    }
    return e != NULL;
}

bool sim_redis_string(const struct sim_redis *s, int db, const void *key,
                      size_t len, int64_t wall_us, struct sim_redis_arg *out)
{
    struct sr_ent *e = live(s, db, key, len, wall_us);
    const struct sr_obj *o = e == NULL ? NULL : e->v.ptr;
    if (o == NULL || o->type != SIM_REDIS_STRING) {
        return false;
    }
    *out = arg_of(o->u.str->p, o->u.str->len);
    return true;
}

bool sim_redis_hash_field(const struct sim_redis *s, int db, const void *key,
                          size_t len, const char *field, int64_t wall_us,
                          struct sim_redis_arg *out)
{
    struct sr_ent *e = live(s, db, key, len, wall_us);
    const struct sr_obj *o = e == NULL ? NULL : e->v.ptr;
    if (o == NULL || o->type != SIM_REDIS_HASH) {
        return false;
    }
    const struct sr_ent *f = sr_dict_find(&o->u.dict, field, strlen(field));
    if (f == NULL) {
        return false;
    }
    *out = arg_of(f->v.str->p, f->v.str->len);
    return true;
}

static void each_field(const struct sr_dict *d, sim_redis_item_fn *fn,
                       void *user)
{
    uint32_t pos = 0;
    struct sr_ent *e;
    while ((e = sr_dict_next(d, &pos)) != NULL) {
        struct sim_redis_item item = {.name = arg_of(e->key, e->klen),
                                      .value =
                                          arg_of(e->v.str->p, e->v.str->len)};
        fn(user, &item);
    }
}

static void each_member(const struct sr_zset *z, sim_redis_item_fn *fn,
                        void *user)
{
    for (size_t i = 0; i < z->d.live; i++) {
        const struct sr_ent *e = z->order[i];
        struct sim_redis_item item = {.name = arg_of(e->key, e->klen),
                                      .value = arg_of("", 0),
                                      .score = e->v.score};
        fn(user, &item);
    }
}

bool sim_redis_each_item(const struct sim_redis *s, int db, const void *key,
                         size_t len, int64_t wall_us, sim_redis_item_fn *fn,
                         void *user)
{
    struct sr_ent *e = live(s, db, key, len, wall_us);
    const struct sr_obj *o = e == NULL ? NULL : e->v.ptr;
    if (o != NULL && o->type == SIM_REDIS_HASH) {
        each_field(&o->u.dict, fn, user);
    } else if (o != NULL && o->type == SIM_REDIS_ZSET) {
        each_member(&o->u.z, fn, user);
    } else {
        return false;
    }
    return true;
}

size_t sim_redis_script_count(const struct sim_redis *s)
{
    return s->scripts.live;
}

size_t sim_redis_numsub(const struct sim_redis *s, const char *channel)
{
    struct sr_ent *e = sr_dict_find(&s->channels, channel, strlen(channel));
    return e == NULL ? 0 : ((const struct sr_subs *)e->v.ptr)->n;
}

const char *sim_redis_run_id(const struct sim_redis *s)
{
    return s->run_id;
}

const char *sim_redis_replid(const struct sim_redis *s)
{
    return s->replid;
}

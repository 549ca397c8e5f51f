/* keyspace.c — databases of keys, and when a key has expired
 *
 * A key whose time has come stays in memory until somebody touches it; to every
 * command it is gone. "Now" is the wall clock of the command under way (of the
 * whole script: Redis freezes time in scripts), so one script sees a key either
 * throughout or not at all. */
#include "internal.h"

#include <stdlib.h>

bool sr_is_expired(const struct sr_obj *o, int64_t now_ms)
{
    return o->expire_ms >= 0 && now_ms > o->expire_ms;
}

static struct sr_obj *lookup(struct sim_redis *s, int db, const char *p,
                             size_t n)
{
    struct sr_ent *e = sr_dict_find(&s->db[db], p, n);
    if (e == NULL) {
        return NULL;
    }
    struct sr_obj *o = e->v.ptr;
    if (sr_is_expired(o, s->now_ms)) {
        sr_del_key(s, db, p, n);
        return NULL;
    }
    return o;
}

struct sr_obj *sr_lookup(struct sim_redis *s, int db,
                         const struct sim_redis_arg *key)
{
    return lookup(s, db, key->ptr, key->len);
}

struct sr_obj *sr_lookup_type(struct sim_redis *s, struct sr_client *c,
                              int argi, enum sim_redis_type type, bool *ok)
{
    struct sr_obj *o = sr_lookup(s, c->db, &c->argv[argi]);
    *ok = true;
    if (o != NULL && o->type != type) {
        sr_err_type(c);
        *ok = false;
        return NULL;
    }
    return o;
}

struct sr_obj *sr_lookup_make(struct sim_redis *s, struct sr_client *c,
                              int argi, enum sim_redis_type type)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, argi, type, &ok);
    if (o == NULL && ok) {
        o = sr_obj_new(type);
        sr_put_key(s, c->db, &c->argv[argi], o);
    }
    return o;
}

bool sr_del_key(struct sim_redis *s, int db, const char *p, size_t n)
{
    struct sr_ent *e = sr_dict_take(&s->db[db], p, n);
    if (e == NULL) {
        return false;
    }
    sr_obj_free(e->v.ptr);
    free(e);
    return true;
}

void sr_put_key(struct sim_redis *s, int db, const struct sim_redis_arg *key,
                struct sr_obj *o)
{
    bool fresh;
    struct sr_ent *e = sr_dict_put(&s->db[db], key->ptr, key->len, &fresh);
    if (!fresh) {
        sr_obj_free(e->v.ptr);
    }
    e->v.ptr = o;
}

void sr_drop_if_empty(struct sim_redis *s, struct sr_client *c, int argi,
                      struct sr_obj *o)
{
    if (sr_obj_size(o) == 0) {
        sr_del_key(s, c->db, c->argv[argi].ptr, c->argv[argi].len);
    }
}

void sr_db_clear(struct sr_dict *db)
{
    uint32_t pos = 0;
    struct sr_ent *e;
    while ((e = sr_dict_next(db, &pos)) != NULL) {
        sr_obj_free(e->v.ptr);
    }
    sr_dict_clear(db);
}

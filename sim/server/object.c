/*
 * object.c — values: string, hash, list, sorted set, stream
 *
 * A sorted set is a dict (member -> score) and an array of its entries in
 * order of (score, member). Ranks are found by binary search and insertion
 * moves pointers: at the sizes a lock has (tens of waiters, a thousand in the
 * worst scenario) that beats a skip list.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

struct sr_obj *sr_obj_new(enum sim_redis_type type)
{
    struct sr_obj *o = sr_zalloc(sizeof *o);
    o->type = (uint8_t)type;
    o->expire_ms = -1;
    return o;
}

void sr_obj_free(struct sr_obj *o)
{
    if (o == NULL) {
        return;
    }
    uint32_t pos = 0;
    struct sr_ent *e;
    switch ((enum sim_redis_type)o->type) {
    case SIM_REDIS_STRING:
        free(o->u.str);
        break;
    case SIM_REDIS_HASH:
        while ((e = sr_dict_next(&o->u.dict, &pos)) != NULL) {
            free(e->v.str);
        }
        sr_dict_clear(&o->u.dict);
        break;
    case SIM_REDIS_ZSET:
        sr_dict_clear(&o->u.z.d);
        free(o->u.z.order);
        break;
    case SIM_REDIS_LIST:
        for (size_t i = 0; i < o->u.list.n; i++) {
            free(o->u.list.v[o->u.list.head + i]);
        }
        free(o->u.list.v);
        break;
    case SIM_REDIS_STREAM:
    case SIM_REDIS_NONE:
        break;
    }
    free(o);
}

struct sr_obj *sr_obj_copy(const struct sr_obj *o)
{
    struct sr_obj *n = sr_obj_new((enum sim_redis_type)o->type);
    n->expire_ms = o->expire_ms;
    uint32_t pos = 0;
    struct sr_ent *e;
    switch ((enum sim_redis_type)o->type) {
    case SIM_REDIS_STRING:
        n->u.str = sr_str_new(o->u.str->p, o->u.str->len);
        break;
    case SIM_REDIS_HASH:
        while ((e = sr_dict_next(&o->u.dict, &pos)) != NULL) {
            sr_hash_set(n, e->key, e->klen, e->v.str->p, e->v.str->len);
        }
        break;
    case SIM_REDIS_ZSET:
        while ((e = sr_dict_next(&o->u.z.d, &pos)) != NULL) {
            sr_zset_put(&n->u.z, e->key, e->klen, e->v.score);
        }
        break;
    case SIM_REDIS_LIST:
        for (size_t i = 0; i < o->u.list.n; i++) {
            const struct sr_str *s = o->u.list.v[o->u.list.head + i];
            sr_list_push(&n->u.list, false, sr_str_new(s->p, s->len));
        }
        break;
    case SIM_REDIS_STREAM:
        n->u.stream = o->u.stream;
        break;
    case SIM_REDIS_NONE:
        break;
    }
    return n;
}

size_t sr_obj_size(const struct sr_obj *o)
{
    switch ((enum sim_redis_type)o->type) {
    case SIM_REDIS_STRING:
        return o->u.str->len;
    case SIM_REDIS_HASH:
        return o->u.dict.live;
    case SIM_REDIS_ZSET:
        return o->u.z.d.live;
    case SIM_REDIS_LIST:
        return o->u.list.n;
    case SIM_REDIS_STREAM:
        return (size_t)o->u.stream.n;
    case SIM_REDIS_NONE:
        break;
    }
    return 0;
}

/* ---- hash -------------------------------------------------------------- */

bool sr_hash_set(struct sr_obj *o, const char *f, size_t fn, const char *v,
                 size_t vn)
{
    bool fresh;
    struct sr_ent *e = sr_dict_put(&o->u.dict, f, fn, &fresh);
    if (!fresh && e->v.str->len == vn) {
        memmove(e->v.str->p, v, vn);
        return false;
    }
    struct sr_str *s = sr_str_new(v, vn);
    free(e->v.str);
    e->v.str = s;
    return fresh;
}

bool sr_hash_del(struct sr_obj *o, const char *f, size_t fn)
{
    struct sr_ent *e = sr_dict_take(&o->u.dict, f, fn);
    if (e == NULL) {
        return false;
    }
    free(e->v.str);
    free(e);
    return true;
}

/* ---- list -------------------------------------------------------------- */

void sr_list_push(struct sr_list *l, bool head, struct sr_str *s)
{
    bool full = head ? l->head == 0 : l->head + l->n == l->cap;
    if (full) {
        size_t cap = l->n * 2 + 8;
        struct sr_str **v = sr_alloc(cap * sizeof(struct sr_str *));
        size_t at = (cap - l->n) / 2;
        if (l->n > 0) {
            memcpy(v + at, l->v + l->head, l->n * sizeof(struct sr_str *));
        }
        free(l->v);
        l->v = v;
        l->cap = cap;
        l->head = at;
    }
    if (head) {
        l->v[--l->head] = s;
    } else {
        l->v[l->head + l->n] = s;
    }
    l->n++;
}

struct sr_str *sr_list_pop(struct sr_list *l, bool head)
{
    struct sr_str *s;
    if (head) {
        s = l->v[l->head++];
    } else {
        s = l->v[l->head + l->n - 1];
    }
    l->n--;
    return s;
}

void sr_list_remove_at(struct sr_list *l, size_t i)
{
    struct sr_str **at = l->v + l->head + i;
    free(*at);
    memmove(at, at + 1, (l->n - i - 1) * sizeof(struct sr_str *));
    l->n--;
}

/* ---- sorted set -------------------------------------------------------- */

static int order_cmp(double score, const char *p, size_t n,
                     const struct sr_ent *e)
{
    if (score != e->v.score) {
        return score < e->v.score ? -1 : 1;
    }
    return sr_bytes_cmp(p, n, e->key, e->klen);
}

/* First rank among the first `live` whose entry is not below (score, p). */
static size_t lower_bound(const struct sr_zset *z, size_t live, double score,
                          const char *p, size_t n)
{
    size_t lo = 0;
    size_t hi = live;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (order_cmp(score, p, n, z->order[mid]) > 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

size_t sr_zset_rank(const struct sr_zset *z, const struct sr_ent *e)
{
    return lower_bound(z, z->d.live, e->v.score, e->key, e->klen);
}

static void order_remove(struct sr_zset *z, size_t at, size_t count,
                         size_t live)
{
    memmove(z->order + at, z->order + at + count,
            (live - at - count) * sizeof(struct sr_ent *));
}

void sr_zset_put(struct sr_zset *z, const char *p, size_t n, double score)
{
    bool fresh;
    struct sr_ent *e = sr_dict_put(&z->d, p, n, &fresh);
    size_t others = z->d.live - 1u;
    if (!fresh) {
        if (e->v.score == score) {
            return;
        }
        order_remove(z, sr_zset_rank(z, e), 1, z->d.live);
    } else if (z->d.live > z->cap) {
        z->cap = z->cap == 0 ? 4 : z->cap * 2;
        z->order = sr_realloc(z->order, z->cap * sizeof(struct sr_ent *));
    }
    size_t at = lower_bound(z, others, score, p, n);
    memmove(z->order + at + 1, z->order + at,
            (others - at) * sizeof(struct sr_ent *));
    z->order[at] = e;
    e->v.score = score;
}

bool sr_zset_del(struct sr_zset *z, const char *p, size_t n)
{
    struct sr_ent *e = sr_dict_find(&z->d, p, n);
    if (e == NULL) {
        return false;
    }
    size_t at = sr_zset_rank(z, e);
    sr_zset_del_ranks(z, at, at + 1);
    return true;
}

void sr_zset_del_ranks(struct sr_zset *z, size_t from, size_t to)
{
    size_t live = z->d.live;
    for (size_t i = from; i < to; i++) {
        struct sr_ent *e = z->order[i];
        free(sr_dict_take(&z->d, e->key, e->klen));
    }
    order_remove(z, from, to - from, live);
}

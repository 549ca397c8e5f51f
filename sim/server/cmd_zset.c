/*
 * cmd_zset.c — sorted sets: members and scores
 *
 * ZADD parses every score before it touches the key, so it happens whole or
 * not at all; the one exception is an INCR that yields NaN.
 */
#include "commands.h"

#include <math.h>

struct zadd {
    bool nx, xx, gt, lt, ch, incr;
    long long added, updated;
    bool processed;
    double score; /* of the last element */
};

/* Returns the index of the first score. */
static int zadd_options(const struct sr_client *c, struct zadd *z)
{
    int i = 2;
    for (; i < c->argc; i++) {
        const struct sim_redis_arg *a = &c->argv[i];
        if (sr_is(a, "nx")) {
            z->nx = true;
        } else if (sr_is(a, "xx")) {
            z->xx = true;
        } else if (sr_is(a, "ch")) {
            z->ch = true;
        } else if (sr_is(a, "incr")) {
            z->incr = true;
        } else if (sr_is(a, "gt")) {
            z->gt = true;
        } else if (sr_is(a, "lt")) {
            z->lt = true;
        } else {
            break;
        }
    }
    return i;
}

static bool zadd_valid(struct sr_client *c, const struct zadd *z, int pairs)
{
    if (z->nx && z->xx) {
        sr_err(c, "XX and NX options at the same time are not compatible");
        return false;
    }
    if ((z->gt && z->nx) || (z->lt && z->nx) || (z->gt && z->lt)) {
        sr_err(c, "GT, LT, and/or NX options at the same time are not "
                  "compatible");
        return false;
    }
    if (z->incr && pairs > 1) {
        sr_err(c, "INCR option supports a single increment-element pair");
        return false;
    }
    return true;
}

/* One element; false: the increment gave NaN. */
static bool zadd_one(struct sr_obj *o, struct zadd *z,
                     const struct sim_redis_arg *m, double score)
{
    const struct sr_ent *e = sr_dict_find(&o->u.z.d, m->ptr, m->len);
    if (e == NULL) {
        if (!z->xx) {
            sr_zset_put(&o->u.z, m->ptr, m->len, score);
            z->added++;
            z->processed = true;
            z->score = score;
        }
        return true;
    }
    if (z->nx) {
        return true;
    }
    double old = e->v.score;
    if (z->incr) {
        score += old;
        if (isnan(score)) {
            return false;
        }
    }
    if ((z->lt && score >= old) || (z->gt && score <= old)) {
        return true;
    }
    if (score != old) {
        sr_zset_put(&o->u.z, m->ptr, m->len, score);
        z->updated++;
    }
    z->processed = true;
    z->score = score;
    return true;
}

static void zadd_generic(struct sim_redis *s, struct sr_client *c,
                         struct zadd *z)
{
    int first = zadd_options(c, z);
    int rest = c->argc - first;
    double score;
    if (rest == 0 || rest % 2 != 0) {
        sr_err_syntax(c);
        return;
    }
    if (!zadd_valid(c, z, rest / 2)) {
        return;
    }
    for (int i = first; i < c->argc; i += 2) {
        if (!sr_arg_double(c, i, &score)) {
            return;
        }
    }
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (!ok) {
        return;
    }
    if (o == NULL && !z->xx) {
        o = sr_lookup_make(s, c, 1, SIM_REDIS_ZSET);
    }
    for (int i = first; o != NULL && i < c->argc; i += 2) {
        sr_parse_double(c->argv[i].ptr, c->argv[i].len, &score);
        if (!zadd_one(o, z, &c->argv[i + 1], score)) {
            sr_err(c, "resulting score is not a number (NaN)");
            return;
        }
    }
    if (!z->incr) {
        sr_int(c, z->ch ? z->added + z->updated : z->added);
    } else if (z->processed) {
        sr_double(c, z->score);
    } else {
        sr_null(c);
    }
}

void sr_cmd_zadd(struct sim_redis *s, struct sr_client *c)
{
    struct zadd z = {0};
    zadd_generic(s, c, &z);
}

void sr_cmd_zincrby(struct sim_redis *s, struct sr_client *c)
{
    struct zadd z = {.incr = true};
    zadd_generic(s, c, &z);
}

void sr_cmd_zrem(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (!ok) {
        return;
    }
    long long n = 0;
    for (int i = 2; o != NULL && i < c->argc; i++) {
        n += sr_zset_del(&o->u.z, c->argv[i].ptr, c->argv[i].len);
    }
    if (o != NULL) {
        sr_drop_if_empty(s, c, 1, o);
    }
    sr_int(c, n);
}

static const struct sr_ent *member(const struct sr_obj *o,
                                   const struct sim_redis_arg *a)
{
    return o == NULL ? NULL : sr_dict_find(&o->u.z.d, a->ptr, a->len);
}

static void reply_score(struct sr_client *c, const struct sr_ent *e)
{
    if (e == NULL) {
        sr_null(c);
    } else {
        sr_double(c, e->v.score);
    }
}

void sr_cmd_zscore(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (ok) {
        reply_score(c, member(o, &c->argv[2]));
    }
}

void sr_cmd_zmscore(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (!ok) {
        return;
    }
    sr_array(c, (size_t)c->argc - 2);
    for (int i = 2; i < c->argc; i++) {
        reply_score(c, member(o, &c->argv[i]));
    }
}

void sr_cmd_zcard(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (ok) {
        sr_int(c, o == NULL ? 0 : (long long)o->u.z.d.live);
    }
}

static void rank_generic(struct sim_redis *s, struct sr_client *c, bool reverse)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (!ok) {
        return;
    }
    const struct sr_ent *e = member(o, &c->argv[2]);
    if (e == NULL) {
        sr_null(c);
        return;
    }
    size_t rank = sr_zset_rank(&o->u.z, e);
    sr_int(c, (long long)(reverse ? o->u.z.d.live - 1 - rank : rank));
}

void sr_cmd_zrank(struct sim_redis *s, struct sr_client *c)
{
    rank_generic(s, c, false);
}

void sr_cmd_zrevrank(struct sim_redis *s, struct sr_client *c)
{
    rank_generic(s, c, true);
}

static void pop_generic(struct sim_redis *s, struct sr_client *c, bool max)
{
    long long count = 1;
    bool ok;
    if (c->argc > 3) {
        sr_err_syntax(c);
        return;
    }
    if (c->argc == 3 && !sr_arg_positive(c, 2, &count)) {
        return;
    }
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (!ok) {
        return;
    }
    if (o == NULL || count == 0) {
        sr_array(c, 0);
        return;
    }
    struct sr_zset *z = &o->u.z;
    bool nested = c->resp > 2 && c->argc == 3;
    size_t live = z->d.live;
    size_t n = (unsigned long long)count > live ? live : (size_t)count;
    sr_array(c, nested ? n : n * 2);
    for (size_t i = 0; i < n; i++) {
        const struct sr_ent *e = z->order[max ? live - 1 - i : i];
        if (nested) {
            sr_array(c, 2);
        }
        sr_bulk(c, e->key, e->klen);
        sr_double(c, e->v.score);
    }
    sr_zset_del_ranks(z, max ? live - n : 0, max ? live : n);
    sr_drop_if_empty(s, c, 1, o);
}

void sr_cmd_zpopmin(struct sim_redis *s, struct sr_client *c)
{
    pop_generic(s, c, false);
}

void sr_cmd_zpopmax(struct sim_redis *s, struct sr_client *c)
{
    pop_generic(s, c, true);
}

/*
 * cmd_zset.c — sorted sets: members, scores and ranges of them
 *
 * ZADD parses every score before it touches the key, so it happens whole or
 * not at all; it takes no options here. A range becomes a span of ranks
 * [from, to). LIMIT cuts the span from its beginning; a negative count means
 * "all", a negative offset "nothing" (Redis then walks off the end).
 */
#include "commands.h"

#include <math.h>
#include <stdlib.h>

static const struct sr_ent *member(const struct sr_obj *o,
                                   const struct sim_redis_arg *a)
{
    return o == NULL ? NULL : sr_dict_find(&o->u.z.d, a->ptr, a->len);
}

void sr_cmd_zadd(struct sim_redis *s, struct sr_client *c)
{
    double score;
    if (c->argc % 2 != 0) {
        sr_err_syntax(c);
        return;
    }
    for (int i = 2; i < c->argc; i += 2) {
        if (!sr_arg_double(c, i, &score)) {
            return;
        }
    }
    struct sr_obj *o = sr_lookup_make(s, c, 1, SIM_REDIS_ZSET);
    if (o == NULL) {
        return;
    }
    size_t before = o->u.z.d.live;
    for (int i = 2; i < c->argc; i += 2) {
        sr_parse_double(c->argv[i].ptr, c->argv[i].len, &score);
        sr_zset_put(&o->u.z, c->argv[i + 1].ptr, c->argv[i + 1].len, score);
    }
    sr_int(c, (long long)(o->u.z.d.live - before));
}

void sr_cmd_zincrby(struct sim_redis *s, struct sr_client *c)
{
    double score;
    if (!sr_arg_double(c, 2, &score)) {
        return;
    }
    struct sr_obj *o = sr_lookup_make(s, c, 1, SIM_REDIS_ZSET);
    if (o == NULL) {
        return;
    }
    const struct sr_ent *e = member(o, &c->argv[3]);
    score += e == NULL ? 0 : e->v.score;
    if (isnan(score)) {
        sr_err(c, "resulting score is not a number (NaN)");
        return;
    }
    sr_zset_put(&o->u.z, c->argv[3].ptr, c->argv[3].len, score);
    sr_double(c, score);
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

void sr_cmd_zscore(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    const struct sr_ent *e = member(o, &c->argv[2]);
    if (!ok) {
        return;
    }
    if (e == NULL) {
        sr_null(c);
    } else {
        sr_double(c, e->v.score);
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

void sr_cmd_zrank(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    const struct sr_ent *e = member(o, &c->argv[2]);
    if (!ok) {
        return;
    }
    if (e == NULL) {
        sr_null(c);
    } else {
        sr_int(c, (long long)sr_zset_rank(&o->u.z, e));
    }
}

/* ---- ranges ------------------------------------------------------------ */

static void emit(struct sr_client *c, const struct sr_zset *z, size_t from,
                 size_t to, bool scores)
{
    sr_array(c, scores ? 2 * (to - from) : to - from);
    for (size_t i = from; i < to; i++) {
        sr_bulk(c, z->order[i]->key, z->order[i]->klen);
        if (scores) {
            sr_double(c, z->order[i]->v.score);
        }
    }
}

/* By rank, with WITHSCORES or without. */
void sr_cmd_zrange(struct sim_redis *s, struct sr_client *c)
{
    long long start;
    long long stop;
    bool ok;
    bool scores = c->argc == 5 && sr_is(&c->argv[4], "withscores");
    if (c->argc > 4 && !scores) {
        sr_err_syntax(c);
        return;
    }
    if (!sr_arg_ll(c, 2, &start) || !sr_arg_ll(c, 3, &stop)) {
        return;
    }
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (!ok) {
        return;
    }
    if (o == NULL || !sr_range(&start, &stop, o->u.z.d.live)) {
        sr_array(c, 0);
        return;
    }
    emit(c, &o->u.z, (size_t)start, (size_t)stop + 1, scores);
}

struct bound {
    double score;
    bool open;
};

static bool parse_bound(const struct sim_redis_arg *a, struct bound *b)
{
    const char *p = a->ptr;
    char *end;
    b->open = p[0] == '(';
    b->score = strtod(b->open ? p + 1 : p, &end);
    return *end == '\0' && !isnan(b->score);
}

/* How many members are below `score`, or with `equal` not above it. */
static size_t below(const struct sr_zset *z, double score, bool equal)
{
    size_t lo = 0;
    size_t hi = z->d.live;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        double v = z->order[mid]->v.score;
        if (v < score || (equal && v == score)) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

struct by_score {
    struct bound min;
    struct bound max;
    bool scores;
    long long offset;
    long long limit;
};

static bool parse_by_score(struct sr_client *c, struct by_score *q)
{
    for (int j = 4; j < c->argc; j++) {
        if (sr_is(&c->argv[j], "withscores")) {
            q->scores = true;
        } else if (sr_is(&c->argv[j], "limit") && j + 2 < c->argc) {
            if (!sr_arg_ll(c, j + 1, &q->offset) ||
                !sr_arg_ll(c, j + 2, &q->limit)) {
                return false;
            }
            j += 2;
        } else {
            sr_err_syntax(c);
            return false;
        }
    }
    if (!parse_bound(&c->argv[2], &q->min) ||
        !parse_bound(&c->argv[3], &q->max)) {
        sr_err(c, "min or max is not a float");
        return false;
    }
    return true;
}

void sr_cmd_zrangebyscore(struct sim_redis *s, struct sr_client *c)
{
    struct by_score q = {.limit = -1};
    bool ok;
    if (!parse_by_score(c, &q)) {
        return;
    }
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (!ok) {
        return;
    }
    if (o == NULL) {
        sr_array(c, 0);
        return;
    }
    size_t from = below(&o->u.z, q.min.score, q.min.open);
    size_t to = below(&o->u.z, q.max.score, !q.max.open);
    size_t n = to > from ? to - from : 0;
    bool past = q.offset < 0 || (unsigned long long)q.offset >= n;
    size_t skip = past ? n : (size_t)q.offset;
    size_t take = n - skip;
    if (q.limit >= 0 && (unsigned long long)q.limit < take) {
        take = (size_t)q.limit;
    }
    emit(c, &o->u.z, from + skip, from + skip + take, q.scores);
}

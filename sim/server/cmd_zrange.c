/*
 * cmd_zrange.c — sorted sets: ranges by rank, score and member
 *
 * Every range becomes a span of ranks [from, to); after that reading,
 * counting and removing are the same for all kinds. LIMIT cuts the span from
 * the side where the reading starts; a negative count means "all", a negative
 * offset "nothing" (Redis then walks off the end).
 */
#include "commands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum kind { AUTO, RANK, SCORE, LEX };

struct bound {
    double score;
    const char *p;
    size_t n;
    int edge; /* lex: -1 is "-", 1 is "+", 0 a string */
    bool open;
};

static bool score_bound(const struct sim_redis_arg *a, struct bound *b)
{
    const char *p = a->ptr;
    char *end;
    b->open = p[0] == '(';
    b->score = strtod(b->open ? p + 1 : p, &end);
    return *end == '\0' && !isnan(b->score);
}

static bool lex_bound(const struct sim_redis_arg *a, struct bound *b)
{
    char first = a->ptr[0];
    b->edge = 0;
    b->open = first == '(';
    b->p = a->ptr + 1;
    b->n = a->len - 1;
    if (first == '+' || first == '-') {
        b->edge = first == '+' ? 1 : -1;
        b->open = true;
        return a->ptr[1] == '\0';
    }
    return first == '(' || first == '[';
}

static bool parse_bound(enum kind kind, const struct sim_redis_arg *a,
                        struct bound *b)
{
    return kind == SCORE ? score_bound(a, b) : lex_bound(a, b);
}

static void bound_error(struct sr_client *c, enum kind kind)
{
    sr_err(c, kind == SCORE ? "min or max is not a float"
                            : "min or max not valid string range item");
}

static bool above_min(enum kind kind, const struct sr_ent *e,
                      const struct bound *b)
{
    if (kind == SCORE) {
        return b->open ? e->v.score > b->score : e->v.score >= b->score;
    }
    if (b->edge != 0) {
        return b->edge < 0;
    }
    int r = sr_bytes_cmp(e->key, e->klen, b->p, b->n);
    return b->open ? r > 0 : r >= 0;
}

static bool below_max(enum kind kind, const struct sr_ent *e,
                      const struct bound *b)
{
    if (kind == SCORE) {
        return b->open ? e->v.score < b->score : e->v.score <= b->score;
    }
    if (b->edge != 0) {
        return b->edge > 0;
    }
    int r = sr_bytes_cmp(e->key, e->klen, b->p, b->n);
    return b->open ? r < 0 : r <= 0;
}

/* First rank for which `fits` is `want`, supposing the ranks are ordered. */
static size_t seek(const struct sr_zset *z, bool want,
                   bool (*fits)(enum kind, const struct sr_ent *,
                                const struct bound *),
                   const struct bound *b)
{
    size_t lo = 0;
    size_t hi = z->d.live;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (fits(SCORE, z->order[mid], b) != want) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static bool lex_empty(const struct bound *min, const struct bound *max)
{
    int r = min->edge - max->edge;
    if (min->edge == 0 && max->edge == 0) {
        r = sr_bytes_cmp(min->p, min->n, max->p, max->n);
    }
    return r > 0 || (r == 0 && (min->open || max->open));
}

/*
 * By member, Redis walks: members of unequal scores are not in order, and its
 * documentation calls the result unspecified. This is what it does for a
 * small set, from the side where it starts.
 */
static void lex_span(const struct sr_zset *z, bool rev, const struct bound *min,
                     const struct bound *max, size_t *from, size_t *to)
{
    size_t n = z->d.live;
    *from = 0;
    *to = 0;
    if (n == 0 || lex_empty(min, max) ||
        !above_min(LEX, z->order[n - 1], min) ||
        !below_max(LEX, z->order[0], max)) {
        return;
    }
    if (rev) {
        while (n > 0 && !below_max(LEX, z->order[n - 1], max)) {
            n--;
        }
        *from = n;
        *to = n;
        while (*from > 0 && above_min(LEX, z->order[*from - 1], min)) {
            (*from)--;
        }
        return;
    }
    while (*from < n && !above_min(LEX, z->order[*from], min)) {
        (*from)++;
    }
    *to = *from;
    while (*to < n && below_max(LEX, z->order[*to], max)) {
        (*to)++;
    }
}

static void span(const struct sr_zset *z, enum kind kind, bool rev,
                 const struct bound *min, const struct bound *max, size_t *from,
                 size_t *to)
{
    if (kind == LEX) {
        lex_span(z, rev, min, max, from, to);
        return;
    }
    *from = seek(z, true, above_min, min);
    *to = seek(z, false, below_max, max);
    if (*to < *from) {
        *to = *from;
    }
}

struct range_query {
    enum kind kind;
    bool rev;
    bool rev_given;
    bool scores;
    long long offset;
    long long limit;
};

static bool parse_query(struct sr_client *c, struct range_query *q)
{
    bool auto_kind = q->kind == AUTO;
    bool auto_rev = !q->rev_given;
    for (int j = 4; j < c->argc; j++) {
        const struct sim_redis_arg *a = &c->argv[j];
        if (sr_is(a, "withscores")) {
            q->scores = true;
        } else if (sr_is(a, "limit") && j + 2 < c->argc) {
            if (!sr_arg_ll(c, j + 1, &q->offset) ||
                !sr_arg_ll(c, j + 2, &q->limit)) {
                return false;
            }
            j += 2;
        } else if (auto_rev && !q->rev && sr_is(a, "rev")) {
            q->rev = true;
        } else if (auto_kind && q->kind == AUTO && sr_is(a, "bylex")) {
            q->kind = LEX;
        } else if (auto_kind && q->kind == AUTO && sr_is(a, "byscore")) {
            q->kind = SCORE;
        } else {
            sr_err_syntax(c);
            return false;
        }
    }
    if (q->kind == AUTO) {
        q->kind = RANK;
    }
    if (q->limit != -1 && q->kind == RANK) {
        sr_err(c, "syntax error, LIMIT is only supported in combination with "
                  "either BYSCORE or BYLEX");
        return false;
    }
    if (q->scores && q->kind == LEX) {
        sr_err(c, "syntax error, WITHSCORES not supported in combination "
                  "with BYLEX");
        return false;
    }
    return true;
}

static void emit(struct sr_client *c, const struct sr_zset *z,
                 const struct range_query *q, size_t from, size_t to)
{
    bool nested = q->scores && c->resp > 2;
    size_t n = to - from;
    sr_array(c, q->scores && !nested ? n * 2 : n);
    for (size_t i = 0; i < n; i++) {
        const struct sr_ent *e = z->order[q->rev ? to - 1 - i : from + i];
        if (nested) {
            sr_array(c, 2);
        }
        sr_bulk(c, e->key, e->klen);
        if (q->scores) {
            sr_double(c, e->v.score);
        }
    }
}

/* LIMIT offset count, counted from the end where reading starts. */
static void cut(const struct range_query *q, size_t *from, size_t *to)
{
    size_t n = *to - *from;
    size_t skip = 0;
    if (q->offset < 0 || (unsigned long long)q->offset >= n) {
        skip = n;
    } else {
        skip = (size_t)q->offset;
    }
    size_t take = n - skip;
    if (q->limit >= 0 && (unsigned long long)q->limit < take) {
        take = (size_t)q->limit;
    }
    if (q->rev) {
        *to -= skip;
        *from = *to - take;
    } else {
        *from += skip;
        *to = *from + take;
    }
}

static void zrange_generic(struct sim_redis *s, struct sr_client *c,
                           struct range_query *q)
{
    long long start = 0;
    long long stop = 0;
    struct bound min = {0};
    struct bound max = {0};
    if (!parse_query(c, q)) {
        return;
    }
    if (q->kind == RANK) {
        if (!sr_arg_ll(c, 2, &start) || !sr_arg_ll(c, 3, &stop)) {
            return;
        }
    } else if (!parse_bound(q->kind, &c->argv[q->rev ? 3 : 2], &min) ||
               !parse_bound(q->kind, &c->argv[q->rev ? 2 : 3], &max)) {
        bound_error(c, q->kind);
        return;
    }
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (!ok) {
        return;
    }
    if (o == NULL) {
        sr_array(c, 0);
        return;
    }
    const struct sr_zset *z = &o->u.z;
    size_t from = 0;
    size_t to = 0;
    if (q->kind != RANK) {
        span(z, q->kind, q->rev, &min, &max, &from, &to);
        cut(q, &from, &to);
    } else if (sr_range(&start, &stop, z->d.live)) {
        from = (size_t)start;
        to = (size_t)stop + 1;
        if (q->rev) {
            size_t t = z->d.live - from;
            from = z->d.live - to;
            to = t;
        }
    }
    emit(c, z, q, from, to);
}

static void zrange_as(struct sim_redis *s, struct sr_client *c, enum kind kind,
                      bool rev, bool rev_given)
{
    struct range_query q = {
        .kind = kind, .rev = rev, .rev_given = rev_given, .limit = -1};
    zrange_generic(s, c, &q);
}

void sr_cmd_zrange(struct sim_redis *s, struct sr_client *c)
{
    zrange_as(s, c, AUTO, false, false);
}

void sr_cmd_zrevrange(struct sim_redis *s, struct sr_client *c)
{
    zrange_as(s, c, RANK, true, true);
}

void sr_cmd_zrangebyscore(struct sim_redis *s, struct sr_client *c)
{
    zrange_as(s, c, SCORE, false, true);
}

void sr_cmd_zrevrangebyscore(struct sim_redis *s, struct sr_client *c)
{
    zrange_as(s, c, SCORE, true, true);
}

void sr_cmd_zrangebylex(struct sim_redis *s, struct sr_client *c)
{
    zrange_as(s, c, LEX, false, true);
}

void sr_cmd_zrevrangebylex(struct sim_redis *s, struct sr_client *c)
{
    zrange_as(s, c, LEX, true, true);
}

static void count_generic(struct sim_redis *s, struct sr_client *c,
                          enum kind kind)
{
    struct bound min = {0};
    struct bound max = {0};
    if (!parse_bound(kind, &c->argv[2], &min) ||
        !parse_bound(kind, &c->argv[3], &max)) {
        bound_error(c, kind);
        return;
    }
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (ok) {
        size_t from = 0;
        size_t to = 0;
        if (o != NULL) {
            span(&o->u.z, kind, false, &min, &max, &from, &to);
        }
        sr_int(c, (long long)(to - from));
    }
}

void sr_cmd_zcount(struct sim_redis *s, struct sr_client *c)
{
    count_generic(s, c, SCORE);
}

void sr_cmd_zlexcount(struct sim_redis *s, struct sr_client *c)
{
    count_generic(s, c, LEX);
}

static void remove_generic(struct sim_redis *s, struct sr_client *c,
                           enum kind kind)
{
    long long start = 0;
    long long stop = 0;
    struct bound min = {0};
    struct bound max = {0};
    if (kind == RANK) {
        if (!sr_arg_ll(c, 2, &start) || !sr_arg_ll(c, 3, &stop)) {
            return;
        }
    } else if (!parse_bound(kind, &c->argv[2], &min) ||
               !parse_bound(kind, &c->argv[3], &max)) {
        bound_error(c, kind);
        return;
    }
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_ZSET, &ok);
    if (!ok) {
        return;
    }
    size_t from = 0;
    size_t to = 0;
    if (o != NULL && kind != RANK) {
        span(&o->u.z, kind, false, &min, &max, &from, &to);
    } else if (o != NULL && sr_range(&start, &stop, o->u.z.d.live)) {
        from = (size_t)start;
        to = (size_t)stop + 1;
    }
    if (to > from) {
        sr_zset_del_ranks(&o->u.z, from, to);
        sr_drop_if_empty(s, c, 1, o);
    }
    sr_int(c, (long long)(to - from));
}

void sr_cmd_zremrangebyrank(struct sim_redis *s, struct sr_client *c)
{
    remove_generic(s, c, RANK);
}

void sr_cmd_zremrangebyscore(struct sim_redis *s, struct sr_client *c)
{
    remove_generic(s, c, SCORE);
}

void sr_cmd_zremrangebylex(struct sim_redis *s, struct sr_client *c)
{
    remove_generic(s, c, LEX);
}

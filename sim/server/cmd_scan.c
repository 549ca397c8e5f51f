/*
 * cmd_scan.c — SCAN, HSCAN, SSCAN, ZSCAN
 *
 * SCAN's cursor is an offset into the order of insertion: COUNT keys are
 * looked at per call, filters thin the answer out, 0 ends. Redis promises
 * less (an element may come twice) and returns another order; nothing may
 * rely on more than the promise. Inside a collection everything comes at
 * once with cursor 0, as Redis does for small encodings.
 */
#include "commands.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

struct options {
    unsigned long cursor;
    long long count;
    const struct sim_redis_arg *match;
    const struct sim_redis_arg *type;
};

static bool parse_cursor(struct sr_client *c, int argi, unsigned long *out)
{
    const char *p = c->argv[argi].ptr;
    char *end;
    errno = 0;
    *out = strtoul(p, &end, 10);
    if (isspace((unsigned char)p[0]) || *end != '\0' || errno == ERANGE) {
        sr_err(c, "invalid cursor");
        return false;
    }
    return true;
}

static bool parse_options(struct sr_client *c, int from, bool keys,
                          struct options *o)
{
    o->count = 10;
    o->match = NULL;
    o->type = NULL;
    for (int i = from; i < c->argc; i += 2) {
        bool more = i + 1 < c->argc;
        if (sr_is(&c->argv[i], "count") && more) {
            if (!sr_arg_ll(c, i + 1, &o->count)) {
                return false;
            }
            if (o->count < 1) {
                sr_err_syntax(c);
                return false;
            }
        } else if (sr_is(&c->argv[i], "match") && more) {
            o->match = &c->argv[i + 1];
        } else if (sr_is(&c->argv[i], "type") && keys && more) {
            o->type = &c->argv[i + 1];
        } else {
            sr_err_syntax(c);
            return false;
        }
    }
    return true;
}

/* "*" alone means no pattern: it matches the empty name, which no glob does. */
static bool matches(const struct options *o, const struct sr_ent *e)
{
    return o->match == NULL ||
           (o->match->len == 1 && o->match->ptr[0] == '*') ||
           sr_glob(o->match->ptr, o->match->len, e->key, e->klen);
}

void sr_cmd_scan(struct sim_redis *s, struct sr_client *c)
{
    struct options o;
    if (!parse_cursor(c, 1, &o.cursor) || !parse_options(c, 2, true, &o)) {
        return;
    }
    const struct sr_dict *db = &s->db[c->db];
    uint32_t from = o.cursor > db->used ? db->used : (uint32_t)o.cursor;
    uint32_t to = from;
    for (int pass = 0; pass < 2; pass++) {
        uint32_t pos = from;
        size_t hits = 0;
        for (long long left = o.count; left > 0; left--) {
            struct sr_ent *e = sr_dict_next(db, &pos);
            if (e == NULL) {
                break;
            }
            const struct sr_obj *v = e->v.ptr;
            if (sr_is_expired(v, s->now_ms) || !matches(&o, e) ||
                (o.type != NULL && !sr_is(o.type, sr_type_name(v->type)))) {
                continue;
            }
            hits++;
            if (pass == 1) {
                sr_bulk(c, e->key, e->klen);
            }
        }
        to = pos;
        if (pass == 0) {
            sr_array(c, 2);
            sr_bulk_ll(c, to >= db->used ? 0 : (long long)to);
            sr_array(c, hits);
        }
    }
}

static void item_reply(struct sr_client *c, const struct sr_obj *o,
                       const struct sr_ent *e)
{
    char buf[64];
    sr_bulk(c, e->key, e->klen);
    if (o->type == SIM_REDIS_HASH) {
        sr_bulk_str(c, e->v.str);
    } else if (o->type == SIM_REDIS_ZSET) {
        /* As stored in a listpack: whole numbers are integers. */
        double d = e->v.score;
        const double safe = 4611686018427387904.0;
        size_t n;
        if (d >= -safe && d <= safe && d == (double)(long long)d) {
            n = sr_format_ll(buf, (long long)d);
        } else {
            n = sr_format_double(buf, sizeof buf, d);
        }
        sr_bulk(c, buf, n);
    }
}

static void scan_collection(struct sim_redis *s, struct sr_client *c,
                            enum sim_redis_type type)
{
    struct options o;
    bool ok;
    if (!parse_cursor(c, 2, &o.cursor)) {
        return;
    }
    struct sr_obj *v = sr_lookup_type(s, c, 1, type, &ok);
    if (!ok) {
        return;
    }
    if (v == NULL) {
        sr_raw(c, "*2\r\n$1\r\n0\r\n*0\r\n");
        return;
    }
    if (!parse_options(c, 3, false, &o)) {
        return;
    }
    size_t n = sr_obj_size(v);
    struct sr_ent **items =
        type == SIM_REDIS_ZSET ? v->u.z.order : sr_set_members(v);
    size_t hits = 0;
    for (size_t i = 0; i < n; i++) {
        hits += matches(&o, items[i]);
    }
    sr_array(c, 2);
    sr_bulk_cstr(c, "0");
    sr_array(c, type == SIM_REDIS_SET ? hits : hits * 2);
    for (size_t i = 0; i < n; i++) {
        if (matches(&o, items[i])) {
            item_reply(c, v, items[i]);
        }
    }
    if (type != SIM_REDIS_ZSET) {
        free(items);
    }
}

void sr_cmd_hscan(struct sim_redis *s, struct sr_client *c)
{
    scan_collection(s, c, SIM_REDIS_HASH);
}

void sr_cmd_sscan(struct sim_redis *s, struct sr_client *c)
{
    scan_collection(s, c, SIM_REDIS_SET);
}

void sr_cmd_zscan(struct sim_redis *s, struct sr_client *c)
{
    scan_collection(s, c, SIM_REDIS_ZSET);
}

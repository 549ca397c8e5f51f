/*
 * cmd_generic.c — keys of any type: existence, expiry, scanning, flushing
 *
 * An expiry in the past deletes the key at once (a master does, a replica
 * would wait for its master): that is the reply 1 after which the key is
 * gone. PTTL answers -2 for no key and -1 for no expiry.
 *
 * SCAN's cursor is an offset into the order of insertion: COUNT keys are
 * looked at per call, filters thin the answer out, 0 ends. Redis promises
 * less (an element may come twice) and returns another order; nothing may
 * rely on more than the promise.
 */
#include "commands.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

void sr_cmd_del(struct sim_redis *s, struct sr_client *c)
{
    long long n = 0;
    for (int j = 1; j < c->argc; j++) {
        if (sr_lookup(s, c->db, &c->argv[j]) != NULL) {
            sr_del_key(s, c->db, c->argv[j].ptr, c->argv[j].len);
            n++;
        }
    }
    sr_int(c, n);
}

void sr_cmd_exists(struct sim_redis *s, struct sr_client *c)
{
    long long n = 0;
    for (int j = 1; j < c->argc; j++) {
        n += sr_lookup(s, c->db, &c->argv[j]) != NULL;
    }
    sr_int(c, n);
}

/* ---- expiry ------------------------------------------------------------ */

enum { NX = 1, XX = 2, GT = 4, LT = 8 };

static bool expire_flags(struct sr_client *c, int *flags)
{
    for (int j = 3; j < c->argc; j++) {
        const struct sim_redis_arg *opt = &c->argv[j];
        if (sr_is(opt, "nx")) {
            *flags |= NX;
        } else if (sr_is(opt, "xx")) {
            *flags |= XX;
        } else if (sr_is(opt, "gt")) {
            *flags |= GT;
        } else if (sr_is(opt, "lt")) {
            *flags |= LT;
        } else {
            sr_err(c, "Unsupported option %s", opt->ptr);
            return false;
        }
    }
    if ((*flags & NX) != 0 && (*flags & (XX | GT | LT)) != 0) {
        sr_err(c, "NX and XX, GT or LT options at the same time are not "
                  "compatible");
        return false;
    }
    if ((*flags & (GT | LT)) == (GT | LT)) {
        sr_err(c, "GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

static bool expire_allowed(int flags, int64_t current, int64_t when)
{
    if ((flags & NX) != 0 && current != -1) {
        return false;
    }
    if ((flags & XX) != 0 && current == -1) {
        return false;
    }
    /* No expiry counts as infinite for GT and LT. */
    if ((flags & GT) != 0 && (current == -1 || when <= current)) {
        return false;
    }
    if ((flags & LT) != 0 && current != -1 && when >= current) {
        return false;
    }
    return true;
}

void sr_cmd_pexpire(struct sim_redis *s, struct sr_client *c)
{
    int flags = 0;
    long long when;
    if (!expire_flags(c, &flags) || !sr_arg_ll(c, 2, &when)) {
        return;
    }
    if (when > LLONG_MAX - s->now_ms) {
        sr_err_expire(c);
        return;
    }
    when += s->now_ms;
    struct sr_obj *o = sr_lookup(s, c->db, &c->argv[1]);
    if (o == NULL || !expire_allowed(flags, o->expire_ms, when)) {
        sr_int(c, 0);
        return;
    }
    bool replica = (s->faults & (SIM_REDIS_READONLY | SIM_REDIS_MASTERDOWN));
    if (when <= s->now_ms && !replica) {
        sr_del_key(s, c->db, c->argv[1].ptr, c->argv[1].len);
    } else {
        o->expire_ms = when;
    }
    sr_int(c, 1);
}

void sr_cmd_pttl(struct sim_redis *s, struct sr_client *c)
{
    struct sr_obj *o = sr_lookup(s, c->db, &c->argv[1]);
    if (o == NULL) {
        sr_int(c, -2);
    } else if (o->expire_ms == -1) {
        sr_int(c, -1);
    } else {
        int64_t left = o->expire_ms - s->now_ms;
        sr_int(c, left < 0 ? 0 : left);
    }
}

/* ---- whole databases --------------------------------------------------- */

struct scan {
    unsigned long cursor;
    long long count;
    const struct sim_redis_arg *match;
};

static bool parse_cursor(struct sr_client *c, unsigned long *out)
{
    const char *p = c->argv[1].ptr;
    char *end;
    errno = 0;
    *out = strtoul(p, &end, 10);
    if (isspace((unsigned char)p[0]) || *end != '\0' || errno == ERANGE) {
        sr_err(c, "invalid cursor");
        return false;
    }
    return true;
}

static bool parse_options(struct sr_client *c, struct scan *o)
{
    o->count = 10;
    o->match = NULL;
    for (int i = 2; i < c->argc; i += 2) {
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
        } else {
            sr_err_syntax(c);
            return false;
        }
    }
    return true;
}

/* "*" alone means no pattern: it matches the empty name, which no glob does. */
static bool matches(const struct scan *o, const struct sr_ent *e)
{
    return o->match == NULL ||
           (o->match->len == 1 && o->match->ptr[0] == '*') ||
           sr_glob(o->match->ptr, o->match->len, e->key, e->klen);
}

void sr_cmd_scan(struct sim_redis *s, struct sr_client *c)
{
    struct scan o;
    if (!parse_cursor(c, &o.cursor) || !parse_options(c, &o)) {
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
            if (sr_is_expired(e->v.ptr, s->now_ms) || !matches(&o, e)) {
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

void sr_cmd_flushall(struct sim_redis *s, struct sr_client *c)
{
    if (c->argc > 2 || (c->argc == 2 && !sr_is(&c->argv[1], "sync") &&
                        !sr_is(&c->argv[1], "async"))) {
        sr_err_syntax(c);
        return;
    }
    for (int i = 0; i < SR_DBS; i++) {
        sr_db_clear(&s->db[i]);
    }
    sr_ok(c);
}

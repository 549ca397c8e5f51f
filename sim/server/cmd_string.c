/*
 * cmd_string.c — GET, SET and counting
 *
 * SET's options are checked from left to right and contradict each other in
 * Redis' own way (a repeated EX is legal, the last wins; EX after PX is a
 * syntax error). The time is validated before anything is looked up, and GET
 * with a wrong type refuses before writing.
 */
#include "commands.h"

#include <limits.h>
#include <stdlib.h>

enum {
    NX = 1,
    XX = 2,
    EX = 4,
    PX = 8,
    KEEPTTL = 16,
    GET = 32,
    EXAT = 64,
    PXAT = 128
};

static void put_string(struct sim_redis *s, struct sr_client *c, int keyi,
                       const char *p, size_t n, int64_t expire_ms)
{
    struct sr_obj *o = sr_obj_new(SIM_REDIS_STRING);
    o->u.str = sr_str_new(p, n);
    o->expire_ms = expire_ms;
    sr_put_key(s, c->db, &c->argv[keyi], o);
}

/* Replies with the value or null; false after WRONGTYPE. */
static bool reply_get(struct sim_redis *s, struct sr_client *c, int keyi)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, keyi, SIM_REDIS_STRING, &ok);
    if (!ok) {
        return false;
    }
    if (o == NULL) {
        sr_null(c);
    } else {
        sr_bulk_str(c, o->u.str);
    }
    return true;
}

void sr_cmd_get(struct sim_redis *s, struct sr_client *c)
{
    reply_get(s, c, 1);
}

/* Absolute expiry in ms from an argument; false after replying. */
static bool expire_arg(struct sim_redis *s, struct sr_client *c, int argi,
                       int flags, int64_t *out)
{
    long long v;
    if (!sr_arg_ll(c, argi, &v)) {
        return false;
    }
    bool seconds = (flags & (EX | EXAT)) != 0;
    if (v <= 0 || (seconds && v > LLONG_MAX / 1000)) {
        sr_err_expire(c);
        return false;
    }
    if (seconds) {
        v *= 1000;
    }
    if ((flags & (EX | PX)) != 0) {
        if (v > LLONG_MAX - s->now_ms) {
            sr_err_expire(c);
            return false;
        }
        v += s->now_ms;
    }
    *out = v;
    return true;
}

static void set_with(struct sim_redis *s, struct sr_client *c, int flags,
                     int expi)
{
    int64_t expire = -1;
    if (expi > 0 && !expire_arg(s, c, expi, flags, &expire)) {
        return;
    }
    if ((flags & GET) != 0 && !reply_get(s, c, 1)) {
        return;
    }
    struct sr_obj *old = sr_lookup(s, c->db, &c->argv[1]);
    if ((flags & (old == NULL ? XX : NX)) != 0) {
        if ((flags & GET) == 0) {
            sr_null(c);
        }
        return;
    }
    if (expi == 0 && (flags & KEEPTTL) != 0 && old != NULL) {
        expire = old->expire_ms;
    }
    put_string(s, c, 1, c->argv[2].ptr, c->argv[2].len, expire);
    if ((flags & GET) == 0) {
        sr_ok(c);
    }
}

/* Adds one option to *flags; 0 no such option, 1 taken, 2 it takes a value. */
static int set_option(const struct sim_redis_arg *opt, bool more, int *flags)
{
    const int time = EX | PX | EXAT | PXAT;
    if (sr_is(opt, "nx") && (*flags & XX) == 0) {
        *flags |= NX;
        return 1;
    }
    if (sr_is(opt, "xx") && (*flags & NX) == 0) {
        *flags |= XX;
        return 1;
    }
    if (sr_is(opt, "get")) {
        *flags |= GET;
        return 1;
    }
    if (sr_is(opt, "keepttl") && (*flags & time) == 0) {
        *flags |= KEEPTTL;
        return 1;
    }
    int bit = sr_is(opt, "ex")     ? EX
              : sr_is(opt, "px")   ? PX
              : sr_is(opt, "exat") ? EXAT
              : sr_is(opt, "pxat") ? PXAT
                                   : 0;
    if (bit != 0 && more && (*flags & (KEEPTTL | (time & ~bit))) == 0) {
        *flags |= bit;
        return 2;
    }
    return 0;
}

void sr_cmd_set(struct sim_redis *s, struct sr_client *c)
{
    int flags = 0;
    int expi = 0;
    for (int j = 3; j < c->argc; j++) {
        int took = set_option(&c->argv[j], j < c->argc - 1, &flags);
        if (took == 0) {
            sr_err_syntax(c);
            return;
        }
        if (took == 2) {
            expi = ++j;
        }
    }
    set_with(s, c, flags, expi);
}

static void incr_by(struct sim_redis *s, struct sr_client *c, long long by)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_STRING, &ok);
    if (!ok) {
        return;
    }
    long long v = 0;
    if (o != NULL && !sr_parse_ll(o->u.str->p, o->u.str->len, &v)) {
        sr_raw(c, "-ERR value is not an integer or out of range\r\n");
        return;
    }
    if ((by < 0 && v < 0 && by < LLONG_MIN - v) ||
        (by > 0 && v > 0 && by > LLONG_MAX - v)) {
        sr_raw(c, "-ERR increment or decrement would overflow\r\n");
        return;
    }
    char buf[24];
    size_t n = sr_format_ll(buf, v + by);
    if (o != NULL) {
        free(o->u.str);
        o->u.str = sr_str_new(buf, n);
    } else {
        put_string(s, c, 1, buf, n, -1);
    }
    sr_int(c, v + by);
}

void sr_cmd_incr(struct sim_redis *s, struct sr_client *c)
{
    incr_by(s, c, 1);
}

void sr_cmd_decr(struct sim_redis *s, struct sr_client *c)
{
    incr_by(s, c, -1);
}

void sr_cmd_incrby(struct sim_redis *s, struct sr_client *c)
{
    long long by;
    if (sr_arg_ll(c, 2, &by)) {
        incr_by(s, c, by);
    }
}

void sr_cmd_decrby(struct sim_redis *s, struct sr_client *c)
{
    long long by;
    if (!sr_arg_ll(c, 2, &by)) {
        return;
    }
    if (by == LLONG_MIN) {
        sr_raw(c, "-ERR decrement would overflow\r\n");
        return;
    }
    incr_by(s, c, -by);
}

void sr_cmd_mget(struct sim_redis *s, struct sr_client *c)
{
    sr_array(c, (size_t)c->argc - 1);
    for (int j = 1; j < c->argc; j++) {
        struct sr_obj *o = sr_lookup(s, c->db, &c->argv[j]);
        if (o == NULL || o->type != SIM_REDIS_STRING) {
            sr_null(c);
        } else {
            sr_bulk_str(c, o->u.str);
        }
    }
}

/*
 * cmd_generic.c — keys of any type: existence, expiry, flushing
 *
 * An expiry in the past deletes the key at once (a master does, a replica
 * would wait for its master): that is the reply 1 after which the key is
 * gone. TTL rounds half up, PTTL is exact; both answer -2 for no key and -1
 * for no expiry.
 */
#include "commands.h"

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

void sr_cmd_type(struct sim_redis *s, struct sr_client *c)
{
    struct sr_obj *o = sr_lookup(s, c->db, &c->argv[1]);
    const char *name = sr_type_name(o == NULL ? SIM_REDIS_NONE : o->type);
    sr_buf_add(&c->out, "+", 1);
    sr_buf_add_cstr(&c->out, name);
    sr_buf_add(&c->out, "\r\n", 2);
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

static void expire_generic(struct sim_redis *s, struct sr_client *c,
                           int64_t base, bool seconds)
{
    int flags = 0;
    long long when;
    if (!expire_flags(c, &flags) || !sr_arg_ll(c, 2, &when)) {
        return;
    }
    if (seconds) {
        if (when > LLONG_MAX / 1000 || when < LLONG_MIN / 1000) {
            sr_err_expire(c);
            return;
        }
        when *= 1000;
    }
    if (when > LLONG_MAX - base) {
        sr_err_expire(c);
        return;
    }
    when += base;
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

void sr_cmd_expire(struct sim_redis *s, struct sr_client *c)
{
    expire_generic(s, c, s->now_ms, true);
}

void sr_cmd_expireat(struct sim_redis *s, struct sr_client *c)
{
    expire_generic(s, c, 0, true);
}

void sr_cmd_pexpire(struct sim_redis *s, struct sr_client *c)
{
    expire_generic(s, c, s->now_ms, false);
}

void sr_cmd_pexpireat(struct sim_redis *s, struct sr_client *c)
{
    expire_generic(s, c, 0, false);
}

static void ttl_generic(struct sim_redis *s, struct sr_client *c, bool ms,
                        bool absolute)
{
    struct sr_obj *o = sr_lookup(s, c->db, &c->argv[1]);
    if (o == NULL) {
        sr_int(c, -2);
        return;
    }
    if (o->expire_ms == -1) {
        sr_int(c, -1);
        return;
    }
    long long v = absolute ? o->expire_ms : o->expire_ms - s->now_ms;
    if (v < 0) {
        v = 0;
    }
    sr_int(c, ms ? v : (v + 500) / 1000);
}

void sr_cmd_ttl(struct sim_redis *s, struct sr_client *c)
{
    ttl_generic(s, c, false, false);
}

void sr_cmd_pttl(struct sim_redis *s, struct sr_client *c)
{
    ttl_generic(s, c, true, false);
}

void sr_cmd_expiretime(struct sim_redis *s, struct sr_client *c)
{
    ttl_generic(s, c, false, true);
}

void sr_cmd_pexpiretime(struct sim_redis *s, struct sr_client *c)
{
    ttl_generic(s, c, true, true);
}

void sr_cmd_persist(struct sim_redis *s, struct sr_client *c)
{
    struct sr_obj *o = sr_lookup(s, c->db, &c->argv[1]);
    bool had = o != NULL && o->expire_ms != -1;
    if (had) {
        o->expire_ms = -1;
    }
    sr_int(c, had);
}

/* ---- whole databases --------------------------------------------------- */

void sr_cmd_dbsize(struct sim_redis *s, struct sr_client *c)
{
    sr_int(c, (long long)sim_redis_dbsize(s, c->db, s->now_us));
}

static bool flush_args(struct sr_client *c)
{
    if (c->argc > 2 || (c->argc == 2 && !sr_is(&c->argv[1], "sync") &&
                        !sr_is(&c->argv[1], "async"))) {
        sr_err_syntax(c);
        return false;
    }
    return true;
}

void sr_cmd_flushall(struct sim_redis *s, struct sr_client *c)
{
    if (flush_args(c)) {
        sim_redis_flushall(s);
        sr_ok(c);
    }
}

void sr_cmd_flushdb(struct sim_redis *s, struct sr_client *c)
{
    if (flush_args(c)) {
        sr_db_clear(&s->db[c->db]);
        sr_ok(c);
    }
}

void sr_cmd_keys(struct sim_redis *s, struct sr_client *c)
{
    const struct sim_redis_arg *pat = &c->argv[1];
    bool all = pat->len == 1 && pat->ptr[0] == '*';
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;
        uint32_t pos = 0;
        struct sr_ent *e;
        while ((e = sr_dict_next(&s->db[c->db], &pos)) != NULL) {
            if (sr_is_expired(e->v.ptr, s->now_ms) ||
                (!all && !sr_glob(pat->ptr, pat->len, e->key, e->klen))) {
                continue;
            }
            n++;
            if (pass == 1) {
                sr_bulk(c, e->key, e->klen);
            }
        }
        if (pass == 0) {
            sr_array(c, n);
        }
    }
}

void sr_cmd_rename(struct sim_redis *s, struct sr_client *c)
{
    struct sr_obj *o = sr_lookup(s, c->db, &c->argv[1]);
    if (o == NULL) {
        sr_raw(c, "-ERR no such key\r\n");
        return;
    }
    if (sr_bytes_cmp(c->argv[1].ptr, c->argv[1].len, c->argv[2].ptr,
                     c->argv[2].len) != 0) {
        free(sr_dict_take(&s->db[c->db], c->argv[1].ptr, c->argv[1].len));
        sr_put_key(s, c->db, &c->argv[2], o);
    }
    sr_ok(c);
}

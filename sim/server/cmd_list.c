/*
 * cmd_list.c — lists, without the blocking pops
 */
#include "commands.h"

#include <stdlib.h>

static void push(struct sim_redis *s, struct sr_client *c, bool head)
{
    struct sr_obj *o = sr_lookup_make(s, c, 1, SIM_REDIS_LIST);
    if (o == NULL) {
        return;
    }
    for (int i = 2; i < c->argc; i++) {
        sr_list_push(&o->u.list, head,
                     sr_str_new(c->argv[i].ptr, c->argv[i].len));
    }
    sr_int(c, (long long)o->u.list.n);
}

void sr_cmd_lpush(struct sim_redis *s, struct sr_client *c)
{
    push(s, c, true);
}

void sr_cmd_rpush(struct sim_redis *s, struct sr_client *c)
{
    push(s, c, false);
}

static void pop(struct sim_redis *s, struct sr_client *c, bool head)
{
    bool counted = c->argc == 3;
    long long count = 1;
    bool ok;
    if (c->argc > 3) {
        sr_err_arity(c);
        return;
    }
    if (counted && !sr_arg_positive(c, 2, &count)) {
        return;
    }
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_LIST, &ok);
    if (!ok) {
        return;
    }
    if (o == NULL) {
        if (counted) {
            sr_raw(c, "*-1\r\n");
        } else {
            sr_null(c);
        }
        return;
    }
    size_t n =
        (unsigned long long)count > o->u.list.n ? o->u.list.n : (size_t)count;
    if (counted) {
        sr_array(c, n);
    }
    for (size_t i = 0; i < n; i++) {
        struct sr_str *v = sr_list_pop(&o->u.list, head);
        sr_bulk_str(c, v);
        free(v);
    }
    sr_drop_if_empty(s, c, 1, o);
}

void sr_cmd_lpop(struct sim_redis *s, struct sr_client *c)
{
    pop(s, c, true);
}

void sr_cmd_rpop(struct sim_redis *s, struct sr_client *c)
{
    pop(s, c, false);
}

void sr_cmd_lrange(struct sim_redis *s, struct sr_client *c)
{
    long long start;
    long long stop;
    bool ok;
    if (!sr_arg_ll(c, 2, &start) || !sr_arg_ll(c, 3, &stop)) {
        return;
    }
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_LIST, &ok);
    if (!ok) {
        return;
    }
    if (o == NULL || !sr_range(&start, &stop, o->u.list.n)) {
        sr_array(c, 0);
        return;
    }
    sr_array(c, (size_t)(stop - start + 1));
    for (long long i = start; i <= stop; i++) {
        sr_bulk_str(c, o->u.list.v[o->u.list.head + (size_t)i]);
    }
}

void sr_cmd_llen(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_LIST, &ok);
    if (ok) {
        sr_int(c, o == NULL ? 0 : (long long)o->u.list.n);
    }
}

void sr_cmd_lrem(struct sim_redis *s, struct sr_client *c)
{
    long long count;
    bool ok;
    if (!sr_arg_ll(c, 2, &count)) {
        return;
    }
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_LIST, &ok);
    if (!ok) {
        return;
    }
    if (o == NULL) {
        sr_int(c, 0);
        return;
    }
    struct sr_list *l = &o->u.list;
    bool backwards = count < 0;
    unsigned long long want = backwards ? 0ull - (unsigned long long)count
                                        : (unsigned long long)count;
    unsigned long long removed = 0;
    size_t i = backwards ? l->n : 0;
    while (backwards ? i > 0 : i < l->n) {
        size_t at = backwards ? --i : i;
        const struct sr_str *v = l->v[l->head + at];
        if (sr_bytes_cmp(v->p, v->len, c->argv[3].ptr, c->argv[3].len) != 0) {
            i += !backwards;
            continue;
        }
        sr_list_remove_at(l, at);
        removed++;
        if (want != 0 && removed == want) {
            break;
        }
    }
    sr_drop_if_empty(s, c, 1, o);
    sr_int(c, (long long)removed);
}

void sr_cmd_lindex(struct sim_redis *s, struct sr_client *c)
{
    long long i;
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_LIST, &ok);
    if (!ok) {
        return;
    }
    if (o == NULL) {
        sr_null(c);
        return;
    }
    if (!sr_arg_ll(c, 2, &i)) {
        return;
    }
    if (i < 0) {
        i += (long long)o->u.list.n;
    }
    if (i < 0 || i >= (long long)o->u.list.n) {
        sr_null(c);
    } else {
        sr_bulk_str(c, o->u.list.v[o->u.list.head + (size_t)i]);
    }
}

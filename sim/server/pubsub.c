/* pubsub.c — channels, patterns, and delivery at most once
 *
 * PUBLISH copies the message into the output of every connection that is
 * subscribed at that instant, channels first and patterns after, each in the
 * order of subscription; its answer counts those copies and proves nothing
 * about anybody reading them. Bytes that a closed connection had not read are
 * gone. */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

size_t sr_subscription_count(const struct sr_client *c)
{
    return (size_t)c->channels.live + c->patterns.live;
}

static void subs_add(struct sr_dict *d, const char *p, size_t n,
                     struct sr_client *c)
{
    bool fresh;
    struct sr_ent *e = sr_dict_put(d, p, n, &fresh);
    if (fresh) {
        e->v.ptr = sr_zalloc(sizeof(struct sr_subs));
    }
    struct sr_subs *l = e->v.ptr;
    if (l->n == l->cap) {
        l->cap = l->cap == 0 ? 2 : l->cap * 2;
        l->v = sr_realloc(l->v, l->cap * sizeof(struct sr_client *));
    }
    l->v[l->n++] = c;
}

static void subs_remove(struct sr_dict *d, const char *p, size_t n,
                        const struct sr_client *c)
{
    struct sr_ent *e = sr_dict_find(d, p, n);
    struct sr_subs *l = e->v.ptr;
    for (size_t i = 0; i < l->n; i++) {
        if (l->v[i] == c) {
            memmove(l->v + i, l->v + i + 1,
                    (l->n - i - 1) * sizeof(struct sr_client *));
            l->n--;
            break;
        }
    }
    if (l->n == 0) {
        free(l->v);
        free(l);
        free(sr_dict_take(d, p, n));
    }
}

static void confirm(struct sr_client *c, const char *what, const char *p,
                    size_t n)
{
    sr_push(c, 3);
    sr_bulk_cstr(c, what);
    if (p == NULL) {
        sr_null(c);
    } else {
        sr_bulk(c, p, n);
    }
    sr_int(c, (long long)sr_subscription_count(c));
}

static void subscribe(struct sr_client *c, struct sr_dict *mine,
                      struct sr_dict *all, const char *what)
{
    for (int i = 1; i < c->argc; i++) {
        bool fresh;
        sr_dict_put(mine, c->argv[i].ptr, c->argv[i].len, &fresh);
        if (fresh) {
            subs_add(all, c->argv[i].ptr, c->argv[i].len, c);
        }
        confirm(c, what, c->argv[i].ptr, c->argv[i].len);
    }
}

static void leave(struct sr_client *c, struct sr_dict *mine,
                  struct sr_dict *all, const char *p, size_t n,
                  const char *what)
{
    struct sr_ent *e = sr_dict_take(mine, p, n);
    if (e != NULL) {
        subs_remove(all, p, n, c);
    }
    if (what != NULL) {
        confirm(c, what, p, n);
    }
    free(e);
}

/* `what` NULL: without telling. */
static void leave_all(struct sr_client *c, struct sr_dict *mine,
                      struct sr_dict *all, const char *what)
{
    if (mine->live == 0 && what != NULL) {
        confirm(c, what, NULL, 0);
    }
    uint32_t pos = 0;
    struct sr_ent *e;
    while ((e = sr_dict_next(mine, &pos)) != NULL) {
        leave(c, mine, all, e->key, e->klen, what);
    }
    sr_dict_clear(mine);
}

static void unsubscribe(struct sr_client *c, struct sr_dict *mine,
                        struct sr_dict *all, const char *what)
{
    if (c->argc == 1) {
        leave_all(c, mine, all, what);
        return;
    }
    for (int i = 1; i < c->argc; i++) {
        leave(c, mine, all, c->argv[i].ptr, c->argv[i].len, what);
    }
}

void sr_pubsub_leave_all(struct sim_redis *s, struct sr_client *c)
{
    leave_all(c, &c->channels, &s->channels, NULL);
    leave_all(c, &c->patterns, &s->patterns, NULL);
}

/* Redis refuses these only for clients that must get one reply per command:
 * in EXEC they are let through for old times' sake. */
void sr_cmd_subscribe(struct sim_redis *s, struct sr_client *c)
{
    subscribe(c, &c->channels, &s->channels, "subscribe");
}

void sr_cmd_psubscribe(struct sim_redis *s, struct sr_client *c)
{
    subscribe(c, &c->patterns, &s->patterns, "psubscribe");
}

void sr_cmd_unsubscribe(struct sim_redis *s, struct sr_client *c)
{
    unsubscribe(c, &c->channels, &s->channels, "unsubscribe");
}

void sr_cmd_punsubscribe(struct sim_redis *s, struct sr_client *c)
{
    unsubscribe(c, &c->patterns, &s->patterns, "punsubscribe");
}

static void deliver(struct sr_client *to, const struct sr_ent *pattern,
                    const struct sim_redis_arg *channel,
                    const struct sim_redis_arg *message)
{
    sr_push(to, pattern == NULL ? 3 : 4);
    if (pattern == NULL) {
        sr_bulk_cstr(to, "message");
    } else {
        sr_bulk_cstr(to, "pmessage");
        sr_bulk(to, pattern->key, pattern->klen);
    }
    sr_bulk(to, channel->ptr, channel->len);
    sr_bulk(to, message->ptr, message->len);
}

void sr_cmd_publish(struct sim_redis *s, struct sr_client *c)
{
    const struct sim_redis_arg *channel = &c->argv[1];
    const struct sim_redis_arg *message = &c->argv[2];
    long long n = 0;
    struct sr_ent *e = sr_dict_find(&s->channels, channel->ptr, channel->len);
    if (e != NULL) {
        const struct sr_subs *l = e->v.ptr;
        for (size_t i = 0; i < l->n; i++) {
            deliver(l->v[i], NULL, channel, message);
            n++;
        }
    }
    uint32_t pos = 0;
    while ((e = sr_dict_next(&s->patterns, &pos)) != NULL) {
        if (!sr_glob(e->key, e->klen, channel->ptr, channel->len)) {
            continue;
        }
        const struct sr_subs *l = e->v.ptr;
        for (size_t i = 0; i < l->n; i++) {
            deliver(l->v[i], e, channel, message);
            n++;
        }
    }
    sr_int(c, n);
}

void sr_cmd_pubsub_channels(struct sim_redis *s, struct sr_client *c)
{
    if (c->argc > 3) {
        sr_err_subcommand(c);
        return;
    }
    for (int pass = 0; pass < 2; pass++) {
        size_t n = 0;
        uint32_t pos = 0;
        struct sr_ent *e;
        while ((e = sr_dict_next(&s->channels, &pos)) != NULL) {
            if (c->argc == 3 &&
                !sr_glob(c->argv[2].ptr, c->argv[2].len, e->key, e->klen)) {
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

void sr_cmd_pubsub_numsub(struct sim_redis *s, struct sr_client *c)
{
    sr_array(c, (size_t)(c->argc - 2) * 2);
    for (int i = 2; i < c->argc; i++) {
        struct sr_ent *e =
            sr_dict_find(&s->channels, c->argv[i].ptr, c->argv[i].len);
        const struct sr_subs *l = e == NULL ? NULL : e->v.ptr;
        sr_bulk(c, c->argv[i].ptr, c->argv[i].len);
        sr_int(c, l == NULL ? 0 : (long long)l->n);
    }
}

void sr_cmd_pubsub_numpat(struct sim_redis *s, struct sr_client *c)
{
    sr_int(c, (long long)s->patterns.live);
}

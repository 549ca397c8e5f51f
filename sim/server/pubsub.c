/* pubsub.c — channels, and delivery at most once
 *
 * PUBLISH copies the message into the output of every connection that is
 * subscribed at that instant, in the order of subscription; its answer counts
 * those copies and proves nothing about anybody reading them. Bytes that a
 * closed connection had not read are gone. There are no patterns. */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

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
    sr_array(c, 3);
    sr_bulk_cstr(c, what);
    if (p == NULL) {
        sr_null(c);
    } else {
        sr_bulk(c, p, n);
    }
    sr_int(c, (long long)c->channels.live);
}

/* In EXEC, where each command has one reply, Redis lets it through for old
 * times' sake. */
void sr_cmd_subscribe(struct sim_redis *s, struct sr_client *c)
{
    for (int i = 1; i < c->argc; i++) {
        bool fresh;
        sr_dict_put(&c->channels, c->argv[i].ptr, c->argv[i].len, &fresh);
        if (fresh) {
            subs_add(&s->channels, c->argv[i].ptr, c->argv[i].len, c);
        }
        confirm(c, "subscribe", c->argv[i].ptr, c->argv[i].len);
    }
}

static void leave(struct sim_redis *s, struct sr_client *c, const char *p,
                  size_t n, bool tell)
{
    struct sr_ent *e = sr_dict_take(&c->channels, p, n);
    if (e != NULL) {
        subs_remove(&s->channels, p, n, c);
    }
    if (tell) {
        confirm(c, "unsubscribe", p, n);
    }
    free(e);
}

static void leave_all(struct sim_redis *s, struct sr_client *c, bool tell)
{
    uint32_t pos = 0;
    struct sr_ent *e;
    while ((e = sr_dict_next(&c->channels, &pos)) != NULL) {
        leave(s, c, e->key, e->klen, tell);
    }
    sr_dict_clear(&c->channels);
}

void sr_cmd_unsubscribe(struct sim_redis *s, struct sr_client *c)
{
    if (c->argc == 1 && c->channels.live == 0) {
        confirm(c, "unsubscribe", NULL, 0);
    } else if (c->argc == 1) {
        leave_all(s, c, true);
    }
    for (int i = 1; i < c->argc; i++) {
        leave(s, c, c->argv[i].ptr, c->argv[i].len, true);
    }
}

void sr_pubsub_leave_all(struct sim_redis *s, struct sr_client *c)
{
    leave_all(s, c, false);
}

void sr_cmd_publish(struct sim_redis *s, struct sr_client *c)
{
    const struct sim_redis_arg *channel = &c->argv[1];
    struct sr_ent *e = sr_dict_find(&s->channels, channel->ptr, channel->len);
    const struct sr_subs *l = e == NULL ? NULL : e->v.ptr;
    size_t n = l == NULL ? 0 : l->n;
    for (size_t i = 0; i < n; i++) {
        sr_array(l->v[i], 3);
        sr_bulk_cstr(l->v[i], "message");
        sr_bulk(l->v[i], channel->ptr, channel->len);
        sr_bulk(l->v[i], c->argv[2].ptr, c->argv[2].len);
    }
    sr_int(c, (long long)n);
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

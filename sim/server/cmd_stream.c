/*
 * cmd_stream.c — streams, of which only the ids count
 *
 * XADD gives an entry an id, "<ms>-<sequence>", above every id that its stream
 * has given before, and trims at once to the length asked for. A stream keeps
 * its last id without an entry, so one that is always trimmed to nothing is a
 * mark that only rises. That is all that the store needs of it; what entries
 * hold is forgotten here, and their number is all that is kept. Not there:
 * approximate trimming (~), MINID, LIMIT, and every other command of streams
 * but XLEN.
 */
#include "commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct add {
    bool makes;     /* the stream, if there is none */
    long long most; /* entries that stay; -1: all */
    bool given;     /* an id, or its ms at least */
    bool whole;     /* … and its sequence */
    struct sr_stream_id id;
    int fields; /* where they begin */
};

/* Redis' string2ull: what string2ll does not take goes to strtoull. */
static bool parse_ull(const char *p, uint64_t *out)
{
    long long v;
    char *end;
    if (sr_parse_ll(p, strlen(p), &v)) {
        *out = (uint64_t)v;
        return v >= 0;
    }
    errno = 0;
    *out = strtoull(p, &end, 10);
    return errno == 0 && *p != '\0' && *end == '\0';
}

static bool parse_id(struct sr_client *c, const struct sim_redis_arg *a,
                     struct add *ret)
{
    char text[128] = "";
    bool ok = a->len < sizeof text;
    if (ok) {
        memcpy(text, a->ptr, a->len);
        text[a->len] = '\0';
    }
    char *dash = strchr(text, '-');
    ret->given = ret->whole = true;
    ret->id.seq = 0;
    if (ok && dash != NULL) {
        *dash++ = '\0';
        ret->whole = strcmp(dash, "*") != 0;
        ok = !ret->whole || parse_ull(dash, &ret->id.seq);
    }
    ok = ok && parse_ull(text, &ret->id.ms);
    if (!ok) {
        sr_err(c, "Invalid stream ID specified as stream command argument");
    }
    return ok;
}

/* MAXLEN [=] n at argv[*i]; *i moves to its last argument. */
static bool parse_maxlen(struct sr_client *c, int *i, struct add *ret)
{
    if (ret->most >= 0) {
        sr_err(c, "syntax error, MAXLEN and MINID options at the same time "
                  "are not compatible");
        return false;
    }
    if (*i + 2 < c->argc && sr_is(&c->argv[*i + 1], "=")) {
        ++*i;
    }
    if (!sr_arg_ll(c, ++*i, &ret->most)) {
        return false;
    }
    if (ret->most < 0) {
        sr_err(c, "The MAXLEN argument must be >= 0.");
    }
    return ret->most >= 0;
}

static bool parse_add(struct sr_client *c, struct add *ret)
{
    *ret = (struct add){.makes = true, .most = -1};
    int i = 2;
    for (; i < c->argc; i++) {
        const struct sim_redis_arg *a = &c->argv[i];
        if (sr_is(a, "*")) {
            break;
        }
        if (sr_is(a, "maxlen") && i + 1 < c->argc) {
            if (!parse_maxlen(c, &i, ret)) {
                return false;
            }
        } else if (sr_is(a, "nomkstream")) {
            ret->makes = false;
        } else if (parse_id(c, a, ret)) {
            break;
        } else {
            return false;
        }
    }
    ret->fields = i + 1;
    int left = c->argc - ret->fields;
    if (left < 2 || left % 2 == 1) {
        sr_err_arity(c);
        return false;
    }
    if (ret->given && ret->whole && ret->id.ms == 0 && ret->id.seq == 0) {
        sr_err(c, "The ID specified in XADD must be greater than 0-0");
        return false;
    }
    return true;
}

static bool above(struct sr_stream_id a, struct sr_stream_id b)
{
    return a.ms > b.ms || (a.ms == b.ms && a.seq > b.seq);
}

/* The next id. False: the one that was asked for is too low. */
static bool next_id(const struct sim_redis *s, const struct sr_stream *to,
                    const struct add *a, struct sr_stream_id *ret)
{
    if (a->given && (a->whole || a->id.ms != to->last.ms)) {
        *ret = a->id;
    } else if (!a->given && (uint64_t)s->now_ms > to->last.ms) {
        *ret = (struct sr_stream_id){.ms = (uint64_t)s->now_ms};
    } else {
        *ret = to->last;
        if (++ret->seq == 0 && (a->given || ++ret->ms == 0)) {
            return false;
        }
    }
    return above(*ret, to->last);
}

void sr_cmd_xadd(struct sim_redis *s, struct sr_client *c)
{
    struct add a;
    bool ok;
    char text[48];
    if (!parse_add(c, &a)) {
        return;
    }
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_STREAM, &ok);
    if (!ok) {
        return;
    }
    if (o == NULL && !a.makes) {
        sr_null(c);
        return;
    }
    o = sr_lookup_make(s, c, 1, SIM_REDIS_STREAM);
    struct sr_stream *to = &o->u.stream;
    struct sr_stream_id id;
    if (to->last.ms == UINT64_MAX && to->last.seq == UINT64_MAX) {
        sr_err(c, "The stream has exhausted the last possible ID, unable to "
                  "add more items");
        return;
    }
    if (!next_id(s, to, &a, &id)) {
        sr_err(c, "The ID specified in XADD is equal or smaller than the "
                  "target stream top item");
        return;
    }
    to->last = id;
    to->n++;
    if (a.most >= 0 && to->n > (uint64_t)a.most) {
        to->n = (uint64_t)a.most;
    }
    int n = snprintf(text, sizeof text, "%" PRIu64 "-%" PRIu64, id.ms, id.seq);
    sr_bulk(c, text, (size_t)n);
}

void sr_cmd_xlen(struct sim_redis *s, struct sr_client *c)
{
    bool ok;
    struct sr_obj *o = sr_lookup_type(s, c, 1, SIM_REDIS_STREAM, &ok);
    if (ok) {
        sr_int(c, o == NULL ? 0 : (long long)o->u.stream.n);
    }
}

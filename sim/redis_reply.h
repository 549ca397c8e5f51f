/* sim/redis_reply.h — what redis_seen.c and redis_packets.c share: commands and
 * replies as the model of Redis gives them. */
#ifndef SNIB_SIM_REDIS_REPLY_H
#define SNIB_SIM_REDIS_REPLY_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

enum { HEAD = 3 }; /* EVALSHA, the script, the number of keys */

/* The name that has this key, with that tail; -1: none. */
static inline int name_of(const struct sim_world *w, const char *key,
                          const char *tail)
{
    for (int n = 0; n < w->opt.names; n++) {
        size_t size = strlen(sim_keys[n]);
        if (strncmp(key, sim_keys[n], size) == 0 &&
            strcmp(key + size, tail) == 0) {
            return n;
        }
    }
    return -1;
}

/* -- replies --------------------------------------------------------------- */

struct reply {
    const char *at, *end;
};

static inline const char *next_line(struct reply r)
{
    const char *stop =
        r.at < r.end ? memchr(r.at, '\n', (size_t)(r.end - r.at)) : NULL;
    return stop ? stop + 1 : r.end;
}

/* The end of one RESP value. */
static inline const char *skip(struct reply r)
{
    char type = r.at < r.end ? *r.at : 0;
    long n = type ? strtol(r.at + 1, NULL, 10) : 0;
    r.at = next_line(r);
    if (type == '$' && n >= 0) {
        return r.end - r.at > n + 2 ? r.at + n + 2 : r.end;
    }
    for (; type == '*' && n > 0 && r.at < r.end; n--) {
        r.at = skip(r);
    }
    return r.at;
}

static inline bool is_array(struct reply r)
{
    return r.at < r.end && *r.at == '*';
}

/* The i-th number of an array; 0: none. */
static inline int64_t number_at(struct reply r, int i)
{
    for (r.at = next_line(r); i > 0 && r.at < r.end; i--) {
        r.at = skip(r);
    }
    return r.at < r.end && *r.at == ':' ? strtoll(r.at + 1, NULL, 10) : 0;
}

static inline void copy_id(char to[SIM_ID + 1], const char *from)
{
    snprintf(to, SIM_ID + 1, "%.*s", (int)SIM_ID, from);
}

static inline int64_t number(const struct sim_redis_arg *v)
{
    return strtoll(v->ptr, NULL, 10);
}

/* How many of its keys are the mark, which a login may not be allowed, or the
 * epoch? */
static inline int marks(const struct sim_redis_event *ev, int keys)
{
    const char *last = ev->argc >= HEAD + keys && keys > 0
                           ? ev->argv[HEAD + keys - 1].ptr
                           : "";
    return !strcmp(last, "snib:m") || !strcmp(last, "snib:epoch");
}

/* How many arguments stand behind its keys? The ms of a recovery, which go with
 * the epoch, are not counted. */
static inline int behind(const struct sim_redis_event *ev, int keys)
{
    bool epoch =
        marks(ev, keys) && !strcmp(ev->argv[HEAD + keys - 1].ptr, "snib:epoch");
    return ev->argc - HEAD - keys - epoch;
}

/* redis_packets.c */
/* False: it is no release by drop.lua. */
bool sim_redis_drops(const struct sim_world *, const struct sim_redis_event *,
                     struct reply, struct sim_act *);
/* A command of a packet, which is noted there; false: it is none. */
bool sim_redis_packet(const struct sim_world *, const struct sim_redis_event *,
                      struct sim_packet *);
/* It is executed: each acquire of it is watched. */
void sim_redis_exec(struct sim_world *, const struct sim_redis_event *,
                    struct sim_packet *, struct sim_act *);

#endif

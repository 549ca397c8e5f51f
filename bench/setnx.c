/* bench/setnx.c — the baseline that a user would write: a mutex by SET NX PX,
 * given back by a script that compares and deletes, over a blocking hiredis
 * connection. It has no fence, no queue and no repeat. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const char setnx_release[] =
    "if redis.call('get', KEYS[1]) == ARGV[1] then\n"
    "    return redis.call('del', KEYS[1])\n"
    "end\n"
    "return 0\n";

struct setnx {
    redisContext *redis;
    char name[64], sha[41], value[33];
    unsigned count;
};

struct setnx *setnx_open(const char *name)
{
    struct setnx *b = calloc(1, sizeof *b);
    if (!b) {
        die("no memory");
    }
    b->redis = redisConnect(settings.redis_host, settings.redis_port);
    if (!b->redis || b->redis->err) {
        die("redis: %s", b->redis ? b->redis->errstr : "no memory");
    }
    snprintf(b->name, sizeof b->name, "%s", name);
    for (int i = 0; i < 32; i++) {
        b->value[i] = "0123456789abcdef"[rand() & 15];
    }
    redisReply *r = redisCommand(b->redis, "SCRIPT LOAD %b", setnx_release,
                                 sizeof setnx_release - 1);
    if (!r || r->type != REDIS_REPLY_STRING || r->len != 40) {
        die("SET NX client: the script was not loaded");
    }
    memcpy(b->sha, r->str, 41);
    freeReplyObject(r);
    return b;
}

void setnx_close(struct setnx *b)
{
    redisFree(b->redis);
    free(b);
}

void setnx_cycle(struct setnx *b)
{
    char tail[9];
    snprintf(tail, sizeof tail, "%08x", ++b->count);
    memcpy(b->value + 24, tail, 8);
    redisReply *r =
        redisCommand(b->redis, "SET %s %s NX PX 30000", b->name, b->value);
    if (!r || r->type != REDIS_REPLY_STATUS) {
        die("SET NX client: not granted");
    }
    freeReplyObject(r);
    r = redisCommand(b->redis, "EVALSHA %s 1 %s %s", b->sha, b->name, b->value);
    if (!r || r->type != REDIS_REPLY_INTEGER || r->integer != 1) {
        die("SET NX client: not released");
    }
    freeReplyObject(r);
}

/* -- rows ------------------------------------------------------------------- */

static void run_cycle(void *data)
{
    setnx_cycle(data);
}

/* One measurement: microseconds a section, and those of them in which the
 * server executed a command. Its figures are of all clients, so nobody else may
 * work there. */
static double section_us(struct work w, bool sets, double *ret_executing)
{
    struct server before = server_now();
    double us = work_us(w, settings.seconds);
    struct server after = server_now();
    *ret_executing =
        executing_us(&before, &after, settings.seconds * 1e6 / us, sets);
    return us;
}

void row_setnx(void)
{
    struct finding f = {.row = "setnx",
                        .what = "1 task; SET NX and a script",
                        .unit = "us",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = 1.11};
    struct finding g = {.row = "setnx",
                        .what = "  the server executes, a section",
                        .unit = "us",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = 2};
    struct snib_client *client = open_client(settings.redis_url);
    struct snib_lock *lock = open_lock(client, "bench:setnx");
    struct setnx *b = setnx_open("bench:setnx:bare");
    struct work ours = work_of_lock(lock), base = {run_cycle, b, 1};
    work_us(ours, 0.2);
    work_us(base, 0.2);
    for (int i = 0; i < settings.rounds; i++) {
        double executing, executing_base;
        double us = section_us(ours, false, &executing);
        finding_pair(&f, us, section_us(base, true, &executing_base));
        finding_pair(&g, executing, executing_base);
    }
    setnx_close(b);
    snib_lock_free(lock);
    snib_client_free(client);
    report(&f);
    report(&g);
}

static void thread_setnx(struct crowd *c, int me)
{
    char name[32];
    snprintf(name, sizeof name, "bench:x:%d", me);
    struct setnx *b = setnx_open(name);
    crowd_repeat(c, (struct work){run_cycle, b, 1});
    setnx_close(b);
}

static struct span threads64(bool bare)
{
    struct crowd *c = crowd_new();
    if (!bare) {
        c->data = open_client(settings.redis_url);
    }
    struct span s = crowd_threads(c, 64, bare ? thread_setnx : member_own_lock,
                                  settings.seconds);
    snib_client_free(c->data);
    crowd_free(c);
    return s;
}

void row_setnx64(void)
{
    struct finding f = {.row = "setnx-64",
                        .what = "64 threads; SET NX, a connection each",
                        .unit = "sections/s",
                        .per_ratio = true,
                        .kind = GOAL_AT_LEAST,
                        .goal = 1};
    struct finding g = {.row = "setnx-64",
                        .what = "  the server executes, a section",
                        .unit = "us",
                        .per_ratio = true,
                        .kind = GOAL_AT_MOST,
                        .goal = 1};
    for (int i = 0; i < settings.rounds; i++) {
        struct span ours = threads64(false), base = threads64(true);
        finding_pair(&f, span_rate(&ours), span_rate(&base));
        finding_pair(&g,
                     executing_us(&ours.before, &ours.after,
                                  (double)ours.sections, false),
                     executing_us(&base.before, &base.after,
                                  (double)base.sections, true));
    }
    report(&f);
    report(&g);
}

/* bench/herd.c — the baseline: publish to all and retry.
 *
 * How Redisson's RLock and its many relatives wait, in a small hiredis
 * client: try a script; when the lock is held, subscribe to its channel, try
 * again, and sleep until a message or the holder's TTL; a release deletes and
 * publishes, all waiters wake and try, one wins.
 *
 * Kinder to the baseline than the original: the subscription is kept from one
 * wait to the next, the release remembers no result, nothing renews. */
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static const char lock_text[] =
    "if redis.call('exists', KEYS[1]) == 0 or "
    "redis.call('hexists', KEYS[1], ARGV[2]) == 1 then "
    "redis.call('hincrby', KEYS[1], ARGV[2], 1) "
    "redis.call('pexpire', KEYS[1], ARGV[1]) return nil end "
    "return redis.call('pttl', KEYS[1])";
static const char unlock_text[] =
    "if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end "
    "if redis.call('hincrby', KEYS[1], ARGV[2], -1) > 0 then "
    "redis.call('pexpire', KEYS[1], ARGV[1]) return 0 end "
    "redis.call('del', KEYS[1]) "
    "redis.call('publish', KEYS[2], '0') return 1";

/* As its RSemaphore: a number, of nobody's; 4 is HERD_PERMITS. */
static const char take_text[] =
    "local v = tonumber(redis.call('get', KEYS[1]) or 4) "
    "if v < 1 then return 1000 end "
    "redis.call('set', KEYS[1], v - 1) return nil";
static const char give_text[] = "redis.call('incrby', KEYS[1], 1) "
                                "redis.call('publish', KEYS[2], '0') return 1";
_Static_assert(HERD_PERMITS == 4, "take_text says 4");

struct herd {
    redisContext *redis, *subs;
    char lock_sha[41], unlock_sha[41], owner[40], channel[128];
    const char *name;
};

static redisContext *connect_redis(void)
{
    redisContext *c = redisConnect(settings.redis_host, settings.redis_port);
    if (!c || c->err) {
        die("redis: %s", c ? c->errstr : "no memory");
    }
    return c;
}

static void load(redisContext *c, const char *text, char sha[41])
{
    redisReply *r = redisCommand(c, "SCRIPT LOAD %s", text);
    if (!r || r->type != REDIS_REPLY_STRING) {
        die("SCRIPT LOAD failed");
    }
    snprintf(sha, 41, "%s", r->str);
    freeReplyObject(r);
}

static void herd_open(struct herd *h, const char *name, int me, bool permits)
{
    h->name = name;
    h->redis = connect_redis();
    h->subs = NULL;
    snprintf(h->owner, sizeof h->owner, "%d:%d", (int)getpid(), me);
    snprintf(h->channel, sizeof h->channel, "herd:{%s}", name);
    load(h->redis, permits ? take_text : lock_text, h->lock_sha);
    load(h->redis, permits ? give_text : unlock_text, h->unlock_sha);
}

/* -1: ours; else how long the holder has left. */
static long long try_lock(struct herd *h)
{
    redisReply *r = redisCommand(h->redis, "EVALSHA %s 1 %s 30000 %s",
                                 h->lock_sha, h->name, h->owner);
    if (!r || r->type == REDIS_REPLY_ERROR) {
        die("herd: %s", r ? r->str : h->redis->errstr);
    }
    long long left = r->type == REDIS_REPLY_NIL ? -1 : r->integer;
    freeReplyObject(r);
    return left == -1 ? -1 : left < 1 ? 1 : left;
}

static void subscribe(struct herd *h)
{
    if (!h->subs) {
        h->subs = connect_redis();
        freeReplyObject(redisCommand(h->subs, "SUBSCRIBE %s", h->channel));
    }
}

/* Sleep until a message or ms; takes all messages that are there. */
static void wait_message(struct herd *h, long long ms)
{
    struct pollfd p = {.fd = h->subs->fd, .events = POLLIN};
    void *r;
    if (poll(&p, 1, ms < 1000 ? (int)ms : 1000) > 0) {
        redisBufferRead(h->subs);
        while (redisReaderGetReply(h->subs->reader, &r) == REDIS_OK && r) {
            freeReplyObject(r);
        }
    }
}

static void herd_lock(struct herd *h)
{
    if (try_lock(h) == -1) {
        return;
    }
    subscribe(h);
    long long left;
    while ((left = try_lock(h)) != -1) {
        wait_message(h, left);
    }
}

static void herd_unlock(struct herd *h)
{
    redisReply *r = redisCommand(h->redis, "EVALSHA %s 2 %s %s 30000 %s",
                                 h->unlock_sha, h->name, h->channel, h->owner);
    if (!r || r->type != REDIS_REPLY_INTEGER) {
        die("herd: the lock was not ours");
    }
    freeReplyObject(r);
}

static void be_member(struct crowd *c, int me, bool permits)
{
    struct herd h;
    herd_open(&h, c->name, me, permits);
    crowd_wait(c);
    while (!atomic_load(&c->stop)) {
        herd_lock(&h);
        if (c->inside_s > 0) {
            pause_s(c->inside_s);
        }
        atomic_fetch_add(&c->sections, 1);
        herd_unlock(&h);
    }
    redisFree(h.redis);
    if (h.subs) {
        redisFree(h.subs);
    }
}

void member_herd(struct crowd *c, int me)
{
    be_member(c, me, false);
}

void member_herd_permits(struct crowd *c, int me)
{
    be_member(c, me, true);
}

/* bench/bare.c — the baseline: a blocking hiredis client that sends the very
 * commands that the library sends, and does nothing else.
 *
 * Which commands these are is not written down here; the library is watched
 * (MONITOR) for three sections of each kind, and the last acquire and release
 * of each are taken as patterns. Only what differs from call to call is put in anew: the lock's
 * name, the client, the request's id, its not_after, the token. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "bench.h"

enum { ARGS_MAX = 32, ARG_MAX = 700, LEARN = 3 };

struct pattern {
    int argc;
    char arg[ARGS_MAX][ARG_MAX];
};

/* Places of arguments: "EVALSHA", sha, "8", seven keys of the lock, the mark,
 * then ARGV. (The first section of a client goes by script.) */
enum {
    KEYS_AT = 3,
    TOMBSTONE = KEYS_AT + 5,
    MARK = KEYS_AT + 7,
    ARGV_AT,
    CLIENT = ARGV_AT,
    REQUEST = ARGV_AT + 1,
    TOKEN = ARGV_AT + 2,     /* of a release                                */
    NOT_AFTER = ARGV_AT + 5, /* of an acquire                               */
    ACQUIRE_ARGC = ARGV_AT + 16,
    RELEASE_ARGC = ARGV_AT + 5
};
static struct pattern acquire_pattern[BARE_KINDS], release_pattern[BARE_KINDS];

struct bare {
    redisContext *redis;
    struct pattern acquire, release;
    int tombstone_at; /* where the request's id stands in KEYS[6]           */
    uint64_t count;
};

static redisContext *connect_at(int port)
{
    redisContext *c = redisConnect(settings.redis_host, port);
    if (!c || c->err) {
        die("redis: %s", c ? c->errstr : "no memory");
    }
    return c;
}

static redisContext *connect_redis(void)
{
    return connect_at(settings.redis_port);
}

/* -- watching --------------------------------------------------------------- */

/* Value of one quoted word of a MONITOR line; *at moves behind it. */
static bool take_word(const char **at, char *ret)
{
    const char *p = strchr(*at, '"');
    size_t n = 0;
    if (!p) {
        return false;
    }
    for (p++; *p && *p != '"' && n < ARG_MAX - 1; p++) {
        if (*p == '\\' && p[1] == 'x') {
            unsigned v = 0;
            sscanf(p + 2, "%2x", &v);
            ret[n++] = (char)v;
            p += 3;
        } else {
            p += *p == '\\';
            ret[n++] = *p;
        }
    }
    ret[n] = 0;
    *at = *p ? p + 1 : p;
    return true;
}

static void take_line(const char *line, struct pattern *p)
{
    p->argc = 0;
    while (p->argc < ARGS_MAX && take_word(&line, p->arg[p->argc])) {
        p->argc++;
    }
}

static void take_pattern(enum bare_kind kind, const char *line)
{
    struct pattern p;
    if (strstr(line, " lua] ")) {
        return; /* from inside a script                                     */
    }
    take_line(line, &p);
    if (p.argc < KEYS_AT || strcmp(p.arg[0], "EVALSHA") != 0) {
        return;
    }
    if (p.argc == ACQUIRE_ARGC) {
        acquire_pattern[kind] = p;
    } else if (p.argc == RELEASE_ARGC) {
        release_pattern[kind] = p;
    }
}

static void learn(enum bare_kind kind)
{
    static const snib_kind kinds[BARE_KINDS] = {
        [BARE_MUTEX] = SNIB_KIND_MUTEX,
        [BARE_READ] = SNIB_KIND_READ,
        [BARE_WRITE] = SNIB_KIND_WRITE,
        [BARE_PERMIT] = SNIB_KIND_PERMITS,
    };
    redisContext *c = connect_redis();
    struct timeval patience = {0, 300000};
    redisReply *r = redisCommand(c, "MONITOR");
    freeReplyObject(r);
    for (int i = 0; i < LEARN; i++) {
        struct snib_client *client = open_client(settings.redis_url);
        struct snib_lock *lock = open_kind(client, "bench:learn", kinds[kind],
                                           kind == BARE_PERMIT ? 4 : 0);
        section(lock);
        snib_lock_free(lock);
        snib_client_free(client);
    }
    redisSetTimeout(c, patience);
    while (redisGetReply(c, (void **)&r) == REDIS_OK) {
        take_pattern(kind, r->str);
        freeReplyObject(r);
    }
    redisFree(c);
    if (acquire_pattern[kind].argc != ACQUIRE_ARGC ||
        release_pattern[kind].argc != RELEASE_ARGC) {
        die("the library does not send what bench/bare.c expects; look at "
            "src/store/redis/scripts and adjust it");
    }
}

void bare_learn(void)
{
    for (int kind = 0; kind < BARE_KINDS; kind++) {
        learn((enum bare_kind)kind);
    }
}

/* -- repeating --------------------------------------------------------------- */

/* Every key "snib:{bench:learn}…" names this lock from now on. */
static void rename_keys(struct pattern *p, const char *name)
{
    for (int i = KEYS_AT; i < MARK; i++) {
        char tail[64]; /* "}:x:" and 32 digits                          */
        const char *end = strchr(p->arg[i], '}');
        snprintf(tail, sizeof tail, "%.48s", end ? end : "");
        snprintf(p->arg[i], ARG_MAX, "snib:{%.500s%s", name, tail);
    }
}

static struct bare *open_bare(int port, enum bare_kind kind, const char *name)
{
    struct bare *b = calloc(1, sizeof *b);
    if (!b) {
        die("no memory");
    }
    b->redis = connect_at(port);
    b->acquire = acquire_pattern[kind];
    b->release = release_pattern[kind];
    rename_keys(&b->acquire, name);
    rename_keys(&b->release, name);
    b->tombstone_at = (int)(strlen(b->acquire.arg[TOMBSTONE]) - 32);
    for (int i = 0; i < 32; i++) {
        b->acquire.arg[CLIENT][i] = "0123456789abcdef"[rand() & 15];
    }
    memcpy(b->release.arg[CLIENT], b->acquire.arg[CLIENT], 33);
    return b;
}

struct bare *bare_open(const char *name)
{
    return open_bare(settings.redis_port, BARE_MUTEX, name);
}

struct bare *bare_open_at(int port, const char *name)
{
    return open_bare(port, BARE_MUTEX, name);
}

struct bare *bare_open_as(enum bare_kind kind, const char *name)
{
    return open_bare(settings.redis_port, kind, name);
}

void bare_close(struct bare *b)
{
    redisFree(b->redis);
    free(b);
}

static redisReply *checked(redisReply *r)
{
    if (!r || r->type != REDIS_REPLY_ARRAY || r->elements < 1 ||
        r->element[0]->integer != 1) {
        die("bare client: %s", r && r->str ? r->str : "strange reply");
    }
    return r;
}

/* Written with the next answer that is waited for. */
static void append_pattern(redisContext *to, const struct pattern *p)
{
    const char *argv[ARGS_MAX];
    size_t size[ARGS_MAX];
    for (int i = 0; i < p->argc; i++) {
        argv[i] = p->arg[i];
        size[i] = strlen(p->arg[i]);
    }
    redisAppendCommandArgv(to, p->argc, argv, size);
}

static redisReply *next_answer(redisContext *from)
{
    void *r = NULL;
    redisGetReply(from, &r);
    return checked(r);
}

static void set_request(struct bare *b, struct pattern *p, const char *id)
{
    memcpy(p->arg[REQUEST], id, 32);
    memcpy(p->arg[TOMBSTONE] + b->tombstone_at, id, 32);
}

static void new_ids(struct bare *b)
{
    char id[33];
    struct timeval t;
    gettimeofday(&t, NULL);
    snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)++b->count,
             (unsigned long long)(uintptr_t)b);
    set_request(b, &b->acquire, id);
    set_request(b, &b->release, id);
    snprintf(b->acquire.arg[NOT_AFTER], ARG_MAX, "%lld",
             (long long)t.tv_sec * 1000 + t.tv_usec / 1000 + 9000);
}

static void take_token(struct bare *b, redisReply *r)
{
    if (r->elements < 3) {
        die("bare client: the acquire was not granted");
    }
    snprintf(b->release.arg[TOKEN], ARG_MAX, "%lld", r->element[2]->integer);
    freeReplyObject(r);
}

void bare_cycle(struct bare *b)
{
    bare_cycle_all(&b, 1);
}

void bare_cycle_all(struct bare *const b[], int n)
{
    redisContext *line = b[0]->redis;
    for (int i = 0; i < n; i++) {
        new_ids(b[i]);
        append_pattern(line, &b[i]->acquire);
    }
    for (int i = 0; i < n; i++) {
        take_token(b[i], next_answer(line));
    }
    for (int i = n; i-- > 0;) {
        append_pattern(line, &b[i]->release);
    }
    for (int i = 0; i < n; i++) {
        freeReplyObject(next_answer(line));
    }
}

/* -- the same on several servers at once ---------------------------------------- */

void bare_send(struct bare *b, bool release)
{
    int done = 0;
    if (!release) {
        new_ids(b);
    }
    append_pattern(b->redis, release ? &b->release : &b->acquire);
    while (!done) {
        if (redisBufferWrite(b->redis, &done) != REDIS_OK) {
            die("bare client: %s", b->redis->errstr);
        }
    }
}

void bare_take(struct bare *b, bool release)
{
    redisReply *r = next_answer(b->redis);
    if (release) {
        freeReplyObject(r);
    } else {
        take_token(b, r);
    }
}

int bare_fd(const struct bare *b)
{
    return b->redis->fd;
}

/* -- the server --------------------------------------------------------------- */

static double info_number(const char *info, const char *key)
{
    const char *at = info ? strstr(info, key) : NULL;
    return at ? strtod(at + strlen(key), NULL) : 0;
}

static double usec_of(const char *info, const char *command)
{
    char key[48];
    snprintf(key, sizeof key, "cmdstat_%s:", command);
    return info_number(info ? strstr(info, key) : NULL, "usec=");
}

double executing_us(const struct server *from, const struct server *to,
                    double sections, bool sets)
{
    double us = to->whole - from->whole;
    return (us + (sets ? to->set - from->set : 0)) / sections;
}

struct server server_now(void)
{
    struct server s = {0};
    if (settings.server_pid) {
        s.cpu = cpu_ever_of(settings.server_pid);
        return s;
    }
    if (!settings.redis_port) {
        return s;
    }
    redisContext *c = connect_redis();
    redisReply *r = redisCommand(c, "INFO all");
    if (r && r->str) {
        /* used_cpu_*_main_thread would leave out the I/O threads; there are
         * none, so both are the same here. */
        s.cpu = info_number(r->str, "used_cpu_sys:") +
                info_number(r->str, "used_cpu_user:");
        s.whole = usec_of(r->str, "evalsha") + usec_of(r->str, "eval") +
                  usec_of(r->str, "multi") + usec_of(r->str, "exec");
        s.set = usec_of(r->str, "set");
        s.calls = (long long)(info_number(r->str, "cmdstat_evalsha:calls=") +
                              info_number(r->str, "cmdstat_eval:calls="));
    }
    freeReplyObject(r);
    redisFree(c);
    return s;
}

void server_flush(void)
{
    if (settings.redis_port) {
        redisContext *c = connect_redis();
        freeReplyObject(redisCommand(c, "FLUSHALL"));
        redisFree(c);
    }
}

/*
 * gen.c — random data commands
 *
 * A command is described by one line: lower-case words stand for themselves,
 * capitals for generators (below); '*' after a word repeats it 0 to 2 times,
 * '+' 1 to 3 times, '?' drops it half the time. A few per cent get an
 * argument too many or too few, or odd capitals.
 *
 *   K key   V value   F field or member   S score   I integer   N small int
 *   R score bound   L lex bound   P pattern   T relative time, U absolute
 *   A channel   O options of SET   Z of ZADD   X of EXPIRE   B of ZRANGE
 */
#include "gen.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

uint64_t rng_next(struct rng *r)
{
    uint64_t x = r->s += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

size_t rng_below(struct rng *r, size_t n)
{
    return (size_t)(rng_next(r) % n);
}

bool rng_chance(struct rng *r, unsigned percent)
{
    return rng_next(r) % 100 < percent;
}

void req_reset(struct request *q)
{
    q->argc = 0;
    q->used = 0;
    q->compare = EXACT;
}

void req_add(struct request *q, const char *p, size_t n)
{
    if (q->argc == REQ_ARGS || q->used + n > REQ_BYTES) {
        return;
    }
    q->off[q->argc] = q->used;
    q->len[q->argc] = n;
    memcpy(q->bytes + q->used, p, n);
    q->used += n;
    q->argc++;
}

void req_word(struct request *q, const char *word)
{
    req_add(q, word, strlen(word));
}

/* Commands that compare EXACT. */
static const char *const plain_commands[] = {
    "get K",
    "set K V",
    "set K V O",
    "set K V O",
    "set K I",
    "setnx K V",
    "setex K T V",
    "psetex K T V",
    "getset K V",
    "getdel K",
    "strlen K",
    "append K V",
    "mget K+",
    "mset K V",
    "mset K V K V",
    "incr K",
    "decr K",
    "incrby K I",
    "decrby K I",
    "del K+",
    "unlink K+",
    "exists K+",
    "type K",
    "expire K T X",
    "pexpire K T X",
    "expireat K U X",
    "pexpireat K U X",
    "persist K",
    "rename K K",
    "ping",
    "ping V",
    "echo V",
    "dbsize",
    "hset K F V",
    "hset K F V F V",
    "hset K F I",
    "hmset K F V",
    "hset K F",
    "hsetnx K F V",
    "hget K F",
    "hmget K F+",
    "hgetall K",
    "hkeys K",
    "hvals K",
    "hdel K F+",
    "hlen K",
    "hexists K F",
    "hincrby K F I",
    "hstrlen K F",
    "hscan K 0",
    "hscan K 0 match P",
    "hscan K I count N",
    "hscan K 0 V",
    "zadd K Z S F",
    "zadd K Z S F S F",
    "zadd K S F",
    "zadd K incr S F",
    "zincrby K S F",
    "zrem K F+",
    "zscore K F",
    "zmscore K F+",
    "zcard K",
    "zrank K F",
    "zrevrank K F",
    "zpopmin K",
    "zpopmax K",
    "zpopmin K N",
    "zpopmax K N",
    "zrange K N N",
    "zrange K N N withscores",
    "zrange K N N B",
    "zrange K R R byscore B",
    "zrange K L L bylex B",
    "zrange K R R byscore limit N N",
    "zrange K R R byscore rev limit N N",
    "zrevrange K N N",
    "zrevrange K N N withscores",
    "zrangebyscore K R R",
    "zrangebyscore K R R withscores limit N N",
    "zrangebyscore K R R B",
    "zrevrangebyscore K R R",
    "zrevrangebyscore K R R limit N N",
    "zrangebylex K L L",
    "zrevrangebylex K L L limit N N",
    "zcount K R R",
    "zlexcount K L L",
    "zremrangebyrank K N N",
    "zremrangebyscore K R R",
    "zremrangebylex K L L",
    "zscan K 0",
    "zscan K 0 match P",
    "lpush K V+",
    "rpush K V+",
    "lpushx K V",
    "rpushx K V+",
    "lpop K",
    "rpop K",
    "lpop K N",
    "rpop K N",
    "lrange K N N",
    "llen K",
    "lrem K N V",
    "lindex K N",
    "lset K N V",
    "ltrim K N N",
    "sadd K F+",
    "sadd K I+",
    "srem K F+",
    "sismember K F",
    "scard K",
    "publish A V",
    "publish A V",
    "pubsub numsub A*",
    "pubsub numpat",
    "pubsub V",
    "select N",
    "select I",
    "select 0",
    "select 0",
    "auth V",
    "auth V V",
    "auth V V V",
    "client getname",
    "client setname V",
    "client V",
    "client kill V",
    "script exists V+",
    "script V",
    "script",
    "eval V I",
    "evalsha V I K",
    "flushall V",
    "config V",
    "V K",
    "V",
    "hello V",
    "hello 4",
    "hello 1",
    "hscan K abc",
    "wait abc 0",
    "wait 0 abc",
    "wait 0 -1",
    "wait 0 0",
    "nope V",
    "flushdb",
};

static const char *const other_commands[] = {
    "ttl K",
    "pttl K",
    "pexpiretime K",
    "expiretime K",
    "smembers K",
    "sscan K 0",
    "sscan K 0 match P",
    "keys P",
    "scan 0 count 1000",
    "scan 0 count 1000 match P",
    "scan 0 type F count 1000",
    "scan 0 type string count 1000",
    "scan abc",
    "scan -x",
    "scan 0 hello",
    "scan 0 count abc",
    "pubsub channels",
    "pubsub channels P",
};

static const char *const keys[] = {"k1", "k2",   "k3",   "k4", "k5",
                                   "k6", "{t}a", "{t}b", "k9", ""};
static const char *const values[] = {
    "a",    "b",           "hello",    "",    "x y",       "v1", "v2",
    "get",  "nx",          "0",        "1",   "-1",        "10", "abc\r\ndef",
    "ERR",  "*",           "3.5",      "1e5", "subscribe", "k1", "OK",
    "a\nb", "Hello World", "'quoted'", "\"",  "\\",        "{",  "\xff\x80",
};
static const char *const fields[] = {"f1", "f2", "f3", "a",  "b",   "ab", "B",
                                     "1",  "2",  "10", "-5", "007", "",   "z"};
static const char *const scores[] = {
    "0",
    "1",
    "2",
    "3",
    "-1",
    "1.5",
    "-2.25",
    "1e3",
    "inf",
    "-inf",
    "+inf",
    "nan",
    "abc",
    "",
    "3",
    "10",
    "100",
    "0.1",
    "1e308",
    "1e400",
    " 1",
    "0x10",
    "1700000000000",
    "9007199254740993",
    "123456789012345678",
    "-1e308",
    "3.0",
    "+5",
    "1e-400",
    "5e-324",
    "infinity",
    ".5",
    "5.",
};
static const char *const ints[] = {
    "0",
    "1",
    "-1",
    "2",
    "5",
    "10",
    "100",
    "-100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "-9223372036854775809",
    "abc",
    "",
    "1.5",
    "+1",
    " 1",
    "1 ",
    "01",
    "-0",
    "1e3",
    "00",
    "-",
    "18446744073709551615",
    "99999999999999999999",
    "4294967296",
};
static const char *const smalls[] = {"0",  "1", "2",  "3",   "-1",   "-2",
                                     "-3", "5", "10", "100", "-100", "0",
                                     "-1", "1", "2",  "abc", "1.0"};
static const char *const bounds[] = {
    "-inf", "+inf",  "inf", "0",  "1",   "2",    "(1", "(2",
    "1.5",  "(-inf", "3",   "-1", "(3",  "10",   "(",  "abc",
    "nan",  "(nan",  "",    "1 ", "1e3", "(inf",
};
static const char *const lexes[] = {"-",   "+",   "[a", "(a", "[b", "(b",
                                    "[f2", "(f2", "[",  "(",  "a",  "",
                                    "[1",  "-x",  "+x", "[z"};
static const char *const patterns[] = {
    "*",    "k*", "k?",     "f[12]",  "[^f]*", "*a*", "k\\1",
    "{t}*", "",   "f[a-z]", "k[1-4]", "**",    "*1",  "[",
    "f[1",  "\\", "[1-",    "?*?",    "a*b*c"};
static const char *const channels[] = {"c1", "c2", "p.x", "p.y", "q1", ""};

static void word(struct rng *r, struct request *q, const char *const *from,
                 size_t n)
{
    req_word(q, from[rng_below(r, n)]);
}

#define WORD(r, q, from) word(r, q, from, sizeof(from) / sizeof((from)[0]))

/* Far enough ahead that wall time does not matter, never the same twice (GT
 * and LT would see the difference of a millisecond), or plainly wrong. */
static void gen_time(struct rng *r, struct request *q, bool absolute)
{
    static const char *const odd[] = {"0",
                                      "-1",
                                      "-100000",
                                      "abc",
                                      "",
                                      "1.5",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "9223372036854775",
                                      "9223372036854774",
                                      "-9223372036854775",
                                      "-9223372036854776",
                                      "92233720368547758"};
    char buf[32];
    if (!absolute && rng_chance(r, 12)) {
        WORD(r, q, odd);
        return;
    }
    uint64_t base = absolute ? 4000000000000u : 100000000u;
    snprintf(buf, sizeof buf, "%llu",
             (unsigned long long)(base + rng_next(r) % 1000000000000u));
    req_word(q, buf);
}

static void gen_set_options(struct rng *r, struct request *q)
{
    static const char *const single[] = {"nx",  "XX", "get", "keepttl",
                                         "GeT", "NX", "xx",  "bad"};
    for (size_t n = 1 + rng_below(r, 2); n > 0; n--) {
        if (rng_chance(r, 60)) {
            WORD(r, q, single);
            continue;
        }
        static const char *const relative[] = {"ex", "PX", "Ex"};
        static const char *const absolute[] = {"exat", "PXAT"};
        static const char *const wrong[] = {"0", "-1", "abc", ""};
        bool abs = rng_chance(r, 40);
        if (abs) {
            WORD(r, q, absolute);
        } else {
            WORD(r, q, relative);
        }
        if (rng_chance(r, 95)) {
            /* Not in the past: whether DBSIZE still counts such a key is up
             * to Redis' background cycle. */
            if (abs && rng_chance(r, 15)) {
                WORD(r, q, wrong);
            } else {
                gen_time(r, q, abs);
            }
        }
    }
}

static void gen_some(struct rng *r, struct request *q, const char *const *from,
                     size_t n)
{
    for (size_t i = rng_below(r, 3); i > 0; i--) {
        word(r, q, from, n);
    }
}

static void gen_token(struct rng *r, struct request *q, char token)
{
    static const char *const zadd[] = {"nx",   "xx", "gt", "lt", "ch",
                                       "incr", "CH", "XX", "GT"};
    static const char *const expire[] = {"nx", "xx", "gt", "lt", "GT", "bad"};
    static const char *const past[] = {"1", "0", "-1", "1000000000", "abc"};
    static const char *const range[] = {"rev",     "withscores", "REV",
                                        "byscore", "bylex",      "limit"};
    switch (token) {
    case 'K':
        WORD(r, q, keys);
        break;
    case 'V':
        WORD(r, q, values);
        break;
    case 'F':
        WORD(r, q, fields);
        break;
    case 'S':
        WORD(r, q, scores);
        break;
    case 'I':
        WORD(r, q, ints);
        break;
    case 'N':
        WORD(r, q, smalls);
        break;
    case 'R':
        WORD(r, q, bounds);
        break;
    case 'L':
        WORD(r, q, lexes);
        break;
    case 'P':
        WORD(r, q, patterns);
        break;
    case 'A':
        WORD(r, q, channels);
        break;
    case 'T':
        gen_time(r, q, false);
        break;
    case 'U':
        if (rng_chance(r, 12)) {
            WORD(r, q, past);
        } else {
            gen_time(r, q, true);
        }
        break;
    case 'O':
        gen_set_options(r, q);
        break;
    case 'Z':
        gen_some(r, q, zadd, sizeof zadd / sizeof zadd[0]);
        break;
    case 'X':
        if (rng_chance(r, 50)) {
            gen_some(r, q, expire, sizeof expire / sizeof expire[0]);
        }
        break;
    default:
        gen_some(r, q, range, sizeof range / sizeof range[0]);
        break;
    }
}

static void gen_from(struct rng *r, struct request *q, const char *session)
{
    while (*session != '\0') {
        size_t n = strcspn(session, " ");
        char last = session[n - 1];
        size_t times = 1;
        if (n > 1 && last == '*') {
            times = rng_below(r, 3);
        } else if (n > 1 && last == '+') {
            times = 1 + rng_below(r, 3);
        } else if (n > 1 && last == '?') {
            times = rng_below(r, 2);
        }
        for (; times > 0; times--) {
            if (session[0] >= 'A' && session[0] <= 'Z') {
                gen_token(r, q, session[0]);
            } else {
                req_add(q, session, n);
            }
        }
        session += n;
        session += *session == ' ';
    }
}

/* A stray "10" behind these could become a time to live of 10 ms. */
static bool takes_time(const struct request *q)
{
    static const char *const names[] = {"set", "setex", "psetex", "expire",
                                        "pexpire"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t n = strlen(names[i]);
        if (q->len[0] == n &&
            strncasecmp(q->bytes + q->off[0], names[i], n) == 0) {
            return true;
        }
    }
    return false;
}

static void mutate(struct rng *r, struct request *q)
{
    if (rng_chance(r, 3) && q->argc > 1) {
        q->argc--;
    }
    if (rng_chance(r, 2) && !takes_time(q)) {
        WORD(r, q, values);
    }
    if (rng_chance(r, 5) && q->argc > 0) {
        char *p = q->bytes + q->off[0];
        for (size_t i = 0; i < q->len[0]; i++) {
            if (p[i] >= 'a' && p[i] <= 'z' && rng_chance(r, 50)) {
                p[i] = (char)(p[i] - 'a' + 'A');
            }
        }
    }
}

/* Some values are also names of commands that must not come by accident: a
 * bare HELLO shows an id, SUBSCRIBE would silence its connection, CONFIG GET
 * knows few settings in the model. */
static bool unwanted(const struct request *q)
{
    if (q->argc == 0) {
        return true;
    }
    const char *p = q->bytes + q->off[0];
    size_t n = q->len[0];
    return (n == 6 && q->argc > 2 && strncasecmp(p, "config", 6) == 0) ||
           (n == 5 && q->argc == 1 && strncasecmp(p, "hello", 5) == 0) ||
           (n == 9 && strncasecmp(p, "subscribe", 9) == 0);
}

void gen_command(struct rng *r, struct request *q, bool plain)
{
    req_reset(q);
    if (!plain && rng_chance(r, 5)) {
        size_t n = sizeof other_commands / sizeof other_commands[0];
        size_t i = rng_below(r, n);
        q->compare = i < 4 ? NEAR : SORTED;
        gen_from(r, q, other_commands[i]);
        return;
    }
    if (!plain && rng_chance(r, 1)) {
        req_word(q, "flushall");
        return;
    }
    gen_from(r, q, RNG_PICK(r, plain_commands));
    mutate(r, q);
    if (unwanted(q)) {
        req_reset(q);
        req_word(q, "ping");
    }
}

void gen_pubsub(struct rng *r, struct request *q, bool may_leave_all)
{
    /* No channel matches two patterns: the order among patterns is Redis'
     * own. */
    static const char *const pats[] = {"p.*", "q[1-3]", "r*"};
    static const char *const what[] = {"subscribe", "unsubscribe", "psubscribe",
                                       "punsubscribe"};
    req_reset(q);
    size_t i = rng_below(r, 4);
    req_word(q, what[i]);
    bool leave = i % 2 == 1;
    if (leave && rng_chance(r, 30) && may_leave_all) {
        return;
    }
    for (size_t n = 1 + rng_below(r, 2); n > 0; n--) {
        if (i >= 2) {
            WORD(r, q, pats);
        } else {
            WORD(r, q, channels);
        }
    }
}

/*
 * gen.c — random data commands
 *
 * A command is described by one line: lower-case words stand for themselves,
 * capitals for generators (below); '*' after a word repeats it 0 to 2 times,
 * '+' 1 to 3 times, '?' drops it half the time. A few per cent get an
 * argument too many or too few, or odd capitals.
 *
 *   K key   V value   F field or member   S score   I integer   N small int
 *   R score bound   P pattern   T time to live   A channel   D stream id
 *   O options of SET   X of PEXPIRE   W of ZRANGEBYSCORE
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
    "mget K+",
    "incr K",
    "decr K",
    "incrby K I",
    "decrby K I",
    "del K+",
    "exists K+",
    "pexpire K T X",
    "pexpire K T X",
    "ping",
    "ping V",
    "hset K F V",
    "hset K F V F V",
    "hset K F I",
    "hset K F",
    "hget K F",
    "hmget K F+",
    "hgetall K",
    "hkeys K",
    "hdel K F+",
    "hlen K",
    "hexists K F",
    "hincrby K F I",
    "zadd K S F S F",
    "zadd K S F",
    "zadd k3 1 f1 2 f2 2 f3",
    "zadd K S F S",
    "zincrby K S F",
    "zrem K F+",
    "zscore K F",
    "zcard K",
    "zrank K F",
    "zrange K N N",
    "zrange K N N withscores",
    "zrangebyscore K R R",
    "zrangebyscore k3 R R",
    "zrangebyscore K R R limit N N",
    "zrangebyscore K R R withscores limit N N",
    "zrangebyscore K R R W",
    "lpush K V+",
    "rpush K V+",
    "rpush k5 a b a b a",
    "lpop K",
    "rpop K",
    "lpop K N",
    "rpop K N",
    "lrange K N N",
    "llen K",
    "lrem K N V",
    "lrem k5 N a",
    "lrange k5 0 -1",
    "lindex K N",
    "xadd K D F V",
    "xadd K nomkstream D F V",
    "xadd k7 maxlen 0 D F V",
    "xadd k7 nomkstream maxlen 0 D F V",
    "xadd K maxlen N D F V F V",
    "xadd k7 maxlen = N D F V",
    "xlen k7",
    "xlen K",
    "publish A V",
    "publish A V",
    "pubsub numsub A*",
    "pubsub V",
    "select N",
    "select I",
    "select 0",
    "select 0",
    "auth V",
    "auth V V",
    "auth V V V",
    "client V",
    "client kill V",
    "client kill id 999999",
    "client kill id V skipme V",
    "client kill V V",
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
    "wait abc 0",
    "wait 0 abc",
    "wait 0 -1",
    "wait 0 0",
    "nope V",
};

static const struct {
    const char *line;
    enum compare compare;
} other_commands[] = {
    {"pttl K", NEAR},
    {"pttl K", NEAR},
    {"pttl K", NEAR},
    {"pttl K", NEAR},
    {"scan 0 count 1000", SORTED},
    {"scan 0 count 1000 match P", SORTED},
    {"scan abc", SORTED},
    {"scan -x", SORTED},
    {"scan 0 hello", SORTED},
    {"scan 0 count abc", SORTED},
    {"pubsub channels", SORTED},
    {"pubsub channels P", SORTED},
    {"client id", SHAPE},
    {"hello", SHAPE},
    {"hello 2", SHAPE},
    {"hello 2 auth V V", SHAPE},
    {"hello 2 V", SHAPE},
    {"info", FIELDS},
    {"info replication", FIELDS},
    {"info server clients V", FIELDS},
    {"info Keyspace memory", FIELDS},
    {"info V", FIELDS},
};

static const char *const keys[] = {"k1", "k2",   "k3",   "k4", "k5", "k6",
                                   "k7", "{t}a", "{t}b", "k9", ""};
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
static const char *const patterns[] = {
    "*",    "k*", "k?",     "f[12]",  "[^f]*", "*a*", "k\\1",
    "{t}*", "",   "f[a-z]", "k[1-4]", "**",    "*1",  "[",
    "f[1",  "\\", "[1-",    "?*?",    "a*b*c"};
/* None by the clock, which the two servers read at different instants. */
#define TOP "18446744073709551615"
static const char *const ids[] = {
    "1-1",  "1-2",   "1-0",    "2-0",       "2",    "5-5",  "0-1",
    "0-0",  "0",     "10-3",   "5-*",       "10-*", "-1",   "1-",
    "-",    "abc",   "1-x",    "x-1",       "",     "01-1", "+1",
    "1-+2", "1-2-3", TOP "-1", TOP "-" TOP,
};
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
    static const char *const expire[] = {"nx", "xx", "gt", "lt", "GT", "bad"};
    static const char *const range[] = {"withscores", "limit", "LIMIT",
                                        "WithScores"};
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
    case 'P':
        WORD(r, q, patterns);
        break;
    case 'A':
        WORD(r, q, channels);
        break;
    case 'D':
        WORD(r, q, ids);
        break;
    case 'T':
        gen_time(r, q, false);
        break;
    case 'O':
        gen_set_options(r, q);
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

static void gen_from(struct rng *r, struct request *q, const char *line)
{
    while (*line != '\0') {
        size_t n = strcspn(line, " ");
        char last = line[n - 1];
        size_t times = 1;
        if (n > 1 && last == '*') {
            times = rng_below(r, 3);
        } else if (n > 1 && last == '+') {
            times = 1 + rng_below(r, 3);
        } else if (n > 1 && last == '?') {
            times = rng_below(r, 2);
        }
        for (; times > 0; times--) {
            if (line[0] >= 'A' && line[0] <= 'Z') {
                gen_token(r, q, line[0]);
            } else {
                req_add(q, line, n);
            }
        }
        line += n;
        line += *line == ' ';
    }
}

/* A stray "10" behind these could become a time to live of 10 ms. */
static bool takes_time(const struct request *q)
{
    static const char *const names[] = {"set", "pexpire"};
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
    if (!plain && rng_chance(r, 30)) {
        size_t n = sizeof other_commands / sizeof other_commands[0];
        size_t i = rng_below(r, n);
        q->compare = other_commands[i].compare;
        gen_from(r, q, other_commands[i].line);
        return;
    }
    if (!plain && rng_chance(r, 15)) {
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
    req_reset(q);
    bool leave = rng_chance(r, 50);
    req_word(q, leave ? "unsubscribe" : "subscribe");
    if (leave && rng_chance(r, 30) && may_leave_all) {
        return;
    }
    for (size_t n = 1 + rng_below(r, 2); n > 0; n--) {
        WORD(r, q, channels);
    }
}

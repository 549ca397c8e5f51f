/* tests/fuzz/liar.h — a server that answers what it likes, out of a fuzzer's
 * bytes.
 *
 * It reads the commands that a client wrote and remembers them in order, one
 * row a connection. Asked to answer, it makes a reply of the right shape for
 * the oldest one, in which each part may be something else: a number out of
 * bounds, a cell of another type, one too few or too many, a list in the place
 * of a text. No bytes left: what is right. No sockets, no clock. */
#ifndef SNIB_TESTS_LIAR_H
#define SNIB_TESTS_LIAR_H

#include "dice.h"
#include "witness.h"

enum { LIAR_ROW = 64, LIAR_WORD = 96, LIAR_KNOWN = 8, LIAR_REPLY = 1 << 14 };

/* -- what was asked --------------------------------------------------------------- */

struct command {
    asked what;
    uint32_t locks;       /* SEVERAL, RENEW, DROP, EXEC             */
    int64_t lease;        /* ACQUIRE                                */
    char text[LIAR_WORD]; /* SUBSCRIBE: the channel                 */
};

struct row {
    struct command command[LIAR_ROW];
    uint32_t conn, head, count;
    uint32_t sets; /* of a packet, so far                           */
};

/* An acquire that was seen: its waiter may be pushed a grant. */
struct known {
    char id[33], key[LIAR_WORD], poll[24];
};

struct liar {
    struct dice *dice;
    struct witness *witness; /* hears all that the liar hears                */
    int64_t clock_ms;
    char channel[LIAR_WORD]; /* of the client                              */
    char client[33];
    struct known known[LIAR_KNOWN];
    uint32_t known_count;
    char reply[LIAR_REPLY];
    size_t size;
};

static inline void note(struct liar *l, struct row *row, const struct word *w,
                        uint32_t words)
{
    struct command c = {.what = of_word(w[0])};
    const struct word *arg = NULL;
    if (c.what == ASKED_SUBSCRIBE && words > 1) {
        keep_word(c.text, sizeof c.text, w[1]);
        memcpy(l->channel, c.text, sizeof l->channel);
    }
    if (words > 2 && (word_is(w[0], "EVAL") || word_is(w[0], "EVALSHA"))) {
        uint32_t keys = (uint32_t)word_number(w[2]);
        MUST(keys + 3 <= words);
        arg = w + 3 + keys;
        uint32_t args = words - 3 - keys;
        keys -= keys && word_is(w[2 + keys], "snib:m");
        c.what = of_script(keys, args);
        if (c.what == ASKED_TERMS && arg[2].n && arg[2].p[0] <= '9') {
            c.what = ASKED_ENDED; /* a token, not a word */
        }
        c.locks = c.what == ASKED_SEVERAL ? keys / 7
                  : c.what == ASKED_RENEW ? keys / 2
                  : c.what == ASKED_DROP  ? keys
                                          : 1;
        if (c.what == ASKED_ACQUIRE) {
            struct known *k = &l->known[l->known_count++ % LIAR_KNOWN];
            keep_word(l->client, sizeof l->client, arg[0]);
            keep_word(k->id, sizeof k->id, arg[1]);
            keep_word(k->key, sizeof k->key, w[3]);
            keep_word(k->poll, sizeof k->poll, arg[4]);
            c.lease = word_number(arg[2]);
        }
    }
    if (c.what == ASKED_MULTI) {
        row->sets = 0;
    } else if (c.what == ASKED_OK && words == 6 && word_is(w[4], "PXAT")) {
        c.what = ASKED_QUEUED;
        arg = w + 1;
        row->sets++;
    } else if (c.what == ASKED_EXEC) {
        c.locks = row->sets;
    }
    witness_hears(l->witness, row->conn, c.what, c.locks, arg);
    if (row->count < LIAR_ROW) { /* else: answered by another's reply */
        row->command[(row->head + row->count++) % LIAR_ROW] = c;
    }
}

/* All commands in these bytes, which the client wrote: they are whole. */
static inline void liar_hears(struct liar *l, struct row *row, const char *p,
                              size_t size)
{
    enum { WORDS = 512 };
    static struct word w[WORDS];
    const char *end = p + size;
    while (p < end) {
        char *next;
        MUST(*p == '*');
        uint32_t words = (uint32_t)strtoul(p + 1, &next, 10);
        MUST(words && words <= WORDS * 4);
        p = next + 2;
        for (uint32_t i = 0; i < words; i++) {
            MUST(p < end && *p == '$');
            size_t n = strtoul(p + 1, &next, 10);
            p = next + 2;
            MUST(p + n + 2 <= end);
            if (i < WORDS) {
                w[i] = (struct word){p, n};
            }
            p += n + 2;
        }
        note(l, row, w, words < WORDS ? words : WORDS);
    }
}

/* -- what is said ------------------------------------------------------------------- */

static inline void put(struct liar *l, const char *p, size_t n)
{
    if (l->size + n <= sizeof l->reply) {
        memcpy(l->reply + l->size, p, n);
        l->size += n;
    }
}

static inline void puts_(struct liar *l, const char *text)
{
    put(l, text, strlen(text));
}

static inline void head(struct liar *l, char type, int64_t n)
{
    char text[32];
    put(l, text,
        (size_t)snprintf(text, sizeof text, "%c%" PRId64 "\r\n", type, n));
}

static inline void bulk(struct liar *l, const char *p, size_t n)
{
    head(l, '$', (int64_t)n);
    put(l, p, n);
    puts_(l, "\r\n");
}

static inline int64_t number(struct liar *l, int64_t right)
{
    static const int64_t odd[] = {0,
                                  1,
                                  -1,
                                  2,
                                  INT64_MAX,
                                  INT64_MIN,
                                  INT64_MAX - 1,
                                  INT64_C(1) << 53,
                                  (INT64_C(1) << 53) - 1,
                                  UINT32_MAX,
                                  INT32_MAX,
                                  1024,
                                  86400000,
                                  INT64_C(9000000000000000000),
                                  INT64_C(9223372036854),
                                  128};
    uint32_t v = roll(l->dice);
    if (v < 192) {
        return right;
    }
    if (v < 240) {
        return odd[v % (sizeof odd / sizeof *odd)];
    }
    if (v < 248) {
        return right + (int64_t)roll(l->dice) - 128;
    }
    uint64_t raw = 0;
    for (int i = 0; i < 8; i++) {
        raw = raw << 8 | roll(l->dice);
    }
    return (int64_t)raw;
}

static const char *const liar_errors[] = {
    "ERR no",
    "NOSCRIPT No matching script. Please use EVAL.",
    "READONLY You can't write against a read only replica.",
    "LOADING Redis is loading the dataset in memory",
    "BUSY Redis is busy running a script",
    "OOM command not allowed when used memory > 'maxmemory'.",
    "WRONGTYPE Operation against a key holding the wrong kind of value",
    "NOPERM this user has no permissions",
    "NOAUTH Authentication required.",
    "WRONGPASS invalid username-password pair",
    "CORRUPT a holder record",
    "SNIBFLOOR the clock",
    "SNIBARG acquire: bad arguments",
    "MASTERDOWN Link with MASTER is down",
    "CLUSTERDOWN no",
    "MOVED 1 h:1"};

static inline const char *any_error(struct liar *l)
{
    return liar_errors[roll(l->dice) %
                       (sizeof liar_errors / sizeof *liar_errors)];
}

/* Something else in the place of what is due; true: it stands there. */
static inline bool astray(struct liar *l)
{
    uint32_t v = roll(l->dice);
    if (v < 224) {
        return false;
    }
    switch (v % 8) {
    case 0:
        puts_(l, "$-1\r\n");
        return true;
    case 1:
        puts_(l, "*-1\r\n");
        return true;
    case 2:
        puts_(l, "*0\r\n");
        return true;
    case 3:
        puts_(l, "*2\r\n:1\r\n$3\r\nabc\r\n");
        return true;
    case 4:
        puts_(l, "$0\r\n\r\n");
        return true;
    case 5:
        puts_(l, "-");
        puts_(l, any_error(l));
        puts_(l, "\r\n");
        return true;
    case 6:
        puts_(l, "+OK\r\n");
        return true;
    default:
        head(l, ':', number(l, 0));
        return true;
    }
}

static inline void say_int(struct liar *l, int64_t right)
{
    if (!astray(l)) {
        head(l, ':', number(l, right));
    }
}

static inline void say_text(struct liar *l, const char *text)
{
    if (!astray(l)) {
        bulk(l, text, strlen(text));
    }
}

static inline void say_number_text(struct liar *l, int64_t right)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, number(l, right));
    say_text(l, text);
}

/* A list of n: now and then its head says another number. */
static inline void say_list(struct liar *l, uint32_t n)
{
    uint32_t v = roll(l->dice);
    head(l, '*', v < 240 ? n : v % 8);
}

static inline int64_t liar_clock(struct liar *l)
{
    return number(l, l->clock_ms);
}

static inline void say_grant(struct liar *l, const struct command *c)
{
    static const uint8_t codes[] = {1, 1, 1, 1, 1, 1, 2, 3,
                                    3, 4, 5, 6, 7, 8, 9, 10};
    int64_t code = codes[roll(l->dice) % sizeof codes];
    uint32_t parts = code == 1 ? 7 : code == 2 ? 4 : code == 3 ? 3 : 2;
    say_list(l, parts + (code == 6));
    say_int(l, code);
    head(l, ':', liar_clock(l));
    if (code == 1) {
        say_int(l, l->clock_ms * 1024);
        say_int(l, 31);
        say_int(l, c->lease ? c->lease : 1000);
        say_int(l, 1);
        say_int(l, 0);
    } else if (code == 2) {
        say_int(l, 1);
        say_int(l, 500);
    } else if (code == 3 || code == 6) {
        say_int(l, 500);
    }
}

static inline void say_locks(struct liar *l, const struct command *c)
{
    char text[200];
    uint32_t holders = roll(l->dice) % 4, waiters = roll(l->dice) % 3;
    (void)c;
    say_list(l, 6);
    head(l, ':', liar_clock(l));
    say_int(l, l->clock_ms * 1024);
    say_int(l, waiters + roll(l->dice) % 2 * 150);
    if (!astray(l)) {
        say_list(l, 2 * holders);
        for (uint32_t i = 0; i < holders; i++) {
            say_text(l, l->client);
            snprintf(text, sizeof text,
                     "%s %" PRId64 " %" PRId64 " %u 1,d%u,s2 1 31 host=h",
                     l->known[i].id, number(l, l->clock_ms * 1024),
                     number(l, l->clock_ms + 5000), roll(l->dice) % 6,
                     roll(l->dice));
            say_text(l, text);
        }
    }
    if (!astray(l)) {
        say_list(l, 3 * waiters);
        for (uint32_t i = 0; i < waiters; i++) {
            say_text(l, l->known[i].id);
            say_number_text(l, l->clock_ms + 3000);
            snprintf(text, sizeof text, "%s %s 1 1 30000 0 0 0 1 host=w",
                     l->client, l->channel);
            say_text(l, text);
        }
    }
    if (!astray(l)) {
        say_list(l, 2);
        say_int(l, -1);
        say_int(l, -1);
    }
}

static inline void say_keys(struct liar *l)
{
    static const char *const keys[] = {"snib:{n0}", "snib:{n1}:a", "snib:{n2}",
                                       "snib:{}",   "snib:{%7B}",  "other"};
    uint32_t n = roll(l->dice) % 4;
    say_list(l, 2);
    say_number_text(l, roll(l->dice) % 4 == 3 ? 17 : 0);
    if (!astray(l)) {
        say_list(l, n);
        for (uint32_t i = 0; i < n; i++) {
            say_text(l, keys[roll(l->dice) % 6]);
        }
    }
}

/* What SET and XADD answered, or that nothing was done. */
static inline void say_packet(struct liar *l, const struct command *c)
{
    char text[64];
    if (roll(l->dice) % 8 == 7) {
        puts_(l, "-EXECABORT no\r\n");
        return;
    }
    say_list(l, c->locks + 1);
    for (uint32_t i = 0; i < c->locks; i++) {
        if (!astray(l)) {
            puts_(l, roll(l->dice) % 4 ? "+OK\r\n" : "$-1\r\n");
        }
    }
    snprintf(text, sizeof text, "%" PRId64 "-%u", number(l, l->clock_ms),
             roll(l->dice) % 3);
    say_text(l, text);
}

static inline void say_reply(struct liar *l, const struct command *c)
{
    switch (c->what) {
    case ASKED_HELLO:
        say_list(l, 14);
        say_text(l, "server"), say_text(l, "redis");
        say_text(l, "version"), say_text(l, "7.0.15");
        say_text(l, "proto"), say_int(l, 2);
        say_text(l, "id"), say_int(l, 3);
        say_text(l, "mode"), say_text(l, "standalone");
        say_text(l, "role"), say_text(l, "master");
        say_text(l, "modules"), puts_(l, "*0\r\n");
        break;
    case ASKED_OK:
        if (!astray(l)) {
            puts_(l, "+OK\r\n");
        }
        break;
    case ASKED_LAYOUT:
        say_text(l, "2");
        break;
    case ASKED_TIME:
        say_list(l, 2);
        say_number_text(l, l->clock_ms / 1000);
        say_number_text(l, 250000);
        break;
    case ASKED_SUBSCRIBE:
        say_list(l, 3);
        say_text(l, "subscribe");
        say_text(l, c->text);
        say_int(l, 1);
        break;
    case ASKED_PING:
        if (roll(l->dice) % 2) {
            puts_(l, "+PONG\r\n");
        } else {
            puts_(l, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
        }
        break;
    case ASKED_INFO:
        say_text(l, "redis_version:7.0.15\r\nrole:master\r\n"
                    "connected_slaves:9999999999999999999\r\n");
        break;
    case ASKED_CONFIG:
        say_list(l, 2);
        say_text(l, "maxmemory-policy");
        say_text(l, "noeviction\033[31m");
        break;
    case ASKED_SCAN:
        say_keys(l);
        break;
    case ASKED_ACQUIRE:
        say_grant(l, c);
        break;
    case ASKED_SEVERAL:
        say_list(l, c->locks);
        for (uint32_t i = 0; i < c->locks; i++) {
            say_grant(l, c);
        }
        break;
    case ASKED_RENEW:
    case ASKED_KEEP:
        say_list(l, c->locks + 1);
        head(l, ':', liar_clock(l));
        for (uint32_t i = 0; i < c->locks; i++) {
            say_int(l, roll(l->dice) % 8 < 6 ? 1 : roll(l->dice) % 8);
        }
        break;
    case ASKED_ENDED:
        say_list(l, 2);
        say_int(l, roll(l->dice) % 8 < 6);
        say_int(l, roll(l->dice) % 4);
        break;
    case ASKED_DROP:
        if (c->locks > 1) {
            say_list(l, c->locks);
        }
        for (uint32_t i = 0; i < c->locks; i++) {
            say_int(l, roll(l->dice) % 8 < 6);
        }
        break;
    case ASKED_MULTI:
        if (!astray(l)) {
            puts_(l, "+OK\r\n");
        }
        break;
    case ASKED_QUEUED:
        if (!astray(l)) {
            puts_(l, "+QUEUED\r\n");
        }
        break;
    case ASKED_EXEC:
        say_packet(l, c);
        break;
    case ASKED_FORCE:
        say_list(l, 1);
        say_int(l, 2);
        break;
    case ASKED_TERMS:
        say_list(l, 6);
        say_int(l, roll(l->dice) % 10);
        head(l, ':', liar_clock(l));
        say_int(l, 5), say_int(l, 1), say_int(l, -1), say_int(l, 0);
        break;
    case ASKED_INSPECT:
        say_locks(l, c);
        break;
    case ASKED_PROBE:
        say_list(l, 2);
        if (!astray(l)) {
            say_list(l, 2);
            say_text(l, "EVAL");
            say_text(l, any_error(l));
        }
        say_int(l, 1);
        break;
    case ASKED_EARS:
        say_list(l, 3);
        say_int(l, roll(l->dice) % 4), say_int(l, 0);
        say_text(l, "snib:c");
        break;
    case ASKED_VALUE_GET:
        say_list(l, 2);
        say_int(l, 7);
        say_text(l, "value");
        break;
    case ASKED_VALUE_PUT:
        say_list(l, 3);
        say_int(l, roll(l->dice) % 6);
        head(l, ':', liar_clock(l));
        say_int(l, 8);
        break;
    case ASKED_OTHER:
        say_int(l, 1);
        break;
    }
}

/* The answer to the oldest of the row, in l->reply; false: nothing is due.
 * right: as a server would that means well. */
static inline bool liar_answers(struct liar *l, struct row *row, bool right)
{
    struct dice none = {0}, *dice = l->dice;
    if (!row->count) {
        return false;
    }
    struct command c = row->command[row->head];
    row->head = (row->head + 1) % LIAR_ROW;
    row->count--;
    l->size = 0;
    l->dice = right ? &none : dice;
    if (one_in(l->dice, 13)) {
        puts_(l, "-");
        puts_(l, any_error(l));
        puts_(l, "\r\n");
    } else {
        say_reply(l, &c);
    }
    l->dice = dice;
    return true;
}

/* A message that nobody asked for, in l->reply. */
static inline void liar_pushes(struct liar *l)
{
    const struct known *k = &l->known[roll(l->dice) % LIAR_KNOWN];
    char text[300];
    l->size = 0;
    if (one_in(l->dice, 5)) {
        snprintf(text, sizeof text, "r %s", k->id);
    } else {
        snprintf(text, sizeof text,
                 "g %s %" PRId64 " %" PRId64 " %" PRId64 " %s %" PRId64 "%s %s",
                 k->id, number(l, l->clock_ms * 1024), number(l, 31),
                 number(l, 3000), one_in(l->dice, 6) ? "0" : k->poll,
                 liar_clock(l), one_in(l->dice, 4) ? " 3" : "", k->key);
    }
    say_list(l, 3);
    say_text(l, "message");
    say_text(l, l->channel);
    say_text(l, text);
}

#endif

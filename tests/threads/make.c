/* make.c — programs by chance, from a number. */
#include <stdio.h>
#include <string.h>

#include "../unit/mix.h"
#include "program.h"

static uint64_t state;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(mix(state += 0x9e3779b97f4a7c15) >> 32) % n;
}

static void add(char *to, const char *word)
{
    size_t used = strlen(to);
    snprintf(to + used, PROGRAM_TEXT - used, "%s%s", used ? " " : "", word);
}

typedef enum trait {
    OF_LOCK,
    FOR_EVER = 1, /* with several locks in any order it gets a limit        */
    OF_CLIENT = 2,
    HARSH = 4 /* not in gentle programs                                     */
} trait;

struct choice {
    const char *verb;
    trait is;
};

/* The likelier ones more often. */
static const struct choice blocking[] = {{"acquire", FOR_EVER},
                                         {"acquire", FOR_EVER},
                                         {"acquire", FOR_EVER},
                                         {"acquire", FOR_EVER},
                                         {"wait5", OF_LOCK},
                                         {"wait5", OF_LOCK},
                                         {"try", OF_LOCK},
                                         {"try", OF_LOCK},
                                         {"release", OF_LOCK},
                                         {"release", OF_LOCK},
                                         {"release", OF_LOCK},
                                         {"release", OF_LOCK},
                                         {"renew", OF_LOCK},
                                         {"status", OF_LOCK},
                                         {"explain", OF_LOCK},
                                         {"inspect", OF_LOCK},
                                         {"start", FOR_EVER},
                                         {"start5", OF_LOCK},
                                         {"take", OF_LOCK},
                                         {"take", OF_LOCK},
                                         {"cancel", OF_LOCK},
                                         {"drop", OF_LOCK},
                                         {"free", OF_LOCK},
                                         {"force", HARSH},
                                         {"expire", HARSH},
                                         {"sleep5", OF_CLIENT},
                                         {"close", OF_CLIENT | HARSH},
                                         {"stop", OF_CLIENT | HARSH}};
static const struct choice pulling[] = {{"start", FOR_EVER},
                                        {"start", FOR_EVER},
                                        {"start5", OF_LOCK},
                                        {"take", OF_LOCK},
                                        {"take", OF_LOCK},
                                        {"take", OF_LOCK},
                                        {"drop", OF_LOCK},
                                        {"drop", OF_LOCK},
                                        {"cancel", OF_LOCK},
                                        {"process", OF_CLIENT},
                                        {"status", OF_LOCK},
                                        {"sleep5", OF_CLIENT},
                                        {"close", OF_CLIENT | HARSH},
                                        {"stop", OF_CLIENT | HARSH}};

static void add_call(char *to, bool redis, bool pull, const char *locks,
                     bool gentle)
{
    enum { MANY = sizeof blocking / sizeof *blocking };
    enum { FEW = sizeof pulling / sizeof *pulling };
    char word[32];
    const struct choice *c =
        pull ? &pulling[below(FEW)] : &blocking[below(MANY)];
    char lock = locks[below((uint32_t)strlen(locks))];
    while (redis && !strcmp(c->verb, "expire")) { /* of memory: only */
        c = &blocking[below(MANY)];
    }
    if (redis && !gentle && below(16) == 0) {
        add(to, "cut");
        return;
    }
    if (gentle && (c->is & HARSH)) {
        c = pull ? &pulling[0] : &blocking[0];
    }
    if (c->is & OF_CLIENT) {
        snprintf(word, sizeof word, "%s", c->verb);
    } else if (locks[1] && (c->is & FOR_EVER)) {
        snprintf(word, sizeof word, "%s.%c",
                 c->verb[0] == 'a' ? "wait5" : "start5", lock);
    } else {
        snprintf(word, sizeof word, "%s.%c", c->verb, lock);
    }
    add(to, word);
}

/* -- of what is no plain lock -------------------------------------------------- */

static const char *const latch[] = {"await5.l", "await5.l", "await5.l",
                                    "down.l",   "down.l",   "down.l",
                                    "set.l",    "sleep5",   NULL};
static const char *const barrier[] = {"meet5.m", "meet5.m", "meet5.m",
                                      "meet5.m", "sleep5",  NULL};
/* Who leads by one candidate must not wait for itself by another. */
static const char *const shared[] = {"campaign.e", "campaign.e", "campaign5.e",
                                     "resign.e",   "resign.e",   "watch.e",
                                     "leads.e",    "sleep5",     NULL};
static const char *const own[] = {"campaign.o", "campaign.o", "campaign5.o",
                                  "resign.o",   "resign.o",   "watch.o",
                                  "leads.o",    "sleep5",     NULL};
static const char *const both[] = {
    "acquire.x", "acquire.x", "acquire.x", "wait5.x",  "try.x",
    "release.x", "release.x", "release.x", "sleep5",   "wait5.a",
    "release.a", "wait5.b",   "release.b", "cancel.x", "start.x",
    "start5.x",  "take.x",    "take.x",    "drop.x",   NULL};
static const char *const value[] = {"get.v",    "put.v",    "put.v", "update.v",
                                    "update.v", "update.v", NULL};
static const char *const lossy[] = {"get.v", "put.v",    "put.v", "update.v",
                                    "lose",  "update.v", "lose",  NULL};
static const char *const three[] = {
    "acquire.t", "wait5.t", "try.t",     "drain.t",  "drain.t",
    "release.t", "drop.t",  "release.t", "start5.t", "take.t",
    "renew.t",   "sleep5",  NULL};

static const char *const *const kinds[] = {latch, barrier, shared, own,  both,
                                           both,  value,   lossy,  three};

static uint32_t length(const char *const *list)
{
    uint32_t n = 0;
    while (list[n]) {
        n++;
    }
    return n;
}

static void make_kind(char ret[PROGRAM_TEXT])
{
    const char *const *list = kinds[below(9)];
    bool election = list == shared || list == own, gentle = below(3) != 0;
    uint32_t threads = 2 + below(below(2) ? 2 : 5), clients = 1 + below(3);
    if (below(5) == 0) {
        add(ret, below(2) ? "slow:" : "far:");
    }
    if (list == latch && below(2)) {
        add(ret, "closed:");
    }
    for (uint32_t t = 0; t < threads; t++) {
        char client[2] = {(char)('0' + below(clients)), 0};
        const char *const *mine = election ? (below(2) ? shared : own) : list;
        if (t) {
            add(ret, "|");
        }
        add(ret, client);
        for (uint32_t n = 2 + below(4); n; n--) {
            bool harsh = !gentle && below(12) == 0;
            add(ret, harsh ? (below(2) ? "close" : "stop")
                           : mine[below(length(mine))]);
        }
    }
}

/* Up to this one are the programs of plain locks alone. */
enum { LAST_PLAIN = 1500 };

void program_make(uint64_t seed, bool redis, char ret[PROGRAM_TEXT])
{
    static const char *const locks[] = {"a", "a", "a", "n", "ab",
                                        "s", "r", "c", "as"};
    state = seed * 0xd1342543de82ef95 + 7;
    ret[0] = 0;
    if (!redis && seed > LAST_PLAIN && seed % 2) {
        make_kind(ret);
        return;
    }
    bool slow = below(5) == 0 && !redis, pull = below(6) == 0 && !redis;
    bool gentle = below(2) == 0, mixed = below(3) == 0;
    uint32_t threads = 2 + below(below(2) ? 3 : 7);
    uint32_t clients = 1 + below(3);
    const char *all = locks[below(9)];
    if (redis) {
        add(ret, "redis:");
        if (below(3) == 0) {
            add(ret, "narrow:");
        }
    }
    if (slow) {
        add(ret, seed % 4 == 1 ? "word:" : seed % 2 ? "slow:" : "far:");
    }
    if (pull) {
        add(ret, "pull:");
    }
    for (uint32_t t = 0; t < threads; t++) {
        char client[2] = {(char)('0' + below(clients)), 0};
        const char *mine = mixed && strlen(all) == 1 && *all != 's'
                               ? locks[(uint32_t[]){0, 3, 6, 7}[below(4)]]
                               : all;
        if (t) {
            add(ret, "|");
        }
        add(ret, client);
        for (uint32_t n = 2 + below(4); n; n--) {
            add_call(ret, redis, pull, mine, gentle);
        }
    }
}

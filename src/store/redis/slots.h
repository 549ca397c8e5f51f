/* store/redis/slots.h — which node of a Redis Cluster serves which slot, as far
 * as is known. It sends nothing; whoever asks a node hands its words in here.
 *
 * A key's slot is CRC16 of its tag (what stands between the first { and the next
 * }) modulo 16384; all keys of a lock carry the tag {name}, so a lock has one
 * slot. A *home* is a server that serves slots, or that the URL names: an
 * address, by which it keeps its number for as long as it has slots or requests.
 *
 * Whatever stands here is a hint. A node refuses what it does not serve (MOVED
 * names who does), so a map that is behind costs round trips and nothing else. A
 * map that knows of fewer changes than another one, by the highest configuration
 * epoch in it, is not believed, until as many in a row were told as there are
 * homes: then the cluster was set up anew. Nor is one of the same epoch that
 * contradicts a MOVED which came after the last map, unless it comes from the
 * server that said so or the one that was named.
 *
 * A refusal protects only from nodes of the same cluster. One of another cluster
 * serves the slot, too. It is known by its map, which has no node in common with
 * the last one that was believed (kin.c), and is asked for nothing. Only where the
 * URL names it, the cluster may have been set up anew: then such maps are believed
 * like those that are behind. */
#ifndef SNIB__REDIS_SLOTS_H
#define SNIB__REDIS_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/name.h"

enum {
    SNIB__SLOTS = 16384,
    SNIB__HOMES_MAX = 80, /* three connections to each: core/conn.h */
    SNIB__NATS_MAX = 16,
    SNIB__NODE_ID = 40,      /* characters */
    SNIB__KIN_MAX = 256,     /* one that is known is enough */
    SNIB__HOME_ADDRESS = 264 /* as in struct snib__conn */
};

struct snib__home {
    char address[SNIB__HOME_ADDRESS]; /* "": this number is free */
    char other[SNIB__HOME_ADDRESS]; /* another name of it; "": none is known */
    bool seed;                      /* the URL names it */
    bool used; /* somebody has a connection to it, or is sent there */
    bool lost; /* a map has taken its slots away; whoever heeds it clears it */
    uint32_t slots; /* how many it serves */
};

struct snib__slots {
    uint8_t home_of[SNIB__SLOTS]; /* a home's number + 1; 0: nobody's */
    uint8_t next[SNIB__SLOTS];    /* while a map is read */
    uint8_t said[SNIB__SLOTS];    /* who has said MOVED since the last map: as
                                  home_of */
    struct snib__home home[SNIB__HOMES_MAX];
    struct {
        char from[SNIB__HOME_ADDRESS], to[SNIB__HOME_ADDRESS];
    } nat[SNIB__NATS_MAX];
    uint32_t nats;
    bool secure; /* names are preferred to addresses: certificates have them */
    int64_t epoch;   /* the highest that was told */
    uint32_t behind; /* maps in a row that were not believed */
    uint32_t heard;  /* maps that were taken over */
    bool stale;      /* somebody has said so: it is to be asked anew */
    bool moved;      /* a slot is served by a server that served none before */
    bool crowded;    /* more servers than there is room for */
    /* The nodes of the last map that was taken over, and maps in a row of hosts
     * of the URL that had none of these. */
    uint64_t kin[SNIB__KIN_MAX];
    uint32_t kins, strangers;
    /* What the stores of the nodes count together: numbers of sends, so that
     * one of another node is not taken for its own, and channels. */
    uint32_t sends, generation;
};

typedef enum snib__slots_said {
    SNIB__SLOTS_TAKEN,
    SNIB__SLOTS_BEHIND,  /* not believed */
    SNIB__SLOTS_FOREIGN, /* it is of another cluster */
    SNIB__SLOTS_STRANGE  /* this is no answer to CLUSTER NODES */
} snib__slots_said;

/* The slot of a key, and of a lock's keys. */
uint32_t snib__slot_of_key(const char *key, size_t size);
uint32_t snib__slot_of(const struct snib__name *);

/* The number of the home with this address; -1: there is no room. */
int snib__slots_home(struct snib__slots *, const char *address);
/* The same of a host that the URL names. port 0: Redis' own. -1: no server can
 * have it. */
int snib__slots_seed(struct snib__slots *, const char *host, uint16_t port);
/* Its number is free again, unless it serves slots, is used, or the URL names
 * it. */
void snib__slots_forget(struct snib__slots *, uint32_t home);
/* nat.c: read nat=FROM=TO,FROM=TO. False: it is none. */
bool snib__slots_nat(struct snib__slots *, const char *text);
/* Where that is from here. */
const char *snib__slots_translate(const struct snib__slots *,
                                  const char *address);

/* Take over the answer to CLUSTER NODES of the server at the address `asked`.
 * ret_tag: a number such that {%nodeN} is of a slot that this server serves; -1:
 * it serves none. */
snib__slots_said snib__slots_read(struct snib__slots *, const char *asked,
                                  const char *text, size_t size, int *ret_tag);
/* Read "MOVED 3999 127.0.0.1:6381" or "ASK …", an error of the server at the
 * address `asked`. The home's number; -1: it is none of these, or there is no
 * room for it. A slot that has moved is its home's from now on. */
int snib__slots_redirect(struct snib__slots *, const char *asked,
                         const char *text, size_t size, bool *ret_ask);
/* kin.c: has the map a node in common with the last one that was kept? True if
 * none was. */
bool snib__kin_has(const struct snib__slots *, const char *text, size_t size);
void snib__kin_keep(struct snib__slots *, const char *text, size_t size);
/* How many slots nobody serves. */
uint32_t snib__slots_unserved(const struct snib__slots *);

#endif

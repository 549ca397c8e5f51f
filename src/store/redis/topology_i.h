/* store/redis/topology_i.h — which of several servers is the primary. For
 * redis_i.h, which includes it.
 *
 *   one server  there is no struct topology
 *   a list      redis://h1,h2,h3: each is asked for its role
 *   Sentinels   redis+sentinel://s1,s2/service: any of them is asked for the
 *               address, and then heard (+switch-master)
 *
 * One more connection, WATCH, asks these nodes one after another (watch.c).
 * While the primary is not known no other connection is opened. An address is a
 * hint: a server is the primary when it says so itself in its greeting.
 *
 *     not known --a round--> known --doubt--> not known
 *         ^                                       |
 *         +------- a round in vain: back-off -----+
 *
 * Each failover has a number, which Sentinels call the epoch of their
 * configuration; it only rises. A Sentinel that was away during a failover names
 * the primary of before, which may have been away, too, and take itself for the
 * primary. So a round of Sentinels goes on until more than half of them have
 * answered, and no Sentinel is believed that knows of fewer failovers than
 * another one whom this client has heard. Where fewer answer, a second round
 * takes the best of them. If all answer, and all of them know of fewer, they
 * were set up anew. A Sentinel that tells no epoch (this user may not ask) is
 * believed as it is.
 *
 * A round over a list asks all, since two of them may say that they are the
 * primary; then neither is believed. Doubt comes when a connection to the
 * primary is lost or refused, it answers as a replica, or (?replicas=) too few
 * replicas acknowledge. Then the next Sentinel
 * is asked, not the same one. */
#ifndef SNIB__REDIS_TOPOLOGY_I_H
#define SNIB__REDIS_TOPOLOGY_I_H

#include "core/conn.h"
#include "core/url.h"

enum {
    ADDRESS_MAX = 264, /* as in struct snib__conn                           */
    REDIS_PORT = 6379,
    SENTINEL_PORT = 26379
};

#define EPOCH_NONE INT64_C(-1) /* it was not told             */
#define EPOCH_TOP  (INT64_C(1) << 53)

typedef enum node_said {
    NODE_NOTHING, /* not asked in this round, or no answer                  */
    NODE_PRIMARY, /* of a Sentinel: it names one                            */
    NODE_REPLICA,
    NODE_USELESS /* no connection, or an answer that is of no use          */
} node_said;

/* Is what a Sentinel names the primary? */
typedef enum named_is {
    NAMED_PRIMARY,
    NAMED_SO_FAR, /* others are to be asked before it is believed            */
    NAMED_BEHIND  /* it knows of fewer failovers than another one            */
} named_is;

struct topology_node {
    char address[ADDRESS_MAX];
    node_said said; /* in this round, or in the last one                    */
    bool hopeless;  /* there is no such host                                */
};

struct topology {
    char *service; /* of Sentinels; NULL: this is a list                    */
    char *user, *password; /* the Sentinels' own login; NULL: none          */
    struct topology_node node[SNIB__URL_NODES];
    uint32_t nodes;
    uint32_t at;    /* the node that WATCH asks, or listens to              */
    uint32_t asked; /* … of this round                                      */
    bool over;      /* the round is: watch.c decides                        */
    bool two;       /* the round before it found two primaries              */
    bool known;
    char primary[ADDRESS_MAX]; /* the last one that was known; "": none was */
    char named[ADDRESS_MAX];   /* by the Sentinel that is being asked       */
    /* Epochs: told by that Sentinel, or by the one that is listened to; the
     * highest of this round; the highest ever. */
    int64_t told, best, epoch;
    uint32_t votes;  /* Sentinels that named one in this round              */
    uint32_t silent; /* nodes that gave no answer in this round             */
    bool best_of;    /* this round takes the best of those that answer       */
    bool demoted;    /* the server of `met` has said that it is a replica    */
    char met[ADDRESS_MAX]; /* of the server that was READY last; "": none   */
    uint32_t vain;   /* connections refused since one was READY               */
    uint32_t doubts; /* since then                                          */
    /* What the round has met that says most; OK: nothing. */
    snib_err err;
    bool barred; /* it cannot be better before somebody changes something   */
    char text[252];
};

/* Read hosts, service and logins. *ret is NULL for the URL of one server.
 * *ret_db: the rest of the path, which is the database. Errors: USAGE,
 * NOMEM. */
snib_err snib__topology_new(const struct snib__url *, struct topology **ret,
                            const char **ret_db, struct snib_error *reterr);
void snib__topology_free(struct topology *); /* NULL allowed; wipes         */

/* "HOST:PORT" or "[V6]:PORT". False: no server can have it. */
bool snib__topology_address(char ret[ADDRESS_MAX], const char *host,
                            size_t size, int64_t port);

/* The primary may be another one by now: a round begins. False: one is under
 * way. */
bool snib__topology_doubt(struct topology *);
/* A round begins. */
void snib__topology_round(struct topology *);
/* The node that was asked has said so; the next one is asked. */
void snib__topology_said(struct topology *, node_said);
/* It is of no use in this round, and why; the next one is asked. */
void snib__topology_failed(struct topology *, snib_err, const char *text,
                           bool barred);
/* The Sentinel that is asked has told its epoch and named a server. */
named_is snib__topology_named(struct topology *);
/* The Sentinel that is listened to has named another server. */
void snib__topology_switched(struct topology *);
/* The round is over without a primary: is another one to tell, at once? Of a
 * list because the first of two primaries may have been one before the second
 * was made one; of Sentinels because too few have answered for the best of them
 * to be taken at once. */
bool snib__topology_again(struct topology *);
/* The round is over. The address of the primary; NULL: there is none, or not
 * one alone, or no Sentinel named it; err, barred and text say why. */
const char *snib__topology_decide(struct topology *);
/* In this round every node was a host that does not exist. */
bool snib__topology_hopeless(const struct topology *);
/* Words to follow those of a primary that cannot be reached; "": there are none.
 * t: NULL allowed. */
const char *snib__topology_note(const struct topology *t, char *ret,
                                size_t size);
/* What the doctor says of it; listens: a Sentinel is listened to. Returns what
 * should be done; "": nothing. */
const char *snib__topology_words(const struct topology *, bool listens,
                                 char *ret, size_t size);

#endif

/* store/cluster/cluster_i.h — what the cluster is made of; for this folder only.
 *
 *   home   a server that serves slots, or that the URL names, and its number
 *          (store/redis/slots.h)
 *   node   the Redis store of a home, with three of our connections. It is made
 *          when it is first needed, and goes when its server serves nothing
 *   look   a LIST or DOCTOR, which all homes are asked
 *
 * A request of the core is handed to the node whose server has the lock's slot,
 * as it is, and its answer is the answer. It waits here while nobody is known to
 * serve the slot, and for a moment if the nodes send it to and fro.
 *
 * Files, the lower ones first (each calls only files that stand before it):
 * homes.c (nodes that come and go) · wait.c (requests that wait here, and their
 * ends) · look.c (all homes at once) · route.c (where a request goes) · map.c
 * (when the map is asked for, and of whom) · state.c · open.c · store.c (the
 * table and its steps). */
#ifndef SNIB__CLUSTER_I_H
#define SNIB__CLUSTER_I_H

#include "core/store.h"
#include "store/cluster/cluster.h"
#include "store/redis/node.h"
#include "store/redis/redis.h"
#include "store/redis/slots.h"

enum {
    NODES_MAX = SNIB__HOMES_MAX,
    ASK_PART = 4, /* a node that is asked for the map has patience / 4        */
    ASK_LEAST_MS = 100,
    ASK_MOST_MS = 1000,
    ASKED_MS = 5000, /* a node without slots that an ASK named stays so long  */
    REDIRECTS = 3, /* a request is sent on so often at once, …              */
    REDIRECT_MS = 40 /* … and then after such a pause, by chance half to 3/2 */
};

struct node {
    struct snib__store *store; /* NULL: there is none now                     */
    struct snib__out out;      /* its connections are ours, too               */
    struct snib__list chain;   /* requests of this step                       */
    uint32_t due;              /* requests that it owns                       */
    uint32_t failures;         /* as they were when it was asked for the map  */
    snib_instant held_until;   /* what it has granted is over then            */
    snib_instant asked_until;  /* it is to get slots: an ASK has named it     */
    bool ready;                /* `out` is                                    */
    bool leaving;              /* its connections are being closed            */
    bool hopeless;             /* no such host                                */
};

struct part {
    struct snib__request rq;
    struct snib_error error;
    struct snib__buf rows;
    struct look *look;
    uint32_t home;
};

struct look {
    struct snib__link link;
    struct snib__request *parent;
    uint32_t count, busy;
    struct part part[];
};

struct snib__cluster {
    struct snib__out *out;
    struct snib__store_config
        cfg;              /* of a node; url and out are set anew       */
    struct snib__url url; /* … its URL, without host and port          */
    char *user, *password, *wait,
        *safe; /* what stands in it                   */
    struct snib__rng rng;
    struct snib__slots *slots;
    struct node node[NODES_MAX];
    uint8_t
        node_of[SNIB__CONNS_MAX]; /* by the index of a connection           */
    struct snib__list waiting, looks;
    struct snib__heap timers; /* of what waits */
    uint32_t requests; /* that the core has started                      */
    bool listened;     /* the nodes know that out->listens               */
    /* Asking for the map. */
    int asked;      /* a home; -1: none just now                             */
    uint32_t next;  /* the home to look at next                              */
    uint32_t heard; /* slots->heard when it was last acted upon              */
    uint32_t vain;  /* homes in a row that did not tell it                   */
    snib_instant ask_at;
    snib_instant
        map_due; /* when the next step of that is; NEVER: there is none */
    snib_err
        err; /* why the last one did not; OK: not known                    */
    bool barred;
    char text[252];
};

/* homes.c */
/* The node of that home; made if need be. NULL: there is no memory, or no
 * room for connections; *ret_err says which. */
struct node *snib__home_node(struct snib__cluster *, uint32_t home,
                             snib_err *ret_err, struct snib_error *reterr);
/* Has the node requests or grants? */
bool snib__home_is_needed(const struct snib__cluster *, snib_instant now,
                          uint32_t home);
/* … and no connection? */
bool snib__home_in_trouble(const struct snib__cluster *, snib_instant now,
                           uint32_t home);
/* Close what serves nothing and is not needed any more. */
void snib__homes_retire(struct snib__cluster *, snib_instant now);
void snib__homes_free(struct snib__cluster *);

/* wait.c */
/* Wait for a home, or for so many ms at most (0: as long as it may). */
void snib__wait(struct snib__cluster *, snib_instant now,
                struct snib__request *, int64_t ms);
void snib__wait_over(struct snib__cluster *, struct snib__request *);
/* Its final answer. text NULL: reterr is set already, or the standard text of
 * err will do. */
void snib__tell(struct snib__cluster *, struct snib__request *, snib__answer,
                snib_err, const char *text);
/* It gets no home in its time. */
void snib__give_up(struct snib__cluster *, struct snib__request *);
/* No node tells the map. all: also those that may wait. */
void snib__wait_fail(struct snib__cluster *, bool all);
/* End the ACQUIRE with this id that waits here, if one does. */
void snib__wait_cancel(struct snib__cluster *, const uint64_t id[2]);

/* look.c */
/* False: no home is known. */
bool snib__look_start(struct snib__cluster *, snib_instant now,
                      struct snib__request *);
void snib__look_answered(struct snib__cluster *, snib_instant now,
                         struct snib__request *part);
/* Has a LIST or DOCTOR that is under way asked it? */
bool snib__look_has(const struct snib__cluster *, uint32_t home);
/* The limits of parts that move on move the whole one's. */
void snib__look_limits(struct snib__cluster *);
void snib__looks_free(struct snib__cluster *);

/* route.c */
void snib__route(struct snib__cluster *, snib_instant now,
                 struct snib__request *);
/* A node has answered it for good. */
void snib__route_answered(struct snib__cluster *, snib_instant now,
                          uint32_t home, struct snib__request *);
/* A new map: what waits here, and what waits for a node in vain, goes by it. */
void snib__route_all(struct snib__cluster *, snib_instant now);

/* map.c */
/* At the end of each step: a map was heard, a node that was asked has failed,
 * or one is to be asked. */
void snib__map_settle(struct snib__cluster *, snib_instant now);

/* state.c */
void snib__cluster_state(const struct snib__store *, snib_instant now,
                         struct snib__store_state *ret);
bool snib__cluster_server(const struct snib__store *, snib_instant now,
                          uint32_t node, struct snib__server *ret);

/* open.c */
snib_err snib__cluster_open(const struct snib__store_config *,
                            struct snib__store **ret,
                            struct snib_error *reterr);
void snib__cluster_free(struct snib__store *);

static inline const struct snib__store_ops *snib__node_ops(void)
{
    return &snib__redis_store_ops;
}

#endif

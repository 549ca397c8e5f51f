/* store/etcd/recipe_i.h — the locks of etcd's own clients: what recipe.c is made
 * of. */
#ifndef SNIB__ETCD_RECIPE_I_H
#define SNIB__ETCD_RECIPE_I_H

#include "store/etcd/etcd_i.h"

enum {
    ETCD_WATCHES = 32,          /* at once */
    ETCD_RECIPE_LEASE = 3,      /* s: of who waits */
    ETCD_RECIPE_AGE_MS = 500,   /* so old that lease may be when it is used */
    ETCD_RECIPE_LEFT_MS = 1000, /* shown as left, since nobody knows it */
    /* client=, 32 digits, &: what stands before the text about the owner. */
    ETCD_RECIPE_HEAD = 7 + ETCD_ID + 1
};

/* -- key.c ------------------------------------------------------------------ */

/* Keys of the recipe that etcd's own clients follow (recipe.c): all of a lock's;
 * that of a request; the tombstone of one. */
void snib__etcd_key_recipe(const struct snib__etcd *, const struct snib__name *,
                           struct etcd_key *from, struct etcd_key *to);
void snib__etcd_key_recipe_own(const struct snib__etcd *,
                               const struct snib__name *, const uint64_t id[2],
                               struct etcd_key *ret);
void snib__etcd_key_tombstone(const uint64_t id[2], struct etcd_key *ret);

/* -- recipe_txn.c --------------------------------------------------------- */

/* Ask for k->ask, when the lease is there that it needs. */
void snib__etcd_recipe_send(struct snib__etcd *, snib_instant now,
                            struct etcd_step *);
/* What the answer says of the keys: k->found. False: it is none. */
bool snib__etcd_recipe_read(const struct snib__etcd *, struct etcd_step *,
                            struct snib__etcd_txn *);

/* -- recipe_wait.c ---------------------------------------------------------- */

/* One that stands in a queue. */
struct etcd_wait {
    struct snib__link link; /* on waits */
    struct etcd_call call;  /* the watch of the key before it */
    uint64_t id[2];
    int64_t ahead; /* which key that is: when it was made; 0: none is watched */
    bool ended;    /* the server has ended the watch */
    snib_instant kept; /* its own key was put under a lease then */
    int64_t floor;     /* the highest token that was seen when it was made */
};

struct etcd_wait *snib__etcd_wait_find(struct snib__etcd *,
                                       const uint64_t id[2]);
/* NULL: no memory; it waits by its polls alone. */
struct etcd_wait *snib__etcd_wait_make(struct snib__etcd *,
                                       const uint64_t id[2]);
/* Be told when the key ends that it waits for. */
void snib__etcd_wait_watch(struct snib__etcd *, snib_instant now,
                           struct etcd_wait *, const struct etcd_found *);

/* -- recipe_look.c ---------------------------------------------------------- */

void snib__etcd_recipe_shown(struct snib__etcd *, snib_instant now,
                             struct etcd_step *, const struct etcd_reply *);

#endif

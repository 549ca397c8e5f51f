/* store/etcd/recipe.h — the locks of etcd's own clients (recipe.c): what a step and
 * the store keep of them. */
#ifndef SNIB__ETCD_RECIPE_H
#define SNIB__ETCD_RECIPE_H

#include "base/list.h"
#include "snib.h"

enum { ETCD_WATCHED = 1024 /* bytes of a key that can be watched */ };

struct snib__etcd;
struct snib__request;
struct etcd_work;

/* What recipe.c asks for. */
typedef enum etcd_ask {
    RECIPE_LOOKS,   /* what is there */
    RECIPE_ENTERS,  /* our key, where there is none: it holds */
    RECIPE_STANDS,  /* our key behind those that are there: it waits */
    RECIPE_TAKES,   /* our key is the first one: it holds */
    RECIPE_STAYS,   /* it waits on, under a younger lease */
    RECIPE_LEAVES,  /* it goes, and the answer is no */
    RECIPE_RENEWS,  /* it holds on, under a younger lease */
    RECIPE_ENDS,    /* a release */
    RECIPE_CANCELS, /* it goes, and no late copy makes it again */
    RECIPE_SHOWS,   /* all keys, with their values */
    RECIPE_LASTS    /* how long the holder's lease has left */
} etcd_ask;

/* What the keys of a lock look like to a request. */
struct etcd_found {
    int64_t own;      /* the revision that our key was made with; 0: none */
    uint64_t changed; /* … that it was last put with */
    int64_t ahead;    /* that of the last key before it; 0: it is the first */
    uint32_t before;  /* so many are before it; all, if there is none of ours */
    bool ended;       /* the request was cancelled: its tombstone is there */
    char key[ETCD_WATCHED]; /* of `ahead` */
    size_t key_size;        /* 0: it is too long to be watched */
};

/* A step. */
struct etcd_recipe {
    etcd_ask ask;
    struct etcd_found found;
    bool stands;  /* something of it may be there, whatever becomes of it */
    snib_err why; /* it leaves for this reason; OK: others are there */
};

extern const struct etcd_work snib__etcd_recipe_work;

/* Who waits, and for which key (recipe_wait.c). */
struct etcd_waits {
    struct snib__list list;
    uint32_t watches; /* streams, of which a connection has not very many */
};

/* This request has its answer, or will be asked again: if that is its end, nothing
 * is waited for any more. */
void snib__etcd_wait_settle(struct snib__etcd *, const struct snib__request *);
void snib__etcd_waits_free(struct snib__etcd *);

#endif

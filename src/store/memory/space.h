/* store/memory/space.h — inside the memory store: spaces and their books. */
#ifndef SNIB__SPACE_H
#define SNIB__SPACE_H

#include <pthread.h>

#include "store/memory/claims.h"

/* Names that nobody holds or waits for are remembered up to this many; older
 * ones leave their token in the space's floor. */
#define SNIB__IDLE_MAX      1024
#define SNIB__SPACE_BUCKETS 1024

struct snib__memory_claim {
    struct snib__link link; /* the lock's, in order of arrival              */
    struct snib__link told; /* the owner's list of grants to be rung        */
    struct snib__link
        mark; /* the space's tombstone, unresponsive, REVOKED              */
    struct snib__mem_lock *lock;
    struct snib__stored_claim c;
    uint32_t about_size;
    char about[];
};

struct snib__mem_lock {
    struct snib__link bucket, idle;
    struct snib__list claims;
    int64_t token;
    struct snib__params params;
    uint64_t hash;
    uint32_t name_size;
    char name[];
};

struct snib__space {
    struct snib__link link; /* registry                                     */
    char *name;
    uint32_t refs;         /* registry's mutex                             */
    pthread_mutex_t mutex; /* all below                                    */
    bool is_virtual;
    snib_instant now; /* virtual only                                 */
    int64_t floor;    /* no token below, of names forgotten           */
    int64_t last_id;
    uint32_t idle_count;
    struct snib__list clients, idle, marks;
    struct snib__list bucket[SNIB__SPACE_BUCKETS];
    struct snib__mem_values *values; /* NULL: none was ever asked for       */
};

struct snib__mem_values; /* values.h */

struct snib__mem_client {
    struct snib__link link;
    struct snib__space *space;
    struct snib__list told;
    uint64_t id[2];
    uint32_t drop; /* answers to lose                              */
    int notifier;  /* eventfd                                      */
    int64_t pid;   /* of the process that opened it                */
};

/* A book over one lock of a space; the space's mutex is held. */
struct snib__mem_book {
    struct snib__book book; /* first                                        */
    struct snib__space *space;
    struct snib__mem_lock *lock;
    struct snib__memory_claim
        *spare; /* what add() will use                   */
};

/* Get or make a space. Errors: NOMEM, CONFIG (another clock). */
snib_err snib__space_open(const char *name, bool is_virtual,
                          struct snib__space **ret, struct snib_error *reterr);
void snib__space_close(struct snib__space *);
snib_instant snib__space_now(const struct snib__space *);
int64_t snib__space_wall_ms(const struct snib__space *);

/* Prepare an atomic step on one name: after OK nothing in it can fail for
 * want of memory. end() drops what is idle or unused. */
snib_err snib__mem_book_begin(struct snib__mem_book *, struct snib__space *,
                              const struct snib__name *,
                              const uint64_t client[2], uint32_t about_size);
void snib__mem_book_end(struct snib__mem_book *);

#endif

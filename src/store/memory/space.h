/* store/memory/space.h — inside the memory store: spaces and their books. */
#ifndef SNIB__SPACE_H
#define SNIB__SPACE_H

#include <pthread.h>

#include "core/rules/rules.h"

/* A space remembers so many names that nobody holds or waits for. Older ones
 * are forgotten and leave their token in the space's floor. */
#define SNIB__IDLE_MAX      1024
#define SNIB__SPACE_BUCKETS 1024

struct snib__memory_claim {
    struct snib__link link; /* in lock->claims, in order of arrival */
    struct snib__link told; /* in its client's list of grants to be told */
    /* In the space's `marks`: tombstones, unresponsive and REVOKED claims. */
    struct snib__link mark;
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
    struct snib__link link; /* in the registry */
    char *name;
    uint32_t refs;         /* under the registry's mutex */
    pthread_mutex_t mutex; /* guards all below */
    bool is_virtual;
    snib_instant now; /* of a virtual clock only */
    int64_t floor;    /* highest token of forgotten names */
    int64_t life;     /* another one after each restart */
    int64_t last_id;
    uint32_t idle_count;
    struct snib__list clients, idle, marks;
    struct snib__list bucket[SNIB__SPACE_BUCKETS];
    struct snib__mem_values *values; /* NULL: none was ever asked for */
};

struct snib__mem_values; /* values.h */

struct snib__mem_client {
    struct snib__link link;
    struct snib__space *space;
    struct snib__list told;
    uint64_t id[2];
    struct snib__out *out;
    int64_t life;  /* the space's, as this client has heard of it */
    uint32_t drop; /* answers still to be lost */
    int notifier;  /* eventfd */
    int64_t pid;   /* of the process that opened it */
};

/* A book over one lock of a space; the space's mutex is held. */
struct snib__mem_book {
    struct snib__book book; /* first member: book_mem_of() casts */
    struct snib__space *space;
    struct snib__mem_lock *lock;
    struct snib__memory_claim *spare; /* what add() will use */
    struct snib__memory_claim *at; /* what next() found last; NULL: nothing */
};

/* Get or make the space of this name. Errors: NOMEM; CONFIG: it is open with
 * the other kind of clock. */
snib_err snib__space_open(const char *name, bool is_virtual,
                          struct snib__space **ret, struct snib_error *reterr);
void snib__space_close(struct snib__space *);
/* Forget all that the space has been told, but the highest token. Its mutex is
 * held. */
void snib__space_forget(struct snib__space *);
snib_instant snib__space_now(const struct snib__space *);
int64_t snib__space_wall_ms(const struct snib__space *);

/* Prepare an atomic step on one name. After OK nothing in the step can fail for
 * want of memory. snib__mem_book_end() frees what was not used and queues an
 * idle name to be forgotten. */
snib_err snib__mem_book_begin(struct snib__mem_book *, struct snib__space *,
                              const struct snib__name *,
                              const uint64_t client[2], uint32_t about_size);
void snib__mem_book_end(struct snib__mem_book *);

#endif

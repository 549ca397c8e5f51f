/* core/registry.h — what a client has at its store, in memory that outlives its
 * process.
 *
 * By choice (snib_client_options.witness) a small process next to the client's,
 * the *witness*, ends after a crash what the client held. It has no answer to
 * read and nobody to ask, so the client writes down, before it sends a request,
 * what a CANCEL of it needs: the name, the request's id, and the own earlier
 * grant that the request ends first (`prior`). An entry goes when nothing of its
 * request can be at the store any more. A CANCEL ends that one request, whatever
 * became of it, and nothing else. So an entry that is too old costs a command,
 * and can end nobody else's grant.
 *
 * The memory is shared by the two processes. The client's mutex guards what the
 * client writes. The witness reads when the client's process is over. The
 * process may have been killed between any two instructions. So an entry has two
 * records, of which `which` says the one that counts: the other one is written,
 * then `which` is set, at once. The name is written while neither counts. What
 * was counted stands as long as it does. */
#ifndef SNIB__REGISTRY_H
#define SNIB__REGISTRY_H

#include <stdatomic.h>

#include "core/name.h"

enum {
    SNIB__REGISTRY_LAYOUT = 1,
    /* So many requests of one client; those beyond go by their leases. */
    SNIB__REGISTRY_ENTRIES = 65536
};

struct snib__registry_record {
    uint64_t id[2];       /* of the request */
    int64_t prior;        /* token of the grant that it ends first; 0: none */
    uint64_t prior_id[2]; /* that grant's request */
    int64_t lease_ms;     /* the longest lease that may stand there */
};

struct snib__registry_entry {
    _Atomic uint32_t which; /* 0: it is free; 1, 2: this record counts */
    uint32_t next;          /* free: the next free one; 0: none */
    uint32_t name_size;
    struct snib__registry_record record[2];
    char name[SNIB_NAME_MAX];
};

struct snib__registry {
    uint64_t mark; /* that it is one: snib__registry_fits */
    uint32_t layout, room;
    uint64_t client[2]; /* its id */
    /* The latest instant of the server's clock, in ms, at which a copy of a
     * request may still be executed; 0: none was sent. */
    _Atomic int64_t late;
    _Atomic uint32_t used;   /* entries that were in use once, the first ones */
    _Atomic uint32_t closed; /* the client was freed: nothing is to be ended */
    uint32_t free;           /* the client's: first free entry; 0: none */
    struct snib__registry_entry entry[];
};

/* What a CANCEL needs, copied. */
struct snib__registry_found {
    struct snib__registry_record record;
    uint32_t name_size;
    char name[SNIB_NAME_MAX + 1]; /* and a NUL */
};

static inline size_t snib__registry_bytes(uint32_t room)
{
    return sizeof(struct snib__registry) +
           room * sizeof(struct snib__registry_entry);
}

/* -- the client's side ---------------------------------------------------- */

/* The memory, which is all zero, becomes an empty registry with that room. */
void snib__registry_init(struct snib__registry *, uint32_t room);
/* Writes the record into *entry; 0: into a new one, whose number it sets. There
 * may be none left: then *entry stays 0, and nothing is written. */
void snib__registry_put(struct snib__registry *, uint32_t *entry,
                        const struct snib__name *,
                        const struct snib__registry_record *);
/* Frees *entry, which becomes 0; it may be 0. */
void snib__registry_drop(struct snib__registry *, uint32_t *entry);
/* A request may be executed until then. */
static inline void snib__registry_late(struct snib__registry *r, int64_t late)
{
    atomic_store_explicit(&r->late, late, memory_order_release);
}

/* -- the witness's side --------------------------------------------------- */

/* Are these bytes a registry that this library can read? */
bool snib__registry_fits(const struct snib__registry *, size_t bytes);
/* How many entries there may be. */
uint32_t snib__registry_used(const struct snib__registry *);
/* Copies entry i, from 1 to snib__registry_used. False: it is free, or not
 * whole. */
bool snib__registry_read(const struct snib__registry *, uint32_t i,
                         struct snib__registry_found *ret);

#endif

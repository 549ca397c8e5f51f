/* core/nonblocking.h — the requests of a store that never blocks, in the table of
 * core/blocking.h.
 *
 * Such a store is made of connections. What it has of requests is the same as
 * where a library blocks, and is kept there: by id until they are answered, who
 * waits is polled, what is about an id that is under way is held back, what is
 * cancelled ends. The table is a store inside of the store, with an out of its
 * own. What it lists, the store takes itself (snib__blocking_take,
 * snib__blocking_take_one), and gives back by `executed`. */
#ifndef SNIB__NONBLOCKING_H
#define SNIB__NONBLOCKING_H

#include "core/blocking.h"

enum { SNIB__TOLD_MAX = 64 };

struct snib__nonblocking {
    struct snib__store *table;
    struct snib__out out;       /* the table's */
    struct snib__list executed; /* for snib__blocking_done, by the store */
    /* Requests that wait and may have been granted, or may be by now. */
    uint64_t told[SNIB__TOLD_MAX][2];
    uint32_t tolds;
    bool told_all; /* any may */
};

/* outer: the store's. */
void snib__nonblocking_init(struct snib__nonblocking *,
                            struct snib__out *outer);
/* config: what the store was opened with. */
snib_err snib__nonblocking_open(struct snib__nonblocking *,
                                const struct snib__store_config *config,
                                struct snib_error *reterr);
/* It was not opened: also. */
void snib__nonblocking_free(struct snib__nonblocking *);

/* This one is to be asked about. */
void snib__nonblocking_tell(struct snib__nonblocking *, const uint64_t id[2]);
/* Is there any that is, which the table has not heard of? */
bool snib__nonblocking_has_told(const struct snib__nonblocking *);
/* The table hears of them, and lists them. */
void snib__nonblocking_settle(struct snib__nonblocking *, snib_instant now);

#endif

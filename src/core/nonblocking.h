/* core/nonblocking.h — the requests of a store that never blocks, in the table of
 * core/blocking.h.
 *
 * A store that is made of connections needs of its requests what a library that
 * blocks needs: they are kept by id until they are answered, who waits is polled,
 * what is about an id that is under way is held back, what is cancelled ends. So
 * it has that table as a store inside of it, with an out of its own. What the
 * table lists, the store takes (snib__blocking_take, snib__blocking_take_one);
 * what has its answer it puts on `executed`, and gives back by
 * snib__blocking_done. */
#ifndef SNIB__NONBLOCKING_H
#define SNIB__NONBLOCKING_H

#include "core/blocking.h"

enum { SNIB__NONBLOCKING_IDS = 64 };

struct snib__nonblocking {
    struct snib__store *table; /* NULL: not opened */
    struct snib__out out;      /* the table's */
    struct snib__list executed;
    /* Requests that wait and may be granted by now, as far as the table has not
     * heard of them. */
    uint64_t notified[SNIB__NONBLOCKING_IDS][2];
    uint32_t count;
    bool all; /* each that waits may be */
};

/* config: what the store is opened with. */
snib_err snib__nonblocking_open(struct snib__nonblocking *,
                                const struct snib__store_config *config,
                                struct snib_error *reterr);
void snib__nonblocking_free(struct snib__nonblocking *);

/* This request may be granted by now; id NULL: each that waits may be. */
void snib__nonblocking_notify(struct snib__nonblocking *, const uint64_t id[2]);
/* Is there any of which the table has not heard? */
bool snib__nonblocking_is_notified(const struct snib__nonblocking *);
/* The table hears of them, and lists them. */
void snib__nonblocking_hear(struct snib__nonblocking *, snib_instant now);

#endif

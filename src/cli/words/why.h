/* why.h — who waits for whom, in sentences and as JSON. */
#ifndef SNIB_CLI_WHY_H
#define SNIB_CLI_WHY_H

#include <jansson.h>

#include "cli/words/kinds.h"
#include "snib/deadlock.h"
#include "snib/inspect.h"

/* All locks of the store, to follow a holder to the lock that it waits for. */
struct why_locks {
    struct snib_view **views;
    size_t count;
    const char *no_queue; /* the store, if it cannot show who waits */
};

/* The lock of this name; NULL: nobody holds it or waits for it. */
const struct snib_view *why_find(const struct why_locks *, const char *name,
                                 size_t size);
/* The lock for which the holder of this grant waits, and its wait; NULL: none
 * is known. */
const struct snib_view *why_next(const struct why_locks *,
                                 const struct snib_party *holder,
                                 const struct snib_party **ret_wait);

/* "nightly: held by …", who waits, what comes next. */
void why_print(const struct why_locks *, const struct snib_view *,
               const struct kind_params *);
/* The cycle, a line for each waiter. Where a waiter's lock is held above it, by
 * the command in which it runs, that holder is named as well. */
void why_print_cycle(const struct why_locks *, const struct snib_cycle *);
/* Is this lock waited for in the cycle? */
bool why_in_cycle(const struct snib_cycle *, const struct snib_view *);
json_t *why_json_cycle(const struct snib_cycle *);

#endif

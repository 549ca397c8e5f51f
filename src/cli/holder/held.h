/* held.h — SNIB_HELD: which locks are held further up the process tree, and by
 * which holders.
 *
 * Entries joined by ':', each "NAME=ADDRESS": the name percent-encoded, the
 * address of the holder's socket. A name in SNIB_HELD proves nothing (a
 * daemonised child keeps a stale one for ever): ask the holder.
 */
#ifndef SNIB_CLI_HELD_H
#define SNIB_CLI_HELD_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/holder/control.h"
#include "cli/words/text.h"

struct held_entry {
    char name[SNIB_NAME_MAX + 1];
    size_t name_size;
    char address[CONTROL_ADDRESS_MAX];
};

/* Take the next entry from *at (NULL or at its end: false). Malformed entries
 * are skipped. */
bool held_next(const char **at, struct held_entry *ret);
/* The same from the innermost entry outwards. *end is how much of held is left:
 * all of it at first. */
bool held_last(const char *held, size_t *end, struct held_entry *ret);

void held_add(struct text *, const char *name, const char *address);

#endif

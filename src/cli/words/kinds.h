/* kinds.h — the kinds of lock in words; which kind covers which; what a name
 * has besides its holders (a semaphore's size, a latch's count). */
#ifndef SNIB_CLI_KINDS_H
#define SNIB_CLI_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/words/duration.h"
#include "cli/words/text.h"
#include "snib.h"
#include "snib/inspect.h"

/* "mutex", "read", "write", "semaphore", "barrier": for --kind and the JSON. */
const char *kind_text(snib_kind);
/* Parse one of the first four; false: none of them. */
bool kind_parse(const char *name, snib_kind *ret);

static inline bool kind_excludes(snib_kind kind)
{
    return kind == SNIB_KIND_MUTEX || kind == SNIB_KIND_WRITE;
}

/* May a command that needs `asked` run under a lease of the other kind? */
bool kind_covers(snib_kind held, uint32_t held_permits, snib_kind asked,
                 uint32_t asked_permits);

struct kind_params {
    int64_t size;  /* of the semaphore; -1: none, or not asked */
    int64_t latch; /* the latch's steps to go */
};

#define KIND_PARAMS_NONE                                                       \
    {                                                                          \
        .size = -1                                                             \
    }

/* Ask the store for what the view does not say: the size when there are
 * permits, the latch when nobody holds and somebody waits. A store that cannot
 * tell has none. */
void kind_params_for(struct snib_client *, const struct snib_view *,
                     struct kind_params *ret);
/* Ask for both. */
void kind_params_get(struct snib_client *, const char *name, size_t name_size,
                     struct kind_params *ret);

/* What is left of a holder's lease, or "over": the server has not ended it yet. */
void kind_lease_text(int64_t left_ms, char ret[DURATION_TEXT_MAX]);
/* Who holds it, in words: "free", "held by …", "5 of 5 permits in use by …". */
void kind_holders(struct text *, const struct snib_view *,
                  const struct kind_params *);
/* The same for an owner that wants that kind and was refused. If it would fit
 * between the holders, the first waiter is named, too: "a writer waits before
 * it: …; held by …". */
void kind_in_the_way(struct text *, const struct snib_view *,
                     const struct kind_params *, snib_kind, uint32_t permits);
/* Of a recovery that cannot begin: "until 1 more replica is connected, and then ";
 * else nothing. */
void kind_missing(struct text *, uint32_t replicas);
/* What a party has or wants: ", to read", ", 3 permits"; of a mutex: "". */
void kind_wish(struct text *, const struct snib_party *);

#endif

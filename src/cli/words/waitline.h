/* waitline.h — one line that says whom this process waits for.
 *
 *   nightly: held by ci-7/4312 (anna, "release 4.2") for 3m12s, lease 24s;
 *   you are 2nd of 3
 *
 *   nightly: redis://db:6379 unreachable for 12s (connection refused); waiting
 *
 * On a terminal the line is kept up to date in place. Elsewhere it is said at
 * once, then after 10 s, a minute, and every five minutes. When the store goes
 * away or comes back, that schedule starts anew.
 */
#ifndef SNIB_CLI_WAITLINE_H
#define SNIB_CLI_WAITLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/words/kinds.h"
#include "cli/words/text.h"
#include "snib.h"
#include "snib/inspect.h"

enum waitline_place { WAITLINE_OFF, WAITLINE_LOG, WAITLINE_TERMINAL };

struct waitline {
    enum waitline_place place;
    /* When the wait began, or the store's present state. */
    int64_t started_ns;
    int64_t due_ns;   /* INT64_MAX: never */
    int64_t watch_ns; /* next check of the store; INT64_MAX: never */
    bool away;        /* was the store unreachable at that check? */
    bool shown;       /* on a terminal: there is a line to wipe */
};

void waitline_init(struct waitline *, bool quiet, int64_t now_ns);
void waitline_show(struct waitline *, const struct snib_view *,
                   const struct kind_params *, int64_t now_ns);
/* Check the store's state, without a request. A change makes the line due. */
void waitline_watch(struct waitline *, struct snib_client *, int64_t now_ns);
/* Show the line of an unreachable store: true. False: it is reachable. */
bool waitline_away(struct waitline *, struct snib_client *, const char *name,
                   int64_t now_ns);
/* "redis://db:6379 unreachable for 12s (connection refused)"; false: the store
 * is reachable, as far as is known. */
bool waitline_store(struct text *, struct snib_client *);
/* There is nothing to show now (the store does not answer): try again later. */
void waitline_skip(struct waitline *, int64_t now_ns);
void waitline_wipe(struct waitline *);

/* HOST/PID (USER, "REASON"); without a host its program or its request. */
void waitline_party(struct text *, const struct snib_party *);
/* Behind that: " running PROGRAM", where that was not said. */
void waitline_program(struct text *, const struct snib_party *);

#endif

/* waitline.h — one line that says whom we wait for.
 *
 *   nightly: held by ci-7/4312 (anna, "release 4.2") for 3m12s, lease 24s;
 *   you are 2nd of 3
 *
 *   nightly: redis://db:6379 unreachable for 12s (connection refused); waiting
 *
 * On a terminal it is kept up to date in place; elsewhere it is said at once,
 * then after 10 s, a minute, and every five minutes; and when the store goes or
 * comes back, anew from there.
 */
#ifndef SNIB_CLI_WAITLINE_H
#define SNIB_CLI_WAITLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/words/kinds.h"
#include "cli/words/text.h"
#include "snib.h"

enum waitline_place { WAITLINE_OFF, WAITLINE_LOG, WAITLINE_TERMINAL };

struct waitline {
    enum waitline_place place;
    int64_t started_ns; /* of the wait, or of what the store does since   */
    int64_t due_ns;     /* INT64_MAX: never                               */
    int64_t watch_ns;   /* when to look how the store is; INT64_MAX       */
    bool away;          /* the store, when it was last looked at          */
    bool shown; /* on a terminal: there is a line to wipe                  */
};

void waitline_init(struct waitline *, bool quiet, int64_t now_ns);
void waitline_show(struct waitline *, const struct snib_view *,
                   const struct kind_params *, int64_t now_ns);
/* How is the store? Asks nothing of it. A change makes the line due. */
void waitline_watch(struct waitline *, struct snib_client *, int64_t now_ns);
/* The line of a store that is away: true. */
bool waitline_away(struct waitline *, struct snib_client *, const char *name,
                   int64_t now_ns);
/* "redis://db:6379 unreachable for 12s (connection refused)"; false: it is
 * not away, as far as one knows. */
bool waitline_store(struct text *, struct snib_client *);
/* Nothing to show now (the store does not answer): when to try again. */
void waitline_skip(struct waitline *, int64_t now_ns);
void waitline_wipe(struct waitline *);

/* HOST/PID (USER, "REASON"). */
void waitline_party(struct text *, const struct snib_party *);

#endif

/* waitline.h — one line that says whom we wait for.
 *
 *   nightly: held by ci-7/4312 (anna, "release 4.2") for 3m12s, lease 24s;
 *   you are 2nd of 3
 *
 * On a terminal it is kept up to date in place; elsewhere it is said at once,
 * then after 10 s, a minute, and every five minutes.
 */
#ifndef SNIB_CLI_WAITLINE_H
#define SNIB_CLI_WAITLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "kinds.h"
#include "snib.h"
#include "text.h"

enum waitline_place { WAITLINE_OFF, WAITLINE_LOG, WAITLINE_TERMINAL };

struct waitline {
    enum waitline_place place;
    int64_t started_ns;
    int64_t due_ns; /* INT64_MAX: never                                   */
    bool shown; /* on a terminal: there is a line to wipe                  */
};

void waitline_init(struct waitline *, bool quiet, int64_t now_ns);
void waitline_show(struct waitline *, const struct snib_view *,
                   const struct kind_terms *, int64_t now_ns);
/* Nothing to show now (the store does not answer): when to try again. */
void waitline_skip(struct waitline *, int64_t now_ns);
void waitline_wipe(struct waitline *);

/* HOST/PID (USER, "REASON"). */
void waitline_party(struct text *, const struct snib_party *);

#endif

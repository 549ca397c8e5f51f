/* look.h — a look at a lock that keeps nobody waiting.
 *
 * snib_inspect waits for the store's answer, up to request_ms when it does not
 * come. Whoever has a limit of his own, or a deadline to watch, looks by these:
 * a thread asks, and the answer is taken when it is there. A look that is
 * nobody's any more ends by itself; until it has, its client must not be freed
 * (look_pending).
 */
#ifndef SNIB_CLI_LOOK_H
#define SNIB_CLI_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/words/kinds.h"
#include "cli/words/text.h"
#include "snib.h"

struct look;

struct look_answer {
    struct snib_error error; /* code OK: view is set                        */
    struct snib_view *view;  /* the taker's                                 */
    struct kind_params terms;
};

/* all_params: ask for size and gate whatever the view says. wake_fd: an eventfd
 * to be written when the answer is there, or -1. NULL: no thread, no memory. */
struct look *look_start(struct snib_client *, const char *name, bool all_params,
                        int wake_fd);
/* Wait until then (proc_now) for the answer. true: *ret has it and the look is
 * gone. */
bool look_take(struct look *, int64_t until_ns, struct look_answer *ret);
/* The answer is wanted no more. NULL is allowed. */
void look_drop(struct look *);
/* Is any look without its answer yet? Then end without freeing the client. */
bool look_pending(void);

/* Who is in the way of who wants that, for a last word, if the store says so
 * soon: within a tenth of a second. "": it did not, or nobody is. */
void look_in_the_way(struct snib_client *, const char *name, snib_kind,
                     uint32_t permits, struct text *);

#endif

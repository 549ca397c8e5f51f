/* look.h — inspections of a lock that keep nobody waiting.
 *
 * snib_client_inspect waits for the store's answer, up to request_ms when it
 * does not come. A caller that has a limit of its own, or a deadline to watch,
 * uses these instead: a thread asks, and the caller takes the answer when it is
 * there. An inspection that was dropped ends by itself; until then its client
 * must not be freed (look_pending).
 */
#ifndef SNIB_CLI_LOOK_H
#define SNIB_CLI_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/words/kinds.h"
#include "cli/words/text.h"
#include "snib.h"
#include "snib/inspect.h"

struct look;

struct look_answer {
    struct snib_error error; /* code OK: view is set */
    struct snib_view *view;  /* owned by the taker */
    struct kind_params params;
};

/* all_params: ask for size and count whatever the view says. wake_fd: an
 * eventfd that is written when the answer is there, or -1. NULL: no thread, no
 * memory. */
struct look *look_start(struct snib_client *, const char *name, bool all_params,
                        int wake_fd);
/* Wait until then (proc_now) for the answer. True: *ret has it and the
 * inspection is gone. */
bool look_take(struct look *, int64_t until_ns, struct look_answer *ret);
/* The answer is not wanted any more. NULL is allowed. */
void look_drop(struct look *);
/* Is any inspection without its answer yet? Then end without freeing the
 * client. */
bool look_pending(void);

/* For a last message: say what is in the way of that wish, if the store tells
 * within a tenth of a second, or half a second behind a single attempt. "": it
 * did not, or nothing is in the way. */
void look_in_the_way(struct snib_client *, const char *name, snib_kind,
                     uint32_t permits, bool single, struct text *);

#endif

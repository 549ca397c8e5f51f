/* supervisor.h — the process that the user started: it owns the command. */
#ifndef SNIB_CLI_SUPERVISOR_H
#define SNIB_CLI_SUPERVISOR_H

#include "cli/supervisor/plan.h"

/* Fork the holder, wait for the grant, run plan->command, see it end, have the
 * lock released. Returns the exit status (already told on stderr and
 * --status-fd). All signals stay blocked: the caller exits.
 *
 * Without a command (acquire) it returns CLI_OK as soon as the lock is held,
 * with *ret_page and *ret_socket set. Send PLAN_DETACH to let the holder go on
 * alone; close the socket, or die, to have it release.
 */
int supervisor_run(const struct plan *, struct plan_page **ret_page,
                   int *ret_socket);

/* How one term ended. */
struct supervisor_term {
    int code;
    enum supervisor_why why;
    bool ran, by_command, lost;
    int asked_to_end; /* INT, QUIT or TERM came during it; 0: none */
};

/* Like supervisor_run with a command, again and again. After each term, next
 * says how many milliseconds to rest before the next one, or SUPERVISOR_ENOUGH.
 * A signal that asks to end also ends it. Returns the last term's exit status,
 * or 128+n. */
#define SUPERVISOR_ENOUGH INT64_C(-1)
int supervisor_repeat(struct plan *,
                      int64_t (*next)(void *data,
                                      const struct supervisor_term *),
                      void *data);

#endif

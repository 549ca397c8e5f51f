/* leash.h — the process that the user started: owns the command. */
#ifndef SNIB_CLI_LEASH_H
#define SNIB_CLI_LEASH_H

#include "plan.h"

/* Fork the keeper, wait for the grant, run plan->command, see it end, have
 * the lock released. Returns the exit status (already said on stderr and
 * --status-fd). All signals stay blocked: the caller exits.
 *
 * Without a command (acquire) it returns CLI_OK as soon as the lock is ours,
 * with *ret_page and *ret_socket set: send PLAN_DETACH to let the keeper go
 * on alone; close the socket, or die, to have it release. */
int leash_run(const struct plan *, struct plan_page **ret_page,
              int *ret_socket);

#endif

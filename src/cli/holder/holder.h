/* holder.h — the process that talks to the store. */
#ifndef SNIB_CLI_HOLDER_H
#define SNIB_CLI_HOLDER_H

#include "cli/supervisor/plan.h"

/* The holder's whole life. Called in the child right after the fork, with all
 * signals blocked, before any library was opened. socket: to the supervisor. */
_Noreturn void holder_main(const struct plan *, struct plan_page *, int socket);

#endif

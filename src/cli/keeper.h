/* keeper.h — the process that talks to the store. */
#ifndef SNIB_CLI_KEEPER_H
#define SNIB_CLI_KEEPER_H

#include "plan.h"

/* The keeper's whole life; called in the child right after the fork, with all
 * signals blocked, before any library was opened. socket: to the leash. */
_Noreturn void keeper_main(const struct plan *, struct plan_page *, int socket);

#endif

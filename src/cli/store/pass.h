/* pass.h — wait in a lock's queue, pass, and release: snib latch --await, snib
 * barrier. */
#ifndef SNIB_CLI_PASS_H
#define SNIB_CLI_PASS_H

#include "cli/cli.h"

/* Call before the client is opened: from here on its threads, and this one,
 * leave HUP, INT, QUIT and TERM to pass_through. */
void pass_block_signals(void);

/* parties 0: a latch, else a barrier of so many. Waits as args say. CLI_OK:
 * passed, *ret_generation is the barrier's. 128+N: signal N came, and the queue
 * was left. Else the exit status, said. */
int pass_through(const struct cli_args *, struct snib_client *,
                 const char *name, uint32_t parties, int64_t *ret_generation);

#endif

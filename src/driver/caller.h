/* driver/caller.h — who calls, and whether it may. */
#ifndef SNIB__CALLER_H
#define SNIB__CALLER_H

#include <sys/types.h>

#include "snib.h"

/* FORKED in a child of the process that opened the client, else OK. */
snib_err snib__client_check(const struct snib_client *, struct snib_error *);
/* USAGE for a client that snib_client_process drives: it cannot block. */
snib_err snib__may_block(const struct snib_client *, struct snib_error *reterr);
/* Remember this process when a client opens. snib__client_check then recognises
 * its children. */
pid_t snib__process_remember(void);
/* The calling thread as an owner. */
uint64_t snib__owner_of_thread(void);
/* As snib_owner_new. */
uint64_t snib__owner_new(void);

#endif

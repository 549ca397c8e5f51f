/* api/client.h — what those may ask of a client who do not see its inside:
 * inspect.c, deadlock.c, test.c (switches of memory:), tests. */
#ifndef SNIB__CLIENT_H
#define SNIB__CLIENT_H

#include "core/engine.h"
#include "driver/caller.h"
#include "snib.h"

/* Send a direct request and wait for the answer. The caller has zeroed *q, set
 * verb, name, name_size and text, and called snib__buf_init on q->result. limit
 * (NEVER: none) is brought forward to now + request_ms. Blocks at most until
 * then, on the calling thread. In every case the engine has forgotten q on
 * return, and result still has to be freed with snib__buf_free. Any thread. The
 * errors are copied into reterr (may be NULL). Errors: USAGE (a pull client,
 * but for the verb PARAMS), FORKED, CLOSED, NOMEM, UNREACHABLE, UNKNOWN (a
 * change that was sent and not answered), and what the store said. */
snib_err snib__run_direct(struct snib_client *, struct snib__direct *q,
                          struct snib_error *reterr);

/* The memory store's instance (first argument of snib__memory_advance and
 * similar functions). NULL when the store is another one, and in a forked
 * child. Any thread. The result is valid as long as the client. */
void *snib__client_memory(struct snib_client *);

/* The virtual clock moved, or a test changed the store: do what is due now, and
 * let every waiting call check its limit again. Never blocks. */
void snib__client_kick(struct snib_client *);

/* The 128 bits by which stores know this client. */
void snib__client_id(struct snib_client *, uint64_t ret[2]);

#endif

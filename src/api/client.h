/* api/client.h — what those may ask of a client who do not see its inside:
 * inspect.c, deadlock.c, test.c (switches of memory:), tests. */
#ifndef SNIB__CLIENT_H
#define SNIB__CLIENT_H

#include "api/caller.h"
#include "core/engine.h"
#include "snib.h"

struct snib__direct_op; /* driver/client.h */

/* Ask the store, wait for the answers, and write the results, all by d's rules.
 * The caller has zeroed *d, and set client, rules and of q: verb, name,
 * name_size, text, and what the verb needs; q.limit is NEVER. Each request
 * blocks for at most request_ms, on the calling thread. In every case the
 * engine has forgotten d on return, and nothing has to be freed but results.
 * Any thread. Errors: USAGE (a pull client), FORKED, CLOSED, NOMEM,
 * UNREACHABLE, UNKNOWN (a change that was sent and not answered), what the
 * store said, and what the rules make of it. */
snib_err snib__run_direct(struct snib__direct_op *, struct snib_error *reterr);
/* The same, started. The struct, of that size, is copied with all that q points
 * to. Errors: USAGE (what q asks for), FORKED, CLOSED, LIMIT, NOMEM; all others
 * come with the event. */
snib_err snib__start_direct(struct snib__direct_op *, size_t size, void *user,
                            uint64_t *ret_ticket, struct snib_error *reterr);
/* All requests are answered: write the results, and free what it has. err: how
 * the last one ended; *ret says it in words, before and after. */
snib_err snib__direct_op_end(struct snib__direct_op *, snib_err err,
                             struct snib_error *ret);
/* Free what it has. Nothing is written. */
void snib__direct_op_drop(struct snib__direct_op *);

/* The memory store's instance (first argument of snib__memory_advance and
 * similar functions). NULL when the store is another one, and in a forked
 * child. Any thread. The result is valid as long as the client. */
void *snib__client_memory(struct snib_client *);

/* The virtual clock moved, or a test changed the store: do what is due now, and
 * let every waiting call check its limit again. Never blocks. */
void snib__client_kick(struct snib_client *);

/* Of a witness, whose client has the id of one whose process is over: ends what
 * that one has left, and returns when nothing of it is at the store any more. If the
 * store does not answer that is when the leases are over. Errors: LIMIT. */
snib_err snib__client_end_left(struct snib_client *,
                               const struct snib__registry *,
                               struct snib_error *reterr);

/* The 128 bits by which stores know this client. */
void snib__client_id(struct snib_client *, uint64_t ret[2]);

#endif

/* core/acquisition_i.h — what the files of the acquisition share.
 *
 *   acquisition.c  states, tickets, news, life, joining the queue, status
 *   acquire.c      acquire: re-entry, refusals at once, own claims
 *   leave.c        giving up: limits, cancels, waiting for the store's answer
 *   release.c      release, renew, detached grants
 *
 * The state table is in acquisition.c. No other file includes this one. */
#ifndef SNIB__ACQ_I_H
#define SNIB__ACQ_I_H

#include "core/engine_i.h"

/* A new acquisition in the queue of its local lock, which gets a claim if it
 * has none. NULL: no memory. */
struct snib__acquisition *
snib__acquisition_new(struct snib__engine *, struct snib__local_lock *,
                      const struct snib__acquire_spec *);
/* Sets its outcome to err, in the store's words if detail has that code. */
void snib__acquisition_explain(struct snib__acquisition *, snib_err err,
                               const struct snib_error *detail);
/* Drops its news: the caller returns them at once. */
void snib__acquisition_hush(struct snib__acquisition *);

#endif

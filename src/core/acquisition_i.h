/* core/acquisition_i.h — what the rooms of the acquisition share.
 *
 *   acquisition.c          states, tickets, news, life, sitting down, its status
 *   acquire.c  acquire: re-entry, refusals at once, own claims
 *   leave.c    giving up: limits, cancels, the wait for the store's word
 *   release.c  release, renew, grants left behind
 *
 * The states are in acquisition.c. Nobody else includes this. */
#ifndef SNIB__ACQ_I_H
#define SNIB__ACQ_I_H

#include "core/engine_i.h"

/* An acquisition that waits at its local lock, with a turn to ask for it. NULL: no memory. */
struct snib__acquisition *
snib__acquisition_new(struct snib__engine *, struct snib__local_lock *,
                      const struct snib__acquire_spec *);
/* LOST: this owner lost the lock and has not given back every hold. */
snib_err snib__acquisition_unwound(struct snib__local_lock *, uint64_t owner,
                                   struct snib_error *reterr);
/* Its end: err, in the store's words if detail has some of that err. */
void snib__acquisition_explain(struct snib__acquisition *, snib_err err,
                               const struct snib_error *detail);
/* Its news are told by what the caller returns. */
void snib__acquisition_hush(struct snib__acquisition *);

#endif

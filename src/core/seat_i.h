/* core/seat_i.h — what the rooms of the seat share.
 *
 *   seat.c          states, tickets, news, life, sitting down, its status
 *   seat_acquire.c  acquire: re-entry, refusals at once, stakes
 *   seat_leave.c    giving up: limits, cancels, the wait for the store's word
 *   seat_release.c  release, renew, grants left behind
 *
 * The states are in seat.c. Nobody else includes this. */
#ifndef SNIB__SEAT_I_H
#define SNIB__SEAT_I_H

#include "core/engine_i.h"

/* A seat that waits at its site, with a turn to ask for it. NULL: no memory. */
struct snib__seat *snib__seat_new(struct snib__engine *, struct snib__site *,
                                  const struct snib__ask *);
/* LOST: this lane lost the lock and has not given back every hold. */
snib_err snib__seat_unwound(struct snib__site *, uint64_t lane,
                            struct snib_error *reterr);
/* Its end: err, in the store's words if detail has some of that err. */
void snib__seat_explain(struct snib__seat *, snib_err err,
                        const struct snib_error *detail);
/* Its news are told by what the caller returns. */
void snib__seat_hush(struct snib__seat *);

#endif

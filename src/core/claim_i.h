/* core/claim_i.h — what the rooms of the turn share.
 *
 *   claim.c        states, timers, life, who is served, deadlines
 *   claim_acquire.c    asking the store: ACQUIRE and its answers, adoption
 *   claim_renew.c  keeping: RENEW and its answers, losing
 *   claim_leave.c  ending: pass, yield, RELEASE, CANCEL and their answers
 *
 * The state table is in claim.c. Nobody else includes this. */
#ifndef SNIB__CLAIM_I_H
#define SNIB__CLAIM_I_H

#include "core/engine_i.h"

/* For clock rates: 1 % of the lease + 5 ms (P1). */
snib_duration snib__claim_allowance(snib_duration lease);
/* May this acquisition have the grant? Another lock-delay than the store was told
 * would be a promise that nobody keeps; so would a fixed lease of which the
 * store was told that it ends with our process. s: NULL allowed. */
static inline bool snib__claim_fits(const struct snib__claim *t,
                                    const struct snib__acquisition *s)
{
    return s && s->options.delay.ns == t->delay.ns &&
           (t->outlives || !s->options.fixed);
}

/* Head of the local queue or NULL. */
struct snib__acquisition *
snib__claim_first_waiting(const struct snib__local_lock *local);
/* Set the turn's timer to what its state waits for. */
void snib__claim_arm(struct snib__engine *e, struct snib__claim *t);
/* Renewals are rounded down to a 64th of the lease, so that those of many
 * locks fall due together and travel in one batch. */
snib_instant snib__claim_renewal_of(snib_instant from, snib_duration lease);
/* Not possible now (no memory, store unfit): again a little later. */
void snib__claim_retry_at(struct snib__engine *e, snib_instant now,
                          struct snib__claim *t);
/* Let an answer that is still due come back to nobody. */
void snib__claim_orphan(struct snib__pending **q);
/* The turn is over. Whoever waits gets a new one in its place. */
void snib__claim_over(struct snib__engine *e, snib_instant now,
                      struct snib__claim *t);
/* The grant's state has changed: tell the holder, once. */
void snib__claim_show(struct snib__engine *e, struct snib__claim *t,
                      snib_state state, snib_cause why);
/* The grant is this acquisition's now. */
void snib__claim_serve(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t, struct snib__acquisition *s);
/* Give up what we have or asked for, and wait until it is surely gone. */
void snib__claim_leave(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t);
/* Send the RELEASE or CANCEL of a LEAVING turn. */
void snib__claim_start_end(struct snib__engine *e, snib_instant now,
                           struct snib__claim *t);
/* The holder's acquisition dies; gone: the store says that nothing of ours is left,
 * else it is given back as far as it is there. */
void snib__claim_lose(struct snib__engine *e, snib_instant now,
                      struct snib__claim *t, snib_cause why, bool gone);
/* The adoption has failed. Others who wait by now ask for a grant of their
 * own; nothing is said about the one that was not ours to end. */
void snib__claim_adopt_failed(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, snib_err err,
                              const struct snib_error *detail);
/* The acquire has had its last answer. */
void snib__claim_answered(struct snib__engine *e, struct snib__claim *t);
/* Answers, by the request they belong to. */
void snib__claim_acquire_answered(struct snib__engine *e, snib_instant now,
                                  struct snib__claim *t,
                                  struct snib__pending *q);
void snib__claim_renewal_answered(struct snib__engine *e, snib_instant now,
                                  struct snib__claim *t,
                                  struct snib__pending *q);
/* A LEAVING turn is through: the outcome of the release; detail: of that code,
 * or NULL. */
void snib__claim_ended(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t, snib_err err,
                       const struct snib_error *detail);
void snib__claim_end_answered(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, struct snib__pending *q);

#endif

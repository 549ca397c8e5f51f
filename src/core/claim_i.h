/* core/claim_i.h — what the files of the claim share.
 *
 *   claim.c          states, timers, life, serving, deadlines
 *   claim_acquire.c  asking the store: ACQUIRE and its answers, adoption
 *   claim_renew.c    keeping: RENEW and its answers, losing
 *   claim_leave.c    ending: local hand-over, yield, RELEASE, CANCEL, answers
 *
 * The state table is in claim.c. No other file includes this one. */
#ifndef SNIB__CLAIM_I_H
#define SNIB__CLAIM_I_H

#include "core/engine_i.h"

/* The allowance for clock rates that differ: 1 % of the lease + 5 ms. */
snib_duration snib__claim_allowance(snib_duration lease);
/* May this acquisition have the grant? Not if it wants another lock-delay than
 * the store was told: nobody would keep that promise. Not if it wants a fixed
 * lease and the store was told that the grant ends with our process. s: NULL
 * allowed. */
static inline bool snib__claim_fits(const struct snib__claim *t,
                                    const struct snib__acquisition *s)
{
    return s && s->options.delay.ns == t->delay.ns &&
           (t->outlives || !s->options.fixed);
}

/* The head of the local queue, or NULL. */
struct snib__acquisition *
snib__claim_first_waiting(const struct snib__local_lock *local);
/* Sets the claim's timer to what its state waits for. */
void snib__claim_arm(struct snib__engine *e, struct snib__claim *t);
/* When to renew: after a third of the lease, rounded down to a 64th of it, so
 * that the renewals of many locks fall due together and travel in one batch. */
snib_instant snib__claim_renewal_of(snib_instant from, snib_duration lease);
/* Not possible now (no memory, or the store is unfit): try again a little
 * later. */
void snib__claim_retry_at(struct snib__engine *e, snib_instant now,
                          struct snib__claim *t);
/* An answer that is still due will belong to no claim. */
void snib__claim_orphan(struct snib__pending **q);
/* The claim is over. If acquisitions wait, it asks for a new grant; else it is
 * freed. */
void snib__claim_over(struct snib__engine *e, snib_instant now,
                      struct snib__claim *t);
/* The grant's state has changed: tells the holder, once. */
void snib__claim_show(struct snib__engine *e, struct snib__claim *t,
                      snib_state state, snib_cause why);
/* The grant is this acquisition's now. */
void snib__claim_serve(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t, struct snib__acquisition *s);
/* Gives up what we have or asked for, and waits until it is surely gone. */
void snib__claim_leave(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t);
/* Sends the RELEASE or CANCEL of a LEAVING claim. */
void snib__claim_start_end(struct snib__engine *e, snib_instant now,
                           struct snib__claim *t);
/* The grant is lost, and the holder's acquisition is DEAD. gone: the store says
 * that nothing of ours is left; else it is given back as far as it is there. */
void snib__claim_lose(struct snib__engine *e, snib_instant now,
                      struct snib__claim *t, snib_cause why, bool gone);
/* The adoption has failed. Acquisitions that have come since ask for a grant of
 * their own; the store is told nothing about the detached one, which is not
 * ours to end. */
void snib__claim_adopt_failed(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, snib_err err,
                              const struct snib_error *detail);
/* The acquire has had its last answer. */
void snib__claim_answered(struct snib__engine *e, struct snib__claim *t);
/* The answers, by the request they belong to. */
void snib__claim_acquire_answered(struct snib__engine *e, snib_instant now,
                                  struct snib__claim *t,
                                  struct snib__pending *q);
void snib__claim_renewal_answered(struct snib__engine *e, snib_instant now,
                                  struct snib__claim *t,
                                  struct snib__pending *q);
/* A LEAVING claim has ended: err is the outcome of the release; detail is of
 * that code, or NULL. */
void snib__claim_ended(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t, snib_err err,
                       const struct snib_error *detail);
void snib__claim_end_answered(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, struct snib__pending *q);

#endif

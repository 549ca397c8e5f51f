/* core/turn_i.h — what the rooms of the turn share.
 *
 *   turn.c        states, timers, life, who is served, deadlines
 *   turn_ask.c    asking the store: ACQUIRE and its answers, adoption
 *   turn_renew.c  keeping: RENEW and its answers, losing
 *   turn_leave.c  ending: pass, yield, RELEASE, CANCEL and their answers
 *
 * The state table is in turn.c. Nobody else includes this. */
#ifndef SNIB__TURN_I_H
#define SNIB__TURN_I_H

#include "core/engine_i.h"

/* For clock rates: 1 % of the lease + 5 ms (P1). */
snib_duration snib__turn_allowance(snib_duration lease);
/* May this seat have the grant? Another lock-delay than the store was told
 * would be a promise that nobody keeps; so would a fixed lease of which the
 * store was told that it ends with our process. s: NULL allowed. */
static inline bool snib__turn_fits(const struct snib__turn *t,
                                   const struct snib__seat *s)
{
    return s && s->terms.delay.ns == t->delay.ns &&
           (t->outlives || !s->terms.fixed);
}

/* Head of the local queue or NULL. */
struct snib__seat *snib__turn_first_waiting(const struct snib__site *site);
/* Set the turn's timer to what its state waits for. */
void snib__turn_arm(struct snib__engine *e, struct snib__turn *t);
/* Renewals are rounded down to a 64th of the lease, so that those of many
 * locks fall due together and travel in one batch. */
snib_instant snib__turn_renewal_of(snib_instant from, snib_duration lease);
/* Not possible now (no memory, store unfit): again a little later. */
void snib__turn_retry_at(struct snib__engine *e, snib_instant now,
                         struct snib__turn *t);
/* Let an answer that is still due come back to nobody. */
void snib__turn_orphan(struct snib__inquiry **q);
/* The turn is over. Whoever waits gets a new one in its place. */
void snib__turn_over(struct snib__engine *e, snib_instant now,
                     struct snib__turn *t);
/* The grant's state has changed: tell the holder, once. */
void snib__turn_show(struct snib__engine *e, struct snib__turn *t,
                     snib_state state, snib_reason why);
/* The grant is this seat's now. */
void snib__turn_serve(struct snib__engine *e, snib_instant now,
                      struct snib__turn *t, struct snib__seat *s);
/* Give up what we have or asked for, and wait until it is surely gone. */
void snib__turn_leave(struct snib__engine *e, snib_instant now,
                      struct snib__turn *t);
/* Send the RELEASE or CANCEL of a LEAVING turn. */
void snib__turn_start_end(struct snib__engine *e, snib_instant now,
                          struct snib__turn *t);
/* The holder's seat dies; gone: the store says that nothing of ours is left,
 * else it is given back as far as it is there. */
void snib__turn_lose(struct snib__engine *e, snib_instant now,
                     struct snib__turn *t, snib_reason why, bool gone);
/* The adoption has failed. Others who wait by now ask for a grant of their
 * own; nothing is said about the one that was not ours to end. */
void snib__turn_adopt_failed(struct snib__engine *e, snib_instant now,
                             struct snib__turn *t, snib_err err,
                             const struct snib_error *detail);
/* The acquire has had its last answer. */
void snib__turn_answered(struct snib__engine *e, struct snib__turn *t);
/* Answers, by the request they belong to. */
void snib__turn_asked(struct snib__engine *e, snib_instant now,
                      struct snib__turn *t, struct snib__inquiry *q);
void snib__turn_renewal_answered(struct snib__engine *e, snib_instant now,
                                 struct snib__turn *t, struct snib__inquiry *q);
/* A LEAVING turn is through: the outcome of the release; detail: of that code,
 * or NULL. */
void snib__turn_ended(struct snib__engine *e, snib_instant now,
                      struct snib__turn *t, snib_err err,
                      const struct snib_error *detail);
void snib__turn_end_answered(struct snib__engine *e, snib_instant now,
                             struct snib__turn *t, struct snib__inquiry *q);

#endif

/* core/claim_i.h — what the files of the claim share.
 *
 *   claim_due.c     the claim's timer, in all states
 *   claim_renew.c   keeping: answers to RENEW, risk, loss
 *   claim_refuse.c  an ACQUIRE that is answered otherwise than by a grant
 *   claim_leave.c   ending: local hand-over, yield, answers to the end
 *   claim_keep.c    a released grant is kept for the next owner of this client
 *   claim_adopt.c   detached grants; a wait that moves to an own claim
 *   claim.c         the state table; life, ACQUIRE, joining, a grant, serving
 *   claim_send.c    RENEW, RELEASE and CANCEL are filled
 *   request.c       the requests' memory; the claim's timer is set
 *
 * Calls go down this list and never back. No other file includes this one.
 *
 * Besides the state of a claim (claim.c) there are two small ones, each with a table
 * of its own. `doubt`: what may have become of a send that was not answered.
 * Without one the claim ends by a RELEASE or a yield. With COPIES, by a RELEASE that leaves a tombstone.
 * With OPEN, or while its ACQUIRE is under way, by a CANCEL, since a RELEASE
 * needs a grant that is known.
 *
 * doubt    event                                                      next
 * -------  ---------------------------------------------------------  ------
 * NONE     an ACQUIRE that was sent again is answered                 COPIES
 * NONE,    UNKNOWN to an ACQUIRE, a CANCEL or an adoption; the claim  OPEN
 *   COPIES is to end, without a grant, while something may be there
 * OPEN     a grant                                                    COPIES
 * any      adoption confirmed; end answered; asked anew               NONE
 *
 * `hint`: is the grant said to have been ended by force? Then there is no local
 * hand-over and no yield, and it is confirmed before it is served.
 *
 * hint     event                               next
 * -------  ----------------------------------  --------------------------------
 * any      heard, no renewal under way         HEARD; a held one is asked about
 *          heard, a renewal under way          STALE: its answer is too old
 * HEARD    a renewal shows that it stands      NONE
 * STALE    such an answer, or a new renewal    HEARD; asked again
 * any      asked anew                          NONE
 *
 * And values, which core/check.c ties to the states:
 *
 * says        the nested wait whose owner's grants the ACQUIRE names
 *             (core/nested.c): the first that waits; until it is served, or the
 *             claim is LEAVING
 * prior       token of our own grant that the ACQUIRE ends first (a yield), and
 *             its id; a CANCEL must end it too; until a grant
 * placed      the ACQUIRE was in the store's queue, so something may be there;
 *             until a grant
 * want_renew  a caller waits for the renewal; HELD and RISK only
 * aggressive  the last holder keeps the grant past its deadline
 * outlives    the store knows that the grant does not end with our process;
 *             only then may a fixed lease take it
 * refusals    "no" in a row to an ACQUIRE that was ready to queue
 * asked       "no" in a row to a try, by a client that may merely keep the grant
 * keep_ms     how long it may be kept (core/claim_keep.c), as the store was told
 * wanted      others wait for it, or it is not known that nobody does: until the
 *             next grant it is not kept */
#ifndef SNIB__CLAIM_I_H
#define SNIB__CLAIM_I_H

#include "core/engine_i.h"

/* The allowance for clock rates that differ: 1 % of the lease + 5 ms. */
static inline snib_duration snib__claim_allowance(snib_duration lease)
{
    return (snib_duration){lease.ns / 100 + 5000000};
}

/* The head of the local queue, or NULL. */
static inline struct snib__acquisition *
snib__claim_first_waiting(const struct snib__local_lock *local)
{
    struct snib__link *l = snib__list_first(&local->waiting);
    return l ? SNIB__CONTAINER(l, struct snib__acquisition, link) : NULL;
}

static inline bool snib__claim_is_held(const struct snib__claim *t)
{
    return t->state == SNIB__CLAIM_HELD || t->state == SNIB__CLAIM_RISK;
}

static inline bool snib__claim_is_fixed(const struct snib__claim *t)
{
    return t->holder && t->holder->options.fixed;
}

/* If the ACQUIRE was sent again, note that an earlier copy may yet be
 * executed. */
static inline void snib__claim_note_copies(struct snib__claim *t,
                                           const struct snib__request *rq)
{
    if (rq->resent && !t->doubt) {
        t->doubt = SNIB__DOUBT_COPIES;
    }
}

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

/* An ACQUIRE or CANCEL names the own grant that it ends, too. */
static inline void snib__claim_tell_prior(const struct snib__claim *t,
                                          struct snib__request *rq)
{
    rq->token = t->prior;
    rq->prior_id[0] = t->prior_id[0];
    rq->prior_id[1] = t->prior_id[1];
}

/* -- claim_leave.c -------------------------------------------------------- */

/* A LEAVING claim has ended: err is the outcome of the release; detail is of
 * that code, or NULL. */
void snib__claim_ended(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t, snib_err err,
                       const struct snib_error *detail);

/* -- claim_keep.c --------------------------------------------------------- */

/* The last release of the holder. True: the grant is kept, and the acquisition
 * is freed. */
bool snib__claim_keep(struct snib__engine *, snib_instant now,
                      struct snib__claim *);

/* -- claim_adopt.c -------------------------------------------------------- */

/* The adoption has failed. Acquisitions that have come since ask for a grant of
 * their own; the store is told nothing about the detached one, which is not
 * ours to end. */
void snib__claim_adopt_failed(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t, snib_err err,
                              const struct snib_error *detail);

/* -- claim.c -------------------------------------------------------------- */

/* The local lock, which has none, gets a claim. NOMEM. */
snib_err snib__claim_new(struct snib__engine *, struct snib__local_lock *);
/* The claim is over. If acquisitions wait, it asks for a new grant; else it is
 * freed. */
void snib__claim_anew_or_free(struct snib__engine *e, snib_instant now,
                              struct snib__claim *t);
/* Asks the store on behalf of the waiting acquisitions. prior: our own grant
 * that the same step ends first (a yield), or 0. */
void snib__claim_send_acquire(struct snib__engine *, snib_instant now,
                              struct snib__claim *, int64_t prior);
/* Gives back the memory of the ACQUIRE, which has had its last answer or is not
 * sent at all. */
void snib__claim_drop_acquire(struct snib__engine *e, struct snib__claim *t);
/* A new acquisition of the local lock, which gets a claim if it has none. NULL:
 * no memory. */
struct snib__acquisition *
snib__claim_acquisition(struct snib__engine *, struct snib__local_lock *,
                        const struct snib__acquire_spec *);
/* When to renew: after a third of the lease, rounded down to a multiple of a
 * 64th of the lease, so that the renewals of many locks fall due together and
 * travel in one batch. */
snib_instant snib__claim_renewal_of(snib_instant from, snib_duration lease);
/* Refuses the waiting acquisitions that only try: another owner of this client
 * has the lock, or has it still. */
void snib__claim_refuse_tries(struct snib__engine *, struct snib__local_lock *);
/* The grant is this acquisition's now. */
void snib__claim_serve(struct snib__engine *e, snib_instant now,
                       struct snib__claim *t, struct snib__acquisition *s);

/* -- claim_send.c --------------------------------------------------------- */

/* Gives up what we have or asked for, and waits until it is surely gone. */
void snib__claim_send_end(struct snib__engine *e, snib_instant now,
                          struct snib__claim *t);
/* The same of a grant that nobody was told of: nobody can still act under it, so
 * its lock-delay is ended with it. */
void snib__claim_end_untold(struct snib__engine *e, snib_instant now,
                            struct snib__claim *t);
/* Sends the RELEASE or CANCEL of a LEAVING claim. */
void snib__claim_start_end(struct snib__engine *e, snib_instant now,
                           struct snib__claim *t);

/* -- request.c ------------------------------------------------------------ */

/* Sets the claim's timer to what its state waits for. */
void snib__claim_arm(struct snib__engine *e, struct snib__claim *t);
/* Not possible now (no memory, or the store is unfit): try again a little
 * later. */
void snib__claim_retry_at(struct snib__engine *e, snib_instant now,
                          struct snib__claim *t);
/* An answer that is still due will belong to no claim. */
void snib__claim_orphan(struct snib__pending **q);

#endif

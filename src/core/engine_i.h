/* core/engine_i.h — what the files of the engine ask of each other; only core/
 * includes it. The objects that they share: core/objects_i.h. */
#ifndef SNIB__ENGINE_I_H
#define SNIB__ENGINE_I_H

#include "core/objects_i.h"

/* request.c */
snib_err snib__pending_init(struct snib__engine *);
void snib__pending_free(struct snib__engine *);
struct snib__pending *snib__pending_get(struct snib__engine *,
                                        struct snib__local_lock *);
void snib__pending_put(struct snib__engine *, struct snib__pending *);
void snib__pending_start(struct snib__engine *, struct snib__pending *);
/* Writes down for a witness what the claim has at the store from now on. */
void snib__claim_note(struct snib__engine *, struct snib__claim *);

/* direct.c */
snib_err snib__direct_start(struct snib__engine *, snib_instant now,
                            struct snib__direct *);
/* A direct request (INSPECT or a verb after it) is answered, and its caller
 * told. True: it was the scan of core/cycles.c, which is to be told yet. */
bool snib__direct_answer(struct snib__engine *, snib_instant now,
                         struct snib__pending *);

/* batch.c */
/* The batch is complete: its requests go, or are refused. */
void snib__batch_end(struct snib__engine *, enum snib__batch_way);
/* The acquire of s joins the open batch, if there is one and it can. */
void snib__batch_join(struct snib__engine *, struct snib__acquisition *);

/* heard.c */
/* Takes what an input has brought besides answers, mostly nothing. */
void snib__heard_all(struct snib__engine *, snib_instant now);
static inline void snib__heard(struct snib__engine *e, snib_instant now)
{
    const struct snib__out *o = &e->out;
    if (o->moved || o->missed || o->stuck || o->wanted_all || o->ended_count ||
        o->wanted_count || e->keeps) {
        snib__heard_all(e, now);
    }
}
/* Of that, after a tick of the store: who waits for what is kept, and renewals
 * that cannot be sent. */
void snib__heard_wanted(struct snib__engine *, snib_instant now);
void snib__heard_stuck(struct snib__engine *);
/* What is kept goes back. */
void snib__heard_give_back_all(struct snib__engine *, snib_instant now);

/* What the entry points of core/engine.c call. Each does what engine.h says of
 * the entry point of its name, but sends nothing yet. */
/* acquire.c */
/* Loses grants of this name whose deadline is past. True: there was one. */
bool snib__owner_check(struct snib__engine *, snib_instant now,
                       struct snib__local_lock *);
/* May a lease be so long at this store? */
snib_err snib__lease_fits(const struct snib__engine *, snib_duration lease,
                          snib_duration delay, struct snib_error *reterr);
snib_err snib__owner_acquire(struct snib__engine *, snib_instant now,
                             struct snib__local_lock *,
                             const struct snib__acquire_spec *,
                             struct snib__acquisition **ret,
                             struct snib_error *reterr);
snib_err snib__owner_adopt(struct snib__engine *, snib_instant now,
                           struct snib__local_lock *,
                           const struct snib__acquire_spec *,
                           const uint64_t id[2], int64_t token,
                           struct snib__acquisition **ret,
                           struct snib_error *reterr);
/* release.c */
snib_err snib__grant_release(struct snib__engine *, snib_instant now,
                             uint64_t ticket, uint64_t owner,
                             struct snib_error *later, void *user,
                             struct snib__acquisition **ret,
                             struct snib_error *reterr);
snib_err snib__grant_renew(struct snib__engine *, snib_instant now,
                           uint64_t ticket, snib_duration lease,
                           struct snib__acquisition **ret,
                           struct snib_error *reterr);
snib_err snib__grant_id(struct snib__engine *, snib_instant now,
                        uint64_t ticket, bool fixed, uint64_t ret_id[2],
                        int64_t *ret_token, struct snib_error *reterr);
snib_err snib__grant_detach(struct snib__engine *, snib_instant now,
                            uint64_t ticket, uint64_t owner,
                            struct snib_error *reterr);

/* request.c */
/* Has the limit of its ACQUIRE come, before a worker of the store has sent
 * anything of it? Then nothing of it will be sent. *ret: what kept it. */
bool snib__claim_unsent(const struct snib__engine *, snib_instant now,
                        const struct snib__claim *, struct snib__unsent *ret);

/* unreachable.c */
/* For a caller whose limit has passed before the store granted it anything:
 * fills ret with why, or with the store's own trouble if it cannot be reached.
 * Returns ret->code. */
snib_err snib__engine_late(const struct snib__engine *, snib_instant now,
                           snib_err why, struct snib_error *ret);

/* The same where a worker of the store has sent nothing of the request, and will
 * not. */
snib_err snib__engine_unsent(const struct snib__engine *, snib_instant now,
                             const struct snib__unsent *, snib_err why,
                             struct snib_error *ret);

/* UNKNOWN, with the store's trouble in the text if it cannot be reached. */
snib_err snib__engine_unsure(const struct snib__engine *, snib_instant now,
                             struct snib_error *ret);

/* local_lock.c */
/* A local lock for an own claim, below the given one. NULL: no memory. */
struct snib__local_lock *snib__own_lock_new(struct snib__engine *,
                                            struct snib__local_lock *);
/* Nothing refers to it any more. */
void snib__local_lock_free(struct snib__engine *, struct snib__local_lock *);
static inline void snib__local_lock_drop(struct snib__engine *e,
                                         struct snib__local_lock *s)
{
    if (--s->refs == 0) {
        snib__local_lock_free(e, s);
    }
}
/* NULL: nothing refers to that name. */
struct snib__local_lock *snib__local_lock_find(const struct snib__engine *,
                                               const struct snib__name *);
snib_err snib__local_locks_init(struct snib__engine *);
void snib__local_locks_free(struct snib__engine *);

/* acquisition.c */
/* A new acquisition that will wait. NULL: no memory. */
struct snib__acquisition *
snib__acquisition_new(struct snib__engine *, struct snib__local_lock *,
                      const struct snib__acquire_spec *);
/* It queues behind the acquisitions of its rank and of higher ones, and behind
 * one that adopts, which stays first. timed: its timer is its limit. */
void snib__acquisition_queue_up(struct snib__engine *,
                                struct snib__acquisition *, bool timed);
/* Writes the text that others are shown of a request for it. True: the text
 * says what its owner holds. */
bool snib__acquisition_about(const struct snib__engine *, snib_instant now,
                             const struct snib__acquisition *,
                             struct snib__buf *out);
/* The request id of its owner's other grant, which is not in the way. False:
 * that grant is over by now. */
bool snib__acquisition_upgrade_of(struct snib__engine *,
                                  const struct snib__acquisition *,
                                  uint64_t ret[2]);
/* Drops its news: the caller returns them at once. */
void snib__acquisition_untell(struct snib__acquisition *);
void snib__acquisition_tell(struct snib__engine *, struct snib__acquisition *,
                            uint8_t news);
void snib__acquisition_refuse(struct snib__engine *, struct snib__acquisition *,
                              snib_err, const struct snib_error *detail);
void snib__acquisition_gone(struct snib__engine *, struct snib__acquisition *,
                            snib_err, const struct snib_error *detail);
void snib__acquisition_free(struct snib__engine *, struct snib__acquisition *);
/* A WAITING acquisition, the last one of its claim, is about to be ended. True:
 * it stays as LEAVING until the store has confirmed the end, to be refused with
 * err then; if that takes too long it is refused with UNKNOWN (unsure) or with
 * err. False: it need not or must not wait. */
bool snib__acquisition_start_leaving(struct snib__engine *, snib_instant now,
                                     struct snib__acquisition *, snib_err,
                                     bool unsure);
/* A LEAVING acquisition ends: the end of its request is confirmed, or too long
 * nothing was heard of it. */
void snib__acquisition_left(struct snib__engine *, struct snib__acquisition *,
                            bool confirmed);
/* The store says that it granted this acquisition that token, which is not to
 * be held any more. True: to have been granted is all it wanted (`passes`), and
 * it is told so. s: NULL allowed; neither WAITING nor LEAVING: false. */
bool snib__acquisition_had(struct snib__engine *, snib_instant now,
                           struct snib__acquisition *, int64_t token);
/* The outcome of a LEAVING acquisition. */
snib_err snib__acquisition_outcome(const struct snib__acquisition *,
                                   bool confirmed);
/* It does not wait any more for the end of its claim; others may. */
void snib__acquisition_awaits_no_end(struct snib__acquisition *);

/* leave.c */
snib_err snib__acquisition_give_up_now(struct snib__engine *, snib_instant now,
                                       struct snib__acquisition *,
                                       snib_err why);
snib_err snib__acquisition_give_up(struct snib__engine *, snib_instant now,
                                   struct snib__acquisition *, snib_err why,
                                   struct snib_error *ret);
void snib__acquisition_due(struct snib__engine *, snib_instant now,
                           struct snib__acquisition *);
/* Refuse it with DEADLOCK; it leaves the queue. */
void snib__acquisition_deadlock(struct snib__engine *, snib_instant now,
                                struct snib__acquisition *,
                                const struct snib_error *);

/* explain.c */
/* Keeps what the store said of a renewal. (Not for a RENEW that only asks
 * whether a fixed lease stands: it extends nothing, so its failure ends
 * nothing.) s NULL, text NULL or "": does nothing. */
void snib__acquisition_trouble(struct snib__acquisition *s, const char *text);
/* A renewal succeeded: forget that text. s: NULL allowed. */
void snib__acquisition_recovered(struct snib__acquisition *s);
/* The text of a forced release, who and why, for the holders that it ends. */
void snib__explain_force(const struct snib__about *by, const char *reason,
                         struct snib__buf *out);
/* Drops what a cut has left of a UTF-8 character at the end. */
void snib__explain_drop_half(char *text);
/* Makes of that text the error of a release: LOST, one line, which begins with
 * "revoked". */
void snib__explain_revoked(struct snib_error *);

/* nested.c */
/* Does this owner hold anything of this client? */
bool snib__nested_holds(const struct snib__engine *, uint64_t owner);
/* Is this owner in a nested wait, whose request tells others what it holds, or
 * will do so? */
bool snib__nested_waits(const struct snib__engine *, uint64_t owner);
/* Does the request of s, as it was last sent, tell others what its owner
 * holds? */
static inline bool snib__nested_says(const struct snib__acquisition *s)
{
    return s->local->claim && s->local->claim->says == s;
}
/* Writes what the owner of s, a nested wait, holds, for others to see. Nothing:
 * it must not say it. */
void snib__nested_about(const struct snib__engine *,
                        const struct snib__acquisition *s,
                        struct snib__about *);
/* The request of its claim, which is about to be sent, says what the owner of s
 * holds. */
void snib__nested_said(struct snib__acquisition *s);
/* s waits, and its owner holds something. */
void snib__nested_enter(struct snib__engine *, snib_instant now,
                        struct snib__acquisition *s);
/* s waits no longer. */
static inline void snib__nested_leave(struct snib__acquisition *s)
{
    snib__unlink(&s->nested);
    if (snib__nested_says(s)) {
        s->local->claim->says = NULL;
    }
}

/* move.c */
/* When the next nested wait is to leave its local queue. */
snib_instant snib__moves_due(const struct snib__engine *);
void snib__moves_tick(struct snib__engine *, snib_instant now);

/* cycles.c */
void snib__cycles_init(struct snib__engine *);
void snib__cycles_free(struct snib__engine *);
snib_instant snib__cycles_due(const struct snib__engine *);
void snib__cycles_tick(struct snib__engine *, snib_instant now);
/* The scan is answered. sent: when it was sent; 0: not known. */
void snib__cycles_answer(struct snib__engine *, snib_instant now,
                         snib_instant sent);
static inline bool snib__cycles_is_mine(const struct snib__engine *e,
                                        const struct snib__direct *q)
{
    return q == &e->cycles.direct;
}

/* claim.c */
/* A new acquisition waits at this local lock; its claim, a new one if there was
 * none, asks for it too. upgrade_of: the ticket of the owner's grant that is
 * not in the way, or 0. nested: its owner holds something. NULL: no memory. */
struct snib__acquisition *snib__claim_join(struct snib__engine *,
                                           snib_instant now,
                                           struct snib__local_lock *,
                                           const struct snib__acquire_spec *,
                                           uint64_t upgrade_of, bool nested);
/* The ACQUIRE of a claim is answered DONE. */
void snib__claim_granted(struct snib__engine *, snib_instant now,
                         struct snib__claim *, const struct snib__request *);

/* claim_keep.c */
/* An owner of this client asks for what is KEPT here, by the claim of the name:
 * it is served at once, or the store is asked to end the grant and to give
 * another one in the same step. NULL: no memory, and nothing has changed. */
struct snib__acquisition *snib__claim_take(struct snib__engine *,
                                           snib_instant now,
                                           struct snib__local_lock *,
                                           const struct snib__acquire_spec *,
                                           bool nested);
/* Would that owner be served at once with what is KEPT here? */
bool snib__claim_keep_serves(const struct snib__claim *, snib_instant now,
                             const struct snib__acquire_spec *);
/* A KEPT grant goes back to the store. */
void snib__claim_give_back(struct snib__engine *, snib_instant now,
                           struct snib__claim *);
/* Somebody waits for this grant: it is not kept. */
void snib__claim_wanted(struct snib__engine *, snib_instant now,
                        struct snib__claim *);

/* claim_adopt.c */
/* The acquisition, which waits at the local lock of its name, goes to an own
 * claim, which asks for it. The claim that it leaves stays as it is, even if
 * nobody waits for it any more. False: no memory, and nothing has changed. */
bool snib__claim_move(struct snib__engine *, snib_instant now,
                      struct snib__acquisition *);
/* A new acquisition adopts a detached grant: a new claim has it confirmed.
 * NULL: no memory. */
struct snib__acquisition *
snib__claim_adopt(struct snib__engine *, snib_instant now,
                  struct snib__local_lock *, const struct snib__acquire_spec *,
                  const uint64_t id[2], int64_t token);
/* A claim that ends what a dead client of our id has left at this name. False: no
 * memory. */
bool snib__claim_end_left(struct snib__engine *, snib_instant now,
                          struct snib__local_lock *,
                          const struct snib__registry_record *, int64_t late);
/* Detaches the grant: frees the holder's acquisition, tells the store
 * nothing. */
void snib__claim_detach(struct snib__engine *, snib_instant now,
                        struct snib__claim *);

/* claim_refuse.c */
/* It is answered otherwise. */
void snib__claim_not_granted(struct snib__engine *, snib_instant now,
                             struct snib__claim *, struct snib__pending *);

/* claim_due.c */
/* The claim's timer has come. */
void snib__claim_due(struct snib__engine *, snib_instant now,
                     struct snib__claim *);

/* claim_renew.c */
void snib__claim_renewal_answered(struct snib__engine *, snib_instant now,
                                  struct snib__claim *, struct snib__pending *);
/* Somebody may have ended the grant: ask by a renewal, if it is held. */
void snib__claim_hint(struct snib__engine *, snib_instant now,
                      struct snib__claim *);
/* Another server answers than the one that granted it: the grant is at risk, and
 * the store is asked about it. */
void snib__claim_moved(struct snib__engine *, snib_instant now,
                       struct snib__claim *);
/* Why a grant is lost whose deadline has come. */
snib_cause snib__claim_cause(const struct snib__claim *);
/* Loses the grant if its deadline or hold limit is past, and gives back one that
 * was kept for long enough. True: it was lost, or given back, now. */
bool snib__claim_check(struct snib__engine *, snib_instant now,
                       struct snib__claim *);
/* The grant is at risk, for this cause; unless a renewal is under way, one asks
 * the store whether it stands. */
void snib__claim_risk_and_ask(struct snib__engine *, snib_instant now,
                              struct snib__claim *, snib_cause);
/* A renewal fails: the grant is at risk, and if nothing else comes it will be
 * lost as UNREACHABLE. Asks nothing. */
void snib__claim_mark_failing(struct snib__engine *, struct snib__claim *);

/* claim_leave.c */
/* The holder gave back its last hold: hand over locally, yield or leave. If the
 * store has to answer, the acquisition is ENDING and false is returned; else it
 * is freed and true returned. */
bool snib__claim_release(struct snib__engine *, snib_instant now,
                         struct snib__claim *);
/* No acquisition waits any more for a claim that was not granted yet, or the
 * one that adopts has left. */
void snib__claim_give_up(struct snib__engine *, snib_instant now,
                         struct snib__claim *);
/* The ACQUIRE that a LEAVING claim cancels is answered. The cancel's answer
 * counts, not this one; but an acquisition with `passes` is served by having
 * been granted. */
void snib__claim_overtaken(struct snib__engine *, snib_instant now,
                           struct snib__claim *, struct snib__pending *);
void snib__claim_end_answered(struct snib__engine *, snib_instant now,
                              struct snib__claim *, struct snib__pending *);

/* claim_send.c */
void snib__claim_send_renew(struct snib__engine *, snib_instant now,
                            struct snib__claim *);
/* Held exclusively, and renewed: may it be set again where the store has
 * forgotten it? Ask for that. */
bool snib__claim_may_reclaim(snib_instant now, const struct snib__claim *);
void snib__claim_send_reclaim(struct snib__engine *, snib_instant now,
                              struct snib__claim *);

#endif

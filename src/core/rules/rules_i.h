/* core/rules/rules_i.h — what the files of this folder share: the verbs, what
 * several of them do, and the question of who may hold. No other file includes
 * this. */
#ifndef SNIB__RULES_I_H
#define SNIB__RULES_I_H

#include "base/unset.h"
#include "core/rules/rules.h"

static inline bool snib__same_id(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

static inline bool snib__is_id(const uint64_t id[2])
{
    return id[0] || id[1];
}

static inline snib_duration snib__push_lease(snib_duration lease)
{
    snib_duration c = snib__ms(SNIB__PUSH_LEASE_MS);
    return lease.ns < c.ns ? lease : c;
}

static inline bool snib__rules_excludes(const struct snib__stored_claim *c)
{
    return c->kind == SNIB_KIND_MUTEX || c->kind == SNIB_KIND_WRITE;
}

/* A survey notes so many slots. To see slots beyond them the holders are
 * scanned again. */
#define SNIB__SLOT_WORDS 4
#define SNIB__SLOTS      (SNIB__SLOT_WORDS * 64)

/* The holders of a name, as far as they matter to other claims. */
struct snib__standing {
    struct snib__params params;
    uint32_t count;     /* of holders */
    int64_t permits;    /* in use */
    bool sole;          /* one of the holders is exclusive, and */
    uint64_t holder[2]; /* this is its request */
    bool keeps; /* it held before this step, and its client may keep it */
    snib_instant till; /* when the first holder ends; NEVER: nobody holds */
    uint64_t slots[SNIB__SLOT_WORDS]; /* of permits: a bit for each taken */
    uint32_t slot; /* set by walk: the slot that the asker gets */
};

/* Drop dead holders and count the others. asker: also drop holders whose
 * process has ended, except this request's own claim; NULL: ask about no
 * process. */
void snib__rules_survey(struct snib__book *, const struct snib__name *,
                        const struct snib__request *asker,
                        struct snib__standing *ret);
/* Remove a holder's claim, exclusive or shared. */
void snib__rules_drop(struct snib__book *, const struct snib__name *,
                      const struct snib__stored_claim *);
/* Have the lease and the lock-delay of this claim passed? */
bool snib__rules_is_over(const struct snib__book *,
                         const struct snib__stored_claim *);
/* Does this request hold, with its lease still running? */
bool snib__rules_stands(struct snib__book *, const struct snib__name *,
                        const uint64_t request[2]);
/* Grant the name to the waiters that it fits, in the order of the queue. me:
 * the asker's claim, NULL: none. The walk does not grant it but returns true,
 * with its slot in the standing and, for a barrier, the token in ret_shared. A
 * claim that is not in the queue yet (id 0) stands behind the waiters of its
 * rank; an upgrade that fits is ahead of all. stays: the asker will wait if it
 * does not fit. An asker that will not wait keeps no other waiter from being
 * granted. */
bool snib__rules_walk(struct snib__book *, const struct snib__name *,
                      struct snib__standing *,
                      const struct snib__stored_claim *me, bool stays,
                      int64_t *ret_shared);
/* Make a holder of this claim; the caller then writes it into the book. shared:
 * the token of those that are granted together, 0: it is drawn now and stored
 * there; NULL: the claim gets a token for itself. */
void snib__rules_hold(struct snib__book *, const struct snib__name *,
                      struct snib__stored_claim *, snib_duration lease,
                      int64_t *shared);
/* Drop dead holders and grant; where some share the name and nobody waits,
 * nothing. Afterwards the name fits no live waiter that is first in the
 * queue. */
void snib__rules_settle(struct snib__book *, const struct snib__name *);

/* -- verbs ----------------------------------------------------------------- */

void snib__rules_acquire(struct snib__book *, struct snib__request *);
void snib__rules_force(struct snib__book *, struct snib__request *);
void snib__rules_params(struct snib__book *, struct snib__request *);

/* -- what several of them do (rules_answer.c) ------------------------------ */

void snib__rules_answer(struct snib__request *, snib__answer, snib_err);
/* DONE: this claim is granted. The lease counts from `from`. */
void snib__rules_granted(struct snib__request *,
                         const struct snib__stored_claim *, snib_instant from,
                         snib_duration left);
/* NO: the claim was ended by force; the words are its note. */
void snib__rules_revoked(struct snib__request *,
                         const struct snib__stored_claim *);
/* Leave a tombstone for the request. done: the answer to a repeat of a PARAMS.
 * granted: the token that a repeat of a CANCEL is told, or 0. */
void snib__rules_tombstone(struct snib__book *, const struct snib__request *,
                           bool done, int64_t granted);
/* End `prior`, the client's own earlier grant on this name, in the same
 * step. */
void snib__rules_end_prior(struct snib__book *, const struct snib__request *);
/* A grant that still stands, asked for again or renewed: its lease starts anew,
 * so that the client may count its deadline from the sending of this very
 * copy. */
void snib__rules_rearm(struct snib__book *, struct snib__request *,
                       struct snib__stored_claim *);

#endif

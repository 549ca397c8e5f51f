/* store/memory/claims_i.h — what the verbs (claims.c) and who may hold
 * (claims_fit.c) share. Nobody else includes this. */
#ifndef SNIB__RULES_I_H
#define SNIB__RULES_I_H

#include "store/memory/claims.h"

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
    return c->kind == SNIB_MUTEX || c->kind == SNIB_WRITE;
}

/* So many slots are seen in one survey; for more the holders are gone through
 * again. */
#define SNIB__SLOT_WORDS 4
#define SNIB__SLOTS      (SNIB__SLOT_WORDS * 64)

/* Who holds a name, as far as it matters to others. */
struct snib__standing {
    struct snib__params params;
    uint32_t count;     /* of holders                                        */
    int64_t permits;    /* in use                                            */
    bool sole;          /* an exclusive one is among them:                   */
    uint64_t holder[2]; /* this request                                      */
    bool blocked;       /* a live waiter did not fit                         */
    snib_instant till;  /* the earliest end; NEVER: nobody holds             */
    uint64_t slots[SNIB__SLOT_WORDS]; /* of permits: bits of those taken     */
    uint32_t slot; /* walk: what the asker gets                         */
};

/* Drop dead holders, count the others. look: also those whose process has
 * ended; NULL: not. */
void snib__rules_survey(struct snib__book *, const struct snib__name *,
                        const struct snib__request *look,
                        struct snib__standing *ret);
/* The end of a holder, whatever it held. */
void snib__rules_drop(struct snib__book *, const struct snib__name *,
                      const struct snib__stored_claim *);
/* Its lease and its lock-delay have passed. */
bool snib__rules_is_over(const struct snib__book *,
                         const struct snib__stored_claim *);
/* Does this grant stand? */
bool snib__rules_stands(struct snib__book *, const struct snib__name *,
                        const uint64_t request[2]);
/* Grant the name to whom it fits, in order. me: the claim of the asker, which
 * is not granted here but told by true, with its slot (NULL: none); one that has no place in
 * the queue (id 0) stands behind those of its class (a barrier's party behind
 * all), or before them when it has a grant beside. stays: it will wait; one
 * that will not keeps nobody else waiting. */
bool snib__rules_walk(struct snib__book *, const struct snib__name *,
                      struct snib__standing *,
                      const struct snib__stored_claim *me, bool stays,
                      int64_t *ret_shared);
/* Make a holder of this claim; the caller writes it into the book. shared: the
 * token of those who are granted together; 0: none yet; NULL: its own. */
void snib__rules_hold(struct snib__book *, const struct snib__name *,
                      struct snib__stored_claim *, snib_duration lease,
                      int64_t *shared);
/* After this nobody waits whom the name fits. */
void snib__rules_settle(struct snib__book *, const struct snib__name *);

#endif

/* api/membership_i.h — what membership.c and membership_start.c share. */
#ifndef SNIB__MEMBERSHIP_I_H
#define SNIB__MEMBERSHIP_I_H

#include "api/api.h"
#include "snib/inspect.h"
#include "snib/ring.h"

struct snib_ring_membership {
    struct snib_lock *lock;
    struct snib_grant grant; /* ticket 0: not held yet */
    char id[SNIB_RING_MEMBER_ID_MAX + 1];
};

/* Check the arguments, copy the options, and make a membership that holds
 * nothing and has no lock yet. *ret is NULL. Errors: USAGE, NOMEM. */
snib_err snib__membership_new(struct snib_client *, const char *name,
                              const char *id, const struct snib_ring_options *,
                              struct snib_ring_membership **ret,
                              struct snib_ring_options *ret_options,
                              struct snib_ring_membership **ret_new,
                              struct snib_error *reterr);
/* Make its lock, and say how that is acquired. Errors: those of
 * snib_lock_new. */
snib_err snib__membership_open(struct snib_client *, const char *name,
                               size_t size, const struct snib_ring_options *,
                               struct snib_ring_membership *,
                               struct snib_acquire_options *ret,
                               struct snib_error *reterr);
/* The lock is held: does the membership have what it needs? Errors: BUSY,
 * LIMIT. */
snib_err snib__membership_check(const struct snib_view *,
                                const struct snib_ring_membership *,
                                struct snib_error *reterr);
/* Free it with its lock; what it holds is given back in the background. */
void snib__membership_free(struct snib_ring_membership *);

#endif

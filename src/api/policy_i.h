/* api/policy_i.h — what policy.c and policy_start.c share. */
#ifndef SNIB__POLICY_I_H
#define SNIB__POLICY_I_H

#include "snib/policy.h"

/* Check the arguments, and copy the policy. body: there is one. Errors:
 * USAGE. */
snib_err snib__policy_read(struct snib_client *,
                           const struct snib_policy *given, bool body,
                           struct snib_policy *ret, struct snib_error *reterr);
/* Make the name and its handle. Errors: USAGE, those of snib_lock_new. */
snib_err snib__policy_open_lock(struct snib_client *,
                                const struct snib_policy *,
                                const char *const pairs[],
                                struct snib_lock **ret,
                                struct snib_error *reterr);

/* What the grant was when body had run. */
struct snib__policy_end {
    bool lost;
    char why[212]; /* fits into the text of an error, with words before it */
};
void snib__policy_at_end(struct snib_lock *, struct snib_grant,
                         struct snib__policy_end *ret);
/* The outcome, by that and by what the release said. */
snib_err snib__policy_outcome(const struct snib__policy_end *,
                              const struct snib_error *released,
                              struct snib_error *reterr);
/* The acquire failed so: is something run all the same? What it returned. */
bool snib__policy_runs_busy(const struct snib_policy *, snib_err);
int snib__policy_run_busy(const struct snib_policy *,
                          const struct snib_error *why,
                          int (*body)(void *, struct snib_grant), void *data);

#endif

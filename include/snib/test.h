/* snib/test.h — switches of the memory: store, for users' own tests.
 *
 * A client of "memory:NAME?clock=virtual" takes its time from the space NAME,
 * which all such clients of this process share. That time stands still until
 * snib_test_advance moves it. Without ?clock=virtual the real clock is used and
 * snib_test_advance is refused. All functions: any thread.
 *
 * Errors common to all: USAGE (the client's store is not memory:; an argument),
 * FORKED. */
#ifndef SNIB_TEST_H
#define SNIB_TEST_H

#include "snib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Move the space's clock forward, and do what became due in all its clients
 * (threaded clients do it on their background thread, shortly after). Errors:
 * those common to all. */
SNIB_API SNIB_CHECK snib_err snib_test_advance(struct snib_client *,
                                               int64_t ms);

/* Lose the next n answers to this client, after the request was done. Errors:
 * those common to all. */
SNIB_API SNIB_CHECK snib_err snib_test_drop_replies(struct snib_client *,
                                                    uint32_t n);

/* Let the space forget all locks and values, as a server does that is killed and
 * has kept nothing; tokens go on rising. All its clients are told at once, as by
 * broken connections: what they hold is lost (FORGOTTEN), unless somebody has
 * been quicker (STOLEN); who waits asks anew; where they are wanted there is a
 * SNIB_EVENT_STORE_CHANGED. Errors: those common to all. */
SNIB_API SNIB_CHECK snib_err snib_test_restart(struct snib_client *);

/* End the lease of this name in the store now, as if it had run out. Errors:
 * those common to all, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_test_expire(struct snib_client *,
                                              const char *name);

/* Let an imaginary other owner take the name now, for lease_ms. Errors: those
 * common to all, NOMEM. */
SNIB_API SNIB_CHECK snib_err snib_test_steal(struct snib_client *,
                                             const char *name,
                                             int64_t lease_ms);

#ifdef __cplusplus
}
#endif
#endif

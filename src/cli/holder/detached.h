/* detached.h — grants of snib acquire --detached: no holder process has them,
 * so the store is asked. */
#ifndef SNIB_CLI_LEFT_H
#define SNIB_CLI_LEFT_H

#include "cli/holder/grantfile.h"

/* The store is that of grantfile_args. */

/* Returns the exit status; an error is said. CLI_LOST: the lease had ended
 * before. */
int detached_release(const struct cli_args *, const struct grantfile *);
/* The same; lease_ms 0: as acquired. */
int left_renew(const struct cli_args *, const struct grantfile *,
               int64_t lease_ms, int64_t *ret_deadline_ns);
/* *ret: until when the grant surely lasts (CLOCK_BOOTTIME, ns), by the store's
 * answer of now; 0: it has ended (said, unless --quiet), or that is not
 * known (said). The exit status says why the store could not be asked. */
int detached_deadline(const struct cli_args *, const struct grantfile *,
                      int64_t *ret);

#endif

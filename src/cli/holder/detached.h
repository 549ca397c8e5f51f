/* detached.h — grants of snib acquire --detached: nobody watches them, the store
 * is asked. */
#ifndef SNIB_CLI_LEFT_H
#define SNIB_CLI_LEFT_H

#include "cli/holder/grantfile.h"

/* The store asked is that of grantfile_args. */

/* The exit status; what is wrong is said. CLI_LOST: it had ended before. */
int left_release(const struct cli_args *, const struct grantfile *);
/* The same; lease_ms 0: as acquired. */
int left_renew(const struct cli_args *, const struct grantfile *,
               int64_t lease_ms, int64_t *ret_deadline_ns);
/* Until when it surely is ours (CLOCK_BOOTTIME, ns), by the store's word of
 * now; 0: it is not (said, unless --quiet), or nobody vouches (said). */
int64_t left_deadline(const struct cli_args *, const struct grantfile *);

#endif

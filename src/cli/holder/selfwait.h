/* selfwait.h — a wait for what the command's own snib run holds: snib wait,
 * latch --await and barrier, which acquire nothing. (Those that acquire:
 * holder_nested.c.) And whether there is such a run at all. */
#ifndef SNIB_CLI_SELFWAIT_H
#define SNIB_CLI_SELFWAIT_H

#include <stdbool.h>

#include "cli/cli.h"

/* Would a wait until that kind can be had end only after the process that
 * waits? CLI_USAGE, said, where it runs inside a snib run that holds the name
 * in this store in a kind that excludes the other. Of a script's own snib
 * acquire only that is said, unless --quiet: the script may release while this
 * process waits in the background. Takes half a second at most for each holder
 * that SNIB_HELD names for it. */
int selfwait_check(const struct cli_args *, const struct snib_client *,
                   const char *name, snib_kind asked);

/* Does this process run inside the command of a snib run, which ends all that
 * the command leaves behind? False where that cannot be seen. Takes half a
 * second at most for each holder that SNIB_HELD names. */
bool selfwait_is_inside_run(void);

#endif

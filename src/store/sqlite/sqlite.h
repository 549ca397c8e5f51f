/* store/sqlite/sqlite.h — locks in a file of this host: the embedded store.
 *
 * "sqlite:PATH"; an empty path is the default file. Several processes of one
 * user, or of one group, share it on one host, without a server. docs/SQLITE.md
 * describes the file, the clock and what is promised. */
#ifndef SNIB__SQLITE_H
#define SNIB__SQLITE_H

#include "core/store.h"

extern const struct snib__blocking_ops snib__sqlite_ops;

/* The default file: for root /var/lib/snib/locks.db, for others <home from the
 * password database>/.local/state/snib/locks.db. The environment never counts:
 * a job of cron and a shell must meet in one file. Makes nothing; open() makes
 * the directories, 0700. If root has made a directory for a group, its members
 * have one file there, unless this user still uses his own file (CONFIG).
 * Errors: CONFIG (that; no entry in the password database, no home, too long
 * for size; it cannot be told who shares), LIMIT, NOMEM, STORE. */
snib_err snib__sqlite_default_path(char *ret, size_t size,
                                   struct snib_error *reterr);

#endif

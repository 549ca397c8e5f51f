/* store/sqlite/sqlite.h — locks in a file of this host: the embedded store.
 *
 * "sqlite:PATH"; an empty path is the default file. Several processes of one
 * user on one host share it; no server. See docs/SQLITE.md for the file, the
 * clock and what is promised. */
#ifndef SNIB__SQLITE_H
#define SNIB__SQLITE_H

#include "core/store.h"

extern const struct snib__blocking_ops snib__sqlite_ops;

/* Where the file is when nobody says: root /var/lib/snib/locks.db, others
 * <home from the password database>/.local/state/snib/locks.db. Never from
 * the environment: cron and a shell must meet in one file (H44). Makes
 * nothing; open() makes the directories, 0700. Where root has made a directory
 * for a group, its members have one file there, unless this user still uses his
 * own (CONFIG). Errors: CONFIG (that; no entry in the password database, no
 * home, too long for size; who shares cannot be told), LIMIT, NOMEM, STORE. */
snib_err snib__sqlite_default_path(char *ret, size_t size,
                                   struct snib_error *reterr);

#endif

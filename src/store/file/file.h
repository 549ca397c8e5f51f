/* store/file/file.h — locks in a mapped file of this host: the embedded store.
 *
 * "file:PATH"; an empty path is the default file. Several processes of one
 * user, or of one group, share it on one host, without a server and without a
 * lock of the file: one compare-and-swap commits a step. docs/FILE.md describes
 * the file and what is promised. */
#ifndef SNIB__FILE_H
#define SNIB__FILE_H

#include "core/store.h"

extern const struct snib__blocking_ops snib__file_ops;

/* The default file: for root /var/lib/snib/locks.db, for others <home from the
 * password database>/.local/state/snib/locks.db. The environment never counts:
 * a job of cron and a shell must meet in one file. Makes nothing; open() makes
 * the directories, 0700. If root has made a directory for a group, its members
 * have one file there, unless this user still uses his own file (CONFIG).
 * Errors: CONFIG (that; no entry in the password database, no home, too long
 * for size; it cannot be told who shares), LIMIT, NOMEM, STORE. */
snib_err snib__file_default_path(char *ret, size_t size,
                                 struct snib_error *reterr);
/* Is that path still the default, now that a client has opened it? STORE: root
 * has made a group's directory since, or removed it; try again. Other errors as
 * above. */
snib_err snib__file_default_still(const char *path, struct snib_error *reterr);

#endif

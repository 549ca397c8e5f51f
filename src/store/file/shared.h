/* store/file/shared.h — which file is the default, and who shares a file: of
 * one user, or of a group.
 *
 *   shared.c  users, groups, and the directory that root made for a group
 *   stage.c   making a file that a group shares */
#ifndef SNIB__FILE_SHARED_H
#define SNIB__FILE_SHARED_H

#include <sys/stat.h>
#include <sys/types.h>

#include "base/error.h"

/* Root's default file is in the first. The default file of a group is in the
 * second, if root made that directory for the group. */
#define SNIB__FILE_OF_ROOT  "/var/lib/snib"
#define SNIB__FILE_OF_GROUP SNIB__FILE_OF_ROOT "/shared"
/* The default file of others, in their home directory. */
#define SNIB__FILE_OF_USER "/.local/state/snib"
#define SNIB__FILE_NAME    "/locks.db"
#define SNIB__FILE_MAKE_SHARED                                                 \
    "install -d -m 755 " SNIB__FILE_OF_ROOT                                    \
    " && install -d -m 2770 -g GROUP " SNIB__FILE_OF_GROUP

/* The default file, as snib__file_default_path, but without the check that
 * nobody uses the one that was the default before. */
snib_err snib__shared_default(char *ret, size_t size,
                              struct snib_error *reterr);
/* Is this process in the group? Root is in every group. CONFIG, NOMEM: it
 * cannot be told. */
snib_err snib__shared_is_member(gid_t group, bool *ret,
                                struct snib_error *reterr);
/* Has root made this directory for its group? */
bool snib__shared_is_dir(const struct stat *);
/* In words: what a user with a lock file of his own has to do to share one. */
void snib__shared_how(char *ret, size_t size);

/* Make an empty file of that mode in `dir`, whatever the umask, unless the name
 * is taken: others see it complete or not at all. False: errno (EOPNOTSUPP: the
 * file system cannot rename without replacing). */
bool snib__stage_make(int dir, const char *name, mode_t mode);

#endif

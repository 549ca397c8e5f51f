/* store/sqlite/seen.h — the three files and the directory, as one client sees
 * them; for files.c. */
#ifndef SNIB__SQLITE_SEEN_H
#define SNIB__SQLITE_SEEN_H

#include "store/sqlite/internal.h"

enum { SNIB__WAL = 1, SNIB__SHM = 2, SNIB__NOTIFIERS = SNIB__FILES };

extern const char *const snib__suffix[SNIB__SEEN];

struct snib__seen_files {
    uint64_t inode[SNIB__SEEN]; /* 0: nothing is there */
    bool empty;                 /* the file has no page */
};

void snib__seen_name_of(const struct snib__lockfile *, int i, char *ret,
                        size_t size);
/* Read the inodes. CONFIG: one of the files is a wrong one. */
snib_err snib__seen_now(const struct snib__lockfile *,
                        struct snib__seen_files *ret,
                        struct snib_error *reterr);
/* The first of the three files that is not there; -1: none. */
int snib__seen_missing(const struct snib__seen_files *now);
/* The first of the four that is not the known one; -1: none. A known 0 matches
 * any. */
int snib__seen_differs(const struct snib__seen_files *now,
                       const uint64_t known[]);
/* False: there is no note, or it belongs to another directory (this one is a
 * copy). A note of an older version does not name its directory: ret has a 0
 * there. */
bool snib__note_read(const struct snib__lockfile *,
                     const struct snib__seen_files *now, uint64_t ret[]);
/* Only a client that is alone removes the old note; no other reads it then. If
 * that client is killed in between, there is no note, but also no grant. */
bool snib__note_write(const struct snib__lockfile *,
                      const struct snib__seen_files *now);

#endif

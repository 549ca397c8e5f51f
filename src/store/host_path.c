/* store/host_path.c — a directory as it was named, and where that leads later.
 *
 * A lock file's directory is resolved once. If a symbolic link on the way is
 * switched afterwards, newcomers resolve the same path to another directory and
 * meet another file. So a store that was named by such a path keeps it, and
 * looks at each step where it leads. A path without a link needs no such look:
 * the store looks at the resolved one anyway. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/host.h"

snib_err snib__host_given(const char *dir, const char *real, char **ret,
                          struct snib_error *reterr)
{
    char current[4096] = "";
    *ret = NULL;
    if (dir[0] && dir[0] != '/' && !getcwd(current, sizeof current)) {
        return snib__host_cannot(errno, dir, reterr,
                                 "the current directory cannot be told: %s",
                                 strerror(errno));
    }
    bool here = strcmp(dir, ".") == 0;
    size_t size = strlen(current) + strlen(dir) + 2;
    char *given = snib__alloc(size);
    if (!given) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snprintf(given, size, "%s%s%s", current,
             !dir[0] || (current[0] && !here) ? "/" : "", here ? "" : dir);
    if (strcmp(given, real) == 0) {
        snib__free(given);
        given = NULL;
    }
    *ret = given;
    return SNIB_ERR_OK;
}

bool snib__host_leads_to(const char *given, int dir)
{
    struct stat now, then;
    return !given || (!stat(given, &now) && !fstat(dir, &then) &&
                      now.st_dev == then.st_dev && now.st_ino == then.st_ino);
}

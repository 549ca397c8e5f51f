/* base/glob.h — does a name fit a pattern?
 *
 * * any bytes · ? one byte · [a-z] one of a set, [!a] or [^a] none of it ·
 * \\x the byte x. A bracket that is never closed is an ordinary byte. Bytes,
 * not characters; both may hold any bytes. */
#ifndef SNIB__GLOB_H
#define SNIB__GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* glob NULL: everything fits. */
bool snib__glob(const char *glob, size_t glob_size, const char *s, size_t size);

#endif

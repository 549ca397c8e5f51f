/* core/ids.h — 128-bit ids as text. */
#ifndef SNIB__IDS_H
#define SNIB__IDS_H

#include "core/engine.h"

/* Read 32 hexadecimal digits; size is their number. */
bool snib__id_read(const char *text, size_t size, uint64_t ret[2]);
/* Read snib_acquire_options.above, which is not NULL. Errors: USAGE. */
snib_err snib__above_read(const char *text, struct snib__above *ret,
                          struct snib_error *reterr);

#endif

/* run/inspect.h — rows of a store's answer made into public views. */
#ifndef SNIB__INSPECT_H
#define SNIB__INSPECT_H

#include "snib.h"

/* Every lock row of `rows` (base/record.h), sorted by name, each name once.
 * self: the asking client's id in hexadecimal, "" when there is none. Damaged
 * or unknown rows and fields are passed over. Errors: NOMEM. Freed with
 * snib_views_free. */
snib_err snib__views_read(const void *rows, size_t size, const char *self,
                          struct snib_view ***ret, size_t *ret_count,
                          struct snib_error *reterr);

#endif

/* api/views.h — rows of a store's answer made into public views. */
#ifndef SNIB__VIEWS_H
#define SNIB__VIEWS_H

#include "base/record.h"
#include "snib.h"

/* Every lock row of `rows` (base/record.h), sorted by name, each name once.
 * self: the asking client's id in hexadecimal, "" when there is none. Damaged
 * or unknown rows and fields are passed over. Errors: NOMEM. Freed with
 * snib_views_free. */
snib_err snib__views_read(const void *rows, size_t size, const char *self,
                          struct snib_view ***ret, size_t *ret_count,
                          struct snib_error *reterr);
/* The view of a lock that nobody holds or waits for. NULL: no memory. */
struct snib_view *snib__view_empty(const char *name, size_t size);
/* Copy a field's bytes as text without control characters, cut to max - 1 and
 * at a NUL. */
void snib__field_text(const struct snib__rec *, char *to, size_t max);
/* A number that counts something, brought into its range. */
uint32_t snib__field_count(int64_t);

#endif

/* api/value_i.h — checks that value.c and value_update.c share. */
#ifndef SNIB__VALUE_I_H
#define SNIB__VALUE_I_H

#include "snib.h"

/* The value's name, and its client. what: the function, for the text. *size 0:
 * name is a C string. Errors: USAGE, FORKED. */
snib_err snib__value_check_target(const char *what, struct snib_client *,
                                  const char *name, size_t *size,
                                  struct snib_error *reterr);
/* Errors: USAGE. */
snib_err snib__value_check_ttl(const char *what, int64_t ttl_ms,
                               struct snib_error *reterr);

#endif

/* base/error.h — filling the caller's struct snib_error. */
#ifndef SNIB__ERROR_H
#define SNIB__ERROR_H

#include "snib.h"

/* Sets code and text (printf); e may be NULL. Returns code. */
snib_err snib__fail(struct snib_error *e, snib_err code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets code and its standard text. */
snib_err snib__fail_plain(struct snib_error *e, snib_err code);
/* Sets "no error"; returns OK. */
snib_err snib__ok(struct snib_error *e);

#endif

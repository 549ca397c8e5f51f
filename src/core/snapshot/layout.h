/* core/snapshot/layout.h — the rows of a lock as bytes.
 *
 * The first byte of a row is the number of its layout. A row of another layout
 * is refused in words, never guessed at. Whoever may write to the store may
 * write anything into it: reading stays inside the bytes, and no number that
 * was read carries our sums over the end of their range. */
#ifndef SNIB__LAYOUT_H
#define SNIB__LAYOUT_H

#include "base/buf.h"
#include "core/rules/rules.h"

#define SNIB__LAYOUT 1

struct snib__lock_row {
    int64_t token; /* the last one, reserve included; SNIB__TOKEN_END: none */
    struct snib__params params;
};

void snib__layout_put_lock(struct snib__buf *, const struct snib__lock_row *);
/* arrivals: the last number that a waiter was given. floor: the highest token
 * of names that were forgotten. */
void snib__layout_put_arrivals(struct snib__buf *, int64_t last);
void snib__layout_put_floor(struct snib__buf *, int64_t token);
/* pid, start and pidns are facts of one host, and are left out. */
void snib__layout_put_claim(struct snib__buf *,
                            const struct snib__stored_claim *,
                            const void *about, size_t size);

/* Errors: CONFIG: another layout. CORRUPT: no such row. */
snib_err snib__layout_lock(const void *bytes, size_t size,
                           struct snib__lock_row *ret, struct snib_error *);
snib_err snib__layout_arrivals(const void *bytes, size_t size, int64_t *ret,
                               struct snib_error *);
snib_err snib__layout_floor(const void *bytes, size_t size, int64_t *ret,
                            struct snib_error *);
/* *ret_about points into bytes. */
snib_err snib__layout_claim(const void *bytes, size_t size,
                            struct snib__stored_claim *ret,
                            const void **ret_about, size_t *ret_size,
                            struct snib_error *);

#endif

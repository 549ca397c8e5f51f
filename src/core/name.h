/* core/name.h — a lock's name: raw bytes and their safe spelling.
 *
 * The safe spelling percent-encodes `{`, `}`, `%`, controls, DEL and every byte
 * above 0x7e (upper-case hex), so that it can stand between the braces of a
 * Redis hash tag and in a log line. Distinct names stay distinct. */
#ifndef SNIB__NAME_H
#define SNIB__NAME_H

#include "snib.h"

struct snib__name {
    uint32_t raw_size, safe_size;
    uint64_t hash;    /* of the raw bytes */
    const char *raw;  /* NUL-terminated */
    const char *safe; /* NUL-terminated; == raw when nothing is encoded */
};

/* One block, freed with snib__free. size 0: strlen(raw). Errors: USAGE,
 * NOMEM. */
snib_err snib__name_new(const char *raw, size_t size, struct snib__name **ret,
                        struct snib_error *reterr);
bool snib__name_same(const struct snib__name *, const struct snib__name *);
/* Decodes a safe spelling (from a key) into raw bytes: how many. 0: not one of
 * ours; only the canonical spelling is accepted. Nothing is allocated, so that
 * a lack of memory cannot make one of our names look foreign. */
size_t snib__name_decode(const char *safe, size_t size,
                         char ret[SNIB_NAME_MAX]);

#endif

/* core/version.h — the rules of versioned values (snib/value.h).
 *
 * For each name a store keeps the bytes and this small record. The rules decide
 * what a put or delete does to the record. Stores of this host call them inside
 * their atomic step; value_put.lua says the same in Lua.
 *
 * Every change takes a number that is higher than all before it: max(last + 1,
 * Unix ms * 1024, floor + 1), as for fencing tokens. So a version that was
 * replaced never comes back, and a put that expects it can never be applied
 * later: late copies of it are harmless. Only "must be absent" can become true
 * again.
 *
 * Safe to repeat. The record remembers the last few changes by request id. A
 * repeat whose first copy was applied finds itself and is told the same
 * version. A repeat that finds neither itself nor the version it expects is
 * refused, if the record reaches back far enough to be sure:
 * - What replaced version v has a higher number than v. So it is remembered,
 *   unless `forgotten`, the highest number no longer remembered, exceeds v.
 * - For "must be absent", everything since the id was first sent must be
 *   remembered. Its refusal is remembered too, so that an earlier copy that
 *   comes late does nothing. A refusal that is forgotten counts as a change of
 *   that time.
 *
 * Else the store cannot tell, and says so (UNKNOWN). */
#ifndef SNIB__VERSION_H
#define SNIB__VERSION_H

#include "core/store.h"
#include "snib/value.h"

/* Changes remembered. value_put.lua must have the same number; if it differed,
 * nothing but the length of its memory would show it. */
#define SNIB__CHANGES 8
/* A copy is executed at most so long after it was sent. */
#define SNIB__VALUE_LATE_MS 10000
/* A store remembers the changes of an absent name for so long. */
#define SNIB__VALUE_MEMORY_MS 60000
/* Versions stay below 2^53, so that every language can hold them. */
#define SNIB__VERSION_END (INT64_C(1) << 53)

struct snib__change {
    uint64_t id[2];
    int64_t number; /* 0: this request was refused */
};

struct snib__version {
    int64_t version;   /* 0: absent */
    int64_t last;      /* highest number given, never lower */
    int64_t forgotten; /* highest number no longer remembered */
    uint32_t count;
    struct snib__change change[SNIB__CHANGES]; /* oldest first */
};

typedef enum snib__version_todo {
    SNIB__VERSION_KEEP,   /* nothing to write */
    SNIB__VERSION_NOTE,   /* write the record, the bytes stay */
    SNIB__VERSION_PUT,    /* write the record and the request's bytes */
    SNIB__VERSION_DELETE, /* write the record, the bytes go */
} snib__version_todo;

/* One VALUE_PUT or VALUE_DELETE: fills the request's answer (which is true once
 * the store has written) and changes *v. now_ms: Unix time. */
snib__version_todo snib__version_step(struct snib__version *v,
                                      struct snib__request *, int64_t now_ms);

/* The record as bytes of a fixed size, for stores that keep rows. */
#define SNIB__VERSION_BYTES (8 * (4 + 3 * SNIB__CHANGES))
void snib__version_pack(const struct snib__version *,
                        uint8_t ret[SNIB__VERSION_BYTES]);
/* False: these are not the bytes of a record. */
bool snib__version_unpack(const void *bytes, size_t size,
                          struct snib__version *ret);

/* The answers that every store gives in the same words. */
void snib__version_changed(struct snib__request *, int64_t version);
void snib__version_forgotten(struct snib__request *);

#endif

/* base/record.h — rows of named fields as bytes: how a store hands what it saw
 * (inspect, list, doctor) to the callers in src/api, without sharing memory
 * layouts.
 *
 * A row is a kind byte and fields; a field is a key byte and a value of any
 * bytes. Our own code writes them and reads them. A damaged buffer is a bug,
 * but reading one never runs outside it. */
#ifndef SNIB__RECORD_H
#define SNIB__RECORD_H

#include "base/buf.h"
#include "snib/inspect.h"

/* Rows and their fields. */
enum snib__row {
    SNIB__ROW_LOCK = 'L',    /* name, token; left: of a recovery, count: 1: it
                                has not begun, missing; or name, text: why it
                                cannot be shown */
    SNIB__ROW_HOLDER = 'H',  /* of the lock row before it */
    SNIB__ROW_WAITER = 'W',  /* of the lock row before it, in queue order */
    SNIB__ROW_CLOSED = 'E',  /* a holder whose lease is over and whose
                                lock-delay runs; left: until that is over */
    SNIB__ROW_MORE = 'M',    /* count: holders of that lock that are not
                                listed */
    SNIB__ROW_FINDING = 'D', /* doctor: level, check, text, remedy */
    SNIB__ROW_COUNT = 'C',   /* count (force-release) */
    /* count (0: not done, 1: done), size, permits, latch count, waiting */
    SNIB__ROW_PARAMS = 'T',
    SNIB__ROW_RECOVERY = 'R' /* left, end, missing; count: 1: ended by this
                                request */
};
enum snib__field {
    SNIB__F_NAME = 'n', /* raw bytes */
    SNIB__F_TOKEN = 't',
    SNIB__F_CLIENT = 'o', /* client id, hexadecimal */
    SNIB__F_LEFT = 'l',   /* ms */
    SNIB__F_ABOUT = 'a',  /* core/about.h text */
    SNIB__F_KIND = 'k',
    SNIB__F_PERMITS = 'p',
    SNIB__F_HOLDS = 'h',
    SNIB__F_LEVEL = 'v',
    SNIB__F_CHECK = 'c',
    SNIB__F_TEXT = 'x',
    SNIB__F_REMEDY = 'r',
    SNIB__F_COUNT = 'q',
    SNIB__F_SIZE = 's',  /* of a semaphore, -1: none */
    SNIB__F_LATCH = 'g', /* latch count */
    SNIB__F_WAITING = 'w',
    SNIB__F_REQUEST = 'i', /* 32 hexadecimal digits */
    SNIB__F_RANK = 'z',    /* waiter: lower ones are served first */
    SNIB__F_SLOT = 'y',    /* holder of permits */
    SNIB__F_KEEP = 'j',    /* holder: ms for which its client may keep it */
    SNIB__F_END = 'd',     /* server ms; below 0: the instant of the look */
    SNIB__F_MISSING = 'm', /* replicas, before a recovery can begin */
    SNIB__F_SINCE = 'u',   /* Unix ms by the store's clock: now less the age */
    SNIB__F_AGE = 'e'      /* ms since the grant, or since it waits, by the
                              store's clock */
};

void snib__rec_row(struct snib__buf *, enum snib__row);
void snib__rec_bytes(struct snib__buf *, enum snib__field, const void *,
                     size_t);
void snib__rec_text(struct snib__buf *, enum snib__field, const char *);
void snib__rec_i64(struct snib__buf *, enum snib__field, int64_t);

struct snib__rec {
    const uint8_t *p, *end;
    int row;             /* kind of the current row, 0 before the first */
    int field;           /* key of the current field */
    const uint8_t *data; /* value of the current field */
    size_t size;
};
void snib__rec_begin(struct snib__rec *, const void *bytes, size_t size);
/* The next row; false at the end. Skips unread fields. */
bool snib__rec_next_row(struct snib__rec *);
/* The next field of this row; false when there is none. */
bool snib__rec_next_field(struct snib__rec *);
int64_t snib__rec_value_i64(const struct snib__rec *);

/* Writes a row of the doctor's. */
void snib__rec_finding(struct snib__buf *, snib_level, const char *check,
                       const char *text, const char *remedy);
/* Writes the row of a PARAMS; latch: its count. */
void snib__rec_params(struct snib__buf *, bool done, int64_t size,
                      int64_t permits, int64_t latch, int64_t waiting);

#endif

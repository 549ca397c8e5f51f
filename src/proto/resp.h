/* proto/resp.h — RESP2 as bytes: commands out, replies in. Sans-I/O.
 *
 * Commands are written straight into a snib__buf, one call per argument; the
 * buffer keeps a failure (sticky). Reading is built on hiredis' reader, which
 * is not visible here. A reply is a flat array of cells in reading order, and
 * its texts lie in an arena. The reader owns both; they are valid until its
 * next call.
 *
 * Bounds, all checked before memory is spent: SNIB__RESP_CELLS cells a reply,
 * SNIB__RESP_ELEMENTS elements an array, `unread_max` bytes of an unfinished
 * reply, and nesting 7 (by hiredis 0.14). A reply that passes them, or is not
 * RESP2 at all, is BROKEN: the stream cannot be read any further. So are the
 * types of RESP3 (by hiredis 0.14); the greeting, HELLO 2, asks for RESP2. */
#ifndef SNIB__RESP_H
#define SNIB__RESP_H

#include "base/buf.h"
#include "snib.h"

/* -- writing --------------------------------------------------------------- */

void snib__resp_begin(struct snib__buf *, uint32_t argc);
void snib__resp_arg(struct snib__buf *, const void *p, size_t n);
void snib__resp_text(struct snib__buf *, const char *text);
void snib__resp_i64(struct snib__buf *, int64_t v);
/* An argument in pieces: open with the size of all, add each piece with
 * snib__buf_add, then end. */
void snib__resp_open(struct snib__buf *, size_t size);
void snib__resp_end(struct snib__buf *);

/* -- reading --------------------------------------------------------------- */

#define SNIB__RESP_CELLS    1040
#define SNIB__RESP_ELEMENTS 1024
#define SNIB__RESP_UNREAD   ((size_t)64 * 1024)   /* short replies only      */
#define SNIB__RESP_UNREAD_L ((size_t)1024 * 1024) /* with list and inspect   */

typedef enum snib__resp_type {
    SNIB__RESP_NIL,
    SNIB__RESP_INTEGER,
    SNIB__RESP_STATUS,
    SNIB__RESP_ERROR,
    SNIB__RESP_STRING,
    SNIB__RESP_ARRAY
} snib__resp_type;

/* A value. The elements of an array follow its cell, each with all that it
 * contains. The cell `span` further on is the next one on the same level. */
struct snib__resp_cell {
    snib__resp_type type;
    uint32_t size;    /* bytes of text, or elements                         */
    uint32_t span;    /* cells of this value, itself included: >= 1         */
    int64_t integer;  /* INTEGER                                            */
    const char *text; /* STATUS, ERROR, STRING: a NUL byte follows; else "" */
};

typedef enum snib__resp_result {
    SNIB__RESP_MORE, /* not complete yet                                  */
    SNIB__RESP_REPLY,
    SNIB__RESP_BROKEN, /* not RESP2, or a bound was passed; sticky          */
    SNIB__RESP_NOMEM   /* sticky                                            */
} snib__resp_result;

struct snib__resp;

/* Errors: NOMEM. */
snib_err snib__resp_new(size_t unread_max, struct snib__resp **ret);
void snib__resp_free(struct snib__resp *); /* NULL allowed                   */
/* Forget all bytes that were fed, for a new connection. False: no memory; every
 * snib__resp_next then answers NOMEM. */
bool snib__resp_reset(struct snib__resp *);
void snib__resp_feed(struct snib__resp *, const void *bytes, size_t size);
/* The next reply; *ret is its first cell. Call this until the result is not
 * REPLY. */
snib__resp_result snib__resp_next(struct snib__resp *,
                                  const struct snib__resp_cell **ret);
/* Why it is BROKEN; one short line, no bytes of the peer. */
const char *snib__resp_why(const struct snib__resp *);

/* Element i of an array. NULL: this is no array, or it has fewer. O(i). */
const struct snib__resp_cell *snib__resp_at(const struct snib__resp_cell *array,
                                            uint32_t i);
static inline const struct snib__resp_cell *
snib__resp_skip(const struct snib__resp_cell *c)
{
    return c + c->span;
}
/* True: a STATUS or STRING of exactly this text. */
bool snib__resp_is(const struct snib__resp_cell *, const char *text);
/* True: an INTEGER, or a STRING that is a canonical decimal number. */
bool snib__resp_number(const struct snib__resp_cell *, int64_t *ret);

#endif

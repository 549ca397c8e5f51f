/* proto/resp.h — RESP2 as bytes: commands out, replies in. Sans-I/O.
 *
 * Writing goes straight into a snib__buf, one call per argument; failure is
 * the buffer's (sticky). Reading is built on hiredis' reader, which is not
 * visible here: a reply is a flat array of cells in reading order, its texts
 * in an arena, both the reader's and valid until the next call.
 *
 * Bounds, all checked before memory is spent: SNIB__RESP_CELLS cells a reply
 * (so at most 1 024 elements an array), `unread_max` bytes of an unfinished
 * reply, nesting 7. What passes them, or is no RESP2 at all, is BROKEN: the
 * stream cannot be read any further. RESP3 types are BROKEN: HELLO is never
 * sent. */
#ifndef SNIB__RESP_H
#define SNIB__RESP_H

#include "base/buf.h"
#include "snib.h"

/* -- writing --------------------------------------------------------------- */

void snib__resp_begin(struct snib__buf *, uint32_t argc);
void snib__resp_arg(struct snib__buf *, const void *p, size_t n);
void snib__resp_text(struct snib__buf *, const char *text);
void snib__resp_i64(struct snib__buf *, int64_t v);
/* An argument in pieces: size of all, pieces by snib__buf_add, then end. */
void snib__resp_open(struct snib__buf *, size_t size);
void snib__resp_end(struct snib__buf *);

/* -- reading --------------------------------------------------------------- */

#define SNIB__RESP_CELLS    1040
#define SNIB__RESP_ELEMENTS 1024
#define SNIB__RESP_UNREAD   ((size_t)64 * 1024)   /* a line of short replies */
#define SNIB__RESP_UNREAD_L ((size_t)1024 * 1024) /* with list and inspect   */

typedef enum snib__resp_type {
    SNIB__RESP_NIL,
    SNIB__RESP_INTEGER,
    SNIB__RESP_STATUS,
    SNIB__RESP_ERROR,
    SNIB__RESP_STRING,
    SNIB__RESP_ARRAY
} snib__resp_type;

/* A value. The elements of an array follow it, each with all it contains;
 * the cell `span` further on is the next one on the same level. */
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

/* NOMEM. */
snib_err snib__resp_new(size_t unread_max, struct snib__resp **ret);
void snib__resp_free(struct snib__resp *); /* NULL allowed                   */
/* Forget everything fed: a new connection. false: no memory (then every
 * snib__resp_next answers NOMEM). */
bool snib__resp_reset(struct snib__resp *);
void snib__resp_feed(struct snib__resp *, const void *bytes, size_t size);
/* The next reply; *ret is its first cell. Call until it is not REPLY. */
snib__resp_result snib__resp_next(struct snib__resp *,
                                  const struct snib__resp_cell **ret);
/* Why it is BROKEN; one short line, no bytes of the peer. */
const char *snib__resp_why(const struct snib__resp *);

/* Element i of an array, or NULL when it is no array or has fewer. O(i). */
const struct snib__resp_cell *snib__resp_at(const struct snib__resp_cell *array,
                                            uint32_t i);
static inline const struct snib__resp_cell *
snib__resp_skip(const struct snib__resp_cell *c)
{
    return c + c->span;
}
/* A STATUS or STRING of exactly this text. */
bool snib__resp_is(const struct snib__resp_cell *, const char *text);
/* INTEGER, or a STRING that is a canonical decimal number. */
bool snib__resp_number(const struct snib__resp_cell *, int64_t *ret);

#endif

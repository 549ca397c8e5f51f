/* base/buf.h — growing bytes, born with a limit.
 *
 * Failure is sticky: after an append that found no memory or passed the limit
 * `failed` stays set, further appends do nothing, and the owner looks once at
 * the end. take/consume move the front; data is contiguous. */
#ifndef SNIB__BUF_H
#define SNIB__BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct snib__buf {
    uint8_t *data; /* ours; NULL while empty                               */
    size_t start;  /* consumed bytes in front                              */
    size_t end;    /* bytes used, start <= end <= cap                      */
    size_t cap;
    size_t limit; /* size() never exceeds it                              */
    bool failed;
};

void snib__buf_init(struct snib__buf *, size_t limit);
void snib__buf_free(struct snib__buf *);  /* back to empty, not failed  */
void snib__buf_clear(struct snib__buf *); /* empty, keeps memory        */
void snib__buf_wipe(struct snib__buf *);  /* empty, and nothing stays   */
void snib__buf_puts(struct snib__buf *, const char *s);
void snib__buf_put_i64(struct snib__buf *, int64_t v); /* decimal           */
/* Decimal text at the end of `text`: returns where it begins; no NUL. */
enum { SNIB__I64_TEXT = 24 };
const char *snib__i64_text(char text[SNIB__I64_TEXT], int64_t v);
void snib__buf_printf(struct snib__buf *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Make room for n more bytes, and one; false: failed. */
bool snib__buf_grow(struct snib__buf *, size_t n);
void snib__buf_consume(struct snib__buf *, size_t n); /* n <= size          */
/* NUL-terminated text of the whole; "" when failed or empty. */
const char *snib__buf_text(struct snib__buf *);

static inline size_t snib__buf_size(const struct snib__buf *b)
{
    return b->end - b->start;
}

/* The same, at no cost where there is room: requests are made of hundreds of
 * small pieces. */
static inline bool snib__buf_reserve(struct snib__buf *b, size_t n)
{
    return (!b->failed && b->cap - b->end > n && n <= b->limit &&
            snib__buf_size(b) <= b->limit - n) ||
           snib__buf_grow(b, n);
}

static inline void snib__buf_add(struct snib__buf *b, const void *p, size_t n)
{
    if (n && snib__buf_reserve(b, n)) {
        memcpy(b->data + b->end, p, n);
        b->end += n;
    }
}

static inline const uint8_t *snib__buf_bytes(const struct snib__buf *b)
{
    return b->data ? b->data + b->start : (const uint8_t *)"";
}

#endif

/* base/buf.h — growing bytes with a limit.
 *
 * Failure is sticky: after an append that found no memory or passed the limit
 * `failed` stays set and further appends do nothing, so the owner checks it
 * once, at the end. consume moves the front; the data is contiguous. */
#ifndef SNIB__BUF_H
#define SNIB__BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct snib__buf {
    uint8_t *data; /* ours; NULL while empty */
    size_t start;  /* consumed bytes in front */
    size_t end;    /* bytes used, start <= end <= cap */
    size_t cap;
    size_t limit; /* size() never exceeds it */
    bool failed;
    bool secret; /* snib__buf_hide */
};

void snib__buf_init(struct snib__buf *, size_t limit);
void snib__buf_free(struct snib__buf *);  /* empty, not failed; the memory is
                                             freed */
void snib__buf_clear(struct snib__buf *); /* empty, not failed; keeps the
                                             memory */
void snib__buf_wipe(struct snib__buf *);  /* the same, with the memory
                                             overwritten */
void snib__buf_puts(struct snib__buf *, const char *s);
void snib__buf_put_i64(struct snib__buf *, int64_t v); /* decimal */
/* Something secret will be appended: from now on, until the buffer is empty,
 * bytes that leave a place in memory are overwritten there. */
void snib__buf_hide(struct snib__buf *);
/* Writes v in decimal at the end of `text`; returns where it begins. No NUL. */
enum { SNIB__I64_TEXT = 24 };
const char *snib__i64_text(char text[SNIB__I64_TEXT], int64_t v);
void snib__buf_printf(struct snib__buf *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Makes room for n more bytes and a NUL; false: failed. */
bool snib__buf_grow(struct snib__buf *, size_t n);
void snib__buf_consume(struct snib__buf *, size_t n); /* n <= size */
/* The whole as NUL-terminated text; "" when failed or empty. */
const char *snib__buf_text(struct snib__buf *);

static inline size_t snib__buf_size(const struct snib__buf *b)
{
    return b->end - b->start;
}

/* The same as grow, at no cost where there is room: requests are made of
 * hundreds of small pieces. */
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

/* base/buf.c — growing bytes with a limit and a sticky failure; see buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void snib__buf_init(struct snib__buf *b, size_t limit)
{
    *b = (struct snib__buf){.limit = limit};
}

/* Overwrite the bytes at [from, till) if the buffer holds something secret. */
static void buf_cover(struct snib__buf *b, size_t from, size_t till)
{
    if (b->secret && from < till) {
        explicit_bzero(b->data + from, till - from);
    }
}

void snib__buf_free(struct snib__buf *b)
{
    buf_cover(b, b->start, b->end);
    snib__free(b->data);
    snib__buf_init(b, b->limit);
}

void snib__buf_wipe(struct snib__buf *b)
{
    if (b->data) {
        explicit_bzero(b->data, b->cap);
    }
    snib__buf_clear(b);
}

void snib__buf_hide(struct snib__buf *b)
{
    b->secret = true;
}

void snib__buf_clear(struct snib__buf *b)
{
    buf_cover(b, b->start, b->end);
    b->start = b->end = 0;
    b->failed = b->secret = false;
}

/* realloc might leave a copy behind. */
static uint8_t *buf_move(struct snib__buf *b, size_t size, size_t cap)
{
    if (!b->secret) {
        return snib__realloc(b->data, cap);
    }
    uint8_t *data = snib__alloc(cap);
    if (data && size) {
        memcpy(data, b->data, size);
    }
    if (data) {
        buf_cover(b, 0, size);
        snib__free(b->data);
    }
    return data;
}

bool snib__buf_grow(struct snib__buf *b, size_t n)
{
    size_t size = b->end - b->start;
    if (b->failed || n > b->limit || size > b->limit - n) {
        b->failed = true;
        return false;
    }
    if (b->cap - b->end > n) { /* one byte to spare for a NUL */
        return true;
    }
    if (b->start) {
        memmove(b->data, b->data + b->start, size);
        buf_cover(b, size, b->end);
        b->start = 0;
        b->end = size;
        if (b->cap - size > n) {
            return true;
        }
    }
    size_t cap = b->cap ? b->cap : 64;
    while (cap - size <= n) {
        cap *= 2;
    }
    uint8_t *data = buf_move(b, size, cap);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->cap = cap;
    return true;
}

void snib__buf_puts(struct snib__buf *b, const char *s)
{
    snib__buf_add(b, s, strlen(s));
}

const char *snib__i64_text(char text[SNIB__I64_TEXT], int64_t v)
{
    char *p = text + SNIB__I64_TEXT;
    uint64_t u = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do {
        *--p = (char)('0' + u % 10);
        u /= 10;
    } while (u);
    if (v < 0) {
        *--p = '-';
    }
    return p;
}

void snib__buf_put_i64(struct snib__buf *b, int64_t v)
{
    char text[SNIB__I64_TEXT];
    const char *p = snib__i64_text(text, v);
    snib__buf_add(b, p, (size_t)(text + sizeof text - p));
}

void snib__buf_printf(struct snib__buf *b, const char *fmt, ...)
{
    va_list ap;
    char small[256];
    va_start(ap, fmt);
    int n = vsnprintf(small, sizeof small, fmt, ap);
    va_end(ap);
    if (n < 0) {
        b->failed = true;
    } else if ((size_t)n < sizeof small) {
        snib__buf_add(b, small, (size_t)n);
    } else if (snib__buf_reserve(b, (size_t)n)) {
        va_start(ap, fmt);
        vsnprintf((char *)b->data + b->end, (size_t)n + 1, fmt, ap);
        va_end(ap);
        b->end += (size_t)n;
    }
}

void snib__buf_consume(struct snib__buf *b, size_t n)
{
    buf_cover(b, b->start, b->start + n);
    b->start += n;
    if (b->start == b->end) {
        b->start = b->end = 0;
        b->secret = false;
    }
}

const char *snib__buf_text(struct snib__buf *b)
{
    if (b->failed || !snib__buf_reserve(b, 0)) {
        return "";
    }
    b->data[b->end] = 0;
    return (const char *)b->data + b->start;
}

/* proto/zk/jute.c — see jute.h. */
#include "proto/zk/jute.h"

void snib__jute_put_bool(struct snib__buf *b, bool v)
{
    const uint8_t byte = v;
    snib__buf_add(b, &byte, 1);
}

void snib__jute_put_i32(struct snib__buf *b, int32_t v)
{
    const uint32_t u = (uint32_t)v;
    const uint8_t bytes[4] = {(uint8_t)(u >> 24), (uint8_t)(u >> 16),
                              (uint8_t)(u >> 8), (uint8_t)u};
    snib__buf_add(b, bytes, sizeof bytes);
}

void snib__jute_put_i64(struct snib__buf *b, int64_t v)
{
    snib__jute_put_i32(b, (int32_t)((uint64_t)v >> 32));
    snib__jute_put_i32(b, (int32_t)((uint64_t)v & UINT32_MAX));
}

void snib__jute_put_bytes(struct snib__buf *b, const void *bytes, size_t size)
{
    if (size > INT32_MAX) {
        b->failed = true;
        return;
    }
    snib__jute_put_i32(b, (int32_t)size);
    snib__buf_add(b, bytes, size);
}

void snib__jute_put_text(struct snib__buf *b, const char *text)
{
    snib__jute_put_bytes(b, text, strlen(text));
}

void snib__jute_open(struct snib__jute *j, const void *bytes, size_t size)
{
    j->at = bytes;
    j->end = j->at + size;
    j->bad = false;
}

/* The next n bytes, which the reader then stands behind; NULL: not there. */
static const uint8_t *jute_take(struct snib__jute *j, size_t n)
{
    const uint8_t *p = j->at;
    if (j->bad || n > (size_t)(j->end - j->at)) {
        j->bad = true;
        return NULL;
    }
    j->at += n;
    return p;
}

bool snib__jute_bool(struct snib__jute *j)
{
    const uint8_t *p = jute_take(j, 1);
    return p && *p;
}

int32_t snib__jute_i32(struct snib__jute *j)
{
    const uint8_t *p = jute_take(j, 4);
    return p ? (int32_t)((uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
                         (uint32_t)p[2] << 8 | p[3])
             : 0;
}

int64_t snib__jute_i64(struct snib__jute *j)
{
    const uint64_t high = (uint32_t)snib__jute_i32(j);
    const uint64_t low = (uint32_t)snib__jute_i32(j);
    return j->bad ? 0 : (int64_t)(high << 32 | low);
}

struct snib__jute_bytes snib__jute_bytes(struct snib__jute *j)
{
    struct snib__jute_bytes ret = {NULL, 0};
    int32_t size = snib__jute_i32(j);
    if (size < -1) {
        j->bad = true;
    } else if (!j->bad && size >= 0) {
        ret.bytes = (const char *)jute_take(j, (size_t)size);
        ret.size = ret.bytes ? (size_t)size : 0;
    }
    return ret;
}

uint32_t snib__jute_count(struct snib__jute *j, size_t least)
{
    int32_t n = snib__jute_i32(j);
    if (n < -1 || (n > 0 && (size_t)n > (size_t)(j->end - j->at) / least)) {
        j->bad = true;
    }
    return j->bad || n < 0 ? 0 : (uint32_t)n;
}

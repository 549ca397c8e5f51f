/* base/record.c — layout: row = 0xff kind; field = key, u32 size, bytes. */
#include "base/record.h"

#include <string.h>

enum { ROW_MARK = 0xff, FIELD_HEAD = 5 };

void snib__rec_row(struct snib__buf *b, enum snib__row row)
{
    uint8_t head[2] = {ROW_MARK, (uint8_t)row};
    snib__buf_add(b, head, sizeof head);
}

void snib__rec_bytes(struct snib__buf *b, enum snib__field key, const void *p,
                     size_t n)
{
    uint32_t size = (uint32_t)n;
    uint8_t head[FIELD_HEAD] = {(uint8_t)key};
    memcpy(head + 1, &size, sizeof size);
    snib__buf_add(b, head, sizeof head);
    snib__buf_add(b, p, n);
}

void snib__rec_text(struct snib__buf *b, enum snib__field key, const char *s)
{
    snib__rec_bytes(b, key, s, strlen(s));
}

void snib__rec_i64(struct snib__buf *b, enum snib__field key, int64_t v)
{
    snib__rec_bytes(b, key, &v, sizeof v);
}

void snib__rec_finding(struct snib__buf *b, snib_level level, const char *check,
                       const char *text, const char *remedy)
{
    snib__rec_row(b, SNIB__ROW_FINDING);
    snib__rec_i64(b, SNIB__F_LEVEL, level);
    snib__rec_text(b, SNIB__F_CHECK, check);
    snib__rec_text(b, SNIB__F_TEXT, text);
    snib__rec_text(b, SNIB__F_REMEDY, remedy);
}

void snib__rec_begin(struct snib__rec *r, const void *bytes, size_t size)
{
    *r = (struct snib__rec){.p = bytes,
                            .end = size ? (const uint8_t *)bytes + size
                                        : (const uint8_t *)bytes};
}

bool snib__rec_next_field(struct snib__rec *r)
{
    uint32_t size;
    if (r->end - r->p < FIELD_HEAD || r->p[0] == ROW_MARK) {
        return false;
    }
    memcpy(&size, r->p + 1, sizeof size);
    if ((size_t)(r->end - r->p) - FIELD_HEAD < size) {
        r->p = r->end;
        return false;
    }
    r->field = r->p[0];
    r->data = r->p + FIELD_HEAD;
    r->size = size;
    r->p += FIELD_HEAD + size;
    return true;
}

bool snib__rec_next_row(struct snib__rec *r)
{
    while (snib__rec_next_field(r)) {
        continue;
    }
    if (r->end - r->p < 2 || r->p[0] != ROW_MARK) {
        return false;
    }
    r->row = r->p[1];
    r->p += 2;
    return true;
}

int64_t snib__rec_value_i64(const struct snib__rec *r)
{
    int64_t v = 0;
    if (r->size == sizeof v) {
        memcpy(&v, r->data, sizeof v);
    }
    return v;
}

void snib__rec_params(struct snib__buf *out, bool done, int64_t size,
                      int64_t permits, int64_t latch, int64_t waiting)
{
    snib__rec_row(out, SNIB__ROW_PARAMS);
    snib__rec_i64(out, SNIB__F_COUNT, done);
    snib__rec_i64(out, SNIB__F_SIZE, size);
    snib__rec_i64(out, SNIB__F_PERMITS, permits);
    snib__rec_i64(out, SNIB__F_LATCH, latch);
    snib__rec_i64(out, SNIB__F_WAITING, waiting);
}

/* RESP: a hostile server's bytes, in one piece and cut into pieces, give the
 * same replies; cells lie inside their bounds. */
#include "fuzz.h"

#include "proto/resp.h"

/* Walks a value; returns its number of cells. Depth is bounded by nesting. */
static uint32_t walk(const struct snib__resp_cell *c, int depth)
{
    uint32_t cells = 1;
    MUST(depth <= 8 && c->span >= 1 && c->span <= SNIB__RESP_CELLS);
    switch (c->type) {
    case SNIB__RESP_NIL:
    case SNIB__RESP_INTEGER:
        break;
    case SNIB__RESP_STATUS:
    case SNIB__RESP_ERROR:
    case SNIB__RESP_STRING:
        MUST(c->text && c->text[c->size] == 0);
        break;
    case SNIB__RESP_ARRAY:
        MUST(c->size <= SNIB__RESP_ELEMENTS);
        for (uint32_t i = 0; i < c->size; i++) {
            cells += walk(c + cells, depth + 1);
        }
        MUST(!snib__resp_at(c, c->size));
        break;
    }
    MUST(cells == c->span);
    int64_t number;
    snib__resp_number(c, &number);
    return cells;
}

static uint64_t mix(uint64_t h, const void *p, size_t n)
{
    const uint8_t *byte = p;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ byte[i]) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* A digest of all replies and how it ended; fed in pieces of `piece`. */
static uint64_t digest(const uint8_t *data, size_t size, size_t piece)
{
    struct snib__resp *r;
    uint64_t h = 1;
    MUST(snib__resp_new(SNIB__RESP_UNREAD, &r) == SNIB_ERR_OK);
    for (size_t at = 0; at < size; at += piece) {
        const struct snib__resp_cell *c;
        snib__resp_result result;
        size_t n = size - at < piece ? size - at : piece;
        snib__resp_feed(r, data + at, n);
        while ((result = snib__resp_next(r, &c)) == SNIB__RESP_REPLY) {
            walk(c, 0);
            for (uint32_t i = 0; i < c->span; i++) {
                h = mix(h, &c[i].type, sizeof c[i].type);
                h = mix(h, &c[i].integer, sizeof c[i].integer);
                h = mix(h, &c[i].size, sizeof c[i].size);
                if (c[i].type == SNIB__RESP_STATUS ||
                    c[i].type == SNIB__RESP_ERROR ||
                    c[i].type == SNIB__RESP_STRING) {
                    h = mix(h, c[i].text, c[i].size);
                }
            }
        }
        if (result == SNIB__RESP_BROKEN) {
            MUST(snib__resp_why(r)[0]);
            MUST(snib__resp_next(r, &c) == SNIB__RESP_BROKEN);
            h = mix(h, "broken", 6);
            break;
        }
        MUST(result == SNIB__RESP_MORE);
    }
    snib__resp_free(r);
    return h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > SNIB__RESP_UNREAD / 2) {
        return 0; /* there the cut decides whether the bound is passed      */
    }
    uint64_t whole = digest(data, size, size ? size : 1);
    MUST(digest(data, size, 1) == whole);
    MUST(digest(data, size, 7) == whole);
    return 0;
}

/* tests/fuzz/reply.h — a reply of RESP2, read by a reader that is not the
 * product's. Stricter: what hiredis may take or not is BROKEN here. */
#ifndef SNIB_TESTS_REPLY_H
#define SNIB_TESTS_REPLY_H

#include <inttypes.h>
#include <stdio.h>

#include "fuzz.h"

enum { SEEN_CELLS = 1100, SEEN_DEEP = 6 };

/* A value of a reply; those of a list follow it. */
struct seen_cell {
    char type; /* ':' '+' '-' '$' '*', '0': none                            */
    int64_t n; /* ':' the number; '*' how many                              */
    const char *p;
    size_t size;
    uint32_t span;
};

struct seen_reply {
    struct seen_cell cell[SEEN_CELLS];
    uint32_t cells;
    const char *p, *end;
};

enum seen_result { SEEN_WHOLE, SEEN_MORE, SEEN_BROKEN };

static inline bool seen_number(const char *p, size_t n, int64_t *ret)
{
    char text[24], again[24];
    if (!n || n >= sizeof text) {
        return false;
    }
    memcpy(text, p, n);
    text[n] = 0;
    *ret = strtoll(text, NULL, 10);
    snprintf(again, sizeof again, "%" PRId64, *ret);
    return !strcmp(text, again);
}

static inline enum seen_result seen_value(struct seen_reply *r, int deep);

static inline enum seen_result seen_list(struct seen_reply *r, uint32_t at,
                                         int deep)
{
    for (int64_t i = 0; i < r->cell[at].n; i++) {
        enum seen_result got = seen_value(r, deep + 1);
        if (got != SEEN_WHOLE) {
            return got;
        }
    }
    r->cell[at].span = r->cells - at;
    return SEEN_WHOLE;
}

static inline enum seen_result seen_text(struct seen_reply *r,
                                         struct seen_cell *c)
{
    if (c->n == -1) {
        c->type = '0';
        return SEEN_WHOLE;
    }
    if (c->n < 0) {
        return SEEN_BROKEN;
    }
    if (r->end - r->p < 2 || c->n > r->end - r->p - 2) {
        return SEEN_MORE;
    }
    c->p = r->p;
    c->size = (size_t)c->n;
    r->p += c->n + 2;
    return SEEN_WHOLE;
}

static inline enum seen_result seen_value(struct seen_reply *r, int deep)
{
    const char *line = r->p;
    const char *cr = memchr(line, '\r', (size_t)(r->end - line));
    if (line < r->end && !strchr("+-:$*", *line)) {
        return SEEN_BROKEN;
    }
    if (!cr || cr + 1 == r->end) {
        return SEEN_MORE;
    }
    if (cr[1] != '\n' || deep > SEEN_DEEP || r->cells == SEEN_CELLS || !*line) {
        return SEEN_BROKEN;
    }
    uint32_t at = r->cells++;
    struct seen_cell *c = &r->cell[at];
    *c = (struct seen_cell){
        .type = *line, .p = line + 1, .size = (size_t)(cr - line - 1)};
    c->span = 1;
    r->p = cr + 2;
    if (c->type == '+' || c->type == '-') {
        return SEEN_WHOLE;
    }
    if (!seen_number(c->p, c->size, &c->n)) {
        return SEEN_BROKEN;
    }
    if (c->type == '$') {
        return seen_text(r, c);
    }
    if (c->type == '*' && c->n < 0) {
        c->type = '0';
        return c->n == -1 ? SEEN_WHOLE : SEEN_BROKEN;
    }
    return c->type == '*' ? seen_list(r, at, deep) : SEEN_WHOLE;
}

static inline const struct seen_cell *seen_at(const struct seen_cell *c,
                                              int64_t i)
{
    if (!c || c->type != '*' || i >= c->n) {
        return NULL;
    }
    const struct seen_cell *e = c + 1;
    while (i--) {
        e += e->span;
    }
    return e;
}

static inline bool seen_int(const struct seen_cell *c, int64_t i, int64_t *ret)
{
    const struct seen_cell *e = seen_at(c, i);
    *ret = e ? e->n : 0;
    return e && e->type == ':';
}

#endif

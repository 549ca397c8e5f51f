/* base/heap.c — 4-ary heap of timers: shallower than a binary one, so a
 * renewal that moves to the back touches fewer cache lines. */
#include "base/heap.h"

#include <assert.h>

#include "base/mem.h"

void snib__heap_free(struct snib__heap *h)
{
    snib__free(h->v);
    *h = (struct snib__heap){0};
}

bool snib__heap_reserve(struct snib__heap *h, uint32_t total)
{
    if (total < h->cap) {
        return true;
    }
    uint32_t cap = h->cap ? h->cap : 16;
    while (cap <= total) {
        cap *= 2;
    }
    void *v = snib__realloc(h->v, cap * sizeof *h->v);
    if (!v) {
        return false;
    }
    h->v = v;
    h->cap = cap;
    return true;
}

static void heap_put(struct snib__heap *h, uint32_t i, struct snib__timer *t)
{
    h->v[i] = t;
    t->index = i;
}

static uint32_t heap_parent_of(uint32_t i)
{
    return (i + 2) / 4;
}

static uint32_t heap_first_child_of(uint32_t i)
{
    return 4 * i - 2;
}

static void heap_sift_up(struct snib__heap *h, uint32_t i,
                         struct snib__timer *t)
{
    while (i > 1 && h->v[heap_parent_of(i)]->at.ns > t->at.ns) {
        heap_put(h, i, h->v[heap_parent_of(i)]);
        i = heap_parent_of(i);
    }
    heap_put(h, i, t);
}

static void heap_sift_down(struct snib__heap *h, uint32_t i,
                           struct snib__timer *t)
{
    for (;;) {
        uint32_t c = heap_first_child_of(i), best = c;
        if (c > h->size) {
            break;
        }
        for (uint32_t k = c + 1; k < c + 4 && k <= h->size; k++) {
            if (h->v[k]->at.ns < h->v[best]->at.ns) {
                best = k;
            }
        }
        if (h->v[best]->at.ns >= t->at.ns) {
            break;
        }
        heap_put(h, i, h->v[best]);
        i = best;
    }
    heap_put(h, i, t);
}

void snib__heap_set(struct snib__heap *h, struct snib__timer *t,
                    snib_instant at)
{
    if (at.ns == INT64_MAX) {
        snib__heap_remove(h, t);
        t->at = at;
        return;
    }
    if (!t->index) {
        assert(h->size + 1 < h->cap);
        t->at = at;
        heap_sift_up(h, ++h->size, t);
        return;
    }
    bool sooner = at.ns < t->at.ns;
    t->at = at;
    if (sooner) {
        heap_sift_up(h, t->index, t);
    } else {
        heap_sift_down(h, t->index, t);
    }
}

void snib__heap_remove(struct snib__heap *h, struct snib__timer *t)
{
    uint32_t i = t->index;
    if (!i) {
        return;
    }
    assert(h->v[i] == t);
    struct snib__timer *last = h->v[h->size--];
    t->index = 0;
    if (last != t) {
        if (i > 1 && h->v[heap_parent_of(i)]->at.ns > last->at.ns) {
            heap_sift_up(h, i, last);
        } else {
            heap_sift_down(h, i, last);
        }
    }
}

struct snib__timer *snib__heap_min(const struct snib__heap *h)
{
    return h->size ? h->v[1] : NULL;
}

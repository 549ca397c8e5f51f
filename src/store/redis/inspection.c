/* store/redis/inspection.c — an inspection, and the names that a LIST finds.
 *
 * Its memory is freed with the request's answer. A scan may show a name twice,
 * so the names stand in one buffer and in a table by their hash. */
#include <string.h>

#include "base/mem.h"
#include "store/redis/inspect_i.h"

enum { NAMES_LIMIT = 64 * 1024 * 1024 };

struct inspection *snib__inspection_find(struct snib__redis *s,
                                         const struct snib__request *rq)
{
    SNIB__LIST_EACH (l, &s->inspections) {
        struct inspection *k = SNIB__CONTAINER(l, struct inspection, link);
        if (k->rq == rq) {
            return k;
        }
    }
    return NULL;
}

void snib__inspection_end(struct snib__redis *s, struct snib__request *rq)
{
    struct inspection *k = snib__inspection_find(s, rq);
    if (k) {
        snib__unlink(&k->link);
        snib__buf_free(&k->names);
        snib__free(k->table);
        snib__free(k);
        s->inspection_count--;
    }
}

struct inspection *snib__inspection_new(struct snib__redis *s,
                                        struct snib__request *rq)
{
    struct inspection *k = snib__alloc(sizeof *k);
    if (!k) {
        return NULL;
    }
    k->rq = rq;
    snib__buf_init(&k->names, NAMES_LIMIT);
    snib__link_init(&k->link);
    snib__list_push(&s->inspections, &k->link);
    s->inspection_count++;
    return k;
}

/* -- names ----------------------------------------------------------------- */

static uint64_t inspection_hash(const char *p, size_t n)
{
    uint64_t h = UINT64_C(14695981039346656037);
    while (n--) {
        h = (h ^ (uint8_t)*p++) * UINT64_C(1099511628211);
    }
    return h ^ h >> 29;
}

/* An entry of names is its length (u32) and its bytes. */
const char *snib__inspection_name(const struct inspection *k, uint32_t offset,
                                  uint32_t *size)
{
    const uint8_t *p = snib__buf_bytes(&k->names) + offset;
    memcpy(size, p, sizeof *size);
    return (const char *)p + sizeof *size;
}

static bool inspection_widen(struct inspection *k)
{
    uint32_t size = k->table_size ? 2 * k->table_size : 64;
    uint32_t *table = snib__alloc(size * sizeof *table);
    if (!table) {
        return false;
    }
    for (uint32_t i = 0; i < k->table_size; i++) {
        if (k->table[i]) {
            uint32_t n;
            const char *name = snib__inspection_name(k, k->table[i] - 1, &n);
            uint64_t at = inspection_hash(name, n);
            while (table[at & (size - 1)]) {
                at++;
            }
            table[at & (size - 1)] = k->table[i];
        }
    }
    snib__free(k->table);
    k->table = table;
    k->table_size = size;
    return true;
}

bool snib__inspection_add(struct inspection *k, const char *safe, uint32_t size)
{
    uint32_t n;
    if (2 * (k->name_count + 1) > k->table_size && !inspection_widen(k)) {
        return false;
    }
    uint64_t at = inspection_hash(safe, size);
    for (;; at++) {
        uint32_t *slot = &k->table[at & (k->table_size - 1)];
        if (!*slot) {
            *slot = (uint32_t)snib__buf_size(&k->names) + 1;
            k->name_count++;
            snib__buf_add(&k->names, &size, sizeof size);
            snib__buf_add(&k->names, safe, size);
            return !k->names.failed;
        }
        const char *name = snib__inspection_name(k, *slot - 1, &n);
        if (n == size && !memcmp(name, safe, size)) {
            return true;
        }
    }
}

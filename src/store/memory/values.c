/* store/memory/values.c — versioned values in plain memory.
 *
 * A table by the hash of the name. A value that has ended or was removed is
 * remembered for SNIB__VALUE_MEMORY_MS with its last changes, for requests that
 * are repeated. Then it is dropped and leaves its highest version in `floor`;
 * every later version of any name is above that. Each change sweeps one bucket,
 * so nothing stays for ever. */
#include "store/memory/values.h"

#include <stdatomic.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/version.h"

enum { BUCKETS_FIRST = 64 };

struct entry {
    struct snib__link bucket;
    uint64_t hash;
    struct snib__version v;
    snib_instant until; /* end of the value; if absent: when it went */
    void *bytes;        /* NULL: none */
    uint32_t size;
    uint32_t name_size;
    char name[];
};

struct snib__mem_values {
    /* buckets: a power of two. cleaner: the bucket to be swept next. */
    uint32_t buckets, count, cleaner;
    int64_t floor;
    /* Highest version of dropped entries whose last changes a repeat may ask
     * for. */
    int64_t swept;
    struct snib__list *bucket;
};

static _Atomic int64_t floor_of_ended; /* highest of the spaces that ended */

static struct entry *values_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct entry, bucket);
}

static struct snib__list *values_new_buckets(uint32_t n)
{
    struct snib__list *v = snib__alloc(n * sizeof *v);
    for (uint32_t i = 0; v && i < n; i++) {
        snib__list_init(&v[i]);
    }
    return v;
}

static struct snib__mem_values *values_new_values(void)
{
    struct snib__mem_values *t = snib__alloc(sizeof *t);
    if (t) {
        t->buckets = BUCKETS_FIRST;
        t->floor = atomic_load(&floor_of_ended);
        t->bucket = values_new_buckets(t->buckets);
        if (!t->bucket) {
            snib__free(t);
            return NULL;
        }
    }
    return t;
}

static void values_drop(struct snib__mem_values *t, struct entry *e)
{
    if (e->v.last > t->floor) {
        t->floor = e->v.last;
    }
    if (e->v.last > t->swept) {
        t->swept = e->v.last;
    }
    snib__unlink(&e->bucket);
    snib__free(e->bytes);
    snib__free(e);
    t->count--;
}

void snib__mem_values_free(struct snib__mem_values *t)
{
    if (!t) {
        return;
    }
    for (uint32_t i = 0; i < t->buckets; i++) {
        struct snib__link *l;
        while ((l = snib__list_first(&t->bucket[i]))) {
            values_drop(t, values_of(l));
        }
    }
    int64_t seen = atomic_load(&floor_of_ended);
    while (seen < t->floor &&
           !atomic_compare_exchange_weak(&floor_of_ended, &seen, t->floor)) {
    }
    snib__free(t->bucket);
    snib__free(t);
}

/* Double the table. Without memory it stays as it is and only gets slower. */
static void values_grow(struct snib__mem_values *t)
{
    struct snib__list *old = t->bucket, *v = values_new_buckets(2 * t->buckets);
    uint32_t n = t->buckets;
    if (!v) {
        return;
    }
    t->bucket = v;
    t->buckets *= 2;
    for (uint32_t i = 0; i < n; i++) {
        struct snib__link *l;
        while ((l = snib__list_pop(&old[i]))) {
            snib__list_push(&v[values_of(l)->hash & (t->buckets - 1)], l);
        }
    }
    snib__free(old);
}

static struct entry *values_find(struct snib__mem_values *t,
                                 const struct snib__name *name)
{
    SNIB__LIST_EACH (l, &t->bucket[name->hash & (t->buckets - 1)]) {
        struct entry *e = values_of(l);
        if (e->hash == name->hash && e->name_size == name->raw_size &&
            memcmp(e->name, name->raw, name->raw_size) == 0) {
            return e;
        }
    }
    return NULL;
}

static struct entry *values_make(struct snib__mem_values *t,
                                 const struct snib__name *name)
{
    struct entry *e = snib__alloc(sizeof *e + name->raw_size);
    if (!e) {
        return NULL;
    }
    e->hash = name->hash;
    e->name_size = name->raw_size;
    memcpy(e->name, name->raw, name->raw_size);
    e->v.last = t->floor;
    e->v.forgotten = t->swept;
    if (++t->count > t->buckets) {
        values_grow(t);
    }
    snib__list_push(&t->bucket[e->hash & (t->buckets - 1)], &e->bucket);
    return e;
}

static void values_sweep(struct snib__mem_values *t, snib_instant now)
{
    struct snib__list *list = &t->bucket[t->cleaner++ & (t->buckets - 1)];
    SNIB__LIST_EACH_SAFE (l, next, list) {
        struct entry *e = values_of(l);
        if (snib__reached(
                now, snib__after(e->until, snib__ms(SNIB__VALUE_MEMORY_MS)))) {
            values_drop(t, e);
        }
    }
}

static void values_end_if_due(struct entry *e, snib_instant now)
{
    if (e->v.version && snib__reached(now, e->until)) {
        e->v.version = 0;
        snib__free(e->bytes);
        e->bytes = NULL;
        e->size = 0;
    }
}

static void values_no_memory(struct snib__request *r)
{
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err = snib__fail_plain(r->said.reterr, SNIB_ERR_NOMEM);
}

static void values_get(struct snib__mem_values *t, snib_instant now,
                       struct snib__request *r)
{
    struct entry *e = values_find(t, r->name);
    r->token = 0;
    if (e) {
        values_end_if_due(e, now);
        r->token = e->v.version;
        snib__buf_add(r->said.result, e->bytes, e->size);
    }
    if (r->said.result->failed) {
        values_no_memory(r);
        return;
    }
    r->said.answer = SNIB__DONE;
    r->said.err = snib__ok(r->said.reterr);
}

/* The copy of the bytes is made before anything is decided, so that nothing can
 * fail afterwards. */
static void values_change(struct snib__space *s, snib_instant now,
                          struct snib__request *r)
{
    void *bytes = NULL;
    struct entry *e = values_find(s->values, r->name);
    if (!e) {
        e = values_make(s->values, r->name);
        if (e) {
            e->until = now;
        }
    }
    if (e && r->verb == SNIB__VALUE_PUT) {
        bytes = snib__memdup(r->text, r->text_size);
    }
    if (!e || (r->verb == SNIB__VALUE_PUT && !bytes)) {
        values_no_memory(r);
        return;
    }
    values_end_if_due(e, now);
    switch (snib__version_step(&e->v, r, snib__space_wall_ms(s))) {
    case SNIB__VERSION_PUT:
        snib__free(e->bytes);
        e->bytes = bytes;
        e->size = r->text_size;
        e->until = snib__after(now, r->lease);
        return;
    case SNIB__VERSION_DELETE:
        snib__free(e->bytes);
        e->bytes = NULL;
        e->size = 0;
        e->until = now;
        break;
    case SNIB__VERSION_KEEP:
    case SNIB__VERSION_NOTE:
        break;
    }
    snib__free(bytes);
}

void snib__mem_values_run(struct snib__space *s, struct snib__request *r)
{
    snib_instant now = snib__space_now(s);
    if (!s->values) {
        s->values = values_new_values();
    }
    if (!s->values) {
        values_no_memory(r);
        return;
    }
    if (r->verb == SNIB__VALUE_GET) {
        values_get(s->values, now, r);
    } else {
        values_sweep(s->values, now);
        values_change(s, now, r);
    }
}

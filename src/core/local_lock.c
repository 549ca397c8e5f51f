/* core/local_lock.c — the names this client deals with.
 *
 * A hash table of chains. A local lock lives as long as something refers to it:
 * lock handles, acquisitions, a claim, pending requests, own claims. Growing
 * the table is the only allocation besides the local lock itself, and it may
 * fail quietly: chains get longer, nothing breaks. */
#include "base/error.h"
#include "base/mem.h"
#include "core/engine_i.h"

enum { FIRST_BUCKETS = 16 };

static struct snib__list *local_lock_bucket_of(const struct snib__engine *e,
                                               uint64_t hash)
{
    return &e->buckets[hash & (e->bucket_count - 1)];
}

snib_err snib__local_locks_init(struct snib__engine *e)
{
    e->buckets = snib__alloc(FIRST_BUCKETS * sizeof *e->buckets);
    if (!e->buckets) {
        return SNIB_ERR_NOMEM;
    }
    e->bucket_count = FIRST_BUCKETS;
    for (uint32_t i = 0; i < e->bucket_count; i++) {
        snib__list_init(&e->buckets[i]);
    }
    return SNIB_ERR_OK;
}

static void local_lock_grow(struct snib__engine *e)
{
    uint32_t old_count = e->bucket_count;
    struct snib__list *old = e->buckets;
    struct snib__list *wider = snib__alloc(2 * old_count * sizeof *wider);
    if (!wider) {
        return;
    }
    e->buckets = wider;
    e->bucket_count = 2 * old_count;
    for (uint32_t i = 0; i < e->bucket_count; i++) {
        snib__list_init(&wider[i]);
    }
    for (uint32_t i = 0; i < old_count; i++) {
        struct snib__link *l;
        while ((l = snib__list_pop(&old[i]))) {
            struct snib__local_lock *s =
                SNIB__CONTAINER(l, struct snib__local_lock, bucket);
            snib__list_push(local_lock_bucket_of(e, s->name->hash), l);
        }
    }
    snib__free(old);
}

/* Makes the heap large enough for the timer of one claim more. */
static bool local_lock_reserve(struct snib__engine *e)
{
    return snib__heap_reserve(&e->claims,
                              e->counts.local_locks + e->counts.own_claims + 1);
}

static void local_lock_init(struct snib__local_lock *s)
{
    s->refs = 1;
    snib__list_init(&s->waiting);
    snib__list_init(&s->dead);
    snib__list_init(&s->own_locks);
}

struct snib__local_lock *snib__own_lock_new(struct snib__engine *e,
                                            struct snib__local_lock *parent)
{
    struct snib__local_lock *s = snib__alloc(sizeof *s);
    if (!s || !local_lock_reserve(e)) {
        snib__free(s);
        return NULL;
    }
    local_lock_init(s);
    s->name = parent->name;
    s->parent = parent;
    parent->refs++;
    snib__list_push(&parent->own_locks, &s->bucket);
    e->counts.own_claims++;
    return s;
}

struct snib__local_lock *snib__local_lock_find(const struct snib__engine *e,
                                               const struct snib__name *name)
{
    SNIB__LIST_EACH (l, local_lock_bucket_of(e, name->hash)) {
        struct snib__local_lock *s =
            SNIB__CONTAINER(l, struct snib__local_lock, bucket);
        if (snib__name_same(s->name, name)) {
            return s;
        }
    }
    return NULL;
}

snib_err snib__engine_local_lock(struct snib__engine *e, const char *raw,
                                 size_t size, struct snib__local_lock **ret,
                                 struct snib_error *reterr)
{
    struct snib__name *name;
    snib_err err = snib__name_new(raw, size, &name, reterr);
    *ret = NULL;
    if (err) {
        return err;
    }
    struct snib__local_lock *s = snib__local_lock_find(e, name);
    if (s) {
        snib__free(name);
        s->refs++;
        *ret = s;
        return snib__ok(reterr);
    }
    s = snib__alloc(sizeof *s);
    if (!s || !local_lock_reserve(e)) {
        snib__free(s);
        snib__free(name);
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    s->name = name;
    local_lock_init(s);
    if (e->counts.local_locks >= 2 * e->bucket_count) {
        local_lock_grow(e);
    }
    snib__list_push(local_lock_bucket_of(e, name->hash), &s->bucket);
    e->counts.local_locks++;
    *ret = s;
    return snib__ok(reterr);
}

void snib__local_lock_free(struct snib__engine *e, struct snib__local_lock *s)
{
    struct snib__local_lock *parent = s->parent;
    snib__unlink(&s->bucket);
    if (parent) {
        e->counts.own_claims--;
    } else {
        snib__free(s->name);
        e->counts.local_locks--;
    }
    snib__free(s);
    if (parent) {
        snib__local_lock_drop(e, parent);
    }
}

void snib__engine_local_lock_unref(struct snib__engine *e,
                                   struct snib__local_lock *s)
{
    snib__local_lock_drop(e, s);
}

const struct snib__name *snib__local_lock_name(const struct snib__local_lock *s)
{
    return s->name;
}

/* Only at the end of the engine: everything that still refers to a local lock
 * goes with it (acquisitions and claims were freed before). */
void snib__local_locks_free(struct snib__engine *e)
{
    for (uint32_t i = 0; i < e->bucket_count; i++) {
        struct snib__link *l;
        while ((l = snib__list_pop(&e->buckets[i]))) {
            struct snib__local_lock *s =
                SNIB__CONTAINER(l, struct snib__local_lock, bucket);
            while ((l = snib__list_pop(&s->own_locks))) {
                snib__free(SNIB__CONTAINER(l, struct snib__local_lock, bucket));
            }
            snib__free(s->name);
            snib__free(s);
        }
    }
    snib__free(e->buckets);
}

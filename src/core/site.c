/* core/site.c — the names this client deals with.
 *
 * A hash table of chains; a site lives as long as somebody refers to it: lock
 * handles, seats, a turn, requests under way. Growing the table is the only
 * allocation besides the site itself, and it may fail quietly: chains get
 * longer, nothing breaks. */
#include "base/error.h"
#include "base/mem.h"
#include "core/engine_i.h"

enum { FIRST_BUCKETS = 16 };

static struct snib__list *bucket_of(const struct snib__engine *e, uint64_t hash)
{
    return &e->buckets[hash & (e->bucket_count - 1)];
}

snib_err snib__sites_init(struct snib__engine *e)
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

static void grow(struct snib__engine *e)
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
            struct snib__site *s =
                SNIB__CONTAINER(l, struct snib__site, bucket);
            snib__list_push(bucket_of(e, s->name->hash), l);
        }
    }
    snib__free(old);
}

/* Room for the timers of one turn more. */
static bool reserve(struct snib__engine *e)
{
    return snib__heap_reserve(&e->turns,
                              e->counts.sites + e->counts.stakes + 1);
}

static void site_init(struct snib__site *s)
{
    s->refs = 1;
    snib__list_init(&s->waiting);
    snib__list_init(&s->dead);
    snib__list_init(&s->stakes);
}

struct snib__site *snib__stake_new(struct snib__engine *e,
                                   struct snib__site *parent)
{
    struct snib__site *s = snib__alloc(sizeof *s);
    if (!s || !reserve(e)) {
        snib__free(s);
        return NULL;
    }
    site_init(s);
    s->name = parent->name;
    s->parent = parent;
    parent->refs++;
    snib__list_push(&parent->stakes, &s->bucket);
    e->counts.stakes++;
    return s;
}

struct snib__site *snib__site_find(const struct snib__engine *e,
                                   const struct snib__name *name)
{
    SNIB__LIST_EACH (l, bucket_of(e, name->hash)) {
        struct snib__site *s = SNIB__CONTAINER(l, struct snib__site, bucket);
        if (snib__name_same(s->name, name)) {
            return s;
        }
    }
    return NULL;
}

snib_err snib__engine_site(struct snib__engine *e, const char *raw, size_t size,
                           struct snib__site **ret, struct snib_error *reterr)
{
    struct snib__name *name;
    snib_err err = snib__name_new(raw, size, &name, reterr);
    *ret = NULL;
    if (err) {
        return err;
    }
    struct snib__site *s = snib__site_find(e, name);
    if (s) {
        snib__free(name);
        s->refs++;
        *ret = s;
        return snib__ok(reterr);
    }
    s = snib__alloc(sizeof *s);
    if (!s || !reserve(e)) {
        snib__free(s);
        snib__free(name);
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    s->name = name;
    site_init(s);
    if (e->counts.sites >= 2 * e->bucket_count) {
        grow(e);
    }
    snib__list_push(bucket_of(e, name->hash), &s->bucket);
    e->counts.sites++;
    *ret = s;
    return snib__ok(reterr);
}

void snib__site_drop(struct snib__engine *e, struct snib__site *s)
{
    if (--s->refs > 0) {
        return;
    }
    struct snib__site *parent = s->parent;
    snib__unlink(&s->bucket);
    if (parent) {
        e->counts.stakes--;
    } else {
        snib__free(s->name);
        e->counts.sites--;
    }
    snib__free(s);
    if (parent) {
        snib__site_drop(e, parent);
    }
}

void snib__engine_site_unref(struct snib__engine *e, struct snib__site *s)
{
    snib__site_drop(e, s);
}

const struct snib__name *snib__site_name(const struct snib__site *s)
{
    return s->name;
}

/* Only at the end of the engine: whatever still refers to a site goes with
 * it (seats and turns were freed before). */
void snib__sites_free(struct snib__engine *e)
{
    for (uint32_t i = 0; i < e->bucket_count; i++) {
        struct snib__link *l;
        while ((l = snib__list_pop(&e->buckets[i]))) {
            struct snib__site *s =
                SNIB__CONTAINER(l, struct snib__site, bucket);
            while ((l = snib__list_pop(&s->stakes))) {
                snib__free(SNIB__CONTAINER(l, struct snib__site, bucket));
            }
            snib__free(s->name);
            snib__free(s);
        }
    }
    snib__free(e->buckets);
}

/* core/blocking_table.c — the requests that a blocking store owns, by id.
 *
 * Lists in an array whose length is a power of two; in each list the requests
 * are in the order of their starts. */
#include "core/blocking_i.h"

#include "base/mem.h"

struct snib__list *snib__blocking_bucket(struct snib__store *s,
                                         const uint64_t id[2])
{
    return &s->bucket[id[0] & (s->buckets - 1)];
}

bool snib__blocking_grow(struct snib__store *s, uint32_t buckets)
{
    struct snib__list *old = s->bucket;
    uint32_t old_count = s->buckets;
    struct snib__list *v = snib__alloc(buckets * sizeof *v);
    if (!v) {
        return false;
    }
    for (uint32_t i = 0; i < buckets; i++) {
        snib__list_init(&v[i]);
    }
    s->bucket = v;
    s->buckets = buckets;
    for (uint32_t i = 0; i < old_count; i++) {
        struct snib__link *l;
        while ((l = snib__list_pop(&old[i]))) {
            snib__list_push(snib__blocking_bucket(s, snib__rq_of_own(l)->id),
                            l);
        }
    }
    snib__free(old);
    return true;
}

bool snib__blocking_reserve(struct snib__store *s)
{
    if (s->owned >= s->buckets) {
        (void)snib__blocking_grow(s, s->buckets * 2);
    }
    return snib__heap_reserve(&s->heap, s->owned + 1);
}

struct snib__request *snib__blocking_find_acquire(struct snib__store *s,
                                                  const uint64_t id[2])
{
    SNIB__LIST_EACH (l, snib__blocking_bucket(s, id)) {
        struct snib__request *r = snib__rq_of_own(l);
        if (r->verb == SNIB__ACQUIRE && snib__rq_same_id(r, id)) {
            return r;
        }
    }
    return NULL;
}

bool snib__blocking_owns(struct snib__store *s, const struct snib__request *r)
{
    SNIB__LIST_EACH (l, snib__blocking_bucket(s, r->id)) {
        if (snib__rq_of_own(l) == r) {
            return true;
        }
    }
    return false;
}

void snib__blocking_forget(struct snib__store *s, struct snib__request *r)
{
    snib__unlink(&r->store.link);
    snib__heap_remove(&s->heap, &r->store.timer);
    r->store.where = SNIB__RQ_WAITING;
    s->owned--;
}

/* store/file/keep.c — what a power failure leaves of versioned values.
 *
 * Locks end with the boot, values do not. But the pages of a mapped file reach
 * the disk in any order: a root may be there without the block that it names,
 * and a block without the root. So after a new boot neither roots nor indexes
 * are believed. Each value is a block that says all about itself, with a sum.
 * All blocks are looked at, and of each name the whole one with the highest
 * version counts.
 *
 * What must not happen then is that an old value of a name is found and its
 * successor is not. So
 *
 * - the block of a value that was replaced is *retired*. It stays as it is until
 *   an fdatasync is complete that began later: then its successor is on the
 *   disk, and the block is marked as no value any more and is free;
 * - the last value of a name that is forgotten has no successor. It is marked
 *   one fdatasync later than what it has replaced, or the two marks might reach
 *   the disk in the wrong order;
 * - a block becomes a value (its `use`) only when the index has it.
 *
 * Whoever changes a value calls fdatasync if the last one was a second ago. So
 * after a power failure the newest changes may be missing, but each name has a
 * value that it had, and no older one than that of the last complete
 * fdatasync. */
#include "store/file/internal.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

#define SYNC_EACH_NS  INT64_C(1000000000)
#define SYNC_LEAST_NS INT64_C(10000000)
/* With so much waiting to become free it is due sooner. */
#define WAITING_MOST (UINT64_C(8) << 20)

uint64_t snib__keep_sum(const struct snib__map *m, uint32_t unit,
                        const struct snib__file_value *v)
{
    return snib__map_hash(m->head->key ^ unit, &v->hash,
                          snib__keep_size(v->name_size, v->bytes) -
                              offsetof(struct snib__file_value, hash));
}

bool snib__keep_is_whole(const struct snib__map *m, uint32_t unit,
                         const struct snib__file_value *v, size_t used)
{
    return used >= sizeof *v && v->name_size > 0 &&
           v->name_size <= SNIB_NAME_MAX && v->bytes <= SNIB_VALUE_MAX &&
           snib__keep_size(v->name_size, v->bytes) == used &&
           v->sum == snib__keep_sum(m, unit, v);
}

bool snib__keep_is_value(struct snib__map *m, uint32_t unit, uint32_t class,
                         const struct snib__file_value **ret)
{
    const struct snib__file_block *b = snib__block_at(m, unit, class);
    if (!b || b->class != class || b->used > snib__block_room(class)) {
        return false;
    }
    *ret = (const void *)(b + 1);
    return snib__keep_is_whole(m, unit, *ret, b->used);
}

/* -- what was replaced -------------------------------------------------- */

void snib__keep_retire(struct snib__map *m, snib_instant now, uint32_t unit,
                       uint32_t class, bool last)
{
    struct snib__file_block *b = snib__block_at(m, unit, class);
    if (!b) {
        return;
    }
    b->class = class;
    b->bucket = last;
    b->when = (uint64_t)now.ns;
    (void)snib__file_add(&m->head->waiting, SNIB__FILE_LEAST << class);
    snib__block_push(m, &m->head->retired, unit, class);
}

/* The next block of a stack of retired ones; it is this client's. */
static struct snib__file_block *keep_pop(struct snib__map *m,
                                         snib__file_word *stack, uint32_t *ret)
{
    *ret = snib__block_pop(m, stack, 0);
    struct snib__file_block *b = *ret ? snib__block_at(m, *ret, 0) : NULL;
    /* damaged: a sweep finds it */
    return b && snib__block_at(m, *ret, b->class) ? b : NULL;
}

/* What was retired before `from` is free. Each block is taken alone, and what is
 * too young lies on `kept` until all were looked at: a client that is killed
 * here loses one. */
static void keep_drain(struct snib__map *m, const struct snib__host *h,
                       uint64_t from)
{
    struct snib__file_head *head = m->head;
    struct snib__file_block *b;
    uint32_t unit;
    size_t most = m->limit / SNIB__FILE_LEAST; /* a damaged stack has no end */
    for (; most && (b = keep_pop(m, &head->retired, &unit)); most--) {
        if (b->when >= from) {
            snib__block_push(m, &head->kept, unit, b->class);
        } else if (b->bucket) { /* the last of a name: once more */
            b->bucket = false;
            b->when = (uint64_t)snib__host_lease_now(h).ns;
            snib__block_push(m, &head->kept, unit, b->class);
        } else {
            b->use = SNIB__FILE_FREE;
            (void)snib__file_add(&head->waiting,
                                 -((uint64_t)SNIB__FILE_LEAST << b->class));
            snib__block_push(m, &head->stack[b->class], unit, b->class);
        }
    }
    for (; most && (b = keep_pop(m, &head->kept, &unit)); most--) {
        snib__block_push(m, &head->retired, unit, b->class);
    }
}

void snib__keep_sync(struct snib__map *m, const struct snib__host *h)
{
    struct snib__file_head *head = m->head;
    uint64_t now = (uint64_t)snib__host_lease_now(h).ns;
    uint64_t begun = snib__file_load(&head->sync_begun);
    bool much = snib__file_load(&head->waiting) > WAITING_MOST;
    if (now < begun + (uint64_t)(much ? SYNC_LEAST_NS : SYNC_EACH_NS) ||
        !snib__file_cas(&head->sync_begun, &begun, now)) {
        return;
    }
    snib__map_mark(m, h);
    snib__file_before("sync");
    if (fdatasync(m->fd)) {
        return;
    }
    snib__file_raise(&head->synced_from, (int64_t)now);
    keep_drain(m, h, now);
}

/* -- after a new boot ------------------------------------------------------- */

static const struct snib__file_value *keep_of(struct snib__map *m,
                                              const struct snib__extent *e)
{
    return (const void *)(snib__block_at(m, e->unit, e->class) + 1);
}

static bool keep_same_name(const struct snib__file_value *a,
                           const struct snib__file_value *b)
{
    return a->name_size == b->name_size &&
           memcmp(a + 1, b + 1, a->name_size) == 0;
}

/* By name's hash, the newest first. */
static int keep_order(const void *a, const void *b)
{
    const struct snib__extent *x = a, *y = b;
    if (x->hash != y->hash) {
        return x->hash < y->hash ? -1 : 1;
    }
    return x->last > y->last ? -1 : x->last < y->last;
}

/* Of each name the newest stays. */
static void keep_newest(struct snib__map *m, struct snib__extents *all,
                        size_t first)
{
    size_t n = first;
    for (size_t i = first; i < all->count; i++) {
        const struct snib__extent *e = &all->v[i];
        bool older = false;
        for (size_t k = n; k > first && all->v[k - 1].hash == e->hash; k--) {
            older = older ||
                    keep_same_name(keep_of(m, &all->v[k - 1]), keep_of(m, e));
        }
        if (!older) {
            all->v[n++] = *e;
        }
    }
    all->count = n;
}

snib_err snib__keep_find(struct snib__map *m, struct snib__extents *all,
                         int64_t *ret_last)
{
    const uint32_t step = SNIB__FILE_LEAST / SNIB__FILE_UNIT;
    uint64_t end = atomic_load(&m->head->size) / SNIB__FILE_UNIT;
    size_t first = all->count;
    *ret_last = 0;
    for (uint64_t unit = m->first; unit + step <= end;) {
        const struct snib__file_block *b = snib__block_at(m, (uint32_t)unit, 0);
        const struct snib__file_value *v;
        struct snib__version version;
        uint32_t units = step;
        if (b && b->use == SNIB__FILE_VALUE &&
            snib__keep_is_value(m, (uint32_t)unit, b->class, &v) &&
            snib__version_unpack(v->record, sizeof v->record, &version)) {
            struct snib__extent e = {.unit = (uint32_t)unit,
                                     .class = b->class,
                                     .hash = v->hash,
                                     .last = version.last,
                                     .bucket = (uint32_t)v->hash &
                                               (m->value_root_count - 1)};
            *ret_last = version.last > *ret_last ? version.last : *ret_last;
            if (!snib__extents_add(all, e)) {
                return SNIB_ERR_NOMEM;
            }
            units = snib__block_units(b->class);
        }
        unit += units;
    }
    if (all->count > first) {
        qsort(all->v + first, all->count - first, sizeof *all->v, keep_order);
        keep_newest(m, all, first);
    }
    return SNIB_ERR_OK;
}

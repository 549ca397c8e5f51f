/* store/file/sweep.c — what a client does that is alone in the file.
 *
 * Lost blocks. A client that was killed had blocks that no root and no stack
 * names. The roots tell what is in use; all else is free, and is put on the
 * stacks anew. A sweep that is killed is begun anew by the next who is alone:
 * it takes what it needs to know from the roots alone, and says at its end that
 * nothing is missing.
 *
 * A new boot. Leases are instants of CLOCK_BOOTTIME, so claims of another boot
 * mean nothing, and nobody who held lives. They are dropped bucket by bucket,
 * the boot id is written last. After a power failure a bucket may be anything: a
 * name counts if its sum is right. What was given last may be missing, so all
 * later tokens and versions are above the highest one that is known by ten
 * minutes. */
#include "store/file/internal.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"

/* Tokens and versions that were given since the last page reached the disk. */
#define MARGIN (INT64_C(600000) * 1024)

bool snib__extents_add(struct snib__extents *all, struct snib__extent e)
{
    if (all->count == all->room) {
        size_t room = all->room ? 2 * all->room : 256;
        void *v = snib__realloc(all->v, room * sizeof *all->v);
        if (!v) {
            return false;
        }
        all->v = v;
        all->room = room;
    }
    all->v[all->count++] = e;
    return true;
}

/* A bucket that is none any more. */
static void sweep_drop_root(snib__file_word *root)
{
    uint64_t word = atomic_load(root);
    atomic_store(root, ((word >> 32) + 1) << 32);
}

/* -- what is in use --------------------------------------------------------- */

struct sweep {
    struct snib__map *m;
    const struct snib__host *h;
    bool new_boot, lost;            /* lost: names are missing */
    struct snib__extents used, old; /* old: values that are free */
    struct snib__copy copy;
    int64_t highest, last; /* of tokens; of versions */
};

static snib_err sweep_locks(struct sweep *s)
{
    for (uint32_t i = 0; i < s->m->root_count; i++) {
        if (!(uint32_t)atomic_load(&s->m->roots[i])) {
            continue;
        }
        snib_err err = snib__root_copy(s->m, &s->copy, SNIB__FILE_LOCKS, i);
        if (err == SNIB_ERR_CORRUPT) {
            s->lost = true;
            sweep_drop_root(&s->m->roots[i]);
            continue;
        }
        struct snib__extent e = {.unit = (uint32_t)s->copy.seen,
                                 .class = s->copy.class,
                                 .bucket = i,
                                 .locks = true};
        if (err || !snib__extents_add(&s->used, e)) {
            return SNIB_ERR_NOMEM;
        }
        for (size_t at = 0; at < s->copy.used;) {
            const struct snib__file_lock *l = snib__bucket_lock(&s->copy, at);
            int64_t t = snib__file_token_of(l);
            if (snib__is_token(t) && t > s->highest) {
                s->highest = t;
            }
            at += l->size;
        }
    }
    return SNIB_ERR_OK;
}

/* Same boot: the indexes are right. */
static snib_err sweep_index(struct sweep *s, uint32_t bucket)
{
    const struct snib__file_value *v;
    snib_err err = snib__root_copy(s->m, &s->copy, SNIB__FILE_INDEX, bucket);
    if (err == SNIB_ERR_CORRUPT) {
        sweep_drop_root(&s->m->value_roots[bucket]);
        return SNIB_ERR_OK;
    }
    struct snib__extent e = {.unit = (uint32_t)s->copy.seen,
                             .class = s->copy.class,
                             .bucket = bucket};
    if (err || !snib__extents_add(&s->used, e)) {
        return SNIB_ERR_NOMEM;
    }
    const struct snib__file_entry *entry = (const void *)s->copy.bytes;
    for (size_t i = 0; i < s->copy.used / sizeof *entry; i++) {
        e.unit = entry[i].block;
        e.class = entry[i].class;
        struct snib__file_block *b = snib__block_at(s->m, e.unit, e.class);
        if (!b || !snib__keep_is_value(s->m, e.unit, e.class, &v)) {
            continue; /* whoever asks for it is told */
        }
        b->use = SNIB__FILE_VALUE; /* if its writer was killed before that */
        if (!snib__extents_add(&s->used, e)) {
            return SNIB_ERR_NOMEM;
        }
    }
    return SNIB_ERR_OK;
}

static snib_err sweep_values(struct sweep *s)
{
    snib_err err = SNIB_ERR_OK;
    for (uint32_t i = 0; i < s->m->value_root_count && !err; i++) {
        if (!(uint32_t)atomic_load(&s->m->value_roots[i])) {
            continue;
        }
        if (s->new_boot) {
            sweep_drop_root(&s->m->value_roots[i]);
        } else {
            err = sweep_index(s, i);
        }
    }
    return err || !s->new_boot ? err
                               : snib__keep_find(s->m, &s->used, &s->last);
}

/* -- what is free ----------------------------------------------------------- */

static int sweep_order(const void *a, const void *b)
{
    const struct snib__extent *x = a, *y = b;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

/* Two roots that name the same bytes: only in a damaged file. The one that lies
 * further back is dropped. */
static void sweep_drop_overlaps(struct sweep *s)
{
    uint64_t end = 0;
    size_t n = 0;
    for (size_t i = 0; i < s->used.count; i++) {
        struct snib__extent *e = &s->used.v[i];
        if (e->unit >= end) {
            end = (uint64_t)e->unit + snib__block_units(e->class);
            s->used.v[n++] = *e;
        } else if (!e->hash) {
            s->lost = true;
            sweep_drop_root(e->locks ? &s->m->roots[e->bucket]
                                     : &s->m->value_roots[e->bucket]);
        }
    }
    s->used.count = n;
}

/* Old values in what is free must not be found after a power failure. */
static bool sweep_old_values(struct sweep *s, uint64_t from, uint64_t to)
{
    for (; from < to; from += SNIB__FILE_LEAST / SNIB__FILE_UNIT) {
        struct snib__file_block *b = snib__block_at(s->m, (uint32_t)from, 0);
        const struct snib__file_value *v;
        struct snib__extent e = {.unit = (uint32_t)from};
        struct snib__version version;
        if (!b || b->use != SNIB__FILE_VALUE) {
            continue;
        }
        if (snib__keep_is_value(s->m, e.unit, b->class, &v) &&
            snib__version_unpack(v->record, sizeof v->record, &version)) {
            e.hash = v->hash;
            e.last = version.last;
        }
        if (!snib__extents_add(&s->old, e)) {
            return false;
        }
    }
    return true;
}

/* By name's hash, the newest first. */
static int sweep_newest(const void *a, const void *b)
{
    const struct snib__extent *x = a, *y = b;
    if (x->hash != y->hash) {
        return x->hash < y->hash ? -1 : 1;
    }
    return x->last > y->last ? -1 : x->last < y->last;
}

/* Mark those that are, or are not, the newest of their name. */
static void sweep_mark(struct sweep *s, bool newest)
{
    for (size_t i = 0; i < s->old.count; i++) {
        const struct snib__extent *e = &s->old.v[i];
        if ((i == 0 || e[-1].hash != e->hash) == newest) {
            snib__block_at(s->m, e->unit, 0)->use = SNIB__FILE_FREE;
        }
    }
}

/* What has replaced them must be on the disk first, then the marks of the older
 * ones, then those of the newest; all before anything is written there. */
static snib_err sweep_mark_old_values(struct sweep *s)
{
    int fd = s->m->fd;
    if (!s->old.count) {
        return SNIB_ERR_OK;
    }
    qsort(s->old.v, s->old.count, sizeof *s->old.v, sweep_newest);
    if (fdatasync(fd)) {
        return SNIB_ERR_STORE;
    }
    sweep_mark(s, false);
    if (fdatasync(fd)) {
        return SNIB_ERR_STORE;
    }
    sweep_mark(s, true);
    return fdatasync(fd) ? SNIB_ERR_STORE : SNIB_ERR_OK;
}

static void sweep_free(struct snib__map *m, uint64_t from, uint64_t to)
{
    while (from < to) {
        uint32_t class = SNIB__FILE_SMALL;
        while (class && from + snib__block_units(class) > to) {
            class --;
        }
        if (from + snib__block_units(class) > to) {
            return; /* less than a block: the end of the file */
        }
        snib__block_push(m, &m->head->stack[class], (uint32_t)from, class);
        from += snib__block_units(class);
    }
}

/* Go through the gaps between what is in use: free them, or else look for old
 * values there. False: no memory. */
static bool sweep_gaps(struct sweep *s, uint64_t end, bool set_free)
{
    uint64_t at = s->m->first;
    bool ok = true;
    for (size_t i = 0; i <= s->used.count && ok; i++) {
        const struct snib__extent *e = i < s->used.count ? &s->used.v[i] : NULL;
        if (set_free) {
            sweep_free(s->m, at, e ? e->unit : at); /* the rest: above top */
        } else {
            ok = sweep_old_values(s, at, e ? e->unit : end);
        }
        at = e ? (uint64_t)e->unit + snib__block_units(e->class) : at;
    }
    return ok;
}

static void sweep_clear_stacks(struct snib__file_head *h)
{
    for (int i = 0; i < SNIB__FILE_CLASSES; i++) {
        atomic_store(&h->stack[i], 0);
        atomic_store(&h->reserve[i], 0);
    }
    atomic_store(&h->retired, 0);
    atomic_store(&h->kept, 0);
    atomic_store(&h->waiting, 0);
}

static void sweep_clear_slots(struct snib__map *m)
{
    for (uint32_t i = 0; i < m->slot_count; i++) {
        if (atomic_load(&m->slots[i].owner)) {
            atomic_store(&m->slots[i].owner, 0);
        }
    }
}

/* What is used is known: all else is free. */
static snib_err sweep_build(struct sweep *s)
{
    struct snib__map *m = s->m;
    uint64_t end = atomic_load(&m->head->size) / SNIB__FILE_UNIT;
    uint64_t top = m->first;
    if (s->used.count) {
        qsort(s->used.v, s->used.count, sizeof *s->used.v, sweep_order);
    }
    sweep_drop_overlaps(s);
    if (!sweep_gaps(s, end, false)) {
        return SNIB_ERR_NOMEM;
    }
    snib_err err = sweep_mark_old_values(s);
    if (err) {
        return err;
    }
    if (s->used.count) {
        const struct snib__extent *e = &s->used.v[s->used.count - 1];
        top = (uint64_t)e->unit + snib__block_units(e->class);
    }
    sweep_clear_stacks(m->head);
    atomic_store(&m->head->top, top);
    (void)sweep_gaps(s, end, true);
    sweep_clear_slots(m);
    return SNIB_ERR_OK;
}

/* -- a new boot ------------------------------------------------------------- */

/* Claims go, and names that are not whole. */
static void sweep_void(struct sweep *s)
{
    for (size_t at = 0; at < s->copy.used;) {
        struct snib__file_lock *l = snib__bucket_lock(&s->copy, at);
        size_t claims = at + snib__bucket_claims(l), end = at + l->size;
        if (l->sum != snib__bucket_sum(l)) {
            s->lost = true;
            snib__bucket_drop(&s->copy, at);
            continue;
        }
        memmove(s->copy.bytes + claims, s->copy.bytes + end,
                s->copy.used - end);
        s->copy.used -= end - claims;
        l->size = (uint32_t)(claims - at);
        l->claims = 0;
        at = claims;
    }
}

static snib_err sweep_void_claims(struct sweep *s)
{
    for (uint32_t i = 0; i < s->m->root_count; i++) {
        uint32_t old;
        if (!(uint32_t)atomic_load(&s->m->roots[i])) {
            continue;
        }
        snib_err err = snib__root_copy(s->m, &s->copy, SNIB__FILE_LOCKS, i);
        if (err) {
            return err;
        }
        sweep_void(s);
        if (snib__root_swap(s->m, &s->copy, true, &old) != SNIB__ROOT_DONE) {
            return SNIB_ERR_STORE;
        }
    }
    return SNIB_ERR_OK;
}

/* The values of one bucket become its index. */
static snib_err sweep_make_index(struct sweep *s, uint32_t bucket)
{
    uint32_t old;
    snib_err err = snib__root_copy(s->m, &s->copy, SNIB__FILE_INDEX, bucket);
    s->copy.used = 0;
    for (size_t i = 0; i < s->used.count && !err; i++) {
        const struct snib__extent *e = &s->used.v[i];
        struct snib__file_entry entry = {e->hash, e->unit, e->class};
        if (!e->hash || e->bucket != bucket) {
            continue;
        }
        if (!snib__copy_room(&s->copy, s->copy.used + sizeof entry)) {
            return SNIB_ERR_NOMEM;
        }
        memcpy(s->copy.bytes + s->copy.used, &entry, sizeof entry);
        s->copy.used += sizeof entry;
    }
    if (!err &&
        snib__root_swap(s->m, &s->copy, true, &old) != SNIB__ROOT_DONE) {
        err = SNIB_ERR_STORE;
    }
    return err;
}

static snib_err sweep_make_indexes(struct sweep *s)
{
    snib_err err = SNIB_ERR_OK;
    for (size_t i = 0; i < s->used.count && !err; i++) {
        uint32_t bucket = s->used.v[i].bucket;
        if (s->used.v[i].hash &&
            !(uint32_t)atomic_load(&s->m->value_roots[bucket])) {
            err = sweep_make_index(s, bucket);
        }
    }
    return err;
}

/* The floor under all later numbers, when those up to `high` are known. */
static void sweep_raise(snib__file_word *floor, int64_t high)
{
    int64_t was = (int64_t)atomic_load(floor);
    high += high > 0 ? MARGIN : 0;
    if (snib__is_token(was) && snib__is_token(high) && high > was) {
        atomic_store(floor, (uint64_t)high);
    }
}

static void sweep_floors(struct sweep *s)
{
    struct snib__file_head *h = s->m->head;
    int64_t mark = (int64_t)atomic_load(&h->mark);
    if (snib__is_token(mark)) {
        s->highest = mark > s->highest ? mark : s->highest;
        s->last = mark > s->last ? mark : s->last;
    }
    if (s->new_boot || s->lost) {
        sweep_raise(&h->floor, s->highest);
    }
    if (s->new_boot) {
        sweep_raise(&h->version_least, s->last);
    }
}

static snib_err sweep_all(struct sweep *s)
{
    struct snib__file_head *h = s->m->head;
    snib_err err = sweep_locks(s);
    err = err ? err : sweep_values(s);
    err = err ? err : sweep_build(s);
    if (!err && s->new_boot) {
        err = sweep_void_claims(s);
        err = err ? err : sweep_make_indexes(s);
    }
    if (!err) {
        sweep_floors(s);
    }
    if (!err && s->new_boot) {
        atomic_store(&h->sync_begun, 0);
        atomic_store(&h->synced_from, 0);
        atomic_thread_fence(memory_order_release);
        memcpy(h->boot, s->h->boot, sizeof h->boot);
    }
    if (!err) {
        atomic_store(&h->closed, atomic_load(&h->opened));
    }
    return err;
}

snib_err snib__sweep(struct snib__map *m, const struct snib__host *h,
                     bool new_boot, struct snib_error *reterr)
{
    struct sweep s = {.m = m, .h = h, .new_boot = new_boot};
    snib_err err = sweep_all(&s);
    snib__free(s.used.v);
    snib__free(s.old.v);
    snib__free(s.copy.bytes);
    if (err == SNIB_ERR_NOMEM) {
        return snib__fail_plain(reterr, err);
    }
    return err ? snib__fail(reterr, SNIB_ERR_STORE,
                            "the lock file cannot be put in order: its disk is "
                            "full or fails")
               : SNIB_ERR_OK;
}

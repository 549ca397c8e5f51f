/* store/file/root.c — a bucket is copied; one compare-and-swap makes another
 * one of it.
 *
 * A block that a root names is never written. So a copy is whole if the root is
 * the same after it as before: then the block was not given back in between, or
 * the version would be another. And the swap succeeds only if no other step on
 * the bucket took effect since the root was read, so what the rules decided was
 * decided on what is true. */
#include "store/file/internal.h"

#include "base/mem.h"

#ifdef SNIB__FILE_TSAN
char snib__file_tsan[256];
#endif

/* So many copies in a row that were not whole are enough. */
#define TRIES 1000

static snib_err root_read(struct snib__map *m, struct snib__copy *c,
                          uint32_t unit, bool *ret_whole)
{
    struct snib__file_block *b = snib__block_at(m, unit, 0), head;
    *ret_whole = false;
    if (!b) {
        return SNIB_ERR_OK;
    }
    snib__file_copy_in(&head, b, sizeof head);
    if (head.use != (uint32_t)c->use || head.bucket != c->bucket ||
        !snib__block_at(m, unit, head.class) ||
        head.used > snib__block_room(head.class)) {
        return SNIB_ERR_OK;
    }
    if (!snib__copy_room(c, head.used)) {
        return SNIB_ERR_NOMEM;
    }
    snib__file_copy_in(c->bytes, b + 1, head.used);
    c->used = head.used;
    c->class = head.class;
    *ret_whole = true;
    return SNIB_ERR_OK;
}

snib_err snib__root_copy(struct snib__map *m, struct snib__copy *c,
                         enum snib__file_use use, uint32_t bucket)
{
    c->use = use;
    c->bucket = bucket;
    c->root =
        use == SNIB__FILE_LOCKS ? &m->roots[bucket] : &m->value_roots[bucket];
    for (int i = 0; i < TRIES; i++) {
        bool whole;
        c->used = 0;
        c->class = SNIB__FILE_CLASSES;
        c->seen = snib__file_load(c->root);
        if (!(uint32_t)c->seen) {
            SNIB__FILE_ACQUIRED(bucket);
            return SNIB_ERR_OK;
        }
        snib_err err = root_read(m, c, (uint32_t)c->seen, &whole);
        if (err) {
            return err;
        }
        if (snib__root_same(c)) {
            SNIB__FILE_ACQUIRED(bucket);
            whole = whole && (use != SNIB__FILE_LOCKS ||
                              snib__bucket_whole(c->bytes, c->used));
            return whole ? SNIB_ERR_OK : SNIB_ERR_CORRUPT;
        }
    }
    return SNIB_ERR_BUSY;
}

bool snib__root_same(const struct snib__copy *c)
{
    return snib__file_load(c->root) == c->seen;
}

bool snib__copy_room(struct snib__copy *c, size_t bytes)
{
    size_t room = c->room ? c->room : SNIB__FILE_LEAST;
    if (bytes <= c->room) {
        return true;
    }
    while (room < bytes) {
        room *= 2;
    }
    uint8_t *p = snib__realloc(c->bytes, room);
    if (!p) {
        return false;
    }
    c->bytes = p;
    c->room = room;
    return true;
}

static void root_fill(struct snib__map *m, const struct snib__copy *c,
                      uint32_t unit, uint32_t class)
{
    struct snib__file_block *b = snib__block_at(m, unit, class);
    b->use = (uint32_t)c->use;
    b->class = class;
    b->used = (uint32_t)c->used;
    b->bucket = c->bucket;
    snib__file_copy_out(b + 1, c->bytes, c->used);
}

snib__root_end snib__root_swap(struct snib__map *m, struct snib__copy *c,
                               bool gives_back, uint32_t *ret_old)
{
    uint32_t old = (uint32_t)c->seen, unit = 0;
    uint32_t class = snib__block_class(c->used);
    bool grows = !old || class > c->class, reserved = false;
    *ret_old = 0;
    if (c->used) {
        unit = snib__block_take(m, class, !grows || gives_back, &reserved);
        if (!unit) {
            return SNIB__ROOT_FULL;
        }
        root_fill(m, c, unit, class);
    }
    uint64_t seen = c->seen, next = (((c->seen >> 32) + 1) << 32) | unit;
    SNIB__FILE_RELEASES(c->bucket);
    if (!snib__file_cas(c->root, &seen, next)) {
        if (unit) {
            snib__block_give(m, unit, class,
                             reserved ? class : SNIB__FILE_CLASSES);
        }
        return SNIB__ROOT_LOST;
    }
    *ret_old = old;
    if (old && c->use == SNIB__FILE_LOCKS) {
        snib__block_give(m, old, c->class,
                         reserved ? class : SNIB__FILE_CLASSES);
    }
    c->seen = next; /* for who goes on with the copy */
    return SNIB__ROOT_DONE;
}

/* store/file/value.c — versioned values (core/version.h).
 *
 * A bucket of values is an index: the hash of each name and the block where its
 * value is. A change writes the value anew into a block of its own and swaps
 * the root of the index. A reader copies the index, then the value, and looks
 * whether the root is still the same: then the value was in place all the time.
 * A minute after its end a value is forgotten by the next change in its bucket;
 * its version goes into version_floor first. keep.c says what happens to blocks
 * that are replaced. */
#include "store/file/internal.h"

#include <stdio.h>

#include "base/error.h"
#include "base/mem.h"

struct row {
    struct snib__version v;
    int64_t until_ms;
    uint32_t at; /* the entry's number */
    bool there;
};

static uint32_t value_entries(const struct snib__copy *c)
{
    return (uint32_t)(c->used / sizeof(struct snib__file_entry));
}

static struct snib__file_entry *value_entry(struct snib__copy *c, uint32_t i)
{
    return (struct snib__file_entry *)(void *)c->bytes + i;
}

static const struct snib__file_value *value_copy(const struct snib__file *self)
{
    return (const void *)self->value.bytes;
}

/* Copy the value of an entry. *ret_whole false: it is none, or the root has
 * changed. */
static snib_err value_read(struct snib__file *self,
                           const struct snib__file_entry *e, bool *ret_whole)
{
    struct snib__file_block *b = snib__block_at(&self->map, e->block, e->class);
    struct snib__file_block head;
    *ret_whole = false;
    if (!b) {
        return SNIB_ERR_OK;
    }
    snib__file_copy_in(&head, b, sizeof head);
    if (head.used > snib__block_room(e->class)) {
        return SNIB_ERR_OK;
    }
    if (!snib__copy_room(&self->value, head.used)) {
        return SNIB_ERR_NOMEM;
    }
    snib__file_copy_in(self->value.bytes, b + 1, head.used);
    self->value.used = head.used;
    *ret_whole =
        snib__keep_is_whole(&self->map, e->block, value_copy(self), head.used);
    return SNIB_ERR_OK;
}

/* Find the name in the index that was copied. CORRUPT: what is there is not a
 * value. BUSY: the index has changed. */
static snib_err value_find(struct snib__file *self,
                           const struct snib__name *name, int64_t now_ms,
                           struct row *ret)
{
    *ret = (struct row){.until_ms = now_ms};
    for (uint32_t i = 0; i < value_entries(&self->copy); i++) {
        const struct snib__file_entry *e = value_entry(&self->copy, i);
        bool whole;
        if (e->hash != name->hash) {
            continue;
        }
        snib_err err = value_read(self, e, &whole);
        if (err) {
            return err;
        }
        if (!snib__root_same(&self->copy)) {
            return SNIB_ERR_BUSY;
        }
        const struct snib__file_value *v = value_copy(self);
        if (!whole) {
            return SNIB_ERR_CORRUPT;
        }
        if (v->name_size == name->raw_size &&
            memcmp(v + 1, name->raw, name->raw_size) == 0) {
            ret->there = true;
            ret->at = i;
            ret->until_ms = v->until_ms;
            if (!snib__version_unpack(v->record, sizeof v->record, &ret->v)) {
                return SNIB_ERR_CORRUPT;
            }
            if (ret->until_ms <= now_ms) {
                ret->v.version = 0;
            }
            return SNIB_ERR_OK;
        }
    }
    return snib__root_same(&self->copy) ? SNIB_ERR_OK : SNIB_ERR_BUSY;
}

/* -- answers ------------------------------------------------------------------ */

static void value_fail(struct snib__file *self, struct snib__request *r,
                       snib_err err)
{
    if (err != SNIB_ERR_CORRUPT) {
        snib__file_fail(self, r, err);
        return;
    }
    r->said.answer = SNIB__NOT_APPLIED;
    r->said.err =
        snib__fail(r->said.reterr, err,
                   "lock file %s: the value %s is damaged; move the file "
                   "away when nobody uses it",
                   self->place.path, r->name->safe);
}

static void value_get(struct snib__file *self, struct snib__request *r,
                      const struct row *row)
{
    const struct snib__file_value *v = value_copy(self);
    r->token = row->there ? row->v.version : 0;
    if (r->token) {
        snib__buf_add(r->said.result,
                      (const uint8_t *)(v + 1) +
                          snib__file_padded(v->name_size),
                      v->bytes);
    }
    if (r->said.result->failed) {
        snib__file_fail(self, r, SNIB_ERR_NOMEM);
        return;
    }
    r->said.answer = SNIB__DONE;
    r->said.err = snib__ok(r->said.reterr);
}

/* -- a change ----------------------------------------------------------------- */

/* The block of a value that was not published, or is not any more. */
struct fresh {
    uint32_t unit, class;
};

/* Write the value into a block of its own, which is no value yet. False: there
 * is no room. */
static bool value_write(struct snib__file *self, const struct snib__request *r,
                        const struct row *row, const void *bytes, uint32_t size,
                        struct fresh *ret)
{
    struct snib__map *m = &self->map;
    uint32_t names = r->name->raw_size;
    size_t used = snib__keep_size(names, size);
    bool reserved;
    ret->class = snib__block_class(used);
    ret->unit = snib__block_take(m, ret->class, r->verb == SNIB__VALUE_DELETE,
                                 &reserved);
    if (!ret->unit) {
        return false;
    }
    struct snib__file_block *b = snib__block_at(m, ret->unit, ret->class);
    struct snib__file_value *v = (void *)(b + 1);
    b->use = SNIB__FILE_FREE;
    b->class = ret->class;
    b->used = (uint32_t)used;
    *v = (struct snib__file_value){.hash = r->name->hash,
                                   .until_ms = row->until_ms,
                                   .name_size = names,
                                   .bytes = size};
    snib__version_pack(&row->v, v->record);
    memset(v + 1, 0, snib__file_padded(names));
    memcpy(v + 1, r->name->raw, names);
    snib__file_copy_out((uint8_t *)(v + 1) + snib__file_padded(names), bytes,
                        size);
    v->sum = snib__keep_sum(m, ret->unit, v);
    return true;
}

/* Forget a value of this bucket that ended a minute ago; not number `but`.
 * *ret: its block, once the index is in place. */
static snib_err value_forget(struct snib__file *self, int64_t now_ms,
                             uint32_t but, struct fresh *ret)
{
    ret->unit = 0;
    for (uint32_t i = 0; i < value_entries(&self->copy); i++) {
        struct snib__file_entry *e = value_entry(&self->copy, i), *last;
        struct snib__version v;
        bool whole;
        if (i == but) {
            continue;
        }
        snib_err err = value_read(self, e, &whole);
        if (err || !snib__root_same(&self->copy)) {
            return err ? err : SNIB_ERR_BUSY;
        }
        if (!whole ||
            value_copy(self)->until_ms > now_ms - SNIB__VALUE_MEMORY_MS) {
            continue;
        }
        const struct snib__file_value *old = value_copy(self);
        if (snib__version_unpack(old->record, sizeof old->record, &v)) {
            snib__file_raise(&self->map.head->version_floor, v.last);
        }
        *ret = (struct fresh){e->block, e->class};
        last = value_entry(&self->copy, value_entries(&self->copy) - 1);
        if (but == value_entries(&self->copy) - 1) {
            /* that one keeps its number */
            memmove(e, e + 1, (size_t)((uint8_t *)last - (uint8_t *)e));
        } else {
            *e = *last;
        }
        self->copy.used -= sizeof *e;
        return SNIB_ERR_OK;
    }
    return SNIB_ERR_OK;
}

/* Put the new block into the index. *ret_old: the one that it replaces. */
static snib_err value_enter(struct snib__file *self,
                            const struct snib__request *r,
                            const struct row *row, const struct fresh *fresh,
                            struct fresh *ret_old)
{
    uint32_t at = row->there ? row->at : value_entries(&self->copy);
    *ret_old = (struct fresh){0};
    if (!row->there) {
        size_t more = self->copy.used + sizeof(struct snib__file_entry);
        if (!snib__copy_room(&self->copy, more)) {
            return SNIB_ERR_NOMEM;
        }
        self->copy.used = more;
    } else {
        const struct snib__file_entry *e = value_entry(&self->copy, at);
        *ret_old = (struct fresh){e->block, e->class};
    }
    *value_entry(&self->copy, at) =
        (struct snib__file_entry){r->name->hash, fresh->unit, fresh->class};
    return SNIB_ERR_OK;
}

/* It was never in the index. */
static void value_undo(struct snib__file *self, const struct fresh *f)
{
    if (f->unit) {
        snib__block_push(&self->map, &self->map.head->stack[f->class], f->unit,
                         f->class);
    }
}

static void value_retire(struct snib__file *self, const struct fresh *f,
                         bool last)
{
    if (f->unit) {
        snib__keep_retire(&self->map, snib__host_lease_now(&self->host),
                          f->unit, f->class, last);
    }
}

/* The rules have decided: *row is what shall be. OK: it is. BUSY: another
 * change came first. FULL is told as SNIB_ERR_STORE. */
static snib_err value_commit(struct snib__file *self,
                             const struct snib__request *r, int64_t now_ms,
                             const struct row *row, const void *bytes,
                             uint32_t size)
{
    struct fresh fresh = {0}, old, gone = {0};
    uint32_t index, at = row->there ? row->at : UINT32_MAX;
    bool back = r->verb == SNIB__VALUE_DELETE;
    if (!value_write(self, r, row, bytes, size, &fresh)) {
        return SNIB_ERR_STORE;
    }
    snib_err err = value_enter(self, r, row, &fresh, &old);
    at = row->there ? at : value_entries(&self->copy) - 1;
    err = err ? err : value_forget(self, now_ms, at, &gone);
    snib__root_end end = SNIB__ROOT_LOST;
    if (!err) {
        end = snib__root_swap(&self->map, &self->copy, back, &index);
        err = end == SNIB__ROOT_DONE   ? SNIB_ERR_OK
              : end == SNIB__ROOT_FULL ? SNIB_ERR_STORE
                                       : SNIB_ERR_BUSY;
    }
    if (err) {
        value_undo(self, &fresh);
        return err;
    }
    snib__file_before("publish");
    struct snib__file_block *b =
        snib__block_at(&self->map, fresh.unit, fresh.class);
    if (b) { /* or the head was damaged meanwhile */
        b->use = SNIB__FILE_VALUE;
    }
    value_retire(self, &old, false);
    value_retire(self, &gone, true);
    value_retire(self, &(struct fresh){index, self->copy.class}, false);
    snib__keep_sync(&self->map, &self->host);
    return SNIB_ERR_OK;
}

/* The bytes of the value as it is are needed once more: a note changes the
 * record only. */
static snib_err value_keep_bytes(struct snib__file *self, const void **ret,
                                 uint32_t *ret_size)
{
    const struct snib__file_value *v = value_copy(self);
    *ret_size = v->bytes;
    *ret = NULL;
    if (v->bytes) {
        *ret = snib__memdup((const uint8_t *)(v + 1) +
                                snib__file_padded(v->name_size),
                            v->bytes);
    }
    return v->bytes && !*ret ? SNIB_ERR_NOMEM : SNIB_ERR_OK;
}

static snib_err value_note(struct snib__file *self,
                           const struct snib__request *r, int64_t now_ms,
                           const struct row *row)
{
    const void *bytes = NULL;
    uint32_t size = 0;
    snib_err err = row->there && row->v.version
                       ? value_keep_bytes(self, &bytes, &size)
                       : SNIB_ERR_OK;
    err = err ? err : value_commit(self, r, now_ms, row, bytes, size);
    snib__free((void *)bytes);
    return err;
}

/* What is not known of the value: all changes before it was forgotten, and
 * those that a power failure may have taken. */
static void value_floor(struct snib__file *self, struct row *row)
{
    struct snib__file_head *h = self->map.head;
    int64_t least = (int64_t)snib__file_load(&h->version_least);
    if (!row->there) {
        int64_t floor = (int64_t)snib__file_load(&h->version_floor);
        least = floor > least ? floor : least;
    }
    if (row->v.last < least) {
        row->v.last = row->v.forgotten = least;
    }
}

static snib_err value_change(struct snib__file *self, struct snib__request *r,
                             int64_t now_ms, struct row *row)
{
    value_floor(self, row);
    switch (snib__version_step(&row->v, r, now_ms)) {
    case SNIB__VERSION_KEEP:
        return SNIB_ERR_OK;
    case SNIB__VERSION_NOTE:
        return value_note(self, r, now_ms, row);
    case SNIB__VERSION_PUT:
        row->until_ms = now_ms + snib__to_ms(r->lease);
        return value_commit(self, r, now_ms, row, r->text, r->text_size);
    case SNIB__VERSION_DELETE:
        row->until_ms = now_ms;
        return value_commit(self, r, now_ms, row, NULL, 0);
    }
    return SNIB_ERR_INTERNAL;
}

/* One try. BUSY: another change came first. */
static snib_err value_try(struct snib__file *self, struct snib__request *r)
{
    struct row row;
    uint32_t bucket =
        (uint32_t)r->name->hash & (self->map.value_root_count - 1);
    snib_err err =
        snib__root_copy(&self->map, &self->copy, SNIB__FILE_INDEX, bucket);
    int64_t now_ms = snib__host_wall_ms(&self->host);
    err = err ? err : value_find(self, r->name, now_ms, &row);
    if (err) {
        return err;
    }
    if (r->verb == SNIB__VALUE_GET) {
        value_get(self, r, &row);
        return SNIB_ERR_OK;
    }
    return value_change(self, r, now_ms, &row);
}

void snib__file_value(struct snib__file *self, struct snib__request *r)
{
    int64_t expected = r->token;
    if (snib__file_moved(self, r)) {
        return;
    }
    for (uint32_t n = 1;; n++) {
        snib_err err = value_try(self, r);
        if (!err) {
            return;
        }
        r->token = expected;
        if (err == SNIB_ERR_BUSY) {
            if (!snib__file_again(self, r, n)) {
                return;
            }
        } else if (err == SNIB_ERR_STORE) {
            snib__file_fail(self, r, SNIB_ERR_OK);
            return;
        } else {
            value_fail(self, r, err);
            return;
        }
    }
}

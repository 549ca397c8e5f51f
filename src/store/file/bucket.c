/* store/file/bucket.c — the records of a bucket, in a copy of our own.
 *
 * A bucket is one name after the other, each with its claims in order of
 * arrival. Whoever may write to the file may write anything into it: all is
 * looked at before it is used, and nobody can change a copy afterwards. */
#include "store/file/internal.h"

static bool bucket_claims_whole(const uint8_t *lock, size_t size)
{
    const struct snib__file_lock *l = (const void *)lock;
    size_t at = snib__bucket_claims(l);
    uint32_t n = 0;
    int64_t last = 0;
    for (; at < size; n++) {
        const struct snib__file_claim *c = (const void *)(lock + at);
        if (size - at < sizeof *c || c->size > size - at ||
            c->size != sizeof *c + snib__file_padded(c->text_size) ||
            c->id <= last) { /* a walk goes on behind the last one's id */
            return false;
        }
        last = c->id;
        at += c->size;
    }
    return n == l->claims && l->arrivals >= last &&
           l->arrivals <= SNIB__FILE_NS_MOST;
}

bool snib__bucket_whole(const uint8_t *bytes, size_t used)
{
    for (size_t at = 0; at < used;) {
        const struct snib__file_lock *l = (const void *)(bytes + at);
        if (used - at < sizeof *l || l->size > used - at || l->size % 8 ||
            l->name_size > SNIB_NAME_MAX || !l->name_size ||
            l->size < snib__bucket_claims(l) ||
            !bucket_claims_whole(bytes + at, l->size)) {
            return false;
        }
        at += l->size;
    }
    return true;
}

uint32_t snib__bucket_sum(const struct snib__file_lock *l)
{
    uint64_t h = snib__map_hash(l->hash, &l->token, 3 * sizeof l->token);
    h = snib__map_hash(h, l + 1, l->name_size);
    return (uint32_t)(h ^ h >> 32);
}

size_t snib__bucket_find(struct snib__copy *c, const struct snib__name *name)
{
    for (size_t at = 0; at < c->used;) {
        const struct snib__file_lock *l = snib__bucket_lock(c, at);
        if (l->hash == name->hash && l->name_size == name->raw_size &&
            memcmp(l + 1, name->raw, name->raw_size) == 0) {
            return at;
        }
        at += l->size;
    }
    return SNIB__FILE_NONE;
}

size_t snib__bucket_make(struct snib__copy *c, const struct snib__name *name,
                         int64_t token)
{
    size_t at = snib__bucket_find(c, name);
    size_t size =
        sizeof(struct snib__file_lock) + snib__file_padded(name->raw_size);
    if (at != SNIB__FILE_NONE) {
        return at;
    }
    if (!snib__copy_room(c, c->used + size)) {
        return SNIB__FILE_NONE;
    }
    at = c->used;
    memset(c->bytes + at, 0, size);
    struct snib__file_lock *l = snib__bucket_lock(c, at);
    *l = (struct snib__file_lock){.size = (uint32_t)size,
                                  .name_size = name->raw_size,
                                  .hash = name->hash,
                                  .token = token,
                                  .permits = -1};
    memcpy(l + 1, name->raw, name->raw_size);
    l->sum = snib__bucket_sum(l);
    c->used += size;
    return at;
}

/* Put so many bytes between `at` and what is behind it; fewer: take some out
 * that end there. The lock that they belong to grows by as much. */
static bool bucket_shift(struct snib__copy *c, size_t lock, size_t at,
                         int64_t by)
{
    size_t to = (size_t)((int64_t)at + by);
    if (by > 0 && !snib__copy_room(c, c->used + (size_t)by)) {
        return false;
    }
    memmove(c->bytes + to, c->bytes + at, c->used - at);
    c->used = (size_t)((int64_t)c->used + by);
    struct snib__file_lock *l = snib__bucket_lock(c, lock);
    l->size = (uint32_t)((int64_t)l->size + by);
    return true;
}

void snib__bucket_drop(struct snib__copy *c, size_t lock)
{
    size_t size = snib__bucket_lock(c, lock)->size;
    memmove(c->bytes + lock, c->bytes + lock + size, c->used - lock - size);
    c->used -= size;
}

size_t snib__bucket_add(struct snib__copy *c, size_t lock,
                        const struct snib__file_claim *claim, const void *text)
{
    size_t at = lock + snib__bucket_lock(c, lock)->size;
    size_t size = sizeof *claim + snib__file_padded(claim->text_size);
    if (!bucket_shift(c, lock, at, (int64_t)size)) {
        return SNIB__FILE_NONE;
    }
    memset(c->bytes + at + size - 8, 0, 8); /* what the text does not fill */
    struct snib__file_claim *to = snib__bucket_claim(c, at);
    *to = *claim;
    to->size = (uint32_t)size;
    if (claim->text_size) {
        memcpy(to + 1, text, claim->text_size);
    }
    snib__bucket_lock(c, lock)->claims++;
    return at;
}

void snib__bucket_remove(struct snib__copy *c, size_t lock, size_t claim)
{
    size_t size = snib__bucket_claim(c, claim)->size;
    (void)bucket_shift(c, lock, claim + size, -(int64_t)size);
    snib__bucket_lock(c, lock)->claims--;
}

bool snib__bucket_retext(struct snib__copy *c, size_t lock, size_t claim,
                         const void *text, size_t size)
{
    struct snib__file_claim *k = snib__bucket_claim(c, claim);
    size_t old = k->size, new = sizeof *k + snib__file_padded(size);
    if (!bucket_shift(c, lock, claim + old, (int64_t) new - (int64_t)old)) {
        return false;
    }
    k = snib__bucket_claim(c, claim);
    k->size = (uint32_t) new;
    k->text_size = (uint16_t)size;
    memset(k + 1, 0, new - sizeof *k);
    if (size) {
        memcpy(k + 1, text, size);
    }
    return true;
}

/* api/ring.c — rings: a sorted, immutable table of members.
 *
 * A ring is one block: the head, the members in the order of their ids, their
 * ids. The arithmetic is in core/ring.h. */
#include "snib/ring.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/ring.h"
#include "snib/inspect.h"

struct member {
    uint64_t hash;
    const char *id;
    size_t size;
    uint32_t weight;
};

struct snib_ring {
    size_t count;
    uint64_t fingerprint;
    struct member member[];
};

static int ring_by_id(const char *a, size_t n, const char *b, size_t m)
{
    int order = memcmp(a, b, n < m ? n : m);
    return order ? order : (n > m) - (n < m);
}

static int ring_compare(const void *a, const void *b)
{
    const struct member *x = a, *y = b;
    return ring_by_id(x->id, x->size, y->id, y->size);
}

/* -- making ---------------------------------------------------------------- */

static snib_err ring_check_count(const void *members, size_t count,
                                 struct snib_error *reterr)
{
    if (count && !members) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "a ring of %zu members, and the array is NULL",
                          count);
    }
    if (count > SNIB_RING_MEMBERS_MAX) {
        return snib__fail(reterr, SNIB_ERR_LIMIT,
                          "a ring of %zu members; at most %zu", count,
                          SNIB_RING_MEMBERS_MAX);
    }
    return SNIB_ERR_OK;
}

static size_t ring_id_size(const struct snib_ring_member *m)
{
    return m->id && !m->id_size ? strlen(m->id) : m->id_size;
}

static snib_err ring_check_member(const struct snib_ring_member *m,
                                  size_t number, struct snib_error *reterr)
{
    size_t size = ring_id_size(m);
    if (!m->id || !size || size > SNIB_RING_ID_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "member %zu of the ring has an id of %zu bytes; "
                          "expected 1 to %zu",
                          number, m->id ? size : 0, SNIB_RING_ID_MAX);
    }
    if (m->weight > SNIB_RING_WEIGHT_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "member %zu of the ring has weight %u; expected 1 "
                          "to %u, or 0 for 1",
                          number, m->weight, SNIB_RING_WEIGHT_MAX);
    }
    return SNIB_ERR_OK;
}

/* Of a member that was checked. Its id still belongs to the caller. */
static struct member ring_read_member(const struct snib_ring_member *m)
{
    size_t size = ring_id_size(m);
    return (struct member){.id = m->id,
                           .size = size,
                           .weight = m->weight ? m->weight : 1,
                           .hash = snib__ring_hash(m->id, size)};
}

/* A sum does not depend on the order. Mixing keeps weights and ids apart. */
static uint64_t ring_fingerprint(const struct snib_ring *r)
{
    uint64_t sum = r->count;
    for (size_t i = 0; i < r->count; i++) {
        sum += snib__ring_mix(r->member[i].hash + r->member[i].weight);
    }
    return snib__ring_mix(sum);
}

/* Sort, take equal ids out or refuse them, copy the ids into the block. */
static snib_err ring_complete(struct snib_ring *r, char *text, bool thin,
                              struct snib_error *reterr)
{
    size_t kept = 0;
    if (r->count > 1) {
        qsort(r->member, r->count, sizeof *r->member, ring_compare);
    }
    for (size_t i = 0; i < r->count; i++) {
        if (kept && !ring_compare(&r->member[kept - 1], &r->member[i])) {
            if (thin) {
                continue;
            }
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "the member \"%.100s\" is in the ring twice",
                              r->member[i].id);
        }
        r->member[kept++] = r->member[i];
    }
    r->count = kept;
    for (size_t i = 0; i < r->count; i++) {
        struct member *m = &r->member[i];
        m->id = memcpy(text, m->id, m->size);
        text += m->size + 1; /* the NUL is there: the block is zeroed */
    }
    r->fingerprint = ring_fingerprint(r);
    return snib__ok(reterr);
}

static snib_err ring_make(const struct snib_ring_member *members, size_t count,
                          bool thin, struct snib_ring **ret,
                          struct snib_error *reterr)
{
    size_t text = 0, head = sizeof **ret + count * sizeof(struct member);
    for (size_t i = 0; i < count; i++) {
        snib_err err = ring_check_member(&members[i], i, reterr);
        if (err) {
            return err;
        }
        text += ring_id_size(&members[i]) + 1;
    }
    struct snib_ring *r = snib__alloc(head + text);
    if (!r) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    r->count = count;
    for (size_t i = 0; i < count; i++) {
        r->member[i] = ring_read_member(&members[i]);
    }
    snib_err err = ring_complete(r, (char *)r + head, thin, reterr);
    if (err) {
        snib_ring_free(r);
        return err;
    }
    *ret = r;
    return SNIB_ERR_OK;
}

snib_err snib_ring_new(const struct snib_ring_member *members, size_t count,
                       struct snib_ring **ret, struct snib_error *reterr)
{
    if (!ret) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_ring_new: ret must not be NULL");
    }
    *ret = NULL;
    snib_err err = ring_check_count(members, count, reterr);
    return err ? err : ring_make(members, count, false, ret, reterr);
}

snib_err snib_ring_of_view(const struct snib_view *view, struct snib_ring **ret,
                           struct snib_error *reterr)
{
    if (ret) {
        *ret = NULL;
    }
    if (!ret || !view) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "snib_ring_of_view: %s must not be NULL",
                          view ? "ret" : "view");
    }
    size_t count = view->holder_count;
    snib_err err = ring_check_count(view->holders, count, reterr);
    if (err) {
        return err;
    }
    struct snib_ring_member *members =
        snib__alloc((count ? count : 1) * sizeof *members);
    if (!members) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    for (size_t i = 0; i < count; i++) {
        const struct snib_party *p = view->holders[i];
        members[i].id = p->reason && *p->reason ? p->reason : p->client_id;
    }
    err = ring_make(members, count, true, ret, reterr);
    snib__free(members);
    return err;
}

void snib_ring_free(struct snib_ring *r)
{
    snib__free(r);
}

/* -- asking ---------------------------------------------------------------- */

size_t snib_ring_count(const struct snib_ring *r)
{
    return r->count;
}

const char *snib_ring_id(const struct snib_ring *r, size_t number,
                         size_t *ret_size)
{
    bool there = number < r->count;
    if (ret_size) {
        *ret_size = there ? r->member[number].size : 0;
    }
    return there ? r->member[number].id : NULL;
}

size_t snib_ring_find(const struct snib_ring *r, const char *id, size_t size)
{
    size_t low = 0, high = r->count;
    if (!id) {
        return SNIB_RING_NOBODY;
    }
    size = size ? size : strlen(id);
    while (low < high) {
        size_t at = low + (high - low) / 2;
        const struct member *m = &r->member[at];
        int order = ring_by_id(id, size, m->id, m->size);
        if (order == 0) {
            return at;
        }
        if (order < 0) {
            high = at;
        } else {
            low = at + 1;
        }
    }
    return SNIB_RING_NOBODY;
}

size_t snib_ring_owner(const struct snib_ring *r, const void *key, size_t size)
{
    uint64_t key_hash = snib__ring_hash(key, size), best = 0;
    size_t best_at = SNIB_RING_NOBODY;
    for (size_t i = 0; i < r->count; i++) {
        const struct member *m = &r->member[i];
        uint64_t score = snib__ring_score(m->hash, m->weight, key_hash);
        if (score > best || best_at == SNIB_RING_NOBODY) {
            best_at = i;
            best = score;
        }
    }
    return best_at;
}

/* Keeps the best max so far, in order. With equal scores the smaller number
 * comes first. */
size_t snib_ring_owners(const struct snib_ring *r, const void *key, size_t size,
                        size_t *ret, size_t max)
{
    uint64_t key_hash = snib__ring_hash(key, size);
    size_t count = 0;
    for (size_t i = 0; max && i < r->count; i++) {
        const struct member *m = &r->member[i];
        uint64_t score = snib__ring_score(m->hash, m->weight, key_hash);
        size_t at = count;
        while (at > 0) {
            const struct member *o = &r->member[ret[at - 1]];
            if (snib__ring_score(o->hash, o->weight, key_hash) >= score) {
                break;
            }
            at--;
        }
        if (at == max) {
            continue;
        }
        if (count < max) {
            count++;
        }
        memmove(ret + at + 1, ret + at, (count - at - 1) * sizeof *ret);
        ret[at] = i;
    }
    return count;
}

uint64_t snib_ring_fingerprint(const struct snib_ring *r)
{
    return r->fingerprint;
}

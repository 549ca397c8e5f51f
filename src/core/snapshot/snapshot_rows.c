/* core/snapshot/snapshot_rows.c — the rows of a step as they come in, and how
 * they are found again. */
#include "core/snapshot/snapshot_i.h"

#include <assert.h>

#include "base/error.h"
#include "base/mem.h"

bool snib__snapshot_grow(void **array, uint32_t count, uint32_t *capacity,
                         size_t size)
{
    if (count < *capacity) {
        return true;
    }
    uint32_t more = *capacity ? 2 * *capacity : 16;
    void *p = more > *capacity ? snib__realloc(*array, more * size) : NULL;
    if (p) {
        *array = p;
        *capacity = more;
    }
    return p != NULL;
}

/* -- finding --------------------------------------------------------------- */

bool snib__snapshot_has_lock(const struct snib__snapshot *s,
                             const struct snib__name *name, uint32_t *ret)
{
    for (*ret = 0; *ret < s->locks; ++*ret) {
        if (s->lock[*ret].name == name ||
            snib__name_same(s->lock[*ret].name, name)) {
            return true;
        }
    }
    return false;
}

uint32_t snib__snapshot_lock_of(const struct snib__snapshot *s,
                                const struct snib__name *name)
{
    uint32_t lock;
    bool known = snib__snapshot_has_lock(s, name, &lock);
    assert(known);
    return known ? lock : 0;
}

struct snib__snapshot_claim *snib__snapshot_claim_of(struct snib__snapshot *s,
                                                     uint32_t lock,
                                                     const uint64_t request[2])
{
    for (uint32_t i = 0; i < s->claims; i++) {
        struct snib__snapshot_claim *k = &s->claim[i];
        if (k->lock == lock && k->c.request[0] == request[0] &&
            k->c.request[1] == request[1]) {
            return k;
        }
    }
    return NULL;
}

struct snib__snapshot_claim *snib__snapshot_new_claim(struct snib__snapshot *s)
{
    if (!snib__snapshot_grow((void **)&s->claim, s->claims, &s->claim_capacity,
                             sizeof *s->claim)) {
        return NULL;
    }
    s->claim[s->claims] = (struct snib__snapshot_claim){0};
    return &s->claim[s->claims++];
}

bool snib__snapshot_is_before(const struct snib__stored_claim *a,
                              const struct snib__stored_claim *b)
{
    if (a->rank != b->rank) {
        return a->rank < b->rank;
    }
    if (a->id != b->id) {
        return a->id < b->id;
    }
    return memcmp(a->request, b->request, sizeof a->request) < 0;
}

/* -- the rows -------------------------------------------------------------- */

void snib__snapshot_moment(struct snib__snapshot *s,
                           const struct snib__moment *m)
{
    s->book.sent = m->sent;
    s->book.now = m->now;
    s->book.token_clock =
        m->now.ns / 1000000 * 1024 + m->now.ns % 1000000 * 1024 / 1000000;
    s->not_after = snib__after(m->now, snib__ms(SNIB__TOMBSTONE_MS));
    s->epoch = m->epoch;
    s->highest = m->highest;
}

static snib_err snapshot_rows_claim(struct snib__snapshot *s, uint32_t lock,
                                    const struct snib__key *key, uint64_t stamp,
                                    const void *bytes, size_t size)
{
    struct snib__snapshot_claim *k = snib__snapshot_new_claim(s);
    if (!k) {
        return snib__fail_plain(&s->error, SNIB_ERR_NOMEM);
    }
    k->lock = lock;
    k->stamp = stamp;
    snib_err err = snib__layout_claim(bytes, size, &k->c, &k->about,
                                      &k->about_size, &s->error);
    /* The key counts: by it the row is found again. */
    k->c.request[0] = key->request[0];
    k->c.request[1] = key->request[1];
    s->lock[lock].fetched += k->c.state == SNIB__WAITS;
    return err;
}

void snib__snapshot_row(struct snib__snapshot *s, const struct snib__key *key,
                        uint64_t stamp, const void *bytes, size_t size)
{
    uint32_t lock =
        key->kind == SNIB__KEY_FLOOR ? 0 : snib__snapshot_lock_of(s, key->name);
    struct snib__snapshot_lock *l = &s->lock[lock];
    snib_err err = s->book.err;
    if (err) {
        return;
    }
    switch (key->kind) {
    case SNIB__KEY_LOCK:
        l->stamp = stamp;
        err = snib__layout_lock(bytes, size, &l->row, &s->error);
        break;
    case SNIB__KEY_ARRIVALS:
        l->arrivals_stamp = stamp;
        err = snib__layout_arrivals(bytes, size, &l->arrivals, &s->error);
        break;
    case SNIB__KEY_CLAIM:
        err = snapshot_rows_claim(s, lock, key, stamp, bytes, size);
        break;
    case SNIB__KEY_FLOOR:
        s->floor_stamp = stamp;
        err = snib__layout_floor(bytes, size, &s->floor, &s->error);
        break;
    }
    s->book.err = err;
}

void snib__snapshot_left(struct snib__snapshot *s, const struct snib__key *key)
{
    struct snib__snapshot_claim *k = snib__snapshot_claim_of(
        s, snib__snapshot_lock_of(s, key->name), key->request);
    if (k && k->c.state == SNIB__WAITS) {
        k->left = true;
    }
}

void snib__snapshot_queue(struct snib__snapshot *s,
                          const struct snib__name *name, uint32_t waiting,
                          int last_rank)
{
    struct snib__snapshot_lock *l = &s->lock[snib__snapshot_lock_of(s, name)];
    l->cut = true;
    l->waiting = waiting;
    l->last_rank = last_rank;
}

/* How many fetched waiters of the name stand before this one? */
static uint32_t snapshot_rows_ahead(const struct snib__snapshot *s,
                                    uint32_t lock,
                                    const struct snib__stored_claim *c)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->claims; i++) {
        const struct snib__snapshot_claim *k = &s->claim[i];
        n += k->lock == lock && k->c.state == SNIB__WAITS &&
             snib__snapshot_is_before(&k->c, c);
    }
    return n;
}

void snib__snapshot_settle_in(struct snib__snapshot *s)
{
    for (uint32_t i = 0; i < s->locks; i++) {
        if (!s->lock[i].stamp) {
            s->lock[i].row.token = s->floor;
        }
    }
    for (uint32_t i = 0; i < s->claims; i++) {
        const struct snib__snapshot_claim *k = &s->claim[i];
        if (s->lock[k->lock].cut && k->c.state == SNIB__WAITS &&
            snapshot_rows_ahead(s, k->lock, &k->c) + 1 == s->waiters) {
            s->lock[k->lock].last = k->c;
        }
    }
}

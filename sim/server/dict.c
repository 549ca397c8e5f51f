/*
 * dict.c — a hash table that remembers the order of insertion
 *
 * Redis answers HGETALL and its like in an order of its own; for small
 * values that is the order of insertion, and a model must have *some* fixed
 * order anyway. So entries sit in an array in the order they came; above
 * eight entries an index of positions (open addressing, linear probing) is
 * kept beside it. A removed entry leaves a hole in the array that the next
 * growth closes; the index deletes by shifting back, so it has no tombstones.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t hash_bytes(const void *key, size_t n)
{
    const unsigned char *p = key;
    uint64_t h = 0x9e3779b97f4a7c15u ^ n;
    while (n >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
        p += 8;
        n -= 8;
    }
    uint64_t w = 0;
    if (n > 0) {
        memcpy(&w, p, n);
    }
    h = (h ^ w) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
    h *= 0xc4ceb9fe1a85ec53u;
    return (uint32_t)(h >> 32);
}

static bool same(const struct sr_ent *e, uint32_t hash, const void *key,
                 size_t n)
{
    return e->hash == hash && e->klen == n &&
           (n == 0 || memcmp(e->key, key, n) == 0);
}

static void index_add(struct sr_dict *d, uint32_t pos)
{
    uint32_t i = d->ents[pos]->hash & d->mask;
    while (d->idx[i] != 0) {
        i = (i + 1) & d->mask;
    }
    d->idx[i] = pos + 1;
}

/* Closes holes, makes room for one more and rebuilds the index. */
static void rebuild(struct sr_dict *d)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->used; i++) {
        if (d->ents[i] != NULL) {
            d->ents[n++] = d->ents[i];
        }
    }
    d->used = n;
    if (n >= d->cap - d->cap / 4) {
        d->cap = d->cap == 0 ? 4 : d->cap * 2;
        d->ents = sr_realloc(d->ents, d->cap * sizeof(struct sr_ent *));
    }
    if (d->cap <= SR_DICT_SMALL) {
        return;
    }
    uint32_t slots = d->cap * 2;
    if (d->idx == NULL || d->mask != slots - 1) {
        free(d->idx);
        d->idx = sr_zalloc(slots * sizeof(uint32_t));
        d->mask = slots - 1;
    } else {
        memset(d->idx, 0, slots * sizeof(uint32_t));
    }
    for (uint32_t i = 0; i < n; i++) {
        index_add(d, i);
    }
}

/* Position of the key, or UINT32_MAX; *slot is set when there is an index. */
static uint32_t locate(const struct sr_dict *d, uint32_t hash, const void *key,
                       size_t n, uint32_t *slot)
{
    if (d->idx == NULL) {
        for (uint32_t i = 0; i < d->used; i++) {
            if (d->ents[i] != NULL && same(d->ents[i], hash, key, n)) {
                return i;
            }
        }
        return UINT32_MAX;
    }
    uint32_t i = hash & d->mask;
    while (d->idx[i] != 0) {
        uint32_t pos = d->idx[i] - 1;
        if (same(d->ents[pos], hash, key, n)) {
            *slot = i;
            return pos;
        }
        i = (i + 1) & d->mask;
    }
    return UINT32_MAX;
}

struct sr_ent *sr_dict_find(const struct sr_dict *d, const void *key, size_t n)
{
    if (d->live == 0) {
        return NULL;
    }
    uint32_t slot = 0;
    uint32_t pos = locate(d, hash_bytes(key, n), key, n, &slot);
    return pos == UINT32_MAX ? NULL : d->ents[pos];
}

struct sr_ent *sr_dict_put(struct sr_dict *d, const void *key, size_t n,
                           bool *fresh)
{
    uint32_t hash = hash_bytes(key, n);
    uint32_t slot = 0;
    uint32_t pos = locate(d, hash, key, n, &slot);
    if (pos != UINT32_MAX) {
        *fresh = false;
        return d->ents[pos];
    }
    if (d->used == d->cap) {
        rebuild(d);
    }
    struct sr_ent *e = sr_alloc(sizeof *e + n + 1);
    e->hash = hash;
    e->klen = (uint32_t)n;
    memset(&e->v, 0, sizeof e->v);
    if (n > 0) {
        memcpy(e->key, key, n);
    }
    e->key[n] = '\0';
    d->ents[d->used++] = e;
    d->live++;
    if (d->idx != NULL) {
        index_add(d, d->used - 1);
    }
    *fresh = true;
    return e;
}

/* Empties slot i and moves followers back where their probing allows. */
static void index_remove(struct sr_dict *d, uint32_t i)
{
    uint32_t j = i;
    for (;;) {
        j = (j + 1) & d->mask;
        if (d->idx[j] == 0) {
            break;
        }
        uint32_t home = d->ents[d->idx[j] - 1]->hash & d->mask;
        if (((j - home) & d->mask) >= ((j - i) & d->mask)) {
            d->idx[i] = d->idx[j];
            i = j;
        }
    }
    d->idx[i] = 0;
}

struct sr_ent *sr_dict_take(struct sr_dict *d, const void *key, size_t n)
{
    if (d->live == 0) {
        return NULL;
    }
    uint32_t slot = 0;
    uint32_t pos = locate(d, hash_bytes(key, n), key, n, &slot);
    if (pos == UINT32_MAX) {
        return NULL;
    }
    struct sr_ent *e = d->ents[pos];
    if (d->idx != NULL) {
        index_remove(d, slot);
    }
    d->ents[pos] = NULL;
    d->live--;
    while (d->used > 0 && d->ents[d->used - 1] == NULL) {
        d->used--;
    }
    return e;
}

void sr_dict_clear(struct sr_dict *d)
{
    for (uint32_t i = 0; i < d->used; i++) {
        free(d->ents[i]);
    }
    free(d->ents);
    free(d->idx);
    memset(d, 0, sizeof *d);
}

/* tests/unit/snapshot_table.h — a store across a network, as a table in memory:
 * keys with bytes and stamps, a clock, and lives that are told apart.
 *
 * One fetch or write happens at one moment. A stamp is the number of the write
 * that made it. A restored backup has the stamps of its time, which are given
 * again afterwards: that life of the store is another epoch. */
#ifndef SNIB_TESTS_UNIT_SNAPSHOT_TABLE_H
#define SNIB_TESTS_UNIT_SNAPSHOT_TABLE_H

#include "unit.h"

#include "core/snapshot/snapshot.h"

enum { ROWS = 200, ROW_BYTES = 700, KEPT_GUARDS = 128, KEPT_BYTES = 20000 };

struct row {
    struct snib__key key;
    uint64_t stamp;
    size_t size;
    uint8_t bytes[ROW_BYTES];
};

struct table {
    struct row row[ROWS];
    int rows;
    uint64_t revision, epoch;
};

/* A write as it travels. */
struct message {
    struct snib__guard guard[KEPT_GUARDS];
    uint32_t guards;
    uint8_t bytes[KEPT_BYTES];
    uint64_t epoch;
    snib_instant not_after;
};

static bool same_key(const struct snib__key *a, const struct snib__key *b)
{
    return a->kind == b->kind && a->name == b->name &&
           a->request[0] == b->request[0] && a->request[1] == b->request[1];
}

static struct row *row_of(struct table *t, const struct snib__key *key)
{
    for (int i = 0; i < t->rows; i++) {
        if (same_key(&t->row[i].key, key)) {
            return &t->row[i];
        }
    }
    return NULL;
}

static struct row *lock_row(struct table *t, const struct snib__name *name)
{
    return row_of(t, &(struct snib__key){.kind = SNIB__KEY_LOCK, .name = name});
}

static struct snib__stored_claim claim_in(const struct row *row,
                                          const void **about, size_t *size)
{
    struct snib__stored_claim c;
    assert_int_equal(
        snib__layout_claim(row->bytes, row->size, &c, about, size, NULL), 0);
    assert_memory_equal(c.request, row->key.request, sizeof c.request);
    return c;
}

static struct snib__lock_row lock_in(const struct row *row)
{
    struct snib__lock_row l;
    assert_int_equal(snib__layout_lock(row->bytes, row->size, &l, NULL), 0);
    return l;
}

static int64_t floor_in(struct table *t)
{
    struct row *row = row_of(t, &(struct snib__key){.kind = SNIB__KEY_FLOOR});
    int64_t floor = 0;
    if (row) {
        assert_int_equal(
            snib__layout_floor(row->bytes, row->size, &floor, NULL), 0);
    }
    return floor;
}

/* -- fetching -------------------------------------------------------------- */

/* The waiters of a name, in the order of the queue. */
static int waiters_of(struct table *t, const struct snib__name *name,
                      struct row *ret[ROWS])
{
    struct snib__stored_claim c[ROWS];
    const void *about;
    size_t size;
    int n = 0;
    for (int i = 0; i < t->rows; i++) {
        struct row *row = &t->row[i];
        if (row->key.kind != SNIB__KEY_CLAIM || row->key.name != name) {
            continue;
        }
        struct snib__stored_claim k = claim_in(row, &about, &size);
        int at = n;
        if (k.state != SNIB__WAITS) {
            continue;
        }
        for (; at > 0 && (k.rank < c[at - 1].rank ||
                          (k.rank == c[at - 1].rank && k.id < c[at - 1].id));
             at--) {
            c[at] = c[at - 1];
            ret[at] = ret[at - 1];
        }
        c[at] = k;
        ret[at] = row;
        n++;
    }
    return n;
}

static void hand_in(struct snib__snapshot *s, const struct row *row)
{
    snib__snapshot_row(s, &row->key, row->stamp, row->bytes, row->size);
}

static bool is_asked_for(const struct snib__snapshot *s, const struct row *row)
{
    for (uint32_t i = 0; i < s->requests; i++) {
        const struct snib__request *r = s->request[i];
        if (r->name == row->key.name && r->id[0] == row->key.request[0] &&
            r->id[1] == row->key.request[1]) {
            return true;
        }
    }
    return false;
}

static void fetch_waiters(struct table *t, struct snib__snapshot *s,
                          const struct snib__name *name)
{
    struct row *row[ROWS];
    const void *about;
    size_t size;
    int n = waiters_of(t, name, row);
    for (int i = 0; i < n; i++) {
        if ((uint32_t)i < s->waiters || is_asked_for(s, row[i])) {
            hand_in(s, row[i]);
        }
    }
    if ((uint32_t)n > s->waiters) {
        snib__snapshot_queue(s, name, (uint32_t)n,
                             claim_in(row[n - 1], &about, &size).rank);
    }
}

static void fetch_name(struct table *t, struct snib__snapshot *s,
                       const struct snib__name *name)
{
    const void *about;
    size_t size;
    for (int i = 0; i < t->rows; i++) {
        const struct row *row = &t->row[i];
        if (row->key.name == name &&
            (row->key.kind != SNIB__KEY_CLAIM ||
             claim_in(row, &about, &size).state != SNIB__WAITS)) {
            hand_in(s, row);
        }
    }
    fetch_waiters(t, s, name);
}

static int64_t highest_in(struct table *t)
{
    int64_t highest = 0;
    for (int i = 0; i < t->rows; i++) {
        if (t->row[i].key.kind == SNIB__KEY_LOCK &&
            lock_in(&t->row[i]).token > highest) {
            highest = lock_in(&t->row[i]).token;
        }
    }
    return highest;
}

static void fetch(struct table *t, struct snib__snapshot *s, snib_instant sent,
                  snib_instant now)
{
    struct row *floor = row_of(t, &(struct snib__key){.kind = SNIB__KEY_FLOOR});
    snib__snapshot_moment(
        s,
        &(struct snib__moment){.sent = sent,
                               .now = now,
                               .epoch = t->epoch,
                               .highest = s->want_highest ? highest_in(t) : 0});
    for (uint32_t i = 0; i < s->locks; i++) {
        fetch_name(t, s, s->lock[i].name);
    }
    if (floor) {
        hand_in(s, floor);
    }
}

/* -- writing --------------------------------------------------------------- */

static void pack(const struct snib__snapshot *s, struct message *ret)
{
    size_t size = snib__buf_size(&s->bytes);
    assert_true(s->guards <= KEPT_GUARDS && size <= KEPT_BYTES);
    memcpy(ret->guard, s->guard, s->guards * sizeof *s->guard);
    memcpy(ret->bytes, snib__buf_bytes(&s->bytes), size);
    ret->guards = s->guards;
    ret->epoch = s->epoch;
    ret->not_after = s->not_after;
    for (uint32_t i = 0; i < ret->guards; i++) { /* no key stands twice */
        for (uint32_t k = 0; k < i; k++) {
            assert_false(same_key(&ret->guard[i].key, &ret->guard[k].key));
        }
    }
}

static bool is_allowed(struct table *t, const struct message *m,
                       snib_instant now)
{
    if (m->epoch != t->epoch || now.ns > m->not_after.ns) {
        return false;
    }
    for (uint32_t i = 0; i < m->guards; i++) {
        const struct row *row = row_of(t, &m->guard[i].key);
        if ((row ? row->stamp : 0) != m->guard[i].stamp) {
            return false;
        }
    }
    return true;
}

static void put_row(struct table *t, const struct snib__key *key,
                    const void *bytes, size_t size)
{
    struct row *row = row_of(t, key);
    assert_true(size <= ROW_BYTES);
    if (!row) {
        assert_true(t->rows < ROWS);
        row = &t->row[t->rows++];
        row->key = *key;
    }
    row->stamp = t->revision;
    row->size = size;
    memcpy(row->bytes, bytes, size);
}

static void delete_row(struct table *t, struct row *row)
{
    if (row) {
        *row = t->row[--t->rows];
    }
}

/* False: a conflict. */
static bool apply(struct table *t, const struct message *m, snib_instant now)
{
    if (!is_allowed(t, m, now)) {
        return false;
    }
    t->revision++;
    for (uint32_t i = 0; i < m->guards; i++) {
        const struct snib__guard *g = &m->guard[i];
        if (g->todo == SNIB__GUARD_PUT) {
            put_row(t, &g->key, m->bytes + g->at, g->size);
        } else if (g->todo == SNIB__GUARD_DELETE) {
            delete_row(t, row_of(t, &g->key));
        }
    }
    return true;
}

#endif

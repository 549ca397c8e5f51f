/* tests/unit/etcd_model.h — a model of an etcd server in memory: keys, revisions,
 * leases, transactions, and the bound of --max-txn-ops; for etcd_world.h. */
#ifndef SNIB_TESTS_UNIT_ETCD_MODEL_H
#define SNIB_TESTS_UNIT_ETCD_MODEL_H

#include "unit.h"

#include <stdlib.h>

#include "core/blocking.h"
#include "core/name.h"
#include "proto/grpc/nghttp2_i.h"
#include "store/etcd/etcd.h"
#include "store/etcd/etcd_i.h"

enum { KEYS = 512, KEY_MAX = 160, VALUE_MAX = 6000, LEASES = 8192 };

struct model_key {
    char key[KEY_MAX];
    size_t size;
    uint8_t value[VALUE_MAX];
    size_t value_size;
    int64_t mod, made, lease;
};

static struct {
    struct snib__store *store;
    struct snib__etcd *e;
    struct snib__out out;
    struct snib_error error;
    struct snib__buf rows;
    snib_instant now;
    struct model_key key[KEYS];
    uint32_t keys;
    struct {
        int64_t ttl;
        snib_instant granted;
    } lease[LEASES];
    int64_t leases, revision;
    /* What the server does with the calls: it keeps them; it does what they ask
     * for, and its answers are lost; logins are not valid; it wants one. */
    bool keeps, loses, unknown_login, wants_login, denies;
    int most;  /* operations that a transaction may have */
    int txns;  /* that were applied */
    int calls; /* that were answered, but for those that grant leases */
} w;

/* -- the model ---------------------------------------------------------------- */

static bool lease_lives(int64_t id)
{
    return id > 0 && id <= w.leases &&
           w.now.ns < w.lease[id].granted.ns + w.lease[id].ttl * 1000000000;
}

static void drop_key(uint32_t i)
{
    w.key[i] = w.key[--w.keys];
}

static void end_leases(void)
{
    bool any = false;
    for (uint32_t i = 0; i < w.keys;) {
        if (w.key[i].lease && !lease_lives(w.key[i].lease)) {
            drop_key(i);
            any = true;
        } else {
            i++;
        }
    }
    w.revision += any;
}

static struct model_key *find_key(struct snib__etcd_text t)
{
    for (uint32_t i = 0; i < w.keys; i++) {
        if (w.key[i].size == t.size && !memcmp(w.key[i].key, t.bytes, t.size)) {
            return &w.key[i];
        }
    }
    return NULL;
}

static int by_key(const void *left, const void *right)
{
    const struct model_key *a = left, *b = right;
    size_t n = a->size < b->size ? a->size : b->size;
    int c = memcmp(a->key, b->key, n);
    return c ? c : a->size < b->size ? -1 : a->size > b->size;
}

static bool reaches(const struct model_key *k, struct snib__etcd_text from,
                    struct snib__etcd_text to)
{
    struct model_key a = {.size = from.size}, b = {.size = to.size};
    memcpy(a.key, from.bytes, from.size);
    if (!to.size) {
        return by_key(k, &a) == 0;
    }
    memcpy(b.key, to.bytes, to.size);
    return by_key(k, &a) >= 0 && by_key(k, &b) < 0;
}

static void put_header(struct snib__buf *b)
{
    size_t begun = snib__pb_begin(b, 1);
    snib__pb_put_int(b, 1, 77);
    snib__pb_put_int(b, 3, w.revision);
    snib__pb_end(b, begun);
}

static struct snib__etcd_text text_in(const struct snib__pb *p)
{
    return (struct snib__etcd_text){p->bytes, p->size};
}

static void do_range(struct snib__pb p, struct snib__buf *b)
{
    struct snib__etcd_text from = {0}, to = {0};
    int64_t count = 0;
    while (snib__pb_next(&p)) {
        from = p.field == 1 ? text_in(&p) : from;
        to = p.field == 2 ? text_in(&p) : to;
    }
    qsort(w.key, w.keys, sizeof *w.key, by_key);
    put_header(b);
    for (uint32_t i = 0; i < w.keys; i++) {
        const struct model_key *k = &w.key[i];
        if (reaches(k, from, to)) {
            size_t pair = snib__pb_begin(b, 2);
            snib__pb_put_bytes(b, 1, k->key, k->size);
            snib__pb_put_int(b, 2, k->made);
            snib__pb_put_int(b, 3, k->mod);
            snib__pb_put_bytes(b, 5, k->value, k->value_size);
            snib__pb_put_int(b, 6, k->lease);
            snib__pb_end(b, pair);
            count++;
        }
    }
    snib__pb_put_int(b, 4, count);
}

static void do_put(struct snib__pb p)
{
    struct snib__etcd_text key = {0}, value = {0};
    int64_t lease = 0;
    bool same = false, same_value = false;
    while (snib__pb_next(&p)) {
        key = p.field == 1 ? text_in(&p) : key;
        value = p.field == 2 ? text_in(&p) : value;
        lease = p.field == 3 ? p.number : lease;
        same_value = same_value || (p.field == 5 && p.number);
        same = same || (p.field == 6 && p.number);
    }
    struct model_key *k = find_key(key);
    if (!k) {
        assert_true(w.keys < KEYS && !same && !same_value);
        k = &w.key[w.keys++];
        *k = (struct model_key){.size = key.size, .made = w.revision};
        memcpy(k->key, key.bytes, key.size);
    }
    assert_true(value.size <= VALUE_MAX && key.size < KEY_MAX);
    if (!same_value && value.size) {
        memcpy(k->value, value.bytes, value.size);
    }
    k->value_size = same_value ? k->value_size : value.size;
    k->lease = same ? k->lease : lease;
    k->mod = w.revision;
}

/* When the keys were made (target 1), or last changed (2): EQUAL (0), or GREATER
 * (1). Of no key at all it is 0. */
static bool compares(struct snib__pb p)
{
    struct snib__etcd_text key = {0}, to = {0};
    int64_t revision = 0, result = 0, target = 0;
    bool all = true, any = false;
    while (snib__pb_next(&p)) {
        result = p.field == 1 ? p.number : result;
        target = p.field == 2 ? p.number : target;
        key = p.field == 3 ? text_in(&p) : key;
        revision = p.field == 5 || p.field == 6 ? p.number : revision;
        to = p.field == 64 ? text_in(&p) : to;
    }
    for (uint32_t i = 0; i < w.keys; i++) {
        const struct model_key *k = &w.key[i];
        int64_t is = target == 1 ? k->made : k->mod;
        if (reaches(k, key, to)) {
            any = true;
            all = all && (result ? is > revision : is == revision);
        }
    }
    return any ? all : result ? 0 > revision : revision == 0;
}

/* One operation; its answer goes to b. */
static void do_op(struct snib__pb op, struct snib__buf *b)
{
    size_t answer = snib__pb_begin(b, 3);
    assert_true(snib__pb_next(&op));
    size_t inside = snib__pb_begin(b, op.field);
    if (op.field == 1) {
        do_range(snib__pb_inside(&op), b);
    } else if (op.field == 2) {
        do_put(snib__pb_inside(&op));
    } else {
        struct snib__pb p = snib__pb_inside(&op);
        assert_true(snib__pb_next(&p));
        struct model_key *k = find_key(text_in(&p));
        if (k) {
            drop_key((uint32_t)(k - w.key));
        }
    }
    snib__pb_end(b, inside);
    snib__pb_end(b, answer);
}

static bool leases_live(struct snib__pb op)
{
    if (!snib__pb_next(&op) || op.field != 2) {
        return true;
    }
    struct snib__pb p = snib__pb_inside(&op);
    while (snib__pb_next(&p)) {
        if (p.field == 3 && !lease_lives(p.number)) {
            return false;
        }
    }
    return true;
}

/* The refusal of a server, or NULL. */
static const char *do_txn(struct snib__pb p, struct snib__buf *b, int *status)
{
    struct snib__pb look = p;
    int n[4] = {0};
    bool good = true, lives = true, writes = false;
    while (snib__pb_next(&look)) {
        n[look.field]++;
        if (look.field == 1) {
            good = good && compares(snib__pb_inside(&look));
        }
    }
    if (n[1] > w.most || n[2] > w.most || n[3] > w.most) {
        *status = SNIB__GRPC_INVALID_ARGUMENT;
        return "etcdserver: too many operations in txn request";
    }
    for (look = p; snib__pb_next(&look);) {
        if (look.field == (good ? 2u : 3u)) {
            struct snib__pb op = snib__pb_inside(&look);
            lives = lives && leases_live(op);
            writes = writes || (snib__pb_next(&op) && op.field != 1);
        }
    }
    if (!lives) {
        *status = SNIB__GRPC_NOT_FOUND;
        return "etcdserver: requested lease not found";
    }
    w.revision += writes;
    w.txns += writes;
    put_header(b);
    snib__pb_put_int(b, 2, good);
    for (look = p; snib__pb_next(&look);) {
        if (look.field == (good ? 2u : 3u)) {
            do_op(snib__pb_inside(&look), b);
        }
    }
    return NULL;
}

static void do_grant(struct snib__pb p, struct snib__buf *b)
{
    int64_t ttl = 0;
    while (snib__pb_next(&p)) {
        ttl = p.field == 1 ? p.number : ttl;
    }
    assert_true(++w.leases < LEASES);
    w.lease[w.leases].ttl = ttl;
    w.lease[w.leases].granted = w.now;
    put_header(b);
    snib__pb_put_int(b, 2, w.leases);
    snib__pb_put_int(b, 3, ttl);
}

#endif

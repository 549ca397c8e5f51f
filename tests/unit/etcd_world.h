/* tests/unit/etcd_world.h — a store etcd: whose calls are answered by a model of a
 * server in memory: keys, revisions, leases, transactions, and the bound of
 * --max-txn-ops. Nothing is sent: messages are read where they wait to be sent,
 * and answers put where they come in. One world a test. */
#ifndef SNIB_TESTS_UNIT_ETCD_WORLD_H
#define SNIB_TESTS_UNIT_ETCD_WORLD_H

#include "unit.h"

#include <stdlib.h>

#include "core/blocking.h"
#include "core/name.h"
#include "proto/grpc/nghttp2_i.h"
#include "store/etcd/etcd.h"
#include "store/etcd/etcd_i.h"

enum { KEYS = 512, KEY_MAX = 160, VALUE_MAX = 1200, LEASES = 8192, OPS = 128 };

struct model_key {
    char key[KEY_MAX];
    size_t size;
    uint8_t value[VALUE_MAX];
    size_t value_size;
    int64_t mod, lease;
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
     * for, and its answers are lost; logins are not valid. */
    bool keeps, loses, unknown_login;
    int txns; /* that were applied */
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
    bool same = false;
    while (snib__pb_next(&p)) {
        key = p.field == 1 ? text_in(&p) : key;
        value = p.field == 2 ? text_in(&p) : value;
        lease = p.field == 3 ? p.number : lease;
        same = same || (p.field == 6 && p.number);
    }
    struct model_key *k = find_key(key);
    if (!k) {
        assert_true(w.keys < KEYS && !same);
        k = &w.key[w.keys++];
        *k = (struct model_key){.size = key.size};
        memcpy(k->key, key.bytes, key.size);
    }
    assert_true(value.size <= VALUE_MAX && key.size < KEY_MAX);
    memcpy(k->value, value.bytes, value.size);
    k->value_size = value.size;
    k->lease = same ? k->lease : lease;
    k->mod = w.revision;
}

static bool compares(struct snib__pb p)
{
    struct snib__etcd_text key = {0};
    int64_t mod = 0;
    while (snib__pb_next(&p)) {
        key = p.field == 3 ? text_in(&p) : key;
        mod = p.field == 6 ? p.number : mod;
    }
    const struct model_key *k = find_key(key);
    return (k ? k->mod : 0) == mod;
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
    if (n[1] > OPS || n[2] > OPS || n[3] > OPS) {
        *status = SNIB__GRPC_INVALID_ARGUMENT;
        return "etcdserver: too many operations in txn request";
    }
    for (look = p; snib__pb_next(&look);) {
        if (look.field == 2 && good) {
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

/* -- calls and answers ---------------------------------------------------------- */

static bool grants(const struct etcd_call *c)
{
    SNIB__LIST_EACH (l, &w.e->leases) {
        if (&SNIB__CONTAINER(l, struct etcd_lease, link)->call == c) {
            return true;
        }
    }
    return false;
}

static void answer(struct etcd_call *c)
{
    const uint8_t *message = snib__buf_bytes(&c->stream.out);
    struct snib__buf b;
    struct snib__pb p;
    int status = SNIB__GRPC_OK;
    const char *refusal = NULL;
    snib__buf_init(&b, 1 << 22);
    snib__pb_open(&p, message + 5, snib__buf_size(&c->stream.out) - 5);
    if (c == &w.e->session.auth) {
        put_header(&b);
        snib__pb_put_text(&b, 2, "token");
    } else if (w.unknown_login) {
        status = SNIB__GRPC_UNAUTHENTICATED;
        refusal = "etcdserver: invalid auth token";
    } else if (grants(c)) {
        do_grant(p, &b);
    } else {
        refusal = do_txn(p, &b, &status);
    }
    size_t n = snib__buf_size(&b);
    const uint8_t prefix[5] = {0, (uint8_t)(n >> 24), (uint8_t)(n >> 16),
                               (uint8_t)(n >> 8), (uint8_t)n};
    struct snib__h2_stream *s = &c->stream;
    snib__buf_add(&s->in, prefix, sizeof prefix);
    snib__buf_add(&s->in, snib__buf_bytes(&b), n);
    snib__buf_free(&b);
    s->status = status;
    s->http = 200;
    s->grpc = true;
    snprintf(s->text, sizeof s->text, "%s", refusal ? refusal : "");
    s->end = w.loses && c->changes ? SNIB__H2_LOST : SNIB__H2_ANSWERED;
    s->id = 0;
    if (!snib__linked(&s->changed)) {
        snib__list_push(&w.e->session.h2.changed, &s->changed);
    }
}

static void tick(void)
{
    const struct snib__input in = {.kind = SNIB__IN_TICK};
    snib__etcd_store_ops.input(w.store, w.now, &in);
}

/* The server answers what has been asked so far, and what that leads to. */
static void serve(void)
{
    bool any = true;
    end_leases();
    if (!w.keeps) { /* pings are answered, too */
        w.e->session.heard = w.now;
        w.e->session.pinged = (snib_instant){0};
    }
    for (int i = 0; any && i < 200 && !w.keeps; i++) {
        any = false;
        SNIB__LIST_EACH_SAFE (l, next, &w.e->session.calls) {
            struct etcd_call *c = SNIB__CONTAINER(l, struct etcd_call, link);
            if (!c->heard && c->stream.end == SNIB__H2_OPEN) {
                answer(c);
                any = true;
            }
        }
        tick();
    }
}

static void pass(int64_t ms)
{
    w.now = snib__after(w.now, snib__ms(ms));
    end_leases();
    tick();
    serve();
}

/* -- the store ------------------------------------------------------------------ */

/* As it is once a connection has been greeted. Nothing is ever written on it: the
 * messages stay where the model reads them. */
static void be_ready(void)
{
    struct etcd_session *s = &w.e->session;
    assert_true(snib__h2_open(&s->h2));
    s->state = ETCD_READY;
    s->watching = s->seen_status = s->ever = true;
    s->heard = s->since = w.now;
}

static const struct snib__nghttp2 *silent(const struct snib__nghttp2 *lib);

static int open_world(const char *text)
{
    struct snib__url *url;
    memset(&w, 0, sizeof w);
    w.now = (snib_instant){INT64_C(1000000000000)};
    w.revision = 10;
    snib__buf_init(&w.rows, 1 << 16);
    snib__list_init(&w.out.answered);
    snib__list_init(&w.out.exec);
    snib__conns_init(&w.out, 1 << 22);
    assert_int_equal(snib__url_parse(text, &url, &w.error), SNIB_ERR_OK);
    struct snib__store_config c = {
        .url = url, .out = &w.out, .client = {1, 2}, .request = snib__ms(5000)};
    c.seed.v[0] = 1;
    w.out.wall_offset_ns = INT64_C(1790000000000000000) - w.now.ns;
    assert_int_equal(snib__etcd_open(&c, &w.store, &w.error), SNIB_ERR_OK);
    snib__url_free(url);
    w.e = (struct snib__etcd *)(void *)w.store;
    w.e->session.h2.lib = silent(w.e->lib);
    be_ready();
    return 0;
}

static int begin_world(void **state)
{
    (void)state;
    return open_world("etcd://a");
}

static int end_world(void **state)
{
    (void)state;
    snib__etcd_free(w.store);
    snib__conns_free(&w.out);
    snib__buf_free(&w.rows);
    return 0;
}

/* -- requests ------------------------------------------------------------------- */

static const struct snib__name name_n = {1, 1, 5, "n", "n"};
static const struct snib__name name_m = {1, 1, 6, "m", "m"};

static struct snib__request asks(snib__verb verb, uint64_t id)
{
    return (struct snib__request){.verb = verb,
                                  .name = &name_n,
                                  .id = {id, 9},
                                  .acquire.permits = 1,
                                  .acquire.may_queue = true,
                                  .lease = snib__ms(30000),
                                  .limit = snib__after(w.now, snib__ms(600000)),
                                  .said.reterr = &w.error};
}

static struct snib__request ends(snib__verb verb, const struct snib__request *r)
{
    struct snib__request end = asks(verb, r->id[0]);
    end.token = verb == SNIB__CANCEL ? 0 : r->token;
    end.late = r->late;
    end.lease = r->lease;
    return end;
}

static void start(struct snib__request *r)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__list_push(&chain, &r->link);
    snib__etcd_store_ops.start(w.store, w.now, &chain);
}

/* Was it answered? It is taken off. */
static bool answered(struct snib__request *r)
{
    SNIB__LIST_EACH (l, &w.out.answered) {
        if (l == &r->link) {
            snib__unlink(l);
            return true;
        }
    }
    return false;
}

static snib__answer ask(struct snib__request *r)
{
    start(r);
    serve();
    return answered(r) ? r->said.answer : SNIB__PENDING;
}

static const struct model_key *key_of(const char *text)
{
    return find_key((struct snib__etcd_text){text, strlen(text)});
}

static const struct model_key *claim_of(const struct snib__request *r)
{
    char text[100];
    snprintf(text, sizeof text, "snib/l/%s/c/%016llx%016llx", r->name->safe,
             (unsigned long long)r->id[0], (unsigned long long)r->id[1]);
    return key_of(text);
}

/* s until this key is gone, if nobody puts it anew. */
static int64_t left_of(const struct model_key *k)
{
    assert_non_null(k);
    return w.lease[k->lease].ttl -
           (w.now.ns - w.lease[k->lease].granted.ns) / 1000000000;
}

/* -- nghttp2, which writes nothing ------------------------------------------------ */

static struct snib__nghttp2 quiet;

static ssize_t quiet_send(nghttp2_session *session, const uint8_t **data)
{
    (void)session;
    (void)data;
    return 0;
}

static int quiet_wants(nghttp2_session *session)
{
    (void)session;
    return 1;
}

static const struct snib__nghttp2 *silent(const struct snib__nghttp2 *lib)
{
    quiet = *lib;
    quiet.nghttp2_session_mem_send = quiet_send;
    quiet.nghttp2_session_want_read = quiet_wants;
    quiet.nghttp2_session_want_write = quiet_wants;
    return &quiet;
}

#endif

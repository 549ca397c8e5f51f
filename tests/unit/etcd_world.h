/* tests/unit/etcd_world.h — a store etcd: whose calls are answered by a model of a
 * server (etcd_model.h). Nothing is sent: messages are read where they wait to be
 * sent, and answers put where they come in. One world a test. */
#ifndef SNIB_TESTS_UNIT_ETCD_WORLD_H
#define SNIB_TESTS_UNIT_ETCD_WORLD_H

#include "etcd_model.h"

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

/* Of an INSPECT of recipe_look.c: the step whose call it is. */
static const struct etcd_step *looks(const struct etcd_call *c)
{
    SNIB__LIST_EACH (l, &w.e->steps) {
        const struct etcd_step *k = SNIB__CONTAINER(l, struct etcd_step, link);
        if (&k->call == c && k->r[0]->verb == SNIB__INSPECT && w.e->recipe) {
            return k;
        }
    }
    return NULL;
}

static void do_left(struct snib__pb p, struct snib__buf *b)
{
    int64_t id = 0;
    while (snib__pb_next(&p)) {
        id = p.field == 1 ? p.number : id;
    }
    put_header(b);
    snib__pb_put_int(b, 3,
                     !lease_lives(id)
                         ? -1
                         : w.lease[id].ttl -
                               (w.now.ns - w.lease[id].granted.ns) /
                                   1000000000);
}

static void answer(struct etcd_call *c)
{
    const uint8_t *message = snib__buf_bytes(&c->stream.out);
    struct snib__buf b;
    struct snib__pb p;
    int status = SNIB__GRPC_OK;
    const char *refusal = NULL;
    snib__buf_init(&b, 1 << 22);
    w.calls += !grants(c);
    snib__pb_open(&p, message + 5, snib__buf_size(&c->stream.out) - 5);
    if (c == &w.e->session.auth) {
        put_header(&b);
        snib__pb_put_text(&b, 2, "token");
    } else if (w.wants_login) {
        status = SNIB__GRPC_INVALID_ARGUMENT;
        refusal = "etcdserver: user name is empty";
    } else if (w.unknown_login) {
        status = SNIB__GRPC_UNAUTHENTICATED;
        refusal = "etcdserver: invalid auth token";
    } else if (grants(c)) {
        do_grant(p, &b);
    } else if (w.denies) {
        status = SNIB__GRPC_PERMISSION_DENIED;
        refusal = "etcdserver: permission denied";
    } else if (looks(c)) {
        (looks(c)->recipe.ask == RECIPE_LASTS ? do_left : do_range)(p, &b);
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
    s->heard = s->since = s->turned = w.now;
}

static const struct snib__nghttp2 *silent(const struct snib__nghttp2 *lib);

static int open_world(const char *text)
{
    struct snib__url *url;
    memset(&w, 0, sizeof w);
    w.now = (snib_instant){INT64_C(1000000000000)};
    w.revision = 10;
    w.most = 128;
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

static void lose_connection(void)
{
    struct snib__input in = {.kind = SNIB__IN_CLOSED, .conn = w.e->session.at};
    snib__etcd_store_ops.input(w.store, w.now, &in);
}

/* why: nobody will be let in before somebody changes something. */
static void refuse_connection(snib_err why)
{
    struct snib__input in = {
        .kind = SNIB__IN_REFUSED, .conn = w.e->session.at, .err = why};
    snib__etcd_store_ops.input(w.store, w.now, &in);
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
    struct snib__stored_claim c;
    const void *about;
    size_t size;
    char text[100];
    snprintf(text, sizeof text, "snib/l/%s/c/", r->name->safe);
    for (uint32_t i = 0; i < w.keys; i++) {
        struct model_key *k = &w.key[i];
        if (!memcmp(k->key, text, strlen(text)) &&
            !snib__layout_claim(k->value, k->value_size, &c, &about, &size,
                                NULL) &&
            !memcmp(c.request, r->id, sizeof c.request)) {
            return k;
        }
    }
    return NULL;
}

/* s until this key is gone, if nobody puts it anew. */
static int64_t left_of(const struct model_key *k)
{
    assert_non_null(k);
    return w.lease[k->lease].ttl -
           (w.now.ns - w.lease[k->lease].granted.ns) / 1000000000;
}

/* Also where the member's clock runs faster than ours, by a hundredth. */
static void assert_lasts_until(const struct model_key *k, snib_instant end)
{
    assert_true(left_of(k) * INT64_C(990000000) >=
                snib__between(w.now, end).ns);
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

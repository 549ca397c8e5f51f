/* tests/unit/quorum_world.h — the quorum over scripted nodes, in virtual time.
 *
 * A fake node is one server that several clients share: a record, a token
 * memory, tombstones, by the rules of the Redis scripts. Each way from a client
 * to a server has its own delays, and can be shut (requests are never sent),
 * mute (executed, never answered) or late (executed long after the client gave
 * up), or lie (a place in a queue, for who never asked for one). */
#ifndef SNIB_TESTS_UNIT_QUORUM_WORLD_H
#define SNIB_TESTS_UNIT_QUORUM_WORLD_H

#include "conns.h"
#include "unit.h"

#include "base/error.h"
#include "core/url.h"
#include "snib/inspect.h"
#include "store/quorum/quorum_i.h"

#define MS       1000000
#define PATIENCE 2000
#define LEASE    10000

enum { SERVERS = 7, CLIENTS = 4, STONES = 64 };

typedef enum way {
    WAY_OPEN,
    WAY_SHUT, /* nothing is sent                                       */
    WAY_MUTE, /* executed, not answered                                */
    WAY_QUEUE /* an acquire is told a place in a queue, and no more    */
} way;

struct server {
    uint64_t client, id[2]; /* who holds; client 0: nobody              */
    int64_t token, end_ms, memory, offset_ms, marked;
    int64_t least_ms; /* it says that it gives no longer lease; 0: as asked */
    bool mute;        /* its doctor finds nothing to say                    */
    uint64_t stone[STONES];
    uint32_t stones;
    uint32_t acquires, renews, keeps, releases, cancels;
    bool all_marked; /* whatever is renewed was ended by force       */
};

/* A request on its way. */
struct travel {
    struct snib__link link;
    struct snib__request *rq; /* NULL: nobody waits for it             */
    struct snib__request copy;
    snib_instant sent, arrives, returns;
    bool executed, shut, mute, lies;
};

struct fake {
    struct snib__out *out;
    struct snib__list travels;
    uint64_t client;
    uint32_t server;
};

struct client {
    struct snib__store *store;
    struct snib__out out;
    struct fake *fake[SERVERS];
    way way[SERVERS];
    int64_t there_ms[SERVERS], back_ms[SERVERS];
    struct snib__store_state
        state[SERVERS];                   /* as each node would tell it     */
    uint32_t opened, background, callers; /* requests sent for them         */
};

static struct server server[SERVERS];
static struct client client[CLIENTS];
static struct client *opening;
static snib_instant now;
static struct snib__name *name;
static uint64_t ids;
static bool clocks_known = true;

/* -- a server ---------------------------------------------------------------- */

static int64_t clock_of(const struct server *s)
{
    return now.ns / MS + s->offset_ms + 1000000000;
}

static uint64_t key_of(const struct snib__request *rq)
{
    return rq->id[0] * 31 + rq->id[1];
}

static bool has_stone(const struct server *s, uint64_t id)
{
    for (uint32_t i = 0; i < STONES; i++) {
        if (s->stone[i] == id) {
            return true;
        }
    }
    return false;
}

static bool mine(const struct server *s, uint64_t who,
                 const struct snib__request *rq)
{
    return s->client == who && s->id[0] == rq->id[0] && s->id[1] == rq->id[1] &&
           s->end_ms > clock_of(s);
}

static void give(struct server *s, uint64_t who, struct snib__request *rq,
                 int64_t token)
{
    s->client = who;
    s->id[0] = rq->id[0];
    s->id[1] = rq->id[1];
    s->token = token;
    s->end_ms = clock_of(s) + rq->lease.ns / MS;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* acquire.lua */
static void do_acquire(struct server *s, uint64_t who, struct snib__request *rq)
{
    s->acquires++;
    if (has_stone(s, key_of(rq))) {
        rq->said.answer = SNIB__NO;
        rq->said.err = SNIB_ERR_CANCELLED;
    } else if (mine(s, who, rq)) {
        s->end_ms = most(s->end_ms, clock_of(s) + rq->lease.ns / MS);
        rq->said.answer = SNIB__DONE;
        rq->token = s->token;
    } else if (s->client && s->end_ms > clock_of(s)) {
        rq->said.answer = SNIB__NO;
        rq->said.err = SNIB_ERR_BUSY;
        rq->said.left = snib__ms(s->end_ms - clock_of(s));
    } else if (rq->floor > (clock_of(s) + 86400000) * 1024) {
        rq->said.answer = SNIB__NOT_APPLIED;
        rq->said.err = SNIB_ERR_STORE;
    } else {
        int64_t token =
            most(s->memory + 1, clock_of(s) * 1024 + now.ns % MS * 1024 / MS);
        token = most(token, rq->floor + 1);
        give(s, who, rq, token);
        s->memory = token + rq->acquire.reserve;
        rq->said.answer = SNIB__DONE;
        rq->token = token;
    }
}

/* renew.lua, keep.lua */
static void do_renew(struct server *s, uint64_t who, struct snib__request *rq)
{
    bool keep = rq->floor > 0;
    s->keeps += keep;
    s->renews += !keep;
    rq->said.answer = SNIB__NO;
    rq->said.err = SNIB_ERR_LOST;
    if (s->all_marked || (uint64_t)s->marked == key_of(rq)) {
        rq->said.revoked = true;
    } else if (keep && has_stone(s, key_of(rq))) {
        /* ended */
    } else if (mine(s, who, rq) && (keep || s->token == rq->token)) {
        s->token = rq->token;
        s->end_ms = most(s->end_ms, clock_of(s) + rq->lease.ns / MS);
        s->memory = keep ? most(s->memory, rq->floor) : s->memory;
        rq->said.answer = SNIB__DONE;
        rq->said.err = SNIB_ERR_OK;
    } else if (keep && !(s->client && s->end_ms > clock_of(s)) &&
               (rq->acquire.may_queue || s->memory <= rq->floor)) {
        give(s, who, rq, rq->token);
        s->memory = most(s->memory, rq->floor);
        rq->said.answer = SNIB__DONE;
        rq->said.err = SNIB_ERR_OK;
    }
}

static void give_lease(const struct server *s, struct snib__request *rq)
{
    if (rq->said.answer == SNIB__DONE) {
        rq->said.left = s->least_ms ? snib__ms(s->least_ms) : rq->lease;
    }
}

static void execute(uint32_t at, uint64_t who, struct snib__request *rq)
{
    struct server *s = &server[at];
    switch (rq->verb) {
    case SNIB__ACQUIRE:
        do_acquire(s, who, rq);
        give_lease(s, rq);
        break;
    case SNIB__RENEW:
        do_renew(s, who, rq);
        give_lease(s, rq);
        break;
    case SNIB__RELEASE:
        s->releases++;
        rq->said.answer =
            mine(s, who, rq) && s->token == rq->token ? SNIB__DONE : SNIB__NO;
        rq->said.revoked = rq->said.answer == SNIB__NO &&
                           (s->all_marked || (uint64_t)s->marked == key_of(rq));
        s->client = rq->said.answer == SNIB__DONE ? 0 : s->client;
        if (rq->resent) {
            s->stone[s->stones++ % STONES] = key_of(rq);
        }
        break;
    case SNIB__CANCEL:
        s->cancels++;
        if (mine(s, who, rq) ||
            (s->client == who && rq->token && s->token == rq->token)) {
            s->client = 0;
        }
        s->stone[s->stones++ % STONES] = key_of(rq);
        rq->said.answer = SNIB__DONE;
        break;
    case SNIB__FORCE:
        if (s->client) {
            s->marked = (int64_t)(s->id[0] * 31 + s->id[1]);
        }
        snib__rec_row(rq->said.result, SNIB__ROW_COUNT);
        snib__rec_i64(rq->said.result, SNIB__F_COUNT, s->client != 0);
        s->client = 0;
        rq->said.answer = SNIB__DONE;
        break;
    case SNIB__INSPECT:
        snib__rec_row(rq->said.result, SNIB__ROW_LOCK);
        snib__rec_text(rq->said.result, SNIB__F_NAME, "n");
        snib__rec_i64(rq->said.result, SNIB__F_TOKEN, s->memory);
        if (s->client) {
            char owner[24];
            snprintf(owner, sizeof owner, "%d", (int)s->client);
            snib__rec_row(rq->said.result, SNIB__ROW_HOLDER);
            snib__rec_text(rq->said.result, SNIB__F_CLIENT, owner);
            snib__rec_i64(rq->said.result, SNIB__F_TOKEN, s->token);
            snib__rec_i64(rq->said.result, SNIB__F_LEFT,
                          s->end_ms - clock_of(s));
        }
        rq->said.answer = SNIB__DONE;
        break;
    case SNIB__LIST:
        rq->said.answer = SNIB__DONE;
        break;
    case SNIB__PARAMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY:
    case SNIB__DOCTOR:
        if (s->mute) {
            rq->said.answer = SNIB__DONE;
            break;
        }
        snib__rec_row(rq->said.result, SNIB__ROW_FINDING);
        snib__rec_i64(rq->said.result, SNIB__F_LEVEL, SNIB_LEVEL_OK);
        snib__rec_text(rq->said.result, SNIB__F_CHECK, "version");
        snib__rec_text(rq->said.result, SNIB__F_TEXT, "fine");
        rq->said.answer = SNIB__DONE;
        break;
    }
}

/* -- a node: one client's way to a server -------------------------------------- */

static snib_err fake_open(const struct snib__store_config *cfg,
                          struct snib__store **ret, struct snib_error *reterr)
{
    struct fake *f = snib__alloc(sizeof *f);
    *ret = (struct snib__store *)f;
    if (!f) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    f->out = cfg->out;
    f->client = cfg->client[0];
    f->server = opening->opened;
    opening->fake[opening->opened++] = f;
    snib__list_init(&f->travels);
    snib_err err = SNIB_ERR_OK;
    for (int i = 0; !err && i < NODE_CONNS; i++) {
        err = snib__conn_add(cfg->out, SNIB__PLAIN, cfg->url->host);
    }
    if (err) {
        snib__free(f);
        *ret = NULL;
        return snib__fail_plain(reterr, err);
    }
    return SNIB_ERR_OK;
}

static struct travel *travel_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct travel, link);
}

static void answer(struct fake *f, struct travel *t, snib__answer a,
                   snib_err err)
{
    struct snib__request *rq = t->rq;
    t->rq = NULL;
    rq->said.answer = a;
    rq->said.err = err;
    if (err) {
        snib__fail(rq->said.reterr, err, "%s", snib_err_text(err));
    }
    snib__list_push(&f->out->answered, &rq->link);
}

static void fake_start(struct snib__store *store, snib_instant at,
                       struct snib__list *chain)
{
    struct fake *f = (struct fake *)store;
    struct client *c = &client[f->client - 1];
    struct snib__link *l;
    while ((l = snib__list_pop(chain))) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (rq->verb == SNIB__CANCEL) { /* as the Redis store does */
            SNIB__LIST_EACH (m, &f->travels) {
                struct travel *t = travel_of(m);
                if (t->rq && t->copy.verb == SNIB__ACQUIRE &&
                    t->copy.id[1] == rq->id[1]) {
                    answer(f, t, t->shut ? SNIB__NOT_APPLIED : SNIB__UNKNOWN,
                           SNIB_ERR_CANCELLED);
                }
            }
        }
        struct travel *t = snib__alloc(sizeof *t);
        assert_non_null(t);
        c->background += rq->background;
        c->callers += !rq->background;
        t->rq = rq;
        t->copy = *rq;
        t->sent = at;
        t->shut = c->way[f->server] == WAY_SHUT;
        t->lies = c->way[f->server] == WAY_QUEUE && rq->verb == SNIB__ACQUIRE;
        t->mute = c->way[f->server] == WAY_MUTE || t->lies;
        t->arrives = snib__after(at, snib__ms(c->there_ms[f->server]));
        t->returns = snib__after(t->arrives, snib__ms(c->back_ms[f->server]));
        snib__link_init(&t->link);
        snib__list_push(&f->travels, &t->link);
    }
}

static void fake_input(struct snib__store *store, snib_instant at,
                       const struct snib__input *in)
{
    struct fake *f = (struct fake *)store;
    (void)in;
    SNIB__LIST_EACH_SAFE (l, next, &f->travels) {
        struct travel *t = travel_of(l);
        if (!t->shut && !t->executed && snib__reached(at, t->arrives)) {
            struct snib__buf rows;
            snib__buf_init(&rows, 1 << 16);
            t->executed = true;
            if (t->copy.said.result) {
                t->copy.said.result = t->rq ? t->copy.said.result : &rows;
            }
            execute(f->server, f->client, &t->copy);
            snib__buf_free(&rows);
        }
        if (t->lies && t->rq && snib__reached(at, t->returns)) {
            t->lies = false;
            t->rq->said.answer = SNIB__QUEUED;
            snib__list_push(&f->out->answered, &t->rq->link);
        }
        if (t->executed && !t->mute && t->rq && snib__reached(at, t->returns)) {
            struct snib__request *rq = t->rq;
            rq->token = t->copy.token;
            rq->said.left = t->copy.said.left;
            rq->said.revoked = t->copy.said.revoked;
            rq->said.valid_from = t->sent;
            answer(f, t, t->copy.said.answer, t->copy.said.err);
            if (rq->said.revoked) { /* told of this grant */
                snib__fail(rq->said.reterr, SNIB_ERR_LOST, "revoked: %llu",
                           (unsigned long long)rq->id[0]);
            }
        } else if (t->rq && snib__reached(at, t->rq->limit)) {
            answer(f, t, t->shut ? SNIB__NOT_APPLIED : SNIB__UNKNOWN,
                   t->shut ? SNIB_ERR_UNREACHABLE : SNIB_ERR_UNKNOWN);
        }
        if (!t->rq && (t->executed || t->shut)) {
            snib__unlink(&t->link);
            snib__free(t);
        }
    }
}

static snib_instant fake_due(const struct snib__store *store)
{
    const struct fake *f = (const struct fake *)store;
    snib_instant due = SNIB__NEVER;
    SNIB__LIST_EACH (l, &f->travels) {
        const struct travel *t = travel_of(l);
        if (!t->shut && !t->executed) {
            due = snib__sooner(due, t->arrives);
        }
        if (t->rq) {
            due = snib__sooner(due, t->rq->limit);
            due = (t->executed && !t->mute) || t->lies
                      ? snib__sooner(due, t->returns)
                      : due;
        }
    }
    return due;
}

static void fake_free(struct snib__store *store)
{
    struct fake *f = (struct fake *)store;
    struct snib__link *l;
    while ((l = snib__list_pop(&f->travels))) {
        snib__free(travel_of(l));
    }
    snib__free(f);
}

static int64_t fake_clock(const struct snib__store *store, snib_instant at)
{
    (void)at;
    return clocks_known
               ? clock_of(&server[((const struct fake *)store)->server])
               : 0;
}

static void fake_state(const struct snib__store *store, snib_instant at,
                       struct snib__store_state *ret)
{
    const struct fake *f = (const struct fake *)store;
    (void)at;
    *ret = client[f->client - 1].state[f->server];
}

static const struct snib__store_ops fake_ops = {.abi = SNIB__STORE_ABI,
                                                .size = sizeof fake_ops,
                                                .scheme = "fake",
                                                .open = fake_open,
                                                .start = fake_start,
                                                .input = fake_input,
                                                .due = fake_due,
                                                .state = fake_state,
                                                .free = fake_free};
static const struct snib__node_kind kind = {&fake_ops, fake_clock};
static const struct snib__store_ops *const tasks = &snib__quorum_store_ops;

/* -- the world ------------------------------------------------------------------ */

static void open_clients(int servers, int clients, uint64_t seed)
{
    char text[100] = "redlock://a";
    struct snib__url *url;
    struct snib_error e;
    memset(server, 0, sizeof server);
    memset(client, 0, sizeof client);
    now = (snib_instant){INT64_C(5000000) * MS};
    clocks_known = true;
    for (int k = 1; k < servers; k++) {
        snprintf(text + strlen(text), 8, ",%c", 'a' + k);
    }
    assert_int_equal(snib__url_parse(text, &url, &e), SNIB_ERR_OK);
    for (int i = 0; i < clients; i++) {
        struct client *c = opening = &client[i];
        snib__list_init(&c->out.answered);
        snib__list_init(&c->out.exec);
        snib__conns_init(&c->out, 1 << 20);
        struct snib__store_config cfg = {
            .url = url,
            .out = &c->out,
            .seed = {{seed + 1, 2, 3, (uint64_t)i + 4}},
            .request = snib__ms(PATIENCE),
            .client = {(uint64_t)i + 1, 0}};
        if (snib__quorum_open(&cfg, &kind, &c->store, &e)) {
            fail_msg("%s", e.text);
        }
    }
    snib__url_free(url);
    assert_int_equal(snib__name_new("n", 0, &name, NULL), SNIB_ERR_OK);
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        if (client[i].store) {
            tasks->free(client[i].store);
            snib__conns_free(&client[i].out);
        }
    }
    snib__free(name);
    name = NULL;
    memset(client, 0, sizeof client);
    return 0;
}

static struct snib__request request(snib__verb verb)
{
    struct snib__request rq = {.verb = verb,
                               .name = name,
                               .acquire.kind = SNIB_KIND_MUTEX,
                               .acquire.permits = 1,
                               .acquire.reserve = 31,
                               .lease = snib__ms(LEASE),
                               .id = {++ids * 1000, 77},
                               .limit = snib__after(now, snib__ms(5000))};
    return rq;
}

static void start(int i, struct snib__request *rq)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&rq->link);
    rq->said.answer = SNIB__PENDING;
    snib__list_push(&chain, &rq->link);
    tasks->start(client[i].store, now, &chain);
    assert_true(snib__list_empty(&chain));
}

static snib_instant due(void)
{
    snib_instant at = SNIB__NEVER;
    for (int i = 0; i < CLIENTS; i++) {
        if (client[i].store) {
            at = snib__sooner(at, tasks->due(client[i].store));
        }
    }
    return at;
}

static void tick(snib_instant at)
{
    struct snib__input in = {.kind = SNIB__IN_TICK};
    now = snib__later(now, at);
    for (int i = 0; i < CLIENTS; i++) {
        if (client[i].store &&
            snib__reached(now, tasks->due(client[i].store))) {
            tasks->input(client[i].store, now, &in);
        }
    }
}

/* Let the world run for so long. */
static void run(int64_t ms)
{
    snib_instant end = snib__after(now, snib__ms(ms));
    uint32_t steps = 0;
    while (!snib__reached(due(), snib__after(end, (snib_duration){1}))) {
        tick(due());
        assert_true(++steps < 1000000);
    }
    now = end;
}

static bool is_answered(int i, struct snib__request *rq)
{
    bool found = false;
    SNIB__LIST_EACH_SAFE (l, next, &client[i].out.answered) {
        if (l == &rq->link) {
            snib__unlink(l);
            found = true;
        }
    }
    return found;
}

/* Run until the final answer; ms it took. */
static int64_t finish(int i, struct snib__request *rq)
{
    snib_instant began = now;
    for (int n = 0;; n++) {
        if (is_answered(i, rq) && rq->said.answer != SNIB__QUEUED) {
            return snib__to_ms(snib__between(began, now));
        }
        assert_true(n < 100000 && due().ns != SNIB__NEVER.ns);
        tick(due());
    }
}

static snib__answer ask(int i, struct snib__request *rq)
{
    start(i, rq);
    finish(i, rq);
    return rq->said.answer;
}

static struct snib__request acquired(int i)
{
    struct snib__request rq = request(SNIB__ACQUIRE);
    assert_int_equal(ask(i, &rq), SNIB__DONE);
    return rq;
}

static struct snib__request of_grant(snib__verb verb,
                                     const struct snib__request *grant)
{
    struct snib__request rq = request(verb);
    rq.id[0] = grant->id[0];
    rq.id[1] = grant->id[1];
    rq.token = grant->token;
    return rq;
}

static snib__answer end(int i, const struct snib__request *grant)
{
    struct snib__request rq = of_grant(SNIB__RELEASE, grant);
    return ask(i, &rq);
}

static int held_at(int servers)
{
    int n = 0;
    for (int k = 0; k < servers; k++) {
        n += server[k].client && server[k].end_ms > clock_of(&server[k]);
    }
    return n;
}

static void all_ways(int i, way w, int from, int to)
{
    for (int k = from; k < to; k++) {
        client[i].way[k] = w;
    }
}

#define CASE(f) cmocka_unit_test_teardown(f, tear_down)

#endif

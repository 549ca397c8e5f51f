/* The quorum over scripted nodes, in virtual time.
 *
 * A fake node is one server that several clients share: a record, a token
 * memory, tombstones, by the rules of the Redis scripts. Each way from a client
 * to a server has its own delays, and can be shut (requests are never sent),
 * mute (executed, never answered) or late (executed long after the client gave
 * up). The last cases let chance play all of that against two theorems: nobody
 * holds while another does, and tokens rise. */
#include "unit.h"

#include "base/error.h"
#include "core/url.h"
#include "store/quorum/quorum_i.h"

#define MS       1000000
#define PATIENCE 2000
#define LEASE    10000

enum { SERVERS = 7, CLIENTS = 4, STONES = 64 };

typedef enum way {
    WAY_OPEN,
    WAY_SHUT, /* nothing is sent                                       */
    WAY_MUTE  /* executed, not answered                                */
} way;

struct server {
    uint64_t client, id[2]; /* who holds; client 0: nobody              */
    int64_t token, end_ms, memory, offset_ms, marked;
    uint64_t stone[STONES];
    uint32_t stones;
    uint32_t acquires, renews, keeps, releases, cancels;
};

/* A request on its way. */
struct travel {
    struct snib__link link;
    struct snib__request *rq; /* NULL: nobody waits for it             */
    struct snib__request copy;
    snib_instant sent, arrives, returns;
    bool executed, shut, mute;
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
    uint32_t opened;
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
        rq->answer = SNIB__NO;
        rq->err = SNIB_ERR_CANCELLED;
    } else if (mine(s, who, rq)) {
        s->end_ms = most(s->end_ms, clock_of(s) + rq->lease.ns / MS);
        rq->answer = SNIB__DONE;
        rq->token = s->token;
    } else if (s->client && s->end_ms > clock_of(s)) {
        rq->answer = SNIB__NO;
        rq->err = SNIB_ERR_BUSY;
        rq->left = snib__ms(s->end_ms - clock_of(s));
    } else if (rq->floor > (clock_of(s) + 86400000) * 1024) {
        rq->answer = SNIB__NOT_APPLIED;
        rq->err = SNIB_ERR_STORE;
    } else {
        int64_t token =
            most(s->memory + 1, clock_of(s) * 1024 + now.ns % MS * 1024 / MS);
        token = most(token, rq->floor + 1);
        give(s, who, rq, token);
        s->memory = token + rq->room;
        rq->answer = SNIB__DONE;
        rq->token = token;
    }
}

/* renew.lua, keep.lua */
static void do_renew(struct server *s, uint64_t who, struct snib__request *rq)
{
    bool keep = rq->floor > 0;
    s->keeps += keep;
    s->renews += !keep;
    rq->answer = SNIB__NO;
    rq->err = SNIB_ERR_LOST;
    if ((uint64_t)s->marked == key_of(rq)) {
        rq->revoked = true;
    } else if (keep && has_stone(s, key_of(rq))) {
        /* ended */
    } else if (mine(s, who, rq) && (keep || s->token == rq->token)) {
        s->token = rq->token;
        s->end_ms = most(s->end_ms, clock_of(s) + rq->lease.ns / MS);
        s->memory = keep ? most(s->memory, rq->floor) : s->memory;
        rq->answer = SNIB__DONE;
        rq->err = SNIB_ERR_OK;
    } else if (keep && !(s->client && s->end_ms > clock_of(s)) &&
               (rq->may_queue || s->memory <= rq->floor)) {
        give(s, who, rq, rq->token);
        s->memory = most(s->memory, rq->floor);
        rq->answer = SNIB__DONE;
        rq->err = SNIB_ERR_OK;
    }
}

static void execute(uint32_t at, uint64_t who, struct snib__request *rq)
{
    struct server *s = &server[at];
    switch (rq->verb) {
    case SNIB__ACQUIRE:
        do_acquire(s, who, rq);
        break;
    case SNIB__RENEW:
        do_renew(s, who, rq);
        break;
    case SNIB__RELEASE:
        s->releases++;
        rq->answer =
            mine(s, who, rq) && s->token == rq->token ? SNIB__DONE : SNIB__NO;
        s->client = rq->answer == SNIB__DONE ? 0 : s->client;
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
        rq->answer = SNIB__DONE;
        break;
    case SNIB__FORCE:
        if (s->client) {
            s->marked = (int64_t)(s->id[0] * 31 + s->id[1]);
        }
        snib__rec_row(rq->result, SNIB__ROW_COUNT);
        snib__rec_i64(rq->result, SNIB__F_COUNT, s->client != 0);
        s->client = 0;
        rq->answer = SNIB__DONE;
        break;
    case SNIB__INSPECT:
        snib__rec_row(rq->result, SNIB__ROW_LOCK);
        snib__rec_text(rq->result, SNIB__F_NAME, "n");
        snib__rec_i64(rq->result, SNIB__F_TOKEN, s->memory);
        if (s->client) {
            char owner[24];
            snprintf(owner, sizeof owner, "%d", (int)s->client);
            snib__rec_row(rq->result, SNIB__ROW_HOLDER);
            snib__rec_text(rq->result, SNIB__F_OWNER, owner);
            snib__rec_i64(rq->result, SNIB__F_TOKEN, s->token);
            snib__rec_i64(rq->result, SNIB__F_LEFT, s->end_ms - clock_of(s));
        }
        rq->answer = SNIB__DONE;
        break;
    case SNIB__LIST:
        rq->answer = SNIB__DONE;
        break;
    case SNIB__TERMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__DOCTOR:
        snib__rec_row(rq->result, SNIB__ROW_FINDING);
        snib__rec_i64(rq->result, SNIB__F_LEVEL, SNIB_LEVEL_OK);
        snib__rec_text(rq->result, SNIB__F_CHECK, "version");
        snib__rec_text(rq->result, SNIB__F_TEXT, "fine");
        rq->answer = SNIB__DONE;
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
    cfg->out->chan[0].used = true;
    snprintf(cfg->out->chan[0].address, 64, "%s", cfg->url->host);
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
    rq->answer = a;
    rq->err = err;
    if (err) {
        snib__fail(rq->reterr, err, "%s", snib_err_text(err));
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
        t->rq = rq;
        t->copy = *rq;
        t->sent = at;
        t->shut = c->way[f->server] == WAY_SHUT;
        t->mute = c->way[f->server] == WAY_MUTE;
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
            if (t->copy.result) {
                t->copy.result = t->rq ? t->copy.result : &rows;
            }
            execute(f->server, f->client, &t->copy);
            snib__buf_free(&rows);
        }
        if (t->executed && !t->mute && t->rq && snib__reached(at, t->returns)) {
            struct snib__request *rq = t->rq;
            rq->token = t->copy.token;
            rq->left = t->copy.left;
            rq->revoked = t->copy.revoked;
            rq->valid_from = t->sent;
            answer(f, t, t->copy.answer, t->copy.err);
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
            due = t->executed && !t->mute ? snib__sooner(due, t->returns) : due;
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

static const struct snib__store_ops fake_ops = {.abi = SNIB__STORE_ABI,
                                                .size = sizeof fake_ops,
                                                .scheme = "fake",
                                                .open = fake_open,
                                                .start = fake_start,
                                                .input = fake_input,
                                                .due = fake_due,
                                                .free = fake_free};
static const struct snib__node_kind kind = {&fake_ops, fake_clock};
static const struct snib__store_ops *const ops = &snib__quorum_store_ops;

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
            ops->free(client[i].store);
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
                               .kind = SNIB_MUTEX,
                               .permits = 1,
                               .room = 31,
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
    rq->answer = SNIB__PENDING;
    snib__list_push(&chain, &rq->link);
    ops->start(client[i].store, now, &chain);
    assert_true(snib__list_empty(&chain));
}

static snib_instant due(void)
{
    snib_instant at = SNIB__NEVER;
    for (int i = 0; i < CLIENTS; i++) {
        if (client[i].store) {
            at = snib__sooner(at, ops->due(client[i].store));
        }
    }
    return at;
}

static void tick(snib_instant at)
{
    struct snib__input in = {.kind = SNIB__IN_TICK};
    now = snib__later(now, at);
    for (int i = 0; i < CLIENTS; i++) {
        if (client[i].store && snib__reached(now, ops->due(client[i].store))) {
            ops->input(client[i].store, now, &in);
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
        if (is_answered(i, rq) && rq->answer != SNIB__QUEUED) {
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
    return rq->answer;
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

/* -- acquiring --------------------------------------------------------------------- */

static void all_are_asked_in_one_step_and_agree(void **state)
{
    (void)state;
    open_clients(5, 1, 0);
    struct snib__request g = acquired(0);
    assert_int_equal(held_at(5), 5);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(server[k].acquires, 1);
        assert_int_equal(server[k].keeps, 0); /* one round trip in all */
        assert_true(server[k].token == g.token);
        assert_true(server[k].memory == g.token + 31);
    }
    assert_int_equal(g.left.ns, (int64_t)LEASE * MS);
    assert_int_equal(end(0, &g), SNIB__DONE);
    run(100);
    assert_int_equal(held_at(5), 0);
    for (int k = 0; k < 5; k++) {
        assert_int_equal(server[k].stones, 0); /* nothing is left behind */
    }
}

static void the_lease_counts_from_the_sending(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    snib_instant sent = now;
    client[0].there_ms[0] = client[0].there_ms[1] = client[0].there_ms[2] = 300;
    struct snib__request g = acquired(0);
    assert_int_equal(snib__between(sent, now).ns, 300 * MS);
    assert_int_equal(g.valid_from.ns, sent.ns);
}

static void a_minority_that_is_down_is_waited_for_once(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    client[0].way[2] = WAY_SHUT;
    struct snib__request g = request(SNIB__ACQUIRE);
    start(0, &g);
    assert_int_equal(finish(0, &g), 0);
    assert_int_equal(g.answer, SNIB__DONE);
    assert_int_equal(end(0, &g), SNIB__DONE);
}

static void without_a_majority_it_is_refused_and_says_why(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib_error e = {0};
    struct snib__request g = acquired(0);
    end(0, &g);
    all_ways(0, WAY_SHUT, 1, 3);
    g = request(SNIB__ACQUIRE);
    g.reterr = &e;
    start(0, &g);
    assert_in_range(finish(0, &g), 1, 600); /* lease / 20 */
    assert_int_equal(g.answer, SNIB__NOT_APPLIED);
    assert_int_equal(g.err, SNIB_ERR_UNREACHABLE);
    assert_non_null(strstr(e.text, "1 of 3 servers answered, 2 are needed"));
    run(10);
    assert_int_equal(held_at(3), 0); /* the one vote is given back */
}

static void a_waiter_without_a_majority_hears_it_before_its_limit(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    all_ways(0, WAY_SHUT, 1, 3);
    struct snib__request g = request(SNIB__ACQUIRE);
    g.may_queue = true;
    start(0, &g);
    struct snib_error e = {0};
    g.reterr = &e;
    assert_in_range(finish(0, &g), 4900, 4999);
    assert_non_null(strstr(e.text, "no majority"));
    assert_int_equal(g.answer, SNIB__NOT_APPLIED);
    assert_int_equal(g.err, SNIB_ERR_UNREACHABLE);
}

static void a_waiter_wins_when_the_majority_is_back(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    all_ways(0, WAY_SHUT, 1, 3);
    struct snib__request g = request(SNIB__ACQUIRE);
    g.may_queue = true;
    start(0, &g);
    run(2500);
    assert_int_equal(g.answer, SNIB__PENDING);
    all_ways(0, WAY_OPEN, 1, 3);
    finish(0, &g);
    assert_int_equal(g.answer, SNIB__DONE);
}

static void even_numbers_need_more_than_half(void **state)
{
    (void)state;
    open_clients(4, 1, 0);
    struct snib__request g = acquired(0);
    end(0, &g);
    all_ways(0, WAY_SHUT, 2, 4);
    g = request(SNIB__ACQUIRE);
    assert_int_equal(ask(0, &g), SNIB__NOT_APPLIED);
    run(10);
    assert_int_equal(held_at(4), 0);
}

static void held_by_another_is_no_and_told_how_long(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    acquired(0);
    run(1000);
    struct snib__request g = request(SNIB__ACQUIRE);
    assert_int_equal(ask(1, &g), SNIB__NO);
    assert_int_equal(g.err, SNIB_ERR_BUSY);
    assert_int_equal(snib__to_ms(g.left), LEASE - 1000);
    run(100);
    for (int k = 0; k < 3; k++) {
        assert_int_equal(server[k].stones, 0);
    }
}

static void
a_waiter_is_told_queued_once_and_wins_soon_after_the_end(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request g = acquired(0), w = request(SNIB__ACQUIRE);
    w.may_queue = true;
    start(1, &w);
    tick(due());
    run(1);
    assert_true(is_answered(1, &w));
    assert_int_equal(w.answer, SNIB__QUEUED);
    run(2000);
    assert_false(is_answered(1, &w));
    assert_int_equal(end(0, &g), SNIB__DONE);
    assert_in_range(finish(1, &w), 0, 310);
    assert_int_equal(w.answer, SNIB__DONE);
    assert_true(w.token > g.token + 31);
}

static void a_waiter_wins_when_the_lease_of_a_dead_holder_ends(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request w = request(SNIB__ACQUIRE);
    acquired(0);
    w.may_queue = true;
    w.limit = SNIB__NEVER;
    start(1, &w);
    assert_in_range(finish(1, &w), LEASE, LEASE + 20);
}

static void at_its_limit_a_waiter_has_surely_nothing(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request w = request(SNIB__ACQUIRE);
    acquired(0);
    w.may_queue = true;
    w.limit = snib__after(now, snib__ms(1000));
    start(1, &w);
    assert_in_range(finish(1, &w), 999, 1001);
    assert_int_equal(w.answer, SNIB__NO);
}

static void a_lost_round_is_given_back_everywhere(void **state)
{
    (void)state;
    open_clients(5, 2, 0);
    /* The other holds three of five; two are free, one of them mute. */
    all_ways(0, WAY_SHUT, 3, 5);
    acquired(0);
    client[1].way[4] = WAY_MUTE;
    struct snib__request g = request(SNIB__ACQUIRE);
    start(1, &g);
    finish(1, &g);
    assert_int_equal(g.answer, SNIB__NO);
    run(PATIENCE + 500); /* it has never answered: the longest limit */
    assert_int_equal(held_at(5), 3);
    assert_true(server[4].cancels > 0); /* with a tombstone: it may be late */
}

static void a_late_acquire_meets_its_tombstone(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request warm = acquired(0);
    end(0, &warm);
    run(10);
    client[0].there_ms[0] = client[0].there_ms[1] = 3000; /* past any limit */
    struct snib__request g = request(SNIB__ACQUIRE);
    assert_int_equal(ask(0, &g), SNIB__NOT_APPLIED);
    run(20000);
    assert_int_equal(held_at(3), 0);
}

/* Slow nodes that still owe the answer of the last round are no hope of this
 * one. */
static void what_a_round_before_waits_for_is_not_waited_for(void **state)
{
    (void)state;
    open_clients(5, 2, 0);
    struct snib__request warm = acquired(1);
    end(1, &warm);
    run(100);
    all_ways(0, WAY_SHUT, 3, 5);
    acquired(0);
    client[1].there_ms[3] = client[1].there_ms[4] = 3000; /* they rest */
    struct snib__request w = request(SNIB__ACQUIRE);
    w.may_queue = true;
    w.limit = SNIB__NEVER;
    start(1, &w);
    run(1500);
    server[0].client = server[1].client = 0; /* two votes, and no third */
    run(4000);
    server[2].client = 0;
    client[1].there_ms[3] = client[1].there_ms[4] = 0;
    is_answered(1, &w); /* queued */
    assert_in_range(finish(1, &w), 0, 1000);
    assert_int_equal(w.answer, SNIB__DONE);
}

static void split_votes_end_with_one_winner(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        open_clients(4, 2, seed);
        /* Each is first at two of four. */
        for (int k = 0; k < 4; k++) {
            client[k < 2 ? 0 : 1].there_ms[k] = 1;
            client[k < 2 ? 1 : 0].there_ms[k] = 5;
        }
        struct snib__request a = request(SNIB__ACQUIRE), b = a;
        b.id[0] = ++ids * 1000;
        a.may_queue = b.may_queue = true;
        start(0, &a);
        start(1, &b);
        bool first = false, second = false;
        for (int n = 0; !first && !second; n++) {
            assert_true(n < 10000);
            tick(due());
            first = is_answered(0, &a) && a.answer == SNIB__DONE;
            second = is_answered(1, &b) && b.answer == SNIB__DONE;
        }
        assert_false(first && second);
        assert_in_range(now.ns / MS, 5000000, 5000000 + 1000);
        tear_down(NULL);
    }
}

static void answers_slower_than_the_lease_are_no_grant(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    for (int k = 0; k < 3; k++) {
        client[0].back_ms[k] = 1500;
    }
    struct snib__request g = request(SNIB__ACQUIRE);
    g.lease = snib__ms(1000);
    assert_int_equal(ask(0, &g), SNIB__NOT_APPLIED);
    assert_int_equal(g.err, SNIB_ERR_STORE);
    run(3000);
    assert_int_equal(held_at(3), 0);
}

static void counting_kinds_are_refused(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = request(SNIB__ACQUIRE);
    g.kind = (snib_kind)(SNIB_MUTEX + 1);
    start(0, &g);
    assert_true(is_answered(0, &g));
    assert_int_equal(g.answer, SNIB__NOT_APPLIED);
    assert_int_equal(g.err, SNIB_ERR_UNSUPPORTED);
}

/* -- tokens -------------------------------------------------------------------------- */

static void the_highest_token_is_written_back_before_success(void **state)
{
    (void)state;
    open_clients(5, 2, 0);
    /* H36: clocks at 0, -1, -6, -6, -6 s; A wins on 1–3, B later on 3–5. */
    static const int64_t offset[] = {0, -1000, -6000, -6000, -6000};
    for (int k = 0; k < 5; k++) {
        server[k].offset_ms = offset[k];
    }
    clocks_known = false; /* else they agree from the start */
    all_ways(0, WAY_SHUT, 3, 5);
    struct snib__request a = acquired(0);
    assert_true(server[2].memory >= a.token + 31);
    assert_true(server[2].token == a.token && server[1].token == a.token);
    assert_int_equal(end(0, &a), SNIB__DONE);
    all_ways(1, WAY_SHUT, 0, 2);
    struct snib__request b = acquired(1);
    assert_true(b.token > a.token + 31);
}

static void a_clock_days_ahead_is_not_counted(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    server[0].offset_ms = INT64_C(400) * 86400 * 1000;
    struct snib__request g = acquired(0);
    assert_true(g.token < (clock_of(&server[1]) + 60000) * 1024);
    run(1000);
    assert_int_equal(held_at(3), 3); /* it holds the vote all the same */
    assert_true(server[0].token == g.token);
    end(0, &g);
    client[0].way[1] = WAY_SHUT; /* one against one: which clock is right? */
    g = request(SNIB__ACQUIRE);
    assert_int_equal(ask(0, &g), SNIB__NOT_APPLIED);
    assert_int_equal(g.err, SNIB_ERR_STORE);
}

/* -- after winning ---------------------------------------------------------------------- */

static void a_node_that_missed_the_acquire_is_told_after_winning(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request other = request(SNIB__ACQUIRE);
    all_ways(1, WAY_SHUT, 1, 3); /* a loser's vote at the first node */
    server[0].client = 2;
    server[0].end_ms = clock_of(&server[0]) + 20;
    (void)other;
    struct snib__request g = acquired(0);
    assert_int_equal(held_at(3), 3);
    run(500);
    assert_int_equal(server[0].client, 1);
    assert_true(server[0].token == g.token);
    assert_true(server[0].end_ms <=
                clock_of(&server[0]) + LEASE - 500 + 1); /* no longer lease */
}

/* -- renewing ------------------------------------------------------------------------------ */

static void renewal_needs_a_majority(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    run(1000);
    client[0].way[0] = WAY_SHUT;
    snib_instant sent = now;
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__DONE);
    assert_int_equal(r.valid_from.ns, sent.ns);
    client[0].way[1] = WAY_SHUT;
    r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__NOT_APPLIED);
    assert_int_equal(r.err, SNIB_ERR_UNREACHABLE);
}

static void renewal_sets_the_grant_where_a_node_was_emptied(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    run(10);
    server[2] = (struct server){0};
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__DONE);
    run(10);
    assert_true(server[2].token == g.token && server[2].client == 1);
    assert_true(server[2].memory >= g.token + 31);
    server[0] = server[1] = (struct server){0}; /* now a majority at once */
    r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__DONE);
    run(10);
    assert_int_equal(held_at(3), 3);
}

static void renewal_does_not_set_where_another_was_granted_since(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request g = acquired(0);
    run(10);
    server[0] = server[1] = (struct server){0};
    struct snib__request o = acquired(1);
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__NO);
    assert_int_equal(r.err, SNIB_ERR_LOST);
    r = of_grant(SNIB__RENEW, &o);
    assert_int_equal(ask(1, &r), SNIB__DONE);
    /* Granted and ended since: the lock is free, and yet not ours. */
    assert_int_equal(end(1, &o), SNIB__DONE);
    run(10);
    r = of_grant(SNIB__RENEW, &g);
    assert_int_not_equal(ask(0, &r), SNIB__DONE);
}

static void a_force_release_is_told_as_revoked(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request g = acquired(0);
    struct snib__buf rows;
    snib__buf_init(&rows, 1 << 16);
    run(10);
    struct snib__request f = request(SNIB__FORCE);
    f.result = &rows;
    assert_int_equal(ask(1, &f), SNIB__DONE);
    snib__buf_free(&rows);
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    assert_int_equal(ask(0, &r), SNIB__NO);
    assert_true(r.revoked);
    assert_int_equal(held_at(3), 0); /* and is not set again */
}

/* -- ending ----------------------------------------------------------------------------------- */

static void release_ends_at_a_majority_and_then_everywhere(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    run(200);
    client[0].way[2] = WAY_SHUT;
    assert_int_equal(end(0, &g), SNIB__DONE);
    assert_int_equal(held_at(3), 1);
    client[0].way[2] = WAY_OPEN;
    run(3000);
    assert_int_equal(held_at(3), 0);
}

static void release_without_a_majority_is_unknown_at_its_limit(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    run(200);
    all_ways(0, WAY_SHUT, 1, 3);
    struct snib__request r = of_grant(SNIB__RELEASE, &g);
    start(0, &r);
    assert_in_range(finish(0, &r), 4999, 5001);
    assert_int_equal(r.answer, SNIB__UNKNOWN);
}

static void release_of_what_is_not_ours_is_no(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    assert_int_equal(end(0, &g), SNIB__DONE);
    run(100);
    assert_int_equal(end(0, &g), SNIB__NO);
}

static void release_overtakes_a_set_that_is_under_way(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    struct snib__request g = acquired(0);
    run(200);
    server[2] = (struct server){0};
    client[0].there_ms[2] = 100;
    struct snib__request r = of_grant(SNIB__RENEW, &g);
    start(0, &r);
    run(150); /* node 2 has said no; the set is on its way */
    assert_true(is_answered(0, &r));
    assert_int_equal(r.answer, SNIB__DONE);
    client[0].there_ms[2] = 0; /* overtakes */
    assert_int_equal(end(0, &g), SNIB__DONE);
    run(1000);
    assert_true(server[2].keeps > 0);
    assert_int_equal(held_at(3), 0); /* H15 */
}

static void cancel_answers_the_acquire_and_leaves_nothing(void **state)
{
    (void)state;
    open_clients(3, 1, 0);
    for (int k = 0; k < 3; k++) {
        client[0].there_ms[k] = 50 + 100 * k;
    }
    struct snib__request g = request(SNIB__ACQUIRE), c;
    g.may_queue = true;
    start(0, &g);
    run(60); /* one has granted, two are under way */
    c = of_grant(SNIB__CANCEL, &g);
    c.token = 0;
    start(0, &c);
    assert_true(is_answered(0, &g));
    assert_int_equal(g.answer, SNIB__NO);
    assert_int_equal(g.err, SNIB_ERR_CANCELLED);
    finish(0, &c);
    assert_int_equal(c.answer, SNIB__DONE);
    run(5000);
    assert_int_equal(held_at(3), 0);
}

static void cancel_of_a_waiter_at_rest_is_done_at_once(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    acquired(0);
    struct snib__request w = request(SNIB__ACQUIRE);
    w.may_queue = true;
    start(1, &w);
    run(3);
    is_answered(1, &w);
    struct snib__request c = of_grant(SNIB__CANCEL, &w);
    c.token = 0;
    start(1, &c);
    assert_true(is_answered(1, &c) && is_answered(1, &w));
    assert_int_equal(w.answer, SNIB__NO);
    run(1000);
    assert_int_equal(held_at(3), 3);
}

static void a_yield_ends_the_prior_grant_and_lets_others_in(void **state)
{
    (void)state;
    open_clients(3, 2, 0);
    struct snib__request g = acquired(0), y, w = request(SNIB__ACQUIRE);
    run(200);
    w.may_queue = true;
    start(1, &w);
    run(5);
    y = request(SNIB__ACQUIRE);
    y.token = g.token;
    y.may_queue = true;
    start(0, &y);
    tick(now);
    run(0);
    assert_int_equal(held_at(3), 0);
    bool first = false, second = false;
    for (int n = 0; !first && !second; n++) {
        assert_true(n < 1000);
        tick(due());
        first = is_answered(0, &y) && y.answer == SNIB__DONE;
        second = is_answered(1, &w) && w.answer == SNIB__DONE;
    }
    assert_true(first != second);
    assert_true((first ? y : w).token > g.token + 31);
}

/* -- looking --------------------------------------------------------------------------------- */

static int rows_of(struct snib__buf *b, int row, int field, int64_t *ret)
{
    struct snib__rec r;
    int n = 0;
    snib__rec_begin(&r, snib__buf_bytes(b), snib__buf_size(b));
    while (snib__rec_next_row(&r)) {
        n += r.row == row;
        while (snib__rec_next_field(&r)) {
            if (r.row == row && r.field == field) {
                *ret = snib__rec_value_i64(&r);
            }
        }
    }
    return n;
}

static void holder_is_who_has_a_majority(void **state)
{
    (void)state;
    open_clients(5, 2, 0);
    struct snib__buf rows;
    int64_t token = 0, left = 0;
    snib__buf_init(&rows, 1 << 16);
    all_ways(0, WAY_SHUT, 4, 5);
    struct snib__request g = acquired(0);
    server[4].client = 2; /* a loser's vote */
    server[4].end_ms = clock_of(&server[4]) + 5000;
    struct snib__request r = request(SNIB__INSPECT);
    r.result = &rows;
    assert_int_equal(ask(1, &r), SNIB__DONE);
    assert_int_equal(rows_of(&rows, SNIB__ROW_LOCK, SNIB__F_TOKEN, &token), 1);
    assert_true(token == g.token + 31);
    assert_int_equal(rows_of(&rows, SNIB__ROW_HOLDER, SNIB__F_TOKEN, &token),
                     1);
    assert_true(token == g.token);
    assert_int_equal(rows_of(&rows, SNIB__ROW_WAITER, SNIB__F_LEFT, &left), 1);
    assert_int_equal(left, 5000);
    all_ways(1, WAY_SHUT, 0, 3);
    r = request(SNIB__INSPECT);
    r.result = &rows;
    assert_int_equal(ask(1, &r), SNIB__NOT_APPLIED);
    snib__buf_free(&rows);
}

static void doctor_speaks_of_each_node(void **state)
{
    (void)state;
    open_clients(4, 1, 0);
    struct snib__buf rows;
    int64_t level = 0;
    snib__buf_init(&rows, 1 << 16);
    client[0].way[3] = WAY_SHUT;
    struct snib__request r = request(SNIB__DOCTOR);
    r.result = &rows;
    assert_int_equal(ask(0, &r), SNIB__DONE);
    /* three are fine, one is down; the majority; an even number */
    assert_int_equal(rows_of(&rows, SNIB__ROW_FINDING, SNIB__F_LEVEL, &level),
                     6);
    const char *text = (const char *)snib__buf_bytes(&rows);
    assert_non_null(memmem(text, snib__buf_size(&rows), "a: fine", 7));
    assert_non_null(memmem(text, snib__buf_size(&rows), "d: no answer", 12));
    snib__buf_free(&rows);
}

/* -- opening ------------------------------------------------------------------------------------ */

static void urls(void **state)
{
    (void)state;
    static const struct {
        const char *url, *says;
    } bad[] = {
        {"redlock://a", "one server is no quorum"},
        {"redlock://a,a", "stands twice"},
        {"redlock://a,A", "stands twice"},
        {"redlock://a,a:6379", "stands twice"},
        {"redlock://a,b?socket=/x", "node_ms="},
        {"redlock://a,b?node_ms=0", "1 to 60000"},
        {"redlock://a,b?node_ms=1x", "1 to 60000"},
        {"redlock://a,b/x", "database is a number"},
        {"redlock:a,b", "redlock://HOST"},
        {"redlock://u@a,b", "user without a password"},
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct snib__out out = {0};
        struct snib__url *url;
        struct snib__store *s;
        struct snib_error e;
        snib__list_init(&out.answered);
        assert_int_equal(snib__url_parse(bad[i].url, &url, &e), SNIB_ERR_OK);
        struct snib__store_config cfg = {
            .url = url, .out = &out, .request = snib__ms(PATIENCE)};
        assert_int_equal(ops->open(&cfg, &s, &e), SNIB_ERR_USAGE);
        if (!strstr(e.text, bad[i].says)) {
            fail_msg("%s: %s", bad[i].url, e.text);
        }
        snib__url_free(url);
    }
}

static void nodes_have_three_channels_each(void **state)
{
    (void)state;
    struct snib__out out = {0};
    struct snib__url *url;
    struct snib__store *s;
    struct snib_error e;
    snib__list_init(&out.answered);
    snib__list_init(&out.exec);
    assert_int_equal(snib__url_parse("redlock://:pw@a,[::1]:7,c:9/2", &url, &e),
                     SNIB_ERR_OK);
    assert_string_equal(url->safe, "redlock://:***@a,[::1]:7,c:9/2");
    struct snib__store_config cfg = {
        .url = url, .out = &out, .request = snib__ms(PATIENCE)};
    assert_int_equal(ops->open(&cfg, &s, &e), SNIB_ERR_OK);
    snib__url_free(url);
    assert_string_equal(out.chan[0].address, "a:6379");
    assert_string_equal(out.chan[4].address, "[::1]:7");
    assert_string_equal(out.chan[8].address, "c:9");
    assert_true(out.chan[8].used && !out.chan[9].used);
    struct snib__request g;
    open_clients(3, 0, 0);
    g = request(SNIB__ACQUIRE);
    struct snib__list chain;
    snib__list_init(&chain);
    snib__link_init(&g.link);
    snib__list_push(&chain, &g.link);
    ops->start(s, now, &chain);
    assert_int_equal(out.open, 1 | 1 << 3 | 1 << 6); /* the callers' lines */
    struct snib__input in = {.kind = SNIB__IN_OPENED, .chan = 3};
    out.open = 0;
    ops->input(s, now, &in);
    assert_true(snib__buf_size(&out.chan[3].out) > 0);
    assert_int_equal(out.chan[3].awaited, 4); /* AUTH, SELECT, probe, TIME */
    ops->free(s);
    for (int i = 0; i < SNIB__CHANS; i++) {
        snib__buf_free(&out.chan[i].out);
    }
}

/* -- chance --------------------------------------------------------------------------------------- */

enum { IDLE_, ASKING_, HOLDING_, RENEWING_, LEAVING_ };

struct player {
    struct snib__request rq, grant;
    int state;
    snib_instant deadline, at, released;
    bool renewed;
};

static snib_instant deadline_of(const struct snib__request *rq)
{
    return snib__before(snib__after(rq->valid_from, rq->left),
                        snib__quorum_allowance(rq->left));
}

static void play(int servers, int clients, uint64_t seed, uint32_t *ret_grants)
{
    struct player player[CLIENTS] = {0};
    uint64_t d = seed * 7919 + 1;
    int64_t last = 0;
    open_clients(servers, clients, seed);
    for (int k = 0; k < servers; k++) {
        server[k].offset_ms = (int64_t)(dice(&d) % 12000) - 6000;
    }
    clocks_known = seed % 3 != 0;
    for (uint32_t n = 0; n < 6000; n++) {
        snib_instant next = due();
        for (int i = 0; i < clients; i++) {
            next = snib__sooner(next,
                                player[i].at.ns ? player[i].at : SNIB__NEVER);
        }
        if (next.ns != SNIB__NEVER.ns) {
            tick(next);
        } else if (n > 0) {
            fail_msg("all wait, for nothing: seed %d, step %u", (int)seed, n);
        }
        if (dice(&d) % 20 == 0) { /* the ways change */
            int i = (int)(dice(&d) % (uint32_t)clients),
                k = (int)(dice(&d) % (uint32_t)servers);
            uint32_t how = dice(&d) % 10;
            client[i].way[k] = how < 7   ? WAY_OPEN
                               : how < 8 ? WAY_SHUT
                                         : WAY_MUTE;
            client[i].there_ms[k] = dice(&d) % (how == 6 ? 3000 : 20);
            client[i].back_ms[k] = dice(&d) % 20;
        }
        for (int i = 0; i < clients; i++) {
            struct player *p = &player[i];
            bool told = p->state != IDLE_ && p->state != HOLDING_ &&
                        is_answered(i, &p->rq) && p->rq.answer != SNIB__QUEUED;
            bool time = snib__reached(now, p->at) && p->at.ns;
            switch (p->state) {
            case IDLE_:
                p->rq = request(SNIB__ACQUIRE);
                p->rq.lease = snib__ms(1000 + dice(&d) % 2000);
                p->rq.may_queue = dice(&d) % 4 != 0;
                p->rq.limit = p->rq.may_queue ? SNIB__NEVER : p->rq.limit;
                p->rq.floor = dice(&d) % 2 ? last : 0;
                p->state = ASKING_;
                p->at = (snib_instant){0};
                start(i, &p->rq);
                break;
            case ASKING_:
                if (!told) {
                    break;
                }
                p->state = IDLE_;
                p->at = snib__after(now, snib__ms(1 + dice(&d) % 50));
                if (p->rq.answer != SNIB__DONE) {
                    assert_int_not_equal(p->rq.answer, SNIB__UNKNOWN);
                    break;
                }
                p->grant = p->rq;
                p->deadline = deadline_of(&p->rq);
                if (snib__reached(now, p->deadline)) {
                    break;
                }
                /* The theorems. */
                for (int j = 0; j < clients; j++) {
                    if (j != i &&
                        (player[j].state == HOLDING_ ||
                         player[j].state == RENEWING_) &&
                        !snib__reached(now, player[j].deadline)) {
                        fail_msg("two hold: seed %d, step %u", (int)seed, n);
                    }
                }
                if (p->rq.token <= last) {
                    fail_msg("token fell: seed %d, step %u", (int)seed, n);
                }
                last = p->rq.token + p->rq.room;
                ++*ret_grants;
                p->state = HOLDING_;
                p->at = snib__after(now, snib__ms(dice(&d) % 600));
                break;
            case HOLDING_:
                if (!time) {
                    break;
                }
                p->rq = of_grant(dice(&d) % 3 ? SNIB__RELEASE : SNIB__RENEW,
                                 &p->grant);
                p->rq.lease = p->grant.lease;
                if (snib__reached(now, p->deadline)) {
                    p->rq.verb = SNIB__RELEASE;
                }
                p->rq.limit = snib__after(now, p->grant.lease);
                p->state = p->rq.verb == SNIB__RELEASE ? LEAVING_ : RENEWING_;
                p->at = (snib_instant){0};
                start(i, &p->rq);
                break;
            case RENEWING_:
                if (!told) {
                    break;
                }
                if (p->rq.answer == SNIB__DONE) {
                    p->deadline =
                        snib__reached(now, p->deadline)
                            ? p->deadline /* lost meanwhile: as the core */
                            : snib__later(p->deadline, deadline_of(&p->rq));
                }
                p->state = HOLDING_;
                p->at = snib__after(now, snib__ms(dice(&d) % 300));
                break;
            case LEAVING_:
                if (told) {
                    p->state = IDLE_;
                    p->at = snib__after(now, snib__ms(1 + dice(&d) % 50));
                }
                break;
            default:
                break;
            }
        }
    }
    tear_down(NULL);
}

static void nobody_holds_while_another_does_and_tokens_rise(void **state)
{
    (void)state;
    uint32_t grants = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        play(2 + (int)(seed % 6), 2 + (int)(seed % 3), seed, &grants);
    }
    print_message("%u grants\n", grants);
    assert_true(grants > 5000);
}

/* Without memory a request is refused or late, never wrong, and nothing
 * leaks. */
/* A server that is down while thousands of sections go by costs a bounded
 * number of requests that wait for it. */
static void nothing_piles_up_behind_a_server_that_is_down(void **state)
{
    (void)state;
    static const way ways[] = {WAY_SHUT, WAY_MUTE};
    for (size_t w = 0; w < COUNT_OF(ways); w++) {
        open_clients(3, 1, 0);
        const struct snib__quorum *q = (const void *)client[0].store;
        struct snib__request g = acquired(0);
        end(0, &g);
        client[0].way[2] = ways[w];
        uint32_t ops_most = 0, due_most = 0;
        for (int n = 0; n < 20000; n++) {
            g = acquired(0);
            assert_int_equal(end(0, &g), SNIB__DONE);
            run(1);
            ops_most = q->ops > ops_most ? q->ops : ops_most;
            due_most = q->node[2].due > due_most ? q->node[2].due : due_most;
        }
        assert_in_range(due_most, 1, BEHIND_MAX + 1);
        assert_in_range(ops_most, 1, BEHIND_MAX + BACKGROUND_MAX + 8);
        client[0].way[2] = WAY_OPEN;
        run(LEASE + 1000); /* what it may still hold of ours ends */
        g = acquired(0);
        run(5);
        assert_int_equal(held_at(3), 3); /* it is one of them again */
        tear_down(NULL);
    }
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool all = false;
    for (int64_t at = 1; !all; at++) {
        open_clients(3, 1, 0);
        client[0].way[2] = WAY_MUTE;
        struct snib__request g = request(SNIB__ACQUIRE);
        snib__mem_fail_at(at, false);
        /* Travels are the fakes': they must not fail; only the first is ours. */
        struct snib__list chain;
        snib__list_init(&chain);
        snib__link_init(&g.link);
        snib__list_push(&chain, &g.link);
        g.answer = SNIB__PENDING;
        if (at <= 3) {
            ops->start(client[0].store, now, &chain);
        }
        snib__mem_fail_at(0, false);
        if (at <= 3) {
            assert_true(is_answered(0, &g));
            assert_int_equal(g.err, SNIB_ERR_NOMEM);
        }
        all = at > 3;
        tear_down(NULL);
    }
}

#define CASE(f) cmocka_unit_test_teardown(f, tear_down)

int main(void)
{
    const struct CMUnitTest quorum[] = {
        CASE(all_are_asked_in_one_step_and_agree),
        CASE(the_lease_counts_from_the_sending),
        CASE(a_minority_that_is_down_is_waited_for_once),
        CASE(without_a_majority_it_is_refused_and_says_why),
        CASE(a_waiter_without_a_majority_hears_it_before_its_limit),
        CASE(a_waiter_wins_when_the_majority_is_back),
        CASE(even_numbers_need_more_than_half),
        CASE(held_by_another_is_no_and_told_how_long),
        CASE(a_waiter_is_told_queued_once_and_wins_soon_after_the_end),
        CASE(a_waiter_wins_when_the_lease_of_a_dead_holder_ends),
        CASE(at_its_limit_a_waiter_has_surely_nothing),
        CASE(a_lost_round_is_given_back_everywhere),
        CASE(a_late_acquire_meets_its_tombstone),
        CASE(what_a_round_before_waits_for_is_not_waited_for),
        CASE(split_votes_end_with_one_winner),
        CASE(answers_slower_than_the_lease_are_no_grant),
        CASE(counting_kinds_are_refused),
        CASE(the_highest_token_is_written_back_before_success),
        CASE(a_clock_days_ahead_is_not_counted),
        CASE(a_node_that_missed_the_acquire_is_told_after_winning),
        CASE(renewal_needs_a_majority),
        CASE(renewal_sets_the_grant_where_a_node_was_emptied),
        CASE(renewal_does_not_set_where_another_was_granted_since),
        CASE(a_force_release_is_told_as_revoked),
        CASE(release_ends_at_a_majority_and_then_everywhere),
        CASE(release_without_a_majority_is_unknown_at_its_limit),
        CASE(release_of_what_is_not_ours_is_no),
        CASE(release_overtakes_a_set_that_is_under_way),
        CASE(cancel_answers_the_acquire_and_leaves_nothing),
        CASE(cancel_of_a_waiter_at_rest_is_done_at_once),
        CASE(a_yield_ends_the_prior_grant_and_lets_others_in),
        CASE(holder_is_who_has_a_majority),
        CASE(doctor_speaks_of_each_node),
        CASE(urls),
        CASE(nodes_have_three_channels_each),
        CASE(nobody_holds_while_another_does_and_tokens_rise),
        CASE(nothing_piles_up_behind_a_server_that_is_down),
        CASE(every_allocation_may_fail),
    };
    return RUN(quorum);
}

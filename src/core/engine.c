/* core/engine.c — the step: input in, store, answers, core, actions out.
 *
 * Every entry point ends in snib__engine_settle, which hands the requests of
 * this step to the store as one chain (so that renewals that fell due
 * together travel together) and takes answers until nothing moves. A store
 * may answer inside start(), so both are repeated; each round ends requests
 * or sends them away, hence it ends.
 *
 * Inquiries (requests under way) come from a spare list. When even that is
 * empty and there is no memory, a turn simply tries again at its next timer:
 * a step that cannot go on now is late, never wrong. */
#include "core/engine_i.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/blocking.h"
#include "core/version.h"

/* A bound for one message to a server: 128 renewals or one acquire with its
 * texts are far below. */
enum {
    OUT_LIMIT = 64 << 20,
    TEXT_LIMIT = 4096,
    VALUE_LIMIT = SNIB_VALUE_MAX + 1,
    RESULT_LIMIT = 256 << 20
};

void snib__engine_log(struct snib__engine *e, int level, const char *fmt, ...)
{
    if (e->out.log) {
        char line[320];
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(line, sizeof line, fmt, ap);
        va_end(ap);
        e->out.log(e->out.log_data, level, line);
    }
}

/* -- inquiries ------------------------------------------------------------- */

static struct snib__inquiry *inquiry_new(void)
{
    struct snib__inquiry *q = snib__alloc(sizeof *q);
    if (q) {
        snib__link_init(&q->idle);
        snib__buf_init(&q->text, TEXT_LIMIT);
        snib__buf_init(&q->result, RESULT_LIMIT);
    }
    return q;
}

static void inquiry_free(struct snib__inquiry *q)
{
    snib__buf_free(&q->text);
    snib__buf_free(&q->result);
    snib__free(q->name);
    snib__free(q);
}

struct snib__inquiry *snib__inquiry_get(struct snib__engine *e,
                                        struct snib__site *site)
{
    struct snib__link *l = snib__list_pop(&e->spare);
    struct snib__inquiry *q;
    if (l) {
        q = SNIB__CONTAINER(l, struct snib__inquiry, idle);
        e->spares--;
    } else {
        q = inquiry_new();
    }
    if (!q) {
        return NULL;
    }
    snib__list_push(&e->busy, &q->idle);
    q->rq = (struct snib__request){0};
    snib__link_init(&q->rq.link);
    snib__link_init(&q->rq.own);
    q->rq.user = q;
    q->rq.reterr = &q->error;
    q->rq.id[0] = snib__rng_next(&e->rng);
    q->rq.id[1] = snib__rng_next(&e->rng);
    q->error.code = SNIB_ERR_OK;
    q->error.text[0] = 0;
    q->turn = NULL;
    q->query = NULL;
    q->site = site;
    snib__buf_clear(&q->text);
    snib__buf_clear(&q->result);
    if (site) {
        site->refs++;
        q->rq.name = site->name;
    }
    return q;
}

void snib__inquiry_put(struct snib__engine *e, struct snib__inquiry *q)
{
    if (q->site) {
        snib__site_drop(e, q->site);
        q->site = NULL;
    }
    snib__free(q->name);
    q->name = NULL;
    snib__unlink(&q->idle);
    if (q->text.limit > TEXT_LIMIT) { /* a value's bytes: not kept */
        snib__buf_free(&q->text);
        q->text.limit = TEXT_LIMIT;
    }
    if (e->spares >= SNIB__SPARE_MAX) {
        inquiry_free(q);
        return;
    }
    e->spares++;
    snib__list_push(&e->spare, &q->idle);
}

void snib__inquiry_start(struct snib__engine *e, struct snib__inquiry *q)
{
    q->rq.answer = SNIB__PENDING;
    q->rq.patience = q->rq.limit;
    q->rq.err = SNIB_ERR_OK;
    q->rq.revoked = false;
    assert(!snib__linked(&q->rq.link));
    snib__list_push(&e->chain, &q->rq.link);
    e->out_requests++;
}

/* -- queries ----------------------------------------------------------------- */

static bool of_value(snib__verb verb)
{
    return verb >= SNIB__VALUE_GET;
}

/* The bytes of a put are copied: the caller may leave while they wait. */
static void value_query(struct snib__engine *e, snib_instant now,
                        struct snib__query *query, struct snib__inquiry *q)
{
    if (!query->id[0] && !query->id[1]) {
        query->id[0] = q->rq.id[0];
        query->id[1] = q->rq.id[1];
        query->born = now;
    }
    q->rq.id[0] = query->id[0];
    q->rq.id[1] = query->id[1];
    q->rq.resent = query->resent;
    q->rq.token = query->expected;
    q->rq.floor = e->version_floor;
    q->rq.lease = query->keep;
    q->rq.born = query->born;
    q->rq.age = snib__between(query->born, now);
    q->text.limit = VALUE_LIMIT;
    snib__buf_add(&q->text, query->bytes, query->bytes_size);
}

bool snib__verb_changes(snib__verb verb, int op)
{
    return verb == SNIB__FORCE || verb == SNIB__VALUE_PUT ||
           verb == SNIB__VALUE_DELETE ||
           (verb == SNIB__TERMS && op != SNIB__TERMS_GET);
}

/* A change that was sent before and not answered: that this copy of it was not
 * applied (no connection, no memory, a replica) says nothing of the other. */
static bool earlier_copy(const struct snib__inquiry *q)
{
    const struct snib__request *rq = &q->rq;
    return rq->resent && rq->answer == SNIB__NOT_APPLIED &&
           snib__verb_changes(rq->verb, rq->op);
}

/* No answer to what was sent. What only asks cannot have been applied. */
static snib_err unanswered(struct snib__query *query)
{
    char why[sizeof query->error.text];
    if (snib__verb_changes(query->verb, query->op)) {
        return SNIB_ERR_UNKNOWN;
    }
    memcpy(why, query->error.text, sizeof why);
    return snib__fail(&query->error, SNIB_ERR_UNREACHABLE, "%s",
                      why[0] ? why : snib_err_text(SNIB_ERR_UNKNOWN));
}

static snib_err may_be_applied(struct snib__query *query)
{
    char why[sizeof query->error.text];
    memcpy(why, query->error.text, sizeof why);
    return snib__fail(&query->error, SNIB_ERR_UNKNOWN,
                      "the reply was lost, and asking again failed: %.200s",
                      why);
}

/* This client has ended whoever holds the name, itself perhaps: it need not
 * wait for the store to tell it. */
static void ask_own(struct snib__engine *e, snib_instant now,
                    const struct snib__name *name)
{
    struct snib__site *site = snib__site_find(e, name);
    if (!site) {
        return;
    }
    if (site->turn && snib__linked(&site->turn->held)) {
        snib__turn_hint(e, now, site->turn);
    }
    SNIB__LIST_EACH (l, &site->stakes) {
        struct snib__turn *t =
            SNIB__CONTAINER(l, struct snib__site, bucket)->turn;
        if (t && snib__linked(&t->held)) {
            snib__turn_hint(e, now, t);
        }
    }
}

static void query_answer(struct snib__engine *e, snib_instant now,
                         struct snib__inquiry *q)
{
    struct snib__query *query = q->query;
    snib_instant sent = q->rq.valid_from;
    if (q->rq.verb == SNIB__FORCE) { /* unknown: it may be done */
        ask_own(e, now, q->rq.name);
    }
    if (of_value(q->rq.verb) && q->rq.token > e->version_floor &&
        (q->rq.answer == SNIB__DONE || q->rq.err == SNIB_ERR_BUSY)) {
        e->version_floor = q->rq.token;
    }
    if (query) {
        query->version = q->rq.token;
        query->took = q->rq.left;
        query->answer = q->rq.answer;
        query->inner = NULL;
        query->done = true;
        query->error = q->error;
        switch (q->rq.answer) {
        case SNIB__DONE:
            query->err = SNIB_ERR_OK;
            break;
        case SNIB__NO:
        case SNIB__NOT_APPLIED:
            query->err = earlier_copy(q) ? may_be_applied(query)
                         : q->rq.err     ? q->rq.err
                                         : SNIB_ERR_STORE;
            break;
        case SNIB__UNKNOWN:
            query->err = unanswered(query);
            break;
        case SNIB__PENDING:
        case SNIB__QUEUED:
            query->err = SNIB_ERR_INTERNAL;
            break;
        }
        if (q->result.failed) {
            query->err = SNIB_ERR_NOMEM;
            snib__fail_plain(&query->error, SNIB_ERR_NOMEM);
        }
        struct snib__buf mine = query->result;
        query->result = q->result;
        q->result = mine;
        if (!snib__cycles_is_mine(e, query)) {
            snib__list_push(&e->told_queries, &query->told);
        }
    }
    snib__inquiry_put(e, q);
    if (query && snib__cycles_is_mine(e, query)) {
        snib__cycles_answer(e, now, sent);
    }
}

snib_err snib__engine_query(struct snib__engine *e, snib_instant now,
                            struct snib__query *query)
{
    struct snib__name *name = NULL;
    snib__link_init(&query->told);
    snib__buf_init(&query->result, RESULT_LIMIT);
    query->done = false;
    query->err = SNIB_ERR_OK;
    query->inner = NULL;
    snib__ok(&query->error);
    if (e->closed) {
        return snib__fail_plain(&query->error, SNIB_ERR_CLOSED);
    }
    if (query->name) {
        snib_err err =
            snib__name_new(query->name, query->name_size, &name, &query->error);
        if (err) {
            return err;
        }
    }
    struct snib__inquiry *q = snib__inquiry_get(e, NULL);
    if (q && query->verb == SNIB__FORCE) {
        snib__explain_force(&e->self, query->text, &q->text);
    } else if (q && query->text) {
        snib__buf_puts(&q->text, query->text);
    } else if (q && of_value(query->verb)) {
        value_query(e, now, query, q);
    }
    const char *text = q ? snib__buf_text(&q->text) : "";
    if (!q || q->text.failed) {
        bool long_text = query->text && strlen(query->text) >= TEXT_LIMIT;
        snib__free(name);
        if (q) {
            snib__inquiry_put(e, q);
        }
        if (long_text) {
            return snib__fail(&query->error, SNIB_ERR_USAGE,
                              "the pattern or reason is longer than %d bytes",
                              TEXT_LIMIT - 1);
        }
        return snib__fail_plain(&query->error, SNIB_ERR_NOMEM);
    }
    q->name = name;
    q->query = query;
    query->inner = q;
    q->rq.verb = query->verb;
    q->rq.awaited_only = query->awaited_only;
    q->rq.keepers = snib__cycles_is_mine(e, query);
    q->rq.once = !of_value(query->verb);
    q->rq.name = name;
    q->rq.limit = query->limit;
    q->rq.text = text;
    q->rq.text_size = (uint32_t)snib__buf_size(&q->text);
    q->rq.result = &q->result;
    q->rq.op = (uint8_t)query->op;
    q->rq.amount = query->amount;
    snib__inquiry_start(e, q);
    snib__engine_settle(e, now);
    return SNIB_ERR_OK;
}

void snib__engine_query_leave(struct snib__engine *e, struct snib__query *query)
{
    (void)e;
    snib__unlink(&query->told);
    if (query->inner) {
        query->inner->query = NULL;
        query->inner = NULL;
    }
}

struct snib__query *snib__engine_told_query(struct snib__engine *e)
{
    struct snib__link *l = snib__list_pop(&e->told_queries);
    return l ? SNIB__CONTAINER(l, struct snib__query, told) : NULL;
}

/* -- the step ------------------------------------------------------------------ */

static void take_answer(struct snib__engine *e, snib_instant now,
                        struct snib__request *rq)
{
    struct snib__inquiry *q = rq->user;
    if (rq->answer != SNIB__QUEUED) {
        assert(e->out_requests > 0);
        e->out_requests--;
    }
    if (q->turn) {
        snib__turn_answer(e, now, q->turn, q);
    } else if (rq->verb == SNIB__TERMS && rq->answer == SNIB__UNKNOWN &&
               !snib__reached(now, rq->limit)) {
        rq->resent = true; /* the same id: as if sent once */
        snib__buf_clear(&q->result);
        snib__inquiry_start(e, q);
    } else if (rq->verb >= SNIB__INSPECT) {
        query_answer(e, now, q);
    } else if (rq->answer != SNIB__QUEUED) {
        snib__inquiry_put(e, q); /* an orphan's */
    }
}

/* -- in company ---------------------------------------------------------------- */

void snib__engine_gather(struct snib__engine *e, bool all)
{
    e->company.number += e->company.number == UINT32_MAX ? 2 : 1;
    e->company.count = 0;
    e->company.open = true;
    e->company.all = all;
}

uint32_t snib__engine_company(const struct snib__engine *e)
{
    return e->company.count;
}

void snib__engine_gathered(struct snib__engine *e, snib_instant now,
                           enum snib__company_way way)
{
    e->company.open = false;
    SNIB__LIST_EACH_SAFE (l, next, &e->chain) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (way == SNIB__COMPANY_GO || rq->company != e->company.number) {
            continue;
        }
        if (way == SNIB__COMPANY_PART) {
            rq->company = 0;
        } else {
            snib__unlink(l);
            rq->answer = SNIB__NO;
            rq->err = SNIB_ERR_CANCELLED;
            snib__list_push(&e->out.answered, l);
        }
    }
    snib__engine_settle(e, now);
}

/* A request that may queue, or ends a grant before, goes alone. */
void snib__company_join(struct snib__engine *e, struct snib__seat *s)
{
    struct snib__turn *t = s->site->turn;
    struct snib__request *rq = t && t->asking ? &t->asking->rq : NULL;
    if (!e->company.open || !rq || t->state != SNIB__TURN_ASKING ||
        rq->may_queue || rq->token || e->company.count == UINT8_MAX) {
        return;
    }
    s->company = rq->company = e->company.number;
    rq->place = e->company.count++;
    rq->all = e->company.all;
}

void snib__engine_settle(struct snib__engine *e, snib_instant now)
{
    if (e->company.open) {
        return; /* until all are there */
    }
    for (;;) {
        if (!snib__list_empty(&e->chain)) {
            struct snib__list chain;
            snib__list_init(&chain);
            snib__list_append(&chain, &e->chain);
            e->ops->start(e->store, now, &chain);
            assert(snib__list_empty(&chain));
        }
        struct snib__link *l = snib__list_pop(&e->out.answered);
        if (l) {
            take_answer(e, now, SNIB__CONTAINER(l, struct snib__request, link));
        } else if (snib__list_empty(&e->chain)) {
            break;
        }
    }
    e->out.holds = !snib__list_empty(&e->held);
}

static bool is_about(const struct snib__turn *t, const uint64_t id[2])
{
    return t && t->id[0] == id[0] && t->id[1] == id[1];
}

/* A grant of this id that is held, or whose answer is still on its way. */
static struct snib__turn *turn_of(const struct snib__engine *e,
                                  const uint64_t id[2])
{
    SNIB__LIST_EACH (l, &e->held) {
        struct snib__turn *t = SNIB__CONTAINER(l, struct snib__turn, held);
        if (is_about(t, id)) {
            return t;
        }
    }
    SNIB__LIST_EACH (l, &e->busy) {
        struct snib__turn *t =
            SNIB__CONTAINER(l, struct snib__inquiry, idle)->turn;
        if (is_about(t, id)) {
            return t;
        }
    }
    return NULL;
}

/* The store cannot send renewals that were started, and says why: they are at
 * risk now, not when their deadline has come. */
static void tell_stuck(struct snib__engine *e)
{
    if (!e->out.stuck) {
        return;
    }
    e->out.stuck = false;
    SNIB__LIST_EACH_SAFE (l, next, &e->held) {
        struct snib__turn *t = SNIB__CONTAINER(l, struct snib__turn, held);
        if (t->renewing && t->renewing->rq.err) {
            if (!t->renewing->rq.only_asks) {
                snib__seat_trouble(t->holder, t->renewing->error.text);
            }
            snib__turn_fails(e, t);
        }
    }
}

/* Somebody may have ended these grants: their next renewal, now, tells. */
static void ask_ended(struct snib__engine *e, snib_instant now)
{
    if (e->out.missed) { /* in batches: they are one chain */
        SNIB__LIST_EACH_SAFE (l, next, &e->held) {
            snib__turn_hint(e, now,
                            SNIB__CONTAINER(l, struct snib__turn, held));
        }
        e->out.missed = false;
    }
    for (uint32_t i = 0; i < e->out.ended_count; i++) {
        struct snib__turn *t = turn_of(e, e->out.ended[i]);
        if (t) {
            snib__turn_hint(e, now, t);
        }
    }
    e->out.ended_count = 0;
}

/* Since when something has been held without a break; NEVER: nothing is. */
static snib_instant held_since(const struct snib__engine *e)
{
    struct snib__link *l = snib__list_first(&e->held);
    return l ? SNIB__CONTAINER(l, struct snib__turn, held)->granted
             : SNIB__NEVER;
}

/* When a client begins to listen for forced releases, if it has not waited for
 * anything, and listens anyway. Short sections pay nothing for it. */
static snib_instant listen_due(const struct snib__engine *e)
{
    snib_instant since = held_since(e);
    if (!e->pushes || e->out.listens || since.ns == SNIB__NEVER.ns) {
        return SNIB__NEVER;
    }
    return snib__after(since, snib__ms(SNIB__LISTEN_MS));
}

static void listen_from_now(struct snib__engine *e, snib_instant now)
{
    static const struct snib__input tick = {.kind = SNIB__IN_TICK};
    if (!snib__reached(now, listen_due(e))) {
        return;
    }
    e->out.listens = true;
    if (e->cfg.blocking) { /* a renewal opens the way, and names it */
        SNIB__LIST_EACH_SAFE (l, next, &e->held) {
            snib__turn_hint(e, now,
                            SNIB__CONTAINER(l, struct snib__turn, held));
        }
    } else {
        e->ops->input(e->store, now, &tick);
    }
    snib__engine_settle(e, now);
}

void snib__engine_input(struct snib__engine *e, snib_instant now,
                        const struct snib__input *in)
{
    e->ops->input(e->store, now, in);
    ask_ended(e, now);
    tell_stuck(e);
    snib__engine_settle(e, now);
}

void snib__engine_executed(struct snib__engine *e, snib_instant now,
                           struct snib__list *chain)
{
    snib__blocking_done(e->store, now, chain);
    snib__engine_settle(e, now);
}

void snib__engine_tick(struct snib__engine *e, snib_instant now)
{
    static const struct snib__input tick = {.kind = SNIB__IN_TICK};
    struct snib__timer *t;
    while ((t = snib__heap_min(&e->turns)) && snib__reached(now, t->at)) {
        snib__turn_due(e, now, SNIB__CONTAINER(t, struct snib__turn, timer));
    }
    snib__engine_settle(e, now);
    if (snib__reached(now, e->ops->due(e->store))) {
        e->ops->input(e->store, now, &tick);
        tell_stuck(e);
        snib__engine_settle(e, now);
    }
    while ((t = snib__heap_min(&e->seats)) && snib__reached(now, t->at)) {
        snib__seat_due(e, now, SNIB__CONTAINER(t, struct snib__seat, timer));
    }
    snib__engine_settle(e, now);
    listen_from_now(e, now);
    snib__cycles_tick(e, now);
}

snib_instant snib__engine_due(const struct snib__engine *e)
{
    snib_instant store = snib__sooner(e->ops->due(e->store), listen_due(e));
    return snib__sooner(
        snib__sooner(store, snib__cycles_due(e)),
        snib__sooner(snib__heap_due(&e->turns), snib__heap_due(&e->seats)));
}

void snib__engine_jumped(struct snib__engine *e, snib_instant now)
{
    SNIB__LIST_EACH_SAFE (l, next, &e->held) {
        struct snib__turn *t = SNIB__CONTAINER(l, struct snib__turn, held);
        if (!snib__turn_check(e, now, t)) {
            snib__turn_risk(e, now, t, SNIB_WHY_PAUSED);
        }
    }
    snib__engine_settle(e, now);
}

/* -- life ------------------------------------------------------------------------ */

static snib_err open_store(struct snib__engine *e,
                           const struct snib__engine_config *cfg,
                           struct snib_error *reterr)
{
    struct snib__store_config sc = {.url = cfg->url,
                                    .out = &e->out,
                                    .request = cfg->request,
                                    .wall_offset_ns = cfg->wall_offset_ns};
    for (int i = 0; i < 4; i++) {
        sc.seed.v[i] = snib__rng_next(&e->rng);
    }
    e->client[0] = snib__rng_next(&e->rng);
    e->client[1] = snib__rng_next(&e->rng);
    if (cfg->client) {
        memcpy(e->client, cfg->client, sizeof e->client);
    }
    memcpy(sc.client, e->client, sizeof sc.client);
    if (cfg->blocking) {
        e->ops = &snib__blocking_store_ops;
        return snib__blocking_open(cfg->blocking, &sc, &e->store, reterr);
    }
    e->ops = cfg->ops;
    if (e->ops->abi != SNIB__STORE_ABI || e->ops->size != sizeof *e->ops) {
        return snib__fail(reterr, SNIB_ERR_INTERNAL,
                          "store %s was built for another library",
                          e->ops->scheme);
    }
    return e->ops->open(&sc, &e->store, reterr);
}

snib_err snib__engine_open(const struct snib__engine_config *cfg,
                           struct snib__engine **ret, struct snib_error *reterr)
{
    struct snib__engine *e = snib__alloc(sizeof *e);
    *ret = NULL;
    if (!e) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    e->cfg = *cfg;
    e->cfg.url = NULL;
    e->cfg.client = NULL;
    /* A store without a queue shows no waits: nothing to be found there. */
    uint32_t caps = cfg->blocking ? cfg->blocking->caps : cfg->ops->caps;
    e->cfg.deadlocks = cfg->deadlocks && (caps & SNIB__CAN_QUEUE);
    e->pushes = caps & SNIB__CAN_PUSH;
    if (cfg->self) {
        e->self = *cfg->self;
    }
    snib__rng_init(&e->rng, &cfg->seed);
    snib__list_init(&e->chain);
    snib__list_init(&e->told);
    snib__list_init(&e->told_queries);
    snib__cycles_init(e);
    snib__list_init(&e->held);
    snib__list_init(&e->spare);
    snib__list_init(&e->busy);
    snib__list_init(&e->out.answered);
    snib__list_init(&e->out.exec);
    e->out.log = cfg->log;
    e->out.log_data = cfg->log_data;
    for (int i = 0; i < SNIB__CHANS; i++) {
        snib__buf_init(&e->out.chan[i].out, OUT_LIMIT);
    }
    snib_err err = snib__sites_init(e);
    for (int i = 0; !err && i < SNIB__SPARE; i++) {
        struct snib__inquiry *q = inquiry_new();
        if (!q) {
            err = SNIB_ERR_NOMEM;
            break;
        }
        snib__list_push(&e->spare, &q->idle);
        e->spares++;
    }
    if (err) {
        snib__fail_plain(reterr, err);
    } else {
        err = open_store(e, cfg, reterr);
    }
    if (err) {
        snib__engine_free(e);
        return err;
    }
    for (uint32_t i = 0; i < SNIB__CHANS; i++) {
        e->out.chans = e->out.chan[i].used ? i + 1 : e->out.chans;
    }
    *ret = e;
    return snib__ok(reterr);
}

/* The store goes first and forgets its requests; what was under way is on the
 * busy list. */
void snib__engine_free(struct snib__engine *e)
{
    if (!e) {
        return;
    }
    if (e->store) {
        e->ops->free(e->store);
    }
    for (uint32_t i = 0; i < e->slot_cap; i++) {
        if (e->slots[i].seat) {
            snib__free(e->slots[i].seat->above);
            snib__free(e->slots[i].seat->reason);
            snib__free(e->slots[i].seat->trouble);
            snib__free(e->slots[i].seat);
        }
    }
    snib__free(e->slots);
    for (uint32_t i = 0; i < e->bucket_count; i++) {
        SNIB__LIST_EACH (l, &e->buckets[i]) {
            struct snib__site *s =
                SNIB__CONTAINER(l, struct snib__site, bucket);
            SNIB__LIST_EACH (k, &s->stakes) {
                snib__free(SNIB__CONTAINER(k, struct snib__site, bucket)->turn);
            }
            snib__free(s->turn);
        }
    }
    if (e->buckets) {
        snib__sites_free(e);
    }
    struct snib__link *l;
    while ((l = snib__list_pop(&e->spare))) {
        inquiry_free(SNIB__CONTAINER(l, struct snib__inquiry, idle));
    }
    while ((l = snib__list_pop(&e->busy))) {
        inquiry_free(SNIB__CONTAINER(l, struct snib__inquiry, idle));
    }
    for (int i = 0; i < SNIB__CHANS; i++) {
        snib__buf_wipe(&e->out.chan[i].out); /* a login stood in it */
        snib__buf_free(&e->out.chan[i].out);
    }
    snib__heap_free(&e->turns);
    snib__heap_free(&e->seats);
    snib__cycles_free(e);
    snib__free(e);
}

void snib__engine_close(struct snib__engine *e, snib_instant now)
{
    e->closed = true;
    for (uint32_t i = 0; i < e->slot_cap; i++) {
        struct snib__seat *s = e->slots[i].seat;
        if (s && s->state == SNIB__SEAT_WAITING) {
            struct snib__site *site = s->site;
            snib__seat_refuse(e, s, SNIB_ERR_CLOSED, NULL);
            if (site->turn && snib__list_empty(&site->waiting)) {
                snib__turn_desert(e, now, site->turn);
            }
        }
    }
    SNIB__LIST_EACH_SAFE (l, next, &e->held) {
        struct snib__turn *t = SNIB__CONTAINER(l, struct snib__turn, held);
        if (!snib__turn_check(e, now, t) && t->holder) {
            t->holder->holds = 0;
            snib__turn_release(e, now, t);
        }
    }
    snib__engine_settle(e, now);
}

bool snib__engine_idle(const struct snib__engine *e)
{
    return e->out_requests == 0 && e->leaving == 0;
}

struct snib__out *snib__engine_out(struct snib__engine *e)
{
    return &e->out;
}

void snib__engine_client_id(const struct snib__engine *e, uint64_t ret[2])
{
    ret[0] = e->client[0];
    ret[1] = e->client[1];
}

struct snib__store *snib__engine_store(struct snib__engine *e)
{
    return e->store;
}

void snib__engine_store_state(const struct snib__engine *e, snib_instant now,
                              struct snib__store_state *ret)
{
    *ret = (struct snib__store_state){.nodes = 1};
    if (e->ops->state) {
        e->ops->state(e->store, now, ret);
    } else {
        ret->reachable = true;
        ret->nodes_reachable = 1;
    }
}

snib_err snib__engine_late(const struct snib__engine *e, snib_instant now,
                           snib_err why, struct snib_error *ret)
{
    struct snib__store_state is;
    snib__engine_store_state(e, now, &is);
    if (is.reachable || !is.err) {
        return snib__fail_plain(ret, why);
    }
    return snib__fail(ret, is.err, "store unreachable for %lld ms: %s",
                      (long long)snib__to_ms(snib__between(is.since, now)),
                      is.text);
}

void snib__engine_counts(const struct snib__engine *e, struct snib__counts *ret)
{
    *ret = e->counts;
    ret->requests = e->out_requests;
    ret->leaving = e->leaving;
    ret->waiting = ret->held = 0;
    for (uint32_t i = 0; i < e->slot_cap; i++) {
        const struct snib__seat *s = e->slots[i].seat;
        ret->waiting += s && s->state == SNIB__SEAT_WAITING;
        ret->held += s && s->state == SNIB__SEAT_SERVED;
    }
}

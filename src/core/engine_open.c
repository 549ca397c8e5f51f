/* core/engine_open.c — the engine from open to free.
 *
 * free asks nobody: the store forgets all requests first, and those
 * under way are on the busy list. free takes half-built engines too. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/blocking.h"
#include "core/engine_i.h"

/* A bound for one message to a server. 128 renewals, or one acquire with its
 * texts, stay far below it. */
enum { OUT_LIMIT = 64 << 20 };

static snib_err engine_open_store(struct snib__engine *e,
                                  const struct snib__engine_config *cfg,
                                  struct snib_error *reterr)
{
    struct snib__store_config sc = {.url = cfg->url,
                                    .out = &e->out,
                                    .request = cfg->request,
                                    .wall_offset_ns = cfg->wall_offset_ns,
                                    .login = cfg->login,
                                    .watch = cfg->watch};
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
    if (!e->ops->open || !e->ops->start || !e->ops->input || !e->ops->due ||
        !e->ops->free) {
        return snib__fail(reterr, SNIB_ERR_INTERNAL,
                          "store %s lacks what every store has",
                          e->ops->scheme);
    }
    return e->ops->open(&sc, &e->store, reterr);
}

/* A store without a queue shows no waits, so no deadlock can be found there. */
static void engine_open_caps(struct snib__engine *e)
{
    uint32_t caps = e->out.caps;
    e->cfg.deadlocks = e->cfg.deadlocks && (caps & SNIB__CAN_QUEUE);
    e->pushes = caps & SNIB__CAN_PUSH;
    e->can_keep = caps & SNIB__CAN_KEEP;
    e->tied = caps & SNIB__TIED;
    e->no_latch = caps & SNIB__NO_LATCH;
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
    e->first_generation = 1;
    e->out.caps = cfg->blocking ? cfg->blocking->caps : cfg->ops->caps;
    if (cfg->self) {
        e->self = *cfg->self;
    }
    snib__about_head(&e->self, &e->self_head);
    snib__rng_init(&e->rng, &cfg->seed);
    snib__list_init(&e->chain);
    snib__list_init(&e->told);
    snib__list_init(&e->told_directs);
    snib__cycles_init(e);
    snib__list_init(&e->held);
    snib__list_init(&e->spare);
    snib__list_init(&e->busy);
    snib__list_init(&e->out.answered);
    snib__list_init(&e->out.exec);
    e->out.log = cfg->log;
    e->out.log_data = cfg->log_data;
    e->out.wall_offset_ns = cfg->wall_offset_ns;
    snib__conns_init(&e->out, OUT_LIMIT);
    snib_err err = snib__local_locks_init(e);
    if (!err) {
        err = snib__pending_init(e);
    }
    if (err) {
        snib__fail_plain(reterr, err);
    } else {
        err = engine_open_store(e, cfg, reterr);
    }
    if (err) {
        snib__engine_free(e);
        return err;
    }
    engine_open_caps(e);
    *ret = e;
    return snib__ok(reterr);
}

void snib__engine_free(struct snib__engine *e)
{
    if (!e) {
        return;
    }
    if (e->store) {
        e->ops->free(e->store);
    }
    for (uint32_t i = 0; i < e->ticket_cap; i++) {
        if (e->tickets[i].acq) {
            snib__free(e->tickets[i].acq->above);
            snib__free(e->tickets[i].acq->reason);
            snib__free(e->tickets[i].acq->trouble);
            snib__free(e->tickets[i].acq);
        }
    }
    snib__free(e->tickets);
    for (uint32_t i = 0; i < e->bucket_count; i++) {
        SNIB__LIST_EACH (l, &e->buckets[i]) {
            struct snib__local_lock *s =
                SNIB__CONTAINER(l, struct snib__local_lock, bucket);
            SNIB__LIST_EACH (k, &s->own_locks) {
                snib__free(
                    SNIB__CONTAINER(k, struct snib__local_lock, bucket)->claim);
            }
            snib__free(s->claim);
        }
    }
    if (e->buckets) {
        snib__local_locks_free(e);
    }
    snib__pending_free(e);
    snib__conns_free(&e->out);
    snib__heap_free(&e->claims);
    snib__heap_free(&e->acquisitions);
    snib__cycles_free(e);
    snib__free(e);
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

void snib__engine_counts(const struct snib__engine *e, struct snib__counts *ret)
{
    *ret = e->counts;
    ret->requests = e->out_requests;
    ret->leaving = e->leaving;
    ret->waiting = ret->held = 0;
    for (uint32_t i = 0; i < e->ticket_cap; i++) {
        const struct snib__acquisition *s = e->tickets[i].acq;
        ret->waiting += s && s->state == SNIB__ACQ_WAITING;
        ret->held += s && s->state == SNIB__ACQ_SERVED;
    }
}

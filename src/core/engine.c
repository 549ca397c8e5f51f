/* core/engine.c — the step: input goes to the store, its answers to the core,
 * actions come out.
 *
 * Every entry point ends in snib__engine_settle. It hands the requests of this
 * step to the store as one chain (so that renewals that fall due together
 * travel together) and takes answers until nothing moves. A store may answer
 * inside start(), so both are repeated. Each round ends requests or sends them
 * away, so it comes to an end. */
#include "core/engine_i.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/blocking.h"

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

/* -- the step ------------------------------------------------------------- */

static void engine_take_answer(struct snib__engine *e, snib_instant now,
                               struct snib__request *rq)
{
    struct snib__pending *q = rq->user;
    if (rq->answer != SNIB__QUEUED) {
        assert(e->out_requests > 0);
        e->out_requests--;
    }
    if (q->claim) {
        snib__claim_answer(e, now, q->claim, q);
    } else if (rq->verb == SNIB__PARAMS && rq->answer == SNIB__UNKNOWN &&
               !snib__reached(now, rq->limit)) {
        rq->resent = true; /* the same id: as if sent once */
        snib__buf_clear(&q->result);
        snib__pending_start(e, q);
    } else if (rq->verb >= SNIB__INSPECT) {
        snib__direct_answer(e, now, q);
    } else if (rq->answer != SNIB__QUEUED) {
        snib__pending_put(e, q); /* an orphan: its claim has ended */
    }
}

void snib__engine_settle(struct snib__engine *e, snib_instant now)
{
    if (e->batch.open) {
        return; /* until the batch is complete */
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
            engine_take_answer(e, now,
                               SNIB__CONTAINER(l, struct snib__request, link));
        } else if (snib__list_empty(&e->chain)) {
            break;
        }
    }
    e->out.holds = !snib__list_empty(&e->held);
}

/* -- grants that were ended, or are at risk ------------------------------- */

static bool engine_is_about(const struct snib__claim *t, const uint64_t id[2])
{
    return t && t->id[0] == id[0] && t->id[1] == id[1];
}

/* The claim of this id that is held, or that has a request under way. */
static struct snib__claim *engine_claim_of(const struct snib__engine *e,
                                           const uint64_t id[2])
{
    SNIB__LIST_EACH (l, &e->held) {
        struct snib__claim *t = SNIB__CONTAINER(l, struct snib__claim, held);
        if (engine_is_about(t, id)) {
            return t;
        }
    }
    SNIB__LIST_EACH (l, &e->busy) {
        struct snib__claim *t =
            SNIB__CONTAINER(l, struct snib__pending, idle)->claim;
        if (engine_is_about(t, id)) {
            return t;
        }
    }
    return NULL;
}

/* The store cannot send renewals that were started, and says why: these grants
 * are at risk now, not when their deadline has come. */
static void engine_tell_stuck(struct snib__engine *e)
{
    if (!e->out.stuck) {
        return;
    }
    e->out.stuck = false;
    SNIB__LIST_EACH_SAFE (l, next, &e->held) {
        struct snib__claim *t = SNIB__CONTAINER(l, struct snib__claim, held);
        if (t->renewing && t->renewing->rq.err) {
            if (!t->renewing->rq.only_asks) {
                snib__acquisition_trouble(t->holder, t->renewing->error.text);
            }
            snib__claim_fails(e, t);
        }
    }
}

/* Somebody may have ended these grants: a renewal, sent now, will tell. */
static void engine_ask_ended(struct snib__engine *e, snib_instant now)
{
    if (e->out.missed) { /* all at once: they travel as one chain */
        SNIB__LIST_EACH_SAFE (l, next, &e->held) {
            snib__claim_hint(e, now,
                             SNIB__CONTAINER(l, struct snib__claim, held));
        }
        e->out.missed = false;
    }
    for (uint32_t i = 0; i < e->out.ended_count; i++) {
        struct snib__claim *t = engine_claim_of(e, e->out.ended[i]);
        if (t) {
            snib__claim_hint(e, now, t);
        }
    }
    e->out.ended_count = 0;
}

/* Since when something has been held without a break; NEVER: nothing is
 * held. */
static snib_instant engine_held_since(const struct snib__engine *e)
{
    struct snib__link *l = snib__list_first(&e->held);
    return l ? SNIB__CONTAINER(l, struct snib__claim, held)->granted
             : SNIB__NEVER;
}

/* When the client begins to listen for forced releases, unless it listens
 * already, as a client that has waited does. Short sections pay nothing for
 * it. */
static snib_instant engine_listen_due(const struct snib__engine *e)
{
    snib_instant since = engine_held_since(e);
    if (!e->pushes || e->out.listens || since.ns == SNIB__NEVER.ns) {
        return SNIB__NEVER;
    }
    return snib__after(since, snib__ms(SNIB__LISTEN_MS));
}

static void engine_listen_from_now(struct snib__engine *e, snib_instant now)
{
    static const struct snib__input tick = {.kind = SNIB__IN_TICK};
    if (!snib__reached(now, engine_listen_due(e))) {
        return;
    }
    e->out.listens = true;
    if (e->cfg.blocking) { /* a renewal opens the way, and names it */
        SNIB__LIST_EACH_SAFE (l, next, &e->held) {
            snib__claim_hint(e, now,
                             SNIB__CONTAINER(l, struct snib__claim, held));
        }
    } else {
        e->ops->input(e->store, now, &tick);
    }
    snib__engine_settle(e, now);
}

/* -- input ---------------------------------------------------------------- */

void snib__engine_input(struct snib__engine *e, snib_instant now,
                        const struct snib__input *in)
{
    e->ops->input(e->store, now, in);
    engine_ask_ended(e, now);
    engine_tell_stuck(e);
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
    while ((t = snib__heap_min(&e->claims)) && snib__reached(now, t->at)) {
        snib__claim_due(e, now, SNIB__CONTAINER(t, struct snib__claim, timer));
    }
    snib__engine_settle(e, now);
    if (snib__reached(now, e->ops->due(e->store))) {
        e->ops->input(e->store, now, &tick);
        engine_tell_stuck(e);
        snib__engine_settle(e, now);
    }
    while ((t = snib__heap_min(&e->acquisitions)) &&
           snib__reached(now, t->at)) {
        snib__acquisition_due(
            e, now, SNIB__CONTAINER(t, struct snib__acquisition, timer));
    }
    snib__engine_settle(e, now);
    engine_listen_from_now(e, now);
    snib__cycles_tick(e, now);
}

snib_instant snib__engine_due(const struct snib__engine *e)
{
    snib_instant store =
        snib__sooner(e->ops->due(e->store), engine_listen_due(e));
    return snib__sooner(snib__sooner(store, snib__cycles_due(e)),
                        snib__sooner(snib__heap_due(&e->claims),
                                     snib__heap_due(&e->acquisitions)));
}

void snib__engine_jumped(struct snib__engine *e, snib_instant now)
{
    SNIB__LIST_EACH_SAFE (l, next, &e->held) {
        struct snib__claim *t = SNIB__CONTAINER(l, struct snib__claim, held);
        if (!snib__claim_check(e, now, t)) {
            snib__claim_risk(e, now, t, SNIB_CAUSE_PAUSED);
        }
    }
    snib__engine_settle(e, now);
}

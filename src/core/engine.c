/* core/engine.c — the step: what callers want and what has happened goes in,
 * requests go to the store, its answers to the claims, actions come out.
 *
 * All entry points that may ask the store anything are here; each ends in
 * engine_settle, and nothing that they call comes back here. engine_settle
 * hands the requests of this step to the store as one chain (so that renewals
 * that fall due together travel together) and takes answers until nothing
 * moves. A store may answer inside start(), so both are repeated. Each round
 * ends requests or sends them away, so it comes to an end. */
#include "core/engine_i.h"

#include <assert.h>

#include "base/error.h"
#include "core/blocking.h"
#include "core/check.h"

/* -- the step ------------------------------------------------------------- */

static void engine_take_claims_answer(struct snib__engine *e, snib_instant now,
                                      struct snib__claim *t,
                                      struct snib__pending *q)
{
    if (q == t->renewing) {
        snib__claim_renewal_answered(e, now, t, q);
    } else if (q == t->ending) {
        snib__claim_end_answered(e, now, t, q);
    } else if (t->state == SNIB__CLAIM_LEAVING) {
        snib__claim_overtaken(e, now, t, q);
    } else if (q->rq.said.answer == SNIB__DONE) {
        assert(q == t->acquiring);
        snib__claim_granted(e, now, t, &q->rq);
    } else {
        assert(q == t->acquiring);
        snib__claim_not_granted(e, now, t, q);
    }
}

static void engine_take_directs_answer(struct snib__engine *e, snib_instant now,
                                       struct snib__pending *q)
{
    struct snib__request *rq = &q->rq;
    snib_instant sent = rq->said.valid_from;
    if (rq->verb == SNIB__PARAMS && rq->said.answer == SNIB__UNKNOWN &&
        !snib__reached(now, rq->limit)) {
        rq->resent = true; /* the same id: as if sent once */
        snib__buf_clear(&q->result);
        snib__pending_start(e, q);
    } else if (snib__direct_answer(e, now, q)) {
        snib__cycles_answer(e, now, sent);
    }
}

static void engine_take_answer(struct snib__engine *e, snib_instant now,
                               struct snib__request *rq)
{
    struct snib__pending *q = rq->user;
    if (rq->said.answer != SNIB__QUEUED) {
        assert(e->out_requests > 0);
        e->out_requests--;
    }
    if (q->claim) {
        engine_take_claims_answer(e, now, q->claim, q);
    } else if (rq->verb >= SNIB__INSPECT) {
        engine_take_directs_answer(e, now, q);
    } else if (rq->said.answer != SNIB__QUEUED) {
        snib__pending_put(e, q); /* an orphan: its claim has ended */
    }
}

/* What a witness has to know is written down before the bytes of this step are
 * sent. */
static void engine_note(struct snib__engine *e)
{
    snib__registry_late(e->cfg.registry, e->out.late);
    if (!e->out.renamed) {
        return;
    }
    e->out.renamed = false;
    SNIB__LIST_EACH (asks, &e->busy) {
        struct snib__pending *q =
            SNIB__CONTAINER(asks, struct snib__pending, link);
        if (q->claim && q == q->claim->acquiring) {
            snib__claim_note(e, q->claim);
        }
    }
}

static void engine_settle(struct snib__engine *e, snib_instant now)
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
    if (e->cfg.registry) {
        engine_note(e);
    }
#ifdef SNIB_CHECKS
    snib__check_step(e);
#endif
}

/* -- listening ------------------------------------------------------------- */

/* Since when the oldest of the grants that are held now is held; NEVER: nothing
 * is held. */
static snib_instant engine_held_since(const struct snib__engine *e)
{
    struct snib__link *l = snib__list_first(&e->held);
    return l ? SNIB__CONTAINER(l, struct snib__claim, held)->granted
             : SNIB__NEVER;
}

/* When the client begins to listen for forced releases. Short sections pay
 * nothing for it, but who keeps grants has to hear at once that others wait.
 * (One that has waited has the store's subscription already: then the store
 * opens nothing.) */
static snib_instant engine_listen_due(const struct snib__engine *e)
{
    snib_instant since = engine_held_since(e);
    if (!e->pushes || e->out.listens || since.ns == SNIB__NEVER.ns) {
        return SNIB__NEVER;
    }
    return e->keeps ? since : snib__after(since, snib__ms(SNIB__LISTEN_MS));
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
    engine_settle(e, now);
}

/* -- input ---------------------------------------------------------------- */

void snib__engine_input(struct snib__engine *e, snib_instant now,
                        const struct snib__input *in)
{
    e->ops->input(e->store, now, in);
    snib__heard(e, now);
    engine_settle(e, now);
}

void snib__engine_executed(struct snib__engine *e, snib_instant now,
                           struct snib__list *chain)
{
    snib__blocking_done(e->store, now, chain);
    engine_settle(e, now);
}

void snib__engine_tick(struct snib__engine *e, snib_instant now)
{
    static const struct snib__input tick = {.kind = SNIB__IN_TICK};
    struct snib__timer *t;
    while ((t = snib__heap_min(&e->claims)) && snib__reached(now, t->at)) {
        snib__claim_due(e, now, SNIB__CONTAINER(t, struct snib__claim, timer));
    }
    engine_settle(e, now);
    if (snib__reached(now, e->ops->due(e->store))) {
        e->ops->input(e->store, now, &tick);
        snib__heard_wanted(e, now);
        snib__heard_stuck(e);
        engine_settle(e, now);
    }
    while ((t = snib__heap_min(&e->acquisitions)) &&
           snib__reached(now, t->at)) {
        snib__acquisition_due(
            e, now, SNIB__CONTAINER(t, struct snib__acquisition, timer));
    }
    engine_settle(e, now);
    engine_listen_from_now(e, now);
    snib__moves_tick(e, now);
    snib__cycles_tick(e, now);
    engine_settle(e, now);
}

snib_instant snib__engine_due(const struct snib__engine *e)
{
    snib_instant due =
        snib__sooner(e->ops->due(e->store), engine_listen_due(e));
    if (!snib__list_empty(&e->cycles.nested)) {
        due = snib__sooner(
            due, snib__sooner(snib__moves_due(e), snib__cycles_due(e)));
    }
    return snib__sooner(due, snib__sooner(snib__heap_due(&e->claims),
                                          snib__heap_due(&e->acquisitions)));
}

void snib__engine_jumped(struct snib__engine *e, snib_instant now)
{
    SNIB__LIST_EACH_SAFE (l, next, &e->held) {
        struct snib__claim *t = SNIB__CONTAINER(l, struct snib__claim, held);
        if (!snib__claim_check(e, now, t)) {
            snib__claim_risk_and_ask(e, now, t, SNIB_CAUSE_PAUSED);
        }
    }
    engine_settle(e, now);
}

void snib__engine_keep_no_more(struct snib__engine *e, snib_instant now)
{
    e->keeps_none = true;
    snib__heard_give_back_all(e, now);
    engine_settle(e, now);
}

void snib__engine_close(struct snib__engine *e, snib_instant now)
{
    e->closed = e->keeps_none = true;
    snib__heard_give_back_all(e, now);
    for (uint32_t i = 0; i < e->ticket_cap; i++) {
        struct snib__acquisition *s = e->tickets[i].acq;
        if (s && s->state == SNIB__ACQ_WAITING) {
            struct snib__local_lock *local = s->local;
            snib__acquisition_refuse(e, s, SNIB_ERR_CLOSED, NULL);
            if (local->claim && snib__list_empty(&local->waiting)) {
                snib__claim_give_up(e, now, local->claim);
            }
        }
    }
    SNIB__LIST_EACH_SAFE (l, next, &e->held) {
        struct snib__claim *t = SNIB__CONTAINER(l, struct snib__claim, held);
        if (!snib__claim_check(e, now, t) && t->holder) {
            t->holder->holds = 0;
            snib__claim_release(e, now, t);
        }
    }
    engine_settle(e, now);
}

uint32_t snib__engine_end_left(struct snib__engine *e, snib_instant now,
                               const struct snib__registry *r)
{
    struct snib__registry_found found;
    struct snib__local_lock *local;
    uint32_t count = 0;
    int64_t late = atomic_load_explicit(&r->late, memory_order_acquire);
    for (uint32_t i = 1; i <= snib__registry_used(r); i++) {
        if (snib__registry_read(r, i, &found) &&
            !snib__engine_local_lock(e, found.name, found.name_size, &local,
                                     NULL)) {
            count += snib__claim_end_left(e, now, local, &found.record, late);
            snib__local_lock_drop(e, local);
        }
    }
    engine_settle(e, now);
    return count;
}

/* -- what owners want ----------------------------------------------------- */

/* What a call has learnt within its step is its result, not news. A re-entry,
 * which is a second hold, has learnt nothing. */
static void engine_untell(struct snib__acquisition *s)
{
    if (s && s->state != SNIB__ACQ_WAITING && s->holds < 2) {
        snib__acquisition_untell(s);
    }
}

snib_err snib__engine_acquire(struct snib__engine *e, snib_instant now,
                              struct snib__local_lock *local,
                              const struct snib__acquire_spec *spec,
                              struct snib__acquisition **ret,
                              struct snib_error *reterr)
{
    if (!e->closed && snib__owner_check(e, now, local)) {
        engine_settle(e, now); /* something was lost: its end is sent first */
    }
    snib_err err = snib__owner_acquire(e, now, local, spec, ret, reterr);
    engine_settle(e, now);
    engine_untell(*ret);
    return err;
}

snib_err snib__engine_adopt(struct snib__engine *e, snib_instant now,
                            struct snib__local_lock *local,
                            const struct snib__acquire_spec *spec,
                            const uint64_t id[2], int64_t token,
                            struct snib__acquisition **ret,
                            struct snib_error *reterr)
{
    snib_err err =
        snib__owner_adopt(e, now, local, spec, id, token, ret, reterr);
    engine_settle(e, now);
    engine_untell(*ret);
    return err;
}

void snib__engine_gathered(struct snib__engine *e, snib_instant now,
                           enum snib__batch_way way)
{
    snib__batch_end(e, way);
    engine_settle(e, now);
}

snib_err snib__engine_give_up_now(struct snib__engine *e, snib_instant now,
                                  struct snib__acquisition *s, snib_err why)
{
    snib_err outcome = snib__acquisition_give_up_now(e, now, s, why);
    engine_settle(e, now);
    return outcome;
}

snib_err snib__engine_give_up(struct snib__engine *e, snib_instant now,
                              struct snib__acquisition *s, snib_err why,
                              struct snib_error *ret)
{
    snib_err outcome = snib__acquisition_give_up(e, now, s, why, ret);
    engine_settle(e, now);
    return outcome;
}

snib_err snib__engine_release(struct snib__engine *e, snib_instant now,
                              uint64_t ticket, uint64_t owner,
                              struct snib_error *later, void *user,
                              struct snib__acquisition **ret,
                              struct snib_error *reterr)
{
    snib_err err =
        snib__grant_release(e, now, ticket, owner, later, user, ret, reterr);
    engine_settle(e, now);
    if (*ret && (*ret)->state == SNIB__ACQ_GONE) {
        snib__acquisition_untell(*ret);
    }
    return err;
}

snib_err snib__engine_renew(struct snib__engine *e, snib_instant now,
                            uint64_t ticket, snib_duration lease,
                            struct snib__acquisition **ret,
                            struct snib_error *reterr)
{
    snib_err err = snib__grant_renew(e, now, ticket, lease, ret, reterr);
    engine_settle(e, now);
    return err;
}

snib_err snib__engine_grant_id(struct snib__engine *e, snib_instant now,
                               uint64_t ticket, bool fixed, uint64_t ret_id[2],
                               int64_t *ret_token, struct snib_error *reterr)
{
    snib_err err =
        fixed && e->tied
            ? snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                         "the grants of this store are their client's alone, "
                         "so none can be detached")
            : snib__grant_id(e, now, ticket, fixed, ret_id, ret_token, reterr);
    engine_settle(e, now);
    return err;
}

snib_err snib__engine_detach_grant(struct snib__engine *e, snib_instant now,
                                   uint64_t ticket, uint64_t owner,
                                   struct snib_error *reterr)
{
    snib_err err = snib__grant_detach(e, now, ticket, owner, reterr);
    engine_settle(e, now);
    return err;
}

snib_err snib__engine_direct(struct snib__engine *e, snib_instant now,
                             struct snib__direct *direct)
{
    snib_err err = snib__direct_start(e, now, direct);
    engine_settle(e, now);
    return err;
}

/* -- what the driver takes ------------------------------------------------ */

bool snib__engine_told_all(const struct snib__engine *e)
{
    return snib__list_empty(&e->told) && snib__list_empty(&e->told_directs);
}

struct snib__acquisition *snib__engine_told(struct snib__engine *e,
                                            uint8_t *ret_news)
{
    struct snib__link *l = snib__list_pop(&e->told);
    if (!l) {
        return NULL;
    }
    struct snib__acquisition *s =
        SNIB__CONTAINER(l, struct snib__acquisition, told);
    *ret_news = s->news;
    s->news = 0;
    return s;
}

struct snib__direct *snib__engine_told_direct(struct snib__engine *e)
{
    struct snib__link *l = snib__list_pop(&e->told_directs);
    return l ? SNIB__CONTAINER(l, struct snib__direct, told) : NULL;
}

/* core/request.c — requests under way, and the timer of the claims that they
 * belong to.
 *
 * They come from a list of spare ones. When that is empty and there is no
 * memory for more, the claim tries again when its timer comes: late, never
 * wrong. */
#include <assert.h>

#include "base/mem.h"
#include "core/blocking.h"
#include "core/claim_i.h"

static struct snib__pending *request_pending_new(void)
{
    struct snib__pending *q = snib__alloc(sizeof *q);
    if (q) {
        snib__link_init(&q->link);
        snib__buf_init(&q->text, SNIB__TEXT_LIMIT);
        snib__buf_init(&q->result, SNIB__RESULT_LIMIT);
    }
    return q;
}

static void request_pending_free(struct snib__pending *q)
{
    snib__buf_free(&q->text);
    snib__buf_free(&q->result);
    snib__free(q->name);
    snib__free(q);
}

struct snib__pending *snib__pending_get(struct snib__engine *e,
                                        struct snib__local_lock *local)
{
    struct snib__link *l = snib__list_pop(&e->spare);
    struct snib__pending *q;
    if (l) {
        q = SNIB__CONTAINER(l, struct snib__pending, link);
        e->spares--;
    } else {
        q = request_pending_new();
    }
    if (!q) {
        return NULL;
    }
    snib__list_push(&e->busy, &q->link);
    q->rq = (struct snib__request){0};
    snib__link_init(&q->rq.link);
    snib__link_init(&q->rq.store.link);
    q->rq.user = q;
    q->rq.said.reterr = &q->error;
    q->rq.id[0] = snib__rng_next(&e->rng);
    q->rq.id[1] = snib__rng_next(&e->rng);
    q->error.code = SNIB_ERR_OK;
    q->error.text[0] = 0;
    q->claim = NULL;
    q->direct = NULL;
    q->local = local;
    snib__buf_clear(&q->text);
    snib__buf_clear(&q->result);
    if (local) {
        local->refs++;
        q->rq.name = local->name;
    }
    return q;
}

void snib__pending_put(struct snib__engine *e, struct snib__pending *q)
{
    if (q->local) {
        snib__local_lock_drop(e, q->local);
        q->local = NULL;
    }
    snib__free(q->name);
    q->name = NULL;
    snib__unlink(&q->link);
    if (q->text.limit > SNIB__TEXT_LIMIT) { /* a value's bytes are not kept */
        snib__buf_free(&q->text);
        q->text.limit = SNIB__TEXT_LIMIT;
    }
    if (e->spares >= SNIB__SPARE_MAX) {
        request_pending_free(q);
        return;
    }
    e->spares++;
    snib__list_push(&e->spare, &q->link);
}

void snib__pending_start(struct snib__engine *e, struct snib__pending *q)
{
    q->rq.said.answer = SNIB__PENDING;
    q->rq.exec.patience = q->rq.limit;
    q->rq.said.err = SNIB_ERR_OK;
    q->rq.said.revoked = q->rq.said.forgotten = q->rq.said.reclaim = false;
    assert(!snib__linked(&q->rq.link));
    snib__list_push(&e->chain, &q->rq.link);
    e->out_requests++;
}

snib_err snib__pending_init(struct snib__engine *e)
{
    for (int i = 0; i < SNIB__SPARE; i++) {
        struct snib__pending *q = request_pending_new();
        if (!q) {
            return SNIB_ERR_NOMEM;
        }
        snib__list_push(&e->spare, &q->link);
        e->spares++;
    }
    return SNIB_ERR_OK;
}

void snib__pending_free(struct snib__engine *e)
{
    struct snib__link *l;
    while ((l = snib__list_pop(&e->spare))) {
        request_pending_free(SNIB__CONTAINER(l, struct snib__pending, link));
    }
    while ((l = snib__list_pop(&e->busy))) {
        request_pending_free(SNIB__CONTAINER(l, struct snib__pending, link));
    }
}

/* -- of a claim ----------------------------------------------------------- */

/* A witness ends it by a CANCEL, which releases. So it is told nothing of what is
 * to outlive our process, nor of a grant with a lock-delay: that one has to stand
 * in the way of others for as long as its owner did not release it. */
void snib__claim_note(struct snib__engine *e, struct snib__claim *t)
{
    struct snib__registry *r = e->cfg.registry;
    if (!r) {
        return;
    }
    const uint64_t *asked = t->acquiring ? t->acquiring->rq.asked : t->id;
    const uint64_t *id = asked[0] | asked[1] ? asked : t->id;
    if (t->outlives || t->delay.ns > 0) {
        snib__registry_drop(r, &t->entry);
        return;
    }
    snib__registry_put(r, &t->entry, t->local->name,
                       &(struct snib__registry_record){
                           .id = {id[0], id[1]},
                           .prior = t->prior,
                           .prior_id = {t->prior_id[0], t->prior_id[1]},
                           .lease_ms = snib__to_ms(t->most)});
}

void snib__claim_orphan(struct snib__pending **q)
{
    if (*q) {
        (*q)->claim = NULL;
        *q = NULL;
    }
}

bool snib__claim_unsent(const struct snib__engine *e, snib_instant now,
                        const struct snib__claim *t, struct snib__unsent *ret)
{
    return e->cfg.blocking && t->state == SNIB__CLAIM_ACQUIRING &&
           t->acquiring && snib__reached(now, t->acquiring->rq.exec.patience) &&
           snib__blocking_unsent(e->store, now, &t->acquiring->rq, ret);
}

void snib__claim_arm(struct snib__engine *e, struct snib__claim *t)
{
    snib_instant at = SNIB__NEVER;
    switch ((snib__claim_state)t->state) {
    case SNIB__CLAIM_ACQUIRING:
        at = t->renew_at;
        break;
    case SNIB__CLAIM_QUEUED:
        break;
    case SNIB__CLAIM_CONFIRM:
        at = snib__sooner(t->deadline, t->renew_at);
        break;
    case SNIB__CLAIM_HELD:
    case SNIB__CLAIM_RISK:
        at = snib__sooner(t->hold_end, t->renew_at);
        if (!t->aggressive) {
            at = snib__sooner(at, t->deadline);
        }
        break;
    case SNIB__CLAIM_KEPT:
        at = t->kept_until;
        break;
    case SNIB__CLAIM_LEAVING:
        at = snib__sooner(t->gone_by, t->renew_at);
        break;
    }
    snib__heap_set(&e->claims, &t->timer, at);
}

void snib__claim_retry_at(struct snib__engine *e, snib_instant now,
                          struct snib__claim *t)
{
    int64_t ns = SNIB__RETRY_MS * INT64_C(1000000);
    if (t->lease.ns / 32 < ns) {
        ns = t->lease.ns / 32;
    }
    t->renew_at = snib__after(now, (snib_duration){ns});
    snib__claim_arm(e, t);
}

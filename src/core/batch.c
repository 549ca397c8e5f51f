/* core/batch.c — acquires that are tried as one.
 *
 * Between gather and gathered nothing is sent. Each acquire that asks the store
 * joins the open batch, and the store tries them in one step of its own: one
 * after the other until one is refused, and with `all` it gives those before it
 * back again (core/request.h). An acquire that cannot join goes alone. */
#include "core/engine_i.h"

void snib__engine_gather(struct snib__engine *e, bool all)
{
    e->batch.number += e->batch.number == UINT32_MAX ? 2 : 1;
    e->batch.count = 0;
    e->batch.open = true;
    e->batch.all = all;
}

uint32_t snib__engine_batch(const struct snib__engine *e)
{
    return e->batch.count;
}

bool snib__engine_asks_later(const struct snib__acquisition *s)
{
    const struct snib__claim *t = s->local->claim;
    return s->state == SNIB__ACQ_WAITING && t &&
           t->state == SNIB__CLAIM_LEAVING;
}

void snib__batch_end(struct snib__engine *e, enum snib__batch_way way)
{
    e->batch.open = false;
    SNIB__LIST_EACH_SAFE (l, next, &e->chain) {
        struct snib__request *rq =
            SNIB__CONTAINER(l, struct snib__request, link);
        if (way == SNIB__BATCH_GO || rq->batch.number != e->batch.number) {
            continue;
        }
        if (way == SNIB__BATCH_PART) {
            rq->batch.number = 0;
        } else {
            snib__unlink(l);
            rq->said.answer = SNIB__NO;
            rq->said.err = SNIB_ERR_CANCELLED;
            snib__list_push(&e->out.answered, l);
        }
    }
}

/* A request that may queue, or that ends a prior grant, does not join. */
void snib__batch_join(struct snib__engine *e, struct snib__acquisition *s)
{
    struct snib__claim *t = s->local->claim;
    struct snib__request *rq = t && t->acquiring ? &t->acquiring->rq : NULL;
    if (!e->batch.open || !rq || t->state != SNIB__CLAIM_ACQUIRING ||
        rq->acquire.may_queue || rq->token || e->batch.count == UINT8_MAX) {
        return;
    }
    s->batch = rq->batch.number = e->batch.number;
    rq->batch.index = e->batch.count++;
    rq->batch.all = e->batch.all;
}

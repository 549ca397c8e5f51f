/* core/company.c — acquires that are tried as one.
 *
 * Between gather and gathered nothing is sent: each acquire that asks the store
 * joins the company of that number, and the store tries them in one step of its
 * own, all or one (core/store.h). One that cannot be part of it goes alone. */
#include "core/engine_i.h"

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

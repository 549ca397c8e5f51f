/* core/rules/rules_params.c — PARAMS: the size of a semaphore, the count of a
 * latch. */
#include "core/refusals.h"
#include "core/rules/rules_i.h"

/* Apply the request to *t. True: *t has changed. */
static bool rules_params_apply(struct snib__request *r, struct snib__params *t,
                               bool *ret_no)
{
    const struct snib__params old = *t;
    *ret_no = false;
    switch ((snib__params_op)r->params.op) {
    case SNIB__PARAMS_GET:
        break;
    case SNIB__PARAMS_SIZE:
        t->size = r->params.amount;
        break;
    case SNIB__PARAMS_INIT:
        *ret_no = t->size >= 0;
        t->size = *ret_no ? t->size : r->params.amount;
        break;
    case SNIB__PARAMS_ADD:
        t->size += r->params.amount;
        break;
    case SNIB__PARAMS_CLOSE:
        *ret_no = t->latch > 0;
        t->latch = *ret_no ? t->latch : r->params.amount;
        break;
    case SNIB__PARAMS_DOWN:
        *ret_no = t->latch == 0;
        t->latch =
            t->latch > r->params.amount ? t->latch - r->params.amount : 0;
        break;
    case SNIB__PARAMS_OPEN:
        t->latch = 0;
        break;
    }
    return t->size != old.size || t->latch != old.latch;
}

static void rules_params_tell(struct snib__book *b, struct snib__request *r,
                              bool applied, const struct snib__params *t,
                              int64_t permits)
{
    const struct snib__stored_claim end = {.rank = INT8_MAX, .id = INT64_MAX};
    r->said.row =
        (struct snib__request_row){.applied = applied,
                                   .size = t->size,
                                   .latch = t->latch,
                                   .permits = permits,
                                   .waiting = b->ops->before(b, r->name, &end)};
    snib__rules_answer(r, SNIB__DONE, SNIB_ERR_OK);
}

/* A PARAMS_GET changes nothing, so that a store may answer it while
 * others write. Holders whose time is over are not counted, but they stay in the
 * book. */
static void rules_params_read(struct snib__book *b, struct snib__request *r)
{
    static const int states[] = {SNIB__HOLDS, SNIB__SHARES};
    struct snib__params t;
    int64_t permits = 0;
    b->ops->params(b, r->name, &t);
    for (int i = 0; i < 2; i++) {
        struct snib__stored_claim c, after;
        const struct snib__stored_claim *from = NULL;
        while (!b->err && b->ops->next(b, r->name, states[i], from, &c)) {
            if (c.kind == SNIB_KIND_PERMITS && !snib__rules_is_over(b, &c)) {
                permits += c.permits;
            }
            after = c;
            from = &after;
        }
    }
    rules_params_tell(b, r, true, &t, permits);
}

void snib__rules_params(struct snib__book *b, struct snib__request *r)
{
    struct snib__stored_claim c;
    struct snib__standing st;
    int64_t none;
    bool no = false;
    if (r->params.op == SNIB__PARAMS_GET) {
        rules_params_read(b, r);
        return;
    }
    bool repeat =
        b->ops->find(b, r->name, r->id, &c) && c.state == SNIB__TOMBSTONE;
    snib__rules_survey(b, r->name, NULL, &st);
    if (r->params.op == SNIB__PARAMS_ADD && !repeat) {
        int64_t size = st.params.size + r->params.amount;
        if (st.params.size < 0) {
            snib__refuse_no_size(r);
            return;
        }
        if (size < 0 || size > SNIB_PERMITS_MAX) {
            snib__refuse_size(r, st.params.size);
            return;
        }
    }
    if (repeat) {
        no = c.permits == 0;
    } else if (rules_params_apply(r, &st.params, &no)) {
        b->ops->set_params(b, r->name, &st.params);
        snib__rules_walk(b, r->name, &st, NULL, false, &none);
    }
    if (!repeat) {
        snib__rules_tombstone(b, r, !no, 0);
    }
    rules_params_tell(b, r, !no, &st.params, st.permits);
}

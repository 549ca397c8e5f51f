/* driver/op.c — operations: an answer becomes an event, or counts down its
 * batch.
 *
 * An operation is on `pending` (an acquire) or `releasing` (a release, in order
 * of their limits) until it is answered, then on `events` until it is fetched.
 * One of a batch goes to no queue of events: the last one answers the call that
 * waits for all of them. */
#include "base/error.h"
#include "driver/driver.h"
#include "snib/event.h"

void snib__op_push(struct snib__step *s, struct snib__op *op)
{
    snib__list_push(&s->c->ops.events, &op->link);
    s->event = true;
}

void snib__op_store_changed(struct snib__step *s)
{
    struct snib__ops *ops = &s->c->ops;
    s->c->out->changed = false;
    if (ops->of_store && !snib__linked(&ops->changed.link)) {
        ops->changed.keep = true;
        ops->changed.ev = (struct snib_event){.kind = SNIB_EVENT_STORE_CHANGED,
                                              .state = SNIB_STATE_RELEASED};
        snib__op_push(s, &ops->changed);
    }
}

/* An operation of a batch was answered; ev has the answer. */
static void op_count_down(struct snib__step *s, struct snib__op *op)
{
    struct snib__batch *g = op->batch;
    op->batch = NULL;
    if (--g->open == 0) {
        snib__call_settle(s, g->call, SNIB_ERR_OK);
    }
}

void snib__op_answer(struct snib__step *s, struct snib__op *op,
                     snib_event_kind kind, struct snib_grant grant,
                     snib_err err, const struct snib_error *detail)
{
    struct snib_event *ev = &op->ev;
    snib__unlink(&op->link);
    op->hold = NULL;
    ev->kind = kind;
    ev->grant = grant;
    ev->state =
        kind == SNIB_EVENT_GRANTED ? SNIB_STATE_HELD : SNIB_STATE_RELEASED;
    if (!err || !detail || detail->code != err) {
        snib__fail(&ev->error, err, "%s", err ? snib_err_text(err) : "");
    }
    if (op->batch) {
        op_count_down(s, op);
    } else {
        snib__op_push(s, op);
    }
}

/* driver/op.c — operations: an answer becomes an event, or counts down its
 * batch.
 *
 *   pending    an acquire   \
 *   releasing  a release     > --answer--> events --snib_client_next--> gone
 *   asking     all others   /
 *
 * One of a batch goes to no queue of events: the last one answers the call that
 * waits for all of them, or lets the sequence go on that does (api/sequence.c).
 *
 * What is asking has a timer: its limit or, between two of its requests, the
 * instant at which it asks again. Such an operation ends in DONE. Its results
 * are the caller's memory, so they are not written here but by the thread that
 * takes the event (its kind's `take`). */
#include "base/error.h"
#include "base/mem.h"
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
    if (--g->open > 0) {
        return;
    }
    if (g->call) {
        snib__call_settle(s, g->call, SNIB_ERR_OK);
    } else {
        snib__op_push(s, g->op);
    }
}

void snib__op_answer(struct snib__step *s, struct snib__op *op,
                     snib_event_kind kind, struct snib_grant grant,
                     snib_err err, const struct snib_error *detail)
{
    struct snib_event *ev = &op->ev;
    snib__unlink(&op->link);
    snib__heap_remove(&s->c->ops.timers, &op->timer);
    op->hold = NULL;
    ev->kind = op->kind ? SNIB_EVENT_DONE : kind;
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

void snib__op_free(struct snib__op *op)
{
    if (op->kind && op->kind->drop) {
        op->kind->drop(op);
    }
    snib__free(op);
}

void snib__op_done(struct snib__step *s, struct snib__op *op, snib_err err,
                   const struct snib_error *detail)
{
    snib__op_answer(s, op, SNIB_EVENT_DONE, op->ev.grant, err, detail);
}

/* -- operations that ask ----------------------------------------------------- */

/* No acquisition of this client, and hardly anything of another client, has
 * such a ticket: slots (core/acquisition.c) are counted up to less than
 * 2^31. */
void snib__op_give_ticket(struct snib__step *s, struct snib__op *op)
{
    uint64_t n = s->c->ops.count++, low = (n & INT32_MAX) | UINT64_C(1) << 31;
    op->ev.grant.ticket =
        (uint64_t)(uint32_t)(s->c->id[1] + (n >> 31)) << 32 | low;
}

bool snib__op_reserve(struct snib__step *s)
{
    struct snib__heap *timers = &s->c->ops.timers;
    return snib__heap_reserve(timers, timers->size + 1);
}

void snib__op_open(struct snib__step *s, struct snib__op *op, snib_instant due)
{
    struct snib__ops *o = &s->c->ops;
    snib__op_give_ticket(s, op);
    snib__list_push(&o->asking, &op->link);
    snib__heap_set(&o->timers, &op->timer, due);
}

struct snib__op *snib__op_asking(struct snib_client *c, uint64_t ticket)
{
    SNIB__LIST_EACH (l, &c->ops.asking) {
        struct snib__op *op = snib__op_of(l);
        if (op->ev.grant.ticket == ticket && !op->batch) {
            return op; /* those of a batch have no ticket */
        }
    }
    return NULL;
}

/* -- direct requests ----------------------------------------------------------- */

snib_err snib__direct_op_ask(struct snib__step *s, struct snib__direct_op *d,
                             struct snib__call *call)
{
    struct snib_client *c = s->c;
    d->asked++;
    d->pauses = false;
    d->q.user = call;
    d->q.limit = snib__sooner(d->q.limit, snib__after(s->now, c->request));
    return snib__engine_direct(c->engine, s->now, &d->q);
}

void snib__direct_op_ask_again(struct snib__step *s, struct snib__direct_op *d)
{
    snib_err err = snib__direct_op_ask(s, d, NULL);
    if (err) {
        d->op.ev.error = d->q.error;
        snib__op_done(s, &d->op, err, &d->op.ev.error);
    } else {
        snib__heap_set(&s->c->ops.timers, &d->op.timer, d->q.limit);
    }
}

void snib__direct_op_answered(struct snib__step *s, struct snib__direct_op *d)
{
    snib_err err = d->q.err;
    snib_instant at = snib__direct_may_go_on(d, err)
                          ? d->rules->again(d, s->now, err)
                          : SNIB__NEVER;
    if (at.ns == SNIB__NEVER.ns) {
        d->op.ev.error = d->q.error;
        snib__op_done(s, &d->op, err, &d->op.ev.error);
        return;
    }
    snib__buf_free(&d->q.result);
    if (snib__reached(s->now, at)) {
        snib__direct_op_ask_again(s, d);
    } else {
        d->pauses = true;
        snib__heap_set(&s->c->ops.timers, &d->op.timer, at);
    }
}

/* driver/give_up.c — ending what waits before its answer has come: at a limit,
 * by a cancel, when the client is closed.
 *
 * An acquire that is given up is cancelled at the store; who waits for it hears
 * of that when the store has confirmed it (LEAVING), or at once when nothing
 * was sent. A release that is given up goes on in the engine alone. So does a
 * direct request, whether it was sent already or not: one that was to change
 * something may still do so. */
#include <assert.h>

#include "base/error.h"
#include "driver/driver.h"
#include "snib/event.h"

/* -- calls ----------------------------------------------------------------- */

static void give_up_answer(struct snib__step *s, struct snib__hold *h,
                           snib_err err)
{
    struct snib__call *call = h->call;
    snib__holds_free(s, h);
    snib__call_settle(s, call, err);
}

void snib__call_cancel(struct snib__step *s, struct snib__acquisition *acq,
                       snib_err why)
{
    struct snib__hold *h = acq->user;
    snib_err err =
        snib__engine_give_up(s->c->engine, s->now, acq, why, &h->call->error);
    if (err) {
        give_up_answer(s, h, err);
    }
}

/* Answer the call of an acquisition that is LEAVING, since the store will not
 * confirm anything any more. */
static void give_up_cut(struct snib__step *s, struct snib__acquisition *acq)
{
    struct snib__hold *h = acq->user;
    h->call->error.code = SNIB_ERR_OK; /* the general text of the error */
    give_up_answer(
        s, h,
        snib__engine_give_up_now(s->c->engine, s->now, acq, SNIB_ERR_CLOSED));
}

void snib__call_give_up(struct snib__step *s, struct snib__call *call,
                        snib_err why)
{
    struct snib__acquisition *acq =
        snib__engine_acquisition(s->c->engine, call->ticket);
    if (acq && acq->state == SNIB__ACQ_WAITING) {
        snib__call_cancel(s, acq, why);
    }
    if (call->w.done) {
        if (s->c->exec.brief) { /* else the end of the call does it */
            snib__step_act(s);
        }
        return;
    }
    acq = snib__engine_acquisition(s->c->engine, call->ticket);
    call->limit = acq ? acq->timer.at : s->now;
    if (!snib__call_wait(s, call)) {
        call->err = SNIB_ERR_INTERNAL; /* the engine keeps the limit */
    }
}

snib_err snib__unanswered(const struct snib__step *s, struct snib_error *ret)
{
    struct snib__store_state is;
    assert(!s->away);
    snib__engine_store_state(s->c->engine, s->now, &is);
    if (is.reachable || !is.err) {
        return snib__fail_plain(ret, SNIB_ERR_UNKNOWN);
    }
    return snib__fail(ret, SNIB_ERR_UNKNOWN, "%s: %s",
                      snib_err_text(SNIB_ERR_UNKNOWN), is.text);
}

snib_err snib__left_open(snib_err why, struct snib_error *ret)
{
    return snib__fail(ret, SNIB_ERR_UNKNOWN, "%s before the store had answered",
                      why == SNIB_ERR_CLOSED ? "the client was closed"
                                             : "it was cancelled");
}

/* -- direct requests ---------------------------------------------------------- */

snib_err snib__direct_unanswered(struct snib__step *s, struct snib__direct *q,
                                 struct snib_error *ret)
{
    struct snib__store_state is;
    struct snib__unsent why;
    bool unsent = snib__engine_direct_unsent(s->c->engine, s->now, q, &why);
    snib__engine_direct_forget(s->c->engine, q);
    if (!unsent && snib__verb_changes(q->verb, q->op)) {
        return snib__unanswered(s, ret);
    }
    snib__engine_store_state(s->c->engine, s->now, &is);
    if (!is.reachable && is.err) {
        return snib__fail(ret, SNIB_ERR_UNREACHABLE,
                          "the store did not answer in time: %s", is.text);
    }
    if (unsent) {
        return snib__fail(ret, SNIB_ERR_UNREACHABLE,
                          "the store did not answer in time: %s", why.text);
    }
    return snib__fail(ret, SNIB_ERR_UNREACHABLE,
                      "the store did not answer in time");
}

/* Nobody will hear of its outcome. If it was to change something it may have
 * done so, or may do so yet. */
static snib_err give_up_direct(struct snib__step *s, struct snib__direct *q,
                               snib_err why, struct snib_error *ret)
{
    snib__engine_direct_forget(s->c->engine, q);
    return snib__verb_changes(q->verb, q->op) ? snib__left_open(why, ret)
                                              : snib__fail_plain(ret, why);
}

void snib__direct_op_due(struct snib__step *s, struct snib__op *op)
{
    struct snib__direct_op *d = snib__direct_op_of(op);
    snib_instant limit = snib__engine_direct_limit(&d->q);
    if (d->pauses) {
        snib__direct_op_ask_again(s, d);
    } else if (!snib__reached(s->now, limit)) { /* it was moved */
        snib__heap_set(&s->c->ops.timers, &op->timer, limit);
    } else {
        snib_err err = snib__direct_unanswered(s, &d->q, &op->ev.error);
        snib__op_done(s, op, err, &op->ev.error);
    }
}

void snib__direct_op_give_up(struct snib__step *s, struct snib__op *op,
                             snib_err why)
{
    struct snib__direct_op *d = snib__direct_op_of(op);
    snib_err err = give_up_direct(s, &d->q, why, &op->ev.error);
    snib__op_done(s, op, err, &op->ev.error);
}

/* -- a client's end ----------------------------------------------------------- */

void snib__calls_close(struct snib__step *s)
{
    struct snib_client *c = s->c;
    SNIB__LIST_EACH_SAFE (l, next, &c->calls.roles.waiting) {
        struct snib__call *call = SNIB__CONTAINER(l, struct snib__call, w.link);
        if (call->kind == SNIB__CALL_ACQUIRE) {
            struct snib__acquisition *acq =
                snib__engine_acquisition(c->engine, call->ticket);
            if (acq && acq->user && acq->state == SNIB__ACQ_WAITING) {
                snib__call_cancel(s, acq, SNIB_ERR_CLOSED);
            } else if (acq && acq->user && c->stopped &&
                       acq->state == SNIB__ACQ_LEAVING) {
                give_up_cut(s, acq);
            } /* else its news are on the way */
        } else if (call->kind == SNIB__CALL_DIRECT) {
            snib_err err =
                give_up_direct(s, call->direct, SNIB_ERR_CLOSED, &call->error);
            snib__call_settle(s, call, err);
        } else if (call->kind == SNIB__CALL_FEWER) {
            snib__call_settle(s, call, SNIB_ERR_CLOSED);
        }
    }
}

/* -- operations ------------------------------------------------------------ */

void snib__op_give_up(struct snib__step *s, struct snib__acquisition *acq,
                      snib_err why)
{
    struct snib__hold *h = acq->user;
    struct snib__op *op = h->op;
    struct snib_grant grant = {.ticket = acq->ticket};
    struct snib_error detail = {.code = SNIB_ERR_OK};
    snib_err err =
        acq->state == SNIB__ACQ_LEAVING
            ? snib__engine_give_up_now(s->c->engine, s->now, acq, why)
            : snib__engine_give_up(s->c->engine, s->now, acq, why, &detail);
    if (err) {
        snib__op_answer(s, op, SNIB_EVENT_REFUSED, grant, err, NULL);
        snib__holds_free(s, h);
    }
}

/* No answer came to a release: it ends as UNKNOWN, and the engine goes on with
 * it alone. */
static void give_up_release(struct snib__step *s, struct snib__op *op)
{
    struct snib__hold *h = op->hold;
    struct snib__acquisition *acq =
        snib__engine_acquisition(s->c->engine, h->ticket);
    struct snib_grant grant = {.ticket = h->ticket};
    if (acq) {
        grant.token = acq->token;
        snib__engine_stop_awaiting(s->c->engine, acq);
    }
    snib__op_answer(s, op, SNIB_EVENT_RELEASED, grant, SNIB_ERR_UNKNOWN, NULL);
    snib__holds_free(s, h);
}

void snib__ops_due(struct snib__step *s)
{
    struct snib__link *l;
    struct snib__timer *t;
    while ((t = snib__heap_min(&s->c->ops.timers)) &&
           snib__reached(s->now, t->at)) {
        struct snib__op *op = SNIB__CONTAINER(t, struct snib__op, timer);
        op->kind->due(s, op);
    }
    while ((l = snib__list_first(&s->c->ops.releasing)) &&
           snib__reached(s->now, snib__op_of(l)->limit)) {
        give_up_release(s, snib__op_of(l));
    }
}

void snib__ops_close(struct snib__step *s)
{
    struct snib__link *l;
    SNIB__LIST_EACH_SAFE (p, next, &s->c->ops.asking) {
        struct snib__op *op = snib__op_of(p);
        op->kind->give_up(s, op, SNIB_ERR_CLOSED);
    }
    SNIB__LIST_EACH_SAFE (p, next, &s->c->ops.pending) {
        struct snib__acquisition *acq = snib__engine_acquisition(
            s->c->engine, snib__op_of(p)->hold->ticket);
        bool waits = acq && acq->state == SNIB__ACQ_WAITING;
        bool leaves = acq && acq->state == SNIB__ACQ_LEAVING;
        if (waits || (leaves && s->c->stopped)) {
            snib__op_give_up(s, acq, SNIB_ERR_CLOSED);
        }
    }
    if (s->c->stopped) {
        while ((l = snib__list_first(&s->c->ops.releasing))) {
            give_up_release(s, snib__op_of(l));
        }
    }
}

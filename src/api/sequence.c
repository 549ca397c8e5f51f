/* api/sequence.c — started calls that are made of several requests, one after
 * another: several locks as one, an update of a value, a membership of a ring.
 *
 * The problem: between two of its requests such a call decides, and what it
 * decides by is often the caller's (a function that computes, the locks in
 * their order). A blocking call does that on its caller's stack. Here it is
 * done by the thread that takes events, as the writing of results is: so no
 * function of the program's runs on a thread of the library's, or under its
 * mutex, and threaded and pull clients do the same.
 *
 *   start ---> next: asks ---> batch: n open --last answer--> resume: an event
 *                ^   |                                          |
 *                |   +--pauses--timer---------------------------+
 *                |                                              v
 *                +------------- snib_client_next, which does not return it
 *              next: ends --> the operation's event, which it returns
 *
 * The requests are operations of one batch (driver/op.c), which belong to the
 * sequence and go to no queue of events. The last answer puts `resume` there. So
 * a sequence is at one place only: its requests are under way, or it pauses, or
 * its `resume` waits to be taken, or one thread is in `next`.
 *
 * A cancel or the client's end does not end a sequence by itself: what it has
 * acquired must be given back. It ends what is under way, and `next` sees that
 * (`quit`, or the answers). */
#include "api/sequence.h"

#include "api/client.h"
#include "base/error.h"
#include "base/mem.h"

/* -- it goes on --------------------------------------------------------------- */

static struct snib__op *sequence_go_on(struct snib__op *resume)
{
    struct snib__sequence *q =
        SNIB__CONTAINER(resume, struct snib__sequence, resume);
    struct snib_error why = {.code = SNIB_ERR_OK};
    struct snib__step s;
    if (!q->rules->next(q, &why)) {
        return NULL; /* it may be another thread's by now */
    }
    snib__step_begin(&s, q->client);
    snib__unlink(&q->op.link);
    snib__heap_remove(&s.c->ops.timers, &q->op.timer);
    q->op.ev.kind = SNIB_EVENT_DONE;
    q->op.ev.state = SNIB_STATE_RELEASED;
    q->op.ev.error = why;
    snib__step_end(&s);
    return &q->op;
}

static const struct snib__op_kind sequence_resume = {.go_on = sequence_go_on};

void snib__sequence_due(struct snib__step *s, struct snib__op *op)
{
    struct snib__sequence *q = snib__sequence_of(op);
    snib__heap_set(&s->c->ops.timers, &op->timer, SNIB__NEVER);
    if (q->pauses) {
        q->pauses = false;
        snib__op_push(s, &q->resume);
    }
}

void snib__sequence_give_up(struct snib__step *s, struct snib__op *op,
                            snib_err why)
{
    struct snib__sequence *q = snib__sequence_of(op);
    q->quit = q->quit ? q->quit : why;
    if (q->pauses) {
        snib__sequence_due(s, op);
    } else if (why == SNIB_ERR_CANCELLED && q->rules->cancel) {
        q->rules->cancel(s, q);
    } /* a client that ends gives up what is under way by itself */
}

/* -- starting -------------------------------------------------------------------- */

void *snib__sequence_new(size_t size, struct snib_client *c,
                         const struct snib__sequence_rules *rules, void *user)
{
    struct snib__sequence *q = snib__op_new(size, &rules->kind, user);
    if (q) {
        snib__link_init(&q->resume.link);
        q->resume.kind = &sequence_resume;
        q->batch.op = &q->resume;
        q->client = c;
        q->rules = rules;
    }
    return q;
}

snib_err snib__sequence_open(struct snib__sequence *q, bool ends,
                             uint64_t *ret_ticket, struct snib_error *reterr)
{
    struct snib__step s;
    if (!q) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib__step_begin(&s, q->client);
    snib_err err = ends ? snib__op_may_end(&s, &q->op, reterr)
                        : snib__op_may_start(&s, &q->op, reterr);
    if (!err && !snib__op_reserve(&s)) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (!err) {
        snib__op_open(&s, &q->op, SNIB__NEVER);
        snib__op_tell_ticket(&q->op, ret_ticket);
    }
    snib__step_end(&s);
    return err ? err : snib__ok(reterr);
}

void snib__sequence_go(struct snib__sequence *q)
{
    struct snib__step s;
    struct snib_error why = {.code = SNIB_ERR_OK};
    if (q->rules->next(q, &why)) {
        snib__step_begin(&s, q->client);
        q->op.ev.error = why;
        snib__op_done(&s, &q->op, why.code, &q->op.ev.error);
        snib__op_started(&s);
    }
}

snib_err snib__sequence_start(struct snib__sequence *q, bool ends,
                              uint64_t *ret_ticket, struct snib_error *reterr)
{
    snib_err err = snib__sequence_open(q, ends, ret_ticket, reterr);
    if (!err) {
        snib__sequence_go(q);
    } else if (q) {
        snib__op_free(&q->op);
    }
    return err;
}

void snib__sequence_drop(struct snib__sequence *q)
{
    snib__unlink(&q->resume.link);
}

void snib__sequence_drop_direct(struct snib__direct_op *d)
{
    if (d->rules) {
        snib__unlink(&d->op.link);
        snib__direct_op_drop(d);
        d->rules = NULL;
    }
}

snib_err snib__sequence_answer(struct snib__direct_op *d,
                               struct snib_error *ret)
{
    *ret = d->op.ev.error;
    snib_err err = snib__direct_op_end(d, ret->code, ret);
    d->rules = NULL;
    return err;
}

/* -- asking ------------------------------------------------------------------------ */

snib_err snib__sequence_over(struct snib__sequence *q)
{
    struct snib__step s;
    snib__step_begin(&s, q->client);
    snib_err err = q->quit;
    snib__step_end(&s);
    return err;
}

snib_err snib__sequence_begin(struct snib__step *s, struct snib__sequence *q)
{
    snib__step_begin(s, q->client);
    q->batch.open = 1; /* until all is asked for */
    return q->quit ? q->quit : s->c->closed ? SNIB_ERR_CLOSED : SNIB_ERR_OK;
}

bool snib__sequence_ends(struct snib__step *s, struct snib__sequence *q,
                         snib_err err, struct snib_error *ret)
{
    q->batch.open = 0;
    snib__step_end(s);
    snib__fail_plain(ret, err);
    return true;
}

void snib__sequence_part(struct snib__sequence *q, struct snib__op *op)
{
    const struct snib__op_kind *kind = op->kind;
    *op = (struct snib__op){.batch = &q->batch, .kind = kind};
    snib__link_init(&op->link);
    q->batch.open++;
}

void snib__sequence_said(struct snib__step *s, struct snib__op *op,
                         snib_event_kind kind, struct snib_grant grant,
                         const struct snib_error *why)
{
    op->ev.error = *why;
    snib__op_answer(s, op, kind, grant, why->code, &op->ev.error);
}

bool snib__sequence_ask(struct snib__step *s, struct snib__sequence *q,
                        struct snib__direct_op *d)
{
    struct snib__ops *ops = &s->c->ops;
    struct snib_error why = {.code = SNIB_ERR_OK};
    d->op.kind = &snib__started_kind;
    snib__sequence_part(q, &d->op);
    if (!snib__op_reserve(s)) {
        snib__fail_plain(&why, SNIB_ERR_NOMEM);
    } else if (snib__direct_op_ask(s, d, NULL)) {
        why = d->q.error;
    }
    if (why.code) {
        snib__sequence_said(s, &d->op, SNIB_EVENT_DONE, (struct snib_grant){0},
                            &why);
        return false;
    }
    snib__list_push(&ops->asking, &d->op.link);
    snib__heap_set(&ops->timers, &d->op.timer, d->q.limit);
    snib__background_hurry(s);
    return true;
}

void snib__sequence_release(struct snib__step *s, struct snib__sequence *q,
                            struct snib_lock *lock, struct snib_grant grant,
                            uint64_t owner, struct snib__op *op)
{
    struct snib_client *c = s->c;
    struct snib_error why = {.code = SNIB_ERR_OK};
    bool awaited = false;
    snib__sequence_part(q, op);
    op->limit = snib__after(s->now, c->request);
    snib_err err = c->stopped ? snib__fail_plain(&why, SNIB_ERR_CLOSED)
                              : snib__grant_check(lock, grant, &why);
    if (!err) {
        snib__list_push(&c->ops.releasing, &op->link);
        err = snib__hold_release(s, lock, grant.ticket, owner, NULL, op,
                                 &awaited, &why);
    }
    /* It may have been done, or refused, without the store. */
    if (!awaited && op->batch) {
        why.code = err;
        snib__sequence_said(s, op, SNIB_EVENT_RELEASED, grant, &why);
    }
    snib__background_hurry(s);
}

void snib__sequence_acquire(struct snib__step *s, struct snib__sequence *q,
                            struct snib_lock *lock, const struct snib__how *how,
                            uint64_t owner, snib_duration patience,
                            struct snib__op *op)
{
    struct snib_error why = {.code = SNIB_ERR_OK};
    uint64_t ticket;
    bool awaited;
    snib__sequence_part(q, op);
    snib__list_push(&s->c->ops.pending, &op->link);
    why.code =
        snib__hold_acquire(s, lock, how, snib__after(s->now, patience), owner,
                           NULL, op, NULL, &awaited, &ticket, &why);
    if (why.code) {
        snib__sequence_said(s, op, SNIB_EVENT_REFUSED, (struct snib_grant){0},
                            &why);
    }
    snib__background_hurry(s);
}

bool snib__sequence_pause(struct snib__step *s, struct snib__sequence *q,
                          snib_duration d)
{
    if (!snib__op_reserve(s)) {
        return false;
    }
    q->pauses = true;
    q->batch.open++; /* so that the timer alone resumes it */
    snib__heap_set(&s->c->ops.timers, &q->op.timer, snib__after(s->now, d));
    return true;
}

void snib__sequence_asked(struct snib__step *s, struct snib__sequence *q)
{
    if (--q->batch.open == 0) {
        snib__op_push(s, &q->resume);
    }
    snib__op_started(s);
}

void snib__sequence_quit_direct(struct snib__step *s, struct snib__direct_op *d,
                                snib_err why)
{
    if (d->op.batch) {
        snib__direct_op_give_up(s, &d->op, why);
    }
}

void snib__sequence_quit(struct snib__step *s, const struct snib__op *op,
                         snib_err why)
{
    struct snib__acquisition *acq =
        op->batch && op->hold
            ? snib__engine_acquisition(s->c->engine, op->hold->ticket)
            : NULL;
    struct snib__hold *h = acq ? acq->user : NULL;
    if (h && h->op == op && acq->state == SNIB__ACQ_WAITING) {
        snib__op_give_up(s, acq, why);
    }
}

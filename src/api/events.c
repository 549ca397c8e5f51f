/* api/events.c — acquire and release for event loops; and taking events.
 *
 * Every start that returns OK ends in exactly one event. The event's memory is
 * taken with the start, so delivery cannot fail. A started acquire also gets
 * the memory for its STATE events (driver/watch.c). Where an operation is until
 * it is fetched: driver/op.c. One that only passes (a latch, a barrier:
 * latch.c) has a handle of its own, which is freed with it. Other starts:
 * started.c; those of several requests: sequence.c. */
#include "api/api.h"
#include "base/error.h"
#include "base/mem.h"
#include "snib/event.h"

/* -- starting -------------------------------------------------------------- */

snib_err snib_try_for_start(struct snib_lock *lock, int64_t wait_ms,
                            const struct snib_acquire_options *options,
                            void *user, uint64_t *ret_ticket,
                            struct snib_error *reterr)
{
    struct snib__how how;
    snib_err err = snib__client_check(lock->client, reterr);
    if (!err) {
        err = snib__how_read(options, wait_ms, &how, reterr);
    }
    snib__no_ticket(ret_ticket);
    if (err) {
        return err;
    }
    struct snib__op *op = snib__op_new(sizeof *op, NULL, user);
    err = snib__acquire_start(lock, &how, op, ret_ticket, reterr);
    if (err) {
        snib__free(op);
    }
    return err;
}

snib_err snib_acquire_start(struct snib_lock *lock,
                            const struct snib_acquire_options *options,
                            void *user, uint64_t *ret_ticket,
                            struct snib_error *reterr)
{
    return snib_try_for_start(lock, SNIB__NO_LIMIT, options, user, ret_ticket,
                              reterr);
}

snib_err snib_try_start(struct snib_lock *lock,
                        const struct snib_acquire_options *options, void *user,
                        uint64_t *ret_ticket, struct snib_error *reterr)
{
    return snib_try_for_start(lock, 0, options, user, ret_ticket, reterr);
}

snib_err snib__acquire_start(struct snib_lock *lock,
                             const struct snib__how *how, struct snib__op *op,
                             uint64_t *ret_ticket, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    bool awaited;
    uint64_t ticket = 0;
    uint64_t owner = how->o.owner ? how->o.owner : snib_owner_new();
    snib__step_begin(&s, c);
    snib_err err = snib__op_may_start(&s, op, reterr);
    if (!err) {
        snib__list_push(&c->ops.pending, &op->link);
        snib_instant limit =
            snib__after(s.now, snib__patience(c, how->wait_ms));
        err = snib__hold_acquire(&s, lock, how, limit, owner, NULL, op,
                                 op->ev.user, &awaited, &ticket, reterr);
        if (err) {
            snib__unlink(&op->link);
        } else {
            snib__background_hurry(&s);
        }
    }
    if (!err && ret_ticket) {
        *ret_ticket = ticket;
    }
    snib__op_started(&s);
    return err ? err : snib__ok(reterr);
}

snib_err snib__release_start(struct snib_lock *lock, struct snib_grant grant,
                             struct snib__op *op, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    bool awaited = false;
    snib_err err;
    uint64_t owner = snib__owner_of_thread();
    snib__step_begin(&s, c);
    if (c->stopped) {
        err = snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    } else if (!op) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    } else {
        err = snib__grant_check(lock, grant, reterr);
        err = err ? err : snib__loop_event_fd(c, reterr);
    }
    if (!err) {
        op->limit = snib__after(s.now, c->request);
        snib__list_push(&c->ops.releasing, &op->link);
        err = snib__hold_release(&s, lock, grant.ticket, owner, NULL, op,
                                 &awaited, reterr);
        if (err && err != SNIB_ERR_LOST) {
            snib__unlink(&op->link);
        } else if (!awaited && op->hold == NULL &&
                   op->ev.kind == SNIB_EVENT_GRANTED) {
            /* No answer came to it: it was done without the store, or the grant
             * was lost before. */
            struct snib_error why = {.code = SNIB_ERR_OK};
            if (err && reterr) {
                why = *reterr;
            }
            op->ev.error = why;
            snib__op_answer(&s, op, SNIB_EVENT_RELEASED, grant, err,
                            &op->ev.error);
            err = SNIB_ERR_OK;
        }
    }
    snib__op_started(&s);
    return err ? err : snib__ok(reterr);
}

snib_err snib_release_start(struct snib_lock *lock, struct snib_grant grant,
                            void *user, struct snib_error *reterr)
{
    snib_err err = snib__client_check(lock->client, reterr);
    if (err) {
        return err;
    }
    struct snib__op *op = snib__op_new(sizeof *op, NULL, user);
    err = snib__release_start(lock, grant, op, reterr);
    if (err) {
        snib__free(op);
    }
    return err;
}

void snib_client_cancel(struct snib_client *c, uint64_t ticket)
{
    struct snib__step s;
    if (snib__client_check(c, NULL)) {
        return;
    }
    snib__step_begin(&s, c);
    struct snib__acquisition *acq = snib__engine_acquisition(c->engine, ticket);
    struct snib__hold *h = acq ? acq->user : NULL;
    struct snib__op *op = acq ? NULL : snib__op_asking(c, ticket);
    if (h && h->op && acq->state == SNIB__ACQ_WAITING) {
        snib__op_give_up(&s, acq, SNIB_ERR_CANCELLED);
    } else if (op) {
        op->kind->give_up(&s, op, SNIB_ERR_CANCELLED);
    }
    snib__op_started(&s);
}

/* -- fetching -------------------------------------------------------------- */

/* The results of a start are written by the thread that takes its event; then
 * the operation is over. */
static void events_take_rest(struct snib__op *op, struct snib_event *ev)
{
    if (op->kind) {
        op->kind->take(op, ev);
    }
    snib_lock_free(op->passes);
    snib__free(op);
}

/* The next operation that has an event, and a copy of that. *ret_rest: nobody
 * else has a part in the operation. */
static struct snib__op *events_pop(struct snib_client *c,
                                   struct snib_event *ret, bool *ret_rest)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    struct snib__link *l = snib__list_pop(&c->ops.events);
    struct snib__op *op = l ? snib__op_of(l) : NULL;
    if (op) {
        *ret = op->ev;
        *ret_rest = !op->keep;
    }
    if (snib__list_empty(&c->ops.events) && c->ops.set) {
        c->ops.set = false;
        snib__eventfd_clear(c->ops.fd);
    }
    snib__step_end(&s);
    return op;
}

bool snib_client_next(struct snib_client *c, struct snib_event *ret,
                      size_t ret_size)
{
    struct snib_event ev;
    struct snib__op *op;
    bool rest = false;
    if (snib__client_check(c, NULL)) {
        return false;
    }
    while ((op = events_pop(c, &ev, &rest)) && rest && op->kind &&
           op->kind->go_on) {
        op = op->kind->go_on(op);
        if (op) {
            ev = op->ev;
            break;
        }
    }
    if (op && rest) {
        events_take_rest(op, &ev);
    }
    if (op) {
        snib__result_write(&ev, sizeof ev, ret, ret_size);
    }
    return op != NULL;
}

int snib_client_fd(struct snib_client *c)
{
    struct snib__step s;
    if (snib__client_check(c, NULL)) {
        return -1;
    }
    snib__step_begin(&s, c);
    bool failed = snib__loop_event_fd(c, NULL) != SNIB_ERR_OK;
    int fd = failed ? -1 : c->pull ? c->loop.epoll : c->ops.fd;
    if (!failed && !snib__list_empty(&c->ops.events)) {
        s.event = true;
    }
    snib__step_end(&s);
    return fd;
}

int64_t snib_client_timeout_ms(struct snib_client *c)
{
    struct snib__step s;
    int64_t ms = -1;
    if (snib__client_check(c, NULL) || !c->pull) {
        return -1;
    }
    snib__step_begin(&s, c);
    snib_instant due = snib__client_due(c);
    if (!snib__list_empty(&c->notices.due) ||
        !snib__list_empty(&c->exec.done) ||
        (c->exec.quick && !snib__list_empty(&c->out->exec))) {
        ms = 0;
    } else if (due.ns != INT64_MAX) {
        int64_t ns = due.ns - s.now.ns;
        ms = ns > 0 ? (ns + 999999) / 1000000 : 0;
    }
    snib__step_end(&s);
    return ms;
}

snib_err snib_client_process(struct snib_client *c)
{
    struct snib__step s;
    snib_err err = snib__client_check(c, NULL);
    if (err || !c->pull) {
        return err ? err : SNIB_ERR_USAGE;
    }
    snib__step_begin(&s, c);
    s.background = true;
    if (!c->stopped) {
        snib__background_round(&s, 0);
    }
    snib__step_end(&s);
    return SNIB_ERR_OK;
}

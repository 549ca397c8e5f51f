/* api/renew.c — renewing by hand. The calls that wait for a grant's renewal,
 * and the started ones, hang on its first hold. */
#include "api/api.h"
#include "base/error.h"
#include "base/mem.h"
#include "snib/event.h"

snib_err snib__lease_check(int64_t ms, struct snib_error *reterr)
{
    if (ms < SNIB_LEASE_MIN_MS || ms > SNIB_LEASE_MAX_MS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "lease_ms is %lld; expected %lld to %lld",
                          (long long)ms, (long long)SNIB_LEASE_MIN_MS,
                          (long long)SNIB_LEASE_MAX_MS);
    }
    return SNIB_ERR_OK;
}

/* The lease to ask for; 0 for the lock's. */
static snib_err renew_check(const struct snib_lock *lock, int64_t *lease_ms,
                            struct snib_error *reterr)
{
    *lease_ms = *lease_ms ? *lease_ms : lock->o.lease_ms;
    return snib__lease_check(*lease_ms, reterr);
}

/* Ask for the renewal. OK: the answer will come to those that hang on *ret;
 * NULL: to nobody. */
static snib_err renew_ask(struct snib__step *s, struct snib_grant grant,
                          int64_t lease_ms, struct snib__hold **ret,
                          struct snib_error *reterr)
{
    struct snib__acquisition *acq;
    snib_err err = snib__engine_renew(s->c->engine, s->now, grant.ticket,
                                      snib__ms(lease_ms), &acq, reterr);
    *ret = err ? NULL : acq->user;
    return err;
}

static struct snib__hold *renew_hold_of(struct snib_client *c, uint64_t ticket)
{
    struct snib__acquisition *acq = snib__engine_acquisition(c->engine, ticket);
    return acq ? acq->user : NULL;
}

/* -- the call that blocks --------------------------------------------------- */

static void renew_forget(struct snib_client *c, struct snib__call *call)
{
    struct snib__hold *h = renew_hold_of(c, call->ticket);
    struct snib__call **p = h ? &h->renewers : NULL;
    while (p && *p && *p != call) {
        p = &(*p)->next;
    }
    if (p && *p) {
        *p = call->next;
    }
}

snib_err snib_renew(struct snib_lock *lock, struct snib_grant grant,
                    int64_t lease_ms, struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    struct snib__call call;
    struct snib__hold *h;
    snib_err err = snib__may_call(c, reterr);
    if (!err) {
        err = renew_check(lock, &lease_ms, reterr);
    }
    if (err) {
        return err;
    }
    snib__step_begin(&s, c);
    err = c->stopped ? snib__fail_plain(reterr, SNIB_ERR_CLOSED)
                     : snib__grant_check(lock, grant, reterr);
    if (err) {
        snib__step_end(&s);
        return err;
    }
    snib__call_begin(&s, &call, SNIB__CALL_RENEW,
                     snib__after(s.now, c->request));
    err = renew_ask(&s, grant, lease_ms, &h, reterr);
    if (h) {
        call.ticket = grant.ticket;
        call.next = h->renewers;
        h->renewers = &call;
        if (!snib__call_wait(&s, &call)) {
            renew_forget(c, &call);
            call.err = snib__unanswered(&s, &call.error);
        }
    }
    snib__call_end(&s, &call);
    snib__step_end(&s);
    return err ? err : snib__call_outcome(&call, reterr);
}

/* -- started ------------------------------------------------------------------ */

static void renew_leave(struct snib__step *s, struct snib__renewal *r)
{
    struct snib__hold *h = renew_hold_of(s->c, r->ticket);
    struct snib__renewal **p = h ? &h->renewals : NULL;
    while (p && *p && *p != r) {
        p = &(*p)->next;
    }
    if (p && *p) {
        *p = r->next;
    }
}

static void renew_due(struct snib__step *s, struct snib__op *op)
{
    renew_leave(s, SNIB__CONTAINER(op, struct snib__renewal, op));
    snib_err err = snib__unanswered(s, &op->ev.error);
    snib__op_done(s, op, err, &op->ev.error);
}

/* A client that is closed renews what it holds, until stop releases it. A
 * renewal that is cancelled goes on alone. */
static void renew_give_up(struct snib__step *s, struct snib__op *op,
                          snib_err why)
{
    if (why == SNIB_ERR_CLOSED && !s->c->stopping) {
        return;
    }
    renew_leave(s, SNIB__CONTAINER(op, struct snib__renewal, op));
    if (why == SNIB_ERR_CANCELLED) {
        why = snib__left_open(why, &op->ev.error);
    }
    snib__op_done(s, op, why, &op->ev.error);
}

static void renew_take(struct snib__op *op, struct snib_event *ret)
{
    (void)op;
    (void)ret;
}

static const struct snib__op_kind renew_kind = {
    .due = renew_due, .give_up = renew_give_up, .take = renew_take};

snib_err snib_renew_start(struct snib_lock *lock, struct snib_grant grant,
                          int64_t lease_ms, void *user, uint64_t *ret_ticket,
                          struct snib_error *reterr)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    struct snib__hold *h;
    snib__no_ticket(ret_ticket);
    snib_err err = snib__client_check(c, reterr);
    if (!err) {
        err = renew_check(lock, &lease_ms, reterr);
    }
    if (err) {
        return err;
    }
    struct snib__renewal *r = snib__op_new(sizeof *r, &renew_kind, user);
    snib__step_begin(&s, c);
    if (c->stopped) {
        err = snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    } else if (!r || !snib__op_reserve(&s)) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    } else {
        err = snib__grant_check(lock, grant, reterr);
    }
    err = err ? err : snib__loop_event_fd(c, reterr);
    err = err ? err : renew_ask(&s, grant, lease_ms, &h, reterr);
    if (err) {
        snib__free(r);
    } else {
        r->ticket = grant.ticket;
        snib__op_open(&s, &r->op, snib__after(s.now, c->request));
        snib__op_tell_ticket(&r->op, ret_ticket);
        snib__background_hurry(&s);
        if (h) {
            r->next = h->renewals;
            h->renewals = r;
        } else { /* it has ended */
            snib__op_done(&s, &r->op, SNIB_ERR_OK, NULL);
        }
    }
    snib__op_started(&s);
    return err ? err : snib__ok(reterr);
}

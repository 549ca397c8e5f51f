/* store/sql/native.c — requests for locks of the server's own (native.h).
 *
 *   acquire:  (connection) --try--> it holds: DONE
 *                            |`--another holds it--> NO
 *                            `--may wait--> "lock" is sent and not waited for: QUEUED
 *   polled:   not answered yet --> QUEUED;  answered --> it is looked at once
 *             more, so that it is known when the lease began: DONE
 *
 * Whatever happens to the connection of a request, what it had at the server is
 * over with it. A request that is asked for again begins anew on another one. */
#include "store/sql/native.h"
#include "base/error.h"
#include "core/blocking.h"
#include "core/rules/rules.h"

#define NATIVE_DAY INT64_C(88473600000) /* in 1/1024 ms */

struct native_step {
    struct snib__sql_session *s;
    struct snib__sql_natives *n;
    struct snib__request *r;
    struct snib__sql_hold *hold;
    int64_t got;
    snib_instant sent;
};

/* -- scripts on a connection of its own ------------------------------------ */

/* NULL: the server has failed at it, which says nothing of who holds it. */
static void native_see_got(void *data, struct snib__sql_rows *rows)
{
    struct native_step *k = data;
    k->got = snib__sql_is_null(rows, 0, 0) ? -1 : snib__sql_get_int(rows, 0, 0);
}

/* In the hold: an answer that is owed may be taken by another step. */
static void native_see_clock(void *data, struct snib__sql_rows *rows)
{
    ((struct snib__sql_hold *)data)->us = snib__sql_get_int(rows, 0, 0);
}

static struct snib__sql_script *native_script(struct native_step *k)
{
    snib__sql_script_clear(&k->s->script);
    k->got = 0;
    return &k->s->script;
}

static void native_add_clock(struct native_step *k, struct snib__sql_script *t)
{
    k->hold->us = 0;
    k->n->ops->add_clock(t, native_see_clock, k->hold);
}

/* The end of a step with the server. One that is no primary any more has locks of
 * its own: another one gives them to others. */
static snib__sql_end native_heard(struct native_step *k, snib__sql_end end)
{
    struct snib__sql *q = &k->s->sql;
    snib__sql_heard(q, k->r, end);
    if (!end && !k->hold->us) {
        snib__fail(&q->fault, SNIB_ERR_STORE,
                   "%s: the server is no primary any more", k->n->where);
        return SNIB__SQL_DOWN;
    }
    return end;
}

static snib__sql_end native_run(struct native_step *k)
{
    struct snib__sql *q = &k->s->sql;
    snib__sql_sync(&k->s->script);
    k->sent = q->driver->now();
    snib__sql_end end =
        k->n->ops->run(k->hold, &k->s->script, q->until, &q->fault);
    return native_heard(k, end);
}

/* A lease in whole milliseconds, and never none. A renewal leaves a longer one
 * that stands. */
static int64_t native_lease_ms(const struct native_step *k, snib_duration lease,
                               snib_instant held_until)
{
    int64_t ns = lease.ns;
    int64_t left = held_until.ns
                       ? snib__between(k->s->sql.driver->now(), held_until).ns
                       : 0;
    ns = left > ns ? left : ns;
    int64_t ms = (ns + 999999) / 1000000 + 1;
    return ms < INT32_MAX ? ms : INT32_MAX;
}

/* -- answers --------------------------------------------------------------- */

static void native_answer(struct native_step *k, snib__answer answer,
                          snib_err err)
{
    k->r->said.answer = answer;
    k->r->said.err = err ? snib__fail_plain(k->r->said.reterr, err)
                         : snib__ok(k->r->said.reterr);
}

static void native_drop(struct native_step *k)
{
    if (k->hold) {
        snib__sql_hold_end(k->n, k->hold, false);
    }
    k->hold = NULL;
}

static void native_lease(struct native_step *k)
{
    k->r->said.valid_from = k->sent;
    k->r->said.left = k->r->lease;
    k->r->said.revoked = k->r->said.forgotten = false;
    native_answer(k, SNIB__DONE, SNIB_ERR_OK);
}

static void native_grant(struct native_step *k)
{
    struct snib__request *r = k->r;
    int64_t us = k->hold->us;
    int64_t clock = us / 1000 * 1024 + us % 1000 * 1024 / 1000;
    int64_t token = clock > r->floor ? clock : r->floor + 1;
    k->hold->waits = false;
    if (!snib__is_token(token)) {
        native_drop(k);
        native_answer(k, SNIB__NOT_APPLIED, SNIB_ERR_CORRUPT);
        return;
    }
    r->token = k->hold->token = k->hold->token ? k->hold->token : token;
    r->acquire.reserve = 0;
    r->acquire.permits = 1;
    r->said.slot = 0;
    r->said.far = token > clock + NATIVE_DAY;
    native_lease(k);
}

static void native_wait(struct native_step *k)
{
    k->r->said.left = snib__ms(1000); /* nobody knows */
    k->r->said.position = 0;
    native_answer(k, SNIB__QUEUED, SNIB_ERR_OK);
}

static void native_lost(struct native_step *k)
{
    k->r->said.revoked = false;
    k->r->said.forgotten = true; /* with the session */
    native_answer(k, SNIB__NO, SNIB_ERR_LOST);
}

/* -- an acquire ------------------------------------------------------------ */

/* It holds: since when? */
static snib__sql_end native_confirm(struct native_step *k)
{
    struct snib__sql_script *t = native_script(k);
    k->n->ops->add_stay(t, native_lease_ms(k, k->r->lease, (snib_instant){0}));
    native_add_clock(k, t);
    snib__sql_end end = native_run(k);
    if (!end) {
        native_grant(k);
    }
    return end;
}

static snib__sql_end native_try(struct native_step *k)
{
    struct snib__sql_script *t = native_script(k);
    k->n->ops->add_stay(t, native_lease_ms(k, k->r->lease, (snib_instant){0}));
    k->n->ops->add_try(t, k->r->name, native_see_got, k);
    native_add_clock(k, t);
    snib__sql_end end = native_run(k);
    if (end) {
        return end;
    }
    if (k->got < 0) {
        snib__fail(&k->s->sql.fault, SNIB_ERR_STORE,
                   "%s: the server could not say whether the lock is free",
                   k->n->where);
        return SNIB__SQL_DOWN;
    }
    if (k->got) {
        native_grant(k);
    } else if (!k->r->acquire.may_queue) {
        snib__sql_hold_end(k->n, k->hold, true);
        k->hold = NULL;
        k->r->said.left = snib__ms(1000);
        native_answer(k, SNIB__NO, SNIB_ERR_BUSY);
    } else {
        k->hold->waits = k->n->ops->wait(k->hold, k->r->name);
        if (!k->hold->waits) {
            return SNIB__SQL_DOWN;
        }
        native_wait(k);
    }
    return SNIB__SQL_OK;
}

/* It has what it waited for, or was owed. */
static snib__sql_end native_take(struct native_step *k)
{
    struct snib__sql *q = &k->s->sql;
    snib__sql_end end = k->n->ops->take(k->hold, q->until, &q->fault);
    k->hold->waits = k->hold->owes = false;
    return end;
}

/* It has waited, or holds since an earlier time. */
static snib__sql_end native_again(struct native_step *k)
{
    if (k->hold->owes) { /* to another request than this */
        return SNIB__SQL_LOST;
    }
    if (k->hold->waits && !k->n->ops->heard(k->hold)) {
        native_wait(k);
        return SNIB__SQL_OK;
    }
    snib__sql_end end = k->hold->waits ? native_take(k) : SNIB__SQL_OK;
    return end ? end : native_confirm(k);
}

/* An earlier grant of ours, which this request ends first. */
static void native_end_prior(struct native_step *k)
{
    if (k->r->token) {
        snib__sql_hold_end_other(k->n, k->r->prior_id, k->r->token);
    }
}

static snib__sql_end native_acquire(struct native_step *k)
{
    struct snib__sql *q = &k->s->sql;
    if (k->hold) {
        snib__sql_end end = native_again(k);
        if (!end) {
            return end;
        }
        native_drop(k);
    }
    native_end_prior(k);
    snib__sql_end end =
        snib__sql_hold_new(k->n, k->s, k->r->id, q->until, &k->hold, &q->fault);
    return end ? end : native_try(k);
}

/* -- a grant --------------------------------------------------------------- */

/* DOWN: the answer to a renewal has not come by then. It is still owed; what was
 * promised lasts, and the session with it, so the lock is not let go for that. */
static snib__sql_end native_hear(struct native_step *k, snib_instant until)
{
    if (!k->n->ops->await(k->hold, until)) {
        snib__fail(&k->s->sql.fault, SNIB_ERR_UNREACHABLE,
                   "%s: no answer from the server", k->n->where);
        return SNIB__SQL_DOWN;
    }
    return native_heard(k, native_take(k));
}

/* A question is a statement, too, so the time of the session begins anew: it gets
 * what is left. */
static snib__sql_end native_ask(struct native_step *k)
{
    struct snib__sql_script *t = &k->hold->script;
    const struct snib__request_renew *renew = &k->r->renew;
    snib_duration lease = snib__ms(0);
    if (!renew->only_asks) {
        lease = k->r->lease;
    }
    snib__sql_script_clear(t);
    k->n->ops->add_stay(t, native_lease_ms(k, lease, renew->held_until));
    native_add_clock(k, t);
    snib__sql_sync(t);
    k->sent = k->s->sql.driver->now();
    k->hold->owes = k->n->ops->ask(k->hold);
    return k->hold->owes ? native_hear(k, k->s->sql.until) : SNIB__SQL_LOST;
}

/* An answer that is owed says nothing of what is asked now, but stands before it. */
static snib__sql_end native_renew(struct native_step *k)
{
    struct snib__sql_hold *h = k->hold;
    if (!h || h->waits || h->token != k->r->token) {
        native_lost(k);
        return SNIB__SQL_OK;
    }
    snib__sql_end end =
        h->owes ? native_hear(k, k->s->sql.driver->now()) : SNIB__SQL_OK;
    if (h->owes) {
        return SNIB__SQL_DOWN;
    }
    end = end ? end : native_ask(k);
    if (h->owes) {
        return SNIB__SQL_LOST;
    }
    if (end) { /* it ends with its connection */
        native_drop(k);
        native_lost(k);
    } else {
        native_lease(k);
    }
    return SNIB__SQL_OK;
}

static snib__sql_end native_release(struct native_step *k)
{
    bool ours = k->hold && k->hold->token == k->r->token;
    if (ours && k->hold->owes) { /* nobody knows whether it is still there */
        native_drop(k);
        return SNIB__SQL_LOST;
    }
    if (ours && k->n->ops->heard(k->hold)) { /* it has ended before */
        native_drop(k);
    }
    if (!ours || !k->hold) {
        native_lost(k);
        return SNIB__SQL_OK;
    }
    struct snib__sql_script *t = native_script(k);
    k->n->ops->add_unlock(t, k->r->name, native_see_got, k);
    k->n->ops->add_stay(t, 0);
    snib__sql_end end = native_run(k);
    if (end) { /* asked again it is not there any more */
        native_drop(k);
        return SNIB__SQL_LOST;
    }
    snib__sql_hold_end(k->n, k->hold, k->got > 0);
    k->hold = NULL;
    k->r->said.revoked = k->r->said.forgotten = false;
    if (k->got > 0) {
        native_answer(k, SNIB__DONE, SNIB_ERR_OK);
    } else {
        native_lost(k);
    }
    return SNIB__SQL_OK;
}

/* The server stops waiting for it, or soon ends a session whose client has gone;
 * what it may have got meanwhile goes with that. */
static snib__sql_end native_cancel(struct native_step *k)
{
    k->r->said.granted = 0; /* nobody asks where there are mutexes only */
    native_end_prior(k);
    if (k->hold && k->hold->waits && !k->n->ops->heard(k->hold)) {
        struct snib__sql_script *t = native_script(k);
        k->n->ops->add_cancel(t, k->hold);
        snib__sql_sync(t);
        (void)snib__sql_script_run(k->s, 1);
    }
    native_drop(k);
    native_answer(k, SNIB__DONE, SNIB_ERR_OK);
    return SNIB__SQL_OK;
}

/* -- a check-up ------------------------------------------------------------ */

static snib__sql_end native_doctor(struct native_step *k)
{
    native_answer(k, SNIB__DONE, SNIB_ERR_OK);
    return k->s->sql.driver->doctor(&k->s->sql, k->r);
}

/* -- what it has not ------------------------------------------------------- */

/* As a text; NULL: it has that. */
static const char *native_lacks(const struct snib__sql_native_ops *ops,
                                const struct snib__request *r)
{
    const struct snib__request_acquire *a = &r->acquire;
    switch (r->verb) {
    case SNIB__ACQUIRE:
        return a->kind != SNIB_KIND_MUTEX ? ops->kinds
               : a->delay.ns > 0          ? ops->delay
               : a->priority              ? ops->priority
                                          : NULL;
    case SNIB__RENEW:
    case SNIB__RELEASE:
    case SNIB__CANCEL:
    case SNIB__INSPECT:
    case SNIB__DOCTOR:
        return NULL;
    case SNIB__LIST:
        return ops->list;
    case SNIB__FORCE:
        return ops->force;
    case SNIB__PARAMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY: /* never asked */
        break;
    }
    return ops->rest;
}

/* -- a chain --------------------------------------------------------------- */

static snib__sql_end native_do(struct native_step *k)
{
    switch (k->r->verb) {
    case SNIB__ACQUIRE:
        return native_acquire(k);
    case SNIB__RENEW:
        return native_renew(k);
    case SNIB__RELEASE:
        return native_release(k);
    case SNIB__CANCEL:
        return native_cancel(k);
    case SNIB__INSPECT:
        return snib__sql_native_look(k->s, k->n, k->r);
    case SNIB__DOCTOR:
    case SNIB__LIST: /* what it lacks was answered */
    case SNIB__FORCE:
    case SNIB__PARAMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY:
        break;
    }
    return native_doctor(k);
}

/* What has a connection of its own needs none of the session's. */
static bool native_set_out(struct native_step *k)
{
    struct snib__sql *q = &k->s->sql;
    uint32_t one = 1;
    q->until = snib__after(q->driver->now(), q->request);
    bool own = k->r->verb == SNIB__RENEW || k->r->verb == SNIB__RELEASE ||
               k->r->verb == SNIB__CANCEL;
    if (own || (k->hold && k->r->verb == SNIB__ACQUIRE)) {
        snib__blocking_sends(k->r);
        return true;
    }
    return k->r->verb == SNIB__DOCTOR || snib__sql_set_out(q, &k->r, &one);
}

static void native_one(struct native_step *k)
{
    struct snib__sql *q = &k->s->sql;
    const char *lacks = native_lacks(k->n->ops, k->r);
    if (lacks) {
        k->r->said.answer = SNIB__NOT_APPLIED;
        k->r->said.err =
            snib__fail(k->r->said.reterr, SNIB_ERR_UNSUPPORTED, "%s", lacks);
        return;
    }
    if (k->r->verb != SNIB__DOCTOR) {
        k->hold = snib__sql_hold_use(k->n, k->r->id);
    }
    if (!native_set_out(k)) { /* so it has no connection of its own */
        return;
    }
    snib__sql_end end = native_do(k);
    if (end && k->r->verb == SNIB__ACQUIRE) {
        native_drop(k); /* with which it ends */
        end = end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
    }
    if (end == SNIB__SQL_LOST) {
        native_answer(k, SNIB__UNKNOWN, SNIB_ERR_UNKNOWN);
    } else if (end) {
        snib__sql_in_vain(q, k->r, end);
    } else if (k->r->said.result && k->r->said.result->failed) {
        native_answer(k, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM);
    }
    if (k->hold) {
        snib__sql_hold_leave(k->n, k->hold);
    }
}

void snib__sql_native_execute(struct snib__sql_session *s,
                              struct snib__sql_natives *n,
                              struct snib__list *chain)
{
    SNIB__LIST_EACH (l, chain) {
        struct native_step k = {.s = s, .n = n};
        k.r = SNIB__CONTAINER(l, struct snib__request, link);
        native_one(&k);
    }
}

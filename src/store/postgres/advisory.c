/* store/postgres/advisory.c — requests for advisory locks (advisory.h).
 *
 *   acquire:  (connection) --try--> it holds: DONE
 *                            |`--another holds it--> NO
 *                            `--may wait--> "lock" is sent and not waited for: QUEUED
 *   polled:   not answered yet --> QUEUED;  answered --> it is looked at once
 *             more, so that it is known when the lease began: DONE
 *
 * Whatever happens to the connection of a request, what it had at the server is
 * over with it. A request that is asked for again begins anew on another one. */
#include <stdio.h>

#include "base/error.h"
#include "core/blocking.h"
#include "core/rules/rules.h"
#include "store/postgres/advisory_i.h"

#define ADVISORY_DAY INT64_C(88473600000) /* in 1/1024 ms */

/* -- scripts on a connection of its own ------------------------------------ */

static void advisory_see_got(void *data, struct snib__sql_rows *rows)
{
    ((struct advisory_step *)data)->got = snib__sql_get_int(rows, 0, 0);
}

static void advisory_see_clock(void *data, struct snib__sql_rows *rows)
{
    ((struct advisory_step *)data)->us = snib__sql_get_int(rows, 0, 0);
}

static struct snib__sql_script *advisory_script(struct advisory_step *k)
{
    struct snib__sql_script *t = &k->s->tables.script;
    snib__sql_script_clear(t);
    k->got = k->us = 0;
    return t;
}

static void advisory_add(struct advisory_step *k, int statement)
{
    struct snib__sql_script *t = &k->s->tables.script;
    snib__sql_add(t, statement, advisory_see_got, k);
    snib__sql_int(t, k->key.pair);
    snib__sql_int(t, k->key.pair ? k->key.high : k->key.one);
    snib__sql_int(t, k->key.low);
}

/* How long the session may say nothing. ms 0: as long as it likes. */
static void advisory_add_stay(struct snib__sql_script *t, int64_t ms)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)ms);
    snib__sql_add(t, SNIB__PG_ADVISORY_STAY, NULL, NULL);
    snib__sql_string(t, text);
}

static void advisory_add_clock(struct advisory_step *k)
{
    snib__sql_add(&k->s->tables.script, SNIB__PG_ADVISORY_CLOCK,
                  advisory_see_clock, k);
}

static snib__sql_end advisory_run(struct advisory_step *k)
{
    struct snib__sql *q = &k->s->tables.sql;
    snib__sql_sync(&k->s->tables.script);
    k->sent = q->driver->now();
    snib__sql_end end = snib__pg_run(&k->hold->conn, &k->s->tables.script, 1,
                                     q->until, &q->fault);
    snib__sql_heard(q, k->r, end);
    return end;
}

/* A lease in whole milliseconds, and never none. A renewal leaves a longer one
 * that stands. */
static int64_t advisory_lease_ms(const struct advisory_step *k,
                                 snib_duration lease, snib_instant held_until)
{
    int64_t ns = lease.ns;
    int64_t left =
        held_until.ns
            ? snib__between(k->s->tables.sql.driver->now(), held_until).ns
            : 0;
    ns = left > ns ? left : ns;
    int64_t ms = (ns + 999999) / 1000000 + 1;
    return ms < INT32_MAX ? ms : INT32_MAX;
}

/* -- answers --------------------------------------------------------------- */

static void advisory_answer(struct advisory_step *k, snib__answer answer,
                            snib_err err)
{
    k->r->said.answer = answer;
    k->r->said.err = err ? snib__fail_plain(k->r->said.reterr, err)
                         : snib__ok(k->r->said.reterr);
}

static void advisory_drop(struct advisory_step *k)
{
    if (k->hold) {
        snib__pg_hold_end(k->s->store, k->hold, false);
    }
    k->hold = NULL;
}

static void advisory_lease(struct advisory_step *k)
{
    k->r->said.valid_from = k->sent;
    k->r->said.left = k->r->lease;
    k->r->said.revoked = k->r->said.forgotten = false;
    advisory_answer(k, SNIB__DONE, SNIB_ERR_OK);
}

static void advisory_grant(struct advisory_step *k)
{
    struct snib__request *r = k->r;
    int64_t clock = k->us / 1000 * 1024 + k->us % 1000 * 1024 / 1000;
    int64_t token = clock > r->floor ? clock : r->floor + 1;
    k->hold->waits = false;
    if (!snib__is_token(token)) {
        advisory_drop(k);
        advisory_answer(k, SNIB__NOT_APPLIED, SNIB_ERR_CORRUPT);
        return;
    }
    r->token = k->hold->token = k->hold->token ? k->hold->token : token;
    r->acquire.reserve = 0;
    r->acquire.permits = 1;
    r->said.slot = 0;
    r->said.far = token > clock + ADVISORY_DAY;
    advisory_lease(k);
}

static void advisory_wait(struct advisory_step *k)
{
    k->r->said.left = snib__ms(1000); /* nobody knows */
    k->r->said.position = 0;
    advisory_answer(k, SNIB__QUEUED, SNIB_ERR_OK);
}

static void advisory_lost(struct advisory_step *k)
{
    k->r->said.revoked = false;
    k->r->said.forgotten = true; /* with the session */
    advisory_answer(k, SNIB__NO, SNIB_ERR_LOST);
}

/* -- an acquire ------------------------------------------------------------ */

/* It holds: since when? */
static snib__sql_end advisory_confirm(struct advisory_step *k)
{
    advisory_add_stay(advisory_script(k),
                      advisory_lease_ms(k, k->r->lease, (snib_instant){0}));
    advisory_add_clock(k);
    snib__sql_end end = advisory_run(k);
    if (!end) {
        advisory_grant(k);
    }
    return end;
}

static snib__sql_end advisory_try(struct advisory_step *k)
{
    advisory_add_stay(advisory_script(k),
                      advisory_lease_ms(k, k->r->lease, (snib_instant){0}));
    advisory_add(k, SNIB__PG_ADVISORY_TRY);
    advisory_add_clock(k);
    snib__sql_end end = advisory_run(k);
    if (end) {
        return end;
    }
    if (k->got) {
        advisory_grant(k);
    } else if (!k->r->acquire.may_queue) {
        snib__pg_hold_end(k->s->store, k->hold, true);
        k->hold = NULL;
        k->r->said.left = snib__ms(1000);
        advisory_answer(k, SNIB__NO, SNIB_ERR_BUSY);
    } else if (snib__pg_hold_wait(k->hold, &k->key)) {
        advisory_wait(k);
    } else {
        end = SNIB__SQL_DOWN;
    }
    return end;
}

/* It has waited, or holds since an earlier time. */
static snib__sql_end advisory_again(struct advisory_step *k)
{
    struct snib__sql *q = &k->s->tables.sql;
    if (k->hold->waits && !snib__pg_hold_heard(k->hold)) {
        advisory_wait(k);
        return SNIB__SQL_OK;
    }
    snib__sql_end end = k->hold->waits
                            ? snib__pg_hold_take(k->hold, q->until, &q->fault)
                            : SNIB__SQL_OK;
    return end ? end : advisory_confirm(k);
}

/* An earlier grant of ours, which this request ends first. */
static void advisory_end_prior(struct advisory_step *k)
{
    if (k->r->token) {
        snib__pg_hold_end_other(k->s->store, k->r->prior_id, k->r->token);
    }
}

static snib__sql_end advisory_acquire(struct advisory_step *k)
{
    struct snib__sql *q = &k->s->tables.sql;
    if (k->hold) {
        snib__sql_end end = advisory_again(k);
        if (!end) {
            return end;
        }
        advisory_drop(k);
    }
    advisory_end_prior(k);
    snib__sql_end end =
        snib__pg_hold_new(k->s, k->r->id, q->until, &k->hold, &q->fault);
    return end ? end : advisory_try(k);
}

/* -- a grant --------------------------------------------------------------- */

/* DOWN: the answer to a renewal has not come by then. It is still owed; what was
 * promised lasts, and the session with it, so the lock is not let go for that. */
static snib__sql_end advisory_hear(struct advisory_step *k, snib_instant until)
{
    struct snib__sql *q = &k->s->tables.sql;
    if (!snib__pg_hold_await(k->hold, until)) {
        snib__fail(&q->fault, SNIB_ERR_UNREACHABLE,
                   "%s: no answer from the server", k->s->store->address.where);
        return SNIB__SQL_DOWN;
    }
    snib__sql_end end = snib__pg_hold_take(k->hold, q->until, &q->fault);
    snib__sql_heard(q, k->r, end);
    return end;
}

/* A question is a statement, too, so the time of the session begins anew: it gets
 * what is left. */
static snib__sql_end advisory_ask(struct advisory_step *k)
{
    struct snib__sql_script *t = &k->hold->wait;
    const struct snib__request_renew *renew = &k->r->renew;
    snib_duration lease = snib__ms(0);
    if (!renew->only_asks) {
        lease = k->r->lease;
    }
    snib__sql_script_clear(t);
    advisory_add_stay(t, advisory_lease_ms(k, lease, renew->held_until));
    snib__sql_add(t, SNIB__PG_ADVISORY_CLOCK, NULL, NULL);
    snib__sql_sync(t);
    k->sent = k->s->tables.sql.driver->now();
    return snib__pg_hold_ask(k->hold) ? advisory_hear(k, k->s->tables.sql.until)
                                      : SNIB__SQL_LOST;
}

/* An answer that is owed says nothing of what is asked now, but stands before it. */
static snib__sql_end advisory_renew(struct advisory_step *k)
{
    struct pg_hold *h = k->hold;
    if (!h || h->waits || h->token != k->r->token) {
        advisory_lost(k);
        return SNIB__SQL_OK;
    }
    snib__sql_end end = h->owes
                            ? advisory_hear(k, k->s->tables.sql.driver->now())
                            : SNIB__SQL_OK;
    if (h->owes) {
        return SNIB__SQL_DOWN;
    }
    end = end ? end : advisory_ask(k);
    if (h->owes) {
        return SNIB__SQL_LOST;
    }
    if (end) { /* it ends with its connection */
        advisory_drop(k);
        advisory_lost(k);
    } else {
        advisory_lease(k);
    }
    return SNIB__SQL_OK;
}

static snib__sql_end advisory_release(struct advisory_step *k)
{
    bool ours = k->hold && k->hold->token == k->r->token;
    if (ours && k->hold->owes) { /* nobody knows whether it is still there */
        advisory_drop(k);
        return SNIB__SQL_LOST;
    }
    if (ours && snib__pg_hold_heard(k->hold)) { /* it has ended before */
        advisory_drop(k);
    }
    if (!ours || !k->hold) {
        advisory_lost(k);
        return SNIB__SQL_OK;
    }
    (void)advisory_script(k);
    advisory_add(k, SNIB__PG_ADVISORY_UNLOCK);
    advisory_add_stay(&k->s->tables.script, 0);
    snib__sql_end end = advisory_run(k);
    if (end) { /* asked again it is not there any more */
        advisory_drop(k);
        return SNIB__SQL_LOST;
    }
    snib__pg_hold_end(k->s->store, k->hold, k->got != 0);
    k->hold = NULL;
    k->r->said.revoked = k->r->said.forgotten = false;
    if (k->got) {
        advisory_answer(k, SNIB__DONE, SNIB_ERR_OK);
    } else {
        advisory_lost(k);
    }
    return SNIB__SQL_OK;
}

/* The server stops waiting for it, or soon ends a session whose client has gone;
 * what it may have got meanwhile goes with that. */
static snib__sql_end advisory_cancel(struct advisory_step *k)
{
    k->r->said.granted = 0; /* nobody asks where there are mutexes only */
    advisory_end_prior(k);
    if (k->hold && k->hold->waits && !snib__pg_hold_heard(k->hold)) {
        struct snib__sql_script *t = advisory_script(k);
        snib__sql_add(t, SNIB__PG_ADVISORY_CANCEL, NULL, NULL);
        snib__sql_int(t, snib__pg_hold_pid(k->hold));
        snib__sql_sync(t);
        (void)snib__sql_script_run(&k->s->tables, 1);
    }
    advisory_drop(k);
    advisory_answer(k, SNIB__DONE, SNIB_ERR_OK);
    return SNIB__SQL_OK;
}

/* -- a check-up --------------------------------------------------------------- */

static snib__sql_end advisory_doctor(struct advisory_step *k)
{
    advisory_answer(k, SNIB__DONE, SNIB_ERR_OK);
    return k->s->tables.sql.driver->doctor(&k->s->tables.sql, k->r);
}

/* -- what it has not ------------------------------------------------------- */

/* As a text; NULL: it has that. */
static const char *advisory_lacks(const struct snib__request *r)
{
    const struct snib__request_acquire *a = &r->acquire;
    switch (r->verb) {
    case SNIB__ACQUIRE:
        return a->kind != SNIB_KIND_MUTEX ? "advisory locks are mutexes only "
                                            "here; leave ?dialect= out "
                                            "for other kinds"
               : a->delay.ns > 0
                   ? "an advisory lock keeps no lock-delay; leave it out"
               : a->priority ? "who waits for an advisory lock comes in the "
                               "order of arrival; there are no priorities"
                             : NULL;
    case SNIB__RENEW:
    case SNIB__RELEASE:
    case SNIB__CANCEL:
    case SNIB__INSPECT:
    case SNIB__DOCTOR:
        return NULL;
    case SNIB__LIST:
        return "the server knows the numbers of advisory locks, not their "
               "names, so they cannot be listed; pg_locks shows them";
    case SNIB__FORCE:
        return "an advisory lock is ended by pg_terminate_backend() alone "
               "(docs/ADVISORY.md)";
    case SNIB__PARAMS:
    case SNIB__VALUE_GET:
    case SNIB__VALUE_PUT:
    case SNIB__VALUE_DELETE:
    case SNIB__RECOVERY: /* never asked */
        break;
    }
    return "with advisory locks there are mutexes only, no semaphores, latches "
           "or values; leave ?dialect= out for these";
}

/* -- a chain --------------------------------------------------------------- */

static snib__sql_end advisory_do(struct advisory_step *k)
{
    switch (k->r->verb) {
    case SNIB__ACQUIRE:
        return advisory_acquire(k);
    case SNIB__RENEW:
        return advisory_renew(k);
    case SNIB__RELEASE:
        return advisory_release(k);
    case SNIB__CANCEL:
        return advisory_cancel(k);
    case SNIB__INSPECT:
        return snib__pg_advisory_inspect(k);
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
    return advisory_doctor(k);
}

/* What has a connection of its own needs none of the session's. */
static bool advisory_set_out(struct advisory_step *k)
{
    struct snib__sql *q = &k->s->tables.sql;
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

static void advisory_one(struct advisory_step *k)
{
    struct snib__sql *q = &k->s->tables.sql;
    const char *lacks = advisory_lacks(k->r);
    if (lacks) {
        k->r->said.answer = SNIB__NOT_APPLIED;
        k->r->said.err =
            snib__fail(k->r->said.reterr, SNIB_ERR_UNSUPPORTED, "%s", lacks);
        return;
    }
    if (k->r->verb != SNIB__DOCTOR) {
        k->key = snib__pg_key_of(k->r->name->raw, k->r->name->raw_size);
        k->hold = snib__pg_hold_use(k->s->store, k->r->id);
    }
    if (!advisory_set_out(k)) { /* so it has no connection of its own */
        return;
    }
    snib__sql_end end = advisory_do(k);
    if (end && k->r->verb == SNIB__ACQUIRE) {
        advisory_drop(k); /* with which it ends */
        end = end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
    }
    if (end == SNIB__SQL_LOST) {
        advisory_answer(k, SNIB__UNKNOWN, SNIB_ERR_UNKNOWN);
    } else if (end) {
        snib__sql_in_vain(q, k->r, end);
    } else if (k->r->said.result && k->r->said.result->failed) {
        advisory_answer(k, SNIB__NOT_APPLIED, SNIB_ERR_NOMEM);
    }
    if (k->hold) {
        snib__pg_hold_leave(k->s->store, k->hold);
    }
}

void snib__pg_advisory_execute(struct snib__pg_session *s,
                               struct snib__list *chain)
{
    SNIB__LIST_EACH (l, chain) {
        struct advisory_step k = {.s = s};
        k.r = SNIB__CONTAINER(l, struct snib__request, link);
        advisory_one(&k);
    }
}

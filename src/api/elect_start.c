/* api/elect_start.c — campaigns and resignations that are started.
 *
 * A started campaign is a started acquire of the candidate's lock. What the
 * blocking form does when its acquire has returned (begin the term, tell) the
 * thread does that takes the event. Until then nobody leads, although the lock
 * may be held already; its changes of state begin the term, too, if they come
 * first.
 *
 * A campaign that was resigned meanwhile ends CANCELLED, also when it was
 * granted before: then the grant is given back by the thread that takes the
 * event. The candidate may be freed before that: its operations are on its list
 * and lose it then. */
#include "api/elect_i.h"
#include "base/error.h"
#include "base/mem.h"
#include "snib/event.h"

static void elect_start_enter(struct snib_elect *e, struct snib__elect_op *o)
{
    o->elect = e;
    o->next = e->started;
    e->started = o;
}

static void elect_start_leave(struct snib_elect *e,
                              const struct snib__elect_op *o)
{
    struct snib__elect_op **p = &e->started;
    while (*p && *p != o) {
        p = &(*p)->next;
    }
    if (*p) {
        *p = o->next;
    }
}

/* -- campaign ------------------------------------------------------------------ */

/* What was granted is nobody's: its candidate has resigned, or is gone. */
static void elect_start_lose(struct snib_event *ret)
{
    snib__fail_plain(&ret->error, SNIB_ERR_CANCELLED);
    ret->state = SNIB_STATE_RELEASED;
    ret->grant.token = 0;
}

static void elect_start_won(struct snib_elect *e, struct snib__elect_op *o,
                            struct snib_event *ret)
{
    if (o->quit) {
        e->gone = ret->grant.ticket;
        pthread_mutex_unlock(&e->mu);
        snib__elect_give_back(e, ret->grant);
        pthread_mutex_lock(&e->mu);
        elect_start_lose(ret);
    } else {
        snib__elect_begin_term(e, ret->grant);
        *o->ret_term = ret->grant.token;
    }
}

static void elect_start_take_campaign(struct snib__op *op,
                                      struct snib_event *ret)
{
    struct snib__elect_op *o = SNIB__CONTAINER(op, struct snib__elect_op, op);
    struct snib_elect *e = o->elect;
    if (!e) {
        if (!ret->error.code) { /* given back with the candidate's lock */
            elect_start_lose(ret);
        }
        return;
    }
    pthread_mutex_lock(&e->mu);
    elect_start_leave(e, o);
    if (!ret->error.code) {
        elect_start_won(e, o, ret);
    }
    e->campaigning = false;
    pthread_cond_broadcast(&e->changed);
    snib__elect_tell(e);
    pthread_mutex_unlock(&e->mu);
}

static const struct snib__op_kind elect_start_campaign = {
    .take = elect_start_take_campaign};

/* It leads already: the answer is there. */
static snib_err elect_start_leads(struct snib_elect *e,
                                  struct snib__elect_op *o,
                                  struct snib_grant grant, uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    struct snib__step s;
    snib__step_begin(&s, e->client);
    snib_err err = snib__op_may_start(&s, o ? &o->op : NULL, reterr);
    if (!err) {
        snib__op_answer(&s, &o->op, SNIB_EVENT_GRANTED, grant, SNIB_ERR_OK,
                        NULL);
        if (ret_ticket) {
            *ret_ticket = grant.ticket;
        }
    }
    snib__op_started(&s);
    return err;
}

static snib_err elect_start_stand(struct snib_elect *e, int64_t wait_ms,
                                  struct snib__elect_op *o,
                                  uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    struct snib__how how = {.wait_ms = wait_ms > 0 ? wait_ms : 0};
    how.o.owner = snib_owner_new(); /* so that any thread may resign */
    how.o.reason = e->id;
    return snib__acquire_start(e->lock, &how, o ? &o->op : NULL, ret_ticket,
                               reterr);
}

/* With mu held: the campaign was started, unless there is an error. Somebody
 * may have resigned before there was anything to cancel. */
static void elect_start_begun(struct snib_elect *e, struct snib__elect_op *o,
                              snib_err err)
{
    if (err) {
        if (o) {
            elect_start_leave(e, o);
        }
        e->campaigning = false;
        pthread_cond_broadcast(&e->changed);
        snib__elect_tell(e);
    } else if (snib__elect_started(e) == o && o->quit) {
        snib__elect_quit(e, o);
    }
}

snib_err snib_elect_try_for_start(struct snib_elect *e, int64_t wait_ms,
                                  int64_t *ret_term, void *user,
                                  uint64_t *ret_ticket,
                                  struct snib_error *reterr)
{
    int64_t term;
    snib__no_ticket(ret_ticket);
    snib_err err = snib__client_check(e->client, reterr);
    if (err) {
        return err;
    }
    struct snib__elect_op *o =
        snib__op_new(sizeof *o, &elect_start_campaign, user);
    pthread_mutex_lock(&e->mu);
    err = snib__elect_stands(e, reterr);
    if (err) {
        pthread_mutex_unlock(&e->mu);
        snib__free(o);
        return err;
    }
    bool leads = snib__elect_leads(e, &term);
    struct snib_grant grant = e->grant;
    if (o) {
        o->campaign = true;
        o->ret_term = ret_term;
        elect_start_enter(e, o);
    }
    pthread_mutex_unlock(&e->mu);
    err = leads ? elect_start_leads(e, o, grant, ret_ticket, reterr)
                : elect_start_stand(e, wait_ms, o, ret_ticket, reterr);
    pthread_mutex_lock(&e->mu);
    elect_start_begun(e, o, err);
    pthread_mutex_unlock(&e->mu);
    if (err) {
        snib__free(o);
        return err;
    }
    return snib__ok(reterr);
}

snib_err snib_elect_campaign_start(struct snib_elect *e, int64_t *ret_term,
                                   void *user, uint64_t *ret_ticket,
                                   struct snib_error *reterr)
{
    return snib_elect_try_for_start(e, SNIB__NO_LIMIT, ret_term, user,
                                    ret_ticket, reterr);
}

snib_err snib_elect_try_start(struct snib_elect *e, int64_t *ret_term,
                              void *user, uint64_t *ret_ticket,
                              struct snib_error *reterr)
{
    return snib_elect_try_for_start(e, 0, ret_term, user, ret_ticket, reterr);
}

/* -- resign -------------------------------------------------------------------- */

static void elect_start_take_resign(struct snib__op *op, struct snib_event *ret)
{
    struct snib__elect_op *o = SNIB__CONTAINER(op, struct snib__elect_op, op);
    struct snib_elect *e = o->elect;
    ret->grant.token = 0;
    if (e) {
        pthread_mutex_lock(&e->mu);
        elect_start_leave(e, o);
        e->changes++; /* for watchers that saw it held after the term's end */
        pthread_cond_broadcast(&e->changed);
        pthread_mutex_unlock(&e->mu);
    }
}

static const struct snib__op_kind elect_start_resign = {
    .take = elect_start_take_resign};

/* May a resignation be started? */
static snib_err elect_start_prepare(struct snib_elect *e,
                                    const struct snib__elect_op *o,
                                    struct snib_error *reterr)
{
    struct snib__step s;
    snib__step_begin(&s, e->client);
    snib_err err = snib__op_may_end(&s, o ? &o->op : NULL, reterr);
    snib__step_end(&s);
    return err;
}

/* There was only a campaign to end, and that is being done. */
static void elect_start_resigned(struct snib_elect *e, struct snib__elect_op *o,
                                 uint64_t *ret_ticket)
{
    struct snib__step s;
    snib__step_begin(&s, e->client);
    snib__op_give_ticket(&s, &o->op);
    snib__op_tell_ticket(&o->op, ret_ticket);
    snib__op_done(&s, &o->op, SNIB_ERR_OK, NULL);
    snib__op_started(&s);
}

static snib_err elect_start_release(struct snib_elect *e,
                                    struct snib__elect_op *o,
                                    struct snib_grant grant,
                                    uint64_t *ret_ticket,
                                    struct snib_error *reterr)
{
    snib_err err = snib__release_start(e->lock, grant, &o->op, reterr);
    if (!err && ret_ticket) {
        *ret_ticket = grant.ticket;
    }
    return err;
}

/* With mu held, which is released meanwhile. What is there to resign? ticket 0:
 * only a campaign. */
static snib_err elect_start_leave_term(struct snib_elect *e,
                                       struct snib_grant *ret,
                                       struct snib_error *reterr)
{
    struct snib__elect_op *campaign = snib__elect_started(e);
    if (e->campaigning && !campaign) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "a call campaigns in another thread: end it with "
                          "snib_elect_resign");
    }
    if (campaign) {
        snib__elect_quit(e, campaign);
    }
    *ret = e->grant;
    if (!ret->ticket && !campaign) {
        return snib__elect_nothing(reterr);
    }
    if (ret->ticket) {
        snib__elect_end_term(e);
        snib__elect_note(e, SNIB_ELECT_FOLLOWER, ret->token);
    }
    return SNIB_ERR_OK;
}

snib_err snib_elect_resign_start(struct snib_elect *e, void *user,
                                 uint64_t *ret_ticket,
                                 struct snib_error *reterr)
{
    struct snib_grant grant;
    snib__no_ticket(ret_ticket);
    snib_err err = snib__client_check(e->client, reterr);
    if (err) {
        return err;
    }
    struct snib__elect_op *o =
        snib__op_new(sizeof *o, &elect_start_resign, user);
    err = elect_start_prepare(e, o, reterr);
    pthread_mutex_lock(&e->mu);
    if (!err) {
        err = elect_start_leave_term(e, &grant, reterr);
    }
    if (err) {
        pthread_mutex_unlock(&e->mu);
        snib__free(o);
        return err;
    }
    elect_start_enter(e, o);
    pthread_mutex_unlock(&e->mu);
    if (grant.ticket) {
        err = elect_start_release(e, o, grant, ret_ticket, reterr);
    } else {
        elect_start_resigned(e, o, ret_ticket);
    }
    pthread_mutex_lock(&e->mu);
    if (err) {
        elect_start_leave(e, o);
    }
    snib__elect_tell(e);
    pthread_mutex_unlock(&e->mu);
    if (err) {
        snib__free(o);
        return err;
    }
    return snib__ok(reterr);
}

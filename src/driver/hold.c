/* driver/hold.c — what the driver remembers about an acquisition of the engine.
 *
 *                    acquire                    last release
 *   (no hold) --> waiting --granted--> held ---------------------> ending -->
 *                    |                                        (answer awaited)
 *                    +--refused, left--> (freed)
 *
 * acquisition->user points to the hold from the acquire to the end, so the
 * engine's news find the hold without a search. When an owner re-enters through
 * another handle for the same name, that handle gets a hold of its own in the
 * same chain. So freeing a handle gives back just what was taken through it.
 * The holds of a handle are on its list until they end. */
#include <assert.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/ids.h"
#include "driver/driver.h"
#include "snib/event.h"

void snib__holds_free(struct snib__step *s, struct snib__hold *h)
{
    while (h) {
        struct snib__hold *next = h->next;
        snib__unlink(&h->link);
        snib__watch_ended(s, h);
        snib__free(h->extra);
        snib__free(h);
        h = next;
    }
}

struct snib__hold *snib__hold_new(struct snib__step *s, struct snib_lock *lock,
                                  bool events, void *user)
{
    struct snib__hold *h = snib__alloc(sizeof *h);
    if (!h) {
        return NULL;
    }
    snib__link_init(&h->link);
    h->lock = lock;
    h->fd = -1;
    h->count = 1;
    if ((lock->o.on_change || events) &&
        snib__extra_new(lock, events, user, &h->extra)) {
        snib__holds_free(s, h);
        return NULL;
    }
    return h;
}

/* What a renewal is told. A loss is told by its cause, as release tells it; of
 * anything else the store said why, as far as that is known. */
static void hold_put_why(struct snib__step *s,
                         const struct snib__acquisition *acq, snib_err err,
                         struct snib_error *ret)
{
    char why[sizeof ret->text] = "";
    const char *more = acq && acq->trouble ? acq->trouble : "";
    if (acq && err == SNIB_ERR_LOST) {
        snib__engine_explain(s->c->engine, s->now, acq, why, sizeof why);
    }
    if (*why) {
        snib__fail(ret, err, "%s", why);
    } else {
        snib__fail(ret, err, "%s%s%s", snib_err_text(err),
                   err && *more ? ": " : "", err ? more : "");
    }
}

static void hold_end_renewers(struct snib__step *s, struct snib__hold *h,
                              const struct snib__acquisition *acq, snib_err err)
{
    while (h->renewers) {
        struct snib__call *call = h->renewers;
        h->renewers = call->next;
        hold_put_why(s, acq, err, &call->error);
        snib__call_settle(s, call, err);
    }
    while (h->renewals) {
        struct snib__renewal *r = h->renewals;
        h->renewals = r->next;
        hold_put_why(s, acq, err, &r->op.ev.error);
        snib__op_done(s, &r->op, err, &r->op.ev.error);
    }
}

void snib__holds_ended(struct snib__step *s, struct snib__hold *first)
{
    snib_err why = s->c->stopping ? SNIB_ERR_CLOSED : SNIB_ERR_NOT_HELD;
    for (struct snib__hold *h = first; h; h = h->next) {
        hold_end_renewers(s, h, NULL, why);
        snib__unlink(&h->link);
        snib__watch_ended(s, h);
    }
}

/* -- news ------------------------------------------------------------------ */

/* A latch or barrier was passed. Release the grant at once; nobody waits for
 * the answer. The hold has ended when this returns. */
static void hold_told_passed(struct snib__step *s,
                             struct snib__acquisition *acq,
                             struct snib__hold *h, struct snib_grant grant)
{
    struct snib__op *op = h->op;
    bool awaited;
    h->op = NULL;
    snib__op_answer(s, op, SNIB_EVENT_PASSED, grant, SNIB_ERR_OK, NULL);
    (void)snib__hold_release(s, h->lock, grant.ticket, acq->owner, NULL, NULL,
                             &awaited, NULL);
}

/* False: the hold has ended already. */
static bool hold_told_granted(struct snib__step *s,
                              struct snib__acquisition *acq,
                              struct snib__hold *h)
{
    struct snib_grant grant = {.ticket = acq->ticket, .token = acq->token};
    bool ours = acq->state == SNIB__ACQ_SERVED || acq->state == SNIB__ACQ_DEAD;
    snib_err err = ours ? SNIB_ERR_OK : SNIB_ERR_CLOSED;
    acq->reterr = NULL; /* it pointed into the call's stack or the op */
    if (h->call) {
        h->call->grant = grant;
        snib__call_settle(s, h->call, err);
        h->call = NULL;
    } else if (h->op && h->op->passes && ours) {
        hold_told_passed(s, acq, h, grant);
        return false;
    } else if (h->op) {
        struct snib__op *op = h->op;
        h->op = NULL;
        op->permits = acq->options.permits;
        snib__op_answer(s, op, ours ? SNIB_EVENT_GRANTED : SNIB_EVENT_REFUSED,
                        grant, err, NULL);
    }
    return true;
}

static void hold_told_refused(struct snib__step *s,
                              struct snib__acquisition *acq,
                              struct snib__hold *h)
{
    snib_err err = acq->err;
    struct snib_grant grant = {.ticket = acq->ticket};
    snib__acquisition_done(s->c->engine, acq);
    if (h->call) {
        snib__call_settle(s, h->call, err);
    } else if (h->op) {
        snib__op_answer(s, h->op, SNIB_EVENT_REFUSED, grant, err,
                        &h->op->ev.error);
    }
    snib__holds_free(s, h);
}

static void hold_told_released(struct snib__step *s,
                               struct snib__acquisition *acq,
                               struct snib__hold *h)
{
    snib_err err = acq->err;
    struct snib_grant grant = {.ticket = acq->ticket, .token = acq->token};
    snib__acquisition_done(s->c->engine, acq);
    if (!h) {
        return;
    }
    if (h->call) {
        snib__call_settle(s, h->call, err);
    } else if (h->op) {
        snib__op_answer(s, h->op, SNIB_EVENT_RELEASED, grant, err,
                        &h->op->ev.error);
    }
    snib__holds_free(s, h);
}

void snib__hold_news(struct snib__step *s, struct snib__acquisition *acq,
                     uint8_t news)
{
    assert(snib__mu_is_mine(s->c));
    struct snib__hold *h = acq->user;
    if ((news & SNIB__NEWS_SETTLED) && acq->state == SNIB__ACQ_REFUSED) {
        if (h) {
            hold_told_refused(s, acq, h);
        } else {
            snib__acquisition_done(s->c->engine, acq);
        }
        return;
    }
    if (h && (news & SNIB__NEWS_SETTLED) && !hold_told_granted(s, acq, h)) {
        return;
    }
    if (h && (news & SNIB__NEWS_RENEWED)) {
        hold_end_renewers(s, h, acq, acq->err);
    }
    if (h && (news & SNIB__NEWS_STATE)) {
        snib__holds_changed(s, h, acq);
    }
    if ((news & SNIB__NEWS_RELEASED) && acq->state == SNIB__ACQ_GONE) {
        if (h) { /* its last holds go now: its owner, or stop, released it */
            snib__holds_ended(s, h);
        }
        hold_told_released(s, acq, h);
    }
}

/* -- acquire --------------------------------------------------------------- */

static struct snib__hold *hold_of_lock(struct snib__hold *h,
                                       const struct snib_lock *lock)
{
    while (h && h->lock != lock) {
        h = h->next;
    }
    return h;
}

/* The owner holds the grant already: add this hold to the chain, or count
 * it. */
static void hold_re_entered(struct snib__step *s,
                            const struct snib__acquisition *acq,
                            struct snib__hold *fresh)
{
    struct snib__hold *first = acq->user;
    struct snib__hold *same = hold_of_lock(first, fresh->lock);
    if (same) {
        same->count++;
        snib__holds_free(s, fresh);
        return;
    }
    if (fresh->extra) {
        snib__extra_entered(fresh->extra, acq);
    }
    fresh->ticket = first->ticket;
    fresh->next = first->next;
    first->next = fresh;
    snib__list_push(&fresh->lock->holds, &fresh->link);
}

bool snib__hold_begun(struct snib__step *s, struct snib__acquisition *acq,
                      struct snib__hold *h, struct snib__call *call,
                      struct snib__op *op)
{
    h->ticket = acq->ticket;
    h->call = call;
    h->op = op;
    if (op) {
        op->hold = h;
    }
    if (acq->state == SNIB__ACQ_WAITING) {
        snib__list_push(&h->lock->holds, &h->link);
        return true;
    }
    if (acq->state == SNIB__ACQ_REFUSED) {
        hold_told_refused(s, acq, h);
    } else if (acq->user == h) {
        snib__list_push(&h->lock->holds, &h->link);
        (void)hold_told_granted(s, acq, h);
    } else {
        h->call = NULL;
        h->op = NULL;
        struct snib__hold with = {.call = call, .op = op};
        (void)hold_told_granted(s, acq, &with);
        hold_re_entered(s, acq, h);
    }
    return false;
}

struct snib__acquire_spec snib__hold_spec(const struct snib_lock *lock,
                                          const struct snib__how *how,
                                          snib_instant limit, uint64_t owner)
{
    const struct snib_acquire_options *o = &how->o;
    return (struct snib__acquire_spec){
        .owner = owner,
        .limit = limit,
        .lease = snib__ms(lock->o.lease_ms),
        .hold_max = snib__ms(lock->o.hold_max_ms),
        .try_only = how->wait_ms == 0,
        .fixed = lock->o.fixed_lease,
        .aggressive = lock->o.aggressive,
        .confirm = lock->o.confirm,
        .no_reentry = lock->o.no_reentry,
        .no_hand_over = lock->o.no_local_hand_over,
        .keep_ms = (uint16_t)lock->o.keep_ms,
        .spin = lock->o.spin,
        .passes = lock->passes,
        .kind = lock->o.kind,
        .priority = (int8_t)lock->o.priority,
        .permits = o->all_permits ? 0
                   : o->permits   ? o->permits
                                  : lock->o.permits,
        .capacity = lock->o.capacity,
        .delay = snib__ms(lock->o.lock_delay_ms),
        .reason = o->reason};
}

static snib_err hold_check_permits(const struct snib_lock *lock,
                                   const struct snib__how *how,
                                   struct snib_error *reterr)
{
    const struct snib_acquire_options *o = &how->o;
    if (!o->permits && !o->all_permits) {
        return SNIB_ERR_OK;
    }
    if (lock->o.kind != SNIB_KIND_PERMITS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "permits are asked of a lock that is no semaphore");
    }
    if (o->permits > SNIB_PERMITS_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%u permits; a semaphore has at most %d", o->permits,
                          SNIB_PERMITS_MAX);
    }
    if (o->all_permits && (o->permits || how->wait_ms != 0)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "all_permits takes what there is now: expected "
                          "permits 0 and a try (snib_try)");
    }
    return SNIB_ERR_OK;
}

snib_err snib__hold_acquire(struct snib__step *s, struct snib_lock *lock,
                            const struct snib__how *how, snib_instant limit,
                            uint64_t owner, struct snib__call *call,
                            struct snib__op *op, void *user, bool *ret_awaited,
                            uint64_t *ret_ticket, struct snib_error *reterr)
{
    assert(snib__mu_is_mine(s->c));
    struct snib_client *c = s->c;
    struct snib__acquisition *acq;
    *ret_awaited = false;
    bool states = op && !op->batch && !op->passes;
    struct snib__above above = {0};
    snib_err err = hold_check_permits(lock, how, reterr);
    if (!err && how->o.above) {
        err = snib__above_read(how->o.above, &above, reterr);
    }
    if (err) {
        return err;
    }
    struct snib__hold *h = snib__hold_new(s, lock, states, user);
    if (!h) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    struct snib__acquire_spec spec = snib__hold_spec(lock, how, limit, owner);
    spec.timed = op && !(op->batch && op->batch->call);
    spec.above = above.count ? &above : NULL;
    spec.user = h;
    spec.reterr = call ? &call->error : &op->ev.error;
    err = snib__engine_acquire(c->engine, s->now, lock->local, &spec, &acq,
                               reterr);
    if (err) {
        snib__holds_free(s, h);
        return err;
    }
    *ret_ticket = acq->ticket;
    *ret_awaited = snib__hold_begun(s, acq, h, call, op);
    return SNIB_ERR_OK;
}

/* -- release --------------------------------------------------------------- */

void snib__hold_hand_on(struct snib__hold *from, struct snib__hold *to)
{
    to->renewers = from->renewers;
    to->renewals = from->renewals;
    to->fd = from->fd;
    from->renewers = NULL;
    from->renewals = NULL;
    from->fd = -1;
}

/* Count one hold less. Returns the chain's first hold by then, which is what
 * acquisition->user has to be. */
static struct snib__hold *hold_count_down(struct snib__step *s,
                                          struct snib__hold *first,
                                          const struct snib_lock *lock)
{
    struct snib__hold *h = hold_of_lock(first, lock);
    h = h ? h : first;
    if (--h->count || !first->next) {
        return first;
    }
    struct snib__hold *then = first->next;
    if (h == first) {
        snib__hold_hand_on(h, then);
        first = then;
    } else {
        then = first;
        while (then->next != h) {
            then = then->next;
        }
        then->next = h->next;
    }
    h->next = NULL;
    snib__holds_free(s, h);
    return first;
}

static void hold_last_released(struct snib__step *s,
                               struct snib__acquisition *ending,
                               struct snib__hold *first,
                               struct snib__call *call, struct snib__op *op,
                               bool *ret_awaited)
{
    struct snib_client *c = s->c;
    snib__holds_ended(s, first);
    if (!ending) {
        snib__holds_free(s, first);
        return;
    }
    snib__holds_free(s, first->next);
    first->next = NULL;
    first->call = call;
    first->op = op;
    if (op) {
        op->hold = first;
    }
    *ret_awaited = true;
    if (ending->state == SNIB__ACQ_GONE) {
        *ret_awaited = false;
        hold_told_released(s, ending, first);
    } else if (!call && !op) {
        *ret_awaited = false;
        snib__engine_stop_awaiting(c->engine, ending);
        snib__holds_free(s, first);
    }
}

snib_err snib__hold_release(struct snib__step *s, struct snib_lock *lock,
                            uint64_t ticket, uint64_t owner,
                            struct snib__call *call, struct snib__op *op,
                            bool *ret_awaited, struct snib_error *reterr)
{
    assert(snib__mu_is_mine(s->c));
    struct snib_client *c = s->c;
    struct snib__acquisition *acq = snib__engine_acquisition(c->engine, ticket),
                             *ending;
    struct snib__hold *first = acq ? acq->user : NULL;
    struct snib_error *later = call ? &call->error : op ? &op->ev.error : NULL;
    *ret_awaited = false;
    snib_err err = snib__engine_release(c->engine, s->now, ticket, owner, later,
                                        first, &ending, reterr);
    if (!first && ending) { /* no hold waits for it: let it end by itself */
        snib__engine_stop_awaiting(c->engine, ending);
    }
    if ((err && err != SNIB_ERR_LOST) || !first) {
        return err;
    }
    bool last = ending || !snib__engine_acquisition(c->engine, ticket);
    if (last) {
        hold_last_released(s, ending, first, call, op, ret_awaited);
    } else {
        acq->user = hold_count_down(s, first, lock);
    }
    return err;
}

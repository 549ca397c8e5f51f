/* api/lock.c — handles for names. */
#include <assert.h>
#include <string.h>

#include "api/api.h"
#include "base/error.h"
#include "base/mem.h"
#include "snib/event.h"

static snib_err lock_read_kind(struct snib_lock_options *o,
                               struct snib_error *reterr)
{
    switch (o->kind) {
    case SNIB_KIND_MUTEX:
    case SNIB_KIND_READ:
    case SNIB_KIND_WRITE:
        if (o->permits || o->capacity) {
            return snib__fail(
                reterr, SNIB_ERR_USAGE,
                "permits and capacity are for SNIB_KIND_PERMITS; this "
                "is another kind of lock");
        }
        return SNIB_ERR_OK;
    case SNIB_KIND_PERMITS:
        o->permits = o->permits ? o->permits : 1;
        if (o->permits > SNIB_PERMITS_MAX || o->capacity > SNIB_PERMITS_MAX) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%u permits of %u; a semaphore has at most %d",
                              o->permits, o->capacity, SNIB_PERMITS_MAX);
        }
        if (o->capacity && o->permits > o->capacity) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%u permits of a semaphore that has %u in all",
                              o->permits, o->capacity);
        }
        return SNIB_ERR_OK;
    case SNIB_KIND_BARRIER:
        if (o->permits < 1 || o->permits > SNIB_PERMITS_MAX || o->capacity) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "a barrier of %u parties; expected 1 to %d in "
                              "permits, and no capacity",
                              o->permits, SNIB_PERMITS_MAX);
        }
        return SNIB_ERR_OK;
    }
    return snib__fail(reterr, SNIB_ERR_USAGE, "there is no kind %d of lock",
                      (int)o->kind);
}

/* Only a plain mutex is kept, whose lease is renewed and whose reserve of tokens
 * this client may use. */
static snib_err lock_read_keep(const struct snib_lock_options *o,
                               struct snib_error *reterr)
{
    if (o->keep_ms < 0 || o->keep_ms > SNIB_KEEP_MAX_MS) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "keep_ms is %lld; expected 0 to %d",
                          (long long)o->keep_ms, SNIB_KEEP_MAX_MS);
    }
    if (o->keep_ms &&
        (o->kind != SNIB_KIND_MUTEX || o->fixed_lease || o->aggressive ||
         o->spin || o->no_local_hand_over || o->lock_delay_ms)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "keep_ms is for a mutex without fixed_lease, "
                          "aggressive, spin, no_local_hand_over and "
                          "lock_delay_ms");
    }
    return SNIB_ERR_OK;
}

static snib_err lock_read_options(const struct snib_lock_options *given,
                                  struct snib_lock_options *ret,
                                  struct snib_error *reterr)
{
    snib_err err =
        snib__options_read(given, sizeof *ret, "lock options", ret, reterr);
    if (err) {
        return err;
    }
    if (ret->lease_ms == 0) {
        ret->lease_ms = 30000;
    }
    err = lock_read_kind(ret, reterr);
    if (err) {
        return err;
    }
    if (ret->lock_delay_ms < 0 || ret->lock_delay_ms > SNIB_LEASE_MAX_MS) {
        return snib__fail(
            reterr, SNIB_ERR_USAGE, "lock_delay_ms is %lld; expected 0 to %lld",
            (long long)ret->lock_delay_ms, (long long)SNIB_LEASE_MAX_MS);
    }
    if (ret->priority < -SNIB_PRIORITY_MAX ||
        ret->priority > SNIB_PRIORITY_MAX) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "priority is %d; expected %d to %d", ret->priority,
                          -SNIB_PRIORITY_MAX, SNIB_PRIORITY_MAX);
    }
    if (ret->hold_max_ms < 0) {
        return snib__fail(reterr, SNIB_ERR_USAGE, "hold_max_ms is negative");
    }
    err = lock_read_keep(ret, reterr);
    return err ? err : snib__lease_check(ret->lease_ms, reterr);
}

snib_err snib_lock_new(struct snib_client *c, const char *name,
                       const struct snib_lock_options *options,
                       struct snib_lock **ret, struct snib_error *reterr)
{
    struct snib_lock_options o;
    struct snib__step s;
    *ret = NULL;
    snib_err err = snib__client_check(c, reterr);
    if (!err && !name) {
        err = snib__fail(reterr, SNIB_ERR_USAGE, "the lock has no name");
    }
    if (!err) {
        err = lock_read_options(options, &o, reterr);
    }
    if (err) {
        return err;
    }
    struct snib_lock *lock = snib__alloc(sizeof *lock);
    if (!lock) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    lock->client = c;
    lock->o = o;
    snib__link_init(&lock->link);
    snib__list_init(&lock->holds);
    snib__step_begin(&s, c);
    if (c->closed) {
        err = snib__fail_plain(reterr, SNIB_ERR_CLOSED);
    } else {
        err = snib__engine_local_lock(c->engine, name,
                                      o.name_size ? o.name_size : strlen(name),
                                      &lock->local, reterr);
    }
    if (!err) {
        snib__list_push(&c->locks, &lock->link);
    }
    snib__step_end(&s);
    if (err) {
        snib__free(lock);
        return err;
    }
    *ret = lock;
    return snib__ok(reterr);
}

/* The grant has ended although its owner has not released it, so a stop is
 * under way (nothing else does that). If the store does not answer the stop,
 * nobody will hear of the end: so this handle leaves the grant's chain now. */
static void lock_forget_hold(struct snib__step *s,
                             struct snib__acquisition *acq,
                             struct snib__hold *h)
{
    struct snib__hold *before = acq->user;
    if (before == h) {
        acq->user = h->next;
        if (h->next) {
            snib__hold_hand_on(h, h->next);
        }
    }
    while (before && before->next != h) {
        before = before->next;
    }
    if (before) {
        before->next = h->next;
    }
    h->next = NULL;
    snib__holds_ended(s, h); /* the last hold: its renewing calls are told */
    snib__holds_free(s, h);
}

/* Give back what was taken through this handle. Nobody waits for the answer. */
static void lock_release_hold(struct snib__step *s, struct snib_lock *lock,
                              struct snib__hold *h)
{
    struct snib_client *c = s->c;
    struct snib__acquisition *acq =
        snib__engine_acquisition(c->engine, h->ticket);
    bool awaited;
    if (!acq) { /* stop ended it */
        snib__unlink(&h->link);
        snib__holds_free(s, h);
    } else if (acq->state == SNIB__ACQ_WAITING ||
               acq->state == SNIB__ACQ_LEAVING) {
        struct snib__op *op = h->op;
        struct snib__call *call = h->call; /* a misuse: it is in use */
        struct snib_grant grant = {.ticket = h->ticket};
        snib_err err = snib__engine_give_up_now(c->engine, s->now, acq,
                                                SNIB_ERR_CANCELLED);
        if (op) {
            snib__op_answer(s, op, SNIB_EVENT_REFUSED, grant, err, NULL);
        } else if (call) {
            snib__call_settle(s, call, err);
        }
        snib__holds_free(s, h);
    } else if (acq->state == SNIB__ACQ_SERVED || acq->state == SNIB__ACQ_DEAD) {
        snib_err err = snib__hold_release(s, lock, h->ticket, acq->owner, NULL,
                                          NULL, &awaited, NULL);
        /* Its ticket is one of this client's, and its owner releases it. */
        assert(!err || err == SNIB_ERR_LOST);
    } else {
        lock_forget_hold(s, acq, h);
    }
}

void snib_lock_free(struct snib_lock *lock)
{
    struct snib__step s;
    if (!lock || snib__client_check(lock->client, NULL)) {
        return; /* in a forked child snib_client_free frees it */
    }
    struct snib_client *c = lock->client;
    snib__step_begin(&s, c);
    struct snib__link *l;
    while ((l = snib__list_first(&lock->holds))) {
        lock_release_hold(&s, lock,
                          SNIB__CONTAINER(l, struct snib__hold, link));
        snib__step_act(&s);
    }
    while (c->notices.telling == lock &&
           !pthread_equal(c->notices.teller, pthread_self())) {
        snib__mu_wait(c, &c->notices.told);
    }
    snib__unlink(&lock->link);
    snib__engine_local_lock_unref(c->engine, lock->local);
    snib__step_end(&s);
    snib__free(lock);
}

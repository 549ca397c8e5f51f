/* run/watch.c — telling the owner: callback, descriptor, STATE event; and what a
 * grant is when somebody asks.
 *
 * The engine says that an acquisition's state changed. Here this becomes what
 * the owner asked for. Nothing is allocated at that moment: the extra of a hold
 * was made with the acquire. It holds the latest state, not a queue. A change
 * that was undone before anybody could be told is not told. Callbacks run on
 * the background thread (in a pull client in snib_process), one at a time, with
 * no lock of the library held, on copies: the grant may be released meanwhile.
 * snib_lock_free waits for the lock's running callback.
 *
 * Each handle that holds the grant is told separately: its hold has an extra of
 * its own, which ends with the hold. The descriptor belongs to the grant: it
 * goes on to the next hold.
 *
 * A loss descriptor outlives its grant a little. It becomes readable at the
 * release too, and a thread that polls it must not find its number used for
 * another file the next moment. So the last 16 ended ones of a client stay
 * open. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "run/inside.h"

snib_err snib__extra_new(struct snib_lock *lock, bool events, void *user,
                         struct snib__extra **ret)
{
    struct snib__extra *x = *ret = snib__alloc(sizeof *x);
    if (!x) {
        return SNIB_ERR_NOMEM;
    }
    snib__link_init(&x->notice);
    snib__link_init(&x->state.link);
    x->state.keep = true;
    x->state.ev.kind = SNIB_EV_STATE;
    x->state.ev.user = user;
    x->on_change = lock->o.on_change;
    x->data = lock->o.data;
    x->lock = lock;
    x->events = events;
    x->now_state = x->told_state = x->seen_state = SNIB_HELD;
    return SNIB_ERR_OK;
}

static void watch_retire(struct snib_client *c, int fd)
{
    int *slot = &c->retired[c->retired_next++ %
                            (sizeof c->retired / sizeof c->retired[0])];
    if (*slot >= 0) {
        close(*slot);
    }
    *slot = fd;
}

void snib__retired_close(struct snib_client *c)
{
    for (size_t i = 0; i < sizeof c->retired / sizeof c->retired[0]; i++) {
        if (c->retired[i] >= 0) {
            close(c->retired[i]);
        }
        c->retired[i] = -1;
    }
}

void snib__watch_ended(struct snib__step *s, struct snib__hold *h)
{
    if (h->extra) {
        snib__unlink(&h->extra->notice);
        snib__unlink(&h->extra->state.link);
    }
    if (h->fd >= 0) {
        if (!s->c->in_child) {
            snib__eventfd_set(h->fd);
        }
        watch_retire(s->c, h->fd);
        h->fd = -1;
    }
}

void snib__extra_entered(struct snib__extra *x,
                         const struct snib__acquisition *acq)
{
    x->now_state = x->told_state = x->seen_state = acq->shown;
}

static void watch_extra_changed(struct snib__step *s, struct snib__extra *x,
                                const struct snib__acquisition *acq)
{
    x->grant = (struct snib_grant){.ticket = acq->ticket, .token = acq->token};
    x->now_state = acq->shown;
    x->now_cause = acq->cause;
    snib__unlink(&x->notice);
    if (x->on_change && x->now_state != x->told_state) {
        snib__list_push(&s->c->notices, &x->notice);
    }
    if (x->events && x->now_state != x->seen_state) {
        x->seen_state = x->now_state;
        x->state.ev.grant = x->grant;
        x->state.ev.state = (snib_state)x->now_state;
        x->state.ev.cause = (snib_cause)x->now_cause;
        snib__unlink(&x->state.link);
        snib__op_push(s, &x->state);
    }
}

void snib__holds_changed(struct snib__step *s, struct snib__hold *first,
                         const struct snib__acquisition *acq)
{
    for (struct snib__hold *h = first; h; h = h->next) {
        if (h->extra) {
            watch_extra_changed(s, h->extra, acq);
        }
    }
    if (acq->shown == SNIB_LOST && first->fd >= 0) {
        snib__eventfd_set(first->fd);
    }
}

void snib__notices_tell(struct snib__step *s)
{
    struct snib_client *c = s->c;
    struct snib__link *l;
    while (!c->telling && (l = snib__list_pop(&c->notices))) {
        struct snib__extra *x = SNIB__CONTAINER(l, struct snib__extra, notice);
        void (*on_change)(void *, struct snib_grant, snib_state, snib_cause) =
            x->on_change;
        void *data = x->data;
        struct snib_grant grant = x->grant;
        snib_state state = (snib_state)x->now_state;
        snib_cause cause = (snib_cause)x->now_cause;
        x->told_state = x->now_state;
        c->telling = x->lock;
        c->teller = pthread_self();
        snib__step_pause(s);
        on_change(data, grant, state, cause);
        snib__step_again(s);
        c->telling = NULL;
        pthread_cond_broadcast(&c->told);
    }
}

int snib_grant_fd(struct snib_lock *lock, struct snib_grant grant)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    int fd = -1, err = 0;
    if (snib__client_check(c, NULL)) {
        errno = ENOENT;
        return -1;
    }
    snib__step_begin(&s, c);
    struct snib__acquisition *acq = snib__grant_of(lock, grant);
    struct snib__hold *h = acq ? acq->user : NULL;
    struct snib_status status = {.state = SNIB_RELEASED};
    if (h) {
        snib__engine_status(c->engine, s.now, acq, &status);
    }
    if (status.state == SNIB_RELEASED) {
        err = ENOENT;
    } else {
        if (h->fd < 0) {
            h->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
            err = h->fd < 0 ? errno : 0;
        }
        fd = h->fd;
        if (fd >= 0 && status.state == SNIB_LOST) {
            snib__eventfd_set(fd);
        }
    }
    snib__step_end(&s);
    if (fd < 0) {
        errno = err;
    }
    return fd;
}

/* -- looking at the clock -------------------------------------------------- */

void snib_grant_status(struct snib_lock *lock, struct snib_grant grant,
                       struct snib_status *ret)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    *ret = (struct snib_status){
        .state = SNIB_RELEASED, .token = grant.token, .slot = -1};
    if (snib__client_check(c, NULL)) {
        return;
    }
    snib__step_begin(&s, c);
    struct snib__acquisition *acq = snib__grant_of(lock, grant);
    if (acq) {
        snib__engine_status(c->engine, s.now, acq, ret);
    }
    snib__step_end(&s);
}

void snib_grant_explain(struct snib_lock *lock, struct snib_grant grant,
                        char *ret_text, size_t size)
{
    struct snib_client *c = lock->client;
    struct snib__step s;
    if (size) {
        ret_text[0] = 0;
    }
    if (snib__client_check(c, NULL)) {
        return;
    }
    snib__step_begin(&s, c);
    struct snib__acquisition *acq = snib__grant_of(lock, grant);
    if (acq) {
        snib__engine_explain(c->engine, s.now, acq, ret_text, size);
    }
    snib__step_end(&s);
}

bool snib_grant_held(struct snib_lock *lock, struct snib_grant grant)
{
    struct snib_status status;
    snib_grant_status(lock, grant, &status);
    /* HELD is true up to the deadline itself. AT_RISK may also mean that the
     * deadline of an aggressive grant has passed. left_ms is 0 in the last
     * millisecond already. */
    return status.state == SNIB_HELD ||
           (status.state == SNIB_AT_RISK && status.left_ms > 0);
}

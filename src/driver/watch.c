/* driver/watch.c — telling the owner: callback, descriptor, STATE event.
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
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "driver/driver.h"

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
    int *slot = &c->notices.retired[c->notices.retired_next++ % SNIB__RETIRED];
    if (*slot >= 0) {
        close(*slot);
    }
    *slot = fd;
}

void snib__retired_close(struct snib_client *c)
{
    for (size_t i = 0; i < SNIB__RETIRED; i++) {
        if (c->notices.retired[i] >= 0) {
            close(c->notices.retired[i]);
        }
        c->notices.retired[i] = -1;
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
        snib__list_push(&s->c->notices.due, &x->notice);
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
    while (!c->notices.telling && (l = snib__list_pop(&c->notices.due))) {
        struct snib__extra *x = SNIB__CONTAINER(l, struct snib__extra, notice);
        void (*on_change)(void *, struct snib_grant, snib_state, snib_cause) =
            x->on_change;
        void *data = x->data;
        struct snib_grant grant = x->grant;
        snib_state state = (snib_state)x->now_state;
        snib_cause cause = (snib_cause)x->now_cause;
        x->told_state = x->now_state;
        c->notices.telling = x->lock;
        c->notices.teller = pthread_self();
        snib__step_pause(s);
        on_change(data, grant, state, cause);
        snib__step_again(s);
        c->notices.telling = NULL;
        pthread_cond_broadcast(&c->notices.told);
    }
}

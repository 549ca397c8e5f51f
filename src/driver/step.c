/* driver/step.c — one visit to a client: lock, read the clock, unlock, wake.
 *
 * All that happens to a client happens in such visits. Between begin and end
 * the thread has the mutex. It notes in its step whom it has to wake, and wakes
 * them after it has unlocked (rule 2 in driver.h); where the step has no room
 * for one more, it wakes that one at once. */
#include "base/mem.h"
#include "base/unset.h"
#include "driver/driver.h"

snib_instant snib__step_virtual_now(const struct snib_client *c)
{
    snib_instant now;
    return c->virtual_clock(c->exec.instance, &now) ? now : snib__boottime();
}

static void step_tell_logs(struct snib_client *c, struct snib__list *lines)
{
    struct snib__link *l;
    while ((l = snib__list_pop(lines))) {
        struct snib__log_line *line =
            SNIB__CONTAINER(l, struct snib__log_line, link);
        c->log.tell(c->log.data, line->level, line->text);
        snib__free(line);
    }
}

/* Unlock, then wake (rule 2). A call that is woken here may have returned
 * already, and its stack may be gone. So its word is only an address for the
 * kernel (park.h). The wakers' descriptors, and the notifier's word, live as
 * long as the client. */
void snib__step_pause(struct snib__step *s)
{
    struct snib_client *c = s->c;
    struct snib__list logs;
    snib__word *shared = NULL;
    uint32_t value = 0;
    SNIB__UNSET int waker[SNIB__SOCKETS_MAX];
    uint32_t wakers = 0, words = s->words;
    bool kick = false;
    SNIB__SOCKS_EACH(i, &s->wakers)
    {
        const struct snib__socket *l = c->sock.v[i];
        if (l->word) {
            shared = l->word;
            value = l->value;
        } else {
            waker[wakers++] = l->waker;
        }
    }
    if (s->event && !c->ops.set && c->ops.fd >= 0) {
        /* This is done under the mutex: afterwards snib_client_next could clear
         * the descriptor too early. */
        c->ops.set = true;
        snib__eventfd_set(c->ops.fd);
    }
    if (s->kick && !s->background && c->loop.timer >= 0 &&
        c->loop.armed.ns != 0) {
        kick = true;
    }
    snib__list_init(&logs);
    snib__list_append(&logs, &c->log.lines);
    snib__socks_clear(&s->wakers);
    s->words = 0;
    s->event = s->kick = false;
    if (kick) {
        snib__loop_set_timer(c, (snib_instant){0}); /* fires at once */
    }
    snib__mu_given(c);
    pthread_mutex_unlock(&c->mu);
    for (uint32_t i = 0; i < words; i++) {
        snib__park_wake(s->word[i]);
    }
    for (uint32_t i = 0; i < wakers; i++) {
        snib__eventfd_set(waker[i]);
    }
    if (shared) {
        snib__park_wake_shared(shared, value);
    }
    if (!snib__list_empty(&logs)) {
        step_tell_logs(c, &logs);
    }
}

/* -- waking ---------------------------------------------------------------- */

void snib__waiter_wake(void *data, struct snib__waiter *w)
{
    struct snib__step *s = data;
    struct snib__call *call = snib__call_of(w);
    if (w->posture == SNIB__POLLING) {
        snib__socks_put(&s->wakers, call->waker, true);
        return;
    }
    /* An answered call that reads no socket needs the mutex no more. With 64
     * threads this saves half of all contention for it. Once its word is
     * marked, the call may return at any time. */
    bool home =
        w->done && snib__socks_empty(&w->leads) && call->returns_unlocked;
    if (!(home ? snib__park_settle(&call->word)
               : snib__park_mark(&call->word))) {
        return; /* it was marked before */
    }
    if (s->words < sizeof s->word / sizeof s->word[0]) {
        s->word[s->words++] = &call->word;
    } else {
        snib__park_wake(&call->word); /* very many: wake it under the mutex */
    }
}

void snib__call_settle(struct snib__step *s, struct snib__call *call,
                       snib_err err)
{
    call->err = err;
    snib__roles_done(&call->w, snib__waiter_wake, s);
}

void snib__socket_wake(struct snib__step *s, uint32_t i)
{
    snib__waiter_wake(s, s->c->calls.roles.sock[i].call);
}

void snib__call_wake(struct snib__step *s, struct snib__call *call)
{
    if (call->w.posture != SNIB__RUNNING) {
        snib__waiter_wake(s, &call->w);
    }
}

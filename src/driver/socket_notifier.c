/* driver/socket_notifier.c — the notifier of a store that blocks and has no
 * connections: how the client hears that one of its waits may be over.
 *
 * The store has a descriptor, which the reader of this socket polls, a call or
 * the background thread. The mapped file also has a word in memory: a call
 * sleeps on that by a futex, so who wakes it wakes no thread between, and
 * nothing has to be polled. The background thread watches the descriptor
 * meanwhile, for what only that tells (the end of a holder's process). */
#include "driver/socket_notifier.h"

#include "driver/driver.h"

void snib__socket_notifier(struct snib_client *c)
{
    if (!c->exec.ops) {
        return;
    }
    int fd = c->exec.ops->notifier_fd(c->exec.instance);
    struct snib__socket *l = c->sock.v[SNIB__NOTIFIER_SOCKET];
    if (l->fd == fd || c->stopped ||
        snib__socket_furnish(c, SNIB__NOTIFIER_SOCKET)) {
        return; /* without it the poll finds out later */
    }
    l->fd = fd;
    l->state = fd < 0 ? SNIB__SOCKET_DOWN : SNIB__SOCKET_UP;
    l->watched = false;
    l->armed = 0;
    snib__socket_needs(c, SNIB__NOTIFIER_SOCKET);
    if (c->pull) {
        snib__socket_polled(c);
    }
    snib__loop_watch(c, SNIB__NOTIFIER_SOCKET);
}

void snib__socket_polled(struct snib_client *c)
{
    const struct snib__blocking_ops *ops = c->exec.ops;
    if (ops && ops->notifier_polled) {
        ops->notifier_polled(c->exec.instance);
    }
}

void snib__socket_notified(struct snib__step *s)
{
    struct snib__input in = {.kind = SNIB__IN_NOTIFIED};
    snib__engine_input(s->c->engine, s->now, &in);
    if (s->c->virtual_clock) { /* the clock was advanced */
        snib__engine_tick(s->c->engine, s->now);
    }
}

bool snib__socket_sleep(struct snib__step *s, struct snib__call *me, int64_t ns)
{
    struct snib_client *c = s->c;
    const struct snib__blocking_ops *ops = c->exec.ops;
    struct snib__socket *l;
    uint32_t value;
    if (!ops->notifier_word || c->pull) {
        return false;
    }
    snib__word *word = ops->notifier_word(c->exec.instance, &value);
    if (!word) {
        return false;
    }
    l = c->sock.v[SNIB__NOTIFIER_SOCKET];
    snib__loop_arm(c, SNIB__NOTIFIER_SOCKET, true);
    l->word = word;
    l->value = value;
    me->w.posture = SNIB__POLLING;
    me->waker = SNIB__NOTIFIER_SOCKET;
    snib__step_pause(s);
    snib__park_wait_shared(word, value, ns);
    snib__step_again(s);
    me->w.posture = SNIB__RUNNING;
    l->word = NULL;
    (void)snib__park_leave_shared(word, value);
    return true;
}

/* driver/background_socks.c — which sockets the background thread watches.
 *
 * Lazy watching. When a process shares a lock with others in quick succession,
 * one of its calls reads the subscription nearly all the time. Giving the
 * socket to the background thread between two calls would cost an epoll_ctl and
 * an idle wake-up of this thread per section. What is pushed while nobody waits
 * is not urgent (revoke notices; deadlines are kept anyway). So a socket that
 * only may speak is armed SNIB__LAZY_MS later, if no call has taken it by then.
 * It is armed at once when an answer is due or an operation waits for one, and
 * where the clock is virtual: a timer of the kernel cannot wait for that
 * clock. */
#include "driver/driver.h"
#include "driver/socket_notifier.h"

static bool background_socks_urgent(const struct snib_client *c, uint32_t i)
{
    const struct snib__socket *l = c->sock.v[i];
    return c->pull || c->virtual_clock || !snib__list_empty(&c->ops.pending) ||
           !snib__list_empty(&c->ops.asking) || snib__socket_is_busy(l);
}

/* From now on the background thread is told of what is to be read there. */
static void background_socks_arm(struct snib_client *c, uint32_t i)
{
    struct snib__socket *l = c->sock.v[i];
    l->lazy = SNIB__NEVER;
    if (!l->conn) {
        snib__socket_polled(c);
    }
    snib__loop_arm(c, i, true);
}

void snib__background_given(struct snib__step *s,
                            const struct snib__socks *given)
{
    struct snib_client *c = s->c;
    SNIB__SOCKS_EACH(i, given)
    {
        struct snib__socket *l = c->sock.v[i];
        if (background_socks_urgent(c, i)) {
            background_socks_arm(c, i);
        } else {
            l->lazy = snib__after(s->now, snib__ms(SNIB__LAZY_MS));
            if (!s->background && l->lazy.ns < c->loop.armed.ns) {
                snib__loop_set_timer(c, l->lazy);
            }
        }
    }
}

/* An operation waits: the background thread watches at once what it would
 * have watched later. */
void snib__background_hurry(struct snib__step *s)
{
    struct snib_client *c = s->c;
    struct snib__socks lazy = {{0}};
    SNIB__SOCKS_EACH(i, &c->sock.look)
    {
        const struct snib__socket *l = c->sock.v[i];
        snib__socks_put(&lazy, i,
                        l->fd >= 0 && l->lazy.ns != INT64_MAX &&
                            c->calls.roles.sock[i].reader == SNIB__BACKGROUND);
    }
    snib__background_given(s, &lazy);
}

/* Before the background thread sleeps: watch the sockets that it reads, and let
 * go of those that need no reader. */
snib_instant snib__background_watch(struct snib__step *s)
{
    struct snib_client *c = s->c;
    snib_instant at = SNIB__NEVER;
    const struct snib__need *need = snib__sockets_need(c);
    struct snib__socks due = snib__socks_or(&need->replies, &need->pushes);
    SNIB__SOCKS_EACH(i, &c->sock.look)
    {
        struct snib__socket *l = c->sock.v[i];
        if (l->fd < 0) {
            snib__socks_put(&c->sock.look, i, false);
            continue;
        }
        if (c->calls.roles.sock[i].reader == SNIB__CALL) {
            continue;
        }
        if (!snib__socks_has(&due, i)) {
            snib__roles_idle(&c->calls.roles, i);
            snib__loop_arm(c, i, false);
            snib__socks_put(&c->sock.look, i, false);
            continue;
        }
        (void)snib__roles_keep(&c->calls.roles, i);
        if (background_socks_urgent(c, i) || snib__reached(s->now, l->lazy) ||
            l->lazy.ns == INT64_MAX) {
            background_socks_arm(c, i);
        } else {
            at = snib__sooner(at, l->lazy);
        }
    }
    return at;
}

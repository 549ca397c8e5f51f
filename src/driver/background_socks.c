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

static bool background_socks_urgent(const struct snib_client *c, uint32_t i)
{
    const struct snib__socket *l = &c->sock[i];
    return c->pull || c->virtual_clock || !snib__list_empty(&c->ops.pending) ||
           !snib__list_empty(&c->ops.asking) ||
           l->state == SNIB__SOCKET_CONNECTING || l->blocked ||
           (i < SNIB__CONNS && c->out->conn[i].awaited);
}

void snib__background_given(struct snib__step *s, uint32_t socks)
{
    struct snib_client *c = s->c;
    for (uint32_t i = 0; socks >> i; i++) {
        struct snib__socket *l = &c->sock[i];
        if (!(socks >> i & 1)) {
            continue;
        }
        if (background_socks_urgent(c, i)) {
            l->lazy = SNIB__NEVER;
            snib__loop_arm(c, i, true);
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
    uint32_t lazy = 0;
    for (uint32_t i = 0; i < SNIB__SOCKETS; i++) {
        if (c->sock[i].fd >= 0 && c->sock[i].lazy.ns != INT64_MAX &&
            c->calls.roles.sock[i].reader == SNIB__BACKGROUND) {
            lazy |= 1u << i;
        }
    }
    snib__background_given(s, lazy);
}

/* Before the background thread sleeps: watch the sockets that it reads, and let
 * go of those that need no reader. */
snib_instant snib__background_watch(struct snib__step *s)
{
    struct snib_client *c = s->c;
    snib_instant due = SNIB__NEVER;
    uint32_t replies, pushes;
    snib__sockets_need(c, &replies, &pushes);
    for (uint32_t i = 0; i < SNIB__SOCKETS; i++) {
        struct snib__socket *l = &c->sock[i];
        if (l->fd < 0 || c->calls.roles.sock[i].reader == SNIB__CALL) {
            continue;
        }
        if (!((replies | pushes) >> i & 1)) {
            snib__roles_idle(&c->calls.roles, i);
            snib__loop_arm(c, i, false);
            continue;
        }
        (void)snib__roles_keep(&c->calls.roles, i);
        if (background_socks_urgent(c, i) || snib__reached(s->now, l->lazy) ||
            l->lazy.ns == INT64_MAX) {
            l->lazy = SNIB__NEVER;
            snib__loop_arm(c, i, true);
        } else {
            due = snib__sooner(due, l->lazy);
        }
    }
    return due;
}

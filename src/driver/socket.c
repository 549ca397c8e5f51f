/* driver/socket.c — the driver's end of the engine's connections.
 *
 *   DOWN --open, a name--> RESOLVING --resolver--> CONNECTING --> UP
 *     ^--open, an address-----------------------^   |            |
 *     +---------- refused, shut, closed by the peer --------------+
 *
 * Nobody closes a descriptor while a thread may be asleep in ppoll on it: its
 * number could be given to another file of the process meanwhile, and the
 * reader would read that. So shutting a socket whose reader sleeps only marks
 * it, shuts it down and notifies; the reader closes it. The background thread
 * is no such reader: epoll forgets closed descriptors by itself.
 *
 * The notifier of a blocking store counts as a socket too
 * (SNIB__NOTIFIER_SOCKET); its descriptor belongs to the store. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "driver/driver.h"

void snib__socket_needs(struct snib_client *c, uint32_t i)
{
    const struct snib__socket *l = c->sock.v[i];
    const struct snib__conn *conn = l->conn;
    bool reply = l->fd >= 0 && conn &&
                 (conn->awaited || l->state == SNIB__SOCKET_CONNECTING ||
                  l->blocked || l->closing);
    bool push = l->fd >= 0 && !reply && (!conn || conn->pushes);
    snib__socks_put(&c->sock.need.replies, i, reply);
    snib__socks_put(&c->sock.need.pushes, i, push);
    if (l->fd >= 0) {
        snib__socks_put(&c->sock.look, i, true);
    }
}

static void socket_feed(struct snib__step *s, snib__input_kind kind, uint32_t i,
                        const void *bytes, size_t size)
{
    struct snib__input in = {
        .kind = kind, .conn = i, .bytes = bytes, .size = size};
    snib__engine_input(s->c->engine, s->now, &in);
}

static void socket_feed_refused(struct snib__step *s, uint32_t i,
                                const char *why, bool hopeless)
{
    struct snib__input in = {.kind = SNIB__IN_REFUSED,
                             .conn = i,
                             .hopeless = hopeless,
                             .bytes = why,
                             .size = strlen(why)};
    struct snib__socket *l = s->c->sock.v[i];
    l->state = SNIB__SOCKET_DOWN;
    snib__free(l->addresses);
    l->addresses = NULL;
    snib__roles_idle(&s->c->calls.roles, i);
    snib__engine_input(s->c->engine, s->now, &in);
}

/* Make what a socket needs once and keeps. */
snib_err snib__socket_furnish(struct snib_client *c, uint32_t i)
{
    struct snib__socket *l = c->sock.v[i];
    if (!l->in && l->conn && !(l->in = snib__alloc(SNIB__SOCKET_IN))) {
        return SNIB_ERR_NOMEM;
    }
    if (l->waker < 0) {
        l->waker = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    return l->waker < 0 ? SNIB_ERR_LIMIT : SNIB_ERR_OK;
}

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
    snib__loop_watch(c, SNIB__NOTIFIER_SOCKET);
}

void snib__socket_notified(struct snib__step *s)
{
    struct snib__input in = {.kind = SNIB__IN_NOTIFIED};
    snib__engine_input(s->c->engine, s->now, &in);
    if (s->c->virtual_clock) { /* the clock was advanced */
        snib__engine_tick(s->c->engine, s->now);
    }
}

static void socket_opened(struct snib__step *s, uint32_t i)
{
    struct snib__socket *l = s->c->sock.v[i];
    l->state = SNIB__SOCKET_UP;
    snib__free(l->addresses);
    l->addresses = NULL;
    snib__socket_needs(s->c, i);
    socket_feed(s, SNIB__IN_OPENED, i, NULL, 0);
}

static void socket_drop_fd(struct snib__step *s, uint32_t i)
{
    struct snib__socket *l = s->c->sock.v[i];
    if (l->fd >= 0) {
        close(l->fd); /* it leaves the epoll set by itself */
    }
    l->fd = -1;
    l->watched = l->blocked = l->closing = false;
    l->armed = 0;
    l->state = SNIB__SOCKET_DOWN;
    l->lazy = SNIB__NEVER;
    snib__socket_needs(s->c, i);
}

void snib__socket_close(struct snib__step *s, uint32_t i)
{
    socket_drop_fd(s, i);
    snib__free(s->c->sock.v[i]->addresses);
    s->c->sock.v[i]->addresses = NULL;
    snib__roles_idle(&s->c->calls.roles, i);
    socket_feed(s, SNIB__IN_CLOSED, i, NULL, 0);
}

/* Try the addresses that are left. last is the error of the one before. */
static void socket_connect_next(struct snib__step *s, uint32_t i, int last)
{
    struct snib__socket *l = s->c->sock.v[i];
    while (l->addresses->next < l->addresses->count) {
        int fd = -1;
        last = snib__net_connect(&l->addresses->v[l->addresses->next++],
                                 s->c->request, &fd);
        if (fd >= 0) {
            l->fd = fd;
            l->state = SNIB__SOCKET_CONNECTING;
            l->watched = l->blocked = false;
            l->armed = 0;
            snib__socket_needs(s->c, i);
            if (!last) {
                socket_opened(s, i);
            }
            snib__loop_watch(s->c, i);
            return;
        }
    }
    socket_feed_refused(s, i, strerror(last), false);
}

void snib__socket_open(struct snib__step *s, uint32_t i)
{
    struct snib_client *c = s->c;
    struct snib__socket *l = c->sock.v[i];
    if (l->state != SNIB__SOCKET_DOWN || l->closing) {
        return;
    }
    l->addresses = snib__alloc(sizeof *l->addresses);
    if (!l->addresses || snib__socket_furnish(c, i)) {
        socket_feed_refused(s, i, "out of memory or descriptors", false);
        return;
    }
    switch (snib__net_address(c->out->conn[i]->address, &l->addresses->v[0])) {
    case SNIB__ADDRESS_BAD:
        socket_feed_refused(s, i, "not an address", true);
        return;
    case SNIB__ADDRESS_NAME:
        l->state = SNIB__SOCKET_RESOLVING;
        if (!snib__resolve_start(c, i)) {
            socket_feed_refused(s, i, "no thread to look up the host name",
                                false);
        }
        return;
    case SNIB__ADDRESS_READY:
        l->addresses->count = 1;
        socket_connect_next(s, i, 0);
        return;
    }
}

void snib__socket_resolved(struct snib__step *s, uint32_t i,
                           const struct snib__addresses *found)
{
    struct snib__socket *l = s->c->sock.v[i];
    if (l->state != SNIB__SOCKET_RESOLVING) {
        return; /* it was shut meanwhile */
    }
    if (found->count) {
        *l->addresses = *found;
        socket_connect_next(s, i, 0);
    } else {
        socket_feed_refused(s, i, found->why, found->no_such);
    }
}

void snib__socket_connected(struct snib__step *s, uint32_t i)
{
    struct snib__socket *l = s->c->sock.v[i];
    int err = snib__net_connected(l->fd);
    if (err == EINPROGRESS) {
        return;
    }
    if (!err) {
        socket_opened(s, i);
        return;
    }
    struct snib__addresses *addresses = l->addresses;
    l->addresses = NULL;
    socket_drop_fd(s, i);
    l->addresses = addresses;
    socket_connect_next(s, i, err);
}

void snib__socket_shut(struct snib__step *s, uint32_t i)
{
    struct snib__socket *l = s->c->sock.v[i];
    switch ((snib__socket_state)l->state) {
    case SNIB__SOCKET_DOWN:
        return;
    case SNIB__SOCKET_RESOLVING:
        l->state = SNIB__SOCKET_DOWN;
        snib__free(l->addresses);
        l->addresses = NULL;
        socket_feed(s, SNIB__IN_CLOSED, i, NULL, 0);
        return;
    case SNIB__SOCKET_CONNECTING:
    case SNIB__SOCKET_UP:
        if (l->asleep) {
            l->closing = true;
            snib__socket_needs(s->c, i);
            (void)shutdown(l->fd, SHUT_RDWR);
            snib__socket_wake(s, i);
        } else {
            snib__socket_close(s, i);
        }
        return;
    }
}

void snib__socket_unblocked(struct snib_client *c, uint32_t i)
{
    c->sock.v[i]->blocked = false;
    snib__socket_needs(c, i);
}

bool snib__socket_flush(struct snib__step *s, uint32_t i)
{
    struct snib__socket *l = s->c->sock.v[i];
    struct snib__buf *out = l->conn ? &l->conn->out : NULL;
    while (out && l->state == SNIB__SOCKET_UP && !l->closing &&
           snib__buf_size(out)) {
        long n =
            snib__net_send(l->fd, snib__buf_bytes(out), snib__buf_size(out));
        if (n >= 0) {
            snib__buf_consume(out, (size_t)n);
            snib__socket_unblocked(s->c, i);
        } else if (n == -EAGAIN || n == -EWOULDBLOCK) {
            if (!l->blocked) {
                l->blocked = true;
                snib__socket_needs(s->c, i);
                if (l->asleep) { /* to poll until it can send */
                    snib__socket_wake(s, i);
                }
            }
            return true;
        } else {
            snib__socket_shut(s, i);
            return false;
        }
    }
    return true;
}

void snib__socket_received(struct snib__step *s, uint32_t i, long n)
{
    if (n > 0) {
        socket_feed(s, SNIB__IN_BYTES, i, s->c->sock.v[i]->in, (size_t)n);
    } else if (n != -EAGAIN && n != -EWOULDBLOCK) {
        snib__socket_close(s, i);
    }
}

/* driver/socket.c — the driver's end of the engine's connections, from open to
 * close. (Their bytes: sockets.c.)
 *
 *   DOWN --open, a name--> RESOLVING --resolver--> CONNECTING ---------> UP
 *     ^--open, an address-----------------------^   |     |             |  |
 *     |                                             |     +-> SHAKING --+  |
 *     +---------- refused, shut, closed by the peer -+-----------+----------+
 *
 * SHAKING is the TLS handshake, where the transport is TLS: secure.c.
 *
 * Nobody closes a descriptor while a thread may be asleep in ppoll on it: its
 * number could be given to another file of the process meanwhile, and the
 * reader would read that. So shutting a socket whose reader sleeps only marks
 * it, shuts it down and notifies; the reader closes it. The background thread
 * is no such reader: epoll forgets closed descriptors by itself.
 *
 * The notifier of a blocking store counts as a socket too
 * (SNIB__NOTIFIER_SOCKET); its descriptor belongs to the store:
 * socket_notifier.c. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "driver/driver.h"
#include "store/host.h"

static void socket_feed(struct snib__step *s, snib__input_kind kind, uint32_t i)
{
    struct snib__input in = {.kind = kind, .conn = i};
    snib__engine_input(s->c->engine, s->now, &in);
}

static void socket_feed_refused(struct snib__step *s, uint32_t i,
                                const char *why, bool hopeless, snib_err err)
{
    struct snib__input in = {.kind = SNIB__IN_REFUSED,
                             .conn = i,
                             .hopeless = hopeless,
                             .bytes = why,
                             .size = strlen(why),
                             .err = err};
    struct snib__socket *l = s->c->sock.v[i];
    l->state = SNIB__SOCKET_DOWN;
    snib__free(l->addresses);
    l->addresses = NULL;
    snib__roles_idle(&s->c->calls.roles, i);
    snib__engine_input(s->c->engine, s->now, &in);
}

/* If it is descriptors that lack, the server is not to blame. */
static void socket_feed_errno(struct snib__step *s, uint32_t i, int e)
{
    char what[160];
    struct snib_error why = {.code = SNIB_ERR_OK};
    snprintf(what, sizeof what, "a connection to %.100s",
             s->c->out->conn[i]->address);
    snib_err err = snib__host_lacks(e, what, &why);
    bool limit = err == SNIB_ERR_LIMIT;
    socket_feed_refused(s, i, limit ? why.text : strerror(e), false,
                        limit ? err : SNIB_ERR_OK);
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

/* It is up, and the engine may speak. */
static void socket_opened(struct snib__step *s, uint32_t i)
{
    s->c->sock.v[i]->state = SNIB__SOCKET_UP;
    snib__socket_needs(s->c, i);
    socket_feed(s, SNIB__IN_OPENED, i);
}

static void socket_drop_fd(struct snib__step *s, uint32_t i)
{
    struct snib__socket *l = s->c->sock.v[i];
    if (l->fd >= 0) {
        close(l->fd); /* it leaves the epoll set by itself */
    }
    snib__tls_free(l->tls);
    l->tls = NULL;
    l->fd = -1;
    l->watched = l->blocked = l->closing = false;
    l->armed = 0;
    l->state = SNIB__SOCKET_DOWN;
    l->lazy = SNIB__NEVER;
    snib__socket_needs(s->c, i);
}

/* The connection is over: one in its handshake is refused, any other closed. */
void snib__socket_fail(struct snib__step *s, uint32_t i, const char *why,
                       snib_err err)
{
    struct snib__socket *l = s->c->sock.v[i];
    bool shakes = l->state == SNIB__SOCKET_SHAKING;
    struct snib__tls *tls = l->tls; /* the text is its own */
    l->tls = NULL;
    socket_drop_fd(s, i);
    snib__free(l->addresses);
    l->addresses = NULL;
    err = err == SNIB_ERR_CONFIG || err == SNIB_ERR_DENIED ? err : SNIB_ERR_OK;
    if (shakes) {
        char broken[220];
        snib_err none;
        const char *words = tls ? snib__tls_why(tls, &none) : why;
        snprintf(broken, sizeof broken,
                 "%.60s in the TLS handshake; it may be the port without "
                 "TLS: %s",
                 *why ? why : "closed",
                 tls ? snib__tls_instead(tls) : "give the other");
        socket_feed_refused(s, i, *words ? why : broken, false, err);
    } else {
        struct snib__input in = {.kind = SNIB__IN_CLOSED,
                                 .conn = i,
                                 .bytes = why,
                                 .size = strlen(why),
                                 .err = err};
        snib__roles_idle(&s->c->calls.roles, i);
        snib__engine_input(s->c->engine, s->now, &in);
    }
    snib__tls_free(tls);
}

/* Send what the filter has, as well as that goes at once: an alert. */
static void socket_last_bytes(const struct snib__socket *l)
{
    size_t size;
    const void *bytes = snib__tls_wire(l->tls, &size);
    if (size) {
        (void)snib__net_send(l->fd, bytes, size);
    }
}

void snib__socket_close(struct snib__step *s, uint32_t i)
{
    const struct snib__socket *l = s->c->sock.v[i];
    snib_err err = SNIB_ERR_OK;
    const char *why = l->tls ? snib__tls_why(l->tls, &err) : "";
    snib__socket_fail(s, i, why, err);
}

/* The filter is broken. Its last bytes tell the peer why. */
void snib__socket_break(struct snib__step *s, uint32_t i)
{
    socket_last_bytes(s->c->sock.v[i]);
    snib__socket_close(s, i);
}

void snib__socket_shake(struct snib__step *s, uint32_t i)
{
    switch (snib__tls_shake(s->c->sock.v[i]->tls)) {
    case SNIB__TLS_SHAKES:
        break;
    case SNIB__TLS_UP:
        socket_opened(s, i);
        break;
    case SNIB__TLS_BROKEN:
        snib__socket_break(s, i);
        return;
    }
    snib__socks_put(&s->c->sock.unsent, i, true);
}

/* The bytes can go both ways. */
static void socket_connected(struct snib__step *s, uint32_t i)
{
    struct snib__socket *l = s->c->sock.v[i];
    snib__free(l->addresses);
    l->addresses = NULL;
    if (l->conn->transport == SNIB__PLAIN) {
        socket_opened(s, i);
        return;
    }
    l->state = SNIB__SOCKET_SHAKING;
    snib__socket_needs(s->c, i);
    l->tls = snib__tls_new(s->c->tls, l->conn->address);
    if (l->tls) {
        snib__socket_shake(s, i);
    } else {
        snib__socket_fail(s, i, "out of memory", SNIB_ERR_NOMEM);
    }
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
                socket_connected(s, i);
            }
            snib__loop_watch(s->c, i);
            return;
        }
    }
    socket_feed_errno(s, i, last);
}

void snib__socket_open(struct snib__step *s, uint32_t i)
{
    struct snib_client *c = s->c;
    struct snib__socket *l = c->sock.v[i];
    if (l->state != SNIB__SOCKET_DOWN || l->closing) {
        return;
    }
    l->addresses = snib__alloc(sizeof *l->addresses);
    snib_err lacks = l->addresses ? snib__socket_furnish(c, i) : SNIB_ERR_NOMEM;
    if (lacks == SNIB_ERR_LIMIT) {
        socket_feed_errno(s, i, errno);
        return;
    }
    if (lacks) {
        socket_feed_refused(s, i, "out of memory", false, SNIB_ERR_OK);
        return;
    }
    switch (snib__net_address(c->out->conn[i]->address, &l->addresses->v[0])) {
    case SNIB__ADDRESS_BAD:
        socket_feed_refused(s, i, "not an address", true, SNIB_ERR_OK);
        return;
    case SNIB__ADDRESS_NAME:
        l->state = SNIB__SOCKET_RESOLVING;
        if (!snib__resolve_start(c, i)) {
            socket_feed_refused(s, i, "no thread to look up the host name",
                                false, SNIB_ERR_OK);
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
    } else if (found->lacks) {
        socket_feed_errno(s, i, found->lacks);
    } else {
        socket_feed_refused(s, i, found->why, found->no_such, SNIB_ERR_OK);
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
        socket_connected(s, i);
        return;
    }
    struct snib__addresses *addresses = l->addresses;
    l->addresses = NULL;
    socket_drop_fd(s, i);
    l->addresses = addresses;
    socket_connect_next(s, i, err);
}

void snib__socket_bye(const struct snib__socket *l)
{
    if (l->tls && l->state == SNIB__SOCKET_UP && !l->closing) {
        snib__tls_bye(l->tls);
        socket_last_bytes(l);
    }
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
        socket_feed(s, SNIB__IN_CLOSED, i);
        return;
    case SNIB__SOCKET_CONNECTING:
    case SNIB__SOCKET_SHAKING:
    case SNIB__SOCKET_UP:
        snib__socket_bye(l);
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

/* -- the end --------------------------------------------------------------- */

/* Nobody needs the sockets any more. A call that sleeps at one finds its end
 * there. */
void snib__sockets_end(struct snib_client *c)
{
    for (uint32_t i = 0; i < c->sock.count; i++) {
        struct snib__socket *l = c->sock.v[i];
        if (l->fd >= 0 && l->conn) {
            snib__socket_bye(l);
            (void)shutdown(l->fd, SHUT_RDWR);
        }
    }
}

void snib__sockets_free(struct snib_client *c)
{
    for (uint32_t i = 0; i < c->sock.count; i++) {
        struct snib__socket *l = c->sock.v[i];
        if (l->fd >= 0 && l->conn) {
            close(l->fd);
        }
        if (l->waker >= 0) {
            close(l->waker);
        }
        snib__tls_free(l->tls);
        snib__free(l->addresses);
        snib__free(l->in);
        snib__free(l);
    }
    snib__free(c->sock.v);
    snib__free(c->calls.roles.sock);
    c->sock = (struct snib__sockets){.v = NULL};
    c->calls.roles.sock = NULL;
}

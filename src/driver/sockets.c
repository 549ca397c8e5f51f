/* driver/sockets.c — all sockets in a step: which are to be looked at, what the
 * engine wants of its connections, and the bytes that go to and fro. (The life of
 * one of them: socket.c.)
 *
 * A client of a large store has very many connections, and a step is about one
 * or two of them. So nothing that is done in each step walks past all: the store
 * puts what it has changed on a list (core/conn.h), and from there it goes into
 * the sets of struct snib__sockets. Whoever changes a socket in a way that says
 * whether it needs a reader tells it here. */
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "driver/driver.h"
#include "driver/socket_notifier.h"

/* -- which are to be looked at --------------------------------------------- */

static bool sockets_reserve(struct snib__sockets *all, struct snib__roles *r)
{
    if (all->count < all->capacity) {
        return true;
    }
    uint32_t capacity = all->capacity ? 2 * all->capacity : 4;
    struct snib__socket **v =
        snib__realloc(all->v, capacity * sizeof(struct snib__socket *));
    all->v = v ? v : all->v;
    struct snib__role *roles = snib__realloc(r->sock, capacity * sizeof *roles);
    r->sock = roles ? roles : r->sock;
    if (v && roles) {
        all->capacity = capacity;
    }
    return v && roles;
}

/* How many there have to be: a library that blocks has its notifier's. */
static uint32_t sockets_count(const struct snib_client *c)
{
    return c->exec.ops ? 1 : c->out->conns;
}

snib_err snib__sockets_reach(struct snib_client *c)
{
    struct snib__sockets *all = &c->sock;
    uint32_t count = sockets_count(c);
    while (all->count < count) {
        struct snib__socket *l = NULL;
        if (!sockets_reserve(all, &c->calls.roles) ||
            !(l = snib__alloc(sizeof *l))) {
            return SNIB_ERR_NOMEM;
        }
        l->conn = c->exec.ops ? NULL : c->out->conn[all->count];
        l->fd = l->waker = -1;
        l->lazy = SNIB__NEVER;
        c->calls.roles.sock[all->count] = (struct snib__role){0};
        all->v[all->count++] = l;
    }
    return SNIB_ERR_OK;
}

void snib__sockets_touched(struct snib_client *c)
{
    struct snib__sockets *all = &c->sock;
    struct snib__link *link;
    if (snib__list_empty(&c->out->touched) && all->count == sockets_count(c)) {
        return; /* most steps change none */
    }
    if (snib__sockets_reach(c)) {
        return; /* later, when there is memory */
    }
    while ((link = snib__list_pop(&c->out->touched))) {
        const struct snib__conn *conn =
            SNIB__CONTAINER(link, struct snib__conn, touched);
        uint32_t i = conn->index;
        struct snib__socket *l = all->v[i];
        if (!snib__socks_has(&all->asked, i)) {
            l->before = l->awaited;
            snib__socks_put(&all->asked, i, true);
        }
        l->awaited = conn->awaited;
        snib__socks_put(&all->awaited, i, conn->awaited);
        if (conn->open || conn->shut || conn->login) {
            snib__socks_put(&all->wish, i, true);
        }
        snib__socks_put(&all->unsent, i, true);
        snib__socket_needs(c, i);
    }
}

const struct snib__need *snib__sockets_need(struct snib_client *c)
{
    snib__sockets_touched(c);
    return &c->sock.need;
}

/* -- what the engine wants ------------------------------------------------- */

void snib__sockets_open_and_shut(struct snib__step *s)
{
    struct snib_client *c = s->c;
    struct snib__socks open = {{0}}, shut = {{0}};
    snib__sockets_touched(c);
    SNIB__SOCKS_EACH(i, &c->sock.wish)
    {
        struct snib__conn *conn = c->sock.v[i]->conn;
        snib__socks_put(&open, i, conn->open && !c->stopped);
        snib__socks_put(&shut, i, conn->shut);
        conn->open = conn->shut = false;
    }
    struct snib__socks both = snib__socks_or(&open, &shut);
    SNIB__SOCKS_EACH(i, &both)
    {
        if (snib__socks_has(&shut, i)) {
            snib__socket_shut(s, i);
        }
        if (snib__socks_has(&open, i)) {
            snib__socket_open(s, i);
        }
    }
}

void snib__sockets_log_in(struct snib__step *s)
{
    static const struct snib_login none = {
        .text = "there is no thread to ask for one"};
    struct snib_client *c = s->c;
    struct snib__socks wanted = {{0}};
    snib__sockets_touched(c);
    SNIB__SOCKS_EACH(i, &c->sock.wish)
    {
        struct snib__conn *conn = c->sock.v[i]->conn;
        if (conn->login && !c->stopped) {
            snib__socks_put(&wanted, i, true);
            snib__socks_put(&c->logins.refused, i, conn->refused);
        }
        conn->login = conn->refused = false;
        snib__socks_put(&c->sock.wish, i, conn->open || conn->shut);
    }
    if (!snib__socks_empty(&wanted) && snib__login_need(c)) {
        c->logins.wanted = snib__socks_or(&c->logins.wanted, &wanted);
        pthread_cond_signal(&c->logins.more);
        return;
    }
    SNIB__SOCKS_EACH(i, &wanted)
    {
        struct snib__input in = {.kind = SNIB__IN_LOGIN,
                                 .conn = i,
                                 .login = &none,
                                 .err = SNIB_ERR_UNREACHABLE};
        snib__engine_input(c->engine, s->now, &in);
    }
}

/* -- bytes ----------------------------------------------------------------- */

static void sockets_unblocked(struct snib_client *c, uint32_t i)
{
    c->sock.v[i]->blocked = false;
    snib__socket_needs(c, i);
}

/* What is to be sent next; encrypts it first, where that is the transport. */
static const void *sockets_next_bytes(struct snib__socket *l, size_t *ret_size)
{
    struct snib__buf *out = &l->conn->out;
    if (!l->tls) {
        *ret_size = l->state == SNIB__SOCKET_UP ? snib__buf_size(out) : 0;
        return snib__buf_bytes(out);
    }
    const void *wire = snib__tls_wire(l->tls, ret_size);
    if (*ret_size || l->state != SNIB__SOCKET_UP) {
        return wire;
    }
    snib__buf_consume(
        out, snib__tls_seal(l->tls, snib__buf_bytes(out), snib__buf_size(out)));
    return snib__tls_wire(l->tls, ret_size);
}

static void sockets_sent(struct snib__socket *l, size_t size)
{
    if (l->tls) {
        snib__tls_sent(l->tls, size);
    } else {
        snib__buf_consume(&l->conn->out, size);
    }
}

static void sockets_feed(struct snib__step *s, uint32_t i, const void *bytes,
                         size_t size)
{
    struct snib__input in = {
        .kind = SNIB__IN_BYTES, .conn = i, .bytes = bytes, .size = size};
    snib__engine_input(s->c->engine, s->now, &in);
}

/* The bytes that came are opened, and what they hold is fed. */
static void sockets_open_bytes(struct snib__step *s, uint32_t i, size_t size)
{
    struct snib__socket *l = s->c->sock.v[i];
    snib__tls_feed(l->tls, l->in, size);
    if (l->state == SNIB__SOCKET_SHAKING) {
        snib__socket_shake(s, i);
    }
    while (l->state == SNIB__SOCKET_UP) {
        long n = snib__tls_open(l->tls, s->c->plain, SNIB__SOCKET_IN);
        if (n > 0) {
            sockets_feed(s, i, s->c->plain, (size_t)n);
            continue;
        }
        snib_err err;
        if (n < 0 && *snib__tls_why(l->tls, &err)) {
            snib__socket_break(s, i);
        } else if (n < 0) {
            snib__socket_close(s, i);
        }
        break;
    }
    snib__socks_put(&s->c->sock.unsent, i, true);
}

/* What came is dated behind its arrival: a store may wait for the lease of somebody
 * else from then on, and this thread may have stood still since its step began. */
static long sockets_recv(struct snib__step *s, const struct snib__socket *l)
{
    long n = snib__net_recv(l->fd, l->in, SNIB__SOCKET_IN);
    snib__step_refresh(s);
    return n;
}

/* It cannot be sent on any more. The peer may have said why in an alert that is
 * there and unread: a server says so of our certificate after our handshake is
 * over, when we speak already. */
static void sockets_hear_why(struct snib__step *s, uint32_t i)
{
    const struct snib__socket *l = s->c->sock.v[i];
    if (l->tls && !l->asleep) {
        long n = sockets_recv(s, l);
        if (n > 0) {
            sockets_open_bytes(s, i, (size_t)n);
        }
    }
}

static bool sockets_unsent(const struct snib__socket *l)
{
    size_t wire = 0;
    if (l->tls) {
        (void)snib__tls_wire(l->tls, &wire);
    }
    return wire || snib__buf_size(&l->conn->out);
}

bool snib__socket_flush(struct snib__step *s, uint32_t i)
{
    struct snib__socket *l = s->c->sock.v[i];
    size_t size;
    snib_err err;
    while (l->conn && l->fd >= 0 && !l->closing &&
           l->state >= SNIB__SOCKET_SHAKING) {
        const void *bytes = sockets_next_bytes(l, &size);
        if (!size) {
            break;
        }
        long n = snib__net_send(l->fd, bytes, size);
        if (n >= 0) {
            sockets_sent(l, (size_t)n);
            sockets_unblocked(s->c, i);
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
            sockets_hear_why(s, i);
            snib__socket_shut(s, i);
            return false;
        }
    }
    if (l->tls && *snib__tls_why(l->tls, &err)) {
        snib__socket_shut(s, i);
        return false;
    }
    return true;
}

static void sockets_received(struct snib__step *s, uint32_t i, long n)
{
    struct snib__socket *l = s->c->sock.v[i];
    if (n > 0 && l->tls) {
        sockets_open_bytes(s, i, (size_t)n);
    } else if (n > 0) {
        sockets_feed(s, i, l->in, (size_t)n);
    } else if (n == -EAGAIN || n == -EWOULDBLOCK) {
        return;
    } else if (l->state == SNIB__SOCKET_SHAKING) {
        snib__socket_fail(s, i, n ? strerror((int)-n) : "", SNIB_ERR_OK);
    } else {
        snib__socket_close(s, i);
    }
}

void snib__socket_ready(struct snib__step *s, uint32_t i, bool writable,
                        bool readable, const long *got)
{
    struct snib__socket *l = s->c->sock.v[i];
    if (!l->conn) {
        snib__socket_notified(s);
    } else if (l->state == SNIB__SOCKET_CONNECTING) {
        snib__socket_connected(s, i);
    } else {
        if (writable) {
            sockets_unblocked(s->c, i);
        }
        if (readable) {
            sockets_received(s, i, got ? *got : sockets_recv(s, l));
        }
    }
}

/* Rule 3: the reader of a socket sends before it sleeps. While it is awake
 * nobody else sends. */
static bool sockets_may_send(const struct snib__step *s, uint32_t i)
{
    const struct snib_client *c = s->c;
    if (c->calls.roles.sock[i].reader != SNIB__CALL) {
        return true;
    }
    return c->sock.v[i]->asleep &&
           (!s->me || c->calls.roles.sock[i].call != &s->me->w);
}

bool snib__sockets_send(struct snib__step *s)
{
    struct snib_client *c = s->c;
    snib__sockets_touched(c);
    SNIB__SOCKS_EACH(i, &c->sock.unsent)
    {
        struct snib__socket *l = c->sock.v[i];
        if (sockets_unsent(l) && sockets_may_send(s, i)) {
            snib__socket_flush(s, i);
        }
        if (!sockets_unsent(l)) {
            snib__socks_put(&c->sock.unsent, i, false);
        }
    }
    snib__sockets_touched(c);
    return !snib__socks_empty(&c->sock.wish);
}

/* driver/sockets.c — all sockets: which are to be looked at, what the engine wants
 * of its connections, and the end.
 *
 * A client of a large store has very many connections, and a step is about one
 * or two of them. So nothing that is done in each step walks past all: the store
 * puts what it has changed on a list (core/conn.h), and from there it goes into
 * the sets of struct snib__sockets. Whoever changes a socket in a way that says
 * whether it needs a reader tells it here. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "driver/driver.h"

/* -- which are to be looked at --------------------------------------------- */

static bool sockets_reserve(struct snib__sockets *all, struct snib__roles *r)
{
    if (all->count < all->room) {
        return true;
    }
    uint32_t room = all->room ? 2 * all->room : 4;
    struct snib__socket **v =
        snib__realloc(all->v, room * sizeof(struct snib__socket *));
    all->v = v ? v : all->v;
    struct snib__role *roles = snib__realloc(r->sock, room * sizeof *roles);
    r->sock = roles ? roles : r->sock;
    if (v && roles) {
        all->room = room;
    }
    return v && roles;
}

snib_err snib__sockets_reach(struct snib_client *c)
{
    struct snib__sockets *all = &c->sock;
    uint32_t count = c->exec.ops ? 1 : c->out->conns;
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
                                 .err = SNIB_ERR_LIMIT};
        snib__engine_input(c->engine, s->now, &in);
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
        if (snib__socket_unsent(l) && sockets_may_send(s, i)) {
            snib__socket_flush(s, i);
        }
        if (!snib__socket_unsent(l)) {
            snib__socks_put(&c->sock.unsent, i, false);
        }
    }
    snib__sockets_touched(c);
    return !snib__socks_empty(&c->sock.wish);
}

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

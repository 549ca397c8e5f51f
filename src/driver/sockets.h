/* driver/sockets.h — the client's ends of its connections: resolver.c, socket.c,
 * sockets.c. For driver.h, which includes it. */
#ifndef SNIB__SOCKETS_H
#define SNIB__SOCKETS_H

#include "driver/client.h"

/* Make an end for each connection that the store has by now (or for its
 * notifier). Errors: NOMEM. */
snib_err snib__sockets_reach(struct snib_client *);
/* Is an answer due, the connection being made, or do bytes wait to be sent? */
static inline bool snib__socket_is_busy(const struct snib__socket *l)
{
    return l->conn && (l->conn->awaited || l->blocked ||
                       l->state == SNIB__SOCKET_CONNECTING ||
                       l->state == SNIB__SOCKET_SHAKING);
}
/* Something has changed that says whether the socket needs a reader. */
static inline void snib__socket_needs(struct snib_client *c, uint32_t i)
{
    const struct snib__socket *l = c->sock.v[i];
    const struct snib__conn *conn = l->conn;
    bool reply =
        l->fd >= 0 && (snib__socket_is_busy(l) || (conn && l->closing));
    bool push = l->fd >= 0 && !reply && (!conn || conn->pushes);
    snib__socks_put(&c->sock.need.replies, i, reply);
    snib__socks_put(&c->sock.need.pushes, i, push);
    if (l->fd >= 0) {
        snib__socks_put(&c->sock.look, i, true);
    }
}
/* Note what the store has changed. */
void snib__sockets_touched(struct snib_client *);
/* The sockets on which an answer is due, and those that may speak unasked. */
const struct snib__need *snib__sockets_need(struct snib_client *);
/* Make what a socket needs once and keeps: waker, buffer. Errors: NOMEM,
 * LIMIT. */
snib_err snib__socket_furnish(struct snib_client *, uint32_t i);
/* Resolve the socket's host name; snib__socket_resolved will be called. False:
 * no memory or no thread. */
bool snib__resolve_start(struct snib_client *, uint32_t i);
/* Let go of all jobs that resolve names. The client's mutex is not held. */
void snib__resolve_cut(struct snib_client *);
/* The addresses of its host have come. */
void snib__socket_resolved(struct snib__step *, uint32_t i,
                           const struct snib__addresses *found);
/* The socket is connecting, and something happened to it. */
void snib__socket_connected(struct snib__step *, uint32_t i);
/* Tell the peer that we close, where the transport has words for it. */
void snib__socket_bye(const struct snib__socket *);
/* Send what can be sent. False: the connection broke; the engine was told. */
bool snib__socket_flush(struct snib__step *, uint32_t i);
/* Poll says that the socket can be sent on, or read. got: what recv returned
 * then (bytes in its `in`, or -errno); NULL: it is received now. */
void snib__socket_ready(struct snib__step *, uint32_t i, bool writable,
                        bool readable, const long *got);
/* Connect it; end it as soon as nobody sleeps at it. */
void snib__socket_open(struct snib__step *, uint32_t i);
void snib__socket_shut(struct snib__step *, uint32_t i);
/* Close the socket now. The engine is told, unless the client is being
 * freed. */
void snib__socket_close(struct snib__step *, uint32_t i);
/* The same, for this reason. One in its handshake is refused. */
void snib__socket_fail(struct snib__step *, uint32_t i, const char *why,
                       snib_err);
/* The filter of TLS is broken. Its last bytes tell the peer why. */
void snib__socket_break(struct snib__step *, uint32_t i);
/* Go on with the handshake of TLS, by what came. */
void snib__socket_shake(struct snib__step *, uint32_t i);
/* For stop: end the connections. Descriptors and wakers stay until free. */
void snib__sockets_end(struct snib_client *);
/* Close everything and tell nobody. */
void snib__sockets_free(struct snib_client *);
/* Do what the engine wants of its connections. */
void snib__sockets_open_and_shut(struct snib__step *);
/* True: it wants more of them by now. */
bool snib__sockets_send(struct snib__step *);
/* Have the program asked for the logins that the engine wants. */
void snib__sockets_log_in(struct snib__step *);

#endif

/* store/postgres/conn.c — a connection: waiting for its socket, and its end.
 *
 * Everything is libpq's way without blocking; the store's stop descriptor ends
 * every wait. */
#include <poll.h>
#include <sys/socket.h>

#include "base/error.h"
#include "store/postgres/postgres_i.h"

enum { CONN_READS = 3 };

bool snib__pg_wait(struct snib__pg_conn *k, bool to_read, bool to_write,
                   snib_instant until)
{
    return snib__sql_wait(k->store->pq.PQsocket(k->c), k->store->stop, to_read,
                          to_write, until);
}

/* A server says why it ends a session, and libpq reads that first; only behind it
 * is the end. (It also says what is no end: that a setting has changed.) */
bool snib__pg_is_cut(struct snib__pg_conn *k)
{
    const struct snib__pq *pq = &k->store->pq;
    struct pollfd fd = {.fd = pq->PQsocket(k->c), .events = POLLIN};
    bool cut = false;
    for (int i = 0; !cut && i < CONN_READS && poll(&fd, 1, 0) > 0; i++) {
        cut = !pq->PQconsumeInput(k->c) || pq->PQstatus(k->c) != CONNECTION_OK;
    }
    return cut;
}

void snib__pg_drop(struct snib__pg_conn *k, snib_err err, const char *text)
{
    const struct snib__pq *pq = &k->store->pq;
    char words[200] = "";
    if (!text && pq->PQstatus(k->c) == CONNECTION_BAD) {
        snib__pg_clean(k->store, pq->PQerrorMessage(k->c), words, sizeof words);
    }
    if (text) {
        snib__fail(&k->is.why, err, "%s", text);
    } else {
        snib__fail(&k->is.why, err, "%s: %s", k->store->address.where,
                   *words ? words : "no answer from the server");
    }
    shutdown(pq->PQsocket(k->c), SHUT_RDWR);
    snib__pg_quit(k);
}

void snib__pg_quit(struct snib__pg_conn *k)
{
    if (k->c) {
        k->store->pq.PQfinish(k->c);
    }
    if (k->counted) {
        pthread_mutex_lock(&k->store->listener.mu);
        if (!--k->store->server.sessions) {
            k->store->server.connected = (snib_instant){0};
        }
        pthread_mutex_unlock(&k->store->listener.mu);
    }
    k->c = NULL;
    k->counted = false;
    k->is.up = k->is.ready = k->is.inside = false;
    memset(k->prepared, 0, sizeof k->prepared);
}

/* store/postgres/conn.c — a connection: waiting for its socket, and its
 * end.
 *
 * Everything is libpq's way without blocking: our threads wait here and nowhere
 * else (but for the look-up of a host name inside libpq), so that a server that
 * is silent keeps a thread no longer than was promised. The store's stop
 * descriptor ends every wait. */
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "base/error.h"
#include "store/postgres/postgres_i.h"

snib_instant snib__pg_now(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (snib_instant){ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec};
}

bool snib__pg_wait(struct snib__pg_conn *k, bool to_read, bool to_write,
                   snib_instant until)
{
    struct pollfd fd[2] = {{.fd = k->store->pq.PQsocket(k->c)},
                           {.fd = k->store->stop, .events = POLLIN}};
    fd[0].events = (short)((to_read ? POLLIN : 0) | (to_write ? POLLOUT : 0));
    for (;;) {
        int64_t ns = snib__between(snib__pg_now(), until).ns;
        if (ns <= 0) {
            return false;
        }
        int64_t ms = ns / 1000000 + 1;
        int n = poll(fd, 2, ms < 60000 ? (int)ms : 60000);
        if (n > 0) {
            return fd[1].revents == 0;
        }
    }
}

void snib__pg_drop(struct snib__pg_conn *k, snib_err err, const char *text)
{
    const struct snib__pq *pq = &k->store->pq;
    char words[200] = "";
    if (!text && pq->PQstatus(k->c) == CONNECTION_BAD) {
        snib__pg_clean(k->store, pq->PQerrorMessage(k->c), words, sizeof words);
    }
    if (text) {
        snib__fail(&k->why, err, "%s", text);
    } else {
        snib__fail(&k->why, err, "%s: %s", k->store->where,
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
    k->ready = k->inside = false;
    memset(k->prepared, 0, sizeof k->prepared);
}

/* -- the server's clock ---------------------------------------------------- */

/* A statement is executed at most so long after its sending. With the time that
 * it may wait for a lock this is less than a tombstone lasts. */
enum { CONN_LATE_US = 5000000 };

void snib__pg_heard_clock(struct snib__pg_conn *k, int64_t now_us)
{
    k->ahead_us = now_us - snib__pg_now().ns / 1000;
}

int64_t snib__pg_not_after(const struct snib__pg_conn *k)
{
    return snib__pg_now().ns / 1000 + k->ahead_us + CONN_LATE_US;
}

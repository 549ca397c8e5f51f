/* store/postgres/advisory_hold.c — connections that hold an advisory lock, or wait
 * for one.
 *
 * While no worker uses it, a connection's socket is in the epoll set whose
 * descriptor the client's threads watch. Nothing comes there that was not waited
 * for, but the end of the wait, or of the connection: so whatever does is passed on
 * as a notification for its request. That of a waiter is executed then, and a
 * holder is asked about at once. */
#include <stdio.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/postgres/advisory_i.h"

static struct pg_hold *hold_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct pg_hold, link);
}

/* With the mutex, as all that follows up to "life". */
static struct pg_hold *hold_find(struct snib__postgres *p, const uint64_t id[2])
{
    struct pg_hold *found = NULL;
    SNIB__LIST_EACH (l, &p->advisory.holds) {
        struct pg_hold *h = hold_of(l);
        found = h->id[0] == id[0] && h->id[1] == id[1] ? h : found;
    }
    return found;
}

static void hold_watch(struct snib__postgres *p, struct pg_hold *h, bool on)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = h};
    int fd = h->conn.c ? p->pq.PQsocket(h->conn.c) : -1;
    if (fd >= 0 && on != h->watched) {
        int how = on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
        h->watched = !epoll_ctl(p->listener.epoll, how, fd, &e) ? on : false;
    }
}

/* -- life ------------------------------------------------------------------ */

static void hold_free(struct pg_hold *h)
{
    snib__pg_quit(&h->conn);
    snib__sql_script_free(&h->wait);
    snib__free(h);
}

void snib__pg_hold_end(struct snib__postgres *p, struct pg_hold *h, bool sound)
{
    pthread_mutex_lock(&p->listener.mu);
    snib__unlink(&h->link);
    bool keep = sound && h->conn.c && !p->advisory.spare;
    if (keep) {
        p->advisory.spare = h;
    }
    pthread_mutex_unlock(&p->listener.mu);
    if (!keep) {
        hold_free(h);
    }
}

struct pg_hold *snib__pg_hold_use(struct snib__postgres *p,
                                  const uint64_t id[2])
{
    pthread_mutex_lock(&p->listener.mu);
    struct pg_hold *h = hold_find(p, id);
    if (h) {
        hold_watch(p, h, false);
        h->busy = true;
    }
    pthread_mutex_unlock(&p->listener.mu);
    return h;
}

void snib__pg_hold_leave(struct snib__postgres *p, struct pg_hold *h)
{
    pthread_mutex_lock(&p->listener.mu);
    bool ends = h->doomed;
    h->busy = ends;
    if (!ends) {
        hold_watch(p, h, true);
    }
    pthread_mutex_unlock(&p->listener.mu);
    if (ends) {
        snib__pg_hold_end(p, h, false);
    }
}

void snib__pg_hold_end_other(struct snib__postgres *p, const uint64_t id[2],
                             int64_t token)
{
    pthread_mutex_lock(&p->listener.mu);
    struct pg_hold *h = hold_find(p, id);
    h = h && h->token == token ? h : NULL;
    if (h && h->busy) {
        h->doomed = true;
        h = NULL;
    } else if (h) { /* nobody finds it from now on */
        hold_watch(p, h, false);
        snib__unlink(&h->link);
    }
    pthread_mutex_unlock(&p->listener.mu);
    if (h) {
        hold_free(h);
    }
}

void snib__pg_advisory_free(struct snib__postgres *p)
{
    while (p->advisory.on && !snib__list_empty(&p->advisory.holds)) {
        struct pg_hold *h = hold_of(snib__list_first(&p->advisory.holds));
        snib__unlink(&h->link);
        hold_free(h);
    }
    if (p->advisory.spare) {
        hold_free(p->advisory.spare);
    }
}

/* -- making ---------------------------------------------------------------- */

static struct pg_hold *hold_spare(struct snib__postgres *p)
{
    pthread_mutex_lock(&p->listener.mu);
    struct pg_hold *h = p->advisory.spare;
    p->advisory.spare = NULL;
    pthread_mutex_unlock(&p->listener.mu);
    if (h && snib__pg_hold_heard(h)) { /* its end, that is */
        hold_free(h);
        h = NULL;
    }
    return h;
}

static snib__sql_end hold_make(struct snib__pg_session *s, snib_instant until,
                               struct pg_hold **ret, struct snib_error *fault)
{
    struct pg_hold *h = snib__alloc(sizeof *h);
    if (!h) {
        snib__fail_plain(fault, SNIB_ERR_NOMEM);
        return SNIB__SQL_REFUSED;
    }
    h->conn.store = s->store;
    snib__link_init(&h->link);
    snib__sql_script_init(&h->wait);
    snib__sql_end end =
        snib__pg_connect_lock(&h->conn, &s->tables.script, until, fault);
    if (end) {
        hold_free(h);
        return end == SNIB__SQL_LOST ? SNIB__SQL_DOWN : end;
    }
    *ret = h;
    return SNIB__SQL_OK;
}

/* Behind a failure there is a pause, as for a session: else each waiter of a server
 * without room would knock fifty times a second. */
static snib__sql_end hold_connect(struct snib__pg_session *s,
                                  snib_instant until, struct pg_hold **ret,
                                  struct snib_error *fault)
{
    snib_instant now = snib__sql_now();
    if (snib__sql_may_connect(&s->locks, now, fault)) {
        snib__sql_end end = hold_make(s, until, ret, fault);
        snib__sql_connected(&s->locks, snib__sql_now(), end, fault);
    }
    return s->locks.end;
}

snib__sql_end snib__pg_hold_new(struct snib__pg_session *s,
                                const uint64_t id[2], snib_instant until,
                                struct pg_hold **ret, struct snib_error *fault)
{
    struct snib__postgres *p = s->store;
    struct pg_hold *h = hold_spare(p);
    snib__sql_end end = h ? SNIB__SQL_OK : hold_connect(s, until, &h, fault);
    if (end) {
        return end;
    }
    h->id[0] = id[0];
    h->id[1] = id[1];
    h->token = 0;
    h->waits = h->owes = h->doomed = false;
    h->busy = true;
    pthread_mutex_lock(&p->listener.mu);
    snib__list_push(&p->advisory.holds, &h->link);
    pthread_mutex_unlock(&p->listener.mu);
    *ret = h;
    return SNIB__SQL_OK;
}

int64_t snib__pg_hold_pid(const struct pg_hold *h)
{
    return h->conn.store->pq.PQbackendPID(h->conn.c);
}

/* -- waiting --------------------------------------------------------------- */

bool snib__pg_hold_wait(struct pg_hold *h, const struct snib__pg_key *key)
{
    if (key->pair) {
        snprintf(h->text, sizeof h->text, "SELECT pg_advisory_lock(%ld,%ld)",
                 (long)key->high, (long)key->low);
    } else {
        snprintf(h->text, sizeof h->text, "SELECT pg_advisory_lock(%lld)",
                 (long long)key->one);
    }
    snib__sql_script_clear(&h->wait);
    snib__sql_add_text(&h->wait, h->text);
    snib__sql_sync(&h->wait);
    h->waits = !h->wait.failed && snib__pg_send(&h->conn, &h->wait);
    return h->waits;
}

bool snib__pg_hold_heard(struct pg_hold *h)
{
    const struct snib__pq *pq = &h->conn.store->pq;
    return !pq->PQconsumeInput(h->conn.c) || snib__pg_is_cut(&h->conn) ||
           ((h->waits || h->owes) && !pq->PQisBusy(h->conn.c));
}

bool snib__pg_hold_ask(struct pg_hold *h)
{
    h->owes = !h->wait.failed && snib__pg_send(&h->conn, &h->wait);
    return h->owes;
}

bool snib__pg_hold_await(struct pg_hold *h, snib_instant until)
{
    const struct snib__pq *pq = &h->conn.store->pq;
    while (!snib__pg_hold_heard(h)) {
        if (!snib__pg_wait(&h->conn, true, pq->PQflush(h->conn.c) > 0, until)) {
            return false;
        }
    }
    return true;
}

snib__sql_end snib__pg_hold_take(struct pg_hold *h, snib_instant until,
                                 struct snib_error *fault)
{
    snib__sql_end end = snib__pg_take(&h->conn, &h->wait, until, fault);
    h->waits = h->owes = false;
    return end;
}

uint32_t snib__pg_advisory_notified(struct snib__postgres *p,
                                    uint64_t (*ids)[2], uint32_t max)
{
    struct epoll_event e[16];
    int room = max < 16 ? (int)max : 16;
    pthread_mutex_lock(&p->listener.mu);
    int n = epoll_wait(p->listener.epoll, e, room, 0);
    for (int i = 0; i < n; i++) {
        struct pg_hold *h = e[i].data.ptr;
        ids[i][0] = h->id[0];
        ids[i][1] = h->id[1];
        hold_watch(p, h, false); /* once is enough */
    }
    pthread_mutex_unlock(&p->listener.mu);
    return n > 0 ? (uint32_t)n : 0;
}

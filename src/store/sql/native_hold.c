/* store/sql/native_hold.c — connections that hold a lock of the server's own, or
 * wait for one.
 *
 * While no worker uses it, a connection's socket is in the epoll set whose
 * descriptor the client's threads watch. Nothing comes there that was not waited
 * for, but the end of the wait, or of the connection: so whatever does is passed on
 * as a notification for its request. That of a waiter is executed then, and a
 * holder is asked about at once. */
#include <sys/epoll.h>

#include "store/sql/native.h"

static struct snib__sql_hold *native_hold_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__sql_hold, link);
}

/* With the mutex, as all that follows up to "life". */
static struct snib__sql_hold *native_hold_find(struct snib__sql_natives *n,
                                               const uint64_t id[2])
{
    struct snib__sql_hold *found = NULL;
    SNIB__LIST_EACH (l, &n->holds) {
        struct snib__sql_hold *h = native_hold_of(l);
        found = h->id[0] == id[0] && h->id[1] == id[1] ? h : found;
    }
    return found;
}

static void native_hold_watch(struct snib__sql_natives *n,
                              struct snib__sql_hold *h, bool on)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = h};
    int fd = n->ops->fd(h);
    if (fd >= 0 && on != h->watched) {
        int how = on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
        h->watched = !epoll_ctl(n->epoll, how, fd, &e) ? on : false;
    }
}

/* -- life ------------------------------------------------------------------ */

void snib__sql_natives_init(struct snib__sql_natives *n,
                            const struct snib__sql_native_ops *ops,
                            const char *where, pthread_mutex_t *mu, int epoll)
{
    *n = (struct snib__sql_natives){
        .ops = ops, .where = where, .mu = mu, .epoll = epoll};
    snib__list_init(&n->holds);
}

void snib__sql_natives_free(struct snib__sql_natives *n)
{
    while (n->on && !snib__list_empty(&n->holds)) {
        struct snib__sql_hold *h = native_hold_of(snib__list_first(&n->holds));
        snib__unlink(&h->link);
        n->ops->free(h);
    }
    if (n->spare) {
        n->ops->free(n->spare);
    }
}

void snib__sql_hold_end(struct snib__sql_natives *n, struct snib__sql_hold *h,
                        bool sound)
{
    pthread_mutex_lock(n->mu);
    snib__unlink(&h->link);
    bool keep = sound && n->ops->fd(h) >= 0 && !n->spare;
    if (keep) {
        n->spare = h;
    }
    pthread_mutex_unlock(n->mu);
    if (!keep) {
        n->ops->free(h);
    }
}

struct snib__sql_hold *snib__sql_hold_use(struct snib__sql_natives *n,
                                          const uint64_t id[2])
{
    pthread_mutex_lock(n->mu);
    struct snib__sql_hold *h = native_hold_find(n, id);
    if (h) {
        native_hold_watch(n, h, false);
        h->busy = true;
    }
    pthread_mutex_unlock(n->mu);
    return h;
}

void snib__sql_hold_leave(struct snib__sql_natives *n, struct snib__sql_hold *h)
{
    pthread_mutex_lock(n->mu);
    bool ends = h->doomed;
    h->busy = ends;
    if (!ends) {
        native_hold_watch(n, h, true);
    }
    pthread_mutex_unlock(n->mu);
    if (ends) {
        snib__sql_hold_end(n, h, false);
    }
}

void snib__sql_hold_end_other(struct snib__sql_natives *n, const uint64_t id[2],
                              int64_t token)
{
    pthread_mutex_lock(n->mu);
    struct snib__sql_hold *h = native_hold_find(n, id);
    h = h && h->token == token ? h : NULL;
    if (h && h->busy) {
        h->doomed = true;
        h = NULL;
    } else if (h) { /* nobody finds it from now on */
        native_hold_watch(n, h, false);
        snib__unlink(&h->link);
    }
    pthread_mutex_unlock(n->mu);
    if (h) {
        n->ops->free(h);
    }
}

/* -- making ---------------------------------------------------------------- */

static struct snib__sql_hold *native_hold_spare(struct snib__sql_natives *n)
{
    pthread_mutex_lock(n->mu);
    struct snib__sql_hold *h = n->spare;
    n->spare = NULL;
    pthread_mutex_unlock(n->mu);
    if (h && n->ops->heard(h)) { /* its end, that is */
        n->ops->free(h);
        h = NULL;
    }
    return h;
}

/* Behind a failure there is a pause, as for a session: else each waiter of a server
 * without room would knock fifty times a second. */
static snib__sql_end native_hold_connect(struct snib__sql_natives *n,
                                         struct snib__sql_session *s,
                                         snib_instant until,
                                         struct snib__sql_hold **ret,
                                         struct snib_error *fault)
{
    snib_instant now = s->sql.driver->now();
    if (snib__sql_may_connect(&s->locks, now, fault)) {
        snib__sql_end end = n->ops->connect(s, until, ret, fault);
        snib__sql_connected(&s->locks, s->sql.driver->now(), end, fault);
    }
    return s->locks.end;
}

snib__sql_end snib__sql_hold_new(struct snib__sql_natives *n,
                                 struct snib__sql_session *s,
                                 const uint64_t id[2], snib_instant until,
                                 struct snib__sql_hold **ret,
                                 struct snib_error *fault)
{
    struct snib__sql_hold *h = native_hold_spare(n);
    snib__sql_end end =
        h ? SNIB__SQL_OK : native_hold_connect(n, s, until, &h, fault);
    if (end) {
        return end;
    }
    h->id[0] = id[0];
    h->id[1] = id[1];
    h->us = h->token = 0;
    h->waits = h->owes = h->doomed = false;
    h->busy = true;
    pthread_mutex_lock(n->mu);
    snib__list_push(&n->holds, &h->link);
    pthread_mutex_unlock(n->mu);
    *ret = h;
    return SNIB__SQL_OK;
}

/* -- being notified -------------------------------------------------------- */

uint32_t snib__sql_native_notified(struct snib__sql_natives *n,
                                   uint64_t (*ids)[2], uint32_t max)
{
    struct epoll_event e[16];
    int room = max < 16 ? (int)max : 16;
    pthread_mutex_lock(n->mu);
    int count = epoll_wait(n->epoll, e, room, 0);
    for (int i = 0; i < count; i++) {
        struct snib__sql_hold *h = e[i].data.ptr;
        ids[i][0] = h->id[0];
        ids[i][1] = h->id[1];
        native_hold_watch(n, h, false); /* once is enough */
    }
    pthread_mutex_unlock(n->mu);
    return count > 0 ? (uint32_t)count : 0;
}

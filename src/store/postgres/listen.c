/* store/postgres/listen.c — how a client hears that it was granted a lock, or
 * lost one by force.
 *
 * A connection of its own listens on the client's channel. A worker makes it,
 * at the client's first need, and hands it over: its socket is in an epoll set,
 * whose descriptor the client's own threads watch. They read it without waiting.
 * When it breaks it is closed there, all waiters ask at once, and the next step
 * that needs it makes it anew. Until then waiters poll, once a second.
 *
 * A notifier is the number of the server's process that listens, a point, and
 * 64 bits by lot: a claim names both the channel and the process, so that
 * whether that process is there tells whether a party of a barrier is.
 *
 * A notification takes a lock of the whole cluster until its commit is on disk.
 * So it is no part of the transaction that grants, and is not durable. It looks
 * whether the grant is there: behind a write that has failed it tells nobody. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "core/blocking.h"
#include "store/postgres/postgres_i.h"

void snib__pg_channel(const char *notifier, char *ret, size_t size)
{
    snprintf(ret, size, "snib_%.40s", notifier);
}

int64_t snib__pg_listener_of(const char *notifier)
{
    long long pid = strtoll(notifier, NULL, 10);
    return pid > 0 && pid < INT32_MAX ? pid : 0;
}

bool snib__pg_listener_init(struct snib__pg_listener *l)
{
    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    return pthread_mutex_init(&l->mu, NULL) == 0 && l->epoll >= 0;
}

void snib__pg_listener_free(struct snib__postgres *p)
{
    if (p->listener.c) {
        p->pq.PQfinish(p->listener.c);
    }
    if (p->listener.epoll >= 0) {
        close(p->listener.epoll);
    }
    pthread_mutex_destroy(&p->listener.mu);
}

/* -- making ---------------------------------------------------------------- */

/* Connect and listen; the connection is the caller's. */
static bool listen_open(struct snib__pg_session *s, struct snib__pg_conn *k,
                        char notifier[40])
{
    struct snib__postgres *p = s->store;
    struct snib__sql_script t;
    struct snib_error none;
    char channel[64], text[96];
    snib__sql_end end =
        snib__pg_connect(k, "snib: notified", s->tables.sql.until, &none);
    if (end) {
        return false;
    }
    snprintf(notifier, 40, "%d.%016llx", p->pq.PQbackendPID(k->c),
             (unsigned long long)snib__sql_stamp(&s->tables.sql));
    snib__pg_channel(notifier, channel, sizeof channel);
    snprintf(text, sizeof text, "LISTEN \"%s\"", channel);
    snib__sql_script_init(&t);
    snib__sql_add_text(&t, text);
    snib__sql_sync(&t);
    end = snib__pg_run(k, &t, 1, s->tables.sql.until, &none);
    snib__sql_script_free(&t);
    if (end) {
        snib__pg_quit(k);
    }
    return end == SNIB__SQL_OK;
}

void snib__pg_listen(struct snib__sql *q)
{
    struct snib__pg_session *s = snib__pg_of(q);
    struct snib__pg_listener *l = &s->store->listener;
    struct snib__pg_conn k = {.store = s->store};
    char notifier[40];
    pthread_mutex_lock(&l->mu);
    bool there = l->c != NULL;
    pthread_mutex_unlock(&l->mu);
    if (!there && listen_open(s, &k, notifier)) {
        struct epoll_event e = {.events = EPOLLIN};
        pthread_mutex_lock(&l->mu);
        bool first = !l->c; /* both sessions may make one at once */
        if (first && epoll_ctl(l->epoll, EPOLL_CTL_ADD,
                               s->store->pq.PQsocket(k.c), &e) == 0) {
            l->c = k.c;
            k.c = NULL; /* not this function's any more */
            k.is.up = false;
            memcpy(l->notifier, notifier, sizeof l->notifier);
        }
        pthread_mutex_unlock(&l->mu);
        snib__pg_quit(&k);
    }
    snib__pg_know_notifier(s);
}

void snib__pg_know_notifier(struct snib__pg_session *s)
{
    struct snib__pg_listener *l = &s->store->listener;
    pthread_mutex_lock(&l->mu);
    s->tables.sql.listens = l->c != NULL;
    memset(s->tables.sql.s.notifier, 0, sizeof s->tables.sql.s.notifier);
    if (l->c) {
        memcpy(s->tables.sql.s.notifier, l->notifier, sizeof l->notifier);
    }
    pthread_mutex_unlock(&l->mu);
}

/* -- telling --------------------------------------------------------------- */

void snib__pg_notify(struct snib__sql_session *s, const struct snib__told *n)
{
    struct snib__sql_script *t = &s->script;
    char channel[64], payload[40];
    snib__pg_channel(n->notifier, channel, sizeof channel);
    snprintf(payload, sizeof payload, "%016llx%016llx",
             (unsigned long long)n->request[0],
             (unsigned long long)n->request[1]);
    snib__sql_add(t, SNIB__PG_NOTIFY, NULL, NULL);
    snib__sql_string(t, channel);
    snib__sql_string(t, payload);
    snib__sql_name(t, n->name);
    snib__sql_id(t, n->request);
    snib__sql_sync(t);
}

/* -- hearing --------------------------------------------------------------- */

static bool listen_parse(const char *text, uint64_t ret[2])
{
    char half[17] = "";
    if (strspn(text, "0123456789abcdef") != 32 || text[32]) {
        return false;
    }
    memcpy(half, text, 16);
    ret[0] = strtoull(half, NULL, 16);
    ret[1] = strtoull(text + 16, NULL, 16);
    return true;
}

uint32_t snib__pg_notified(void *instance, uint64_t (*ids)[2], uint32_t max)
{
    struct snib__postgres *p = instance;
    struct snib__pg_listener *l = &p->listener;
    PGnotify *n;
    uint32_t count = 0;
    pthread_mutex_lock(&l->mu);
    bool broken = l->c && !p->pq.PQconsumeInput(l->c);
    while (l->c && count < max && (n = p->pq.PQnotifies(l->c))) {
        count += listen_parse(n->extra, ids[count]);
        p->pq.PQfreemem(n);
    }
    broken = broken || (l->c && p->pq.PQstatus(l->c) != CONNECTION_OK);
    if (broken) { /* closing takes its socket out of the set */
        p->pq.PQfinish(l->c);
        l->c = NULL;
    }
    pthread_mutex_unlock(&l->mu);
    return broken ? SNIB__NOTIFIED_ALL : count;
}

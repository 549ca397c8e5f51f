/* store/mysql/listen.c — how a client hears that it was granted a lock, or lost
 * one by force. The database has nothing of the kind, but a query can be ended.
 *
 * A thread has a connection of its own. It holds a named lock of the server's
 * (GET_LOCK), asks which of the requests that wait here were granted, and waits
 * at the server for another named lock that a session of this client holds, all
 * in one query, for ever. Who grants looks up which connection holds the first
 * one, and ends its query (KILL QUERY IS_USED_LOCK(…)), behind his commit and in
 * the same script: so the thread asks again. Nobody else's query can be meant,
 * since the named lock goes with its connection. A kill that finds the thread
 * between two queries may be lost; the next question is seconds away, and every
 * waiter polls each second. (SELECT SLEEP is no way to wait: all sleepers of
 * MariaDB share a mutex, by which who kills one of them at the wrong moment, and
 * all the others, are held up for two seconds.)
 *
 * Whether a party of a barrier is still there is told by a third named lock, which
 * the connection of its session holds: that one is idle, so the server sees at
 * once that it was closed. A claim names all: its notifier is 16 digits, a point,
 * and the number of the session.
 *
 *     snib.DIGITS       the listener's: who holds it is to be notified
 *     snib.DIGITS.N     a session's: the party is there
 *     snib.DIGITS.N.b   a session's: the listener waits for it
 *
 * A kill that comes just between the two statements of a query ends it without a
 * word to the client, for whom the second answer is still to come (seen once in
 * 30000 kills). So what is late by a second is not waited for.
 *
 * The thread begins at the client's first need. When its connection breaks it
 * ends, all waiters ask at once, and the next step that needs it begins it anew.
 * It is one thread because a call of the library that waits must go on in the
 * thread in which it began. */
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/blocking.h"
#include "store/mysql/mysql_i.h"

enum {
    LISTEN_WAIT_S = 2,
    LISTEN_LATE_MS = 1000,
    LISTEN_PAUSE_MS = 200,
    LISTEN_IN_VAIN = 2,
    LISTEN_TEXT_MAX = 1 << 20,
    LISTEN_REVOKED = 4,
    LISTEN_INTERRUPTED = 1317
};

bool snib__my_listener_init(struct snib__my_listener *l)
{
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return pthread_mutex_init(&l->mu, NULL) == 0 && l->fd >= 0;
}

void snib__my_listener_free(struct snib__mysql *p)
{
    struct snib__my_listener *l = &p->listener;
    if (l->begun && l->pid == getpid()) {
        pthread_join(l->thread, NULL);
    }
    if (l->fd >= 0) {
        close(l->fd);
    }
    snib__free(l->wait);
    pthread_mutex_destroy(&l->mu);
}

/* -- the question ---------------------------------------------------------- */

static void listen_hex(struct snib__buf *b, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    snib__buf_puts(b, "x'");
    for (size_t i = 0; i < size; i++) {
        snib__buf_printf(b, "%02x", p[i]);
    }
    snib__buf_puts(b, "'");
}

static void listen_names(const struct snib__my_listener *l, struct snib__buf *b)
{
    snib__buf_puts(b, "name IN (");
    for (uint32_t i = 0; i < l->waits; i++) {
        snib__buf_puts(b, i ? "," : "");
        listen_hex(b, l->wait[i].name, l->wait[i].size);
    }
    snib__buf_puts(b, ")");
}

/* Nobody may hold it, if the session has lost its connection: then it is given
 * back, and the answer is LISTEN_IN_VAIN. */
static void listen_wait(const struct snib__my_listener *l, struct snib__buf *b)
{
    char lock[64];
    snprintf(lock, sizeof lock, "'snib.%.16s.%d.b'", l->notifier, l->blocks);
    snib__buf_printf(b, "SELECT IF(GET_LOCK(%s,%d),RELEASE_LOCK(%s)+1,0)", lock,
                     LISTEN_WAIT_S, lock);
}

static void listen_compose(struct snib__mysql *p, struct snib__buf *b)
{
    struct snib__my_listener *l = &p->listener;
    char client[40];
    snprintf(client, sizeof client, "x'%016llx%016llx'",
             (unsigned long long)p->client[0],
             (unsigned long long)p->client[1]);
    snib__buf_clear(b);
    pthread_mutex_lock(&l->mu);
    if (l->waits) {
        snib__my_expand(p->prefix, "SELECT h_request,5 FROM #lock WHERE ", NULL,
                        NULL, b);
        listen_names(l, b);
        snib__buf_printf(b, " AND h_client=%s UNION ALL ", client);
    }
    snib__my_expand(p->prefix,
                    "SELECT request,state FROM #claim WHERE client=", NULL,
                    NULL, b);
    snib__buf_printf(b, "%s AND (state=%d", client, LISTEN_REVOKED);
    if (l->waits) {
        snib__buf_puts(b, " OR (state=5 AND ");
        listen_names(l, b);
        snib__buf_puts(b, ")");
    }
    pthread_mutex_unlock(&l->mu);
    snib__buf_puts(b, ");");
    listen_wait(l, b);
}

/* -- the thread ------------------------------------------------------------ */

static void listen_tell(struct snib__my_listener *l)
{
    uint64_t one = 1;
    (void)!write(l->fd, &one, sizeof one);
}

/* Under the mutex. */
static void listen_heard(struct snib__my_listener *l, const uint64_t id[2])
{
    if (l->heards == SNIB__MY_HEARD) {
        l->all = true;
        return;
    }
    l->heard[l->heards][0] = id[0];
    l->heard[l->heards++][1] = id[1];
}

static void listen_see(struct snib__my_listener *l, struct snib__sql_rows *rows)
{
    pthread_mutex_lock(&l->mu);
    l->all = l->all || l->lacks;
    for (int i = 0; i < rows->count; i++) {
        uint64_t id[2];
        snib__sql_get_id(rows, i, 0, id);
        /* A name that somebody here waits for may be held by another one here. */
        if (snib__sql_get_int(rows, i, 1) == LISTEN_REVOKED ||
            snib__my_find_wait(l, id)) {
            listen_heard(l, id);
        }
    }
    bool any = l->heards || l->all;
    pthread_mutex_unlock(&l->mu);
    if (any) {
        listen_tell(l);
    }
}

/* A result: first the answer to the question, then what came of the waiting. */
static void listen_take(struct snib__mysql *p, MYSQL_RES *res, bool first,
                        int64_t *waited)
{
    struct snib__sql_rows rows;
    snib__my_rows(&p->lib, res, &rows);
    if (first) {
        listen_see(&p->listener, &rows);
    } else {
        *waited = snib__sql_get_int(&rows, 0, 0);
    }
    p->lib.mysql_free_result(res);
}

/* Ask, and wait until somebody ends that. False: the connection is gone. */
static bool listen_once(struct snib__mysql *p, struct snib__buf *text,
                        int64_t *waited)
{
    struct snib__my_conn *k = &p->listener.conn;
    snib_instant until = snib__after(
        snib__sql_now(), snib__ms(LISTEN_WAIT_S * 1000 + LISTEN_LATE_MS));
    listen_compose(p, text);
    bool asks = !text->failed;
    if (!asks) { /* too many wait, or no memory: they poll */
        snib__buf_clear(text);
        listen_wait(&p->listener, text);
    }
    *waited = 0;
    bool more = snib__my_query(k, (const char *)snib__buf_bytes(text),
                               snib__buf_size(text), until);
    while (more) {
        MYSQL_RES *res = snib__my_store(k, until);
        if (res) {
            listen_take(p, res, asks, waited);
        }
        asks = false;
        more = res && snib__my_next(k, until) == 0;
    }
    unsigned code = p->lib.mysql_errno(k->c);
    return !k->late && !text->failed && (!code || code == LISTEN_INTERRUPTED);
}

/* Where one session holds nothing up, the other one may. */
static void listen_change(struct snib__mysql *p)
{
    p->listener.blocks = !p->listener.blocks;
    (void)snib__sql_wait(
        -1, p->stop, false, false,
        snib__after(snib__sql_now(), snib__ms(LISTEN_PAUSE_MS)));
}

static void *listen_body(void *store)
{
    struct snib__mysql *p = store;
    struct snib__my_listener *l = &p->listener;
    struct snib__buf text;
    snib__buf_init(&text, LISTEN_TEXT_MAX);
    int64_t waited;
    while (listen_once(p, &text, &waited)) {
        if (waited == LISTEN_IN_VAIN) {
            listen_change(p);
        }
    }
    snib__buf_free(&text);
    snib__my_quit(&l->conn);
    pthread_mutex_lock(&l->mu);
    l->hears = false;
    l->all = true;
    pthread_mutex_unlock(&l->mu);
    listen_tell(l);
    return NULL;
}

/* No signal of the program's is handled in this thread. */
static bool listen_begin(struct snib__mysql *p)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool begun = pthread_create(&p->listener.thread, NULL, listen_body, p) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return begun;
}

/* -- making ---------------------------------------------------------------- */

static void listen_see_got(void *data, struct snib__sql_rows *rows)
{
    *(int64_t *)data = snib__sql_get_int(rows, 0, 0);
}

/* Connect, and take the named lock. */
static bool listen_open(struct snib__my_session *s, const char *notifier)
{
    struct snib__my_conn *k = &s->store->listener.conn;
    struct snib__sql_script t;
    struct snib_error none;
    char lock[64];
    int64_t got = 0;
    snib_instant until = s->tables.sql.until;
    *k = (struct snib__my_conn){.store = s->store};
    if (snib__my_connect(k, until, &none)) {
        return false;
    }
    snprintf(lock, sizeof lock, "snib.%s", notifier);
    snib__sql_script_init(&t);
    snib__my_add_settings(k, &t);
    snib__sql_add(&t, SNIB__MY_LISTEN, listen_see_got, &got);
    snib__sql_string(&t, lock);
    snib__sql_sync(&t);
    snib__sql_end end = snib__my_run(k, &t, 1, until, &none);
    snib__sql_script_free(&t);
    if (end || got != 1) {
        snib__my_quit(k);
    }
    return k->c != NULL;
}

static int listen_number(const struct snib__my_session *s)
{
    return s != &s->store->session[0];
}

/* Take the named locks that say that this session is there. */
static void listen_name(struct snib__my_session *s)
{
    struct snib__sql_script t;
    struct snib_error none;
    const char *notifier = s->tables.sql.s.notifier;
    char lock[64], block[64];
    int64_t got = 0;
    snprintf(lock, sizeof lock, "snib.%.40s", notifier);
    snprintf(block, sizeof block, "snib.%.40s.b", notifier);
    snib__sql_script_init(&t);
    snib__sql_add(&t, SNIB__MY_NAME, listen_see_got, &got);
    snib__sql_string(&t, lock);
    snib__sql_string(&t, block);
    snib__sql_sync(&t);
    if (!snib__my_run(&s->conn, &t, 1,
                      snib__after(snib__sql_now(), s->store->request), &none) &&
        got == 2) {
        memcpy(s->conn.named, notifier, sizeof s->conn.named);
    }
    snib__sql_script_free(&t);
}

/* The session's claims name this listener from now on. */
static void listen_use(struct snib__my_session *s, const char *listener)
{
    struct snib__snapshot *n = &s->tables.sql.s;
    memset(n->notifier, 0, sizeof n->notifier);
    if (*listener) {
        snprintf(n->notifier, sizeof n->notifier, "%.16s.%d", listener,
                 listen_number(s));
    }
    if (*listener && s->conn.is.ready &&
        strcmp(s->conn.named, n->notifier) != 0) {
        listen_name(s);
    }
}

/* Both sessions may want it at once; one makes it. */
static bool listen_claim(struct snib__my_listener *l)
{
    pthread_mutex_lock(&l->mu);
    bool mine = !l->hears && !l->making;
    l->making = l->making || mine;
    pthread_mutex_unlock(&l->mu);
    return mine;
}

/* The thread ends by itself; nobody else may be making one. */
static void listen_make(struct snib__my_session *s)
{
    struct snib__my_listener *l = &s->store->listener;
    char notifier[40];
    if (l->begun) {
        pthread_join(l->thread, NULL);
        l->begun = false;
    }
    snprintf(notifier, sizeof notifier, "%016llx",
             (unsigned long long)snib__sql_stamp(&s->tables.sql));
    if (!listen_open(s, notifier)) {
        return;
    }
    listen_use(s, notifier);
    memcpy(l->notifier, notifier, sizeof l->notifier);
    l->blocks = listen_number(s);
    l->pid = getpid();
    pthread_mutex_lock(&l->mu);
    l->begun = l->hears = listen_begin(s->store);
    pthread_mutex_unlock(&l->mu);
    if (!l->begun) {
        snib__my_quit(&l->conn);
    }
}

void snib__my_listen(struct snib__sql *q)
{
    struct snib__my_session *s = snib__my_of(q);
    struct snib__my_listener *l = &s->store->listener;
    if (listen_claim(l)) {
        listen_make(s);
        pthread_mutex_lock(&l->mu);
        l->making = false;
        pthread_mutex_unlock(&l->mu);
    }
    snib__my_know_notifier(s);
}

void snib__my_know_notifier(struct snib__my_session *s)
{
    struct snib__my_listener *l = &s->store->listener;
    char notifier[40] = "";
    pthread_mutex_lock(&l->mu);
    bool hears = l->hears;
    if (hears) {
        memcpy(notifier, l->notifier, sizeof notifier);
    }
    pthread_mutex_unlock(&l->mu);
    listen_use(s, notifier);
    s->tables.sql.listens = hears;
}

/* -- telling, hearing ------------------------------------------------------ */

/* Somebody whose listener is told already in this script needs no more. */
static bool listen_is_told(const struct snib__sql_script *t, const char *lock)
{
    size_t size = strlen(lock);
    for (uint32_t i = 0; i < t->items; i++) {
        const struct snib__sql_item *item = &t->item[i];
        if (item->kind == SNIB__SQL_ITEM_STATEMENT &&
            item->statement == SNIB__MY_NOTIFY && item->params == 1) {
            const struct snib__sql_param *p = &t->param[item->param];
            if (p->size == size &&
                !memcmp(snib__buf_bytes(&t->bytes) + p->at, lock, size)) {
                return true;
            }
        }
    }
    return false;
}

void snib__my_notify(struct snib__sql_session *s, const struct snib__told *n)
{
    struct snib__sql_script *t = &s->script;
    char lock[64];
    snprintf(lock, sizeof lock, "snib.%.16s", n->notifier);
    if (!t->failed && !listen_is_told(t, lock)) {
        snib__sql_add(t, SNIB__MY_NOTIFY, NULL, NULL);
        snib__sql_string(t, lock);
        snib__sql_sync(t);
    }
}

uint32_t snib__my_notified(void *instance, uint64_t (*ids)[2], uint32_t max)
{
    struct snib__my_listener *l = &((struct snib__mysql *)instance)->listener;
    uint64_t times;
    (void)!read(l->fd, &times, sizeof times);
    pthread_mutex_lock(&l->mu);
    bool all = l->all || l->heards > max;
    uint32_t count = all ? SNIB__NOTIFIED_ALL : l->heards;
    for (uint32_t i = 0; !all && i < l->heards; i++) {
        ids[i][0] = l->heard[i][0];
        ids[i][1] = l->heard[i][1];
    }
    l->heards = 0;
    l->all = false;
    pthread_mutex_unlock(&l->mu);
    return count;
}

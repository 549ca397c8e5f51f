/* store/mysql/open.c — an instance is opened, stopped and freed; the store's
 * table. Opening makes no connection: each session's worker makes its own. */
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/mysql/mysql_i.h"

static const struct snib__sql_driver open_driver;

/* -- the URL --------------------------------------------------------------- */

static const char *const open_keys[] = {
    "prefix", "tls",    "ca",  "socket",        "dialect",
    "table",  "region", "ttl", "password_file", NULL};
static const struct snib__sql_scheme open_scheme = {
    .what = "mysql",
    .port = 3306,
    .form = "write mysql://HOST/DATABASE, or mysql:///DATABASE?socket=/PATH",
    .keys = open_keys,
    .needs_database = true,
};

bool snib__my_is_getlock(const struct snib__url *url)
{
    const char *dialect = snib__url_query(url, "dialect");
    return dialect && !strcmp(dialect, "getlock");
}

static snib_err open_getlock(struct snib__mysql *p, const struct snib__url *url,
                             struct snib__out *out, struct snib_error *e)
{
    static const char *const strays[] = {"table", "prefix", "region", "ttl"};
    p->getlock.on = true;
    for (size_t i = 0; i < sizeof strays / sizeof strays[0]; i++) {
        if (snib__url_query(url, strays[i])) {
            return snib__url_wrong(url,
                                   "named locks are in no table: ?table=, "
                                   "?prefix=, ?region= and ?ttl= mean nothing "
                                   "there",
                                   e);
        }
    }
    p->getlock.epoll = epoll_create1(EPOLL_CLOEXEC);
    out->caps = SNIB__TIED | SNIB__NO_LATCH | SNIB__CAN_PUSH;
    return p->getlock.epoll >= 0
               ? SNIB_ERR_OK
               : snib__fail(e, SNIB_ERR_LIMIT,
                            "mysql: no descriptor for its wake-up (ulimit -n)");
}

static snib_err open_read_url(struct snib__mysql *p,
                              const struct snib__url *url,
                              struct snib__out *out, struct snib_error *e)
{
    const char *prefix = snib__url_query(url, "prefix");
    const char *file = snib__url_query(url, "password_file");
    snib_err err = snib__sql_address_read(&p->address, &open_scheme, url, e);
    if (err) {
        return err;
    }
    if (!snib__sql_is_plain(prefix ? prefix : "snib")) {
        return snib__url_wrong(url,
                               "?prefix= is lower-case letters, digits and "
                               "'_', and shorter than 48",
                               e);
    }
    snprintf(p->prefix, sizeof p->prefix, "%s", prefix ? prefix : "snib");
    err = snib__my_is_getlock(url)
              ? open_getlock(p, url, out, e)
              : snib__sql_recipe_open(&p->recipe, url, out, NULL, p->prefix,
                                      sizeof p->prefix, e);
    if (!err && p->recipe.on && prefix) {
        err = snib__url_wrong(
            url, "?prefix= is of snib's own tables; a dialect has ?table=", e);
    }
    p->password_file = err ? NULL : snib__strdup(file);
    return err || p->password_file || !file
               ? err
               : snib__fail_plain(e, SNIB_ERR_NOMEM);
}

/* -- life ------------------------------------------------------------------ */

static void open_interrupt(void *instance)
{
    uint64_t one = 1;
    struct snib__mysql *p = instance;
    if (p->stop >= 0) {
        (void)!write(p->stop, &one, sizeof one);
    }
}

static void open_free(void *instance)
{
    struct snib__mysql *p = instance;
    open_interrupt(p); /* the listener's thread, too */
    snib__sql_natives_free(&p->getlock);
    if (p->getlock.epoll >= 0) {
        close(p->getlock.epoll);
    }
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct snib__my_session *s = &p->session[i];
        snib__my_quit(&s->conn);
        snib__sql_session_free(&s->tables);
    }
    snib__my_listener_free(p);
    if (p->stop >= 0) {
        close(p->stop);
    }
    snib__sql_address_free(&p->address);
    snib__free(p->password_file);
    snib__free(p);
}

static void open_sessions(struct snib__mysql *p,
                          const struct snib__store_config *config)
{
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct snib__my_session *s = &p->session[i];
        s->store = s->conn.store = p;
        snib__sql_session_init(&s->tables, &open_driver, "mysql",
                               &snib__my_link, &s->conn.is, p->client, config,
                               (uint64_t)i);
    }
}

snib_err snib__mysql_open_on(const struct snib__store_config *config,
                             const struct snib__mariadb *lib, void **ret,
                             struct snib_error *e)
{
    *ret = NULL;
    if (config->login && !snib__url_query(config->url, "password_file")) {
        return snib__fail(e, SNIB_ERR_UNSUPPORTED,
                          "mysql: takes its login from the URL or by "
                          "?password_file=, not from the option login");
    }
    struct snib__mysql *p = snib__alloc(sizeof *p);
    if (!p) {
        return snib__fail_plain(e, SNIB_ERR_NOMEM);
    }
    p->lib = *lib;
    p->wall_offset_ns = config->wall_offset_ns;
    p->request = config->request;
    memcpy(p->client, config->client, sizeof p->client);
    p->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    open_sessions(p, config);
    bool listens = snib__my_listener_init(&p->listener);
    snib__sql_natives_init(&p->getlock, &snib__my_getlock, p->address.where,
                           &p->listener.mu, -1);
    snib_err err = open_read_url(p, config->url, config->out, e);
    if (!err && (p->stop < 0 || !listens)) {
        err = snib__fail(e, SNIB_ERR_LIMIT,
                         "mysql: no descriptor for its wake-up (ulimit -n)");
    }
    if (err) {
        open_free(p);
        return err;
    }
    snib__sql_address_warn(&p->address, config->out);
    *ret = p;
    return SNIB_ERR_OK;
}

static snib_err open_of_url(const struct snib__store_config *config, void **ret,
                            struct snib_error *e)
{
    struct snib__mariadb lib;
    snib_err err = snib__mariadb_load(&lib, e);
    *ret = NULL;
    return err ? err : snib__mysql_open_on(config, &lib, ret, e);
}

/* -- the table ------------------------------------------------------------- */

static void open_exec_in(void *instance, snib__session session,
                         snib_instant now, struct snib__list *chain)
{
    struct snib__mysql *p = instance;
    struct snib__my_session *s = &p->session[session];
    (void)now; /* the clock is read again before each sending */
    if (p->getlock.on) {
        snib__sql_native_execute(&s->tables, &p->getlock, chain);
        return;
    }
    if (p->recipe.on) {
        snib__sql_recipe_execute(&s->tables, &p->recipe, chain);
        return;
    }
    snib__my_know_notifier(s);
    snib__my_note_waits(p, chain);
    snib__sql_execute(&s->tables.sql, chain);
    snib__my_drop_waits(p, chain);
}

static int open_notifier_fd(void *instance)
{
    struct snib__mysql *p = instance;
    return p->getlock.on ? p->getlock.epoll : p->listener.fd;
}

static uint32_t open_notified(void *instance, uint64_t (*ids)[2], uint32_t max)
{
    struct snib__mysql *p = instance;
    return p->getlock.on ? snib__sql_native_notified(&p->getlock, ids, max)
                         : snib__my_notified(p, ids, max);
}

static void open_server(void *instance, struct snib__server *ret)
{
    struct snib__mysql *p = instance;
    snprintf(ret->address, sizeof ret->address, "%s", p->address.where);
    pthread_mutex_lock(&p->listener.mu);
    if (p->server.version[0]) {
        memcpy(ret->version, p->server.version, sizeof p->server.version);
        snprintf(ret->role, sizeof ret->role, "primary");
        ret->connected = p->server.connected;
    }
    pthread_mutex_unlock(&p->listener.mu);
}

static void open_pause(struct snib__sql *q, snib_duration d)
{
    snib__sql_wait(-1, snib__my_of(q)->store->stop, false, false,
                   snib__after(snib__sql_now(), d));
}

/* Where the server would let a frozen client keep others out, nothing is locked
 * while a client thinks. */
static bool open_may_lock(struct snib__sql *q, bool lock)
{
    struct snib__sql_session *s = snib__sql_session_of(q);
    return lock && snib__sql_connect(s) == SNIB__SQL_OK &&
           snib__my_of(q)->conn.ends_idle;
}

static snib__sql_end open_fetch(struct snib__sql *q, bool lock)
{
    return snib__sql_fetch(q, open_may_lock(q, lock));
}

/* Whether the fetch has locked is known by the transaction that it left open: a
 * server that could not be reached for the question above may have answered the
 * fetch itself. */
static snib__sql_end open_write(struct snib__sql *q, bool lock, bool durable)
{
    return snib__sql_write(q, lock && snib__my_of(q)->conn.is.inside, durable);
}

static const struct snib__sql_driver open_driver = {
    .now = snib__sql_now,
    .pause = open_pause,
    .reach = snib__sql_reach,
    .listen = snib__my_listen,
    .fetch = open_fetch,
    .write = open_write,
    .leave = snib__sql_leave,
    .quick = snib__sql_quick,
    .value_read = snib__sql_value_read,
    .value_write = snib__sql_value_write,
    .look = snib__sql_look,
    .doctor = snib__my_doctor,
    .clean = snib__sql_clean_up,
};

const struct snib__blocking_ops snib__mysql_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "mysql",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH | SNIB__SAYS_SENT,
    .open = open_of_url,
    .exec_in = open_exec_in,
    .interrupt = open_interrupt,
    .notifier_fd = open_notifier_fd,
    .notified = open_notified,
    .server = open_server,
    .free = open_free,
};

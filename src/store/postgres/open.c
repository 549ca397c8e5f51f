/* store/postgres/open.c — an instance is opened, stopped and freed; the store's
 * table. Opening makes no connection: each session's worker makes its own. */
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/postgres/postgres_i.h"

static const struct snib__sql_driver open_driver;

/* -- the URL --------------------------------------------------------------- */

static const char *const open_keys[] = {"schema", "tls",  "ca",      "durable",
                                        "socket", "port", "dialect", "table",
                                        "region", "ttl",  NULL};
static const struct snib__sql_scheme open_scheme = {
    .what = "postgres",
    .port = 5432,
    .form = "write postgres://HOST/DATABASE, or "
            "postgres:///DATABASE?socket=/FOLDER",
    .keys = open_keys,
};

static bool open_is_advisory(const struct snib__url *url)
{
    const char *dialect = snib__url_query(url, "dialect");
    return dialect && !strcmp(dialect, "advisory");
}

static snib_err open_advisory(const struct snib__url *url,
                              struct snib__out *out, struct snib_error *e)
{
    static const char *const strays[] = {"table", "schema", "durable", "region",
                                         "ttl"};
    for (size_t i = 0; i < sizeof strays / sizeof strays[0]; i++) {
        if (snib__url_query(url, strays[i])) {
            return snib__url_wrong(url,
                                   "advisory locks are in no table: ?table=, "
                                   "?schema=, ?durable=, ?region= and ?ttl= "
                                   "mean nothing there",
                                   e);
        }
    }
    out->caps = SNIB__TIED | SNIB__NO_LATCH | SNIB__CAN_PUSH;
    return SNIB_ERR_OK;
}

static snib_err open_read_url(struct snib__postgres *p,
                              const struct snib__url *url,
                              struct snib__out *out, struct snib_error *e)
{
    const char *schema = snib__url_query(url, "schema");
    snib_err err = snib__sql_address_read(&p->address, &open_scheme, url, e);
    if (err) {
        return err;
    }
    if (!snib__sql_is_plain(schema ? schema : "snib")) {
        return snib__url_wrong(url,
                               "?schema= is lower-case letters, digits and "
                               "'_', and shorter than 48",
                               e);
    }
    snprintf(p->schema, sizeof p->schema, "%s", schema ? schema : "snib");
    if (!snib__sql_is_yes(snib__url_query(url, "durable"), "yes", "no", true,
                          &p->durable)) {
        return snib__url_wrong(url, "?durable= is yes or no", e);
    }
    p->advisory.on = open_is_advisory(url);
    return p->advisory.on
               ? open_advisory(url, out, e)
               : snib__sql_recipe_open(&p->recipe, url, out,
                                       schema ? schema : "public", p->schema,
                                       sizeof p->schema, e);
}

/* -- life ------------------------------------------------------------------ */

static void open_free(void *instance)
{
    struct snib__postgres *p = instance;
    snib__sql_natives_free(&p->advisory);
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct snib__pg_session *s = &p->session[i];
        snib__pg_quit(&s->conn);
        snib__sql_session_free(&s->tables);
    }
    snib__pg_listener_free(p);
    if (p->stop >= 0) {
        close(p->stop);
    }
    snib__sql_address_free(&p->address);
    snib__free(p);
}

static void open_sessions(struct snib__postgres *p,
                          const struct snib__store_config *config)
{
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct snib__pg_session *s = &p->session[i];
        s->store = s->conn.store = p;
        snib__sql_session_init(&s->tables, &open_driver, "postgres",
                               &snib__pg_link, &s->conn.is, p->client, config,
                               (uint64_t)i);
    }
}

snib_err snib__postgres_open_on(const struct snib__store_config *config,
                                const struct snib__pq *pq, void **ret,
                                struct snib_error *e)
{
    *ret = NULL;
    if (config->url && snib__url_query(config->url, "password_file")) {
        return snib__url_wrong(config->url,
                               "postgres: does not know ?password_file=; libpq "
                               "takes a password from ~/.pgpass, or from the "
                               "file that PGPASSFILE names",
                               e);
    }
    if (config->login) {
        return snib__fail(e, SNIB_ERR_UNSUPPORTED,
                          "postgres: takes its login from the URL or from "
                          "~/.pgpass, not from the option login");
    }
    struct snib__postgres *p = snib__alloc(sizeof *p);
    if (!p) {
        return snib__fail_plain(e, SNIB_ERR_NOMEM);
    }
    p->pq = *pq;
    p->wall_offset_ns = config->wall_offset_ns;
    memcpy(p->client, config->client, sizeof p->client);
    p->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    open_sessions(p, config);
    bool listens = snib__pg_listener_init(&p->listener);
    snib__sql_natives_init(&p->advisory, &snib__pg_advisory, p->address.where,
                           &p->listener.mu, p->listener.epoll);
    snib_err err = open_read_url(p, config->url, config->out, e);
    if (!err && (p->stop < 0 || !listens)) {
        err = snib__fail(e, SNIB_ERR_LIMIT,
                         "postgres: no descriptor for its wake-up (ulimit -n)");
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
    struct snib__pq pq;
    snib_err err = snib__pq_load(&pq, e);
    *ret = NULL;
    return err ? err : snib__postgres_open_on(config, &pq, ret, e);
}

/* -- the table ------------------------------------------------------------- */

static void open_exec_in(void *instance, snib__session session,
                         snib_instant now, struct snib__list *chain)
{
    struct snib__pg_session *s =
        &((struct snib__postgres *)instance)->session[session];
    (void)now; /* the clock is read again before each sending */
    if (s->store->advisory.on) {
        snib__sql_native_execute(&s->tables, &s->store->advisory, chain);
        return;
    }
    if (s->store->recipe.on) {
        snib__sql_recipe_execute(&s->tables, &s->store->recipe, chain);
        return;
    }
    snib__pg_know_notifier(s);
    snib__sql_execute(&s->tables.sql, chain);
}

static void open_interrupt(void *instance)
{
    uint64_t one = 1;
    struct snib__postgres *p = instance;
    (void)!write(p->stop, &one, sizeof one);
}

static uint32_t open_notified(void *instance, uint64_t (*ids)[2], uint32_t max)
{
    struct snib__postgres *p = instance;
    return p->advisory.on ? snib__sql_native_notified(&p->advisory, ids, max)
                          : snib__pg_notified(p, ids, max);
}

static int open_notifier_fd(void *instance)
{
    return ((struct snib__postgres *)instance)->listener.epoll;
}

static void open_server(void *instance, struct snib__server *ret)
{
    struct snib__postgres *p = instance;
    snprintf(ret->address, sizeof ret->address, "%s", p->address.where);
    pthread_mutex_lock(&p->listener.mu);
    if (p->server.version) {
        snprintf(ret->version, sizeof ret->version, "%d.%d",
                 p->server.version / 10000, p->server.version % 10000);
        snprintf(ret->role, sizeof ret->role, "primary");
        snprintf(ret->run_id, sizeof ret->run_id, "%s", p->server.life);
        ret->connected = p->server.connected;
    }
    pthread_mutex_unlock(&p->listener.mu);
}

static void open_pause(struct snib__sql *q, snib_duration d)
{
    struct snib__pg_conn *k = &snib__pg_of(q)->conn;
    if (k->c) {
        (void)snib__pg_wait(k, false, false, snib__after(snib__sql_now(), d));
    }
}

static const struct snib__sql_driver open_driver = {
    .now = snib__sql_now,
    .pause = open_pause,
    .reach = snib__sql_reach,
    .listen = snib__pg_listen,
    .fetch = snib__sql_fetch,
    .write = snib__sql_write,
    .leave = snib__sql_leave,
    .quick = snib__sql_quick,
    .value_read = snib__sql_value_read,
    .value_write = snib__sql_value_write,
    .look = snib__sql_look,
    .doctor = snib__pg_doctor,
    .clean = snib__sql_clean_up,
};

const struct snib__blocking_ops snib__postgres_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "postgres",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH | SNIB__SAYS_SENT,
    .open = open_of_url,
    .exec_in = open_exec_in,
    .interrupt = open_interrupt,
    .notifier_fd = open_notifier_fd,
    .notified = open_notified,
    .server = open_server,
    .free = open_free,
};

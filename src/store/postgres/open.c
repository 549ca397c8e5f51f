/* store/postgres/open.c — an instance is opened, stopped and freed; the store's
 * table. Opening makes no connection: each session's worker makes its own. */
#include <stdio.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/postgres/postgres_i.h"

enum { OPEN_PORT = 5432 };

static const struct snib__sql_driver open_driver;

/* -- the URL --------------------------------------------------------------- */

static snib_err open_wrong(struct snib_error *e, const struct snib__url *url,
                           const char *words)
{
    return snib__fail(e, SNIB_ERR_USAGE, "%.120s: %s", url->safe, words);
}

static bool open_is_here(const struct snib__postgres *p)
{
    return p->host[0] == '/' || !strcasecmp(p->host, "localhost") ||
           !strncmp(p->host, "127.", 4) || !strcmp(p->host, "::1");
}

/* A name that needs no quotes, whoever writes it. */
bool snib__pg_is_schema(const char *s)
{
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return n > 0 && n < 48 && !s[n] && !(s[0] >= '0' && s[0] <= '9');
}

static bool open_is_yes(const char *value, const char *yes, const char *no,
                        bool otherwise, bool *ret)
{
    *ret = value ? !strcmp(value, yes) : otherwise;
    return !value || !strcmp(value, yes) || !strcmp(value, no);
}

static snib_err open_check_keys(const struct snib__url *url,
                                struct snib_error *e)
{
    static const char *const known[] = {"schema",  "tls",    "ca",
                                        "durable", "socket", "port"};
    for (uint32_t i = 0; i < url->queries; i++) {
        bool is = false;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
            is = is || !strcmp(url->query[i].key, known[k]);
        }
        if (!is) {
            return snib__fail(e, SNIB_ERR_USAGE, "postgres: does not know ?%s=",
                              url->query[i].key);
        }
    }
    return SNIB_ERR_OK;
}

static snib_err open_read_options(struct snib__postgres *p,
                                  const struct snib__url *url,
                                  struct snib_error *e)
{
    const char *schema = snib__url_query(url, "schema");
    snib_err err = open_check_keys(url, e);
    if (err) {
        return err;
    }
    if (!snib__pg_is_schema(schema ? schema : "snib")) {
        return open_wrong(e, url,
                          "?schema= is lower-case letters, digits and '_', and "
                          "shorter than 48");
    }
    snprintf(p->schema, sizeof p->schema, "%s", schema ? schema : "snib");
    if (!open_is_yes(snib__url_query(url, "tls"), "verify", "no", !p->here,
                     &p->verify)) {
        return open_wrong(e, url, "?tls= is verify or no");
    }
    if (!open_is_yes(snib__url_query(url, "durable"), "yes", "no", true,
                     &p->durable)) {
        return open_wrong(e, url, "?durable= is yes or no");
    }
    return SNIB_ERR_OK;
}

/* "/db" -> "db"; NULL: the server's default, which is the user's name. */
static const char *open_database(const struct snib__url *url)
{
    const char *path = url->path ? url->path : "";
    path += *path == '/';
    return *path ? path : NULL;
}

/* A socket's port stands behind '?', since its folder does. 0: no port. */
static unsigned open_port(const struct snib__url *url)
{
    const char *text = snib__url_query(url, "port");
    unsigned port = url->port ? url->port : OPEN_PORT;
    if (!text) {
        return port;
    }
    port = 0;
    for (; *text >= '0' && *text <= '9' && port < 65536; text++) {
        port = port * 10 + (unsigned)(*text - '0');
    }
    return *text || port > 65535 || url->host ? 0 : port;
}

static bool open_copy(char **ret, const char *text)
{
    *ret = snib__strdup(text);
    return *ret || !text;
}

static snib_err open_read_url(struct snib__postgres *p,
                              const struct snib__url *url, struct snib_error *e)
{
    const char *socket = snib__url_query(url, "socket");
    const char *host = url->host ? url->host : socket;
    char port[8];
    snprintf(port, sizeof port, "%u", open_port(url));
    if (url->nodes || !host || !open_port(url) ||
        (socket && (url->host || socket[0] != '/'))) {
        return open_wrong(e, url,
                          "write postgres://HOST/DATABASE, or "
                          "postgres:///DATABASE?socket=/FOLDER");
    }
    const char *database = open_database(url);
    if (database && strchr(database, '/')) {
        return open_wrong(e, url, "a database has no '/' in its name");
    }
    if (!open_copy(&p->host, host) || !open_copy(&p->port, port) ||
        !open_copy(&p->database, database) || !open_copy(&p->user, url->user) ||
        !open_copy(&p->password, url->password) ||
        !open_copy(&p->ca, snib__url_query(url, "ca"))) {
        return snib__fail_plain(e, SNIB_ERR_NOMEM);
    }
    snprintf(p->where, sizeof p->where,
             strchr(p->host, ':') ? "[%.200s]:%s" : "%.200s:%s", p->host, port);
    p->here = open_is_here(p);
    return open_read_options(p, url, e);
}

/* -- life ------------------------------------------------------------------ */

static void open_wipe(char *secret)
{
    if (secret) {
        explicit_bzero(secret, strlen(secret));
        snib__free(secret);
    }
}

static void open_free(void *instance)
{
    struct snib__postgres *p = instance;
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct snib__pg_session *s = &p->session[i];
        snib__pg_quit(&s->conn);
        snib__pg_script_free(&s->script);
        snib__buf_free(&s->rows);
        snib__free(s->fetched);
        snib__sql_free(&s->sql);
    }
    snib__pg_listener_free(p);
    if (p->stop >= 0) {
        close(p->stop);
    }
    snib__free(p->host);
    snib__free(p->port);
    snib__free(p->database);
    snib__free(p->user);
    open_wipe(p->password);
    snib__free(p->ca);
    snib__free(p);
}

static void open_sessions(struct snib__postgres *p,
                          const struct snib__store_config *config)
{
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct snib__pg_session *s = &p->session[i];
        s->store = s->conn.store = p;
        snib__sql_init(&s->sql, &open_driver, "postgres", config, (uint64_t)i);
        snib__pg_script_init(&s->script);
        snib__buf_init(&s->rows, (size_t)64 << 20);
    }
}

static void open_warn(const struct snib__postgres *p,
                      const struct snib__store_config *config)
{
    char words[400];
    if (!p->verify && !p->here && config->out->log) {
        snprintf(words, sizeof words,
                 "%s is used without TLS (?tls=no): whoever is on the way can "
                 "read the password and grant locks",
                 p->where);
        config->out->log(config->out->log_data, SNIB_LOG_WARN, words);
    }
}

snib_err snib__postgres_open_on(const struct snib__store_config *config,
                                const struct snib__pq *pq, void **ret,
                                struct snib_error *e)
{
    *ret = NULL;
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
    snib_err err = open_read_url(p, config->url, e);
    if (!err && (p->stop < 0 || !listens)) {
        err = snib__fail(e, SNIB_ERR_LIMIT,
                         "postgres: no descriptor for its wake-up (ulimit -n)");
    }
    if (err) {
        open_free(p);
        return err;
    }
    open_warn(p, config);
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
    snib__pg_know_notifier(s);
    snib__sql_execute(&s->sql, chain);
}

static void open_interrupt(void *instance)
{
    uint64_t one = 1;
    struct snib__postgres *p = instance;
    (void)!write(p->stop, &one, sizeof one);
}

static int open_notifier_fd(void *instance)
{
    return ((struct snib__postgres *)instance)->listener.epoll;
}

static void open_server(void *instance, struct snib__server *ret)
{
    struct snib__postgres *p = instance;
    snprintf(ret->address, sizeof ret->address, "%s", p->where);
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
        (void)snib__pg_wait(k, false, false, snib__after(snib__pg_now(), d));
    }
}

static const struct snib__sql_driver open_driver = {
    .now = snib__pg_now,
    .pause = open_pause,
    .listen = snib__pg_listen,
    .fetch = snib__pg_fetch,
    .write = snib__pg_write,
    .leave = snib__pg_leave,
    .quick = snib__pg_quick,
    .value_read = snib__pg_value_read,
    .value_write = snib__pg_value_write,
    .look = snib__pg_look,
    .doctor = snib__pg_doctor,
    .clean = snib__pg_clean_up,
};

const struct snib__blocking_ops snib__postgres_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "postgres",
    .caps = SNIB__CAN_QUEUE | SNIB__CAN_PUSH,
    .open = open_of_url,
    .exec_in = open_exec_in,
    .interrupt = open_interrupt,
    .notifier_fd = open_notifier_fd,
    .notified = snib__pg_notified,
    .server = open_server,
    .free = open_free,
};

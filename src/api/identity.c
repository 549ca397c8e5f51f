/* api/identity.c — what makes two URLs one store.
 *
 *     redis://HOST:PORT/DB      host in lower case, defaults filled in
 *     redis://HOST:PORT,…/DB    servers of which one is the primary, sorted
 *     redis+sentinel://HOST:PORT,…/SERVICE/DB  the Sentinels, sorted
 *     redis+unix:PATH?db=DB     also for redis://…?socket=PATH
 *     file:PATH                 as realpath(3) gives it
 *     postgres://HOST:PORT/DATABASE?schema=SCHEMA  of a dialect
 *                               ?dialect=DIALECT&table=TABLE&schema=SCHEMA
 *                               (int_lock: &region=REGION), or ?dialect=advisory
 *     mysql://HOST:PORT/DATABASE?prefix=PREFIX  of a dialect
 *                               ?dialect=DIALECT&table=TABLE (&region=REGION)
 *     mysql://HOST:PORT/?dialect=getlock  the same in all databases of a server
 *     etcd://HOST:PORT,…?prefix=PREFIX  the members, sorted; of a dialect
 *                               ?dialect=DIALECT, or both
 *     zookeeper://HOST:PORT,…/PATH  the servers, sorted; with Curator's mutexes
 *                               "?dialect=curator-mutex" behind it
 *     amqp://HOST:PORT,…/VHOST  the nodes, sorted
 *     memory:NAME
 *     redlock://HOST:PORT,HOST:PORT,…/DB  a quorum: its servers, sorted
 *     redis+cluster://HOST:PORT,…/0  the nodes that the URL names, sorted
 *     SCHEME://HOST:PORT/PATH   any other
 *
 * Login and options are left out: they do not change which locks there are. A
 * server that is reached by two names (an alias, an address, a socket) has two
 * identities. Only the server could tell that they are one, and the order of
 * several locks (multi.c) must be known before any server is asked. The text is
 * part of that order, so it is the same in every process and every release. */
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "base/mem.h"

enum {
    IDENTITY_MAX = 3 * PATH_MAX,
    REDIS_PORT = 6379,
    SENTINEL_PORT = 26379,
    ETCD_PORT = 2379,
    ZOOKEEPER_PORT = 2181,
    AMQP_PORT = 5672,
    AMQPS_PORT = 5671
};

static const char *identity_or_else(const char *text, const char *otherwise)
{
    return text && *text ? text : otherwise;
}

static void identity_put_host(struct snib__buf *b, const char *host)
{
    bool v6 = strchr(host, ':') != NULL;
    snib__buf_puts(b, v6 ? "[" : "");
    for (; *host; host++) {
        char c = (char)tolower((unsigned char)*host);
        snib__buf_add(b, &c, 1);
    }
    snib__buf_puts(b, v6 ? "]" : "");
}

/* The database's number, from a path or the value of db=: 00 is 0, and so is
 * none. */
static const char *identity_db(const char *text)
{
    return identity_or_else(text + strspn(text, "/0"), "0");
}

struct identity_server {
    const char *host;
    uint16_t port;
};

static int identity_by_host(const void *left, const void *right)
{
    const struct identity_server *a = left, *b = right;
    int c = strcasecmp(a->host, b->host);
    return c ? c : (a->port > b->port) - (a->port < b->port);
}

/* Servers in whatever order they are named: they are one store. */
static void identity_put_hosts(struct snib__buf *b, const struct snib__url *url,
                               uint16_t port)
{
    struct identity_server server[SNIB__URL_NODES] = {{NULL, 0}};
    for (uint32_t i = 0; i < url->nodes; i++) {
        server[i] = (struct identity_server){
            identity_or_else(url->node[i].host, ""),
            url->node[i].port ? url->node[i].port : port};
    }
    qsort(server, url->nodes, sizeof server[0], identity_by_host);
    snib__buf_printf(b, "%s://", url->scheme);
    for (uint32_t i = 0; i < url->nodes; i++) {
        snib__buf_puts(b, i ? "," : "");
        identity_put_host(b, server[i].host);
        snib__buf_printf(b, ":%u", server[i].port);
    }
}

void snib__identity_quorum(struct snib__buf *b, const struct snib__url *url)
{
    const char *db = snib__url_query(url, "db");
    identity_put_hosts(b, url, REDIS_PORT);
    snib__buf_printf(b, "/%s",
                     identity_db(db ? db : identity_or_else(url->path, "")));
}

void snib__identity_redis(struct snib__buf *b, const struct snib__url *url)
{
    const char *path = identity_or_else(url->path, "");
    const char *socket = snib__url_query(url, "socket");
    const char *query = snib__url_query(url, "db");
    if (url->nodes) {
        snib__identity_quorum(b, url); /* of which one is the primary */
        return;
    }
    if (!strcmp(url->scheme, "redis+unix")) {
        socket = path;
        path = "";
    }
    const char *db = identity_db(query ? query : path);
    if (socket) {
        snib__buf_printf(b, "redis+unix:%s?db=%s", socket, db);
        return;
    }
    snib__buf_printf(b, "%s://", url->scheme);
    identity_put_host(b, identity_or_else(url->host, ""));
    snib__buf_printf(b, ":%u/%s", url->port ? url->port : REDIS_PORT, db);
}

/* The path is /SERVICE or /SERVICE/DB. */
void snib__identity_sentinel(struct snib__buf *b, const struct snib__url *url)
{
    const char *service = identity_or_else(url->path, "");
    const char *query = snib__url_query(url, "db");
    service += *service == '/';
    const char *slash = strchr(service, '/');
    size_t size = slash ? (size_t)(slash - service) : strlen(service);
    const char *db = query ? query : slash ? slash : "";
    identity_put_hosts(b, url, SENTINEL_PORT);
    snib__buf_printf(b, "/%.*s/%s", (int)size, service, identity_db(db));
}

/* A socket's path stands in the host's place. Without a database the server
 * takes the one that is named like the user. key: of the option that tells
 * stores in one database apart. */
static void identity_put_database(struct snib__buf *b,
                                  const struct snib__url *url, unsigned port,
                                  const char *key, const char *public)
{
    const char *dialect = snib__url_query(url, "dialect");
    const char *otherwise = dialect ? public : "snib";
    const char *path = identity_or_else(url->path, "");
    const char *database = path + strspn(path, "/");
    const char *socket = snib__url_query(url, "socket");
    snib__buf_printf(b, "%s://", url->scheme);
    if (url->host) {
        identity_put_host(b, url->host);
    } else {
        snib__buf_puts(b, identity_or_else(socket, ""));
    }
    if (snib__url_query(url, "port")) {
        snib__buf_printf(b, ":%s", snib__url_query(url, "port"));
    } else {
        snib__buf_printf(b, ":%u", url->port ? url->port : port);
    }
    if (dialect && !strcmp(dialect, "getlock")) {
        snib__buf_puts(b, "/?dialect=getlock"); /* of all databases there */
        return;
    }
    snib__buf_printf(b, "/%s?",
                     *database ? database : identity_or_else(url->user, ""));
    if (dialect && !strcmp(dialect, "advisory")) {
        snib__buf_puts(b, "dialect=advisory"); /* there is no table */
        return;
    }
    bool int_lock = dialect && !strcmp(dialect, "int_lock");
    if (dialect) {
        snib__buf_printf(b, "dialect=%s&table=%s%s", dialect,
                         identity_or_else(snib__url_query(url, "table"),
                                          int_lock ? "INT_LOCK" : "shedlock"),
                         otherwise ? "&" : "");
    }
    if (otherwise) {
        snib__buf_printf(
            b, "%s=%s", key,
            identity_or_else(snib__url_query(url, key), otherwise));
    }
    if (int_lock) {
        snib__buf_printf(
            b, "&region=%s",
            identity_or_else(snib__url_query(url, "region"), "DEFAULT"));
    }
}

void snib__identity_postgres(struct snib__buf *b, const struct snib__url *url)
{
    identity_put_database(b, url, 5432, "schema", "public");
}

void snib__identity_mysql(struct snib__buf *b, const struct snib__url *url)
{
    identity_put_database(b, url, 3306, "prefix", NULL);
}

static void identity_put_nodes(struct snib__buf *b, const struct snib__url *url,
                               uint16_t port)
{
    if (url->nodes) {
        identity_put_hosts(b, url, port);
        return;
    }
    snib__buf_printf(b, "%s://", url->scheme);
    identity_put_host(b, identity_or_else(url->host, ""));
    snib__buf_printf(b, ":%u", url->port ? url->port : port);
}

static int identity_bare_size(const char *text) /* without a slash behind */
{
    size_t size = strlen(text);
    return (int)(size - (text[size - 1] == '/'));
}

void snib__identity_etcd(struct snib__buf *b, const struct snib__url *url)
{
    const char *dialect = snib__url_query(url, "dialect");
    const char *prefix =
        identity_or_else(snib__url_query(url, "prefix"), dialect ? "" : "snib");
    identity_put_nodes(b, url, ETCD_PORT);
    if (*prefix) {
        snib__buf_printf(b, "?prefix=%.*s", identity_bare_size(prefix), prefix);
    }
    if (dialect) {
        snib__buf_printf(b, "%sdialect=%s", *prefix ? "&" : "?", dialect);
    }
}

void snib__identity_zookeeper(struct snib__buf *b, const struct snib__url *url)
{
    const char *path = identity_or_else(url->path, "/snib");
    const char *dialect = snib__url_query(url, "dialect");
    identity_put_nodes(b, url, ZOOKEEPER_PORT);
    snib__buf_printf(b, "%.*s", identity_bare_size(path), path);
    if (dialect && !strcmp(dialect, "curator-mutex")) {
        snib__buf_puts(b, "?dialect=curator-mutex");
    }
}

void snib__identity_rabbitmq(struct snib__buf *b, const struct snib__url *url)
{
    const char *path = identity_or_else(url->path, "/");
    identity_put_nodes(b, url,
                       snib__url_is_secure(url) ? AMQPS_PORT : AMQP_PORT);
    snib__buf_printf(b, "/%s", *path && path[1] ? path + 1 : "/");
}

void snib__identity_file(struct snib__buf *b, const struct snib__url *url)
{
    char real[PATH_MAX];
    const char *path = identity_or_else(url->path, "");
    snib__buf_printf(b, "%s:%s", url->scheme,
                     realpath(path, real) ? real : path);
}

static void identity_put_other(struct snib__buf *b, const struct snib__url *url)
{
    snib__buf_printf(b, "%s:", url->scheme);
    if (url->host) {
        snib__buf_puts(b, "//");
        identity_put_host(b, url->host);
        if (url->port) {
            snib__buf_printf(b, ":%u", url->port);
        }
    }
    snib__buf_puts(b, identity_or_else(url->path, ""));
}

char *snib__store_identity(const struct snib__registered *store,
                           const struct snib__url *url)
{
    struct snib__buf b;
    snib__buf_init(&b, IDENTITY_MAX);
    if (store && store->identity) {
        store->identity(&b, url);
    } else {
        identity_put_other(&b, url);
    }
    const char *text = snib__buf_text(&b);
    char *ret = text && !b.failed ? snib__strdup(text) : NULL;
    snib__buf_free(&b);
    return ret;
}

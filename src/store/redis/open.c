/* store/redis/open.c — from a URL to a store that has not connected yet, and
 * its memory's end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/redis/inspect_i.h"

static bool open_parse_db(const char *text, uint32_t *ret)
{
    char *end;
    if (!*text) {
        return true;
    }
    unsigned long v = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || v > 65535) {
        return false;
    }
    *ret = (uint32_t)v;
    return true;
}

/* Those of the Sentinels' own login. */
static bool open_is_sentinels(const char *key)
{
    return !strcmp(key, "sentinel_user") || !strcmp(key, "sentinel_password");
}

static snib_err open_check_keys(const struct snib__url *url, bool secure,
                                struct snib_error *reterr)
{
    for (uint32_t i = 0; i < url->queries; i++) {
        const char *key = url->query[i].key;
        bool tls = snib__url_is_tls_key(key);
        if (tls && !secure) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.60s: %.40s= is for rediss:, which is "
                              "encrypted; redis: is not",
                              url->safe, key);
        }
        if (open_is_sentinels(key) && snib__url_is_sentinel(url)) {
            continue;
        }
        if (!tls && strcmp(key, "db") != 0 && strcmp(key, "socket") != 0 &&
            strcmp(key, "wait") != 0 && strcmp(key, "password_file") != 0 &&
            strcmp(key, "recovery") != 0 && strcmp(key, "replicas") != 0) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.60s: redis knows db=, socket=, wait=, "
                              "password_file=, recovery= and replicas=, not "
                              "%.40s=",
                              url->safe, key);
        }
    }
    return SNIB_ERR_OK;
}

/* "30s", "500ms", "5m", "1h": 1 ms to a day, as the longest lease. */
static bool open_parse_time(const char *text, int64_t *ret_ms)
{
    static const struct {
        const char *unit;
        int64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    char *end;
    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    long long n = strtoll(text, &end, 10);
    for (size_t i = 0; !errno && i < sizeof units / sizeof *units; i++) {
        if (!strcmp(end, units[i].unit)) {
            *ret_ms = n <= SNIB_LEASE_MAX_MS ? n * units[i].ms : 0;
            return *ret_ms > 0 && *ret_ms <= SNIB_LEASE_MAX_MS;
        }
    }
    return false;
}

static snib_err open_read_keys(struct snib__redis *s,
                               const struct snib__url *url,
                               struct snib_error *reterr)
{
    const char *wait = snib__url_query(url, "wait");
    const char *verify = snib__url_query(url, "tls_verify");
    const char *recovery = snib__url_query(url, "recovery");
    const char *replicas = snib__url_query(url, "replicas");
    snib_err err = open_check_keys(url, snib__url_is_secure(url), reterr);
    if (err) {
        return err;
    }
    if (wait && strcmp(wait, "spin") != 0 && strcmp(wait, "queue") != 0) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: wait is queue (as without it) or spin",
                          url->safe);
    }
    if (recovery && !open_parse_time(recovery, &s->recovery_ms)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: recovery is the longest lease that anybody "
                          "asks for, up to a day, like 30s, 500ms or 5m",
                          url->safe);
    }
    if (replicas && (*replicas < '1' || *replicas > '8' || replicas[1])) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: replicas is how many of them must have a "
                          "grant, 1 to 8",
                          url->safe);
    }
    if (replicas && !recovery) {
        return snib__fail(
            reterr, SNIB_ERR_USAGE,
            "%.120s: replicas= goes with recovery=, without which "
            "a failover may forget a grant all the same",
            url->safe);
    }
    s->replicas = replicas ? *replicas - '0' : 0;
    s->out->lease_most = snib__ms(s->recovery_ms);
    s->spin = wait && !strcmp(wait, "spin");
    s->unverified = verify && !strcmp(verify, "no");
    return SNIB_ERR_OK;
}

/* The address of one server. True: the path is not the database's. */
static bool open_address(const struct snib__url *url, char *ret, size_t size,
                         bool *ret_usable)
{
    bool unix_socket = !strcmp(url->scheme, "redis+unix");
    const char *path = url->path ? url->path : "";
    const char *socket = unix_socket ? path : snib__url_query(url, "socket");
    int n = -1;
    if (socket) {
        n = *socket == '/' ? snprintf(ret, size, "%s", socket) : -1;
    } else if (url->host) {
        n = snprintf(ret, size, strchr(url->host, ':') ? "[%s]:%u" : "%s:%u",
                     url->host, url->port ? url->port : REDIS_PORT);
    }
    *ret_usable = n > 0 && (!socket || n <= 107); /* a host has at most 253 */
    return unix_socket;
}

/* path: what stands in it besides a name that is no database's. */
static snib_err open_database(struct snib__redis *s,
                              const struct snib__url *url, const char *path,
                              struct snib_error *reterr)
{
    const char *db = snib__url_query(url, "db");
    if (db && *path == '/' && path[1]) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: the database stands in it twice: leave out "
                          "the path or db=",
                          url->safe);
    }
    if (!db && *path == '/') {
        db = path + 1;
    } else if (*path && strcmp(path, "/") != 0 && *path != '/') {
        db = "?";
    }
    if (db && !open_parse_db(db, &s->db)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: the database is a number, 0 to 65535",
                          url->safe);
    }
    return SNIB_ERR_OK;
}

static snib_err open_check_socket(const struct snib__url *url,
                                  struct snib_error *reterr)
{
    bool socket =
        snib__url_query(url, "socket") || !strcmp(url->scheme, "redis+unix");
    if (socket && snib__url_is_secure(url)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: a socket needs no TLS: write redis+unix: "
                          "for it",
                          url->safe);
    }
    if (socket && url->nodes) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: a socket leads to one server: leave out the "
                          "list of hosts",
                          url->safe);
    }
    if (!strcmp(url->scheme, "redis+unix") &&
        (url->host || snib__url_query(url, "socket"))) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: the path is the socket: write "
                          "redis+unix:///PATH, with no host and no socket=",
                          url->safe);
    }
    return SNIB_ERR_OK;
}

/* The connections of a node of a cluster that is none any more serve the next
 * one. */
static snib_err open_conn(struct snib__redis *s, int i,
                          snib__transport transport, const char *address)
{
    if (!s->slots || (uint32_t)i == s->out->conns) {
        return snib__conn_add(s->out, transport, address);
    }
    snprintf(s->out->conn[i]->address, sizeof s->out->conn[i]->address, "%s",
             address);
    return SNIB_ERR_OK;
}

/* redis[s]://host[:port][/db], redis[s]://host,host,…[/db],
 * redis[s]+sentinel://host,host,…/service[/db], redis+unix:///path?db=N,
 * redis://…?socket=/path */
static snib_err open_addresses(struct snib__redis *s,
                               const struct snib__url *url,
                               struct snib_error *reterr)
{
    snib__transport transport =
        snib__url_is_secure(url) ? SNIB__TLS : SNIB__PLAIN;
    char address[ADDRESS_MAX] = "";
    const char *path;
    bool usable = true;
    snib_err err = open_read_keys(s, url, reterr);
    err = err ? err : open_check_socket(url, reterr);
    err = err ? err : snib__topology_new(url, &s->topology, &path, reterr);
    if (err) {
        return err;
    }
    if (!s->topology && open_address(url, address, sizeof address, &usable)) {
        path = "";
    }
    if (!usable) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: no usable host or socket path", url->safe);
    }
    err = open_database(s, url, path, reterr);
    s->sessions = s->topology ? SESSIONS_MOST : SESSIONS;
    for (int i = 0; i < s->sessions && !err; i++) {
        err = open_conn(s, i, transport, address);
        if (err) {
            return snib__fail_plain(reterr, err);
        }
    }
    return err;
}

static void open_wipe(char *secret)
{
    if (secret) {
        explicit_bzero(secret, strlen(secret));
        snib__free(secret);
    }
}

void snib__redis_free(struct snib__store *store)
{
    struct snib__redis *s = (struct snib__redis *)store;
    if (!s) {
        return;
    }
    while (!snib__list_empty(&s->inspections)) {
        struct inspection *k = SNIB__CONTAINER(
            snib__list_first(&s->inspections), struct inspection, link);
        snib__inspection_end(s, k->rq);
    }
    for (int i = 0; i < s->sessions; i++) {
        snib__resp_free(s->session[i].resp);
        struct flight f;
        while (snib__session_pop(&s->session[i], &f)) {
            snib__free(f.safe);
        }
        snib__free(s->session[i].ring);
    }
    snib__confirm_free(s);
    snib__ended_free(s);
    snib__heap_free(&s->timers);
    snib__topology_free(s->topology);
    snib__free(s->user);
    open_wipe(s->password);
    snib__free(s);
}

snib_err snib__redis_open(const struct snib__store_config *cfg,
                          struct snib__store **ret, struct snib_error *reterr)
{
    const struct snib__url *url = cfg->url;
    struct snib__redis *s = snib__alloc(sizeof *s);
    *ret = NULL;
    if (!s) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    s->out = cfg->out;
    s->patience = cfg->request;
    s->asks = cfg->login;
    s->watch = cfg->watch;
    s->scripts_only = cfg->scripts_only;
    s->bundles_most = BUNDLES;
    s->crowd = CROWD;
    s->collect_until = SNIB__NEVER;
    s->wall_offset_ns = cfg->wall_offset_ns;
    snib__rng_init(&s->rng, &cfg->seed);
    snib__encode_hex(s->client, cfg->client);
    snib__list_init(&s->unsent[0]);
    snib__list_init(&s->unsent[1]);
    snib__list_init(&s->inspections);
    for (int k = 0; k < BUCKETS; k++) {
        snib__list_init(&s->acquires[k]);
    }
    s->slots = cfg->slots;
    s->home = cfg->home;
    if (s->slots) {
        s->no_mark = true; /* names of several slots have no key in common */
        snib__queue_channel_anew(s);
    } else {
        snib__queue_channel(s);
    }
    snib_err err = open_addresses(s, url, reterr);
    if (err) {
        snib__redis_free((struct snib__store *)s);
        return err;
    }
    s->user = snib__strdup(url->user && *url->user ? url->user : NULL);
    s->password = snib__strdup(url->password);
    bool ok = (s->user || !url->user || !*url->user) &&
              (s->password || !url->password) && s->channel[0];
    for (int i = 0; i < s->sessions && ok; i++) {
        s->session[i].rest = snib__ms(REST_FIRST_MS);
        ok = !snib__resp_new(SNIB__RESP_UNREAD_L, &s->session[i].resp);
    }
    if (!ok || !snib__confirm_open(s)) {
        snib__redis_free((struct snib__store *)s);
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (s->user && !s->password && !s->asks) {
        snib__redis_free((struct snib__store *)s);
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: a user without a password; expected "
                          "redis://:PASSWORD@HOST or "
                          "redis://USER:PASSWORD@HOST",
                          url->safe);
    }
    *ret = (struct snib__store *)s;
    return snib__ok(reterr);
}

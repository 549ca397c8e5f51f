/* store/zookeeper/open.c — from a URL to a store that has not connected yet, and
 * its memory's end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/url_servers.h"
#include "store/zookeeper/zookeeper_i.h"

enum { OPEN_SESSION_MIN = 100, OPEN_SESSION_MAX = 3600000 };

/* -- the URL ------------------------------------------------------------------ */

/* Whose clients are there besides. */
static snib_err open_dialect(struct snib__zoo *z, const struct snib__url *url,
                             struct snib_error *reterr)
{
    const char *dialect = snib__url_query(url, "dialect");
    z->mutexes = dialect && !strcmp(dialect, "curator-mutex");
    z->curator = z->mutexes || (dialect && !strcmp(dialect, "curator-rw"));
    return !dialect || z->curator
               ? SNIB_ERR_OK
               : snib__url_wrong(
                     url,
                     "zookeeper's ?dialect= is curator-mutex, the locks of "
                     "Curator's InterProcessMutex, or curator-rw, those of its "
                     "InterProcessReadWriteLock",
                     reterr);
}

static snib_err open_keys(struct snib__zoo *z, const struct snib__url *url,
                          int32_t *ret_session, struct snib_error *reterr)
{
    *ret_session = z->curator ? ZOO_CURATOR_MS : ZOO_SESSION_MS;
    for (uint32_t i = 0; i < url->queries; i++) {
        const char *key = url->query[i].key, *value = url->query[i].value;
        char *end;
        if (!strcmp(key, "password_file") || !strcmp(key, "dialect")) {
            continue; /* the driver's; open_dialect's */
        }
        if (strcmp(key, "session_ms") != 0) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.100s: zookeeper knows session_ms=, dialect= "
                              "and password_file=, not %.40s=",
                              url->safe, key);
        }
        long ms = strtol(value, &end, 10);
        if (*value < '0' || *value > '9' || *end || ms < OPEN_SESSION_MIN ||
            ms > OPEN_SESSION_MAX) {
            return snib__url_wrong(
                url,
                "session_ms is how long the ensemble keeps what "
                "a client has that is silent, in ms, 100 to "
                "3600000",
                reterr);
        }
        *ret_session = (int32_t)ms;
    }
    return SNIB_ERR_OK;
}

static bool open_is_part(const char *part, size_t size)
{
    bool dots = size <= 2 && part[0] == '.' && part[size - 1] == '.';
    for (size_t i = 0; i < size; i++) {
        if (part[i] < 0x21 || part[i] > 0x7e) {
            return false;
        }
    }
    return size && !dots;
}

/* The path below which the locks are: /snib without one; "/" is the root. */
static snib_err open_base(struct snib__zoo *z, const struct snib__url *url,
                          struct snib_error *reterr)
{
    const char *path = url->path && *url->path ? url->path : "/snib";
    size_t size = strlen(path);
    size -= path[size - 1] == '/';
    if (size >= sizeof z->base) {
        return snib__url_wrong(url, "the path is at most 199 bytes long",
                               reterr);
    }
    snprintf(z->base, sizeof z->base, "%.*s", (int)size, path);
    for (const char *p = z->base; *p;) {
        size_t part = strcspn(p + 1, "/");
        if (*p != '/' || !open_is_part(p + 1, part)) {
            return snib__url_wrong(
                url,
                "expected zookeeper://HOST,HOST,HOST/PATH, with "
                "a path like /locks or /team/locks",
                reterr);
        }
        p += part + 1;
    }
    return SNIB_ERR_OK;
}

/* Clients begin with a server by chance, so that they spread. */
static snib_err open_members(struct snib__zoo *z, const struct snib__url *url,
                             struct snib_error *reterr)
{
    if (!strcmp(url->scheme, "zookeepers")) {
        return snib__fail(reterr, SNIB_ERR_UNSUPPORTED,
                          "%.120s: no TLS with ZooKeeper; write zookeeper:// "
                          "if the way to the servers is one that you trust",
                          url->safe);
    }
    if (!url->host && !url->nodes) {
        return snib__url_wrong(url,
                               "expected zookeeper://HOST or "
                               "zookeeper://HOST,HOST,HOST",
                               reterr);
    }
    if (url->nodes) {
        z->session.at = (uint32_t)snib__rng_below(&z->rng, url->nodes);
    }
    return snib__url_servers(url, ZOO_PORT, z->out, reterr);
}

static snib_err open_login(struct snib__zoo *z, const struct snib__url *url,
                           struct snib_error *reterr)
{
    return z->asks
               ? SNIB_ERR_OK /* the driver has refused both at once */
               : snib__url_login(url, "expected zookeeper://USER:PASSWORD@HOST",
                                 &z->user, &z->password, reterr);
}

/* -- life --------------------------------------------------------------------- */

void snib__zoo_free(struct snib__store *store)
{
    struct snib__zoo *z = (struct snib__zoo *)(void *)store;
    if (!z) {
        return;
    }
    snib__nonblocking_free(&z->requests);
    snib__zoo_steps_free(z);
    snib__zoo_claims_free(z);
    snib__zoo_session_free(z);
    snib__heap_free(&z->timers);
    snib__heap_free(&z->leases);
    snib__wipe(&z->user);
    snib__wipe(&z->password);
    snib__free(z);
}

static void open_lists(struct snib__zoo *z)
{
    snib__list_init(&z->steps);
    snib__list_init(&z->behind[SNIB__SESSION_CALLERS]);
    snib__list_init(&z->behind[SNIB__SESSION_BACKGROUND]);
    for (int i = 0; i < ZOO_BUCKETS; i++) {
        snib__list_init(&z->claim[i]);
    }
}

snib_err snib__zoo_open(const struct snib__store_config *config,
                        struct snib__store **ret, struct snib_error *reterr)
{
    struct snib__zoo *z = snib__alloc(sizeof *z);
    int32_t session_ms = 0;
    *ret = NULL;
    if (!z) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    z->out = config->out;
    z->request = config->request;
    z->client[0] = config->client[0];
    z->client[1] = config->client[1];
    z->asks = config->login;
    snib__rng_init(&z->rng, &config->seed);
    open_lists(z);
    snib_err err = open_dialect(z, config->url, reterr);
    err = err ? err : open_keys(z, config->url, &session_ms, reterr);
    snib__zoo_session_init(z, session_ms);
    snib__zoo_session_is(z, session_ms);
    err = err ? err : open_base(z, config->url, reterr);
    err = err ? err : open_login(z, config->url, reterr);
    err = err ? err : open_members(z, config->url, reterr);
    err = err ? err : snib__nonblocking_open(&z->requests, config, reterr);
    if (err) {
        snib__zoo_free((struct snib__store *)(void *)z);
        return err;
    }
    *ret = (struct snib__store *)(void *)z;
    return snib__ok(reterr);
}

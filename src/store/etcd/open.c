/* store/etcd/open.c — from a URL to a store that has not connected yet, and its
 * memory's end. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/url_servers.h"
#include "store/etcd/etcd_i.h"

/* -- the URL ------------------------------------------------------------------ */

static snib_err open_check_keys(const struct snib__url *url, bool secure,
                                struct snib_error *reterr)
{
    for (uint32_t i = 0; i < url->queries; i++) {
        const char *key = url->query[i].key;
        bool tls = snib__url_is_tls_key(key);
        if (tls && !secure) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.60s: %.40s= is for etcds:, which is "
                              "encrypted; etcd: is not",
                              url->safe, key);
        }
        if (!tls && strcmp(key, "prefix") != 0 && strcmp(key, "dialect") != 0 &&
            strcmp(key, "password_file") != 0) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.60s: etcd knows prefix=, dialect= and "
                              "password_file=, not %.40s=",
                              url->safe, key);
        }
    }
    return SNIB_ERR_OK;
}

/* Whose locks they are. */
static snib_err open_dialect(struct snib__etcd *e, const struct snib__url *url,
                             struct snib_error *reterr)
{
    const char *dialect = snib__url_query(url, "dialect");
    e->recipe = dialect && !strcmp(dialect, "concurrency");
    if (dialect && !e->recipe) {
        return snib__url_wrong(url,
                               "etcd's ?dialect= is concurrency, the locks of "
                               "etcdctl lock and of Go's concurrency.Mutex",
                               reterr);
    }
    if (e->recipe) {
        e->out->caps = SNIB__TIED | SNIB__NO_LATCH;
    }
    return SNIB_ERR_OK;
}

/* It ends with a '/', so that no store is the beginning of another one. */
static snib_err open_prefix(struct snib__etcd *e, const struct snib__url *url,
                            struct snib_error *reterr)
{
    const char *prefix = snib__url_query(url, "prefix");
    size_t n = prefix ? strlen(prefix) : 0;
    if (prefix &&
        (!n || n >= ETCD_PREFIX_MAX ||
         prefix[strspn(prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRS"
                               "TUVWXYZ0123456789._-/")])) {
        return snib__url_wrong(
            url, "?prefix= is letters, digits and ._-/, at most 63", reterr);
    }
    const char *otherwise = e->recipe ? "" : "snib/";
    snprintf(e->prefix, sizeof e->prefix, "%s%s", n ? prefix : otherwise,
             n && prefix[n - 1] != '/' ? "/" : "");
    return SNIB_ERR_OK;
}

static snib_err open_members(struct snib__etcd *e, const struct snib__url *url,
                             struct snib_error *reterr)
{
    if ((!url->host && !url->nodes) ||
        (url->path && *url->path && strcmp(url->path, "/") != 0)) {
        return snib__url_wrong(
            url,
            "expected etcd://HOST or etcd://HOST,HOST,HOST, with "
            "no path (?prefix= tells stores apart)",
            reterr);
    }
    return snib__url_servers(url, ETCD_PORT, e->out, reterr);
}

static snib_err open_login(struct snib__etcd *e, const struct snib__url *url,
                           struct snib_error *reterr)
{
    return e->asks ? SNIB_ERR_OK /* the driver has refused both at once */
                   : snib__url_login(url, "expected etcd://USER:PASSWORD@HOST",
                                     &e->user, &e->password, reterr);
}

/* -- life --------------------------------------------------------------------- */

void snib__etcd_free(struct snib__store *store)
{
    struct snib__etcd *e = (struct snib__etcd *)(void *)store;
    if (!e) {
        return;
    }
    snib__nonblocking_free(&e->requests);
    snib__etcd_steps_free(e);
    snib__etcd_waits_free(e);
    snib__etcd_leases_free(e);
    snib__etcd_guesses_free(e);
    snib__free(e->places.lost);
    snib__etcd_session_free(e);
    snib__heap_free(&e->timers);
    snib__buf_free(&e->message);
    snib__wipe(&e->user);
    snib__wipe(&e->password);
    snib__free(e->lib);
    snib__free(e);
}

static void open_lists(struct snib__etcd *e)
{
    snib__list_init(&e->leases);
    snib__list_init(&e->waits.list);
    snib__list_init(&e->steps);
    snib__list_init(&e->spare);
    snib__buf_init(&e->message, SNIB__H2_IN);
    for (int i = 0; i < ETCD_GUESSES; i++) {
        snib__buf_init(&e->guess[i].bytes, SNIB__H2_IN);
        snib__buf_init(&e->guess[i].others, ETCD_SEEN_MAX);
    }
}

snib_err snib__etcd_open(const struct snib__store_config *config,
                         struct snib__store **ret, struct snib_error *reterr)
{
    struct snib__etcd *e = snib__alloc(sizeof *e);
    *ret = NULL;
    if (!e) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    e->out = config->out;
    e->request = config->request;
    e->client[0] = config->client[0];
    e->client[1] = config->client[1];
    e->asks = config->login;
    e->secure = snib__url_is_secure(config->url);
    snib__rng_init(&e->rng, &config->seed);
    e->places.opened[0] = snib__rng_next(&e->rng);
    e->places.opened[1] = snib__rng_next(&e->rng);
    open_lists(e);
    snib__etcd_session_init(e);
    snib_err err = open_check_keys(config->url, e->secure, reterr);
    err = err ? err : open_dialect(e, config->url, reterr);
    err = err ? err : open_prefix(e, config->url, reterr);
    err = err ? err : open_login(e, config->url, reterr);
    err = err ? err : open_members(e, config->url, reterr);
    err = err ? err : snib__h2_load(&e->lib, reterr);
    e->session.h2.lib = e->lib;
    err = err ? err : snib__nonblocking_open(&e->requests, config, reterr);
    if (err) {
        snib__etcd_free((struct snib__store *)(void *)e);
        return err;
    }
    *ret = (struct snib__store *)(void *)e;
    return snib__ok(reterr);
}

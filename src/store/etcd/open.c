/* store/etcd/open.c — from a URL to a store that has not connected yet, and its
 * memory's end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/blocking.h"
#include "store/etcd/etcd_i.h"

/* -- the table of requests ---------------------------------------------------- */

static struct snib__etcd *open_of(void *instance)
{
    return instance;
}

/* config->out is the store's own inner one. */
static snib_err open_requests(const struct snib__store_config *config,
                              void **ret, struct snib_error *reterr)
{
    *ret = SNIB__CONTAINER(config->out, struct snib__etcd, inner);
    return snib__ok(reterr);
}

/* What is listed is taken by step.c: nobody executes. */
static void open_nobody(void *instance, snib__session session, snib_instant now,
                        struct snib__list *chain)
{
    (void)instance;
    (void)session;
    (void)now;
    (void)chain;
    abort();
}

static int open_no_descriptor(void *instance)
{
    (void)instance;
    return -1;
}

static uint32_t open_notified(void *instance, uint64_t (*ids)[2], uint32_t max)
{
    struct snib__etcd *e = open_of(instance);
    uint32_t n = e->tolds < max ? e->tolds : max;
    if (e->told_all) {
        e->told_all = false;
        e->tolds = 0;
        return SNIB__NOTIFIED_ALL;
    }
    memcpy(ids, e->told, n * sizeof *ids);
    memmove(e->told, e->told + n, (e->tolds - n) * sizeof *e->told);
    e->tolds -= n;
    return n;
}

static void open_leave_instance(void *instance)
{
    (void)instance; /* it is freed by snib__etcd_free */
}

const struct snib__blocking_ops snib__etcd_requests_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "etcd",
    .open = open_requests,
    .exec_in = open_nobody,
    .notifier_fd = open_no_descriptor,
    .notified = open_notified,
    .free = open_leave_instance,
};

/* -- the URL ------------------------------------------------------------------ */

static snib_err open_wrong(const struct snib__url *url, const char *words,
                           struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_USAGE, "%.120s: %s", url->safe, words);
}

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
        return open_wrong(url,
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
        return open_wrong(
            url, "?prefix= is letters, digits and ._-/, at most 63", reterr);
    }
    const char *otherwise = e->recipe ? "" : "snib/";
    snprintf(e->prefix, sizeof e->prefix, "%s%s", n ? prefix : otherwise,
             n && prefix[n - 1] != '/' ? "/" : "");
    return SNIB_ERR_OK;
}

static snib_err open_member(struct snib__etcd *e, const struct snib__url *url,
                            const char *host, uint16_t port,
                            struct snib_error *reterr)
{
    char address[264];
    snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%u" : "%s:%u",
             host, port ? port : (unsigned)ETCD_PORT);
    for (uint32_t i = 0; i < e->out->conns; i++) {
        if (!strcasecmp(e->out->conn[i]->address, address)) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.120s: %.60s stands twice", url->safe, address);
        }
    }
    snib_err err =
        snib__conn_add(e->out, e->secure ? SNIB__TLS : SNIB__PLAIN, address);
    return err ? snib__fail_plain(reterr, err) : SNIB_ERR_OK;
}

static snib_err open_members(struct snib__etcd *e, const struct snib__url *url,
                             struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    if ((!url->host && !url->nodes) ||
        (url->path && *url->path && strcmp(url->path, "/") != 0)) {
        return open_wrong(url,
                          "expected etcd://HOST or etcd://HOST,HOST,HOST, with "
                          "no path (?prefix= tells stores apart)",
                          reterr);
    }
    if (url->host) {
        return open_member(e, url, url->host, url->port, reterr);
    }
    for (uint32_t i = 0; i < url->nodes && !err; i++) {
        err = open_member(e, url, url->node[i].host, url->node[i].port, reterr);
    }
    return err;
}

static snib_err open_login(struct snib__etcd *e, const struct snib__url *url,
                           struct snib_error *reterr)
{
    const char *user = url->user && *url->user ? url->user : NULL;
    if (e->asks) {
        return SNIB_ERR_OK; /* the driver has refused both at once */
    }
    if (!user != !url->password) {
        return open_wrong(url, "expected etcd://USER:PASSWORD@HOST", reterr);
    }
    e->user = snib__strdup(user);
    e->password = snib__strdup(url->password);
    return (user && !e->user) || (url->password && !e->password)
               ? snib__fail_plain(reterr, SNIB_ERR_NOMEM)
               : SNIB_ERR_OK;
}

/* -- life --------------------------------------------------------------------- */

void snib__etcd_free(struct snib__store *store)
{
    struct snib__etcd *e = (struct snib__etcd *)(void *)store;
    if (!e) {
        return;
    }
    if (e->requests) {
        snib__blocking_store_ops.free(e->requests);
    }
    snib__etcd_steps_free(e);
    snib__etcd_waits_free(e);
    snib__etcd_leases_free(e);
    snib__etcd_session_free(e);
    snib__conns_free(&e->inner);
    snib__heap_free(&e->timers);
    snib__buf_free(&e->message);
    snib__etcd_login_wipe(&e->user);
    snib__etcd_login_wipe(&e->password);
    snib__free(e->lib);
    snib__free(e);
}

static void open_lists(struct snib__etcd *e)
{
    snib__list_init(&e->inner.answered);
    snib__list_init(&e->inner.exec);
    snib__conns_init(&e->inner, 0);
    e->inner.outer = e->out;
    snib__list_init(&e->executed);
    snib__list_init(&e->leases);
    snib__list_init(&e->waits.list);
    snib__list_init(&e->steps);
    snib__list_init(&e->spare);
    snib__buf_init(&e->message, SNIB__H2_IN);
}

snib_err snib__etcd_open(const struct snib__store_config *config,
                         struct snib__store **ret, struct snib_error *reterr)
{
    struct snib__store_config inner = *config;
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
    open_lists(e);
    snib__etcd_session_init(e);
    inner.out = &e->inner;
    snib_err err = open_check_keys(config->url, e->secure, reterr);
    err = err ? err : open_dialect(e, config->url, reterr);
    err = err ? err : open_prefix(e, config->url, reterr);
    err = err ? err : open_login(e, config->url, reterr);
    err = err ? err : open_members(e, config->url, reterr);
    err = err ? err : snib__h2_load(&e->lib, reterr);
    e->session.h2.lib = e->lib;
    err = err ? err
              : snib__blocking_open(&snib__etcd_requests_ops, &inner,
                                    &e->requests, reterr);
    if (err) {
        snib__etcd_free((struct snib__store *)(void *)e);
        return err;
    }
    *ret = (struct snib__store *)(void *)e;
    return snib__ok(reterr);
}

/* store/cluster/open.c — from a URL to a store that has not connected yet, and
 * its memory's end. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "store/cluster/cluster_i.h"

static snib_err open_check_keys(const struct snib__url *url,
                                struct snib_error *reterr)
{
    for (uint32_t i = 0; i < url->queries; i++) {
        const char *key = url->query[i].key;
        if (!strcmp(key, "socket")) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.120s: a socket leads to one server: give the "
                              "hosts of the cluster",
                              url->safe);
        }
        if (snib__url_is_tls_key(key) && !snib__url_is_secure(url)) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.60s: %.40s= is for rediss+cluster:, which is "
                              "encrypted; redis+cluster: is not",
                              url->safe, key);
        }
        if (strcmp(key, "nat") != 0 && strcmp(key, "wait") != 0 &&
            strcmp(key, "password_file") != 0 && strcmp(key, "db") != 0 &&
            !snib__url_is_tls_key(key)) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.60s: a cluster knows nat=, wait= and "
                              "password_file=, not %.40s=",
                              url->safe, key);
        }
    }
    return SNIB_ERR_OK;
}

static snib_err open_check(const struct snib__url *url,
                           struct snib_error *reterr)
{
    const char *path = url->path ? url->path : "";
    const char *db = snib__url_query(url, "db");
    snib_err err = open_check_keys(url, reterr);
    if (err) {
        return err;
    }
    if ((db && strcmp(db, "0") != 0) ||
        (strcmp(path, "") != 0 && strcmp(path, "/") != 0 &&
         strcmp(path, "/0") != 0)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: a cluster has the database 0 only",
                          url->safe);
    }
    if (!url->nodes) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: a cluster is written %s://HOST[:PORT],"
                          "HOST[:PORT], one of its nodes at least",
                          url->safe, url->scheme);
    }
    return SNIB_ERR_OK;
}

static snib_err open_nat(struct snib__cluster *q, const struct snib__url *url,
                         struct snib_error *reterr)
{
    const char *nat = snib__url_query(url, "nat");
    if (nat && !snib__slots_nat(q->slots, nat)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.100s: nat= is HOST:PORT=HOST:PORT, several joined "
                          "by commas, %d at most: what the nodes call each "
                          "other, and where that is from here",
                          url->safe, SNIB__NATS_MAX);
    }
    return SNIB_ERR_OK;
}

/* A copy of the URL without hosts, for the nodes' stores. */
static bool open_keep_url(struct snib__cluster *q, const struct snib__url *url)
{
    const char *wait = snib__url_query(url, "wait");
    const char *verify = snib__url_query(url, "tls_verify");
    bool unverified = verify && !strcmp(verify, "no");
    q->user = snib__strdup(url->user);
    q->password = snib__strdup(url->password);
    q->wait = snib__strdup(wait);
    q->safe = snib__strdup(url->safe);
    q->url.scheme = (char *)(uintptr_t)(q->slots->secure ? "rediss" : "redis");
    q->url.user = q->user;
    q->url.password = q->password;
    q->url.path = (char *)(uintptr_t) "";
    q->url.safe = q->safe;
    if (wait) {
        q->url.query[q->url.queries].key = (char *)(uintptr_t) "wait";
        q->url.query[q->url.queries++].value = q->wait;
    }
    if (unverified) {
        q->url.query[q->url.queries].key = (char *)(uintptr_t) "tls_verify";
        q->url.query[q->url.queries++].value = (char *)(uintptr_t) "no";
    }
    return q->safe && (q->user || !url->user) &&
           (q->password || !url->password) && (q->wait || !wait);
}

static snib_err open_seed(struct snib__cluster *q, const char *host,
                          uint16_t port, struct snib_error *reterr)
{
    int home = snib__slots_seed(q->slots, host, port);
    snib_err err;
    if (home < 0) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: a host is not usable", q->safe);
    }
    (void)snib__home_node(q, (uint32_t)home, &err, reterr);
    return err;
}

static snib_err open_fill(struct snib__cluster *q, const struct snib__url *url,
                          struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    q->slots->secure = snib__url_is_secure(url);
    if (!open_keep_url(q, url)) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    err = open_nat(q, url, reterr);
    for (uint32_t i = 0; i < url->nodes && !err; i++) {
        const char *host = url->node[i].host;
        err = open_seed(q, host ? host : "", url->node[i].port, reterr);
    }
    return err;
}

snib_err snib__cluster_open(const struct snib__store_config *cfg,
                            struct snib__store **ret, struct snib_error *reterr)
{
    struct snib__cluster *q;
    snib_err err = open_check(cfg->url, reterr);
    *ret = NULL;
    if (err) {
        return err;
    }
    q = snib__alloc(sizeof *q);
    if (!q) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    snib__list_init(&q->waiting);
    snib__list_init(&q->looks);
    q->out = cfg->out;
    q->cfg = *cfg;
    q->asked = -1;
    q->map_due = SNIB__NEVER;
    snib__rng_init(&q->rng, &cfg->seed);
    q->slots = snib__alloc(sizeof *q->slots);
    q->cfg.slots = q->slots;
    q->cfg.scripts_only = true;
    err = q->slots ? open_fill(q, cfg->url, reterr)
                   : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    if (err) {
        snib__cluster_free((struct snib__store *)q);
        return err;
    }
    *ret = (struct snib__store *)q;
    return snib__ok(reterr);
}

void snib__cluster_free(struct snib__store *store)
{
    struct snib__cluster *q = (struct snib__cluster *)store;
    if (!q) {
        return;
    }
    snib__homes_free(q);
    snib__looks_free(q);
    snib__heap_free(&q->timers);
    if (q->password) {
        explicit_bzero(q->password, strlen(q->password));
    }
    snib__free(q->password);
    snib__free(q->user);
    snib__free(q->wait);
    snib__free(q->safe);
    snib__free(q->slots);
    snib__free(q);
}

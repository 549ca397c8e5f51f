/* store/rabbitmq/open.c — from a URL to a store that has not connected yet, and its
 * memory's end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/mem.h"
#include "core/blocking.h"
#include "store/rabbitmq/rabbitmq_i.h"

enum { OPEN_HEARTBEAT_MAX = 600 };

/* -- the table of requests ---------------------------------------------------- */

static struct snib__mq *open_of(void *instance)
{
    return instance;
}

/* config->out is the store's own inner one. */
static snib_err open_requests(const struct snib__store_config *config,
                              void **ret, struct snib_error *reterr)
{
    *ret = SNIB__CONTAINER(config->out, struct snib__mq, inner);
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
    struct snib__mq *z = open_of(instance);
    uint32_t n = z->tolds < max ? z->tolds : max;
    if (z->told_all) {
        z->told_all = false;
        z->tolds = 0;
        return SNIB__NOTIFIED_ALL;
    }
    memcpy(ids, z->told, n * sizeof *ids);
    memmove(z->told, z->told + n, (z->tolds - n) * sizeof *z->told);
    z->tolds -= n;
    return n;
}

static void open_leave_instance(void *instance)
{
    (void)instance; /* it is freed by snib__mq_free */
}

const struct snib__blocking_ops snib__mq_requests_ops = {
    .abi = SNIB__STORE_ABI,
    .size = sizeof(struct snib__blocking_ops),
    .scheme = "amqp",
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

static snib_err open_heartbeat(const struct snib__url *url, const char *value,
                               uint16_t *ret, struct snib_error *reterr)
{
    char *end;
    long s = strtol(value, &end, 10);
    if (*value < '0' || *value > '9' || *end || s < 1 ||
        s > OPEN_HEARTBEAT_MAX) {
        return open_wrong(url,
                          "heartbeat_s is after how long a silent connection "
                          "is missed, in seconds, 1 to 600",
                          reterr);
    }
    *ret = (uint16_t)s;
    return SNIB_ERR_OK;
}

static snib_err open_keys(const struct snib__url *url, bool secure,
                          uint16_t *ret_heartbeat, struct snib_error *reterr)
{
    *ret_heartbeat = MQ_HEARTBEAT_S;
    for (uint32_t i = 0; i < url->queries; i++) {
        const char *key = url->query[i].key;
        bool tls = snib__url_is_tls_key(key);
        if (tls && !secure) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.60s: %.40s= is for amqps:, which is "
                              "encrypted; amqp: is not",
                              url->safe, key);
        }
        if (!strcmp(key, "heartbeat_s")) {
            snib_err err =
                open_heartbeat(url, url->query[i].value, ret_heartbeat, reterr);
            if (err) {
                return err;
            }
        } else if (!tls && strcmp(key, "password_file") != 0) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.60s: amqp knows heartbeat_s= and "
                              "password_file=, not %.40s=",
                              url->safe, key);
        }
    }
    return SNIB_ERR_OK;
}

/* The path without its first slash; none is "/", the one that each broker has. */
static snib_err open_vhost(struct snib__mq *z, const struct snib__url *url,
                           struct snib_error *reterr)
{
    const char *path = url->path && *url->path ? url->path + 1 : "";
    if (strlen(path) >= sizeof z->vhost) {
        return open_wrong(url, "a virtual host's name is at most 255 bytes",
                          reterr);
    }
    snprintf(z->vhost, sizeof z->vhost, "%s", *path ? path : "/");
    return SNIB_ERR_OK;
}

static snib_err open_member(struct snib__mq *z, const struct snib__url *url,
                            const char *host, uint16_t port,
                            struct snib_error *reterr)
{
    char address[264];
    unsigned usual = z->secure ? MQ_TLS_PORT : MQ_PORT;
    snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%u" : "%s:%u",
             host, port ? port : usual);
    for (uint32_t i = 0; i < z->out->conns; i++) {
        if (!strcasecmp(z->out->conn[i]->address, address)) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.120s: %.60s stands twice", url->safe, address);
        }
    }
    snib_err err =
        snib__conn_add(z->out, z->secure ? SNIB__TLS : SNIB__PLAIN, address);
    return err ? snib__fail_plain(reterr, err) : SNIB_ERR_OK;
}

/* Clients begin with a server by chance, so that they spread. */
static snib_err open_members(struct snib__mq *z, const struct snib__url *url,
                             struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    if (!url->host && !url->nodes) {
        return open_wrong(url,
                          "expected amqp://HOST/VHOST or "
                          "amqp://HOST,HOST,HOST/VHOST",
                          reterr);
    }
    if (url->host) {
        return open_member(z, url, url->host, url->port, reterr);
    }
    for (uint32_t i = 0; i < url->nodes && !err; i++) {
        err = open_member(z, url, url->node[i].host, url->node[i].port, reterr);
    }
    z->session.at = (uint32_t)snib__rng_below(&z->rng, url->nodes);
    return err;
}

static snib_err open_login(struct snib__mq *z, const struct snib__url *url,
                           struct snib_error *reterr)
{
    const char *user = url->user && *url->user ? url->user : NULL;
    if (z->asks) {
        return SNIB_ERR_OK; /* the driver has refused both at once */
    }
    if (!user != !url->password) {
        return open_wrong(url, "expected amqp://USER:PASSWORD@HOST", reterr);
    }
    z->user = snib__strdup(user);
    z->password = snib__strdup(url->password);
    return (user && !z->user) || (url->password && !z->password)
               ? snib__fail_plain(reterr, SNIB_ERR_NOMEM)
               : SNIB_ERR_OK;
}

/* -- life --------------------------------------------------------------------- */

void snib__mq_free(struct snib__store *store)
{
    struct snib__mq *z = (struct snib__mq *)(void *)store;
    if (!z) {
        return;
    }
    if (z->requests) {
        snib__blocking_store_ops.free(z->requests);
    }
    snib__mq_steps_free(z);
    snib__mq_claims_free(z);
    snib__mq_session_free(z);
    snib__conns_free(&z->inner);
    snib__heap_free(&z->timers);
    snib__heap_free(&z->alarms);
    snib__buf_free(&z->message);
    snib__mq_login_wipe(&z->user);
    snib__mq_login_wipe(&z->password);
    snib__free(z);
}

static void open_lists(struct snib__mq *z)
{
    snib__list_init(&z->inner.answered);
    snib__list_init(&z->inner.exec);
    snib__conns_init(&z->inner, 0);
    z->inner.outer = z->out;
    snib__list_init(&z->executed);
    snib__list_init(&z->steps);
    snib__buf_init(&z->message, MQ_MESSAGE_MAX);
    for (int i = 0; i < MQ_BUCKETS; i++) {
        snib__list_init(&z->claim[i]);
    }
}

snib_err snib__mq_open(const struct snib__store_config *config,
                       struct snib__store **ret, struct snib_error *reterr)
{
    struct snib__store_config inner = *config;
    struct snib__mq *z = snib__alloc(sizeof *z);
    uint16_t heartbeat_s = 0;
    *ret = NULL;
    if (!z) {
        return snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    z->out = config->out;
    z->request = config->request;
    z->client[0] = config->client[0];
    z->client[1] = config->client[1];
    z->asks = config->login;
    z->secure = snib__url_is_secure(config->url);
    snib__rng_init(&z->rng, &config->seed);
    open_lists(z);
    inner.out = &z->inner;
    snib_err err = open_keys(config->url, z->secure, &heartbeat_s, reterr);
    snib__mq_session_init(z, heartbeat_s);
    err = err ? err : open_vhost(z, config->url, reterr);
    err = err ? err : open_login(z, config->url, reterr);
    err = err ? err : open_members(z, config->url, reterr);
    err = err ? err
              : snib__blocking_open(&snib__mq_requests_ops, &inner,
                                    &z->requests, reterr);
    if (err) {
        snib__mq_free((struct snib__store *)(void *)z);
        return err;
    }
    *ret = (struct snib__store *)(void *)z;
    return snib__ok(reterr);
}

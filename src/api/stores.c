/* api/stores.c — which stores are built in. One row per URL scheme. A store
 * that is left out is named by SNIB_WITH_…=0 (cmake/SnibStores.cmake). */
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/error.h"
#include "base/mem.h"
#include "store/file/file.h"
#include "store/memory/memory.h"

#ifndef SNIB_WITH_REDIS
#define SNIB_WITH_REDIS 1
#endif
#ifndef SNIB_WITH_POSTGRES /* it needs an include path of its own */
#define SNIB_WITH_POSTGRES 0
#endif
#ifndef SNIB_WITH_MYSQL /* so does it */
#define SNIB_WITH_MYSQL 0
#endif
#ifndef SNIB_WITH_ETCD
#define SNIB_WITH_ETCD 0
#endif
#ifndef SNIB_WITH_ZOOKEEPER
#define SNIB_WITH_ZOOKEEPER 0
#endif
#ifndef SNIB_WITH_RABBITMQ
#define SNIB_WITH_RABBITMQ 0
#endif
#if SNIB_WITH_REDIS
#include "store/cluster/cluster.h"
#include "store/quorum/quorum.h"
#include "store/redis/redis.h"
#endif
#if SNIB_WITH_POSTGRES
#include "store/postgres/postgres.h"
#endif
#if SNIB_WITH_MYSQL
#include "store/mysql/mysql.h"
#endif
#if SNIB_WITH_ETCD
#include "store/etcd/etcd.h"
#endif
#if SNIB_WITH_ZOOKEEPER
#include "store/zookeeper/zookeeper.h"
#endif
#if SNIB_WITH_RABBITMQ
#include "store/rabbitmq/rabbitmq.h"
#endif

static const struct snib__registered stores[] = {
    {.scheme = "file",
     .blocking = &snib__file_ops,
     .offer = "file:PATH",
     .identity = snib__identity_file,
     .witness = SNIB__WITNESS_NEEDLESS},
#if SNIB_WITH_REDIS
    {.scheme = "redis",
     .ops = &snib__redis_store_ops,
     .offer = "redis://HOST",
     .identity = snib__identity_redis,
     .witness = SNIB__WITNESS_SUPPORTED},
    {.scheme = "rediss",
     .ops = &snib__redis_store_ops,
     .identity = snib__identity_redis,
     .witness = SNIB__WITNESS_SUPPORTED},
    {.scheme = "redis+unix",
     .ops = &snib__redis_store_ops,
     .identity = snib__identity_redis,
     .witness = SNIB__WITNESS_SUPPORTED},
    {.scheme = "redis+sentinel",
     .ops = &snib__redis_store_ops,
     .identity = snib__identity_sentinel,
     .witness = SNIB__WITNESS_SUPPORTED},
    {.scheme = "rediss+sentinel",
     .ops = &snib__redis_store_ops,
     .identity = snib__identity_sentinel,
     .witness = SNIB__WITNESS_SUPPORTED},
    {.scheme = "redis+cluster",
     .ops = &snib__cluster_store_ops,
     .identity = snib__identity_quorum},
    {.scheme = "rediss+cluster",
     .ops = &snib__cluster_store_ops,
     .identity = snib__identity_quorum},
    {.scheme = "redlock",
     .ops = &snib__quorum_store_ops,
     .offer = "redlock://HOST,HOST,…",
     .identity = snib__identity_quorum,
     .witness = SNIB__WITNESS_SUPPORTED},
    {.scheme = "redlocks",
     .ops = &snib__quorum_store_ops,
     .identity = snib__identity_quorum,
     .witness = SNIB__WITNESS_SUPPORTED},
#endif
#if SNIB_WITH_POSTGRES
    {.scheme = "postgres",
     .blocking = &snib__postgres_ops,
     .offer = "postgres://HOST/DATABASE",
     .schema = snib__postgres_schema,
     .identity = snib__identity_postgres},
#endif
#if SNIB_WITH_MYSQL
    {.scheme = "mysql",
     .blocking = &snib__mysql_ops,
     .offer = "mysql://HOST/DATABASE",
     .schema = snib__mysql_schema,
     .identity = snib__identity_mysql},
#endif
#if SNIB_WITH_ETCD
    {.scheme = "etcd",
     .ops = &snib__etcd_store_ops,
     .offer = "etcd://HOST",
     .identity = snib__identity_etcd},
    {.scheme = "etcds",
     .ops = &snib__etcd_store_ops,
     .identity = snib__identity_etcd},
#endif
#if SNIB_WITH_ZOOKEEPER
    {.scheme = "zookeeper",
     .ops = &snib__zookeeper_store_ops,
     .offer = "zookeeper://HOST",
     .identity = snib__identity_zookeeper},
    {.scheme = "zookeepers", /* it says that there is no TLS */
     .ops = &snib__zookeeper_store_ops,
     .identity = snib__identity_zookeeper},
#endif
#if SNIB_WITH_RABBITMQ
    {.scheme = "amqp",
     .ops = &snib__rabbitmq_store_ops,
     .offer = "amqp://HOST",
     .identity = snib__identity_rabbitmq},
    {.scheme = "amqps",
     .ops = &snib__rabbitmq_store_ops,
     .identity = snib__identity_rabbitmq},
#endif
    {.scheme = "memory",
     .blocking = &snib__memory_ops,
     .witness = SNIB__WITNESS_NEEDLESS},
};

enum { STORES = sizeof stores / sizeof stores[0] };

const struct snib__registered *snib__store_find(const char *scheme)
{
    for (size_t i = 0; i < STORES; i++) {
        if (!strcmp(stores[i].scheme, scheme)) {
            return &stores[i];
        }
    }
    return NULL;
}

void snib__stores_offered(char *ret, size_t size)
{
    size_t used = 0;
    for (size_t i = 0; i < STORES; i++) {
        if (stores[i].offer && used < size) {
            used += (size_t)snprintf(ret + used, size - used, "%s%s",
                                     used ? " or " : "", stores[i].offer);
        }
    }
}

/* The library that a build without this store lacked. */
static const char *stores_need(const char *scheme)
{
    bool redis = !SNIB_WITH_REDIS && strncmp(scheme, "red", 3) == 0;
    bool etcd = !SNIB_WITH_ETCD && strncmp(scheme, "etcd", 4) == 0;
    return strcmp(scheme, "postgres") == 0
               ? "; for it, build where libpq-dev is"
           : strcmp(scheme, "mysql") == 0 ? "; for it, build where "
                                            "libmariadb-dev is"
           : etcd                         ? "; for it, build where "
                                            "libnghttp2-dev is"
           : redis                        ? "; for it, build where "
                                            "libhiredis-dev is"
                                          : "";
}

/* How many letters have to be changed, added or left out to make b of a. */
static size_t stores_apart(const char *a, const char *b)
{
    enum { MOST = 32 };
    size_t row[MOST + 1], n = strlen(b);
    if (strlen(a) > MOST || n > MOST) {
        return MOST;
    }
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0]++; /* the one above and to the left */
        for (size_t j = 1; j <= n; j++) {
            size_t change = corner + (a[i] != b[j - 1]);
            size_t other = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);
            corner = row[j];
            row[j] = change < other ? change : other;
        }
    }
    return row[n];
}

/* The scheme that was meant, if this one is what the server is called otherwise,
 * or a slip of two letters at most. NULL: none is so near. */
static const char *stores_near(const char *scheme)
{
    static const char *const also[][2] = {
        {"rabbitmq", "amqp"},       {"mariadb", "mysql"}, {"pgsql", "postgres"},
        {"postgresql", "postgres"}, {"psql", "postgres"}, {"pg", "postgres"},
        {"valkey", "redis"},        {"zk", "zookeeper"}};
    const char *near = NULL;
    size_t least = strlen(scheme) < 4 ? 2 : 3;
    for (size_t i = 0; i < sizeof also / sizeof *also; i++) {
        if (!strcmp(scheme, also[i][0]) && snib__store_find(also[i][1])) {
            return also[i][1];
        }
    }
    for (size_t i = 0; i < STORES; i++) {
        size_t apart = stores_apart(scheme, stores[i].scheme);
        if (apart < least) {
            least = apart;
            near = stores[i].scheme;
        }
    }
    return near;
}

snib_err snib__store_missing(const char *scheme, struct snib_error *reterr)
{
    char offered[200];
    if (strcmp(scheme, "sqlite") == 0) {
        return snib__fail(reterr, SNIB_ERR_CONFIG,
                          "sqlite: is no store any more; write file:PATH for "
                          "locks in a file of this host (the file that sqlite: "
                          "had is not read)");
    }
    snib__stores_offered(offered, sizeof offered);
    const char *need = stores_need(scheme);
    const char *near = *need ? NULL : stores_near(scheme);
    return snib__fail(
        reterr, SNIB_ERR_UNSUPPORTED,
        "there is no store %s: in this build; %s%s%sexpected %s%s", scheme,
        near ? "was " : "", near ? near : "", near ? ": meant? " : "", offered,
        need);
}

/* The path is spelled so that the URL parser gives it back as it is. */
snib_err snib__default_url(char **ret, struct snib_error *reterr)
{
    static const char hex[] = "0123456789ABCDEF";
    char path[4096], url[3 * sizeof path + 16] = "file:";
    snib_err err = snib__file_default_path(path, sizeof path, reterr);
    if (err) {
        return err;
    }
    char *to = url + strlen(url);
    for (const unsigned char *p = (const unsigned char *)path; *p; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || strchr("/._-", *p);
        if (plain) {
            *to++ = (char)*p;
        } else {
            *to++ = '%';
            *to++ = hex[*p >> 4];
            *to++ = hex[*p & 15];
        }
    }
    *to = 0;
    *ret = snib__strdup(url);
    return *ret ? SNIB_ERR_OK : snib__fail_plain(reterr, SNIB_ERR_NOMEM);
}

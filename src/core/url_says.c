/* core/url_says.c — what a URL says that was taken apart: by its scheme, whether
 * the way is encrypted and what the hosts are; by its keys, the rest. */
#include <string.h>

#include "base/error.h"
#include "core/url.h"

bool snib__url_has_server(const struct snib__url *url)
{
    return url->host || url->nodes || url->user;
}

bool snib__url_is_secure(const struct snib__url *url)
{
    return !strcmp(url->scheme, "redlocks") || !strcmp(url->scheme, "etcds") ||
           !strcmp(url->scheme, "amqps") ||
           (!strncmp(url->scheme, "rediss", 6) &&
            strcspn(url->scheme, "+") == 6);
}

const char *snib__url_alpn(const struct snib__url *url)
{
    return !strcmp(url->scheme, "etcds") ? "h2" : NULL;
}

bool snib__url_is_sentinel(const struct snib__url *url)
{
    return !strcmp(url->scheme, "redis+sentinel") ||
           !strcmp(url->scheme, "rediss+sentinel");
}

bool snib__url_is_cluster(const struct snib__url *url)
{
    return strstr(url->scheme, "+cluster");
}

bool snib__url_is_tls_key(const char *key)
{
    static const char *const keys[] = {"tls_ca", "tls_cert", "tls_key",
                                       "tls_name", "tls_verify"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (!strcmp(key, keys[i])) {
            return true;
        }
    }
    return false;
}

snib_err snib__url_wrong(const struct snib__url *url, const char *words,
                         struct snib_error *reterr)
{
    return snib__fail(reterr, SNIB_ERR_USAGE, "%.120s: %s", url->safe, words);
}

const char *snib__url_query(const struct snib__url *url, const char *key)
{
    for (uint32_t i = 0; i < url->queries; i++) {
        if (strcmp(url->query[i].key, key) == 0) {
            return url->query[i].value;
        }
    }
    return NULL;
}

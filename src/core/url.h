/* core/url.h — a store URL taken apart.
 *
 *   file:PATH · memory:NAME[?k=v] · redis://[user:password@]host[:port][/db]
 *   redlock://[user:password@]host[:port],host[:port],…[/db][?k=v]
 *   (any scheme may list hosts so; a store that takes one only refuses them)
 *   redis+sentinel://[user:password@]host[:port],host[:port],…/service[/db]
 *   redis+cluster://[user:password@]host[:port],host[:port],…
 *   unix sockets: redis+unix://[user:password@]/path/to.sock[?db=N]
 *   (also redis://…?socket=/path)
 *
 * Keys of a store that logs in, in any of these: password_file=PATH; of those
 * that are encrypted (rediss:, rediss+sentinel:, rediss+cluster:, redlocks:,
 * etcds:, amqps:) tls_ca, tls_cert, tls_key, tls_name, tls_verify.
 *
 * Values are percent-decoded; a NUL inside, a control character, an empty
 * host, a port outside 1..65535 or an unknown query key are errors that say
 * so (the store checks the keys it knows). The password is wiped on free. */
#ifndef SNIB__URL_H
#define SNIB__URL_H

#include <stdbool.h>

#include "snib.h"

#define SNIB__URL_PAIRS 16
#define SNIB__URL_NODES 7

struct snib__url {
    char *scheme;   /* lower case */
    char *user;     /* NULL: none */
    char *password; /* NULL: none */
    char *host;     /* NULL: none; IPv6 without brackets */
    uint16_t port;  /* 0: the store's default */
    struct {        /* of a list of hosts; then host is NULL, port 0 */
        char *host;
        uint16_t port;
    } node[SNIB__URL_NODES];
    uint32_t nodes;
    char *path; /* after host ("/0") or after "scheme:"; may be "" */
    struct {
        char *key, *value;
    } query[SNIB__URL_PAIRS];
    uint32_t queries;
    char *safe; /* the URL without its password, for messages */
};

snib_err snib__url_parse(const char *text, struct snib__url **ret,
                         struct snib_error *reterr);
void snib__url_free(struct snib__url *); /* NULL allowed; wipes */

/* url_says.c */
/* Is there a host, a list of them, or a login? */
bool snib__url_has_server(const struct snib__url *);
/* Is the way to the server to be encrypted? (rediss:, rediss+sentinel:,
 * rediss+cluster:, redlocks:, etcds:, amqps:) */
bool snib__url_is_secure(const struct snib__url *);
/* What is spoken inside TLS, where the server wants to be told; else NULL. */
const char *snib__url_alpn(const struct snib__url *);
/* Are the hosts Sentinels? (redis+sentinel:, rediss+sentinel:) */
bool snib__url_is_sentinel(const struct snib__url *);
/* Are they nodes of a Redis Cluster? (redis+cluster:, rediss+cluster:) */
bool snib__url_is_cluster(const struct snib__url *);
/* Is it one of the keys that say how: tls_ca, tls_cert, tls_key, tls_name,
 * tls_verify? driver/secure.c reads them. */
bool snib__url_is_tls_key(const char *key);
/* USAGE: the URL as it may be shown, and these words. */
snib_err snib__url_wrong(const struct snib__url *, const char *words,
                         struct snib_error *reterr);
/* The value of a query key, or NULL. */
const char *snib__url_query(const struct snib__url *, const char *key);

#endif

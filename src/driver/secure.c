/* driver/secure.c — the keys of a URL that say how TLS is done, and what the
 * connections of a client share for it. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "driver/driver.h"

static snib_err secure_read_keys(const struct snib__url *url,
                                 struct snib__tls_files *ret,
                                 struct snib_error *reterr)
{
    const char *verify = snib__url_query(url, "tls_verify");
    *ret =
        (struct snib__tls_files){.ca = snib__url_query(url, "tls_ca"),
                                 .cert = snib__url_query(url, "tls_cert"),
                                 .key = snib__url_query(url, "tls_key"),
                                 .name = snib__url_query(url, "tls_name"),
                                 .alpn = snib__url_alpn(url),
                                 .scheme = url->scheme,
                                 .unverified = verify && !strcmp(verify, "no")};
    if (verify && strcmp(verify, "no") != 0 && strcmp(verify, "yes") != 0) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: tls_verify is yes (as without it) or no",
                          url->safe);
    }
    if (ret->key && !ret->cert) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: tls_key without the certificate that it "
                          "belongs to: give tls_cert, too",
                          url->safe);
    }
    if (ret->unverified && (ret->ca || ret->name)) {
        return snib__fail(reterr, SNIB_ERR_USAGE,
                          "%.120s: with tls_verify=no nothing is compared with "
                          "tls_ca or tls_name: leave out the one or the others",
                          url->safe);
    }
    return SNIB_ERR_OK;
}

snib_err snib__secure_open(struct snib_client *c, const struct snib__url *url,
                           struct snib_error *reterr)
{
    struct snib__tls_files files;
    if (!snib__url_is_secure(url)) {
        return SNIB_ERR_OK;
    }
    snib_err err = secure_read_keys(url, &files, reterr);
    if (!err) {
        err = snib__tls_shared_new(&files, &c->tls, reterr);
    }
    if (!err && !(c->plain = snib__alloc(SNIB__SOCKET_IN))) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (!err && files.unverified && c->log.tell) {
        char text[300];
        snprintf(text, sizeof text,
                 "%.120s: tls_verify=no: whoever is on the way can read and "
                 "change all of it; give tls_ca= instead",
                 url->safe);
        snib__parts_keep_log(c, SNIB_LOG_WARN, text);
    }
    return err;
}

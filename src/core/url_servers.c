/* core/url_servers.c — see url_servers.h. */
#include "core/url_servers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/mem.h"

static snib_err url_servers_add(const struct snib__url *url, const char *host,
                                uint16_t port, struct snib__out *out,
                                struct snib_error *reterr)
{
    snib__transport transport =
        snib__url_is_secure(url) ? SNIB__TLS : SNIB__PLAIN;
    char address[264];
    snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%u" : "%s:%u",
             host, (unsigned)port);
    for (uint32_t i = 0; i < out->conns; i++) {
        if (!strcasecmp(out->conn[i]->address, address)) {
            return snib__fail(reterr, SNIB_ERR_USAGE,
                              "%.120s: %.60s stands twice", url->safe, address);
        }
    }
    snib_err err = snib__conn_add(out, transport, address);
    return err ? snib__fail_plain(reterr, err) : SNIB_ERR_OK;
}

snib_err snib__url_servers(const struct snib__url *url, uint16_t port,
                           struct snib__out *out, struct snib_error *reterr)
{
    snib_err err = SNIB_ERR_OK;
    if (url->host) {
        return url_servers_add(url, url->host, url->port ? url->port : port,
                               out, reterr);
    }
    for (uint32_t i = 0; i < url->nodes && !err; i++) {
        err = url_servers_add(url, url->node[i].host,
                              url->node[i].port ? url->node[i].port : port, out,
                              reterr);
    }
    return err;
}

snib_err snib__url_login(const struct snib__url *url, const char *form,
                         char **ret_user, char **ret_password,
                         struct snib_error *reterr)
{
    *ret_user = *ret_password = NULL;
    if (!url->user != !url->password) {
        return snib__url_wrong(url, form, reterr);
    }
    *ret_user = snib__strdup(url->user);
    *ret_password = snib__strdup(url->password);
    return url->user && (!*ret_user || !*ret_password)
               ? snib__fail_plain(reterr, SNIB_ERR_NOMEM)
               : SNIB_ERR_OK;
}

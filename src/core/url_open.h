/* core/url_open.h — what stores that are lists of servers, each with a connection,
 * take from a URL in the same way when they are opened. */
#ifndef SNIB__URL_OPEN_H
#define SNIB__URL_OPEN_H

#include "core/store.h"

/* USAGE: the URL as it may be shown, and these words. */
snib_err snib__url_wrong(const struct snib__url *, const char *words,
                         struct snib_error *reterr);
/* A connection for each host, in the order of the list, through TLS if the URL is
 * of that; port: where it says none. USAGE: one stands twice. */
snib_err snib__url_servers(const struct snib__url *, uint16_t port,
                           struct snib__out *, struct snib_error *reterr);
/* Its login, copied; NULL and NULL: it has none, or the program is asked for one
 * (asks; the driver has refused both at once). form: what is said where there is
 * a user without a password, or the reverse. */
snib_err snib__url_login(const struct snib__url *, bool asks, const char *form,
                         char **ret_user, char **ret_password,
                         struct snib_error *reterr);

/* What it copied, or another secret: overwritten and freed; NULL then. */
void snib__login_wipe(char **secret);

#endif

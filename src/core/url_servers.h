/* core/url_servers.h — what a store that is a list of servers, with a connection
 * to each, takes from the URL with which it is opened. */
#ifndef SNIB__URL_SERVERS_H
#define SNIB__URL_SERVERS_H

#include "core/store.h"

/* A connection to each host, in the order of the list; encrypted, if the URL is
 * (snib__url_is_secure). port: of hosts without one. Errors: USAGE, one stands
 * twice; those of snib__conn_add. */
snib_err snib__url_servers(const struct snib__url *, uint16_t port,
                           struct snib__out *, struct snib_error *reterr);
/* Copies of user and password, to be wiped by the caller, after an error too; both
 * NULL: the URL has none. Errors: USAGE, it has only one of them, and `form` says
 * how it is written; NOMEM. */
snib_err snib__url_login(const struct snib__url *, const char *form,
                         char **ret_user, char **ret_password,
                         struct snib_error *reterr);

#endif

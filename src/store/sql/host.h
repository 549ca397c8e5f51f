/* store/sql/host.h — what the stores in databases across a network ask this host
 * for: its clock, whether a socket is ready, whether there is a host of a name,
 * the CAs that it trusts. */
#ifndef SNIB__SQL_HOST_H
#define SNIB__SQL_HOST_H

#include <stdbool.h>

#include "base/time.h"
#include "snib.h"

/* CLOCK_BOOTTIME. */
snib_instant snib__sql_now(void);
/* This host's name: letters, digits, '.', '-' and '_'. */
void snib__sql_host_name(char ret[65]);
/* Wait for a socket (-1: for none). False: `until` has come, or `stop` is
 * readable: the client stops. */
bool snib__sql_wait(int socket, int stop, bool to_read, bool to_write,
                    snib_instant until);
/* Is it certain that there is no host of this name? It asks as the database's
 * library does, and may block as that does. */
bool snib__sql_no_such_host(const char *host);
/* The library could not connect to `where`, and said so in this text. Was it
 * this process that had no descriptor left? Then e says so: LIMIT. */
bool snib__sql_lacks_descriptor(const char *where, const char *text,
                                struct snib_error *e);
/* The file of CAs that this machine trusts, in whose place `ca` may name
 * another. It may not be there: the library says so. */
const char *snib__sql_authorities(const char *ca);

#endif

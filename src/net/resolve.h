/* net/resolve.h — host names to addresses. Blocks without a limit (that is
 * getaddrinfo's nature), so only the client's worker thread calls it. */
#ifndef SNIB__RESOLVE_H
#define SNIB__RESOLVE_H

#include "net/connect.h"

#define SNIB__ADDRESSES 8

struct snib__addresses {
    uint32_t count, next; /* next: to be tried                              */
    struct snib__address v[SNIB__ADDRESSES];
    bool no_such;  /* there is no such host, for sure                 */
    char why[192]; /* count 0: what went wrong                       */
};

void snib__net_resolve(const char *text, struct snib__addresses *ret);

#endif

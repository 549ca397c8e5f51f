/* net/resolve.h — host names to addresses. getaddrinfo blocks without a limit,
 * so driver/resolver.c calls this in a thread of its own for each look-up. */
#ifndef SNIB__RESOLVE_H
#define SNIB__RESOLVE_H

#include "net/connect.h"

#define SNIB__ADDRESSES 8

struct snib__addresses {
    uint32_t count, next; /* next: the index to be tried next               */
    struct snib__address v[SNIB__ADDRESSES];
    int lacks;     /* errno: no descriptor was left to ask with; else 0     */
    bool no_such;  /* it is certain that there is no such host         */
    char why[192]; /* if count is 0: what went wrong                   */
};

void snib__net_resolve(const char *text, struct snib__addresses *ret);

#endif

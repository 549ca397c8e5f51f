/* driver/resolver_i.h — the job that a client and the thread of a host name's
 * look-up share: resolver.c, lookup.c. */
#ifndef SNIB__RESOLVER_I_H
#define SNIB__RESOLVER_I_H

#include "driver/client.h"

struct snib__job {
    struct snib__link link; /* in the client's jobs; guarded by its mutex */
    bool delivered;         /* guarded by the client's mutex */
    pthread_mutex_t mu;
    struct snib_client *client; /* NULL: the tie is cut */
    bool over;                  /* the thread does not touch the client     */
    uint32_t sock;
    char address[264];
    struct snib__addresses found;
};

void snib__job_free(struct snib__job *);
/* What the thread runs; its argument is the job. */
void *snib__lookup_body(void *job);

#endif

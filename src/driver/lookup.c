/* driver/lookup.c — what the thread of a host name's look-up runs; see
 * resolver.c. */
#include <string.h>

#include "driver/driver.h"
#include "driver/resolver_i.h"

void *snib__lookup_body(void *arg)
{
    struct snib__job *j = arg;
    struct snib__step s;
    snib__net_resolve(j->address, &j->found);
    pthread_mutex_lock(&j->mu);
    if (j->client) {
        snib__step_begin(&s, j->client);
        j->delivered = true; /* a socket that opens again gets a new job */
        if (!j->client->stopped &&
            !strcmp(j->address, j->client->out->conn[j->sock]->address)) {
            snib__socket_resolved(&s, j->sock, &j->found);
            snib__step_act(&s);
        }
        snib__step_end(&s);
    }
    bool cut = j->client == NULL;
    j->over = true;
    pthread_mutex_unlock(&j->mu);
    if (cut) {
        snib__job_free(j);
    }
    return NULL;
}

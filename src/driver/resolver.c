/* driver/resolver.c — host names, without anybody waiting for them.
 *
 * getaddrinfo has no time limit and cannot be interrupted. So each name is
 * resolved by a detached thread with a job that it shares with the client. The
 * last of the two to let go frees the job. A client that stops cuts the tie and
 * goes; the thread ends whenever getaddrinfo returns.
 *
 * Two mutexes, in this order: the job's, the client's. The thread holds both
 * while it hands over the addresses. So while a client has the job's mutex, the
 * thread of that job is not inside the client. */
#include <string.h>

#include "base/mem.h"
#include "driver/driver.h"
#include "driver/resolver_i.h"

static struct snib__job *resolver_job_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__job, link);
}

void snib__job_free(struct snib__job *j)
{
    pthread_mutex_destroy(&j->mu);
    snib__free(j);
}

/* Free the jobs whose threads are gone. */
static void resolver_reap(struct snib_client *c)
{
    SNIB__LIST_EACH_SAFE (l, next, &c->jobs) {
        struct snib__job *j = resolver_job_of(l);
        if (!j->delivered || pthread_mutex_trylock(&j->mu)) {
            continue;
        }
        bool over = j->over;
        pthread_mutex_unlock(&j->mu);
        if (over) {
            snib__unlink(&j->link);
            snib__job_free(j);
        }
    }
}

bool snib__resolve_start(struct snib_client *c, uint32_t sock)
{
    pthread_t thread;
    resolver_reap(c);
    SNIB__LIST_EACH (l, &c->jobs) {
        const struct snib__job *old = resolver_job_of(l);
        if (old->sock == sock && !old->delivered &&
            !strcmp(old->address, c->out->conn[sock]->address)) {
            return true; /* it was given up once, but may still answer */
        }
    }
    struct snib__job *j = snib__alloc(sizeof *j);
    if (!j) {
        return false;
    }
    pthread_mutex_init(&j->mu, NULL);
    j->client = c;
    j->sock = sock;
    memcpy(j->address, c->out->conn[sock]->address, sizeof j->address);
    if (snib__thread_start(&thread, snib__lookup_body, j)) {
        snib__job_free(j);
        return false;
    }
    pthread_detach(thread);
    snib__list_push(&c->jobs, &j->link);
    return true;
}

void snib__resolve_cut(struct snib_client *c)
{
    struct snib__link *l;
    struct snib__list jobs;
    snib__list_init(&jobs);
    pthread_mutex_lock(&c->mu);
    snib__list_append(&jobs, &c->jobs);
    pthread_mutex_unlock(&c->mu);
    while ((l = snib__list_pop(&jobs))) {
        struct snib__job *j = resolver_job_of(l);
        pthread_mutex_lock(&j->mu);
        bool over = j->over;
        j->client = NULL;
        pthread_mutex_unlock(&j->mu);
        if (over) {
            snib__job_free(j);
        }
    }
}

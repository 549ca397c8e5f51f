/* driver/threads.c — starting threads of the library.
 *
 * What a thread runs stands at the top of all calls (background.c, worker.c,
 * login.c, lookup.c): nobody calls it. Starting one stands here, at the bottom. */
#include <signal.h>

#include "driver/driver.h"

int snib__thread_start(pthread_t *ret, void *(*body)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(ret, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

bool snib__worker_need(struct snib_client *c)
{
    if (!c->worker.on && !c->worker.stop) {
        c->worker.on = !snib__thread_start(&c->worker.id, snib__worker_body, c);
    }
    return c->worker.on && !c->worker.stop;
}

bool snib__login_need(struct snib_client *c)
{
    struct snib__thread *t = &c->logins.thread;
    if (!t->on && !t->stop) {
        t->on = !snib__thread_start(&t->id, snib__login_body, c);
    }
    return t->on && !t->stop;
}

/* driver/threads.c — starting threads of the library.
 *
 * What a thread runs stands at the top of all calls (background.c, worker.c,
 * login.c, sessions.c, lookup.c): nobody calls it. Starting one stands here, at
 * the bottom. */
#include <signal.h>
#include <string.h>

#include "base/error.h"
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

static void threads_init_sessions(struct snib_client *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&c->sessions.over, &attr);
    pthread_condattr_destroy(&attr);
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct snib__worker *w = &c->sessions.worker[i];
        w->client = c;
        w->session = (snib__session)i;
        pthread_cond_init(&w->work, NULL);
    }
    c->exec.shares = true;
}

snib_err snib__sessions_start(struct snib_client *c, struct snib_error *reterr)
{
    int no = 0;
    threads_init_sessions(c);
    pthread_mutex_lock(&c->mu);
    for (int i = 0; i < SNIB__SESSIONS && !no; i++) {
        struct snib__worker *w = &c->sessions.worker[i];
        no = snib__thread_start(&w->id, snib__session_body, w);
        w->on = !no;
    }
    pthread_mutex_unlock(&c->mu);
    return no ? snib__fail(reterr, SNIB_ERR_LIMIT,
                           "no thread for a session of the store: %s",
                           strerror(no))
              : SNIB_ERR_OK;
}

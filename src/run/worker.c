/* run/worker.c — a thread for blocking work that no caller waits for.
 *
 * It is started when it is first needed: for the exec() of a blocking store
 * when no call is there to do it (renewals, clean-up, all requests of a pull
 * client). The background thread does not do this, because it has to tell of a
 * loss by the deadline while a database file is busy. In a pull client the
 * engine does not move here: snib_process takes the results. */
#include "run/inside.h"

static bool worker_may_execute(const struct snib_client *c)
{
    return c->blocking && !c->executing && !snib__list_empty(&c->out->exec);
}

static void worker_execute_for_pull(struct snib__step *s)
{
    struct snib_client *c = s->c;
    struct snib__list chain;
    snib_instant now = s->now;
    snib__list_init(&chain);
    snib__list_append(&chain, &c->out->exec);
    c->executing = true;
    snib__step_pause(s);
    c->blocking->exec(c->instance, now, &chain);
    snib__step_again(s);
    c->executing = false;
    snib__socket_notifier(c);
    snib__list_append(&c->executed, &chain);
    SNIB__LIST_EACH (l, &c->roles.waiting) { /* stop, direct request */
        snib__call_wake(s, SNIB__CONTAINER(l, struct snib__call, w.link));
    }
    s->kick = true;
}

static void *worker_body(void *arg)
{
    struct snib_client *c = arg;
    struct snib__step s;
    snib__step_begin(&s, c);
    while (!c->worker_stop) {
        if (worker_may_execute(c) && c->pull) {
            worker_execute_for_pull(&s);
        } else if (worker_may_execute(c)) {
            (void)snib__step_exec(&s);
        } else {
            snib__step_pause(&s);
            snib__step_again(&s);
            if (!c->worker_stop && !worker_may_execute(c)) {
                pthread_cond_wait(&c->work, &c->mu);
            }
            snib__step_refresh(&s);
        }
    }
    snib__step_end(&s);
    return NULL;
}

bool snib__worker_need(struct snib_client *c)
{
    if (!c->worker_on && !c->worker_stop) {
        c->worker_on = !snib__thread_start(&c->worker, worker_body, c);
    }
    return c->worker_on && !c->worker_stop;
}

void snib__worker_join(struct snib_client *c)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    bool on = c->worker_on;
    c->worker_stop = true;
    pthread_cond_broadcast(&c->work);
    snib__step_end(&s);
    if (on) {
        pthread_join(c->worker, NULL);
    }
}

/* driver/worker.c — a thread for blocking work that no caller waits for.
 *
 * It is started when it is first needed: for the exec() of a blocking store
 * when no call is there to do it (renewals, clean-up, all requests of a pull
 * client). The background thread does not do this, because it has to tell of a
 * loss by the deadline while a database file is busy. In a pull client the
 * engine does not move here: snib_client_process takes the results. */
#include "driver/driver.h"

void *snib__worker_body(void *arg)
{
    struct snib_client *c = arg;
    struct snib__step s;
    snib__step_begin(&s, c);
    while (!c->worker.stop) {
        if (snib__may_execute(c) && c->pull) {
            snib__execute_for_pull(&s);
        } else if (snib__may_execute(c)) {
            (void)snib__step_exec(&s);
        } else {
            snib__step_pause(&s);
            snib__step_again(&s);
            if (!c->worker.stop && !snib__may_execute(c)) {
                snib__mu_wait(c, &c->work);
            }
            snib__step_refresh(&s);
        }
    }
    snib__step_end(&s);
    return NULL;
}

void snib__worker_join(struct snib_client *c)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    bool on = c->worker.on;
    c->worker.stop = true;
    pthread_cond_broadcast(&c->work);
    snib__step_end(&s);
    if (on) {
        pthread_join(c->worker.id, NULL);
    }
}

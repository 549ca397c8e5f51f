/* driver/sessions.c — the two workers of a store across a network.
 *
 * A library whose peer may stall is executed by no caller's thread and not by
 * the background thread: these keep limits and deadlines. It has two sessions
 * (core/sharing.c), each with a worker, from open to stop. A worker takes what
 * is listed for its session, goes into the library, and gives it back.
 *
 * A worker that is stuck. Callers leave at their limits: nobody waits for a
 * worker, but stop. stop asks the library to let its workers go, and waits for
 * SNIB__COME_BACK_MS. A worker that is still inside then is left behind:
 * detached, with the requests and the library's instance in its hands. Who
 * frees these?
 *
 *   stop --all are over--> (joined) ----------------------> free frees all
 *     +--one is inside---> it comes back before free -----> free frees all
 *                          free comes first: it frees what no worker can
 *                          touch; the last worker to come back frees the rest
 *                          (the engine, the instance, the client)
 *
 * Both look under the client's mutex at who was first. After `over` is set, and
 * the mutex given back, a worker touches nothing of the client, unless it is
 * the last one of a client that is freed. In a forked child there are no
 * workers, and the memory of a blocking store stays (api/client.c). */
#include <time.h>

#include "driver/driver.h"

static bool sessions_has_work(const struct snib_client *c,
                              const struct snib__worker *w)
{
    return snib__blocking_waits(snib__engine_store(c->engine), w->session);
}

/* Is none of them in the client any more? */
static bool sessions_over(const struct snib_client *c)
{
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        if (c->sessions.worker[i].on && !c->sessions.worker[i].over) {
            return false;
        }
    }
    return true;
}

/* -- a worker ------------------------------------------------------------- */

/* Wake-ups and log lines of the last round go out first. */
static void sessions_wait(struct snib__step *s, struct snib__worker *w)
{
    struct snib_client *c = s->c;
    snib__step_pause(s);
    snib__step_again(s);
    if (!c->sessions.stop && !sessions_has_work(c, w)) {
        snib__mu_wait(c, &w->work);
    }
    snib__step_refresh(s);
}

void *snib__session_body(void *arg)
{
    struct snib__worker *w = arg;
    struct snib_client *c = w->client;
    struct snib__step s;
    snib__step_begin(&s, c);
    while (!c->sessions.stop && !c->stopped) {
        if (!sessions_has_work(c, w)) {
            sessions_wait(&s, w);
            continue;
        }
        snib__execute_in(&s, w);
        if (!c->stopped && !c->pull) {
            snib__step_act(&s);
        }
    }
    w->over = true;
    pthread_cond_broadcast(&c->sessions.over);
    bool last = c->sessions.freed && sessions_over(c);
    snib__step_end(&s);
    if (last) {
        snib__parts_free_last(c);
    }
    return NULL;
}

/* -- their end ------------------------------------------------------------ */

/* With the mutex held: wait until all are over, but not longer than that. */
static void sessions_wait_for_all(struct snib_client *c)
{
    struct timespec until;
    int late = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += SNIB__COME_BACK_MS * INT64_C(1000000);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    snib__mu_given(c);
    while (!sessions_over(c) && !late) {
        late = pthread_cond_timedwait(&c->sessions.over, &c->mu, &until);
    }
    snib__mu_taken(c);
}

void snib__sessions_end(struct snib_client *c)
{
    struct snib__step s;
    bool join[SNIB__SESSIONS];
    if (!c->exec.shares) {
        return;
    }
    snib__step_begin(&s, c);
    c->sessions.stop = true;
    bool inside = false;
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        pthread_cond_signal(&c->sessions.worker[i].work);
        inside = inside || c->sessions.worker[i].inside;
    }
    if (inside && c->exec.ops->interrupt) {
        c->exec.ops->interrupt(c->exec.instance);
    }
    sessions_wait_for_all(c);
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        struct snib__worker *w = &c->sessions.worker[i];
        join[i] = w->on && w->over;
        if (w->on && !w->over) {
            pthread_detach(w->id);
        }
    }
    snib__step_end(&s);
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        if (join[i]) {
            pthread_join(c->sessions.worker[i].id, NULL);
        }
    }
}

bool snib__sessions_free(struct snib_client *c)
{
    bool left;
    if (!c->exec.shares) {
        return false;
    }
    pthread_mutex_lock(&c->mu);
    left = !sessions_over(c);
    if (left) {
        snib__parts_free(c);
        c->sessions.freed = true;
    }
    pthread_mutex_unlock(&c->mu);
    return left;
}

/* driver/exec.c — what a blocking store has to do: who executes it, and executing
 * it on this thread. */
#include "driver/driver.h"
#include "driver/socket_notifier.h"

/* Execute all that there is now, with the mutex released meanwhile. */
static void exec_run(struct snib__step *s, struct snib__list *chain)
{
    struct snib_client *c = s->c;
    snib_instant now = s->now;
    snib__list_init(chain);
    snib__list_append(chain, &c->out->exec);
    c->exec.running = true;
    snib__step_pause(s);
    c->exec.ops->exec(c->exec.instance, now, chain);
    snib__step_again(s);
    c->exec.running = false;
    snib__socket_notifier(c);
}

void snib__execute(struct snib__step *s)
{
    struct snib__list chain;
    exec_run(s, &chain);
    snib__engine_executed(s->c->engine, s->now, &chain);
}

/* The engine of a pull client does not move on a worker. */
static void exec_keep(struct snib__step *s, struct snib__list *chain)
{
    struct snib_client *c = s->c;
    snib__list_append(&c->exec.done, chain);
    SNIB__LIST_EACH (l, &c->calls.roles.waiting) { /* stop, direct request */
        snib__call_wake(s, SNIB__CONTAINER(l, struct snib__call, w.link));
    }
    s->kick = true;
}

void snib__execute_for_pull(struct snib__step *s)
{
    struct snib__list chain;
    exec_run(s, &chain);
    exec_keep(s, &chain);
}

void snib__execute_in(struct snib__step *s, struct snib__worker *w)
{
    struct snib_client *c = s->c;
    struct snib__store *store = snib__engine_store(c->engine);
    struct snib__list chain;
    snib_instant now = s->now;
    snib__list_init(&chain);
    snib__blocking_take(store, now, w->session, &chain);
    w->inside = true;
    snib__step_pause(s);
    c->exec.ops->exec_in(c->exec.instance, w->session, now, &chain);
    snib__step_again(s);
    w->inside = false;
    snib__blocking_returned(store, w->session);
    if (c->stopped) { /* nobody waits for it any more */
        while (snib__list_pop(&chain)) {
        }
    } else if (c->pull) {
        exec_keep(s, &chain);
    } else {
        snib__engine_executed(c->engine, s->now, &chain);
    }
}

void snib__executed(struct snib__step *s)
{
    struct snib__list chain;
    snib__list_init(&chain);
    snib__list_append(&chain, &s->c->exec.done);
    snib__engine_executed(s->c->engine, s->now, &chain);
}

/* -- who executes ---------------------------------------------------------- */

void snib__exec_assign(struct snib__step *s)
{
    struct snib_client *c = s->c;
    if (s->background || (s->me && !s->me->w.done)) {
        return;
    }
    struct snib__waiter *w = snib__roles_parked(&c->calls.roles);
    if (!w && !snib__list_empty(&c->calls.roles.waiting)) {
        w = SNIB__CONTAINER(snib__list_first(&c->calls.roles.waiting),
                            struct snib__waiter, link);
    }
    if (w) {
        if (w->posture != SNIB__RUNNING) {
            snib__waiter_wake(s, w);
        }
    } else if (!c->exec.quick && snib__worker_need(c)) {
        pthread_cond_signal(&c->work);
    } else {
        s->kick = true;
    }
}

void snib__exec_assign_sessions(struct snib_client *c)
{
    const struct snib__store *store = snib__engine_store(c->engine);
    for (int i = 0; i < SNIB__SESSIONS; i++) {
        if (snib__blocking_waits(store, (snib__session)i)) {
            pthread_cond_signal(&c->sessions.worker[i].work);
        }
    }
}

bool snib__exec_inside(const struct snib_client *c)
{
    bool inside = c->exec.running || c->logins.asks || c->notices.telling;
    for (int i = 0; c->exec.shares && i < SNIB__SESSIONS; i++) {
        inside = inside || c->sessions.worker[i].inside;
    }
    return inside;
}

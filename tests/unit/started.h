/* tests/unit/started.h — taking the events of operations, and a store that can
 * be made to stand still; for unit.started, unit.started_more and those of
 * operations of several requests. */
#ifndef SNIB_TESTS_STARTED_H
#define SNIB_TESTS_STARTED_H

#include "run_memory.h"

#include "api/api.h"
#include "snib/deadlock.h"
#include "snib/event.h"
#include "snib/inspect.h"
#include "snib/latch.h"
#include "snib/ring.h"
#include "snib/semaphore.h"
#include "snib/value.h"
#include "store/memory/memory.h"

static void must(snib_err err)
{
    if (err) {
        fail_msg("%s: %s", snib_err_name(err), e.text);
    }
}

/* -- a store that stands still -------------------------------------------------- */

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t moved = PTHREAD_COND_INITIALIZER;
static bool stands;

static void still_exec(void *instance, snib_instant now, struct snib__list *all)
{
    pthread_mutex_lock(&mu);
    while (stands) {
        pthread_cond_wait(&moved, &mu);
    }
    pthread_mutex_unlock(&mu);
    snib__memory_ops.exec(instance, now, all);
}

static struct snib__blocking_ops still_ops;

static void stand_still(bool on)
{
    pthread_mutex_lock(&mu);
    stands = on;
    pthread_cond_broadcast(&moved);
    pthread_mutex_unlock(&mu);
}

/* From now on this client's store takes its time, and can be made to stand
 * still. */
static void slow_down(struct snib_client *c)
{
    still_ops = snib__memory_ops;
    still_ops.exec = still_exec;
    pthread_mutex_lock(&c->mu);
    c->exec.ops = &still_ops;
    c->exec.quick = false;
    pthread_mutex_unlock(&c->mu);
}

/* It is itself again, and nothing is under way there. A client in virtual time
 * is stopped only so: nobody waits for a worker there. */
static void speed_up(struct snib_client *c)
{
    for (bool busy = true; busy; nap(1)) {
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
        pthread_mutex_lock(&c->mu);
        busy = c->exec.running || !snib__list_empty(&c->exec.done) ||
               !snib__list_empty(&c->out->exec);
        c->exec.ops = busy ? c->exec.ops : &snib__memory_ops;
        c->exec.quick = !busy;
        pthread_mutex_unlock(&c->mu);
    }
}

/* -- taking events ----------------------------------------------------------------- */

static void drive(struct snib_client *c)
{
    for (int i = 0; c->pull && i < 20; i++) {
        assert_int_equal(snib_client_process(c), SNIB_ERR_OK);
    }
}

static struct snib_event next_of(struct snib_client *c)
{
    struct snib_event ev;
    memset(&ev, 0xa5, sizeof ev);
    for (int64_t end = now_ms() + 20000;; nap(1)) {
        drive(c);
        if (snib_client_next(c, &ev, sizeof ev)) {
            return ev;
        }
        assert_true(now_ms() < end);
    }
}

static struct snib_event done_of(struct snib_client *c, uint64_t ticket)
{
    struct snib_event ev = next_of(c);
    assert_int_equal(ev.kind, SNIB_EVENT_DONE);
    assert_int_equal(ev.grant.ticket, ticket);
    return ev;
}

static void no_event(struct snib_client *c)
{
    struct snib_event ev;
    drive(c);
    assert_false(snib_client_next(c, &ev, sizeof ev));
}

/* In a threaded client, and in a pull client, each in a space of its own. */
#define BOTH(pull) for (int pull = 0; pull < 2; pull++, space++)

static bool free_for(struct snib_client *c, const char *name)
{
    struct snib_lock *l = lock_of(c, name);
    struct snib_grant g;
    bool got = snib_try(l, NULL, &g, &e) == SNIB_ERR_OK;
    if (got) {
        must(snib_release(l, g, &e));
    }
    snib_lock_free(l);
    return got;
}

/* Until others see somebody wait for it. */
static void is_waited_for(struct snib_client *me, struct snib_client *other,
                          const char *name)
{
    size_t n = 0;
    for (int64_t end = now_ms() + 20000; !n; nap(1)) {
        struct snib_view *v;
        struct snib_event ev;
        drive(me);
        assert_false(snib_client_next(me, &ev, sizeof ev));
        must(snib_client_inspect(other, name, 0, &v, &e));
        n = v->waiter_count;
        snib_view_free(v);
        assert_true(now_ms() < end);
    }
}

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

#define CASE(name) cmocka_unit_test_setup(name, new_space)

#endif

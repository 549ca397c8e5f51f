/* tests/unit/far_library.h — a library across a network, for tests of the
 * driver's two workers: the rules of memory:, behind two sessions. Each of them
 * can be stalled, slowed, cut, or made to connect or answer late or not at
 * all.
 *
 * The test file says "wraps: snib__store_find". While far.on is set, a client
 * that is opened on memory: gets this library, one client at a time; others of
 * the same space are plain ones, and see what it did. */
#ifndef SNIB_TESTS_FAR_LIBRARY_H
#define SNIB_TESTS_FAR_LIBRARY_H

#include "run_memory.h"

#include "api/api.h"
#include "base/error.h"
#include "core/blocking.h"
#include "store/memory/memory.h"

typedef enum way {
    WELL,
    SLOW,     /* each call takes so long                                     */
    CONNECTS, /* there is no connection before it is well again; then what has
                 not come to its limit is sent */
    STALLS,   /* nothing reaches the server until it is well again           */
    LATE, /* the server does it at once; the answer comes when it is well  */
    CUT,  /* there is no connection                                      */
    LOSES /* the server does it, and the answer is lost                  */
} way;

enum { FAR_LOG = 4096 };

static struct far {
    bool on;
    pthread_mutex_t mu;
    pthread_cond_t changed;
    struct {
        way way;
        _Atomic int64_t slow_ms;
        bool inside;
        uint32_t calls;
        pthread_t thread;
    } session[SNIB__SESSIONS];
    bool interrupts, interrupted; /* it can be; it was */
    uint32_t freed;
    /* What the server did, in its order. */
    struct {
        uint64_t id;
        snib__verb verb;
        snib__session session;
    } log[FAR_LOG];
    uint32_t logged;
} far = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void far_is(snib__session k, way how)
{
    pthread_mutex_lock(&far.mu);
    far.session[k].way = how;
    pthread_cond_broadcast(&far.changed);
    pthread_mutex_unlock(&far.mu);
}

static void far_both(way how)
{
    far_is(SNIB__SESSION_CALLERS, how);
    far_is(SNIB__SESSION_BACKGROUND, how);
}

static int far_new(void **state)
{
    far_both(WELL);
    pthread_mutex_lock(&far.mu);
    far.on = true;
    far.interrupts = far.interrupted = false;
    far.freed = far.logged = 0;
    for (int k = 0; k < SNIB__SESSIONS; k++) {
        far.session[k].calls = 0;
        far.session[k].slow_ms = 0;
    }
    pthread_mutex_unlock(&far.mu);
    return new_space(state);
}

/* The next client is a plain one. */
static struct snib_client *plain_client(void)
{
    far.on = false;
    struct snib_client *c = open_client("", false);
    far.on = true;
    return c;
}

/* Wait until a thread is inside this session. */
static void far_until_inside(snib__session k)
{
    pthread_mutex_lock(&far.mu);
    while (!far.session[k].inside) {
        pthread_cond_wait(&far.changed, &far.mu);
    }
    pthread_mutex_unlock(&far.mu);
}

/* How often the library was freed, by now or within 20 s. */
static uint32_t far_freed(uint32_t expected)
{
    uint32_t is;
    for (int64_t end = now_ms() + 20000;;) {
        pthread_mutex_lock(&far.mu);
        is = far.freed;
        pthread_mutex_unlock(&far.mu);
        if (is >= expected || now_ms() > end) {
            return is;
        }
        nap(1);
    }
}

static struct snib__request *far_request(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__request, link);
}

static void far_answer(struct snib__request *r, snib__answer a, snib_err err,
                       const char *text)
{
    r->said.answer = a;
    r->said.err = snib__fail(r->said.reterr, err, "%s", text);
}

/* There is no connection: as long as there is time it is tried again. */
static void far_no_way(snib_instant now, struct snib__list *chain)
{
    SNIB__LIST_EACH (l, chain) {
        struct snib__request *r = far_request(l);
        far_answer(r, SNIB__NOT_APPLIED, SNIB_ERR_UNREACHABLE,
                   "connection refused");
        if (!r->exec.impatient && r->verb != SNIB__RENEW &&
            !snib__reached(now, r->exec.patience)) {
            r->said.answer = SNIB__PENDING;
        }
    }
}

static void far_unanswered(struct snib__list *chain)
{
    SNIB__LIST_EACH (l, chain) {
        far_answer(far_request(l), SNIB__UNKNOWN, SNIB_ERR_UNKNOWN,
                   "the connection broke");
    }
}

static void far_do(void *instance, snib__session k, snib_instant now,
                   struct snib__list *chain)
{
    pthread_mutex_lock(&far.mu);
    SNIB__LIST_EACH (l, chain) {
        const struct snib__request *r = far_request(l);
        if (far.logged < FAR_LOG) {
            far.log[far.logged].id = r->id[0];
            far.log[far.logged].verb = r->verb;
            far.log[far.logged++].session = k;
        }
    }
    pthread_mutex_unlock(&far.mu);
    snib__memory_ops.exec(instance, now, chain);
}

static way far_enter(snib__session k)
{
    pthread_mutex_lock(&far.mu);
    if (far.session[k].inside) {
        abort(); /* one at a time */
    }
    far.session[k].inside = true;
    far.session[k].calls++;
    far.session[k].thread = pthread_self();
    pthread_cond_broadcast(&far.changed);
    way how = far.session[k].way;
    pthread_mutex_unlock(&far.mu);
    return how;
}

/* Until it is well again. False: the call was interrupted. */
static bool far_wait(snib__session k, way how)
{
    pthread_mutex_lock(&far.mu);
    while (far.session[k].way == how && !far.interrupted) {
        pthread_cond_wait(&far.changed, &far.mu);
    }
    bool well = far.session[k].way != how;
    pthread_mutex_unlock(&far.mu);
    return well;
}

/* The server is reached. Nothing is sent of what came to its limit before. */
static void far_sends(struct snib__list *chain, struct snib__list *late)
{
    SNIB__LIST_EACH (l, chain) {
        snib__blocking_sends(far_request(l));
    }
    snib_instant sent = snib__boottime();
    SNIB__LIST_EACH_SAFE (l, next, chain) {
        if (snib__blocking_expired(far_request(l), sent)) {
            far_answer(far_request(l), SNIB__NOT_APPLIED, SNIB_ERR_UNREACHABLE,
                       "reached too late");
            snib__unlink(l);
            snib__list_push(late, l);
        }
    }
}

static void far_exec_in(void *instance, snib__session k, snib_instant now,
                        struct snib__list *chain)
{
    struct snib__list late;
    way how = far_enter(k);
    snib__list_init(&late);
    if (how != CONNECTS && how != CUT) {
        far_sends(chain, &late);
    }
    switch (how) {
    case CONNECTS:
        if (far_wait(k, CONNECTS)) {
            far_sends(chain, &late);
            far_do(instance, k, now, chain);
        } else {
            far_no_way(now, chain);
        }
        break;
    case WELL:
        far_do(instance, k, now, chain);
        break;
    case SLOW:
        nap(far.session[k].slow_ms);
        far_do(instance, k, now, chain);
        break;
    case STALLS:
        if (far_wait(k, STALLS)) {
            far_do(instance, k, now, chain);
        } else {
            far_unanswered(chain);
        }
        break;
    case LATE:
        far_do(instance, k, now, chain);
        (void)far_wait(k, LATE);
        break;
    case CUT:
        far_no_way(now, chain);
        break;
    case LOSES:
        far_do(instance, k, now, chain);
        far_unanswered(chain);
        break;
    }
    snib__list_append(chain, &late);
    pthread_mutex_lock(&far.mu);
    far.session[k].inside = false;
    pthread_cond_broadcast(&far.changed);
    pthread_mutex_unlock(&far.mu);
}

static void far_interrupt(void *instance)
{
    (void)instance;
    pthread_mutex_lock(&far.mu);
    far.interrupted = far.interrupts;
    pthread_cond_broadcast(&far.changed);
    pthread_mutex_unlock(&far.mu);
}

static void far_free(void *instance)
{
    snib__memory_ops.free(instance);
    pthread_mutex_lock(&far.mu);
    far.freed++;
    pthread_mutex_unlock(&far.mu);
}

const struct snib__registered *__real_snib__store_find(const char *scheme);
const struct snib__registered *__wrap_snib__store_find(const char *scheme);

const struct snib__registered *__wrap_snib__store_find(const char *scheme)
{
    static struct snib__blocking_ops ops;
    static struct snib__registered store;
    if (!far.on || strcmp(scheme, "memory") != 0) {
        return __real_snib__store_find(scheme);
    }
    ops = snib__memory_ops;
    ops.caps &= ~(uint32_t)SNIB__IN_PROCESS;
    ops.caps |= SNIB__SAYS_SENT;
    ops.exec = NULL;
    ops.exec_in = far_exec_in;
    ops.interrupt = far_interrupt;
    ops.free = far_free;
    store = *__real_snib__store_find(scheme);
    store.blocking = &ops;
    return &store;
}

#endif

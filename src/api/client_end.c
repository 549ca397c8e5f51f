/* api/client_end.c — ending a client: calls and a start.
 *
 *   open ----> closed ----> stopped ----> (freed)
 *        close: acquires that wait end with CLOSED, new ones are refused;
 *               what is held stays held and renewed, releases work
 *        stop:  what is held is released; threads end; connections are shut
 *               down. Their descriptors stay: a call of another thread that is
 *               answered may be about to read one, or to notify its waker
 *        free:  everything else, handles that were not freed included. What a
 *               worker that is stuck in a store's library has in its hands, it
 *               frees itself when it comes back (driver/sessions.c)
 *
 * In a forked child only free does anything. It must not disturb the parent: no
 * byte is sent, no file of a store is unlinked or unlocked. The client's
 * descriptors are closed. Memory is given back on two conditions: no other
 * thread of the parent was inside at the fork (else the engine may be half way
 * through a step), and the store keeps all it has in memory of its own.
 * Otherwise it stays until the child's exec or exit. */
#include "api/client.h"

#include "api/api.h"
#include "api/sequence.h"
#include "base/error.h"

/* -- ending ---------------------------------------------------------------- */

/* Wait until nothing is under way at the store, or nothing has moved for
 * request_ms. */
static void client_end_wait_idle(struct snib__step *s)
{
    struct snib_client *c = s->c;
    struct snib__counts was, is;
    struct snib__store_state store;
    struct snib__call call;
    snib__engine_counts(c->engine, &was);
    while (!snib__engine_idle(c->engine)) {
        snib__call_begin(s, &call, SNIB__CALL_IDLE,
                         snib__after(s->now, c->request));
        bool idle = snib__call_wait(s, &call);
        snib__call_end(s, &call);
        snib__engine_counts(c->engine, &is);
        snib__engine_store_state(c->engine, s->now, &store);
        if (idle || is.requests >= was.requests || !store.reachable) {
            return; /* all done, or nothing answered in request_ms */
        }
        was = is;
    }
}

/* A quorum answers when a majority has confirmed an end. The other servers have
 * been asked, too. But if a server has no connection yet, nobody would carry
 * the request to it any more, and the grant would stay there until its lease is
 * over. So stop waits that long for them. */
enum { TOLD_MS = 250 };

static void client_end_wait_told(struct snib__step *s)
{
    struct snib__call call;
    struct snib__store_state store;
    snib__engine_store_state(s->c->engine, s->now, &store);
    if (store.behind) {
        snib__call_begin(s, &call, SNIB__CALL_CAUGHT_UP,
                         snib__after(s->now, snib__ms(TOLD_MS)));
        snib__call_wait(s, &call);
        snib__call_end(s, &call);
    }
}

/* With the mutex held. */
static void client_end_close(struct snib__step *s)
{
    if (!s->c->closed) {
        s->c->closed = true;
        snib__engine_keep_no_more(s->c->engine, s->now);
        snib__step_act(s);
        snib__calls_close(s);
        snib__ops_close(s);
        snib__step_act(s);
    }
}

void snib_client_close(struct snib_client *c)
{
    struct snib__step s;
    if (!c || snib__client_check(c, NULL)) {
        return;
    }
    snib__step_begin(&s, c);
    client_end_close(&s);
    snib__step_end(&s);
}

/* What is held is being released from now on. */
static void client_end_release(struct snib__step *s)
{
    if (!s->c->stopping) {
        s->c->stopping = true;
        snib__engine_close(s->c->engine, s->now);
        snib__ops_close(s); /* renewals: what they renew is released */
    }
}

/* Nothing is waited for any more. */
static void client_end_stopped(struct snib__step *s)
{
    s->c->stopped = true;
    (void)snib__login_end(s->c);
    snib__calls_close(s);
    snib__ops_close(s);
    snib__step_act(s);
}

/* Does on_change run on this thread, or the function that gives logins? */
static bool client_end_is_called_back(const struct snib_client *c)
{
    const struct snib__logins *l = &c->logins;
    return (!c->pull && c->notices.telling &&
            pthread_equal(c->notices.teller, pthread_self())) ||
           (l->thread.on && pthread_equal(l->thread.id, pthread_self()));
}

void snib_client_stop(struct snib_client *c)
{
    struct snib__step s;
    if (!c || snib__client_check(c, NULL)) {
        return;
    }
    snib_client_close(c);
    snib__step_begin(&s, c);
    if (client_end_is_called_back(c)) { /* a thread cannot join itself */
        snib__step_end(&s);
        return;
    }
    if (c->joining) { /* its threads are joined once */
        while (!c->ended) {
            snib__mu_wait(c, &c->notices.told);
        }
        snib__step_end(&s);
        return;
    }
    c->joining = true;
    client_end_release(&s);
    if (!c->stopped) { /* else what was started has waited already */
        client_end_wait_idle(&s);
        client_end_wait_told(&s);
        client_end_stopped(&s);
    }
    bool logs_in = snib__login_end(c);
    snib__step_end(&s);
    snib__resolve_cut(c);
    if (logs_in) {
        snib__login_join(c);
    }
    snib__background_join(c);
    snib__worker_join(c);
    snib__sessions_end(c);
    snib__step_begin(&s, c);
    /* late callers may still read these */
    c->background.on = c->worker.on = c->logins.thread.on = false;
    snib__sockets_end(c);
    snib__loop_end(c);
    c->ended = true;
    pthread_cond_broadcast(&c->notices.told);
    snib__step_end(&s);
}

void snib_client_free(struct snib_client *c)
{
    if (!c) {
        return;
    }
    if (snib__client_check(c, NULL)) {
        snib__parts_free_in_child(c);
        return;
    }
    snib_client_stop(c);
    if (!snib__sessions_free(c)) {
        snib__parts_free(c);
        snib__parts_free_last(c);
    }
}

/* -- started ------------------------------------------------------------------- */

/* A stop that is started waits as the call does, but for the threads, which it
 * only tells to end: it has seen that none of them is inside a library or a
 * function of the program's, so whoever joins them does not wait. The pump tells
 * it when what it waits for is so; its timer, when that takes too long. */
struct ending {
    struct snib__sequence q;
    enum { IDLE, TOLD, OUT } at; /* what it waits for                      */
    struct snib__counts was;
    bool late; /* its timer was first                                        */
    bool unanswered, stuck;
};

static struct ending *client_end_of(struct snib__op *op)
{
    return SNIB__CONTAINER(snib__sequence_of(op), struct ending, q);
}

/* It goes on, unless it did already. */
static void client_end_go_on(struct snib__step *s, struct ending *e, bool late)
{
    struct snib__ops *ops = &s->c->ops;
    if (ops->quiet == &e->q.resume) {
        e->late = late;
        ops->quiet = NULL;
        snib__op_push(s, &e->q.resume);
    }
}

/* The timer keeps its place in the heap, so that setting it cannot fail. */
static void client_end_due(struct snib__step *s, struct snib__op *op)
{
    snib__heap_set(&s->c->ops.timers, &op->timer,
                   snib__after(s->now, s->c->request));
    client_end_go_on(s, client_end_of(op), true);
}

/* A stop is not cancelled. A call of stop may be faster. */
static void client_end_give_up(struct snib__step *s, struct snib__op *op,
                               snib_err why)
{
    (void)why;
    if (s->c->stopped) {
        client_end_go_on(s, client_end_of(op), false);
    }
}

/* With the mutex held: it goes on when that is so, or after that time. */
static void client_end_wait(struct snib__step *s, struct ending *e,
                            snib__call_kind until, int64_t ns)
{
    struct snib__ops *ops = &s->c->ops;
    e->late = false;
    ops->quiet = &e->q.resume;
    ops->until = (uint8_t)until;
    snib__heap_set(&ops->timers, &e->q.op.timer,
                   snib__after(s->now, (snib_duration){ns}));
}

/* Not idle in that time. Has something moved meanwhile? */
static bool client_end_moves(struct snib__step *s, struct ending *e)
{
    struct snib__counts is;
    struct snib__store_state store;
    snib__engine_counts(s->c->engine, &is);
    snib__engine_store_state(s->c->engine, s->now, &store);
    bool moves = is.requests < e->was.requests && store.reachable;
    e->was = is;
    return moves;
}

/* Must it wait for more? */
static bool client_end_goes_on(struct snib__step *s, struct ending *e)
{
    int64_t request = s->c->request.ns;
    switch (e->at) {
    case IDLE:
        e->unanswered = e->late;
        if (e->unanswered && client_end_moves(s, e)) {
            client_end_wait(s, e, SNIB__CALL_IDLE, request);
            return true;
        }
        e->at = TOLD;
        if (!snib__condition_holds(s, SNIB__CALL_CAUGHT_UP)) {
            client_end_wait(s, e, SNIB__CALL_CAUGHT_UP,
                            TOLD_MS * INT64_C(1000000));
            return true;
        }
        /* fall through */
    case TOLD:
        e->at = OUT;
        if (!snib__condition_holds(s, SNIB__CALL_OUT)) {
            client_end_wait(s, e, SNIB__CALL_OUT, request);
            return true;
        }
        break;
    case OUT:
        e->stuck = e->late;
        break;
    }
    return false;
}

/* All threads are to end by themselves. */
static void client_end_threads(struct snib__step *s)
{
    struct snib_client *c = s->c;
    c->background.stop = c->worker.stop = true;
    s->kick = s->kick || c->background.on;
    pthread_cond_broadcast(&c->work);
    for (int i = 0; c->exec.shares && i < SNIB__SESSIONS; i++) {
        c->sessions.stop = true;
        pthread_cond_signal(&c->sessions.worker[i].work);
    }
}

static bool client_end_next(struct snib__sequence *q, struct snib_error *ret)
{
    struct ending *e = SNIB__CONTAINER(q, struct ending, q);
    struct snib__step s;
    snib__step_begin(&s, q->client);
    bool goes_on = !s.c->stopped && client_end_goes_on(&s, e);
    if (goes_on) {
        snib__op_started(&s);
        return false;
    }
    if (!s.c->stopped) {
        client_end_stopped(&s);
    }
    client_end_threads(&s);
    snib__step_end(&s);
    if (e->stuck) {
        snib__fail(ret, SNIB_ERR_STORE,
                   "a thread is inside the store's library, or in a function "
                   "of the program's, and does not come back: "
                   "snib_client_free waits for it");
    } else if (e->unanswered) {
        snib__fail(ret, SNIB_ERR_UNKNOWN,
                   "the store did not answer: what was held may stand there "
                   "until its leases end");
    }
    return true;
}

static void client_end_take(struct snib__op *op, struct snib_event *ret)
{
    (void)op;
    (void)ret;
}

static void client_end_drop(struct snib__op *op)
{
    snib__sequence_drop(snib__sequence_of(op));
}

static const struct snib__sequence_rules client_end_rules = {
    .kind = {.due = client_end_due,
             .give_up = client_end_give_up,
             .take = client_end_take,
             .drop = client_end_drop},
    .next = client_end_next};

/* May it be started? A thread is needed only if something is under way, or
 * held. */
static snib_err client_end_may_start(struct snib__step *s,
                                     const struct ending *e,
                                     struct snib_error *reterr)
{
    struct snib_client *c = s->c;
    if (c->stopping) {
        return snib__fail(reterr, SNIB_ERR_CLOSED,
                          "the client was stopped, or is being stopped");
    }
    snib_err err = snib__op_may_end(s, e ? &e->q.op : NULL, reterr);
    if (!err && !snib__op_reserve(s)) {
        err = snib__fail_plain(reterr, SNIB_ERR_NOMEM);
    }
    if (!err && !snib__engine_idle(c->engine)) {
        err = snib__background_need(c, reterr);
    }
    return err;
}

snib_err snib_client_stop_start(struct snib_client *c, void *user,
                                uint64_t *ret_ticket, struct snib_error *reterr)
{
    struct snib__step s;
    snib__no_ticket(ret_ticket);
    snib_err err = snib__client_check(c, reterr);
    if (err) {
        return err;
    }
    struct ending *e =
        snib__sequence_new(sizeof *e, c, &client_end_rules, user);
    snib__step_begin(&s, c);
    err = client_end_may_start(&s, e, reterr);
    if (!err) {
        client_end_close(&s);
        client_end_release(&s);
        snib__engine_counts(c->engine, &e->was);
        snib__op_open(&s, &e->q.op, SNIB__NEVER);
        snib__op_tell_ticket(&e->q.op, ret_ticket);
        client_end_wait(&s, e, SNIB__CALL_IDLE, c->request.ns);
        snib__background_hurry(&s);
    }
    snib__op_started(&s);
    if (err && e) {
        snib__op_free(&e->q.op);
    }
    return err ? err : snib__ok(reterr);
}

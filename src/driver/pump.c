/* driver/pump.c — what the engine wants is done, and a call waits for its
 * answer.
 *
 * The problem: many threads share few connections. If a thread of the library
 * did all the reading, each caller would pay for two hops between threads (1.2
 * times the round trip for one thread). So a caller's thread sends its command
 * and reads the answer itself. With several callers the first reads for all,
 * and passes the role on when it leaves. The background thread reads what
 * nobody waits for. There is one more case: while a host name is looked up its
 * socket has no descriptor yet, so a call that waits for it sleeps, and the
 * background thread greets, sends what has gathered, reads the answers and
 * wakes. roles.c decides who reads what; this file says how a call waits. (The
 * background thread and snib_client_process sleep in background.c.)
 *
 *     WAIT --reply fed by a reader----> answered
 *     WAIT --former reader leaves-----> reads (until its own reply)
 *     WAIT or reads --own limit-------> waits a little for the answer to its
 *                                       cancel; then leaves: the request
 *                                       goes on in the engine without a call
 *
 * All calls have the same shape: check the process, lock (step.c), begin, start
 * something at the engine, wait here, leave, take the outcome. At the limit a
 * call first does what is due (the answer may come from a timer of this
 * client), then leaves. A request that it leaves behind ends by itself (rule 5
 * in driver.h).
 *
 * An uncontended acquire is send, ppoll, recv: no futex, no eventfd, and mostly
 * no timerfd. (The store wants to see, a quarter of request_ms after a send,
 * whether the answer is overdue. The timer is set for that only if it is not
 * set for something sooner already, so by the first acquire in such a time.) */
#include <assert.h>
#include <poll.h>
#include <time.h>

#include "base/unset.h"
#include "driver/driver.h"
#include "driver/socket_notifier.h"

/* -- doing what the engine wants ------------------------------------------- */

static void pump_take_news(struct snib__step *s)
{
    struct snib_client *c = s->c;
    struct snib__acquisition *acq;
    struct snib__direct *q;
    uint8_t news;
    if (c->out->changed) {
        snib__op_store_changed(s);
    }
    while ((acq = snib__engine_told(c->engine, &news))) {
        snib__hold_news(s, acq, news);
    }
    while ((q = snib__engine_told_direct(c->engine))) {
        struct snib__call *call = q->user;
        if (call) {
            snib__call_settle(s, call, q->err);
        } else {
            snib__direct_op_answered(
                s, SNIB__CONTAINER(q, struct snib__direct_op, q));
        }
    }
}

snib_instant snib__client_due(const struct snib_client *c)
{
    snib_instant due = snib__sooner(snib__engine_due(c->engine),
                                    snib__heap_due(&c->ops.timers));
    struct snib__link *l = snib__list_first(&c->ops.releasing);
    if (l) {
        due =
            snib__sooner(due, SNIB__CONTAINER(l, struct snib__op, link)->limit);
    }
    return due;
}

static void pump_arm_timer(struct snib__step *s)
{
    struct snib_client *c = s->c;
    if (s->background || c->loop.timer < 0) {
        return; /* the background thread sets it before it sleeps */
    }
    if (!c->virtual_clock) {
        snib_instant due = snib__client_due(c);
        if (due.ns < c->loop.armed.ns) {
            snib__loop_set_timer(c, due);
        }
    }
}

/* Some sockets became due and nobody reads them. The background thread gets
 * them, unless this thread is a call that takes them in a moment. */
static void pump_assign_sockets(struct snib__step *s)
{
    struct snib_client *c = s->c;
    if (s->me && !s->me->w.done) {
        return;
    }
    struct snib__socks given =
        snib__roles_assign(&c->calls.roles, snib__sockets_need(c),
                           c->pull || c->background.on, snib__waiter_wake, s);
    if (!snib__socks_empty(&given)) {
        snib__background_given(s, &given);
    }
}

void snib__step_act(struct snib__step *s)
{
    assert(snib__mu_is_mine(s->c));
    struct snib_client *c = s->c;
    bool more = !c->exec.ops; /* which has no connections */
    while (more) {
        pump_take_news(s);
        snib__sockets_open_and_shut(s);
        snib__sockets_log_in(s);
        pump_take_news(s);
        more = snib__sockets_send(s);
    }
    pump_take_news(s);
    if (c->calls.condition_waits || c->ops.quiet) {
        snib__conditions_settle(s);
    }
    pump_assign_sockets(s);
    if (c->exec.shares) {
        snib__exec_assign_sessions(c);
    } else if (snib__may_execute(c)) {
        snib__exec_assign(s);
    }
    if (!snib__list_empty(&c->notices.due)) {
        s->kick = true;
    }
    pump_arm_timer(s);
}

/* -- a call sleeps --------------------------------------------------------- */

/* How long to sleep: at most one slice (rule 7). */
static int64_t pump_slice(const struct snib__step *s, snib_instant limit)
{
    int64_t ns = SNIB__SLICE_MS * INT64_C(1000000);
    if (s->c->virtual_clock) {
        return ns; /* snib__client_kick ends the wait */
    }
    if (limit.ns - s->now.ns < ns) {
        ns = limit.ns - s->now.ns;
    }
    return ns > 0 ? ns : 0;
}

/* A reader's sleep: what it polls, and what came. */
struct nap {
    uint32_t n;
    struct pollfd v[SNIB__SOCKETS_MAX + 1]; /* 0: the waker */
    uint8_t sock[SNIB__SOCKETS_MAX + 1];
    uint8_t *in[SNIB__SOCKETS_MAX + 1]; /* where to receive; NULL: not at all */
    /* What recv returned before the mutex was taken: bytes, 0, or -errno.
     * NOT_TRIED: recv was not called. */
    long got[SNIB__SOCKETS_MAX + 1];
};
enum { NOT_TRIED = 1 << 30 };

static void pump_poll_for(struct nap *nap, int fd, short events, uint32_t sock,
                          uint8_t *in)
{
    nap->v[nap->n] = (struct pollfd){.fd = fd, .events = events};
    nap->sock[nap->n] = (uint8_t)sock;
    nap->in[nap->n++] = in;
}

static void pump_fall_asleep(struct snib_client *c,
                             const struct snib__socks *leads, struct nap *nap)
{
    nap->n = 0;
    SNIB__SOCKS_EACH(i, leads)
    {
        struct snib__socket *l = c->sock.v[i];
        if (!nap->n) {
            pump_poll_for(nap, l->waker, POLLIN, i, NULL);
        }
        bool connecting = l->state == SNIB__SOCKET_CONNECTING;
        short events = POLLIN;
        if (connecting) {
            events = POLLOUT;
        } else if (l->blocked) {
            events = POLLIN | POLLOUT;
        }
        pump_poll_for(nap, l->fd, events, i, connecting ? NULL : l->in);
        l->asleep = true;
    }
}

/* Without the mutex: sleep until a socket speaks, the waker is notified or the
 * time is over, and receive. */
static void pump_sleep(struct nap *nap, int64_t ns)
{
    struct timespec patience = {.tv_sec = ns / 1000000000,
                                .tv_nsec = ns % 1000000000};
    int ready = ppoll(nap->v, nap->n, &patience, NULL);
    for (uint32_t k = 0; k < nap->n; k++) {
        struct pollfd *v = &nap->v[k];
        nap->got[k] = NOT_TRIED;
        if (ready <= 0) {
            v->revents = 0;
        } else if (k == 0 && v->revents) {
            snib__eventfd_clear(v->fd);
        } else if (nap->in[k] && (v->revents & ~POLLOUT)) {
            nap->got[k] = snib__net_recv(v->fd, nap->in[k], SNIB__SOCKET_IN);
        }
    }
}

static void pump_serve_socket(struct snib__step *s, uint32_t i, short events,
                              long got)
{
    const struct snib__socket *l = s->c->sock.v[i];
    if (l->conn && l->closing) {
        snib__socket_close(s, i);
    } else {
        snib__socket_ready(s, i, events & POLLOUT, got != NOT_TRIED, &got);
    }
}

static void pump_wake_up(struct snib__step *s, const struct nap *nap)
{
    struct snib__socket **sock = s->c->sock.v;
    for (uint32_t k = 1; k < nap->n; k++) { /* 0: the waker */
        sock[nap->sock[k]]->asleep = false;
    }
    for (uint32_t k = 1; k < nap->n; k++) {
        if (nap->v[k].revents || s->c->sock.v[nap->sock[k]]->closing) {
            pump_serve_socket(s, nap->sock[k], nap->v[k].revents, nap->got[k]);
        }
    }
}

/* What this thread has just started, or heard of, is executed at once by a
 * library that waits for nobody, and all that is due is done behind it. But who
 * is to be told of something is told first. */
static bool pump_exec_first(struct snib__step *s)
{
    return s->c->exec.brief && snib__engine_told_all(s->c->engine) &&
           snib__step_exec(s);
}

/* Sleep as the reader of these sockets. Send what gathered, sleep, then feed
 * what came to the engine. */
static void pump_sleep_reading(struct snib__step *s, struct snib__call *me,
                               snib_instant limit)
{
    /* The call is woken by this socket's waker, whatever other sockets it is
     * given meanwhile. */
    const struct snib__socks leads = me->w.leads;
    SNIB__UNSET struct nap nap;
    bool well = true;
    SNIB__SOCKS_EACH(i, &leads)
    {
        well = snib__socket_flush(s, i) && well;
    }
    if (well) { /* else the engine was told of a lost connection */
        int64_t ns = pump_slice(s, limit);
        pump_fall_asleep(s->c, &leads, &nap);
        me->w.posture = SNIB__POLLING;
        me->waker = (uint8_t)snib__socks_next(&leads, 0);
        snib__step_pause(s);
        pump_sleep(&nap, ns);
        snib__step_again(s);
        me->w.posture = SNIB__RUNNING;
        pump_wake_up(s, &nap);
    }
    snib__step_act(s);
}

/* The same, as the reader of a notifier that has a word to sleep on. False: there
 * is no such word. */
static bool pump_sleep_on_word(struct snib__step *s, struct snib__call *me,
                               snib_instant limit)
{
    if (!s->c->exec.ops || !snib__socket_sleep(s, me, pump_slice(s, limit))) {
        return false;
    }
    snib__socket_notified(s);
    if (!pump_exec_first(s)) {
        snib__step_act(s);
    }
    return true;
}

/* Sleep without reading. True: the call is answered, and the mutex was not
 * taken again. */
static bool pump_sleep_parked(struct snib__step *s, struct snib__call *me,
                              snib_instant limit)
{
    int64_t ns = pump_slice(s, limit);
    me->w.posture = SNIB__PARKED;
    snib__park_prepare(&me->word);
    snib__step_pause(s);
    snib__park_wait(&me->word, ns);
    if (snib__park_settled(&me->word)) {
        return true;
    }
    snib__step_again(s);
    me->w.posture = SNIB__RUNNING;
    if (snib__park_settled(&me->word)) { /* answered just now */
        return false;
    }
    snib__park_finish(&me->word);
    return false;
}

/* -- a call waits ---------------------------------------------------------- */

void snib__call_begin(struct snib__step *s, struct snib__call *call,
                      snib__call_kind kind, snib_instant limit)
{
    assert(snib__mu_is_mine(s->c));
    snib__roles_enter(&s->c->calls.roles, &call->w);
    atomic_init(&call->word, SNIB__AWAKE);
    call->kind = (uint8_t)kind;
    call->returns_unlocked = kind != SNIB__CALL_FEWER &&
                             kind != SNIB__CALL_IDLE &&
                             kind != SNIB__CALL_CAUGHT_UP;
    call->err = SNIB_ERR_OK;
    s->c->calls.condition_waits += !call->returns_unlocked;
    call->limit = limit;
    call->ticket = call->among = 0;
    call->grant = (struct snib_grant){0};
    call->hold = NULL;
    call->direct = NULL;
    call->next = NULL;
    call->error.code = SNIB_ERR_OK;
    call->error.text[0] = 0;
    snib__sockets_touched(s->c);
    snib__socks_clear(&s->c->sock.asked);
    s->me = call;
}

/* The sockets that will bring this call's answer: those on which more replies
 * are awaited than when it began. */
static void pump_want_sockets(struct snib_client *c, struct snib__call *me)
{
    snib__sockets_touched(c);
    snib__socks_clear(&me->w.wants);
    SNIB__SOCKS_EACH(i, &c->sock.asked)
    {
        const struct snib__socket *l = c->sock.v[i];
        snib__socks_put(&me->w.wants, i,
                        me->returns_unlocked && l->awaited > l->before);
    }
}

/* A call that was told "queued", or whose connection broke, waits for no reply
 * any more: it may read what is pushed. Nothing tells the call so; it concludes
 * it when no reply is awaited on the connection, or none came for 2 ms. */
static void pump_stop_hoping(struct snib__step *s, struct snib__call *me,
                             snib_instant since)
{
    SNIB__SOCKS_EACH(i, &me->w.wants)
    {
        if (!s->c->sock.v[i]->conn->awaited) {
            snib__socks_put(&me->w.wants, i, false);
        }
    }
    if (s->now.ns - since.ns >= SNIB__HOPE_MS * INT64_C(1000000)) {
        snib__socks_clear(&me->w.wants);
    }
}

/* Without a background thread (the client has only asked questions) the call
 * itself does what the timers would do. */
static snib_instant pump_do_what_is_due(struct snib__step *s,
                                        snib_instant limit)
{
    struct snib_client *c = s->c;
    if (c->background.on || c->virtual_clock) {
        return limit;
    }
    snib__step_executed(s);
    snib_instant due = snib__client_due(c);
    if (snib__reached(s->now, due)) {
        snib__engine_tick(c->engine, s->now);
        snib__step_act(s);
        due = snib__client_due(c);
    }
    return snib__sooner(limit, due);
}

/* Wait until the call has its answer or its limit passes. The request has been
 * started already. True: it is answered; if s->away, the mutex is not held any
 * more. False: the limit has passed, and the call is still in the list of the
 * waiting. */
static bool pump_wait(struct snib__step *s, struct snib__call *me)
{
    struct snib_client *c = s->c;
    snib_instant since = s->now;
    pump_want_sockets(c, me);
    s->me = me;
    while (!me->w.done) {
        if (snib__reached(s->now, me->limit)) {
            return false;
        }
        snib_instant limit = pump_do_what_is_due(s, me->limit);
        if (me->w.done || snib__step_exec(s)) {
            continue;
        }
        pump_stop_hoping(s, me, since);
        bool leads =
            snib__roles_take(&c->calls.roles, &me->w, snib__sockets_need(c));
        if (leads && s->words) {
            /* This thread is the reader and still awake. It wakes the others
             * first: what they ask next gathers, and one send takes it all
             * (rule 3). */
            snib__step_pause(s);
            snib__step_again(s);
        } else if (leads) {
            if (!pump_sleep_on_word(s, me, limit)) {
                pump_sleep_reading(s, me, limit);
            }
        } else {
            if (!snib__socks_empty(&me->w.wants)) { /* look again then */
                limit = snib__sooner(
                    limit, snib__after(since, snib__ms(SNIB__HOPE_MS)));
            }
            if (pump_sleep_parked(s, me, limit)) {
                s->away = true;
                return true;
            }
        }
    }
    return true;
}

bool snib__call_wait(struct snib__step *s, struct snib__call *call)
{
    if (!pump_exec_first(s)) {
        snib__step_act(s);
    }
    if (pump_wait(s, call)) {
        return true;
    }
    snib__engine_tick(s->c->engine, s->now);
    snib__step_act(s);
    snib_instant until =
        snib__after(call->limit, snib__engine_run(s->c->engine));
    while (!call->w.done && !snib__reached(s->now, until) &&
           snib__engine_is_run(s->c->engine,
                               call->ticket ? call->ticket : call->among)) {
        call->limit = snib__after(s->now, snib__ms(2));
        if (pump_wait(s, call)) {
            return true;
        }
    }
    return call->w.done;
}

void snib__call_end(struct snib__step *s, struct snib__call *me)
{
    struct snib_client *c = s->c;
    if (s->away) {
        return; /* it is off every list and reads nothing */
    }
    /* The step that brought the answer did all that was due, for this call as
     * one that waits no more. */
    bool acted = s->c->exec.brief && me->w.done &&
                 snib__socks_empty(&me->w.leads) && me->returns_unlocked;
    struct snib__socks given = snib__roles_leave(
        &c->calls.roles, &me->w, snib__sockets_need(c), snib__waiter_wake, s);
    me->w.done = true;
    c->calls.condition_waits -= !me->returns_unlocked;
    s->me = NULL;
    if (!snib__socks_empty(&given)) {
        snib__background_given(s, &given);
    }
    if (!acted) {
        snib__step_act(s); /* what this call would have sent or executed */
    }
}

/* run/pump.c — how a thread sleeps on the sockets of a client.
 *
 * The problem: many threads share few connections. If a thread of the library
 * did all the reading, each caller would pay for two hops between threads (1.2
 * times the round trip for one thread; a fifth of the hand-over rate). So a
 * caller's thread sends its command and reads the answer itself. With several
 * callers the first reads for all, and passes the role on when it leaves. The
 * background thread reads what nobody waits for. roles.c decides who reads
 * what; this file says how the reader sleeps. Three drivers use this code:
 * calls (snib__pump), the background thread and snib_process (both by
 * snib__background_round in background.c).
 *
 * The nine rules of the run layer, and where each is held:
 *
 * 1. Leave in this order: take the call off the list, pass the role on,
 *    unlock. A call that passes its role on first may pass it to itself.
 *                                               [roles.c, snib__roles_leave]
 * 2. Collect the threads to be woken, unlock, then wake them. A thread that
 *    is woken under the mutex runs straight into it.      [snib__step_pause]
 * 3. One sender. A caller appends its bytes. It sends them itself only when
 *    no call reads that socket, or its reader is asleep in poll. A reader sends
 *    all that gathered just before it sleeps.
 *                                        [pump_may_send, pump_sleep_reading]
 * 4. A role is passed to a thread that still waits; else, if anything is
 *    awaited, to the background thread; else to nobody.
 *                                                      [roles.c, roles_pass]
 * 5. The limit belongs to the caller, the request to the engine. A call that
 *    gives up leaves its acquisition. If nobody else waits there the engine
 *    sends cancel(request id), and the next reader takes both replies off the
 *    stream. No reply is ever skipped.               [call.c, call_give_up]
 * 6. Requests in flight are capped (1 024 a connection). Calls that give up
 *    leave work behind: without a cap a storm of time-outs would build an
 *    endless pipeline. A call holds a pointer to its request and never
 *    searches for it.                          [call.c, call_wait_for_room]
 * 7. A thread sleeps in slices of at most 1 s. The true clock is BOOTTIME,
 *    which is read again after each slice. futex and ppoll count MONOTONIC
 *    and do not see a suspend. Lease deadlines are on a BOOTTIME timerfd,
 *    which fires at resume.                                     [pump_slice]
 * 8. The engine gets `now` once per input. A request's valid_from is the
 *    `now` of the step that encoded it, which is never later than the send.
 *                                      [snib__step_begin, snib__step_again]
 * 9. A command connection without a reply is closed after a time-out (a reply
 *    that may still come must never meet another request). But it is closed
 *    only when the *oldest* awaited reply is older than request_ms, not when
 *    some impatient caller leaves. Otherwise each short wait limit would tear
 *    down everybody's pipeline.  [the store; nothing here closes for a limit]
 *
 * An uncontended acquire is send, ppoll, recv: no futex, no timerfd (the timer
 * is set for something sooner already), no eventfd. */
#include "run/inside.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <time.h>

#include "base/mem.h"
#include "store/memory/memory.h"

/* -- visits ---------------------------------------------------------------- */

void snib__step_refresh(struct snib__step *s)
{
    struct snib_client *c = s->c;
    snib_instant now;
    if (!c->virtual_clock || !snib__memory_clock(c->instance, &now)) {
        now = snib__boottime();
    }
    c->clock = snib__later(c->clock, now);
    s->now = c->clock;
}

void snib__step_begin(struct snib__step *s, struct snib_client *c)
{
    /* The fields are set one by one: the array of words need not be cleared. */
    s->c = c;
    s->me = NULL;
    s->background = s->event = s->kick = s->away = false;
    s->wakers = s->words = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &s->cancel_state);
    pthread_mutex_lock(&c->mu);
    snib__step_refresh(s);
}

static void pump_tell_logs(struct snib_client *c, struct snib__list *lines)
{
    struct snib__link *l;
    while ((l = snib__list_pop(lines))) {
        struct snib__log_line *line =
            SNIB__CONTAINER(l, struct snib__log_line, link);
        c->log(c->log_data, line->level, line->text);
        snib__free(line);
    }
}

/* Unlock, then wake (rule 2). A call that is woken here may have returned
 * already, and its stack may be gone. So its word is only an address for the
 * kernel (park.h). The wakers' descriptors live as long as the client. */
void snib__step_pause(struct snib__step *s)
{
    struct snib_client *c = s->c;
    struct snib__list logs;
    int waker[SNIB__SOCKETS];
    uint32_t wakers = s->wakers, words = s->words;
    bool kick = false;
    for (uint32_t i = 0; wakers >> i; i++) {
        waker[i] = c->sock[i].waker;
    }
    if (s->event && !c->event_set && c->event_fd >= 0) {
        /* This is done under the mutex: afterwards snib_next could clear the
         * descriptor too early. */
        c->event_set = true;
        snib__eventfd_set(c->event_fd);
    }
    if (s->kick && !s->background && c->timer >= 0 && c->armed.ns != 0) {
        kick = true;
    }
    snib__list_init(&logs);
    snib__list_append(&logs, &c->logs);
    s->wakers = s->words = 0;
    s->event = s->kick = false;
    if (kick) {
        snib__loop_set_timer(c, (snib_instant){0}); /* fires at once */
    }
    pthread_mutex_unlock(&c->mu);
    for (uint32_t i = 0; i < words; i++) {
        snib__park_wake(s->word[i]);
    }
    for (uint32_t i = 0; wakers >> i; i++) {
        if (wakers >> i & 1) {
            snib__eventfd_set(waker[i]);
        }
    }
    if (!snib__list_empty(&logs)) {
        pump_tell_logs(c, &logs);
    }
}

void snib__step_end(struct snib__step *s)
{
    if (!s->away) {
        snib__step_pause(s);
    }
    pthread_setcancelstate(s->cancel_state, NULL);
}

void snib__step_again(struct snib__step *s)
{
    pthread_mutex_lock(&s->c->mu);
    snib__step_refresh(s);
}

/* -- settling calls -------------------------------------------------------- */

static struct snib__call *pump_call_of(struct snib__waiter *w)
{
    return SNIB__CONTAINER(w, struct snib__call, w);
}

static void pump_wake(void *data, struct snib__waiter *w)
{
    struct snib__step *s = data;
    struct snib__call *call = pump_call_of(w);
    if (w->posture == SNIB__POLLING) {
        s->wakers |= 1u << call->waker;
        return;
    }
    /* An answered call that reads no socket needs the mutex no more. With 64
     * threads this saves half of all contention for it. Once its word is
     * marked, the call may return at any time. */
    bool home = w->done && !w->leads && call->brief;
    if (!(home ? snib__park_settle(&call->word)
               : snib__park_mark(&call->word))) {
        return; /* it was marked before */
    }
    if (s->words < sizeof s->word / sizeof s->word[0]) {
        s->word[s->words++] = &call->word;
    } else {
        snib__park_wake(&call->word); /* very many: wake it under the mutex */
    }
}

void snib__call_settle(struct snib__step *s, struct snib__call *call,
                       snib_err err)
{
    call->err = err;
    snib__roles_done(&s->c->roles, &call->w, pump_wake, s);
}

void snib__socket_wake(struct snib__step *s, uint32_t i)
{
    pump_wake(s, s->c->roles.sock[i].call);
}

void snib__call_wake(struct snib__step *s, struct snib__call *call)
{
    if (call->w.posture != SNIB__RUNNING) {
        pump_wake(s, &call->w);
    }
}

/* -- doing what the engine wants ------------------------------------------- */

/* Rule 3: the reader of a socket sends before it sleeps. While it is awake
 * nobody else sends. */
static bool pump_may_send(const struct snib__step *s, uint32_t i)
{
    const struct snib_client *c = s->c;
    if (c->roles.sock[i].reader != SNIB__CALL) {
        return true;
    }
    return c->sock[i].asleep && (!s->me || c->roles.sock[i].call != &s->me->w);
}

static void pump_take_news(struct snib__step *s)
{
    struct snib_client *c = s->c;
    struct snib__acquisition *acq;
    struct snib__direct *q;
    uint8_t news;
    while ((acq = snib__engine_told(c->engine, &news))) {
        snib__hold_news(s, acq, news);
    }
    while ((q = snib__engine_told_direct(c->engine))) {
        struct snib__call *call = q->user;
        if (call) {
            snib__call_settle(s, call, q->err);
        }
    }
}

static void pump_open_and_shut(struct snib__step *s)
{
    struct snib__out *out = s->c->out;
    uint32_t open = s->c->stopped ? 0 : out->open, shut = out->shut;
    out->open = out->shut = 0;
    for (uint32_t i = 0; (open | shut) >> i; i++) {
        if (shut >> i & 1) {
            snib__socket_shut(s, i);
        }
        if (open >> i & 1) {
            snib__socket_open(s, i);
        }
    }
}

static void pump_send_all(struct snib__step *s)
{
    for (uint32_t i = 0; i < s->c->out->conns; i++) {
        if (snib__buf_size(&s->c->out->conn[i].out) &&
            s->c->sock[i].state == SNIB__SOCKET_UP && pump_may_send(s, i)) {
            snib__socket_flush(s, i);
        }
    }
}

/* Answer the calls that wait for a condition of the whole client. */
static void pump_settle_conditions(struct snib__step *s)
{
    struct snib_client *c = s->c;
    uint32_t flight = 0;
    for (uint32_t i = 0; i < c->out->conns; i++) {
        flight =
            c->out->conn[i].awaited > flight ? c->out->conn[i].awaited : flight;
    }
    SNIB__LIST_EACH_SAFE (l, next, &c->roles.waiting) {
        struct snib__call *call =
            pump_call_of(SNIB__CONTAINER(l, struct snib__waiter, link));
        if (call->kind == SNIB__CALL_ROOM && flight < SNIB__FLIGHT_MAX / 2) {
            snib__call_settle(s, call, SNIB_ERR_OK);
        } else if (call->kind == SNIB__CALL_IDLE &&
                   snib__engine_idle(c->engine)) {
            snib__call_settle(s, call, SNIB_ERR_OK);
        } else if (call->kind == SNIB__CALL_TOLD) {
            struct snib__store_state store;
            snib__engine_store_state(c->engine, s->now, &store);
            if (!store.behind) {
                snib__call_settle(s, call, SNIB_ERR_OK);
            }
        }
    }
}

snib_instant snib__client_due(const struct snib_client *c)
{
    snib_instant due = snib__engine_due(c->engine);
    struct snib__link *l = snib__list_first(&c->releasing);
    if (l) {
        due =
            snib__sooner(due, SNIB__CONTAINER(l, struct snib__op, link)->limit);
    }
    return due;
}

static void pump_arm_timer(struct snib__step *s)
{
    struct snib_client *c = s->c;
    if (s->background || c->timer < 0) {
        return; /* the background thread sets it before it sleeps */
    }
    if (!c->virtual_clock) {
        snib_instant due = snib__client_due(c);
        if (due.ns < c->armed.ns) {
            snib__loop_set_timer(c, due);
        }
    }
}

/* Some sockets became due and nobody reads them. The background thread gets
 * them, unless this thread is a call that takes them in a moment. */
static void pump_assign_sockets(struct snib__step *s)
{
    struct snib_client *c = s->c;
    uint32_t replies, pushes;
    if (s->me && !s->me->w.done) {
        return;
    }
    snib__sockets_need(c, &replies, &pushes);
    uint32_t given = snib__roles_assign(
        &c->roles, replies, pushes, c->pull || c->background_on, pump_wake, s);
    if (given) {
        snib__background_given(s, given);
    }
}

/* There is something to execute, and nobody executes. A sleeping call does it;
 * else the background thread or the worker. (A call that is awake checks by
 * itself.) */
static void pump_assign_exec(struct snib__step *s)
{
    struct snib_client *c = s->c;
    if (!c->blocking || c->executing || snib__list_empty(&c->out->exec) ||
        s->background || (s->me && !s->me->w.done)) {
        return;
    }
    struct snib__waiter *w = snib__roles_parked(&c->roles);
    if (!w && !snib__list_empty(&c->roles.waiting)) {
        w = SNIB__CONTAINER(snib__list_first(&c->roles.waiting),
                            struct snib__waiter, link);
    }
    if (w) {
        if (w->posture != SNIB__RUNNING) {
            pump_wake(s, w);
        }
    } else if (!c->quick && snib__worker_need(c)) {
        pthread_cond_signal(&c->work);
    } else {
        s->kick = true;
    }
}

void snib__step_act(struct snib__step *s)
{
    struct snib_client *c = s->c;
    do {
        pump_take_news(s);
        pump_open_and_shut(s);
        pump_take_news(s);
        pump_send_all(s);
    } while (c->out->open || c->out->shut);
    pump_take_news(s);
    if (c->odd_calls) {
        pump_settle_conditions(s);
    }
    pump_assign_sockets(s);
    pump_assign_exec(s);
    if (!snib__list_empty(&c->notices)) {
        s->kick = true;
    }
    pump_arm_timer(s);
}

/* -- executing for a blocking store ---------------------------------------- */

bool snib__step_exec(struct snib__step *s)
{
    struct snib_client *c = s->c;
    if (!c->blocking || c->executing || snib__list_empty(&c->out->exec)) {
        return false;
    }
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
    snib__engine_executed(c->engine, s->now, &chain);
    snib__step_act(s);
    return true;
}

/* The worker of a pull client has executed something. */
void snib__step_executed(struct snib__step *s)
{
    struct snib_client *c = s->c;
    if (!snib__list_empty(&c->executed)) {
        struct snib__list chain;
        snib__list_init(&chain);
        snib__list_append(&chain, &c->executed);
        snib__engine_executed(c->engine, s->now, &chain);
        snib__step_act(s);
    }
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

static uint32_t pump_polled_sockets(const struct snib_client *c, uint32_t leads,
                                    struct pollfd v[], uint8_t sock[])
{
    uint32_t n = 0;
    bool waker = false;
    for (uint32_t i = 0; leads >> i; i++) {
        const struct snib__socket *l = &c->sock[i];
        if (!(leads >> i & 1)) {
            continue;
        }
        if (!waker) {
            waker = true;
            v[n] = (struct pollfd){.fd = l->waker, .events = POLLIN};
            sock[n++] = SNIB__SOCKETS;
        }
        short events = POLLIN;
        if (l->state == SNIB__SOCKET_CONNECTING) {
            events = POLLOUT;
        } else if (l->blocked) {
            events = POLLIN | POLLOUT;
        }
        v[n] = (struct pollfd){.fd = l->fd, .events = events};
        sock[n++] = (uint8_t)i;
    }
    return n;
}

static void pump_take_waker(struct snib__step *s)
{
    struct snib__input in = {.kind = SNIB__IN_NOTIFIED};
    snib__engine_input(s->c->engine, s->now, &in);
    if (s->c->virtual_clock) { /* the clock was advanced */
        snib__engine_tick(s->c->engine, s->now);
    }
}

/* Something is to be done on a socket that this call reads. got is what recv
 * returned before the mutex was taken: bytes, 0, or -errno. NOT_TRIED: recv was
 * not called. */
enum { NOT_TRIED = 1 << 30 };

static void pump_serve_socket(struct snib__step *s, uint32_t i, short events,
                              long got)
{
    struct snib__socket *l = &s->c->sock[i];
    if (i == SNIB__NOTIFIER_SOCKET) {
        pump_take_waker(s);
    } else if (l->closing) {
        snib__socket_close(s, i);
    } else if (l->state == SNIB__SOCKET_CONNECTING) {
        snib__socket_connected(s, i);
    } else {
        if (events & POLLOUT) {
            l->blocked = false;
        }
        if (got != NOT_TRIED) {
            snib__socket_received(s, i, got);
        }
    }
}

/* Sleep as the reader of these sockets. Send what gathered, sleep until one of
 * them speaks, the waker is notified or the slice is over; then feed what came
 * to the engine. */
static void pump_sleep_reading(struct snib__step *s, struct snib__call *me,
                               uint32_t leads, snib_instant limit)
{
    struct snib_client *c = s->c;
    struct pollfd v[SNIB__SOCKETS + 1];
    uint8_t sock[SNIB__SOCKETS + 1];
    bool connecting[SNIB__SOCKETS];
    long got[SNIB__SOCKETS + 1];
    bool well = true;
    for (uint32_t i = 0; i < c->out->conns; i++) {
        if (leads >> i & 1) {
            well = snib__socket_flush(s, i) && well;
        }
    }
    if (!well) { /* the engine was told of a lost connection */
        snib__step_act(s);
        return;
    }
    uint32_t n = pump_polled_sockets(c, leads, v, sock);
    for (uint32_t i = 0; leads >> i; i++) {
        if (leads >> i & 1) {
            c->sock[i].asleep = true;
            connecting[i] = c->sock[i].state == SNIB__SOCKET_CONNECTING;
        }
    }
    int64_t ns = pump_slice(s, limit);
    struct timespec patience = {.tv_sec = ns / 1000000000,
                                .tv_nsec = ns % 1000000000};
    me->w.posture = SNIB__POLLING;
    /* The call is woken by this socket's waker, whatever other sockets it is
     * given meanwhile. */
    me->waker = (uint8_t)__builtin_ctz(leads);
    snib__step_pause(s);

    int ready = ppoll(v, n, &patience, NULL);
    for (uint32_t k = 0; k < n; k++) {
        got[k] = NOT_TRIED;
        if (ready <= 0) {
            v[k].revents = 0;
        } else if (sock[k] == SNIB__SOCKETS) {
            if (v[k].revents) {
                snib__eventfd_clear(v[k].fd);
            }
        } else if (sock[k] < SNIB__CONNS && !connecting[sock[k]] &&
                   (v[k].revents & ~POLLOUT)) {
            got[k] =
                snib__net_recv(v[k].fd, c->sock[sock[k]].in, SNIB__SOCKET_IN);
        }
    }

    snib__step_again(s);
    me->w.posture = SNIB__RUNNING;
    for (uint32_t k = 0; k < n; k++) {
        if (sock[k] < SNIB__SOCKETS) {
            c->sock[sock[k]].asleep = false;
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        if (sock[k] < SNIB__SOCKETS &&
            (v[k].revents || c->sock[sock[k]].closing)) {
            pump_serve_socket(s, sock[k], v[k].revents, got[k]);
        }
    }
    snib__step_act(s);
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

/* The sockets that will bring this call's answer are those on which more
 * replies are awaited than before it started. Record the numbers before. */
void snib__pump_mark(struct snib_client *c, uint32_t before[SNIB__CONNS])
{
    for (uint32_t i = 0; i < c->out->conns; i++) {
        before[i] = c->out->conn[i].awaited;
    }
}

static uint32_t pump_wanted_sockets(const struct snib_client *c,
                                    const uint32_t before[SNIB__CONNS])
{
    uint32_t wants = 0;
    for (uint32_t i = 0; before && i < c->out->conns; i++) {
        wants |= c->out->conn[i].awaited > before[i] ? 1u << i : 0;
    }
    return wants;
}

/* A call that was told "queued", or whose connection broke, waits for no reply
 * any more: it may read what is pushed. No message says so, so the call
 * concludes it from silence. */
static void pump_stop_hoping(struct snib__step *s, struct snib__call *me,
                             snib_instant since)
{
    for (uint32_t i = 0; i < s->c->out->conns; i++) {
        if (!s->c->out->conn[i].awaited) {
            me->w.wants &= ~(1u << i);
        }
    }
    if (s->now.ns - since.ns >= SNIB__HOPE_MS * INT64_C(1000000)) {
        me->w.wants = 0;
    }
}

/* Without a background thread (the client has only asked questions) the call
 * itself does what the timers would do. */
static snib_instant pump_do_what_is_due(struct snib__step *s,
                                        snib_instant limit)
{
    struct snib_client *c = s->c;
    if (c->background_on || c->virtual_clock) {
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

bool snib__pump(struct snib__step *s, struct snib__call *me, uint32_t before[])
{
    struct snib_client *c = s->c;
    snib_instant since = s->now;
    me->w.wants = pump_wanted_sockets(c, before);
    s->me = me;
    while (!me->w.done) {
        if (snib__reached(s->now, me->limit)) {
            return false;
        }
        snib_instant limit = pump_do_what_is_due(s, me->limit);
        if (me->w.done || snib__step_exec(s)) {
            continue;
        }
        uint32_t replies, pushes, leads;
        pump_stop_hoping(s, me, since);
        snib__sockets_need(c, &replies, &pushes);
        leads = snib__roles_take(&c->roles, &me->w, replies, pushes);
        if (leads && s->words) {
            /* This thread is the reader and still awake. It wakes the others
             * first: what they ask next gathers, and one send takes it all
             * (rule 3). */
            snib__step_pause(s);
            snib__step_again(s);
        } else if (leads) {
            pump_sleep_reading(s, me, leads, limit);
        } else {
            if (me->w.wants) { /* check again after that time */
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

void snib__pump_leave(struct snib__step *s, struct snib__call *me)
{
    struct snib_client *c = s->c;
    uint32_t replies, pushes;
    if (s->away) {
        return; /* it is off every list and reads nothing */
    }
    snib__sockets_need(c, &replies, &pushes);
    uint32_t kept =
        snib__roles_leave(&c->roles, &me->w, replies, pushes, pump_wake, s);
    me->w.done = true;
    c->odd_calls -= !me->brief;
    s->me = NULL;
    if (kept) {
        snib__background_given(s, kept);
    }
    snib__step_act(s); /* what this call would have sent or executed */
}

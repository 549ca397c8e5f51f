/* run/background.c — the thread that reads what nobody else reads, and that
 * watches the clock.
 *
 * The background thread fires timers (renewals, deadlines, polls, limits of
 * started acquires). It reads sockets on which an answer is due that no call
 * waits for, executes what nobody else does, and runs callbacks. The first
 * acquire starts it, before anything is sent. In a pull client snib_process
 * does its rounds. It sleeps in epoll_wait without a limit: its clock is the
 * BOOTTIME timer, which needs no slices.
 *
 * Lazy watching. When a process shares a lock with others in quick succession,
 * one of its calls reads the subscription nearly all the time. Giving the
 * socket to the background thread between two calls would cost an epoll_ctl and
 * an idle wake-up of this thread per section. What is pushed while nobody waits
 * is not urgent (revoke notices; deadlines are kept anyway). So a socket that
 * only may speak is armed SNIB__LAZY_MS later, if no call has taken it by then.
 * It is armed at once when an answer is due or an acquire_start waits, and
 * where the clock is virtual: a timer of the kernel cannot wait for that
 * clock. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "run/inside.h"

enum {
    EVENTS = 16,
    STEP_NS = 10 * 1000000,   /* smaller steps of the wall clock are noise */
    LATE_NS = 1000 * 1000000, /* later than that: the process stood still */
};

/* -- sockets --------------------------------------------------------------- */

static bool background_urgent(const struct snib_client *c, uint32_t i)
{
    const struct snib__socket *l = &c->sock[i];
    return c->pull || c->virtual_clock || !snib__list_empty(&c->pending) ||
           l->state == SNIB__SOCKET_CONNECTING || l->blocked ||
           (i < SNIB__CONNS && c->out->conn[i].awaited);
}

void snib__background_given(struct snib__step *s, uint32_t socks)
{
    struct snib_client *c = s->c;
    for (uint32_t i = 0; socks >> i; i++) {
        struct snib__socket *l = &c->sock[i];
        if (!(socks >> i & 1)) {
            continue;
        }
        if (background_urgent(c, i)) {
            l->lazy = SNIB__NEVER;
            snib__loop_arm(c, i, true);
        } else {
            l->lazy = snib__after(s->now, snib__ms(SNIB__LAZY_MS));
            if (!s->background && l->lazy.ns < c->armed.ns) {
                snib__loop_set_timer(c, l->lazy);
            }
        }
    }
}

/* An acquire_start waits: the background thread watches at once what it would
 * have watched later. */
void snib__background_hurry(struct snib__step *s)
{
    struct snib_client *c = s->c;
    uint32_t lazy = 0;
    for (uint32_t i = 0; i < SNIB__SOCKETS; i++) {
        if (c->sock[i].fd >= 0 && c->sock[i].lazy.ns != INT64_MAX &&
            c->roles.sock[i].reader == SNIB__BACKGROUND) {
            lazy |= 1u << i;
        }
    }
    snib__background_given(s, lazy);
}

/* Before the background thread sleeps: watch the sockets that it reads, and let
 * go of those that need no reader. */
static snib_instant background_watch_sockets(struct snib__step *s)
{
    struct snib_client *c = s->c;
    snib_instant due = SNIB__NEVER;
    uint32_t replies, pushes;
    snib__sockets_need(c, &replies, &pushes);
    for (uint32_t i = 0; i < SNIB__SOCKETS; i++) {
        struct snib__socket *l = &c->sock[i];
        if (l->fd < 0 || c->roles.sock[i].reader == SNIB__CALL) {
            continue;
        }
        if (!((replies | pushes) >> i & 1)) {
            snib__roles_idle(&c->roles, i);
            snib__loop_arm(c, i, false);
            continue;
        }
        (void)snib__roles_keep(&c->roles, i);
        if (background_urgent(c, i) || snib__reached(s->now, l->lazy) ||
            l->lazy.ns == INT64_MAX) {
            l->lazy = SNIB__NEVER;
            snib__loop_arm(c, i, true);
        } else {
            due = snib__sooner(due, l->lazy);
        }
    }
    return due;
}

static void background_serve_socket(struct snib__step *s, uint32_t i,
                                    uint32_t events)
{
    struct snib_client *c = s->c;
    struct snib__socket *l = &c->sock[i];
    if (!c->pull) {
        l->armed = 0; /* the arming is used up */
    }
    if (l->fd < 0 || c->roles.sock[i].reader == SNIB__CALL) {
        return; /* a call reads it */
    }
    if (i == SNIB__NOTIFIER_SOCKET) {
        struct snib__input in = {.kind = SNIB__IN_NOTIFIED};
        snib__engine_input(c->engine, s->now, &in);
        if (c->virtual_clock) {
            snib__engine_tick(c->engine, s->now);
        }
    } else if (l->state == SNIB__SOCKET_CONNECTING) {
        snib__socket_connected(s, i);
    } else {
        if (events & EPOLLOUT) {
            l->blocked = false;
        }
        if (events & ~(uint32_t)EPOLLOUT) {
            snib__socket_received(
                s, i, snib__net_recv(l->fd, l->in, SNIB__SOCKET_IN));
        }
    }
    snib__step_act(s);
}

/* -- clocks ---------------------------------------------------------------- */

static void background_check_wall_clock(struct snib__step *s)
{
    struct snib_client *c = s->c;
    int64_t offset = snib__wall_offset();
    int64_t step = offset - c->wall_offset;
    c->wall_offset = offset;
    if (!c->virtual_clock && (step > STEP_NS || step < -STEP_NS)) {
        snib__engine_jumped(c->engine, s->now);
        snib__step_act(s);
    }
}

static void background_clear_timer(struct snib__step *s)
{
    struct snib_client *c = s->c;
    snib_instant armed = c->armed;
    snib__eventfd_clear(c->timer);
    c->armed = SNIB__NEVER;
    if (!c->virtual_clock && armed.ns > 0 && armed.ns != INT64_MAX &&
        s->now.ns - armed.ns > LATE_NS) {
        snib__engine_jumped(c->engine, s->now);
        snib__step_act(s);
    }
}

static void background_clear_steps(struct snib__step *s)
{
    uint64_t n;
    if (read(s->c->steps, &n, sizeof n) < 0 && errno == ECANCELED) {
        /* After this read the descriptor stays quiet until the next step. */
        background_check_wall_clock(s);
    }
}

static void background_do_what_is_due(struct snib__step *s)
{
    struct snib_client *c = s->c;
    if (snib__reached(s->now, snib__engine_due(c->engine))) {
        snib__engine_tick(c->engine, s->now);
    }
    snib__ops_due(s);
    snib__step_act(s);
}

static void background_execute(struct snib__step *s)
{
    struct snib_client *c = s->c;
    if (!c->blocking || snib__list_empty(&c->out->exec)) {
        return;
    }
    if (!c->quick && snib__worker_need(c)) {
        /* exec() may block until a request's limit. This thread tells of
         * deadlines, so another thread has to block. */
        pthread_cond_signal(&c->work);
        return;
    }
    while (snib__step_exec(s)) {
    }
}

/* -- the round ------------------------------------------------------------- */

static void background_look_after_all(struct snib__step *s)
{
    snib__step_executed(s);
    background_do_what_is_due(s);
    background_execute(s);
    snib__notices_tell(s);
}

static void background_sleep_and_serve(struct snib__step *s, int patience_ms)
{
    struct snib_client *c = s->c;
    struct epoll_event ev[EVENTS];
    snib__step_pause(s);
    int n = epoll_wait(c->epoll, ev, EVENTS, patience_ms);
    snib__step_again(s);
    for (int i = 0; i < n; i++) {
        uint64_t tag = ev[i].data.u64;
        if (tag < SNIB__SOCKETS) {
            background_serve_socket(s, (uint32_t)tag, ev[i].events);
        } else if (tag == SNIB__SOCKETS) {
            background_clear_timer(s);
        } else if (tag == SNIB__SOCKETS + 1) {
            background_clear_steps(s);
        }
    }
}

static void background_prepare_to_sleep(struct snib__step *s)
{
    struct snib_client *c = s->c;
    snib_instant due = background_watch_sockets(s);
    if (!c->virtual_clock) {
        due = snib__sooner(due, snib__client_due(c));
    }
    /* armed is 0 when this thread was woken while a callback ran: then the
     * timer fires at once. */
    if (due.ns < c->armed.ns) {
        snib__loop_set_timer(c, due);
    }
}

void snib__background_round(struct snib__step *s, int patience_ms)
{
    background_sleep_and_serve(s, patience_ms);
    background_look_after_all(s);
    background_prepare_to_sleep(s);
}

static void *background_body(void *arg)
{
    struct snib_client *c = arg;
    struct snib__step s;
    snib__step_begin(&s, c);
    s.background = true;
    background_look_after_all(&s);
    background_prepare_to_sleep(&s);
    while (!c->background_stop) {
        snib__background_round(&s, -1);
    }
    snib__step_end(&s);
    return NULL;
}

/* -- threads of ours ------------------------------------------------------- */

int snib__thread_start(pthread_t *ret, void *(*body)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(ret, NULL, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err;
}

snib_err snib__background_need(struct snib_client *c, struct snib_error *reterr)
{
    if (c->background_on || c->pull) {
        return SNIB_ERR_OK;
    }
    snib_err err = snib__loop_open(c, reterr);
    if (err) {
        return err;
    }
    int no = snib__thread_start(&c->background, background_body, c);
    if (no) {
        return snib__fail(reterr, SNIB_ERR_LIMIT,
                          "no thread to keep the locks: %s", strerror(no));
    }
    c->background_on = true;
    return SNIB_ERR_OK;
}

void snib__background_join(struct snib_client *c)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    bool on = c->background_on;
    c->background_stop = true;
    s.kick = on;
    snib__step_end(&s);
    if (on) {
        pthread_join(c->background, NULL);
    }
}

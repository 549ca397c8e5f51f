/* driver/background.c — the thread that reads what nobody else reads, and that
 * watches the clock.
 *
 * The background thread fires timers (renewals, deadlines, polls, limits of
 * started acquires). It reads sockets on which an answer is due that no call
 * waits for, executes what nobody else does, and runs callbacks. The first
 * acquire starts it, before anything is sent. In a pull client
 * snib_client_process does its rounds. It sleeps in epoll_wait without a limit:
 * its clock is the BOOTTIME timer, which needs no slices. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/error.h"
#include "driver/driver.h"
#include "driver/socket_notifier.h"

enum {
    EVENTS = 16,
    STEP_NS = 10 * 1000000,   /* smaller steps of the wall clock are noise */
    LATE_NS = 1000 * 1000000, /* later than that: the process stood still */
};

/* -- sockets --------------------------------------------------------------- */

static void background_serve_socket(struct snib__step *s, uint32_t i,
                                    uint32_t events)
{
    struct snib_client *c = s->c;
    struct snib__socket *l = c->sock.v[i];
    if (!c->pull) {
        l->armed = 0; /* the arming is used up */
    }
    snib__socks_put(&c->sock.look, i, true);
    if (l->fd < 0 ||
        (c->calls.roles.sock[i].reader == SNIB__CALL && !l->word)) {
        return; /* a call reads it */
    }
    snib__socket_ready(s, i, events & EPOLLOUT, events & ~(uint32_t)EPOLLOUT,
                       NULL);
    if (!l->conn && l->word) {
        /* its reader, a call, does not see the descriptor */
        snib__loop_arm(c, i, true);
    }
    snib__step_act(s);
}

/* -- clocks ---------------------------------------------------------------- */

static void background_check_wall_clock(struct snib__step *s)
{
    struct snib_client *c = s->c;
    int64_t step = snib__loop_wall_clock(c);
    if (!c->virtual_clock && (step > STEP_NS || step < -STEP_NS)) {
        snib__engine_jumped(c->engine, s->now);
        snib__step_act(s);
    }
}

static void background_clear_timer(struct snib__step *s)
{
    struct snib_client *c = s->c;
    snib_instant armed = c->loop.armed;
    snib__eventfd_clear(c->loop.timer);
    c->loop.armed = SNIB__NEVER;
    if (!c->virtual_clock && armed.ns > 0 && armed.ns != INT64_MAX &&
        s->now.ns - armed.ns > LATE_NS) {
        snib__engine_jumped(c->engine, s->now);
        snib__step_act(s);
    }
}

static void background_clear_steps(struct snib__step *s)
{
    uint64_t n;
    if (read(s->c->loop.steps, &n, sizeof n) < 0 && errno == ECANCELED) {
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
    bool more = c->exec.ops != NULL;
    while (more && !c->background.stop && !snib__list_empty(&c->out->exec)) {
        if (!c->exec.quick && snib__worker_need(c)) {
            /* exec() may block until a request's limit. This thread tells of
             * deadlines, so another thread has to block. */
            pthread_cond_signal(&c->work);
            return;
        }
        more = snib__step_exec(s);
    }
}

/* -- the round ------------------------------------------------------------- */

static void background_look_after_all(struct snib__step *s)
{
    snib__step_executed(s);
    background_do_what_is_due(s);
    background_execute(s);
    snib__notices_tell(s);
    if (s->c->ops.quiet) { /* perhaps until no callback runs */
        snib__step_act(s);
    }
}

static void background_sleep_and_serve(struct snib__step *s, int patience_ms)
{
    struct snib_client *c = s->c;
    struct epoll_event ev[EVENTS];
    snib__step_pause(s);
    int n = epoll_wait(c->loop.epoll, ev, EVENTS, patience_ms);
    snib__step_again(s);
    for (int i = 0; i < n; i++) {
        uint64_t tag = ev[i].data.u64;
        if (tag < SNIB__TAG_TIMER) {
            background_serve_socket(s, (uint32_t)tag, ev[i].events);
        } else if (tag == SNIB__TAG_TIMER) {
            background_clear_timer(s);
        } else if (tag == SNIB__TAG_STEPS) {
            background_clear_steps(s);
        } else if (tag == SNIB__TAG_WITNESS) {
            (void)snib__witness_ended(c);
        }
    }
}

static void background_prepare_to_sleep(struct snib__step *s)
{
    struct snib_client *c = s->c;
    snib_instant due = snib__background_watch(s);
    if (!c->virtual_clock) {
        due = snib__sooner(due, snib__client_due(c));
    }
    /* armed is 0 when this thread was woken while a callback ran: then the
     * timer fires at once. */
    if (due.ns < c->loop.armed.ns) {
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
    while (!c->background.stop) {
        snib__background_round(&s, -1);
    }
    snib__step_end(&s);
    return NULL;
}

snib_err snib__background_start(struct snib_client *c,
                                struct snib_error *reterr)
{
    snib_err err = snib__loop_open(c, reterr);
    if (err) {
        return err;
    }
    int no = snib__thread_start(&c->background.id, background_body, c);
    if (no) {
        return snib__fail(reterr, SNIB_ERR_LIMIT,
                          "no thread to keep the locks: %s", strerror(no));
    }
    c->background.on = true;
    return SNIB_ERR_OK;
}

void snib__background_join(struct snib_client *c)
{
    struct snib__step s;
    snib__step_begin(&s, c);
    bool on = c->background.on;
    c->background.stop = true;
    s.kick = on;
    snib__step_end(&s);
    if (on) {
        pthread_join(c->background.id, NULL);
    }
}

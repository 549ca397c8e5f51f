/* driver/loop.c — the kernel's objects: epoll, timers, eventfds. Only this file
 * knows them; a system without them gets a file like this one.
 *
 * The timer counts CLOCK_BOOTTIME, so that it fires at resume when a lease ran
 * out in a suspended machine. A second timer, on CLOCK_REALTIME and far in the
 * future, uses TFD_TIMER_CANCEL_ON_SET: its read fails with ECANCELED when
 * somebody steps the wall clock. This is how a guest sees that its hypervisor
 * had stopped it: the wall clock is set forward, and BOOTTIME is not.
 *
 * Sockets are registered once and then modified. In a threaded client interest
 * is EPOLLONESHOT: callers' threads read the same sockets, and after one idle
 * wake-up the background thread is left alone. An idle socket is armed for
 * hang-up only. In a pull client nobody else reads, and interest is
 * level-triggered. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/error.h"
#include "driver/clock.h"
#include "driver/driver.h"
#include "store/host.h"

/* Read REALTIME between two readings of BOOTTIME. Do it again if the thread was
 * preempted in between. */
int64_t snib__wall_offset(void)
{
    for (int tries = 0;; tries++) {
        int64_t a = snib__clock_ns(CLOCK_BOOTTIME);
        int64_t wall = snib__clock_ns(CLOCK_REALTIME);
        int64_t b = snib__clock_ns(CLOCK_BOOTTIME);
        if (b - a < 1000000 || tries == 20) {
            return wall - (a + b) / 2;
        }
    }
}

int64_t snib__loop_wall_clock(struct snib_client *c)
{
    int64_t before = c->loop.wall_offset;
    c->loop.wall_offset = snib__wall_offset();
    if (!c->virtual_clock) {
        c->out->wall_offset_ns = c->loop.wall_offset;
    }
    return c->loop.wall_offset - before;
}

void snib__eventfd_set(int fd)
{
    uint64_t one = 1;
    while (fd >= 0 && write(fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void snib__eventfd_clear(int fd)
{
    uint64_t n;
    while (fd >= 0 && read(fd, &n, sizeof n) < 0 && errno == EINTR) {
    }
}

static bool loop_add(struct snib_client *c, int fd, uint32_t events,
                     uint64_t tag)
{
    struct epoll_event ev = {.events = events, .data.u64 = tag};
    return !epoll_ctl(c->loop.epoll, EPOLL_CTL_ADD, fd, &ev);
}

static void loop_watch_steps(struct snib_client *c)
{
    struct itimerspec far = {
        .it_value.tv_sec =
            (time_t)(snib__clock_ns(CLOCK_REALTIME) / 1000000000) +
            INT64_C(3600) * 24 * 3650};
    if (timerfd_settime(c->loop.steps,
                        TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far,
                        NULL)) {
        /* Without this timer jumps are noticed at the next other timer. */
    }
}

static snib_err loop_lacks(int e, const char *what, struct snib_error *reterr)
{
    struct snib_error why = {.code = SNIB_ERR_OK};
    return snib__host_lacks(e, what, &why) == SNIB_ERR_LIMIT
               ? snib__fail(reterr, SNIB_ERR_LIMIT, "%s", why.text)
               : snib__fail(reterr, SNIB_ERR_LIMIT, "%s cannot be opened: %s",
                            what, strerror(e));
}

snib_err snib__loop_open(struct snib_client *c, struct snib_error *reterr)
{
    if (c->loop.epoll >= 0) {
        return SNIB_ERR_OK;
    }
    c->loop.epoll = epoll_create1(EPOLL_CLOEXEC);
    c->loop.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    c->loop.steps = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (c->loop.epoll < 0 || c->loop.timer < 0 || c->loop.steps < 0 ||
        !loop_add(c, c->loop.timer, EPOLLIN, SNIB__TAG_TIMER) ||
        !loop_add(c, c->loop.steps, EPOLLIN, SNIB__TAG_STEPS)) {
        int err = errno;
        snib__loop_close(c);
        return loop_lacks(err, "a timer or an epoll set", reterr);
    }
    loop_watch_steps(c);
    if (c->witness.over >= 0) {
        /* If that fails the witness's end is noticed when somebody asks. */
        (void)loop_add(c, c->witness.over, EPOLLIN, SNIB__TAG_WITNESS);
    }
    snib__loop_wall_clock(c);
    c->loop.armed = SNIB__NEVER;
    for (uint32_t i = 0; i < c->sock.count; i++) {
        snib__loop_watch(c, i);
    }
    return SNIB_ERR_OK;
}

static void loop_close_fd(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

void snib__loop_close(struct snib_client *c)
{
    loop_close_fd(&c->loop.epoll);
    loop_close_fd(&c->loop.timer);
    loop_close_fd(&c->loop.steps);
    for (uint32_t i = 0; i < c->sock.count; i++) {
        c->sock.v[i]->watched = false;
    }
}

void snib__loop_unwatch_witness(struct snib_client *c)
{
    if (c->loop.epoll >= 0) {
        (void)epoll_ctl(c->loop.epoll, EPOLL_CTL_DEL, c->witness.over, NULL);
    }
}

/* A pull client's epoll set is its snib_client_fd, which others may be polling.
 * It stays open until free, and from now on only events that were not fetched
 * make it readable. */
void snib__loop_end(struct snib_client *c)
{
    if (!c->pull) {
        snib__loop_close(c);
        return;
    }
    loop_close_fd(&c->loop.timer);
    loop_close_fd(&c->loop.steps);
    snib__loop_unwatch_witness(c);
    for (uint32_t i = 0; i < c->sock.count; i++) {
        if (c->sock.v[i]->watched) {
            (void)epoll_ctl(c->loop.epoll, EPOLL_CTL_DEL, c->sock.v[i]->fd,
                            NULL);
            c->sock.v[i]->watched = false;
        }
    }
}

snib_err snib__loop_event_fd(struct snib_client *c, struct snib_error *reterr)
{
    if (c->ops.fd >= 0) {
        return SNIB_ERR_OK;
    }
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd >= 0) {
        c->ops.fd = fd;
        if (!c->pull || loop_add(c, fd, EPOLLIN, SNIB__TAG_EVENTS)) {
            return SNIB_ERR_OK;
        }
        loop_close_fd(&c->ops.fd);
    }
    return loop_lacks(errno, "an eventfd for events", reterr);
}

static uint32_t loop_interest(const struct snib_client *c,
                              const struct snib__socket *l, bool reads)
{
    uint32_t events = EPOLLRDHUP;
    if (reads && l->state != SNIB__SOCKET_CONNECTING) {
        events |= EPOLLIN;
    }
    if ((reads && l->state == SNIB__SOCKET_CONNECTING) || l->blocked) {
        events |= EPOLLOUT;
    }
    return c->pull ? events : events | EPOLLONESHOT;
}

void snib__loop_watch(struct snib_client *c, uint32_t i)
{
    struct snib__socket *l = c->sock.v[i];
    if (c->loop.epoll < 0 || c->ended || l->fd < 0 || l->watched) {
        return;
    }
    l->armed = loop_interest(c, l, c->pull);
    l->watched = loop_add(c, l->fd, l->armed, i);
    if (!l->watched) {
        l->armed = 0;
    }
}

void snib__loop_arm(struct snib_client *c, uint32_t i, bool reads)
{
    struct snib__socket *l = c->sock.v[i];
    if (l->fd < 0 || c->loop.epoll < 0 || c->ended) {
        return;
    }
    if (!l->watched) {
        snib__loop_watch(c, i);
    }
    struct epoll_event ev = {.events = loop_interest(c, l, reads || c->pull),
                             .data.u64 = i};
    /* In a threaded client, interest in more than is wanted costs one idle
     * wake-up; interest in less would lose a wake-up. In a pull client
     * (level-triggered) it has to be exact. */
    bool good =
        c->pull ? l->armed == ev.events : (l->armed & ev.events) == ev.events;
    if (!good && !epoll_ctl(c->loop.epoll, EPOLL_CTL_MOD, l->fd, &ev)) {
        l->armed = ev.events;
    }
}

void snib__loop_set_timer(struct snib_client *c, snib_instant at)
{
    struct itimerspec t = {0};
    if (at.ns != INT64_MAX) {
        int64_t ns = at.ns > 0 ? at.ns : 1;
        t.it_value.tv_sec = ns / 1000000000;
        t.it_value.tv_nsec = ns % 1000000000;
    }
    c->loop.armed = at;
    if (c->loop.timer >= 0) {
        (void)timerfd_settime(c->loop.timer, TFD_TIMER_ABSTIME, &t, NULL);
    }
}

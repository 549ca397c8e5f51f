/* tests/unit/holder_moves.h — what happens around the holder process of `snib
 * run` while it waits, and how it waits. See holder_world.h. */
#ifndef SNIB_TESTS_HOLDER_MOVES_H
#define SNIB_TESTS_HOLDER_MOVES_H

#include "holder_world.h"

static void signal_comes(int sig)
{
    for (int i = 0; i < w.signal_count; i++) {
        if (w.signals[i] == sig) {
            return; /* as pending ones do */
        }
    }
    if (w.signal_count < QUEUE) {
        w.signals[w.signal_count++] = sig;
    }
}

static void process_moves(void)
{
    struct fake_process *p = &w.procs[pick("process", PROCS_MAX)];
    if (p->pid >= COMMAND && p->state != 0) {
        p->state = "SZDXR"[pick("state", 5)];
        p->state = p->state == 'R' ? 0 : p->state;
        p->headless = p->state == 'Z' && chance("its threads run", 2);
    } else if (p->state != 0) {
        p->parent = chance("adopted", 6) ? 1 : p->parent;
    }
}

static void tell_open(void)
{
    for (int fd = FD_FIRST; fd < FD_MAX; fd++) {
        if (fds_open[fd].kind) {
            tell("open at the end: %s", fd_kind(fd));
        }
    }
}

/* Who holds does not; who waits is told. */
static void all_ends(void)
{
    supervisor_says(PLAN_LEAVE);
    supervisor_says(PLAN_RELEASE);
    w.holder_ended = true;
    w.asker = w.listens;
    if (w.moves > MOVES + 10) {
        signal_comes(SIGTERM);
    }
    w.away = w.away && w.moves < MOVES + 20;
    for (int i = 0; i < PROCS_MAX; i++) {
        if (w.procs[i].pid >= COMMAND) {
            w.procs[i].state = 0;
        }
    }
    if (w.moves > MOVES + 40) {
        tell("does not end");
        same_end();
    }
}

static void it_goes_on(void)
{
    struct fake_lock *l = some_lock();
    if (l->asked && (!w.slow || chance("at last", 8))) {
        l->answer_at = w.now;
    } else if (lock_holds(l) && chance("renewed silently", 2)) {
        l->deadline = w.now + l->ttl;
    }
    supervisor_goes_on();
}

static void something_happens(void)
{
    if (w.moves++ > MOVES) {
        all_ends();
        moves();
        return;
    }
    switch (pick("what", 22)) {
    case 0:
        lock_is_disturbed();
        break;
    case 1:
        if (chance("leash speaks", 2)) {
            supervisor_speaks();
        }
        break;
    case 2:
        if (chance("leash dies", 4)) {
            supervisor_dies();
        }
        break;
    case 3:
        supervisor_stops_or_goes_on();
        break;
    case 4:
        signal_comes(chance("signal", 2) ? SIGTERM : SIGINT);
        break;
    case 5:
    case 6:
    case 7:
    case 8:
        w.asker = w.asker || w.listens;
        break;
    case 9:
    case 10:
        store_goes_or_comes();
        break;
    case 11:
        w.now += (int64_t)pick("stopped", 45) * S;
        break;
    case 12:
        w.holder_ended = w.holder_ended || chance("holder ends", 3);
        break;
    case 13:
        process_moves();
        break;
    case 14:
        w.changed += chance("for nothing", 2);
        break;
    default:
        it_goes_on();
    }
    moves();
}

/* -- waiting -------------------------------------------------------------------------- */

static bool is_ready(int fd)
{
    if (fd_is(fd, "leash")) {
        return w.said_count > 0 || w.supervisor_dead;
    }
    if (fd_is(fd, "client")) {
        return w.event_count > 0;
    }
    if (fd_is(fd, "listener")) {
        return w.asker;
    }
    if (fd_is(fd, "holder")) {
        return w.holder_ended;
    }
    if (fd_is(fd, "changed")) {
        return w.changed > 0;
    }
    return fd_is(fd, "signals") && w.signal_count > 0;
}

static int count_ready(struct pollfd *fds, nfds_t count)
{
    int ready = 0;
    for (nfds_t i = 0; i < count; i++) {
        fds[i].revents = is_ready(fds[i].fd) ? fds[i].events : 0;
        ready += fds[i].revents != 0;
    }
    return ready;
}

/* Until something is there: what comes next, by dice, or is due. */
static int wait_for(struct pollfd *fds, nfds_t count, int timeout)
{
    static const int64_t delays[] = {0,     1,     MS,    20 * MS, 300 * MS,
                                     2 * S, 3 * S, 7 * S, 11 * S};
    int64_t until = timeout < 0 ? INT64_MAX : w.now + timeout * MS;
    int ready;
    while ((ready = count_ready(fds, count)) == 0 && w.now < until) {
        int64_t next = w.now + delays[pick("after", COUNT_OF(delays))];
        int64_t due = locks_due(threads_due(until));
        if (due <= next) {
            w.now = due > w.now ? due : w.now;
            moves();
        } else {
            w.now = next;
            something_happens();
        }
    }
    return ready;
}

#endif

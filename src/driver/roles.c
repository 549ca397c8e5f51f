/* driver/roles.c — taking, passing and leaving the role of a socket's reader.
 *
 * The bug that this file exists to keep out was in the first prototype: a call
 * whose limit has passed hands the role to its own request, which is about to
 * end. From then on nobody reads the connection, and every later call runs into
 * its limit. So a call is taken off the list of the waiting before its roles
 * are passed on, and a role is only ever given to a call on that list.
 *
 * A sleeping call that gets a role is woken: a parked thread starts to read, a
 * polling one adds the socket to those it polls. A running call that gets one
 * checks its `leads` before it sleeps. So no socket that needs a reader is ever
 * left to a thread that does not know. */
#include "driver/roles.h"

#include <assert.h>

/* A thousand calls may wait in queues. Finding the best next reader is not
 * worth a walk past all of them. */
enum { LOOK_AT = 64 };

static struct snib__waiter *roles_waiter_of(struct snib__link *l)
{
    return SNIB__CONTAINER(l, struct snib__waiter, link);
}

void snib__roles_init(struct snib__roles *r)
{
    r->sock = NULL;
    snib__list_init(&r->waiting);
}

void snib__roles_enter(struct snib__roles *r, struct snib__waiter *w)
{
    *w = (struct snib__waiter){.done = false};
    snib__list_push(&r->waiting, &w->link);
}

static bool roles_needed(const struct snib__need *n, uint32_t sock)
{
    return snib__socks_has(&n->replies, sock) ||
           snib__socks_has(&n->pushes, sock);
}

static void roles_give(struct snib__roles *r, uint32_t sock,
                       struct snib__waiter *w)
{
    r->sock[sock].reader = SNIB__CALL;
    r->sock[sock].call = w;
    snib__socks_put(&w->leads, sock, true);
}

static void roles_take_away(struct snib__roles *r, uint32_t sock)
{
    if (r->sock[sock].reader == SNIB__CALL) {
        snib__socks_put(&r->sock[sock].call->leads, sock, false);
    }
    r->sock[sock].reader = SNIB__NOBODY;
    r->sock[sock].call = NULL;
}

bool snib__roles_take(struct snib__roles *r, struct snib__waiter *w,
                      const struct snib__need *need)
{
    assert(w->posture == SNIB__RUNNING);
    bool brief = !snib__socks_empty(&w->wants);
    struct snib__socks mine =
        brief ? need->replies : snib__socks_or(&need->replies, &need->pushes);
    SNIB__SOCKS_EACH(i, &w->leads)
    {
        if (!roles_needed(need, i)) {
            roles_take_away(r, i);
        }
    }
    SNIB__SOCKS_EACH(i, &mine)
    {
        if (r->sock[i].reader != SNIB__CALL) {
            roles_give(r, i, w);
        }
    }
    return !snib__socks_empty(&w->leads);
}

/* The call that should read this socket next. The best one expects its own
 * answer on it (or, for pushes, expects no reply at all). For replies the
 * second best is any parked call. */
static struct snib__waiter *roles_next_of(const struct snib__roles *r,
                                          uint32_t sock, bool reply)
{
    struct snib__waiter *parked = NULL;
    int looked_at = 0;
    SNIB__LIST_EACH (l, &r->waiting) {
        struct snib__waiter *w = roles_waiter_of(l);
        if (looked_at++ >= LOOK_AT && parked) {
            break;
        }
        bool fits = reply ? snib__socks_has(&w->wants, sock)
                          : snib__socks_empty(&w->wants);
        if (fits) {
            return w;
        }
        if (reply && !parked && w->posture == SNIB__PARKED) {
            parked = w;
        }
    }
    return parked;
}

static void roles_pass(struct snib__roles *r, uint32_t sock, bool reply,
                       snib__wake *wake, void *data)
{
    struct snib__waiter *next_one = roles_next_of(r, sock, reply);
    if (next_one) {
        roles_give(r, sock, next_one);
        if (next_one->posture != SNIB__RUNNING) {
            wake(data, next_one);
        }
    } else {
        r->sock[sock].reader = SNIB__BACKGROUND;
    }
}

struct snib__socks snib__roles_leave(struct snib__roles *r,
                                     struct snib__waiter *w,
                                     const struct snib__need *need,
                                     snib__wake *wake, void *data)
{
    struct snib__socks led = w->leads, kept = {{0}};
    assert(w->posture == SNIB__RUNNING);
    snib__unlink(&w->link);
    SNIB__SOCKS_EACH(i, &led)
    {
        assert(r->sock[i].call == w);
        roles_take_away(r, i);
        if (roles_needed(need, i)) {
            roles_pass(r, i, snib__socks_has(&need->replies, i), wake, data);
            snib__socks_put(&kept, i, r->sock[i].reader == SNIB__BACKGROUND);
        }
    }
    assert(snib__socks_empty(&w->leads));
    return kept;
}

struct snib__socks snib__roles_assign(struct snib__roles *r,
                                      const struct snib__need *need,
                                      bool background_runs, snib__wake *wake,
                                      void *data)
{
    struct snib__socks look = {{0}};
    struct snib__socks due = snib__socks_or(&need->replies, &need->pushes);
    SNIB__SOCKS_EACH(i, &due)
    {
        if (r->sock[i].reader == SNIB__CALL) {
            continue;
        }
        bool fresh = r->sock[i].reader == SNIB__NOBODY;
        bool reply = snib__socks_has(&need->replies, i);
        if (background_runs) {
            r->sock[i].reader = SNIB__BACKGROUND;
        } else {
            roles_pass(r, i, reply, wake, data);
        }
        snib__socks_put(&look, i,
                        r->sock[i].reader == SNIB__BACKGROUND &&
                            (fresh || reply));
    }
    return look;
}

bool snib__roles_keep(struct snib__roles *r, uint32_t sock)
{
    if (r->sock[sock].reader == SNIB__CALL) {
        return false;
    }
    r->sock[sock].reader = SNIB__BACKGROUND;
    return true;
}

void snib__roles_idle(struct snib__roles *r, uint32_t sock)
{
    if (r->sock[sock].reader != SNIB__CALL) {
        r->sock[sock].reader = SNIB__NOBODY;
    }
}

struct snib__waiter *snib__roles_parked(const struct snib__roles *r)
{
    SNIB__LIST_EACH (l, &r->waiting) {
        if (roles_waiter_of(l)->posture == SNIB__PARKED) {
            return roles_waiter_of(l);
        }
    }
    return NULL;
}

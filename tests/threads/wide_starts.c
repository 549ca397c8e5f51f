/* wide_starts.c — what is started, and events. */
#include <inttypes.h>
#include <string.h>

#include "snib/event.h"
#include "snib/latch.h"
#include "wide.h"

/* The user of a start: whose it is, and which. */
static void *user_of(const struct wide_actor *a, int slot)
{
    return (void *)(intptr_t)(a->index * 256 + slot + 1);
}

static void granted(const struct snib_event *e)
{
    int user = (int)(intptr_t)e->user - 1;
    if (e->kind != SNIB_EVENT_GRANTED || user < 0) {
        return;
    }
    struct wide_actor *a = &wide.actor[user / 256];
    struct snib_lock *lock = a->started[user % 256];
    if (lock) {
        wide_remember(a, lock, e->grant);
        tell_status(lock, e->grant);
    }
}

void wide_take(int client, int rounds)
{
    struct snib_event e;
    struct snib_client *c = wide.client[client];
    for (int i = 0; i < rounds; i++) {
        memset(&e, 0, sizeof e);
        if (!snib_client_next(c, &e, sizeof e)) {
            break;
        }
        tell_event(client, &e);
        granted(&e);
        wide_done(&e);
        wide_sequence_done(&e);
    }
    tell_fd("events", snib_client_fd(c));
}

/* As an event loop does. */
static void turn(int client)
{
    static const int64_t patience[] = {0, 0, 2, 50, 400};
    struct snib_client *c = wide.client[client];
    struct pollfd v = {.fd = snib_client_fd(c), .events = POLLIN};
    int64_t ms = snib_client_timeout_ms(c);
    int64_t most = ONE_OF("patience", patience);
    tell("timeout %" PRId64, ms);
    ms = ms >= 0 && ms < most && chance("own timer", 2) ? ms : most;
    if (v.fd >= 0) {
        int ready = sched_poll(&v, 1, sched_now() + ms * 1000000, NULL);
        tell("ready %d", ready);
    }
    tell("process %s", snib_err_name(snib_client_process(c)));
    if (wide.pull[client]) {
        tell("timeout %" PRId64, snib_client_timeout_ms(c));
    }
    wide_take(client, (int)pick("at most", 4));
}

static void loop(int client)
{
    int turns = wide.pull[client] ? 1 + (int)pick("turns", 4) : 1;
    for (int i = 0; i < turns; i++) {
        turn(client);
    }
}

static int slot_for(void)
{
    return (int)pick("start", WIDE_STARTS);
}

static snib_err start(struct snib_lock *lock, int64_t wait_ms,
                      const struct snib_acquire_options *o, void *user,
                      uint64_t *ret_ticket, struct snib_error *reterr)
{
    return wide_is_short(wait_ms, INT64_MAX)
               ? snib_acquire_start(lock, o, user, ret_ticket, reterr)
           : wide_is_short(wait_ms, 0)
               ? snib_try_start(lock, o, user, ret_ticket, reterr)
               : snib_try_for_start(lock, wait_ms, o, user, ret_ticket, reterr);
}

static void acquire_start(struct wide_actor *a, int slot)
{
    struct snib_acquire_options o;
    struct snib_error e, *to = reserve(&e);
    uint64_t ticket = 7;
    int i = (int)pick("lock", WIDE_LOCKS);
    struct snib_lock *lock = a->lock[i];
    if (!lock) {
        return;
    }
    int64_t wait_ms;
    bool given = wide_options(&o, &wait_ms);
    a->started[slot] = lock;
    wide.starts[a->client_of[i]]++;
    snib_err err =
        start(lock, wait_ms, given ? &o : NULL, user_of(a, slot), &ticket, to);
    (void)told("acquire_start", err, to);
    tell("ticket %" PRIu64, ticket);
    if (err) {
        wide.starts[a->client_of[i]]--;
    }
    if (!err != !!ticket) {
        sched_fail("acquire_start returned %s and ticket %d",
                   snib_err_name(err), (int)ticket);
    }
    a->ticket[slot] = ticket;
    a->start_of[slot] = a->client_of[i];
}

static int client_of(const struct wide_actor *a, const struct snib_lock *lock)
{
    for (int i = 0; i < WIDE_LOCKS; i++) {
        if (a->lock[i] == lock) {
            return a->client_of[i];
        }
    }
    return -1;
}

static void release_start(struct wide_actor *a)
{
    struct snib_error e, *to = reserve(&e);
    struct wide_grant *g = wide_some_grant(a);
    int client = g ? client_of(a, g->lock) : -1;
    if (client < 0) {
        return;
    }
    wide.starts[client]++;
    snib_err err =
        snib_release_start(g->lock, g->grant, (void *)(intptr_t)-5, to);
    (void)told("release_start", err, to);
    if (err) {
        wide.starts[client]--;
    }
    tell_status(g->lock, g->grant);
    g->lock = NULL;
}

static snib_err latch_start(struct snib_client *c, const char *name,
                            size_t size, int64_t wait_ms, void *user,
                            uint64_t *ret_ticket, struct snib_error *reterr)
{
    return wide_is_short(wait_ms, INT64_MAX)
               ? snib_latch_await_start(c, name, size, user, ret_ticket, reterr)
           : wide_is_short(wait_ms, 0)
               ? snib_latch_try_start(c, name, size, user, ret_ticket, reterr)
               : snib_latch_try_for_start(c, name, size, wait_ms, user,
                                          ret_ticket, reterr);
}

static snib_err barrier_start(struct snib_client *c, const char *name,
                              size_t size, int64_t wait_ms, void *user,
                              uint64_t *ret_ticket, struct snib_error *reterr)
{
    uint32_t parties = (uint32_t)pick("of", 4);
    return wide_is_short(wait_ms, INT64_MAX)
               ? snib_barrier_wait_start(c, name, size, parties, user,
                                         ret_ticket, reterr)
           : wide_is_short(wait_ms, 0)
               ? snib_barrier_try_start(c, name, size, parties, user,
                                        ret_ticket, reterr)
               : snib_barrier_try_for_start(c, name, size, parties, wait_ms,
                                            user, ret_ticket, reterr);
}

static void pass_start(struct wide_actor *a, int slot)
{
    struct snib_error e, *to = reserve(&e);
    size_t size = 0;
    uint64_t ticket = 7;
    int client = (int)pick("client", (uint64_t)wide.clients);
    struct snib_client *c = chance("nobody", 30) ? NULL : wide.client[client];
    const char *name = chance("odd", 8) ? wide_name(&size)
                                        : wide_plain("lm"[pick("which", 2)]);
    bool untold = chance("no ticket", 6);
    snib_err err;
    wide.starts[client]++;
    if (*name == 'l') {
        err = latch_start(c, name, size, wide_wait(), user_of(a, slot),
                          untold ? NULL : &ticket, to);
    } else {
        err = barrier_start(c, name, size, wide_wait(), user_of(a, slot),
                            untold ? NULL : &ticket, to);
    }
    (void)told("pass_start", err, to);
    tell("ticket %" PRIu64, ticket);
    if (err) {
        wide.starts[client]--;
    }
    a->started[slot] = NULL;
    a->ticket[slot] = untold ? 0 : ticket;
    a->start_of[slot] = client;
}

void wide_starts(struct wide_actor *a)
{
    int slot = slot_for();
    switch (pick("starts", 12)) {
    case 0:
    case 1:
    case 2:
        acquire_start(a, slot);
        break;
    case 3:
        pass_start(a, slot);
        break;
    case 4:
        release_start(a);
        break;
    case 5:
        tell("cancel %" PRIu64, a->ticket[slot]);
        snib_client_cancel(wide.client[a->start_of[slot]],
                           chance("odd ticket", 8) ? pick("ticket", 5)
                                                   : a->ticket[slot]);
        break;
    case 6:
    case 7:
    case 8:
        wide_ops(a);
        break;
    default:
        loop((int)pick("client", (uint64_t)wide.clients));
        break;
    }
}

/* wide_crowd.c — much at once: more locks as one than fit into one visit to the
 * store, of one client or several, some of them somebody else's; and more
 * threads that wait than are woken at once. */
#include <stdio.h>
#include <string.h>

#include "snib/latch.h"
#include "unseen.h"
#include "wide.h"

enum { CROWD = 20, NAMES = 24, THRONG = 40 };

struct crowd {
    struct snib_lock *lock[CROWD];
    struct snib_grant grant[CROWD];
    struct snib_multi *multi;
    size_t count;
};

/* Names that others take from, too, in no order. */
static void make(struct crowd *w)
{
    static const int64_t leases[] = {200, 1000, 1000, 30000, 30000};
    static const size_t steps[] = {1, 5, 7, 23}; /* prime to NAMES           */
    struct snib_error e, *to = reserve(&e);
    size_t first = pick("first of a crowd", 4), step = ONE_OF("step", steps);
    bool mixed = chance("mixed", 3);
    int client = (int)pick("client", (uint64_t)wide.clients);
    w->count = 2 + pick("crowd", CROWD - 1);
    for (size_t i = 0; i < w->count; i++) {
        struct snib_lock_options o = SNIB_INIT(snib_lock_options);
        char name[16];
        snprintf(name, sizeof name, "c%02zu", (first + i * step) % NAMES);
        o.lease_ms = ONE_OF("lease", leases);
        o.kind = chance("read", 6) ? SNIB_KIND_READ : SNIB_KIND_MUTEX;
        o.fixed_lease = chance("fixed", 4);
        o.on_change = chance("told", 12) ? wide_changed : NULL;
        if (mixed && chance("of another", 3)) {
            client = (int)pick("client", (uint64_t)wide.clients);
        }
        snib_err err =
            snib_lock_new(wide.client[client], name, &o, &w->lock[i], to);
        (void)told(name, err, to);
    }
    snib_err err = snib_multi_new(w->lock, w->count, NULL, &w->multi, to);
    (void)told("a crowd", err, to);
}

static void tell_all(struct crowd *w)
{
    struct snib_multi_status s;
    snib_multi_status(w->multi, w->grant, &s, sizeof s);
    bool held = snib_multi_held(w->multi, w->grant);
    size_t missing = snib_multi_missing(w->multi);
    tell("crowd %s %s left %lld member %zu held %d missing %zu of %zu",
         snib_state_text(s.state), snib_cause_text(s.cause),
         (long long)s.left_ms, s.member, held, missing,
         snib_multi_count(w->multi));
}

static void take_and_leave(struct crowd *w)
{
    static const int64_t holds[] = {0, 0, 0, 150, 500, 1500};
    struct snib_acquire_options o;
    struct snib_error e, *to = reserve(&e);
    int64_t wait_ms;
    bool given = wide_options(&o, &wait_ms);
    snib_err err =
        snib_multi_try_for(w->multi, wait_ms, given ? &o : NULL, w->grant, to);
    (void)told("acquire a crowd", err, to);
    for (size_t i = 0; i < w->count; i++) {
        tell_grant("of a crowd", err, w->grant[i]);
    }
    tell_all(w);
    int64_t ms = err ? 0 : ONE_OF("holds a crowd", holds);
    if (ms) {
        sched_sleep(sched_now() + ms * 1000000);
    }
    if (!err && chance("gives one back", 4)) {
        size_t i = pick("which", w->count);
        (void)told("one", snib_release(w->lock[i], w->grant[i], to), to);
    }
    if (!err) {
        tell_all(w);
        (void)told("release a crowd",
                   snib_multi_release(w->multi, w->grant, to), to);
        tell_all(w);
    }
}

/* One that stands in the way, of another owner. */
static struct snib_grant stand_in_the_way(struct crowd *w, size_t i)
{
    struct snib_acquire_options o = SNIB_INIT(snib_acquire_options);
    struct snib_error e, *to = reserve(&e);
    struct snib_grant g = {0};
    o.owner = snib_owner_new();
    (void)told("in the way", snib_try(w->lock[i], &o, &g, to), to);
    return g;
}

/* The watch may be about to cancel it. */
static void forget(struct wide_actor *a, struct crowd *w)
{
    a->crowd = NULL;
    while (wide.cancels) {
        sched_sleep(sched_now() + 1000000);
    }
    TAKEN(a);
    snib_multi_free(w->multi);
    for (size_t i = 0; i < w->count; i++) {
        snib_lock_free(w->lock[i]);
    }
}

void wide_crowd(struct wide_actor *a)
{
    struct crowd w = {.count = 0};
    struct snib_grant other = {0};
    make(&w);
    GIVEN(a);
    a->crowd = w.multi;
    size_t in = pick("in the way", w.count);
    if (w.multi && chance("somebody", 3)) {
        other = stand_in_the_way(&w, in);
    }
    if (w.multi) {
        take_and_leave(&w);
    }
    if (other.ticket) {
        tell("goes %s", snib_err_name(snib_release(w.lock[in], other, NULL)));
    }
    forget(a, &w);
}

/* -- threads ------------------------------------------------------------------------ */

struct throng {
    struct snib_client *client;
    struct snib_lock *lock; /* NULL: they await a latch                    */
    int64_t wait_ms;
};

static void *one_of_throng(void *data)
{
    const struct throng *t = data;
    struct snib_grant g;
    struct snib_error e;
    snib_err err =
        t->lock ? snib_try_for(t->lock, t->wait_ms, NULL, &g, &e)
                : snib_latch_try_for(t->client, "throng", 0, t->wait_ms, &e);
    (void)told("one of a throng", err, &e);
    if (!err && t->lock) {
        (void)told("and leaves", snib_release(t->lock, g, &e), &e);
    }
    return NULL;
}

/* Once in a run: there are not that many threads. */
void wide_throng(struct wide_actor *a)
{
    pthread_t id[THRONG];
    static const int64_t waits[] = {5, 40, 90, 90};
    int i = (int)pick("lock", WIDE_LOCKS);
    int client = a->client_of[i], made = 0;
    int n = 30 + (int)pick("throng", THRONG - 30); /* 32 are woken at once  */
    struct throng t = {.client = wide.client[client],
                       .lock = chance("of a lock", 2) ? a->lock[i] : NULL,
                       .wait_ms = ONE_OF("throng waits", waits)};
    struct snib_error e, *to = reserve(&e);
    if (wide.thronged || wide.named || wide.slow || wide.pull[client] ||
        strstr(snib_client_url(t.client), "wait=spin")) { /* for too long */
        return;
    }
    wide.thronged = true;
    (void)told("closes", snib_latch_set(t.client, "throng", 0, 1, NULL, to),
               to);
    while (made < n && !sched_create(&id[made], one_of_throng, &t)) {
        made++;
    }
    sched_sleep(sched_now() + 60000000);
    (void)told("opens", snib_latch_open(t.client, "throng", 0, to), to);
    while (made) {
        (void)sched_join(id[--made]);
    }
}

/* books.c — what the space of memory: says of who holds and waits.
 *
 * It is looked at from outside, without its mutex: one thread runs at a time,
 * and none stops while it changes the space. */
#include <string.h>

#include "api/api.h"
#include "base/mem.h"
#include "core/engine_i.h"
#include "judge.h"
#include "store/memory/space.h"
#include "unseen.h"

static struct snib__space *space_of(const struct world *w)
{
    return ((struct snib__mem_client *)w->stranger->exec.instance)->space;
}

/* Names are of one letter. */
static uint64_t hash_of(const char *name)
{
    static uint64_t known[128];
    struct snib__name *made;
    if (!known[(int)*name] && !snib__name_new(name, 0, &made, NULL)) {
        known[(int)*name] = made->hash;
        snib__free(made);
    }
    return known[(int)*name];
}

static struct snib__mem_lock *lock_of(const struct world *w, const char *name)
{
    uint64_t hash = hash_of(name);
    struct snib__space *s = space_of(w);
    SNIB__LIST_EACH (l, &s->bucket[hash % SNIB__SPACE_BUCKETS]) {
        struct snib__mem_lock *lock =
            SNIB__CONTAINER(l, struct snib__mem_lock, bucket);
        if (lock->name_size == 1 && lock->name[0] == *name) {
            return lock;
        }
    }
    return NULL;
}

static bool is_id(const uint64_t a[2], const uint64_t b[2])
{
    return a[0] == b[0] && a[1] == b[1];
}

/* -- what is held ----------------------------------------------------------------- */

static const struct snib__stored_claim *claim_of(struct snib__mem_lock *lock,
                                                 const uint64_t request[2])
{
    if (lock) {
        SNIB__LIST_EACH (l, &lock->claims) {
            const struct snib__stored_claim *c =
                &SNIB__CONTAINER(l, struct snib__memory_claim, link)->c;
            if (is_id(c->request, request)) {
                return c;
            }
        }
    }
    return NULL;
}

static const char *bad_claim(const struct snib__stored_claim *c,
                             const struct snib__claim *t,
                             const struct handle *h)
{
    if (!c || !snib__rules_claim_holds(c)) {
        return "the store does not have it";
    }
    if (c->token != t->token0 || h->grant.token < t->token0 ||
        h->grant.token > t->token0 + t->reserve) {
        return "the store has it with another token";
    }
    return c->until.ns < t->deadline.ns
               ? "at the store it ends before the deadline that was told"
               : NULL;
}

/* While its client says that it is held, the store has it. */
static void check_held(const struct world *w, const struct actor *a,
                       const struct handle *h)
{
    UNSEEN;
    struct snib_client *c = w->client[a->client];
    struct snib__acquisition *s =
        snib__engine_acquisition(c->engine, h->grant.ticket);
    const struct snib__claim *t = s ? s->local->claim : NULL;
    if (!t || t->holder != s || sched_now() >= t->deadline.ns) {
        return;
    }
    const char *why =
        bad_claim(claim_of(lock_of(w, judge_name(h)), t->id), t, h);
    if (why) {
        sched_fail("thread %d holds %s, and %s", judge_index(w, a),
                   judge_name(h), why);
    }
}

/* -- what is left ------------------------------------------------------------------ */

static bool has_state(const struct world *w, int client, const char *name,
                      bool waits)
{
    UNSEEN;
    struct snib__mem_lock *lock = lock_of(w, name);
    if (!lock) {
        return false;
    }
    SNIB__LIST_EACH (l, &lock->claims) {
        const struct snib__stored_claim *c =
            &SNIB__CONTAINER(l, struct snib__memory_claim, link)->c;
        bool counts = snib__rules_claim_holds(c) ||
                      (waits && (c->state == SNIB__WAITS ||
                                 c->state == SNIB__UNRESPONSIVE));
        if (counts && is_id(c->client, w->client[client]->id)) {
            return true;
        }
    }
    return false;
}

bool books_has(const struct world *w, int client, const char *name)
{
    return has_state(w, client, name, true);
}

bool books_holds(const struct world *w, int client, const char *name)
{
    return has_state(w, client, name, false);
}

int64_t books_gate(const struct world *w, const char *name)
{
    UNSEEN;
    const struct snib__mem_lock *lock = lock_of(w, name);
    return lock ? lock->params.latch : 0;
}

static bool anybody_wants(const struct world *w, int client, int name)
{
    for (int i = 0; i < w->actors; i++) {
        const struct actor *a = &w->actor[i];
        for (int k = 0; k < LETTERS && a->client == client; k++) {
            const struct handle *h = &a->handle[k];
            if (h->name == name && (h->wants || h->start.open || h->drop.open ||
                                    h->count || a->waits_for == h)) {
                return true;
            }
        }
    }
    return false;
}

/* What was answered late, or handed to a client that is not driven or was
 * stopped, goes in the background. */
static void check_left(const struct world *w, const struct actor *a, int name)
{
    static const char *const names[NAMES] = {"a", "b", "s", "t"};
    if (w->pull || sched.run->warps || w->shut[a->client].closing ||
        w->name[name].blurred || anybody_wants(w, a->client, name)) {
        return;
    }
    if (books_has(w, a->client, names[name])) {
        sched_fail("thread %d: nobody of its client has or wants %s any more, "
                   "and the store has something of it",
                   judge_index(w, a), names[name]);
    }
}

void books_check(const struct world *w, const struct actor *a)
{
    if (w->redis) { /* its books are the simulator's to read */
        return;
    }
    for (int i = 0; i < w->actors; i++) {
        const struct actor *b = &w->actor[i];
        for (int k = 0; k < LETTERS; k++) {
            const struct handle *h = &b->handle[k];
            if (h->lock && h->count && !w->name[h->name].forces &&
                !w->shut[b->client].stopping) {
                check_held(w, b, h);
            }
        }
    }
    for (int name = 0; name < NAMES; name++) {
        if (w->name[name].used) {
            check_left(w, a, name);
        }
    }
}

/* -- what clients say of themselves ------------------------------------------------ */

static void say_client(const struct world *w, int client)
{
    UNSEEN;
    const struct snib_client *c = w->client[client];
    struct snib__counts n;
    struct snib__store_state store;
    memset(&n, 0, sizeof n);
    snib__engine_counts(c->engine, &n);
    snib__engine_store_state(c->engine, (snib_instant){sched_now()}, &store);
    sched_say("client %d: %u %u, seats %u %u %u %u, turns %u %u, asked %u",
              client, n.local_locks, n.own_claims, n.acquisitions, n.waiting,
              n.held, n.leaving, n.claims, n.requests, (unsigned)n.acquires);
    sched_say("%u passes, %u yields, %u renewals, due %lld, store %d %d %s",
              (unsigned)n.passes, (unsigned)n.yields, (unsigned)n.renewals,
              (long long)snib__engine_due(c->engine).ns, store.reachable,
              store.err, store.text);
    sched_say("keeper %d %d, worker %d, odd %u, event %d, armed %lld, %d%d%d",
              c->background.on,
              c->calls.roles.sock[SNIB__NOTIFIER_SOCKET].reader, c->worker.on,
              c->calls.condition_waits, c->ops.set, (long long)c->loop.armed.ns,
              c->closed, c->stopped, c->ended);
}

void books_say(const struct world *w)
{
    for (int c = 0; c < CLIENTS; c++) {
        if (w->client[c]) {
            say_client(w, c);
        }
    }
}

static void say_lines(const struct snib_client *c, int client)
{
    UNSEEN;
    for (uint32_t i = 0; i < c->sock.count; i++) {
        const struct snib__socket *l = c->sock.v[i];
        const struct snib__conn *conn = l->conn;
        if (l->fd >= 0) {
            sched_say("line %d.%u: state %d, reader %d, %s", client, i,
                      l->state, c->calls.roles.sock[i].reader,
                      l->asleep ? "polled" : "awake");
            sched_say("   %zu to send, %u awaited, armed %x",
                      conn ? snib__buf_size(&conn->out) : 0,
                      conn ? conn->awaited : 0, l->armed);
        }
    }
}

void books_say_lines(const struct world *w)
{
    for (int c = 0; c < CLIENTS; c++) {
        if (w->client[c]) {
            say_client(w, c);
            say_lines(w->client[c], c);
        }
    }
}

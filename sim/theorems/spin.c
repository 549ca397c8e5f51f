/* Callers that spin (?wait=spin, or an option of a lock).
 *
 * At the server, after every step: a client that only spins never has a
 * position in the queue (except a reader that wants to write, so that a second
 * one sees it and is refused). The pause between two of its requests, as they
 * are executed, is that of the manual: 10 ms, doubling to 500 ms, half to one
 * and a half of that, or until the first holder's lease ends. (order.c checks
 * that a spinning request never overtakes one that stands in the queue, not
 * even one of its own client.)
 *
 * In time, checked now and then while nothing is broken or after healing: a
 * lock that nobody holds, and for which nobody queues, is taken by a spinning
 * caller within the longest pause and a round trip. And a caller that asked to
 * queue does queue, although others of its client spin. */
#include <string.h>

#include "core/engine_i.h"
#include "sim/world.h"

enum { FIRST_MS = 10, MOST_MS = 500, EARLY_MS = 10, SETTLED_MS = 7000 };
enum {
    FREE_MAX_MS = 860, /* checked each 100 ms */
    UNQUEUED_MAX_MS = 2500,
    STAYS_MAX_MS = 150
};

static int64_t slack(const struct sim_world *w)
{
    return 128 * w->opt.latency_us * 1000 + 5 * SIM_MS;
}

static bool only_spins(const struct sim_world *w, const char *id)
{
    int c = sim_client_of(w, id);
    return c >= 0 && w->client[c].spins == SIM_SPINS_ALWAYS;
}

static struct sim_spinning *spinning(struct sim_world *w, const char *id)
{
    for (int i = 0; i < SIM_SPINNING; i++) {
        if (sim_same(w->spinning[i].id, id)) {
            return &w->spinning[i];
        }
    }
    return NULL;
}

/* Check the pause since the last vain request, by the number of requests and
 * the holder's lease that they were told. */
static void check_pause(struct sim_world *w, int name,
                        const struct sim_spinning *x)
{
    int64_t base = FIRST_MS;
    for (int i = 1; i < x->asks && base < MOST_MS; i++) {
        base *= 2;
    }
    base = base < MOST_MS ? base : MOST_MS;
    int64_t least = base / 2, most = base * 3 / 2;
    if (x->left > 0 && x->left + EARLY_MS < most) {
        most = x->left + EARLY_MS;
        least = least < most ? least : most;
    }
    int64_t gap = w->t - x->at;
    int64_t hops = 2 * w->opt.latency_us * 1000;
    if (gap < least * SIM_MS / 100 * 99 + hops) {
        sim_fail(w, "who spins keeps its pauses",
                 "name %d: %.8s asks again after %lld us, its ask number %d",
                 name, x->id, (long long)gap / 1000, x->asks + 1);
    } else if (gap > most * SIM_MS / 100 * 101 + slack(w)) {
        sim_fail(w, "who spins keeps its pauses",
                 "name %d: %.8s asks only after %lld ms, its ask number %d",
                 name, x->id, (long long)(gap / SIM_MS), x->asks + 1);
    }
}

static void asked(struct sim_world *w, const struct sim_step *s)
{
    const char *id = s->by->request;
    struct sim_spinning *x = spinning(w, id);
    /* The pauses cannot be checked where a lost request is repeated at once, or
     * where a limit that passes while other owners of that client wait lets
     * them begin anew. */
    if (w->opt.fault_count || w->opt.latency_us > 2000 ||
        (w->opt.timed_pct && w->opt.owners > 1)) {
        return;
    }
    if (x) {
        check_pause(w, s->name, x);
    }
    if (s->by->said != SIM_SAID_HELD) {
        if (x) {
            *x = (struct sim_spinning){0};
        }
        return;
    }
    if (!x) {
        x = &w->spinning[w->spinning_count++ % SIM_SPINNING];
        *x = (struct sim_spinning){0};
        memcpy(x->id, id, SIM_ID);
    }
    x->left = s->by->left_ms;
    x->at = w->t;
    x->asks++;
}

void theorem_spin_step(struct sim_world *w, const struct sim_step *s)
{
    if (!sim_spin(w)) {
        return;
    }
    if (s->is->holders) {
        w->spin_free_since[s->name] = 0;
    }
    for (int i = 0; i < s->is->waiters; i++) {
        const struct sim_waiter *x = &s->is->waiter[i];
        if (only_spins(w, x->client) && !x->upgrade_of[0]) {
            sim_fail(w, "who spins does not queue",
                     "name %d: %.8s has a place in the queue", s->name, x->id);
        }
    }
    if (s->by->deed == SIM_DID_ACQUIRE && only_spins(w, s->by->client)) {
        asked(w, s);
    }
}

/* A position that was given up is not left in the queue, where it keeps others
 * out. */
static void look_at_upgrades(struct sim_world *w, int name,
                             const struct sim_book *b)
{
    bool stays = false;
    for (int i = 0; i < b->waiters; i++) {
        const struct sim_waiter *x = &b->waiter[i];
        int client = sim_client_of(w, x->client);
        bool wanted = !x->queued || x->alive <= b->now || client < 0;
        for (int k = 0; !wanted && k < w->opt.owners; k++) {
            char id[33] = "";
            const struct sim_owner *l = &w->client[client].owner[k];
            if (l->state == SIM_OWNER_NESTING && l->name == name) {
                sim_acquisition_id(l->more, id);
            }
            wanted = sim_same(id, x->id);
        }
        stays |= !wanted && only_spins(w, x->client);
    }
    if (!stays || w->p1_off) { /* a replica may bring it back */
        w->spin_left_since[name] = 0;
    } else if (!w->spin_left_since[name]) {
        w->spin_left_since[name] = w->t;
    } else if (w->t - w->spin_left_since[name] >
               STAYS_MAX_MS * SIM_MS + slack(w)) {
        sim_fail(w, "who spins does not queue",
                 "name %d: a place that nobody wants stays for %d ms", name,
                 STAYS_MAX_MS);
    }
}

/* -- in time --------------------------------------------------------------- */

/* Does an owner wait here because its client has business at that name? */
static bool busy_here(const struct sim_world *w, int client, int name,
                      const struct sim_owner *l)
{
    const struct snib__claim *t = l->acq->local->claim;
    for (int i = 0; i < w->opt.owners; i++) {
        const struct sim_owner *x = &w->client[client].owner[i];
        if (x->name == name &&
            (x->state == SIM_OWNER_HOLDING || x->state == SIM_OWNER_NESTING ||
             x->state == SIM_OWNER_ENDING)) {
            return true;
        }
    }
    return !t || t->state == SNIB__CLAIM_LEAVING;
}

static void look_at_free(struct sim_world *w, int client, int owner,
                         const struct sim_book *b)
{
    const struct sim_owner *l = &w->client[client].owner[owner];
    int64_t since = w->spin_free_since[l->name];
    since = since > l->asked_at ? since : l->asked_at;
    since = since > l->behind ? since : l->behind;
    if (!w->client[client].spins || !l->spins || !w->spin_free_since[l->name] ||
        (w->opt.flavour == SIM_PERMITS && b->size < w->opt.size)) {
        return;
    }
    if (w->t - since > FREE_MAX_MS * SIM_MS + slack(w)) {
        sim_fail(w, "who spins gets a free lock",
                 "name %d: client %d owner %d waits for %lld ms beside it",
                 l->name, client, owner, (long long)((w->t - since) / SIM_MS));
    }
}

static void look_at_place(struct sim_world *w, int client, int owner,
                          const struct sim_book *b)
{
    struct sim_owner *l = &w->client[client].owner[owner];
    char id[33];
    sim_acquisition_id(l->acq, id);
    bool held = false;
    for (int i = 0; i < b->holders; i++) {
        held |= sim_live(&b->holder[i], b->now) &&
                !sim_same(b->holder[i].client, w->client[client].hex);
    }
    const struct sim_waiter *x = sim_waiter_of(b, id);
    if (l->spins || !held || (x && x->queued) || sim_holder_of(b, id)) {
        l->unqueued_since = 0;
    } else if (!l->unqueued_since) {
        l->unqueued_since = w->t;
    } else if (w->t - l->unqueued_since > UNQUEUED_MAX_MS * SIM_MS) {
        sim_fail(w, "who queues has a place",
                 "name %d: client %d owner %d waits for %lld ms without one",
                 l->name, client, owner,
                 (long long)((w->t - l->unqueued_since) / SIM_MS));
    }
}

static void look_at_name(struct sim_world *w, int name)
{
    static _Thread_local struct sim_book b;
    int live = 0;
    sim_book_read(w, name, &b);
    for (int i = 0; i < b.holders; i++) {
        live += sim_live(&b.holder[i], b.now);
    }
    if (live || b.waiters || b.gate > 0) {
        w->spin_free_since[name] = 0;
    } else if (!w->spin_free_since[name]) {
        w->spin_free_since[name] = w->t;
    }
    look_at_upgrades(w, name, &b);
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        int client = i / w->opt.owners, owner = i % w->opt.owners;
        struct sim_owner *l = &w->client[client].owner[owner];
        if (l->name != name || !sim_still_waits(l)) {
            continue;
        }
        if (l->is_try || busy_here(w, client, name, l)) {
            l->unqueued_since = 0;
            l->behind = w->t;
            continue;
        }
        look_at_free(w, client, owner, &b);
        look_at_place(w, client, owner, &b);
    }
}

void theorem_spin(struct sim_world *w)
{
    bool settled = w->faults == 0 ||
                   (w->healed && w->t > w->healed_at + SETTLED_MS * SIM_MS);
    if (!sim_spin(w) || w->opt.latency_us > 2000) {
        return;
    }
    for (int n = 0; n < w->opt.names; n++) {
        if (settled) {
            look_at_name(w, n);
        } else {
            w->spin_free_since[n] = w->spin_left_since[n] = 0;
        }
    }
}

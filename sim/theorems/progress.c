/* No lost wake-up, and every call ends (P6, P8). Checked now and then; the
 * first two only once the world is healed, and for plain mutexes (wakeup.c and
 * quorum.c check other worlds).
 *
 * No waiter sleeps beside a free lock: the longest time that a name is free at
 * the server although somebody waits for it is the alive window, a push lease
 * and a poll (3 + 3 + 1 s; at etcd the first two end later, by what is rounded up
 * to whole seconds, and by the half a second that it takes to end a lease).
 *
 * No ghost: a grant at the server that nobody here has or is giving back ends
 * as fast. Excused: somebody has died, or a clock was set back (leases at the
 * server are longer then).
 *
 * A call with a limit returns by it, whoever is slow. If the store was asked to
 * end the request, the call may return a fifth of the patience for an answer
 * later (a twentieth where the store had answered it before). Excused: a caller
 * that is not running. */
#include "core/engine.h"
#include "sim/world.h"

enum { FREE_MAX_MS = 7500, LIMIT_SLACK_MS = 5 };

void theorem_no_waiter_beside_a_free_lock(struct sim_world *w)
{
    if (sim_kinds(w) || sim_quorum(w)) { /* wakeup.c and quorum.c check those */
        return;
    }
    int64_t most_ms = FREE_MAX_MS + sim_longer_ms(w);
    for (int n = 0; n < w->opt.names; n++) {
        struct sim_resource *r = &w->resource[n];
        bool waiting = false, held = sim_held(w, n), mine = false;
        for (int c = 0; c < w->opt.clients; c++) {
            for (int i = 0; i < w->opt.owners; i++) {
                const struct sim_owner *l = &w->client[c].owner[i];
                bool here = l->name == n && w->client[c].paused_until <= w->t;
                waiting |= here && sim_still_waits(l);
                mine |= l->name == n && (l->state == SIM_OWNER_HOLDING ||
                                         l->state == SIM_OWNER_ENDING);
            }
        }
        if (!w->healed || !waiting || mine || !held || w->died || w->p2_off) {
            r->ghost_since = -1;
        } else if (r->ghost_since < 0) {
            r->ghost_since = w->t;
        } else if (w->t - r->ghost_since > most_ms * SIM_MS) {
            sim_fail(w, "no ghost", "name %d: held by nobody for %lld ms", n,
                     (long long)most_ms);
        }
        if (!w->healed || !waiting || held || mine) {
            r->free_since = -1;
        } else if (r->free_since < 0) {
            r->free_since = w->t;
        } else if (w->t - r->free_since > most_ms * SIM_MS) {
            sim_fail(w, "no lost wake-up",
                     "name %d: free for %lld ms beside a waiter", n,
                     (long long)most_ms);
        }
    }
}

void theorem_call_ends_by_its_limit(struct sim_world *w)
{
    int64_t slack_ms = LIMIT_SLACK_MS + w->opt.request_ms / SNIB__UNSURE_PART;
    for (int c = 0; c < w->opt.clients; c++) {
        if (w->client[c].paused_until >= w->t) {
            continue;
        }
        for (int i = 0; i < w->opt.owners; i++) {
            const struct sim_owner *l = &w->client[c].owner[i];
            /* clocks of clients run up to 0.2 % slow */
            if ((l->state == SIM_OWNER_WAITING ||
                 l->state == SIM_OWNER_NESTING) &&
                l->limit_at &&
                w->t > l->limit_at + (l->limit_at - l->asked_at) / 100 +
                           slack_ms * SIM_MS) {
                sim_fail(w, "ends by its limit",
                         "client %d owner %d waits past its limit", c, i);
            }
        }
    }
}

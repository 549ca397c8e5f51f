/* A waiter is served as soon as messages can travel (P6). From the step that
 * frees a name to the step that gives it to the next waiter there is no poll,
 * no back-off and no time-out.
 *
 * Checked after every step on a name, in worlds without faults, spinning
 * callers, lock-delays or fixed leases (those may run out, which runs no
 * step). The bound is some fifteen of the slowest hops: connecting, the
 * subscription, and the request sent again with leave to queue. */
#include "sim/world.h"

void theorem_served_promptly(struct sim_world *w, int name, bool held)
{
    struct sim_resource *r = &w->resource[name];
    const struct sim_options *o = &w->opt;
    if (o->fault_count || o->fixed_pct || sim_spin(w) || o->flavour > SIM_RW ||
        o->delay_ms || sim_lease_least(o) * 1000 <= 100 * o->latency_us) {
        return;
    }
    if (!held) {
        r->freed_at = r->freed_at ? r->freed_at : w->t;
        return;
    }
    int64_t since = w->t;
    for (int i = 0; r->freed_at && i < o->clients * o->owners; i++) {
        const struct sim_owner *l =
            &w->client[i / o->owners].owner[i % o->owners];
        bool inside = l->nest.asks && !l->nest.upgrade;
        if ((sim_still_waits(l) || inside) && sim_wants(l) == name &&
            !l->is_try && !sim_forced_here(w, i / o->owners, name)) {
            since = l->asked_at < since ? l->asked_at : since;
        }
    }
    since = since > r->freed_at ? since : r->freed_at;
    r->freed_at = 0;
    if (w->t - since > 250 * o->latency_us * 1000 + 50 * SIM_MS) {
        sim_fail(w, "no needless wait",
                 "name %d: free for %lld ms beside a waiter", name,
                 (long long)((w->t - since) / SIM_MS));
    }
}

/* A semaphore's size bounds what is given. At the server, after every step:
 * it leaves no new grant of permits behind with more in use than the size at
 * that moment. A size that falls takes nothing away.
 *
 * At the clients, after every event: the permits of all owners that see `held`
 * with their own deadline ahead are never more than the largest size since one
 * of them asked. (When the last of their grants was given all the others stood,
 * so they were within the size then.) Excused: grants that were force-released,
 * and all once the store has lost what it acknowledged, but for worlds of recovery:
 * there nobody is let in while those may go on. (The size may be forgotten.) */
#include "sim/world.h"

void theorem_permits_fit(struct sim_world *w, const struct sim_step *s)
{
    const struct sim_book *b = s->is;
    int64_t used = 0;
    bool given = false;
    for (int i = 0; i < b->holders; i++) {
        const struct sim_holder *h = &b->holder[i];
        if (h->mode == 3 && sim_live(h, b->now)) {
            used += h->permits;
            given |= sim_is_new(s, h);
        }
    }
    if (given && used > b->size) {
        sim_fail(w, "permits fit", "name %d: %lld of %lld in use after a grant",
                 s->name, (long long)used, (long long)b->size);
    }
}

/* Of sizes that a server has forgotten, or an older primary has, no step tells. */
static void look_at_sizes(struct sim_world *w)
{
    for (int i = 0; sim_recovery(w) && i < 2 * w->opt.names; i++) {
        sim_grow(w, sim_redis_size(w, i % 2, i / 2));
    }
}

void theorem_permits_held(struct sim_world *w)
{
    int64_t used[SIM_NAMES] = {0}, most[SIM_NAMES] = {0};
    if (w->opt.flavour != SIM_PERMITS || (w->p1_off && !sim_recovery(w))) {
        return;
    }
    look_at_sizes(w);
    for (int i = 0; i < w->opt.clients * w->opt.owners; i++) {
        const struct sim_client *c = &w->client[i / w->opt.owners];
        const struct sim_owner *l = &c->owner[i % w->opt.owners];
        struct sim_grant g[SIM_GRANTS];
        int grants = l->forced ? 0 : sim_grants(l, g);
        for (int k = 0; k < grants; k++) {
            int64_t *max = &most[g[k].name];
            struct snib_status st;
            snib__engine_status(c->engine, (snib_instant){sim_local(c, w->t)},
                                g[k].acq, &st);
            if (st.state == SNIB_STATE_HELD || st.state == SNIB_STATE_AT_RISK) {
                used[g[k].name] += st.permits;
                *max = *max > l->size_seen ? *max : l->size_seen;
            }
        }
    }
    for (int n = 0; n < w->opt.names; n++) {
        if (used[n] > most[n]) {
            sim_fail(w, "permits held", "name %d: %lld held of at most %lld", n,
                     (long long)used[n], (long long)most[n]);
        }
    }
}
